"""Bootstrap confidence intervals of any metric."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr, ndtri

from skcalib._arrays.rowwise import Float64Array, Intp, is_unit
from skcalib._validation.keywords import check_count, check_level, check_option, check_seed
from skcalib._validation.rows import Predictions
from skcalib.metrics._common import (
    add_note,
    listed,
    merge_clusters,
    number_of,
    printable,
    resampling_factor,
    separate_rows,
)
from skcalib.metrics._resampling import CHUNK, evaluate_chunks, make_result, prepare, resample

# The BCa interval needs an acceleration, which the jackknife estimates by leaving out groups of
# rows in turn. With 200 groups, the error of the acceleration is 0.003, which moves the ends of the
# interval by 0.01 standard errors.
JACKKNIFE_GROUPS = 200
# The largest normal quantile for the ends of an interval. Larger quantiles would not change the
# interval, because it already contains all resampled values.
LARGEST = 8.0


@printable("estimate", "low", "high", "standard_error")
class BootstrapInterval(NamedTuple):
    """Result of `bootstrap_interval`: an estimate, its interval and its standard error."""

    estimate: float | Float64Array
    low: float | Float64Array
    high: float | Float64Array
    standard_error: float | Float64Array


def draw_counts(
    predictions: Predictions, seed: np.random.SeedSequence, size: int
) -> Iterator[Predictions]:
    """Yield bootstrap resamples of the rows, or of whole clusters of dependent rows."""
    w, units, n_units = predictions.w, predictions.units, number_of(predictions.units)
    predictions = predictions._replace(cluster=None)
    random = np.random.default_rng(seed)
    are_copies = is_unit(w)
    for _ in range(size):
        count = np.bincount(random.integers(n_units, size=n_units), minlength=n_units)[units]
        if are_copies:
            yield predictions._replace(w=w * count)
        else:
            # Each draw is a separate row, because two rows of weight 0.7 count differently from one
            # row of weight 1.4.
            yield predictions.take(np.repeat(np.arange(w.size), count))


def leave_out(predictions: Predictions, group: Intp, some: Intp) -> Iterator[Predictions]:
    """For each of some groups of rows, yield the predictions without the rows of this group."""
    for g in some:
        yield predictions._replace(w=np.where(group == g, 0.0, predictions.w))


def bca_levels(
    estimate: Any, values: Float64Array, jackknife: Float64Array, level: float
) -> tuple[float, float]:
    """Return the quantile levels at which the resampled `values` are cut for a BCa interval.

    Let z0 be the normal quantile of the fraction of values below the estimate, and a the
    acceleration. A level alpha with the normal quantile z becomes
    Phi(z0 + (z0 + z) / (1 - a (z0 + z))), and 0 or 1 if the denominator is not positive.
    """
    below = np.mean(values < estimate) / 2 + np.mean(values <= estimate) / 2
    # The fraction of resampled values below the estimate is kept away from 0 and 1, because its
    # normal quantile z0 would be infinite there.
    z0 = ndtri(np.clip(below, 0.5 / values.size, 1 - 0.5 / values.size))
    away = jackknife.mean() - jackknife
    spread = float((away**2).sum())
    a = float((away**3).sum()) / (6 * spread**1.5) if spread > 0 else 0.0
    shifted = z0 + ndtri([(1 - level) / 2, (1 + level) / 2])
    low, high = ndtr(z0 + shifted / np.maximum(1 - a * shifted, 1e-9))
    return float(low), float(high)


@listed("Efron 1987")
def bootstrap_interval(
    metric: Callable[..., Any],
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    n_resamples: int = 1000,
    confidence_level: float = 0.95,
    method: Literal["percentile", "bca"] = "percentile",
    pos_label: Any = None,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    clusters: Any = None,
    random_state: Any = None,
    n_jobs: int | None = None,
    **keywords: Any,
) -> BootstrapInterval:
    r"""Bootstrap confidence interval of any metric.

    Rows are drawn with replacement B times. In each resample, row i has a multinomial count
    :math:`c_i`, and the metric is evaluated with :math:`c_i` copies of row i. The interval is

    .. math:: \big[\hat F^{-1}(\alpha_1),\ \hat F^{-1}(\alpha_2)\big]

    where :math:`\hat F` is the distribution of the B values. For "percentile", the two levels are
    :math:`(1 \mp c) / 2`, where c is the confidence level. "bca" corrects both levels for bias and
    acceleration. With `clusters`, clusters are drawn, and the interval also contains the estimate
    plus and minus z standard errors. With `clusters` or relative weights, the levels are
    :math:`\Phi(\pm z)`, where z is a quantile of Student's t times a factor, because residuals
    about the mean are too small. The factor is :math:`\sqrt{C / (C - 1)}` for C clusters of equal
    size.

    Parameters
    ----------
    metric : callable
        ``metric(y_true, y_proba, ...)``: any metric of this package or of scikit-learn, your own
        metric, or one with keywords fixed by `functools.partial`. `labels` and ``sample_weight``
        are passed if the metric has these parameters; without ``sample_weight``, rows are repeated.
    y_true : array-like of shape (n,) or (n, K)
        Labels, or the fractions of raters who chose each class, with a column for each class. With
        one column of probabilities, also soft labels in [0, 1].
    y_proba : array-like of shape (n, K), (n,) or (n, 1)
        Class probabilities, with a column for each of the sorted labels, or of `labels` in their
        order. Columns of a frame that are named after the labels are read by name. One or two
        columns give the probability of the event `pos_label`, which is measured.
    n_resamples : int, default=1000
        Number of resamples B.
    confidence_level : float in (0, 1), default=0.95
        Proportion of repeated samples in which the interval contains the true value.
    method : {"percentile", "bca"}, default="percentile"
        Quantiles of the resampled values, or bias-corrected and accelerated quantiles.
    pos_label : label, default=None
        Label of the event whose probability is measured. It is also passed to `metric` if `metric`
        has this parameter. None means 1 or True for labels {0, 1}, {-1, 1} or booleans. For other
        labels, None means the second of two columns, and one column needs `pos_label`.
    sample_weight : array-like of shape (n,), default=None
        Non-negative weights. Integers are counts: 2 is two copies of the row. Of floats only the
        ratios matter (see "Weights" under "Valid input" in the user guide). 0 is the row's absence.
        Each copy is drawn separately. A row with a relative weight is drawn with its weight.
    labels : array-like of shape (K,), default=None
        Labels of the columns, in their order; needed if they cannot be inferred from `y_true`.
    clusters : array-like of shape (n,), default=None
        Cluster of each row, such as the hospital of a patient, if rows of one cluster are
        dependent. At least 3 clusters are needed; see "Dependent rows" in the user guide. None
        means that rows are independent.
    random_state : int, RandomState instance or None, default=None
        Seed of the resamples. Results do not depend on `n_jobs`.
    n_jobs : int, default=None
        Number of processes, as in joblib.
    **keywords : object
        Keywords of `metric`, such as ``n_bins=10``.

    Returns
    -------
    interval : BootstrapInterval
        Named tuple ``(estimate, low, high, standard_error)``: the metric on the data, the ends of
        the interval, and the standard deviation of the resampled values. Each is a float, or an
        array if the metric returns an array (``average=None``).

    Raises
    ------
    ValueError
        If probabilities, labels, weights or keywords are invalid, or if weights are floats and
        the metric has no ``sample_weight``.
    TypeError
        If `metric` is not callable.

    See Also
    --------
    calibration_test : Whether the error is larger than that of a calibrated model.

    Notes
    -----
    A calibration error has a small-sample bias, and resampling adds the same bias again. If the
    error is much larger than its bias (the ``mean`` of `calibration_test`), the coverage of the
    intervals is close to the confidence level. Otherwise, mostly for class-wise errors, intervals
    may be above the estimate and above the true value. Then use `calibration_test`, or reflect the
    interval about the estimate, ``2 * estimate - high`` to ``2 * estimate - low``, which subtracts
    the bias once.

    The acceleration of "bca" comes from a jackknife that leaves out each row in turn, or each of
    200 random groups if there are more than 200 rows. With `clusters`, it leaves out clusters.

    The degrees of freedom of Student's t are those of Bell and McCaffrey (2002) for a mean of
    clusters of these sizes, or of rows of these weights.

    References
    ----------
    Bell, McCaffrey (2002). Bias reduction in standard errors for linear regression with multi-stage
    samples. Survey Methodology 28.

    Efron (1987). Better Bootstrap Confidence Intervals. Journal of the American Statistical
    Association 82.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib.metrics import bootstrap_interval, static_calibration_error
    >>> rng = np.random.default_rng(0)
    >>> p = rng.random(1000)
    >>> y = rng.random(1000) < p**2
    >>> bootstrap_interval(static_calibration_error, y, p, random_state=0)
    BootstrapInterval(estimate=0.1543, low=0.1313, high=0.1767, standard_error=0.01185)
    """
    check_count("n_resamples", n_resamples, 2)
    check_option("method", method, ("percentile", "bca"))
    check_level(confidence_level)
    evaluate, predictions, estimate = prepare(
        metric,
        keywords,
        y_true,
        y_proba,
        sample_weight,
        labels,
        pos_label,
        "bootstrap_interval",
        clusters,
        soft=True,
    )
    random = check_seed(random_state)
    values = resample(evaluate, draw_counts, predictions, n_resamples, random, n_jobs)
    # With clusters or relative weights, the interval uses Student's t and corrects residuals that
    # are too small.
    z = ndtri((1 + confidence_level) / 2)
    z *= resampling_factor(separate_rows(predictions), confidence_level)
    level = confidence_level
    if z > ndtri((1 + level) / 2):
        level = float(1 - 2 * ndtr(-min(z, LARGEST)))
    alpha = np.array([(1 - level) / 2, (1 + level) / 2])
    if method == "percentile" or len(predictions.code) == 1:
        low, high = np.quantile(values, alpha, axis=0)
    else:
        group = merge_clusters(predictions.units, random, JACKKNIFE_GROUPS)
        shares = np.array_split(np.unique(group), JACKKNIFE_GROUPS // CHUNK)
        parts = [(predictions, group, some) for some in shares]
        jackknife = evaluate_chunks(evaluate, leave_out, parts, n_jobs)
        low, high = np.empty_like(estimate), np.empty_like(estimate)
        for j in np.ndindex(estimate.shape):
            ends = bca_levels(estimate[j], values[:, *j], jackknife[:, *j], level)
            low[j], high[j] = np.quantile(values[:, *j], ends)
    error = values.std(axis=0, ddof=1)
    if predictions.cluster is not None:  # resamples of a small number of clusters vary too little
        low, high = np.fmin(low, estimate - z * error), np.fmax(high, estimate + z * error)
        low = np.maximum(low, 0.0) if evaluate.is_error else low
    numbers = estimate, low, high, error
    interval = make_result(BootstrapInterval, numbers, evaluate, predictions)
    return add_note(interval, predictions.n_clusters, confidence_level)
