r"""How small a probability may be where its logarithm is taken: the clip.

An exact 0 stands for some number below the resolution of the scores: below 1 / 100 for a forest of
a hundred trees, below .05 for confidences in multiples of 5 %. The smallest probability m above 0
among the calibration rows tells it. Of K classes and rows of a total weight n,

.. math:: c = \max\left(l, \min\left(\frac{m}{2}, \frac{1}{2K}\right)\right)

is what 0, and whatever else is smaller, is raised to; no number among the calibration rows is,
unless it is below l, the smallest normal number of float32. Without a 0 these rows show no
resolution, and c, which is for new rows then, is at most :math:`1 / 2n`.

Two classes are the two ends of one number, which float32 tells from 0 by 1e-45 and from 1 by 6e-8:
each of the two columns has a clip of its own. Where one was made of the other, as 1 - p, what a few
roundings leave in it counts as 0: ten weights of .1 add up to 1 - 1.1e-16.

A logit of -inf is the logarithm of a probability of 0. Without one among the calibration rows,
logits are not read, and c is l.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from skcalib._arrays.blocks import light_blocks
from skcalib._arrays.threads import map_blocks
from skcalib._arrays.types import Clip, FloatArray
from skcalib._scores.scores import Scores

# What is smaller is 0 in one precision and a number in the other, or has lost its digits in both.
LEAST_CLIP = float(np.finfo(np.float32).tiny)
# Times the spacing of numbers at 1: what a few roundings leave of it.
ROUNDING = 4.0
# Below the largest probability of any row, which stays the largest.
MOST_CLIP = 0.25


def find_clip(scores: Scores, w: NDArray[np.float64]) -> Clip:
    """Return the clip of calibration scores ``(n, K)`` of positive weights."""
    n, n_classes = scores.shape
    if scores.kind == "logits" and scores.reach < np.inf:
        return LEAST_CLIP

    def of_rows(rows: slice) -> list[tuple[float, bool]]:
        block = scores.array[rows] if scores.kind == "proba" else scores.proba(rows)
        if n_classes > 2:
            return [smallest_above_zero(block)]
        p, other = block.T.copy()  # in order: columns of two are slow to read
        return [smallest_above_rounding(p, other), smallest_above_rounding(other, p)]

    each = np.array(list(map_blocks(of_rows, *light_blocks(n, n_classes))))
    smallest, any_zero = each[..., 0].min(axis=0), each[..., 1].max(axis=0) > 0
    most = np.where(any_zero, 0.5 / n_classes, 0.5 / max(n_classes, float(w.sum())))
    clip = np.maximum(np.minimum(smallest / 2, most), LEAST_CLIP)
    return clip if n_classes == 2 else float(clip[0])


def smallest_above_zero(block: FloatArray) -> tuple[float, bool]:
    """Return the smallest number above 0 of a block, inf if there is none, and whether 0 occurs."""
    low = block.min()
    if low > 0:
        return float(low), False
    # As whole numbers, numbers above 0 keep their order, and 0 less 1 is larger than all of them:
    # a quarter of the time of looking for those above 0.
    bits = np.uint32 if block.itemsize == 4 else np.uint64
    whole: NDArray[np.unsignedinteger] = block.view(bits)
    before = (whole - bits(1)).min(keepdims=True)
    smallest = float((before + bits(1)).view(block.dtype).item())
    return smallest if smallest > 0 else np.inf, True


def smallest_above_rounding(p: FloatArray, other: FloatArray) -> tuple[float, bool]:
    """Return the same of p ``(n,)``, where ``1 - other`` counts as 0 if it is next to nothing."""
    low, most = p.min(), ROUNDING * np.finfo(p.dtype).eps
    if low > most:
        return float(low), False
    return smallest_above_zero(np.where((p <= most) & (p == 1 - other), 0, p))
