"""Number of events against the sum of their probabilities, with an interval of the ratio."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

from skcalib._validation.keywords import check_level
from skcalib._validation.predictions import check_predictions, takes_predictions
from skcalib._validation.weights import is_whole
from skcalib.metrics._clusters import OF_ROWS, cluster_sums, in_units, ratio_ends
from skcalib.metrics._event import EventRows, event_rows
from skcalib.metrics._listed import listed
from skcalib.metrics._printing import noted, printed


@printed("ratio low high", "observed", "expected")
class ObservedExpectedRatio(NamedTuple):
    """What `observed_expected_ratio` returns."""

    ratio: float
    low: float
    high: float
    observed: float
    expected: float


def ratio_interval(rows: EventRows, level: float) -> tuple[float, float, float]:
    """Return the ratio and the ends of its interval; some probability must be above 0."""
    p, hit, w, cluster = in_units(rows)
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
    r"""Observed-expected ratio (O:E): number of events over the expected number.

    .. math:: R = \frac{O}{E}, \qquad O = \sum_i w_i y_i, \qquad E = \sum_i w_i p_i .

    Above 1, probabilities are too low on the whole; below 1, too high. The interval contains all
    ratios r with

    .. math:: (O - r E)^2 \le z^2 v\, r E, \qquad
              v = \frac{\sum_i w_i (y_i - R p_i)^2 + \frac{z^2}{2} (m^2 + (1 - m)^2)}
                       {O + \frac{z^2}{2}},

    where z is a normal quantile, m the mean of y, and v the variance of the events for each event:
    1 for rare events, less for frequent events that p predicts.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Labels.
    y_proba : array-like of shape (n, K), (n,) or (n, 1)
        Class probabilities, a column for each of the sorted labels, or of `labels` in their
        order; a frame whose columns are named by the labels is read by name. One or two columns
        give the probability of one event, `pos_label`, and are measured as that.
    confidence_level : float in (0, 1), default=0.95
        Share of intervals that contain the true value, in the long run.
    pos_label : label, default=None
        The event whose probability is measured. None means 1 or True for labels {0, 1}, {-1, 1} or
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
    result : ObservedExpectedRatio
        Named tuple ``(ratio, low, high, observed, expected)``. Without events the ratio and `low`
        are 0; `high` is at most that of rows which all have the event.

    Raises
    ------
    ValueError
        If probabilities, labels, weights or keywords are invalid, or all probabilities are 0.

    See Also
    --------
    calibration_intercept_slope : The same on the scale of log-odds, and the slope.

    Notes
    -----
    Intervals on the scale of log R with the variance of a Poisson number of events (Debray et al.
    2017) ignore that p predicts part of the events: with 20 % events, 95 % intervals contained the
    true ratio in 98 % of samples. This interval, a score interval (Wilson's, for a sum) with the
    variance estimated from the rows, contained it in 94 to 96 % (``python -m
    benchmarks.coverage statistics``). Pseudo rows, half of them with the event, keep its width
    above 0 if no row or every row has the event.

    With `clusters` the interval also contains Student's with the degrees of freedom of Bell and
    McCaffrey (2002), whose variance is that of the sums :math:`O_c - R E_c` of clusters; so it does
    with relative weights, of which each row is a cluster. They are squared in v.

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
    given = y_true, y_proba, sample_weight, labels, pos_label
    predictions = check_predictions(*given, caller="observed_expected_ratio", clusters=clusters)
    rows = event_rows(predictions)
    if not rows.p.any():
        raise ValueError(
            "y_proba is 0 in every row, so that no event is expected and O:E has no value; pass "
            "probabilities above 0."
        )
    sums = float(rows.w @ rows.hit), float(rows.w @ rows.p)
    result = ObservedExpectedRatio(*ratio_interval(rows, confidence_level), *sums)
    return noted(result, predictions.n_clusters, confidence_level)
