"""Bin tables of one column of scores, and of every class against the rest."""

from __future__ import annotations

from functools import partial, reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skcalib._arrays.passes import LIGHT, add, merge_rows
from skcalib._arrays.source import Source, refuse_remote
from skcalib._arrays.tensors import is_tensor, joined, on_host, rows_of
from skcalib._arrays.types import Float64Array, FloatArray
from skcalib._binning.bins import Bins, BinTable, exceeds
from skcalib._binning.quantiles import rank_table, table_by_edges, tables_of_columns
from skcalib._scores.one_vs_rest import (
    SortedProblem,
    is_unit,
    map_columns,
    map_sorted,
    sort_problem,
)
from skcalib._scores.scores import Scores
from skcalib._validation.weights import is_whole


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
    """Table of ``n_groups`` problems in one column; `group` gives the problem of each row.

    `hit` is whether the event happened, or its share. Scores of quantile bins may be log-odds.
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
    """Sum rows into the cells ``problem * n_bins + bin`` of a uniform table."""
    r = rows_of(cell)

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
    """Table of the one-vs-rest problems, from class `first` on.

    Without `confidence`, scores are not summed for the first of the uniform bins, whose sum is then
    NaN; this takes a third of the time.
    """
    if bins.method == "uniform":
        kernel = partial(_uniform_of_chunk, scores=scores, threshold=threshold)
        kernel = partial(kernel, bins=bins, first=first, confidence=confidence)
        remote, source = scores.source.remote, scores.source
        return remote.total(kernel, source, (code, w)) if remote else kernel(source, code, w)
    if bins.method == "rank":
        code, w = on_host(code), on_host(w)

        def by_rank(k: int, column: FloatArray) -> BinTable:
            return flat_table(column, code == k, w, bins, threshold=threshold)

        return _stack(list(map_columns(by_rank, scores, first)))
    by_edges = partial(_table_above, threshold=threshold, bins=bins)
    on_device = None
    if bins.method == "edges":
        on_device = partial(tables_of_columns, bins=bins, threshold=threshold, whole=is_whole(w))
    return _stack(list(map_sorted(by_edges, scores, code, w, first, on_device)))


def _table_above(problem: SortedProblem, threshold: float | None, bins: Bins) -> BinTable:
    return table_by_edges(problem.above(threshold), bins)


def above_cut(
    block: FloatArray, rows: range, w: Float64Array | None, cut: np.floating, sums: bool
) -> tuple[Float64Array | None, NDArray[np.intp], FloatArray]:
    """Return column sums if asked for, and flat places and values of the entries above the cut."""
    r = rows_of(block)
    at, values = r.above(block, cut)
    return r.column_sums(block, w) if sums else None, at + rows.start * block.shape[1], values


# Entries above the first bin that are binned at a time, which bounds the memory.
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
    # Entries below the cut are dropped (threshold) or belong to the first bin. Those on it may too:
    # `sift` drops them.
    edge = bins.edges(scores.dtype)[1] if threshold is None else threshold
    cut = np.nextafter(scores.dtype.type(edge), scores.dtype.type(-1))
    unit = is_unit(w)

    def sift() -> BinTable:
        at, value = joined(places), joined(values)
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
    gathered = 0
    kernel = partial(above_cut, cut=cut, sums=threshold is None and confidence)
    weights = None if unit else w
    P = scores.as_proba()
    P = P.on_device() or P
    code, w = P.place(code), P.place(w)
    for sums, at, value in merge_rows(kernel, P, range(n), weights, merge=iter, work=LIGHT):
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
        _fill_first_bin(table, scores, code, w, bins, on_host(column_sum), first)
    return table


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
    refuse_remote(scores.source, "Quantile bins of the entries of all classes together")
    n_classes = scores.shape[1]
    score, code, w = scores.ordered().ordered_columns(slice(0, n_classes)), *map(on_host, (code, w))
    hit = np.arange(n_classes)[:, None] == code
    # A broadcast 1 needs no memory; other weights are repeated. Ties are split by rows.
    weight = np.broadcast_to(1.0, score.size) if is_unit(w) else np.repeat(w, n_classes)
    flat = partial(flat_table, threshold=threshold, log_odds=scores.kind == "logits")
    return flat(score.T.ravel(), hit.T.ravel(), weight, bins)


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
    positive = on_host(rows_of(code).totals(code, w, n_classes))[first:]
    table.count[:, 0] = n - table.count[:, 1:].sum(axis=1)
    for part, whole in (
        (table.weight, np.full(column_sum.shape, float(w.sum()))),
        (table.score_sum, column_sum),
        (table.hit_sum, positive),
    ):
        part[:, 0] = whole - part[:, 1:].sum(axis=1)
    # The subtraction is accurate only if the first bin has most of a column's entries. At most 2B
    # columns can have more than n/2 entries above the cut; their first bins are summed directly.
    few = np.flatnonzero(2 * table.count[:, 0] < n)
    code, w = (on_host(code), on_host(w)) if few.size else (code, w)
    for j in few:
        column = scores.proba_columns(slice(j + first, j + first + 1))[0]
        low = bins.uniform_index(column) == 0
        table.weight[j, 0] = w[low].sum()
        table.score_sum[j, 0] = w[low] @ column[low].astype(np.float64)
        table.hit_sum[j, 0] = w[low] @ (code[low] == j + first)
