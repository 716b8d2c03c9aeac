"""The interval of an error, from labels drawn from truths on two paths."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed

from skcalib._arrays.source import Source, to_array
from skcalib._arrays.types import Float64Array, FloatArray
from skcalib._validation.keywords import spawn_seeds
from skcalib._validation.predictions import Predictions
from skcalib.metrics._clusters import number_of, widening
from skcalib.metrics._intervals.cells import CellError
from skcalib.metrics._intervals.errors import label_error
from skcalib.metrics._intervals.inversion import Ends, Point, invert, search_range
from skcalib.metrics._intervals.jackknife import (
    excess_of_few_rows,
    jackknife_variance,
    random_groups,
)
from skcalib.metrics._intervals.label_error import LabelError, Simulated
from skcalib.metrics._intervals.signs import SignedError, too_few
from skcalib.metrics._intervals.truths import calibrated, on_path, shifted_classes, too_high
from skcalib.metrics._printing import printed
from skcalib.metrics._resampling import Evaluation, in_copies, name_of

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
@printed(
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
    if evaluate.own and not evaluate.is_error:
        raise ValueError(message)
    predictions = in_copies(predictions)
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
        C, larger = number_of(predictions.units), widening(predictions, level)
        fitted = error.residuals_about(smooth, (C / (C - 1)) ** 0.5)
        usual = fitted.simulate(to_array(P), NULL_SETS, null_seed)
        errors = [error.along(P, smooth), error.residuals_about(smooth, larger).along(P, ends[1])]
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
    numbers = (estimate, *parts, expected, chance)
    return CalibrationInterval(*(_like(x, estimate) for x in numbers))


def widest_truth(
    evaluate: Evaluation, error: LabelError, predictions: Predictions, random: np.random.Generator
) -> FloatArray:
    """Return a truth on the way to which errors vary most, and are small by chance most often.

    That is where all odds of the class that counts are too high. Where each of many classes counts,
    the odds of half of them are.
    """
    of_rows = isinstance(error, CellError) and error.cells.rows is not None
    if of_rows or predictions.P.shape[1] <= FEW_CLASSES:
        return too_high(predictions.P, evaluate.measured(predictions).event)
    return shifted_classes(predictions.P, random)


def simulate_path(
    error: LabelError,
    predictions: Predictions,
    Q: FloatArray,
    seed: np.random.SeedSequence,
    observed: Float64Array,
    null: Simulated,
    n_jobs: int | None,
) -> list[list[Point]]:
    """Return the simulations along the path to Q and beyond, a list for each number.

    `observed` is the error of the data, `null` those if labels follow the predictions.
    """
    P, seeds = predictions.P, seed.spawn(1 + MANY_TRUTHS)
    q = on_path(P, Q, 1.0)
    one = error.simulate(q, Q_SETS, seeds[0])
    without = error.limits_without(q, random_groups(predictions.units))
    variance, excess = jackknife_variance(without), np.zeros(observed.size)
    if error.has_excess:
        excess = excess_of_few_rows(without, one.limits)
    path = [
        [Point(null.limits[j], 0.0, null.values[:, j]), Point(e, variance[j], one.values[:, j])]
        for j, e in enumerate(one.limits * (1.0 - excess))
    ]
    ranges = [search_range(x, *two) for x, two in zip(observed, path, strict=True)]
    truths = choose_truths(
        lambda t: error.limits(on_path(P, Q, t)), null.limits, one.limits, ranges
    )
    simulations = Parallel(n_jobs=n_jobs, return_as="generator")(
        delayed(simulate_at)(error, P, Q, t, own_seed)
        for t, own_seed in zip(truths, seeds[1:], strict=False)
    )
    relative = variance / np.maximum(one.limits, ROUNDING) ** 2
    for drawn in simulations:
        variance = relative * drawn.limits**2
        for j, e in enumerate(drawn.limits * (1.0 - excess)):
            path[j].append(Point(e, variance[j], drawn.values[:, j]))
    return path


def simulate_at(
    error: LabelError, P: Source, Q: FloatArray, t: float, seed: np.random.SeedSequence
) -> Simulated:
    """Simulate an error at one truth of a path."""
    return error.simulate(on_path(P, Q, t), SETS, seed)


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
