"""Base class of displays, and their style.

Colours are those of Okabe and Ito, which colour-blind readers can distinguish; markers and dashes
differ as well, for prints in grey.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Self, cast

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from skcalib._arrays.types import Float64Array
from skcalib._scores.responses import choose_response, class_scores
from skcalib.metrics._every_class import MetricInput, with_every_class

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Corner = Literal["upper left", "upper right", "lower right"]

COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
DASHES = ("-", "--", "-.", (0, (5, 1, 1, 1, 1, 1)), (0, (8, 2)), (0, (3, 1)), ":")

# Mark on the artists of a model; counting them gives the number of models on the axes.
MODEL = "skcalib-model"
REFERENCE = "skcalib-reference"
HISTOGRAM = "skcalib-histogram"

# Shares of an axes' height: the histogram, and the histogram with the gap above it.
HISTOGRAM_HEIGHT, HISTOGRAM_ROOM = 0.2, 0.26


def check_matplotlib(caller: str) -> None:
    """Raise ImportError with the way to install matplotlib if it is missing."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise ImportError(
            f'{caller} needs matplotlib: install it with `pip install "skcalib[plot]"`.'
        ) from error


class PredictionDisplay:
    """Base class of displays of labels and probabilities."""

    @classmethod
    def from_predictions(cls, *args: Any, **keywords: Any) -> Self:
        """Plot labels and probabilities."""
        raise NotImplementedError

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any, y: ArrayLike, **keywords: Any) -> Self:
        """Plot a fitted classifier's probabilities for `X`, given the labels `y`.

        Parameters
        ----------
        estimator : classifier
            Fitted, with ``predict_proba``; also a pipeline that ends with a classifier.
        X : array-like or whatever the estimator takes, of length n
            Data that the estimator was not fitted on.
        y : array-like of shape (n,)
            Labels; one that the estimator never saw has probability 0.
        **keywords : object
            Those of `from_predictions`, except ``labels``: the columns are those of
            ``estimator.classes_``. ``name`` is the estimator's class if not given.

        Returns
        -------
        display : object
            The display, drawn.

        Raises
        ------
        ValueError
            If the estimator has no ``predict_proba``, or as `from_predictions` says.
        ImportError
            If matplotlib is missing.
        """
        check_matplotlib(f"{cls.__name__}.from_estimator")
        check_is_fitted(estimator)
        if keywords.get("name") is None:
            keywords["name"] = type(estimator).__name__
        response = choose_response(estimator, "predict_proba")
        classes = np.asarray(estimator.classes_)
        proba = class_scores(estimator, X, response, classes)
        weight = keywords.get("sample_weight")
        y, proba, classes = with_every_class(MetricInput(y, proba, classes), None, weight)
        return cls.from_predictions(y, proba, labels=classes, **keywords)


def new_axes(width: float, height: float) -> Axes:
    """Create an axes in a new figure."""
    import matplotlib.pyplot as plt

    _, ax = plt.subplots(figsize=(width, height), layout="constrained")
    return ax


def check_axes(axes: Any, wanted: int, what: str) -> list[Axes]:
    """Return the given axes as a list; raise ValueError unless there are `wanted` of them."""
    found = list(np.ravel(np.asarray(axes, dtype=object)))
    if len(found) != wanted:
        raise ValueError(
            f"ax holds {len(found)} axes but {wanted} are drawn ({what}): pass so many."
        )
    return found


def count_models(ax: Axes) -> int:
    """Return the number of models that an axes shows."""
    return sum(artist.get_gid() == MODEL for artist in ax.get_children())


def model_style(ax: Axes) -> dict[str, Any]:
    """Return colour, marker and dashes of the next model on an axes."""
    i = count_models(ax)
    return {
        "color": COLORS[i % len(COLORS)],
        "marker": MARKERS[i % len(MARKERS)],
        "linestyle": DASHES[i % len(DASHES)],
    }


def merge_style(default: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """Override a default line style by the given one, short names such as ``c`` included."""
    from matplotlib.cbook import normalize_kwargs
    from matplotlib.lines import Line2D

    return {**default, **normalize_kwargs(given, Line2D)}


def draw_diagonal(ax: Axes, label: str) -> None:
    """Draw the line y = x, only once on an axes."""
    if not any(line.get_gid() == REFERENCE for line in ax.lines):
        ax.plot([0, 1], [0, 1], ":", color="0.35", lw=1.2, label=label, gid=REFERENCE, zorder=1.5)


def label_of(name: str | None, number: str) -> str:
    """Return the label of a model in the legend."""
    return f"{name} ({number})" if name else number


def percent(error: float) -> str:
    """Return an error in per cent, with more decimals if it is small."""
    if error == 0:
        return "0%"
    decimals = 1 if error >= 0.01 else 2 if error >= 0.001 else 3
    return f"{100 * error:.{decimals}f}%"


def free_corner(height: float) -> Corner:
    """Return the legend corner opposite to curves of this mean height above y = x."""
    return "lower right" if height > 0 else "upper left"


def draw_legend(ax: Axes, corner: Corner) -> None:
    """Put the legend into a corner, above the histogram if there is one."""
    floor = HISTOGRAM_ROOM if any(c.get_gid() == HISTOGRAM for c in ax.child_axes) else 0.0
    ax.legend(
        bbox_to_anchor=(0, floor, 1, 1 - floor),
        loc=corner,
        fontsize="small",
        borderaxespad=0.2,
        borderpad=0.2,
        handlelength=2.2,
        handletextpad=0.5,
        labelspacing=0.3,
        framealpha=0.85,
        edgecolor="none",
    )


def unit_square(ax: Axes) -> None:
    """Set the limits of both axes to [0, 1]."""
    ax.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
    ax.set_xticks(np.linspace(0, 1, 6))
    ax.set_yticks(np.linspace(0, 1, 6))


def histogram_axes(ax: Axes) -> Axes:
    """Return the strip below the unit square of an axes, made on first use.

    It lies within the rectangle of the axes, so that it moves with them.
    """
    from matplotlib.ticker import PercentFormatter

    for child in ax.child_axes:
        if child.get_gid() == HISTOGRAM:
            return cast("Axes", child)
    low, high = -0.02, 1.02
    room = (high - low) * HISTOGRAM_ROOM / (1 - HISTOGRAM_ROOM)
    ax.set_ylim(low - room, high)
    ax.yaxis.label.set_y((1 + HISTOGRAM_ROOM) / 2)
    for side in ("left", "right"):
        ax.spines[side].set_bounds(low, high)
    ax.axhline(low, color=ax.spines["left"].get_edgecolor(), lw=ax.spines["left"].get_linewidth())
    strip = ax.inset_axes((0, 0, 1, HISTOGRAM_HEIGHT), sharex=ax, gid=HISTOGRAM)
    strip.tick_params(labelbottom=False)
    strip.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    strip.patch.set_visible(False)
    strip.set_ylabel("Rows")
    return strip


def draw_histogram(
    ax: Axes, edges: Float64Array, share: Float64Array, style: dict[str, Any]
) -> Any:
    """Draw the share of rows in each bin of [0, 1] in the strip below an axes."""
    strip = histogram_axes(ax)
    strip.stairs(share, edges, fill=True, color=style["color"], alpha=0.18, lw=0)
    outline = strip.stairs(share, edges, color=style["color"], ls=style["linestyle"], lw=1.2)
    drawn: list[Any] = list(strip.patches)
    highest = max(float(patch.get_data().values.max()) for patch in drawn)
    top = nice_above(highest)
    strip.set_ylim(0, 1.05 * top)
    strip.set_yticks([0, top])
    return outline


def nice_above(value: float) -> float:
    """Return the round number at or just above a share."""
    rounds = np.array([0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0])
    return float(rounds[min(int(np.searchsorted(rounds, value - 1e-9)), rounds.size - 1)])
