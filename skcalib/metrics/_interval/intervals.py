"""Intervals of several metrics of the same predictions, from the same sets of labels."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import compress
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray

from skcalib._arrays.source import whole
from skcalib._arrays.types import Float64Array, FloatArray, Intp
from skcalib._validation.keywords import check_seed
from skcalib._validation.predictions import Predictions
from skcalib.metrics._interval.any_metric import take_every
from skcalib.metrics._interval.cells import CellError
from skcalib.metrics._interval.errors import LabelError, label_errors
from skcalib.metrics._interval.inversion import Ends, Point, invert, search_range
from skcalib.metrics._interval.jackknife import (
    excess_of_few_rows,
    jackknife_variance,
    limits_without,
)
from skcalib.metrics._interval.label_sets import Draw, LabelSets, Truth, every_of, sets_at_once
from skcalib.metrics._interval.score_cells import ScoreCells, ScoredRows
from skcalib.metrics._interval.truths import (
    calibrated,
    draw_codes,
    on_path,
    shifted_classes,
    too_high,
)
from skcalib.metrics._one_line import shown
from skcalib.metrics._resampling import Evaluation, in_copies

# Sets of labels: drawn from the predictions, from Q, and from each further truth.
NULL_SETS, Q_SETS, SETS = 300, 150, 75
# Truths of a path for one number, and for several at once.
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
# Sets of labels of an interval.
PATH_SETS = Q_SETS + MANY_TRUTHS * SETS
ALL_SETS = NULL_SETS + 2 * PATH_SETS

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
    """Several errors at one truth: limits ``(m,)``, and values ``(R, m)`` of sets of labels."""

    limits: Float64Array
    values: Float64Array

    def point(self, j: int, row_variance: float, excess: float = 0.0) -> Point:
        """Return the simulations of one error, of which a share is due to few rows."""
        return Point(float(self.limits[j]) * (1.0 - excess), row_variance, self.values[:, j])


def simulate(
    errors: list[LabelError],
    q: FloatArray,
    n_sets: int,
    seed: np.random.SeedSequence,
    same_labels: bool = False,
) -> Simulated:
    """Measure labels drawn from a truth, or hits of cells or rows where these are enough.

    With `same_labels`, labels are drawn, which the seed makes the same for all predictions.
    """
    draw = Draw(q, every_of(len(q)))
    values: dict[int, list[Float64Array]] = {j: [] for j in range(len(errors))}
    by_rows = []
    for j, error in enumerate(errors):
        if isinstance(error, CellError) and error.draws and not same_labels:
            random = np.random.default_rng([*seed.generate_state(4).tolist(), j])
            values[j].append(error.drawn(draw.truth, n_sets, random))
        else:
            by_rows.append(j)
    if by_rows:
        rows = None if same_labels else rows_of([errors[j] for j in by_rows])
        sets = drawn_labels(draw, n_sets, seed) if rows is None else rows.drawn(draw, n_sets, seed)
        for labels in sets:
            for j in by_rows:
                values[j].append(errors[j].values(draw, labels))
    each = [np.concatenate(parts) for parts in values.values()]
    return Simulated(limits_of(errors, draw.truth), np.concatenate(each, axis=1))


def drawn_labels(draw: Draw, n_sets: int, seed: np.random.SeedSequence) -> Iterator[LabelSets]:
    """Yield some sets of labels at a time."""
    codes = draw_codes(draw.part.q, n_sets, seed)
    step = sets_at_once(codes.shape[1])
    for start in range(0, n_sets, step):
        yield LabelSets(codes[start : start + step])


def rows_of(errors: list[LabelError]) -> ScoredRows | None:
    """Return the rows whose hits are all that the errors need, or None."""
    cells = [error.cells if isinstance(error, CellError) else None for error in errors]
    rows = {each.rows if isinstance(each, ScoreCells) else None for each in cells}
    return rows.pop() if len(rows) == 1 else None


def limits_of(errors: list[LabelError], truth: Truth) -> Float64Array:
    """Return the errors ``(m,)`` of a truth."""
    return np.concatenate([error.limits(truth) for error in errors])


def observed_of(errors: list[LabelError], predictions: Predictions) -> Float64Array:
    """Return the errors ``(m,)`` of the labels of the data."""
    labels = LabelSets(predictions.code[None])
    return np.concatenate([error.observed(labels) for error in errors])


class Measured(NamedTuple):
    """Errors of predictions: what they are of the data, and if labels follow the predictions.

    ``observed (m,)`` are all numbers of the data, ``of_number`` the error that each belongs to.
    """

    evaluations: list[Evaluation]
    errors: list[LabelError]
    predictions: Predictions
    null: Simulated
    observed: Float64Array
    of_number: Intp

    def only(self, kept: NDArray[np.bool_]) -> Measured:
        """Return some of the errors."""
        evaluations, errors, predictions, null, observed, of_number = self
        columns = kept[of_number]
        return Measured(
            list(compress(evaluations, kept)),
            list(compress(errors, kept)),
            predictions,
            Simulated(null.limits[columns], null.values[:, columns]),
            observed[columns],
            np.unique(of_number[columns], return_inverse=True)[1],
        )


def choose_truths(
    limit: Callable[[float], Float64Array],
    null: Float64Array,
    one: Float64Array,
    ranges: list[tuple[float, float]],
) -> Float64Array:
    """Return the t of truths whose errors are evenly spread over the ranges of all errors."""
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
    measured: Measured,
    Q: FloatArray,
    seed: np.random.SeedSequence,
    n_jobs: int | None,
    report: Report,
) -> list[list[Point]]:
    """Return the simulations along the path to Q and beyond, a list for each error."""
    evaluations, errors, predictions, null, observed, of_number = measured
    P = predictions.P
    first, *seeds = seed.spawn(1 + MANY_TRUTHS)
    q = on_path(P, Q, 1.0)
    one = simulate(errors, q, Q_SETS, first)
    without = limits_without(errors, q)
    variance = jackknife_variance(without)
    known = np.array([error.has_excess for error in errors])[of_number]
    excess = np.where(known, excess_of_few_rows(without, one.limits), 0.0)
    numbers = range(observed.size)
    ranges = [
        search_range(observed[j], null.point(j, 0.0), one.point(j, variance[j])) for j in numbers
    ]
    n, n_classes = P.shape
    every = max(1, min(n * n_classes // SCOUTED_ENTRIES, n // FEWEST_ROWS))
    some = take_every(predictions, every)
    scouts = errors if every == 1 else label_errors(evaluations, some)

    def limit(t: float) -> Float64Array:
        return limits_of(scouts, Truth(on_path(some.P, Q[::every], t)))

    scale = np.ones(observed.size)
    if every > 1:
        scale = one.limits / np.maximum(limit(1.0), ROUNDING)
    chosen = choose_truths(lambda t: limit(t) * scale, null.limits, one.limits, ranges)
    report(Q_SETS)
    rest = []
    for made in Parallel(n_jobs=n_jobs, return_as="generator")(
        delayed(simulate_on_path)(errors, predictions, Q, t, own)
        for t, own in zip(chosen, seeds, strict=False)
    ):
        rest.append(made)
        report(SETS)
    relative = variance / np.maximum(one.limits, ROUNDING) ** 2
    return [
        [null.point(j, 0.0), one.point(j, variance[j], excess[j])]
        + [made.point(j, relative[j] * made.limits[j] ** 2, excess[j]) for made in rest]
        for j in numbers
    ]


def simulate_on_path(
    errors: list[LabelError],
    predictions: Predictions,
    Q: FloatArray,
    t: float,
    seed: np.random.SeedSequence,
) -> Simulated:
    """Simulate at one truth of a path."""
    return simulate(errors, on_path(predictions.P, Q, t), SETS, seed)


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
    """Return the interval of each metric; `report` is called with each number of sets drawn.

    `smooth` is the result of `calibrated`, where it is known.

    A metric of others that is smaller where labels do not follow the predictions is not a
    calibration error: its interval and its debiased value are NaN.
    """
    predictions = in_copies(predictions)
    measured_as = [evaluate.measured(predictions) for evaluate in evaluations]
    if len({each.event for each in measured_as}) == 1:
        predictions = measured_as[0]
    estimates = [evaluate(predictions) for evaluate in evaluations]
    of_number = np.repeat(np.arange(len(estimates)), [estimate.size for estimate in estimates])
    entropy = check_seed(random_state).randint(0, 2**32, size=4, dtype=np.uint32)
    seeds = np.random.SeedSequence(entropy.tolist()).spawn(3)
    errors = label_errors(evaluations, predictions)
    observed = observed_of(errors, predictions)
    null = simulate(errors, whole(predictions.P), NULL_SETS, seeds[0])
    report(NULL_SETS)
    null.limits[null.limits < ROUNDING] = 0.0
    smooth = calibrated(predictions) if smooth is None else smooth
    measured = Measured(evaluations, errors, predictions, null, observed, of_number)
    paths = [
        follow(measured, smooth, seeds[1], n_jobs, report),
        follow_second(measured, seeds[2], n_jobs, report),
    ]
    ends = [
        combine([invert(path[j], observed[j], level) for path in paths])
        for j in range(observed.size)
    ]
    chance = (1 + (null.values >= observed).sum(axis=0)) / (1 + NULL_SETS)
    expected = np.maximum(null.values, 0.0).mean(axis=0)
    results, start = [], 0
    for evaluate, estimate in zip(evaluations, estimates, strict=True):
        own = slice(start, start + estimate.size)
        start += estimate.size
        parts = np.array([[end.middle, end.low, end.high] for end in ends[own]]).T
        if not evaluate.is_error and any(
            falls(path[j]) for path in paths for j in range(own.start, own.stop)
        ):
            parts[:] = np.nan
        numbers = (estimate, *parts, expected[own], chance[own])
        results.append(CalibrationInterval(*(_as_given(x, estimate) for x in numbers)))
    return results


def follow_second(
    measured: Measured,
    seed: np.random.SeedSequence,
    n_jobs: int | None,
    report: Report,
) -> list[list[Point]]:
    """Return the simulations towards truths of which errors vary most, a list for each error.

    Errors vary most, and are small by chance most often, if all odds of the class that counts are
    too high. Where each of many classes counts, the odds of half of them are.
    """
    P, event = measured.predictions.P, measured.predictions.event
    one_class = np.array([counts_one_class(error) for error in measured.errors])
    if P.shape[1] <= FEW_CLASSES:
        one_class[:] = True
    points: list[list[Point]] = [[] for _ in measured.observed]
    for kept, truth in (
        (one_class, partial(too_high, P, event)),
        (~one_class, partial(shifted_classes, P, np.random.default_rng(seed))),
    ):
        if kept.any():
            told = partial(_in_part, report, float(kept.mean()))
            made = follow(measured.only(kept), truth(), seed, n_jobs, told)
            for j, found in zip(np.flatnonzero(kept[measured.of_number]), made, strict=True):
                points[j] = found
    return points


def counts_one_class(error: LabelError) -> bool:
    """Whether one class of each row counts, as the top one."""
    return isinstance(error, CellError) and isinstance(error.cells, ScoreCells)


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
