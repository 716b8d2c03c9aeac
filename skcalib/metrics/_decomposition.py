r"""Parts of a proper score: miscalibration, discrimination, uncertainty.

A score of probabilities P, of the recalibrated probabilities C and of the base rate r gives

.. math:: \bar S(P) = \underbrace{\bar S(P) - \bar S(C)}_{\mathrm{MCB}}
          - \underbrace{(\bar S(r) - \bar S(C))}_{\mathrm{DSC}}
          + \underbrace{\bar S(r)}_{\mathrm{UNC}} .

Isotonic regression replaces the scores of a block of rows by their share of hits, so that the score
of C depends only on the weights of hits and misses in each block, as that of r on those of all.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import xlog1py, xlogy
from sklearn.isotonic import isotonic_regression
from sklearn.utils.validation import check_is_fitted

from skcalib._arrays.source import whole
from skcalib._arrays.tensors import follow
from skcalib._arrays.types import Float64Array, FloatArray
from skcalib._scores.one_vs_rest import map_columns
from skcalib._scores.scores import Scores
from skcalib._scores.top_label import event_or_top, top_label
from skcalib._validation.keywords import check_option
from skcalib._validation.predictions import (
    Predictions,
    check_predictions,
    refuse_each_class,
    takes_predictions,
)
from skcalib.metrics._binned import Average
from skcalib.metrics._listed import listed
from skcalib.metrics._modes import check_mode
from skcalib.metrics._statistics_table import Statistic, as_table, in_one_line

ScoreName = Literal["brier", "log"]


class ScoreDecomposition(NamedTuple):
    """What `score_decomposition` returns."""

    score: Any
    miscalibration: Any
    discrimination: Any
    uncertainty: Any
    scaled_score: Any

    def __repr__(self) -> str:
        return in_one_line("ScoreDecomposition", self._statistics())

    def _repr_html_(self) -> str:
        return as_table("Score decomposition", self._statistics())

    def _statistics(self) -> list[Statistic]:
        """Return the parts as they are printed."""
        return [Statistic(name, value) for name, value in self._asdict().items()]


class Parts(NamedTuple):
    """Mean scores: of the probabilities, recalibrated, and of the base rate."""

    given: float
    recalibrated: float
    base: float


def binary_score(p: FloatArray, hit: NDArray[Any], w: Float64Array, score: ScoreName) -> float:
    """Weighted mean score of the probability of an event; log scores may be infinite."""
    p = p.astype(np.float64, copy=False)
    miss = 1.0 - hit
    if score == "brier":
        each = hit * (1 - p) ** 2 + miss * p**2
    else:
        each = -xlogy(hit, p) - xlog1py(miss, -p)
    return float(w @ each / w.sum())


def score_of_shares(hits: Float64Array, misses: Float64Array, score: ScoreName) -> float:
    """Mean score if all rows of a block get its share of hits; the weights are those of blocks."""
    weight = hits + misses
    if score == "brier":
        each = hits * (misses / weight)
    else:
        each = -xlogy(hits, hits / weight) - xlogy(misses, misses / weight)
    return float(each.sum() / weight.sum())


def isotonic_sums(
    p: FloatArray, hit: NDArray[Any], w: Float64Array
) -> tuple[Float64Array, Float64Array]:
    """Weights of hits and of misses in each constant block of the isotonic regression on p."""
    distinct, place = np.unique(p, return_inverse=True)
    hits = np.bincount(place, weights=w * hit, minlength=distinct.size)
    misses = np.bincount(place, weights=w * (1.0 - hit), minlength=distinct.size)
    weight = hits + misses
    level = isotonic_regression(hits / weight, sample_weight=weight, y_min=0.0, y_max=1.0)
    start = np.flatnonzero(np.diff(level, prepend=-1.0))
    return np.add.reduceat(hits, start), np.add.reduceat(misses, start)


def parts_of_event(
    p: FloatArray,
    hit: NDArray[Any],
    w: Float64Array,
    score: ScoreName,
    recalibrated: FloatArray | None = None,
) -> Parts:
    """Return the mean scores of one event; without `recalibrated`, by isotonic regression."""
    base = score_of_shares(np.array([w @ hit]), np.array([w @ (1.0 - hit)]), score)
    given = binary_score(p, hit, w, score)
    if recalibrated is None:
        # On its own rows no non-decreasing map has a better score: what is below 0 is rounding.
        best = score_of_shares(*isotonic_sums(p, hit, w), score)
        return Parts(given, min(best, given, base), base)
    return Parts(given, binary_score(recalibrated, hit, w, score), base)


def vector_score(P: FloatArray, code: NDArray[np.intp], w: Float64Array, score: ScoreName) -> float:
    """Weighted mean score of probability vectors: squared distance, or minus the logarithm."""
    true = np.take_along_axis(P, code[:, None], axis=1)[:, 0].astype(np.float64)
    if score == "brier":
        each = np.einsum("nk,nk->n", P, P, dtype=np.float64) - 2 * true + 1
    else:
        each = -xlogy(1.0, true)
    return float(w @ each / w.sum())


def parts_of_vectors(predictions: Predictions, Q: FloatArray, score: ScoreName) -> Parts:
    """Return the mean scores of probability vectors, recalibrated to ``Q (n, K)``."""
    P, code, w, *_ = predictions
    share = np.bincount(code, weights=w, minlength=P.shape[1]) / w.sum()
    base = 1 - share @ share if score == "brier" else -xlogy(share, share).sum()
    given = vector_score(whole(P), code, w, score)
    return Parts(given, vector_score(Q, code, w, score), float(base))


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
    X = whole(predictions.P)[:, order]
    if getattr(calibrator, "n_features_in_", len(known)) == 1:
        X = X[:, 1:]
    Q = np.empty(predictions.P.shape)
    Q[:, order] = calibrator.predict_proba(X)
    return Q


def all_parts(
    predictions: Predictions, score: ScoreName, mode: str, average: str | None, calibrator: Any
) -> list[Parts]:
    """Return the mean scores of one event, of the top label, of each class, or of vectors."""
    refuse_each_class(predictions, average)
    P, code, w, _, event = predictions
    Q = None if calibrator is None else recalibrate(predictions, calibrator)
    if event is not None and average is not None:
        return [
            parts_of_event(*predictions.of_event(), w, score, None if Q is None else Q[:, event])
        ]
    if mode == "joint":
        if Q is None:
            raise ValueError(
                "mode='joint' scores whole vectors, and isotonic regression recalibrates one "
                "probability: pass calibrator=, fitted, or mode='classwise'."
            )
        return [parts_of_vectors(predictions, Q, score)]
    if mode == "classwise":

        def measure(k: int, column: FloatArray) -> Parts:
            return parts_of_event(column, code == k, w, score, None if Q is None else Q[:, k])

        return list(map_columns(measure, Scores(P, "proba")))
    top, hit = event_or_top(predictions)
    if Q is not None:
        Q = np.take_along_axis(Q, top_label(P)[1][:, None], axis=1)[:, 0]
    return [parts_of_event(top, hit, w, score, Q)]


@listed("Dimitriadis et al. 2021; Kull and Flach 2015")
@takes_predictions
def score_decomposition(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    score: ScoreName = "brier",
    calibrator: Any = None,
    mode: Literal["top", "classwise", "joint"] = "top",
    average: Average = "macro",
    pos_label: Any = None,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
) -> ScoreDecomposition:
    r"""Decomposition of Brier score or log loss: miscalibration, discrimination, uncertainty.

    .. math:: \bar S = \mathrm{MCB} - \mathrm{DSC} + \mathrm{UNC}, \quad
              \mathrm{MCB} = \bar S - \bar S_C, \quad \mathrm{DSC} = \bar S_r - \bar S_C, \quad
              \mathrm{UNC} = \bar S_r

    where :math:`\bar S` is the mean score of the probabilities, :math:`\bar S_C` that of the
    recalibrated ones and :math:`\bar S_r` that of the base rate, the share of hits given to every
    row. The recalibrated probabilities are those of an isotonic regression of the hits on the
    probabilities, on these rows, or those of `calibrator`.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Labels; with one column also soft hits, shares of the event in [0, 1].
    y_proba : array-like of shape (n, K), (n,) or (n, 1)
        Class probabilities, a column for each of the sorted labels, or of `labels` in their
        order; a frame whose columns are named by the labels is read by name. One column is the
        probability of one event, `pos_label`, and is measured as that.
    score : {"brier", "log"}, default="brier"
        Of the probability p of an event: :math:`(p - t)^2`, or
        :math:`-t \log p - (1 - t) \log(1 - p)` in nats.
    calibrator : fitted calibrator or classifier, default=None
        Recalibrates by its ``predict_proba``, instead of the isotonic regression. It has to take
        probabilities of the same labels, or a single column if it was fitted on one.
    mode : {"top", "classwise", "joint"}, default="top"
        The top label and whether it is true; each class against the rest; or whole vectors, with
        the scores :math:`\sum_k (p_k - [y = k])^2` and :math:`-\log p_y`, which needs `calibrator`.
    average : {"macro", None}, default="macro"
        For "classwise": the means over classes; None returns an array of each class.
    pos_label : label, default=None
        The event whose probability is measured. With one column, None means 1 or True for labels
        {0, 1}, {-1, 1} or booleans; others need it. With more columns, None means what `mode` says.
    sample_weight : array-like of shape (n,), default=None
        Non-negative weights; 2 counts as two copies of the row, 0 as its absence.
    labels : array-like of shape (K,), default=None
        Labels of the columns, in their order; needed if they cannot be inferred from `y_true`.

    Returns
    -------
    decomposition : ScoreDecomposition
        Named tuple ``(score, miscalibration, discrimination, uncertainty, scaled_score)`` of
        floats, or of arrays ``(K,)`` if ``average=None``. The scaled score is
        :math:`1 - \bar S / \mathrm{UNC} = (\mathrm{DSC} - \mathrm{MCB}) / \mathrm{UNC}`: 1 is
        perfect, 0 as good as the base rate; for the Brier score it is the scaled Brier score or
        index of prediction accuracy, for the log score McFadden's :math:`R^2`. It is NaN if all
        rows are hits or none is.

    Raises
    ------
    ValueError
        If probabilities, labels, weights or keywords are invalid, `calibrator` was fitted on other
        labels or other scores, or gives probability 0 to what happened, with ``score="log"``.
    TypeError
        If `calibrator` has no ``predict_proba``.

    See Also
    --------
    calibration_test : Whether the miscalibration is more than chance.
    calibration_interval : The miscalibration that very many rows would have.
    top_label_brier_score : The Brier score alone.

    Notes
    -----
    By isotonic regression, miscalibration and discrimination are never negative, and both are
    larger than those of many rows: the regression follows the hits of these very rows. By a
    calibrator fitted on other rows they may be negative: then the calibrator does harm, or its
    probabilities are worse than the base rate.

    `calibration_interval` of a function that returns the miscalibration gives its interval, less
    what chance adds to it; `calibration_test` of it is exact. A bootstrap would not help: resampled
    rows have ties, the regression fits them more closely, and the bias is added again.

    A log score is infinite if an event of probability 0 happened. The miscalibration is then
    infinite too; discrimination and uncertainty stay finite.

    References
    ----------
    Kull, Flach (2015). Novel Decompositions of Proper Scoring Rules for Classification: Score
    Adjustment as Precursor to Calibration. ECML PKDD.

    Kattan, Gerds (2018). The index of prediction accuracy: an intuitive measure useful for
    evaluating risk prediction models. Diagnostic and Prognostic Research 2.

    Dimitriadis, Gneiting, Jordan (2021). Stable reliability diagrams for probabilistic
    classifiers. PNAS 118.

    Examples
    --------
    >>> from skcalib.metrics import score_decomposition
    >>> y = [0, 0, 1, 0, 1, 1]
    >>> p = [0.1, 0.2, 0.3, 0.6, 0.7, 0.9]
    >>> parts = score_decomposition(y, p)
    >>> round(parts.score, 4), round(parts.miscalibration, 4), round(parts.discrimination, 4)
    (0.1667, 0.0833, 0.1667)
    >>> score_decomposition(y, p, score="log")  # doctest: +NORMALIZE_WHITESPACE
    ScoreDecomposition(score=0.4851, miscalibration=0.2541, discrimination=0.4621,
                       uncertainty=0.6931, scaled_score=0.3001)
    """
    check_option("score", score, ("brier", "log"))
    check_mode(mode, average, ("top", "classwise", "joint"))
    predictions = check_predictions(y_true, y_proba, sample_weight, labels, pos_label, soft=True)
    parts = np.array(all_parts(predictions, score, mode, average, calibrator))
    if not np.isfinite(parts[:, 1]).all():
        raise ValueError(
            "calibrator gives probability 0 to a label that occurs, so that its log score is "
            "infinite: pass score='brier', or another calibrator."
        )
    given, recalibrated, base = parts.T if average is None else parts.mean(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        scaled = np.where(base > 0, 1 - np.divide(given, base), np.nan)
    values = given, given - recalibrated, base - recalibrated, base, scaled
    return ScoreDecomposition(
        *(follow(v, y_proba) if average is None else float(v) for v in values)
    )
