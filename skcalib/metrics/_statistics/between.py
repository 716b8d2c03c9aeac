r"""Statistics of risk models in groups, and what they say of a new group: random effects.

The statistics :math:`y_g` of G groups, with standard errors :math:`s_g`, vary about a mean
:math:`\mu` with standard deviation :math:`\tau`. With :math:`w_g = 1 / (s_g^2 + \tau^2)`, Paule and
Mandel's (1982) :math:`\tau^2` solves

.. math:: \sum_g w_g (y_g - \hat\mu)^2 = G - 1, \qquad \hat\mu = \sum_g w_g y_g \Big/ \sum_g w_g ,

or is 0. The variance of the mean is Hartung and Knapp's, the left-hand side over :math:`(G - 1)
\sum_g w_g`, with quantiles of Student's t with G - 1 degrees of freedom. The number that is
measured in a new group of their mean size is expected within :math:`\hat\mu \pm t_{G_e-2}
\sqrt{\tau^2 + v + s^2}` (Higgins et al. 2009 have :math:`s = 0` and G). Here :math:`1 / s^2` is the
mean of :math:`1 / s_g^2`, and :math:`G_e = (\sum_g w_g)^2 / \sum_g w_g^2`: small groups say little
about how much groups differ. O:E is averaged on the scale of its logarithm and AUC on that of its
logit (Debray et al. 2017).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq
from scipy.special import expit, logit, ndtri

from skcalib._arrays.types import Float64Array
from skcalib._validation.clusters import FEWEST
from skcalib._validation.predictions import Predictions
from skcalib.metrics._clusters import effective_number, student
from skcalib.metrics._event import event_log_odds, event_rows
from skcalib.metrics._statistics.decomposition import score_decomposition
from skcalib.metrics._statistics.intercept_slope import recalibration
from skcalib.metrics._statistics.observed_expected import ratio_interval
from skcalib.metrics._statistics.summary import auc_interval

# Groups with fewer events, or others, have no statistics.
FEWEST_EVENTS, TINY = 2, 1e-300
COLUMNS = ["groups", "mean", "low", "high", "tau", "I2", "prediction_low", "prediction_high"]
# A statistic, the ends of its interval, and its standard error on the scale of its mean.
Line = Sequence[float]


class Statistic(NamedTuple):
    """How a statistic is measured, its difference from a perfect one, and the scale of its mean."""

    measure: Callable[[Predictions, float], Line]
    difference: Callable[[Any], Any] = np.asarray
    scale: Callable[[Any], Any] = np.asarray
    back: Callable[[Any], Any] = np.asarray

    def of_group(self, part: Predictions, level: float) -> Line:
        """Return the line of a group; NaN if it is too small."""
        _, hit, w, _ = event_rows(part)
        if (part.n_clusters or FEWEST) >= FEWEST and min(w @ hit, w @ ~hit) >= FEWEST_EVENTS:
            # No finite slope, or no expected event.
            with suppress(ValueError, ZeroDivisionError), np.errstate(divide="ignore"):
                return self.measure(part, level)
        return [np.nan] * 4

    def distances(self, ends: Float64Array) -> list[Float64Array]:
        """Return how far from perfect statistics are, and how far they are at least."""
        value, low, high = self.difference(ends)
        return [abs(value), np.where(low * high < 0, 0.0, np.minimum(abs(low), abs(high)))]

    def over_groups(self, value: Float64Array, error: Float64Array, level: float) -> list[float]:
        """Return a row of `COLUMNS` of the statistics of groups and their standard errors."""
        with np.errstate(divide="ignore"):
            y = self.scale(value)
        known = np.isfinite(y) & np.isfinite(error) & (error > 0)
        y, v, G = y[known], error[known] ** 2, int(known.sum())
        if G < FEWEST:
            return [G, *[np.nan] * (len(COLUMNS) - 1)]

        def excess(tau2: float) -> float:
            w = 1 / (v + tau2)
            return float(w @ (y - w @ y / w.sum()) ** 2) - (G - 1)

        first = excess(0.0)
        tau2 = float(brentq(excess, 0.0, y.var(ddof=1), xtol=1e-14)) if first > 0 else 0.0
        w = 1 / (v + tau2)
        mean = float(w @ y / w.sum())
        variance = (excess(tau2) / (G - 1) + 1) / float(w.sum())
        half = student(G - 1, level) * np.sqrt(variance)
        total = tau2 + variance + 1 / np.mean(1 / v)
        new = student(effective_number(w) - 2, level) * np.sqrt(total)
        mean, low, high, *ends = self.back(mean + np.array([0.0, -half, half, -new, new]))
        return [G, mean, low, high, np.sqrt(tau2), max(first / (first + G - 1), 0.0), *ends]


def error_of(ends: ArrayLike, level: float) -> float:
    """Return the standard error that an interval implies."""
    return float(np.ptp(ends) / (2 * ndtri((1 + level) / 2)))


def ratio(part: Predictions, level: float) -> Line:
    """Return the observed-expected ratio; of independent rows its error is that of a share."""
    rows = event_rows(part)
    value, *ends = ratio_interval(rows, level)
    if part.cluster is not None:
        return value, *ends, error_of(np.log(ends), level)
    return value, *ends, float(np.sqrt(1 / (rows.w @ rows.hit) - 1 / rows.w.sum()))


def line(part: Predictions, level: float, start: int) -> Line:
    """Return numbers of the logistic recalibration."""
    return recalibration(event_log_odds(part), event_rows(part), level)[start : start + 4]


def area(part: Predictions, level: float) -> Line:
    """Return the AUC; the error of its logit is by the delta method."""
    value, *ends = auc_interval(event_rows(part), level)
    return value, *ends, error_of(ends, level) / max(value * (1 - value), TINY)


def score(part: Any, level: float, name: Any) -> Line:
    """Return a proper score."""
    parts = score_decomposition(part.code, part, score=name, confidence_level=level)
    ends = parts.score_low, parts.score_high
    return parts.score, *ends, error_of(ends, level)


# By the names of rows of `calibration_summary`.
STATISTICS = {
    "observed_expected": Statistic(ratio, np.log, np.log, np.exp),
    "slope": Statistic(partial(line, start=0), lambda x: x - 1),
    "intercept": Statistic(partial(line, start=4)),
    "in_the_large": Statistic(partial(line, start=8)),
    "auc": Statistic(area, lambda x: 1 - x, logit, expit),
    "brier_score": Statistic(partial(score, name="brier")),
    "log_loss": Statistic(partial(score, name="log")),
}
# Functions that return some of them.
FUNCTIONS = {
    "observed_expected_ratio": ("observed_expected",),
    "calibration_intercept_slope": ("slope", "intercept", "in_the_large"),
}
