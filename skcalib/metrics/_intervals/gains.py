r"""Confidence intervals of gains: the error before a calibrator minus the error after it.

The true probabilities (the truth) are assumed to be on a path through the predictions P before the
calibrator (u = -1), the calibrated model (u = 0) and the predictions Q after the calibrator (u =
1). Truths with u > 1 continue the path from P through Q, as if the calibrator corrected too little.
Truths with u < -1 continue the path from Q through P, as if the calibrator corrected in the wrong
direction. At each u, labels are drawn, and both errors are computed with the same labels. With T
the errors of the data, D the true gain, b the bias of its estimate, and d and s the difference and
the sum of the errors,

.. math:: z_d = \frac{T_d - D - b}{S_d}, \quad z_s = \frac{T_s - m_s}{S_s}, \quad
          M(u) = \frac{z_d^2 + z_s^2 - 2 \rho z_d z_s}{1 - \rho^2},

and u is plausible if M exceeds its minimum by at most the quantile of :math:`\chi^2_1`. The
interval is the union of the intervals :math:`T_d - b - z S_d` over plausible u.

All truths on the path may have logits of the wrong size, and their errors are smooth functions of
the scores. So further truths next to the path are included. Three of these are the most likely
truth of the path with tempered logits: by the most likely factor, and by 1.5 standard errors less
and more. The others add rough errors to the first of these three (`rough_truths`). On the path one
parameter is fitted, but further truths may fit both d and s, so they are plausible up to the
quantile of :math:`\chi^2_2`.

The estimate of the gain is :math:`T_d` minus the mean bias b of all truths, weighted by
:math:`e^{-M/2}`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import chi2

from skcalib._arrays.rowwise import Float64Array, FloatArray
from skcalib._arrays.sources import as_source, to_array
from skcalib._validation.keywords import spawn_seeds
from skcalib._validation.rows import Predictions
from skcalib.metrics._common import widening
from skcalib.metrics._intervals.interval import label_error
from skcalib.metrics._intervals.label_errors import LabelError
from skcalib.metrics._intervals.truths import (
    LEAST,
    ROUGH,
    calibrated,
    jackknife_variance,
    random_groups,
    rough_truths,
    tempered_truths,
    truth_on_path,
)
from skcalib.metrics._resampling import Evaluation, repeat_rows

# Positions u on the path of assumed true probabilities, number of further assumed true
# probabilities next to the path, and number of simulated label vectors for each position and each
# further assumption.
PLACES = np.array([-2.2, -1.6, -1.0, -0.7, -0.4, -0.2, 0.0, 0.2, 0.4, 0.7, 1.0, 1.6, 2.2])
BESIDE = 3 + len(ROUGH)
N_SETS = [160 if u in (-1, 0, 1) else 80 for u in PLACES] + BESIDE * [80]
FINE = np.linspace(PLACES[0], PLACES[-1], 353)
SIMULATED = np.abs(FINE[:, None] - PLACES).argmin(axis=0)
LARGEST_CORRELATION = 0.98
# The largest number of entries in the tables of the jackknife, one table for each group of rows
# that is left out. The number is small because a gain needs only the variance of errors: fewer
# cells estimate the variance with a precision of 1 % in a third of the time.
FEWER_ENTRIES = 1 << 20
# Lower bound of the ratio of standardised quantiles of simulated gains and normal quantiles.
LEAST_QUANTILE = 0.97
TINY = 1e-12

# A calibration error as a function of labels, for the predictions before and after calibration.
Pair = tuple[LabelError, LabelError]


class Gain(NamedTuple):
    """Debiased reduction of an error by a calibrator, with both ends of its confidence interval."""

    gain: float
    low: float
    high: float


class Moments(NamedTuple):
    """Moments of simulated gains (reductions of an error) under assumed true probabilities.

    ``numbers`` contains D, b, the mean of s, the standard deviations of d and s, and rho.
    ``residuals`` contains the standardised gains of the simulated label vectors.
    """

    numbers: Float64Array
    residuals: Float64Array


class GainSimulation:
    """Simulation of the gains of calibrators: by how much they reduce calibration errors."""

    def __init__(
        self, evaluations: list[Evaluation], before: Predictions, *, random_state: Any = None
    ) -> None:
        self.evaluations = evaluations
        self.before = before = repeat_rows(before)
        *self._seeds, self._rough_seed = spawn_seeds(random_state, PLACES.size + BESIDE + 1)
        self._base = calibrated(before)
        self._errors = [label_error(evaluate, before) for evaluate in evaluations]
        self._observed = [error.observed(before.code)[0] for error in self._errors]

    def gains(self, after: Predictions, level: float) -> list[Gain]:
        """Return how much each error is reduced by calibrated predictions of the same rows."""
        after = repeat_rows(after)
        errors = [label_error(evaluate, after) for evaluate in self.evaluations]
        pairs = list(zip(self._errors, errors, strict=True))
        truths = zip(self._truths(to_array(after.P)), N_SETS, self._seeds, strict=True)
        moments = [self._moments_at(pairs, *truth) for truth in truths]
        larger = widening(self.before, level)
        return [
            gain_interval(list(of_error), before, error.observed(after.code)[0], level, larger)
            for of_error, before, error in zip(
                zip(*moments, strict=True), self._observed, errors, strict=True
            )
        ]

    def _moments_at(
        self, pairs: list[Pair], q: FloatArray, n_sets: int, seed: np.random.SeedSequence
    ) -> list[Moments]:
        """Return the moments of the gain in each metric, with labels drawn from probabilities q."""
        codes, group = pairs[0][0].draw(q, n_sets, seed), random_groups(self.before.units)
        return [
            moments_of(
                np.concatenate([error.limits(q) for error in pair]),
                np.hstack([error.values(q, codes) for error in pair]),
                np.hstack([error.limits_without(q, group, FEWER_ENTRIES) for error in pair]),
            )
            for pair in pairs
        ]

    def _truths(self, after: FloatArray) -> Iterator[FloatArray]:
        """Yield assumed true probabilities on and near the path through `before` and `after`."""
        P, code, w = to_array(self.before.P), self.before.code, self.before.w
        best, most = P, -np.inf
        for u in PLACES:
            start, end = self._base, after if u > 0 else P
            if abs(u) > 1:
                start = P if u > 0 else after
            q = truth_on_path(as_source(start), end, float(abs(u)))
            likelihood = w @ np.log(np.maximum(q[np.arange(code.size), code], LEAST))
            if likelihood > most:
                best, most = q, likelihood
            yield q
        smooth = tempered_truths(best, self.before)
        yield from smooth
        yield from rough_truths(smooth[0], self.before, np.random.default_rng(self._rough_seed))


def moments_of(limits: Float64Array, values: Float64Array, without: Float64Array) -> Moments:
    """Return the moments of a gain, from simulated errors before and after calibration.

    ``limits (2,)`` are the true errors, ``values (R, 2)`` the errors of R label vectors, and
    ``without (groups, 2)`` the true errors without each group of rows.
    """
    gain, total = values[:, 0] - values[:, 1], values.sum(axis=1)
    true = float(limits[0] - limits[1])
    by_rows = np.stack([without[:, 0] - without[:, 1], without.sum(axis=1)], axis=1)
    difference, summed = jackknife_variance(by_rows)
    first, second = jackknife_variance(without)
    sd = np.sqrt(gain.var(ddof=1) + difference)
    sd_sum = np.sqrt(total.var(ddof=1) + summed)
    rho = (np.cov(gain, total)[0, 1] + first - second) / max(sd * sd_sum, TINY**2)
    numbers = np.array([true, gain.mean() - true, total.mean(), sd, sd_sum, rho])
    return Moments(numbers, (gain - gain.mean()) / max(gain.std(), TINY))


def gain_interval(
    moments: list[Moments], observed: float, now: float, level: float, larger: float = 1.0
) -> Gain:
    """Return the confidence interval of a gain, from its moments under assumed probabilities.

    Standard deviations are multiplied by `larger`.
    """
    alpha, n_path = (1 - level) / 2, PLACES.size
    residuals = [drawn.residuals for drawn in moments]
    # Quantiles at a position on the path of assumed true probabilities also use the simulations at
    # the neighbouring positions. All assumed true probabilities next to the path have the same
    # quantiles.
    near = [residuals[max(j - 1, 0) : min(j + 2, n_path)] for j in range(n_path)]
    beside = len(moments) - n_path
    near += beside * [residuals[n_path:]]
    ends = [np.quantile(np.concatenate(parts), [alpha, 1 - alpha]) for parts in near]
    rows = [np.append(drawn.numbers, z) for drawn, z in zip(moments, ends, strict=True)]
    D, bias, mean_sum, sd, sd_sum, rho, z_low, z_high = (
        np.append(np.interp(FINE, PLACES, column[:n_path]), column[n_path:])
        for column in np.transpose(rows)
    )
    largest = np.repeat(chi2.ppf(level, [1, 2]), [FINE.size, beside])
    sd, sd_sum = larger * sd, larger * sd_sum
    rho = np.clip(rho, -LARGEST_CORRELATION, LARGEST_CORRELATION)
    observed_gain = observed - now
    z = (observed_gain - D - bias) / np.maximum(sd, TINY)
    z_sum = (observed + now - mean_sum) / np.maximum(sd_sum, TINY)
    distance = (z * z + z_sum * z_sum - 2 * rho * z * z_sum) / (1 - rho * rho)
    distance -= distance.min()
    plausible = distance <= largest
    least = LEAST_QUANTILE * np.sqrt(chi2.ppf(level, 1))
    low = observed_gain - bias - np.maximum(z_high, least) * sd
    high = observed_gain - bias - np.minimum(z_low, -least) * sd
    simulated = np.append(SIMULATED, np.arange(FINE.size, bias.size))
    estimate = observed_gain - np.average(bias[simulated], weights=np.exp(-distance[simulated] / 2))
    return Gain(float(estimate), float(low[plausible].min()), float(high[plausible].max()))
