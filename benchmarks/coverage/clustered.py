"""Simulations of rows in clusters: hospitals whose patients differ, and whose events depend.

Logits of the score are normal, partly by the cluster. An event happens where a uniform number is
below its rate; the uniform numbers of a cluster are those of normal ones with a correlation. So
rates are exactly known, and rows of a cluster go wrong together.
"""

from __future__ import annotations

import zlib
from itertools import product
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from scipy.special import expit, ndtr

from benchmarks._shared.timing import quiet
from benchmarks.coverage.event import NODES, SHARES, inside
from skcalib.metrics import (
    calibration_intercept_slope,
    observed_expected_ratio,
    score_decomposition,
)

ROWS, NUMBERS = 1_000, (7, 10, 30, 100)
# Standard deviation of the logarithms of the sizes of clusters; correlation within them.
SIZES, CORRELATIONS = (0.0, 1.0), (0.0, 0.05, 0.2)
# Logits of the score: their mean and deviations, between clusters and within; the rate has a slope.
MEAN, BETWEEN, WITHIN, SLOPE = -0.5, 0.6, 0.8, 0.8
COLUMNS = ("log loss", "slope", "O:E", "slope 1 and intercept 0, rejected")
REPETITIONS = 200


def truths() -> tuple[float, float]:
    """Return log loss and O:E of very many rows."""
    logit = MEAN + np.hypot(BETWEEN, WITHIN) * NODES
    q, p = expit(SLOPE * logit), expit(logit)
    loss = float(SHARES @ -(q * np.log(p) + (1 - q) * np.log1p(-p)))
    return loss, float(SHARES @ q / (SHARES @ p))


def measure(cell: tuple[int, float, float], repetition: int) -> Any:
    """Return which intervals contain the truth, and whether a calibrated model is rejected.

    The first row is of clusters, the second of independent rows.
    """
    number, spread, correlation = cell
    rng = np.random.default_rng([zlib.crc32(repr(cell).encode()), repetition])
    size = np.exp(spread * rng.normal(size=number))
    cluster = rng.choice(number, ROWS, p=size / size.sum())
    logit = MEAN + BETWEEN * rng.normal(size=number)[cluster] + WITHIN * rng.normal(size=ROWS)
    common, alone = np.sqrt([correlation, 1 - correlation])
    uniform = ndtr(common * rng.normal(size=number)[cluster] + alone * rng.normal(size=ROWS))
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


def table(repetitions: int | None, jobs: int) -> list[str]:
    """Run all cells; return the lines of the table."""
    number = repetitions or REPETITIONS
    lines = [
        "Share of 95 % intervals that contain the truth, and of tests that reject a calibrated "
        f"model at .05: mean over cells (worst cell). {ROWS:,} rows in clusters of equal and of "
        f"different sizes, correlations of 0, .05 and .2; {number} samples of each cell.",
        "",
        f"| clusters | | {' | '.join(COLUMNS)} |",
        "|--:|---|" + "--:|" * len(COLUMNS),
    ]
    for C in NUMBERS:
        cells = list(product((C,), SIZES, CORRELATIONS))
        tasks = (delayed(measure)(cell, i) for cell in cells for i in range(number))
        rows = np.array(Parallel(n_jobs=jobs)(tasks), dtype=float)
        shares = rows.reshape(len(cells), number, 2, -1).mean(axis=1)
        for j, name in enumerate(("`clusters=`", "rows")):
            means, worst = shares[:, j].mean(axis=0), shares[:, j].min(axis=0)
            worst[-1] = shares[:, j, -1].max()
            texts = [f"{a:.2f} ({b:.2f})" for a, b in zip(means, worst, strict=True)]
            lines.append(f"| {C} | {name} | {' | '.join(texts)} |")
    return lines
