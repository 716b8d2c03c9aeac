"""The KS error of all classes, from the places of the hits in the order of each class's scores."""

from __future__ import annotations

import numpy as np

from skcalib._arrays.types import Float64Array, Intp
from skcalib.metrics._interval.cells import CellError, Close
from skcalib.metrics._interval.class_cells import ClassCells
from skcalib.metrics._interval.label_sets import Draw, LabelSets


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
        self.starts = np.arange(problems + 1) * (n_cells + 1)
        self.weight = np.maximum(self.W.sum(axis=1), np.finfo(float).tiny)
        w = cells.w
        # The hits up to each, in order, where all rows have the same weight.
        self.even_hits = w[0] * np.arange(w.size + 1.0) if (w == w[0]).all() else None

    def observed(self, labels: LabelSets) -> Float64Array:
        """Return the errors ``(m,)`` of one set of labels of all rows."""
        return self._largest(labels.codes[0])

    def values(self, draw: Draw, labels: LabelSets) -> Float64Array:
        """Return the errors ``(R, m)`` of sets of labels."""
        if self.cells.part is not None:  # hits of a part of the rows are scaled: all cells change
            return super().values(draw, labels)
        return np.array([self._largest(code) for code in labels.codes])

    def _largest(self, code: Intp) -> Float64Array:
        hit = self.classes.hit_places(code)
        if self.even_hits is None:
            order = np.argsort(hit)
            hit = hit[order]
            hits = np.concatenate([[0.0], np.cumsum(self.classes.w[order])])
        else:  # numbers are sorted in a fifth of the time of their places
            hit, hits = np.sort(hit), self.even_hits
        first = np.searchsorted(hit, self.starts)
        at_start = hits[first]
        largest = np.abs(np.diff(at_start) - self.ends)
        with_hits = np.flatnonzero(np.diff(first))
        first, at_start = first[with_hits], at_start[with_hits]
        above = np.maximum.reduceat(hits[1:] - self.below[hit + 1], first) - at_start
        under = at_start - np.minimum.reduceat(hits[:-1] - self.below[hit], first)
        largest[with_hits] = np.maximum(largest[with_hits], np.maximum(above, under))
        each = largest / self.weight
        return each.mean(keepdims=True) if self.average == "macro" else each
