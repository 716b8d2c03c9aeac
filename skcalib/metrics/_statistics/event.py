"""Statistics of risk models: intercept and slope, observed-expected ratio, summary, net benefit."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.optimize import brentq
from scipy.special import chdtrc, expit, fdtrc, ndtri

from skcalib._arrays.rowwise import Bools, Float64Array, FloatArray
from skcalib._scaling.logistic import fit_logistic, fit_shifts, separates
from skcalib._scores.scores import event_or_top
from skcalib._validation.keywords import check_level, short_repr
from skcalib._validation.rows import check_predictions, is_whole, takes_predictions
from skcalib.metrics._common import (
    OF_ROWS,
    SMALLEST,
    EventRows,
    add_note,
    cluster_sums,
    design_effect,
    event_log_odds,
    event_rows,
    leave_out,
    listed,
    p_text,
    printable,
    ratio_ends,
    reduce_to_event,
    separate_rows,
    student,
)
from skcalib.metrics._curves.curves import NAMES, distance_intervals, wilson_interval
from skcalib.metrics._intervals.interval import NULL_SETS, interval_of
from skcalib.metrics._intervals.label_errors import clusters_text
from skcalib.metrics._intervals.truths import calibrated
from skcalib.metrics._resampling import Evaluation, repeat_rows
from skcalib.metrics._statistics.scores import event_scores, score_decomposition
from skcalib.metrics._statistics.tests import hosmer_lemeshow_test, spiegelhalter_test
from skcalib.metrics._top_label import expected_calibration_error

# The intercept and the slope of a logistic recalibration, with their standard errors.
#
# With log-odds :math:`f_i`, outcomes :math:`y_i`, the intercept a and the slope b, the covariance
# of intercept and slope is the inverse of the information matrix
#
# .. math:: \sum_i w_i q_i (1 - q_i) \begin{pmatrix} 1 & f_i \\ f_i & f_i^2 \end{pmatrix}, \qquad
#           q_i = \frac{1}{1 + \exp(-a - b f_i)} .
#
# The variance of calibration-in-the-large c does not assume that the slope is 1:
#
# .. math:: \frac{\sum_i w_i (y_i - q_i)^2}{\big(\sum_i w_i q_i (1 - q_i)\big)^2}, \qquad
#           q_i = \frac{1}{1 + \exp(-c - f_i)} .


# Log-odds are treated as equal if their relative difference is smaller than this value.
EQUAL = 1e-9
# If the information about the slope, relative to weights and range of the log-odds, is below this
# value, a threshold separates the rows with the event from all others.
LEAST_INFORMATION = 1e-10
SEPARATED = (
    "y_proba separates the rows with the event from all others, so that no finite slope exists: "
    "use data with more rows."
)


@printable(
    *(f"{name} {name}_low {name}_high" for name in ("slope", "intercept", "in_the_large")),
    "pvalue",
)
class CalibrationInterceptSlope(NamedTuple):
    """Result of `calibration_intercept_slope`: estimates with intervals and standard errors."""

    slope: float
    slope_low: float
    slope_high: float
    slope_standard_error: float
    intercept: float
    intercept_low: float
    intercept_high: float
    intercept_standard_error: float
    in_the_large: float
    in_the_large_low: float
    in_the_large_high: float
    in_the_large_standard_error: float
    statistic: float
    pvalue: float


def check_slope(odds: Float64Array, hit: Bools) -> None:
    """Raise an error if the calibration slope is not finite."""
    if hit.all() or not hit.any():
        often = "every row" if hit.any() else "no row"
        raise ValueError(
            f"y_true: the event occurs in {often}, so that no finite intercept exists: use "
            "rows with and without the event, or observed_expected_ratio."
        )
    if np.ptp(odds) <= EQUAL * np.abs(odds).max():
        raise ValueError(
            "y_proba has the same value in every row, so that no slope exists: use "
            "observed_expected_ratio."
        )
    if separates(odds[None], hit[None])[0] or separates(-odds[None], hit[None])[0]:
        raise ValueError(SEPARATED)


def log_likelihood(eta: Float64Array, hit: Bools, w: Float64Array) -> float:
    """Return the weighted log-likelihood of the outcomes, for the predicted log-odds ``(n,)``."""
    return -float(w @ np.logaddexp(0.0, np.where(hit, -eta, eta)))


def wald(estimate: float, variance: float, factor: float) -> tuple[float, float, float, float]:
    """Return an estimate with both ends of its Wald interval and its standard error."""
    error = float(np.sqrt(variance))
    half = factor * error
    return estimate, estimate - half, estimate + half, error


def fit_in_the_large(
    odds: Float64Array, rows: EventRows, level: float
) -> tuple[float, float, float, float]:
    """Fit calibration-in-the-large: the calibration intercept with the slope fixed at 1."""
    hit, w, cluster = rows.hit, rows.w, rows.cluster
    shift = float(fit_shifts(odds[None], hit[None], w)[0])
    q, rest = expit(odds + shift), expit(-odds - shift)
    information, squares = float(w @ (q * rest)), float(w @ np.where(hit, rest, q) ** 2)
    if cluster is None:
        return wald(shift, squares / information / information, float(ndtri((1 + level) / 2)))
    one = np.ones((odds.size, 1))
    variance, (number,) = leave_out(one, w * q * rest, w * (hit - q), cluster)
    return wald(shift, float(variance[0, 0]), student(number - 1, level))


def recalibration(odds: Float64Array, rows: EventRows, level: float) -> CalibrationInterceptSlope:
    """Fit calibration intercept and slope, and calibration-in-the-large (slope 1)."""
    hit, w, cluster = rows.hit, rows.w, rows.cluster
    check_slope(odds, hit)
    fitted = fit_logistic(odds[None, None], hit[None], w)
    slope, intercept = float(fitted.coef[0, 0]), float(fitted.intercept[0])
    eta = slope * odds + intercept
    # The information matrix is inverted with centred log-odds by its Schur complement, to avoid
    # rounding errors.
    information = w * expit(eta) * expit(-eta)
    total = float(information.sum())
    centre = float(information @ odds) / total if total else 0.0
    about = float(information @ (odds - centre) ** 2)
    if min(total, about / float(np.ptp(odds)) ** 2) < LEAST_INFORMATION * float(w.sum()):
        raise ValueError(SEPARATED)
    of_slope, factors = 1 / about, [float(ndtri((1 + level) / 2))] * 2
    of_intercept = 1 / total + centre**2 * of_slope
    # The test statistic cannot be negative, so a value below 0 is a rounding error.
    statistic = max(2 * (log_likelihood(eta, hit, w) - log_likelihood(odds, hit, w)), 0.0)
    pvalue = float(chdtrc(2, statistic))
    if cluster is not None:
        X = np.column_stack([odds, np.ones_like(odds)])
        V, numbers = leave_out(X, information, w * (hit - expit(eta)), cluster)
        of_slope, of_intercept = np.diag(V).tolist()
        factors = [student(number - 1, level) for number in numbers]
        away, freedom = np.array([slope - 1, intercept]), max(min(numbers) - 2, 1)
        statistic = float(away @ np.linalg.solve(V, away)) * freedom / (2 * (freedom + 1))
        pvalue = float(fdtrc(2, freedom, statistic))
    return CalibrationInterceptSlope(
        *wald(slope, of_slope, factors[0]),
        *wald(intercept, of_intercept, factors[1]),
        *fit_in_the_large(odds, rows, level),
        statistic,
        pvalue,
    )


@listed("Cox 1958")
@takes_predictions
def calibration_intercept_slope(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    confidence_level: float = 0.95,
    pos_label: Any = None,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    clusters: Any = None,
) -> CalibrationInterceptSlope:
    r"""Calibration intercept, slope and calibration-in-the-large, with intervals.

    With p the probability of the event, logistic regressions of the event on logit p,

    .. math:: \mathrm{logit}\,\mathrm{P}(y = 1) = a + b \,\mathrm{logit}\,p, \qquad
              \mathrm{logit}\,\mathrm{P}(y = 1) = c + \mathrm{logit}\,p ,

    return the slope b and the intercept a, fitted jointly, and calibration-in-the-large c, fitted
    with the slope fixed at 1. Calibrated probabilities have b = 1 and a = c = 0. A slope below 1
    means that probabilities are too extreme, like those of an overfitted model. With c > 0,
    probabilities are too low on average.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Labels.
    y_proba : array-like of shape (n, K), (n,) or (n, 1)
        Class probabilities, with a column for each of the sorted labels, or of `labels` in their
        order. Columns of a frame that are named after the labels are read by name. One or two
        columns give the probability of the event `pos_label`, which is measured.
    confidence_level : float in (0, 1), default=0.95
        Proportion of repeated samples in which the interval contains the true value.
    pos_label : label, default=None
        Label of the event whose probability is measured. None means 1 or True for labels {0, 1},
        {-1, 1} or booleans. For other labels, None means the second of two columns, and one column
        needs `pos_label`. With more columns, None means that the event is a correct prediction.
    sample_weight : array-like of shape (n,), default=None
        Non-negative weights. Integers are counts: 2 is two copies of the row. Of floats only the
        ratios matter (see "Weights" under "Valid input" in the user guide). 0 is the row's absence.
    labels : array-like of shape (K,), default=None
        Labels of the columns, in their order; needed if they cannot be inferred from `y_true`.
    clusters : array-like of shape (n,), default=None
        Cluster of each row, such as the hospital of a patient, if rows of one cluster are
        dependent. At least 3 clusters are needed; see "Dependent rows" in the user guide. None
        means that rows are independent.

    Returns
    -------
    result : CalibrationInterceptSlope
        Named tuple of `slope`, `intercept` and `in_the_large`, each with the ends of its interval
        (`slope_low`, `slope_high`) and its standard error (`slope_standard_error`). `statistic` and
        `pvalue` are those of the likelihood-ratio test of "slope 1 and intercept 0", with two
        degrees of freedom, or of Wald's F test with `clusters`. A p-value that is too small for a
        float is printed as ``pvalue<1e-300``.

    Raises
    ------
    ValueError
        If probabilities, labels, weights or keywords are invalid, or if no finite slope exists. No
        finite slope exists if the event occurs in no row or in every row, if all probabilities are
        equal, or if they separate the rows with the event from the others.

    See Also
    --------
    skcalib.PlattScaling : Calibrator with this slope and intercept; ``fit_slope=False`` fits c.
    observed_expected_ratio : Number of events divided by the sum of the probabilities.

    Notes
    -----
    Intervals are Wald intervals with the inverse information as covariance, like those of
    `confint.default` for `glm` in R. The variance of c is that of the sandwich estimator, as in
    `sandwich` of R and "HC0" of statsmodels, because the true slope need not be 1. In simulations
    with 10 to 2,000 events, intervals contained the true value in 94 to 96 % of samples (``python
    -m benchmarks.coverage statistics``).

    With `clusters`, standard errors are those of a jackknife sandwich estimator (CR3; Bell and
    McCaffrey 2002), and quantiles are those of Student's t with degrees of freedom by the effective
    number of clusters (Carter et al. 2017). The test is Wald's F test.

    Probabilities of exactly 0 count as half the smallest probability above 0 among these rows, and
    probabilities of exactly 1 likewise, as in :class:`skcalib.PlattScaling`. A wrong row with
    probability 0 or 1 then has a large influence: inspect such rows first.

    References
    ----------
    Cox (1958). Two further applications of a model for binary regression. Biometrika 45.

    Bell, McCaffrey (2002). Bias reduction in standard errors for linear regression with multi-stage
    samples. Survey Methodology 28.

    Carter, Schnepel, Steigerwald (2017). Asymptotic behavior of a t-test robust to cluster
    heterogeneity. Review of Economics and Statistics 99.

    Steyerberg (2019). Clinical Prediction Models, 2nd edition. Springer.

    Van Calster, McLernon, van Smeden, Wynants, Steyerberg (2019). Calibration: the Achilles heel of
    predictive analytics. BMC Medicine 17.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib.metrics import calibration_intercept_slope
    >>> rng = np.random.default_rng(0)
    >>> f = rng.normal(size=10_000) - 2
    >>> y = rng.random(10_000) < 1 / (1 + np.exp(-f))
    >>> p = 1 / (1 + np.exp(-1.5 * f))  # too extreme
    >>> result = calibration_intercept_slope(y, p)
    >>> result  # doctest: +NORMALIZE_WHITESPACE
    CalibrationInterceptSlope(slope=0.6336 (0.5896 to 0.6776),
                              intercept=-0.1449 (-0.2565 to -0.03328),
                              in_the_large=0.5969 (0.5292 to 0.6645), pvalue=1.003e-120)
    >>> bool(result.slope_low < 1 / 1.5 < result.slope_high)
    True
    """
    check_level(confidence_level)
    name = "calibration_intercept_slope"
    predictions = check_predictions(
        y_true, y_proba, sample_weight, labels, pos_label, caller=name, clusters=clusters
    )
    odds, rows = event_log_odds(predictions), event_rows(predictions)
    result = recalibration(odds, rows, confidence_level)
    return add_note(result, predictions.n_clusters, confidence_level)


# Net benefit of treating all rows with a probability at or above a threshold, with intervals.
#
# Net benefits are :math:`a - o\, b`, where o is the odds of the threshold, a = x / n the proportion
# of true positives, and b = y / n the proportion of false positives. The counts x and y are of one
# multinomial sample of n rows. The interval combines Wilson's intervals of a and b (MOVER), with
# the correlation of multinomial proportions, :math:`r = -\sqrt{a b / ((1 - a)(1 - b))}`.


def difference(
    a: Float64Array, b: Float64Array, odds: Float64Array, n: float, level: float
) -> tuple[Float64Array, Float64Array, Float64Array]:
    """Return the net benefit ``a - odds * b`` of two proportions, with its interval."""
    (a_low, a_high), (b_low, b_high) = (wilson_interval(x, n, level) for x in (a, b))
    inner = (a > 0) & (a < 1) & (b > 0) & (b < 1)
    spread = np.where(inner, (1 - a) * (1 - b), 1.0)
    r = np.where(inner, -np.sqrt(a * b / spread), 0.0)

    def distance(of_a: Float64Array, of_b: Float64Array) -> Float64Array:
        square = of_a**2 + (odds * of_b) ** 2 - 2 * r * of_a * odds * of_b
        return np.sqrt(np.maximum(square, 0.0))

    value = a - odds * b
    return value, value - distance(a - a_low, b_high - b), value + distance(a_high - a, b - b_low)


@listed("Vickers and Elkin 2006; Zou and Donner 2008")
def net_benefit(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    thresholds: ArrayLike,
    *,
    confidence_level: float = 0.95,
    pos_label: Any = None,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
) -> pd.DataFrame:
    r"""Net benefit of acting if the probability of an event is at or above a threshold.

    .. math:: \mathrm{NB}(t) = \frac{\mathrm{TP}}{n} - \frac{t}{1 - t} \frac{\mathrm{FP}}{n}, \qquad
              \mathrm{NB}(t) - \mathrm{NB}_{\text{all}}(t)
              = \frac{t}{1 - t} \frac{\mathrm{TN}}{n} - \frac{\mathrm{FN}}{n}

    A threshold t implies that a false negative costs (1 - t) / t times as much as a false positive.
    The unit is true positives per row. A model is useful at t if its net benefit is above 0 (acting
    on no row), and above that of acting on all rows.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Labels.
    y_proba : array-like of shape (n, K), (n,) or (n, 1)
        Class probabilities, with a column for each of the sorted labels, or of `labels` in their
        order. Columns of a frame that are named after the labels are read by name. One or two
        columns give the probability of the event `pos_label`.
    thresholds : float or array-like of shape (m,)
        Probabilities in [0, 1) at or above which one acts. A threshold of 0 means acting on all
        rows.
    confidence_level : float in (0, 1), default=0.95
        Level of the interval of each threshold.
    pos_label : label, default=None
        Label of the event. None means 1 or True for labels {0, 1}, {-1, 1} or booleans. For other
        labels, None means the second of two columns. More columns, and one column with other
        labels, need `pos_label`.
    sample_weight : array-like of shape (n,), default=None
        Non-negative weights. Integers are counts: 2 is two copies of the row. Of floats only the
        ratios matter (see "Weights" under "Valid input" in the user guide). 0 is the row's absence.
    labels : array-like of shape (K,), default=None
        Labels of the columns, in their order; needed if they cannot be inferred from `y_true`.

    Returns
    -------
    frame : DataFrame
        A row for each threshold. Columns: ``threshold``; ``net_benefit`` with its interval ``low``
        to ``high``; and ``gain_over_all``, the difference from acting on all rows, with its
        interval ``gain_low`` to ``gain_high``.

    Raises
    ------
    ValueError
        If probabilities, labels, weights or keywords are invalid, or if there are more than two
        columns and `pos_label` is None.

    See Also
    --------
    skcalib.DecisionCurveDisplay : A plot of the net benefit.
    selective_threshold : A threshold with a guaranteed precision.

    References
    ----------
    Vickers, Elkin (2006). Decision curve analysis: a novel method for evaluating prediction models.
    Medical Decision Making 26.

    Zou, Donner (2008). Construction of confidence limits about effect measures: a general approach.
    Statistics in Medicine 27.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib.metrics import net_benefit
    >>> rng = np.random.default_rng(0)
    >>> p = rng.beta(1, 4, size=1000)
    >>> frame = net_benefit(rng.random(1000) < p, p, [0.1, 0.3])
    >>> frame[["threshold", "net_benefit", "low", "high"]].round(3).to_numpy().tolist()
    [[0.1, 0.149, 0.123, 0.177], [0.3, 0.06, 0.038, 0.083]]
    """
    check_level(confidence_level)
    try:
        t = np.atleast_1d(np.asarray(thresholds, dtype=np.float64))
    except (TypeError, ValueError):  # some of the thresholds are not numbers
        t = np.array([np.nan])
    if t.ndim != 1 or not ((t >= 0) & (t < 1)).all():
        at_one = ": at 1, a false positive has an infinite cost" if (t == 1).any() else ""
        raise ValueError(
            "thresholds must be numbers in [0, 1), such as [0.1, 0.2]; got "
            f"{short_repr(thresholds)}{at_one}."
        )
    predictions = check_predictions(
        y_true, y_proba, sample_weight, labels, pos_label, caller="net_benefit"
    )
    if predictions.event is None:
        raise ValueError(
            "pos_label is missing: net benefit needs an event; pass one of the labels "
            f"{predictions.classes.tolist()}."
        )
    (p, hit), w = event_or_top(predictions), predictions.w
    order, n = np.argsort(p), float(w.sum())
    # Thresholds are rounded to the type of the scores, so that a float32 score of 0.7 is at the
    # threshold 0.7.
    below = np.searchsorted(p[order], t.astype(p.dtype))
    counts = [np.append(0.0, np.cumsum((w * each)[order])) / n for each in (hit, ~hit)]
    (missed, spared), (events, others) = (x[below] for x in counts), (x[-1] for x in counts)
    odds = t / (1 - t)
    model = difference(events - missed, others - spared, odds, n, confidence_level)
    lost = difference(missed, spared, odds, n, confidence_level)
    # At t = 0, the model and the strategy "treat all" are the same.
    gain, high, low = (np.where(t > 0, -each, 0.0) for each in lost)
    names = ("threshold", "net_benefit", "low", "high", "gain_over_all", "gain_low", "gain_high")
    return pd.DataFrame(dict(zip(names, (t, *model, gain, low, high), strict=True)))


# Observed-expected ratio: the number of events divided by the sum of their predicted probabilities.


@printable("ratio low high", "observed", "expected")
class ObservedExpectedRatio(NamedTuple):
    """Result of `observed_expected_ratio`: the ratio, its interval, and both numbers of events."""

    ratio: float
    low: float
    high: float
    observed: float
    expected: float


def ratio_interval(rows: EventRows, level: float) -> tuple[float, float, float]:
    """Return the observed-expected ratio with both ends of its confidence interval."""
    p, hit, w, cluster = separate_rows(rows)
    observed, expected = float(w @ hit), float(w @ p)
    z = float(ndtri((1 + level) / 2))
    ratio = observed / expected
    pseudo = z * z / 2
    mean = observed / float(w.sum())
    of_rows = w if is_whole(w) else w * w
    squares = float(of_rows @ (hit - ratio * p) ** 2) + pseudo * (mean**2 + (1 - mean) ** 2)
    variance = squares / (observed + pseudo)
    centre = observed + variance * pseudo
    half = z * float(np.sqrt(variance * observed + (variance * z) ** 2 / 4))
    low, high = (centre - half) / expected, (centre + half) / expected
    if cluster is not None:
        sums = cluster_sums(w * hit, cluster), cluster_sums(w * p, cluster)
        of_sums = ratio_ends(*sums, level, OF_ROWS if rows.cluster is None else 0.0)
        if rows.cluster is not None and ratio > 0:
            # The ends of the interval are the roots r of (ratio - r)^2 = half^2 r / ratio, where
            # `half` is half the length of the interval that is computed from sums over clusters.
            half = of_sums[1] - ratio
            shift = half * (half / ratio / 2)
            away = float(np.hypot(half, shift))
            of_sums = ratio + shift - away, ratio + shift + away
        low, high = min(low, of_sums[0]), max(high, of_sums[1])
    return ratio, max(low, 0.0), min(high, float(w.sum()) / expected)


@listed("Debray et al. 2017")
@takes_predictions
def observed_expected_ratio(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    confidence_level: float = 0.95,
    pos_label: Any = None,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    clusters: Any = None,
) -> ObservedExpectedRatio:
    r"""Observed-expected ratio (O:E): number of events divided by the expected number.

    .. math:: R = \frac{O}{E}, \qquad O = \sum_i w_i y_i, \qquad E = \sum_i w_i p_i .

    If the ratio is above 1, probabilities are too low on average, and below 1 too high. The
    interval contains all ratios r with

    .. math:: (O - r E)^2 \le z^2 v\, r E, \qquad
              v = \frac{\sum_i w_i (y_i - R p_i)^2 + \frac{z^2}{2} (m^2 + (1 - m)^2)}
                       {O + \frac{z^2}{2}},

    where z is a normal quantile, m the mean of y, and v the ratio of the variance of the number of
    events to its mean: 1 for rare events, less for frequent events that p predicts.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Labels.
    y_proba : array-like of shape (n, K), (n,) or (n, 1)
        Class probabilities, with a column for each of the sorted labels, or of `labels` in their
        order. Columns of a frame that are named after the labels are read by name. One or two
        columns give the probability of the event `pos_label`, which is measured.
    confidence_level : float in (0, 1), default=0.95
        Proportion of repeated samples in which the interval contains the true value.
    pos_label : label, default=None
        Label of the event whose probability is measured. None means 1 or True for labels {0, 1},
        {-1, 1} or booleans. For other labels, None means the second of two columns, and one column
        needs `pos_label`. With more columns, None means that the event is a correct prediction.
    sample_weight : array-like of shape (n,), default=None
        Non-negative weights. Integers are counts: 2 is two copies of the row. Of floats only the
        ratios matter (see "Weights" under "Valid input" in the user guide). 0 is the row's absence.
    labels : array-like of shape (K,), default=None
        Labels of the columns, in their order; needed if they cannot be inferred from `y_true`.
    clusters : array-like of shape (n,), default=None
        Cluster of each row, such as the hospital of a patient, if rows of one cluster are
        dependent. At least 3 clusters are needed; see "Dependent rows" in the user guide. None
        means that rows are independent.

    Returns
    -------
    result : ObservedExpectedRatio
        Named tuple ``(ratio, low, high, observed, expected)``. Without events, `ratio` and `low`
        are 0. `high` is at most the ratio that events in all rows would have.

    Raises
    ------
    ValueError
        If probabilities, labels, weights or keywords are invalid, or if all probabilities are 0.

    See Also
    --------
    calibration_intercept_slope : Calibration-in-the-large on the scale of log-odds, and the slope.

    Notes
    -----
    Intervals on the scale of log R with the variance of a Poisson number of events (Debray et al.
    2017) ignore that p predicts part of the events. With 20 % events, such 95 % intervals contained
    the true ratio in 98 % of samples. The interval here is a score interval (Wilson's interval, for
    a sum) with a variance estimated from the rows. It contained the true ratio in 94 to 96 % of
    samples (``python -m benchmarks.coverage statistics``). Pseudo rows, half of them with the
    event, keep the width above 0 if no row or every row has the event.

    With `clusters`, the interval also contains all r with :math:`(R - r)^2 \le h^2 r / R`. Here h
    is half the length of Student's interval with the degrees of freedom of Bell and McCaffrey
    (2002) and the variance of the sums :math:`O_c - R E_c` over clusters. Relative weights are
    squared in v. Each row is then a cluster, and the interval also contains Student's interval.

    References
    ----------
    Bell, McCaffrey (2002). Bias reduction in standard errors for linear regression with multi-stage
    samples. Survey Methodology 28.

    Debray, Damen, Snell, Ensor, Hooft, Reitsma, Riley, Moons (2017). A guide to systematic review
    and meta-analysis of prediction model performance. BMJ 356.

    Wilson (1927). Probable inference, the law of succession, and statistical inference. Journal of
    the American Statistical Association 22.

    Examples
    --------
    >>> from skcalib.metrics import observed_expected_ratio
    >>> y = [1] * 30 + [0] * 970
    >>> observed_expected_ratio(y, [0.02] * 1000)
    ObservedExpectedRatio(ratio=1.5 (1.057 to 2.129), observed=30, expected=20)
    >>> observed_expected_ratio([0] * 1000, [0.02] * 1000)
    ObservedExpectedRatio(ratio=0 (0 to 0.1921), observed=0, expected=20)
    """
    check_level(confidence_level)
    name = "observed_expected_ratio"
    predictions = check_predictions(
        y_true, y_proba, sample_weight, labels, pos_label, caller=name, clusters=clusters
    )
    rows = event_rows(predictions)
    if not rows.p.any():
        raise ValueError(
            "y_proba is 0 in every row, so that no event is expected and O:E does not exist; pass "
            "probabilities above 0."
        )
    sums = float(rows.w @ rows.hit), float(rows.w @ rows.p)
    result = ObservedExpectedRatio(*ratio_interval(rows, confidence_level), *sums)
    return add_note(result, predictions.n_clusters, confidence_level)


# The table of all statistics of a binary problem (an event and its predicted probability).
#
# The area under the ROC curve has the interval of Newcombe 2006 (method 5). The area A is the
# fraction of pairs of an event and a non-event in which the event has the larger probability; ties
# count half. With :math:`n_1` events, :math:`n_0` non-events and :math:`m = (n_0 + n_1) / 2 - 1`,
# and with the normal quantile z, the interval contains all areas t with
#
# .. math:: (A - t)^2 \le z^2 \frac{t (1 - t)}{n_0 n_1}
#           \Big(1 + m \frac{1 - t}{2 - t} + m \frac{t}{1 + t}\Big) .
#
# The variance is that of a model, because a variance that is estimated from ten events results in
# 95 % intervals with a coverage of 90 %.


COLUMNS = ("value", "low", "high", "pvalue", "debiased")
N_BINS = 10
# The smallest possible p-value of each statistic that is tested by simulating labels.
FLOORS = dict.fromkeys(("ece", *NAMES), 1 / (1 + NULL_SETS))
# The numbers in a row of the table: value, both ends of the interval, p-value, debiased value.
# Missing numbers at the end are left out.
Line = tuple[float, ...]


@dataclass(frozen=True, repr=False)
class CalibrationSummary:
    """Result of `calibration_summary`: a table of statistics, and notes on some of them.

    Attributes
    ----------
    frame : DataFrame
        A row for each statistic, with the columns ``value``, ``low``, ``high``, ``pvalue`` and
        ``debiased``. ``debiased`` is an error without its small-sample bias, and the interval of an
        error is that of ``debiased``. Numbers that do not exist are NaN.
    notes : list of str
        Reasons for missing values, and the values that replace probabilities of 0 and 1 for the
        slope.
    """

    frame: pd.DataFrame
    notes: list[str]

    def _texts(self) -> pd.DataFrame:
        """Format the numbers of the summary table for printing."""
        value, low, high, pvalue, debiased = (self.frame[name] for name in COLUMNS)
        numbers = {
            "": [f"{x:.4g}" if abs(x) < 1e4 else f"{x:,.0f}" for x in value],
            "debiased": ["" if np.isnan(x) else f"{x:.4g}" for x in debiased],
            "interval": [
                "" if np.isnan(a) else f"{a:.4g} to {b:.4g}" for a, b in zip(low, high, strict=True)
            ],
            "pvalue": [
                "" if np.isnan(x) else p_text(x, FLOORS.get(str(name), SMALLEST))
                for name, x in pvalue.items()
            ],
        }
        return pd.DataFrame(numbers, index=self.frame.index)

    def __repr__(self) -> str:
        lines = self._texts().to_string().splitlines()
        return "\n".join([*(line.rstrip() for line in lines), *self.notes])

    def _repr_html_(self) -> str:
        notes = "".join(f"<p>{escape(note)}</p>" for note in self.notes)
        return f"{self._texts().to_html(border=0)}{notes}"


def recalibration_lines(
    odds: Float64Array, rows: EventRows, level: float, notes: list[str]
) -> dict[str, Line]:
    """Return the table rows of calibration intercept, slope and calibration-in-the-large."""
    p, hit, w = rows.p, rows.hit, rows.w
    if ends := [end for end in (0, 1) if (p == end).any()]:
        n = float(w[np.isin(p, ends)].sum())
        some = f"{n:,.6g} row{'s' * (n != 1)} with probability {' or '.join(map(str, ends))}"
        values = (f"{expit(odds[p == end][0]):.3g}" for end in ends)
        notes.append(f"slope: {some}, replaced by {' and '.join(values)}.")
    lines: dict[str, Line] = dict.fromkeys(("in_the_large", "intercept", "slope", "cox"), (np.nan,))
    try:
        line = recalibration(odds, rows, level)
    except ValueError as reason:
        notes.append(f"intercept, slope: {reason}")
        if hit.any() and not hit.all():
            lines["in_the_large"] = fit_in_the_large(odds, rows, level)[:3]
        return lines
    cox = line.statistic, np.nan, np.nan, line.pvalue
    return {"in_the_large": line[8:11], "intercept": line[4:7], "slope": line[:3], "cox": cox}


def auc_interval(rows: EventRows, level: float) -> tuple[float, float, float]:
    """Return the AUC with both ends of its interval, or NaN if all outcomes are equal."""
    p, hit, w = rows.p, rows.hit, rows.w
    _, place = np.unique(p, return_inverse=True)
    events, others = np.bincount(place, w * hit), np.bincount(place, w * ~hit)
    sizes = np.array([events.sum(), others.sum()])
    if not sizes.all():
        return np.nan, np.nan, np.nan
    below = np.cumsum(others) - others / 2
    # Rounding can give a value above 1.
    area = min(float(events @ below) / float(sizes.prod()), 1.0)
    # For each row, `away` is the proportion of the rows with the other outcome that are ranked
    # correctly relative to this row, minus the AUC.
    above = sizes[0] - np.cumsum(events) + events / 2
    away = np.where(hit, below[place] / sizes[1], above[place] / sizes[0]) - area
    fewer = design_effect(separate_rows(rows), away / np.where(hit, *sizes), level)
    end: Any = (*(sizes / fewer).tolist(), float(ndtri((1 + level) / 2)))
    return area, lowest_area(area, *end), 1 - lowest_area(1 - area, *end)


def lowest_area(area: float, n_events: float, n_others: float, z: float) -> float:
    """Return the lower end of the confidence interval of the AUC."""
    if area == 0:
        return 0.0
    m = max((n_events + n_others) / 2 - 1, 0.0)

    def excess(t: float) -> float:
        # In the equation for the end t of the interval, both sides are divided by 1 - t, because
        # otherwise an area of t = 1 would always be a root.
        away = (area - t) ** 2 / (1 - t) if t < 1 else 0.0
        factor = 1 + m * (1 - t) / (2 - t) + m * t / (1 + t)
        return away - z * z * t * factor / (n_events * n_others)

    return float(brentq(excess, 0.0, area, xtol=1e-14))


def score_lines(checked: Any, rows: EventRows, level: float, notes: list[str]) -> dict[str, Line]:
    """Return the table rows of the Brier score and its decomposition, the log loss and the AUC."""
    parts = score_decomposition(checked.code, checked, confidence_level=level)
    area = auc_interval(rows, level)
    loss = event_scores(rows.p, rows.hit, "log")
    if np.isnan(area[0]):
        notes.append(
            "scaled_brier_score, auc, interval of brier_score: these need rows with and without "
            "the event."
        )
    return {
        "brier_score": (parts.score, parts.score_low, parts.score_high),
        "miscalibration": (parts.miscalibration,),
        "discrimination": (parts.discrimination,),
        "uncertainty": (parts.uncertainty,),
        "scaled_brier_score": (parts.scaled_score,),
        "log_loss": (float(np.average(loss, weights=rows.w)),),
        "auc": area,
    }


def measured_lines(
    checked: Any, level: float, random_state: Any, smooth: FloatArray
) -> dict[str, Line]:
    """Return the table rows of the ECE, the ICI and its quantiles, and two tests of calibration.

    `checked` contains checked predictions, `smooth` their calibrated probabilities.
    """
    keywords = {"n_bins": N_BINS, "strategy": "quantile"}
    ece = Evaluation(expected_calibration_error, keywords, column=False)
    # Each statistic is computed separately, so that it equals the result of the public function for
    # the statistic.
    error = interval_of(ece, checked, level=level, random_state=random_state, smooth=smooth)
    four = distance_intervals(checked, level, random_state, smooth)
    four_lines = four.estimate, four.low, four.high, four.p_value, four.debiased
    deciles = hosmer_lemeshow_test(checked.code, checked, n_bins=N_BINS)
    brier = spiegelhalter_test(checked.code, checked)
    pvalue = deciles.pvalue if checked.cluster is None else np.nan
    return {
        "ece": (error.estimate, error.low, error.high, error.p_value, error.debiased),
        **{name: tuple(line) for name, line in zip(NAMES, np.transpose(four_lines), strict=True)},
        "hosmer_lemeshow": (deciles.statistic, np.nan, np.nan, pvalue),
        "spiegelhalter": (brier.statistic, np.nan, np.nan, brier.pvalue),
    }


@listed("Harrell 2015")
def calibration_summary(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    confidence_level: float = 0.95,
    pos_label: Any = None,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    clusters: Any = None,
    random_state: Any = None,
) -> CalibrationSummary:
    r"""Table of all statistics of a binary problem: calibration, discrimination and tests.

    The table is the counterpart of `val.prob` in the package rms of R.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Labels.
    y_proba : array-like of shape (n, K), (n,) or (n, 1)
        Class probabilities, with a column for each of the sorted labels, or of `labels` in their
        order. Columns of a frame that are named after the labels are read by name. One or two
        columns give the probability of the event `pos_label`, which is measured.
    confidence_level : float in (0, 1), default=0.95
        Proportion of repeated samples in which the interval contains the true value.
    pos_label : label, default=None
        Label of the event whose probability is measured. None means 1 or True for labels {0, 1},
        {-1, 1} or booleans. For other labels, None means the second of two columns, and one column
        needs `pos_label`. With more columns, None means that the event is a correct prediction.
    sample_weight : array-like of shape (n,), default=None
        Non-negative weights. Integers are counts: 2 is two copies of the row. Of floats only the
        ratios matter (see "Weights" under "Valid input" in the user guide). 0 is the row's absence.
    labels : array-like of shape (K,), default=None
        Labels of the columns, in their order; needed if they cannot be inferred from `y_true`.
    clusters : array-like of shape (n,), default=None
        Cluster of each row, such as the hospital of a patient, if rows of one cluster are
        dependent. At least 3 clusters are needed; see "Dependent rows" in the user guide. None
        means that rows are independent.
    random_state : int, RandomState instance or None, default=None
        Seed of the intervals of the ECE and of the distances.

    Returns
    -------
    summary : CalibrationSummary
        The summary is printed as a table. Its `frame` has the columns ``value``, ``low``, ``high``,
        ``pvalue`` and ``debiased``, and the rows

        * ``rows``, ``events``, ``mean_probability``: the sum of all weights, the sum of the weights
          of rows with the event, and the mean probability of the event;
        * ``observed_expected``: see `observed_expected_ratio`;
        * ``in_the_large``, ``intercept``, ``slope``, and ``cox``, the test of intercept 0 and slope
          1: see `calibration_intercept_slope`;
        * ``ece``: the expected calibration error with 10 bins of equal weight, with its interval
          and p-value by `calibration_interval`;
        * ``ici``, ``e50``, ``e90``, ``emax``: mean, median, 90th percentile and largest distance of
          the smooth curve from the diagonal: see `integrated_calibration_index`;
        * ``brier_score``, which is ``miscalibration - discrimination + uncertainty``, with its
          interval, and ``scaled_brier_score``, 1 minus the ratio of ``brier_score`` to
          ``uncertainty``: see `score_decomposition`;
        * ``auc``: the area under the ROC curve, or C statistic;
        * ``hosmer_lemeshow`` and ``spiegelhalter``: statistics and p-values of two tests. With
          `clusters`, ``hosmer_lemeshow`` has no p-value.

        A statistic that does not exist is NaN, and `notes` contains the reason.

    Raises
    ------
    ValueError
        If probabilities, labels, weights or keywords are invalid.

    See Also
    --------
    reliability_table : The bins behind a reliability diagram.

    Notes
    -----
    The interval of the AUC is that of Newcombe (2006), method 5, whose coverage is correct even
    with ten events (``python -m benchmarks.coverage statistics``). With `clusters` or relative
    weights, the number of rows is divided by the design effect of the AUC.

    References
    ----------
    Harrell (2015). Regression Modeling Strategies, 2nd edition. Springer.

    Newcombe (2006). Confidence intervals for an effect size measure based on the Mann-Whitney
    statistic, part 2. Statistics in Medicine 25.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib.metrics import calibration_summary
    >>> rng = np.random.default_rng(0)
    >>> f = rng.normal(size=2000) - 2
    >>> y = rng.random(2000) < 1 / (1 + np.exp(-f))
    >>> summary = calibration_summary(y, 1 / (1 + np.exp(-1.5 * f)), random_state=0)
    >>> summary  # doctest: +NORMALIZE_WHITESPACE
                                 debiased              interval     pvalue
    rows                    2000
    events                   300
    mean_probability     0.09354
    observed_expected      1.604                 1.451 to 1.772
    in_the_large          0.6693               0.5213 to 0.8174
    intercept            0.07104              -0.1846 to 0.3267
    slope                 0.7085               0.6067 to 0.8103
    cox                    108.4                                 2.938e-24
    ece                  0.05646  0.05673    0.04155 to 0.07097   < 0.0034
    ici                  0.05671  0.05653    0.04123 to 0.07085   < 0.0034
    e50                   0.0604  0.06198    0.04469 to 0.07927   < 0.0034
    e90                  0.08588  0.08397     0.04975 to 0.1159   < 0.0034
    emax                 0.08757  0.06573           0 to 0.2377     0.2292
    brier_score           0.1151               0.1041 to 0.1269
    miscalibration      0.006112
    discrimination       0.01853
    uncertainty           0.1275
    scaled_brier_score   0.09736
    log_loss               0.3922
    auc                   0.7551               0.7242 to 0.7833
    hosmer_lemeshow        183.7                                 4.011e-34
    spiegelhalter          11.39                                 4.525e-30
    >>> round(float(summary.frame.loc["slope", "value"]), 2)
    0.71
    """
    check_level(confidence_level)
    name = "calibration_summary"
    predictions = check_predictions(
        y_true, y_proba, sample_weight, labels, pos_label, caller=name, clusters=clusters
    )
    predictions = repeat_rows(predictions)
    odds, rows = event_log_odds(predictions), event_rows(predictions)
    predictions = reduce_to_event(predictions)
    total, level = float(predictions.w.sum()), confidence_level
    notes: list[str] = []
    lines: dict[str, Line] = {
        "rows": (total,),
        "events": (float(predictions.w @ rows.hit),),
        "mean_probability": (float(predictions.w @ rows.p) / total,),
        "observed_expected": ratio_interval(rows, level) if rows.p.any() else (np.nan,),
    }
    if not rows.p.any():
        notes.append("observed_expected: y_proba is 0 in every row, so that no event is expected.")
    with np.errstate(under="ignore"):
        lines |= recalibration_lines(odds, rows, level, notes)
        smooth = calibrated(predictions)
        tests = measured_lines(predictions, level, random_state, smooth)
        lines |= {name: tests.pop(name) for name in ("ece", *NAMES)}
        lines |= score_lines(predictions, rows, level, notes) | tests
    if predictions.cluster is not None:
        notes.append(f"intervals: {100 * level:g} %, {clusters_text(predictions.n_clusters)}.")
        notes.append("hosmer_lemeshow: no p-value, because the test needs independent rows.")
    table = {name: [*line, *[np.nan] * (len(COLUMNS) - len(line))] for name, line in lines.items()}
    frame = pd.DataFrame.from_dict(table, orient="index", columns=list(COLUMNS), dtype=float)
    return CalibrationSummary(frame, notes)
