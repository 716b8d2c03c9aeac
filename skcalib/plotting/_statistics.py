"""Numbers of one event written into a diagram, where they cover no data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from skcalib._arrays.types import Float64Array, FloatArray
from skcalib.metrics import calibration_intercept_slope, integrated_calibration_index
from skcalib.plotting._display import HISTOGRAM, HISTOGRAM_ROOM

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Room of the box within the axes, and points of a line that are looked at.
GAP, POINTS = 0.02, 200


def numbers_of(score: FloatArray, hit: NDArray[Any], w: Float64Array) -> dict[str, float]:
    """Return the statistics by their names, without those that these rows do not have."""
    events = float((w * hit).sum())
    numbers = {"n": float(w.sum()), "events": events}
    try:
        found = calibration_intercept_slope(hit, score, pos_label=True, sample_weight=w)
        numbers |= {"slope": found.slope, "intercept": found.intercept}
    except ValueError:  # one outcome alone, equal scores, or scores that separate the outcomes
        pass
    if 0 < events < numbers["n"]:
        numbers["C"] = float(roc_auc_score(hit, score, sample_weight=w))
    index = integrated_calibration_index(hit, score, pos_label=True, sample_weight=w)
    return {**numbers, "ICI": index.ici, "E90": index.e90}


def text_of(numbers: dict[str, float]) -> str:
    """Return a line for each number."""
    counts = {"n", "events"}
    return "\n".join(
        f"{name} {value:,.0f}" if name in counts else f"{name} {value:.3g}"
        for name, value in numbers.items()
    )


def write_numbers(ax: Axes, numbers: dict[str, float]) -> Any:
    """Write the numbers into the first corner without data, or beside the axes."""
    figure: Any = ax.figure
    figure.draw_without_rendering()
    floor = HISTOGRAM_ROOM if any(c.get_gid() == HISTOGRAM for c in ax.child_axes) else 0.0
    style: dict[str, Any] = {"fontsize": "small", "transform": ax.transAxes, "linespacing": 1.3}
    taken = places_of_data(ax)
    for x, y, across, upright in (
        (GAP, 1 - GAP, "left", "top"),
        (1 - GAP, floor + GAP, "right", "bottom"),
        (1 - GAP, 1 - GAP, "right", "top"),
        (GAP, floor + GAP, "left", "bottom"),
    ):
        text = ax.text(x, y, text_of(numbers), ha=across, va=upright, **style)
        if not covers(text, taken, ax):
            return text
        text.remove()
    # Low, because a legend in the upper left corner of a small picture may reach beyond the axes.
    return ax.text(1 + GAP, floor, text_of(numbers), ha="left", va="bottom", **style)


def places_of_data(ax: Axes) -> NDArray[Any]:
    """Return points of all lines, bars and shades of an axes, in pixels."""
    shown: list[Any] = [line for line in ax.lines if line.get_visible()]
    found = [line.get_transform().transform(line.get_xydata()) for line in shown]
    for collection in ax.collections:
        transform = collection.get_transform()
        found += [transform.transform(path.vertices) for path in collection.get_paths()]
    return np.concatenate([_along(points) for points in found])


def _along(points: NDArray[Any]) -> NDArray[Any]:
    """Return many points of a line through points."""
    at = np.linspace(0, len(points) - 1, max(POINTS, 4 * len(points)))
    return np.column_stack([np.interp(at, np.arange(len(points)), c) for c in points.T])


def covers(text: Any, points: NDArray[Any], ax: Axes) -> bool:
    """Whether a text lies over one of the points, or over the legend."""
    box = text.get_window_extent()
    legend = ax.get_legend()
    inside = (points > [box.x0, box.y0]) & (points < [box.x1, box.y1])
    over_legend = legend is not None and box.overlaps(legend.get_window_extent())
    return bool(over_legend or inside.all(axis=1).any())
