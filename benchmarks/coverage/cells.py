"""Cells of the simulation: a truth, a number of rows and one of classes, again and again."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from fnmatch import fnmatch
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray

from benchmarks._shared.data import sample_labels
from benchmarks._shared.timing import quiet
from benchmarks.coverage.sources import ERRORS, PAIRS, TRUTHS, Rows, limits
from skcalib._validation.predictions import check_predictions
from skcalib.metrics._interval.gains import GainSimulation
from skcalib.metrics._interval.intervals import intervals_of
from skcalib.metrics._resampling import Evaluation

Array = NDArray[np.float64]

LEVEL = 0.95
# Repetitions of one task.
AT_ONCE = 10
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

    @property
    def file(self) -> str:
        """Name of the file of results."""
        return f"{self.truth}-{self.n}-{self.K}.npz".replace(" ", "_")


class Result(NamedTuple):
    """Repetitions of a cell.

    ``true (m,)`` limits; ``found (R, m, 4)`` values as measured, estimates without bias, and the
    lower and upper ends of intervals.
    """

    cell: Cell
    true: Array
    found: Array


def cells(
    truths: Sequence[str], sizes: Sequence[int], classes: Sequence[int], patterns: Sequence[str]
) -> list[Cell]:
    """Return the cells whose names are like one of the patterns, small ones first."""
    every = [Cell(truth, n, K) for n, K, truth in product(sizes, classes, truths)]
    kept = [cell for cell in every if any(fnmatch(cell.name, like) for like in patterns)]
    return sorted(kept, key=lambda cell: cell.n * cell.K)


def run(listed: Sequence[Cell], repetitions: int, folder: Path, jobs: int) -> list[Result]:
    """Run the repetitions that the folder lacks, and return all cells that it has."""
    folder.mkdir(parents=True, exist_ok=True)
    tasks = [
        (cell, start, min(start + AT_ONCE, repetitions))
        for cell in listed
        for start in range(len(found_in(cell, folder)), repetitions, AT_ONCE)
    ]
    kinds = sorted({(cell.truth, cell.K) for cell, *_ in tasks}, key=lambda kind: kind[1])
    Parallel(n_jobs=jobs)(delayed(known_limits)(*kind, folder) for kind in kinds)
    made = Parallel(n_jobs=jobs, return_as="generator")(delayed(repeat)(*task) for task in tasks)
    for (cell, _, stop), found in zip(tasks, made, strict=True):
        store(folder / cell.file, found=np.concatenate([found_in(cell, folder), found]))
        if stop == repetitions:
            print(line_of(stored(cell, folder)), flush=True)
    return [stored(cell, folder) for cell in listed if len(found_in(cell, folder))]


def repeat(cell: Cell, start: int, stop: int) -> Array:
    """Return the numbers ``(stop - start, m, 4)`` of some repetitions."""
    found = np.empty((stop - start, len(ERRORS), 4))
    metrics = [error.metric for error in ERRORS.values()]
    for number in range(start, stop):
        try:
            found[number - start] = measure(cell, number, metrics)
        except Exception as error:
            error.add_note(f"in repetition {number} of {cell.name}")
            raise
    return found


def measure(cell: Cell, number: int, metrics: list[Callable[..., Any]]) -> list[tuple[float, ...]]:
    """Draw rows and labels, and return the four numbers of each metric."""
    rng = np.random.default_rng([zlib.crc32(cell.name.encode()), number])
    truth, models, w = draw_of(cell.truth)(cell.n, cell.K, rng)
    y = sample_labels(truth, rng)
    evaluations = [Evaluation(metric, {}, column=False) for metric in metrics]
    before, *after = (check_predictions(y, P, w, range(cell.K)) for P in models)
    with quiet():
        if not after:
            found = intervals_of(evaluations, before, level=LEVEL, random_state=number, n_jobs=1)
            return [(i.estimate, i.debiased, i.low, i.high) for i in found]
        simulation = GainSimulation(evaluations, before, random_state=number, n_jobs=1)
        return [
            (
                float(evaluate(before)) - float(evaluate(after[0])),
                gain.estimate,
                gain.low,
                gain.high,
            )
            for evaluate, gain in zip(evaluations, simulation.gains(after[0], LEVEL), strict=True)
        ]


def draw_of(truth: str) -> Callable[..., Rows]:
    """Return what draws the rows of a truth."""
    return TRUTHS.get(truth) or PAIRS[truth]


def known_limits(truth: str, K: int, folder: Path) -> Array:
    """Return the limit of each error, or of its gain, from the folder where it is there."""
    path = folder / f"limits-{truth}-{K}.npz".replace(" ", "_")
    if not path.exists():
        values = np.array(limits(draw_of(truth), K, list(ERRORS)))
        store(path, true=values[:, 0] - values[:, 1:].sum(axis=1))
    with np.load(path) as found:
        return np.asarray(found["true"])


def store(path: Path, **arrays: Array) -> None:
    """Write arrays, whole or not at all."""
    partial = path.with_suffix(".partial.npz")
    np.savez(partial, **arrays)  # type: ignore[arg-type]
    partial.replace(path)


def found_in(cell: Cell, folder: Path) -> Array:
    """Return the repetitions of a cell that there are, ``(R, m, 4)``."""
    if not (folder / cell.file).exists():
        return np.empty((0, len(ERRORS), 4))
    with np.load(folder / cell.file) as stored:
        return np.asarray(stored["found"])


def stored(cell: Cell, folder: Path) -> Result:
    """Return a cell and its limits."""
    true = known_limits(cell.truth, cell.K, folder)[: len(ERRORS)]
    return Result(cell, true, found_in(cell, folder))


def held(result: Result) -> Array:
    """Return the share of intervals that contain the limit, ``(m,)``."""
    low, high = np.moveaxis(result.found[..., 2:], 2, 0)
    contains = (low <= result.true + ROUNDING) & (result.true <= high + ROUNDING)
    return np.asarray(contains.mean(axis=0))


def line_of(result: Result) -> str:
    """Return a line with the share of each error."""
    shares = zip(ERRORS, held(result), strict=True)
    words = [f"{name} {share:.2f}" for name, share in shares]
    return f"{result.cell.name}: {', '.join(words)}"
