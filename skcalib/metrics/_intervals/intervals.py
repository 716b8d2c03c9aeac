"""Intervals of metrics of the same predictions, each as if it were the only one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed

from skcalib._arrays.source import to_array
from skcalib._arrays.types import Float64Array, FloatArray
from skcalib._validation.keywords import check_seed
from skcalib._validation.predictions import Predictions
from skcalib.metrics._intervals.any_metric import take_every
from skcalib.metrics._intervals.cells import CellError
from skcalib.metrics._intervals.errors import LabelError, label_errors
from skcalib.metrics._intervals.inversion import Ends, Point, invert, search_range
from skcalib.metrics._intervals.jackknife import (
    excess_of_few_rows,
    jackknife_variance,
    limits_without,
)
from skcalib.metrics._intervals.label_sets import Draw, LabelSets, Truth, every_of, sets_at_once
from skcalib.metrics._intervals.score_cells import ScoreCells, ScoredRows
from skcalib.metrics._intervals.truths import (
    calibrated,
    draw_codes,
    on_path,
    shifted_classes,
    too_high,
)
from skcalib.metrics._printing import shown
from skcalib.metrics._resampling import Evaluation, in_copies

# Sets of labels: drawn from the predictions, from Q, and from each further truth.
NULL_SETS, Q_SETS, SETS = 300, 150, 75
# Truths of a path of a metric of one number, and of several.
TRUTHS, MANY_TRUTHS = 8, 12
# Factors beyond Q at which the error is tried.
TRIED = (1.5, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 256, 512)
# With more entries, the truths are chosen on a subset of the rows of this many.
SCOUTED_ENTRIES, FEWEST_ROWS = 1 << 21, 1000
# Values of e between which the truths of a path are spread.
SPREAD = 12
# With more classes, a calibrator leaves most of the errors of single classes as they are.
FEW_CLASSES = 10
# An error below this is rounding.
ROUNDING = 1e-6
# Sets of labels of an interval of one number.
ALL_SETS = NULL_SETS + 2 * (Q_SETS + TRUTHS * SETS)

# Called with the number of sets of labels drawn since the last call.
Report = Callable[[float], None]


class CalibrationInterval(NamedTuple):
    """What `calibration_interval` returns."""

    estimate: Any
    debiased: Any
    low: Any
    high: Any
    expected_if_calibrated: Any
    p_value: Any

    def __repr__(self) -> str:
        # The debiased value stands beside the interval, which may lie below the estimate.
        names = ("debiased", "low", "high", "estimate", "expected_if_calibrated", "p_value")
        parts = [f"{name}{shown(getattr(self, name))}" for name in names]
        parts[-1] = f"p_value{shown(self.p_value, 1 / (1 + NULL_SETS))}"
        return f"CalibrationInterval({', '.join(parts)})"


@dataclass(frozen=True)
class Simulated:
    """An error of m numbers at one truth: limits ``(m,)``, and values ``(R, m)`` of label sets."""

    limits: Float64Array
    values: Float64Array

    def point(self, j: int, row_variance: float, excess: float = 0.0) -> Point:
        """Return the simulations of one number, of which a share is due to few rows."""
        return Point(float(self.limits[j]) * (1.0 - excess), row_variance, self.values[:, j])


def simulate(
    errors: list[LabelError],
    q: FloatArray,
    n_sets: int,
    seed: np.random.SeedSequence,
    same_labels: bool = False,
) -> list[Simulated]:
    """Measure labels drawn from a truth, or hits of cells or rows where these are enough.

    The result of an error does not depend on the others: what is drawn depends on the seed alone.
    With `same_labels`, labels are drawn, which the seed makes the same for all predictions.
    """
    draw = Draw(q, every_of(len(q)))
    values: list[list[Float64Array]] = [[] for _ in errors]
    by_rows: dict[ScoredRows | None, list[int]] = {}
    for j, error in enumerate(errors):
        if isinstance(error, CellError) and error.draws and not same_labels:
            values[j].append(error.drawn(draw.truth, n_sets, np.random.default_rng(seed)))
        else:
            by_rows.setdefault(None if same_labels else rows_of(error), []).append(j)
    for rows, members in by_rows.items():
        sets = drawn_labels(draw, n_sets, seed) if rows is None else rows.drawn(draw, n_sets, seed)
        for labels in sets:
            for j in members:
                values[j].append(errors[j].values(draw, labels))
    return [
        Simulated(error.limits(draw.truth), np.concatenate(parts))
        for error, parts in zip(errors, values, strict=True)
    ]


def drawn_labels(draw: Draw, n_sets: int, seed: np.random.SeedSequence) -> Iterator[LabelSets]:
    """Yield some sets of labels at a time."""
    codes = draw_codes(draw.part.q, n_sets, seed)
    step = sets_at_once(codes.shape[1])
    for start in range(0, n_sets, step):
        yield LabelSets(codes[start : start + step])


def rows_of(error: LabelError) -> ScoredRows | None:
    """Return the rows whose hits are all that the error needs, or None."""
    cells = error.cells if isinstance(error, CellError) else None
    return cells.rows if isinstance(cells, ScoreCells) else None


def observed_of(errors: list[LabelError], predictions: Predictions) -> list[Float64Array]:
    """Return each error ``(m,)`` of the labels of the data."""
    labels = LabelSets(predictions.code[None])
    return [error.observed(labels) for error in errors]


class Measured(NamedTuple):
    """A metric of predictions: what it is of the data, and if labels follow the predictions.

    ``event``: the column of the event that the metric measures, None if there is none.
    """

    evaluate: Evaluation
    error: LabelError
    event: int | None
    observed: Float64Array
    null: Simulated


def choose_truths(
    limit: Callable[[float], Float64Array],
    null: Float64Array,
    one: Float64Array,
    ranges: list[tuple[float, float]],
) -> Float64Array:
    """Return the t of truths whose errors are evenly spread over the ranges of all numbers."""
    tried, found = [0.0, 1.0], [null, one]
    high = np.array([end for _, end in ranges])
    for t in TRIED:
        if (found[-1] >= high).all():
            break
        tried.append(float(t))
        found.append(limit(t))
    table = np.maximum.accumulate(np.array(found), axis=0)
    wanted = []
    for column, (start, end) in zip(table.T, ranges, strict=True):
        e = np.linspace(start, max(start, min(end, float(column[-1]))), SPREAD)
        # The smallest slope makes the errors distinct where they do not change along the path.
        wanted.append(np.interp(e, column + 1e-12 * np.arange(len(column)), tried))
    all_wanted = np.sort(np.concatenate(wanted))
    number = TRUTHS if len(ranges) == 1 else MANY_TRUTHS
    places = np.linspace(0, all_wanted.size - 1, number).round().astype(np.intp)
    chosen = np.unique(all_wanted[places])
    return chosen[chosen > 0]


def follow(
    measured: list[Measured],
    predictions: Predictions,
    Q: FloatArray,
    seeds: list[np.random.SeedSequence],
    n_jobs: int | None,
    report: Report,
) -> list[list[list[Point]]]:
    """Return the simulations along the path to Q and beyond, a list for each number of a metric.

    Each metric has truths of its own: its interval does not depend on the others.
    """
    P, errors = predictions.P, [each.error for each in measured]
    q = on_path(P, Q, 1.0)
    ones = simulate(errors, q, Q_SETS, seeds[0])
    report(Q_SETS)
    ends = np.cumsum([one.limits.size for one in ones])
    withouts = np.split(limits_without(errors, q), ends[:-1], axis=1)
    n, n_classes = P.shape
    every = max(1, min(n * n_classes // SCOUTED_ENTRIES, n // FEWEST_ROWS))
    some = take_every(predictions, every)
    scouts = errors if every == 1 else label_errors([each.evaluate for each in measured], some)

    @cache
    def limits(t: float) -> list[Float64Array]:
        truth = Truth(on_path(some.P, Q[::every], t))
        return [scout.limits(truth) for scout in scouts]

    paths, tasks, beyond = [], [], []
    for k, (each, one, without) in enumerate(zip(measured, ones, withouts, strict=True)):
        variance = jackknife_variance(without)
        excess = np.zeros(variance.size)
        if each.error.has_excess:
            excess = excess_of_few_rows(without, one.limits)
        path = [
            [each.null.point(j, 0.0), one.point(j, variance[j], excess[j])]
            for j in range(variance.size)
        ]
        ranges = [search_range(x, *two) for x, two in zip(each.observed, path, strict=True)]
        scale = one.limits / np.maximum(limits(1.0)[k], ROUNDING) if every > 1 else 1.0
        limit = partial(_scaled, limits, k, scale)
        chosen = choose_truths(limit, each.null.limits, one.limits, ranges)
        tasks += [(k, t, seed) for t, seed in zip(chosen, seeds[1:], strict=False)]
        paths.append(path)
        beyond.append((variance / np.maximum(one.limits, ROUNDING) ** 2, excess))
    simulations = Parallel(n_jobs=n_jobs, return_as="generator")(
        delayed(simulate_on_path)(errors[k], predictions, Q, t, seed) for k, t, seed in tasks
    )
    for (k, *_), made in zip(tasks, simulations, strict=True):
        relative, excess = beyond[k]
        for j, points in enumerate(paths[k]):
            points.append(made.point(j, relative[j] * made.limits[j] ** 2, excess[j]))
        report(SETS / len(measured))
    return paths


def _scaled(limits: Callable[[float], list[Float64Array]], k: int, scale: Any, t: float) -> Any:
    return limits(t)[k] * scale


def simulate_on_path(
    error: LabelError,
    predictions: Predictions,
    Q: FloatArray,
    t: float,
    seed: np.random.SeedSequence,
) -> Simulated:
    """Simulate one error at one truth of a path."""
    return simulate([error], on_path(predictions.P, Q, t), SETS, seed)[0]


def intervals_of(
    evaluations: list[Evaluation],
    predictions: Predictions,
    *,
    level: float = 0.95,
    random_state: Any = None,
    n_jobs: int | None = None,
    report: Report = lambda _: None,
    smooth: FloatArray | None = None,
) -> list[CalibrationInterval]:
    """Return the interval of each metric, which does not depend on the other metrics.

    `report` is called with each number of sets of labels drawn for a metric; `smooth` is the result
    of `calibrated`, where it is known.

    A metric of others that is smaller where labels do not follow the predictions is not a
    calibration error: its interval and its debiased value are NaN.
    """
    predictions = in_copies(predictions)
    entropy = check_seed(random_state).randint(0, 2**32, size=4, dtype=np.uint32)
    seeds = np.random.SeedSequence(entropy.tolist()).spawn(3)
    errors = label_errors(evaluations, predictions)
    observed = observed_of(errors, predictions)
    nulls = simulate(errors, to_array(predictions.P), NULL_SETS, seeds[0])
    report(NULL_SETS)
    measured = []
    for evaluate, error, found, null in zip(evaluations, errors, observed, nulls, strict=True):
        null.limits[null.limits < ROUNDING] = 0.0
        event = evaluate.measured(predictions).event
        measured.append(Measured(evaluate, error, event, found, null))
    smooth = calibrated(predictions) if smooth is None else smooth
    first = follow(measured, predictions, smooth, seeds_on_path(seeds[1]), n_jobs, report)
    second = follow_second(measured, predictions, seeds[2], n_jobs, report)
    return [
        interval_of(each, evaluate(predictions), paths, level)
        for each, evaluate, *paths in zip(measured, evaluations, first, second, strict=True)
    ]


def seeds_on_path(seed: np.random.SeedSequence) -> list[np.random.SeedSequence]:
    """Return the seeds of Q and of the truths of a path; they are spawned once for all metrics."""
    return seed.spawn(1 + MANY_TRUTHS)


def interval_of(
    measured: Measured, estimate: Any, paths: list[list[list[Point]]], level: float
) -> CalibrationInterval:
    """Return the interval of a metric from its simulations along all paths."""
    evaluate, _, _, observed, null = measured
    ends = [
        combine([invert(points, x, level) for points in each])
        for x, *each in zip(observed, *paths, strict=True)
    ]
    parts = np.array([[end.middle, end.low, end.high] for end in ends]).T
    if not evaluate.is_error and any(falls(points) for path in paths for points in path):
        parts[:] = np.nan
    chance = (1 + (null.values >= observed).sum(axis=0)) / (1 + NULL_SETS)
    expected = np.maximum(null.values, 0.0).mean(axis=0)
    numbers = (estimate, *parts, expected, chance)
    return CalibrationInterval(*(_as_given(x, estimate) for x in numbers))


def follow_second(
    measured: list[Measured],
    predictions: Predictions,
    seed: np.random.SeedSequence,
    n_jobs: int | None,
    report: Report,
) -> list[list[list[Point]]]:
    """Return the simulations towards truths of which errors vary most, as `follow` does.

    Errors vary most, and are small by chance most often, if all odds of the class that counts are
    too high. Where each of many classes counts, the odds of half of them are.
    """
    P = predictions.P
    seeds = seeds_on_path(seed)
    alike: dict[Any, list[int]] = {}
    for k, each in enumerate(measured):
        one_class = P.shape[1] <= FEW_CLASSES or rows_of(each.error) is not None
        alike.setdefault(each.event if one_class else "each class", []).append(k)
    paths: list[list[list[Point]]] = [[] for _ in measured]
    for event, members in alike.items():
        if event == "each class":
            Q = shifted_classes(P, np.random.default_rng(seed))
        else:
            Q = too_high(P, event)
        share = partial(_in_part, report, len(members) / len(measured))
        found = follow([measured[k] for k in members], predictions, Q, seeds, n_jobs, share)
        for k, path in zip(members, found, strict=True):
            paths[k] = path
    return paths


def _in_part(report: Report, share: float, sets: float) -> None:
    report(share * sets)


def falls(path: list[Point]) -> bool:
    """Whether a metric of many rows is smaller at Q than where labels follow the predictions."""
    return path[1].error < path[0].error - ROUNDING


def combine(ends: list[Ends]) -> Ends:
    """Return the hull of the intervals of all paths, and the estimate of the first.

    A path whose truths show smaller errors than the data counts only if all do.
    """
    kept = [each for each in ends if not each.empty] or ends
    low, middle, high, _ = zip(*kept, strict=True)
    return Ends(min(low), middle[0], max(high))


def _as_given(numbers: Any, estimate: Any) -> Any:
    """Return a float where the metric is one, else an array of its shape."""
    if estimate.ndim == 0:
        return float(np.ravel(numbers)[0])
    return np.reshape(numbers, estimate.shape)
