"""The root of an increasing function, by Newton's method in a bracket."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

LOG_TOLERANCE = 1e-9
GRID_STEP = 1.0
# Newton's method needs fewer evaluations, unless it creeps along a plateau of rounding.
PATIENCE = 20
# Function of log beta that rises through 0 at the optimum, and its derivative.
Slope = Callable[[float], tuple[float, float]]


def rising_root(
    slope: Slope, start: float, low: float, high: float, tolerance: float = LOG_TOLERANCE
) -> tuple[float, str]:
    """Newton's method for a function that rises through 0, in a bracket it cannot leave.

    Returns the root and ""; or an end of the range and its name, if the root lies beyond.
    """
    left, right = -np.inf, np.inf
    t, moved, evaluations = start, 0.0, 0
    while right - left > tolerance:
        value, rise = slope(t)
        evaluations += 1
        if value == 0.0:
            break
        left, right = (t, right) if value < 0.0 else (left, t)
        steady = 0.0 < rise < np.inf and abs(value) < np.inf
        step = -value / rise if steady else -np.sign(value) * GRID_STEP
        target = min(max(t + step, low), high)
        if target == t:
            return t, "low" if value > 0.0 else "high"
        if evaluations > PATIENCE and right - left == np.inf:
            target = min(max(t + np.sign(step) * max(abs(step), 2 * abs(moved)), low), high)
        elif evaluations > PATIENCE or not left < target < right:
            target = (left + right) / 2
        last, size = abs(moved), abs(target - t)
        # Newton's error after this step, from how the last two steps shrank.
        if (
            target == t + step
            and size * size * max(1.0, size / last**2 if last else 1.0) < tolerance
        ):
            return target, ""
        t, moved = target, target - t
    return t, ""
