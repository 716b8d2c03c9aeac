"""Cells with known accuracies, for simulations of `selective_threshold`.

A cell draws scores and the probability that each row is right. Those of `KNOWN` were used to choose
where the tests start; those of `NEW` were written down afterwards, before they were run.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

Array = NDArray[np.float64]
Draw = Callable[[np.random.Generator, int], tuple[Array, Array]]


class Cell(NamedTuple):
    """Rows of a truth, and the accuracy that is wanted."""

    name: str
    draw: Draw
    rows: int
    accuracy: float


def smooth(rng: np.random.Generator, n: int) -> tuple[Array, Array]:
    """Return calibrated confidences."""
    p = expit(np.abs(rng.normal(0, 4, n)))
    return p, p


def rounded(draw: Draw, digits: int) -> Draw:
    """Return the rounded scores of another draw."""

    def draw_rounded(rng: np.random.Generator, n: int) -> tuple[Array, Array]:
        score, p = draw(rng, n)
        return score.round(digits), p

    return draw_rounded


def levels(scores: list[float], shares: list[float], accuracies: list[float]) -> Draw:
    """Return confidences of few levels, each with its accuracy."""

    def draw(rng: np.random.Generator, n: int) -> tuple[Array, Array]:
        k = rng.choice(len(scores), n, p=shares)
        return np.array(scores)[k], np.array(accuracies)[k]

    return draw


def event(truth: tuple[float, float], stated: tuple[float, float] | None = None) -> Draw:
    """Return an event whose log-odds are a + b z, z normal, and the model's own a and b."""

    def draw(rng: np.random.Generator, n: int) -> tuple[Array, Array]:
        z = rng.normal(size=n)
        a, b = stated or truth
        return expit(a + b * z), expit(truth[0] + truth[1] * z)

    return draw


def uniform(truth: Callable[[Array], Array], low: float = 0.0, high: float = 1.0) -> Draw:
    """Return uniform scores; the accuracy is a function of the rank, 1 at the top."""

    def draw(rng: np.random.Generator, n: int) -> tuple[Array, Array]:
        u = rng.random(n)
        return low + (high - low) * u, truth(u)

    return draw


def tied_top(rng: np.random.Generator, n: int) -> tuple[Array, Array]:
    """Return answers of which 17 % are stated as certain and are right in 97.5 %."""
    top = rng.random(n) < 0.17
    p = np.where(top, 0.975, np.minimum(0.99, 0.5 + 0.47 * rng.random(n)))
    return np.where(top, 1.0, p.round(2)), p


def rare(rng: np.random.Generator, n: int) -> tuple[Array, Array]:
    """Return an event of 1 %, of which the surest 0.4 % of the rows are nearly certain."""
    p = expit(4.5 * np.maximum(rng.normal(size=n), 0) ** 1.15 - 9)
    return p, p


def heavy(rng: np.random.Generator, n: int) -> tuple[Array, Array]:
    """Return underconfident top labels with heavy tails."""
    z = np.abs(rng.standard_t(2, n))
    return expit(0.7 * z), expit(z)


def certain_and_wrong(rng: np.random.Generator, n: int) -> tuple[Array, Array]:
    """Return calibrated confidences, but 5 % are 1 and right in 60 %."""
    top, (p, _) = rng.random(n) < 0.05, smooth(rng, n)
    return np.where(top, 1.0, p), np.where(top, 0.6, p)


def waves(u: Array) -> Array:
    """Return accuracies that change between 0.875 and 0.92, three times an octave."""
    octave = np.floor(3 * np.log2(np.maximum(1 - u, 1e-6))).astype(int) % 2
    return np.where(octave == 0, 0.875, 0.92)


VERBAL = levels(
    [0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1.0],
    [0.05, 0.08, 0.12, 0.2, 0.2, 0.15, 0.2],
    [0.45, 0.6, 0.66, 0.82, 0.9, 0.94, 0.975],
)
KNOWN = (
    Cell("event of 1 %", rare, 5_000, 0.9),
    Cell("event of 1 %", rare, 20_000, 0.95),
    Cell("event of 6 %", event((-5, 3.2)), 3_000, 0.8),
    Cell("event of 6 %", event((-5, 3.2)), 20_000, 0.95),
    Cell("event of 6 %, stated as 19 %", event((-5, 3.2), (-3, 3.2)), 20_000, 0.9),
    Cell("calibrated", smooth, 300, 0.9),
    Cell("calibrated", smooth, 1_000, 0.95),
    Cell("calibrated, hundredths", rounded(smooth, 2), 1_000, 0.95),
    Cell("seven levels", VERBAL, 1_000, 0.95),
    Cell("17 % at 1.00", tied_top, 3_000, 0.95),
    Cell("wrong at the top", uniform(lambda u: np.where(u > 0.9, 0.7, 0.97)), 1_000, 0.95),
    Cell("just below everywhere", uniform(lambda u: np.full_like(u, 0.949)), 1_000, 0.95),
    Cell("surest 0.5 % wrong", uniform(lambda u: np.where(u > 0.995, 0.5, 0.97)), 2_000, 0.95),
    Cell("underconfident event", event((0, 3.0), (0, 0.6)), 2_000, 0.9),
    Cell("overconfident event", event((0, 2.25), (2, 6.0)), 2_000, 0.9),
    Cell("event of 0.3 %", event((-9, 2.5)), 50_000, 0.7),
    Cell("event of 6 %, hundredths", rounded(event((-5, 3.2)), 2), 10_000, 0.9),
    Cell("event of 6 %, half as sure", event((-5, 3.2), (-2.5, 1.6)), 10_000, 0.8),
    Cell("event of 6 %, twice as sure", event((-5, 3.2), (-10, 6.4)), 10_000, 0.8),
    Cell(
        "six levels, overconfident",
        levels(
            [0.5, 0.7, 0.8, 0.9, 0.95, 0.99],
            [0.1, 0.1, 0.2, 0.2, 0.2, 0.2],
            [0.4, 0.55, 0.7, 0.8, 0.88, 0.96],
        ),
        500,
        0.9,
    ),
    Cell("two levels", levels([0.5, 1.0], [0.7, 0.3], [0.5, 0.97]), 400, 0.95),
    Cell("just below, all predicted", uniform(lambda u: np.full_like(u, 0.8995), 0.9), 1_000, 0.9),
    Cell("surest 3 % right", uniform(lambda u: np.where(u > 0.97, 0.99, 0.9)), 3_000, 0.95),
    Cell("certain and wrong", certain_and_wrong, 1_000, 0.9),
    Cell("underconfident", uniform(lambda u: 0.9 + 0.1 * u, 0.5, 0.9), 300, 0.95),
    Cell("heavy tails, underconfident", heavy, 300, 0.9),
    Cell("calibrated", smooth, 60, 0.8),
    Cell("waves", uniform(waves), 3_000, 0.9),
    Cell("waves, hundredths", rounded(uniform(waves), 2), 3_000, 0.9),
)


def falling(u: Array) -> Array:
    """Return accuracies that fall to 0.85 at the top."""
    return 0.99 - 0.14 * u


def bumps(u: Array) -> Array:
    """Return accuracies just below 0.9 on average, and 0.93 between ranks of 0.7 and 0.8."""
    return np.where((u > 0.7) & (u < 0.8), 0.93, 0.89)


def squared(rng: np.random.Generator, n: int) -> tuple[Array, Array]:
    """Return an event of 20 % whose scores are too low where it is likely."""
    p = rng.beta(0.4, 1.6, n)
    return p**2, p


def mixed(rng: np.random.Generator, n: int) -> tuple[Array, Array]:
    """Return two kinds of rows: nine in ten calibrated, the others far too sure."""
    p, _ = smooth(rng, n)
    return p, np.where(rng.random(n) < 0.1, 0.5 + (p - 0.5) / 3, p)


NEW = (
    Cell("event of 2 %", event((-6, 2.8)), 4_000, 0.85),
    Cell("event of 2 %", event((-6, 2.8)), 30_000, 0.6),
    Cell("event of 2 %, stated as 0.4 %", event((-6, 2.8), (-8, 2.8)), 30_000, 0.8),
    Cell("event of 2 %, tenths", rounded(event((-6, 2.8)), 1), 10_000, 0.7),
    Cell("event of 20 %, underconfident", squared, 1_000, 0.8),
    Cell("event of 20 %, underconfident", squared, 200, 0.7),
    Cell("falls at the top", uniform(falling, 0.8), 2_000, 0.9),
    Cell("bumps", uniform(bumps, 0.8), 2_000, 0.9),
    Cell("just below, half predicted", uniform(lambda u: np.full_like(u, 0.7995), 0.6), 500, 0.8),
    Cell("two kinds of rows", mixed, 500, 0.9),
    Cell("two kinds of rows", mixed, 5_000, 0.97),
    Cell("three levels", levels([0.8, 0.9, 0.99], [0.4, 0.4, 0.2], [0.9, 0.86, 0.96]), 800, 0.9),
    Cell("calibrated", smooth, 150, 0.99),
    Cell("calibrated", smooth, 10_000, 0.99),
)
# Rows that are kept, a tenth of the negatives among them, thinned by their weights 1 and 10.
SAMPLED = (
    Cell("negatives kept by a tenth, thinned", event((-4, 3.3), (-4, 3.0)), 1_000, 0.8),
    Cell("negatives kept by a tenth, thinned", event((-4, 3.3), (-4, 3.0)), 5_000, 0.9),
)
