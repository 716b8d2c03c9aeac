"""The pictures of a report."""

from __future__ import annotations

from functools import partial
from typing import Any

from skcalib._cli.page import image
from skcalib._comparison.comparison import CalibratorComparison
from skcalib._validation.predictions import Predictions
from skcalib.plotting._comparison import ordered

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
    from matplotlib.figure import Figure

    from skcalib.plotting import ReliabilityDisplay

    def draw(title: str, predictions: Predictions) -> Figure:
        figure = Figure(figsize=(4.8, 4.6), layout="constrained")
        ax = figure.subplots()
        checked: Any = predictions  # may stand in the place of labels and probabilities
        ReliabilityDisplay.from_predictions(checked, checked, ax=ax)
        ax.set_title(title)
        return figure

    both = {"before": before, f"after: {chosen}": after}
    found = [
        image(partial(draw, title, predictions), f"Reliability diagram {title}")
        for title, predictions in both.items()
    ]
    return f'<div class="pictures">{"".join(found)}</div>'


def gains(comparison: CalibratorComparison) -> str:
    """Return a picture of the gains by each metric."""
    from matplotlib.figure import Figure

    height = 1.2 + 0.27 * len(ordered(comparison.frame))

    def draw(name: str) -> Figure:
        figure = Figure(figsize=(4.8, height), layout="constrained")
        comparison.plot(metrics=[name], ax=figure.subplots())
        return figure

    found = [
        image(partial(draw, name), f"Gains by {name.replace('_', ' ')}, with intervals")
        for name in comparison.metrics
    ]
    return f'<div class="pictures">{"".join(found)}</div>'


def worst_classes(before: Predictions) -> str:
    """Return the errors of all classes and the curves of the worst."""
    from matplotlib.figure import Figure

    from skcalib.plotting import ClasswiseDisplay

    checked: Any = before

    def draw() -> Figure:
        figure = Figure(figsize=(4.8, 2.8), layout="constrained")
        ClasswiseDisplay.from_predictions(checked, checked, kind="bars", ax=figure.subplots())
        return figure

    return f'<div class="pictures">{image(draw, "Error of every class before")}</div>'
