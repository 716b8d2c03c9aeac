r"""Parts of a proper score: miscalibration, discrimination, uncertainty.

A score of probabilities P, of the recalibrated probabilities C and of the base rate r gives

.. math:: \bar S(P) = \underbrace{\bar S(P) - \bar S(C)}_{\mathrm{MCB}}
          - \underbrace{(\bar S(r) - \bar S(C))}_{\mathrm{DSC}}
          + \underbrace{\bar S(r)}_{\mathrm{UNC}} .

Isotonic regression replaces the scores of a block of rows by their share of hits, so that the score
of C depends only on the weights of hits and misses in each block, as that of r on those of all.
"""

from __future__ import annotations

from collections.abc import Iterator
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
from skcalib._validation.predictions import Predictions
from skcalib.metrics._errors.sweep import distinct_scores
from skcalib.metrics._statistics.row_means import RowLosses, mean_interval

ScoreName = Literal["brier", "log"]


class RowScores(NamedTuple):
    """Scores ``(n,)`` of the rows of a problem, and the means ``(3,)``: given, recalibrated, base.

    The mean score has no interval without both hits and misses, or if that of very many rows may be
    infinite.
    """

    values: Float64Array
    means: Float64Array
    has_both: bool
    may_be_infinite: bool


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


def score_event(
    p: FloatArray,
    hit: NDArray[Any],
    w: Float64Array,
    score: ScoreName,
    recalibrated: FloatArray | None,
) -> RowScores:
    """Score the probability of one event; recalibrate it by isotonic regression if not given."""
    values, total = event_scores(p, hit, score), w.sum()
    base = float(scores_of_shares(w @ hit, w @ (1.0 - hit), score) / total)
    given = float(w @ values / total)
    if recalibrated is None:
        rows = distinct_scores(p, hit, w)
        best = isotonic_mean(rows.hits[0], rows.weight, score)
        # On its own rows no non-decreasing map has a better score: what is below 0 is rounding.
        best = min(best, given, base)
    else:
        best = float(w @ event_scores(recalibrated, hit, score) / total)
    has_both = hit.dtype.kind == "b" and bool(hit.any() and not hit.all())
    may_be_infinite = score == "log" and bool(((p <= 0) | (p >= 1)).any())
    return RowScores(values, np.array([given, best, base]), has_both, may_be_infinite)


def score_vectors(predictions: Predictions, score: ScoreName, Q: FloatArray) -> RowScores:
    """Score probability vectors, recalibrated to ``Q (n, K)``."""
    P, code, w = to_array(predictions.P), predictions.code, predictions.w
    share = np.bincount(code, weights=w, minlength=P.shape[1]) / w.sum()
    base = 1 - share @ share if score == "brier" else -xlogy(share, share).sum()
    values = vector_scores(P, code, score)
    given, best = (w @ each / w.sum() for each in (values, vector_scores(Q, code, score)))
    may_be_infinite = score == "log" and bool(P.min() <= 0)
    has_both = bool((code != code[0]).any())
    return RowScores(values, np.array([given, best, base]), has_both, may_be_infinite)


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


def score_problems(
    predictions: Predictions, score: ScoreName, mode: str | None, calibrator: Any
) -> Iterator[RowScores]:
    """Yield the scores of one event, of the top label, of each class, or of vectors."""
    P, w, event = predictions.P, predictions.w, predictions.event
    Q = None if calibrator is None else recalibrate(predictions, calibrator)
    if mode == "joint" and event is None:
        if predictions.are_shares:
            raise ValueError("y_true has shares of several raters: mode='joint' needs labels.")
        if Q is None:
            raise ValueError(
                "mode='joint' scores whole vectors, and isotonic regression recalibrates one "
                "probability: pass calibrator=, fitted, or mode='classwise'."
            )
        yield score_vectors(predictions, score, Q)
    elif mode == "classwise" and event is None:

        def of_class(k: int, p: FloatArray) -> RowScores:
            return score_event(p, predictions.hits(k), w, score, None if Q is None else Q[:, k])

        yield from map_columns(of_class, Scores(P, "proba"))
    else:
        p, hit = event_or_top(predictions)
        if Q is not None:
            at = top_label(P)[1] if event is None else np.full(w.size, event)
            Q = np.take_along_axis(Q, at[:, None], axis=1)[:, 0]
        yield score_event(p, hit, w, score, Q)


def mean_over_problems(problems: Iterator[RowScores]) -> RowScores:
    """Return the mean over problems of the scores of each row."""
    values, means, has_both, may_be_infinite = next(problems)
    n_problems = 1
    for rows in problems:
        values, means = values + rows.values, means + rows.means
        n_problems += 1
        has_both |= rows.has_both
        may_be_infinite |= rows.may_be_infinite
    return RowScores(values / n_problems, means / n_problems, has_both, may_be_infinite)


def score_interval(
    rows: RowScores, predictions: Predictions, level: float, largest: float
) -> tuple[float, float]:
    """Return the interval of a mean score, NaN where it has none; `largest` is a row's."""
    if rows.may_be_infinite or not rows.has_both:
        return np.nan, np.nan
    losses = RowLosses(rows.values, None, predictions.w, predictions.cluster)
    return mean_interval(losses, level, 0.0, largest)
