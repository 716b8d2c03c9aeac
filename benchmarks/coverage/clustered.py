"""Simulations of rows in clusters: hospitals whose patients differ, and whose events depend.

Logits of the score are normal, partly by the cluster. An event happens where a uniform number is
below its rate; the uniform numbers of a cluster are those of normal ones with a correlation. So
rates are exactly known, and rows of a cluster go wrong together.
"""

from __future__ import annotations

import zlib
from itertools import groupby, product
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from scipy.special import expit, ndtr

from benchmarks._shared.report import markdown
from benchmarks._shared.timing import quiet
from benchmarks.coverage.cells import Cell, draw_of, intervals, of_classes, read
from benchmarks.coverage.event import NODES, SHARES, inside
from benchmarks.coverage.sources import ERRORS
from skcalib.metrics import (
    calibration_intercept_slope,
    calibration_test,
    observed_expected_ratio,
    score_decomposition,
)

ROWS, NUMBERS = 1_000, (7, 10, 30, 100)
# Truths of errors and of gains, and classes.
ERROR_CELLS = (("calibrated", 2), ("calibrated", 10), ("x1.25", 3), ("jagged", 2), ("x2", 3))
GAIN_CELLS = (("x1.4 to x1", 3), ("x1 to x1.2", 2))
# Standard deviation of the logarithms of the sizes of clusters; correlation within them.
SIZES, CORRELATIONS = (0.0, 1.0), (0.0, 0.05, 0.2)
# Logits of the score: their mean and deviations, between clusters and within; the rate has a slope.
MEAN, BETWEEN, WITHIN, SLOPE = -0.5, 0.6, 0.8, 0.8
REPETITIONS = 200
LIMITS = read(Path(__file__).parent / "repetitions.csv")


def truths() -> tuple[float, float]:
    """Return log loss and O:E of very many rows."""
    logit = MEAN + np.hypot(BETWEEN, WITHIN) * NODES
    q, p = expit(SLOPE * logit), expit(logit)
    loss = float(SHARES @ -(q * np.log(p) + (1 - q) * np.log1p(-p)))
    return loss, float(SHARES @ q / (SHARES @ p))


def clusters_of(rng: Any, number: int, spread: float) -> Any:
    """Return the clusters of rows."""
    size = np.exp(spread * rng.normal(size=number))
    return rng.choice(number, ROWS, p=size / size.sum())


def uniforms(rng: Any, cluster: Any, number: int, correlation: float) -> Any:
    """Return the uniform numbers of rows."""
    common, alone = np.sqrt([correlation, 1 - correlation])
    return ndtr(common * rng.normal(size=number)[cluster] + alone * rng.normal(size=ROWS))


def measure(cell: tuple[int, float, float], repetition: int) -> Any:
    """Return which intervals contain the truth, and whether a calibrated model is rejected.

    The first row is of clusters, the second of independent rows.
    """
    rng = np.random.default_rng([zlib.crc32(repr(cell).encode()), repetition])
    number, spread, correlation = cell
    cluster = clusters_of(rng, number, spread)
    logit = MEAN + BETWEEN * rng.normal(size=number)[cluster] + WITHIN * rng.normal(size=ROWS)
    uniform = uniforms(rng, cluster, number, correlation)
    p, y = expit(logit), uniform < expit(SLOPE * logit)
    loss, ratio = truths()
    found = []
    for clusters in (cluster, None):
        with quiet():
            parts = score_decomposition(y, p, score="log", clusters=clusters)
            line = calibration_intercept_slope(y, p, clusters=clusters)
            events = observed_expected_ratio(y, p, clusters=clusters)
            calibrated = calibration_intercept_slope(uniform < p, p, clusters=clusters)
        contained = (
            inside(parts.score_low, loss, parts.score_high),
            inside(line.slope_low, SLOPE, line.slope_high),
            inside(events.low, ratio, events.high),
        )
        found.append([*contained, calibrated.pvalue <= 0.05])
    return found


def measure_errors(cell: tuple[Any, ...], repetition: int) -> Any:
    """Return the row of clusters for errors, or for gains if there are two models."""
    number, spread, correlation, truth, K = cell
    rng = np.random.default_rng([zlib.crc32(repr(cell).encode()), repetition])
    q, models, w = draw_of(truth)(ROWS, K, rng)
    cluster = clusters_of(rng, number, spread)
    uniform = uniforms(rng, cluster, number, correlation)[:, None]
    y, fair = ((P[:, :-1].cumsum(axis=1) <= uniform).sum(axis=1) for P in (q, models[0]))
    limits = LIMITS[Cell(truth, ROWS, K)].true
    metrics = [error.metric for error in ERRORS.values()]
    keywords: dict[str, Any] = {"labels": range(K), "n_resamples": 99, "clusters": cluster}
    with quiet():
        ends = intervals(metrics, [of_classes(y, P, w, K, cluster) for P in models], repetition)
        tests = [calibration_test(metric, fair, models[0], **keywords) for metric in metrics]
    contained = [inside(i.low, x, i.high, 1e-9) for i, x in zip(ends, limits, strict=True)]
    return [[*contained, np.mean([test.pvalue <= 0.05 for test in tests])]]


KINDS: dict[str, Any] = {
    "clustered": (measure, ("log loss", "slope", "O:E")),
    "clustered errors": (measure_errors, ERRORS),
    "clustered gains": (measure_errors, ERRORS),
}


def cells_of(kind: str) -> list[Any]:
    """Return the cells: a number of clusters, spread of sizes, correlation, and truth and classes.

    Statistics have every combination. Each truth of errors and gains has one for each number of
    clusters, and the truths of a number have different ones.
    """
    sorts, sources = [*product(SIZES, CORRELATIONS)], ERROR_CELLS + GAIN_CELLS
    if kind == "clustered":
        return [(C, *sort) for C in NUMBERS for sort in sorts]
    return [
        (C, *sorts[(2 * j - i - 1) % len(sorts)], *source)
        for j, C in enumerate(NUMBERS[1:])
        for i, source in enumerate(sources)
        if (source in GAIN_CELLS) == (kind == "clustered gains")
    ]


def table(kind: str, repetitions: int | None, jobs: int) -> list[str]:
    """Run all cells; return the lines of the table."""
    number, (measured, names) = repetitions or REPETITIONS, KINDS[kind]
    text = (
        "Share of 95 % intervals that contain the truth, and of tests that reject a calibrated "
        f"model at .05: mean over cells (worst cell). {ROWS:,} rows in clusters of equal and of "
        f"different sizes, correlations of 0, .05 and .2; {number} samples of each cell."
    )
    lines = []
    for C, group in groupby(cells_of(kind), itemgetter(0)):
        cells = list(group)
        tasks = (delayed(measured)(cell, i) for cell in cells for i in range(number))
        rows = np.array(Parallel(n_jobs=jobs)(tasks), dtype=float)
        shares = rows.reshape(len(cells), number, *rows.shape[1:]).mean(axis=1)
        for name, part in zip(("`clusters=`", "rows"), shares.swapaxes(0, 1), strict=False):
            worst = [*part[:, :-1].min(axis=0), part[:, -1].max()]
            texts = [f"{a:.2f} ({b:.2f})" for a, b in zip(part.mean(axis=0), worst, strict=True)]
            lines.append([C, name, *texts])
    return [text, "", *markdown(["clusters", "", *names, "calibrated, rejected"], lines)]
