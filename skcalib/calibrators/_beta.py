"""Beta calibration: the likelihood ratio of two beta distributions for each class."""

from __future__ import annotations

import numpy as np

from skcalib._arrays.types import Bools, Float64Array, FloatArray
from skcalib._maps.operations import ColumnPlan, Constants, Operations, Value
from skcalib._scaling.logistic import Logistic, fit_logistic, logistic_loss, separates
from skcalib.calibrators._log_odds import LogOddsCalibrator
from skcalib.calibrators._shown_fit import counted, span


def fit_beta(odds: Float64Array, hit: Bools, w: Float64Array) -> Logistic:
    """Fit a, b >= 0 and c of ``expit(a log p - b log(1 - p) + c)``, for each of k classes.

    The loss is convex: if the free optimum has a < 0 or b < 0, the constrained optimum has this
    coefficient at 0; if both are negative, it is the better of the two such fits.
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
    """Fit with the coefficient of feature j at 0 and the other one at 0 or above."""
    other = fit_logistic(F[:, [1 - j]], hit, w)
    coef, intercept = np.zeros((hit.shape[0], 2)), other.intercept.copy()
    coef[:, 1 - j] = np.maximum(other.coef[:, 0], 0.0)
    neither = np.flatnonzero(other.coef[:, 0] < 0)
    if neither.size:
        intercept[neither] = fit_logistic(F[neither, :0], hit[neither], w).intercept
    return Logistic(coef, intercept)


def beta_features(odds: FloatArray) -> Float64Array:
    """Return ``log p`` and ``-log(1 - p)``, stacked; the log-odds are overwritten."""
    F = np.empty((2, *odds.shape))
    log_p, no_log = F
    np.negative(np.abs(odds, out=no_log), out=no_log)
    np.log1p(np.exp(no_log, out=no_log), out=log_p)  # in place it would be slower
    np.maximum(odds, 0.0, out=no_log)
    no_log += log_p
    np.subtract(np.minimum(odds, 0.0, out=odds), log_p, out=log_p)
    return F


class BetaCalibrator(LogOddsCalibrator):
    r"""Calibrate each class by logit q = a log p - b log(1 - p) + c.

    Beta calibration is for binary probabilities that are wrong in different ways near 0 and
    near 1, such as those of naive Bayes or boosting.

    For class k,

    .. math:: \log \frac{g_k}{1 - g_k} = a_k \log p_k - b_k \log(1 - p_k) + c_k, \qquad
              q_k = \frac{g_k}{\sum_j g_j}

    where :math:`a_k, b_k \ge 0` and :math:`c_k` maximise the likelihood; a row of zeros becomes
    uniform. With two classes the map of the second class is used for both. The map never decreases;
    a = b = 1, c = 0 is the identity and a = b is Platt scaling.

    Parameters
    ----------
    input : {"auto", "logits", "proba"}, default="auto"
        What the columns of `X` are. "auto" decides once, in ``fit``: rows that sum to 1 within
        0.001 are probabilities, others logits; rows of both kinds, or rows that all sum to 100,
        raise an error.
        A probability of 0 counts as `clip_` before its logarithm is taken.
    classes : array-like of shape (K,), default=None
        Labels of the columns, sorted; needed if they cannot be inferred from `y`.

    Attributes
    ----------
    coef_ : ndarray of shape (K, 2), or (1, 2) for two classes
        :math:`a_k` and :math:`b_k`, at least 0.
    intercept_ : ndarray of shape (K,), or (1,) for two classes
        :math:`c_k`; minus infinity for a class without rows, whose probability is then 0.
    clip_ : float, or ndarray of shape (2,) for two classes
        What a probability of 0 counts as before its logarithm is taken: half the smallest
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
        if every slope is 0, as for reversed scores: then every row gets the base rates.

    See Also
    --------
    skcalib.PlattScaling : a = b, of either sign.
    skcalib.DirichletCalibrator : The same idea for all classes jointly.

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
        return f"{counted(len(self.coef_), 'map')}: a = {a}, b = {b}, c = {span(self.intercept_)}"

    def _plan(self) -> ColumnPlan:
        a, b = self.coef_.T
        return self._plan_of_odds(beta, {"coef": np.stack([a, b, b - a])})


def beta(o: Operations, odds: Value, c: Constants) -> Value:
    """Return a log p - b log(1 - p) + c of log-odds f.

    With s = log(1 + exp(-|f|)), log p = min(f, 0) - s and -log(1 - p) = max(f, 0) + s.
    """
    terms = o.minimum(odds, 0.0), o.maximum(odds, 0.0), o.log_tail(odds)
    return o.combine(c["coef"], *terms) + c["intercept"]
