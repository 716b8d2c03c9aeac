"""Broken lines and steps without a binary search: places among limits by a search tree.

A node of the tree is a row of 16 entries, two cache lines: an empty one and 15 limits. How many of
them a number passes says in which row of the next level the search goes on; behind the last level
it is the place of the map's value in an array with one value more than limits for each map. Each
16th limit stands in the level above, that of the 16th of those two levels above. The first level
has one row for each map, longer or shorter.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skcalib._maps.operations import LIFT, Piecewise, Steps

# Entries of a row, and the most of a first one; powers of two.
WIDTH, MOST_FIRST = 16, 32


def tables(maps: Piecewise) -> dict[str, NDArray[Any]]:
    """Return the arrays of step functions or broken lines, by name.

    Piece j of a broken line has the value ``level[j] + slope[j] * (LIFT * p - left[j])``.
    """
    if isinstance(maps, Steps):
        pairs = [_changes(*pair) for pair in zip(maps.x, maps.y, strict=True)]
        level = np.concatenate([values for _, values in pairs])
        return _tree([limits for limits, _ in pairs]) | {"level": level}
    x = [knots * LIFT for knots in maps.x]
    slopes = [
        np.concatenate([[0.0], np.diff(y) / np.diff(knots), [0.0]])
        for knots, y in zip(x, maps.y, strict=True)
    ]
    return {
        **_tree(x),
        "level": np.concatenate([np.append(y[:1], y) for y in maps.y]),
        "left": np.concatenate([np.append(knots[:1], knots) for knots in x]),
        "slope": np.concatenate(slopes),
    }


def _changes(limits: NDArray[Any], values: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return steps without the limits between two equal values."""
    changes = values[1:] != values[:-1]
    return limits[changes], values[np.append(True, changes)]


def _tree(limits: Sequence[NDArray[Any]]) -> dict[str, NDArray[Any]]:
    entries = [np.append(np.nan, own) for own in limits]
    start = _starts(entries)
    levels = []
    while (most := max(own.size for own in entries)) > MOST_FIRST:
        rows = [_in_rows(own, WIDTH) for own in entries]
        levels.append((rows, start))
        entries, start = [own[::WIDTH] for own in entries], _starts(rows)
    width = max(2, 1 << int(most - 1).bit_length())
    levels.append(([_in_rows(own, width) for own in entries], start))
    arrays: dict[str, NDArray[Any]] = {"row": np.arange(len(limits))[None]}
    for j, (rows, start) in enumerate(reversed(levels)):
        table = np.concatenate(rows)
        arrays[f"limits{j}"] = table
        arrays[f"shift{j}"] = (start - table.shape[1] * _starts(rows))[None]
    return arrays


def _starts(parts: Sequence[NDArray[Any]]) -> NDArray[np.int64]:
    """Return where each part starts among all of them."""
    return np.cumsum([0, *(len(own) for own in parts[:-1])], dtype=np.int64)


def _in_rows(entries: NDArray[Any], width: int) -> NDArray[np.float64]:
    """Return entries in rows, the first of each and those left over as NaN: nothing passes it."""
    rows = np.full((-(-entries.size // width), width), np.nan)
    rows.ravel()[: entries.size] = entries
    rows[:, 0] = np.nan
    return rows
