r"""Intervals of shares of hits, and the factor of a band that covers a whole curve.

A Gaussian curve :math:`f(x) = l(x)' Z` with independent standard normal Z, divided by its standard
deviation, leaves :math:`[-c, c]` somewhere with probability

.. math:: \frac{\kappa}{\pi} e^{-c^2 / 2} + 2 \Phi(-c)

at most, :math:`\kappa` being the length of the path of :math:`l(x) / \|l(x)\|` on the unit sphere:
the volume-of-tube formula.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import brentq
from scipy.special import betaincinv, ndtr, ndtri

from skcalib._arrays.types import Float64Array

LARGEST_FACTOR = 40.0


def wilson_interval(
    share: Float64Array, n: Float64Array | float, confidence_level: float
) -> tuple[Float64Array, Float64Array]:
    r"""Return both ends of Wilson's interval of a share of hits; NaN where there are no rows.

    A share a of n rows with confidence level :math:`1 - \alpha`, z the normal quantile of
    :math:`1 - \alpha / 2`, has the interval

    .. math:: \frac{1}{1 + z^2/n} \Big( a + \frac{z^2}{2n}
              \pm z \sqrt{\frac{a (1 - a)}{n} + \frac{z^2}{4 n^2}} \Big) .
    """
    z = ndtri((1 + confidence_level) / 2)
    rows = np.where(n > 0, n, np.nan)
    centre = share + z * z / (2 * rows)
    half = z * np.sqrt(share * (1 - share) / rows + (z / (2 * rows)) ** 2)
    scale = 1 + z * z / rows
    # At a share of 0 or 1 rounding may move the end of the interval off it.
    low, high = (centre - half) / scale, (centre + half) / scale
    return np.where(share == 0, 0.0 * rows, low), np.where(share == 1, 1.0 + 0.0 * rows, high)


def exact_bounds(
    H: Float64Array, W: Float64Array, tail: float
) -> tuple[Float64Array, Float64Array]:
    """Return Clopper and Pearson's bounds of shares of H hits in W rows, each missed by `tail`."""
    misses = np.maximum(W - H, 0.0)
    low = np.where(H > 0, betaincinv(np.maximum(H, 1e-300), misses + 1.0, tail), 0.0)
    high = np.where(misses > 0, betaincinv(H + 1.0, np.maximum(misses, 1e-300), 1.0 - tail), 1.0)
    return low, high


def tube_factor(path: Float64Array, level: float) -> float:
    """Return c for l(x) at a sequence of places ``(g, size)``."""
    length = np.linalg.norm(path, axis=1, keepdims=True)
    unit = path / np.where(length > 0, length, 1.0)
    # Angles by chords, which are precise where angles are small.
    chords = np.linalg.norm(np.diff(unit, axis=0), axis=1)
    kappa = float((2.0 * np.arcsin(np.minimum(chords / 2.0, 1.0))).sum())

    def excess(c: float) -> float:
        return kappa / np.pi * np.exp(-c * c / 2.0) + 2.0 * float(ndtr(-c)) - (1.0 - level)

    return float(brentq(excess, 0.0, LARGEST_FACTOR))
