"""Small multiples: a display for each group of rows, the worst first."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps
from typing import Any, ParamSpec, TypeVar, cast

import numpy as np

from skcalib._validation.predictions import check_predictions
from skcalib.metrics import ks_calibration_error
from skcalib.metrics._statistics.by_group import FEWEST_ROWS, group_rows, measure_groups
from skcalib.metrics._statistics.group_calibration import label_text
from skcalib.plotting._drawing import check_matplotlib, free_limits, panels, set_limits, shorten
from skcalib.plotting._numbers import error_text

Arguments = ParamSpec("Arguments")
Display = TypeVar("Display")

# Panels of a figure, and of a row at most, and the size of one in inches.
MOST_PANELS, COLUMNS, WIDTH, HEIGHT = 12, 4, 2.4, 2.6
# Letters of the name of a group above its panel.
LETTERS = 26
# Level of the findings of `by_group_`.
LEVEL = 0.95


def small_multiples(draw: Callable[Arguments, Display]) -> Callable[Arguments, Display]:
    """Let a display's ``from_predictions`` take groups, each of which it draws by itself."""

    @wraps(draw)
    def from_predictions(
        cls: Any, y_true: Any, y_proba: Any, *, groups: Any = None, ax: Any = None, **keywords: Any
    ) -> Any:
        draw_one: Any = partial(draw, cls)
        if groups is None:
            return draw_one(y_true, y_proba, ax=ax, **keywords)
        check_matplotlib(cls.__name__)
        return draw_groups(draw_one, y_true, y_proba, groups, ax, keywords)

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
    data = {
        name: keywords.pop(name, None)
        for name in ("sample_weight", "labels", "pos_label", "clusters")
    }
    checked = check_predictions(y_true, y_proba, **data, caller="a diagram by groups")
    predictions = checked.of_mode(keywords.get("mode"))
    grouped = group_rows(predictions, groups, np.shape(y_true)[0], data["sample_weight"])
    named = {"ks_calibration_error": ks_calibration_error}
    by_group = measure_groups(grouped, named, level=LEVEL, random_state=0)
    names = grouped.groups.names
    parts = dict(zip(grouped.groups.labels, grouped.parts, strict=True))
    n_large = int((by_group.frame["n"] >= FEWEST_ROWS).sum())
    labels = by_group.frame.index[: min(n_large, MOST_PANELS)].tolist()
    if not labels:
        raise ValueError(f"groups: none has {FEWEST_ROWS} rows, the fewest that are drawn.")
    n_panels = len(labels)
    columns = -(-n_panels // -(-n_panels // COLUMNS))  # rows of equal length, if there can be
    axes = panels(ax, n_panels, "a panel for each group", columns, WIDTH, HEIGHT)
    displays, titles = {}, shorten([label_text(label) for label in labels], LETTERS)
    for label, title, panel in zip(labels, titles, axes, strict=True):
        part = parts[label if len(names) > 1 else (label,)]
        display = displays[label] = draw(None, part, ax=panel, **keywords)
        n, error = int(by_group.frame["n"].loc[label]), error_text(display.error, display.curve)
        write_title(display, f"{title}\n{n:,} rows, {error}")
    lows, highs = zip(*(display.limits for display in displays.values()), strict=True)
    for panel in axes:
        set_limits(panel, free_limits(panel, (min(lows), max(highs))))
    first = displays[labels[0]]
    first.groups_, first.axes_, first.by_group_ = displays, list(axes), by_group
    if ax is None:
        n_small = len(by_group.frame) - n_large
        notes = [f"the {n_panels} worst of {n_large} groups"] if n_large > n_panels else []
        notes += [f"not shown: {n_small} of fewer than {FEWEST_ROWS} rows"] if n_small else []
        share_labels(first, "; ".join(notes))
    return first


def write_title(display: Any, title: str) -> None:
    """Write what a panel shows above it, in place of a legend."""
    panel = display.ax_
    panel.get_legend().remove()
    if display.statistics_ is not None:  # its place is that of the title
        title = f"{title}\n{display.statistics_.get_text()}"
        display.statistics_.set_text("")
    panel.set_title(title, fontsize="small")


def share_labels(display: Any, note: str) -> None:
    """Name the axes of all panels once, beside and below them, above a note."""
    for ax in display.figure_.axes:
        ax.set(xlabel="", ylabel="")
    xlabel, ylabel = display.axis_names
    display.figure_.supxlabel(f"{xlabel}\n{note}".strip(), fontsize="medium")
    display.figure_.supylabel(ylabel, fontsize="medium")
