"""Test of "these probabilities are calibrated", with labels drawn from the probabilities."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skcalib._arrays.passes import map_rows
from skcalib._arrays.source import to_array
from skcalib._arrays.types import Float64Array, FloatArray
from skcalib._validation.keywords import check_count, seed_of
from skcalib._validation.predictions import Predictions
from skcalib.metrics._intervals.errors import label_error
from skcalib.metrics._listed import listed
from skcalib.metrics._printing import describe, noted, printed
from skcalib.metrics._resampling import as_result, prepare, resample

# Number of label sets drawn in one pass over the probabilities.
DRAWN = 8


@printed()
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
    given = metric, keywords, (y_true, y_proba, sample_weight, labels, pos_label)
    evaluate, predictions, statistic = prepare(*given, caller="calibration_test", clusters=clusters)
    at_least = statistic
    if predictions.cluster is None:
        null = resample(evaluate, draw_labels, predictions, n_resamples, random_state, n_jobs)
    else:
        error = label_error(evaluate, predictions)
        at_least = error.observed(predictions.code).reshape(statistic.shape)
        seed = np.random.SeedSequence(seed_of(random_state))
        null = error.simulate(to_array(predictions.P), n_resamples, seed).values
        null = null.reshape(n_resamples, *statistic.shape)
    pvalue = (1 + np.asarray((null >= at_least).sum(axis=0))) / (1 + n_resamples)
    numbers = statistic, pvalue, null.mean(axis=0), null.std(axis=0, ddof=1)
    kind = partial(CalibrationTest, null_distribution=null)
    return noted(as_result(kind, numbers, evaluate, predictions), predictions.n_clusters)
