"""Binary problems of each class against the rest (one-vs-rest), with rows sorted by score.

Class k of a K-class problem has about n/K positive rows. After a column is sorted, the cumulative
score, quantile bins, isotonic blocks and the right-hand side of a least-squares spline need only
the ranks of the positive rows: one `numpy.searchsorted` of few values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from skcalib._arrays.rowwise import (
    COLUMN_BLOCK_BYTES,
    Float64Array,
    FloatArray,
    column_blocks,
    is_unit,
)
from skcalib._arrays.sources import Source, map_blocks
from skcalib._arrays.tensors import on_host
from skcalib._scores.scores import Scores

T = TypeVar("T")

# Size in bytes of blocks of sorted columns. They are smaller than other blocks, because several of
# them wait in a queue.
SORTED_BLOCK_BYTES = 1 << 21

# Largest relative difference of scores that count as equal: copies of a row that were predicted in
# different batches differ by the rounding of a matrix product.
TIE = 64 * np.finfo(np.float64).eps


class SortedProblem(NamedTuple):
    """Scores, outcomes and weights of a binary problem, with rows sorted by score.

    Attributes
    ----------
    values : ndarray of shape (n,)
        Scores in ascending order.
    weights : ndarray of shape (n,) or None
        Weights in the same order; None when all are 1.
    positives : ndarray of shape (n_positives,)
        Scores of the rows in which the event occurred, in ascending order.
    positive_weights : ndarray of shape (n_positives,) or None
        Weights of these rows; None when all are 1.
    log_odds : bool
        Whether the scores are log-odds, not probabilities.
    """

    values: FloatArray
    weights: Float64Array | None
    positives: FloatArray
    positive_weights: Float64Array | None
    log_odds: bool = False

    def proba(self) -> Float64Array:
        """Return the sorted scores as probabilities."""
        values = self.values.astype(np.float64, copy=False)
        return expit(values) if self.log_odds else values

    def cumulative_weight(self) -> Float64Array:
        """Return the cumulative weight of the sorted rows, starting with 0."""
        if self.weights is None:
            return np.arange(self.values.size + 1, dtype=np.float64)
        return np.concatenate([[0.0], np.cumsum(self.weights)])

    def weight_before(self, rows: NDArray[np.intp]) -> Float64Array:
        """Return the cumulative weight of the sorted rows before each row number in `rows`."""
        if self.weights is None:
            return rows.astype(np.float64)
        return self.cumulative_weight()[rows]

    def rises(self, least: float) -> NDArray[np.bool_]:
        """Return whether each score differs from the previous score, ``(n - 1,)``.

        Scores are equal if they differ by at most `TIE` times the larger of score and `least`.
        """
        values = self.values.astype(np.float64, copy=False)
        limit = np.maximum(np.abs(values[1:]), least)
        limit *= TIE
        return np.diff(values) > limit

    def total_weight(self) -> float:
        """Return the sum of the weights of all rows."""
        return float(self.values.size if self.weights is None else self.weights.sum())

    def above(self, threshold: float | None) -> SortedProblem:
        """Return the rows whose score is above `threshold`, rounded to the type of the scores."""
        if threshold is None:
            return self
        cut = self.values.dtype.type(threshold)
        start = np.searchsorted(self.values, cut, side="right")
        first = np.searchsorted(self.positives, cut, side="right")
        return SortedProblem(
            self.values[start:],
            None if self.weights is None else self.weights[start:],
            self.positives[first:],
            None if self.positive_weights is None else self.positive_weights[first:],
        )


def stable_order(values: FloatArray) -> NDArray[np.intp]:
    """Return the indices of a stable sort, which are the same on every machine.

    NumPy's default sort is several times faster and gives the same order, except among ties.
    """
    order = np.argsort(values)
    ascending = values[order]
    first = np.flatnonzero(ascending[1:] == ascending[:-1])
    if first.size > values.size // 8:
        return np.argsort(values, kind="stable")
    if first.size:
        tied = np.union1d(first, first + 1)
        order[tied] = order[tied][np.lexsort((order[tied], ascending[tied]))]
    return order


def sort_problem(
    score: FloatArray,
    positive: NDArray[Any],
    w: Float64Array | None,
    part: Float64Array | None = None,
    in_place: bool = False,
) -> SortedProblem:
    """Sort the rows of a binary problem by score.

    Parameters
    ----------
    score : ndarray of shape (n,)
    positive : ndarray of bool (n,), of row numbers, or of float64 (n,)
        The rows in which the event occurred, or the soft label of each row.
    w : ndarray of shape (n,) or None
        Weights; None when all are 1.
    part : ndarray of shape (n_positives,) or None
        Soft labels of the rows in `positive`, as fractions of their weights; None when all are 1.
    in_place : bool, default=False
        Whether `score` may be overwritten, which saves a copy.
    """
    if positive.dtype.kind == "f":
        part = positive[positive > 0]
        positive = positive > 0
    hits = score[positive]
    if w is None:
        score = score if in_place else score.copy()
        score.sort()
    if w is None and part is None:
        return SortedProblem(score, None, np.sort(hits), None)
    hit_order = stable_order(hits)
    hit_weights = np.ones(hits.size) if w is None else w[positive]
    if part is not None:
        hit_weights = hit_weights * part
    hits, hit_weights = hits[hit_order], hit_weights[hit_order]
    if w is None:
        return SortedProblem(score, None, hits, hit_weights)
    order = stable_order(score)
    return SortedProblem(score[order], w[order], hits, hit_weights)


def map_columns(
    function: Callable[[int, FloatArray], T], scores: Scores, first: int = 0
) -> Iterator[T]:
    """Yield ``function(k, probabilities of class k)`` for each class k from `first` on, in order.

    Columns are new arrays. They are computed block by block, in threads if there are many.
    """

    def read_block(block: FloatArray, columns: slice) -> list[T]:
        return [function(k, column) for k, column in enumerate(block, start=columns.start)]

    yield from chain.from_iterable(map_column_blocks(read_block, scores, first))


def map_column_blocks(
    kernel: Callable[[FloatArray, slice], T],
    scores: Scores,
    first: int = 0,
    block_bytes: int = COLUMN_BLOCK_BYTES,
    *,
    read: Literal["proba", "log_odds", "ordered"] = "proba",
    then: Callable[[T], Any] | None = None,
) -> Iterator[Any]:
    """Yield ``then(kernel(block, columns))`` for blocks of classes from `first` on, in order.

    A block is a new array ``(k, n)`` of probabilities, or of the numbers that `read` selects.
    Kernels run in threads, and `then` in the caller's thread.
    """
    n, n_classes = scores.shape
    remote = scores.source.remote
    if remote is None:
        blocks, reader = column_blocks(n, n_classes, block_bytes, first), scores.reader(read)
        results = scores.source.run(lambda some: kernel(reader(some), some), blocks, 1)
        yield from results if then is None else map(then, results)
        return

    def read_chunk(source: Source, columns: slice) -> FloatArray:
        return scores.of(source).reader(read)(columns)

    def use(numbers: FloatArray, start: int) -> list[Any]:
        k, n = numbers.shape
        blocks = column_blocks(n, start + k, block_bytes, start)

        def read_block(columns: slice) -> T:
            return kernel(numbers[columns.start - start : columns.stop - start].copy(), columns)

        results = map_blocks(read_block, blocks, 1)
        return list(results if then is None else map(then, results))

    dtype = np.dtype(np.float64) if read == "log_odds" else scores.dtype
    yield from remote.by_columns(read_chunk, use, scores.source, slice(first, n_classes), dtype)


def map_sorted(
    function: Callable[[SortedProblem], T],
    scores: Scores,
    code: NDArray[np.intp],
    w: Float64Array,
    first: int = 0,
    on_device: Callable[[Any], Iterable[T]] | None = None,
) -> Iterator[T]:
    """Yield ``function(problem)`` for the sorted problem of each class from `first` on, in order.

    `on_device` is described in `map_sorted_blocks`.
    """
    yield from map_sorted_blocks(
        lambda problems: list(map(function, problems)), scores, code, w, first, on_device
    )


def map_sorted_blocks(
    function: Callable[[list[SortedProblem]], list[T]],
    scores: Scores,
    code: NDArray[np.intp],
    w: Float64Array,
    first: int = 0,
    on_device: Callable[[Any], Iterable[T]] | None = None,
) -> Iterator[T]:
    """Yield the results of ``function(problems)`` for blocks of sorted one-vs-rest problems.

    Threads only sort. The caller's thread calls `function`, whose many short operations would be
    slower in threads. Probabilities on a device are sorted on the device if `on_device` is given,
    which computes the results of `function` from `SortedColumns`.
    """
    device = scores.source.on_device() if on_device and scores.kind == "proba" else None
    if device is not None and device.sums_in_order:
        weights = None if is_unit(w) else w
        yield from chain.from_iterable(device.map_sorted(on_device, code, weights, first))
        return
    code, w = on_host(code), on_host(w)
    weights, n_classes = None if is_unit(w) else w, scores.shape[1]
    log_odds = scores.kind == "logits"
    # Sort the row numbers by class. 16-bit integers are used because NumPy sorts them fast.
    order = np.argsort(code.astype(np.uint16) if n_classes <= 1 << 16 else code, kind="stable")
    members = np.split(order, np.cumsum(np.bincount(code, minlength=n_classes))[:-1])

    def sort(block: FloatArray, columns: slice) -> list[SortedProblem]:
        pairs = zip(block, members[columns], strict=True)
        problems = (sort_problem(column, rows, weights, in_place=True) for column, rows in pairs)
        return [problem._replace(log_odds=log_odds) for problem in problems]

    blocks = map_column_blocks(
        sort, scores.ordered(), first, SORTED_BLOCK_BYTES, read="ordered", then=function
    )
    yield from chain.from_iterable(blocks)
