"""A text in a diagram that keeps clear of the data. Imported late: it needs matplotlib."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.text import Text

from skcalib._arrays.types import Float64Array
from skcalib.plotting._places import is_over, places_of

# Distance from the sides of the axes, as a share of it.
GAP = 0.02
# Sizes that are tried, relative to the usual one.
SIZES = (1.0, 0.85, 0.72)
# Left or right, low or high: the corners in the order in which they are tried.
CORNERS = ((0, 1), (1, 0), (1, 1), (0, 0))


class FreeText(Text):
    """A text in the first corner without data or legend, or to the right of the axes.

    The corner is chosen anew whenever the figure is drawn or laid out, because its size or the
    limits of its axes may have changed since. A smaller font is tried before the text leaves the
    axes.
    """

    def __init__(self, ax: Axes, text: str, fontsize: Any) -> None:
        super().__init__(text=text, fontsize=fontsize, linespacing=1.3, clip_on=False)
        self.full_size = float(self.get_fontsize())
        self.set_transform(ax.transAxes)
        ax.add_artist(self)

    def get_window_extent(self, renderer: Any = None, dpi: Any = None) -> Any:
        """Return the box of the text, in the place that suits the figure as it is now."""
        self.place()
        return super().get_window_extent(renderer, dpi)

    def draw(self, renderer: Any) -> None:
        """Draw the text in the place that suits the figure as it is now."""
        self.place()
        super().draw(renderer)

    def place(self) -> None:
        """Move the text to the first place that is free, unless it is in one."""
        ax: Any = self.axes
        data = places_of([*filter(Line2D.get_visible, ax.lines), *ax.collections])
        if self.get_fontsize() == self.full_size and self.is_free(data):
            return
        for size in SIZES:
            self.set_fontsize(size * self.full_size)
            for x, y in CORNERS:
                self.set_horizontalalignment("right" if x else "left")
                self.set_verticalalignment("top" if y else "bottom")
                self.set_position((abs(x - GAP), abs(y - GAP)))
                if self.is_free(data):
                    return
        # Low, because a legend in the upper left corner of a small picture may reach beyond it.
        self.set(ha="left", va="bottom", position=(1 + GAP, 0), size=SIZES[1] * self.full_size)

    def is_free(self, data: Float64Array) -> bool:
        """Whether the text lies within the axes, over no data and not over the legend."""
        ax: Any = self.axes
        box, room, legend = super().get_window_extent(), ax.bbox, ax.get_legend()
        inside = room.x0 <= box.x0 and box.x1 <= room.x1 and room.y0 <= box.y0 and box.y1 <= room.y1
        over_legend = legend is not None and box.overlaps(legend.get_window_extent())
        return bool(inside and not over_legend and not is_over(box, data))
