"""Spiegelhalter's test of calibration, on the Brier score."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr

from skcalib._validation.predictions import check_predictions, takes_predictions
from skcalib.metrics._clusters import cluster_sums
from skcalib.metrics._event import EventRows, event_rows
from skcalib.metrics._listed import listed
from skcalib.metrics._printing import noted, printed


@printed("statistic", "pvalue")
class SpiegelhalterTest(NamedTuple):
    """What `spiegelhalter_test` returns."""

    statistic: float
    pvalue: float


def brier_z(rows: EventRows) -> float:
    """Return how far the Brier score is from what calibrated probabilities expect of it."""
    p, hit, w, cluster = rows
    away = 1 - 2 * p
    excess, variance = float(w @ ((hit - p) * away)), float(w @ (away**2 * p * (1 - p)))
    if cluster is not None:
        variance = float((cluster_sums(w * (hit - p) * away, cluster) ** 2).sum())
    if variance > 0:
        return excess / float(np.sqrt(variance))
    # All probabilities are 0, 1/2 or 1: only a certain row that is wrong adds to the excess.
    return np.inf if excess > 0 else 0.0


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
    given = y_true, y_proba, sample_weight, labels, pos_label
    predictions = check_predictions(*given, caller="spiegelhalter_test", clusters=clusters)
    z = brier_z(event_rows(predictions))
    test = SpiegelhalterTest(z, float(2 * ndtr(-abs(z))))
    return noted(test, predictions.n_clusters)
