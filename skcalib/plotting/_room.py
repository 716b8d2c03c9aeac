"""Room for texts: smaller ones in small axes, margins that they fit into, names that are cut."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Mark on the strip below a diagram.
HISTOGRAM = "skcalib-histogram"
# Letters of the name of a class at a tick at most, and of any name at least.
NAME, LEAST = 14, 6
# Width in inches of axes in which names have so many letters; half as many in others.
WIDE = 2.6
# Distance of slanted lines, as a share of that of their ends.
SLANTED = 0.64
# In the place of letters that are left out.
DOTS = "…"
# Shares of the height of the axes' place: the strip, and the strip with the gap above it.
HEIGHT, ROOM = 0.2, 0.26
# Axes of less than this width or height in inches get small texts.
SMALL = (2.6, 2.2)


def strip_of(ax: Axes) -> Axes | None:
    """Return the strip below an axes, if there is one."""
    found = (child for child in ax.child_axes if child.get_gid() == HISTOGRAM)
    return cast("Axes | None", next(found, None))


def is_small(ax: Axes) -> bool:
    """Whether the place of an axes is too small for texts of the usual size."""
    place, figure = ax.get_position(original=True), cast("Any", ax.figure)
    width, height = figure.bbox.width / figure.dpi, figure.bbox.height / figure.dpi
    return bool(place.width * width < SMALL[0] or place.height * height < SMALL[1])


def shrink_text(ax: Axes) -> None:
    """Make the texts of an axes small and move them close to it."""
    ax.tick_params(labelsize="x-small", length=2.5, pad=2)
    for axis in (ax.xaxis, ax.yaxis):
        axis.label.set_fontsize("small")
        axis.labelpad = 1


def foot(ax: Axes) -> float:
    """Return the height of the lowest line of a diagram, in shares of its axes."""
    return 0.0 if strip_of(ax) is None else -ROOM / (1 - ROOM)


def below(ax: Axes, *, label: bool) -> Any:
    """Return shares of an axes, lowered by its tick labels, or by them and its label."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.transforms import ScaledTranslation

    ticks: Any = (strip_of(ax) or ax).xaxis.get_major_ticks(1)[0]
    points = ticks.get_pad() + ticks.get_tick_padding() + 1.3 * ticks.label1.get_fontsize()
    if label:
        size = FontProperties(size=ax.xaxis.label.get_fontsize()).get_size_in_points()
        points += ax.xaxis.labelpad + 1.5 * size
    figure: Any = ax.figure
    return ax.transAxes + ScaledTranslation(0, -points / 72, figure.dpi_scale_trans)


def fit_labels(ax: Axes, names: tuple[str, str], *, new: bool, after_layout: bool = False) -> None:
    """Name the axes of a diagram, unless the user has, in labels that are shortened to them.

    A legend below may make the axes smaller, as soon as their figure is laid out.
    """
    figure: Any = ax.figure
    if after_layout and hasattr(figure, "draw_without_rendering"):
        figure.draw_without_rendering()
    place: Any = ax.get_axes_locator()
    if place is not None:  # margins have moved the place, and the axes follow when drawn
        ax.apply_aspect(place(ax, None))
    for axis, length, name in zip((ax.xaxis, ax.yaxis), ax.bbox.size, names, strict=True):
        if not new and axis.label.get_text() != name and DOTS not in axis.label.get_text():
            continue
        fit_text(axis.label, (name, ""), length)
    strip = strip_of(ax)
    if strip is not None and strip.yaxis.label.get_window_extent().height > 1.5 * strip.bbox.height:
        strip.set_ylabel("Rows", fontsize="small")


def make_margins(ax: Axes) -> None:
    """Widen the margins of a figure without layout if a text of an axes is cut or covers another.

    Figures with a layout do this themselves, whenever they are drawn.
    """
    from matplotlib.layout_engine import PlaceHolderLayoutEngine

    figure: Any = ax.figure
    engine = getattr(figure, "get_layout_engine", lambda: figure)()
    free = engine is None or isinstance(engine, PlaceHolderLayoutEngine)
    if not free or ax.get_subplotspec() is None:
        return
    for _ in range(2):  # a text may have moved into a margin
        if not is_crowded(ax):
            return
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a figure that is too small stays as it is
            figure.tight_layout()


def is_crowded(ax: Axes) -> bool:
    """Whether a text of an axes leaves the figure, or lies in another axes."""
    figure: Any = ax.figure
    shown = [each for each in figure.axes if each.get_visible()]
    boxes = {each: each.get_tightbbox() for each in shown}
    own = boxes.pop(ax, None)
    if own is None:
        return False
    cut = own.x0 < 0 or own.y0 < 0 or own.x1 > figure.bbox.x1 or own.y1 > figure.bbox.y1
    return bool(cut or any(box is not None and own.overlaps(box) for box in boxes.values()))


def shorten(name: str, length: int) -> str:
    """Return a name of at most so many letters: first and last ones, dots between."""
    if len(name) <= length:
        return name
    last = max((length - 1) // 3, 1)
    return f"{name[: max(length - 1 - last, 1)].rstrip()}{DOTS}{name[-last:].lstrip()}"


def fit_text(text: Any, parts: tuple[str, str], length: float) -> None:
    """Write a name and what follows it into a text, the name shortened to so many pixels."""
    name, rest = parts
    for letters in range(max(len(name), LEAST), LEAST - 1, -1):
        text.set_text(shorten(name, letters) + rest)
        if max(text.get_window_extent().size) <= length:
            break


def name_ticks(axis: Any, names: list[str], first: float, part: float = 0.9) -> None:
    """Name ticks 1 apart from `first` on, in short names, slanted if wide, or only some of them.

    `part` is the share of the axes that is left of it when all texts have found their room.
    """
    ax = axis.axes
    roomy = ax.bbox.width > WIDE * ax.figure.dpi
    short = [shorten(name, NAME if roomy else NAME // 2) for name in names]
    places = [first + i for i in range(len(short))]
    axis.set_ticks(places, short)
    boxes = [label.get_window_extent() for label in axis.get_ticklabels()]
    wide, high = max(box.width for box in boxes), max(box.height for box in boxes)
    across = axis is ax.xaxis
    apart = part * (ax.bbox.width if across else ax.bbox.height) / len(short)
    slanted = across and wide > apart
    if slanted:
        high /= SLANTED
    step = 1 if across and not slanted else max(int(high / apart + 0.9), 1)
    look = {"rotation": 40, "ha": "right", "rotation_mode": "anchor"} if slanted else {}
    axis.set_ticks(places[::step], short[::step], **look)
