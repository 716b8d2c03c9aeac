r"""A natural cubic spline of the logit, as a straight line and wiggles of unit size.

With knots :math:`\kappa_1 < \dots < \kappa_k`, a natural spline is determined by its values at the
knots, and the integral of its squared second derivative is a quadratic form S of these (Green and
Silverman 1994). The eigenvectors of S with positive eigenvalues :math:`\mu_j`, divided by
:math:`\sqrt{\mu_j}`, are the wiggles: a prior of independent coefficients with equal variances is
the penalty of smoothing splines. Wiggles are made orthogonal to straight lines and scaled so that,
with weights :math:`W p (1 - p)`, their sum has mean square 1 if the coefficients have variance 1.
There, p (1 - p) below a thousandth counts as a thousandth, for models that are far too sure.
"""

from __future__ import annotations

import numpy as np
from scipy.interpolate import CubicSpline
from scipy.special import expit

from skcalib._arrays.types import Float64Array

KNOTS = 16
# Exponent of p (1 - p) in the weights of the quantiles at which the knots lie.
POWER = 0.5
# Knots are as far apart as this share of the standard deviation of the logits.
LEAST_GAP = 1e-3
# Logits with a smaller standard deviation are as good as equal.
LEAST_SPREAD = 1e-9
LINE = 2
# The least p (1 - p).
LEAST_RATE = 1e-3
# Columns are constant beyond a logit outside of which the sum of p (1 - p) is as little as this.
LEAST_INFORMATION = 0.1


class SplineBasis:
    """Columns 1, the centred logit, and the wiggles.

    Parameters
    ----------
    x, W : ndarray of shape (m,)
        Ascending logits and their weights.
    n_knots : int
        Number of knots, if there are as many places.
    """

    def __init__(self, x: Float64Array, W: Float64Array, n_knots: int = KNOTS) -> None:
        information = W * np.maximum(expit(x) * expit(-x), LEAST_RATE)
        v = information / information.sum()
        self.centre = float(v @ x)
        deviation = float(np.sqrt(v @ (x - self.centre) ** 2))
        self.deviation = deviation if deviation > LEAST_SPREAD else 1.0
        self.reach = reach_of(x, information)
        z = self._places(x)
        self.knots = place_knots(z, W * (information / W) ** POWER, n_knots)
        # Two places determine a line.
        self.size = self.knots.size if min(np.unique(z).size, self.knots.size) > LINE else LINE
        if self.size > LINE:
            unit = np.eye(self.knots.size)
            self._spline = CubicSpline(self.knots, unit, bc_type="natural")
            eigenvalues, vectors = np.linalg.eigh(bending(self._spline))
            self._wiggles = vectors[:, LINE:] / np.sqrt(eigenvalues[LINE:])
            raw, line = self._raw(z), line_of(z)
            root = np.sqrt(v)[:, None]
            self._along = np.linalg.lstsq(root * line, root * raw, rcond=None)[0]
            self._scale = float(np.linalg.norm(root * (raw - line @ self._along)))

    def columns(self, x: Float64Array) -> Float64Array:
        """Return the columns ``(len(x), size)`` for any logits."""
        z = self._places(x)
        line = line_of(z)
        # Differences of the logit or, where it hardly varies, standard deviations.
        scaled = line * [1.0, max(self.deviation, 1.0)]
        if self.size == LINE:
            return scaled
        return np.hstack([scaled, (self._raw(z) - line @ self._along) / self._scale])

    def _places(self, x: Float64Array) -> Float64Array:
        return np.asarray((np.clip(x, *self.reach) - self.centre) / self.deviation)

    def _raw(self, z: Float64Array) -> Float64Array:
        return natural_spline(z, self._spline) @ self._wiggles


def line_of(z: Float64Array) -> Float64Array:
    """Return the columns 1 and z."""
    return np.column_stack([np.ones_like(z), z])


def reach_of(x: Float64Array, information: Float64Array) -> tuple[float, float]:
    """Return the least and the largest logit that labels can speak of."""
    ends = []
    for each, amount in ((x, information), (x[::-1], information[::-1])):
        i = int(np.searchsorted(np.cumsum(amount), LEAST_INFORMATION))
        ends.append(float(each[min(i, x.size - 1)]))
    return min(ends), max(ends)


def place_knots(z: Float64Array, weight: Float64Array, n_knots: int) -> Float64Array:
    """Return at most `n_knots` quantiles of ascending places, some distance apart."""
    share = (np.cumsum(weight) - weight / 2) / weight.sum()
    knots = np.interp(np.linspace(0.0, 1.0, n_knots), share, z)
    kept = [knots[0]]
    for knot in knots[1:]:
        if knot - kept[-1] > LEAST_GAP:
            kept.append(knot)
    return np.array(kept)


def bending(spline: CubicSpline) -> Float64Array:
    """Return the integral of the squared second derivative as a quadratic form of the values."""
    bends, h = spline(spline.x, 2), np.diff(spline.x)[:, None] / 6.0
    left, right = bends[:-1], bends[1:]  # straight lines between
    total = left + right
    return np.asarray(left.T @ (h * left) + right.T @ (h * right) + total.T @ (h * total))


def natural_spline(z: Float64Array, spline: CubicSpline) -> Float64Array:
    """Return the values of a natural spline at any places; straight beyond the knots."""
    low, high = spline.x[[0, -1]]
    values = spline(np.clip(z, low, high))
    values += np.minimum(z - low, 0.0)[:, None] * spline(low, 1)
    values += np.maximum(z - high, 0.0)[:, None] * spline(high, 1)
    return np.asarray(values)
