r"""The clip: the lower bound on probabilities before their logarithm is taken.

A probability of 0 stands for a number below the resolution of the scores: below 1 / 100 for a
forest of 100 trees, below 0.05 for confidences in multiples of 5 %. The smallest probability m
above 0 among the calibration rows estimates the resolution. With K classes, probabilities below

.. math:: c = \max\left(l, \min\left(\frac{m}{2}, \frac{1}{2K}\right)\right)

are raised to c, where l is the smallest normal number of float32. Calibration rows without a 0 do
not show the resolution. Then only a 0 of a new row is raised, to c or to half the smallest number
above 0 of its row, whichever is less; all others above l keep their own logarithm.

With two classes, each column has its own clip, because float32 resolves p to 1e-45 near 0 and to
6e-8 near 1. If one column was computed as 1 - p, a remainder of a few roundings counts as 0: ten
weights of 0.1 add up to 1 - 1.1e-16.

A logit of -inf is the logarithm of a probability of 0. If the calibration rows have no such logit,
c is l and logits are not read.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from skcalib._arrays.passes import ROWS, merge_rows
from skcalib._arrays.smallest import Smallest, smallest_of_block
from skcalib._arrays.source import Computed
from skcalib._arrays.types import Bools, Clip, Float64Array, FloatArray
from skcalib._scores.scores import Scores

# Smaller numbers are subnormal in float32: they lose digits or become 0.
LEAST_CLIP = float(np.finfo(np.float32).tiny)
# Below the largest probability of any row, so that clipping keeps it the largest.
MOST_CLIP = 0.25


def find_clip(scores: Scores, smallest: list[Smallest] | None = None) -> tuple[Clip, bool | Bools]:
    """Return the clip for calibration scores ``(n, K)``, and whether there is a 0 among them.

    The smallest probabilities of blocks, where they are known, need not be read.
    """
    if needs_no_clip(scores):
        return LEAST_CLIP, True
    least, any_zero = smallest_proba(scores) if smallest is None else smallest_of(smallest)
    n_classes = scores.shape[1]
    if scores.options:  # those that were offered, in the row with most of them
        n_classes = max(merge_rows(lambda P: (~np.isnan(P)).sum(axis=1).max(), scores.source))
    clip = clip_below(least, n_classes)
    return clip, any_zero if any_zero.size == 2 else bool(any_zero[0])


def clip_of_rows(P: FloatArray, clip: Clip, any_zero: bool | Bools) -> Clip:
    """Return the lower limits of new probabilities, given what `find_clip` returns."""
    if np.all(any_zero):
        return clip
    low = np.fmin.reduce(P, axis=None)
    if low > 0.0:
        return np.where(any_zero, clip, max(low, LEAST_CLIP))
    least = np.where(P > 0.0, P, 1.0).min(axis=1, keepdims=True).astype(np.float64)
    return np.maximum(np.where(any_zero, clip, LEAST_CLIP), np.minimum(clip, least / 2))


def needs_no_clip(scores: Scores) -> bool:
    """Whether no logarithm of these scores is infinite."""
    return scores.kind == "logits" and (scores.options or scores.max_abs_logit < np.inf)


def smallest_proba(scores: Scores) -> tuple[Float64Array, Bools]:
    """Return the smallest probability above 0 and whether 0 occurs; of each of two columns."""
    # Probabilities of float32 logits are more precise than float32.
    proba = scores.source if scores.kind == "proba" else Computed(scores.source, scores.proba)
    if scores.options:  # a class that was not offered is neither 0 nor the smallest
        proba = Computed(proba, lambda rows: np.nan_to_num(scores.source.read(rows), nan=1.0))
    device = proba.on_device() if scores.shape[1] > 2 else None
    return smallest_of(merge_rows(smallest_of_block, device or proba, work=ROWS))


def smallest_of(blocks: list[Smallest]) -> tuple[Float64Array, Bools]:
    """Return the smallest probability above 0 and whether 0 occurs, of all blocks."""
    pairs = np.array(blocks)
    return pairs[..., 0].min(axis=0), pairs[..., 1].max(axis=0) > 0


def clip_below(smallest: Float64Array, n_classes: int) -> Clip:
    """Return the clip from the smallest probability above 0."""
    clip = np.maximum(np.minimum(smallest / 2, 0.5 / n_classes), LEAST_CLIP)
    return clip if clip.size == 2 else float(clip[0])


@dataclass(frozen=True)
class RunningClip:
    """The clip of rows that are seen once, batch by batch.

    Until a 0 occurs, it is below all probabilities so far and has changed none. From the batch with
    the first 0 on, it stays (for two classes, that of the column).
    """

    clip: Clip = LEAST_CLIP
    any_zero: Bools | bool = False
    smallest: Float64Array | float = np.inf

    def with_rows(self, scores: Scores) -> RunningClip:
        """Return the clip with a batch."""
        if needs_no_clip(scores):
            return self
        smallest, any_zero = smallest_proba(scores)
        smallest, any_zero = np.minimum(smallest, self.smallest), any_zero | self.any_zero
        now = clip_below(smallest, scores.shape[1])
        clip = np.where(self.any_zero, self.clip, now)
        return RunningClip(clip if clip.size > 1 else float(clip.item()), any_zero, smallest)


NO_ROWS = RunningClip()
