"""The square of scores and rates that a diagram shows: [0, 1], or where the data of one event are.

Limits that the user sets, before or between the displays on an axes, are kept. Those set here are
remembered on the axes by the place of an empty text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from skcalib._arrays.types import Float64Array, FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Limits = tuple[float, float]

WHOLE: Limits = (0.0, 1.0)
# Ends of a smaller square, from 0 up or from 1 down; with a wider range of data, all is shown.
ENDS = (0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5)
# Share of the rows with scores beyond the square, at each end.
BEYOND = 0.01
MARGIN = 0.02
# Distances of ticks, up to powers of 10.
STEPS = [1, 2, 5, 10]
# Mark on the text that remembers the limits.
LIMITS = "skcalib-limits"


def most_scores(score: FloatArray, w: Float64Array) -> Limits:
    """Return the range of all scores but those of 1 % of the rows at each end."""
    order = np.argsort(score)
    share = np.cumsum(w[order]) / w.sum()
    places = np.searchsorted(share, (BEYOND, 1.0 - BEYOND))
    low, high = score[order][np.minimum(places, score.size - 1)].tolist()
    return low, high


def limits_of(score: FloatArray, w: Float64Array, x: Float64Array, rate: Float64Array) -> Limits:
    """Return the square that shows the scores of nearly all rows, and the rates drawn there."""
    low, high = most_scores(score, w)
    there = rate[(x >= low) & (x <= high)].tolist()
    low, high = min([low, *there]), max([high, *there])
    end = next((end for end in ENDS if high <= end), None)
    if end is not None:
        return 0.0, end
    start = next((end for end in ENDS if 1.0 - low <= end), None)
    return WHOLE if start is None else (1.0 - start, 1.0)


def with_margin(limits: Limits) -> Limits:
    """Return the limits of an axes that shows a square."""
    low, high = limits
    margin = MARGIN * (high - low)
    return low - margin, high + margin


def remembered(ax: Axes) -> Limits | None:
    """Return the square that displays have set on an axes."""
    for text in ax.texts:
        if text.get_gid() == LIMITS:
            low, high = text.get_position()
            return float(low), float(high)
    return None


def show_square(ax: Axes, limits: Limits) -> None:
    """Show a square, and what was shown before; of an axis with limits of the user, nothing."""
    from matplotlib.ticker import MaxNLocator

    before = remembered(ax)
    if before is None and ax.lines:
        return
    x_free, y_free = ax.get_autoscalex_on(), ax.get_autoscaley_on()
    if before is not None:
        old = with_margin(before)
        x_free = bool(np.allclose(ax.get_xlim(), old))
        y_free = bool(np.allclose(ax.get_ylim(), old))
        limits = min(before[0], limits[0]), max(before[1], limits[1])
        next(text for text in ax.texts if text.get_gid() == LIMITS).remove()
    ends = with_margin(limits)
    if x_free:
        ax.set_xlim(ends)
        ax.xaxis.set_major_locator(MaxNLocator("auto", steps=STEPS))
    if y_free:
        ax.set_ylim(ends)
        ax.yaxis.set_major_locator(MaxNLocator("auto", steps=STEPS))
    ax.text(*limits, "", gid=LIMITS, clip_on=True)
