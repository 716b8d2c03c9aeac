"""Calibrated probabilities for `CalibrationMonitor`, and drifts: how they are rounded, and labels.

Each cell draws a week of rows: labels, stated probabilities and perhaps groups. In every cell the
true probabilities agree with what the stated ones stand for, so that an alarm is a false one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

Array = NDArray[np.float64]
# Labels, stated probabilities, and groups or None.
Week = tuple[NDArray[Any], NDArray[Any], NDArray[Any] | None]
Draw = Callable[[np.random.Generator, int], Week]
# Stated and true probabilities of one event.
Pair = Callable[[np.random.Generator, int], tuple[NDArray[Any], Array]]
# The logarithm of the odds' relative error that is tolerated.
EDGE = np.log(1.1)


class Cell(NamedTuple):
    """Rows a week that are simulated, and how a week is drawn; `late` from the eleventh on."""

    rows: tuple[int, ...]
    draw: Draw
    late: Draw | None = None
    weeks: int = 52
    labels: int = 2


def of_event(pair: Pair) -> Draw:
    """Return weeks of one event."""

    def draw(rng: np.random.Generator, n: int) -> Week:
        stated, true = pair(rng, n)
        return (rng.random(n) < true).astype(int), stated, None

    return draw


def uniform_tenths(rng: np.random.Generator, n: int) -> Array:
    """Return 0, 0.1, ..., 1."""
    return rng.integers(0, 11, n) / 10


def normal(rng: np.random.Generator, n: int, mean: float = 0.0, sd: float = 1.5) -> Array:
    """Return probabilities whose log-odds are normal."""
    return expit(rng.normal(mean, sd, n))


def same(p: Array) -> tuple[Array, Array]:
    """Return probabilities as stated and true ones."""
    return p, p


def levels(stated: list[float], true: list[float]) -> Pair:
    """Return pairs of levels, all equally frequent."""

    def pair(rng: np.random.Generator, n: int) -> tuple[Array, Array]:
        k = rng.integers(0, len(stated), n)
        return np.array(stated)[k], np.array(true)[k]

    return pair


def rounded(values: Callable[[np.random.Generator, int], Array], places: int) -> Pair:
    """Return true probabilities, and their decimals as stated ones."""

    def pair(rng: np.random.Generator, n: int) -> tuple[Array, Array]:
        true = values(rng, n)
        return true.round(places), true

    return pair


def upper_ends(rng: np.random.Generator, n: int) -> tuple[Array, Array]:
    """Return hundredths, and the highest true odds that they and the tolerance allow."""
    p = normal(rng, n).round(2)
    return p, expit(logit(np.minimum(p + 0.005, 1)) + EDGE)


def of_classes(true: Callable[[np.random.Generator, int], Array], places: int) -> Draw:
    """Return weeks of several classes in decimals, whose rows need not sum to 1."""

    def draw(rng: np.random.Generator, n: int) -> Week:
        P = true(rng, n)
        stated = P.round(places)
        # Rows are drawn again until they sum to 1 within one unit in the last place.
        while (bad := abs(stated.sum(axis=1) - 1) > 1.01 * 10.0**-places).any():
            P[bad] = true(rng, n)[bad]
            stated[bad] = P[bad].round(places)
        return drawn(rng, P), stated, None

    return draw


def drawn(rng: np.random.Generator, P: Array) -> NDArray[Any]:
    """Return a label for each row of probabilities."""
    up_to = P.cumsum(axis=1)
    return (up_to < rng.random((len(P), 1)) * up_to[:, -1:]).sum(axis=1)


def five_classes(rng: np.random.Generator, n: int) -> Array:
    """Return probabilities of which many are close to 0."""
    return rng.dirichlet(np.full(5, 0.3), n)


def zipf(rng: np.random.Generator, n: int) -> Array:
    """Return probabilities of 10 classes, the k-th most frequent in 1 / k of the rows."""
    return rng.dirichlet(4 / np.arange(1, 11), n)


def classes_in_groups(rng: np.random.Generator, n: int) -> Week:
    """Return five classes in twenty groups."""
    P = rng.dirichlet(np.ones(5), n)
    return drawn(rng, P), P, rng.integers(20, size=n)


def some_labels(rng: np.random.Generator, n: int) -> Week:
    """Return rows whose labels arrive in some week."""
    p = normal(rng, rng.poisson(n))
    return (rng.random(p.size) < p).astype(int), p, None


def two_questions(absent: float) -> Draw:
    """Return two questions with two options each, in twentieths; `absent` for the other two."""

    def draw(rng: np.random.Generator, n: int) -> Week:
        p = rng.integers(1, 20, n) / 20
        question, y = rng.integers(2, size=n), rng.random(n) < p
        P = np.full((n, 4), absent)
        P[np.arange(n), 2 * question], P[np.arange(n), 2 * question + 1] = 1 - p, p
        return 2 * question + y, P, question

    return draw


def three_options(rng: np.random.Generator, n: int) -> Week:
    """Return three questions with three of five options, in hundredths that need not sum to 1."""
    question, P = rng.integers(3, size=n), rng.dirichlet([0.5, 1, 2], n)
    stated = np.full((n, 5), np.nan)
    columns = question[:, None] + np.arange(3)
    np.put_along_axis(stated, columns, P.round(2), axis=1)
    return question + drawn(rng, P), stated, question


def two_resolutions(rng: np.random.Generator, n: int) -> Week:
    """Return tenths of one question and hundredths of the other."""
    p, g = normal(rng, n), rng.integers(2, size=n)
    stated = np.where(g, p.round(2), p.round(1))
    true = np.where(g, p, stated)
    return (rng.random(n) < true).astype(int), stated, g


def raters(rng: np.random.Generator, n: int) -> Week:
    """Return shares of ten raters, who are alike or draw for themselves."""
    p = uniform_tenths(rng, n)
    alike = rng.random(n) < 0.5
    return np.where(alike, rng.random(n) < p, rng.binomial(10, p) / 10), p, None


def trees(rng: np.random.Generator, n: int) -> tuple[Array, Array]:
    """Return the share of 64 trees that vote for the event."""
    true = rng.beta(0.5, 0.5, n)
    return (64 * true).round() / 64, true


def softmax_32(rng: np.random.Generator, n: int) -> tuple[NDArray[Any], Array]:
    """Return sigmoids in float32, many of them exactly 1."""
    p = expit(rng.normal(3, 9, n).astype(np.float32))
    return p, p.astype(float)


def rare(mean: float) -> Callable[[np.random.Generator, int], Array]:
    """Return exponential probabilities."""
    return lambda rng, n: rng.exponential(mean, n).clip(0, 1)


SEVEN = [0.05, 0.2, 0.35, 0.5, 0.65, 0.8, 0.95]
HUNDREDTHS = of_event(rounded(normal, 2))
ALL_DIGITS = of_event(lambda rng, n: same(normal(rng, n)))
CELLS = {
    # Those of a report in which monitors gave false alarms, or were tried without one.
    "always 1 and right": Cell((20, 200), of_event(levels([1.0], [1.0]))),
    "tenths": Cell((20, 200, 2000), of_event(lambda rng, n: same(uniform_tenths(rng, n)))),
    "0.002 in two decimals": Cell((20, 200, 2000), of_event(rounded(rare(0.002), 2))),
    "hundredths": Cell((200,), HUNDREDTHS),
    "seven levels": Cell((200,), of_event(levels(SEVEN, SEVEN))),
    "seven levels with 0 and 1": Cell(
        (200,),
        of_event(levels([0, *SEVEN[1:-1], 1], [0.003, *SEVEN[1:-1], 0.997])),
    ),
    "float32, many exactly 1": Cell((200,), of_event(softmax_32)),
    "all digits": Cell((200,), ALL_DIGITS),
    "all digits, prevalence 0.01": Cell(
        (200,), of_event(lambda rng, n: same(normal(rng, n, -5, 1)))
    ),
    "odds at the upper edge": Cell(
        (200,), of_event(lambda rng, n: (p := normal(rng, n), expit(logit(p) + EDGE)))
    ),
    "odds at the lower edge": Cell(
        (200,), of_event(lambda rng, n: (p := normal(rng, n), expit(logit(p) - EDGE)))
    ),
    "one row a day": Cell((1,), ALL_DIGITS, weeks=365),
    "5 classes, 20 groups": Cell((100,), classes_in_groups, labels=5),
    "labels that come late by chance": Cell((20,), some_labels),
    "a log of two questions": Cell((100,), two_questions(np.nan), labels=4),
    "the same, 0 where not offered": Cell((100,), two_questions(0.0), labels=4),
    # Further ones.
    "rounded to tenths": Cell((200,), of_event(rounded(lambda rng, n: rng.random(n), 1))),
    "hundredths, odds at the upper end": Cell((200, 2000), of_event(upper_ends)),
    "5 classes in two decimals": Cell((200,), of_classes(five_classes, 2), labels=5),
    "10 classes in three decimals": Cell((100,), of_classes(zipf, 3), labels=10),
    "votes of 64 trees": Cell((200,), of_event(trees)),
    "sevenths": Cell((20,), of_event(lambda rng, n: same(rng.integers(0, 8, n) / 7))),
    "hundredths in float32": Cell(
        (200,),
        of_event(lambda rng, n: (p := normal(rng, n).round(2).astype(np.float32), p.astype(float))),
    ),
    "0.0002 in four decimals": Cell((1000,), of_event(rounded(rare(0.0002), 4))),
    "tenths and hundredths by question": Cell((200,), two_resolutions),
    "shares of raters, tenths": Cell((200,), raters),
    "hundredths, later all digits": Cell((200,), HUNDREDTHS, late=ALL_DIGITS),
    "a log of three questions in two decimals": Cell((100,), three_options, labels=5),
}


def changed(slope: float, shift: float) -> Callable[[Array], Array]:
    """Return the odds of a drift."""
    return lambda p: expit(slope * logit(np.clip(p, 1e-9, 1 - 1e-9)) + shift)


# Stated and true probabilities, and what becomes of the latter from the first week on.
DRIFTED: dict[str, tuple[Pair, Callable[[Array], Array]]] = {
    "all digits, temperature 1.5": (lambda rng, n: same(normal(rng, n)), changed(1 / 1.5, 0)),
    "all digits, log-odds + 0.3": (lambda rng, n: same(normal(rng, n)), changed(1, 0.3)),
    "all digits, log-odds + 0.2": (lambda rng, n: same(normal(rng, n)), changed(1, 0.2)),
    "hundredths, temperature 1.5": (rounded(normal, 2), changed(1 / 1.5, 0)),
    "hundredths, log-odds + 0.3": (rounded(normal, 2), changed(1, 0.3)),
    "hundredths, log-odds + 0.2": (rounded(normal, 2), changed(1, 0.2)),
    "tenths, temperature 1.5": (
        lambda rng, n: same(uniform_tenths(rng, n)), changed(1 / 1.5, 0)
    ),
    "0.002 in two decimals, odds x 3": (rounded(rare(0.002), 2), changed(1, np.log(3))),
    "float32, many exactly 1, temperature 1.5": (softmax_32, changed(1 / 1.5, 0)),
    "always 1, right in 90 %": (levels([1.0], [1.0]), lambda p: 0.9 * p),
}  # fmt: skip
