"""Scores of a fitted classifier, from `decision_function`, `predict_proba` or log-probabilities."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline

from skcalib._arrays.dask import mapped
from skcalib._arrays.rowwise import FloatArray, Kind
from skcalib._arrays.sources import as_source, is_dask
from skcalib._validation.labels import places_among
from skcalib._validation.scores import as_matrix, from_tensor, refuse_lazy
from skcalib._validation.several_labels import read_columns
from skcalib._validation.survey import check_values, first_flaw, two_columns

RESPONSES = ("auto", "decision_function", "predict_proba", "predict_log_proba")

# Score of a class that was not in the training data of a classifier.
NEVER: dict[Kind, float] = {"logits": -np.inf, "proba": 0.0}


def choose_response(estimator: Any, response_method: str) -> str:
    """Return the prediction method of an estimator; "auto" prefers decision_function."""
    names = RESPONSES[1:3] if response_method == "auto" else (response_method,)
    for name in names:
        if hasattr(estimator, name):
            return name
    advice = (
        "pass a classifier that has one of these methods"
        if response_method == "auto"
        else "pass response_method='auto' or the name of a method that it has"
    )
    raise ValueError(f"{type(estimator).__name__} has no {' and no '.join(names)}: {advice}.")


def response_kind(response: str) -> Kind:
    """Return "proba" or "logits", the kind of scores that a prediction method returns."""
    return "proba" if response == "predict_proba" else "logits"


def class_scores(
    estimator: Any, X: Any, response: str, classes: NDArray[Any], several: bool = False, **kw: Any
) -> FloatArray:
    """Return the scores ``(n, K)`` of a fitted estimator, in the order of `classes`.

    With `several`, a row can have several labels, and each label has a column.
    A binary decision value f becomes the two columns ``(0, f)``. A class that was not in the
    training data gets a logit of -inf or a probability of 0. Other keywords are passed to the
    method.
    """
    if is_dask(X):
        return lazy_scores(estimator, X, response, classes)
    if not takes_dask(estimator):
        refuse_lazy("X", X)
    if several:
        return label_scores(estimator, X, response, classes)
    return arranged(getattr(estimator, response)(X, **kw), estimator, response, classes)


def label_scores(estimator: Any, X: Any, response: str, labels: NDArray[Any]) -> FloatArray:
    """Return the scores ``(n, L)`` of a fitted multilabel estimator, a column for each label.

    Forests return a list of L arrays with a column for 0 and for 1, or with one column if all
    training rows of the label had the same value.
    """
    if response == "predict_log_proba":
        raise ValueError(
            f"response_method={response!r}: logarithms of the probabilities of several labels are "
            "not logits: pass 'predict_proba'."
        )
    source = f"{response} of {type(without_frozen(estimator)).__name__}"
    S, known = getattr(estimator, response)(X), getattr(estimator, "classes_", None)
    return read_columns(S, labels, source, known)


def known_classes(estimator: Any, classes: NDArray[Any]) -> NDArray[Any]:
    """Return the class labels of a fitted estimator, also if fitted on integer codes of labels."""
    known = np.asarray(from_tensor("classes_", estimator.classes_))
    coded = known.dtype.kind in "iuf" and classes.dtype.kind not in "biuf"
    return classes[known.astype(np.intp)] if coded else known


def without_frozen(estimator: Any) -> Any:
    """Return the estimator inside ``FrozenEstimator``, or the estimator itself."""
    while isinstance(estimator, FrozenEstimator):
        estimator = estimator.estimator
    return estimator


def innermost(estimator: Any) -> Any:
    """Return the fitted classifier inside ``FrozenEstimator``, pipelines and searches."""
    estimator = without_frozen(estimator)
    if hasattr(estimator, "best_estimator_"):
        return innermost(estimator.best_estimator_)
    return innermost(estimator[-1]) if isinstance(estimator, Pipeline) else estimator


def takes_dask(estimator: Any) -> bool:
    """Return whether an estimator accepts Dask arrays: those of skcalib, dask-ml and xgboost."""
    module = type(without_frozen(estimator)).__module__.split(".")
    return module[0] in ("skcalib", "dask_ml") or "dask" in module[:2]


def lazy_scores(estimator: Any, X: Any, response: str, classes: NDArray[Any]) -> Any:
    """Return the scores of the rows of a Dask array as a lazy Dask array."""
    arrange = partial(arranged, estimator=estimator, response=response, classes=classes)
    if takes_dask(estimator):
        S = getattr(estimator, response)(X)
        if not is_dask(S):
            return arrange(S)
        return mapped(arrange, S, (classes.size,), as_matrix(np.zeros((1, 1), S.dtype)).dtype)
    score = partial(class_scores, estimator, response=response, classes=classes)
    # A single row is enough to find the type of the scores.
    row = np.full((1, *X.shape[1:]), 1 / X.shape[-1]).astype(X.dtype)
    return mapped(score, X, (classes.size,), score(row).dtype)


def arranged(S: Any, estimator: Any, response: str, classes: NDArray[Any]) -> FloatArray:
    """Check the scores of an estimator, and return columns in the order of `classes`."""
    kind = response_kind(response)
    source = f"{response} of {type(without_frozen(estimator)).__name__}"
    known = known_classes(estimator, classes)
    S = as_matrix(S, source)
    if known.size == 2:
        S = two_columns(S, kind)
    # Decision values may compare pairs of classes. With three classes, the number of columns does
    # not show this, because there are also three pairs.
    shape = getattr(innermost(estimator), "decision_function_shape", None)
    by_pairs = known.size > 2 and shape == "ovo"
    if S.shape[1] != known.size or (by_pairs and response == "decision_function"):
        reason = (
            "the columns compare pairs of classes"
            if by_pairs
            else f"there are {known.size} classes"
        )
        advice = (
            "pass an estimator with decision_function_shape='ovr', or response_method="
            "'predict_proba'"
            if by_pairs
            else "pass an estimator with a score for each class"
        )
        raise ValueError(f"{source} has {S.shape[1]} columns but {reason}: {advice}.")
    survey = check_values(as_source(S), source, kind)
    if kind == "proba" and not survey.is_simplex:
        raise ValueError(
            f"{source}: {first_flaw(as_source(S), survey)}; it has to return probabilities: divide "
            "percentages by 100, and return logits as decision_function."
        )
    unknown = set(known.tolist()) - set(classes.tolist())
    if unknown:
        raise ValueError(
            f"{source} has a column for the class {min(unknown)!r}, which no row of y has: if the "
            "estimator is fitted, freeze all of it, as FrozenEstimator(estimator)."
        )
    return align_columns(S, known, classes, NEVER[kind])


def align_columns(
    S: FloatArray, known: NDArray[Any], classes: NDArray[Any], absent: float
) -> FloatArray:
    """Reorder the columns of scores, from the `known` class labels to all `classes`."""
    if np.array_equal(known, classes):
        return S
    aligned = np.full((S.shape[0], classes.size), absent, dtype=S.dtype)
    aligned[:, places_among(classes, known)] = S
    return aligned


def most_likely(proba: FloatArray, classes: NDArray[Any]) -> NDArray[Any]:
    """Return the class label with the largest probability in each row, the first on ties."""
    if is_dask(proba):
        return mapped(partial(most_likely, classes=classes), proba, (), classes.dtype)
    return classes[proba.argmax(axis=1)]
