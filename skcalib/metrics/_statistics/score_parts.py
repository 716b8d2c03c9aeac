r"""Parts of a proper score: miscalibration, discrimination, uncertainty.

A score of probabilities P, of the recalibrated probabilities C and of the base rate r gives

.. math:: \bar S(P) = \underbrace{\bar S(P) - \bar S(C)}_{\mathrm{MCB}}
          - \underbrace{(\bar S(r) - \bar S(C))}_{\mathrm{DSC}}
          + \underbrace{\bar S(r)}_{\mathrm{UNC}} .

Isotonic regression replaces the scores of a block of rows by their share of hits, so that the score
of C depends only on the weights of hits and misses in each block, as that of r on those of all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import xlog1py, xlogy
from sklearn.isotonic import isotonic_regression
from sklearn.utils.validation import check_is_fitted

from skcalib._arrays.source import to_array
from skcalib._arrays.types import Float64Array, FloatArray
from skcalib._scores.one_vs_rest import map_columns
from skcalib._scores.scores import Scores
from skcalib._scores.top_label import event_or_top, top_label
from skcalib._validation.predictions import Predictions, refuse_each_class
from skcalib.metrics._curves.cells import sum_by
from skcalib.metrics._statistics.row_means import mean_interval

ScoreName = Literal["brier", "log"]


class Request(NamedTuple):
    """Checked predictions, and the keywords of `score_decomposition`."""

    predictions: Predictions
    score: ScoreName
    mode: str | None
    average: str | None
    calibrator: Any

    @property
    def is_joint(self) -> bool:
        """Whether vectors are scored."""
        return self.mode == "joint" and not self.is_event

    @property
    def is_classwise(self) -> bool:
        """Whether each class is scored against the rest."""
        return self.mode == "classwise" and not self.is_event

    @property
    def is_event(self) -> bool:
        """Whether one event is scored."""
        return self.predictions.event is not None and self.average is not None


class Event(NamedTuple):
    """Rows of one event: its probability, whether it happened, and the recalibrated probability."""

    p: FloatArray
    hit: NDArray[Any]
    recalibrated: FloatArray | None


class Parts(NamedTuple):
    """Mean scores: of the probabilities, recalibrated, and of the base rate."""

    given: float
    recalibrated: float
    base: float


def event_scores(p: FloatArray, hit: NDArray[Any], score: ScoreName) -> Float64Array:
    """Score ``(n,)`` of the probability of an event; log scores may be infinite."""
    p = p.astype(np.float64, copy=False)
    miss = 1.0 - hit
    if score == "brier":
        return np.asarray(hit * (1 - p) ** 2 + miss * p**2)
    return np.asarray(-xlogy(hit, p) - xlog1py(miss, -p))


def vector_scores(P: FloatArray, code: NDArray[np.intp], score: ScoreName) -> Float64Array:
    """Score ``(n,)`` of probability vectors: squared distance, or minus the logarithm."""
    true = np.take_along_axis(P, code[:, None], axis=1)[:, 0].astype(np.float64)
    if score == "brier":
        return np.asarray(np.einsum("nk,nk->n", P, P, dtype=np.float64) - 2 * true + 1)
    return np.asarray(-xlogy(1.0, true))


def scores_of_shares(hits: Float64Array, misses: Float64Array, score: ScoreName) -> Float64Array:
    """Sum of the scores of the rows of each block, if all of them get its share of hits."""
    weight = hits + misses
    if score == "brier":
        return np.asarray(hits * (misses / weight))
    return np.asarray(-xlogy(hits, hits / weight) - xlogy(misses, misses / weight))


def isotonic_mean(hits: Float64Array, weight: Float64Array, score: ScoreName) -> float:
    """Return the mean score after isotonic regression of cells ``(cells,)`` in ascending order."""
    level = isotonic_regression(hits / weight, sample_weight=weight)
    start = np.flatnonzero(np.diff(level, prepend=-1.0))
    h, w = np.add.reduceat(hits, start), np.add.reduceat(weight, start)
    return float(scores_of_shares(h, w - h, score).sum() / weight.sum())


def parts_of_event(event: Event, w: Float64Array, score: ScoreName) -> Parts:
    """Return the mean scores of one event; recalibrated by isotonic regression if not given."""
    p, hit, recalibrated = event
    total = w.sum()
    base = float(scores_of_shares(w @ hit, w @ (1.0 - hit), score) / total)
    given = float(w @ event_scores(p, hit, score) / total)
    if recalibrated is None:
        # On its own rows no non-decreasing map has a better score: what is below 0 is rounding.
        _, place = np.unique(p, return_inverse=True)
        best = isotonic_mean(sum_by(place, w * hit), sum_by(place, w), score)
        return Parts(given, min(best, given, base), base)
    return Parts(given, float(w @ event_scores(recalibrated, hit, score) / total), base)


def shares_of_labels(predictions: Predictions) -> Float64Array:
    """Return the share ``(K,)`` of each class in the weight."""
    code, w, K = predictions.code, predictions.w, predictions.classes.size
    return np.asarray(np.bincount(code, weights=w, minlength=K) / w.sum())


def parts_of_vectors(predictions: Predictions, Q: FloatArray, score: ScoreName) -> Parts:
    """Return the mean scores of probability vectors, recalibrated to ``Q (n, K)``."""
    P, code, w, *_ = predictions
    share = shares_of_labels(predictions)
    base = 1 - share @ share if score == "brier" else -xlogy(share, share).sum()
    given, found = (w @ vector_scores(R, code, score) / w.sum() for R in (to_array(P), Q))
    return Parts(float(given), float(found), float(base))


def recalibrate(predictions: Predictions, calibrator: Any) -> FloatArray:
    """Return a fitted calibrator's probabilities ``(n, K)``, columns as those of predictions."""
    if not hasattr(calibrator, "predict_proba"):
        raise TypeError(
            "calibrator must be fitted and have predict_proba, such as "
            f"IsotonicCalibrator().fit(p, y); got {type(calibrator).__name__}."
        )
    check_is_fitted(calibrator)
    columns, known = predictions.classes.tolist(), np.asarray(calibrator.classes_).tolist()
    if set(columns) != set(known):
        raise ValueError(
            f"calibrator was fitted on the labels {known}, but the columns are those of "
            f"{columns}: fit it on the same labels."
        )
    order = [columns.index(label) for label in known]
    X = to_array(predictions.P)[:, order]
    if getattr(calibrator, "n_features_in_", len(known)) == 1:
        X = X[:, 1:]
    Q = np.empty(predictions.P.shape)
    Q[:, order] = calibrator.predict_proba(X)
    return Q


def map_events(
    request: Request, Q: FloatArray | None, measure: Callable[[Event], Any]
) -> Iterator[Any]:
    """Yield a function of the rows of the event, of the top label, or of each class."""
    predictions = request.predictions
    P, code, column = predictions.P, predictions.code, predictions.event
    if request.is_classwise:

        def of_class(k: int, p: FloatArray) -> Any:
            return measure(Event(p, code == k, None if Q is None else Q[:, k]))

        yield from map_columns(of_class, Scores(P, "proba"))
        return
    p, hit = event_or_top(predictions)
    if Q is not None:
        at = top_label(P)[1] if column is None else np.full(code.size, column)
        Q = np.take_along_axis(Q, at[:, None], axis=1)[:, 0]
    yield measure(Event(p, hit, Q))


def all_parts(request: Request) -> list[Parts]:
    """Return the mean scores of one event, of the top label, of each class, or of vectors."""
    predictions, score, *_ = request
    refuse_each_class(predictions, request.average)
    Q = None if request.calibrator is None else recalibrate(predictions, request.calibrator)
    if request.is_joint:
        if Q is None:
            raise ValueError(
                "mode='joint' scores whole vectors, and isotonic regression recalibrates one "
                "probability: pass calibrator=, fitted, or mode='classwise'."
            )
        return [parts_of_vectors(predictions, Q, score)]
    w = predictions.w
    return list(map_events(request, Q, lambda event: parts_of_event(event, w, score)))


class RowScores(NamedTuple):
    """Scores ``(n,)`` of rows, and what decides whether their mean has an interval.

    It has none without both hits and misses, or if the mean of very many rows may be infinite.
    """

    values: Float64Array
    has_both: bool
    may_be_infinite: bool


def score_interval(request: Request, level: float) -> Float64Array:
    """Return both ends ``(2, m)`` of the interval of the mean score, NaN where it has none."""
    predictions, score, _, average, _ = request
    n_problems = predictions.classes.size if average is None else 1
    if predictions.are_soft or (request.is_classwise and predictions.P.remote is not None):
        return np.full((2, n_problems), np.nan)
    most = {"brier": 2.0 if request.is_joint else 1.0, "log": np.inf}[score]
    problems = row_scores(request)
    if average is not None:
        problems = iter([mean_over_problems(problems)])
    ends = [
        (np.nan, np.nan)
        if rows.may_be_infinite or not rows.has_both
        else mean_interval(rows.values, predictions.w, level, low=0.0, high=most)
        for rows in problems
    ]
    return np.transpose(ends)


def row_scores(request: Request) -> Iterator[RowScores]:
    """Yield the scores of the rows of one event, of the top label, of each class, or of vectors."""
    predictions, score, *_ = request
    if request.is_joint:
        P, code = to_array(predictions.P), predictions.code
        may_be_infinite = score == "log" and bool(P.min() <= 0)
        yield RowScores(
            vector_scores(P, code, score), bool((code != code[0]).any()), may_be_infinite
        )
        return

    def measure(event: Event) -> RowScores:
        p, hit, _ = event
        may_be_infinite = score == "log" and bool(((p <= 0) | (p >= 1)).any())
        has_both = bool(hit.any() and not hit.all())
        return RowScores(event_scores(p, hit, score), has_both, may_be_infinite)

    yield from map_events(request, None, measure)


def mean_over_problems(problems: Iterator[RowScores]) -> RowScores:
    """Return the mean over problems of the scores of each row."""
    values, has_both, may_be_infinite = next(problems)
    n_problems = 1
    for rows in problems:
        values = values + rows.values
        n_problems += 1
        has_both |= rows.has_both
        may_be_infinite |= rows.may_be_infinite
    return RowScores(values / n_problems, has_both, may_be_infinite)
