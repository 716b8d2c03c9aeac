"""Step functions and broken lines, a function for each class, by an unrolled binary search.

Thresholds of all maps stand in one array, each map's own one after the other, behind an entry that
no search reads. The search of a map with m thresholds takes log2(m + 1) rounds; a round adds half
of what is left to the place, and keeps the sum if the threshold there is passed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skcalib._export.operations import Constants, Operations, Value
from skcalib._export.scores import ROUNDING, moved


def search_constants(thresholds: Sequence[NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Return the arrays of `passed` and `value_places` for ascending thresholds of each map."""
    sizes = np.array([own.size for own in thresholds])
    start = np.cumsum(sizes) - sizes
    found = {
        "thresholds": np.concatenate([[0.0], *thresholds]),
        "start": start[None],
        "own": np.arange(sizes.size)[None],
    }
    left = sizes + 1
    while left.max() > 1:
        half = left // 2
        found[f"half{len(found) - 3}"] = half[None] if np.ptp(half) else half[:1]
        left = left - half
    return found


def passed(
    o: Operations, p: Value, c: Constants, *, reached: bool, near: bool, rounded: bool = False
) -> Value:
    """Return how far each entry of ``p (n, m)`` gets, plus the places of earlier maps.

    A threshold is passed by larger numbers and, if `reached` counts, by equal ones; if `near`,
    equal up to rounding. It is `rounded` to the type of the scores first, if so wished.
    """
    thresholds = o.rounded(c["thresholds"]) if rounded else c["thresholds"]
    if near:
        thresholds = moved(thresholds, -ROUNDING if reached else ROUNDING)
    # Of the shape of p also where no map has a threshold.
    place = o.to_whole(o.filled(p, 0.0)) + c["start"]
    for name in c:
        if name.startswith("half"):
            further = place + c[name]
            limit = o.take(thresholds, further)
            place = o.where(limit <= p if reached else limit < p, further, place)
    return place


def value_places(place: Value, c: Constants) -> Value:
    """Return places in an array with one value more than thresholds for each map."""
    return place + c["own"]


def step_constants(x: Sequence[NDArray[Any]], y: Sequence[NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Return the arrays of `step`: the value ``y[j]`` from ``x[j]`` up to the next threshold.

    Below the first threshold its value counts too.
    """
    return search_constants([own[1:] for own in x]) | {"values": np.concatenate(y)}


def step(o: Operations, p: Value, c: Constants, near: bool) -> Value:
    """Return the values of step functions, closed on the left."""
    return o.take(c["values"], value_places(passed(o, p, c, reached=True, near=near), c))


def line_constants(
    x: Sequence[NDArray[Any]], y: Sequence[NDArray[Any]], lift: float = 1.0
) -> dict[str, NDArray[Any]]:
    """Return the arrays of `line`: knots x and values y of each map, constant beyond the ends.

    `lift` is a power of two that keeps slopes between tiny knots finite.
    """
    found = search_constants([own * lift for own in x])
    left, level, slope = [], [], []
    for knots, values in zip(x, y, strict=True):
        rise = np.diff(values) / np.diff(knots * lift)
        left.append(np.concatenate([knots[:1], knots]) * lift)
        level.append(np.concatenate([values[:1], values]))
        slope.append(np.concatenate([[0.0], rise, [0.0]]))
    parts = {"left": left, "level": level, "slope": slope}
    return found | {name: np.concatenate(part) for name, part in parts.items()}


def line(o: Operations, p: Value, c: Constants, near: bool, lift: float = 1.0) -> Value:
    """Return the values of broken lines, as `numpy.interp` does."""
    p = p * lift
    at = value_places(passed(o, p, c, reached=True, near=near), c)
    left = o.take(c["left"], at)
    beyond = p - left
    if near:  # the slope would magnify the rounding error of a score that is a knot
        beyond = o.where(p <= moved(left, ROUNDING), 0.0, beyond)
    return o.take(c["level"], at) + o.take(c["slope"], at) * beyond
