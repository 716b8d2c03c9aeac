"""Places among the thresholds of each class, by a search tree.

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

from skcalib._export.operations import Constants, Operations, Value

# Entries of a row, and the most of a first one; powers of two.
WIDTH, MOST_FIRST = 16, 32


def search_constants(
    limits: Sequence[NDArray[Any]], map_of_column: Sequence[int] | None = None
) -> dict[str, NDArray[Any]]:
    """Return the arrays of `passed` for ascending limits of each map.

    Column k of the values is searched in the map ``map_of_column[k]``, by default in the k-th.
    """
    column = np.arange(len(limits)) if map_of_column is None else np.asarray(map_of_column)
    column = column[:1] if len(limits) == 1 else column
    entries = [np.append(np.nan, own) for own in limits]
    start = starts(entries)
    levels = []
    while (most := max(own.size for own in entries)) > MOST_FIRST:
        rows = [in_rows(own, WIDTH) for own in entries]
        levels.append((rows, start))
        entries, start = [own[::WIDTH] for own in entries], starts(rows)
    width = max(2, 1 << int(most - 1).bit_length())
    levels.append(([in_rows(own, width) for own in entries], start))
    found = {"row": column[None]}
    for j, (rows, start) in enumerate(reversed(levels)):
        table = np.concatenate(rows)
        found[f"limits{j}"] = table
        found[f"shift{j}"] = (start - table.shape[1] * starts(rows))[column][None]
    return found


def starts(parts: Sequence[NDArray[Any]]) -> NDArray[np.int64]:
    """Return where each part starts among all of them."""
    return np.cumsum([0, *(len(own) for own in parts[:-1])], dtype=np.int64)


def in_rows(entries: NDArray[Any], width: int) -> NDArray[np.float64]:
    """Return entries in rows, the first of each and those left over as NaN: nothing passes it."""
    found = np.full((-(-entries.size // width), width), np.nan)
    found.ravel()[: entries.size] = entries
    found[:, 0] = np.nan
    return found


def passed(
    o: Operations, p: Value, c: Constants, *, reached: bool = True, rounded: bool = False
) -> Value:
    """Return the places that the entries of ``p (n, m)`` get to.

    A limit is passed by larger numbers and, if `reached` counts, by equal ones. It is `rounded` to
    the type of the scores first, if so wished.
    """
    place = c["row"]
    for name in c:
        if name.startswith("limits"):
            limits = o.rounded(c[name]) if rounded else c[name]
            shift = c[name.replace("limits", "shift")]
            place = o.search_rows(limits, place, shift, p, reached)
    return place
