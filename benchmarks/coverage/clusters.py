"""Rows in clusters: ``python -m benchmarks.coverage --clusters`` simulates errors and their gains.

Labels follow the truths of `sources`. Some rows of a cluster draw theirs by one random number, so
that hits of two rows have the correlation of the cell.
"""

from __future__ import annotations

import zlib
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed

from benchmarks._shared.timing import quiet
from benchmarks.coverage.cells import LEVEL, draw_of, read
from benchmarks.coverage.event import inside
from benchmarks.coverage.sources import ERRORS
from skcalib._validation.predictions import check_predictions
from skcalib.metrics._intervals.gains import GainSimulation
from skcalib.metrics._intervals.intervals import interval_of
from skcalib.metrics._resampling import Evaluation

NUMBERS, REPETITIONS = (7, 10, 30, 100), 200
# Truths, rows and classes.
SMALL = (("calibrated", 300, 10), ("calibrated", 300, 2), ("calibrated", 1_000, 2), ("x2", 300, 3))
LARGE = (("x1.25", 1_000, 3), ("jagged", 1_000, 2), ("classes shifted", 1_000, 10))
PAIRS = (("x1.4 to x1", 1_000, 3), ("x1 to x1.2", 1_000, 2), ("classes shifted to x1", 1_000, 3))
# Correlations of hits within clusters, and how far the logarithms of sizes vary.
DEPENDENCE = ((0.0, 1.0), (0.05, 1.0), (0.2, 0.0))
HEADS = "mean | lowest cell | cells >= .92 | today | calibrated, rejected | today"


def measure(cell: tuple[Any, ...], true: Any, seed: int) -> Any:
    """Return which intervals ``(2, m)`` contain the limit, and whose p-values are up to .05.

    The first row is of clusters, the second of independent rows. Gains have no p-values.
    """
    truth, n, K, C, rho, spread = cell
    rng = np.random.default_rng([zlib.crc32(truth.encode()), n, K, C, seed])
    q, models, w = draw_of(truth)(n, K, rng)
    size = np.exp(spread * rng.normal(size=C))
    cluster = np.append(np.arange(C), rng.choice(C, n - C, p=size / size.sum()))
    u = np.where(rng.random(n) < rho**0.5, rng.random(C)[cluster], rng.random(n))
    y = (np.cumsum(q, axis=1)[:, :-1] <= u[:, None]).sum(axis=1)
    evaluations, found = [Evaluation(error.metric, {}, False) for error in ERRORS.values()], []
    for clusters in (cluster, None):
        with quiet():
            parts = [check_predictions(y, P, w, range(K), clusters=clusters) for P in models]
            if len(parts) == 1:
                errors = (interval_of(e, parts[0], random_state=seed) for e in evaluations)
                ends: list[Any] = [(i.low, i.high, i.p_value) for i in errors]
            else:
                gains = GainSimulation(evaluations, parts[0], random_state=seed)
                ends = [(*gain[1:], 1.0) for gain in gains.gains(parts[1], LEVEL)]
        low, high, p = np.transpose(ends)
        found.append((inside(low, true, high, 1e-9), p <= 1 - LEVEL))
    return np.swapaxes(found, 0, 1)


def table(repetitions: int | None, jobs: int, path: Path) -> list[str]:
    """Return the lines of the table of all numbers of clusters; `path` has the limits."""
    number = repetitions or REPETITIONS
    limits = {(cell.truth, cell.K): result.true for cell, result in read(path).items()}
    lines = [f"95 % intervals, {number} repetitions of each cell; today: rows are independent.", ""]
    lines += [f"| clusters | {HEADS} |", "|---|" + "--:|" * 6]
    for C, settings in product(NUMBERS, ((*SMALL, *LARGE), PAIRS)):
        cells = [(*one, C, *sort) for one, sort in product(settings, DEPENDENCE)]
        tasks = [(c, limits[c[0], c[2]], seed) for c in cells for seed in range(number)]
        found = np.array(Parallel(n_jobs=jobs)(delayed(measure)(*task) for task in tasks))
        shares = found.reshape(len(cells), number, *found.shape[1:]).mean(axis=1)
        new, old = shares[:, 0].swapaxes(0, 1)
        row = [new.mean(), new.min(), (new >= 0.92).mean(), old.mean()]
        if settings is not PAIRS:
            row += [*shares[[cell[0] == "calibrated" for cell in cells], 1].mean(axis=(0, 2))]
        kind = "gains" if settings is PAIRS else "errors"
        lines.append(f"| {C}, {kind} | {' | '.join(f'{x:.3f}' for x in row)} |")
    return lines
