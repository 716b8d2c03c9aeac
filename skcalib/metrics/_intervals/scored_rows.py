"""Rows with one score each: of the top label, or of an event."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skcalib._arrays.blocks import row_blocks
from skcalib._arrays.types import Bools, Float64Array, FloatArray, Intp
from skcalib._scores.top_label import top_label
from skcalib._validation.predictions import Predictions

# The hits of cells are drawn, not the labels of rows, if there are at least this many rows, of
# equal weight.
MANY_ROWS = 10_000


class ScoredRows(NamedTuple):
    """Rows in the order of their scores.

    ``order (n,)`` their numbers, ``score (n,)``, ``hit`` the class that is a hit ``(n,)``, or
    whether each class is one ``(n, K)``, and ``w (n,)``.
    """

    order: Intp
    score: FloatArray
    hit: NDArray[np.integer] | Bools
    w: Float64Array

    def take(self, places: Intp, every: int) -> ScoredRows:
        """Return the rows at these places of the order; their numbers are multiples of `every`."""
        order, score, hit, w = self
        return ScoredRows(order[places] // every, score[places], hit[places], w[places])

    @property
    def are_many(self) -> bool:
        """Whether the hits of cells of these rows can be drawn at once."""
        return self.w.size >= MANY_ROWS and bool((self.w == self.w[0]).all())

    def chances(self, q: FloatArray) -> FloatArray:
        """Return the probability of a hit of each row, in order."""
        if self.hit.ndim == 1:
            return q.ravel().take(self.order * q.shape[1] + self.hit)
        chances = np.empty(self.order.size)
        for rows in row_blocks(self.order.size, q.shape[1]):
            chances[rows] = np.einsum("ik,ik->i", q[self.order[rows]], self.hit[rows])
        return chances

    def hits(self, codes: NDArray[np.integer]) -> Bools:
        """Return whether each row is a hit by sets of labels ``(R, n)``."""
        label = codes[:, self.order]
        if self.hit.ndim == 1:
            return np.asarray(label == self.hit)
        return np.asarray(self.hit[np.arange(self.order.size), label], dtype=bool)

    def draw_hits(self, q: FloatArray, n_sets: int, seed: np.random.SeedSequence) -> Bools:
        """Draw sets of hits ``(n_sets, n)``, in place of labels of all classes."""
        random = np.random.default_rng(seed)
        chance = self.chances(q).astype(np.float32)
        hits = np.empty((n_sets, chance.size), dtype=bool)
        for some in row_blocks(n_sets, chance.size):
            np.less(random.random(hits[some].shape, dtype=np.float32), chance, out=hits[some])
        return hits


def in_order(score: FloatArray, hit: NDArray[np.integer] | Bools, w: Float64Array) -> ScoredRows:
    """Return rows in the order of their scores."""
    order = np.argsort(score, kind="stable")
    return ScoredRows(order, score[order], hit[order], w[order])


def scored_rows(predictions: Predictions) -> ScoredRows:
    """Return the rows with the scores of their event, or of the top label if there is none."""
    event, w = predictions.event, predictions.w
    if event is None:
        return in_order(*top_label(predictions.P), w)
    return in_order(predictions.column(event), np.full(w.size, event), w)
