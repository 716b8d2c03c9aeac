"""Brier score of the predicted class."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from skcalib._scores.top_label import event_or_top
from skcalib._validation.predictions import check_predictions
from skcalib.metrics._listed import listed


@listed("Brier 1950", scorer=True, error=False, has_event=False)
def top_label_brier_score(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    pos_label: Any = None,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
) -> float:
    r"""Brier score of the top label: mean squared difference of confidence and hit.

    .. math:: \frac{1}{\sum_i w_i} \sum_i w_i
              \big(\max_k P_{ik} - [\arg\max_k P_{ik} = y_i]\big)^2

    This is a proper score of the confidence: unlike a calibration error it also rewards
    separating right predictions from wrong ones. A soft hit t counts as a hit of weight t and a
    miss of weight 1 - t, so that the best confidence is t, with a score of t (1 - t).

    Parameters
    ----------
    y_true : array-like of shape (n,) or (n, K)
        Labels; with one column also soft hits, shares of the event in [0, 1]; or the shares of
        several raters, a column for each class.
    y_proba : array-like of shape (n, K), (n,) or (n, 1)
        Class probabilities, a column for each of the sorted labels, or of `labels` in their
        order; a frame whose columns are named by the labels is read by name. One column is the
        probability of one event, `pos_label`, and is measured as that.
    pos_label : label, default=None
        The event whose probability is measured. With one column, None means 1 or True for labels
        {0, 1}, {-1, 1} or booleans; others need it. With more columns, None means the top label.
    sample_weight : array-like of shape (n,), default=None
        Non-negative weights. Integers are counts: 2 is two copies of the row. Of floats only the
        ratios matter (see "Weights" under "Valid input" in the user guide). 0 is the row's absence.
    labels : array-like of shape (K,), default=None
        Labels of the columns, in their order; needed if they cannot be inferred from `y_true`.

    Returns
    -------
    score : float
        In [0, 1]; 0 is best.

    Raises
    ------
    ValueError
        If probabilities, labels or weights are invalid.

    References
    ----------
    Brier (1950). Verification of Forecasts Expressed in Terms of Probability. Monthly Weather
    Review 78.

    Gupta, Ramdas (2022). Top-label calibration and multiclass-to-binary reductions. ICLR.

    Examples
    --------
    >>> from skcalib.metrics import top_label_brier_score
    >>> round(top_label_brier_score([0, 1, 1], [[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]]), 4)
    0.1367
    """
    predictions = check_predictions(y_true, y_proba, sample_weight, labels, pos_label, soft=True)
    score, hit = event_or_top(predictions.as_classes())
    w = predictions.w
    # Of a soft hit, the mean over a hit and a miss: t (1 - s)^2 + (1 - t) s^2.
    square = (score.astype(np.float64) - hit) ** 2 + hit * (1.0 - hit)
    return float(w @ square / w.sum())
