"""A diagram of rates against scores: a square, and the distribution of the scores below it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from skcalib._arrays.types import Float64Array
from skcalib.plotting._display import count_models
from skcalib.plotting._numbers import Limits
from skcalib.plotting._style import ink, percent_tick, veil

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MARGIN = 0.02
# Marks on the diagonal and on the axes of the histogram.
REFERENCE, STRIP = "skcalib-reference", "skcalib-histogram"


def free_limits(ax: Axes, limits: Limits) -> dict[str, Limits]:
    """Return the limits of x and y that show a square, and what earlier models show.

    Matplotlib stops autoscaling an axis when the user sets its limits, which are then kept.
    """
    margin = MARGIN * (limits[1] - limits[0])
    low, high = limits[0] - margin, limits[1] + margin
    views = {"x": (low, high), "y": (low, high)}
    if count_models(ax):
        views = {"x": ax.get_xlim(), "y": ax.get_ylim()}
    free = {"x": ax.get_autoscalex_on(), "y": ax.get_autoscaley_on()}
    return {
        axis: (min(low, start), max(high, end))
        for axis, (start, end) in views.items()
        if free[axis]
    }


def set_limits(ax: Axes, limits: dict[str, Limits]) -> None:
    """Set limits and leave autoscaling on, which distinguishes them from limits of the user."""
    if "x" in limits:
        ax.set_xlim(*limits["x"], auto=True)
    if "y" in limits:
        ax.set_ylim(*limits["y"], auto=True)


def draw_diagonal(ax: Axes, label: str) -> None:
    """Draw the line y = x, only once on an axes."""
    if not any(line.get_gid() == REFERENCE for line in ax.lines):
        style: dict[str, Any] = {"ls": ":", "lw": 1.2, "alpha": 0.7, "marker": "", "zorder": 1.5}
        ax.plot([0, 1], [0, 1], color=ink(), label=label, gid=REFERENCE, **style)


def strip_below(ax: Axes) -> Axes:
    """Return the axes of the histogram below a diagram, which takes a fifth of its place."""
    from matplotlib.ticker import MaxNLocator

    figure: Any = ax.figure
    cell: Any = ax.get_subplotspec()
    for strip in [other for other in figure.axes if other.get_gid() == STRIP]:
        if cell and strip.get_subplotspec().get_gridspec() is cell.get_gridspec():
            return cast("Axes", strip)
    if cell is None:
        left, bottom, right, top = ax.get_position().extents
        cell = figure.add_gridspec(left=left, bottom=bottom, right=right, top=top)[0]
    grid = cell.subgridspec(2, 1, height_ratios=(4, 1), hspace=0.04)
    ax.set_subplotspec(grid[0])
    strip = figure.add_subplot(grid[1], sharex=ax, gid=STRIP)
    figure.sca(ax)
    ax.tick_params(axis="x", labelbottom=False)
    strip.set(xlabel=ax.get_xlabel(), ylabel="Rows")
    ax.set_xlabel("")
    strip.yaxis.set_major_locator(MaxNLocator(2))
    strip.yaxis.set_major_formatter(distance_tick)
    return strip


def distance_tick(value: float, position: float) -> str:
    """Return the label of a tick at a share that is drawn upwards or downwards."""
    return percent_tick(abs(value), position)


def draw_histogram(
    ax: Axes, edges: Float64Array, shares: Sequence[Float64Array], style: dict[str, Any]
) -> Any:
    """Draw shares of rows in the strip, the second of two downwards; return the first outline."""
    strip, color = strip_below(ax), style["color"]
    outlines = []
    for share, sign in zip(shares, (1, -1), strict=False):
        strip.stairs(sign * share, edges, fill=True, color=color, alpha=veil(strip, 0.18), lw=0)
        look: dict[str, Any] = {"color": color, "ls": style["linestyle"], "lw": 1.2}
        outlines.append(strip.stairs(sign * share, edges, **look))
    return outlines[0]
