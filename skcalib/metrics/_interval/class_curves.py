"""The KS error of all classes, from the places of the hits in the order of each class's scores."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from skcalib._arrays.types import Float64Array
from skcalib.metrics._interval.cells import CellError, Close
from skcalib.metrics._interval.class_cells import ClassCells
from skcalib.metrics._interval.label_sets import Draw, LabelSets
from skcalib.metrics._interval.score_cells import running


class ClassCurveError(CellError):
    r"""The largest distance :math:`|\sum_{c' \le c} (H_{c'} - S_{c'})| / \sum_c W_c` of each class.

    From one hit of a class to its next the sum falls, so that it is largest at a hit, and smallest
    before a hit or at the end: n places are looked at, not the cells of all classes.

    Parameters
    ----------
    cells : ClassCells
        One problem for each class.
    close : callable
        The same error of tables.
    average : {"macro", None}
    """

    def __init__(self, cells: ClassCells, close: Close, average: str | None) -> None:
        super().__init__(cells, close)
        self.classes, self.average = cells, average
        problems, n_cells = cells.shape
        below = np.zeros((problems, n_cells + 1))
        np.cumsum(self.S, axis=1, out=below[:, 1:])
        self.below, self.ends = below.ravel(), below[:, -1]
        self.starts = np.arange(problems) * (n_cells + 1)
        self.weight = np.maximum(self.W.sum(axis=1), np.finfo(float).tiny)
        w = cells.w
        self.has_equal_weights = bool((w == w[0]).all())

    def observed(self, labels: LabelSets) -> Float64Array:
        """Return the errors ``(m,)`` of one set of labels of all rows."""
        return self._largest(labels.codes)[0]

    def values(self, draw: Draw, labels: LabelSets) -> Float64Array:
        """Return the errors ``(R, m)`` of sets of labels."""
        if self.cells.part is not None:  # hits of a part of the rows are scaled: all cells change
            return super().values(draw, labels)
        return self._largest(labels.codes)

    def _largest(self, codes: NDArray[np.integer]) -> Float64Array:
        """Return the errors of sets of labels ``(R, n)``, which follow each other in one table."""
        hit = self.classes.hit_places(codes)
        if self.has_equal_weights:  # numbers are sorted in a fifth of the time of their places
            hit.sort(axis=1)
            hits = self.classes.w[0] * np.arange(hit.size + 1)
        else:
            order = np.argsort(hit, axis=1)
            hit = np.take_along_axis(hit, order, axis=1)
            hits = running(self.classes.w[order].ravel())
        set_starts = self.below.size * np.arange(len(codes))[:, None]
        edges = np.append(set_starts + self.starts, self.below.size * len(codes))
        first = np.searchsorted((hit + set_starts).ravel(), edges)
        hit = hit.ravel().astype(np.intp)
        at_start = hits[first]
        largest = np.abs(np.diff(at_start) - np.tile(self.ends, len(codes)))
        with_hits = np.flatnonzero(np.diff(first))
        first, at_start = first[with_hits], at_start[with_hits]
        before = hits[:-1] - self.below.take(hit)
        after = hits[1:] - self.below[1:].take(hit)
        above = np.maximum.reduceat(after, first) - at_start
        under = at_start - np.minimum.reduceat(before, first)
        largest[with_hits] = np.maximum(largest[with_hits], np.maximum(above, under))
        each = largest.reshape(len(codes), -1) / self.weight
        return each.mean(axis=1, keepdims=True) if self.average == "macro" else each
