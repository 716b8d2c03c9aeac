"""The KS error of one score, from the running sums of the hits in the order of the scores."""

from __future__ import annotations

import numpy as np

from skcalib._arrays.types import Float64Array
from skcalib.metrics._interval.cells import CellError, Close
from skcalib.metrics._interval.label_sets import Draw, LabelSets, sets_at_once
from skcalib.metrics._interval.score_cells import ScoreCells


class CurveError(CellError):
    r"""The largest distance :math:`|\sum_{c' \le c} (H_{c'} - S_{c'})| / \sum_c W_c`.

    The sums up to a cell are running sums over the rows, so that hits of cells are not needed.

    Parameters
    ----------
    cells : ScoreCells
        One problem, whose cells hold all rows.
    close : callable
        The same error of tables.
    """

    def __init__(self, cells: ScoreCells, close: Close) -> None:
        super().__init__(cells, close)
        self.rows = cells.rows
        stops = cells.edges[0, 1:]
        # A slice, which is not copied, where each row is a cell.
        self.ends = slice(1, None) if stops.size == self.rows.w.size else stops
        self.below = self.rows.scores[self.ends]
        self.weight = max(float(self.rows.weight[-1]), np.finfo(float).tiny)

    def observed(self, labels: LabelSets) -> Float64Array:
        """Return the error ``(1,)`` of one set of labels of all rows."""
        return self._largest(labels)[0]

    def values(self, draw: Draw, labels: LabelSets) -> Float64Array:
        """Return the errors ``(R, 1)`` of sets of labels."""
        if self.cells.part is not None:  # hits of a part of the rows are scaled
            return super().values(draw, labels)
        return self._largest(labels)

    def _largest(self, labels: LabelSets) -> Float64Array:
        hits = self.rows.hits_below(labels)
        step = sets_at_once(hits.shape[1])
        found = np.empty((len(hits), 1))
        for start in range(0, len(hits), step):
            sets = slice(start, start + step)
            curve = hits[sets, self.ends] - self.below
            found[sets, 0] = np.maximum(curve.max(axis=1), -curve.min(axis=1))
        return found / self.weight
