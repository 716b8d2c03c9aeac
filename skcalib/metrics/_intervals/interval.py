"""The interval of an error: simulations along paths of truths, and their inversion."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
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
from skcalib.metrics._common import SCORED, add_note, listed, number_of, printable, widening
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

# Which errors are functions of the hits of cells, and how each of them is made one.


Keywords = dict[str, Any]
BINS = ("n_bins", "strategy", "closed", "quantile_method")
# With more distinct scores, the KS error looks at its curve at this many places.
MANY_RANKS, JOINED_RANKS = 1 << 17, 1 << 14
# The same where the hits of cells are drawn, not labels, and of clusters.
DRAWN_RANKS, SIGNED_RANKS = 1 << 9, 1 << 8


def label_error(evaluate: Evaluation, predictions: Predictions) -> LabelError:
    """Return a metric as a function of the labels of these predictions."""
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
            "clusters= is for calibration errors of skcalib, with bins that do not split ties, not "
            f"for {name}: use bootstrap_interval."
        )
    return AnyError(evaluate, predictions, is_known and name == "sweep_calibration_error")


def binned(predictions: Predictions, keywords: Keywords, **reduction: Any) -> CellError | None:
    """Return a binned error; `reduction` as in `bin_predictions`."""
    average = keywords.get("average", "macro")
    weighting = keywords.get("class_weight", "uniform"), keywords.get("bin_weight", "count")

    def error_of_table(H: Float64Array, S: Float64Array, W: Float64Array) -> Float64Array:
        total, errors = norm_of_gaps(quotient(H - S, W), W, keywords["norm"], *weighting)
        return total[..., None] if average == "macro" else errors

    return _error_by_bins(predictions, keywords, error_of_table, **reduction)


def debiased(predictions: Predictions, keywords: Keywords) -> CellError | None:
    """Return the signed root of the debiased square: the debiased error where it is above 0.

    Its limit is the plain l2 error.
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
    """Return TACE; the first version cuts its bins in a way of its own and is left to calls."""
    if keywords["version"] == 1:
        return None
    keywords = {**keywords, "bin_weight": keywords["bin_weight"] or "count"}
    return binned(predictions, keywords, **EACH, threshold=keywords["threshold"])


def general(predictions: Predictions, keywords: Keywords) -> CellError | None:
    """Return the general error."""
    names = ("max_prob", "class_conditional", "threshold")
    return binned(predictions, keywords, **{name: keywords[name] for name in names})


def cumulative(predictions: Predictions, keywords: Keywords) -> CellError:
    """Return the KS error: a cell for each distinct score."""
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
    """Return the class of each row that is a hit, or whether each class is ``(n, K)``."""
    # Stable, so that equal probabilities are ranked by column.
    order = np.argsort(-P.read(slice(None)), axis=1, kind="stable")
    if mode != "within_top":
        return order[:, r - 1]
    member = np.zeros(P.shape, dtype=bool)
    np.put_along_axis(member, order[:, :r], True, axis=1)
    return member


def _ranks(score: FloatArray, most: int | None) -> tuple[Intp, int]:
    """Return the rank of each score among the distinct ones, from 0, and their number.

    More than `most`, or very many, are joined, a few neighbours at a time.
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
    """Return an error by bins; None where bins split tied rows, which have no bin of their own.

    Scores up to the threshold, if there is one, are in bin B, which is left out.
    """
    bins = check_bins(**{name: keywords[name] for name in BINS if name in keywords})
    bins = bins.resolve(predictions.w)
    if bins.method == "rank":
        return None
    if keywords.get("average", "macro") is None:  # each class, though one may be the event
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
    else:  # the bins of each top class
        index = np.empty(w.size, dtype=np.intp)
        for j in np.unique(rows.hit):
            of_class = rows.hit == j
            index[of_class] = j * (B + 1) + find(rows.score[of_class], j)
    return CellError(cells_of_rows(rows, index, (m, B)), error_of_table, limit_of_table)


# By name; a metric that is not here is called for each set of labels.
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


# The interval of an error, from simulations along a path of truths.
#
# On the path the error of the truth is e. Where the truth has error e, the metric of drawn labels
# has mean m(e) and standard deviation S(e), the part of the rows included, and its standardised
# distribution has quantiles z(e). The interval is the set of e for which the metric T of the data
# lies between the quantiles,
#
# .. math:: m(e) + z_{\alpha/2}(e)\, S(e) \le T \le m(e) + (z_{1 - \alpha/2}(e) + 0.1)\, S(e),
#
# and the debiased estimate is the e at which T is the median. The 0.1 is for the chance in the
# simulation, which the other end does not need: it is the higher one of two paths.
#
# Quantiles are those of Cornish and Fisher, with skewness g and excess kurtosis k, which are linear
# in e. They use all sets of labels of a path, where sample quantiles would use those of a few
# truths. With z the normal quantile,
#
# .. math:: z(e) = z + \frac{z^2 - 1}{6} g + \frac{z^3 - 3 z}{24} k - \frac{2 z^3 - 5 z}{36} g^2 .


# Lowers the low end, in standard deviations.
MARGIN = 0.1
# Quantiles of Cornish and Fisher are far from those of distributions with larger ones.
LARGEST_SKEWNESS, KURTOSES = 1.5, (-1.0, 4.0)
# The range of e goes this many standard deviations beyond the metric; fits use points within this
# share of the range beyond its ends, and at least so many.
FAR, BEYOND, FEWEST = 5.0, 0.25, 6
# Values of e at which the curves are compared with the metric.
FINE = 401
TINY = 1e-12


@dataclass(frozen=True)
class TruthPoint:
    """Simulations at one truth: its error, the variance that rows add, and the metric of labels."""

    error: float
    row_variance: float
    values: Float64Array

    @cached_property
    def mean(self) -> float:
        """Mean over the sets of labels."""
        return float(self.values.mean())

    @cached_property
    def sd(self) -> float:
        """Standard deviation over the sets of labels."""
        return float(self.values.std(ddof=1))

    @cached_property
    def moments(self) -> tuple[float, float]:
        """Skewness and excess kurtosis over the sets of labels."""
        z = (self.values - self.mean) / max(self.sd, TINY)
        return float((z**3).mean()), float((z**4).mean()) - 3.0


class Ends(NamedTuple):
    """The ends of an interval, and the error at which the metric is the median.

    `empty`: no truth of the path shows as large an error as the data do.
    """

    low: float
    middle: float
    high: float
    empty: bool = False


def search_range(observed: float, null: TruthPoint, one: TruthPoint) -> tuple[float, float]:
    """Return the range in which the error may lie; the mean of the metric is at least its limit."""
    s = max(null.sd, float(np.sqrt(one.sd**2 + one.row_variance)), TINY)
    return max(0.0, observed - max(null.mean, 0.0) - FAR * s), observed + FAR * s


def invert(points: list[TruthPoint], observed: float, level: float) -> Ends:
    """Return the interval of the error; the first point is that of e = 0, the second of Q."""
    alpha = (1 - level) / 2
    null = points[0]
    low, high = search_range(observed, null, points[1])
    error = np.array([point.error for point in points])
    pad = BEYOND * (high - low)
    # Truths may be far apart: with the next one above, the interval does not end at the last below.
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
    """Return the quantiles where the normal distribution has the quantile z."""
    g = np.clip(skewness, -LARGEST_SKEWNESS, LARGEST_SKEWNESS)
    k = np.clip(kurtosis, *KURTOSES)
    return np.asarray(
        z + (z**2 - 1) * g / 6 + (z**3 - 3 * z) * k / 24 - (2 * z**3 - 5 * z) * g**2 / 36
    )


def _fit(x: Float64Array, y: Float64Array, degree: int, weight: Float64Array) -> Float64Array:
    """Return the coefficients of a least-squares polynomial, of as many degrees as points allow.

    Values of x lie between 0 and 1; the closest ones are one to a polynomial.
    """
    distinct = np.unique(x.round(6)).size
    return np.asarray(np.polyfit(x, y, max(0, min(degree, distinct - 2)), w=weight))


# The interval of an error, from labels drawn from truths on two paths.


# Sets of labels: drawn from the predictions, from Q, and from each further truth.
NULL_SETS, Q_SETS, SETS = 300, 150, 75
# Truths of a path of a metric of one number, and of several.
TRUTHS, MANY_TRUTHS = 8, 12
# Factors beyond Q at which the error is tried.
TRIED = (1.5, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 256, 512)
# Values of e between which the truths of a path are spread.
SPREAD = 12
# With more classes, a calibrator leaves most of the errors of single classes as they are.
FEW_CLASSES = 10
# An error below this is rounding.
ROUNDING = 1e-6


# The debiased value stands beside the interval, which may lie below the estimate.
@printable(
    *("debiased", "low", "high", "estimate", "expected_if_calibrated", "p_value"),
    smallest=1 / (1 + NULL_SETS),
)
class CalibrationInterval(NamedTuple):
    """What `calibration_interval` returns."""

    estimate: Any
    debiased: Any
    low: Any
    high: Any
    expected_if_calibrated: Any
    p_value: Any


def interval_of(
    evaluate: Evaluation,
    predictions: Predictions,
    *,
    level: float = 0.95,
    random_state: Any = None,
    n_jobs: int | None = None,
    smooth: FloatArray | None = None,
) -> CalibrationInterval:
    """Return the interval of a metric; `smooth` is the result of `calibrated`, where it is known.

    A metric that is smaller where labels do not follow the predictions is not a calibration error,
    and refused. Of few clusters all numbers but the estimate are NaN.
    """
    message = (
        f"metric {name_of(evaluate.metric)} may be smaller where labels do not follow the "
        "probabilities, so it is not a calibration error: use bootstrap_interval for it."
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
    # Smaller at Q than where labels follow the predictions?
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
    """Return a truth on the way to which errors vary most, and are small by chance most often.

    That is where all odds of the class that counts are too high. Where each of many classes counts,
    the odds of half of them are.
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
    """Return the simulations along the path to Q and beyond, a list for each number.

    `observed` is the error of the data, `null` those if labels follow the predictions.
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
    """Simulate an error at one truth of a path."""
    return error.simulate(truth_on_path(P, Q, t), SETS, seed)


def choose_truths(
    limit: Callable[[float], Float64Array],
    null: Float64Array,
    one: Float64Array,
    ranges: list[tuple[float, float]],
) -> Float64Array:
    """Return the t of truths whose errors are evenly spread over the ranges of all numbers."""
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
        # The smallest slope makes the errors distinct where they do not change along the path.
        places.append(np.interp(e, column + 1e-12 * np.arange(len(column)), tried))
    spread = np.sort(np.concatenate(places))
    number = TRUTHS if len(ranges) == 1 else MANY_TRUTHS
    chosen = np.unique(spread[np.linspace(0, spread.size - 1, number).round().astype(np.intp)])
    return chosen[chosen > 0]


def combine(ends: list[Ends]) -> Ends:
    """Return the hull of the intervals of all paths, and the estimate of the first.

    A path whose truths show smaller errors than the data counts only if all do.
    """
    counted = [end for end in ends if not end.empty] or ends
    low, middle, high, _ = zip(*counted, strict=True)
    return Ends(min(low), middle[0], max(high))


def _like(numbers: Any, estimate: Any) -> Any:
    """Return a float where the metric is one, else an array of its shape."""
    numbers = np.reshape(numbers, estimate.shape)
    return numbers if numbers.ndim else float(numbers)


# Confidence intervals of calibration errors.


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

    The interval is of the limit :math:`\theta` of the metric as rows of the same source are added.
    With few rows the metric is larger than this limit, because chance adds to it, most for
    class-wise errors of good models. So an interval around the metric, such as that of
    `bootstrap_interval`, often lies above the limit. Here labels are drawn from many possible
    truths q on paths,

    .. math:: q_t = P + t (Q - P), \quad 0 \le t \le 1, \qquad
              q_t \propto Q \exp\big((t - 1) \log (Q / P)\big), \quad t > 1,

    Q being the calibrated probabilities, by :class:`skcalib.AutoCalibrator`, or, on a second path,
    ones whose top odds, or those of the event, are lower in all rows; for class-wise errors of more
    than ten classes, ones with lower odds of half of the classes. The interval with confidence
    c reaches from the lowest to the highest error :math:`\theta(q_t)` of both paths that agrees
    with the metric of the data, by a test at each t:

    .. math:: \{\theta(q_t) : F_t^{-1}(\tfrac{1 - c}{2}) \le \theta(y, P)
              \le F_t^{-1}(\tfrac{1 + c}{2})\}

    with :math:`F_t` the distribution of the metric over labels drawn from :math:`q_t`, widened by
    what the choice of the rows adds. Bins of few rows make :math:`\theta(q_t)` too large: the
    jackknife estimates by how much.

    Parameters
    ----------
    metric : callable
        ``metric(y_true, y_proba, ...)``, a calibration error: any of this package, your own, or one
        with keywords fixed by `functools.partial`. It gets `labels` if it takes them, and
        ``sample_weight`` if it takes that, else repeated rows.
    y_true : array-like of shape (n,)
        Labels.
    y_proba : array-like of shape (n, K), (n,) or (n, 1)
        Class probabilities, a column for each of the sorted labels, or of `labels` in their
        order; a frame whose columns are named by the labels is read by name. One or two columns
        give the probability of one event, `pos_label`, and are measured as that.
        The classifier must not have been fitted on these rows.
    confidence_level : float in (0, 1), default=0.95
        Share of intervals that contain the true value, in the long run.
    pos_label : label, default=None
        The event whose probability is measured; also passed to `metric` if it takes it. None means
        1 or True for labels {0, 1}, {-1, 1} or booleans; of other labels the second of two columns,
        while one column needs it.
    sample_weight : array-like of shape (n,), default=None
        Non-negative weights. Integers are counts: 2 is two copies of the row. Of floats only the
        ratios matter (see "Weights" under "Valid input" in the user guide). 0 is the row's absence.
        Each copy gets a label of its own.
    labels : array-like of shape (K,), default=None
        Labels of the columns, in their order; needed if they cannot be inferred from `y_true`.
    clusters : array-like of shape (n,), default=None
        Label of each row's cluster, such as the hospital of a patient: rows of a cluster were drawn
        together, and may go wrong together. At least 6; see "Rows that belong together" in the user
        guide. None means that rows are independent.
    random_state : int, RandomState instance or None, default=None
        Seed of the labels; the same for any `n_jobs`. With an integer, `compare_calibrators`,
        `calibration_by_group` and the command line give the same numbers of the same rows.
    n_jobs : int, default=None
        Processes that share the truths, as in joblib.
    **keywords : object
        Passed on to `metric`, such as ``n_bins=10``.

    Returns
    -------
    interval : CalibrationInterval
        Named tuple ``(estimate, debiased, low, high, expected_if_calibrated, p_value)``: the metric
        on the data; the error of which the metric is the median, as often too large as too small;
        the ends of the interval; the mean of the metric of a calibrated model with these
        probabilities; and the p-value of "these probabilities are calibrated", at least 1/301. Each
        is a float, or an array where the metric returns one (``average=None``).

    Raises
    ------
    ValueError
        If probabilities, labels, weights, clusters or keywords are invalid, weights are floats and
        the metric takes none, or the metric is not a calibration error: it is smaller
        where the probabilities are wrong, as a log loss may be. With `clusters`, also if it is not
        a calibration error of this package.
    TypeError
        If `metric` is not callable.

    See Also
    --------
    bootstrap_interval : Any metric, proper scores too.
    calibration_test : The p-value alone, with as many sets of labels as you like.

    Notes
    -----
    Binned errors, KS, the debiased and the smooth error take half a second for n = 10,000 and
    K = 10; other metrics are called some 1,700 times. Above 100 classes Q is the result of
    temperature scaling.

    Of 10,000 rows of equal weight and more, the hits of bins of one event or of the top label are
    drawn, as sums with the mean and the variance of those of the rows, in place of labels.

    With `clusters`, no labels are drawn. What the labels of a cluster add to the sums of bins, less
    what :math:`q_t` expects, gets a random sign, so that the dependence within clusters is that of
    the data (Cameron, Gelbach and Miller 2008; Canay, Santos and Shaikh 2021). Intervals of 10
    clusters are wide.

    The true value of the debiased error is the l2 error with the same bins. A low end of 0 means
    that the data are in agreement with calibrated probabilities; a high end of 0 means that the
    metric is smaller than that of 97.5 % of calibrated models.

    The coverage is approximate: it depends on the true probabilities. It is measured by ``python -m
    benchmarks.coverage``, with tables under "How often intervals cover".

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
    return add_note(interval, predictions.n_clusters, confidence_level)
