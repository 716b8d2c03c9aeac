"""Simulations of one event: bands of curves, distances from the diagonal, slopes, O:E and AUC.

Scores of the event have normal logits, and labels are drawn from known rates.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import expit
from scipy.stats import norm

from benchmarks._shared.report import markdown
from skcalib.metrics import (
    calibration_curve,
    calibration_intercept_slope,
    integrated_calibration_index,
    observed_expected_ratio,
    spiegelhalter_test,
)
from skcalib.metrics._common import EventRows
from skcalib.metrics._curves.curves import distances
from skcalib.metrics._statistics.event import auc_interval

Array = NDArray[np.float64]
# The logits of the rate and of the score at z standard deviations above the mean.
Logits = Callable[[Array], tuple[Array, Array]]

RATES, SIZES = (0.02, 0.2), (500, 2_000, 10_000)
ENOUGH = 0.93
NODES, SHARES = np.polynomial.hermite_e.hermegauss(201)
SHARES = SHARES / SHARES.sum()
# Standard deviation of the logits of the scores that curves are fitted to, by the event's rate; and
# of the log-odds behind the statistics, with areas under the ROC curve of .82 and .79.
SPREAD, SPREAD_OF_ODDS = {0.02: 1.2, 0.2: 1.0}, 1.3
# The whole curve is looked at between these quantiles of the scores, at so many places.
INNER, PLACES = (0.01, 0.99), 200
# Scores that stand for all, where distances have no label noise.
POPULATION = 200_000

# The logit of the rate at a score that lies z standard deviations s above the mean logit m.
CURVES: dict[str, Callable[[Array, float, float], Array]] = {
    "calibrated": lambda z, m, s: m + s * z,
    "overfitted, slope .7": lambda z, m, s: m + 0.7 * s * z,
    "curved": lambda z, m, s: m + s * (1.4 * z - 0.3 * np.logaddexp(0.0, 3.0 * z)),
    "wave": lambda z, m, s: m + s * z + 0.5 * np.sin(2.0 * z),
}
# Log-odds are the shift plus the slope times those of the model; m is their mean.
LINES: dict[str, Callable[[float], tuple[float, float]]] = {
    "calibrated": lambda _: (1.0, 0.0),
    "overfitted": lambda m: (0.7, 0.3 * m),
    "shifted": lambda _: (1.0, -0.5),
}


class Cell(NamedTuple):
    """A truth, the event's rate, and a number of rows."""

    truth: str
    rate: float
    n: int

    @property
    def name(self) -> str:
        """Name, as tables have it."""
        return f"{self.truth}, {100 * self.rate:g} %, {self.n:,}"


def rate_of(logits: Array) -> float:
    """Return the mean rate of logits at the nodes."""
    return float(SHARES @ expit(logits))


def curve_logits(cell: Cell) -> Logits:
    """Return the logits of a model whose truth is a curve."""
    s, truth = SPREAD[cell.rate], CURVES[cell.truth]
    m = brentq(lambda m: rate_of(truth(NODES, m, s)) - cell.rate, -12.0, 5.0)
    return lambda z: (truth(z, m, s), m + s * z)


def line_logits(cell: Cell) -> Logits:
    """Return the logits of a model whose truth is a line."""
    m = brentq(lambda m: rate_of(m + SPREAD_OF_ODDS * NODES) - cell.rate, -15, 5)
    slope, shift = LINES[cell.truth](m)
    return lambda z: (m + SPREAD_OF_ODDS * z, (m + SPREAD_OF_ODDS * z - shift) / slope)


def inside(low: Any, true: Any, high: Any, rounding: float = 1e-12) -> Any:
    """Return where a truth lies in its interval, up to rounding."""
    return (low <= true + rounding) & (true <= high + rounding)


def bands(z: Array, y: Any, logits: Logits, _: Any) -> list[float]:
    """Return for each method the share of rows, and whether the whole curve, is in its band."""
    q, p = map(expit, logits(z))
    truth, at = map(expit, logits(np.quantile(z, np.linspace(*INNER, PLACES))))
    shares = []
    for method in ("smooth", "isotonic"):
        curve = calibration_curve(y, p, method=method)  # type: ignore[arg-type]
        ends = [np.interp(p, curve.prob_pred, end) for end in (curve.low, curve.high)]
        shares.append(float(inside(ends[0], q, ends[1]).mean()))
        both = curve.low_simultaneous, curve.high_simultaneous
        ends = [np.interp(at, curve.prob_pred, end) for end in both]
        shares.append(float(inside(ends[0], truth, ends[1]).all()))
    return shares


def true_distances(cell: Cell, logits: Logits) -> Array:  # noqa: ARG001
    """Return the four distances of very many rows."""
    q, p = map(expit, logits(np.random.default_rng(0).normal(size=POPULATION)))
    return distances(q, p, np.ones(q.size))


def index(z: Array, y: Any, logits: Logits, true: Array) -> Array:
    """Return which intervals contain their distance; the largest is of these rows."""
    q, p = map(expit, logits(z))
    interval = integrated_calibration_index(y, p).interval
    true = np.append(true[:3], np.abs(q - p).max())
    return inside(interval.low, true, interval.high, 1e-9).astype(float)


def true_statistics(cell: Cell, logits: Logits) -> Array:
    """Return slope, intercept, intercept of slope 1, O:E, AUC and O:E of very many rows."""
    (t0, t1), (m0, m1) = logits(np.array([0.0, 1.0]))
    slope, model = (t1 - t0) / (m1 - m0), logits(NODES)[1]
    in_the_large = brentq(lambda c: rate_of(model + c) - cell.rate, -5, 5)
    x = np.linspace(-9, 9, 20_001)
    density, q = np.exp(-x * x / 2), expit(logits(x)[0])
    events, others = density * q, density * (1 - q)
    area = events @ (np.cumsum(others) - others / 2) / (events.sum() * others.sum())
    ratio = cell.rate / rate_of(model)
    return np.array([slope, t0 - slope * m0, in_the_large, ratio, area, ratio])


def statistics(z: Array, y: Any, logits: Logits, true: Array) -> list[bool]:
    """Return which intervals contain the truth, and which p-values are above .05."""
    p = expit(logits(z)[1])
    fit, ratio = calibration_intercept_slope(y, p), observed_expected_ratio(y, p)
    _, low, high = auc_interval(EventRows(p, y, np.ones(y.size)), 0.95)
    width = np.exp(norm.ppf(0.975) / np.sqrt(y.sum()))
    intervals = [
        (fit.slope_low, fit.slope_high),
        (fit.intercept_low, fit.intercept_high),
        (fit.in_the_large_low, fit.in_the_large_high),
        (ratio.low, ratio.high),
        (low, high),
        (ratio.ratio / width, ratio.ratio * width),
    ]
    contained = [low <= x <= high for (low, high), x in zip(intervals, true, strict=True)]
    return [*contained, fit.pvalue > 0.05, spiegelhalter_test(y, p).pvalue > 0.05]


class Simulation(NamedTuple):
    """What is measured of which truths, how the seed is made, and how often it is repeated."""

    text: str
    columns: Sequence[str]
    truths: Sequence[str]
    logits: Callable[[Cell], Logits]
    true: Callable[[Cell, Logits], Any]
    measure: Callable[[Array, Any, Logits, Any], Any]
    seed: Callable[[Cell, int], Any]
    repetitions: int


def curve_seed(*more: int) -> Callable[[Cell, int], Any]:
    """Return the seed of a cell's repetition."""
    return lambda cell, number: [zlib.crc32(repr(cell).encode()), number, *more]


# The usual interval, and p-values of calibrated models.
OTHERS = ("O:E, log Poisson", "p, slope", "p, Brier")

SIMULATIONS: dict[str, Simulation] = {
    "bands": Simulation(
        "Share of rows whose rate is in the pointwise 95 % band, and of samples whose whole curve "
        "is in the simultaneous band.",
        ("smooth, rows", "smooth, whole curve", "isotonic, rows", "isotonic, whole curve"),
        list(CURVES),
        curve_logits,
        lambda *_: None,
        bands,
        curve_seed(),
        200,
    ),
    "distances": Simulation(
        "Share of 95 % intervals of `integrated_calibration_index` that contain the distance.",
        ("ICI", "E50", "E90", "Emax"),
        list(CURVES),
        curve_logits,
        true_distances,
        index,
        curve_seed(1),
        200,
    ),
    "statistics": Simulation(
        "Share of 95 % intervals that contain the truth of very many rows, and of p-values above "
        ".05.",
        ("slope", "intercept", "in the large", "O:E", "AUC", *OTHERS),
        list(LINES),
        line_logits,
        true_statistics,
        statistics,
        lambda _, number: number,
        2_000,
    ),
}


def shares(kind: str, cell: Cell, repetitions: int) -> Array:
    """Return the mean over the repetitions of one cell."""
    simulation = SIMULATIONS[kind]
    logits = simulation.logits(cell)
    true, rows = simulation.true(cell, logits), []
    for number in range(repetitions):
        rng = np.random.default_rng(simulation.seed(cell, number))
        z = rng.normal(size=cell.n)
        y = rng.random(cell.n) < expit(logits(z)[0])
        rows.append(simulation.measure(z, y, logits, true))
    return np.mean(rows, axis=0)


def table(kind: str, sizes: Sequence[int], repetitions: int | None, jobs: int) -> list[str]:
    """Run all cells of a simulation; return the lines of its table, and the low shares."""
    simulation = SIMULATIONS[kind]
    number = repetitions or simulation.repetitions
    cells = [Cell(truth, rate, n) for rate, truth, n in product(RATES, simulation.truths, sizes)]
    results = Parallel(n_jobs=jobs)(
        map(delayed(partial(shares, kind)), cells, [number] * len(cells))
    )
    rows, low = [], []
    for cell, row in zip(cells, results, strict=True):
        rows.append([cell.name, *(f"{share:.3f}" for share in row)])
        named = zip(simulation.columns, row, strict=True)
        low += [
            f"{cell.name}: {name} {share:.3f}"
            for name, share in named
            if share < ENOUGH and not name.startswith("p, ")
        ]
    return [
        f"{simulation.text} {number:,} samples of each line.",
        "",
        *markdown(["truth, rate, rows", *simulation.columns], rows, left=1),
        "",
        f"Below {ENOUGH:g}: {'; '.join(low) or 'none'}.",
    ]
