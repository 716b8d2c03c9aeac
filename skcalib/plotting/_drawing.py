"""What displays draw with: figures, colours, legends, the strip below a diagram, names and numbers.

The colours of models are those of Okabe and Ito, which colour-blind readers can distinguish, or
those of the style that the user has chosen (``axes.prop_cycle``). Markers and dashes differ as
well, for prints in grey. Lines that belong to no model have the colour of texts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from skcalib._arrays.types import Float64Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

Limits = tuple[float, float]
WHOLE: Limits = (0.0, 1.0)

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
# Letters of the name of a model in a legend: a wider legend would leave no room for the diagram.
LONGEST = 30
# Mark on the line of a model.
MODEL = "skcalib-model"
# Marks on the diagonal and on the axes of the histogram.
REFERENCE, STRIP = "skcalib-reference", "skcalib-histogram"
MARGIN = 0.02


def check_matplotlib(caller: str) -> None:
    """Raise ImportError with the way to install matplotlib if it is missing."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise ImportError(
            f'{caller} needs matplotlib: install it with `pip install "skcalib[plot]"`.'
        ) from error


def new_axes(width: float, height: float) -> Axes:
    """Create an axes in a new figure."""
    return panels(None, 1, "", 1, width, height)[0]


def panels(axes: Any, n: int, what: str, columns: int, width: float, height: float) -> list[Axes]:
    """Return the given axes, which have to be `n` for `what` is drawn, or those of a new figure.

    A new figure has them row by row; `width` and `height` of each are in inches.
    """
    import matplotlib.pyplot as plt

    if axes is not None:
        return check_axes(axes, n, what)
    rows = -(-n // columns)
    figure = plt.figure(figsize=(width * columns, height * rows), layout="constrained")
    return [figure.add_subplot(rows, columns, i + 1) for i in range(n)]


def check_axes(axes: Any, n: int, what: str) -> list[Axes]:
    """Return the given axes as a list; raise ValueError unless there are `n` of them."""
    given = list(np.ravel(np.asarray(axes, dtype=object)))
    if len(given) != n:
        raise ValueError(
            f"ax contains {len(given)} axes but {n} are drawn ({what}): pass {n} axes."
        )
    return given


def models_on(ax: Axes) -> list[Line2D]:
    """Return the lines of the models that an axes shows."""
    return [line for line in ax.lines if line.get_gid() == MODEL]


def ink() -> Any:
    """Return the colour of texts, that of lines which belong to no model."""
    from matplotlib import rcParams

    return rcParams["text.color"]


def model_style(ax: Axes, given: dict[str, Any] | None = None, **default: Any) -> dict[str, Any]:
    """Return mark, colour, marker and dashes of the next model on an axes, and the default style.

    Colours are those of the style, if the user has chosen one. Parts that are given come before the
    default ones, short names such as ``c`` included.
    """
    from matplotlib import rcParams, rcParamsDefault
    from matplotlib.cbook import normalize_kwargs
    from matplotlib.lines import Line2D

    i, cycle, colors = len(models_on(ax)), rcParams["axes.prop_cycle"], [*COLORS, ink()]
    if cycle != rcParamsDefault["axes.prop_cycle"] and "color" in cycle.keys:
        colors = cycle.by_key()["color"]
    j = i + i // len(MARKERS)  # where colours repeat, marks and dashes are others
    style = {
        "gid": MODEL,
        "color": colors[i % len(colors)],
        "marker": MARKERS[j % len(MARKERS)],
        "linestyle": DASHES[j % len(DASHES)],
    }
    return {**style, **default, **normalize_kwargs(given or {}, Line2D)}


def label_of(name: str | None, number: str) -> str:
    """Return the label of a model in the legend."""
    return f"{shorten([name], LONGEST)[0]} ({number})" if name else number


def shorten(names: Sequence[Any], length: int = LETTERS) -> list[str]:
    """Return names, the middle of long ones replaced by dots, with as many letters as differ."""
    texts = [str(name) for name in names]
    while True:
        last = max((length - 1) // 3, 1)
        short = [
            f"{text[: length - 1 - last].rstrip()}…{text[-last:].lstrip()}"
            if len(text) > length
            else text
            for text in texts
        ]
        if len(set(short)) == len(set(texts)):
            return short
        length += 1


def name_ticks(axis: Any, places: Any, names: Any) -> None:
    """Name ticks by classes, in short names, which are slanted below axes if they are wide."""
    texts = shorten(names)
    slanted = axis.axis_name == "x" and max(map(len, texts)) > 3
    look = {"rotation": 40, "ha": "right", "rotation_mode": "anchor"} if slanted else {}
    axis.set_ticks(places, texts, **look)


def percent(share: float) -> str:
    """Return a share in per cent: one decimal, or two digits if it is below 1 %."""
    if 0 < abs(share) < 1e-5:
        return "<0.001%"
    text = f"{100 * share:.1f}" if abs(share) >= 0.01 else f"{100 * share:.2g}"
    return f"{text}%"


def percent_tick(value: float, position: float) -> str:  # noqa: ARG001  # matplotlib passes it
    """Return the label of a tick at a share, without zeros that say nothing."""
    return f"{100 * value:.4g}%" if abs(value) > 1e-12 else "0%"


def free_limits(ax: Axes, limits: Limits) -> dict[str, Limits]:
    """Return the limits of x and y that show a square, and what earlier models show.

    Matplotlib stops autoscaling an axis when the user sets its limits, which are then kept.
    """
    margin = MARGIN * (limits[1] - limits[0])
    low, high = limits[0] - margin, limits[1] + margin
    limits_of, first = {}, not models_on(ax)
    for axis in ("x", "y"):
        start, end = getattr(ax, f"get_{axis}lim")()
        if getattr(ax, f"get_autoscale{axis}_on")():
            limits_of[axis] = (low, high) if first else (min(low, start), max(high, end))
    return limits_of


def set_limits(ax: Axes, limits: dict[str, Limits]) -> None:
    """Set limits and leave autoscaling on, which distinguishes them from limits of the user."""
    for axis, ends in limits.items():
        getattr(ax, f"set_{axis}lim")(*ends, auto=True)


def share_square(displays: Sequence[Any]) -> None:
    """Let reliability diagrams show the same square."""
    lows, highs = zip(*(display.limits for display in displays), strict=True)
    for display in displays:
        set_limits(display.ax_, free_limits(display.ax_, (min(lows), max(highs))))


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
        strip.stairs(sign * share, edges, fill=True, color=color, alpha=0.25, lw=0)
        look: dict[str, Any] = {"color": color, "ls": style["linestyle"], "lw": 1.2}
        outlines.append(strip.stairs(sign * share, edges, **look))
    return outlines[0]
