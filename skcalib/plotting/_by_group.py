"""Small multiples: a display for each group of rows, the worst first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from skcalib.metrics import ks_calibration_error
from skcalib.metrics._statistics.by_group import FEWEST_ROWS, Grouped, measure_groups
from skcalib.metrics._statistics.group_calibration import label_text
from skcalib.plotting._drawing import panels, share_square, shorten
from skcalib.plotting._numbers import error_text

# Panels of a figure, and of a row at most, and the size of one in inches.
MOST_PANELS, COLUMNS, WIDTH, HEIGHT = 12, 4, 2.4, 2.6
# Letters of the name of a group above its panel.
LETTERS = 26
# Level of the findings of `by_group_`.
LEVEL = 0.95


def draw_groups(draw: Callable[..., Any], grouped: Grouped, ax: Any) -> Any:
    """Draw groups side by side and return the display of the worst.

    ``draw(predictions, axes, ...)`` draws one. The display gets the attributes ``groups_``, the
    display of each group by label, ``axes_`` and ``by_group_``, the numbers. Groups of fewer than
    10 rows, and those after the twelfth, are not drawn; a line below says so.
    """
    named = {"ks_calibration_error": ks_calibration_error}
    by_group = measure_groups(grouped, named, level=LEVEL, random_state=0)
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
        part = parts[label if len(grouped.groups.names) > 1 else (label,)]
        display = displays[label] = draw(part, panel, gaps=False, means=False)  # no legend
        n, error = int(by_group.frame["n"].loc[label]), error_text(display.error, display.curve)
        write_title(display, f"{title}\n{n:,} rows, {error}")
    share_square(list(displays.values()))
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
