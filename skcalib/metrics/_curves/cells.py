"""Rows of close scores, joined: what a curve is fitted to.

Up to a number of distinct scores, each is a cell. Of more, neighbours are joined: cells end at
quantiles of the scores and at even steps of the logit, so that neither the many rows in the middle
nor the few at the ends lose their place.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skcalib._arrays.source import as_source
from skcalib._arrays.types import Bools, Float64Array, FloatArray, Intp
from skcalib._scores.clip import find_clip
from skcalib._scores.scores import Scores

# Of more distinct scores, neighbours are joined.
MOST_CELLS = 2048


class Cells(NamedTuple):
    """The cell of each row ``(n,)``; mean score, mean logit and weight of each cell, ascending."""

    of_row: Intp
    p: Float64Array
    x: Float64Array
    W: Float64Array

    def hits(self, hit: Bools, w: Float64Array) -> Float64Array:
        """Return the weight of the hits in each cell ``(m,)``."""
        return sum_by(self.of_row, w * hit)


def is_certain(p: Float64Array) -> bool:
    """Whether every score is 0 or 1: nothing is between them, and a rate is a share of hits."""
    return bool(((p == 0) | (p == 1)).all())


def sum_by(cell: NDArray[np.integer], amounts: Float64Array) -> Float64Array:
    """Return the sum of the amounts in each cell; no cell is empty."""
    return np.asarray(np.bincount(cell, amounts), dtype=np.float64)


def logits_of(p: Float64Array, clip: Float64Array) -> Float64Array:
    """Return log-odds; `clip` is the least 1 - p and the least p."""
    near, far = np.clip(p, clip[1], 1.0 - clip[0]), np.clip(1.0 - p, clip[0], 1.0 - clip[1])
    return np.asarray(np.log(near) - np.log(far))


def place_rows(score: FloatArray, w: Float64Array, most: int = MOST_CELLS) -> Cells:
    """Return the cell of each row, of no more than `most` cells."""
    distinct, of_row = np.unique(score.astype(np.float64), return_inverse=True)
    both = Scores(as_source(np.column_stack([1.0 - distinct, distinct])), "proba")
    clip = np.broadcast_to(find_clip(both)[0], 2)
    x = logits_of(distinct, clip)
    W = sum_by(of_row, w)
    cell = join(x, W, most)
    total = sum_by(cell, W)
    p, x = (_mean_within(cell, W, values, total) for values in (distinct, x))
    return Cells(cell[of_row], p, x, total)


def join(x: Float64Array, W: Float64Array, most: int) -> Intp:
    """Return the cell of each of the ascending logits ``(d,)``."""
    if x.size <= most:
        return np.arange(x.size)
    share = (np.cumsum(W) - W / 2) / W.sum()
    along = (x - x[0]) / (x[-1] - x[0])
    steps = [np.minimum(part * (most // 2), most // 2 - 1) // 1 for part in (share, along)]
    starts = np.any(np.diff(steps, axis=1) > 0, axis=0)
    return np.concatenate([[0], np.cumsum(starts)])


def _mean_within(
    cell: Intp, W: Float64Array, values: Float64Array, total: Float64Array
) -> Float64Array:
    """Return the mean value of each cell; exactly the value where there is one."""
    if cell.size == total.size:
        return values
    return sum_by(cell, W * values) / total
