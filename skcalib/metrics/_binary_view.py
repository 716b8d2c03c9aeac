"""Reduction of a multiclass problem to a binary one."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skcalib._arrays.types import FloatArray
from skcalib._validation.event import class_column
from skcalib._validation.keywords import check_option
from skcalib._validation.predictions import check_predictions
from skcalib.metrics._errors.ks import Mode, reduce_top
from skcalib.metrics._listed import listed


@listed("Gupta et al. 2021")
def binary_view(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    mode: Mode = None,
    r: Any = None,
    pos_label: Any = None,
    labels: ArrayLike | None = None,
) -> tuple[FloatArray, NDArray[np.bool_]]:
    r"""Score and hit of each row for the top-r, the within-top-r or a one-vs-rest problem.

    .. math:: (s_i, t_i) = \big(P_{i(r)}, [y_i = (r)]\big), \quad
              \big(\textstyle\sum_{q \le r} P_{i(q)}, [y_i \in \{(1), \dots, (r)\}]\big), \quad
              \big(P_{ik}, [y_i = k]\big)

    where (q) is the class of the q-th largest probability of row i. The pair is valid input of any
    calibrator of this package, ``calibrator.fit(score, hit)``, and of any binary metric.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Labels.
    y_proba : array-like of shape (n, K), (n,) or (n, 1)
        Class probabilities, a column for each of the sorted labels, or of `labels` in their
        order; a frame whose columns are named by the labels is read by name. One or two columns
        give the probability of one event, `pos_label`, and are measured as that.
    mode : {"top", "within_top", "classwise"} or None, default=None
        Which binary problem; None is the event of one or two columns, else "top".
    r : int in [1, K], or a label, default=None
        The rank for "top" and "within_top" (None: 1); the label of the class for "classwise"
        (None: the second of two classes).
    pos_label : label, default=None
        The event. None means 1 or True for labels {0, 1}, {-1, 1} or booleans; of other labels the
        second of two columns, while one column needs it. With more columns, None means what `mode`
        says.
    labels : array-like of shape (K,), default=None
        Labels of the columns, in their order; needed if they cannot be inferred from `y_true`.

    Returns
    -------
    score : ndarray of shape (n,)
        Probability of the event, in [0, 1], in the type of `y_proba`.
    hit : ndarray of shape (n,), bool
        Whether it happened.

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
        raise ValueError(f"mode='classwise' needs r=, the label of a class: {classes.tolist()}.")
    k = class_column(r, classes, "r")
    return predictions.column(k).copy(), code == k
