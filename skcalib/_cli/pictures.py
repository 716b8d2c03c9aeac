"""The pictures of a report."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Iterable
from functools import partial
from html import escape
from typing import TYPE_CHECKING, Any

from skcalib._comparison.comparison import CalibratorComparison
from skcalib._validation.predictions import Predictions
from skcalib.plotting._comparison import ordered

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Ground of the page on dark screens, as in its style, and when it is used.
BACK = "#181a1d"
DARK = "screen and (prefers-color-scheme: dark)"
MISSING = '<p>There are no pictures: matplotlib is not installed (pip install "skcalib[plot]").</p>'


def can_draw() -> bool:
    """Return whether matplotlib is installed."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        return False
    return True


def before_and_after(chosen: str, before: Predictions, after: Predictions) -> str:
    """Return the reliability diagrams of the same rows."""
    if not can_draw():
        return MISSING
    from skcalib.plotting import ReliabilityDisplay

    def draw(title: str, predictions: Any, ax: Axes) -> None:
        # Predictions may stand in the place of labels and probabilities.
        ReliabilityDisplay.from_predictions(predictions, predictions, ax=ax)
        ax.set_title(title)

    both = {"before": before, f"after: {chosen}": after}
    return side_by_side(
        image(partial(draw, title, predictions), 4.6, f"Reliability diagram {title}")
        for title, predictions in both.items()
    )


def gains(comparison: CalibratorComparison) -> str:
    """Return the section with a picture of the gains by each metric."""
    height = 1.2 + 0.27 * len(ordered(comparison.frame))

    def draw(name: str, ax: Axes) -> None:
        comparison.plot(metrics=[name], ax=ax)

    drawn = side_by_side(
        image(partial(draw, name), height, f"Gains by {name.replace('_', ' ')}, with intervals")
        for name in comparison.metrics
    )
    return (
        '<h2>Gains by each metric</h2>\n<p class="lead note">To the right of the dotted line a '
        "calibrator is better than no calibration. The intervals cover the chance in the measured "
        f"rows, not that of other calibration rows.</p>\n{drawn}"
    )


def worst_classes(before: Any) -> str:
    """Return the errors of all classes, worst first."""
    from skcalib.plotting import ClasswiseDisplay

    def draw(ax: Axes) -> None:
        ClasswiseDisplay.from_predictions(before, before, kind="bars", ax=ax)

    return side_by_side([image(draw, 2.8, "Error of every class before")])


def side_by_side(images: Iterable[str]) -> str:
    """Return pictures beside each other."""
    return f'<div class="pictures">{"".join(images)}</div>'


def image(draw: Callable[[Axes], None], height: float, text: str) -> str:
    """Return what is drawn on axes as part of the page, with a text for those who do not see it.

    It is drawn twice: for light screens and paper, and for dark screens.
    """
    from matplotlib import style
    from matplotlib.figure import Figure

    codes = []
    looks: tuple[list[Any], ...] = ["default"], ["dark_background", {"legend.facecolor": BACK}]
    for look in looks:
        buffer = io.BytesIO()
        with style.context(look):
            figure = Figure(figsize=(4.8, height), layout="constrained")
            draw(figure.subplots())
            figure.savefig(buffer, format="svg", metadata={"Date": None}, transparent=True)
        codes.append(base64.b64encode(buffer.getvalue()).decode("ascii"))
    light, dark = (f"data:image/svg+xml;base64,{code}" for code in codes)
    return (
        f'<picture><source media="{DARK}" srcset="{dark}">'
        f'<img alt="{escape(text)}" src="{light}"></picture>'
    )
