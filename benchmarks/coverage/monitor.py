"""How soon `CalibrationMonitor` gives an alarm after a drift, and how often it does without one.

``python -m benchmarks.coverage.monitor --years 100`` fills the tables of docs/monitor.md in some
minutes of one core. A year has 52 updates; stated log-odds are normal with a standard deviation of
1.5, and a drift begins with week 13.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from benchmarks._shared.report import fill, markdown
from skcalib import CalibrationMonitor, PlattScaling

Array = NDArray[np.float64]

PAGE = Path(__file__).parents[2] / "docs" / "monitor.md"
WEEKS, START = 52, 13
ROWS, FITTED, TOLERANCES = (50, 500, 5_000), (500, 2_000, 5_000), (0.0, 0.05, 0.1, 0.2)
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


def main(arguments: Sequence[str] | None = None) -> None:
    """Simulate, and fill the page."""
    parser = argparse.ArgumentParser(prog="benchmarks.coverage.monitor", description=__doc__)
    parser.add_argument("--years", type=int, default=100)
    parser.add_argument("--page", type=Path, default=PAGE)
    options = parser.parse_args(arguments)
    cases = [(n, 0.1) for n in ROWS] + [(500, 0.0)]
    soon = [
        [f"{n:,}", t, *(weeks_until(n, drift, t, options.years) for drift in DRIFTS.values())]
        for n, t in cases
    ]
    fill(options.page, "soon", markdown(["rows a week", "tolerance", *DRIFTS], soon, left=0))
    maps = [
        [f"{m:,} rows", *(false_alarms(m, t, options.years) for t in TOLERANCES)] for m in FITTED
    ]
    heads = ["the map was fitted on", *(f"tolerance {t:g}" for t in TOLERANCES)]
    fill(options.page, "maps", markdown(heads, maps, left=0))


if __name__ == "__main__":
    main()
