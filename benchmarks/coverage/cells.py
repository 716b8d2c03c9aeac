"""Cells of the simulation: a truth, a number of rows and one of classes, again and again."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from fnmatch import fnmatch
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray

from benchmarks._shared.data import sample_labels
from benchmarks._shared.timing import quiet
from benchmarks.coverage.kept import Cell, Result, read, sums_of, write
from benchmarks.coverage.sources import ERRORS, PAIRS, TRUTHS, Rows, limits
from skcalib._validation.predictions import check_predictions
from skcalib.metrics._interval.gains import GainSimulation
from skcalib.metrics._interval.intervals import intervals_of
from skcalib.metrics._resampling import Evaluation

Array = NDArray[np.float64]

LEVEL = 0.95
# Repetitions of one task.
AT_ONCE = 10


def cells(
    truths: Sequence[str], sizes: Sequence[int], classes: Sequence[int], patterns: Sequence[str]
) -> list[Cell]:
    """Return the cells whose names are like one of the patterns, small ones first."""
    every = [Cell(truth, n, K) for n, K, truth in product(sizes, classes, truths)]
    kept = [cell for cell in every if any(fnmatch(cell.name, like) for like in patterns)]
    return sorted(kept, key=lambda cell: cell.n * cell.K)


def run(listed: Sequence[Cell], repetitions: int, path: Path, jobs: int) -> list[Result]:
    """Run the repetitions that the table lacks, and return all cells that it has."""
    kept = read(path)
    limits = {(cell.truth, cell.K): result.true for cell, result in kept.items()}
    lacking = {(cell.truth, cell.K) for cell in listed} - limits.keys() if repetitions else set()
    kinds = sorted(lacking, key=lambda kind: kind[1])
    found = Parallel(n_jobs=jobs)(delayed(known_limits)(*kind) for kind in kinds)
    limits.update(zip(kinds, found, strict=True))
    for cell in listed:
        kept.setdefault(cell, Result(cell, 0, limits.get(cell[::2]), np.zeros((len(ERRORS), 6))))
    # All cells advance together, so that a run that is stopped has as many of each.
    tasks = [
        (cell, start, min(start + AT_ONCE, repetitions))
        for cell in listed
        for start in range(kept[cell].repetitions, repetitions, AT_ONCE)
    ]
    tasks.sort(key=lambda task: task[1])
    made = Parallel(n_jobs=jobs, return_as="generator")(delayed(repeat)(*task) for task in tasks)
    for (cell, _, stop), numbers in zip(tasks, made, strict=True):
        _, _, true, sums = kept[cell]
        kept[cell] = Result(cell, stop, true, sums + sums_of(numbers, true))
        write(path, {cell: result for cell, result in kept.items() if result.repetitions})
        if stop == repetitions:
            print(line_of(kept[cell]), flush=True)
    return [kept[cell] for cell in listed if kept[cell].repetitions]


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


def known_limits(truth: str, K: int) -> Array:
    """Return the limit of each error, or of its gain."""
    values = np.array(limits(draw_of(truth), K, list(ERRORS)))
    return np.asarray(values[:, 0] - values[:, 1:].sum(axis=1))


def line_of(result: Result) -> str:
    """Return a line with the share of each error."""
    shares = zip(ERRORS, result.mean("contained"), strict=True)
    words = [f"{name} {share:.2f}" for name, share in shares]
    return f"{result.cell.name}: {', '.join(words)}"
