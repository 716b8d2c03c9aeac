r"""Scaled and smoothed scores for `AutoCalibrator`, and their ranks among the calibration scores.

The scale :math:`\beta` minimises the NLL under a normal prior on its logarithm,

.. math:: \sum_i w_i \mathrm{NLL}_i(\mathrm{softmax}(\beta z)) + \frac{(\log \beta)^2}{2 \sigma^2},
          \qquad \sigma = 0.7 .

With :math:`p = \mathrm{softmax}(\beta z)` and n the sum of the calibration weights,

.. math:: q = (1 - \epsilon) p + \epsilon / K, \quad a = \log q, \quad
          a' = \log((1 - 0.1 \epsilon) p + 0.1 \epsilon / K), \quad \epsilon = 1 / (n + 1)

so that :math:`a \ge -\log(K (n + 1))`: n rows give no evidence on smaller probabilities.
`AutoCalibrator` adds functions of a to the offset a', which is not fitted and so is smoothed less.

The position of a log-score is :math:`u = G(a) \in [0, 1]`. G is the distribution function of all
log-scores :math:`a_{ik}` of the calibration rows, with weight :math:`w_i (q_{ik} (1 -
q_{ik}))^\kappa` and half of the weight of equal scores, linear between 64 knots.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skcalib._arrays.rowwise import Float64Array, Intp
from skcalib._arrays.sources import sum_rows
from skcalib._scaling.optimise import rising_root
from skcalib._scaling.temperature import ShiftedLogits, find_temperature
from skcalib._scores.scores import Scores, softmax_inplace

# Standard deviation of the prior of log beta, where beta is the scale of the logits.
PRIOR_SD = 0.7
# Bound of log beta in the search, far outside the range that is likely under its prior.
LOG_SCALE_BOUND = 700.0
# The model has terms with fitted coefficients, and offsets without coefficients. The uniform
# distribution is mixed into both. Its weight in the offsets is this fraction of its weight in the
# terms.
OFFSET_SHARE = 0.1
KNOTS = 64
# Number of bins of equal width in log-odds, in which log-scores are counted. With more bins, the
# rank of a score among the calibration scores changes by less than 0.001.
BINS = 1 << 14


class Smoothing(NamedTuple):
    """Constants of smoothing: scale `beta` of the logits, sum of weights `n`, number of classes."""

    beta: float
    n: float
    n_classes: int

    @property
    def epsilon(self) -> float:
        """Weight of the uniform distribution in the smoothed probabilities."""
        return 1.0 / (self.n + 1.0)

    @property
    def square_scale(self) -> float:
        """Scale of the smoothed log-scores: log(n K) for n rows and K classes, at least log K."""
        return float(np.log(max(self.n, 1.0) * self.n_classes))

    def proba(self, Z: Float64Array) -> Float64Array:
        """Return the probabilities softmax(beta z) of a block of logits ``(n, K)``."""
        return softmax_inplace(self.beta * Z)

    def mix(self, p: Float64Array, share: float = 1.0) -> Float64Array:
        """Mix probabilities p with the uniform distribution, with the weight `share` * epsilon."""
        epsilon = share * self.epsilon
        return (1.0 - epsilon) * p + epsilon / self.n_classes


class Position(NamedTuple):
    """Ranks of log-scores among the calibration scores, interpolated between increasing knots."""

    knots: Float64Array
    levels: Float64Array

    def of(self, a: Float64Array) -> Float64Array:
        """Return the ranks of log-scores among the calibration scores, as fractions from 0 to 1."""
        return np.interp(a, self.knots, self.levels)


def fit_scale(scores: Scores, code: Intp, w: Float64Array) -> tuple[float, bool]:
    """Fit the scale of the logits, and return whether uniform probabilities would be as good.

    The prior of beta keeps it finite even if no row is misclassified.
    """
    total = float(w.sum())
    shifted = ShiftedLogits(scores, code, w)
    precision = PRIOR_SD**-2

    def slope(log_beta: float) -> tuple[float, float]:
        beta = np.exp(log_beta)
        _, first, second = shifted.nll(beta)
        by_log = beta * first
        with np.errstate(over="ignore"):  # a curvature of inf is accepted by rising_root
            curvature = by_log + beta * (beta * second)
            return total * by_log + precision * log_beta, total * curvature + precision

    temperature = find_temperature(scores, code, w)
    ends = -LOG_SCALE_BOUND, LOG_SCALE_BOUND
    start = 0.0 if temperature.bound else -float(np.log(temperature.value))
    beta = float(np.exp(rising_root(slope, start, *ends, shifted.tolerance)[0]))
    return beta, temperature.bound == "low"


def fit_position(scores: Scores, w: Float64Array, smoothing: Smoothing, power: float) -> Position:
    """Fit the ranks of log-scores, with weights proportional to (q (1 - q)) ** power."""
    # Log-odds of the smallest and of the largest smoothed probability q that is possible.
    least, most = (np.log(end / (1.0 - end)) for end in smoothing.mix(np.array([0.0, 1.0])))

    def kernel(Z: Float64Array, w: Float64Array) -> tuple[Float64Array, Float64Array]:
        """Return the sums of weights and of weighted log-scores in each bin of log-odds."""
        q = smoothing.mix(smoothing.proba(Z)).ravel()
        a = np.log(q)
        rest = 1.0 - q
        index = (a - np.log(rest) - least) * (BINS / (most - least))
        index = np.clip(index.astype(np.intp), 0, BINS - 1)
        weights = np.repeat(w, Z.shape[1]) * (q * rest) ** power
        mass, total = (np.bincount(index, x, BINS) for x in (weights, weights * a))
        return mass.astype(np.float64), total.astype(np.float64)

    mass, total = sum_rows(kernel, scores.as_logits(), w)
    filled = mass > 0.0
    mass, values = mass[filled], total[filled] / mass[filled]
    u = (np.cumsum(mass) - mass / 2.0) / mass.sum()
    index = np.searchsorted(u, np.linspace(0.0, 1.0, KNOTS))
    index = np.unique(np.minimum(index, u.size - 1))
    return Position(values[index], u[index])
