"""The legend of a diagram: in a corner without data, else below the axes."""

from __future__ import annotations

import re
from bisect import bisect_left
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from skcalib.plotting._display import MODEL
from skcalib.plotting._parts import CLEAR
from skcalib.plotting._places import is_over, places_of
from skcalib.plotting._room import below, foot, is_small, shorten, strip_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Corner = Literal["upper left", "upper right", "lower right", "lower left"]
CORNERS: tuple[Corner, ...] = ("upper left", "lower right", "upper right", "lower left")

# Marks on what the legend is not to cover.
SCORE = "skcalib-score"
DATA = (MODEL, SCORE, *CLEAR)
# Largest share of the area of the axes that the legend takes, and of its width.
AREA, WIDTH = 0.4, 0.98
# Largest share of the height of the axes' place that a legend below takes before it is packed: two
# columns of shortened names, in small axes in smaller letters.
TALL = 0.45
# Area of the mark of points, which are too small to be seen alone.
POINT = 18
# Letters of a name, at least.
LETTERS = 8
# The number that may follow a name.
NUMBER = re.compile(r" \([^()]*\)$")
LOOK: dict[str, Any] = {
    "borderaxespad": 0.2,
    "borderpad": 0.2,
    "handletextpad": 0.5,
    "labelspacing": 0.3,
    "columnspacing": 1.0,
    "framealpha": 0.85,
    "edgecolor": "none",
}


def free_corner(height: float) -> Corner:
    """Return the legend corner opposite to curves of this mean height above y = x."""
    return "lower right" if height > 0 else "upper left"


def mean_height(ax: Axes) -> float:
    """Return the mean height of the points of all curves above the diagonal."""
    curves = [np.array(line.get_data()) for line in ax.lines if line.get_gid() == MODEL]
    x, y = np.concatenate(curves, axis=1)
    return float((y - x).mean())


def draw_legend(ax: Axes, first: Corner, title: str | None = None) -> bool:
    """Put the legend into a corner without data, `first` if it is one, or below the axes.

    Returns whether it is below.
    """
    from matplotlib.collections import PathCollection
    from matplotlib.legend_handler import HandlerPathCollection

    small = is_small(ax)
    size = "x-small" if small else "small"
    look: dict[str, Any] = {**LOOK, "handlelength": 1.6 if small else 2.2, "title": title}
    look["markerscale"] = 0.7 if small else 1.0
    look["handler_map"] = {PathCollection: HandlerPathCollection(sizes=[POINT])}
    drawn = entries(ax)
    legend = ax.legend(*drawn, loc=first, **look, fontsize=size, title_fontsize=size)
    room, figure = ax.get_window_extent(), ax.figure
    fit_names(legend, WIDTH * room.width)
    box = legend.get_window_extent()
    if box.width * box.height <= AREA * room.width * room.height:
        data = places_of(artist for artist in ax.get_children() if artist.get_gid() in DATA)
        for corner in (first, *CORNERS):
            legend.set_loc(corner)
            box = legend.get_window_extent()
            if not is_over(box, data):
                return False
    # In a figure of its own it may reach beyond the axes, which a layout moves to the right.
    alone, width = len(figure.axes) == 1, figure.bbox.width
    width = 0.98 * width - 1.6 * room.x0 if alone else 1.02 * room.width
    look |= {"borderaxespad": 0.0, "framealpha": 0.0}

    def draw_below(columns: int, size: str) -> Any:
        return ax.legend(
            *drawn,
            loc="upper left",
            bbox_to_anchor=(0, foot(ax)),
            bbox_transform=below(ax, label=True),
            ncols=columns,
            fontsize=size,
            title_fontsize=size,
            **look,
        )

    for columns in (3, 2, 1):
        legend = draw_below(columns, size)
        if legend.get_window_extent().width <= width:
            break
    fit_names(legend, width)
    place = ax.get_position(original=True)
    if legend.get_window_extent().height > TALL * place.height * figure.bbox.height:
        for smaller in ("xx-small",) if small else (size, "x-small", "xx-small"):
            legend = draw_below(2, smaller)
            if fit_names(legend, width):
                break
    return True


def entries(ax: Axes) -> tuple[list[Any], list[Any]]:
    """Return the artists of an axes and of its strip that have a name, and the names."""
    handles, names = ax.get_legend_handles_labels()
    strip = strip_of(ax)
    if strip is None:
        return handles, names
    more, too = strip.get_legend_handles_labels()
    return [*handles, *more], [*names, *too]


def fit_names(legend: Any, width: float) -> bool:
    """Shorten the longest names until the legend is at most `width` pixels wide.

    Numbers after the names are kept. Returns whether the legend is narrow enough.
    """
    texts = [(text, NUMBER.sub("", text.get_text())) for text in legend.get_texts()]
    parts = [(text, name, text.get_text().removeprefix(name)) for text, name in texts]

    def too_wide(kept: int) -> bool:
        for text, name, number in parts:
            text.set_text(shorten(name, kept - len(number)) + number)
        return bool(legend.get_window_extent().width > width)

    least = LETTERS + max(len(number) for _, _, number in parts)
    longest = max(len(name + number) for _, name, number in parts)
    lengths = range(least, max(longest, least) + 1)
    if too_wide(lengths[-1]):
        too_wide(lengths[max(bisect_left(lengths, True, key=too_wide) - 1, 0)])
    return bool(legend.get_window_extent().width <= width)
