"""Cells of the probabilities of all classes: sums by passes over the rows."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from skcalib._arrays.passes import sum_rows
from skcalib._arrays.selection import take_rows
from skcalib._arrays.source import Source, as_source
from skcalib._arrays.types import Float64Array, FloatArray, Intp
from skcalib.metrics._interval.label_sets import LabelSets, Truth, every_of


class ClassCells:
    """Cells ``(problems, cells)`` of the probabilities of all classes.

    Parameters
    ----------
    place : ndarray of shape (n, K)
        ``j * (cells + 1) + c`` for cell c of problem j; cell `cells` is left out.
    P : Source of shape (n, K)
    w : ndarray of shape (n,)
    shape : tuple of int
        Number of problems and of cells.

    Attributes
    ----------
    part : ClassCells or None
        Those of the rows for which labels are drawn; None if they are all.
    """

    def __init__(
        self, place: NDArray[np.integer], P: Source, w: Float64Array, shape: tuple[int, int]
    ) -> None:
        self.place, self.P, self.w = place, P, w
        self.shape = shape
        every = every_of(len(place))
        self.part = None
        if every > 1:
            self.part = ClassCells(np.ascontiguousarray(place[::every]), P, w[::every], shape)

    def sums(self) -> tuple[Float64Array, Float64Array]:
        """Return the weight and the weighted sum of the scores of each cell."""
        every_row = np.arange(self.w.size)
        return self._sums(self.P, every_row, 1, np.ones_like), self._sums(self.P, every_row, 1)

    def expected(self, truth: Truth) -> Float64Array:
        """Return the expected weight of the hits ``(problems, cells)``."""
        q, every_row = as_source(truth.q), np.arange(self.w.size)
        return truth.once(self, lambda: self._sums(q, every_row, 1))

    def hits(self, labels: LabelSets, sets: slice) -> Float64Array:
        """Return the weight of the hits ``(R, problems, cells)``."""
        problems, cells = self.shape
        codes = labels.codes[sets]
        # One index into the flat table takes a tenth of the time of a pair of them.
        place = self.place.ravel()
        first = np.arange(0, place.size, self.place.shape[1])
        H = np.empty((len(codes), problems * (cells + 1)))
        for row, code in zip(H, codes, strict=True):
            row[:] = np.bincount(place.take(first + code), self.w, row.size)
        return H.reshape(-1, problems, cells + 1)[..., :cells]

    def sums_by_group(
        self, group: Intp, n_groups: int, step: int
    ) -> tuple[Float64Array, Float64Array]:
        """Return the sums ``(n_groups, problems, cells)``, with `step` cells joined."""
        rows = [np.flatnonzero(group == g) for g in range(n_groups)]
        W = np.stack([self._sums(self.P, own, step, np.ones_like) for own in rows])
        return W, np.stack([self._sums(self.P, own, step) for own in rows])

    def expected_by_group(
        self, truth: Truth, group: Intp, n_groups: int, step: int
    ) -> Float64Array:
        """Return the expected hits ``(n_groups, problems, cells)``."""
        q = as_source(truth.q)
        rows = (np.flatnonzero(group == g) for g in range(n_groups))
        return np.stack([self._sums(q, own, step) for own in rows])

    def _sums(
        self,
        amounts: Source,
        rows: Intp,
        step: int,
        change: Callable[[FloatArray], FloatArray] | None = None,
    ) -> Float64Array:
        problems, cells = self.shape
        joined = -(-cells // step)
        kernel = partial(sum_places, shape=(problems, cells + 1, joined + 1), change=change)
        place, w = self.place, self.w
        if rows.size < w.size:
            amounts, place, w = take_rows(amounts, rows), place[rows], w[rows]
        sums = sum_rows(kernel, amounts, place, w)
        return np.asarray(sums.reshape(problems, joined + 1)[:, :joined])


def sum_places(
    block: FloatArray,
    place: NDArray[np.integer],
    w: Float64Array,
    shape: tuple[int, int, int],
    change: Callable[[FloatArray], FloatArray] | None,
) -> Float64Array:
    """Return the sums over a block by problem and joined cell, flat."""
    problems, cells, joined = shape
    at = place.ravel()
    amount = block if change is None else change(block)
    if joined < cells:
        j, c = np.divmod(at.astype(np.intp), cells)
        at = j * joined + c * (joined - 1) // (cells - 1)
    weights = (w[:, None] * amount).ravel()
    return np.asarray(np.bincount(at, weights, problems * joined), dtype=np.float64)
