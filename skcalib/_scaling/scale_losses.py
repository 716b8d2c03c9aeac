r"""Proper losses of scaled logits, summed over row blocks.

With weights normalised to :math:`\sum_i w_i = 1` and :math:`q_i = \mathrm{softmax}(\beta z_i)`,

.. math:: \mathrm{NLL} = -\sum_i w_i \log q_{i y_i}, \qquad
          \mathrm{Brier} = \sum_i w_i \sum_k (q_{ik} - 1[y_i = k])^2,

value, first and second derivative in :math:`\beta`. Larger problems are read in
blocks, without an array of the size of the scores.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from skcalib._arrays.passes import CACHED_ENTRIES, map_rows, sum_rows
from skcalib._arrays.rowwise import block_order, minus, row_sums
from skcalib._arrays.selection import take_rows
from skcalib._arrays.source import ArraySource, Source
from skcalib._arrays.tensors import rows_of
from skcalib._arrays.types import Float64Array, Intp, Rows
from skcalib._scaling.root import LOG_TOLERANCE
from skcalib._scores.scores import Scores
from skcalib._scores.softmax import ABSENT

# Tolerance of log beta where exponentials are of float32: their sums have errors of 1e-8.
FLOAT32_TOLERANCE = 1e-7
# Most entries of a sample of rows, and the least number of its rows, which goes first.
SAMPLE_ENTRIES, LEAST_SAMPLE = 1 << 26, 200


class Derivatives(NamedTuple):
    """An objective of one parameter: value, first and second derivative."""

    value: float
    first: float
    second: float


def sums_of_gaps(U: Float64Array, lowest: float) -> Float64Array:
    """Return row sums of U; a class that was not offered has the mean of those that were."""
    if lowest > ABSENT / 2:
        return rows_of(U).row_sums(U)
    offered = ABSENT / 2 < U
    return row_sums(np.where(offered, U, 0.0)) * (U.shape[1] / offered.sum(axis=1))


def lowest_of(U: Float64Array) -> float:
    """Return the smallest entry of a block; 0.0 on a device, which would have to be waited for.

    There, subnormal numbers are not slow, and options are not computed.
    """
    return float(U.min()) if np.isfinite(rows_of(U).LEAST) else 0.0


def shift_of_block(Z: Float64Array, code: Intp, keep: bool) -> tuple[Any, ...]:
    """Return largest logits, U at the true class, row sums of U, with `keep` U, and its minimum."""
    r = rows_of(Z)
    top = r.row_max(Z)
    U = r.minus(Z, top)
    lowest = lowest_of(U)
    sums = top, r.at(U, code), sums_of_gaps(U, lowest)
    return (*sums, U, lowest) if keep else (*sums, lowest)


def minus_top(logits: Source, top: Float64Array, rows: Rows) -> Float64Array:
    """Return rows of ``U``; the logits of the block are not kept beside it."""
    return minus(logits.read(rows), top[rows])


def of_shifted(Z: Float64Array, top: Float64Array | None, *per_row: Any, kernel: Any) -> Any:
    """Return what a kernel makes of ``U = Z - top``; without `top`, Z is U."""
    return kernel(Z if top is None else rows_of(Z).minus(Z, top), *per_row)


def exponentials(U: Float64Array, beta: float, lowest: float) -> Float64Array:
    """Return ``exp(beta U)``, bounded from below to avoid subnormal numbers."""
    r = rows_of(U)
    Q = beta * U
    if beta * lowest < r.LEAST:
        r.at_least_(Q, r.LEAST)
    return r.exp_(Q)


def nll_of_block(
    U: Float64Array, share: Float64Array, true: Float64Array, beta: float, lowest: float
) -> Derivatives:
    """Return the NLL of a block and its derivatives in `beta`."""
    r = rows_of(U)
    Q = exponentials(U, beta, lowest)
    total = r.row_sums(Q)
    Q *= U
    mean = r.row_sums(Q) / total
    square = r.row_dots(Q, U) / total
    return Derivatives(
        r.weighted_sum(share, r.log(total) - beta * true),
        r.weighted_sum(share, mean - true),
        r.weighted_sum(share, square - mean * mean),
    )


def brier_value_of_block(
    U: Float64Array, share: Float64Array, true: Float64Array, beta: float, lowest: float
) -> float:
    """Return the Brier score of a block."""
    r = rows_of(U)
    Q = exponentials(U, beta, lowest)
    total = r.row_sums(Q)
    q_true = r.exp(beta * true) / total
    norm = r.row_dots(Q, Q) / total**2
    return r.weighted_sum(share, norm - 2 * q_true + 1)


def brier_of_block(
    U: Float64Array, share: Float64Array, true: Float64Array, beta: float, lowest: float
) -> Derivatives:
    """Return the Brier score of a block and its derivatives in `beta`."""
    r = rows_of(U)
    Q = exponentials(U, beta, lowest)
    total = r.row_sums(Q)
    q_true = r.exp(beta * true) / total
    r.divide_rows_(Q, total)
    mean = r.row_dots(Q, U)
    V = r.minus(U, mean)
    true = true - mean
    norm = r.row_dots(Q, Q)
    dQ = Q * V
    slope = r.row_dots(Q, dQ)
    curve = r.row_dots(dQ, dQ)
    variance = r.row_dots(dQ, V)
    return Derivatives(
        r.weighted_sum(share, norm - 2 * q_true + 1),
        r.weighted_sum(share, 2 * slope - 2 * q_true * true),
        r.weighted_sum(share, 4 * curve - 2 * variance * norm - 2 * q_true * (true**2 - variance)),
    )


class ShiftedLogits:
    """Logits minus their row maximum, ``U = Z - max Z <= 0``, whose softmax needs no further shift.

    Parameters
    ----------
    scores : Scores of shape (n, K)
    code : ndarray of shape (n,)
    w : ndarray of shape (n,)
        Positive weights.

    Attributes
    ----------
    source : Source of shape (n, K)
        ``U``; on a device, and of a Dask array, the logits.
    top : ndarray of shape (n,) or None
        The largest logit of each row; None if the source has ``U``.
    share : ndarray of shape (n,)
        Weights that sum to 1.
    true : ndarray of shape (n,)
        ``U`` at the true class.
    mean_true_gap : float
        Mean of ``-true``: 0 if and only if the true class of each row has the largest logit.
    mean_gap : float
        Mean over rows, and the classes of each, of ``-U``: the expected ``-true`` under uniform
        probabilities.
    """

    tolerance = LOG_TOLERANCE

    def __init__(self, scores: Scores, code: Intp, w: Float64Array) -> None:
        n, self.n_classes = scores.shape
        self._given = scores, code
        device = scores.device_logits()
        logits = device or scores.as_logits()
        top, self.true, self._row_sums = out = [logits.empty_rows() for _ in range(3)]
        if device is not None and scores.dtype == np.float32:
            self.tolerance = FLOAT32_TOLERANCE
        self.source, self.top = logits, top
        elsewhere = device is not None or logits.remote is not None
        keep = n * self.n_classes <= CACHED_ENTRIES and not elsewhere
        if keep:
            out.append(np.empty((n, self.n_classes), order=block_order(self.n_classes)))
            self.source, self.top = ArraySource(out[-1]), None
        elif not elsewhere:
            self.source, self.top = logits.computed(partial(minus_top, logits, top)), None
        kernel = partial(shift_of_block, keep=keep)
        self._lowest = min(map_rows(kernel, logits, code, out=tuple(out)))
        self._weigh(logits.place(w))

    def _weigh(self, w: Float64Array) -> None:
        self.share, r = w / w.sum(), rows_of(w)
        self.mean_true_gap = -float(r.weighted_sum(self.share, self.true))
        self.mean_gap = -float(r.weighted_sum(self.share, self._row_sums)) / self.n_classes

    def subsample(self, n_rows: int) -> ShiftedLogits:
        """Return `n_rows` to twice as many evenly spaced rows, or self if there are fewer.

        Of remote scores, they are the rows that were kept from an earlier pass.
        """
        scores, code = self._given
        if self.source.remote is not None:
            sample, rows = scores.sample()
            return ShiftedLogits(sample, code[rows], self.share[rows])
        n_rows = min(n_rows, max(LEAST_SAMPLE, SAMPLE_ENTRIES // self.n_classes))
        n = self.source.shape[0]
        step = n // n_rows
        if step < 2:
            return self
        few = copy(self)
        if isinstance(self.source, ArraySource):
            few.source = ArraySource(self.source.array[::step].copy(order="K"))
        else:
            some = take_rows(self.source, np.arange(0, n, step))
            few.source = some.on_device() or some
        few.top = None if self.top is None else self.top[::step]
        few.true, few._row_sums = self.true[::step], self._row_sums[::step]
        few._weigh(self.share[::step])
        return few

    def nll(self, beta: float) -> Derivatives:
        """Return the NLL and its derivatives in `beta`; convex."""
        return self._sum(nll_of_block, beta)

    def brier(self, beta: float) -> Derivatives:
        """Return the Brier score and its derivatives in `beta`; not convex."""
        return self._sum(brier_of_block, beta)

    def brier_value(self, beta: float) -> float:
        """Return the Brier score, in a third of the time of its derivatives."""
        return float(self._sum(brier_value_of_block, beta))

    def _sum(self, kernel: Callable[..., Any], beta: float) -> Any:
        kernel = partial(of_shifted, kernel=partial(kernel, beta=beta, lowest=self._lowest))
        return sum_rows(kernel, self.source, self.top, self.share, self.true)
