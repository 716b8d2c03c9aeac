r"""The interval of a gain: how much smaller an error is after a calibrator than before it.

The truth lies somewhere on the path P -> base -> Q of the predictions before, the calibrated model
and the predictions after, at u = -1, 0 and 1, or beyond its ends: at u > 1 on the way from P
through Q, as if the calibrator corrected too little, and at u < -1 on the way from Q through P, as
if it corrected in the wrong direction. At each u labels are drawn, and both errors are measured on
the same ones. With T the errors of the data, D the true gain, b the bias of its
estimate, and d, s the difference and the sum of the errors,

.. math:: z_d = \frac{T_d - D - b}{S_d}, \quad z_s = \frac{T_s - m_s}{S_s}, \quad
          M(u) = \frac{z_d^2 + z_s^2 - 2 \rho z_d z_s}{1 - \rho^2},

and u is plausible if M is at most the quantile of :math:`\chi^2_1` above its least value. The
interval is the union of :math:`T_d - b - z S_d` over plausible u. The logits of a truth on the path
may nowhere have the right size, and its errors are smooth. So truths beside it count in the same
way: the most likely one on the path, with logits of the most likely size, and of 1.5 standard
errors less and more; and the first of these with rough errors (`rough`). A path fits one number,
but truths beside it may fit d and s alike, and they are plausible up to the quantile of
:math:`\chi^2_2`.

The estimate of the gain is :math:`T_d` less the mean b of all truths, weighted by :math:`e^{-M/2}`.
"""

from __future__ import annotations

from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from scipy.stats import chi2

from skcalib._arrays.source import as_source, to_array
from skcalib._arrays.types import Float64Array, FloatArray
from skcalib._validation.keywords import check_seed
from skcalib._validation.predictions import Predictions
from skcalib.metrics._intervals.errors import LabelError, label_errors
from skcalib.metrics._intervals.intervals import (
    observed_of,
    simulate,
)
from skcalib.metrics._intervals.jackknife import jackknife_variance, limits_without
from skcalib.metrics._intervals.truths import (
    LEAST,
    ROUGH,
    calibrated,
    on_path,
    rough_truths,
    tempered_truths,
)
from skcalib.metrics._resampling import Evaluation, in_copies

# Truths on the path, and the sets of labels at each.
PLACES = np.array([-2.2, -1.6, -1.0, -0.7, -0.4, -0.2, 0.0, 0.2, 0.4, 0.7, 1.0, 1.6, 2.2])
SETS = np.where(np.isin(PLACES, (-1, 0, 1)), 160, 80)
BESIDE, SETS_BESIDE = 3 + len(ROUGH), 80
FINE = np.linspace(PLACES[0], PLACES[-1], 353)
SIMULATED = np.abs(FINE[:, None] - PLACES).argmin(axis=0)
LARGEST_CORRELATION = 0.98
# The most entries of the tables that leave out groups of rows. A gain needs only the variance of
# their errors, which fewer cells give to 1 % in a third of the time.
FEWER_ENTRIES = 1 << 20
# The standardised quantiles are at least this far from 0, in units of the normal ones.
LEAST_QUANTILE = 0.97
TINY = 1e-12


class GainInterval(NamedTuple):
    """The gain of an error, less what chance adds to it, and its interval."""

    estimate: float
    low: float
    high: float


class Drawn(NamedTuple):
    """Errors of one set of predictions at one truth: limits, those without groups, and values."""

    limits: Float64Array
    without: Float64Array
    values: Float64Array


class GainSimulation:
    """Gains of several errors over the predictions `before`, each of which is one number."""

    def __init__(
        self,
        evaluations: list[Evaluation],
        before: Predictions,
        *,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        entropy = check_seed(random_state).randint(0, 2**32, size=4, dtype=np.uint32)
        self.evaluations = evaluations
        self.before = before = in_copies(before)
        self.n_jobs = n_jobs
        self._seeds = np.random.SeedSequence(entropy.tolist()).spawn(PLACES.size + BESIDE + 1)
        self._base = calibrated(before)
        self._errors = label_errors(evaluations, before)
        self._observed = np.concatenate(observed_of(self._errors, before))
        self._drawn = self._draw(self._errors, [j for j, u in enumerate(PLACES) if -1 <= u <= 0])

    def gains(self, after: Predictions, level: float) -> list[GainInterval]:
        """Return the gain of each error for other predictions of the same rows."""
        after = in_copies(after)
        errors = label_errors(self.evaluations, after)
        Q = to_array(after.P)
        own = self._draw(errors, list(range(PLACES.size)), Q)
        others = [j for j in range(PLACES.size) if j not in self._drawn]
        first = {**self._drawn, **self._draw(self._errors, others, Q)}
        beside = self._beside(errors, Q)
        before, now = self._observed, np.concatenate(observed_of(errors, after))
        return [
            gain_interval(
                [_one(first[j], k) for j in range(PLACES.size)],
                [_one(own[j], k) for j in range(PLACES.size)],
                float(before[k]),
                float(now[k]),
                level,
                [(_one(p, k), _one(q, k)) for p, q in beside],
            )
            for k in range(before.size)
        ]

    def _beside(self, errors: list[LabelError], after: FloatArray) -> list[tuple[Drawn, Drawn]]:
        """Return the errors before and after at the truths beside the path."""
        P, code, w = to_array(self.before.P), self.before.code, self.before.w
        best, most = P, -np.inf
        for u in PLACES:
            q = truth_at(float(u), P, self._base, after)
            likelihood = w @ np.log(np.maximum(q[np.arange(code.size), code], LEAST))
            if likelihood > most:
                best, most = q, likelihood
        *seeds, random = self._seeds[PLACES.size :]
        smooth = tempered_truths(best, self.before)
        rough = rough_truths(smooth[0], self.before, np.random.default_rng(random))
        tasks = (
            delayed(draw)(each, q, SETS_BESIDE, seed)
            for q, seed in zip(chain(smooth, rough), seeds, strict=True)
            for each in (self._errors, errors)
        )
        found = Parallel(n_jobs=self.n_jobs)(tasks)
        return list(zip(found[::2], found[1::2], strict=True))

    def _draw(
        self, errors: list[LabelError], places: list[int], after: FloatArray | None = None
    ) -> dict[int, Drawn]:
        """Return the errors at some places; those between -1 and 0 do not need `after`."""
        P, base = to_array(self.before.P), self._base
        found = Parallel(n_jobs=self.n_jobs)(
            delayed(draw_at)(errors, (P, base, after), j, self._seeds[j]) for j in places
        )
        return dict(zip(places, found, strict=True))


def truth_at(
    u: float, before: FloatArray, base: FloatArray, after: FloatArray | None
) -> FloatArray:
    """Return the truth on the path at u."""
    start: Any = base
    end: Any = after if u > 0 else before
    if abs(u) > 1:
        start = before if u > 0 else after
    return on_path(as_source(start), end, abs(u))


def draw_at(
    errors: list[LabelError], ends: tuple[Any, ...], j: int, seed: np.random.SeedSequence
) -> Drawn:
    """Return the errors at place j."""
    return draw(errors, truth_at(float(PLACES[j]), *ends), int(SETS[j]), seed)


def draw(
    errors: list[LabelError], q: FloatArray, n_sets: int, seed: np.random.SeedSequence
) -> Drawn:
    """Return the errors at a truth; the same seed gives the same labels."""
    each = simulate(errors, q, n_sets, seed, same_labels=True)
    limits = np.concatenate([error.limits for error in each])
    values = np.concatenate([error.values for error in each], axis=1)
    return Drawn(limits, limits_without(errors, q, FEWER_ENTRIES), values)


def _one(drawn: Drawn, k: int) -> Drawn:
    return Drawn(*(part[..., k] for part in drawn))


def gain_interval(
    before: list[Drawn],
    after: list[Drawn],
    observed: float,
    now: float,
    level: float,
    beside: list[tuple[Drawn, Drawn]],
) -> GainInterval:
    """Return the interval of the gain of one error, from its simulations at all truths."""
    alpha = (1 - level) / 2
    found = [moments_of(p, q) for p, q in zip(before, after, strict=True)]
    residuals = [each for _, each in found]
    ends = [
        np.quantile(np.concatenate(residuals[max(j - 1, 0) : j + 2]), [alpha, 1 - alpha])
        for j in range(PLACES.size)
    ]
    path = [np.interp(FINE, PLACES, column) for column in np.transpose([m for m, _ in found])]
    z_path = [np.interp(FINE, PLACES, column) for column in np.transpose(ends)]
    others = [moments_of(p, q) for p, q in beside]
    largest = np.full(FINE.size, chi2.ppf(level, 1))
    if others:
        z = np.quantile(np.concatenate([each for _, each in others]), [alpha, 1 - alpha])
        columns = np.transpose([m for m, _ in others])
        path = [np.append(x, more) for x, more in zip(path, columns, strict=True)]
        z_path = [np.append(x, np.full(len(others), end)) for x, end in zip(z_path, z, strict=True)]
        largest = np.append(largest, np.full(len(others), chi2.ppf(level, 2)))
    D, bias, mean_sum, sd, sd_sum, rho = path
    z_low, z_high = z_path
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
    return GainInterval(float(estimate), float(low[plausible].min()), float(high[plausible].max()))


def moments_of(before: Drawn, after: Drawn) -> tuple[list[Any], Float64Array]:
    """Return D, b, the mean of s, both standard deviations and rho, and standardised gains."""
    gain, total = before.values - after.values, before.values + after.values
    true = float(before.limits - after.limits)
    by_rows = np.stack([before.without - after.without, before.without + after.without], axis=1)
    difference, summed = jackknife_variance(by_rows)
    jackknifed = jackknife_variance(before.without) - jackknife_variance(after.without)
    sd = np.sqrt(gain.var(ddof=1) + difference)
    sd_sum = np.sqrt(total.var(ddof=1) + summed)
    covariance = np.cov(gain, total)[0, 1] + jackknifed
    rho = covariance / max(sd * sd_sum, TINY**2)
    moments = [true, gain.mean() - true, total.mean(), sd, sd_sum, rho]
    return moments, (gain - gain.mean()) / max(gain.std(), TINY)
