r"""Proper losses of scaled logits, summed over row blocks.

With weights normalised to :math:`\sum_i w_i = 1` and :math:`q_i = \mathrm{softmax}(\beta z_i)`,

.. math:: \mathrm{NLL} = -\sum_i w_i \log q_{i y_i}, \qquad
          \mathrm{Brier} = \sum_i w_i \sum_k (q_{ik} - 1[y_i = k])^2,

value, first and second derivative in :math:`\beta`. Larger problems are read in
blocks, without an array of the size of the scores.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from typing import NamedTuple, TypeVar

import numpy as np

from skcalib._arrays.blocks import row_blocks
from skcalib._arrays.rowwise import block_order, entries_at, row_max, row_sums
from skcalib._arrays.threads import map_blocks
from skcalib._arrays.types import Float64Array, Intp
from skcalib._scores.scores import Scores

T = TypeVar("T")

# exp(-300) is far below the rounding of 1, and its square is not subnormal (subnormals are slow).
LEAST = -300.0
# Up to this many entries, shifted logits are cached (16 MiB); else each pass computes them again.
CACHED_ENTRIES = 1 << 21

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


class ShiftedLogits:
    """Logits minus their row maximum, ``U = Z - max Z <= 0``, read block by block.

    The softmax of ``beta U`` needs no further shift.

    Parameters
    ----------
    scores : Scores of shape (n, K)
    code : ndarray of shape (n,)
    w : ndarray of shape (n,)
        Positive weights.

    Attributes
    ----------
    share : ndarray of shape (n,)
        Weights that sum to 1.
    true : ndarray of shape (n,)
        ``U`` at the true class.
    mean_true_gap : float
        Mean of ``-true``: 0 if and only if the true class of each row has the largest logit.
    mean_gap : float
        Mean over rows and classes of ``-U``: the expected ``-true`` under uniform probabilities.
    """

    def __init__(self, scores: Scores, code: Intp, w: Float64Array) -> None:
        n, n_classes = scores.shape
        self.scores = scores
        self._cached: Float64Array | None = None
        if n * n_classes <= CACHED_ENTRIES:
            self._cached = np.empty((n, n_classes), order=block_order(n_classes))
        self._top = np.empty(n)
        self.true = np.empty(n)
        self._row_sums = np.empty(n)

        def read(rows: slice) -> float:
            U = scores.logits(rows)
            self._top[rows] = row_max(U)
            U -= self._top[rows, None]
            entries, at_true = entries_at(U, code[rows])
            self.true[rows] = entries[at_true]
            self._row_sums[rows] = row_sums(U)
            if self._cached is not None:
                self._cached[rows] = U
            return float(U.min())

        self._lowest = min(map_blocks(read, row_blocks(n, n_classes)))
        self._weigh(w)

    def _weigh(self, w: Float64Array) -> None:
        self.share = w / w.sum()
        self.mean_true_gap = -weighted_sum(self.share, self.true)
        self.mean_gap = -weighted_sum(self.share, self._row_sums) / self.scores.shape[1]

    def subsample(self, n_rows: int) -> ShiftedLogits:
        """Return `n_rows` to twice as many evenly spaced rows, or self if there are fewer."""
        step = self.share.size // n_rows
        if step < 2:
            return self
        few = copy(self)
        few.scores = self.scores.subsample(step)
        few._cached = None if self._cached is None else self._cached[::step].copy(order="K")
        few._top, few._row_sums = self._top[::step], self._row_sums[::step]
        few.true = self.true[::step]
        few._weigh(self.share[::step])
        return few

    def map_blocks(self, function: Callable[[slice, Float64Array], T]) -> Iterator[T]:
        """Yield ``function(rows, U of these rows)`` in order; blocks must not be modified."""

        def of_rows(rows: slice) -> T:
            if self._cached is not None:
                return function(rows, self._cached[rows])
            U = self.scores.logits(rows)
            U -= self._top[rows, None]
            return function(rows, U)

        return map_blocks(of_rows, row_blocks(*self.scores.shape))

    def exponentials(self, U: Float64Array, beta: float) -> Float64Array:
        """Return ``exp(beta U)``, bounded from below to avoid subnormal numbers."""
        Q = beta * U
        if beta * self._lowest < LEAST:
            np.maximum(Q, LEAST, out=Q)
        return np.exp(Q, out=Q)

    def total(self, function: Callable[[slice, Float64Array], Derivatives]) -> Derivatives:
        """Return the sum of ``function(rows, U of these rows)``."""
        return Derivatives(*np.sum(list(self.map_blocks(function)), axis=0).tolist())


def nll_of_scale(shifted: ShiftedLogits, beta: float) -> Derivatives:
    """NLL of ``softmax(beta * Z)`` and its derivatives in `beta`; convex."""

    def of_rows(rows: slice, U: Float64Array) -> Derivatives:
        share, true = shifted.share[rows], shifted.true[rows]
        Q = shifted.exponentials(U, beta)
        total = row_sums(Q)
        Q *= U
        mean = row_sums(Q) / total
        square = np.einsum("ij,ij->i", Q, U) / total
        return Derivatives(
            weighted_sum(share, np.log(total) - beta * true),
            weighted_sum(share, mean - true),
            weighted_sum(share, square - mean * mean),
        )

    return shifted.total(of_rows)


def brier_value(shifted: ShiftedLogits, beta: float) -> float:
    """Brier score of ``softmax(beta * Z)``, in a third of the time of its derivatives."""

    def of_rows(rows: slice, U: Float64Array) -> float:
        q_true = np.exp(beta * shifted.true[rows])
        Q = shifted.exponentials(U, beta)
        total = row_sums(Q)
        q_true /= total
        norm = np.einsum("ij,ij->i", Q, Q) / total**2
        return weighted_sum(shifted.share[rows], norm - 2 * q_true + 1)

    return sum(shifted.map_blocks(of_rows))


def brier_of_scale(shifted: ShiftedLogits, beta: float) -> Derivatives:
    """Brier score of ``softmax(beta * Z)`` and its derivatives in `beta`; not convex."""

    def of_rows(rows: slice, U: Float64Array) -> Derivatives:
        share, true = shifted.share[rows], shifted.true[rows]
        Q = shifted.exponentials(U, beta)
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
            weighted_sum(
                share, 4 * curve - 2 * variance * norm - 2 * q_true * (true**2 - variance)
            ),
        )

    return shifted.total(of_rows)
