"""Probabilities before and after calibration by a fitted calibrator or classifier."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from skcalib.extending import (
    ALL,
    Float64Array,
    FloatArray,
    Kind,
    ScoreCalibrator,
    Scores,
    Source,
    as_columns,
    as_matrix,
    check_values,
    class_scores,
    read_scores,
    refuse_labels,
    resolve_kind,
    response_kind,
)

# Probabilities are clipped to this distance from 0 and 1, because logits of 0 and 1 are infinite.
MARGIN = 1e-9


class ScorePairs(NamedTuple):
    """Probabilities ``(n, K)`` before and after calibration, and the calibrator.

    For two classes, ``binary_map`` computes the calibrated probability of the second class from
    the probability p before calibration. It is None without a single calibrator.
    """

    before: FloatArray
    after: FloatArray
    classes: NDArray[Any]
    calibrator: Any
    binary_map: Callable[[Float64Array], Float64Array] | None


def reach_last_step(estimator: Any, X: Any) -> tuple[Any, Any]:
    """Return the last step of a pipeline, and `X` transformed by the steps before it."""
    while isinstance(estimator, Pipeline):
        X = estimator[:-1].transform(X) if estimator[:-1] else X
        estimator = estimator[-1]
    return estimator, X


def proba_of_models(classifier: Any, X: Any, predicted: bool) -> FloatArray:
    """Return the mean probabilities of the models of a `CalibratedClassifier`.

    The probabilities are computed from the scores that the calibrators use or, if `predicted` is
    true, by the ``predict_proba`` of models that have this method.
    """
    classes, parts = np.asarray(classifier.classes_), []
    for model, _ in classifier._pairs():
        has_proba = predicted and hasattr(model, "predict_proba")
        response = "predict_proba" if has_proba else classifier.response_method_
        parts.append(_proba(class_scores(model, X, response, classes), response_kind(response)))
    return np.asarray(np.mean(parts, axis=0))


def score_pairs(estimator: Any, X: Any) -> ScorePairs:
    """Compute probabilities before and after a calibrator, `CalibratedClassifier` or pipeline."""
    check_is_fitted(estimator)
    estimator, X = reach_last_step(estimator, X)
    classes = np.asarray(estimator.classes_)
    after = as_matrix(estimator.predict_proba(X), "predict_proba")
    if hasattr(estimator, "response_method_"):
        before = proba_of_models(estimator, X, predicted=False)
        kind, n_columns = response_kind(estimator.response_method_), classes.size
        pairs = estimator._pairs()
        calibrator = pairs[0][1] if len(pairs) == 1 else None
    else:
        before, kind, n_columns = read_proba(X, getattr(estimator, "input_", "auto"), "X")
        calibrator = estimator
    if classes.size != 2 or calibrator is None:
        return ScorePairs(before, after, classes, calibrator, None)

    def binary_map(p: Float64Array) -> Float64Array:
        rows: Any = np.column_stack([1 - p, p])[:, -n_columns:]
        if kind == "logits":
            inner = np.clip(p, MARGIN, 1 - MARGIN)
            second = np.log(inner) - np.log1p(-inner)
            # Two logits with mean 0, because the probability p depends only on their difference.
            pair = np.column_stack([-second / 2, second / 2])
            rows = second[:, None] if n_columns == 1 else pair
        if hasattr(calibrator, "feature_names_in_"):
            rows = pd.DataFrame(rows, columns=calibrator.feature_names_in_)
        return np.asarray(calibrator.predict_proba(rows)[:, 1])

    return ScorePairs(before, after, classes, calibrator, binary_map)


def proba_before(estimator: Any, X: Any) -> FloatArray:
    """Return the probabilities ``(n, K)`` before calibration.

    For a `CalibratedClassifier`, these are the probabilities of its models, or are computed from
    the scores of models without probabilities.
    """
    estimator, X = reach_last_step(estimator, X)
    if isinstance(estimator, ScoreCalibrator):
        return read_proba(X, estimator.input_, "X")[0]
    if hasattr(estimator, "response_method_"):
        return proba_of_models(estimator, X, predicted=True)
    raise ValueError(
        f"before=True needs a calibrator or a CalibratedClassifier; got "
        f"{type(estimator).__name__}: draw each model by its own call, and pass the axes of the "
        "first as ax= of the second."
    )


def read_proba(X: Any, input: str, name: str) -> tuple[FloatArray, Kind, int]:
    """Check scores, and return their probabilities, their kind and their number of columns."""
    S = read_scores(X, name)
    survey = check_values(S, name, input)
    kind = resolve_kind(S, survey, input, name)
    if S.shape[1] == 1 and kind == "proba":
        refuse_labels(X, name)
    return _proba(as_columns(S, survey, kind, input, name), kind), kind, S.shape[1]


def _proba(S: FloatArray | Source, kind: Kind) -> FloatArray:
    return Scores(S, kind).proba(ALL).astype(S.dtype, copy=False)
