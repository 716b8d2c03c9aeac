"""Predictions of an estimator with a column for each class, also for classes it never saw."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from skcalib._scores.responses import align_columns
from skcalib._validation.labels import check_labels, with_absent_label
from skcalib._validation.rows import replace_absent_rows, rows_replacing_weight_0
from skcalib._validation.scores import as_array, as_matrix, from_tensor
from skcalib._validation.survey import two_columns


def add_absent_classes(
    y_true: Any,
    y_proba: Any,
    classes: Any,
    labels: ArrayLike | None,
    sample_weight: ArrayLike | None,
) -> tuple[Any, Any, Any]:
    """Return labels, probabilities, and the labels of their columns.

    There is a column for each of the estimator's `classes`, of `labels` and of the rows, in order.
    A class that the estimator never saw has probability 0, so that its rows count as misses. One
    column for two classes is written as two. Predictions that need no change are returned as given.
    """
    y = as_array("y_true", y_true, "pass one label for each row")
    known = np.asarray(from_tensor("classes_", classes))
    arguments = y_true, y_proba, classes if labels is None else labels
    # The metric says what is wrong with several labels for each row, or with records.
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
        return arguments  # strings are never equal to numbers: the metric reports the wrong label
    P = as_matrix(P, "predict_proba")
    if P.shape[1] != known.size:
        raise ValueError(
            f"predict_proba has {P.shape[1]} columns but classes_ has {known.size} labels: the "
            "estimator must give one column for each class."
        )
    classes = np.unique(np.concatenate([known, labels, y]))
    if classes.size == 1:
        classes = with_absent_label(classes.tolist()[0])
    return y, align_columns(P, known, classes, 0.0), classes
