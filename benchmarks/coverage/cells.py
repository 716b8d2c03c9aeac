"""Cells of the simulation: a truth, a number of rows and one of classes, again and again.

Sums over the repetitions are in a table, to which later runs add.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from fnmatch import fnmatch
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from numpy.typing import NDArray

from benchmarks._shared.timing import quiet
from benchmarks.coverage.sources import ERRORS, PAIRS, TRUTHS, Rows, limits
from skcalib._validation.rows import Predictions, check_predictions
from skcalib.metrics._intervals.gains import GainSimulation
from skcalib.metrics._intervals.interval import interval_of
from skcalib.metrics._resampling import Evaluation

Array = NDArray[np.float64]

LEVEL = 0.95
# Repetitions of one task.
AT_ONCE = 10
# Intervals that contain the limit; value as measured and its square; width; squared errors of the
# value and of the estimate without bias.
SUMS = ("contained", "value", "value_squared", "width", "squared_error", "squared_error_debiased")
CELL = ["truth", "n", "K"]
ROUNDING = 1e-9


class Cell(NamedTuple):
    """A truth of one model, or, for a gain, of a pair; rows; classes."""

    truth: str
    n: int
    K: int

    @property
    def name(self) -> str:
        """Name, as `--cells` takes it."""
        return f"{self.truth}/{self.n}/{self.K}"


class Result(NamedTuple):
    """A cell, the number of its repetitions, limits ``(m,)`` and sums ``(m, 6)``, as `SUMS`."""

    cell: Cell
    repetitions: int
    true: Array
    sums: Array

    def mean(self, name: str) -> Array:
        """Return the mean ``(m,)`` of what is summed."""
        return np.asarray(self.sums[:, SUMS.index(name)] / self.repetitions)

    def spread(self) -> Array:
        """Return the standard deviation ``(m,)`` of the values as measured."""
        variance = self.mean("value_squared") - self.mean("value") ** 2
        return np.asarray((variance * self.repetitions / (self.repetitions - 1)) ** 0.5)


def cells(
    truths: Sequence[str], sizes: Sequence[int], classes: Sequence[int], patterns: Sequence[str]
) -> list[Cell]:
    """Return the cells whose names are like one of the patterns, small ones first."""
    every = [Cell(truth, n, K) for n, K, truth in product(sizes, classes, truths)]
    cells = [cell for cell in every if any(fnmatch(cell.name, like) for like in patterns)]
    return sorted(cells, key=lambda cell: cell.n * cell.K)


def run(listed: Sequence[Cell], repetitions: int, path: Path, jobs: int) -> list[Result]:
    """Run the repetitions that the table lacks, and return all cells that it has."""
    results = read(path)
    limits = {(cell.truth, cell.K): result.true for cell, result in results.items()}
    lacking = {(cell.truth, cell.K) for cell in listed} - limits.keys() if repetitions else set()
    kinds = sorted(lacking, key=lambda kind: kind[1])
    found = Parallel(n_jobs=jobs)(delayed(known_limits)(*kind) for kind in kinds)
    limits.update(zip(kinds, found, strict=True))
    for cell in listed:
        results.setdefault(cell, Result(cell, 0, limits.get(cell[::2]), np.zeros((len(ERRORS), 6))))
    # All cells advance together, so that a run that is stopped has as many of each.
    tasks = [
        (cell, start, min(start + AT_ONCE, repetitions))
        for cell in listed
        for start in range(results[cell].repetitions, repetitions, AT_ONCE)
    ]
    tasks.sort(key=lambda task: task[1])
    batches = Parallel(n_jobs=jobs, return_as="generator")(delayed(repeat)(*task) for task in tasks)
    for (cell, _, stop), numbers in zip(tasks, batches, strict=True):
        _, _, true, sums = results[cell]
        results[cell] = Result(cell, stop, true, sums + sums_of(numbers, true))
        write(path, {cell: result for cell, result in results.items() if result.repetitions})
        if stop == repetitions:
            print(cell.name, flush=True)
    return [results[cell] for cell in listed if results[cell].repetitions]


def repeat(cell: Cell, start: int, stop: int) -> Array:
    """Return the numbers ``(stop - start, m, 4)`` of some repetitions."""
    metrics = [error.metric for error in ERRORS.values()]
    return np.array([measure(cell, number, metrics) for number in range(start, stop)])


def measure(cell: Cell, number: int, metrics: list[Callable[..., Any]]) -> list[tuple[float, ...]]:
    """Draw rows and labels, and return the four numbers of each metric."""
    rng = np.random.default_rng([zlib.crc32(cell.name.encode()), number])
    truth, models, w = draw_of(cell.truth)(cell.n, cell.K, rng)
    edges = np.cumsum(truth, axis=1)[:, :-1]
    y = (edges <= rng.random(len(truth))[:, None]).sum(axis=1)
    parts = [of_classes(y, P, w, cell.K) for P in models]
    with quiet():
        found = intervals(metrics, parts, number)
        if len(parts) == 1:
            return [(i.estimate, i.debiased, i.low, i.high) for i in found]
        values = [[float(Evaluation(m, {}, False)(part)) for part in parts] for m in metrics]
        return [(v[0] - v[1], *gain) for v, gain in zip(values, found, strict=True)]


def intervals(metrics: list[Callable[..., Any]], parts: list[Predictions], seed: int) -> list[Any]:
    """Return the intervals of errors of a model, or of the gains of a second one."""
    evaluations = [Evaluation(metric, {}, column=False) for metric in metrics]
    if len(parts) == 1:
        return [interval_of(e, parts[0], level=LEVEL, random_state=seed) for e in evaluations]
    return GainSimulation(evaluations, parts[0], random_state=seed).gains(parts[1], LEVEL)


def of_classes(y: Any, P: Array, w: Array, K: int, clusters: Any = None) -> Predictions:
    """Return predictions whose two columns are two classes, as those of the limit, not an event."""
    return check_predictions(y, P, w, range(K), clusters=clusters).without_event()


def draw_of(truth: str) -> Callable[..., Rows]:
    """Return what draws the rows of a truth."""
    return TRUTHS.get(truth) or PAIRS[truth]


def known_limits(truth: str, K: int) -> Array:
    """Return the limit of each error, or of its gain."""
    values = np.array(limits(draw_of(truth), K, list(ERRORS)))
    return np.asarray(values[:, 0] - values[:, 1:].sum(axis=1))


def sums_of(found: Array, true: Array) -> Array:
    """Return the sums ``(m, 6)`` of repetitions ``(R, m, 4)``.

    Their numbers are the value as measured, the estimate without bias, and the interval's ends.
    """
    value, debiased, low, high = np.moveaxis(found, 2, 0)
    contained = (low <= true + ROUNDING) & (true <= high + ROUNDING)
    each = contained, value, value**2, high - low, (value - true) ** 2, (debiased - true) ** 2
    return np.array([part.sum(axis=0) for part in each], dtype=float).T


def read(path: Path) -> dict[Cell, Result]:
    """Return all cells of a table."""
    if not path.exists():
        return {}
    results = {}
    for (truth, n, K), rows in pd.read_csv(path).groupby(CELL, sort=False):
        cell = Cell(truth, int(n), int(K))
        assert list(rows.error) == list(ERRORS), f"other errors in {path}: remove it"
        repetitions = int(rows.repetitions.iloc[0])
        results[cell] = Result(cell, repetitions, rows.limit.to_numpy(), rows[[*SUMS]].to_numpy())
    return results


def write(path: Path, results: dict[Cell, Result]) -> None:
    """Write all cells, whole or not at all."""
    parts = []
    for cell in sorted(results):
        _, repetitions, true, sums = results[cell]
        head = {**cell._asdict(), "error": list(ERRORS), "repetitions": repetitions, "limit": true}
        frame = pd.DataFrame(head | dict(zip(SUMS, sums.T, strict=True)))
        parts.append(frame.astype({"contained": int}))
    partial = path.with_suffix(".partial.csv")
    pd.concat(parts).to_csv(partial, index=False, float_format="%.9g", lineterminator="\n")
    partial.replace(path)
