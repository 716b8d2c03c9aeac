"""Small multiples: a display for each group of rows, the worst first."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast

import numpy as np

from skcalib._validation.groups import read_groups
from skcalib._validation.predictions import check_predictions
from skcalib._validation.weights import check_weight
from skcalib.metrics._by_group import FEWEST_ROWS, calibration_by_group, split_rows
from skcalib.metrics._group_calibration import GroupCalibration, label_text
from skcalib.plotting._display import HISTOGRAM, check_axes, check_matplotlib, percent
from skcalib.plotting._limits import remembered, show_square
from skcalib.plotting._strip import make_room

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Arguments = ParamSpec("Arguments")
Display = TypeVar("Display")

# Panels of a figure, and of a row at most, and the size of one in inches.
MOST_PANELS, COLUMNS, WIDTH, HEIGHT = 12, 4, 2.35, 2.6


def small_multiples(draw: Callable[Arguments, Display]) -> Callable[Arguments, Display]:
    """Let a display's ``from_predictions`` take groups, each of which it draws by itself."""

    @wraps(draw)
    def from_predictions(
        cls: Any, y_true: Any, y_proba: Any, *, groups: Any = None, ax: Any = None, **keywords: Any
    ) -> Any:
        own: Any = partial(draw, cls)
        if groups is None:
            return own(y_true, y_proba, ax=ax, **keywords)
        check_matplotlib(f"{cls.__name__}.from_predictions")
        return draw_groups(own, y_true, y_proba, groups, ax, keywords)

    return cast("Callable[Arguments, Display]", from_predictions)


def draw_groups(
    draw: Callable[..., Any],
    y_true: Any,
    y_proba: Any,
    groups: Any,
    ax: Any,
    keywords: dict[str, Any],
) -> Any:
    """Draw groups side by side and return the display of the worst.

    ``draw(None, predictions, ax=axes)`` draws one. The display gets the attributes ``groups_``, the
    display of each group by label, ``axes_`` and ``by_group_``, the numbers. Groups of fewer than
    10 rows, and those after the twelfth, are not drawn; a line below says so.
    """
    if (keywords.get("mode", "top"), keywords.get("r", 1)) != ("top", 1):
        raise ValueError(
            "groups= shows the top label or one event: leave out mode and r, or draw each group by "
            "itself."
        )
    data = {name: keywords.pop(name, None) for name in ("sample_weight", "labels", "pos_label")}
    by_group = calibration_by_group(y_true, y_proba, groups, random_state=0, **data)
    predictions = check_predictions(y_true, y_proba, **data)
    n_rows, w = np.shape(y_true)[0], data["sample_weight"]
    found = read_groups(groups, n_rows)
    found = found._replace(code=found.code[check_weight(w, n_rows) > 0])
    parts = dict(zip(found.labels, split_rows(predictions, found), strict=True))
    n_drawn = int((by_group.frame["n"] >= FEWEST_ROWS).sum())
    shown = by_group.frame.index[: min(n_drawn, MOST_PANELS)].tolist()
    if not shown:
        raise ValueError(f"groups: none has {FEWEST_ROWS} rows, the fewest that are drawn.")
    axes = grid(len(shown)) if ax is None else check_axes(ax, len(shown), "a panel for each group")
    columns = columns_of(len(shown))
    displays = {}
    for i, (label, panel) in enumerate(zip(shown, axes, strict=True)):
        part = parts[label if len(found.names) > 1 else (label,)]
        displays[label] = draw(None, part, ax=panel, **keywords)
        decorate(panel, label, int(by_group.frame["n"].loc[label]), displays[label].error)
        if i % columns:
            strip_label(panel, "y")
        if i + columns < len(shown):
            panel.set_xlabel("")
    share_limits(axes)
    first = displays[shown[0]]
    note = undrawn(by_group, n_drawn, len(shown))
    if note and ax is None:
        first.figure_.supxlabel(note, fontsize="small")
    first.groups_, first.axes_, first.by_group_ = displays, list(axes), by_group
    return first


def share_limits(axes: list[Axes]) -> None:
    """Show in every panel what one of them shows."""
    each = [limits for panel in axes if (limits := remembered(panel)) is not None]
    if not each:
        return
    lows, highs = zip(*each, strict=True)
    for panel in axes:
        show_square(panel, (min(lows), max(highs)))
        if any(child.get_gid() == HISTOGRAM for child in panel.child_axes):
            make_room(panel)


def columns_of(n_panels: int) -> int:
    """Return the number of panels in a row: as many in each as there can be."""
    rows = -(-n_panels // COLUMNS)
    return -(-n_panels // rows)


def grid(n_panels: int) -> list[Axes]:
    """Create a figure with so many panels, filled row by row."""
    import matplotlib.pyplot as plt

    columns = columns_of(n_panels)
    rows = -(-n_panels // columns)
    figure = plt.figure(figsize=(WIDTH * columns + 0.4, HEIGHT * rows), layout="constrained")
    cells = figure.add_gridspec(rows, columns)
    return [figure.add_subplot(cells[divmod(i, columns)]) for i in range(n_panels)]


def decorate(panel: Axes, label: Any, n: int, error: float) -> None:
    """Write what a panel shows above it, in place of a legend."""
    panel.set_title(f"{label_text(label)}\n{n:,} rows, ECE {percent(error)}", fontsize="small")
    legend = panel.get_legend()
    if legend is not None:
        legend.remove()
    for strip in panel.child_axes:
        strip.set_ylabel("Rows")  # there is no room for more
    for each in (panel, *panel.child_axes):
        each.tick_params(labelsize="x-small")
        each.xaxis.label.set_fontsize("small")
        each.yaxis.label.set_fontsize("small")


def strip_label(panel: Axes, which: str) -> None:
    """Remove the label of an axis of a panel and of the strip in it."""
    for each in (panel, *panel.child_axes):
        each.set(**{f"{which}label": ""})


def undrawn(by_group: GroupCalibration, n_large: int, n_shown: int) -> str:
    """Say which groups are not drawn."""
    parts = []
    if n_large > n_shown:
        parts.append(f"the {n_shown} worst of {n_large} groups")
    n_small = len(by_group.frame) - n_large
    if n_small:
        parts.append(f"not shown: {n_small} of fewer than {FEWEST_ROWS} rows")
    return "; ".join(parts)
