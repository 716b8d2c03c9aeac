"""Confidence intervals of calibration errors, by simulating labels from assumed probabilities."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from html import escape
from inspect import signature
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from skcalib._arrays.rowwise import Float64Array, FloatArray, Intp
from skcalib._arrays.sources import Source, to_array
from skcalib._binning import bin_index, exceeds, quotient
from skcalib._scores.one_vs_rest import map_columns
from skcalib._scores.scores import Scores
from skcalib._validation.keywords import check_level, spawn_seeds
from skcalib._validation.rows import Predictions
from skcalib.metrics._binned import (
    EACH,
    bin_predictions,
    check_bins,
    debiased_squares,
    norm_of_gaps,
)
from skcalib.metrics._common import SCORED, add_note, listed, number_of, p_text, printable, widening
from skcalib.metrics._intervals import grid
from skcalib.metrics._intervals.label_errors import (
    AnyError,
    CellError,
    ClassCurveError,
    LabelError,
    SignedError,
    Simulated,
    TableError,
    cells_of_classes,
    cells_of_rows,
    check_enough,
    sort_rows,
    sort_scores,
    too_few,
)
from skcalib.metrics._intervals.truths import (
    calibrated,
    excess_of_few_rows,
    jackknife_variance,
    overconfident_truth,
    random_groups,
    shifted_classes,
    truth_on_path,
)
from skcalib.metrics._ks import reduce_top
from skcalib.metrics._resampling import Evaluation, make_result, name_of, prepare, repeat_rows

# Calibration errors as functions of the number of events in each cell, where a cell is a range of
# scores.


Keywords = dict[str, Any]
BINS = ("n_bins", "strategy", "closed", "quantile_method")
# With more than `MANY_RANKS` distinct scores, the KS error is computed from cumulative sums at only
# `JOINED_RANKS` scores.
MANY_RANKS, JOINED_RANKS = 1 << 17, 1 << 14
# The number of scores at which the KS error is computed if event counts of cells are drawn instead
# of labels, and if rows are clustered.
DRAWN_RANKS, SIGNED_RANKS = 1 << 9, 1 << 8


def label_error(evaluate: Evaluation, predictions: Predictions) -> LabelError:
    """Return a metric as a function of labels, for fixed predictions."""
    metric, keywords = evaluate.function, evaluate.all_keywords
    predictions = evaluate.measured(predictions)
    name, is_known = name_of(metric), metric in SCORED
    by_cells = getattr(metric, "_by_cells", None) or (BY_CELLS.get(name) if is_known else None)
    if by_cells is not None and evaluate.is_skcalib_metric:
        parameters = signature(metric).parameters.items()
        defaults = {key: p.default for key, p in parameters if p.default is not p.empty}
        error = by_cells(predictions, {**defaults, **keywords})
        if error is not None:
            return error if predictions.cluster is None else SignedError(error, predictions)
    if predictions.cluster is not None:
        raise ValueError(
            f"clusters= does not support {name}, only calibration errors of skcalib whose bins do "
            "not separate rows with equal scores: use bootstrap_interval."
        )
    return AnyError(evaluate, predictions, is_known and name == "sweep_calibration_error")


def binned(predictions: Predictions, keywords: Keywords, **reduction: Any) -> CellError | None:
    """Return a binned error as a function of the event counts in score ranges.

    `reduction` contains keywords of `bin_predictions`.
    """
    average = keywords.get("average", "macro")
    weighting = keywords.get("class_weight", "uniform"), keywords.get("bin_weight", "count")

    def error_of_table(H: Float64Array, S: Float64Array, W: Float64Array) -> Float64Array:
        total, errors = norm_of_gaps(quotient(H - S, W), W, keywords["norm"], *weighting)
        return total[..., None] if average == "macro" else errors

    return _error_by_bins(predictions, keywords, error_of_table, **reduction)


def debiased(predictions: Predictions, keywords: Keywords) -> CellError | None:
    """Return the unclipped debiased error as a function of the event counts in score ranges.

    The value is the root of the debiased square with its sign. The limit for many rows is the
    plain l2 error.
    """
    average, classwise = keywords["average"], keywords["mode"] == "classwise"

    def root(H: Float64Array, S: Float64Array, W: Float64Array, noisy: bool) -> Float64Array:
        gap = quotient(H - S, W)
        square = debiased_squares(quotient(H, W), gap, W) if noisy else gap**2
        share = W / np.maximum(W.sum(axis=-1, keepdims=True), np.finfo(float).tiny)
        power = (share * square).sum(axis=-1)
        mean = power.mean(axis=-1, keepdims=True) if average == "macro" else power
        return np.sign(mean) * np.sqrt(np.abs(mean))

    roots = partial(root, noisy=True), partial(root, noisy=False)
    return _error_by_bins(predictions, keywords, *roots, **(EACH if classwise else {}))


def thresholded(predictions: Predictions, keywords: Keywords) -> CellError | None:
    """Return a function that computes TACE from event counts in score ranges; None if version=1."""
    if keywords["version"] == 1:
        return None
    keywords = {**keywords, "bin_weight": keywords["bin_weight"] or "count"}
    return binned(predictions, keywords, **EACH, threshold=keywords["threshold"])


def general(predictions: Predictions, keywords: Keywords) -> CellError | None:
    """Return the general calibration error as a function of the event counts in score ranges."""
    names = ("max_prob", "class_conditional", "threshold")
    return binned(predictions, keywords, **{name: keywords[name] for name in names})


def cumulative(predictions: Predictions, keywords: Keywords) -> CellError:
    """Return the KS error as a function of the event counts at distinct scores."""
    mode, average = keywords["mode"], keywords["average"]
    P, w, event = predictions.P, predictions.w, predictions.event
    most = None if predictions.cluster is None else SIGNED_RANKS

    def error_of_table(H: Float64Array, S: Float64Array, W: Float64Array) -> Float64Array:
        curve = H - S
        np.cumsum(curve, axis=-1, out=curve)
        largest = np.maximum(curve.max(axis=-1), -curve.min(axis=-1))
        errors = largest / np.maximum(W.sum(axis=-1), np.finfo(float).tiny)
        return errors.mean(axis=-1, keepdims=True) if average == "macro" else errors

    if not grid.classwise(predictions, keywords):
        if event is not None or (mode in (None, "top") and keywords["r"] == 1):
            rows = sort_scores(predictions)
        else:
            score, _ = reduce_top(predictions, mode, keywords["r"])
            rows = sort_rows(score, _hit_classes(P, mode, int(keywords["r"])), w)
        rank, number = _ranks(rows.score, most or (DRAWN_RANKS if rows.are_many else None))
        return CellError(cells_of_rows(rows, rank, (1, number)), error_of_table)
    ties = list(map_columns(lambda _, column: _ranks(column, most), Scores(P, "proba")))
    cells = max(number for _, number in ties)
    of_classes = cells_of_classes((t for t, _ in ties), P, w, (P.shape[1], cells))
    return ClassCurveError(of_classes, error_of_table, average)


def _hit_classes(P: Source, mode: str | None, r: int) -> NDArray[Any]:
    """Return the r-th most probable class of each row, or which classes are the r most probable."""
    # A stable sort orders classes with equal probabilities by their columns.
    order = np.argsort(-P.read(slice(None)), axis=1, kind="stable")
    if mode != "within_top":
        return order[:, r - 1]
    member = np.zeros(P.shape, dtype=bool)
    np.put_along_axis(member, order[:, :r], True, axis=1)
    return member


def _ranks(score: FloatArray, most: int | None) -> tuple[Intp, int]:
    """Return the rank of each score among the distinct scores, and the number of ranks.

    If there are more than `most` or very many distinct scores, neighbours get the same rank.
    """
    distinct, rank = np.unique(score, return_inverse=True)
    most = most or (JOINED_RANKS if distinct.size > MANY_RANKS else distinct.size)
    step = -(-distinct.size // most)
    return rank // step, -(-distinct.size // step)


def _error_by_bins(
    predictions: Predictions,
    keywords: Keywords,
    error_of_table: TableError,
    limit_of_table: TableError | None = None,
    **reduction: Any,
) -> CellError | None:
    """Return a binned error as a function of labels; None if its bins can separate equal scores.

    Scores up to the threshold, if there is one, are in bin B, which is ignored.
    """
    bins = check_bins(**{name: keywords[name] for name in BINS if name in keywords})
    bins = bins.resolve(predictions.w)
    if bins.method == "rank":
        return None
    # With average=None, the result has an error for each class, even if `pos_label` names one
    # class.
    if keywords.get("average", "macro") is None:
        predictions = predictions.without_event()
    table, _ = bin_predictions(predictions, bins, **reduction)
    P, w, event = predictions.P, predictions.w, predictions.event
    edges, B = table.left[:, 1:], bins.n_bins
    m, threshold = len(edges), reduction.get("threshold")

    def find(score: FloatArray, j: int) -> NDArray[np.integer]:
        cell = bin_index(score, edges[j], bins)
        return cell if threshold is None else np.where(exceeds(score, threshold), cell, B)

    if event is None and not reduction.get("max_prob", True):
        columns = map_columns(lambda k, column: find(column, k % m), Scores(P, "proba"))
        return CellError(cells_of_classes(columns, P, w, (m, B)), error_of_table, limit_of_table)
    rows = sort_scores(predictions)
    if m == 1:
        index = find(rows.score, 0)
    else:  # each top label has bins of its own
        index = np.empty(w.size, dtype=np.intp)
        for j in np.unique(rows.hit):
            of_class = rows.hit == j
            index[of_class] = j * (B + 1) + find(rows.score[of_class], j)
    return CellError(cells_of_rows(rows, index, (m, B)), error_of_table, limit_of_table)


# Functions that compute errors from the number of events in each cell, by the name of the metric.
# All other metrics are called for each simulated label vector.
BY_CELLS: dict[str, Callable[[Predictions, Keywords], CellError | None]] = {
    "general_calibration_error": general,
    "expected_calibration_error": binned,
    "maximum_calibration_error": binned,
    "root_mean_squared_calibration_error": binned,
    "static_calibration_error": partial(binned, **EACH),
    "adaptive_calibration_error": partial(binned, **EACH),
    "thresholded_adaptive_calibration_error": thresholded,
    "debiased_calibration_error": debiased,
    "ks_calibration_error": cumulative,
    "smooth_calibration_error": grid.smooth,
    "kde_calibration_error": grid.kernel,
    "soft_binned_calibration_error": grid.soft_binned,
    "label_binned_calibration_error": grid.label_binned,
    "maximum_mean_calibration_error": grid.mean_kernel,
    "sweep_calibration_error": grid.sweep,
}


# The confidence interval of an error, from simulations along one path of assumed true
# probabilities.
#
# If the error of the truth is e, the metric of drawn labels has mean m(e) and standard deviation
# S(e), which includes the variance over samples of rows. The standardised metric has quantiles
# z(e). The interval is the set of e for which the metric T of the data is between the quantiles,
#
# .. math:: m(e) + z_{\alpha/2}(e)\, S(e) \le T \le m(e) + (z_{1 - \alpha/2}(e) + 0.1)\, S(e),
#
# and the debiased estimate is the e at which T is the median. The 0.1 allows for random deviations
# of the simulation. The other end needs no such margin, because it is the higher end of two paths.
#
# Quantiles follow the expansion of Cornish and Fisher, with a skewness g and an excess kurtosis k
# that are linear in e. They use all sets of labels of a path, while sample quantiles would use only
# the labels of a few truths. With z the normal quantile,
#
# .. math:: z(e) = z + \frac{z^2 - 1}{6} g + \frac{z^3 - 3 z}{24} k - \frac{2 z^3 - 5 z}{36} g^2 .


# The margin that widens the interval at its lower end, in standard deviations.
MARGIN = 0.1
# The largest skewness, and the range of excess kurtosis, for which the Cornish-Fisher expansion is
# used. It is wrong for more extreme values.
LARGEST_SKEWNESS, KURTOSES = 1.5, (-1.0, 4.0)
# Errors are searched up to `FAR` standard deviations from the metric of the data. Curves are fitted
# to simulated errors in this range and a margin, which is the fraction `BEYOND` of the range, but
# to at least `FEWEST` simulations.
FAR, BEYOND, FEWEST = 5.0, 0.25, 6
# The number of hypothetical true errors e for which fitted quantiles are compared with the metric.
FINE = 401
TINY = 1e-12


@dataclass(frozen=True)
class TruthPoint:
    """Simulation with assumed true probabilities: true error, row variance and metric values."""

    error: float
    row_variance: float
    values: Float64Array

    @cached_property
    def mean(self) -> float:
        """Mean of the metric over the simulated label vectors."""
        return float(self.values.mean())

    @cached_property
    def sd(self) -> float:
        """Standard deviation of the metric over the simulated label vectors."""
        return float(self.values.std(ddof=1))

    @cached_property
    def moments(self) -> tuple[float, float]:
        """Skewness and excess kurtosis of the metric over the simulated label vectors."""
        z = (self.values - self.mean) / max(self.sd, TINY)
        return float((z**3).mean()), float((z**4).mean()) - 3.0


class Ends(NamedTuple):
    """Ends of the interval of an error, and the debiased estimate.

    `empty` is True if all simulated errors on the path are too small for the data.
    """

    low: float
    middle: float
    high: float
    empty: bool = False


def search_range(observed: float, null: TruthPoint, one: TruthPoint) -> tuple[float, float]:
    """Return the range of plausible true errors in which the ends of an interval are searched."""
    s = max(null.sd, float(np.sqrt(one.sd**2 + one.row_variance)), TINY)
    return max(0.0, observed - max(null.mean, 0.0) - FAR * s), observed + FAR * s


def invert(points: list[TruthPoint], observed: float, level: float) -> Ends:
    """Return the interval of an error, from simulations on a path of assumed true probabilities.

    Labels of the first point are drawn from P, labels of the second point from Q.
    """
    alpha = (1 - level) / 2
    null = points[0]
    low, high = search_range(observed, null, points[1])
    error = np.array([point.error for point in points])
    pad = BEYOND * (high - low)
    # The smallest simulated error that is clearly above the observed error is used even outside of
    # the search range. If simulated errors are far apart, the interval could otherwise end too low.
    above = error[error >= (observed + high) / 2]
    last = max(high + pad, above.min()) if above.size else high + pad
    near = (error >= low - pad) & (error <= last)
    if near.sum() < FEWEST:
        away = np.abs(error - (low + high) / 2)
        near |= away <= np.sort(away)[min(FEWEST, away.size - 1)]
    used = sorted((points[i] for i in np.flatnonzero(near)), key=lambda point: point.error)
    e = np.array([point.error for point in used])
    span = max(float(np.ptp(e)), TINY)
    x, fine = (e - e[0]) / span, np.linspace(0, 1, FINE)
    sd = np.array([point.sd for point in used])
    trust = np.sqrt([point.values.size for point in used])
    spread = np.sqrt(sd**2 + [point.row_variance for point in used])
    weight = trust / np.maximum(sd, max(TINY, 1e-3 * sd.max()))
    mean = np.array([point.mean for point in used])
    m = np.polyval(_fit(x, mean, 3, weight), fine)
    S = np.maximum(np.polyval(_fit(x, spread, 2, trust), fine), 0.5 * sd.min())
    moments = np.array([point.moments for point in used])
    skewness, kurtosis = (
        np.asarray(np.polyval(_fit(x, y, 1, trust), fine), dtype=np.float64) for y in moments.T
    )
    z_low, z_middle, z_high = (
        cornish_fisher(float(ndtri(share)), skewness, kurtosis) for share in (alpha, 0.5, 1 - alpha)
    )
    at = e[0] + fine * np.ptp(e)
    null_middle, null_high = np.quantile(null.values, [0.5, 1 - alpha])
    reaches_0 = e[0] == 0.0

    def first(below: Float64Array) -> float:
        return float(at[below.argmax()] if below.any() else at[-1])

    seldom_smaller = m + (z_high + MARGIN) * S >= observed
    start, empty = first(seldom_smaller), not seldom_smaller.any()
    middle = first(m + z_middle * S >= observed)
    allowed = np.flatnonzero(m + z_low * S <= observed)
    end = float(at[allowed[-1]] if allowed.size else at[0])
    if reaches_0 and observed <= null_high:
        start, empty = 0.0, False
    if reaches_0 and observed <= null_middle:
        middle = 0.0
    return Ends(start, middle, max(start, middle, end), empty)


def cornish_fisher(z: float, skewness: Float64Array, kurtosis: Float64Array) -> Float64Array:
    """Return the quantiles of a skewed distribution, from a normal quantile z (Cornish-Fisher)."""
    g = np.clip(skewness, -LARGEST_SKEWNESS, LARGEST_SKEWNESS)
    k = np.clip(kurtosis, *KURTOSES)
    return np.asarray(
        z + (z**2 - 1) * g / 6 + (z**3 - 3 * z) * k / 24 - (2 * z**3 - 5 * z) * g**2 / 36
    )


def _fit(x: Float64Array, y: Float64Array, degree: int, weight: Float64Array) -> Float64Array:
    """Fit a polynomial by least squares, of a lower degree if there are too few points.

    Values of x are between 0 and 1, and values that differ by less than 1e-6 count as one point.
    """
    distinct = np.unique(x.round(6)).size
    return np.asarray(np.polyfit(x, y, max(0, min(degree, distinct - 2)), w=weight))


# The confidence interval of a calibration error, from labels that are simulated from two sequences
# of assumed true probabilities.


# Numbers of simulated label vectors: from the predictions P, from the calibrated probabilities Q,
# and from all other assumed true probabilities.
NULL_SETS, Q_SETS, SETS = 300, 150, 75
# The number of assumed true probabilities on a path between predicted and calibrated probabilities,
# and beyond: for a metric that returns one number, and for a metric that returns several.
TRUTHS, MANY_TRUTHS = 8, 12
# Positions t > 1 on a path of assumed true probabilities, beyond the calibrated probabilities Q.
# Errors at these positions are computed first, in order to choose the positions for simulations.
TRIED = (1.5, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 256, 512)
# The number of evenly spaced errors for which positions on a path of assumed true probabilities are
# determined. Some of these positions are chosen for simulations.
SPREAD = 12
# With more than `FEW_CLASSES` classes, the second path of assumed true probabilities changes the
# odds of half of the classes instead of the odds of the top label.
FEW_CLASSES = 10
# Differences of errors below `ROUNDING` are rounding errors.
ROUNDING = 1e-6


# The debiased error is printed next to the interval, because the estimate that is not debiased may
# be outside of the interval.
@printable(
    *("debiased", "low", "high", "estimate", "expected_if_calibrated", "p_value"),
    smallest=1 / (1 + NULL_SETS),
)
class CalibrationInterval(NamedTuple):
    """Result of `calibration_interval`: a calibration error, its debiased value and interval."""

    estimate: Any
    debiased: Any
    low: Any
    high: Any
    expected_if_calibrated: Any
    p_value: Any

    def __str__(self) -> str:
        """Return the conclusion as a sentence, or only numbers if there is no single interval."""
        name, level = getattr(self, "_printed", ("", 0.0))
        if not name or np.ndim(self.p_value) or np.isnan(self.p_value):
            return repr(self)
        note = getattr(self, "_note", "").rpartition(",")[2]
        clusters = f",{note}" if note else ""
        # The interval is more cautious than the test, so it may begin at 0 although the p-value is
        # small.
        finding = "Not calibrated" if self.low > 0 else "Probably not calibrated"
        verdict = finding if self.p_value <= 1.0 - level else "No miscalibration found"
        p = p_text(self.p_value, 1 / (1 + NULL_SETS))
        ends = f"{100 * level:g} % interval {self.low:.3g} to {self.high:.3g}"
        return (
            f"{verdict}: {name} {self.debiased:.3g} ({ends}), debiased. It was measured as "
            f"{self.estimate:.3g}, and would be {self.expected_if_calibrated:.3g} on average if "
            f"calibrated (p {p if p[0] == '<' else f'= {p}'}{clusters})."
        )

    def _repr_html_(self) -> str:
        return f"<p>{escape(str(self))}</p>"


def interval_of(
    evaluate: Evaluation,
    predictions: Predictions,
    *,
    level: float = 0.95,
    random_state: Any = None,
    n_jobs: int | None = None,
    smooth: FloatArray | None = None,
) -> CalibrationInterval:
    """Return the confidence interval of a metric, for predictions that are already checked.

    `smooth` is the result of `calibrated`, if it is known already. A metric that is smaller if
    labels do not follow the predictions is not a calibration error, and raises an error. With too
    few clusters, all numbers except the estimate are NaN.
    """
    message = (
        f"metric {name_of(evaluate.metric)} is not a calibration error, because its value may be "
        "smaller for wrong probabilities than for calibrated ones: use bootstrap_interval."
    )
    if evaluate.is_skcalib_metric and not evaluate.is_error:
        raise ValueError(message)
    predictions = repeat_rows(predictions)
    P, estimate = predictions.P, evaluate(predictions)
    null_seed, *seeds = spawn_seeds(random_state, 3)
    if too_few(predictions.n_clusters):
        nothing = _like(np.full(estimate.shape, np.nan), estimate)
        return CalibrationInterval(_like(estimate, estimate), *[nothing] * 5)
    error = label_error(evaluate, predictions)
    observed = error.observed(predictions.code)
    null = error.simulate(to_array(P), NULL_SETS, null_seed)
    null.limits[null.limits < ROUNDING] = 0.0
    smooth = calibrated(predictions) if smooth is None else smooth
    ends = smooth, widest_truth(evaluate, error, predictions, np.random.default_rng(seeds[1]))
    usual, errors = null, [error, error]
    if isinstance(error, SignedError):
        C = number_of(predictions.units)
        fitted = error.residuals_about(smooth, (C / (C - 1)) ** 0.5)
        wider = error.residuals_about(smooth, widening(predictions, level))
        usual = fitted.simulate(to_array(P), NULL_SETS, null_seed)
        errors = [error.with_reference(P, smooth), wider.with_reference(P, ends[1])]
    paths = [
        simulate_path(error, predictions, Q, seed, observed, null, n_jobs)
        for error, Q, seed in zip(errors, ends, seeds, strict=True)
    ]
    # A calibration error of the predictions is smallest if labels follow the predicted
    # probabilities P. If labels follow other probabilities Q, the error must not be smaller.
    falls = (second.error < first.error - ROUNDING for path in paths for first, second, *_ in path)
    if not evaluate.is_error and any(falls):
        raise ValueError(message)
    intervals = [
        combine([invert(points, x, level) for points in both])
        for x, *both in zip(observed, *paths, strict=True)
    ]
    parts = np.array([[end.middle, end.low, end.high] for end in intervals]).T
    chance = (1 + (null.values >= observed).sum(axis=0)) / (1 + NULL_SETS)
    expected = np.maximum(usual.values, 0.0).mean(axis=0)
    return CalibrationInterval(*(_like(x, estimate) for x in (estimate, *parts, expected, chance)))


def widest_truth(
    evaluate: Evaluation, error: LabelError, predictions: Predictions, random: np.random.Generator
) -> FloatArray:
    """Return assumed true probabilities for which errors vary more than for calibrated ones.

    The odds of the top label or of the event are lower than predicted in all rows. For class-wise
    errors of many classes, the odds of half of the classes are lower.
    """
    of_rows = isinstance(error, CellError) and error.cells.rows is not None
    if of_rows or predictions.P.shape[1] <= FEW_CLASSES:
        return overconfident_truth(predictions.P, evaluate.measured(predictions).event)
    return shifted_classes(predictions.P, random)


def simulate_path(
    error: LabelError,
    predictions: Predictions,
    Q: FloatArray,
    seed: np.random.SeedSequence,
    observed: Float64Array,
    null: Simulated,
    n_jobs: int | None,
) -> list[list[TruthPoint]]:
    """Simulate errors for assumed probabilities on the path from P to Q and beyond Q.

    `observed` is the error of the data, `null` the simulation with labels drawn from P.
    """
    P, seeds = predictions.P, seed.spawn(1 + MANY_TRUTHS)
    q = truth_on_path(P, Q, 1.0)
    one = error.simulate(q, Q_SETS, seeds[0])
    without = error.limits_without(q, random_groups(predictions.units))
    variance, excess = jackknife_variance(without), np.zeros(observed.size)
    if error.has_excess:
        excess = excess_of_few_rows(without, one.limits)
    path = [[TruthPoint(e, 0.0, null.values[:, j])] for j, e in enumerate(null.limits)]
    for j, e in enumerate(one.limits * (1.0 - excess)):
        path[j].append(TruthPoint(e, variance[j], one.values[:, j]))
    ranges = [search_range(x, *two) for x, two in zip(observed, path, strict=True)]
    truths = choose_truths(
        lambda t: error.limits(truth_on_path(P, Q, t)), null.limits, one.limits, ranges
    )
    simulations = Parallel(n_jobs=n_jobs, return_as="generator")(
        delayed(simulate_at)(error, P, Q, t, own_seed)
        for t, own_seed in zip(truths, seeds[1:], strict=False)
    )
    relative = variance / np.maximum(one.limits, ROUNDING) ** 2
    for drawn in simulations:
        variance = relative * drawn.limits**2
        for j, e in enumerate(drawn.limits * (1.0 - excess)):
            path[j].append(TruthPoint(e, variance[j], drawn.values[:, j]))
    return path


def simulate_at(
    error: LabelError, P: Source, Q: FloatArray, t: float, seed: np.random.SeedSequence
) -> Simulated:
    """Simulate an error with labels drawn from the probabilities at position t of a path."""
    return error.simulate(truth_on_path(P, Q, t), SETS, seed)


def choose_truths(
    limit: Callable[[float], Float64Array],
    null: Float64Array,
    one: Float64Array,
    ranges: list[tuple[float, float]],
) -> Float64Array:
    """Choose positions t on a path such that the true errors are spread evenly over ranges."""
    tried, limits = [0.0, 1.0], [null, one]
    high = np.array([end for _, end in ranges])
    for t in TRIED:
        if (limits[-1] >= high).all():
            break
        tried.append(float(t))
        limits.append(limit(t))
    table = np.maximum.accumulate(np.array(limits), axis=0)
    places = []
    for column, (start, end) in zip(table.T, ranges, strict=True):
        e = np.linspace(start, max(start, min(end, float(column[-1]))), SPREAD)
        # The interpolation needs errors that increase along the sequence of assumed true
        # probabilities, so a tiny slope is added in case they are constant.
        places.append(np.interp(e, column + 1e-12 * np.arange(len(column)), tried))
    spread = np.sort(np.concatenate(places))
    number = TRUTHS if len(ranges) == 1 else MANY_TRUTHS
    chosen = np.unique(spread[np.linspace(0, spread.size - 1, number).round().astype(np.intp)])
    return chosen[chosen > 0]


def combine(ends: list[Ends]) -> Ends:
    """Return the smallest interval that contains the intervals from several simulation paths.

    A path whose simulated errors are all smaller than the observed error is ignored, unless every
    path is like that.
    """
    counted = [end for end in ends if not end.empty] or ends
    low, middle, high, _ = zip(*counted, strict=True)
    return Ends(min(low), middle[0], max(high))


def _like(numbers: Any, estimate: Any) -> Any:
    """Convert numbers to the shape of a metric's value: an array or, for one number, a float."""
    numbers = np.reshape(numbers, estimate.shape)
    return numbers if numbers.ndim else float(numbers)


# The public function for confidence intervals of calibration errors.


@listed("this package; Broecker and Smith 2007")
def calibration_interval(
    metric: Callable[..., Any],
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    confidence_level: float = 0.95,
    pos_label: Any = None,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    clusters: Any = None,
    random_state: Any = None,
    n_jobs: int | None = None,
    **keywords: Any,
) -> CalibrationInterval:
    r"""Confidence interval of a calibration error, and the debiased error.

    The interval is for the limit :math:`\theta` of the metric with unlimited data. With few rows,
    the metric has a small-sample bias, which is largest for class-wise errors of good models. So an
    interval around the metric, such as that of `bootstrap_interval`, is often above the limit.
    Instead, labels are drawn from many possible truths q on paths,

    .. math:: q_t = P + t (Q - P), \quad 0 \le t \le 1, \qquad
              q_t \propto Q \exp\big((t - 1) \log (Q / P)\big), \quad t > 1.

    On the first path, Q contains probabilities calibrated by :class:`skcalib.AutoCalibrator`. On
    the second path, Q contains probabilities with lower odds of the top label, or of the event, in
    all rows. For class-wise errors of more than ten classes, it has lower odds of half of the
    classes. The interval with confidence level c is the range, over both paths, of the errors
    :math:`\theta(q_t)` that agree with the metric of the data by a test at each t:

    .. math:: \{\theta(q_t) : F_t^{-1}(\tfrac{1 - c}{2}) \le \theta(y, P)
              \le F_t^{-1}(\tfrac{1 + c}{2})\}

    where :math:`F_t` is the distribution of the metric over labels drawn from :math:`q_t`, widened
    by the variance over samples of rows. Bins with few rows make :math:`\theta(q_t)` too large, and
    a jackknife corrects it.

    Parameters
    ----------
    metric : callable
        ``metric(y_true, y_proba, ...)``, a calibration error: any of this package, your own, or one
        with keywords fixed by `functools.partial`. `labels` and ``sample_weight`` are passed if the
        metric has these parameters; without ``sample_weight``, rows are repeated.
    y_true : array-like of shape (n,)
        Labels.
    y_proba : array-like of shape (n, K), (n,) or (n, 1)
        Class probabilities, with a column for each of the sorted labels, or of `labels` in their
        order. Columns of a frame that are named after the labels are read by name. One or two
        columns give the probability of the event `pos_label`, which is measured.
        The classifier must not have been fitted on these rows.
    confidence_level : float in (0, 1), default=0.95
        Proportion of repeated samples in which the interval contains the true value.
    pos_label : label, default=None
        Label of the event whose probability is measured. It is also passed to `metric` if `metric`
        has this parameter. None means 1 or True for labels {0, 1}, {-1, 1} or booleans. For other
        labels, None means the second of two columns, and one column needs `pos_label`.
    sample_weight : array-like of shape (n,), default=None
        Non-negative weights. Integers are counts: 2 is two copies of the row. Of floats only the
        ratios matter (see "Weights" under "Valid input" in the user guide). 0 is the row's absence.
        Each copy gets a label of its own.
    labels : array-like of shape (K,), default=None
        Labels of the columns, in their order; needed if they cannot be inferred from `y_true`.
    clusters : array-like of shape (n,), default=None
        Cluster of each row, such as the hospital of a patient, if rows of one cluster are
        dependent. At least 6 clusters are needed; see "Dependent rows" in the user guide. None
        means that rows are independent.
    random_state : int, RandomState instance or None, default=None
        Seed of the labels. Results do not depend on `n_jobs`. With the same integer,
        `compare_calibrators`, `calibration_by_group` and the command line return the same numbers
        for the same rows.
    n_jobs : int, default=None
        Number of processes, as in joblib.
    **keywords : object
        Keywords of `metric`, such as ``n_bins=10``.

    Returns
    -------
    interval : CalibrationInterval
        Named tuple ``(estimate, debiased, low, high, expected_if_calibrated, p_value)``. `estimate`
        is the metric on the data. `debiased` is the true error for which `estimate` would be the
        median, so that it is too large as often as too small. `low` and `high` are the ends of the
        interval. `expected_if_calibrated` is the mean of the metric of a calibrated model with
        these probabilities. `p_value` is that of the hypothesis that the probabilities are
        calibrated, at least 1/301. Each is a float, or an array if the metric returns an array
        (``average=None``).

    Raises
    ------
    ValueError
        If probabilities, labels, weights, clusters or keywords are invalid, if weights are floats
        and the metric has no ``sample_weight``, or if the metric is not a calibration error (such
        as log loss, which may be smaller for wrong probabilities). With `clusters`, also if the
        metric is not a calibration error of this package.
    TypeError
        If `metric` is not callable.

    See Also
    --------
    bootstrap_interval : Interval of any metric, also of proper scores.
    calibration_test : The p-value alone, with any number of sets of labels.

    Notes
    -----
    Binned errors, the KS error, the debiased error and the smooth error take half a second for
    n = 10,000 and K = 10. Other metrics are called about 1,700 times. With more than 100 classes, Q
    is the result of temperature scaling.

    With at least 10,000 rows of equal weight, the number of correct predictions, or of events, in
    each bin is drawn instead of single labels, with the same mean and variance.

    With `clusters`, no labels are drawn. Instead, the residuals of each cluster about :math:`q_t`
    get a random sign. So the dependence within clusters is that of the data (Cameron, Gelbach and
    Miller 2008; Canay, Santos and Shaikh 2021). Intervals with 10 clusters are wide.

    The true value of the debiased error is the l2 error with the same bins. If `low` is 0, the data
    are consistent with calibrated probabilities. If `high` is 0, the metric is smaller than that of
    97.5 % of calibrated models.

    The coverage is approximate, because it depends on the true probabilities. ``python -m
    benchmarks.coverage`` measures it, with tables under "How often intervals cover".

    References
    ----------
    Broecker, Smith (2007). Increasing the Reliability of Reliability Diagrams. Weather and
    Forecasting 22.

    Cameron, Gelbach, Miller (2008). Bootstrap-Based Improvements for Inference with Clustered
    Errors. Review of Economics and Statistics 90.

    Canay, Santos, Shaikh (2021). The Wild Bootstrap with a "Small" Number of "Large" Clusters.
    Review of Economics and Statistics 103.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib.metrics import calibration_interval, static_calibration_error
    >>> rng = np.random.default_rng(0)
    >>> p = rng.random(1000)
    >>> y = rng.random(1000) < p
    >>> interval = calibration_interval(static_calibration_error, y, p, random_state=0)
    >>> interval.low, round(interval.expected_if_calibrated, 2)
    (0.0, 0.04)
    >>> interval = calibration_interval(static_calibration_error, y, p**2, random_state=0)
    >>> bool(interval.low < 1 / 6 < interval.high)
    True
    """
    check_level(confidence_level)
    name = "calibration_interval"
    evaluate, predictions, _ = prepare(
        metric, keywords, y_true, y_proba, sample_weight, labels, pos_label, name, clusters
    )
    check_enough(predictions.n_clusters)
    interval = interval_of(
        evaluate, predictions, level=confidence_level, random_state=random_state, n_jobs=n_jobs
    )
    interval = make_result(CalibrationInterval, interval, evaluate, predictions)
    interval._printed = name_of(evaluate.metric).replace("_", " "), confidence_level
    return add_note(interval, predictions.n_clusters, confidence_level)
