"""Calibration errors as scorers for `cross_validate`, `GridSearchCV` and similar functions.

A scorer returns minus the error of ``predict_proba``. The labels of the columns are the classes of
the estimator. A class of the test rows that the estimator never saw gets a column of zeros. So
folds can be scored even if a class is missing from the training rows or the test rows.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from inspect import signature
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.metrics import get_scorer as get_sklearn_scorer
from sklearn.metrics._scorer import _BaseScorer

from skcalib._arrays.dask import compute_now
from skcalib._arrays.sources import is_dask
from skcalib._scores.responses import align_columns
from skcalib._validation.labels import check_labels, with_absent_label
from skcalib._validation.rows import replace_absent_rows, rows_replacing_weight_0
from skcalib._validation.scores import as_array, as_matrix, from_tensor
from skcalib._validation.survey import two_columns
from skcalib.metrics._common import SCORED
from skcalib.metrics._resampling import check_is_metric, is_skcalib_metric


def add_absent_classes(
    y_true: Any,
    y_proba: Any,
    classes: Any,
    labels: ArrayLike | None,
    sample_weight: ArrayLike | None,
) -> tuple[Any, Any, Any]:
    """Add columns of probability 0 for classes that were absent when the estimator was fitted.

    The result contains labels, probabilities, and the labels of the columns. There is a column for
    each label of the `classes` of the estimator, of `labels` and of the rows, in sorted order. One
    column for two classes becomes two columns. Arguments that need no change are returned as given.
    """
    y = as_array("y_true", y_true, "pass one label for each row")
    known = np.asarray(from_tensor("classes_", classes))
    arguments = y_true, y_proba, classes if labels is None else labels
    # If a row has several labels, or if the array is structured, the metric raises the error.
    if y.ndim == 0 or y.size != y.shape[0] or y.dtype.names:
        return arguments
    P = y_proba
    if known.size == 2 and (np.ndim(P) == 1 or np.shape(P)[1] == 1):
        P = two_columns(as_matrix(P, "predict_proba"), "proba")
    is_whole = np.shape(P)[1:] == known.shape and np.array_equal(known, np.unique(known))
    if labels is None and known.size > 1 and is_whole and np.isin(y, known).all():
        return y_true, P, classes
    y = check_labels(replace_absent_rows(y_true, rows_replacing_weight_0(sample_weight)), "y_true")
    known = check_labels(known, "classes_")
    labels = known[:0] if labels is None else check_labels(labels, "labels")
    if len({each.dtype.kind in "iufb" for each in (y, known, labels)}) > 1:
        return arguments  # numbers and strings cannot be compared, so the metric raises the error
    P = as_matrix(P, "predict_proba")
    if P.shape[1] != known.size:
        raise ValueError(
            f"predict_proba returns {P.shape[1]} columns, but classes_ has {known.size} labels: "
            "pass an estimator that returns one column for each class."
        )
    classes = np.unique(np.concatenate([known, labels, y]))
    if classes.size == 1:
        classes = with_absent_label(classes.tolist()[0])
    return y, align_columns(P, known, classes, 0.0), classes


class CalibrationScorer(_BaseScorer):
    """Scorer that returns a calibration error with a negative sign; see `make_calibration_scorer`.

    A call with ``(estimator, X, y, sample_weight=None)`` returns a float; 0 is best.
    """

    def __init__(self, metric: Callable[..., Any], keywords: dict[str, Any]) -> None:
        super().__init__(metric, sign=-1, kwargs=keywords, response_method="predict_proba")

    def _score(
        self,
        method_caller: Callable[..., Any],
        estimator: Any,
        X: Any,
        y_true: Any,
        **keywords: Any,
    ) -> float:
        self._warn_overlap(
            "Keywords of make_calibration_scorer are also passed as metadata; pass each only once.",
            keywords,
        )
        if not hasattr(estimator, "predict_proba"):
            raise AttributeError(
                f"{type(estimator).__name__} has no predict_proba, which a calibration error "
                "needs: wrap it in skcalib.CalibratedClassifier."
            )
        classes: Any = getattr(estimator, "classes_", None)
        if not isinstance(classes, list) and np.shape(classes) == (1,):
            # If the estimator has a single class, scikit-learn's `method_caller` raises an error.
            y_proba = estimator.predict_proba(X)
        else:
            y_proba = method_caller(estimator, "predict_proba", X)
        keywords = {**self._kwargs, **keywords}
        if is_dask(y_proba):
            y_true, *values = compute_now(y_true, *keywords.values())
            keywords = dict(zip(keywords, values, strict=True))
            # For two classes, scikit-learn returns the column of the second class.
            if y_proba.ndim == 1:
                (y_proba,) = compute_now(y_proba)
        takes_labels = "labels" in signature(self._score_func).parameters
        if takes_labels or classes is not None:
            n_columns = np.shape(y_proba)[1:]
            labels, weight = keywords.get("labels"), keywords.get("sample_weight")
            y_true, y_proba, classes = add_absent_classes(
                y_true, y_proba, estimator.classes_, labels, weight
            )
            if takes_labels or "labels" in keywords:
                keywords["labels"] = classes
            made_two = np.shape(y_proba)[1:] == (2,) and n_columns != (2,)
            if made_two and not is_skcalib_metric(self._score_func):
                # For binary metrics, scorers of scikit-learn also pass only the column of the
                # second class.
                y_proba = y_proba[:, 1]
        return self._sign * float(self._score_func(y_true, y_proba, **keywords))

    def __repr__(self) -> str:
        name = getattr(self._score_func, "__name__", repr(self._score_func))
        keywords = "".join(f", {key}={value!r}" for key, value in self._kwargs.items())
        return f"make_calibration_scorer({name}{keywords})"


# The order of metrics in lists and reports.
ORDER = (
    "general_calibration_error",
    "expected_calibration_error",
    "maximum_calibration_error",
    "root_mean_squared_calibration_error",
    "static_calibration_error",
    "adaptive_calibration_error",
    "thresholded_adaptive_calibration_error",
    "ks_calibration_error",
    "label_binned_calibration_error",
    "soft_binned_calibration_error",
    "debiased_calibration_error",
    "sweep_calibration_error",
    "smooth_calibration_error",
    "kde_calibration_error",
    "maximum_mean_calibration_error",
    "avuc_loss",
    "soft_avuc_loss",
    "integrated_calibration_index",
    "top_label_brier_score",
    "aurc_loss",
)
SCORED.sort(key=lambda metric: ORDER.index(metric.__name__))
# This module is imported after all metrics. `get_scorer` returns a copy, so that metadata requests
# on one scorer do not affect others.
SCORERS = {f"neg_{metric.__name__}": CalibrationScorer(metric, {}) for metric in SCORED}
# Short names of calibration errors as used in papers, and the names of their functions.
SHORT_NAMES = {
    "ece": "expected_calibration_error",
    "sce": "static_calibration_error",
    "mce": "maximum_calibration_error",
    "ace": "adaptive_calibration_error",
    "tace": "thresholded_adaptive_calibration_error",
    "ks": "ks_calibration_error",
    "rmsce": "root_mean_squared_calibration_error",
}


def get_scorer(scoring: str | Callable[..., Any]) -> Callable[..., Any]:
    """Get a scorer by its name, from `SCORERS` or from scikit-learn.

    Pass ``scoring=get_scorer("neg_static_calibration_error")`` to functions of scikit-learn. They
    look up a plain string only among the scorers of scikit-learn.

    Parameters
    ----------
    scoring : str or callable
        A name such as "neg_static_calibration_error" or "neg_log_loss". Short names such as "ece"
        or "neg_ece" also mean minus the error. A callable is returned unchanged.

    Returns
    -------
    scorer : callable
        ``scorer(estimator, X, y)``; greater is better.

    Raises
    ------
    ValueError
        If neither library has a scorer of this name.

    Examples
    --------
    >>> from skcalib.metrics import get_scorer
    >>> get_scorer("neg_ks_calibration_error")
    make_calibration_scorer(ks_calibration_error)
    """
    if isinstance(scoring, str):
        full = SHORT_NAMES.get(scoring.lower().removeprefix("neg_"))
        scoring = f"neg_{full}" if full else scoring
        if scoring in SCORERS:
            return deepcopy(SCORERS[scoring])
    try:
        return get_sklearn_scorer(scoring)
    except ValueError as error:
        raise ValueError(
            f"{scoring!r} is not the name of a scorer: pass one of {sorted(SCORERS)}, or one of "
            "sklearn.metrics.get_scorer_names()."
        ) from error


def make_calibration_scorer(metric: Callable[..., Any], **keywords: Any) -> CalibrationScorer:
    """Create a scorer for scikit-learn from a calibration error.

    Parameters
    ----------
    metric : callable
        ``metric(y_true, y_proba, ...) -> float``, where 0 is best: any metric of
        `skcalib.metrics`, or your own. If it has the parameter `labels`, the classes of the
        estimator are passed.
    **keywords : object
        Keywords of `metric`, such as ``n_bins=10``. `labels` adds classes, in any order, that are
        measured in each fold.

    Returns
    -------
    scorer : callable
        ``scorer(estimator, X, y, sample_weight=None)`` returns minus the error. The estimator needs
        ``predict_proba``. The scorer supports metadata routing (``set_score_request``).

    Raises
    ------
    TypeError
        If `metric` is not callable.

    Notes
    -----
    If no training row of a fold has some class, the probability of this class is 0 in all test
    rows. A mean over classes then includes this class.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.model_selection import cross_val_score
    >>> from skcalib.metrics import make_calibration_scorer, static_calibration_error
    >>> scorer = make_calibration_scorer(static_calibration_error, n_bins=10)
    >>> X, y = load_iris(return_X_y=True)
    >>> cross_val_score(LogisticRegression(max_iter=500), X, y, scoring=scorer).shape
    (5,)
    """
    check_is_metric(metric)
    return CalibrationScorer(metric, keywords)
