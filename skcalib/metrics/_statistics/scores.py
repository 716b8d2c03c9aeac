"""Proper scores: intervals of mean scores, and decompositions of scores."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import stdtrit, xlog1py, xlogy
from sklearn.isotonic import isotonic_regression
from sklearn.utils.validation import check_is_fitted

from skcalib._arrays.rowwise import Float64Array, FloatArray, Intp
from skcalib._arrays.sources import to_array
from skcalib._scores.one_vs_rest import map_columns
from skcalib._scores.scores import Scores, event_or_top, top_label
from skcalib._validation.keywords import check_level, check_option
from skcalib._validation.rows import Predictions, check_predictions, is_whole, takes_predictions
from skcalib.metrics._binned import Average, distinct_scores
from skcalib.metrics._common import (
    OF_ROWS,
    add_note,
    check_mode,
    cluster_sums,
    design_effect,
    listed,
    number_of,
    printable,
    ratio_ends,
    separate_rows,
)
from skcalib.metrics._curves.curves import wilson_interval

# Confidence intervals of mean losses over rows, corrected for skewness.
#
# With g the mean, s its standard error, a its skewness and c the confidence level, the interval of
# Hall is
#
# .. math:: \left[g - s\, h(t_{(1 + c)/2}),\; g - s\, h(t_{(1 - c)/2})\right], \qquad
#           h(t) = \frac{3}{a} \left(\sqrt[3]{1 + a \left(t - \frac{a}{6}\right)} - 1\right)
#
# with quantiles of Student's t (Hall, 1992, On the removal of skewness by transformation). The mean
# of values that are all equal to the smallest or the largest possible value is a proportion, and
# has Wilson's interval. Intervals are clipped to the range of possible values.
#
# For dependent rows, observations are sums over clusters. The interval is the hull of Hall's
# interval and of Student's interval with the degrees of freedom of Bell and McCaffrey (`balance`).
# With clusters, Student's interval of a mean loss is computed on the scale of the square root. A
# row with a relative weight is a cluster of its own, with Student's interval on the original scale.


# If the skewness is smaller than `NO_SKEWNESS`, Hall's correction of the interval is smaller than
# rounding errors.
NO_SKEWNESS = 1e-7
# Losses are treated as equal if their relative difference is smaller than this value.
ROUNDING = 1e-12


class RowLosses(NamedTuple):
    """The loss of each row, with the weights and clusters of the rows.

    ``losses (n,)`` are the losses. ``pseudo_error`` is the mean loss that rows would have if their
    top label were wrong, or None without a pseudo row. If a model is almost always correct, the
    rows contain no errors, and the most confident calibrator would have the lowest loss. The pseudo
    row, an additional row with the loss ``pseudo_error``, prevents this. It counts as one row and
    as one cluster. ``w (n,)`` and ``cluster (n,)`` are those of `Predictions`.
    """

    losses: Float64Array
    pseudo_error: float | None
    w: Float64Array
    cluster: Intp | None = None

    def mean(self) -> float:
        """Return the weighted mean of the losses, without the hypothetical wrong prediction."""
        return float(np.average(self.losses, weights=self.w))

    def less(self, other: RowLosses) -> RowLosses:
        """Subtract the losses of another model from these losses, row by row."""
        pseudo = None
        if not (self.pseudo_error is None or other.pseudo_error is None):
            pseudo = self.pseudo_error - other.pseudo_error
        return self._replace(losses=self.losses - other.losses, pseudo_error=pseudo)

    def append_pseudo_row(self) -> RowLosses:
        """Append the stored loss of a hypothetical wrong prediction, if any, to the losses."""
        values, pseudo, w, cluster = self
        if pseudo is None:
            return self
        cluster = None if cluster is None else np.append(cluster, number_of(cluster))
        return RowLosses(np.append(values, pseudo), None, np.append(w, 1.0), cluster)

    def observations(self) -> tuple[Float64Array, Float64Array]:
        """Return independent observations and their weights: single rows, or means of clusters."""
        values, _, w, cluster = self.append_pseudo_row()
        if cluster is None:
            return values, w
        N = cluster_sums(w, cluster)
        return cluster_sums(w * values, cluster) / N, N * (N.size / N.sum())


def mean_and_error(differences: Float64Array, w: Float64Array) -> tuple[float, float, float]:
    r"""Return a weighted mean with its standard error and its skewness.

    With the mean g and :math:`u_i = w_i (d_i - g) / n`, where n is the sum of the checked weights,
    the standard error is the root of :math:`n / (n - 1) \sum_i u_i^2`, and the skewness is
    :math:`\sum_i u_i^3 / (\sum_i u_i^2)^{3/2}`. A row with a relative weight is one observation.
    With counts, each copy of a row is one observation of weight 1.
    """
    n = float(w.sum())
    mean = np.average(differences, weights=w)
    copies, weights = (w, 1.0) if is_whole(w) else (np.ones(w.size), w)
    u = weights * (differences - mean) / n
    squares = u * u
    square = copies @ squares
    # The product of squares and u is faster than the power u**3.
    skewness = 0.0 if square == 0 else copies @ (squares * u) / square**1.5
    return float(mean), float(np.sqrt(square * n / max(n - 1, 1))), float(skewness)


def hall_interval(
    rows: RowLosses, level: float, power: float = 0.0, root: bool = False
) -> tuple[float, float]:
    """Return the confidence interval of a mean by Hall's t, which corrects for skewness.

    The interval includes the pseudo row, but the degrees of freedom do not. With clusters or
    relative weights, the result is the hull of this interval and of Student's interval, where
    `power` is that of `balance`. With `root`, Student's interval is computed on the scale of the
    square root.
    """
    rows = separate_rows(rows.append_pseudo_row())
    values, w = rows.observations()
    mean, error, skewness = mean_and_error(values, w)
    h = stdtrit(max(float(w.sum()) - 1, 1), np.array([(1 + level) / 2, (1 - level) / 2]))
    if abs(skewness) > NO_SKEWNESS:
        h = 3 / skewness * (np.cbrt(1 + skewness * (h - skewness / 6)) - 1)
    low, high = mean - error * h
    if rows.cluster is not None and np.ptp(rows.losses) > 0:
        ends = ratio_ends(w * values, w, level, power)
        if root:
            centre = np.sqrt(mean)
            half = (ends[1] - mean) / (2 * centre)
            ends = max(centre - half, 0.0) ** 2, (centre + half) ** 2
        low, high = min(low, ends[0]), max(high, ends[1])
    return float(low), float(high)


def mean_interval(rows: RowLosses, level: float, low: float, high: float) -> tuple[float, float]:
    """Return the confidence interval of a mean loss, where each loss is in ``[low, high]``.

    If all losses are `low` or `high`, the mean is a proportion, and no pseudo row is used.
    Otherwise, the interval is NaN if all rows have the same loss.
    """
    values, w = rows.losses, rows.w
    if np.isfinite([low, high]).all() and ((values == low) | (values == high)).all():
        share = np.array(float(w @ (values == high)) / w.sum())
        fewer = design_effect(separate_rows(rows), (values == high) - share, level)
        ends = wilson_interval(share, float(w.sum()) / fewer, level)
        return low + (high - low) * float(ends[0]), low + (high - low) * float(ends[1])
    rows = rows.append_pseudo_row()
    if rows.w.sum() <= 1 or np.ptp(rows.losses) <= ROUNDING * np.abs(rows.losses).max():
        return np.nan, np.nan
    if rows.cluster is None:
        least, most = hall_interval(rows, level, OF_ROWS)
    else:  # there is no square root of negative losses
        least, most = hall_interval(rows, level, root=low >= 0)
    return max(least, low), min(most, high)


# Decomposition of a proper score into miscalibration, discrimination and uncertainty.
#
# With the scores of probabilities P, of the recalibrated probabilities C and of the base rate r,
#
# .. math:: \bar S(P) = \underbrace{\bar S(P) - \bar S(C)}_{\mathrm{MCB}}
#           - \underbrace{(\bar S(r) - \bar S(C))}_{\mathrm{DSC}}
#           + \underbrace{\bar S(r)}_{\mathrm{UNC}} .
#
# Isotonic regression replaces the probabilities of a block of rows by the event rate of the block.
# So the score of C depends only on the weights of events and non-events in each block.


ScoreName = Literal["brier", "log"]


class RowScores(NamedTuple):
    """Score of each row of a binary problem or of all classes, and the means of the decomposition.

    ``means`` contains the mean scores of the probabilities, of the recalibrated probabilities and
    of the base rate. The mean score has no interval if events or non-events are missing, or if it
    may be infinite for more rows.
    """

    values: Float64Array
    means: Float64Array
    has_both: bool
    may_be_infinite: bool


def event_scores(p: FloatArray, hit: NDArray[Any], score: ScoreName) -> Float64Array:
    """Return the Brier score or log score of each row, for the probability of an event."""
    p = p.astype(np.float64, copy=False)
    miss = 1.0 - hit
    if score == "brier":
        return np.asarray(hit * (1 - p) ** 2 + miss * p**2)
    return np.asarray(-xlogy(hit, p) - xlog1py(miss, -p))


def vector_scores(P: FloatArray, code: NDArray[np.intp], score: ScoreName) -> Float64Array:
    """Return the Brier score or log score of each row, for probabilities of all classes.

    The Brier score of two classes is the squared error of one of them.
    """
    true = np.take_along_axis(P, code[:, None], axis=1)[:, 0].astype(np.float64)
    if score == "brier":
        return (np.einsum("nk,nk->n", P, P, dtype=float) - 2 * true + 1) / (1 + (P.shape[1] == 2))
    return np.asarray(-xlogy(1.0, true))


def scores_of_shares(hits: Float64Array, misses: Float64Array, score: ScoreName) -> Float64Array:
    """Return the sum of the scores of each block of rows, with the event rate as probability."""
    weight = hits + misses
    if score == "brier":
        return np.asarray(hits * (misses / weight))
    # The logarithm of a share near 1 is computed from the other share, which has all its digits.
    rare, common = np.minimum(hits, misses), np.maximum(hits, misses)
    share = rare / weight
    return np.asarray(-xlogy(rare, share) - xlog1py(common, -share))


def score_event(
    p: FloatArray,
    hit: NDArray[Any],
    w: Float64Array,
    score: ScoreName,
    recalibrated: FloatArray | None,
) -> RowScores:
    """Score the probability of an event before and after recalibration (default: isotonic)."""
    values, total = event_scores(p, hit, score), w.sum()
    base = float(scores_of_shares(w @ hit, w @ (1.0 - hit), score) / total)
    mean = float(w @ values / total)
    if recalibrated is None:
        rows = distinct_scores(p, hit, w)
        level = isotonic_regression(rows.hits[0] / rows.weight, sample_weight=rows.weight)
        start = np.flatnonzero(np.diff(level, prepend=-1.0))
        h, n = (np.add.reduceat(part, start) for part in (rows.hits[0], rows.weight))
        best = float(scores_of_shares(h, n - h, score).sum() / rows.weight.sum())
        # No non-decreasing function of the probabilities has a better score than isotonic
        # regression on the same rows. So negative differences of scores are rounding errors.
        best = min(best, mean, base)
    else:
        best = float(w @ event_scores(recalibrated, hit, score) / total)
    has_both = hit.dtype.kind == "b" and bool(hit.any() and not hit.all())
    may_be_infinite = score == "log" and bool(((p <= 0) | (p >= 1)).any())
    return RowScores(values, np.array([mean, best, base]), has_both, may_be_infinite)


def score_vectors(predictions: Predictions, score: ScoreName, Q: FloatArray) -> RowScores:
    """Score the probabilities of all classes, and the recalibrated probabilities ``Q (n, K)``."""
    P, code, w = to_array(predictions.P), predictions.code, predictions.w
    prior = np.sort(np.bincount(code, weights=w, minlength=P.shape[1]) / w.sum())
    rare, rest = prior[:-1], prior[:-1].sum()  # the largest prior is 1 - rest
    if score == "brier":
        base = rare @ (1 - rare) + prior[-1] * rest
    else:
        base = -xlogy(rare, rare).sum() - xlog1py(prior[-1], -rest)
    values = vector_scores(P, code, score)
    mean, best = (w @ each / w.sum() for each in (values, vector_scores(Q, code, score)))
    may_be_infinite = score == "log" and bool(P.min() <= 0)
    has_both = bool((code != code[0]).any())
    return RowScores(values, np.array([mean, best, base]), has_both, may_be_infinite)


def recalibrate(predictions: Predictions, calibrator: Any) -> FloatArray:
    """Return the probabilities of a fitted calibrator, with columns as in the predictions."""
    if not hasattr(calibrator, "predict_proba"):
        raise TypeError(
            "calibrator must be fitted and have predict_proba, such as "
            f"IsotonicCalibrator().fit(p, y); got {type(calibrator).__name__}."
        )
    check_is_fitted(calibrator)
    columns, known = predictions.classes.tolist(), np.asarray(calibrator.classes_).tolist()
    if set(columns) != set(known):
        raise ValueError(
            f"calibrator was fitted on the labels {known}, but y_proba has columns for the labels "
            f"{columns}: fit the calibrator on the same labels."
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
    """Yield the scores of the event, of the top label, of each class, or of all classes jointly."""
    P, w, event = predictions.P, predictions.w, predictions.event
    Q = None if calibrator is None else recalibrate(predictions, calibrator)
    if mode == "joint" and event is None:
        if predictions.are_shares:
            raise ValueError(
                "y_true has soft labels of several raters, but mode='joint' needs labels: pass one "
                "label for each row, such as the one with the largest fraction, or another mode."
            )
        if Q is None:
            raise ValueError(
                "mode='joint' scores probability vectors, but isotonic regression recalibrates "
                "single probabilities: pass a fitted calibrator=, or mode='classwise'."
            )
        yield score_vectors(predictions, score, Q)
    elif mode == "classwise" and event is None:

        def score_class(k: int, p: FloatArray) -> RowScores:
            return score_event(p, predictions.hits(k), w, score, None if Q is None else Q[:, k])

        yield from map_columns(score_class, Scores(P, "proba"))
    else:
        p, hit = event_or_top(predictions)
        if Q is not None:
            at = top_label(P)[1] if event is None else np.full(w.size, event)
            Q = np.take_along_axis(Q, at[:, None], axis=1)[:, 0]
        yield score_event(p, hit, w, score, Q)


def mean_over_problems(problems: Iterator[RowScores]) -> RowScores:
    """Average the scores of each row over several binary problems."""
    values, means, has_both, may_be_infinite = next(problems)
    n_problems = 1
    for rows in problems:
        values, means = values + rows.values, means + rows.means
        n_problems += 1
        has_both |= rows.has_both
        may_be_infinite |= rows.may_be_infinite
    return RowScores(values / n_problems, means / n_problems, has_both, may_be_infinite)


# The public function that decomposes proper scores, and its result.


class _Parts(NamedTuple):
    score: Any
    miscalibration: Any
    discrimination: Any
    uncertainty: Any
    scaled_score: Any


@printable("score score_low score_high", *_Parts._fields[1:])
class ScoreDecomposition(_Parts):
    """Result of `score_decomposition`: a named tuple of five numbers, with further attributes.

    Attributes
    ----------
    score, miscalibration, discrimination, uncertainty, scaled_score : float or ndarray
        The mean score, its three components, and the scaled score.
    score_low, score_high : float or ndarray
        Ends of the interval of the score.
    confidence_level : float
        Level of the interval.
    """

    confidence_level: float = 0.95
    score_low: Any = np.nan
    score_high: Any = np.nan


@listed("Dimitriadis et al. 2021; Kull and Flach 2015")
@takes_predictions
def score_decomposition(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    score: ScoreName = "brier",
    calibrator: Any = None,
    mode: Literal["top", "classwise", "joint"] | None = None,
    average: Average = "macro",
    pos_label: Any = None,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    confidence_level: float = 0.95,
    clusters: Any = None,
) -> ScoreDecomposition:
    r"""Decomposition of Brier score or log loss: miscalibration, discrimination, uncertainty.

    .. math:: \bar S = \mathrm{MCB} - \mathrm{DSC} + \mathrm{UNC}, \quad
              \mathrm{MCB} = \bar S - \bar S_C, \quad \mathrm{DSC} = \bar S_r - \bar S_C, \quad
              \mathrm{UNC} = \bar S_r

    where :math:`\bar S` is the mean score of the probabilities, :math:`\bar S_C` that of the
    recalibrated probabilities and :math:`\bar S_r` that of the base rate, which is the event rate
    of all rows. The recalibrated probabilities are those of an isotonic regression of the outcomes
    on the probabilities of the same rows, or those of `calibrator`.

    Parameters
    ----------
    y_true : array-like of shape (n,) or (n, K)
        Labels, or the fractions of raters who chose each class, with a column for each class. With
        one column of probabilities, also soft labels in [0, 1].
    y_proba : array-like of shape (n, K), (n,) or (n, 1)
        Class probabilities, with a column for each of the sorted labels, or of `labels` in their
        order. Columns of a frame that are named after the labels are read by name. One or two
        columns give the probability of the event `pos_label`, which is measured.
    score : {"brier", "log"}, default="brier"
        For the probability p of an event with the outcome t: :math:`(p - t)^2`, or
        :math:`-t \log p - (1 - t) \log(1 - p)` in nats.
    calibrator : fitted calibrator or classifier, default=None
        Its ``predict_proba`` recalibrates the probabilities, instead of isotonic regression. It
        must accept probabilities of the same labels, or a single column if it was fitted on one.
    mode : {"top", "classwise", "joint"} or None, default=None
        "top": the top label and whether it is the true class. "classwise": each class against the
        rest. "joint": probability vectors, with the scores :math:`\sum_k (p_k - [y = k])^2` and
        :math:`-\log p_y`; this mode needs `calibrator`. None: the event for one or two columns, the
        top label for more.
    average : {"macro", None}, default="macro"
        For "classwise": the mean over classes. None returns an array with a number for each class.
    pos_label : label, default=None
        Label of the event whose probability is measured. None means 1 or True for labels {0, 1},
        {-1, 1} or booleans. For other labels, None means the second of two columns, and one column
        needs `pos_label`. With more columns, None leaves the choice to `mode`.
    sample_weight : array-like of shape (n,), default=None
        Non-negative weights. Integers are counts: 2 is two copies of the row. Of floats only the
        ratios matter (see "Weights" under "Valid input" in the user guide). 0 is the row's absence.
    labels : array-like of shape (K,), default=None
        Labels of the columns, in their order; needed if they cannot be inferred from `y_true`.
    confidence_level : float in (0, 1), default=0.95
        Level of the interval.
    clusters : array-like of shape (n,), default=None
        Cluster of each row, such as the hospital of a patient, if rows of one cluster are
        dependent. At least 3 clusters are needed; see "Dependent rows" in the user guide. None
        means that rows are independent.

    Returns
    -------
    decomposition : ScoreDecomposition
        Named tuple ``(score, miscalibration, discrimination, uncertainty, scaled_score)`` of
        floats, or of arrays ``(K,)`` if ``average=None``. The scaled score is
        :math:`1 - \bar S / \mathrm{UNC} = (\mathrm{DSC} - \mathrm{MCB}) / \mathrm{UNC}`: 1 is
        perfect, and 0 is as good as the base rate. For the Brier score it is also called scaled
        Brier score or index of prediction accuracy, for the log score McFadden's :math:`R^2`. It is
        NaN if the event occurs in every row or in no row.

        The attributes ``score_low`` and ``score_high`` are the ends of the interval of the score.
        They are NaN for soft labels, if the event occurs in every row or in no row, if every row
        has the same score, and for each class of a Dask array. For the log score, they are also NaN
        if a probability is exactly 0 or 1, because the score of more rows may be infinite.

    Raises
    ------
    ValueError
        If probabilities, labels, weights or keywords are invalid, if `calibrator` was fitted on
        other labels or other scores, or, for ``score="log"``, if its probability of a true class is
        0.
    TypeError
        If `calibrator` has no ``predict_proba``.

    See Also
    --------
    calibration_test : A test of the hypothesis that the probabilities are calibrated.
    calibration_interval : Confidence intervals of calibration errors.
    top_label_brier_score : The Brier score of the top label.

    Notes
    -----
    With isotonic regression, miscalibration and discrimination are never negative. Both have a
    small-sample bias, because the regression is fitted on the same rows. With a calibrator that was
    fitted on other rows, they may be negative. A negative miscalibration means that the calibrator
    makes the score worse. A negative discrimination means that its probabilities are worse than the
    base rate.

    The score is a mean over rows, with an interval by the method of Hall (1992), which corrects for
    skewness. With `clusters`, this interval uses sums over clusters, and also contains Student's
    interval on the scale of the square root, with the degrees of freedom of Bell and McCaffrey
    (2002). With relative weights, each row is a cluster, and Student's interval is on the original
    scale.

    The log score is infinite if an event with probability 0 occurs. Then the miscalibration is
    infinite too, but discrimination and uncertainty are finite.

    References
    ----------
    Bell, McCaffrey (2002). Bias reduction in standard errors for linear regression with multi-stage
    samples. Survey Methodology 28.

    Hall (1992). On the removal of skewness by transformation. Journal of the Royal Statistical
    Society B 54.

    Kull, Flach (2015). Novel Decompositions of Proper Scoring Rules for Classification: Score
    Adjustment as Precursor to Calibration. ECML PKDD.

    Kattan, Gerds (2018). The index of prediction accuracy: an intuitive measure useful for
    evaluating risk prediction models. Diagnostic and Prognostic Research 2.

    Dimitriadis, Gneiting, Jordan (2021). Stable reliability diagrams for probabilistic
    classifiers. PNAS 118.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib.metrics import score_decomposition
    >>> y = [0, 0, 1, 0, 1, 1]
    >>> p = [0.1, 0.2, 0.3, 0.6, 0.7, 0.9]
    >>> parts = score_decomposition(y, p)
    >>> round(parts.score, 4), round(parts.miscalibration, 4), round(parts.discrimination, 4)
    (0.1667, 0.0833, 0.1667)
    >>> rng = np.random.default_rng(0)
    >>> p = rng.random(2000)
    >>> score_decomposition(rng.random(2000) < p, p)  # doctest: +NORMALIZE_WHITESPACE
    ScoreDecomposition(score=0.1633 (0.1549 to 0.172),
                       miscalibration=0.003208, discrimination=0.08994,
                       uncertainty=0.25, scaled_score=0.3469)
    """
    check_option("score", score, ("brier", "log"))
    check_mode(mode, average, (None, "top", "classwise", "joint"))
    check_level(confidence_level)
    predictions = check_predictions(
        y_true, y_proba, sample_weight, labels, pos_label, soft=True, clusters=clusters
    )
    predictions = predictions.of_mode(mode, average=average)
    if mode == "joint":
        predictions = predictions.as_classes()
    is_joint = mode == "joint" and predictions.event is None
    largest = np.inf if score == "log" else 2.0 if is_joint else 1.0
    with np.errstate(under="ignore"):
        problems = score_problems(predictions, score, mode, calibrator)
        if average is not None:
            problems = iter([mean_over_problems(problems)])
        measured = []
        for rows in problems:
            ends = np.nan, np.nan  # the interval of the mean score may not exist
            if rows.has_both and not rows.may_be_infinite:
                losses = RowLosses(rows.values, None, predictions.w, predictions.cluster)
                ends = mean_interval(losses, confidence_level, 0.0, largest)
            measured.append((*rows.means, *ends))
    mean, recalibrated, base, low, high = np.transpose(measured)
    if not np.isfinite(recalibrated).all():
        raise ValueError(
            "calibrator returns probability 0 for a label that occurs, so that its log score is "
            "infinite: pass score='brier', or another calibrator."
        )
    with np.errstate(divide="ignore", invalid="ignore"):
        scaled = np.where(base > 0, 1 - mean / base, np.nan)
    *parts, low, high = (
        predictions.of_classes(v, y_proba) if average is None else float(v[0])
        for v in (mean, mean - recalibrated, base - recalibrated, base, scaled, low, high)
    )
    decomposition = ScoreDecomposition(*parts)
    decomposition.confidence_level = confidence_level
    decomposition.score_low, decomposition.score_high = low, high
    return add_note(decomposition, predictions.n_clusters, confidence_level)
