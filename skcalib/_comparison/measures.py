"""The metrics of a comparison: losses of rows, calibration errors and other metrics."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass
from functools import partial
from inspect import signature
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import get_scorer_names, roc_auc_score

from skcalib.extending import (
    LOG_PROBA_MIN,
    Bools,
    CalibrationScorer,
    Evaluation,
    Float64Array,
    FloatArray,
    RowLosses,
    map_rows,
    most_likely,
    name_metrics,
    split_shares,
    to_array,
    vector_scores,
)
from skcalib.extending import InnerPredictions as Predictions
from skcalib.metrics import SCORERS, get_scorer

# The loss of each row, computed from its probabilities.


# If a prediction is assumed to be wrong, the true class has at least this probability, which bounds
# the loss.
LEAST_REST = 1e-6


def row_log_loss(P: FloatArray, code: NDArray[np.intp]) -> Float64Array:
    """Compute the log loss of each row; probabilities below 1e-12 count as 1e-12."""
    true = np.take_along_axis(P, code[:, None], axis=1)[:, 0].astype(np.float64)
    return -np.log(np.maximum(true, np.exp(LOG_PROBA_MIN)))


def row_error_rate(P: FloatArray, code: NDArray[np.intp]) -> Bools:
    """Return whether the predicted class of each row is wrong."""
    return P.argmax(axis=1) != code


def wrong_log_loss(P: FloatArray) -> Float64Array:
    """Compute the log loss of each row if its predicted class were wrong.

    The true class then has all of the remaining probability.
    """
    return -np.log(np.maximum(1 - P.max(axis=1).astype(np.float64), LEAST_REST))


def wrong_brier_score(P: FloatArray) -> Float64Array:
    """Compute the Brier score of each row if its predicted class were wrong.

    The true class then has all of the remaining probability. With the top probability p, the score
    is :math:`p^2 + (1 - (1 - p))^2`, or half of it with two classes.
    """
    return (1 if P.shape[1] == 2 else 2) * P.max(axis=1).astype(np.float64) ** 2


class RowLoss(NamedTuple):
    """A loss that is a mean over rows.

    ``of(P, code)`` is the loss of each row, from 0 to ``most``. ``if_wrong(P)`` is the loss of each
    row if its predicted class were wrong. Intervals add a pseudo row with this loss, or none if
    ``if_wrong`` is None.
    """

    of: Callable[..., NDArray[Any]]
    most: float
    if_wrong: Callable[..., NDArray[Any]] | None = None

    def losses(self, predictions: Predictions) -> RowLosses:
        """Compute the loss of each row, and of one added row with an assumed wrong prediction.

        With soft labels, the loss of a row is the mean over the raters.
        """
        P, code = predictions.P, predictions.code
        losses, wrong, mean = np.empty(len(code)), np.empty(len(code)), None
        if predictions.are_shares:
            row, label, share = split_shares(code, np.ones(len(code)))
            losses[:] = np.bincount(row, share * self.of(to_array(P)[row], label))
        else:
            map_rows(self.of, P, code, out=losses)
        if self.if_wrong is not None:
            map_rows(self.if_wrong, P, out=wrong)
            mean = float(np.average(wrong, weights=predictions.w))
        return RowLosses(losses, mean, predictions.w, predictions.cluster)


LOG_LOSS = RowLoss(row_log_loss, np.inf, wrong_log_loss)
ROW_LOSSES = {
    "log_loss": LOG_LOSS,
    "brier_score": RowLoss(partial(vector_scores, score="brier"), 2.0, wrong_brier_score),
    "error_rate": RowLoss(row_error_rate, 1.0),
}


def mean_auc(predictions: Predictions, folds: Sequence[Any]) -> float:
    """Return the AUC of an event as the mean over folds, or NaN if no fold has both outcomes.

    Each fold has its own calibrator, and scores of different calibrators cannot be ranked together.
    Folds are weighted by their rows.
    """
    if predictions.P.remote is not None or predictions.are_shares:
        return np.nan
    p, w = to_array(predictions.P)[:, predictions.event], predictions.w
    hit = predictions.code == predictions.event
    mixed = [rows for rows in folds if np.unique(hit[rows]).size == 2]
    aucs = [roc_auc_score(hit[rows], p[rows], sample_weight=w[rows]) for rows in mixed]
    return float(np.average(aucs, weights=[w[rows].sum() for rows in mixed])) if mixed else np.nan


class Measure(NamedTuple):
    """A metric of a comparison: the mean of a loss over rows, or ``evaluate(predictions)``.

    ``sign`` is 1 if smaller values are better, and -1 if larger values are better.
    """

    name: str
    sign: int
    loss: RowLoss | None
    evaluate: Evaluation | None

    @property
    def is_own_error(self) -> bool:
        """Whether the metric is a calibration error, whose intervals are simulated."""
        return self.evaluate is not None and self.evaluate.is_error

    def value(self, predictions: Predictions) -> float:
        """Compute the metric of checked predictions."""
        if self.loss is not None:
            return self.loss.losses(predictions).mean()
        assert self.evaluate is not None
        return float(self.evaluate(predictions))


class ProbabilitiesAsGiven(ClassifierMixin, BaseEstimator):
    """Classifier that returns its input as probabilities, for scorers of scikit-learn."""

    def __init__(self, classes: NDArray[Any]) -> None:
        self.classes_ = classes

    def predict_proba(self, X: FloatArray) -> FloatArray:
        """Return the input `X`, which contains probabilities."""
        return X

    def predict(self, X: FloatArray) -> NDArray[Any]:
        """Return the label of the largest probability; ties choose the first column."""
        return most_likely(X, self.classes_)


@dataclass(frozen=True)
class Scored:
    """A metric of labels and probabilities that is a scikit-learn scorer times `sign`."""

    name: str
    scorer: Callable[..., Any]
    sign: int

    def __call__(
        self, y_true: NDArray[Any], y_proba: NDArray[Any], *, labels: Any, sample_weight: Any
    ) -> float:
        scorer: Any = copy(self.scorer)
        asks_for_proba = "predict_proba" in getattr(scorer, "_response_method", ())
        if asks_for_proba and "labels" in signature(scorer._score_func).parameters:
            # Pass all classes to the metric, because rows of a fold may lack a class.
            scorer._kwargs = {"labels": labels, **scorer._kwargs}
        classifier = ProbabilitiesAsGiven(labels)
        try:
            value = scorer(classifier, y_proba, y_true, sample_weight=sample_weight)
        except ValueError as error:
            raise ValueError(f"metrics: {self.name}: {error}") from error
        return self.sign * float(value)


def make_measures(metrics: Any) -> list[Measure]:
    """Create the measures for one or several metrics: names, functions or scorers."""
    return [_make_measure(metric, name) for name, metric in name_metrics(metrics).items()]


def _make_measure(metric: Any, name: str) -> Measure:
    sign, keywords = 1, {}
    if isinstance(metric, str):
        bare = metric.removeprefix("neg_")
        if bare in ROW_LOSSES:
            return Measure(name, 1, ROW_LOSSES[bare], None)
        if f"neg_{bare}" in SCORERS:
            metric = SCORERS[f"neg_{bare}"]
        elif metric in get_scorer_names():
            # A scorer that scikit-learn negates is shown as a loss, for which lower is better.
            sign = 1 if metric.startswith("neg_") else -1
            metric = Scored(name, get_scorer(metric), -sign)
        else:
            known = [*ROW_LOSSES, *(scorer.removeprefix("neg_") for scorer in SCORERS)]
            raise ValueError(
                f"metrics: {metric!r} is not the name of a metric: use one of {', '.join(known)}, "
                "a scorer of scikit-learn, or a function metric(y_true, y_proba)."
            )
    if not callable(metric):
        raise TypeError(
            f"metrics must be names or functions metric(y_true, y_proba); got {metric!r}."
        )
    if isinstance(metric, CalibrationScorer):
        metric, keywords = metric._score_func, metric._kwargs
    elif hasattr(metric, "_score_func"):
        metric, sign = Scored(name, metric, 1), -1
    return Measure(name, sign, None, Evaluation(metric, keywords, False))
