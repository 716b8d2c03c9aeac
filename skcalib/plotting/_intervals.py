r"""Intervals of the accuracy of a bin of n rows, and its range if the model is calibrated.

A share of hits a in n rows with confidence level :math:`1 - \alpha`, z the normal quantile of
:math:`1 - \alpha / 2`, has Wilson's interval

.. math:: \frac{1}{1 + z^2/n} \Big( a + \frac{z^2}{2n}
          \pm z \sqrt{\frac{a (1 - a)}{n} + \frac{z^2}{4 n^2}} \Big) .

For a calibrated model whose n scores have mean p, the number of hits is binomial(n, p) if the
scores are equal, and has a slightly smaller variance if they are not. Its quantiles are the band.
Its mean deviation, with :math:`m = \lfloor n p \rfloor + 1` (De Moivre),

.. math:: \frac{1}{n} E |X - n p| = \frac{2 m (1 - p)}{n} P(X = m) ,

is the mean gap that n rows of a calibrated model show by chance.
"""

from __future__ import annotations

import numpy as np
from scipy.stats import binom, norm

from skcalib._arrays.types import Float64Array


def wilson_interval(
    share: Float64Array, n: Float64Array, confidence_level: float
) -> tuple[Float64Array, Float64Array]:
    """Return both ends of Wilson's interval of a share of hits; NaN where there are no rows."""
    z = norm.ppf((1 + confidence_level) / 2)
    rows = np.where(n > 0, n, np.nan)
    centre = share + z * z / (2 * rows)
    half = z * np.sqrt(share * (1 - share) / rows + (z / (2 * rows)) ** 2)
    scale = 1 + z * z / rows
    # At a share of 0 or 1 rounding may move the end of the interval off it.
    low, high = (centre - half) / scale, (centre + half) / scale
    return np.where(share == 0, 0.0 * rows, low), np.where(share == 1, 1.0 + 0.0 * rows, high)


def consistency_band(
    confidence: Float64Array, n: Float64Array, confidence_level: float
) -> tuple[Float64Array, Float64Array]:
    """Return quantiles of the share of hits of a calibrated bin; NaN where there are no rows."""
    copies = _copies(n)
    tail = (1 - confidence_level) / 2
    p = np.clip(confidence, 0.0, 1.0)
    low, high = (binom.ppf(q, copies, p) / copies for q in (tail, 1 - tail))
    return np.where(n > 0, low, np.nan), np.where(n > 0, high, np.nan)


def expected_deviation(confidence: Float64Array, n: Float64Array) -> Float64Array:
    """Mean distance of the share of hits of a calibrated bin from its confidence; 0 if empty."""
    copies = _copies(n)
    p = np.clip(np.where(n > 0, confidence, 0.0), 0.0, 1.0)
    m = np.floor(copies * p) + 1
    return np.asarray(2 * m * (1 - p) * binom.pmf(m, copies, p) / copies)


def _copies(n: Float64Array) -> Float64Array:
    """Return a whole number of rows, at least one: sums of weights may be fractions."""
    return np.maximum(np.round(n), 1.0)
