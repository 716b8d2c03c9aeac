"""Binning of scores for calibration errors: edges of bins, and tables with the sums of each bin."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import Any, Literal

import numpy as np
from numpy.typing import DTypeLike, NDArray

from skcalib._arrays.rowwise import Bools, Float64Array, FloatArray, Intp, is_unit
from skcalib._arrays.sources import LIGHT, Source, add, merge_rows, refuse_remote
from skcalib._arrays.tensors import as_type_of, concatenate, is_tensor, on_host, ops_for
from skcalib._scores.one_vs_rest import (
    SortedProblem,
    map_columns,
    map_sorted,
    sort_problem,
    stable_order,
)
from skcalib._scores.scores import MOST_ODDS, Scores
from skcalib._validation.keywords import number_of_bins
from skcalib._validation.rows import is_whole

# Edges of bins, and the bin table of m binary problems.
#
# For problem j with scores :math:`s_i`, outcomes :math:`t_i \in \{0, 1\}` and weights :math:`w_i`,
# the table contains for bin b
#
# .. math:: W_{jb} = \sum_{i \in b} w_i, \quad
#           \mathrm{conf}_{jb} = \frac{1}{W_{jb}} \sum_{i \in b} w_i s_i, \quad
#           \mathrm{acc}_{jb} = \frac{1}{W_{jb}} \sum_{i \in b} w_i t_i .
#
# For uniform bins of all classes, small entries are not binned: a row has at most B entries above
# 1/B, and the sum of the first bin of a class is its column sum minus the sums of the other bins.
#
# A score of 3/10 is 0.3 rounded to its type: 0.30000001 in float32, above the float64 number 0.3.
# So edges and thresholds are rounded to the type of the scores before a comparison.


NumberOfBins = int | Literal["cube_root"]
Side = Literal["left", "right"]


@dataclass(frozen=True)
class Bins:
    """Settings of the bins: their number, and the method that computes their edges.

    ``method`` is "uniform" or a kind of quantile bins: "edges" (ties stay together, bins are closed
    on the left), "linear" (edges by `numpy.quantile`, bins are closed on the right), "rank" (equal
    counts by rank, ties are split), "split" (edges half-way between equal parts, bins are closed on
    the right) or "floor" ("edges" with the first rows of bins rounded down, as in the paper that
    introduced the thresholded adaptive calibration error). ``closed`` is the closed side of uniform
    bins. With ``cube_root``, the number of bins is the cube root of the number of rows.
    """

    n_bins: int = 15
    method: Literal["uniform", "edges", "linear", "rank", "split", "floor"] = "uniform"
    closed: Side = "right"
    cube_root: bool = False

    def resolve(self, w: Float64Array) -> Bins:
        """Replace "cube_root" by the number of bins for rows with the weights `w`."""
        if not self.cube_root:
            return self
        return replace(self, n_bins=number_of_bins("cube_root", w.sum()), cube_root=False)

    def edges(self, dtype: DTypeLike = np.float64) -> Float64Array:
        """Return the edges k/B of uniform bins on [0, 1], rounded to the type of the scores."""
        edges = np.arange(self.n_bins + 1.0) / self.n_bins
        return edges.astype(dtype).astype(np.float64, copy=False)

    def uniform_index(self, score: FloatArray) -> NDArray[np.intp]:
        """Return the uniform bin of each score: 0 is in the first bin, and 1 in the last bin."""
        r = ops_for(score)
        edges = self.edges(float_type(score))
        edges[0], edges[-1] = -np.inf, np.inf  # infinite edges: every score has a bin
        score = r.double(score)
        # The bin of a score is next to the nearest edge, even if the edge is rounded.
        nearest = r.round_to_int(score * self.n_bins)
        edge = as_type_of(edges, score).take(nearest)
        nearest -= 1  # PyTorch cannot subtract booleans
        nearest += score > edge if self.closed == "right" else score >= edge
        return nearest


@dataclass(frozen=True)
class BinTable:
    """Table of the sums of B bins of m binary problems: arrays ``(m, B)``, 0 for empty bins."""

    left: Float64Array
    right: Float64Array
    count: NDArray[np.int64]
    weight: Float64Array
    score_sum: Float64Array
    hit_sum: Float64Array

    @property
    def confidence(self) -> Float64Array:
        """Mean score of each bin, 0 for an empty bin."""
        return quotient(self.score_sum, self.weight)

    @property
    def accuracy(self) -> Float64Array:
        """Frequency of the event in each bin, 0 for an empty bin."""
        return quotient(self.hit_sum, self.weight)

    @property
    def gap(self) -> Float64Array:
        """Difference ``accuracy - confidence`` of each bin, 0 for an empty bin."""
        return quotient(self.hit_sum - self.score_sum, self.weight)

    def _sums(self) -> tuple[NDArray[Any], ...]:
        return self.count, self.weight, self.score_sum, self.hit_sum

    def __add__(self, other: BinTable) -> BinTable:
        """Add the sums of this bin table and of another bin table with the same edges."""
        sums = (a + b for a, b in zip(self._sums(), other._sums(), strict=True))
        return BinTable(self.left, self.right, *sums)

    def on_host(self) -> BinTable:
        """Return the bin table with NumPy arrays instead of tensors."""
        return BinTable(self.left, self.right, *map(on_host, self._sums()))

    def pooled(self) -> BinTable:
        """Add the bin tables of all binary problems, which must have the same edges."""
        sums = (part.sum(axis=0, keepdims=True) for part in self._sums())
        return BinTable(self.left[:1], self.right[:1], *sums)


def quotient(amount: Float64Array, weight: Float64Array) -> Float64Array:
    """Divide numbers by weights; the quotient is 0 where the weight is 0."""
    return np.divide(amount, weight, out=np.zeros(amount.shape), where=weight > 0)


def float_type(score: FloatArray) -> np.dtype[Any]:
    """Return the floating-point type of scores (an array or a tensor) as a NumPy dtype."""
    return np.dtype(f"f{score.itemsize}")


def exceeds(score: FloatArray, threshold: float) -> Bools:
    """Return which scores are above a threshold that is rounded to the type of the scores."""
    return score > float(float_type(score).type(threshold))


# Quantile bins: cutting sorted rows into bins, edges of the bins, and tables with sums over each
# bin.


# Two sums of weights count as equal if their difference is at most this fraction of the total
# weight.
ROUNDING = 1e-12


def _times(number: Intp, total: float) -> NDArray[Any]:
    """Multiply integers by the total weight, as Python integers if products exceed 64 bits."""
    if total < 2.0**31 or total * (number.max(initial=0) + 1.0) < 2.0**62:
        return number * int(total)
    return number.astype(object) * int(total)


def quantile_cuts(bins: Bins, total: float, are_whole: bool, n_rows: int) -> Float64Array:
    """Return the cumulative weights at which `n_rows` sorted rows are cut into quantile bins.

    N is the number of rows (the sum of weights). "edges" starts bin r at the score of row
    ``round(r N / B)``, halves to even, and "floor" rounds down. "split" cuts the sorted scores into
    ``min(B, N)`` parts like `numpy.array_split`, with edges half-way between neighbouring scores.
    Cuts are rounded to whole rows only if the weights are whole numbers.
    """
    parts = bins.n_bins
    if bins.method == "split":
        parts = int(min(parts, total if are_whole else n_rows))
    if not are_whole:
        return np.linspace(0.0, total, parts, endpoint=False)[1:]
    if bins.method == "split":
        short, longer = divmod(int(total), parts)
        return np.cumsum([short + 1] * longer + [short] * (parts - longer))[:-1]
    # The rows at which the sorted rows are cut are computed with integers, because floats may be
    # just below a whole number.
    product = _times(np.arange(1, parts), total)
    row = product // parts
    if bins.method == "edges":
        row += 2 * (product - row * parts) + row % 2 > parts  # halves are rounded to even numbers
    return row.astype(np.float64)


def edge_sides(bins: Bins) -> tuple[Side, Side]:
    """Return the `side` of `numpy.searchsorted` for edges among scores, and scores among edges.

    A "split" or "linear" edge may be between scores, and belongs to the lower bin. Other edges are
    the first scores of their bins.
    """
    return ("right", "left") if bins.method in ("split", "linear") else ("left", "right")


def bin_index(score: FloatArray, edges: Float64Array, bins: Bins) -> Intp:
    """Return the bin of each score; quantile bins need the inner edges of the bins."""
    if bins.method == "uniform":
        return bins.uniform_index(score)
    return np.searchsorted(edges, score, side=edge_sides(bins)[1])


def linear_edges(
    values: Float64Array, cumulative: Float64Array, n_bins: int, are_whole: bool
) -> Float64Array:
    """Return the inner edges of `n_bins` quantile bins, by `numpy.percentile` with weights.

    A whole weight is a number of copies. With relative weights, a row covers the ranks from its
    start up to its weight minus 1.
    """
    # Edges are computed with the same operations as in scikit-learn and NumPy, because the rounding
    # of an edge near a score decides on the bin of the score.
    rank = np.linspace(0.0, 1.0, n_bins + 1)[1:-1] * 100 / 100 * (cumulative[-1] - 1.0)
    start, stop = cumulative[:-1], cumulative[1:]
    if not are_whole:
        ends = np.column_stack([start, np.maximum(stop - 1.0, start)])
        return np.interp(rank, ends.ravel(), np.repeat(values, 2))
    row = np.floor(rank)
    index = np.searchsorted(stop, [row, row + 1], side="right")
    low, high = values[np.minimum(index, values.size - 1)]
    share, step = rank - row, high - low
    return np.where(share < 0.5, low + step * share, high - step * (1.0 - share))


def table_of_one(*parts: NDArray[Any]) -> BinTable:
    """Return the bin table of a single binary problem from arrays with one entry for each bin."""
    return BinTable(*(part[None] for part in parts))


def table_by_edges(problem: SortedProblem, bins: Bins) -> BinTable:
    """Return the table of quantile bins that are defined by edges; equal scores share a bin."""
    n, n_bins = problem.values.size, bins.n_bins
    lowest, highest = (-MOST_ODDS, MOST_ODDS) if problem.log_odds else (0.0, 1.0)
    if n == 0:
        zero = np.zeros(n_bins)
        return table_of_one(zero, np.ones(n_bins), zero.astype(np.int64), zero, zero, zero)
    cumulative = problem.cumulative_weight()

    are_whole = problem.weights is None or is_whole(problem.weights)
    # Rounding errors in sums of relative weights must not decide which bin a row is in.
    slack = 0.0 if are_whole else ROUNDING * cumulative[-1]

    def value(position: Float64Array, side: Side) -> Float64Array:
        position = position + (slack if side == "right" else -slack)
        index = np.searchsorted(cumulative[1:], position, side=side)
        return problem.values[np.minimum(index, n - 1)].astype(np.float64)

    if bins.method == "linear":
        scores = problem.values.astype(np.float64, copy=False)
        edges = linear_edges(scores, cumulative, n_bins, are_whole)
    else:
        cuts = quantile_cuts(bins, cumulative[-1], are_whole, n)
        edges = value(cuts, "right")
    if bins.method == "split":
        middle = (value(cuts, "left") + edges) / 2
        edges = np.concatenate([middle, np.ones(n_bins - 1 - middle.size)])
    of_edges, of_scores = edge_sides(bins)
    start = np.concatenate([[0], np.searchsorted(problem.values, edges, side=of_edges), [n]])
    full = start[1:] > start[:-1]

    def sums(values: FloatArray) -> Float64Array:
        out = np.zeros(n_bins)
        out[full] = np.add.reduceat(values, start[:-1][full], dtype=np.float64)
        return out

    count = np.diff(start)
    values, weights = problem.values, problem.weights
    cell = np.searchsorted(edges, problem.positives, side=of_scores)
    ends = np.concatenate([[lowest], edges, [highest]])
    return table_of_one(
        ends[:-1],
        ends[1:],
        count,
        count.astype(np.float64) if weights is None else sums(weights),
        sums(values if weights is None else weights * values),
        np.bincount(cell, weights=problem.positive_weights, minlength=n_bins).astype(np.float64),
    )


def tables_of_columns(
    columns: Any, bins: Bins, threshold: float | None, are_whole: bool
) -> list[BinTable]:
    """Return the quantile-bin tables of sorted tensor columns, for scores above a threshold."""

    def cuts(weights: Float64Array) -> Float64Array:
        totals, index = np.unique(weights, return_inverse=True)
        return np.array([quantile_cuts(bins, total, are_whole, 0) for total in totals])[index]

    edges, count, *sums = columns.quantile_sums(cuts, 0.0 if are_whole else ROUNDING, threshold)
    left, right = np.insert(edges, 0, 0.0, axis=1), np.insert(edges, bins.n_bins - 1, 1.0, axis=1)
    empty = count.sum(axis=1) == 0
    left[empty], right[empty] = 0.0, 1.0
    return [BinTable(left, right, count.astype(np.int64), *sums)]


def rank_cuts(j: Intp, n_bins: int | Intp, total: float, are_whole: bool) -> Float64Array:
    """Return the cumulative weight at which bin `j` of the "rank" binning method starts.

    Rank i belongs to bin floor(B i / N). Whole weights are cut between copies of a row.
    """
    if are_whole:
        return np.asarray(-(-_times(j, total) // n_bins), dtype=np.float64)
    return np.asarray(j * (total / n_bins), dtype=np.float64)


def rank_table(
    score: FloatArray, hit: Bools | Float64Array, w: Float64Array | None, bins: Bins
) -> BinTable:
    """Return the bin table of the "rank" method: rank i of N is in bin ``floor(B i / N)`` of B.

    A row of weight w has w ranks. `hit` may be a soft label.
    """
    n_bins = bins.n_bins
    weights = np.ones(score.size) if w is None else w
    order = stable_order(score)
    values, weights = score[order].astype(np.float64), weights[order]
    cumulative = np.concatenate([[0.0], np.cumsum(weights)])
    cuts = rank_cuts(np.arange(n_bins + 1), n_bins, cumulative[-1], is_whole(weights))

    def sums(values: Float64Array) -> Float64Array:
        running = np.concatenate([[0.0], np.cumsum(values)])
        return np.diff(np.interp(cuts, cumulative, running))

    if values.size == 0:
        left, right = np.zeros(n_bins), np.ones(n_bins)
    else:
        last = values.size - 1
        left = values[np.minimum(np.searchsorted(cumulative[1:], cuts[:-1], "right"), last)]
        right = values[np.minimum(np.searchsorted(cumulative[1:], cuts[1:], "left"), last)]
    return table_of_one(
        left,
        right,
        np.diff(np.searchsorted(cumulative[:-1], cuts, side="left")),
        np.diff(cuts),
        sums(weights * values),
        sums(weights * hit[order]),
    )


# Bin tables of a single column of scores, and of each class against the rest (one-vs-rest).


def _stack(rows: list[BinTable]) -> BinTable:
    parts = zip(*(vars(row).values() for row in rows), strict=True)
    return BinTable(*map(np.concatenate, parts))


def flat_table(
    score: FloatArray,
    hit: NDArray[Any],
    w: Float64Array,
    bins: Bins,
    *,
    group: NDArray[np.intp] | None = None,
    n_groups: int = 1,
    threshold: float | None = None,
    log_odds: bool = False,
) -> BinTable:
    """Return the bin table of a column of scores, with a row of bins for each group of rows.

    `group` is the problem of each row. `hit` is whether the event occurred, or a soft label. Scores
    in quantile bins may be log-odds.
    """
    if bins.method != "uniform":
        score, hit, w, group = map(on_host, (score, hit, w, group))
    if threshold is not None:
        above = exceeds(score, threshold)
        score, hit, w = score[above], hit[above], w[above]
        group = None if group is None else group[above]
    weights = None if is_unit(w) else w
    if bins.method == "uniform":
        cell = bins.uniform_index(score)
        if group is not None:
            cell += group * bins.n_bins
        table = _from_cells(cell, score, hit, weights, bins, n_groups)
        return table.on_host() if is_tensor(cell) else table
    parts: list[Any] = [slice(None)]
    if group is not None:
        order = np.argsort(group, kind="stable")
        parts = np.split(order, np.searchsorted(group[order], np.arange(1, n_groups)))
    tables = []
    for part in parts:
        problem = score[part], hit[part], None if weights is None else w[part]
        if bins.method == "rank":
            tables.append(rank_table(*problem, bins))
        else:
            ordered = sort_problem(*problem)._replace(log_odds=log_odds)
            tables.append(table_by_edges(ordered, bins))
    return tables[0] if group is None else _stack(tables)


def _from_cells(
    cell: NDArray[np.intp],
    score: FloatArray,
    hit: NDArray[Any],
    w: Float64Array | None,
    bins: Bins,
    m: int,
) -> BinTable:
    """Sum rows in uniform bins; `cell` is ``problem * n_bins + bin`` for each row."""
    r = ops_for(cell)

    def sums(values: Any) -> Any:
        return r.totals(cell, values, m * bins.n_bins).reshape(m, bins.n_bins)

    edges, count = bins.edges(), sums(None)
    return BinTable(
        edges[None, :-1].repeat(m, axis=0),
        edges[None, 1:].repeat(m, axis=0),
        count,
        r.double(count) if w is None else sums(w),
        sums(score if w is None else w * score),
        sums(hit if w is None else w * hit),
    )


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
    """Return the bin table of each class against the rest, from class `first` on.

    Without `confidence`, the sum of scores in the first uniform bin is NaN, which takes a third of
    the time.
    """
    if bins.method == "uniform":
        kernel = partial(_uniform_of_chunk, scores=scores, threshold=threshold)
        kernel = partial(kernel, bins=bins, first=first, confidence=confidence)
        remote, source = scores.source.remote, scores.source
        return remote.total(kernel, source, (code, w)) if remote else kernel(source, code, w)
    if bins.method == "rank":
        code, w = on_host(code), on_host(w)

        def table_by_rank(k: int, column: FloatArray) -> BinTable:
            return flat_table(column, code == k, w, bins, threshold=threshold)

        return _stack(list(map_columns(table_by_rank, scores, first)))

    def by_edges(problem: SortedProblem) -> BinTable:
        return table_by_edges(problem.above(threshold), bins)

    on_device = None
    if bins.method == "edges":
        on_device = partial(
            tables_of_columns, bins=bins, threshold=threshold, are_whole=is_whole(w)
        )
    return _stack(list(map_sorted(by_edges, scores, code, w, first, on_device)))


# Number of probabilities above the first bin that are binned at a time, which bounds the memory.
GATHERED = 1 << 20


def _uniform_of_chunk(
    _: Source,
    code: NDArray[np.intp],
    w: Float64Array,
    scores: Scores,
    bins: Bins,
    threshold: float | None,
    first: int,
    confidence: bool,
) -> BinTable:
    n, n_classes = scores.shape
    m = n_classes - first
    # The cut is the largest number below the upper edge of the first bin, or below the threshold.
    # Entries up to the cut belong to the first bin, or are dropped because of the threshold. `sift`
    # compares the entries above the cut exactly, because an entry at the edge may belong to either
    # side.
    edge = bins.edges(scores.dtype)[1] if threshold is None else threshold
    cut = np.nextafter(scores.dtype.type(edge), scores.dtype.type(-1))
    unit = is_unit(w)

    def sift() -> BinTable:
        at, value = concatenate(places), concatenate(values)
        row = at // n_classes
        column, index = at - row * n_classes, bins.uniform_index(value)
        above = index > 0 if threshold is None else exceeds(value, threshold)
        above &= column >= first
        row, column, value, index = row[above], column[above], value[above], index[above]
        cell = (column - first) * bins.n_bins + index
        return _from_cells(cell, value, code[row] == column, None if unit else w[row], bins, m)

    column_sum: Any = 0.0 if confidence else np.full(m, np.nan)
    tables: list[BinTable] = []
    places: list[NDArray[np.intp]] = []
    values: list[FloatArray] = []
    sums_columns, weights, gathered = threshold is None and confidence, None if unit else w, 0

    def above_cut(block: FloatArray, rows: range, w: Float64Array | None) -> tuple[Any, ...]:
        r = ops_for(block)
        at, values = r.above(block, cut)
        sums = r.column_sums(block, w) if sums_columns else None
        return sums, at + rows.start * n_classes, values

    P = scores.as_proba()
    P = P.on_device() or P
    code, w = P.rows_to_device(code), P.rows_to_device(w)

    def fill_first_bin(table: BinTable) -> None:
        """Compute the sums of the first bins by subtracting other bins from the column sums."""
        totals = on_host(column_sum)
        positive = on_host(ops_for(code).totals(code, w, n_classes))[first:]
        table.count[:, 0] = n - table.count[:, 1:].sum(axis=1)
        table.weight[:, 0] = float(w.sum()) - table.weight[:, 1:].sum(axis=1)
        table.score_sum[:, 0] = totals - table.score_sum[:, 1:].sum(axis=1)
        table.hit_sum[:, 0] = positive - table.hit_sum[:, 1:].sum(axis=1)
        # The sum of the first bin is the column sum minus the sums of the other bins. This
        # difference is accurate only if the first bin has most of the entries of a column. At most
        # 2B columns can have more than n/2 entries in other bins. For these columns, the first bin
        # is summed directly.
        few = np.flatnonzero(2 * table.count[:, 0] < n)
        label, weight = (on_host(code), on_host(w)) if few.size else (code, w)
        for j in few:
            column = scores.proba_columns(slice(j + first, j + first + 1))[0]
            low = bins.uniform_index(column) == 0
            table.weight[j, 0] = weight[low].sum()
            table.score_sum[j, 0] = weight[low] @ column[low].astype(np.float64)
            table.hit_sum[j, 0] = weight[low] @ (label[low] == j + first)

    for sums, at, value in merge_rows(above_cut, P, range(n), weights, merge=iter, work=LIGHT):
        if sums is not None:
            column_sum = column_sum + sums[first:]
        if gathered > max(GATHERED, m * bins.n_bins):
            tables = [reduce(add, [*tables, sift()])]
            places, values, gathered = [], [], 0
        places.append(at)
        values.append(value)
        gathered += len(at)
    table = reduce(add, [*tables, sift()]).on_host()
    if threshold is None:
        fill_first_bin(table)
    return table


def pooled_table(
    scores: Scores,
    code: NDArray[np.intp],
    w: Float64Array,
    bins: Bins,
    *,
    threshold: float | None = None,
) -> BinTable:
    """Return the bin table of all n K probabilities as one binary problem (micro average)."""
    if bins.method == "uniform":
        return columns_table(scores, code, w, bins, threshold=threshold).pooled()
    refuse_remote(scores.source, "Quantile bins of the probabilities of all classes together")
    n_classes = scores.shape[1]
    score, code, w = scores.ordered().ordered_columns(slice(0, n_classes)), *map(on_host, (code, w))
    hit = np.arange(n_classes)[:, None] == code
    # A weight of 1 is broadcast and needs no memory. Other weights are repeated for each class. The
    # entries of a row follow each other, because ties are split in the order of the entries.
    weight = np.broadcast_to(1.0, score.size) if is_unit(w) else np.repeat(w, n_classes)
    flat = partial(flat_table, threshold=threshold, log_odds=scores.kind == "logits")
    return flat(score.T.ravel(), hit.T.ravel(), weight, bins)
