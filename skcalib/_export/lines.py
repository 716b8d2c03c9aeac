"""Broken lines and steps, a function for each column of values, by one search for all of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skcalib._export.operations import Constants, Line, Operations, Value
from skcalib._export.scores import moved
from skcalib._export.thresholds import passed, search_constants


def broken_line(knots: NDArray[Any], levels: NDArray[Any], blur: float, lift: float = 1.0) -> Line:
    """Return the line through the levels at increasing knots, constant beyond the ends.

    A number meets a knot if it differs by no more than `blur` times the knot, in absolute value.
    `lift` keeps slopes between tiny knots finite.
    """
    x = knots * lift
    slope = np.concatenate([[0.0], np.diff(levels) / np.diff(x), [0.0]])
    left, level = (np.concatenate([part[:1], part]) for part in (x, levels))
    return Line(moved(x, -blur), left, level, slope, blur, lift)


def steps(limits: NDArray[Any], values: NDArray[Any]) -> Line:
    """Return the step function of ``values[j]`` below ``limits[j]`` and one value more beyond.

    A limit between two equal values is left out.
    """
    changes = values[1:] != values[:-1]
    level = values[np.append(True, changes)]
    none = np.zeros(level.size)
    return Line(limits[changes], none, level, none, 0.0, 1.0)


def line_constants(lines: Sequence[Line]) -> dict[str, NDArray[Any]]:
    """Return the arrays of `mapped`: of a line that several columns share there is one copy."""
    distinct = list({id(line): line for line in lines}.values())
    order = {id(line): j for j, line in enumerate(distinct)}
    found = search_constants(
        [line.limits for line in distinct], [order[id(line)] for line in lines]
    )
    found["level"] = np.concatenate([line.level for line in distinct])
    if any(line.slope.any() for line in distinct):
        found["slope"] = np.concatenate([line.slope for line in distinct])
        found["left"] = np.concatenate([line.left for line in distinct])
    if any(line.blur for line in lines):
        found["blur"] = np.array([[line.blur for line in lines]])
    if any(line.lift != 1.0 for line in lines):
        found["lift"] = np.array([[line.lift for line in lines]])
    return found


def mapped(o: Operations, p: Value, c: Constants) -> Value:
    """Return the values of the lines at ``p``, as `numpy.interp` does."""
    p = p * c["lift"] if "lift" in c else p
    at = passed(o, p, c)
    if "slope" not in c:
        return o.take(c["level"], at)
    left = o.take(c["left"], at)
    beyond = p - left
    if "blur" in c:  # the slope would magnify the rounding error of a score that is a knot
        beyond = o.where(beyond <= left * c["blur"], 0.0, beyond)
    return o.take(c["level"], at) + o.take(c["slope"], at) * beyond
