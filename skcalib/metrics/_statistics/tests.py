"""Tests of calibration: with simulated labels, the Hosmer-Lemeshow and the Spiegelhalter test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import chdtrc, ndtr

from skcalib._arrays.rowwise import Float64Array, FloatArray
from skcalib._arrays.sources import map_rows, to_array
from skcalib._binning import NumberOfBins
from skcalib._validation.keywords import check_count, check_flags, seed_of
from skcalib._validation.rows import Predictions, check_predictions, takes_predictions
from skcalib.metrics._binned import Closed, QuantileMethod, Strategy, bin_predictions, check_bins
from skcalib.metrics._common import add_note, cluster_sums, describe, event_rows, listed, printable
from skcalib.metrics._intervals.interval import label_error
from skcalib.metrics._resampling import make_result, prepare, resample

# The Hosmer-Lemeshow test of calibration: a chi-square test over bins of scores.


# Gaps between accuracy and mean score of a bin are rounding errors if they are below this value.
ROUNDING = 1e-12


@printable("statistic", "pvalue", "degrees_of_freedom")
class HosmerLemeshowTest(NamedTuple):
    """Result of `hosmer_lemeshow_test`: statistic, p-value and degrees of freedom."""

    statistic: float
    pvalue: float
    degrees_of_freedom: int


@listed("Hosmer and Lemeshow 1980")
@takes_predictions
def hosmer_lemeshow_test(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    pos_label: Any = None,
    fitted: bool = False,
    n_bins: NumberOfBins = 10,
    strategy: Strategy = "quantile",
    closed: Closed = "right",
    quantile_method: QuantileMethod = "linear",
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
) -> HosmerLemeshowTest:
    r"""Hosmer-Lemeshow test: a chi-square test of calibration over bins.

    .. math:: H = \sum_b \frac{W_b (\mathrm{acc}_b - \mathrm{conf}_b)^2}
                              {\mathrm{conf}_b (1 - \mathrm{conf}_b)}

    is compared with a chi-square distribution. A small p-value is evidence against calibration.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Labels.
    y_proba : array-like of shape (n, K), (n,) or (n, 1)
        Class probabilities, with a column for each of the sorted labels, or of `labels` in their
        order. Columns of a frame that are named after the labels are read by name. One or two
        columns give the probability of the event `pos_label`, which is measured.
    pos_label : label, default=None
        Label of the event whose probability is tested. None means 1 or True for labels {0, 1},
        {-1, 1} or booleans. For other labels, None means the second of two columns, and one column
        needs `pos_label`. With more columns, None means the top label.
    fitted : bool, default=False
        Whether the probabilities were fitted on the same rows by a logistic regression, which
        reduces the degrees of freedom by two.
    n_bins : int or "cube_root", default=10
        Number of bins B ("deciles of risk"); "cube_root" is the cube root of the number of rows,
        rounded up.
    strategy : {"uniform", "quantile"}, default="quantile"
        Bins of equal width on [0, 1], or bins of equal weight.
    closed : {"right", "left"}, default="right"
        The closed side of uniform bins. 0 is always in the first bin, and 1 in the last.
    quantile_method : {"edges", "linear", "rank", "split"}, default="linear"
        Edges of quantile bins; see `general_calibration_error`. "linear" returns the statistic of
        R.
    sample_weight : array-like of shape (n,), default=None
        Non-negative weights. Integers are counts: 2 is two copies of the row. Of floats only the
        ratios matter (see "Weights" under "Valid input" in the user guide). 0 is the row's absence.
    labels : array-like of shape (K,), default=None
        Labels of the columns, in their order; needed if they cannot be inferred from `y_true`.

    Returns
    -------
    test : HosmerLemeshowTest
        Named tuple ``(statistic, pvalue, degrees_of_freedom)``. The degrees of freedom are the
        number of bins with rows, minus two if `fitted`. The statistic is infinite if an outcome of
        probability 0 occurs in a bin whose scores are all 0 or all 1. A p-value that is too small
        for a float is printed as ``pvalue<1e-300``.

    Raises
    ------
    ValueError
        If probabilities, labels, weights or keywords are invalid, or if `fitted` leaves no degree
        of freedom.

    See Also
    --------
    calibration_test : An exact test for small samples and for any metric, by simulated labels.
    spiegelhalter_test : A test without bins.

    Notes
    -----
    The chi-square distribution is a good approximation if at least about five events and five
    non-events are expected in each bin. With fewer events, the test rejects too many calibrated
    models. If scores vary within a bin, the test is slightly conservative.

    If a tenth of the rows have the lowest score, ``hoslem.test`` of R joins these rows with the
    next bin. Here they have their own bin.

    The test needs independent rows. For dependent rows, such as patients of the same hospitals, use
    `calibration_intercept_slope` with `clusters`.

    References
    ----------
    Hosmer, Lemeshow (1980). Goodness of fit tests for the multiple logistic regression model.
    Communications in Statistics - Theory and Methods 9.

    Examples
    --------
    >>> from skcalib.metrics import hosmer_lemeshow_test
    >>> y = [0, 0, 1, 0, 1, 1, 0, 1]
    >>> p = [0.25, 0.25, 0.25, 0.25, 0.5, 0.5, 0.5, 0.5]
    >>> hosmer_lemeshow_test(y, p, n_bins=2)
    HosmerLemeshowTest(statistic=1, pvalue=0.6065, degrees_of_freedom=2)
    """
    bins = check_bins(n_bins, strategy, closed, quantile_method)
    check_flags(fitted=fitted)
    predictions = check_predictions(
        y_true, y_proba, sample_weight, labels, pos_label, caller="hosmer_lemeshow_test"
    )
    table, _ = bin_predictions(predictions, bins)
    degrees = int((table.weight > 0).sum()) - (2 if fitted else 0)
    if degrees < 1:
        raise ValueError(
            f"fitted=True with {degrees + 2} non-empty bins leaves no degree of freedom: raise "
            "n_bins, or pass scores with more distinct values."
        )
    variance = table.confidence * (1 - table.confidence)
    # If all scores in a bin are 0 or all are 1, the labels in the bin equal the scores if
    # probabilities are calibrated. So any gap makes the statistic infinite.
    certain = np.where(np.abs(table.gap) > ROUNDING, np.inf, 0.0)
    terms = np.divide(table.weight * table.gap**2, variance, out=certain, where=variance > 0)
    statistic = float(terms.sum())
    return HosmerLemeshowTest(statistic, float(chdtrc(degrees, statistic)), degrees)


# The test of the hypothesis that probabilities are calibrated. Labels are simulated from the
# probabilities.


# The number of simulated label vectors that are drawn in one pass over the probabilities.
DRAWN = 8


@printable()
class CalibrationTest(NamedTuple):
    """Result of `calibration_test`: the metric, its p-value and its null distribution."""

    statistic: float | Float64Array
    pvalue: float | Float64Array
    mean: float | Float64Array
    standard_error: float | Float64Array
    null_distribution: Float64Array

    def __repr__(self) -> str:
        n_resamples = len(self.null_distribution)
        parts, more = self._fields[:4], f", n_resamples={n_resamples}"
        return describe(self, *parts, smallest=1 / (1 + n_resamples), more=more)


def place_in_rows(block: FloatArray, at: Float64Array) -> NDArray[np.intp]:
    """Return the columns of classes that uniform random numbers select in each row.

    The cumulative probabilities of a row divide [0, 1] into intervals, one for each class.
    """
    cumulative = np.cumsum(block.T, axis=0, dtype=np.float64)
    # A class with probability 0 has an interval of length 0 among the cumulative probabilities, so
    # it is never drawn.
    edges = cumulative[:-1] / cumulative[-1]
    return np.stack([(edges <= each).sum(axis=0) for each in at.T], axis=1)


def draw_labels(
    predictions: Predictions, seed: np.random.SeedSequence, size: int
) -> Iterator[Predictions]:
    """Yield the predictions with simulated labels, drawn from the predicted probabilities."""
    random = np.random.default_rng(seed)
    for start in range(0, size, DRAWN):
        at = random.random((min(DRAWN, size - start), predictions.code.size))
        codes = np.empty(at.shape, dtype=np.intp)
        map_rows(place_in_rows, predictions.P, at.T, out=codes.T)
        yield from (predictions._replace(code=code) for code in codes)


@listed("Vaicenavicius et al. 2019")
def calibration_test(
    metric: Callable[..., Any],
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    n_resamples: int = 1000,
    pos_label: Any = None,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    clusters: Any = None,
    random_state: Any = None,
    n_jobs: int | None = None,
    **keywords: Any,
) -> CalibrationTest:
    r"""Test by simulated labels whether probabilities are calibrated, with any metric.

    If the probabilities are calibrated, labels drawn from the probabilities have the same
    distribution as the true labels. The metric :math:`\theta` is evaluated on B such sets of
    labels, and

    .. math:: p = \frac{1 + \#\{b : \theta(y^{(b)}, P) \ge \theta(y, P)\}}{1 + B}, \qquad
              y^{(b)}_i \sim P_i .

    Parameters
    ----------
    metric : callable
        ``metric(y_true, y_proba, ...)``, which is large if calibration is bad: any metric of this
        package or of scikit-learn, your own metric, or one with keywords fixed by
        `functools.partial`. `labels` and ``sample_weight`` are passed if the metric has these
        parameters; without ``sample_weight``, rows are repeated.
    y_true : array-like of shape (n,)
        Labels.
    y_proba : array-like of shape (n, K), (n,) or (n, 1)
        Class probabilities, with a column for each of the sorted labels, or of `labels` in their
        order. Columns of a frame that are named after the labels are read by name. One or two
        columns give the probability of the event `pos_label`, which is measured.
    n_resamples : int, default=1000
        Number of sets of labels B; the smallest p-value is 1 / (1 + B).
    pos_label : label, default=None
        Label of the event whose probability is measured. It is also passed to `metric` if `metric`
        has this parameter. None means 1 or True for labels {0, 1}, {-1, 1} or booleans. For other
        labels, None means the second of two columns, and one column needs `pos_label`.
    sample_weight : array-like of shape (n,), default=None
        Non-negative weights. Integers are counts: 2 is two copies of the row. Of floats only the
        ratios matter (see "Weights" under "Valid input" in the user guide). 0 is the row's absence.
        Each copy gets a label of its own.
    labels : array-like of shape (K,), default=None
        Labels of the columns, in their order; needed if they cannot be inferred from `y_true`.
    clusters : array-like of shape (n,), default=None
        Cluster of each row, such as the hospital of a patient, if rows of one cluster are
        dependent. At least 6 clusters are needed; see "Dependent rows" in the user guide. None
        means that rows are independent.
    random_state : int, RandomState instance or None, default=None
        Seed of the labels. Results do not depend on `n_jobs`.
    n_jobs : int, default=None
        Number of processes, as in joblib.
    **keywords : object
        Keywords of `metric`, such as ``n_bins=10``.

    Returns
    -------
    test : CalibrationTest
        Named tuple ``(statistic, pvalue, mean, standard_error, null_distribution)``: the metric
        on the true labels, its p-value, its mean and standard deviation over the drawn labels, and
        its B values on the drawn labels. The mean is the average of the metric for a calibrated
        model with these probabilities, which is the small-sample bias of an error. Each number is
        an array if the metric returns an array (``average=None``). The result is printed with B
        instead of the B values. The smallest possible p-value is printed as an inequality:
        ``pvalue<0.001`` if B is 1000.

    Raises
    ------
    ValueError
        If probabilities, labels, weights, clusters or keywords are invalid, or if weights are
        floats and the metric has no ``sample_weight``. With `clusters`, also if the metric is not a
        calibration error of this package.
    TypeError
        If `metric` is not callable.

    See Also
    --------
    bootstrap_interval : Confidence interval of any metric.
    hosmer_lemeshow_test : The classical test, without simulation.

    Notes
    -----
    The p-value is exact: under the hypothesis, true and drawn labels are exchangeable. So a test at
    level alpha rejects at most a fraction alpha of calibrated models, for any n and any metric. The
    hypothesis is that the probabilities of every row are the true probabilities, which is stronger
    than calibration of the top label.

    With `clusters`, no labels are drawn. Instead, the residuals of each cluster get a random sign
    (see `calibration_interval`), and the test is approximate. At a level of 5 %, it rejected 4 to
    6 % of the calibrated models that ``python -m benchmarks.coverage --clusters`` simulates with
    10, 30 and 100 clusters, and 7 % in the worst case.

    If the probabilities were fitted on the same rows, the p-value is too large.

    References
    ----------
    Broecker, Smith (2007). Increasing the Reliability of Reliability Diagrams. Weather and
    Forecasting 22.

    Vaicenavicius, Widmann, Andersson, Lindsten, Roll, Schon (2019). Evaluating model calibration
    in classification. AISTATS.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib.metrics import calibration_test, ks_calibration_error
    >>> rng = np.random.default_rng(0)
    >>> p = rng.random(500)
    >>> y = rng.random(500) < p
    >>> calibration_test(ks_calibration_error, y, p, random_state=0).pvalue > 0.05
    True
    >>> test = calibration_test(ks_calibration_error, y, p**3, n_resamples=200, random_state=0)
    >>> test  # doctest: +NORMALIZE_WHITESPACE
    CalibrationTest(statistic=0.2483, pvalue<0.005, mean=0.01855, standard_error=0.007481,
                    n_resamples=200)
    """
    check_count("n_resamples", n_resamples, 2)
    name = "calibration_test"
    evaluate, predictions, value = prepare(
        metric, keywords, y_true, y_proba, sample_weight, labels, pos_label, name, clusters
    )
    at_least = value
    if predictions.cluster is None:
        null = resample(evaluate, draw_labels, predictions, n_resamples, random_state, n_jobs)
    else:
        error = label_error(evaluate, predictions)
        at_least = error.observed(predictions.code).reshape(value.shape)
        seed = np.random.SeedSequence(seed_of(random_state))
        null = error.simulate(to_array(predictions.P), n_resamples, seed).values
        null = null.reshape(n_resamples, *value.shape)
    pvalue = (1 + np.asarray((null >= at_least).sum(axis=0))) / (1 + n_resamples)
    numbers = value, pvalue, null.mean(axis=0), null.std(axis=0, ddof=1)
    kind = partial(CalibrationTest, null_distribution=null)
    return add_note(make_result(kind, numbers, evaluate, predictions), predictions.n_clusters)


# The Spiegelhalter test of calibration, which uses the Brier score instead of bins.


@printable("statistic", "pvalue")
class SpiegelhalterTest(NamedTuple):
    """Result of `spiegelhalter_test`: statistic and p-value."""

    statistic: float
    pvalue: float


@listed("Spiegelhalter 1986")
@takes_predictions
def spiegelhalter_test(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    pos_label: Any = None,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    clusters: Any = None,
) -> SpiegelhalterTest:
    r"""Spiegelhalter test: a test of calibration by the Brier score, without bins.

    If p is the true probability of the event in each row, mean and variance of the Brier score are
    known, and

    .. math:: z = \frac{\sum_i w_i (y_i - p_i)(1 - 2 p_i)}
                       {\sqrt{\sum_i w_i (1 - 2 p_i)^2 p_i (1 - p_i)}}

    is approximately normal. A positive z means that the Brier score is larger than that of
    calibrated probabilities, for example because the probabilities are too extreme. A negative z
    means that the Brier score is smaller.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Labels.
    y_proba : array-like of shape (n, K), (n,) or (n, 1)
        Class probabilities, with a column for each of the sorted labels, or of `labels` in their
        order. Columns of a frame that are named after the labels are read by name. One or two
        columns give the probability of the event `pos_label`, which is measured.
    pos_label : label, default=None
        Label of the event whose probability is tested. None means 1 or True for labels {0, 1},
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
    test : SpiegelhalterTest
        Named tuple ``(statistic, pvalue)``: z and its two-sided p-value. A row with probability 0
        and the event, or with probability 1 without the event, adds 1 to the numerator and nothing
        to the variance, as in ``val.prob`` of R. If all probabilities are 0, 1/2 or 1, the variance
        is 0. Then z is infinite if there is such a row, otherwise 0, because the test has no
        information. A p-value that is too small for a float is printed as ``pvalue<1e-300``.

    Raises
    ------
    ValueError
        If probabilities, labels or weights are invalid.

    See Also
    --------
    hosmer_lemeshow_test : A test by bins.
    calibration_test : A test by any metric, by simulated labels.

    Notes
    -----
    With `clusters`, the variance is the sum of the squared sums over clusters, which is valid for
    any dependence within clusters.

    The test detects only one kind of error: probabilities that are too extreme in some rows and not
    extreme enough in others may have the same Brier score as calibrated probabilities.

    References
    ----------
    Spiegelhalter (1986). Probabilistic prediction in patient management and clinical trials.
    Statistics in Medicine 5.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib.metrics import spiegelhalter_test
    >>> spiegelhalter_test([0, 0, 0, 1], [0.1, 0.2, 0.3, 0.6])
    SpiegelhalterTest(statistic=-1.005, pvalue=0.3149)
    >>> rng = np.random.default_rng(0)
    >>> p = rng.random(1000)
    >>> y = rng.random(1000) < p
    >>> spiegelhalter_test(y, p).pvalue > 0.05
    True
    """
    name = "spiegelhalter_test"
    predictions = check_predictions(
        y_true, y_proba, sample_weight, labels, pos_label, caller=name, clusters=clusters
    )
    rows = event_rows(predictions)
    p, hit, w, cluster = rows.p, rows.hit, rows.w, rows.cluster
    # `excess` is the Brier score minus its expected value for calibrated probabilities.
    away = 1 - 2 * p
    excess, variance = float(w @ ((hit - p) * away)), float(w @ (away**2 * p * (1 - p)))
    if cluster is not None:
        variance = float((cluster_sums(w * (hit - p) * away, cluster) ** 2).sum())
    # If all probabilities are 0, 1/2 or 1, the variance of `excess` is 0. Then `excess` is positive
    # only if a prediction of 0 or 1 is wrong.
    z = excess / float(np.sqrt(variance)) if variance > 0 else np.inf if excess > 0 else 0.0
    test = SpiegelhalterTest(z, float(2 * ndtr(-abs(z))))
    return add_note(test, predictions.n_clusters)
