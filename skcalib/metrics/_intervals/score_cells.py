"""Cells of rows with one score each: neighbours in the order of the scores.

The hits of a cell are the difference of two running sums over the rows in order, and all errors of
the same scores share these.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from skcalib._arrays.blocks import row_blocks
from skcalib._arrays.types import Float64Array, FloatArray, Intp
from skcalib._scores.top_label import top_label
from skcalib._validation.predictions import Predictions
from skcalib.metrics._intervals.label_sets import Draw, LabelSets, Truth, every_of, sets_at_once

# The hits of cells are drawn, not the labels of rows, if there are at least this many rows, of
# equal weight, and this many rows per cell.
MANY_ROWS, ROWS_PER_CELL = 10_000, 16
# Hits of cells with a larger variance are normal.
NORMAL = 9.0


class ScoredRows:
    """Rows with one score each, in order.

    Parameters
    ----------
    score : ndarray of shape (n,)
    own : ndarray of shape (n,) or (n, K)
        The class that is a hit, or whether each class is.
    w : ndarray of shape (n,)
    by_class : bool
        Whether rows are ordered by their own class first.

    Attributes
    ----------
    part : ScoredRows or None
        The rows for which labels are drawn; None if they are all.
    before : ndarray
        Places of the rows of `part` in the order.
    are_many : bool
        Whether the hits of cells of these rows can be drawn at once.
    """

    def __init__(
        self,
        score: FloatArray,
        own: NDArray[np.integer] | NDArray[np.bool_],
        w: Float64Array,
        by_class: bool = False,
    ) -> None:
        order = np.lexsort((score, own)) if by_class else np.argsort(score, kind="stable")
        self.order = order
        self.score, self.own, self.w = score[order], own[order], w[order]
        self.weight = running(self.w)
        self.scores = running(self.w * self.score)
        self.are_many = w.size >= MANY_ROWS and bool((w == w[0]).all())
        every = every_of(score.size)
        self.part = None
        if every > 1:
            self.part = ScoredRows(score[::every], own[::every], w[::every], by_class)
            rank = np.empty(order.size, dtype=np.intp)
            rank[order] = np.arange(order.size)
            self.before = np.sort(rank[::every])

    def chances(self, q: FloatArray) -> Float64Array:
        """Return the probability of a hit of each row, in order."""
        if self.own.ndim == 1:
            place = self.order * q.shape[1] + self.own
            return q.ravel().take(place).astype(np.float64)
        found = np.empty(self.order.size)
        for rows in row_blocks(self.order.size, q.shape[1]):
            found[rows] = np.einsum("ik,ik->i", q[self.order[rows]], self.own[rows])
        return found

    def expected_below(self, truth: Truth) -> Float64Array:
        """Return the running sums ``(n + 1,)`` of the hits that are expected."""
        return truth.once(self, lambda: running(self.w * self.chances(truth.q)))

    def squares_below(self, truth: Truth) -> Float64Array:
        """Return the running sums ``(n + 1,)`` of the squared probabilities of a hit."""
        return truth.once((self, "squares"), lambda: running(self.chances(truth.q) ** 2))

    def drawn(self, draw: Draw, n_sets: int, seed: np.random.SeedSequence) -> Iterator[HitSets]:
        """Yield some sets of hits at a time, in place of labels of all classes."""
        if self.part is not None:
            yield from self.part.drawn(Draw(draw.part.q, 1), n_sets, seed)
            return
        random = np.random.default_rng(seed)
        chance = self.chances(draw.truth.q).astype(np.float32)
        step = sets_at_once(chance.size)
        for start in range(0, n_sets, step):
            below = np.zeros((min(step, n_sets - start), chance.size + 1))
            for row in below[:, 1:]:
                hit = random.random(chance.size, dtype=np.float32) < chance
                np.multiply(self.w, hit, out=row)
                np.cumsum(row, out=row)
            yield HitSets(self, below)

    def hits_below(self, labels: LabelSets) -> Float64Array:
        """Return the running sums ``(R, n + 1)`` of the hits of each set of labels."""
        return labels.once(self, lambda: self._hits_below(labels.codes))

    def _hits_below(self, codes: NDArray[np.integer]) -> Float64Array:
        every_row = np.arange(self.order.size)
        below = np.zeros((len(codes), every_row.size + 1))
        for row, code in zip(below[:, 1:], codes, strict=True):
            label = code[self.order]
            hit = label == self.own if self.own.ndim == 1 else self.own[every_row, label]
            np.multiply(self.w, hit, out=row)
            np.cumsum(row, out=row)
        return below


class HitSets(LabelSets):
    """Sets of hits of scored rows, as running sums ``(R, n + 1)``; nothing else is known."""

    def __init__(self, rows: ScoredRows, below: Float64Array) -> None:
        super().__init__(np.empty((len(below), 0), dtype=np.uint8))
        self.once(rows, lambda: below)


class SharedRows:
    """The rows with the scores of the top label or of an event, made once for all errors."""

    def __init__(self) -> None:
        self._made: dict[int | None, ScoredRows] = {}

    def of(self, predictions: Predictions) -> ScoredRows:
        """Return the rows by their event, or by the top label if there is none."""
        event = predictions.event
        if event not in self._made:
            score, own = top_label(predictions.P)
            if event is not None:
                score, own = predictions.of_event()[0], np.full_like(own, event)
            self._made[event] = ScoredRows(score, own, predictions.w)
        return self._made[event]


def running(amount: Float64Array) -> Float64Array:
    """Return the sums of the amounts before each place, and of all."""
    return np.concatenate([[0.0], np.cumsum(amount)])


class ScoreCells:
    """Cells ``(problems, cells)`` of scored rows, cut at edges ``(problems, cells + 1)``."""

    def __init__(self, rows: ScoredRows, edges: Intp) -> None:
        self.rows = rows
        self.edges = edges
        self.shape: tuple[int, int] = (len(edges), edges.shape[1] - 1)
        self.part = None
        if rows.part is not None:
            self.part = ScoreCells(rows.part, np.searchsorted(rows.before, edges))

    @classmethod
    def of_index(
        cls, rows: ScoredRows, index: NDArray[np.integer], n: int, first: Intp | None = None
    ) -> ScoreCells:
        """Return n cells of each problem, numbered from `first` or 0; `index` has those of rows."""
        start = np.zeros(1, dtype=np.intp) if first is None else first
        return cls(rows, np.searchsorted(index, start[:, None] + np.arange(n + 1)))

    def _between(self, below: Float64Array) -> Float64Array:
        return np.asarray(np.diff(below.take(self.edges, axis=-1), axis=-1))

    def sums(self) -> tuple[Float64Array, Float64Array]:
        """Return the weight and the weighted sum of the scores of each cell."""
        return self._between(self.rows.weight), self._between(self.rows.scores)

    def expected(self, truth: Truth) -> Float64Array:
        """Return the expected weight of the hits ``(problems, cells)``."""
        return self._between(self.rows.expected_below(truth))

    def hits(self, labels: LabelSets, sets: slice) -> Float64Array:
        """Return the weight of the hits ``(R, problems, cells)``."""
        return self._between(self.rows.hits_below(labels)[sets])

    @property
    def draws(self) -> bool:
        """Whether `draw_hits` may stand for labels of the rows."""
        return self.rows.are_many and ROWS_PER_CELL * math.prod(self.shape) <= self.rows.w.size

    def draw_hits(self, truth: Truth, n_sets: int, random: np.random.Generator) -> Float64Array:
        r"""Return the weight of the hits ``(n_sets, problems, cells)`` of rows of equal weight.

        Hits of probabilities :math:`q_i` are drawn as one binomial number of the same mean and
        variance, of :math:`(\sum q_i)^2 / \sum q_i^2` trials, rounded up or down at random, with
        probability :math:`\sum q_i^2 / \sum q_i`; as a normal one where they vary much.
        """
        weight = float(self.rows.w[0])
        mean = np.maximum(self.expected(truth) / weight, 0.0)
        squares = np.maximum(self._between(self.rows.squares_below(truth)), 0.0)
        H = np.empty((n_sets, *self.shape))
        spread = np.maximum(mean - squares, 0.0)
        wide = spread > NORMAL
        H[:, wide] = random.standard_normal((n_sets, int(wide.sum())))
        H[:, wide] *= np.sqrt(spread[wide])
        H[:, wide] += mean[wide]
        narrow = ~wide & (mean > 0)
        share = np.minimum(squares[narrow] / mean[narrow], 1.0)
        # At most as many as rows: sums lose the squares of tiny probabilities after large ones.
        rows = np.diff(self.edges, axis=1)[narrow]
        trials = np.minimum(mean[narrow] / np.maximum(share, np.finfo(float).tiny), rows)
        whole = np.floor(trials + random.random((n_sets, trials.size))).astype(np.int64)
        H[:, narrow] = random.binomial(whole, share)
        H[:, ~wide & ~narrow] = 0.0
        return weight * H

    def sums_by_group(
        self, group: Intp, n_groups: int, step: int
    ) -> tuple[Float64Array, Float64Array]:
        """Return the sums ``(n_groups, problems, cells)``, with `step` cells joined."""
        w = self.rows.w
        W, S = (self._by_group(x, group, n_groups, step) for x in (w, w * self.rows.score))
        return W, S

    def expected_by_group(
        self, truth: Truth, group: Intp, n_groups: int, step: int
    ) -> Float64Array:
        """Return the expected hits ``(n_groups, problems, cells)``."""
        each = np.diff(self.rows.expected_below(truth))
        return self._by_group(each, group, n_groups, step)

    def _by_group(
        self, amount: Float64Array, group: Intp, n_groups: int, step: int
    ) -> Float64Array:
        problems, cells = self.shape
        joined = -(-cells // step)
        size = problems * joined
        number = np.arange(problems)[:, None] * joined + np.arange(cells) // step
        length = np.diff(self.edges, axis=1).ravel()
        row = np.arange(length.sum()) + np.repeat(
            self.edges[:, :-1].ravel() - np.cumsum(length) + length, length
        )
        place = group[self.rows.order[row]] * size + np.repeat(number.ravel(), length)
        sums = np.bincount(place, amount[row], n_groups * size)
        return np.asarray(sums, dtype=np.float64).reshape(n_groups, problems, joined)
