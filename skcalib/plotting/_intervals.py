r"""The range of the accuracy of a bin of n rows if the model is calibrated.

For a calibrated model whose n scores have mean p, the number of hits is binomial(n, p) if the
scores are equal, and has a slightly smaller variance if they are not. Its quantiles are the band.
Its mean deviation, with :math:`m = \lfloor n p \rfloor + 1` (De Moivre),

.. math:: \frac{1}{n} E |X - n p| = \frac{2 m (1 - p)}{n} P(X = m) ,

is the mean gap that n rows of a calibrated model show by chance.
"""

from __future__ import annotations

import numpy as np
from scipy.stats import binom

from skcalib._arrays.types import Float64Array


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
