r"""Floor 1: bin edges, and the bin table of m binary problems at once.

A binned calibration error is *reduce, bin, norm*. This file bins. For problem j with scores
:math:`s_i`, outcomes :math:`t_i \in \{0, 1\}` and weights :math:`w_i`, bin b holds

.. math:: W_{jb} = \sum_{i \in b} w_i, \quad
          \mathrm{conf}_{jb} = \frac{1}{W_{jb}} \sum_{i \in b} w_i s_i, \quad
          \mathrm{acc}_{jb} = \frac{1}{W_{jb}} \sum_{i \in b} w_i t_i .

Uniform bins of all classes need no pass over the tiny entries: a row has at most B entries above
1/B, and the first bin of a class is its column sum less the other bins.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from skcalib._blocks import light_blocks, map_blocks
from skcalib._one_vs_rest import (
    SortedProblem,
    is_unit,
    is_whole,
    map_columns,
    map_sorted,
    sort_problem,
)
from skcalib._precision import (
    FLOAT32,
    FLOAT64,
    Side,
    all_even_edges,
    as_written,
    bits_of_probabilities,
    significant_bits,
)
from skcalib._simplex import FloatArray, Scores

Float64Array = NDArray[np.float64]
Method = Literal["uniform", "edges", "rank", "split", "floor"]


@dataclass(frozen=True)
class Bins:
    """How to bin.

    ``method`` is "uniform", or the way quantile bins are cut: "edges" (ties never split, bins
    closed on the left), "rank" (equal counts by rank, ties split), "split" (edges half-way
    between equal parts, closed on the right) or "floor" ("edges" with range starts rounded
    down, the form of thresholded adaptive calibration error's first paper). ``closed`` is the
    closed side of uniform bins. ``bits`` are the significant bits of the scores, None for those
    of the column that is binned, and ``complements`` says whether scores may be 1 less others.
    """

    n_bins: int = 15
    method: Method = "uniform"
    closed: Side = "right"
    bits: int | None = None
    complements: bool = False

    def reading(self, P: FloatArray) -> Bins:
        """Return the bins for probabilities ``P (n, K)``, or a part of them."""
        return replace(self, bits=bits_of_probabilities(P), complements=P.shape[1] == 2)

    def uniform_edges(self) -> Float64Array:
        """Edges of even bins on [0, 1]: the float64 numbers next to k/B."""
        return np.arange(self.n_bins + 1.0) / self.n_bins

    def compared_edges(self, bits: int) -> Float64Array:
        """Edges of even bins, rounded to `bits` significant bits; compared without tolerance."""
        return all_even_edges(self.n_bins, bits, self.complements, self.closed)

    def threshold(self, exact: float) -> float:
        """Return a threshold as the scores write it: what is equal to it is not above it."""
        bits = FLOAT64 if self.bits is None else self.bits
        above = np.array([exact], dtype=np.float64)
        return float(as_written(above, 1 - above, bits, self.complements, "right"))

    def uniform_index(self, score: FloatArray) -> NDArray[np.intp]:
        """Bin of each score; 0 falls in the first bin and 1 in the last, whichever side closes."""
        bits = significant_bits(score) if self.bits is None else self.bits
        edges = self.compared_edges(bits).copy()
        edges[0], edges[-1] = -np.inf, np.inf  # passed by every score, and by none
        score = score.astype(np.float64, copy=False)
        # A score lies on one side or the other of the edge that is nearest, however it is rounded.
        nearest = np.rint(score * self.n_bins).astype(np.intp)
        edge = edges.take(nearest)
        nearest -= score <= edge if self.closed == "right" else score < edge
        return nearest


@dataclass(frozen=True)
class BinTable:
    """Sums of m binary problems in B bins; every array is ``(m, B)`` and empty bins hold 0."""

    left: Float64Array
    right: Float64Array
    count: NDArray[np.int64]
    weight: Float64Array
    score_sum: Float64Array
    hit_sum: Float64Array

    def _mean(self, total: Float64Array) -> Float64Array:
        return np.divide(total, self.weight, out=np.zeros_like(total), where=self.weight > 0)

    @property
    def confidence(self) -> Float64Array:
        """Mean score of each bin, 0 where empty."""
        return self._mean(self.score_sum)

    @property
    def accuracy(self) -> Float64Array:
        """Share of hits of each bin, 0 where empty."""
        return self._mean(self.hit_sum)

    @property
    def gap(self) -> Float64Array:
        """``accuracy - confidence`` of each bin, 0 where empty."""
        return self._mean(self.hit_sum - self.score_sum)

    def pooled(self) -> BinTable:
        """All problems as one; they must share their edges."""
        return BinTable(
            self.left[:1],
            self.right[:1],
            *(
                part.sum(axis=0, keepdims=True)
                for part in (self.count, self.weight, self.score_sum, self.hit_sum)
            ),
        )


def _stack(rows: list[BinTable]) -> BinTable:
    names = ("left", "right", "count", "weight", "score_sum", "hit_sum")
    return BinTable(*(np.concatenate([getattr(row, name) for row in rows]) for name in names))


def exceeds(score: FloatArray, threshold: float) -> NDArray[np.bool_]:
    """Whether scores lie above the exact threshold.

    Compared as an array: NumPy 1 would round a scalar to the type of the scores.
    """
    return score > np.array([threshold], dtype=np.float64)


# ------------------------------------------------------------------ one score column, m groups


def flat_table(
    score: FloatArray,
    hit: NDArray[np.bool_],
    w: Float64Array,
    bins: Bins,
    *,
    group: NDArray[np.intp] | None = None,
    n_groups: int = 1,
    threshold: float | None = None,
) -> BinTable:
    """Table of ``n_groups`` problems whose rows lie in one column; `group` says whose each is."""
    if threshold is not None:
        kept = exceeds(score, threshold)
        score, hit, w = score[kept], hit[kept], w[kept]
        group = None if group is None else group[kept]
    weights = None if is_unit(w) else w
    if bins.method == "uniform":
        cell = bins.uniform_index(score)
        if group is not None:
            cell += group * bins.n_bins
        return _from_cells(cell, score, hit, weights, bins, n_groups)
    if group is None:
        return _quantile_table(score, hit, weights, bins)
    order = np.argsort(group, kind="stable")
    parts = np.split(order, np.searchsorted(group[order], np.arange(1, n_groups)))
    return _stack(
        [
            _quantile_table(score[part], hit[part], None if weights is None else w[part], bins)
            for part in parts
        ]
    )


def _from_cells(
    cell: NDArray[np.intp],
    score: FloatArray,
    hit: NDArray[np.bool_],
    w: Float64Array | None,
    bins: Bins,
    m: int,
) -> BinTable:
    """Sum rows into the cells ``problem * n_bins + bin`` of a uniform table."""
    shape = (m, bins.n_bins)

    def sums(values: FloatArray | NDArray[np.bool_]) -> Float64Array:
        weighted = values if w is None else w * values
        total = np.bincount(cell, weights=weighted, minlength=m * bins.n_bins)
        return total.astype(np.float64, copy=False).reshape(shape)

    edges = bins.uniform_edges()
    count = np.bincount(cell, minlength=m * bins.n_bins).reshape(shape)
    return BinTable(
        edges[None, :-1].repeat(m, axis=0),
        edges[None, 1:].repeat(m, axis=0),
        count,
        count.astype(np.float64) if w is None else sums(np.ones(w.size, dtype=bool)),
        sums(score),
        sums(hit),
    )


# ------------------------------------------------------------- every class against the rest


def columns_table(
    scores: Scores,
    code: NDArray[np.intp],
    w: Float64Array,
    bins: Bins,
    *,
    threshold: float | None = None,
    first: int = 0,
    confidence: bool = True,
) -> BinTable:
    """Table of the K one-vs-rest problems, or of those from class `first` on.

    Without `confidence`, scores in uniform bins are not summed, which takes a third of the time;
    the sum of a first bin is then NaN.
    """
    if bins.method == "uniform":
        return _columns_uniform(scores, code, w, bins, threshold, first, confidence)
    if bins.method == "rank":

        def by_rank(k: int, column: FloatArray) -> BinTable:
            return flat_table(column, code == k, w, bins, threshold=threshold)

        return _stack(list(map_columns(by_rank, scores, first)))

    def by_edges(_: int, problem: SortedProblem) -> BinTable:
        return _table_by_edges(problem.above(threshold), bins)

    return _stack(list(map_sorted(by_edges, scores, code, w, first)))


# Entries above the first bin that are summed at a time: memory stays bounded where all are.
GATHERED = 1 << 20


def _columns_uniform(
    scores: Scores,
    code: NDArray[np.intp],
    w: Float64Array,
    bins: Bins,
    threshold: float | None,
    first: int,
    confidence: bool,
) -> BinTable:
    n, n_classes = scores.shape
    m = n_classes - first
    bits = bits_of_scores(scores) if bins.bits is None else bins.bits
    bins = replace(bins, bits=bits, complements=n_classes == 2)
    # Entries at or below the cut are dropped (threshold) or belong to the first bin. In the type
    # of the scores a cut may round up, so it is taken a step lower and the few left are sifted.
    exact = bins.compared_edges(bits)[1] if threshold is None else np.float64(threshold)
    cut = np.nextafter(scores.dtype.type(exact), scores.dtype.type(-1))
    unit = is_unit(w)

    def find(rows: slice) -> tuple[Float64Array | None, NDArray[np.intp], FloatArray]:
        """Sum the columns, and find entries above the cut: places in the array, and values."""
        block = row_block(scores, rows)
        total = None
        if threshold is None and confidence:
            total = block.sum(axis=0, dtype=np.float64) if unit else w[rows] @ block
        at = np.flatnonzero(block > cut)
        return total, at + rows.start * n_classes, block.ravel()[at]

    def sift(at: NDArray[np.intp], value: FloatArray) -> BinTable:
        row, column = np.divmod(at, n_classes)
        index = bins.uniform_index(value)
        kept = index > 0 if threshold is None else exceeds(value, threshold)
        kept &= column >= first
        row, column, value, index = row[kept], column[kept], value[kept], index[kept]
        cell = (column - first) * bins.n_bins + index
        return _from_cells(cell, value, code[row] == column, None if unit else w[row], bins, m)

    column_sum = np.full(m, 0.0 if confidence else np.nan)
    tables: list[BinTable] = []
    places: list[NDArray[np.intp]] = []
    values: list[FloatArray] = []
    gathered = 0
    itemsize = scores.dtype.itemsize if scores.kind == "proba" else 8
    for total, at, value in map_blocks(find, *light_blocks(n, n_classes, itemsize)):
        if total is not None:
            column_sum += total[first:]
        if gathered > GATHERED:
            tables = [_sum([*tables, sift(np.concatenate(places), np.concatenate(values))])]
            places, values, gathered = [], [], 0
        places.append(at)
        values.append(value)
        gathered += at.size
    table = _sum([*tables, sift(np.concatenate(places), np.concatenate(values))])
    if threshold is None:
        _fill_first_bin(table, scores, code, w, bins, column_sum, first)
    return table


def bits_of_scores(scores: Scores) -> int:
    """Return the significant bits of the probabilities, which logits are made to in their type."""
    if scores.kind == "proba":
        return bits_of_probabilities(scores.array)
    return FLOAT64 if scores.dtype == np.float64 else FLOAT32


def _sum(tables: list[BinTable]) -> BinTable:
    """Add tables of the same edges."""
    return BinTable(
        tables[0].left,
        tables[0].right,
        *(
            sum(getattr(table, part) for table in tables)
            for part in ("count", "weight", "score_sum", "hit_sum")
        ),
    )


def row_block(scores: Scores, rows: slice) -> FloatArray:
    """Return a block of probabilities, to read only, in the type of the scores.

    The numbers of `Scores.proba_columns`, so that an entry next to an edge falls in one bin.
    """
    if scores.kind == "proba":
        return scores.array[rows]
    return scores.proba(rows).astype(scores.dtype, copy=False)


def _fill_first_bin(
    table: BinTable,
    scores: Scores,
    code: NDArray[np.intp],
    w: Float64Array,
    bins: Bins,
    column_sum: Float64Array,
    first: int,
) -> None:
    n, n_classes = scores.shape
    positive = np.bincount(code, weights=w, minlength=n_classes)[first:]
    table.count[:, 0] = n - table.count[:, 1:].sum(axis=1)
    for part, total in (
        (table.weight, np.full(column_sum.shape, w.sum())),
        (table.score_sum, column_sum),
        (table.hit_sum, positive),
    ):
        part[:, 0] = total - part[:, 1:].sum(axis=1)
    # What is left of a subtraction is exact only where most of the column is left; at most 2B
    # columns can hold more than n/2 entries above the cut, and those are summed afresh.
    for j in np.flatnonzero(2 * table.count[:, 0] < n):
        column = scores.proba_columns(slice(j + first, j + first + 1))[0]
        low = bins.uniform_index(column) == 0
        table.weight[j, 0] = w[low].sum()
        table.score_sum[j, 0] = w[low] @ column[low].astype(np.float64)
        table.hit_sum[j, 0] = w[low] @ (code[low] == j + first)


# ------------------------------------------------------------------------- quantile bins


def _quantile_table(
    score: FloatArray,
    hit: NDArray[np.bool_],
    w: Float64Array | None,
    bins: Bins,
) -> BinTable:
    if bins.method == "rank":
        return rank_table(score, hit, w, bins)
    return _table_by_edges(sort_problem(score, hit, w), bins)


def _value_at(problem: SortedProblem, cumulative: Float64Array) -> Callable[..., Float64Array]:
    """Score of the row that holds a position of the cumulative weight."""
    last = problem.values.size - 1

    def value(position: Float64Array, side: Side = "right") -> Float64Array:
        index = np.searchsorted(cumulative[1:], position, side=side)
        return problem.values[np.minimum(index, last)].astype(np.float64)

    return value


def _times(number: NDArray[np.intp], total: float) -> NDArray[Any]:
    """Multiply numbers of bins by a whole total; products that leave 64 bits are Python's."""
    if total < 2.0**31 or total * (number.max(initial=0) + 1.0) < 2.0**62:
        return number * int(total)
    return number.astype(object) * int(total)


def opening_positions(
    total: float, n_bins: int, whole: bool, *, down: bool = False
) -> Float64Array:
    """Cumulative weight at which each quantile bin opens; a number of rows if `whole`."""
    if not whole:
        return np.linspace(0.0, total, n_bins, endpoint=False)
    # In whole numbers: a product of floats may lie just below r N / B where that is a row.
    product = _times(np.arange(n_bins), total)
    row = product // n_bins
    rest = product - row * n_bins
    if not down:
        row += 2 * rest + row % 2 > n_bins  # a half goes to the even row
    return row.astype(np.float64)


def quantile_cuts(bins: Bins, total: float, whole: bool, n_rows: int) -> Float64Array:
    """Cumulative weight of a problem of `n_rows` rows at which a quantile bin gives way.

    With N the number of rows (the sum of weights), "edges" opens bin r at the score of row
    ``round(r N / B)``, halves to even; "floor" rounds down; "split" cuts the sorted scores into
    ``min(B, N)`` parts as `numpy.array_split` does and puts an edge half-way between neighbours.
    Rounding is to whole rows, so it applies where the weights are whole numbers.
    """
    if bins.method != "split":
        return opening_positions(total, bins.n_bins, whole, down=bins.method == "floor")[1:]
    parts = int(min(bins.n_bins, total if whole else n_rows))
    if not whole:
        return np.asarray(np.arange(1, parts) * (total / parts))
    short, longer = divmod(int(total), parts)
    return np.cumsum([short + 1] * longer + [short] * (parts - longer))[:-1]


def quantile_edges(bins: Bins, below: Float64Array, above: Float64Array) -> Float64Array:
    """Inner edges ``(n_bins - 1,)`` from the scores on either side of each cut."""
    if bins.method != "split":
        return above
    middle = (below + above) / 2
    return np.concatenate([middle, np.ones(bins.n_bins - 1 - middle.size)])


def edge_sides(bins: Bins) -> tuple[Side, Side]:
    """Return on which side to search scores for an edge, and edges for a score.

    "split" edges lie between scores and belong to the lower bin; the others are scores that open
    their bin.
    """
    return ("right", "left") if bins.method == "split" else ("left", "right")


def _table_by_edges(problem: SortedProblem, bins: Bins) -> BinTable:
    n, n_bins = problem.values.size, bins.n_bins
    shape = (1, n_bins)
    if n == 0:
        zero = np.zeros(shape)
        return BinTable(zero, np.ones(shape), zero.astype(np.int64), zero, zero, zero)
    cumulative = problem.cumulative_weight()
    value = _value_at(problem, cumulative)
    whole = problem.weights is None or is_whole(problem.weights)
    cuts = quantile_cuts(bins, cumulative[-1], whole, n)
    edges = quantile_edges(bins, value(cuts, "left"), value(cuts, "right"))
    own, other = edge_sides(bins)
    start = np.concatenate([[0], np.searchsorted(problem.values, edges, side=own), [n]])
    full = start[1:] > start[:-1]

    def sums(values: FloatArray) -> Float64Array:
        out = np.zeros(n_bins)
        out[full] = np.add.reduceat(values, start[:-1][full], dtype=np.float64)
        return out.reshape(shape)

    count = np.diff(start).reshape(shape)
    values, weights = problem.values, problem.weights
    cell = np.searchsorted(edges, problem.positives, side=other)
    return BinTable(
        np.concatenate([[0.0], edges]).reshape(shape),
        np.concatenate([edges, [1.0]]).reshape(shape),
        count,
        count.astype(np.float64) if weights is None else sums(weights),
        sums(values if weights is None else weights * values),
        np.bincount(cell, weights=problem.positive_weights, minlength=n_bins)
        .astype(np.float64)
        .reshape(shape),
    )


def rank_cuts(
    j: NDArray[np.intp], n_bins: int | NDArray[np.intp], total: float, whole: bool
) -> Float64Array:
    """Cumulative weight at which bin `j` of the "rank" method begins.

    Whole weights are cut between copies: rank i goes to bin floor(B i / N).
    """
    if whole:
        return np.asarray(-(-_times(j, total) // n_bins), dtype=np.float64)
    return np.asarray(j * (total / n_bins), dtype=np.float64)


def rank_table(
    score: FloatArray,
    hit: NDArray[np.bool_] | Float64Array,
    w: Float64Array | None,
    bins: Bins,
) -> BinTable:
    """Bin ``floor(B i / N)`` for rank i of a stable sort; a row of weight w spans w ranks.

    `hit` may be a share of hits.
    """
    n_bins = bins.n_bins
    weights = np.ones(score.size) if w is None else w
    order = np.argsort(score, kind="stable")
    values, weights = score[order].astype(np.float64), weights[order]
    cumulative = np.concatenate([[0.0], np.cumsum(weights)])
    cuts = rank_cuts(np.arange(n_bins + 1), n_bins, cumulative[-1], is_whole(weights))
    shape = (1, n_bins)

    def sums(values: Float64Array) -> Float64Array:
        running = np.concatenate([[0.0], np.cumsum(values)])
        return np.diff(np.interp(cuts, cumulative, running)).reshape(shape)

    if values.size == 0:
        left, right = np.zeros(n_bins), np.ones(n_bins)
    else:
        last = values.size - 1
        left = values[np.minimum(np.searchsorted(cumulative[1:], cuts[:-1], "right"), last)]
        right = values[np.minimum(np.searchsorted(cumulative[1:], cuts[1:], "left"), last)]
    return BinTable(
        left.reshape(shape),
        right.reshape(shape),
        np.diff(np.searchsorted(cumulative[:-1], cuts, side="left")).reshape(shape),
        np.diff(cuts).reshape(shape),
        sums(weights * values),
        sums(weights * hit[order]),
    )
