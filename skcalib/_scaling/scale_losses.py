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
from typing import Any, NamedTuple, Protocol, Self

import numpy as np

from skcalib._arrays.passes import CACHED_ENTRIES, map_rows, sum_rows
from skcalib._arrays.rowwise import block_order, entries_at, row_max, row_sums
from skcalib._arrays.selection import Selection
from skcalib._arrays.source import ArraySource, Computed, Source
from skcalib._arrays.types import Float64Array, Intp, Rows
from skcalib._scores.scores import Scores
from skcalib._scores.softmax import ABSENT

# exp(-300) is far below the rounding of 1, and its square is not subnormal (subnormals are slow).
LEAST = -300.0

# `einsum` sums a block in the thread that computes it. A matrix product would start BLAS threads,
# whose number would determine the order of summation.


def weighted_sum(share: Float64Array, v: Float64Array) -> float:
    """Return the sum of ``share v``."""
    return float(np.einsum("i,i->", share, v))


def weighted_columns(share: Float64Array, A: Float64Array) -> Float64Array:
    """Return the sum over rows of ``share A``, ``(K,)``."""
    return np.einsum("i,ij->j", share, A)


class Derivatives(NamedTuple):
    """An objective of one parameter: value, first and second derivative."""

    value: float
    first: float
    second: float


class ScaleProblem(Protocol):
    """Losses of ``softmax(beta * Z)`` as functions of beta, wherever the logits lie."""

    n_classes: int
    mean_true_gap: float
    mean_gap: float

    def subsample(self, n_rows: int) -> Self:
        """Return `n_rows` to twice as many evenly spaced rows, or self if there are fewer."""

    def nll(self, beta: float) -> Derivatives:
        """Return the NLL and its derivatives in `beta`; convex."""

    def brier(self, beta: float) -> Derivatives:
        """Return the Brier score and its derivatives in `beta`; not convex."""

    def brier_value(self, beta: float) -> float:
        """Return the Brier score, in a third of the time of its derivatives."""


def sums_of_gaps(U: Float64Array, lowest: float) -> Float64Array:
    """Return row sums of U; a class that was not offered has the mean of those that were."""
    if lowest > ABSENT / 2:
        return row_sums(U)
    offered = ABSENT / 2 < U
    return row_sums(np.where(offered, U, 0.0)) * (U.shape[1] / offered.sum(axis=1))


def shift_of_block(Z: Float64Array, code: Intp, keep: bool) -> tuple[Any, ...]:
    """Return largest logits, U at the true class, row sums of U, with `keep` U, and its minimum."""
    top = row_max(Z)
    U = Z - top[:, None]
    entries, at_true = entries_at(U, code)
    lowest = float(U.min())
    found = top, entries[at_true], sums_of_gaps(U, lowest)
    return (*found, U, lowest) if keep else (*found, lowest)


def minus_top(logits: Source, top: Float64Array, rows: Rows) -> Float64Array:
    """Return rows of logits, a new array, minus the largest of their row."""
    return np.subtract(logits.read(rows), top[rows, None], dtype=np.float64)


def exponentials(U: Float64Array, beta: float, lowest: float) -> Float64Array:
    """Return ``exp(beta U)``, bounded from below to avoid subnormal numbers."""
    Q = beta * U
    if beta * lowest < LEAST:
        np.maximum(Q, LEAST, out=Q)
    return np.exp(Q, out=Q)


def nll_of_block(
    U: Float64Array, share: Float64Array, true: Float64Array, beta: float, lowest: float
) -> Derivatives:
    """Return the NLL of a block and its derivatives in `beta`."""
    Q = exponentials(U, beta, lowest)
    total = row_sums(Q)
    Q *= U
    mean = row_sums(Q) / total
    square = np.einsum("ij,ij->i", Q, U) / total
    return Derivatives(
        weighted_sum(share, np.log(total) - beta * true),
        weighted_sum(share, mean - true),
        weighted_sum(share, square - mean * mean),
    )


def brier_value_of_block(
    U: Float64Array, share: Float64Array, true: Float64Array, beta: float, lowest: float
) -> float:
    """Return the Brier score of a block."""
    q_true = np.exp(beta * true)
    Q = exponentials(U, beta, lowest)
    total = row_sums(Q)
    q_true /= total
    norm = np.einsum("ij,ij->i", Q, Q) / total**2
    return weighted_sum(share, norm - 2 * q_true + 1)


def brier_of_block(
    U: Float64Array, share: Float64Array, true: Float64Array, beta: float, lowest: float
) -> Derivatives:
    """Return the Brier score of a block and its derivatives in `beta`."""
    Q = exponentials(U, beta, lowest)
    total = row_sums(Q)
    q_true = np.exp(beta * true) / total
    Q /= total[:, None]
    mean = np.einsum("ij,ij->i", Q, U)
    V = U - mean[:, None]
    true = true - mean
    norm = np.einsum("ij,ij->i", Q, Q)
    dQ = Q * V
    slope = np.einsum("ij,ij->i", Q, dQ)
    curve = np.einsum("ij,ij->i", dQ, dQ)
    variance = np.einsum("ij,ij->i", dQ, V)
    return Derivatives(
        weighted_sum(share, norm - 2 * q_true + 1),
        weighted_sum(share, 2 * slope - 2 * q_true * true),
        weighted_sum(share, 4 * curve - 2 * variance * norm - 2 * q_true * (true**2 - variance)),
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
        ``U``.
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

    def __init__(self, scores: Scores, code: Intp, w: Float64Array) -> None:
        n, self.n_classes = scores.shape
        logits = scores.as_logits()
        top, self.true, self._row_sums = np.empty(n), np.empty(n), np.empty(n)
        self.source: Source = Computed(logits, partial(minus_top, logits, top))
        out = [top, self.true, self._row_sums]
        keep = n * self.n_classes <= CACHED_ENTRIES
        if keep:
            out.append(np.empty((n, self.n_classes), order=block_order(self.n_classes)))
            self.source = ArraySource(out[-1])
        kernel = partial(shift_of_block, keep=keep)
        self._lowest = min(map_rows(kernel, logits, code, out=tuple(out)))
        self._weigh(w)

    def _weigh(self, w: Float64Array) -> None:
        self.share = w / w.sum()
        self.mean_true_gap = -weighted_sum(self.share, self.true)
        self.mean_gap = -weighted_sum(self.share, self._row_sums) / self.n_classes

    def subsample(self, n_rows: int) -> Self:
        """Return `n_rows` to twice as many evenly spaced rows, or self if there are fewer."""
        step = self.share.size // n_rows
        if step < 2:
            return self
        few = copy(self)
        if isinstance(self.source, ArraySource):
            few.source = ArraySource(self.source.array[::step].copy(order="K"))
        else:
            few.source = Selection(self.source, np.arange(0, self.share.size, step))
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
        kernel = partial(kernel, beta=beta, lowest=self._lowest)
        return sum_rows(kernel, self.source, self.share, self.true)
