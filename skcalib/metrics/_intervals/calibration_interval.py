"""Confidence intervals of calibration errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numpy.typing import ArrayLike

from skcalib._validation.keywords import check_level
from skcalib.metrics._intervals.intervals import CalibrationInterval, interval_of
from skcalib.metrics._intervals.signs import check_enough
from skcalib.metrics._listed import listed
from skcalib.metrics._printing import noted
from skcalib.metrics._resampling import as_result, prepare


@listed("this package; Broecker and Smith 2007")
def calibration_interval(
    metric: Callable[..., Any],
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    confidence_level: float = 0.95,
    pos_label: Any = None,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    clusters: Any = None,
    random_state: Any = None,
    n_jobs: int | None = None,
    **keywords: Any,
) -> CalibrationInterval:
    r"""Confidence interval of a calibration error, and the debiased error.

    The interval is of the limit :math:`\theta` of the metric as rows of the same source are added.
    With few rows the metric is larger than this limit, because chance adds to it, most for
    class-wise errors of good models. So an interval around the metric, such as that of
    `bootstrap_interval`, often lies above the limit. Here labels are drawn from many possible
    truths q on paths,

    .. math:: q_t = P + t (Q - P), \quad 0 \le t \le 1, \qquad
              q_t \propto Q \exp\big((t - 1) \log (Q / P)\big), \quad t > 1,

    Q being the calibrated probabilities, by :class:`skcalib.AutoCalibrator`, or, on a second path,
    ones whose top odds, or those of the event, are lower in all rows; for class-wise errors of more
    than ten classes, ones with lower odds of half of the classes. The interval with confidence
    c reaches from the lowest to the highest error :math:`\theta(q_t)` of both paths that agrees
    with the metric of the data, by a test at each t:

    .. math:: \{\theta(q_t) : F_t^{-1}(\tfrac{1 - c}{2}) \le \theta(y, P)
              \le F_t^{-1}(\tfrac{1 + c}{2})\}

    with :math:`F_t` the distribution of the metric over labels drawn from :math:`q_t`, widened by
    what the choice of the rows adds. Bins of few rows make :math:`\theta(q_t)` too large: the
    jackknife estimates by how much.

    Parameters
    ----------
    metric : callable
        ``metric(y_true, y_proba, ...)``, a calibration error: any of this package, your own, or one
        with keywords fixed by `functools.partial`. It gets `labels` if it takes them, and
        ``sample_weight`` if it takes that, else repeated rows.
    y_true : array-like of shape (n,)
        Labels.
    y_proba : array-like of shape (n, K), (n,) or (n, 1)
        Class probabilities, a column for each of the sorted labels, or of `labels` in their
        order; a frame whose columns are named by the labels is read by name. One or two columns
        give the probability of one event, `pos_label`, and are measured as that.
        The classifier must not have been fitted on these rows.
    confidence_level : float in (0, 1), default=0.95
        Share of intervals that contain the true value, in the long run.
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
        Seed of the labels; the same for any `n_jobs`. With an integer, `compare_calibrators`,
        `calibration_by_group` and the command line give the same numbers of the same rows.
    n_jobs : int, default=None
        Processes that share the truths, as in joblib.
    **keywords : object
        Passed on to `metric`, such as ``n_bins=10``.

    Returns
    -------
    interval : CalibrationInterval
        Named tuple ``(estimate, debiased, low, high, expected_if_calibrated, p_value)``: the metric
        on the data; the error of which the metric is the median, as often too large as too small;
        the ends of the interval; the mean of the metric of a calibrated model with these
        probabilities; and the p-value of "these probabilities are calibrated", at least 1/301. Each
        is a float, or an array where the metric returns one (``average=None``).

    Raises
    ------
    ValueError
        If probabilities, labels, weights, clusters or keywords are invalid, weights are floats and
        the metric takes none, or the metric is not a calibration error: it is smaller
        where the probabilities are wrong, as a log loss may be. With `clusters`, also if it is not
        a calibration error of this package.
    TypeError
        If `metric` is not callable.

    See Also
    --------
    bootstrap_interval : Any metric, proper scores too.
    calibration_test : The p-value alone, with as many sets of labels as you like.

    Notes
    -----
    Binned errors, KS, the debiased and the smooth error take half a second for n = 10,000 and
    K = 10; other metrics are called some 1,700 times. Above 100 classes Q is the result of
    temperature scaling.

    Of 10,000 rows of equal weight and more, the hits of bins of one event or of the top label are
    drawn, as sums with the mean and the variance of those of the rows, in place of labels.

    With `clusters`, no labels are drawn. What the labels of a cluster add to the sums of bins, less
    what :math:`q_t` expects, gets a random sign, so that the dependence within clusters is that of
    the data (Cameron, Gelbach and Miller 2008; Canay, Santos and Shaikh 2021). Intervals of 10
    clusters are wide.

    The true value of the debiased error is the l2 error with the same bins. A low end of 0 means
    that the data are in agreement with calibrated probabilities; a high end of 0 means that the
    metric is smaller than that of 97.5 % of calibrated models.

    The coverage is approximate: it depends on the true probabilities. It is measured by ``python -m
    benchmarks.coverage``, with tables under "How often intervals cover".

    References
    ----------
    Broecker, Smith (2007). Increasing the Reliability of Reliability Diagrams. Weather and
    Forecasting 22.

    Cameron, Gelbach, Miller (2008). Bootstrap-Based Improvements for Inference with Clustered
    Errors. Review of Economics and Statistics 90.

    Canay, Santos, Shaikh (2021). The Wild Bootstrap with a "Small" Number of "Large" Clusters.
    Review of Economics and Statistics 103.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib.metrics import calibration_interval, static_calibration_error
    >>> rng = np.random.default_rng(0)
    >>> p = rng.random(1000)
    >>> y = rng.random(1000) < p
    >>> interval = calibration_interval(static_calibration_error, y, p, random_state=0)
    >>> interval.low, round(interval.expected_if_calibrated, 2)
    (0.0, 0.04)
    >>> interval = calibration_interval(static_calibration_error, y, p**2, random_state=0)
    >>> bool(interval.low < 1 / 6 < interval.high)
    True
    """
    check_level(confidence_level)
    given = metric, keywords, (y_true, y_proba, sample_weight, labels, pos_label)
    evaluate, predictions, _ = prepare(*given, caller="calibration_interval", clusters=clusters)
    check_enough(predictions.n_clusters)
    interval = interval_of(
        evaluate, predictions, level=confidence_level, random_state=random_state, n_jobs=n_jobs
    )
    interval = as_result(CalibrationInterval, interval, evaluate, predictions)
    return noted(interval, predictions.n_clusters, confidence_level)
