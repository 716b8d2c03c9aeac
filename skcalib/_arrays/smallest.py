"""The smallest number above 0 of a block of probabilities."""

from __future__ import annotations

import numpy as np

from skcalib._arrays.rowwise import smallest_above_zero
from skcalib._arrays.tensors import rows_of
from skcalib._arrays.types import FloatArray

# Of each column, or of all: the smallest number above 0, and whether 0 occurs.
Smallest = list[tuple[float, bool]]
# Multiple of the machine epsilon up to which 1 - p may be nothing but rounding.
ROUNDING = 4.0


def smallest_of_block(block: FloatArray) -> Smallest:
    """Return the smallest number above 0 and whether 0 occurs; of each column if there are two."""
    if block.shape[1] > 2:
        return [rows_of(block).smallest_above_zero(block)]
    p, other = block.T.copy()  # contiguous: strided columns are slow to read
    return [smallest_above_rounding(p, other), smallest_above_rounding(other, p)]


def smallest_above_rounding(p: FloatArray, other: FloatArray) -> tuple[float, bool]:
    """Return the same for p ``(n,)``; a tiny p that equals ``1 - other`` counts as 0."""
    low, most = p.min(), ROUNDING * np.finfo(p.dtype).eps
    if low > most:
        return float(low), False
    return smallest_above_zero(np.where((p <= most) & (p == 1 - other), 0, p))
