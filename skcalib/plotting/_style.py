"""Colours of displays, the legend, and names and numbers in pictures.

The colours of models are those of Okabe and Ito, which colour-blind readers can distinguish, or
those of the style that the user has chosen (``axes.prop_cycle``). Markers and dashes differ as
well, for prints in grey. Lines that belong to no model have the colour of texts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
DASHES = ("-", "--", "-.", (0, (5, 1, 1, 1, 1, 1)), (0, (8, 2)), (0, (3, 1)), ":")

# Look of a legend, in the corner in which it covers least.
LEGEND: dict[str, Any] = {
    "loc": "best",
    "fontsize": "small",
    "title_fontsize": "small",
    "framealpha": 0.7,
    "edgecolor": "none",
    "borderpad": 0.2,
    "labelspacing": 0.2,
    "handletextpad": 0.5,
}
# Letters of the name of a class in a picture, at most.
LETTERS = 14

# Shades on a dark ground are this much less transparent.
ON_DARK = 2.0


def ink() -> Any:
    """Return the colour of texts, that of lines which belong to no model."""
    from matplotlib import rcParams

    return rcParams["text.color"]


def palette() -> tuple[Any, ...]:
    """Return the colours of models: those of the style, if the user has chosen one."""
    from matplotlib import rcParams, rcParamsDefault

    chosen = rcParams["axes.prop_cycle"]
    if chosen == rcParamsDefault["axes.prop_cycle"] or "color" not in chosen.keys:
        return (*COLORS, ink())
    return tuple(chosen.by_key()["color"])


def style_of(i: int) -> dict[str, Any]:
    """Return colour, marker and dashes of a model on an axes, counted from 0."""
    colors = palette()
    j = i + i // len(MARKERS)  # where colours repeat, marks and dashes are others
    return {
        "color": colors[i % len(colors)],
        "marker": MARKERS[j % len(MARKERS)],
        "linestyle": DASHES[j % len(DASHES)],
    }


def merge_style(default: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """Override a default line style by the given one, short names such as ``c`` included."""
    from matplotlib.cbook import normalize_kwargs
    from matplotlib.lines import Line2D

    return {**default, **normalize_kwargs(given, Line2D)}


def is_dark(ax: Axes) -> bool:
    """Whether the ground of an axes is dark."""
    from matplotlib.colors import to_rgb

    red, green, blue = to_rgb(ax.get_facecolor())
    return 0.3 * red + 0.59 * green + 0.11 * blue < 0.5


def veil(ax: Axes, alpha: float) -> float:
    """Return the opacity of a shade that is to be seen on the ground of an axes."""
    return min(alpha * ON_DARK, 1.0) if is_dark(ax) else alpha


def label_of(name: str | None, number: str) -> str:
    """Return the label of a model in the legend."""
    return f"{name} ({number})" if name else number


def shorten(name: Any, length: int = LETTERS) -> str:
    """Return the name, its middle replaced by dots if it has more letters than the limit."""
    text = str(name)
    if len(text) <= length:
        return text
    last = max((length - 1) // 3, 1)
    return f"{text[: length - 1 - last].rstrip()}…{text[-last:].lstrip()}"


def name_ticks(axis: Any, places: Any, names: Any) -> None:
    """Name ticks by classes, in short names, which are slanted below axes if they are wide."""
    texts = [shorten(name) for name in names]
    slanted = axis.axis_name == "x" and max(map(len, texts)) > 3
    look = {"rotation": 40, "ha": "right", "rotation_mode": "anchor"} if slanted else {}
    axis.set_ticks(places, texts, **look)


def percent(share: float) -> str:
    """Return a share in per cent: one decimal, or two digits if it is below 1 %."""
    if share == 0:
        return "0%"
    if abs(share) < 1e-5:
        return "<0.001%"
    text = f"{100 * share:.1f}" if abs(share) >= 0.01 else f"{100 * share:.2g}"
    return f"{text}%"


def percent_tick(value: float, position: float) -> str:  # noqa: ARG001  # matplotlib passes it
    """Return the label of a tick at a share, without zeros that say nothing."""
    return f"{100 * value:.4g}%" if abs(value) > 1e-12 else "0%"
