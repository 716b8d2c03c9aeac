r"""The bin table of all n K entries as one problem; an entry is a hit if its class is true.

Many entries are not sorted or copied: a few passes in blocks find the order statistics at which
quantile bins are cut. A cut of the "rank" method may fall among entries of equal score v, after a
weight r of them in row order:

.. math:: \sum_{\text{below}} w s = \sum_{s < v} w s + r v .
"""

from __future__ import annotations

from functools import partial

import numpy as np

from skcalib._arrays.passes import map_rows, merge_rows, sum_rows
from skcalib._arrays.types import Float64Array, FloatArray, Intp
from skcalib._binning.bins import Bins, BinTable, exceeds
from skcalib._binning.edges import Side
from skcalib._binning.order_statistics import Cells, Places, Values, values_at
from skcalib._binning.quantiles import edge_sides, quantile_cuts, quantile_edges, rank_cuts
from skcalib._binning.tables import columns_table, flat_table
from skcalib._scores.one_vs_rest import is_unit
from skcalib._scores.scores import Scores
from skcalib._validation.weights import is_whole

# Up to this many entries are copied and sorted, in about 25 MiB.
SORTED = 1 << 20


def pooled_table(
    scores: Scores,
    code: Intp,
    w: Float64Array,
    bins: Bins,
    *,
    threshold: float | None = None,
) -> BinTable:
    """Table of all n K entries as one problem; an entry is a hit if its class is true."""
    if bins.method == "uniform":
        return columns_table(scores, code, w, bins, threshold=threshold).pooled()
    n, n_classes = scores.shape
    if n * n_classes > SORTED or scores.source.remote is not None:
        entries = Entries(scores, code, w, threshold)
        if not entries.count():
            none = np.zeros(0)
            return flat_table(none, none > 0, none, bins)
        by_rank = bins.method == "rank"
        return _table_by_rank(entries, bins) if by_rank else table_by_edges(entries, bins)
    score = np.concatenate(merge_rows(np.asarray, scores.as_proba()))
    hit = np.zeros((n, n_classes), dtype=bool)
    hit[np.arange(n), code] = True
    # A broadcast 1 needs no memory; other weights are repeated.
    weight = np.broadcast_to(1.0, score.size) if is_unit(w) else np.repeat(w, n_classes)
    return flat_table(score.ravel(), hit.ravel(), weight, bins, threshold=threshold)


def entries_above(score: FloatArray, w: Float64Array | None, threshold: float | None) -> Values:
    """Return the entries of a block above the threshold, flat, and their weights."""
    w = None if w is None else np.repeat(w, score.shape[1])
    score = score.ravel()
    if threshold is None:
        return score, w
    kept = exceeds(score, threshold)
    return score[kept], None if w is None else w[kept]


def count_above(block: FloatArray, threshold: float) -> Intp:
    """Return the number of entries of each row above the threshold."""
    return np.count_nonzero(exceeds(block, threshold), axis=1)


def sum_cells(
    block: FloatArray,
    code: Intp,
    w: Float64Array | None,
    threshold: float | None,
    cells: Cells,
) -> Float64Array:
    """Return count, weight, score sum and hit sum ``(4, number of cells)`` of a block."""
    score, weights = entries_above(block, w, threshold)
    true = np.take_along_axis(block, code[:, None], axis=1)
    hits, hit_weights = entries_above(true, w, threshold)
    cell, hit_cell = cells(score), cells(hits)
    weighted = (cell, None), (cell, weights), (cell, score if weights is None else weights * score)
    return np.stack(
        [
            np.bincount(place, each, minlength=cells.edges.size + 1).astype(np.float64)
            for place, each in (*weighted, (hit_cell, hit_weights))
        ]
    )


def running_ties(
    block: FloatArray, code: Intp, w: Float64Array, score: Float64Array
) -> list[Float64Array]:
    """Return running count, weight and hits ``(3, ties)`` of the entries equal to each score."""
    entries = block.ravel()
    running = []
    for value in score:
        row, column = np.divmod(np.flatnonzero(entries == value), block.shape[1])
        each = np.stack([np.ones(row.size), w[row], w[row] * (code[row] == column)])
        running.append(np.cumsum(each, axis=1))
    return running


class Entries:
    """Entries ``(n, K)`` above a threshold, row by row, read in blocks."""

    def __init__(
        self, scores: Scores, code: Intp, w: Float64Array, threshold: float | None
    ) -> None:
        self.source = scores.as_proba()
        self.code = code
        self.w = w
        self.threshold = threshold
        self._weights = None if is_unit(w) else w
        n, n_classes = self.source.shape
        self._kept = np.full(n, n_classes)
        if threshold is not None:
            map_rows(partial(count_above, threshold=threshold), self.source, out=self._kept)

    def count(self) -> int:
        """Return the number of entries."""
        return int(self._kept.sum())

    def total_weight(self) -> float:
        """Return the sum of the weights of all entries."""
        return float(self._kept @ self.w)

    def is_whole(self) -> bool:
        """Whether the weights count entries."""
        return is_whole(self.w[self._kept > 0])

    def values_at(self, cuts: Float64Array) -> Places:
        """Return the scores at these places of the cumulative weight."""
        kernel = partial(entries_above, threshold=self.threshold)
        return values_at(kernel, self.source, self._weights, place=cuts)

    def sums(self, edges: Float64Array, side: Side) -> Float64Array:
        """Return count, weight, score sum and hit sum ``(4, edges.size + 1)`` between edges.

        An entry's bin is ``numpy.searchsorted(edges, score, side)``.
        """
        cells = Cells(edges, side, self.source.dtype)
        kernel = partial(sum_cells, threshold=self.threshold, cells=cells)
        return np.asarray(sum_rows(kernel, self.source, self.code, self._weights))

    def first_ties(self, score: Float64Array, own: Intp, part: Float64Array) -> Float64Array:
        """Return number and hit sum ``(2, m)`` of the first of equal entries, in row order.

        For each of m cuts, these are the entries equal to ``score[own]`` up to a weight of `part`.
        The entry at that weight counts as whole, and its hit in proportion.
        """
        first = np.zeros((2, own.size))
        seen = np.zeros((score.size, 3))
        kernel = partial(running_ties, score=score)
        for sums in merge_rows(kernel, self.source, self.code, self.w, merge=iter):
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
    places = entries.values_at(cuts)
    edges = quantile_edges(bins, places.below, places.above)
    _, side = edge_sides(bins)
    return _table(np.append(0.0, edges), np.append(edges, 1.0), entries.sums(edges, side))


def _table_by_rank(entries: Entries, bins: Bins) -> BinTable:
    number = np.arange(bins.n_bins + 1)
    cuts = rank_cuts(number, bins.n_bins, entries.total_weight(), entries.is_whole())
    places = entries.values_at(cuts)
    score, own = np.unique(places.below[1:-1], return_inverse=True)
    part = (cuts - places.under)[1:-1]
    running = np.cumsum(entries.sums(score, "right"), axis=1)
    count, hits = entries.first_ties(score, own, part)
    at_cuts = running[:, own] + np.stack([count, part, part * score[own], hits])
    sums = np.diff(np.column_stack([np.zeros(4), at_cuts, running[:, -1]]), axis=1)
    sums[1] = np.diff(cuts)
    return _table(places.above[:-1], places.below[1:], sums)
