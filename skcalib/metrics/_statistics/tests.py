"""Tests of calibration: simulated, Hosmer-Lemeshow, Spiegelhalter."""

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

# The Hosmer-Lemeshow chi-square test of calibration, on a bin table.


# Gaps below this are rounding errors, of sums of the same weights in another order.
ROUNDING = 1e-12


@printable("statistic", "pvalue", "degrees_of_freedom")
class HosmerLemeshowTest(NamedTuple):
    """What `hosmer_lemeshow_test` returns."""

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

    is compared with a chi-square distribution; a small p-value speaks against calibration.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Labels.
    y_proba : array-like of shape (n, K), (n,) or (n, 1)
        Class probabilities, a column for each of the sorted labels, or of `labels` in their
        order; a frame whose columns are named by the labels is read by name. One or two columns
        give the probability of one event, `pos_label`, and are measured as that.
    pos_label : label, default=None
        The event whose probability is tested. None means 1 or True for labels {0, 1}, {-1, 1} or
        booleans; of other labels the second of two columns, while one column needs it. With more
        columns, None means the top label.
    fitted : bool, default=False
        Whether the probabilities were fitted on these very rows, by a logistic regression: two
        degrees of freedom fewer.
    n_bins : int or "cube_root", default=10
        Number of bins B ("deciles of risk"); "cube_root": the cube root of the number of rows,
        rounded up.
    strategy : {"uniform", "quantile"}, default="quantile"
        Bins of equal width on [0, 1], or of equal weight.
    closed : {"right", "left"}, default="right"
        The closed side of uniform bins; 0 always falls in the first and 1 in the last.
    quantile_method : {"edges", "linear", "rank", "split"}, default="linear"
        How quantile bins are cut; see `general_calibration_error`. "linear" gives R's statistic.
    sample_weight : array-like of shape (n,), default=None
        Non-negative weights. Integers are counts: 2 is two copies of the row. Of floats only the
        ratios matter (see "Weights" under "Valid input" in the user guide). 0 is the row's absence.
    labels : array-like of shape (K,), default=None
        Labels of the columns, in their order; needed if they cannot be inferred from `y_true`.

    Returns
    -------
    test : HosmerLemeshowTest
        Named tuple ``(statistic, pvalue, degrees_of_freedom)``. The degrees of freedom are the
        number of bins with rows, or two fewer if `fitted`. The statistic is infinite if an
        outcome of probability 0 occurs in a bin whose scores are all 0 or all 1. A p-value too
        small for a float is printed as ``pvalue<1e-300``.

    Raises
    ------
    ValueError
        If probabilities, labels, weights or keywords are invalid, or `fitted` leaves no degree
        of freedom.

    See Also
    --------
    calibration_test : Exact for small samples and for any metric, by resampling.
    spiegelhalter_test : Without bins.

    Notes
    -----
    The chi-square distribution is a good approximation if about five events and five non-events
    are expected in each bin; with fewer events it rejects too many calibrated models. Scores that
    vary within a bin make the test slightly conservative.

    R's ``hoslem.test`` joins the lowest score to the next bin where a tenth of the rows share it.
    Here it keeps a bin of its own.
    Rows are taken as independent: if they are not, such as patients of the same hospitals, use
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
    # If every score of a bin is 0, or every score is 1, a gap is impossible, not merely unlikely.
    certain = np.where(np.abs(table.gap) > ROUNDING, np.inf, 0.0)
    terms = np.divide(table.weight * table.gap**2, variance, out=certain, where=variance > 0)
    statistic = float(terms.sum())
    return HosmerLemeshowTest(statistic, float(chdtrc(degrees, statistic)), degrees)


# Test of "these probabilities are calibrated", with labels drawn from the probabilities.


# Number of label sets drawn in one pass over the probabilities.
DRAWN = 8


@printable()
class CalibrationTest(NamedTuple):
    """What `calibration_test` returns."""

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
    """Return the columns ``(rows, m)`` in which numbers ``at (rows, m)`` fall.

    The probabilities of a row divide [0, 1] in the order of the columns.
    """
    cumulative = np.cumsum(block.T, axis=0, dtype=np.float64)
    # Both edges of a class of probability 0 are equal: no number falls between them.
    edges = cumulative[:-1] / cumulative[-1]
    return np.stack([(edges <= each).sum(axis=0) for each in at.T], axis=1)


def draw_labels(
    predictions: Predictions, seed: np.random.SeedSequence, size: int
) -> Iterator[Predictions]:
    """Yield the predictions with labels drawn from their own probabilities."""
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
    r"""Test of the hypothesis that the probabilities are calibrated, by any metric.

    If the probabilities are calibrated, labels drawn from them have the same distribution as the
    true labels.
    The metric :math:`\theta` is evaluated on B such sets of labels, and

    .. math:: p = \frac{1 + \#\{b : \theta(y^{(b)}, P) \ge \theta(y, P)\}}{1 + B}, \qquad
              y^{(b)}_i \sim P_i .

    Parameters
    ----------
    metric : callable
        ``metric(y_true, y_proba, ...)``, large where calibration is bad: any metric of this
        package or of scikit-learn, your own, or one with keywords fixed by
        `functools.partial`. It gets `labels` if it takes them, and ``sample_weight`` if it takes
        that, else repeated rows.
    y_true : array-like of shape (n,)
        Labels.
    y_proba : array-like of shape (n, K), (n,) or (n, 1)
        Class probabilities, a column for each of the sorted labels, or of `labels` in their
        order; a frame whose columns are named by the labels is read by name. One or two columns
        give the probability of one event, `pos_label`, and are measured as that.
    n_resamples : int, default=1000
        Number of sets of labels B; the smallest p-value is 1 / (1 + B).
    pos_label : label, default=None
        The event whose probability is measured; also passed to `metric` if it takes it. None means
        1 or True for labels {0, 1}, {-1, 1} or booleans; of other labels the second of two columns,
        while one column needs it.
    sample_weight : array-like of shape (n,), default=None
        Non-negative weights. Integers are counts: 2 is two copies of the row. Of floats only the
        ratios matter (see "Weights" under "Valid input" in the user guide). 0 is the row's absence.
        Each copy gets a label of its own.
    labels : array-like of shape (K,), default=None
        Labels of the columns, in their order; needed if they cannot be inferred from `y_true`.
    clusters : array-like of shape (n,), default=None
        Label of each row's cluster, such as the hospital of a patient: rows of a cluster were drawn
        together, and may go wrong together. At least 6; see "Rows that belong together" in the user
        guide. None means that rows are independent.
    random_state : int, RandomState instance or None, default=None
        Seed of the draws; the same for any `n_jobs`.
    n_jobs : int, default=None
        Processes that share the draws, as in joblib.
    **keywords : object
        Passed on to `metric`, such as ``n_bins=10``.

    Returns
    -------
    test : CalibrationTest
        Named tuple ``(statistic, pvalue, mean, standard_error, null_distribution)``: the metric
        on the true labels, its p-value, mean and standard deviation over the drawn labels, and
        the B values themselves. The mean is the bias: the metric that a perfectly calibrated
        model with these probabilities has on average. Each is an array if the metric returns one
        (``average=None``). It is printed with B instead of the B values; a p-value that no draw
        reached is an inequality: ``pvalue<0.001`` if B is 1000.

    Raises
    ------
    ValueError
        If probabilities, labels, weights, clusters or keywords are invalid, or weights are floats
        and the metric takes none. With `clusters`, also if it is not a calibration error of this
        package.
    TypeError
        If `metric` is not callable.

    See Also
    --------
    bootstrap_interval : Confidence interval of any metric.
    hosmer_lemeshow_test : The classical test, without resampling.

    Notes
    -----
    The p-value is exact: under the hypothesis, true and drawn labels can be exchanged, so that a
    test at level alpha rejects at most a share alpha of calibrated models, at any n and for any
    metric. The hypothesis is that every probability is right, row by row, which is stronger than
    calibration of, say, the top label.

    With `clusters`, no labels are drawn: what the labels of a cluster add to the sums of bins, less
    what the probabilities expect, gets a random sign (see `calibration_interval`). The test is then
    approximate: at a level of 5 % it rejected 4 to 6 % of the calibrated models that
    ``python -m benchmarks.coverage --clusters`` simulates with 10, 30 and 100 clusters, and 7 % in
    the worst case.

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


# Spiegelhalter's test of calibration, on the Brier score.


@printable("statistic", "pvalue")
class SpiegelhalterTest(NamedTuple):
    """What `spiegelhalter_test` returns."""

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

    If the probability of each row's event is p, the Brier score has a known mean and variance, and

    .. math:: z = \frac{\sum_i w_i (y_i - p_i)(1 - 2 p_i)}
                       {\sqrt{\sum_i w_i (1 - 2 p_i)^2 p_i (1 - p_i)}}

    is nearly normal. A positive z means that the Brier score is larger than that of calibrated
    probabilities, for example because the probabilities are too extreme; a negative z means that
    it is smaller.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Labels.
    y_proba : array-like of shape (n, K), (n,) or (n, 1)
        Class probabilities, a column for each of the sorted labels, or of `labels` in their
        order; a frame whose columns are named by the labels is read by name. One or two columns
        give the probability of one event, `pos_label`, and are measured as that.
    pos_label : label, default=None
        The event whose probability is tested. None means 1 or True for labels {0, 1}, {-1, 1} or
        booleans; of other labels the second of two columns, while one column needs it. With more
        columns, None means the top label: the event that the predicted class is right.
    sample_weight : array-like of shape (n,), default=None
        Non-negative weights. Integers are counts: 2 is two copies of the row. Of floats only the
        ratios matter (see "Weights" under "Valid input" in the user guide). 0 is the row's absence.
    labels : array-like of shape (K,), default=None
        Labels of the columns, in their order; needed if they cannot be inferred from `y_true`.
    clusters : array-like of shape (n,), default=None
        Label of each row's cluster, such as the hospital of a patient: rows of a cluster were drawn
        together, and may go wrong together. At least 3; see "Rows that belong together" in the user
        guide. None means that rows are independent.

    Returns
    -------
    test : SpiegelhalterTest
        Named tuple ``(statistic, pvalue)``: z and its two-sided p-value. A row of probability 0
        that has the event, or of probability 1 that lacks it, adds 1 to the numerator and nothing
        to the variance, as in R's ``val.prob``. If all probabilities are 0, 1/2 or 1, the variance
        is 0: z is infinite with such a row, and 0 without, because the test has no information
        then. A p-value too small for a float is printed as ``pvalue<1e-300``.

    Raises
    ------
    ValueError
        If probabilities, labels or weights are invalid.

    See Also
    --------
    hosmer_lemeshow_test : By bins.
    calibration_test : For any metric, by resampling.

    Notes
    -----
    With `clusters`, the variance is the sum of the squared sums over clusters, whatever the
    dependence within them.

    The test detects one kind of error: probabilities that are too extreme in some rows and not
    extreme enough in others may have the Brier score of calibrated ones.

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
    # How far the Brier score is from what calibrated probabilities expect of it.
    away = 1 - 2 * p
    excess, variance = float(w @ ((hit - p) * away)), float(w @ (away**2 * p * (1 - p)))
    if cluster is not None:
        variance = float((cluster_sums(w * (hit - p) * away, cluster) ** 2).sum())
    # If all probabilities are 0, 1/2 or 1, only a certain row that is wrong adds to the excess.
    z = excess / float(np.sqrt(variance)) if variance > 0 else np.inf if excess > 0 else 0.0
    test = SpiegelhalterTest(z, float(2 * ndtr(-abs(z))))
    return add_note(test, predictions.n_clusters)
