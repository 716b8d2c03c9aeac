r"""Errors that depend on the labels through the hits of cells: binned errors, KS.

Scores, weights and cells stay the same when other labels are drawn. With :math:`H_c` the weight of
the hits in cell c, :math:`S_c` the weighted sum of its scores and :math:`W_c` its weight, the error
is a function of H, S and W. With a truth q in place of labels, :math:`H_c = \sum_{i \in c} w_i q_i`
gives the limit of many rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skcalib._arrays.passes import ROWS, sum_rows
from skcalib._arrays.source import Source, as_source
from skcalib._arrays.types import Float64Array, FloatArray, Intp
from skcalib.metrics._clusters import number_of
from skcalib.metrics._intervals.label_error import (
    ENTRIES,
    LabelError,
    Simulated,
    every_of,
    sets_at_once,
)
from skcalib.metrics._intervals.scored_rows import ScoredRows

# The error ``(..., m)`` of tables H ``(..., problems, cells)``, S and W ``(problems, cells)``.
Close = Callable[[Float64Array, Float64Array, Float64Array], Float64Array]
# Codes of classes, or hits of scored rows.
Labels = NDArray[Any]

# The hits of cells are drawn if there are at least this many rows per cell.
ROWS_PER_CELL = 16
# Hits of cells with a larger variance are normal.
NORMAL = 9.0


@dataclass(eq=False, repr=False)
class Cells:
    """Cells ``(problems, cells)`` of the probabilities of all classes, or of a score of each row.

    Parameters
    ----------
    place : ndarray of shape (n, K) or (n, 1)
        ``j * (cells + 1) + c`` for cell c of problem j; cell `cells` is left out.
    scores : Source of the same shape
    w : ndarray of shape (n,)
    shape : tuple of int
        Number of problems and of cells.
    rows : ScoredRows or None
        The rows, in their order, if each has one score.

    Attributes
    ----------
    part : Cells or None
        Those of the rows for which labels are drawn; None if they are all.
    """

    place: NDArray[np.integer]
    scores: Source
    w: Float64Array
    shape: tuple[int, int]
    rows: ScoredRows | None = None

    def __post_init__(self) -> None:
        place, rows = self.place, self.rows
        self.first = np.arange(0, place.size, place.shape[1])
        every = every_of(len(place))
        self.part = None
        if every > 1:
            drawn = np.flatnonzero(self.in_order(np.arange(len(place))) % every == 0)
            some = None if rows is None else rows.take(drawn, every)
            self.part = Cells(place[drawn], self.scores, self.w[drawn], self.shape, some)

    def expected(self, q: FloatArray, group: Intp | None = None, step: int = 1) -> Float64Array:
        """Return the expected weight of the hits ``(groups, problems, cells)``."""
        chances = q if self.rows is None else self.rows.chances(q)
        return self.sums(as_source(chances), group, step)

    def weights(self, group: Intp | None = None, step: int = 1) -> Float64Array:
        """Return the weight of all scores ``(groups, problems, cells)``."""
        return self.sums(as_source(np.broadcast_to(1.0, self.place.shape)), group, step)

    def hits(self, labels: Labels, group: Intp | None = None) -> Float64Array:
        """Return the weight of the hits ``(R, problems, cells)`` of codes, or of drawn hits.

        Of groups it is ``(R groups, problems, cells)``.
        """
        problems, cells = self.shape
        size, of_rows = problems * (cells + 1), self.rows is not None
        width = size if group is None else number_of(group) * size
        sets: Any = labels if self.rows is None or labels.dtype == bool else self.rows.hits(labels)
        H = np.empty((len(sets), width))
        # Sets of few rows are counted at once, each in a table of its own.
        step = sets_at_once(64 * self.w.size)
        shift = np.arange(0, step * width, width)[:, None] + (0 if group is None else group * size)
        for start in range(0, len(sets), step):
            some, rows = sets[start : start + step], H[start : start + step]
            place = self.place[:, 0] if of_rows else self.hit_places(some)
            w = self.w * some if of_rows else np.broadcast_to(self.w, some.shape)
            at = (place + shift[: len(some)]).ravel()
            rows[:] = np.bincount(at, w.ravel(), rows.size).reshape(rows.shape)
        return H.reshape(-1, problems, cells + 1)[..., :cells]

    def in_order(self, rows: Intp) -> Intp:
        """Return a number of each row ``(n,)``, such as its group, in the order of `place`."""
        return rows if self.rows is None else rows[self.rows.order]

    def hit_places(self, code: NDArray[np.integer]) -> NDArray[np.integer]:
        """Return the place ``(..., n)`` of the hit of each row."""
        # One index into the flat table takes a tenth of the time of a pair of them.
        return self.place.ravel().take(self.first + code)

    def draw_hits(
        self, chances: FloatArray, n_sets: int, random: np.random.Generator
    ) -> Iterator[Float64Array]:
        r"""Yield the weight of the hits ``(R, problems, cells)`` of rows of equal weight.

        Hits of probabilities :math:`q_i` are drawn as one binomial number of the same mean and
        variance, of :math:`(\sum q_i)^2 / \sum q_i^2` trials, rounded up or down at random, with
        probability :math:`\sum q_i^2 / \sum q_i`; as a normal one where they vary much.
        """
        weight = float(self.w[0])
        mean, squares = (self.sums(as_source(x))[0] / weight for x in (chances, chances**2))
        spread = np.maximum(mean - squares, 0.0)
        wide = spread > NORMAL
        narrow = ~wide & (mean > 0)
        share = np.minimum(squares[narrow] / mean[narrow], 1.0)
        trials = mean[narrow] / np.maximum(share, np.finfo(float).tiny)
        step = sets_at_once(mean.size)
        for start in range(0, n_sets, step):
            H = np.zeros((min(step, n_sets - start), *self.shape))
            normal = random.standard_normal((len(H), int(wide.sum())))
            H[:, wide] = mean[wide] + normal * np.sqrt(spread[wide])
            whole = np.floor(trials + random.random((len(H), trials.size))).astype(np.int64)
            H[:, narrow] = random.binomial(whole, share)
            yield weight * H

    def sums(self, amounts: Source, group: Intp | None = None, step: int = 1) -> Float64Array:
        """Return the sums ``(groups, problems, cells)`` of amounts as the scores.

        `group` is that of each row, None for one group; `step` cells are joined.
        """
        problems, cells = self.shape
        n_groups = 1 if group is None else number_of(group)
        shape = (n_groups, problems, -(-cells // step) + 1)
        kernel = partial(sum_places, cells=cells + 1, shape=shape)
        # No block is smaller than the table that is made of it.
        least = math.prod(shape) // amounts.shape[1] if n_groups > 1 else 1
        work = ROWS._replace(least_rows=max(1, least))
        sums = sum_rows(kernel, amounts, self.place, self.w, group, work=work)
        return np.asarray(sums.reshape(shape)[..., :-1])


def cells_of_classes(
    columns: Iterable[NDArray[np.integer]], P: Source, w: Float64Array, shape: tuple[int, int]
) -> Cells:
    """Return cells of all classes, of one problem each or of one in all, from those of columns.

    Places are stored in as many bits as they take.
    """
    problems, cells = shape
    place = np.empty(P.shape, dtype=np.min_scalar_type(problems * (cells + 1)))
    for k, column in enumerate(columns):
        place[:, k] = (k if problems > 1 else 0) * (cells + 1) + column
    return Cells(place, P, w, shape)


def cells_of_rows(rows: ScoredRows, index: NDArray[np.integer], shape: tuple[int, int]) -> Cells:
    """Return cells of scored rows; `index` has their places."""
    return Cells(index[:, None], as_source(rows.score[:, None]), rows.w, shape, rows)


def sum_places(
    block: FloatArray,
    place: NDArray[np.integer],
    w: Float64Array,
    group: Intp | None,
    cells: int,
    shape: tuple[int, int, int],
) -> Float64Array:
    """Return the sums over a block by group, problem and joined cell, flat."""
    _, problems, joined = shape
    if joined < cells:
        j, c = np.divmod(place.astype(np.intp), cells)
        place = j * joined + c * (joined - 1) // (cells - 1)
    if group is not None:
        place = place + (group * (problems * joined))[:, None]
    weights = (w[:, None] * block).ravel()
    return np.asarray(np.bincount(place.ravel(), weights, math.prod(shape)), dtype=np.float64)


class CellError(LabelError):
    """An error by cells.

    Parameters
    ----------
    cells : Cells
    close : callable
        The error of labels.
    close_limit : callable, default=None
        The error of a truth; None if it is the same function.
    has_excess : bool, default=True
        Whether the jackknife finds what few rows add to the error of a truth: not of quantiles.
    """

    def __init__(
        self, cells: Cells, close: Close, close_limit: Close | None = None, has_excess: bool = True
    ) -> None:
        self.cells = cells
        self.every = every_of(len(cells.place))
        self.close = close
        self.has_excess = has_excess
        self.close_limit = close if close_limit is None else close_limit
        self.W = cells.weights()[0]
        self.S = cells.sums(cells.scores)[0]
        self._without: tuple[Float64Array, Float64Array] | None = None

    def observed(self, code: NDArray[np.integer]) -> Float64Array:
        """Return the errors ``(m,)`` of labels of all rows."""
        return self.close(self.cells.hits(code[None]), self.S, self.W)[0]

    def limits(self, q: FloatArray) -> Float64Array:
        """Return the errors ``(m,)`` of a truth."""
        return self.close_limit(self.cells.expected(q), self.S, self.W)[0]

    def values(self, q: FloatArray, codes: Labels) -> Float64Array:
        r"""Return the errors ``(R, m)`` of sets of labels, or of hits of scored rows.

        They may be those of a part of the rows. The hits of all rows then deviate from their
        expectation by :math:`\sqrt{n / n_s}` times the deviation of the :math:`n_s` rows: both are
        sums of many independent hits.
        """
        step = sets_at_once(self.W.size)
        batches = (codes[start : start + step] for start in range(0, len(codes), step))
        part = self.cells.part
        if part is None:
            tables = (self.cells.hits(batch) for batch in batches)
        else:
            expected, of_part = self.cells.expected(q), part.expected(q[:: self.every])
            factor = math.sqrt(len(q) / len(part.place))
            tables = (expected + factor * (part.hits(batch) - of_part) for batch in batches)
        return np.concatenate([self.close(H, self.S, self.W) for H in tables])

    def simulate(self, q: FloatArray, n_sets: int, seed: np.random.SeedSequence) -> Simulated:
        """Measure drawn hits of cells or rows where these are enough, else labels."""
        rows, cells = self.cells.rows, self.cells.part or self.cells
        if rows is None or cells.rows is None:  # a part has rows if all have
            return super().simulate(q, n_sets, seed)
        if rows.are_many and ROWS_PER_CELL * self.W.size <= len(q):
            tables = self.cells.draw_hits(rows.chances(q), n_sets, np.random.default_rng(seed))
            values = np.concatenate([self.close(H, self.S, self.W) for H in tables])
        else:
            values = self.values(q, cells.rows.draw_hits(q[:: self.every], n_sets, seed))
        return Simulated(self.limits(q), values)

    def limits_without(self, q: FloatArray, group: Intp, most: int = ENTRIES) -> Float64Array:
        """Return the errors ``(groups, m)`` of a truth, each without one group of rows.

        The sums of scores and weights are kept, so that all calls must have the same groups.
        """
        problems, cells = self.cells.shape
        step = -(-cells // max(64, most // (number_of(group) * problems)))
        group = self.cells.in_order(group)
        if self._without is None:
            S = self.cells.sums(self.cells.scores, group, step)
            self._without = without_each(self.cells.weights(group, step)), without_each(S)
        W, S = self._without
        H = without_each(self.cells.expected(q, group, step))
        return self.close_limit(H, S, W)


def without_each(table: Float64Array) -> Float64Array:
    """Return the sums ``(groups, problems, cells)`` of all groups but one."""
    return np.subtract(table.sum(axis=0), table, out=table)


class ClassCurveError(CellError):
    r"""The largest distance :math:`|\sum_{c' \le c} (H_{c'} - S_{c'})| / \sum_c W_c` of each class.

    From one hit of a class to its next the sum falls, so that it is largest at a hit, and smallest
    before a hit or at the end: n places are looked at, not the cells of all classes.

    Parameters
    ----------
    cells : Cells
        One problem for each class.
    close : callable
        The same error of tables.
    average : {"macro", None}
    """

    def __init__(self, cells: Cells, close: Close, average: str | None) -> None:
        super().__init__(cells, close)
        self.average = average
        # Numbers of 32 bits are sorted three times as fast as those of 16.
        size = np.promote_types(cells.place.dtype, np.uint32)
        cells.place = cells.place.astype(size, copy=False)
        problems, n_cells = cells.shape
        below = np.zeros((problems, n_cells + 1))
        np.cumsum(self.S, axis=1, out=below[:, 1:])
        self.below, self.ends = below.ravel(), below[:, -1]
        self.starts = np.arange(problems) * (n_cells + 1)
        self.weight = np.maximum(self.W.sum(axis=1), np.finfo(float).tiny)
        w = cells.w
        self.has_equal_weights = bool((w == w[0]).all())

    def observed(self, code: NDArray[np.integer]) -> Float64Array:
        """Return the errors ``(m,)`` of labels of all rows."""
        return self._largest(code[None])[0]

    def values(self, q: FloatArray, codes: Labels) -> Float64Array:
        """Return the errors ``(R, m)`` of sets of labels."""
        if self.cells.part is not None:  # hits of a part of the rows are scaled: all cells change
            return super().values(q, codes)
        step = sets_at_once(codes.shape[1])
        starts = range(0, len(codes), step)
        return np.concatenate([self._largest(codes[start : start + step]) for start in starts])

    def _largest(self, codes: NDArray[np.integer]) -> Float64Array:
        """Return the errors of sets of labels ``(R, n)``, which follow each other in one table."""
        hit = self.cells.hit_places(codes)
        if self.has_equal_weights:  # numbers are sorted in a fifth of the time of their places
            hit.sort(axis=1)
            hits = self.cells.w[0] * np.arange(hit.size + 1)
        else:
            order = np.argsort(hit, axis=1)
            hit = np.take_along_axis(hit, order, axis=1)
            hits = np.concatenate([[0.0], np.cumsum(self.cells.w[order].ravel())])
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
        errors = largest.reshape(len(codes), -1) / self.weight
        return errors.mean(axis=1, keepdims=True) if self.average == "macro" else errors
