"""Platt scaling and beta calibration."""

from __future__ import annotations

from numbers import Integral
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils._param_validation import Options

from skcalib._arrays.rowwise import Bools, Float64Array, FloatArray
from skcalib._maps.formulas import ColumnPlan, Constants, Operations, Value, row
from skcalib._scaling.logistic import Logistic, fit_logistic, fit_shifts, logistic_loss, separates
from skcalib.calibrators._base import LogOddsCalibrator, counted, span

# Beta calibration: each class is calibrated by the likelihood ratio of two beta distributions.


def fit_beta(odds: Float64Array, hit: Bools, w: Float64Array) -> Logistic:
    """Fit beta calibration, ``expit(a log p - b log(1 - p) + c)``, for each of k classes.

    If only a or only b is negative in the unconstrained optimum, it is 0 in the optimum with
    a, b >= 0, because the loss is convex. If both are negative, this optimum is the better of the
    two fits with one coefficient at 0.
    """
    F = np.moveaxis(beta_features(odds), 0, 1)
    fitted = fit_logistic(F, hit, w)
    negative = fitted.coef < 0
    lowest = np.full(hit.shape[0], np.inf)
    for j in range(2):
        rows = np.flatnonzero(negative[:, j])
        if rows.size:
            part = F[rows], hit[rows], w
            without = _without(j, *part)
            loss = logistic_loss(*part, without)
            better = np.flatnonzero(loss < lowest[rows])
            lowest[rows[better]] = loss[better]
            fitted.coef[rows[better]] = without.coef[better]
            fitted.intercept[rows[better]] = without.intercept[better]
    return fitted


def _without(j: int, F: Float64Array, hit: Bools, w: Float64Array) -> Logistic:
    """Fit beta calibration with coefficient j fixed at 0, and the other coefficient at least 0."""
    other = fit_logistic(F[:, [1 - j]], hit, w)
    coef, intercept = np.zeros((hit.shape[0], 2)), other.intercept.copy()
    coef[:, 1 - j] = np.maximum(other.coef[:, 0], 0.0)
    neither = np.flatnonzero(other.coef[:, 0] < 0)
    if neither.size:
        intercept[neither] = fit_logistic(F[neither, :0], hit[neither], w).intercept
    return Logistic(coef, intercept)


def beta_features(odds: FloatArray) -> Float64Array:
    """Return the features ``log p`` and ``-log(1 - p)``, and overwrite the log-odds of p."""
    F = np.empty((2, *odds.shape))
    log_p, no_log = F
    np.negative(np.abs(odds, out=no_log), out=no_log)
    np.log1p(np.exp(no_log, out=no_log), out=log_p)  # computing log1p in place would be slower
    np.maximum(odds, 0.0, out=no_log)
    no_log += log_p
    np.subtract(np.minimum(odds, 0.0, out=odds), log_p, out=log_p)
    return F


class BetaCalibrator(LogOddsCalibrator):
    r"""Calibrate the probability p of each class by logit q = a log p - b log(1 - p) + c.

    Beta calibration is for probabilities of binary problems with different errors near 0 and
    near 1, such as those of naive Bayes or boosting.

    For class k,

    .. math:: \log \frac{g_k}{1 - g_k} = a_k \log p_k - b_k \log(1 - p_k) + c_k, \qquad
              q_k = \frac{g_k}{\sum_j g_j}

    where :math:`a_k, b_k \ge 0` and :math:`c_k` maximise the likelihood; a row of zeros becomes
    uniform. With two classes the function of the second class is used for both. The function never
    decreases; a = b = 1, c = 0 is the identity and a = b is Platt scaling.

    Parameters
    ----------
    input : {"auto", "logits", "proba"}, default="auto"
        What the columns of `X` are. "auto" decides once, in ``fit``: rows that sum to 1 within
        0.001 are probabilities, others logits; rows of both kinds, or rows that all sum to 100,
        raise an error.
        A probability of 0 is replaced by `clip_` before its logarithm is computed.
    classes : array-like of shape (K,), default=None
        Labels of the columns, sorted; needed if they cannot be inferred from `y`.

    Attributes
    ----------
    coef_ : ndarray of shape (K, 2), or (1, 2) for two classes
        :math:`a_k` and :math:`b_k`, at least 0.
    intercept_ : ndarray of shape (K,), or (1,) for two classes
        :math:`c_k`; minus infinity for a class without rows, whose probability is then 0.
    clip_ : float, or ndarray of shape (2,) for two classes
        Replaces a probability of 0 before its logarithm is computed: half the smallest
        probability above 0 in ``fit``, within limits; with two classes, one for each column.
    classes_ : ndarray of shape (K,)
        Sorted labels of the columns.
    class_count_ : ndarray of shape (K,)
        Weight of the rows of each class in ``fit``.
    input_ : {"logits", "proba"}
        What the columns of `X` were in ``fit``.
    n_features_in_ : int
        Number of columns of `X`.

    Warns
    -----
    sklearn.exceptions.ConvergenceWarning
        If the scores of a class separate it from the rest without error, if a class has no row, or
        if every slope is 0, as for reversed scores. If all slopes are 0, every row gets the class
        priors.

    See Also
    --------
    skcalib.PlattScaling : a = b, which may be negative.
    skcalib.DirichletCalibrator : A similar function of all classes jointly.

    References
    ----------
    .. [1] M. Kull, T. Silva Filho and P. Flach, "Beta calibration: a well-founded and easily
       implemented improvement on logistic calibration for binary classifiers", AISTATS 2017.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib import BetaCalibrator
    >>> rng = np.random.default_rng(0)
    >>> p = rng.random(20000)
    >>> y = rng.random(20000) < p**2 / (p**2 + 1 - p)
    >>> BetaCalibrator().fit(p, y).coef_.round(0)
    array([[2., 1.]])
    """

    _paper = "Kull, Silva Filho and Flach 2017"
    _monotone = True

    def _fit_maps(self, odds: Float64Array, hit: Bools, w: Float64Array) -> tuple[Logistic, Bools]:
        return fit_beta(odds, hit, w), separates(odds, hit)

    def _in_words(self) -> str:
        a, b = (span(column) for column in self.coef_.T)
        functions = counted(len(self.coef_), "function")
        return f"{functions}: a = {a}, b = {b}, c = {span(self.intercept_)}"

    def _plan(self) -> ColumnPlan:
        a, b = self.coef_.T
        return self._plan_of_odds(beta, {"coef": np.stack([a, b, b - a])})


def beta(o: Operations, odds: Value, c: Constants) -> Value:
    """Return the beta-calibrated log-odds a log p - b log(1 - p) + c for the log-odds f of p.

    With s = log(1 + exp(-|f|)), log p = min(f, 0) - s and -log(1 - p) = max(f, 0) + s.
    """
    terms = o.minimum(odds, 0.0), o.maximum(odds, 0.0), o.log_tail(odds)
    return o.combine(c["coef"], *terms) + c["intercept"]


# Platt scaling: logistic regression on the log-odds of each class, also with a quadratic term or
# with a fixed slope.


# If log-odds vary by less than this fraction of their size, their square is a linear function of
# them up to 1e-12, and the coefficient of the square would only fit rounding errors.
STRAIGHT = 1e-6


def encloses(odds: Float64Array, hit: Bools) -> bool:
    """Return whether all positives are in an interval of log-odds that has no negatives inside."""
    if hit.all() or not hit.any():
        return False
    low, high = odds[hit].min(), odds[hit].max()
    inside, outside = (low < odds) & (odds < high), (odds < low) | (odds > high)
    return not (inside & ~hit).any() and bool(inside.any() or outside.any())


class PlattScaling(LogOddsCalibrator):
    r"""Calibrate each class by logistic regression, expit(a · logit p + b).

    Platt scaling, the sigmoid method, is for scores of binary problems on any scale, such as the
    decision values of a support vector machine. ``fit_slope=False`` updates a risk model for new
    data in which the event is rarer or more frequent.

    For class k,

    .. math:: g_k = \frac{1}{1 + \exp(-a_k f_k - b_k)}, \qquad
              f_k = \log \frac{p_k}{1 - p_k}, \qquad
              q_k = \frac{g_k}{\sum_j g_j}

    where :math:`a_k, b_k` maximise the likelihood; a row of zeros becomes uniform. With two classes
    the function of the second class is used for both, and for logits :math:`f = z_2 - z_1`. With
    ``degree=2`` (quadratic scaling),

    .. math:: g_k = \frac{1}{1 + \exp(-c_k f_k^2 - a_k f_k - b_k)} .

    With ``fit_slope=False`` (recalibration in the large), :math:`a_k = 1` and only :math:`b_k` is
    fitted, so that the mean of :math:`g_k` is the prior of class k.

    Parameters
    ----------
    degree : {1, 2}, default=1
        Highest power of the log-odds. With 2 the function is not monotone: it changes direction at
        :math:`f_k = -a_k / 2 c_k`.
    fit_slope : bool, default=True
        Whether slopes are fitted. False fixes the slopes at 1 and fits only the intercepts, for
        which a small number of events is enough: this updates a risk model for new data in which
        the event is rarer or more frequent. False requires ``degree=1``.
    input : {"auto", "logits", "proba"}, default="auto"
        What the columns of `X` are. "auto" decides once, in ``fit``: rows that sum to 1 within
        0.001 are probabilities, others logits; rows of both kinds, or rows that all sum to 100,
        raise an error.
        A probability of 0 is replaced by `clip_` before its logarithm is computed.
    classes : array-like of shape (K,), default=None
        Labels of the columns, sorted; needed if they cannot be inferred from `y`.

    Attributes
    ----------
    coef_ : ndarray of shape (K,), or (1,) for two classes; (K, 2) or (1, 2) with ``degree=2``
        Slopes :math:`a_k`, ones with ``fit_slope=False``; with ``degree=2`` rows
        :math:`(a_k, c_k)`.
    intercept_ : ndarray of shape (K,), or (1,) for two classes
        Shifts :math:`b_k`; minus infinity for a class without rows, whose probability is then 0.
    clip_ : float, or ndarray of shape (2,) for two classes
        Replaces a probability of 0 before its logarithm is computed: half the smallest
        probability above 0 in ``fit``, within limits; with two classes, one for each column.
    classes_ : ndarray of shape (K,)
        Sorted labels of the columns.
    class_count_ : ndarray of shape (K,)
        Weight of the rows of each class in ``fit``.
    input_ : {"logits", "proba"}
        What the columns of `X` were in ``fit``.
    n_features_in_ : int
        Number of columns of `X`.

    Warns
    -----
    sklearn.exceptions.ConvergenceWarning
        If a class has no row, or if slopes are fitted and the scores of a class separate it from
        the rest without error. With ``degree=2`` also if an interval of scores contains all rows of
        the class and no others, or the reverse.

    See Also
    --------
    skcalib.BetaCalibrator : A third parameter, for functions that are not sigmoids of the log-odds.
    skcalib.VectorScaling : A scale and a shift for each class, fitted jointly.
    skcalib.metrics.calibration_intercept_slope : Intercept and slope with intervals.

    Notes
    -----
    The targets are 0 and 1, so that the fit is an unpenalised logistic regression; Platt's own
    targets, :math:`(n_+ + 1) / (n_+ + 2)` and :math:`1 / (n_- + 2)`, add a pseudo row of each
    class. A slope may be negative.

    With ``degree=2`` the function changes direction, usually outside the range of the calibration
    scores, where a very large score can get a small probability. The order of rows can change, also
    with two classes; this is rarer with more rows. If the log-odds of a class vary by less than a
    millionth of their size, the coefficient of the square is 0, because the square is then a linear
    function up to rounding.

    References
    ----------
    .. [1] J. Platt, "Probabilistic outputs for support vector machines and comparisons to
       regularized likelihood methods", Advances in Large Margin Classifiers, 1999.
    .. [2] E. Steyerberg, "Clinical Prediction Models", 2nd edition, Springer, 2019: the
       intercept alone, or intercept and slope, when a model is updated for a new setting.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib import PlattScaling
    >>> rng = np.random.default_rng(0)
    >>> f = rng.normal(size=5000)
    >>> y = f + rng.logistic(size=5000) > 0
    >>> platt = PlattScaling().fit(4 * f + 2, y)
    >>> platt.coef_.round(2), platt.intercept_.round(2)
    (array([0.25]), array([-0.49]))
    >>> y = 0.5 * f**2 + f + rng.logistic(size=5000) > 0
    >>> PlattScaling(degree=2).fit(f, y).coef_.round(1)
    array([[1. , 0.5]])
    >>> y = f - 1 + rng.logistic(size=5000) > 0
    >>> platt = PlattScaling(fit_slope=False).fit(f, y)
    >>> platt.coef_, platt.intercept_.round(1)
    (array([1.]), array([-1.]))
    """

    _paper = "Platt 1999"

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **LogOddsCalibrator._parameter_constraints,
        "degree": [Options(Integral, {1, 2})],
        "fit_slope": ["boolean"],
    }

    def __init__(
        self,
        *,
        degree: Literal[1, 2] = 1,
        fit_slope: bool = True,
        input: str = "auto",
        classes: ArrayLike | None = None,
    ) -> None:
        super().__init__(input=input, classes=classes)
        self.degree = degree
        self.fit_slope = fit_slope

    def _fit_maps(self, odds: Float64Array, hit: Bools, w: Float64Array) -> tuple[Logistic, Bools]:
        if not self.fit_slope:
            if self.degree == 2:
                raise ValueError(
                    "fit_slope=False with degree=2: a quadratic function needs a fitted slope; "
                    "pass fit_slope=True or degree=1."
                )
            slopes = np.ones((len(odds), 1))
            return Logistic(slopes, fit_shifts(odds, hit, w)), np.zeros(len(odds), dtype=bool)
        apart = separates(odds, hit) | separates(-odds, hit)
        if self.degree == 1:
            return fit_logistic(odds[:, None], hit, w), apart
        straight = np.ptp(odds, axis=1) <= STRAIGHT * np.abs(odds).max(axis=1)
        for k in np.flatnonzero(~straight):
            apart[k] |= encloses(odds[k], hit[k]) or encloses(odds[k], ~hit[k])
        squares = np.where(straight[:, None], 0.0, odds * odds)
        return fit_logistic(np.stack([odds, squares], axis=1), hit, w), apart

    def _in_words(self) -> str:
        coef = self.coef_.reshape(len(self.intercept_), -1)
        bends = "" if coef.shape[1] == 1 else f", square {span(coef[:, 1])}"
        slopes, shifts = span(coef[:, 0]), span(self.intercept_)
        return f"{counted(len(coef), 'function')}: slope {slopes}{bends}, shift {shifts}"

    def _plan(self) -> ColumnPlan:
        names = ("slope",) if self.coef_.ndim == 1 else ("slope", "bend")
        coef = np.atleast_2d(self.coef_.T)
        return self._plan_of_odds(polynomial, dict(zip(names, map(row, coef), strict=True)))


def polynomial(o: Operations, odds: Value, c: Constants) -> Value:
    """Return the calibrated log-odds a f + b, or c f^2 + a f + b, for uncalibrated log-odds f."""
    slope = c["bend"] * odds + c["slope"] if "bend" in c else c["slope"]
    return slope * odds + c["intercept"]
