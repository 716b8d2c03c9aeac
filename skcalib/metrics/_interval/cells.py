r"""Errors that depend on the labels through the hits of cells: binned errors, KS.

Scores, weights and cells stay the same when other labels are drawn. With :math:`H_c` the weight of
the hits in cell c, :math:`S_c` the weighted sum of its scores and :math:`W_c` its weight, the error
is a function of H, S and W. With a truth q in place of labels, :math:`H_c = \sum_{i \in c} w_i q_i`
gives the limit of many rows.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from skcalib._arrays.types import Float64Array
from skcalib.metrics._interval.class_cells import ClassCells
from skcalib.metrics._interval.label_sets import Draw, LabelSets, RowGroups, Truth, sets_at_once
from skcalib.metrics._interval.score_cells import ScoreCells

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
