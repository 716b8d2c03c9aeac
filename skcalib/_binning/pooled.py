r"""The bin table of all n K entries as one problem; an entry is a hit if its class is true.

Many entries are not sorted or copied: a few passes in blocks find the order statistics at which
quantile bins are cut. A cut of the "rank" method may fall among entries of equal score v, after a
weight r of them in row order:

.. math:: \sum_{\text{below}} w s = \sum_{s < v} w s + r v .
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from skcalib._arrays.blocks import row_blocks
from skcalib._arrays.threads import map_blocks
from skcalib._arrays.types import Float64Array, FloatArray
from skcalib._binning.bins import Bins, BinTable, exceeds
from skcalib._binning.order_statistics import Cells, values_at
from skcalib._binning.precision import Side
from skcalib._binning.quantiles import edge_sides, quantile_cuts, quantile_edges, rank_cuts
from skcalib._binning.tables import columns_table, flat_table, row_block
from skcalib._scores.one_vs_rest import is_unit, is_whole
from skcalib._scores.scores import Scores

# Up to this many entries are copied and sorted, in about 25 MiB.
SORTED = 1 << 20


def pooled_table(
    scores: Scores,
    code: NDArray[np.intp],
    w: Float64Array,
    bins: Bins,
    *,
    threshold: float | None = None,
) -> BinTable:
    """Table of all n K entries as one problem; an entry is a hit if its class is true."""
    if bins.method == "uniform":
        return columns_table(scores, code, w, bins, threshold=threshold).pooled()
    n, n_classes = scores.shape
    if n * n_classes > SORTED:
        entries = Entries(scores, code, w, threshold)
        if not entries.count():
            none = np.zeros(0)
            return flat_table(none, none > 0, none, bins)
        by_rank = bins.method == "rank"
        return _table_by_rank(entries, bins) if by_rank else table_by_edges(entries, bins)
    score = np.concatenate([row_block(scores, rows) for rows in row_blocks(n, n_classes)])
    hit = np.zeros((n, n_classes), dtype=bool)
    hit[np.arange(n), code] = True
    # A broadcast 1 needs no memory; other weights are repeated.
    weight = np.broadcast_to(1.0, score.size) if is_unit(w) else np.repeat(w, n_classes)
    return flat_table(score.ravel(), hit.ravel(), weight, bins, threshold=threshold)


class Entries:
    """Entries ``(n, K)`` above a threshold, row by row, read in blocks."""

    def __init__(
        self, scores: Scores, code: NDArray[np.intp], w: Float64Array, threshold: float | None
    ) -> None:
        self.scores = scores
        self.code = code
        self.w = w
        self.threshold = threshold
        self.blocks = list(row_blocks(*scores.shape))
        self._unit = is_unit(w)
        self._kept = self._count_kept()

    def _count_kept(self) -> NDArray[np.intp]:
        """Return the number of entries of each row."""
        n, n_classes = self.scores.shape
        if self.threshold is None:
            return np.full(n, n_classes)
        above = self.threshold

        def count(rows: slice) -> NDArray[np.intp]:
            return np.count_nonzero(exceeds(row_block(self.scores, rows), above), axis=1)

        return np.concatenate(list(map_blocks(count, self.blocks)))

    def count(self) -> int:
        """Return the number of entries."""
        return int(self._kept.sum())

    def total_weight(self) -> float:
        """Return the sum of the weights of all entries."""
        return float(self._kept @ self.w)

    def is_whole(self) -> bool:
        """Whether the weights count entries."""
        return is_whole(self.w[self._kept > 0])

    def _above(self, score: FloatArray, rows: slice) -> tuple[FloatArray, Float64Array | None]:
        """Return the scores above the threshold, flat, and their weights."""
        w = None if self._unit else np.repeat(self.w[rows], score.shape[1])
        score = score.ravel()
        if self.threshold is None:
            return score, w
        kept = exceeds(score, self.threshold)
        return score[kept], None if w is None else w[kept]

    def read(self, rows: slice) -> tuple[FloatArray, Float64Array | None]:
        """Return the scores of a block and their weights, None if all are 1."""
        return self._above(row_block(self.scores, rows), rows)

    def sums(self, edges: Float64Array, side: Side) -> Float64Array:
        """Return count, weight, score sum and hit sum ``(4, edges.size + 1)`` between edges.

        An entry's bin is ``numpy.searchsorted(edges, score, side)``.
        """
        cells = Cells(edges, side, self.scores.dtype)

        def of_block(rows: slice) -> Float64Array:
            block = row_block(self.scores, rows)
            score, w = self._above(block, rows)
            true = np.take_along_axis(block, self.code[rows, None], axis=1)
            hits, hit_weights = self._above(true, rows)
            cell, hit_cell = cells(score), cells(hits)
            weighted = (cell, None), (cell, w), (cell, score if w is None else w * score)
            return np.stack(
                [
                    np.bincount(place, weights, minlength=edges.size + 1).astype(np.float64)
                    for place, weights in (*weighted, (hit_cell, hit_weights))
                ]
            )

        total = np.zeros((4, edges.size + 1))
        for part in map_blocks(of_block, self.blocks):
            total += part
        return total

    def first_ties(
        self, score: Float64Array, own: NDArray[np.intp], part: Float64Array
    ) -> Float64Array:
        """Return number and hit sum ``(2, m)`` of the first of equal entries, in row order.

        For each of m cuts, these are the entries equal to ``score[own]`` up to a weight of `part`.
        The entry at that weight counts as whole, and its hit in proportion.
        """
        n_classes = self.scores.shape[1]

        def find(rows: slice) -> list[Float64Array]:
            entries = row_block(self.scores, rows).ravel()
            running = []
            for value in score:
                row, column = np.divmod(np.flatnonzero(entries == value), n_classes)
                w = self.w[rows][row]
                each = np.stack([np.ones(row.size), w, w * (self.code[rows][row] == column)])
                running.append(np.cumsum(each, axis=1))
            return running

        first = np.zeros((2, own.size))
        seen = np.zeros((score.size, 3))
        for sums in map_blocks(find, self.blocks):
            for u, running in enumerate(sums):
                if not running.size:
                    continue
                count, weight, hits = np.column_stack([seen[u], seen[u, :, None] + running])
                further = (own == u) & (part > weight[0])
                place = np.searchsorted(weight[:-1], part[further], side="left")
                first[0, further] = count[0] + place
                first[1, further] = np.interp(part[further], weight, hits)
                seen[u] = count[-1], weight[-1], hits[-1]
        return first


def _table(left: Float64Array, right: Float64Array, sums: Float64Array) -> BinTable:
    count, weight, score_sum, hit_sum = sums[:, None]
    return BinTable(left[None], right[None], count.astype(np.int64), weight, score_sum, hit_sum)


def table_by_edges(entries: Entries, bins: Bins) -> BinTable:
    cuts = quantile_cuts(bins, entries.total_weight(), entries.is_whole(), entries.count())
    places = values_at(entries.read, entries.blocks, entries.scores.dtype, cuts)
    edges = quantile_edges(bins, places.below, places.above)
    _, side = edge_sides(bins)
    return _table(np.append(0.0, edges), np.append(edges, 1.0), entries.sums(edges, side))


def _table_by_rank(entries: Entries, bins: Bins) -> BinTable:
    number = np.arange(bins.n_bins + 1)
    cuts = rank_cuts(number, bins.n_bins, entries.total_weight(), entries.is_whole())
    places = values_at(entries.read, entries.blocks, entries.scores.dtype, cuts)
    score, own = np.unique(places.below[1:-1], return_inverse=True)
    part = (cuts - places.under)[1:-1]
    running = np.cumsum(entries.sums(score, "right"), axis=1)
    count, hits = entries.first_ties(score, own, part)
    at_cuts = running[:, own] + np.stack([count, part, part * score[own], hits])
    sums = np.diff(np.column_stack([np.zeros(4), at_cuts, running[:, -1]]), axis=1)
    sums[1] = np.diff(cuts)
    return _table(places.above[:-1], places.below[1:], sums)
