r"""Calibration at a single score: exponentially decaying means of the hits on either side.

Between two scores numerator and denominator decay by the same factor, so that their ratio is
constant. The mean at a query is therefore the mean at the nearest score on that side, at any
distance, and is never 0/0.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from skcalib._arrays.types import Float64Array
from skcalib._scores.top_label import event_or_top
from skcalib._validation.keywords import check_between
from skcalib._validation.predictions import check_predictions
from skcalib._validation.scores import naming_errors_of
from skcalib.metrics._listed import listed

# The distance over which the weight of a row is multiplied by `decay`.
UNIT = 0.01


def decaying_mean(
    place: Float64Array, hit: Float64Array, w: Float64Array, rate: float
) -> Float64Array:
    r"""Mean of the hits up to each row, older rows weighing less by exp(-rate * distance).

    .. math:: \frac{\sum_{j \le i} w_j t_j e^{-r (x_i - x_j)}}
                   {\sum_{j \le i} w_j e^{-r (x_i - x_j)}}

    Parameters
    ----------
    place : ndarray of shape (n,)
        Ascending.
    hit, w : ndarray of shape (n,)
    rate : float
        Positive.
    """
    # Sums of logarithms, because weights of rows far apart differ by more than floats can.
    with np.errstate(divide="ignore"):
        grown = rate * place + np.log([w * hit, w])
    hits, rows = np.logaddexp.accumulate(grown, axis=1)
    return np.exp(hits - rows)


@listed("Nixon et al. 2019")
def local_calibration(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    at: ArrayLike | None = None,
    decay: float = 0.9,
    pos_label: Any = None,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
) -> Float64Array:
    r"""Accuracy at given scores, estimated from nearby rows.

    On each side of g, the share of hits with weights that decay with the distance,

    .. math:: a_{\le}(g) = \frac{\sum_{s_i \le g} w_i t_i\, d^{|g - s_i| / 0.01}}
                                {\sum_{s_i \le g} w_i\, d^{|g - s_i| / 0.01}},

    likewise :math:`a_{\ge}(g)`. The result is the mean of the two, or one of them if the other
    side has no rows. Rows exactly at g count on both sides. The local calibration error
    is ``abs(local_calibration(y, P, at=g) - g)``.

    Parameters
    ----------
    y_true : array-like of shape (n,) or (n, K)
        Labels; with one column also soft hits, shares of the event in [0, 1]; or the shares of
        several raters, a column for each class.
    y_proba : array-like of shape (n, K), (n,) or (n, 1)
        Class probabilities, a column for each of the sorted labels, or of `labels` in their
        order; a frame whose columns are named by the labels is read by name. One or two columns
        give the probability of one event, `pos_label`, and are measured as that.
    at : array-like of numbers in [0, 1], default=None
        Scores g, in any order and shape; None means the 101 points 0, 0.01, ..., 1.
    decay : float in (0, 1), default=0.9
        d: the factor of the weight of a row for each 0.01 of distance.
    pos_label : label, default=None
        The event whose probability is the score. None means 1 or True for labels {0, 1}, {-1, 1} or
        booleans; of other labels the second of two columns, while one column needs it. With
        more columns, None means the top label.
    sample_weight : array-like of shape (n,), default=None
        Non-negative weights. Integers are counts: 2 is two copies of the row. Of floats only the
        ratios matter (see "Weights" under "Valid input" in the user guide). 0 is the row's absence.
    labels : array-like of shape (K,), default=None
        Labels of the columns, in their order; needed if they cannot be inferred from `y_true`.

    Returns
    -------
    accuracy : ndarray of the shape of `at`
        In [0, 1].

    Raises
    ------
    ValueError
        If probabilities, labels, weights or keywords are invalid.

    Notes
    -----
    Two passes over the sorted scores, O(n log n), are enough for any number of queries. Every query
    is exact. The paper interpolates linearly on a grid of 101 points:
    ``np.interp(g, np.linspace(0, 1, 101), local_calibration(y, P))``.

    Near the ends of the scores one side is longer than the other: values are a little too high
    near 0 and a little too low near 1.

    References
    ----------
    Nixon, Dusenberry, Zhang, Jerfel, Tran (2019). Measuring Calibration in Deep Learning. CVPR
    Workshops; arXiv:1904.01685v1, section 7 and appendix A.

    Examples
    --------
    >>> from skcalib.metrics import local_calibration
    >>> y = [0, 0, 1, 1]
    >>> p = [0.1, 0.4, 0.4, 0.8]
    >>> local_calibration(y, p, at=[0.0, 0.4, 1.0]).round(4)
    array([0.0396, 0.4966, 0.985 ])
    """
    check_between("decay", decay, 0, 1, "a number in (0, 1)")
    with naming_errors_of("at", at, "pass scores to evaluate at"):
        g = np.linspace(0.0, 1.0, 101) if at is None else np.asarray(at, dtype=np.float64)
    if not ((g >= 0) & (g <= 1)).all():
        raise ValueError("at contains a value outside [0, 1]; pass scores to evaluate at.")
    predictions = check_predictions(y_true, y_proba, sample_weight, labels, pos_label, soft=True)
    score, hit = event_or_top(predictions)
    order = np.argsort(score, kind="stable")
    s, t = score[order].astype(np.float64), hit[order].astype(np.float64)
    w = predictions.w[order]
    rate = -np.log(decay) / UNIT
    # The last row at or below g, and the first one at or above.
    last = np.searchsorted(s, g, side="right") - 1
    first = np.searchsorted(s, g, side="left")
    below = decaying_mean(s, t, w, rate)[last]
    above = decaying_mean(-s[::-1], t[::-1], w[::-1], rate)[::-1][np.minimum(first, s.size - 1)]
    return np.where(last < 0, above, np.where(first == s.size, below, (below + above) / 2))
