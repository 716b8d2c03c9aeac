"""The Kolmogorov-Smirnov (KS) calibration error and the Brier score of the top label."""

from __future__ import annotations

from operator import methodcaller
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skcalib._arrays.rowwise import Bools, FloatArray, is_unit
from skcalib._scores.one_vs_rest import SortedProblem, map_sorted, sort_problem
from skcalib._scores.scores import Scores, event_or_top, top_r
from skcalib._validation.keywords import check_count, check_option
from skcalib._validation.labels import class_column
from skcalib._validation.rows import Predictions, check_predictions
from skcalib.metrics._binned import Average
from skcalib.metrics._common import check_mode, listed

# The Brier score of the top label, where the top label is the class with the largest probability.


@listed("Brier 1950", scorer=True, error=False, has_event=False)
def top_label_brier_score(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    pos_label: Any = None,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
) -> float:
    r"""Brier score of the top label: mean squared distance of confidence from correctness (0 or 1).

    .. math:: \frac{1}{\sum_i w_i} \sum_i w_i
              \big(\max_k P_{ik} - [\arg\max_k P_{ik} = y_i]\big)^2

    The score is a proper score of the confidence: unlike a calibration error, it also rewards a
    model that separates correct predictions from wrong ones. A soft label t counts as an event of
    weight t and a non-event of weight 1 - t. So the best confidence is t, with a Brier score of
    t (1 - t).

    Parameters
    ----------
    y_true : array-like of shape (n,) or (n, K)
        Labels, or the fractions of raters who chose each class, with a column for each class. With
        one column of probabilities, also soft labels in [0, 1].
    y_proba : array-like of shape (n, K), (n,) or (n, 1)
        Class probabilities, with a column for each of the sorted labels, or of `labels` in their
        order. Columns of a frame that are named after the labels are read by name. One column is
        the probability of the event `pos_label`, which is measured.
    pos_label : label, default=None
        Label of the event whose probability is measured. With one column, None means 1 or True for
        labels {0, 1}, {-1, 1} or booleans, and other labels need `pos_label`. With more columns,
        None means the top label.
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
    # A soft label t is the probability that the prediction with score s is correct. The expected
    # squared error is t (1 - s)^2 + (1 - t) s^2.
    square = (score.astype(np.float64) - hit) ** 2 + hit * (1.0 - hit)
    return float(w @ square / w.sum())


# KS error: the largest distance between the cumulative scores and the cumulative outcomes of rows
# in ascending order of the score.
#
# Between two events the cumulative score increases and the cumulative outcome is constant. So the
# distance is largest just before or at the score of an event, and only about n/K scores have to be
# searched for each of K classes.


Mode = Literal["top", "within_top", "classwise"] | None


def ks_error(problem: SortedProblem) -> float:
    """Return the largest distance between cumulative scores and cumulative outcomes of rows."""
    values, weights = problem.values, problem.weights
    score = values if weights is None else weights * values
    cumulative = np.concatenate([[0.0], np.cumsum(score, dtype=np.float64)])
    steps, inverse = np.unique(problem.positives, return_inverse=True)
    hits = np.cumsum(np.bincount(inverse, weights=problem.positive_weights, minlength=steps.size))
    before = cumulative[np.searchsorted(values, steps, side="left")]
    before[1:] -= hits[:-1]
    after = cumulative[np.searchsorted(values, steps, side="right")] - hits
    end = cumulative[-1] - (hits[-1] if steps.size else 0.0)
    largest = max(abs(end), *(np.abs(curve).max(initial=0.0) for curve in (before, after)))
    return float(largest / problem.total_weight())


def reduce_top(predictions: Predictions, mode: str | None, r: int) -> tuple[FloatArray, Bools]:
    """Return scores and outcomes of the event, or of the r-th or the r largest probabilities."""
    check_count("r", r, 1, predictions.P.shape[1])
    predictions = predictions.of_mode(mode, int(r))
    if mode != "within_top" and r == 1:
        return event_or_top(predictions)
    if predictions.are_shares:
        raise ValueError(
            "y_true has soft labels of several raters, but r= and mode='within_top' need labels: "
            "pass one label for each row, such as the one with the largest fraction."
        )
    return top_r(predictions.P, predictions.code, int(r), within=mode == "within_top")


@listed("Gupta et al. 2021", scorer=True)
def ks_calibration_error(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    mode: Mode = None,
    r: int = 1,
    average: Average = "macro",
    pos_label: Any = None,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
) -> float | NDArray[np.float64]:
    r"""Kolmogorov-Smirnov error (KS): largest gap between cumulative scores and outcomes, no bins.

    For a binary problem with scores s, outcomes t and weights w of sum W,

    .. math:: \mathrm{KS} = \max_\sigma \frac{1}{W}
              \Big| \sum_{s_i \le \sigma} w_i s_i - \sum_{s_i \le \sigma} w_i t_i \Big|

    The maximum is over the distinct scores, so that the order of rows with equal scores does not
    matter.

    Parameters
    ----------
    y_true : array-like of shape (n,) or (n, K)
        Labels, or the fractions of raters who chose each class, with a column for each class. With
        one column of probabilities, also soft labels in [0, 1].
    y_proba : array-like of shape (n, K), (n,) or (n, 1)
        Class probabilities, with a column for each of the sorted labels, or of `labels` in their
        order. Columns of a frame that are named after the labels are read by name. One or two
        columns give the probability of the event `pos_label`, which is measured.
    mode : {"top", "within_top", "classwise"} or None, default=None
        "top": the r-th largest probability, and whether its class is the true one. "within_top":
        the sum of the r largest probabilities, and whether one of their classes is the true one.
        "classwise": each class against the rest. None: the event for one or two columns, "top" for
        more.
    r : int in [1, K], default=1
        The rank r for "top" and "within_top".
    average : {"macro", None}, default="macro"
        For "classwise": the mean over classes. None returns the error of each class.
    pos_label : label, default=None
        Label of the event whose probability is measured. None means 1 or True for labels {0, 1},
        {-1, 1} or booleans. For other labels, None means the second of two columns, and one column
        needs `pos_label`. With more columns, None leaves the choice to `mode`.
    sample_weight : array-like of shape (n,), default=None
        Non-negative weights. Integers are counts: 2 is two copies of the row. Of floats only the
        ratios matter (see "Weights" under "Valid input" in the user guide). 0 is the row's absence.
    labels : array-like of shape (K,), default=None
        Labels of the columns, in their order; needed if they cannot be inferred from `y_true`.

    Returns
    -------
    error : float, or ndarray of shape (K,) if ``average=None``
        In [0, 1]; 0 is best. At least the distance between mean score and mean outcome.

    Raises
    ------
    ValueError
        If probabilities, labels, weights or keywords are invalid.

    References
    ----------
    Gupta, Rahimi, Ajanthan, Mensink, Sminchisescu, Hartley (2021). Calibration of Neural
    Networks using Splines. ICLR. Equations (9)-(12).

    Examples
    --------
    >>> from skcalib.metrics import ks_calibration_error
    >>> y = [0, 1, 1, 0]
    >>> P = [[0.9, 0.1], [0.2, 0.8], [0.6, 0.4], [0.7, 0.3]]
    >>> round(ks_calibration_error(y, P), 4)
    0.1
    >>> ks_calibration_error(y, P, mode="classwise", average=None).round(4)
    array([0.2, 0.1])
    """
    check_mode(mode, average, (None, "top", "within_top", "classwise"))
    predictions = check_predictions(
        y_true, y_proba, sample_weight, labels, pos_label, soft=True, on_device=mode == "classwise"
    )
    predictions = predictions.of_mode(mode, average=average)
    if mode != "classwise" or predictions.event is not None:
        score, hit = reduce_top(predictions, mode, r)
        w = predictions.w
        return ks_error(sort_problem(score, hit, None if is_unit(w) else w))
    rows = predictions.split()
    on_device = methodcaller("largest_gaps", float(rows.w.sum()))
    values = map_sorted(ks_error, Scores(rows.P, "proba"), rows.code, rows.w, on_device=on_device)
    errors = np.array(list(values))
    return predictions.of_classes(errors, y_proba) if average is None else float(errors.mean())


@listed("Gupta et al. 2021")
def binary_view(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    mode: Mode = None,
    r: Any = None,
    pos_label: Any = None,
    labels: ArrayLike | None = None,
) -> tuple[FloatArray, Bools]:
    r"""Score and outcome of each row of a binary problem: top-r, within-top-r or one-vs-rest.

    .. math:: (s_i, t_i) = \big(P_{i(r)}, [y_i = (r)]\big), \quad
              \big(\textstyle\sum_{q \le r} P_{i(q)}, [y_i \in \{(1), \dots, (r)\}]\big), \quad
              \big(P_{ik}, [y_i = k]\big)

    where (q) is the class of the q-th largest probability of row i. Score and outcome can be passed
    to any calibrator of this package, ``calibrator.fit(score, hit)``, and to any binary metric.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Labels.
    y_proba : array-like of shape (n, K), (n,) or (n, 1)
        Class probabilities, with a column for each of the sorted labels, or of `labels` in their
        order. Columns of a frame that are named after the labels are read by name. One or two
        columns give the probability of the event `pos_label`, which is measured.
    mode : {"top", "within_top", "classwise"} or None, default=None
        The binary problem; None is the event for one or two columns, "top" for more.
    r : int in [1, K], or a label, default=None
        The rank for "top" and "within_top" (None means 1), or the label of the class for
        "classwise" (None means the second of two classes).
    pos_label : label, default=None
        Label of the event. None means 1 or True for labels {0, 1}, {-1, 1} or booleans. For other
        labels, None means the second of two columns, and one column needs `pos_label`. With more
        columns, None leaves the choice to `mode`.
    labels : array-like of shape (K,), default=None
        Labels of the columns, in their order; needed if they cannot be inferred from `y_true`.

    Returns
    -------
    score : ndarray of shape (n,)
        Probability of the event, in [0, 1], in the type of `y_proba`.
    hit : ndarray of shape (n,), bool
        Whether the event occurred.

    Raises
    ------
    ValueError
        If probabilities, labels or `r` are invalid.

    References
    ----------
    Gupta, Rahimi, Ajanthan, Mensink, Sminchisescu, Hartley (2021). Calibration of Neural
    Networks using Splines. ICLR.

    Examples
    --------
    >>> from skcalib.metrics import binary_view
    >>> score, hit = binary_view([0, 1, 2], [[0.6, 0.3, 0.1], [0.5, 0.4, 0.1], [0.1, 0.1, 0.8]])
    >>> score.tolist(), hit.tolist()
    ([0.6, 0.5, 0.8], [True, False, True])
    """
    check_option("mode", mode, (None, "top", "within_top", "classwise"))
    predictions = check_predictions(y_true, y_proba, None, labels, pos_label, caller="binary_view")
    code, classes = predictions.code, predictions.classes
    if mode != "classwise" or (predictions.event is not None and r is None):
        score, hit = reduce_top(predictions, mode, 1 if r is None else r)
        return score.copy(), hit
    if r is None:
        raise ValueError(
            f"mode='classwise' needs a class label: pass r= with one of {classes.tolist()}."
        )
    k = class_column(r, classes, "r")
    return predictions.column(k).copy(), code == k
