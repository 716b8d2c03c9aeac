"""The strip below a diagram: the distribution of the scores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from skcalib._arrays.types import Float64Array, FloatArray
from skcalib.plotting._limits import Limits
from skcalib.plotting._room import (
    HEIGHT,
    HISTOGRAM,
    ROOM,
    below,
    foot,
    is_small,
    shrink_text,
    strip_of,
)
from skcalib.plotting._style import veil

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

# Histograms that are shaded.
MOST = 3


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


class AboveStrip:
    """Place of an axes: the upper part of what it was given, as long as it has a strip.

    matplotlib asks for it whenever it draws, so that the strip stays where it is and as high as it
    is under every layout and when the user zooms.
    """

    def __init__(self, ax: Axes) -> None:
        self.ax = ax

    def __call__(self, ax: Axes, renderer: Any) -> Any:  # noqa: ARG002  # matplotlib passes it
        """Return the place of an axes in its figure."""
        place = ax.get_position(original=True)
        if strip_of(ax) is None:
            return place
        return place.from_extents(place.x0, place.y0 + ROOM * place.height, place.x1, place.y1)

    def get_subplotspec(self) -> Any:
        """Return the cell of the axes in its grid, which a tight layout asks for."""
        return self.ax.get_subplotspec()


def histogram_axes(ax: Axes) -> Axes:
    """Return the strip below an axes, made on first use, in the place of the axes."""
    from matplotlib.ticker import PercentFormatter

    strip = strip_of(ax)
    if strip is not None:
        return strip
    strip = ax.inset_axes((0, -ROOM / (1 - ROOM), 1, HEIGHT / (1 - ROOM)), sharex=ax, gid=HISTOGRAM)
    place: Any = AboveStrip(ax)
    ax.set_axes_locator(place)
    ax.apply_aspect(place(ax, None))
    small = is_small(ax)
    ax.tick_params(axis="x", labelbottom=False)
    if small:
        shrink_text(strip)
    ax.xaxis.set_label_coords(0.5, foot(ax), transform=below(ax, label=False))
    ax.xaxis.label.set_verticalalignment("top")
    strip.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    strip.patch.set_visible(False)
    strip.set_ylabel("Rows", fontsize="small")
    return strip


def draw_both(
    ax: Axes, edges: Float64Array, both: Sequence[Float64Array], style: dict[str, Any]
) -> Any:
    """Draw shares of the events upwards and of the other rows downwards, in the strip."""
    strip = histogram_axes(ax)
    for share, sign in zip(both, (1, -1), strict=True):
        fill(strip, sign * share, edges, style)
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
    if not is_small(ax):
        strip.set_ylabel("Others | events", fontsize="small")
    return upwards


def fill(strip: Axes, share: Float64Array, edges: Float64Array, style: dict[str, Any]) -> None:
    """Shade the area of a histogram, unless there are several in the strip."""
    from matplotlib.colors import to_rgb

    drawn = {to_rgb(patch.get_edgecolor()) for patch in strip.patches}
    if len(drawn - {to_rgb(style["color"])}) < MOST:
        alpha = veil(strip, 0.18)
        strip.stairs(share, edges, fill=True, color=style["color"], alpha=alpha, lw=0)


def draw_histogram(
    ax: Axes, edges: Float64Array, share: Float64Array, style: dict[str, Any]
) -> Any:
    """Draw the share of rows in each bin of [0, 1] in the strip below an axes."""
    strip = histogram_axes(ax)
    fill(strip, share, edges, style)
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
