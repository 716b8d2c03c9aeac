"""Quantile bins: their cuts, edges and tables."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from skcalib._arrays.types import Bools, Float64Array, FloatArray, Intp
from skcalib._binning.bins import Bins, BinTable, Side
from skcalib._scores.one_vs_rest import SortedProblem, stable_order
from skcalib._scores.scores import MOST_ODDS
from skcalib._validation.weights import is_whole

# Sums of weights closer than this, as a share of all weight, are equal up to rounding.
ROUNDING = 1e-12


def _times(number: Intp, total: float) -> NDArray[Any]:
    """Multiply bin numbers by a whole total; use Python integers if products exceed 64 bits."""
    if total < 2.0**31 or total * (number.max(initial=0) + 1.0) < 2.0**62:
        return number * int(total)
    return number.astype(object) * int(total)


def quantile_cuts(bins: Bins, total: float, whole: bool, n_rows: int) -> Float64Array:
    """Cumulative weights at which a problem of `n_rows` rows is cut into quantile bins.

    With N the number of rows (the sum of weights), "edges" starts bin r at the score of row
    ``round(r N / B)``, halves to even; "floor" rounds down; "split" cuts the sorted scores into
    ``min(B, N)`` parts like `numpy.array_split` and puts edges half-way between neighbours.
    Cuts are rounded to whole rows only if the weights are whole numbers.
    """
    parts = bins.n_bins
    if bins.method == "split":
        parts = int(min(parts, total if whole else n_rows))
    if not whole:
        return np.linspace(0.0, total, parts, endpoint=False)[1:]
    if bins.method == "split":
        short, longer = divmod(int(total), parts)
        return np.cumsum([short + 1] * longer + [short] * (parts - longer))[:-1]
    # Integers, because a product of floats may be just below r N / B when that is a whole number.
    product = _times(np.arange(1, parts), total)
    row = product // parts
    if bins.method == "edges":
        row += 2 * (product - row * parts) + row % 2 > parts  # a half goes to the even row
    return row.astype(np.float64)


def edge_sides(bins: Bins) -> tuple[Side, Side]:
    """Return the `numpy.searchsorted` side for edges in scores, and for scores in edges.

    A "split" or "linear" edge may lie between scores and belongs to the lower bin; other edges are
    scores, the first ones of their bins.
    """
    return ("right", "left") if bins.method in ("split", "linear") else ("left", "right")


def bin_index(score: FloatArray, edges: Float64Array, bins: Bins) -> Intp:
    """Return the bin of each score; `edges` are those between quantile bins."""
    if bins.method == "uniform":
        return bins.uniform_index(score)
    return np.searchsorted(edges, score, side=edge_sides(bins)[1])


def linear_edges(
    values: Float64Array, cumulative: Float64Array, n_bins: int, whole: bool
) -> Float64Array:
    """Return `numpy.percentile` of sorted values; of a whole weight, as many copies.

    Of relative weights, a row covers the ranks up to its weight less 1.
    """
    # By the operations of scikit-learn and NumPy: an edge that is rounded to a score decides on
    # the bin of the score.
    rank = np.linspace(0.0, 1.0, n_bins + 1)[1:-1] * 100 / 100 * (cumulative[-1] - 1.0)
    start, stop = cumulative[:-1], cumulative[1:]
    if not whole:
        ends = np.column_stack([start, np.maximum(stop - 1.0, start)])
        return np.interp(rank, ends.ravel(), np.repeat(values, 2))
    row = np.floor(rank)
    place = np.searchsorted(stop, [row, row + 1], side="right")
    low, high = values[np.minimum(place, values.size - 1)]
    share, step = rank - row, high - low
    return np.where(share < 0.5, low + step * share, high - step * (1.0 - share))


def table_of_one(*parts: NDArray[Any]) -> BinTable:
    """Return the table of one problem, of arrays ``(B,)``."""
    return BinTable(*(part[None] for part in parts))


def table_by_edges(problem: SortedProblem, bins: Bins) -> BinTable:
    """Table of quantile bins whose edges are scores, so that ties stay together."""
    n, n_bins = problem.values.size, bins.n_bins
    lowest, highest = (-MOST_ODDS, MOST_ODDS) if problem.log_odds else (0.0, 1.0)
    if n == 0:
        zero = np.zeros(n_bins)
        return table_of_one(zero, np.ones(n_bins), zero.astype(np.int64), zero, zero, zero)
    cumulative = problem.cumulative_weight()

    whole = problem.weights is None or is_whole(problem.weights)
    # Rounding of sums of relative weights must not decide on which side of a cut a row lies.
    slack = 0.0 if whole else ROUNDING * cumulative[-1]

    def value(position: Float64Array, side: Side) -> Float64Array:
        position = position + (slack if side == "right" else -slack)
        index = np.searchsorted(cumulative[1:], position, side=side)
        return problem.values[np.minimum(index, n - 1)].astype(np.float64)

    if bins.method == "linear":
        scores = problem.values.astype(np.float64, copy=False)
        edges = linear_edges(scores, cumulative, n_bins, whole)
    else:
        cuts = quantile_cuts(bins, cumulative[-1], whole, n)
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
    columns: Any, bins: Bins, threshold: float | None, whole: bool
) -> list[BinTable]:
    """Return the table of "edges" bins of some `SortedColumns`, of scores above the threshold."""

    def cuts(weights: Float64Array) -> Float64Array:
        totals, place = np.unique(weights, return_inverse=True)
        return np.array([quantile_cuts(bins, total, whole, 0) for total in totals])[place]

    edges, count, *sums = columns.quantile_sums(cuts, 0.0 if whole else ROUNDING, threshold)
    left, right = np.insert(edges, 0, 0.0, axis=1), np.insert(edges, bins.n_bins - 1, 1.0, axis=1)
    empty = count.sum(axis=1) == 0
    left[empty], right[empty] = 0.0, 1.0
    return [BinTable(left, right, count.astype(np.int64), *sums)]


def rank_cuts(j: Intp, n_bins: int | Intp, total: float, whole: bool) -> Float64Array:
    """Cumulative weight at which bin `j` of the "rank" method starts.

    Rank i belongs to bin floor(B i / N); whole weights are cut between copies of a row.
    """
    if whole:
        return np.asarray(-(-_times(j, total) // n_bins), dtype=np.float64)
    return np.asarray(j * (total / n_bins), dtype=np.float64)


def rank_table(
    score: FloatArray, hit: Bools | Float64Array, w: Float64Array | None, bins: Bins
) -> BinTable:
    """Table with bin ``floor(B i / N)`` for rank i of a stable sort; weight w is w ranks.

    `hit` may be a fraction.
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
