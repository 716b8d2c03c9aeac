r"""Errors that depend on the labels through the hits of cells: binned errors, KS.

Scores, weights and cells stay the same when other labels are drawn. With :math:`H_c` the weight of
the hits in cell c, :math:`S_c` the weighted sum of its scores and :math:`W_c` its weight, the error
is a function of H, S and W. With a truth q in place of labels, :math:`H_c = \sum_{i \in c} w_i q_i`
gives the limit of many rows.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from skcalib._arrays.types import Float64Array
from skcalib.metrics._intervals.class_cells import ClassCells
from skcalib.metrics._intervals.label_sets import Draw, LabelSets, RowGroups, Truth, sets_at_once
from skcalib.metrics._intervals.score_cells import ScoreCells, running

# The error ``(..., m)`` of tables H ``(..., problems, cells)``, S and W ``(problems, cells)``.
Close = Callable[[Float64Array, Float64Array, Float64Array], Float64Array]


class CellError:
    """An error by cells, as a function of labels or of a truth.

    Parameters
    ----------
    cells : ScoreCells or ClassCells
    close : callable
        The error of labels.
    close_limit : callable, default=None
        The error of a truth; None if it is the same function.
    has_excess : bool, default=True
        Whether the jackknife finds what few rows add to the error of a truth: not of quantiles.
    """

    def __init__(
        self,
        cells: ScoreCells | ClassCells,
        close: Close,
        close_limit: Close | None = None,
        has_excess: bool = True,
    ) -> None:
        self.cells = cells
        self.close = close
        self.has_excess = has_excess
        self.close_limit = close if close_limit is None else close_limit
        self.W, self.S = cells.sums()
        self.draws = isinstance(cells, ScoreCells) and cells.draws
        self._without: tuple[Float64Array, Float64Array] | None = None

    def observed(self, labels: LabelSets) -> Float64Array:
        """Return the errors ``(m,)`` of one set of labels of all rows."""
        return self.close(self.cells.hits(labels, slice(None)), self.S, self.W)[0]

    def limits(self, truth: Truth) -> Float64Array:
        """Return the errors ``(m,)`` of a truth."""
        return self.close_limit(self.cells.expected(truth)[None], self.S, self.W)[0]

    def values(self, draw: Draw, labels: LabelSets) -> Float64Array:
        r"""Return the errors ``(R, m)`` of sets of labels.

        Labels may be those of a part of the rows. The hits of all rows then deviate from their
        expectation by :math:`\sqrt{n / n_s}` times the deviation of the :math:`n_s` rows: both are
        sums of many independent hits.
        """
        part = self.cells.part
        expected, drawn = self.cells.expected(draw.truth), self.cells
        if part is not None:
            drawn, expected_of_part = part, part.expected(draw.part)
        step = sets_at_once(expected.size)
        values = []
        for start in range(0, len(labels.codes), step):
            H = drawn.hits(labels, slice(start, start + step))
            if part is not None:
                H = expected + draw.factor * (H - expected_of_part)
            values.append(self.close(H, self.S, self.W))
        return np.concatenate(values)

    def drawn(self, truth: Truth, n_sets: int, random: np.random.Generator) -> Float64Array:
        """Return the errors ``(n_sets, m)`` of hits that are drawn by cells."""
        assert isinstance(self.cells, ScoreCells)
        step = sets_at_once(self.W.size)
        values = []
        for start in range(0, n_sets, step):
            H = self.cells.draw_hits(truth, min(step, n_sets - start), random)
            values.append(self.close(H, self.S, self.W))
        return np.concatenate(values)

    def limits_without(self, truth: Truth, groups: RowGroups) -> Float64Array:
        """Return the errors ``(groups, m)`` of a truth, each without one group of rows.

        The sums of scores and weights are kept, so that all calls must have the same groups.
        """
        group, n_groups, most = groups
        problems, cells = self.cells.shape
        step = -(-cells // max(64, most // (n_groups * problems)))
        if self._without is None:
            W, S = self.cells.sums_by_group(group, n_groups, step)
            self._without = without_each(W), without_each(S)
        W, S = self._without
        H = without_each(self.cells.expected_by_group(truth, group, n_groups, step))
        return self.close_limit(H, S, W)


def without_each(table: Float64Array) -> Float64Array:
    """Return the sums ``(n_groups, problems, cells)`` of all groups but one."""
    return np.subtract(table.sum(axis=0), table, out=table)


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
