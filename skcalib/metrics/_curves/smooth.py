"""Smooth calibration curves by logistic splines, and local calibration at single scores."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.interpolate import CubicSpline
from scipy.special import expit, softmax

from skcalib._arrays.rowwise import Float64Array, Intp
from skcalib._scaling.optimise import minimise_each
from skcalib._scores.scores import event_or_top
from skcalib._validation.keywords import check_between
from skcalib._validation.rows import check_predictions
from skcalib._validation.scores import naming_errors_of
from skcalib.metrics._common import listed

# Local calibration at a score: means of the outcomes of rows on both sides, with weights that decay
# exponentially with the distance.
#
# Between two scores, the weighted sum of outcomes and the sum of weights decay by the same factor,
# so that their ratio, the mean, is constant. So the mean at any point is the mean at the nearest
# score on the same side, and is never 0/0.


# The unit of distances between scores: the weight of a row is multiplied by `decay` for each unit.
UNIT = 0.01


def decaying_mean(
    place: Float64Array, hit: Float64Array, w: Float64Array, rate: float
) -> Float64Array:
    r"""Return for each row the mean outcome of all rows up to it, with decaying weights.

    .. math:: \frac{\sum_{j \le i} w_j t_j e^{-r (x_i - x_j)}}
                   {\sum_{j \le i} w_j e^{-r (x_i - x_j)}}

    Parameters
    ----------
    place : ndarray of shape (n,)
        Scores in ascending order.
    hit, w : ndarray of shape (n,)
    rate : float
        A positive number.
    """
    # Sums are computed from logarithms of weights, because the weights of distant rows are too
    # small for floats.
    with np.errstate(divide="ignore"):
        grown = rate * place + np.log([w * hit, w])
    hits, rows = np.logaddexp.accumulate(grown, axis=1)
    return np.exp(hits - rows)


@listed("Nixon et al. 2019")
def local_calibration(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    at: ArrayLike | None = None,
    decay: float = 0.9,
    pos_label: Any = None,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
) -> Float64Array:
    r"""Accuracy at given scores, estimated from nearby rows.

    On the lower side of a score g, the mean outcome with weights that decay with the distance is

    .. math:: a_{\le}(g) = \frac{\sum_{s_i \le g} w_i t_i\, d^{|g - s_i| / 0.01}}
                                {\sum_{s_i \le g} w_i\, d^{|g - s_i| / 0.01}},

    and :math:`a_{\ge}(g)` is defined likewise on the upper side. The result is the mean of both, or
    one of them if the other side has no rows. Rows exactly at g count on both sides. The local
    calibration error is ``abs(local_calibration(y, P, at=g) - g)``.

    Parameters
    ----------
    y_true : array-like of shape (n,) or (n, K)
        Labels, or the fractions of raters who chose each class, with a column for each class. With
        one column of probabilities, also soft labels in [0, 1].
    y_proba : array-like of shape (n, K), (n,) or (n, 1)
        Class probabilities, with a column for each of the sorted labels, or of `labels` in their
        order. Columns of a frame that are named after the labels are read by name. One or two
        columns give the probability of the event `pos_label`, which is measured.
    at : array-like of numbers in [0, 1], default=None
        Scores g, in any order and shape; None means the 101 points 0, 0.01, ..., 1.
    decay : float in (0, 1), default=0.9
        The factor d that multiplies the weight of a row for each 0.01 of distance.
    pos_label : label, default=None
        Label of the event whose probability is the score. None means 1 or True for labels {0, 1},
        {-1, 1} or booleans. For other labels, None means the second of two columns, and one column
        needs `pos_label`. With more columns, None means the top label.
    sample_weight : array-like of shape (n,), default=None
        Non-negative weights. Integers are counts: 2 is two copies of the row. Of floats only the
        ratios matter (see "Weights" under "Valid input" in the user guide). 0 is the row's absence.
    labels : array-like of shape (K,), default=None
        Labels of the columns, in their order; needed if they cannot be inferred from `y_true`.

    Returns
    -------
    accuracy : ndarray of the shape of `at`
        In [0, 1].

    Raises
    ------
    ValueError
        If probabilities, labels, weights or keywords are invalid.

    Notes
    -----
    The values are exact at every g, and take O(n log n) for any number of points. The paper
    interpolates linearly on a grid of 101 points:
    ``np.interp(g, np.linspace(0, 1, 101), local_calibration(y, P))``.

    Near the ends of the scores, one side contains more rows than the other. So values are slightly
    too high near 0 and slightly too low near 1.

    References
    ----------
    Nixon, Dusenberry, Zhang, Jerfel, Tran (2019). Measuring Calibration in Deep Learning. CVPR
    Workshops; arXiv:1904.01685v1, section 7 and appendix A.

    Examples
    --------
    >>> from skcalib.metrics import local_calibration
    >>> y = [0, 0, 1, 1]
    >>> p = [0.1, 0.4, 0.4, 0.8]
    >>> local_calibration(y, p, at=[0.0, 0.4, 1.0]).round(4)
    array([0.0396, 0.4966, 0.985 ])
    """
    check_between("decay", decay, 0, 1, "a number in (0, 1)")
    with naming_errors_of("at", at, "pass scores in [0, 1]"):
        g = np.linspace(0.0, 1.0, 101) if at is None else np.asarray(at, dtype=np.float64)
    if not ((g >= 0) & (g <= 1)).all():
        raise ValueError("at contains a value outside [0, 1]; pass scores in [0, 1].")
    predictions = check_predictions(y_true, y_proba, sample_weight, labels, pos_label, soft=True)
    score, hit = event_or_top(predictions)
    order = np.argsort(score, kind="stable")
    s, t = score[order].astype(np.float64), hit[order].astype(np.float64)
    w = predictions.w[order]
    rate = -np.log(decay) / UNIT
    # For each point g: `last` is the last row with a score of at most g, and `first` the first row
    # with a score of at least g.
    last = np.searchsorted(s, g, side="right") - 1
    first = np.searchsorted(s, g, side="left")
    below = decaying_mean(s, t, w, rate)[last]
    above = decaying_mean(-s[::-1], t[::-1], w[::-1], rate)[::-1][np.minimum(first, s.size - 1)]
    return np.where(last < 0, above, np.where(first == s.size, below, (below + above) / 2))


# Smooth calibration curves: logistic splines of the logit, with a penalty that is estimated from
# the labels.
#
# Cells have logits x, W rows and H events. The curve is :math:`q = \mathrm{expit}(x + X \theta)`
# with a matrix X of spline columns. The coefficients of the straight line have normal priors with
# standard deviation 5, the other coefficients (wiggles) have normal priors with standard deviation
# :math:`\tau`. For each :math:`\tau` of a grid, a fit minimises
#
# .. math:: E(\theta) = \sum_c W_c \log(1 + e^{\eta_c}) - H_c \eta_c
#                       + \tfrac12 \sum_j \alpha_j \theta_j^2
#
# by Newton's method. With A the second derivative of E at the minimum, Laplace's approximation of
# the log evidence is
#
# .. math:: -E + \tfrac12 \sum_j \log \alpha_j - \tfrac12 \log \det A .
#
# The result is the mean and the covariance of the mixture of all fits, with weights by evidence and
# a half-normal prior of :math:`\tau`. So the covariance includes the uncertainty of :math:`\tau`.
#
# The columns form a natural cubic spline of the logit: a straight line, and wiggles of unit size.
# With knots :math:`\kappa_1 < \dots < \kappa_k`, a natural spline is determined by its values at
# the knots, and the integral of its squared second derivative is a quadratic form S of these values
# (Green and Silverman 1994). The wiggles are the eigenvectors of S with positive eigenvalues
# :math:`\mu_j`, divided by :math:`\sqrt{\mu_j}`. With independent coefficients of equal variance,
# their prior is the penalty of smoothing splines. Wiggles are made orthogonal to straight lines,
# with weights :math:`W p (1 - p)`, and scaled so that their sum has mean square 1 if the
# coefficients have variance 1. In these weights, p (1 - p) is at least 0.001, for models that are
# extremely over-confident.


KNOTS = 16
# Knots of the spline are at weighted quantiles of the logits. The weight of a cell (range of
# scores) is W (p (1 - p)) ** POWER, with the weight W of its rows and the mean score p.
POWER = 0.5
# The smallest distance between two knots of the spline, in standard deviations of the logits.
LEAST_GAP = 1e-3
# Logits are treated as equal if their standard deviation is smaller than this value.
LEAST_SPREAD = 1e-9
LINE = 2
# Lower bound of p (1 - p), where it is used as a weight.
LEAST_RATE = 1e-3
# Labels contain little information about the curve at both ends. The basis functions are constant
# beyond the logits at which the cumulative information, the sum of W p (1 - p), is this value.
LEAST_INFORMATION = 0.1
# Prior standard deviation of intercept and slope. It is large, but both stay finite even if all
# events have higher scores than all non-events.
LINE_SD = 5.0
# Values of tau that are tried: the prior standard deviation, in logits, of deviations from a
# straight line. TAU_SD is the scale of the prior distribution of tau.
TAUS = np.geomspace(0.02, 3.0, 8)
TAU_SD = 1.0
MAX_ITER = 100
# A fit ends when an iteration of Newton's method lowers the objective E by less than this value.
SMALLEST_GAIN = 1e-12
# The relative tolerance of the ends of confidence bands, and a lower bound of the fraction of the
# information (inverse variance) that comes from the prior.
PRECISION, LEAST_REST = 1e-6, 1e-6


class SplineBasis:
    """Basis of natural cubic splines: a constant, the centred logit, and deviations ("wiggles").

    Parameters
    ----------
    x, W : ndarray of shape (m,)
        Ascending logits and their weights.
    n_knots : int
        Largest number of knots.
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
        # With two distinct logits or two knots, the curve is a straight line.
        self.size = self.knots.size if min(np.unique(z).size, self.knots.size) > LINE else LINE
        if self.size > LINE:
            self._spline = CubicSpline(self.knots, np.eye(self.knots.size), bc_type="natural")
            eigenvalues, vectors = np.linalg.eigh(bending(self._spline))
            self._wiggles = vectors[:, LINE:] / np.sqrt(eigenvalues[LINE:])
            raw, line = self._spline(z) @ self._wiggles, line_of(z)
            root = np.sqrt(v)[:, None]
            self._along = np.linalg.lstsq(root * line, root * raw, rcond=None)[0]
            self._scale = float(np.linalg.norm(root * (raw - line @ self._along)))

    def columns(self, x: Float64Array) -> Float64Array:
        """Return the values of the spline basis functions at the logits x."""
        z = self._places(x)
        line = line_of(z)
        # The slope is per unit of the logit, or per standard deviation of the logits if this is
        # below 1.
        scaled = line * [1.0, max(self.deviation, 1.0)]
        if self.size == LINE:
            return scaled
        raw = self._spline(z) @ self._wiggles
        return np.hstack([scaled, (raw - line @ self._along) / self._scale])

    def _places(self, x: Float64Array) -> Float64Array:
        return np.asarray((np.clip(x, *self.reach) - self.centre) / self.deviation)


def line_of(z: Float64Array) -> Float64Array:
    """Return the two basis functions of a straight line, 1 and z."""
    return np.column_stack([np.ones_like(z), z])


def reach_of(x: Float64Array, information: Float64Array) -> tuple[float, float]:
    """Return the range of logits in which labels contain enough information about the curve."""
    ends = []
    for places, amount in ((x, information), (x[::-1], information[::-1])):
        i = int(np.searchsorted(np.cumsum(amount), LEAST_INFORMATION))
        ends.append(float(places[min(i, x.size - 1)]))
    return min(ends), max(ends)


def place_knots(z: Float64Array, weight: Float64Array, n_knots: int) -> Float64Array:
    """Choose up to `n_knots` knots at quantiles of ascending logits, including both ends."""
    share = (np.cumsum(weight) - weight / 2) / weight.sum()
    knots = np.interp(np.linspace(0.0, 1.0, n_knots), share, z)
    apart = [knots[0]]
    for knot in knots[1:]:
        if knot - apart[-1] > LEAST_GAP:
            apart.append(knot)
    apart[-1] = knots[-1]
    return np.array(apart)


def bending(spline: CubicSpline) -> Float64Array:
    """Return the matrix of the roughness penalty of a spline, for its values at the knots.

    The penalty is the integral of the squared second derivative.
    """
    bends, h = spline(spline.x, 2), np.diff(spline.x)[:, None] / 6.0
    # The second derivative of a cubic spline is linear between knots.
    left, right = bends[:-1], bends[1:]
    total = left + right
    return np.asarray(left.T @ (h * left) + right.T @ (h * right) + total.T @ (h * total))


class Curves(NamedTuple):
    """Coefficients of R smooth curves with their covariance matrices."""

    theta: Float64Array
    covariance: Float64Array


class Smoother:
    """Fits smooth calibration curves to several sets of labels for the same scores.

    Parameters
    ----------
    x, W : ndarray of shape (m,)
        Ascending logits and numbers of rows of the cells.
    n_knots : int
        Number of knots.
    taus : ndarray
        Standard deviations of the wiggles.
    """

    def __init__(
        self, x: Float64Array, W: Float64Array, n_knots: int = KNOTS, taus: Float64Array = TAUS
    ) -> None:
        self.x, self.W = x, W
        self.basis = SplineBasis(x, W, n_knots)
        self.taus = taus if self.basis.size > LINE else taus[:1]
        self.X = self.basis.columns(x)
        self._pairs = (self.X[:, :, None] * self.X[:, None, :]).reshape(x.size, -1)

    def fit(self, H: Float64Array) -> Curves:
        """Fit a smooth curve to each of R vectors of event counts."""

        def derivatives(theta: Float64Array, curves: Intp) -> Any:
            eta, hits = self.logits(theta), H[curves]
            q = expit(eta)
            value = (self.W * np.logaddexp(0.0, eta) - hits * eta).sum(axis=1)
            second = ((self.W * q * (1.0 - q)) @ self._pairs).reshape(*theta.shape, -1)
            return value, (self.W * q - hits) @ self.X, second

        theta = np.zeros((len(H), self.basis.size))
        thetas, covariances, evidence = [], [], []
        for tau in self.taus:
            alpha = np.full(self.basis.size, tau**-2)
            alpha[:LINE] = LINE_SD**-2
            fitted = minimise_each(derivatives, theta, alpha, SMALLEST_GAIN)
            theta = fitted.theta
            thetas.append(theta)
            covariances.append(np.linalg.inv(fitted.hessian))
            # The grid of tau is uniform on the log scale, so the prior density of tau is multiplied
            # by tau.
            prior = np.log(tau) - 0.5 * (tau / TAU_SD) ** 2
            evidence.append(fitted.log_evidence(alpha) + prior)
        weight = softmax(evidence, axis=0)
        mean = np.einsum("tr,trj->rj", weight, thetas)
        away = np.array(thetas) - mean
        covariance = np.einsum("tr,trjk->rjk", weight, covariances)
        covariance += np.einsum("tr,trj,trk->rjk", weight, away, away)
        return Curves(mean, covariance)

    def logits(self, theta: Float64Array) -> Float64Array:
        """Return the logits of R fitted curves at the scores to which they were fitted."""
        return self.x + theta @ self.X.T

    def spread(
        self, theta: Float64Array, covariance: Float64Array, at: Float64Array, factor: float
    ) -> tuple[Float64Array, Float64Array]:
        r"""Return the distances in logits from a curve to both ends of its confidence band.

        With l the columns at a logit and :math:`\sigma^2 = l' V l`, coefficients move along
        :math:`d = t V l / \sigma`. For a normal posterior, the band ends at :math:`t = \pm c`. Here
        it ends at the t with

        .. math:: t^2 - d' I d + 2 \big(\mathrm{NLL}(\theta + d) - \mathrm{NLL}(\theta)
                  - \nabla \mathrm{NLL}(\theta)' d\big) = c^2,

        where I is the second derivative of the NLL. If events are rare, the lower distance is
        larger than the upper one.
        """
        columns = self.basis.columns(at)
        moved_by = columns @ covariance
        sd = np.sqrt(np.einsum("gj,gj->g", moved_by, columns))
        move = (moved_by / sd[:, None]) @ self.X.T
        eta = self.logits(theta)
        q = expit(eta)
        rest = np.maximum(1.0 - (move * move) @ (self.W * q * (1.0 - q)), LEAST_REST)
        ends = []
        for sign in (-1.0, 1.0):
            t = np.full(at.size, factor)
            for _ in range(MAX_ITER):
                moved = eta + sign * t[:, None] * move
                excess = np.logaddexp(0.0, moved) - np.logaddexp(0.0, eta)
                excess -= q * (moved - eta)
                value = rest * t * t + 2.0 * excess @ self.W - factor**2
                slope = 2.0 * rest * t
                slope += 2.0 * sign * ((expit(moved) - q) * move) @ self.W
                # The function `value` of t, whose root is searched, is convex. So after the first
                # iteration of Newton's method, t decreases to the root.
                step = value / slope
                t = np.maximum(t - step, 1e-3 * factor)
                if np.abs(step).max() < PRECISION * factor:
                    break
            ends.append(t * sd)
        return ends[0], ends[1]
