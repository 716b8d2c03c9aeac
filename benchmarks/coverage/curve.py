"""Do bands of calibration curves, and intervals of their distances, hold the truth? By simulation.

``python -m benchmarks.coverage.curve`` draws scores of one event, whose logits are normal, and
labels from known rates, and counts how often 95 % bands hold them. ``--index 200`` counts, in so
many samples, how often the intervals of the integrated calibration index hold its true value; it
takes a hundred times as long, and ``--repetitions 0`` leaves the bands out.
"""

from __future__ import annotations

import argparse
import zlib
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import expit

from benchmarks._shared.report import fill
from skcalib.metrics import calibration_curve, integrated_calibration_index
from skcalib.metrics._curve.distances import distances

Array = NDArray[np.float64]

HERE = Path(__file__).parent
RATES, SIZES = (0.02, 0.2), (500, 2_000, 10_000)
METHODS = ("smooth", "isotonic")
DISTANCES = ("ICI", "E50", "E90", "Emax")
# Standard deviation of the logits of the scores, by the event's rate.
SPREAD = {0.02: 1.2, 0.2: 1.0}
# The whole curve is looked at between these quantiles of the scores, at so many places.
INNER, PLACES = (0.01, 0.99), 200
# Scores that stand for all, where distances have no label noise.
POPULATION = 200_000
ENOUGH = 0.93

# The logit of the rate at a score that lies z standard deviations s above the mean logit m.
TRUTHS: dict[str, Callable[[Array, float, float], Array]] = {
    "calibrated": lambda z, m, s: m + s * z,
    "overfitted, slope .7": lambda z, m, s: m + 0.7 * s * z,
    "curved": lambda z, m, s: m + s * (1.4 * z - 0.3 * np.logaddexp(0.0, 3.0 * z)),
    "wave": lambda z, m, s: m + s * z + 0.5 * np.sin(2.0 * z),
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


def centre(cell: Cell) -> float:
    """Return the mean logit of the scores that gives the event its rate."""
    z, weight = np.polynomial.hermite_e.hermegauss(80)
    s = SPREAD[cell.rate]

    def excess(m: float) -> float:
        q = expit(TRUTHS[cell.truth](z, m, s))
        return float(weight @ q / weight.sum()) - cell.rate

    return float(brentq(excess, -12.0, 5.0))


def holds(low: Array, high: Array, truth: Array) -> NDArray[np.bool_]:
    """Return where a band holds the truth, up to rounding."""
    return (low <= truth + 1e-12) & (truth <= high + 1e-12)


def bands_hold(cell: Cell, number: int, m: float) -> list[float]:
    """Return for each method the share of rows, and whether the whole curve, is in its band."""
    s = SPREAD[cell.rate]
    rng = np.random.default_rng([zlib.crc32(repr(cell).encode()), number])
    z = rng.normal(size=cell.n)
    q, p = expit(TRUTHS[cell.truth](z, m, s)), expit(m + s * z)
    y = rng.random(cell.n) < q
    inner = np.quantile(z, np.linspace(*INNER, PLACES))
    at, truth = expit(m + s * inner), expit(TRUTHS[cell.truth](inner, m, s))
    found = []
    for method in METHODS:
        curve = calibration_curve(y, p, method=method)  # type: ignore[arg-type]
        ends = [np.interp(p, curve.prob_pred, end) for end in (curve.low, curve.high)]
        found.append(float(holds(*ends, q).mean()))
        both = curve.low_simultaneous, curve.high_simultaneous
        ends = [np.interp(at, curve.prob_pred, end) for end in both]
        found.append(float(holds(*ends, truth).all()))
    return found


def intervals_hold(cell: Cell, number: int, m: float, true: Array) -> list[float]:
    """Return for each distance whether its interval holds it; the largest is of these rows."""
    s = SPREAD[cell.rate]
    rng = np.random.default_rng([zlib.crc32(repr(cell).encode()), number, 1])
    z = rng.normal(size=cell.n)
    q, p = expit(TRUTHS[cell.truth](z, m, s)), expit(m + s * z)
    found = integrated_calibration_index(rng.random(cell.n) < q, p).interval
    true = np.append(true[:3], np.abs(q - p).max())
    return holds(found.low - 1e-9, found.high + 1e-9, true).astype(float).tolist()


def true_distances(cell: Cell, m: float) -> Array:
    """Return the four distances of very many rows."""
    s = SPREAD[cell.rate]
    z = np.random.default_rng(0).normal(size=POPULATION)
    return distances(expit(TRUTHS[cell.truth](z, m, s)), expit(m + s * z), np.ones(z.size))


def shares(cell: Cell, repetitions: int, index: int) -> tuple[Array, Array]:
    """Return the shares of bands and of intervals of one cell; empty without samples."""
    m = centre(cell)
    true = true_distances(cell, m)
    bands = [bands_hold(cell, i, m) for i in range(repetitions)]
    intervals = [intervals_hold(cell, i, m, true) for i in range(index)]
    return mean_of(bands), mean_of(intervals)


def mean_of(held: list[list[float]]) -> Array:
    """Return the mean over samples, empty without any."""
    return np.mean(held, axis=0) if held else np.empty(0)


def table(head: Sequence[str], rows: dict[Cell, Array]) -> list[str]:
    """Return the lines of a table, and the cells that hold too little."""
    lines = [f"| truth, rate, rows | {' | '.join(head)} |", "|---|" + "--:|" * len(head)]
    for cell, shares in rows.items():
        lines.append(f"| {cell.name} | {' | '.join(f'{share:.3f}' for share in shares)} |")
    low = [
        f"{cell.name}: {name} {share:.3f}"
        for cell, shares in rows.items()
        for name, share in zip(head, shares, strict=True)
        if share < ENOUGH
    ]
    return [*lines, "", f"Below {ENOUGH:g}: {'; '.join(low) or 'none'}."]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run all cells, and write the tables."""
    parser = argparse.ArgumentParser(prog="benchmarks.coverage.curve", description=__doc__)
    parser.add_argument("--repetitions", type=int, default=200)
    parser.add_argument("--index", type=int, default=0, help="so many of them with the index")
    parser.add_argument("--n", type=int, nargs="+", default=SIZES, help="rows")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--page", type=Path, default=HERE / "curve.md", help="the page to write")
    options = parser.parse_args(arguments)
    cells = [Cell(truth, rate, n) for rate, truth, n in product(RATES, TRUTHS, options.n)]
    each = Parallel(n_jobs=options.jobs, return_as="generator")(
        delayed(shares)(cell, options.repetitions, options.index) for cell in cells
    )
    curves, indices = {}, {}
    for cell, (bands, intervals) in zip(cells, each, strict=True):
        curves[cell], indices[cell] = bands, intervals
        print(cell.name, bands, intervals, flush=True)
    if options.repetitions:
        head = [f"{method}, {part}" for method in METHODS for part in ("rows", "whole curve")]
        text = (
            f"Share of rows whose rate the pointwise 95 % band holds, and of {options.repetitions}"
        )
        text += " samples whose whole curve the simultaneous band holds."
        fill(options.page, "bands", [text, "", *table(head, curves)])
    if options.index:
        text = f"Share of 95 % intervals that hold the distance; {options.index} samples."
        fill(options.page, "distances", [text, "", *table(DISTANCES, indices)])


if __name__ == "__main__":
    # Other processes find functions by the module's name, which `__main__` does not have.
    from benchmarks.coverage import curve

    curve.main()
