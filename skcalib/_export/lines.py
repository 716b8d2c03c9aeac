"""Broken lines, one for each column of values, by one search for all of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skcalib._export.operations import BrokenLine, Constants, Operations, Value
from skcalib._export.scores import moved
from skcalib._export.thresholds import passed, search_constants


def line_constants(lines: Sequence[BrokenLine]) -> dict[str, NDArray[Any]]:
    """Return the arrays of `mapped`: of a line that several columns share there is one copy."""
    distinct = list({id(line): line for line in lines}.values())
    order = {id(line): j for j, line in enumerate(distinct)}
    left, level, slope, limits = [], [], [], []
    for knots, levels, blur, lift in distinct:
        x = knots * lift
        left.append(np.concatenate([x[:1], x]))
        level.append(np.concatenate([levels[:1], levels]))
        slope.append(np.concatenate([[0.0], np.diff(levels) / np.diff(x), [0.0]]))
        limits.append(moved(x, -blur))
    found = search_constants(limits, [order[id(line)] for line in lines])
    parts = {"left": left, "level": level, "slope": slope}
    found |= {name: np.concatenate(part) for name, part in parts.items()}
    if any(line.blur for line in lines):
        found["blur"] = np.array([[line.blur for line in lines]])
    if any(line.lift != 1.0 for line in lines):
        found["lift"] = np.array([[line.lift for line in lines]])
    return found


def mapped(o: Operations, p: Value, c: Constants) -> Value:
    """Return the values of the lines at ``p``, as `numpy.interp` does."""
    p = p * c["lift"] if "lift" in c else p
    at = passed(o, p, c)
    left = o.take(c["left"], at)
    beyond = p - left
    if "blur" in c:  # the slope would magnify the rounding error of a score that is a knot
        beyond = o.where(beyond <= left * c["blur"], 0.0, beyond)
    return o.take(c["level"], at) + o.take(c["slope"], at) * beyond
