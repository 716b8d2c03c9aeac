"""Small multiples: a display for each group of rows, the worst first."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast

import numpy as np

from skcalib._validation.predictions import check_predictions
from skcalib.metrics import ks_calibration_error
from skcalib.metrics._by_group import FEWEST_ROWS, group_rows, measure_groups
from skcalib.metrics._group_calibration import GroupCalibration, label_text
from skcalib.metrics._resampling import column_given
from skcalib.plotting._display import check_axes, check_matplotlib
from skcalib.plotting._event_view import as_shown
from skcalib.plotting._limits import remembered, show_square
from skcalib.plotting._statistics import error_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Arguments = ParamSpec("Arguments")
Display = TypeVar("Display")

# Panels of a figure, and of a row at most, and the size of one in inches.
MOST_PANELS, COLUMNS, WIDTH, HEIGHT = 12, 4, 2.35, 2.6
# Level of the findings of `by_group_`.
LEVEL = 0.95
# What refuses soft hits.
WHO = "a diagram by groups"


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
    if keywords.get("mode") not in (None, "top") or keywords.get("r", 1) != 1:
        raise ValueError(
            "groups= shows the top label or one event: leave out mode and r, or draw each group by "
            "itself."
        )
    keywords = {"gaps": False, "means": False, **keywords}  # there is no room for a legend
    data = {name: keywords.pop(name, None) for name in ("sample_weight", "labels", "pos_label")}
    predictions = as_shown(
        check_predictions(y_true, y_proba, **data, who=WHO), keywords.get("mode"), 1
    )
    grouped = group_rows(predictions, groups, np.shape(y_true)[0], data["sample_weight"])
    named = {"ks_calibration_error": ks_calibration_error}
    by_group = measure_groups(grouped, named, column_given(y_proba), level=LEVEL, random_state=0)
    found = grouped.groups
    parts = dict(zip(found.labels, grouped.parts, strict=True))
    n_drawn = int((by_group.frame["n"] >= FEWEST_ROWS).sum())
    shown = by_group.frame.index[: min(n_drawn, MOST_PANELS)].tolist()
    if not shown:
        raise ValueError(f"groups: none has {FEWEST_ROWS} rows, the fewest that are drawn.")
    axes = grid(len(shown)) if ax is None else check_axes(ax, len(shown), "a panel for each group")
    columns = columns_of(len(shown))
    displays = {}
    for i, (label, panel) in enumerate(zip(shown, axes, strict=True)):
        part = parts[label if len(found.names) > 1 else (label,)]
        made = displays[label] = draw(None, part, ax=panel, **keywords)
        error = error_text(made.error, made.curve)
        decorate(panel, label, int(by_group.frame["n"].loc[label]), error)
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


def decorate(panel: Axes, label: Any, n: int, error: str) -> None:
    """Write what a panel shows above it, in place of a legend."""
    panel.set_title(f"{label_text(label)}\n{n:,} rows, {error}", fontsize="small")
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
