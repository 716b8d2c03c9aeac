r"""The interval of an error, from simulations along a path of truths.

On the path the error of the truth is e. Where the truth has error e, the metric of drawn labels has
mean m(e) and standard deviation S(e), the part of the rows included, and its standardised
distribution has quantiles z(e). The interval is the set of e for which the metric T of the data
lies between the quantiles,

.. math:: m(e) + z_{\alpha/2}(e)\, S(e) \le T \le m(e) + (z_{1 - \alpha/2}(e) + 0.1)\, S(e),

and the debiased estimate is the e at which T is the median. The 0.1 is for the chance in the
simulation, which the other end does not need: it is the higher one of two paths.

Quantiles are those of Cornish and Fisher, with skewness g and excess kurtosis k, which are linear
in e. They use all sets of labels of a path, where sample quantiles would use those of a few truths.
With z the normal quantile,

.. math:: z(e) = z + \frac{z^2 - 1}{6} g + \frac{z^3 - 3 z}{24} k - \frac{2 z^3 - 5 z}{36} g^2 .
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from skcalib._arrays.types import Float64Array

# Lowers the low end, in standard deviations.
MARGIN = 0.1
# Quantiles of Cornish and Fisher are far from those of distributions with larger ones.
LARGEST_SKEWNESS, KURTOSES = 1.5, (-1.0, 4.0)
# The range of e goes this many standard deviations beyond the metric; fits use points within this
# share of the range beyond its ends, and at least so many.
FAR, BEYOND, FEWEST = 5.0, 0.25, 6
# Values of e at which the curves are compared with the metric.
FINE = 401
TINY = 1e-12


@dataclass(frozen=True)
class Point:
    """Simulations at one truth: its error, the variance that rows add, and the metric of labels."""

    error: float
    row_variance: float
    values: Float64Array

    @cached_property
    def mean(self) -> float:
        """Mean over the sets of labels."""
        return float(self.values.mean())

    @cached_property
    def sd(self) -> float:
        """Standard deviation over the sets of labels."""
        return float(self.values.std(ddof=1))

    @cached_property
    def moments(self) -> tuple[float, float]:
        """Skewness and excess kurtosis over the sets of labels."""
        z = (self.values - self.mean) / max(self.sd, TINY)
        return float((z**3).mean()), float((z**4).mean()) - 3.0


class Ends(NamedTuple):
    """The ends of an interval, and the error at which the metric is the median.

    `empty`: no truth of the path shows as large an error as the data do.
    """

    low: float
    middle: float
    high: float
    empty: bool = False


def search_range(observed: float, null: Point, one: Point) -> tuple[float, float]:
    """Return the range in which the error may lie; the mean of the metric is at least its limit."""
    s = max(null.sd, float(np.sqrt(one.sd**2 + one.row_variance)), TINY)
    return max(0.0, observed - max(null.mean, 0.0) - FAR * s), observed + FAR * s


def invert(points: list[Point], observed: float, level: float) -> Ends:
    """Return the interval of the error; the first point is that of e = 0, the second of Q."""
    alpha = (1 - level) / 2
    null = points[0]
    low, high = search_range(observed, null, points[1])
    error = np.array([point.error for point in points])
    pad = BEYOND * (high - low)
    # Truths may be far apart: with the next one above, the interval does not end at the last below.
    above = error[error >= (observed + high) / 2]
    last = max(high + pad, above.min()) if above.size else high + pad
    near = (error >= low - pad) & (error <= last)
    if near.sum() < FEWEST:
        away = np.abs(error - (low + high) / 2)
        near |= away <= np.sort(away)[min(FEWEST, away.size - 1)]
    used = sorted((points[i] for i in np.flatnonzero(near)), key=lambda point: point.error)
    e = np.array([point.error for point in used])
    span = max(float(np.ptp(e)), TINY)
    x, fine = (e - e[0]) / span, np.linspace(0, 1, FINE)
    sd = np.array([point.sd for point in used])
    trust = np.sqrt([point.values.size for point in used])
    spread = np.sqrt(sd**2 + [point.row_variance for point in used])
    weight = trust / np.maximum(sd, max(TINY, 1e-3 * sd.max()))
    mean = np.array([point.mean for point in used])
    m = np.polyval(_fit(x, mean, 3, weight), fine)
    S = np.maximum(np.polyval(_fit(x, spread, 2, trust), fine), 0.5 * sd.min())
    moments = np.array([point.moments for point in used])
    skewness, kurtosis = (
        np.asarray(np.polyval(_fit(x, y, 1, trust), fine), dtype=np.float64) for y in moments.T
    )
    z_low, z_middle, z_high = (
        cornish_fisher(float(ndtri(share)), skewness, kurtosis) for share in (alpha, 0.5, 1 - alpha)
    )
    at = e[0] + fine * np.ptp(e)
    null_middle, null_high = np.quantile(null.values, [0.5, 1 - alpha])
    reaches_0 = e[0] == 0.0

    def first(below: Float64Array) -> float:
        return float(at[below.argmax()] if below.any() else at[-1])

    seldom_smaller = m + (z_high + MARGIN) * S >= observed
    start, empty = first(seldom_smaller), not seldom_smaller.any()
    middle = first(m + z_middle * S >= observed)
    allowed = np.flatnonzero(m + z_low * S <= observed)
    end = float(at[allowed[-1]] if allowed.size else at[0])
    if reaches_0 and observed <= null_high:
        start, empty = 0.0, False
    if reaches_0 and observed <= null_middle:
        middle = 0.0
    return Ends(start, middle, max(start, middle, end), empty)


def cornish_fisher(z: float, skewness: Float64Array, kurtosis: Float64Array) -> Float64Array:
    """Return the quantiles where the normal distribution has the quantile z."""
    g = np.clip(skewness, -LARGEST_SKEWNESS, LARGEST_SKEWNESS)
    k = np.clip(kurtosis, *KURTOSES)
    return np.asarray(
        z + (z**2 - 1) * g / 6 + (z**3 - 3 * z) * k / 24 - (2 * z**3 - 5 * z) * g**2 / 36
    )


def _fit(x: Float64Array, y: Float64Array, degree: int, weight: Float64Array) -> Float64Array:
    """Return the coefficients of a least-squares polynomial, of as many degrees as points allow.

    Values of x lie between 0 and 1; the closest ones are one to a polynomial.
    """
    distinct = np.unique(x.round(6)).size
    return np.asarray(np.polyfit(x, y, max(0, min(degree, distinct - 2)), w=weight))
