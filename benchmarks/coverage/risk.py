"""Do the intervals of the statistics of one event hold the truth? By simulation.

``python -m benchmarks.coverage.risk`` draws people whose log-odds of an event are normal, gives
them the probabilities of a model that is calibrated, overfitted or wrong on the whole, and counts
how many 95 % intervals hold the slope, the intercepts, O:E and the AUC of the population. It takes
two minutes and writes its table into `table.md`; ``--repetitions`` makes it finer.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import expit

from benchmarks._shared.report import fill
from skcalib.metrics import (
    calibration_intercept_slope,
    observed_expected_ratio,
    spiegelhalter_test,
)
from skcalib.metrics._auc import auc_interval
from skcalib.metrics._event import EventRows

Array = NDArray[np.float64]

HERE = Path(__file__).parent
ENOUGH = 0.93
Z = 1.959963984540054
RATES, ROWS = (0.02, 0.2), (500, 2_000, 10_000)
# Standard deviation of the log-odds; areas under the ROC curve are .82 and .79.
SPREAD = 1.3
NODES, SHARES = np.polynomial.hermite_e.hermegauss(201)
SHARES = SHARES / SHARES.sum()
# Intervals, another one to compare, and the tests.
COLUMNS = ("slope", "intercept", "in the large", "O:E", "AUC")
COLUMNS += ("O:E, log Poisson", "p, slope", "p, Brier")
N_INTERVALS = 5


class Truth(NamedTuple):
    """Log-odds of the event are `shift` + `slope` times those of the model."""

    slope: float
    shift: float


def overfitted(centre: float) -> Truth:
    """Return a model that is too far from the middle of the log-odds, by 1 / .7."""
    return Truth(0.7, 0.3 * centre)


TRUTHS: dict[str, Callable[[float], Truth]] = {
    "calibrated": lambda _: Truth(1.0, 0.0),
    "overfitted": overfitted,
    "shifted": lambda _: Truth(1.0, -0.5),
}


class Population(NamedTuple):
    """Mean log-odds of the event, its truth, and what an endless sample would show."""

    centre: float
    truth: Truth
    in_the_large: float
    ratio: float
    area: float


def area_of(centre: float) -> float:
    """Return the area under the ROC curve of normal log-odds, by a sum over a fine grid."""
    x = np.linspace(-9, 9, 20_001)
    density, q = np.exp(-x * x / 2), expit(centre + SPREAD * x)
    events, others = density * q, density * (1 - q)
    below = np.cumsum(others) - others / 2
    return float(events @ below / (events.sum() * others.sum()))


def population(rate: float, name: str) -> Population:
    """Return the population with this share of events."""
    centre = brentq(lambda m: SHARES @ expit(m + SPREAD * NODES) - rate, -15, 5)
    truth = TRUTHS[name](centre)
    model = (centre + SPREAD * NODES - truth.shift) / truth.slope
    large = brentq(lambda c: SHARES @ expit(model + c) - rate, -5, 5)
    return Population(centre, truth, large, rate / (SHARES @ expit(model)), area_of(centre))


def sample(people: Population, n: int, rng: np.random.Generator) -> tuple[NDArray[np.bool_], Array]:
    """Draw n people: whether they have the event, and the model's probability."""
    odds = people.centre + SPREAD * rng.normal(size=n)
    model = (odds - people.truth.shift) / people.truth.slope
    return rng.random(n) < expit(odds), expit(model)


def holds(people: Population, y: NDArray[np.bool_], p: Array) -> list[bool]:
    """Return which intervals hold the truth, and which p-values are above .05."""
    fit, number = calibration_intercept_slope(y, p), observed_expected_ratio(y, p)
    _, low, high = auc_interval(EventRows(p, y, np.ones(y.size)), 0.95)
    width = np.exp(Z / np.sqrt(y.sum()))
    return [
        fit.slope_low <= people.truth.slope <= fit.slope_high,
        fit.intercept_low <= people.truth.shift <= fit.intercept_high,
        fit.in_the_large_low <= people.in_the_large <= fit.in_the_large_high,
        number.low <= people.ratio <= number.high,
        low <= people.area <= high,
        number.ratio / width <= people.ratio <= number.ratio * width,
        fit.pvalue > 0.05,
        spiegelhalter_test(y, p).pvalue > 0.05,
    ]


def coverage(rate: float, name: str, n: int, repetitions: int) -> tuple[Array, int]:
    """Return the share of each column, and how many samples had no finite slope."""
    people, held, refused = population(rate, name), [], 0
    for i in range(repetitions):
        try:
            held.append(holds(people, *sample(people, n, np.random.default_rng(i))))
        except ValueError:  # no event, or none that another exceeds
            refused += 1
    return np.mean(held, axis=0), refused


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the table."""
    parser = argparse.ArgumentParser(prog="benchmarks.coverage.risk", description=__doc__)
    parser.add_argument("--repetitions", type=int, default=2000)
    parser.add_argument("--page", type=Path, default=HERE / "table.md", help="the page to write")
    options = parser.parse_args(arguments)
    lines = [
        "Share of 95 % intervals that hold the truth of the population, and of p-values above .05.",
        f"{options.repetitions} samples of each line; `python -m benchmarks.coverage.risk`.",
        "",
        f"| truth, events, rows | {' | '.join(COLUMNS)} |",
        "|---|" + "--:|" * len(COLUMNS),
    ]
    low, refused = [], 0
    for rate in RATES:
        for name in TRUTHS:
            for n in ROWS:
                shares, without = coverage(rate, name, n, options.repetitions)
                refused += without
                line = f"{name}, {rate:.0%}, {n:,}"
                lines.append(f"| {line} | {' | '.join(f'{x:.3f}' for x in shares)} |")
                print(lines[-1], flush=True)
                found = zip(COLUMNS[:N_INTERVALS], shares, strict=False)
                low += [f"{column} of {line}: {x:.3f}" for column, x in found if x < ENOUGH]
    lines += ["", f"Intervals below {ENOUGH:g}: {'; '.join(low) or 'none'}."]
    lines += [f"Samples without a finite slope: {refused}."]
    fill(options.page, "statistics of one event", lines)


if __name__ == "__main__":
    main()
