"""In which even bin a score lies: slow and obvious, for all tests of bins."""

import math
from fractions import Fraction


def bin_of(value, n_bins, closed):
    """Bin of a fraction; 0 lies in the first and 1 in the last."""
    if closed == "right":
        return max(0, math.ceil(value * n_bins) - 1)
    return min(n_bins - 1, math.floor(value * n_bins))


def even_bin(score, n_bins, closed):
    """Bin of a score of its own type; one that is k/B in that type stands for this fraction."""
    value = Fraction(float(score))
    nearest = round(value * n_bins)
    value = Fraction(nearest, n_bins) if score == type(score)(nearest / n_bins) else value
    return bin_of(value, n_bins, closed)
