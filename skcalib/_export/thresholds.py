"""Step functions of each class, by an unrolled binary search.

Thresholds of all maps stand in one array, each map's own behind an entry that no comparison
counts. The search of a map with m thresholds takes log2(m + 1) rounds; a round adds half of what
is left to the place, and keeps the sum if the threshold there is passed. The place is also that of
the map's value in an array with one value more than thresholds for each map.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skcalib._export.operations import Constants, Operations, Value
from skcalib._export.scores import ROUNDING, moved

# Before the thresholds of each map: below every probability.
NONE_PASSED = -1.0


def search_constants(
    thresholds: Sequence[NDArray[Any]], map_of_column: Sequence[int] | None = None
) -> dict[str, NDArray[Any]]:
    """Return the arrays of `passed` for ascending thresholds of each map.

    Column k of the values is searched in the map ``map_of_column[k]``, by default in the k-th.
    """
    sizes = np.array([own.size + 1 for own in thresholds])
    column = np.arange(sizes.size) if map_of_column is None else np.asarray(map_of_column)
    found = {
        "thresholds": np.concatenate([np.append(NONE_PASSED, own) for own in thresholds]),
        "start": (np.cumsum(sizes) - sizes)[column][None],
    }
    left = sizes[column]
    while left.max() > 1:
        half = left // 2
        found[f"half{len(found) - 2}"] = half[None] if np.ptp(half) else half[:1]
        left = left - half
    return found


def passed(
    o: Operations, p: Value, c: Constants, *, reached: bool, near: bool, rounded: bool = False
) -> Value:
    """Return the places that the entries of ``p (n, m)`` get to.

    A threshold is passed by larger numbers and, if `reached` counts, by equal ones; if `near`,
    equal up to rounding. It is `rounded` to the type of the scores first, if so wished.
    """
    thresholds = o.rounded(c["thresholds"]) if rounded else c["thresholds"]
    if near:
        thresholds = moved(thresholds, -ROUNDING if reached else ROUNDING)
    place, rounds = c["start"], [c[name] for name in c if name.startswith("half")]
    for half in rounds:
        further = place + half
        limit = o.take(thresholds, further)
        place = o.where(limit <= p if reached else limit < p, further, place)
    # Where no map has a threshold, the place lacks the rows of p.
    return place if rounds else o.to_whole(o.filled(p, 0.0)) + place


def step_constants(x: Sequence[NDArray[Any]], y: Sequence[NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Return the arrays of `step`: the value ``y[j]`` from ``x[j]`` up to the next threshold.

    Below the first threshold its value counts too.
    """
    return search_constants([own[1:] for own in x]) | {"values": np.concatenate(y)}


def step(o: Operations, p: Value, c: Constants, near: bool) -> Value:
    """Return the values of step functions, closed on the left."""
    return o.take(c["values"], passed(o, p, c, reached=True, near=near))
