"""In which even bin a score lies, in exact fractions: slow and obvious, for all tests of bins."""

import math
from fractions import Fraction
from functools import cache, lru_cache


def ways_to_write(k, n_bins, dtype, complements=False):
    """Numbers of a type that stand for k/B: as quotients and products give them, or 1 less such."""
    one = dtype(1)
    ways = [dtype(k / n_bins), dtype(k) / dtype(n_bins), dtype(min(1.0, k * (1 / n_bins)))]
    if complements:
        ways += [one - way for way in ways_to_write(n_bins - k, n_bins, dtype)]
    return ways


def meaning(score, n_bins, complements=False):
    """What a score stands for: k/B if it is one of the numbers written for that, else itself."""
    dtype = type(score)
    nearest = round(Fraction(float(score)) * n_bins)
    if float(score) in map(float, ways_to_write(nearest, n_bins, dtype, complements)):
        return Fraction(nearest, n_bins)
    return Fraction(float(score))


def bin_of(value, n_bins, closed):
    """Bin of a fraction; 0 lies in the first and 1 in the last."""
    if closed == "right":
        return max(0, math.ceil(value * n_bins) - 1)
    return min(n_bins - 1, math.floor(value * n_bins))


@cache
def bins_of_fractions(n_bins, closed):
    """Bins of 0, 1/B, ..., 1."""
    return [bin_of(Fraction(k, n_bins), n_bins, closed) for k in range(n_bins + 1)]


# Equal numbers of two types may mean two fractions.
@lru_cache(maxsize=None, typed=True)
def even_bin(score, n_bins, closed, complements=False):
    """Bin of a score of its own type."""
    return bin_of(meaning(score, n_bins, complements), n_bins, closed)
