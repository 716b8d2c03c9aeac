"""Cells of the probabilities of all classes: sums by passes over the rows."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skcalib._arrays.passes import ROWS, sum_rows
from skcalib._arrays.source import Source, as_source
from skcalib._arrays.types import Float64Array, FloatArray, Intp
from skcalib.metrics._intervals.label_sets import LabelSets, Truth, every_of


class Groups(NamedTuple):
    """The group of each row, ``(n,)`` or None for one group, and how many cells are joined."""

    of_row: Intp | None
    number: int
    step: int


ONE_GROUP = Groups(None, 1, 1)


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
        self.first = np.arange(0, place.size, place.shape[1])
        every = every_of(len(place))
        self.part = None
        if every > 1:
            self.part = ClassCells(np.ascontiguousarray(place[::every]), P, w[::every], shape)

    def sums(self) -> tuple[Float64Array, Float64Array]:
        """Return the weight and the weighted sum of the scores of each cell."""
        return self._sums(self.P, np.ones_like)[0], self._sums(self.P)[0]

    def expected(self, truth: Truth) -> Float64Array:
        """Return the expected weight of the hits ``(problems, cells)``."""
        return truth.once(self, lambda: self._sums(as_source(truth.q))[0])

    def hits(self, labels: LabelSets, sets: slice) -> Float64Array:
        """Return the weight of the hits ``(R, problems, cells)``."""
        problems, cells = self.shape
        codes = labels.codes[sets]
        H = np.empty((len(codes), problems * (cells + 1)))
        for row, code in zip(H, codes, strict=True):
            row[:] = np.bincount(self.hit_places(code), self.w, row.size)
        return H.reshape(-1, problems, cells + 1)[..., :cells]

    def hit_places(self, code: NDArray[np.integer]) -> NDArray[np.integer]:
        """Return the place ``(..., n)`` of the hit of each row."""
        # One index into the flat table takes a tenth of the time of a pair of them.
        return self.place.ravel().take(self.first + code)

    def sums_by_group(
        self, group: Intp, n_groups: int, step: int
    ) -> tuple[Float64Array, Float64Array]:
        """Return the sums ``(n_groups, problems, cells)``, with `step` cells joined."""
        groups = Groups(group, n_groups, step)
        return self._sums(self.P, np.ones_like, groups), self._sums(self.P, None, groups)

    def expected_by_group(
        self, truth: Truth, group: Intp, n_groups: int, step: int
    ) -> Float64Array:
        """Return the expected hits ``(n_groups, problems, cells)``."""
        return self._sums(as_source(truth.q), None, Groups(group, n_groups, step))

    def _sums(
        self,
        amounts: Source,
        change: Callable[[FloatArray], FloatArray] | None = None,
        groups: Groups = ONE_GROUP,
    ) -> Float64Array:
        """Return the sums ``(groups, problems, cells)`` of amounts ``(n, K)``, changed first."""
        problems, cells = self.shape
        joined = -(-cells // groups.step)
        shape = (groups.number, problems, joined + 1)
        kernel = partial(sum_places, cells=cells + 1, shape=shape, change=change)
        # No block is smaller than the table that is made of it.
        least = math.prod(shape) // amounts.shape[1] if groups.number > 1 else 1
        work = ROWS._replace(least_rows=max(1, least))
        sums = sum_rows(kernel, amounts, self.place, self.w, groups.of_row, work=work)
        return np.asarray(sums.reshape(shape)[..., :joined])


def sum_places(
    block: FloatArray,
    place: NDArray[np.integer],
    w: Float64Array,
    group: Intp | None,
    cells: int,
    shape: tuple[int, int, int],
    change: Callable[[FloatArray], FloatArray] | None,
) -> Float64Array:
    """Return the sums over a block by group, problem and joined cell, flat."""
    n_groups, problems, joined = shape
    at = place
    amount = block if change is None else change(block)
    if joined < cells:
        j, c = np.divmod(at.astype(np.intp), cells)
        at = j * joined + c * (joined - 1) // (cells - 1)
    if group is not None:
        at = at + (group * (problems * joined))[:, None]
    weights = (w[:, None] * amount).ravel()
    return np.asarray(
        np.bincount(at.ravel(), weights, n_groups * problems * joined), dtype=np.float64
    )
