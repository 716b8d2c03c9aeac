"""Calibration errors as functions of the labels, for simulations that draw labels repeatedly."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from copy import copy
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skcalib._arrays.rowwise import Bools, Float64Array, FloatArray, Intp, row_blocks
from skcalib._arrays.sources import ROWS, Source, as_source, sum_rows, to_array
from skcalib._scores.scores import top_label
from skcalib._validation.rows import Predictions
from skcalib.metrics._common import merge_clusters, number_of
from skcalib.metrics._intervals.truths import GROUPS, draw_codes, truth_on_path
from skcalib.metrics._resampling import Evaluation

# Calibration errors as functions of labels. The labels are those of the data, or are drawn from
# assumed true probabilities.


# The largest number of labels that are processed at once, or of entries in tables that are made
# from labels.
AT_ONCE = 1 << 18
# Labels are drawn for at most about this number of evenly spaced rows. With more rows in the data,
# the deviations of errors are scaled to the number of rows.
DRAWN_ROWS = 100_000
# The largest number of entries in the tables of the jackknife, one table for each group of rows
# that is left out. With more than `ENTRIES` entries, neighbouring cells of scores are joined.
ENTRIES = 1 << 22


def choose_row_step(n: int) -> int:
    """Return k such that labels are drawn only for every k-th row, to limit the time."""
    return max(1, n // DRAWN_ROWS)


def sets_at_once(size: int) -> int:
    """Return how many label vectors of `size` entries are processed at once."""
    return max(1, AT_ONCE // size)


class Simulated(NamedTuple):
    """Simulated values of a metric for one set of assumed true probabilities.

    A metric returns m numbers. ``limits (m,)`` are the values for many rows, and ``values (R, m)``
    those of R simulated label vectors.
    """

    limits: Float64Array
    values: Float64Array


class LabelError(ABC):
    """A calibration error as a function of labels, or of true probabilities instead of labels.

    Attributes
    ----------
    row_step : int
        Labels are drawn for the rows 0, row_step, 2 row_step and so on.
    has_excess : bool
        Whether the jackknife estimates the small-sample bias of the error.
    """

    row_step: int
    has_excess = True

    @abstractmethod
    def observed(self, code: NDArray[np.integer]) -> Float64Array:
        """Return the calibration error, computed from the labels of all rows.

        The shape of `code` is ``(n,)``, and the shape of the result ``(m,)``.
        """

    @abstractmethod
    def limits(self, q: FloatArray) -> Float64Array:
        """Return the error in the limit of many rows, for the true probabilities q.

        The shape of q is ``(n, K)``, and the shape of the result ``(m,)``.
        """

    @abstractmethod
    def values(self, q: FloatArray, codes: NDArray[np.integer]) -> Float64Array:
        """Return the error for each vector of labels of every `row_step`-th row.

        The shape of `codes` is ``(R, n_s)``, and the shape of the result ``(R, m)``.
        """

    @abstractmethod
    def limits_without(self, q: FloatArray, group: Intp, most: int = ENTRIES) -> Float64Array:
        """Return the errors for true probabilities q, leaving out one group of rows at a time.

        Cells are joined until the tables have at most `most` entries, or 64 cells for each group.
        """

    def draw(self, q: FloatArray, n_sets: int, seed: np.random.SeedSequence) -> NDArray[Any]:
        """Draw label vectors from the true probabilities q, as arguments of `values`."""
        return draw_codes(q[:: self.row_step], n_sets, seed)

    def simulate(self, q: FloatArray, n_sets: int, seed: np.random.SeedSequence) -> Simulated:
        """Compute the error for label vectors that are drawn from the true probabilities q."""
        return Simulated(self.limits(q), self.values(q, self.draw(q, n_sets, seed)))


# Rows of a binary problem (an event, or whether the top label is correct), with one score each.


# With at least this number of rows of equal weight, the number of events in each cell (range of
# scores) is drawn directly, instead of a label for each row.
MANY_ROWS = 10_000


class SortedRows(NamedTuple):
    """Rows of a binary problem in ascending order of their scores.

    ``order (n,)`` contains the numbers of the rows, ``score (n,)`` the scores and ``w (n,)`` the
    weights. ``hit`` is the class that counts as the event ``(n,)``, or whether each class counts as
    the event ``(n, K)``.
    """

    order: Intp
    score: FloatArray
    hit: NDArray[np.integer] | Bools
    w: Float64Array

    def take(self, places: Intp, row_step: int) -> SortedRows:
        """Select rows by their rank in ascending order; divide row numbers by `row_step`."""
        order, score, hit, w = self
        return SortedRows(order[places] // row_step, score[places], hit[places], w[places])

    @property
    def are_many(self) -> bool:
        """Whether event counts of score ranges can be drawn instead of single labels."""
        return self.w.size >= MANY_ROWS and bool((self.w == self.w[0]).all())

    def chances(self, q: FloatArray) -> FloatArray:
        """Return the true probability of the event in each row, by ascending score."""
        if self.hit.ndim == 1:
            return q.ravel().take(self.order * q.shape[1] + self.hit)
        chances = np.empty(self.order.size)
        for rows in row_blocks(self.order.size, q.shape[1]):
            chances[rows] = np.einsum("ik,ik->i", q[self.order[rows]], self.hit[rows])
        return chances

    def hits(self, codes: NDArray[np.integer]) -> Bools:
        """Return whether the event occurs in each row, for each of R label vectors."""
        label = codes[:, self.order]
        if self.hit.ndim == 1:
            return np.asarray(label == self.hit)
        return np.asarray(self.hit[np.arange(self.order.size), label], dtype=bool)

    def draw_hits(self, q: FloatArray, n_sets: int, seed: np.random.SeedSequence) -> Bools:
        """Draw outcomes of an event, without drawing labels of all classes."""
        random = np.random.default_rng(seed)
        chance = self.chances(q).astype(np.float32)
        hits = np.empty((n_sets, chance.size), dtype=bool)
        for some in row_blocks(n_sets, chance.size):
            np.less(random.random(hits[some].shape, dtype=np.float32), chance, out=hits[some])
        return hits


def sort_rows(score: FloatArray, hit: NDArray[np.integer] | Bools, w: Float64Array) -> SortedRows:
    """Sort the rows of a binary problem by ascending score."""
    order = np.argsort(score, kind="stable")
    return SortedRows(order, score[order], hit[order], w[order])


def sort_scores(predictions: Predictions) -> SortedRows:
    """Sort rows by the probability of the event, or of the top label if there is no event."""
    event, w = predictions.event, predictions.w
    if event is None:
        return sort_rows(*top_label(predictions.P), w)
    return sort_rows(predictions.column(event), np.full(w.size, event), w)


# Any metric as a function of labels, by calling the metric for each simulated label vector.


# Assumed true probabilities are multiplied by this number to get integer weights, which count
# copies of rows.
ONE = 1e9
# True probabilities below `NEGLIGIBLE` do not affect the limit of a metric for many rows, and are
# dropped.
NEGLIGIBLE = 1e-7
# The limit of a metric for many rows is computed with this number of copies of each row. Each copy
# has its own label.
COPIES = 20


class AnyError(LabelError):
    """Any metric as a function of labels, or of true probabilities instead of labels.

    To compute the limit for many rows, the weight of each row is divided between the classes. With
    `copies`, the limit is computed from several copies of each row with drawn labels. This is
    needed for a metric without weights, or whose number of bins grows with the number of rows.
    """

    # The metric may be a quantile, and the jackknife cannot estimate the bias of a quantile.
    has_excess = False

    def __init__(
        self, evaluate: Evaluation, predictions: Predictions, copies: bool = False
    ) -> None:
        self.evaluate = evaluate
        self.copies = copies or not evaluate.takes_weights
        self.predictions = predictions
        self.row_step = choose_row_step(predictions.code.size)
        self.some = predictions
        if self.row_step > 1:
            self.some = predictions.take(np.arange(0, predictions.code.size, self.row_step))

    def observed(self, code: NDArray[np.integer]) -> Float64Array:
        """Return the metric for the labels of all rows."""
        return np.atleast_1d(self.evaluate(self.predictions._replace(code=code)))

    def limits(self, q: FloatArray) -> Float64Array:
        """Return the metric in the limit of many rows, for the true probabilities q."""
        return self._limit(q[:: self.row_step], np.arange(self.some.code.size))

    def values(self, q: FloatArray, codes: NDArray[np.integer]) -> Float64Array:
        r"""Return the metric for each simulated label vector.

        If labels are drawn for only :math:`n_s` of n rows, deviations from the limit are divided by
        :math:`\sqrt{n / n_s}`.
        """
        values = np.stack(
            [np.ravel(self.evaluate(self.some._replace(code=c.astype(np.intp)))) for c in codes]
        )
        if self.row_step > 1:
            limits = self.limits(q)
            values = limits + (values - limits) / np.sqrt(len(q) / self.some.code.size)
        return values

    def limits_without(self, q: FloatArray, group: Intp, most: int = ENTRIES) -> Float64Array:  # noqa: ARG002
        """Return the metric for true probabilities q, leaving out one group of rows at a time."""
        n_groups, q, group = number_of(group), q[:: self.row_step], group[:: self.row_step]
        return np.stack([self._limit(q, np.flatnonzero(group != g)) for g in range(n_groups)])

    def _limit(self, q: FloatArray, rows: Intp) -> Float64Array:
        w = self.some.w
        if not self.copies:
            i, code = np.nonzero(q[rows] > NEGLIGIBLE)
            at = rows[i]
            weight = np.maximum(np.rint(ONE * q[at, code] * w[at] / w.mean()), 1.0)
        else:
            at = np.repeat(rows, COPIES)
            edges = np.cumsum(q[at], axis=1, dtype=np.float64)
            drawn = np.random.default_rng(0).random((at.size, 1)) * edges[:, -1:]
            code = (edges[:, :-1] <= drawn).sum(axis=1)
            weight = w[at]
        many = self.some.take(at)._replace(code=code, w=weight)
        return np.atleast_1d(self.evaluate(many))


# Errors that depend on the labels only through the number of events in each cell, where a cell is a
# range of scores. Binned errors and the KS error are of this type.
#
# Scores, weights and cells stay the same if other labels are drawn. With :math:`H_c` the weight of
# the events in cell c, :math:`S_c` the weighted sum of the scores and :math:`W_c` the weight of the
# cell, the error is a function of H, S and W. With a truth q instead of labels, :math:`H_c =
# \sum_{i \in c} w_i q_i` gives the limit for many rows.


# Type of a function that computes errors ``(..., m)`` from three tables: the weights H of the
# events ``(..., problems, cells)``, the sums S of the scores and the weights W of the rows
# ``(problems, cells)``.
TableError = Callable[[Float64Array, Float64Array, Float64Array], Float64Array]
# Labels: class indices of the rows, or outcomes of the event if each row has one score.
Labels = NDArray[Any]

# Numbers of events in score ranges are drawn instead of labels if a range has on average at least
# this number of rows.
ROWS_PER_CELL = 16
# If the variance of a number of events is larger than `NORMAL`, the number is drawn from a normal
# distribution.
NORMAL = 9.0


@dataclass(eq=False, repr=False)
class HitCells:
    """Score ranges (cells) of binary problems, with one or K scores for each row.

    Parameters
    ----------
    cell_index : ndarray of shape (n, K) or (n, 1)
        ``j * (cells + 1) + c`` for cell c of problem j. Cell number `cells` is ignored.
    scores : Source of the same shape
    w : ndarray of shape (n,)
    shape : tuple of int
        Number of problems, and number of cells of each problem.
    rows : SortedRows or None
        The sorted rows, if each row has a single score.

    Attributes
    ----------
    part : HitCells or None
        Cells of the rows for which labels are drawn, or None if labels are drawn for all rows.
    """

    cell_index: NDArray[np.integer]
    scores: Source
    w: Float64Array
    shape: tuple[int, int]
    rows: SortedRows | None = None

    def __post_init__(self) -> None:
        cell_index, rows = self.cell_index, self.rows
        self.first = np.arange(0, cell_index.size, cell_index.shape[1])
        row_step = choose_row_step(len(cell_index))
        self.part = None
        if row_step > 1:
            drawn = np.flatnonzero(self.reorder(np.arange(len(cell_index))) % row_step == 0)
            some = None if rows is None else rows.take(drawn, row_step)
            self.part = HitCells(cell_index[drawn], self.scores, self.w[drawn], self.shape, some)

    def expected(self, q: FloatArray, group: Intp | None = None, step: int = 1) -> Float64Array:
        """Return the expected weight of the events in each score range, for each group of rows."""
        chances = q if self.rows is None else self.rows.chances(q)
        return self.sums(as_source(chances), group, step)

    def weights(self, group: Intp | None = None, step: int = 1) -> Float64Array:
        """Return the weight of the rows in each score range, for each group of rows."""
        return self.sums(as_source(np.broadcast_to(1.0, self.cell_index.shape)), group, step)

    def hits(self, labels: Labels, group: Intp | None = None) -> Float64Array:
        """Return the weight of the events in each score range, for R label vectors.

        With groups of rows, the result has the shape ``(R groups, problems, cells)``.
        """
        problems, cells = self.shape
        size, of_rows = problems * (cells + 1), self.rows is not None
        width = size if group is None else number_of(group) * size
        sets: Any = labels if self.rows is None or labels.dtype == bool else self.rows.hits(labels)
        H = np.empty((len(sets), width))
        # The events of several small label vectors are counted in one call, in a table for each
        # label vector.
        step = sets_at_once(64 * self.w.size)
        shift = np.arange(0, step * width, width)[:, None] + (0 if group is None else group * size)
        for start in range(0, len(sets), step):
            some, rows = sets[start : start + step], H[start : start + step]
            cell_index = self.cell_index[:, 0] if of_rows else self.hit_cells(some)
            w = self.w * some if of_rows else np.broadcast_to(self.w, some.shape)
            at = (cell_index + shift[: len(some)]).ravel()
            rows[:] = np.bincount(at, w.ravel(), rows.size).reshape(rows.shape)
        return H.reshape(-1, problems, cells + 1)[..., :cells]

    def reorder(self, rows: Intp) -> Intp:
        """Reorder an array with a value for each row to the row order of `cell_index`."""
        return rows if self.rows is None else rows[self.rows.order]

    def hit_cells(self, code: NDArray[np.integer]) -> NDArray[np.integer]:
        """Return the index of the score range of the true class, for each row."""
        # Indexing the flat table takes a tenth of the time of indexing by row and column.
        return self.cell_index.ravel().take(self.first + code)

    def draw_hits(
        self, chances: FloatArray, n_sets: int, random: np.random.Generator
    ) -> Iterator[Float64Array]:
        r"""Simulate the weight of the events in each score range, for rows of equal weight.

        The number of events with probabilities :math:`q_i` is drawn from a binomial distribution
        with the same mean and variance. It has :math:`(\sum q_i)^2 / \sum q_i^2` trials, rounded up
        or down at random, and the probability :math:`\sum q_i^2 / \sum q_i`. Numbers with a large
        variance are drawn from a normal distribution.
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
            n_trials = np.floor(trials + random.random((len(H), trials.size))).astype(np.int64)
            H[:, narrow] = random.binomial(n_trials, share)
            yield weight * H

    def sums(self, amounts: Source, group: Intp | None = None, step: int = 1) -> Float64Array:
        """Sum amounts over the rows in each score range, for each group of rows.

        `amounts` has the shape of the scores. `group` contains the group of each row, and None
        means one group. `step` neighbouring cells are joined.
        """
        problems, cells = self.shape
        n_groups, n_joined = 1 if group is None else number_of(group), -(-cells // step) + 1
        shape = (n_groups, problems, n_joined)

        def kernel(
            block: FloatArray, index: NDArray[np.integer], w: Float64Array, group: Intp | None
        ) -> Float64Array:
            if n_joined <= cells:
                j, c = np.divmod(index.astype(np.intp), cells + 1)
                index = j * n_joined + c * (n_joined - 1) // cells
            if group is not None:
                index = index + (group * (problems * n_joined))[:, None]
            weights = (w[:, None] * block).ravel()
            return np.asarray(np.bincount(index.ravel(), weights, math.prod(shape)), np.float64)

        # A block of rows has at least as many entries as its table of event counts, because the
        # tables of all blocks have to be added.
        least = math.prod(shape) // amounts.shape[1] if n_groups > 1 else 1
        work = ROWS._replace(least_rows=max(1, least))
        sums = sum_rows(kernel, amounts, self.cell_index, self.w, group, work=work)
        return np.asarray(sums.reshape(shape)[..., :-1])


def cells_of_classes(
    columns: Iterable[NDArray[np.integer]], P: Source, w: Float64Array, shape: tuple[int, int]
) -> HitCells:
    """Create score ranges (cells) for the probabilities of all classes, from cell indices.

    With more than one problem, each class is a separate problem. Cell indices are stored in the
    smallest integer type.
    """
    problems, cells = shape
    cell_index = np.empty(P.shape, dtype=np.min_scalar_type(problems * (cells + 1)))
    for k, column in enumerate(columns):
        cell_index[:, k] = (k if problems > 1 else 0) * (cells + 1) + column
    return HitCells(cell_index, P, w, shape)


def cells_of_rows(rows: SortedRows, index: NDArray[np.integer], shape: tuple[int, int]) -> HitCells:
    """Create score ranges (cells) for sorted rows with one score each, from cell indices."""
    return HitCells(index[:, None], as_source(rows.score[:, None]), rows.w, shape, rows)


class CellError(LabelError):
    """A calibration error that is a function of the event counts in score ranges.

    Parameters
    ----------
    cells : HitCells
    error_of_table : callable
        The function that returns the error of labels.
    limit_of_table : callable, default=None
        The function that returns the error for true probabilities. None means the same function.
    """

    def __init__(
        self, cells: HitCells, error_of_table: TableError, limit_of_table: TableError | None = None
    ) -> None:
        self.cells = cells
        self.row_step = choose_row_step(len(cells.cell_index))
        self.error_of_table = error_of_table
        self.limit_of_table = error_of_table if limit_of_table is None else limit_of_table
        self.W = cells.weights()[0]
        self.S = cells.sums(cells.scores)[0]
        self._without: tuple[Float64Array, Float64Array] | None = None

    def observed(self, code: NDArray[np.integer]) -> Float64Array:
        """Return the calibration error, computed from the labels of all rows."""
        return self.error_of_table(self.cells.hits(code[None]), self.S, self.W)[0]

    def limits(self, q: FloatArray) -> Float64Array:
        """Return the error in the limit of many rows, for the true probabilities q."""
        return self.limit_of_table(self.cells.expected(q), self.S, self.W)[0]

    def values(self, q: FloatArray, codes: Labels) -> Float64Array:
        r"""Return the error for each simulated label vector, or for outcomes of sorted rows.

        If labels are drawn for only :math:`n_s` of n rows, the deviation of the number of events
        from its expected value is multiplied by :math:`\sqrt{n / n_s}`, because both numbers are
        sums of many independent outcomes.
        """
        step = sets_at_once(self.W.size)
        batches = (codes[start : start + step] for start in range(0, len(codes), step))
        part = self.cells.part
        if part is None:
            tables = (self.cells.hits(batch) for batch in batches)
        else:
            expected, of_part = self.cells.expected(q), part.expected(q[:: self.row_step])
            factor = math.sqrt(len(q) / len(part.cell_index))
            tables = (expected + factor * (part.hits(batch) - of_part) for batch in batches)
        return np.concatenate([self.error_of_table(H, self.S, self.W) for H in tables])

    def simulate(self, q: FloatArray, n_sets: int, seed: np.random.SeedSequence) -> Simulated:
        """Compute the error with drawn event counts where possible, otherwise with drawn labels."""
        rows, cells = self.cells.rows, self.cells.part or self.cells
        if rows is None or cells.rows is None:  # `rows` is None exactly if `cells.rows` is None
            return super().simulate(q, n_sets, seed)
        if rows.are_many and ROWS_PER_CELL * self.W.size <= len(q):
            tables = self.cells.draw_hits(rows.chances(q), n_sets, np.random.default_rng(seed))
            values = np.concatenate([self.error_of_table(H, self.S, self.W) for H in tables])
        else:
            values = self.values(q, cells.rows.draw_hits(q[:: self.row_step], n_sets, seed))
        return Simulated(self.limits(q), values)

    def limits_without(self, q: FloatArray, group: Intp, most: int = ENTRIES) -> Float64Array:
        """Return the errors for true probabilities q, leaving out one group of rows at a time.

        The sums of scores and weights are stored, so that all calls must have the same groups.
        """
        problems, cells = self.cells.shape
        step = -(-cells // max(64, most // (number_of(group) * problems)))
        group = self.cells.reorder(group)
        if self._without is None:
            S = self.cells.sums(self.cells.scores, group, step)
            self._without = leave_out_each(self.cells.weights(group, step)), leave_out_each(S)
        W, S = self._without
        H = leave_out_each(self.cells.expected(q, group, step))
        return self.limit_of_table(H, S, W)


def leave_out_each(table: Float64Array) -> Float64Array:
    """Return, for each group of rows, the sum of the tables of all other groups."""
    return np.subtract(table.sum(axis=0), table, out=table)


class ClassCurveError(CellError):
    r"""Class-wise KS error: largest gap between the cumulative events and scores of each class.

    The distance of a class is :math:`|\sum_{c' \le c} (H_{c'} - S_{c'})| / \sum_c W_c`. Between two
    events of the class the sum decreases, so it is largest at an event, and smallest before an
    event or at the end. So only n cells are searched, instead of the cells of all classes.

    Parameters
    ----------
    cells : HitCells
        Cells with one problem for each class.
    error_of_table : callable
        The same error as a function of tables.
    average : {"macro", None}
    """

    def __init__(self, cells: HitCells, error_of_table: TableError, average: str | None) -> None:
        super().__init__(cells, error_of_table)
        self.average = average
        # 32-bit integers are sorted three times as fast as 16-bit integers.
        size = np.promote_types(cells.cell_index.dtype, np.uint32)
        cells.cell_index = cells.cell_index.astype(size, copy=False)
        problems, n_cells = cells.shape
        below = np.zeros((problems, n_cells + 1))
        np.cumsum(self.S, axis=1, out=below[:, 1:])
        self.below, self.ends = below.ravel(), below[:, -1]
        self.starts = np.arange(problems) * (n_cells + 1)
        self.weight = np.maximum(self.W.sum(axis=1), np.finfo(float).tiny)
        w = cells.w
        self.has_equal_weights = bool((w == w[0]).all())

    def observed(self, code: NDArray[np.integer]) -> Float64Array:
        """Return the calibration error, computed from the labels of all rows."""
        return self._largest(code[None])[0]

    def values(self, q: FloatArray, codes: Labels) -> Float64Array:
        """Return the error for each simulated label vector."""
        # If labels are drawn only for a part of the rows, event counts change in all cells, so that
        # the general method is used.
        if self.cells.part is not None:
            return super().values(q, codes)
        step = sets_at_once(codes.shape[1])
        starts = range(0, len(codes), step)
        return np.concatenate([self._largest(codes[start : start + step]) for start in starts])

    def _largest(self, codes: NDArray[np.integer]) -> Float64Array:
        """Return the KS error for each label vector, by sorting the scores of true classes."""
        hit = self.cells.hit_cells(codes)
        if self.has_equal_weights:  # sorting values takes a fifth of the time of argsort
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


# Simulated errors of dependent rows. Instead of drawing labels, the residuals of each cluster are
# multiplied by a random sign.
#
# With :math:`H_c` the number of events in cluster c, and :math:`E_q[H_c]` the number expected by a
# truth q, the drawn number of events is
#
# .. math:: E_q[H] + \sum_c g_c (H_c - E_q[H_c]), \qquad g_c = \pm 1 \text{ at random} .
#
# So the residuals of a cluster keep their size and their pattern for any kind of dependence
# (Cameron, Gelbach and Miller 2008; Canay, Santos and Shaikh 2021). If the truth was fitted on the
# same rows, residuals are too small, and are multiplied by a factor.
#
# In a cell with few events, the mean error :math:`E \sqrt V` of random signs is smaller than the
# mean error :math:`\sqrt{E V}` of labels. So the difference of both mean errors, with labels drawn
# from q, is added. The difference changes slowly along a path. It is simulated at a few truths and
# interpolated by the errors of these truths.


# The smallest number of clusters for intervals and tests of calibration errors. Five clusters have
# only 32 combinations of signs.
FEWEST = 6
# The largest number of clusters in a simulation, because tables have a row for each cluster.
# Further clusters are merged at random.
MOST = 500
# The number of simulated label vectors, the number of vectors of random signs for each of them, and
# the position on the path from predicted (0) through calibrated probabilities (1) at which random
# signs are also compared with drawn labels.
LABEL_SETS, SIGN_SETS, REFERENCE = 24, 16, 2.0
# Tolerance for simulated errors that differ from the error of the data only by rounding.
ROUNDING = 1e-12


def too_few(number: int | None) -> bool:
    """Return whether there are too few clusters for an interval of a calibration error."""
    return number is not None and number < FEWEST


def clusters_text(number: int | None) -> str:
    """Describe the number of clusters in words, with a note if it is too small for intervals."""
    few = f": intervals of errors need at least {FEWEST}" if too_few(number) else ""
    return "" if number is None else f"{number:,} clusters{few}"


def check_enough(number: int | None) -> None:
    """Raise an error if there are too few clusters for simulations with random signs."""
    if too_few(number):
        raise ValueError(
            f"clusters has {number} different labels, but the interval and the test of a "
            f"calibration error need at least {FEWEST}: use bootstrap_interval or the calibration "
            "slope, which need at least 3."
        )


class SignedError(CellError):
    """Calibration error of dependent rows, simulated with random signs of cluster residuals."""

    def __init__(self, error: CellError, predictions: Predictions) -> None:
        check_enough(predictions.n_clusters)
        vars(self).update(vars(error))
        cluster = predictions.units
        self.has_excess = error.has_excess and number_of(cluster) > GROUPS
        most = max(GROUPS, min(MOST, ENTRIES // self.W.size))
        self.group = self.cells.reorder(merge_clusters(cluster, np.random.default_rng(0), most))
        self.labels = self.cells.hits(predictions.code[None], self.group)
        self.residuals: Float64Array | None = None
        self._seed, seed = np.random.SeedSequence(0).spawn(2)
        # The first two sign vectors are all +1 and all -1, so that terms that are linear in the
        # residuals cancel.
        both = np.broadcast_to([[1.0], [-1.0]], (LABEL_SETS, 2, MOST))
        signs = self.draw(self.labels, LABEL_SETS * SIGN_SETS, seed)
        self._signs = np.hstack([both, signs.reshape(LABEL_SETS, SIGN_SETS, MOST)])
        self.references = [self.reference_truth(to_array(predictions.P))]

    def residuals_about(self, q: FloatArray, larger: float) -> SignedError:
        """Return this error with fixed residuals: labels minus probabilities q, times `larger`."""
        error = copy(self)
        error.residuals = larger * (self.labels - self.cells.expected(q, self.group))
        return error

    def with_reference(self, P: Source, Q: FloatArray) -> SignedError:
        """Return this error with additional reference probabilities on the path from P to Q."""
        error = copy(self)
        error.references = [*self.references, self.reference_truth(truth_on_path(P, Q, REFERENCE))]
        return error

    def draw(self, q: FloatArray, n_sets: int, seed: np.random.SeedSequence) -> Float64Array:  # noqa: ARG002
        """Draw a random sign for each cluster; the result does not depend on q."""
        return np.random.default_rng(seed).choice([-1.0, 1.0], (n_sets, MOST))

    def values(self, q: FloatArray, codes: NDArray[Any]) -> Float64Array:
        """Return the error for each vector of random signs."""
        expected = self.cells.expected(q, self.group)
        residuals = self.labels - expected if self.residuals is None else self.residuals
        return self.with_signs(expected.sum(axis=0), residuals, codes)

    def with_signs(
        self, H: Float64Array, residuals: Float64Array, signs: Float64Array
    ) -> Float64Array:
        """Return the errors for event counts that are expected counts H plus signed residuals.

        `residuals` has the shape ``(C, problems, cells)``.
        """
        step, signs = sets_at_once(H.size), signs[:, : len(residuals)]
        parts = (signs[start : start + step] for start in range(0, len(signs), step))
        tables = (H + np.tensordot(part, residuals, 1) for part in parts)
        return np.concatenate([self.error_of_table(table, self.S, self.W) for table in tables])

    def simulate(self, q: FloatArray, n_sets: int, seed: np.random.SeedSequence) -> Simulated:
        """Simulate errors with random signs, shifted to the mean error of drawn labels."""
        limits, values = LabelError.simulate(self, q, n_sets, seed)
        errors, lacking = (np.array(part) for part in zip(*self.references, strict=True))
        columns = zip(limits, np.maximum.accumulate(errors).T, lacking.T, strict=True)
        return Simulated(limits, values + [np.interp(*column) for column in columns] + ROUNDING)

    def reference_truth(self, q: FloatArray) -> tuple[Float64Array, Float64Array]:
        """Return the error for true probabilities q, and its bias if simulated by random signs."""
        expected = self.cells.expected(q, self.group)
        H, lacking = expected.sum(axis=0), []
        for code, signs in zip(draw_codes(q, LABEL_SETS, self._seed), self._signs, strict=True):
            labels = self.cells.hits(code[None], self.group)
            values = self.with_signs(H, labels - expected, signs)
            lacking.append(values[:2].mean(axis=0) - values[2:].mean(axis=0))
        return self.limits(q), np.mean(lacking, axis=0)
