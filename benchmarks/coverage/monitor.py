"""How soon `CalibrationMonitor` gives an alarm after a drift, and how often it does without one.

``python -m benchmarks.coverage.monitor`` prints its results and fills the tables of README.md in
this folder (``soon`` and ``maps``, 100 years each, ``alarms``, 300 years each, and ``delays``, 301
runs each) in about 20 minutes. A year has 52 updates. In ``soon`` and ``maps``, stated log-odds are
normal with a standard deviation of 1.5, and a drift begins with week 13. The others have the cells
of `monitor_cells`.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from benchmarks._shared.report import fill, markdown
from benchmarks.coverage.monitor_cells import CELLS, DRIFTED, Cell, Pair
from skcalib import CalibrationMonitor, PlattScaling
from skcalib._arrays.sources import as_source
from skcalib._validation.rows import Predictions

Array = NDArray[np.float64]

PAGE = Path(__file__).with_name("README.md")
WEEKS, START = 52, 13
ROWS, FITTED, TOLERANCES = (50, 500, 5_000), (500, 2_000, 5_000), (0.0, 0.05, 0.1, 0.2)
PARTS = ("soon", "maps", "alarms", "delays")
# Weeks of the first draws of a cell, and the longest wait for an alarm.
LATE, LONGEST = 10, 120
DRIFTS: dict[str, Callable[[Array], Array]] = {
    "temperature 1.5": lambda z: z / 1.5,
    "temperature 1.2": lambda z: z / 1.2,
    "log-odds + 0.3": lambda z: z + 0.3,
    "odds x 1.5": lambda z: z + np.log(1.5),
}


def first_alarm(
    monitor: CalibrationMonitor,
    rng: np.random.Generator,
    n: int,
    true: Callable[[int, Array], Array],
) -> float:
    """Return the week of the first alarm in a year, infinity without one."""
    for week in range(1, WEEKS + 1):
        z = rng.normal(0, 1.5, n)
        y = (rng.random(n) < expit(true(week, z))).astype(int)
        if monitor.update(y, expit(z)).alarm_:
            return week
    return np.inf


def weeks_until(n: int, drift: Callable[[Array], Array], tolerance: float, years: int) -> str:
    """Return the median number of weeks from a drift to the alarm."""
    weeks = [
        first_alarm(
            CalibrationMonitor(tolerance=tolerance),
            np.random.default_rng([n, year]),
            n,
            lambda week, z: drift(z) if week >= START else z,
        )
        for year in range(years)
    ]
    median = float(np.median(weeks)) - START + 1
    return f"{median:.0f}" if np.isfinite(median) else ">"


def before_the_map(week: int, z: Array, slope: float, shift: float) -> Array:  # noqa: ARG001
    """Return the true log-odds of stated ones, which a map gives."""
    return (z - shift) / slope


def false_alarms(fitted: int, tolerance: float, years: int) -> str:
    """Return the share of years with an alarm where the map was fitted on some rows."""
    alarms = 0
    for year in range(years):
        rng = np.random.default_rng([fitted, year])
        z = rng.normal(0, 1.5, fitted)
        platt = PlattScaling(input="logits").fit(z, rng.random(fitted) < expit(z))
        true = partial(before_the_map, slope=platt.coef_[0], shift=platt.intercept_[0])
        week = first_alarm(CalibrationMonitor(tolerance=tolerance), rng, 500, true)
        alarms += np.isfinite(week)
    return f"{100 * alarms / years:.0f} %"


def checked(y: NDArray[Any], P: NDArray[Any]) -> Predictions:
    """Return a week as checked predictions, whose update takes a third of the time."""
    if P.ndim > 1:
        return Predictions(as_source(P), y, np.ones(len(P)), np.arange(P.shape[1]))
    code = y if y.dtype.kind == "i" else np.column_stack([1 - y, y])
    both = as_source(np.column_stack([1 - P, P]))
    return Predictions(both, code, np.ones(len(P)), np.array([0, 1]), 1, "column")


def share_with_alarm(cell: Cell, n: int, years: int) -> float:
    """Return the share of simulated years with an alarm."""
    alarms = 0
    for year in range(years):
        rng = np.random.default_rng([n, year])
        monitor = CalibrationMonitor(labels=range(cell.labels), period=cell.weeks)
        for week in range(cell.weeks):
            draw = cell.late if cell.late is not None and week >= LATE else cell.draw
            y, P, groups = draw(rng, n)
            given: Any = checked(y, P)  # in the place of labels and probabilities
            if monitor.update(given, given, groups=groups).alarm_:
                alarms += 1
                break
    return alarms / years


def weeks_of(n: int, pair: Pair, drift: Callable[[Array], Array], runs: int) -> str:
    """Return the median number of weeks from the first one, with a drift, to the alarm."""
    weeks = []
    for run in range(runs):
        rng, monitor, week = np.random.default_rng([n, run]), CalibrationMonitor(labels=[0, 1]), 0
        while week <= LONGEST:
            stated, true = pair(rng, n)
            week += 1
            if monitor.update((rng.random(n) < drift(true)).astype(int), stated).alarm_:
                break
        weeks.append(week)
    median = float(np.median(weeks))
    return f"{median:.0f}" if median <= LONGEST else ">"


def show(row: list[str]) -> list[str]:
    """Print a row of a table, and return it."""
    sys.stdout.write(f"{' | '.join(row)}\n")
    sys.stdout.flush()
    return row


def main(arguments: Sequence[str] | None = None) -> None:
    """Simulate, and fill the page."""
    parser = argparse.ArgumentParser(prog="benchmarks.coverage.monitor", description=__doc__)
    parser.add_argument("parts", nargs="*", help=f"any of {' '.join(PARTS)}; default: all")
    parser.add_argument("--years", type=int, help="simulated years of a case")
    parser.add_argument("--page", type=Path, default=PAGE)
    options = parser.parse_args(arguments)
    parts, years = options.parts or PARTS, options.years
    if "soon" in parts:
        cases = [(n, 0.1) for n in ROWS] + [(500, 0.0)]
        soon = [
            show(
                [f"{n:,}", f"{t}"]
                + [weeks_until(n, drift, t, years or 100) for drift in DRIFTS.values()]
            )
            for n, t in cases
        ]
        heads = ["rows a week", "tolerance", *DRIFTS]
        fill(options.page, "soon", markdown(heads, soon, left=0))
    if "maps" in parts:
        maps = [
            show([f"{m:,} rows", *(false_alarms(m, t, years or 100) for t in TOLERANCES)])
            for m in FITTED
        ]
        heads = ["the calibrator was fitted on", *(f"tolerance {t:g}" for t in TOLERANCES)]
        fill(options.page, "maps", markdown(heads, maps, left=0))
    if "alarms" in parts:
        alarms = [
            show([name, f"{n:,}", f"{100 * share_with_alarm(cell, n, years or 300):.1f} %"])
            for name, cell in CELLS.items()
            for n in cell.rows
        ]
        heads = ["calibrated probabilities", "rows a week", "years with an alarm"]
        fill(options.page, "alarms", markdown(heads, alarms, left=1))
    if "delays" in parts:
        delays = [
            show([name, *(weeks_of(n, pair, drift, years or 301) for n in (200, 2_000))])
            for name, (pair, drift) in DRIFTED.items()
        ]
        heads = ["drift from the first week on", "weeks: 200 rows", "weeks: 2,000 rows"]
        fill(options.page, "delays", markdown(heads, delays, left=1))


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="group .* was not in the first update")
        main()
