"""The strip below a diagram: the distribution of the scores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from skcalib._arrays.types import Float64Array, FloatArray
from skcalib.plotting._display import HISTOGRAM, HISTOGRAM_ROOM
from skcalib.plotting._limits import WHOLE, Limits, remembered, with_margin

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

# Share of the height of the axes.
HEIGHT = 0.2
# Mark on the line between diagram and strip.
FLOOR = "skcalib-floor"


def count_rows(
    score: FloatArray, hit: NDArray[Any], w: Float64Array, limits: Limits, n_bins: int
) -> pd.DataFrame:
    """Return the shares of all rows, events and other rows in even parts of the limits."""
    import pandas as pd  # imported late, because pandas takes long to import

    edges = np.linspace(*limits, n_bins + 1)
    shares = [
        np.histogram(score, edges, weights=amount)[0] / max(float(amount.sum()), 1e-300)
        for amount in (w, w * hit, w * (1.0 - hit))
    ]
    names = ("left", "right", "share", "events", "others")
    return pd.DataFrame(dict(zip(names, (edges[:-1], edges[1:], *shares), strict=True)))


def histogram_axes(ax: Axes) -> Axes:
    """Return the strip below the square of an axes, made on first use.

    It lies within the rectangle of the axes, so that it moves with them.
    """
    from matplotlib.ticker import PercentFormatter

    make_room(ax)
    for child in ax.child_axes:
        if child.get_gid() == HISTOGRAM:
            return cast("Axes", child)
    ax.yaxis.label.set_y((1 + HISTOGRAM_ROOM) / 2)
    strip = ax.inset_axes((0, 0, 1, HEIGHT), sharex=ax, gid=HISTOGRAM)
    strip.tick_params(labelbottom=False)
    strip.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    strip.patch.set_visible(False)
    strip.set_ylabel("Rows")
    return strip


def make_room(ax: Axes) -> None:
    """Lower the lower limit of an axes for the strip, unless the user has set the limits."""
    low, high = with_margin(remembered(ax) or WHOLE)
    if not np.isclose(ax.get_ylim()[1], high):
        return
    ax.set_ylim(low - (high - low) * HISTOGRAM_ROOM / (1 - HISTOGRAM_ROOM), high)
    frame = ax.spines["left"]
    for side in ("left", "right"):
        ax.spines[side].set_bounds(low, high)
    for line in list(ax.lines):
        if line.get_gid() == FLOOR:
            line.remove()
    ax.axhline(low, color=frame.get_edgecolor(), lw=frame.get_linewidth(), gid=FLOOR)


def draw_both(
    ax: Axes, edges: Float64Array, both: Sequence[Float64Array], style: dict[str, Any]
) -> Any:
    """Draw shares of the events upwards and of the other rows downwards, in the strip."""
    strip = histogram_axes(ax)
    for share, sign in zip(both, (1, -1), strict=True):
        strip.stairs(sign * share, edges, fill=True, color=style["color"], alpha=0.18, lw=0)
        outline = strip.stairs(
            sign * share, edges, color=style["color"], ls=style["linestyle"], lw=1.2
        )
        if sign == 1:
            upwards = outline
    drawn: list[Any] = list(strip.patches)
    highest = max(float(np.abs(patch.get_data().values).max()) for patch in drawn)
    top = nice_above(highest)
    strip.set_ylim(-1.05 * top, 1.05 * top)
    strip.set_yticks([-top, 0, top], [f"{top:.0%}", "0", f"{top:.0%}"])
    strip.set_ylabel("Others | events", fontsize="small")
    return upwards


def draw_histogram(
    ax: Axes, edges: Float64Array, share: Float64Array, style: dict[str, Any]
) -> Any:
    """Draw the share of rows in each bin of [0, 1] in the strip below an axes."""
    strip = histogram_axes(ax)
    strip.stairs(share, edges, fill=True, color=style["color"], alpha=0.18, lw=0)
    outline = strip.stairs(share, edges, color=style["color"], ls=style["linestyle"], lw=1.2)
    drawn: list[Any] = list(strip.patches)
    highest = max(float(patch.get_data().values.max()) for patch in drawn)
    top = nice_above(highest)
    strip.set_ylim(0, 1.05 * top)
    strip.set_yticks([0, top])
    return outline


def nice_above(value: float) -> float:
    """Return the round number at or just above a share."""
    rounds = np.array([0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0])
    return float(rounds[min(int(np.searchsorted(rounds, value - 1e-9)), rounds.size - 1)])
