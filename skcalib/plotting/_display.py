"""Base class of displays, and their style.

Colours are those of Okabe and Ito, which colour-blind readers can distinguish; markers and dashes
differ as well, for prints in grey.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Self

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

# Share of an axes' height: the histogram with the gap above it.
HISTOGRAM_ROOM = 0.26


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


def shade(
    ax: Axes,
    x: Float64Array,
    low: Float64Array,
    high: Float64Array,
    style: dict[str, Any],
    alpha: float,
    what: str,
) -> Any:
    """Draw a shade between two curves; only that of the first model has a label."""
    label = None if count_models(ax) else what
    return ax.fill_between(
        x, low, high, color=style["color"], alpha=alpha, lw=0, zorder=1, label=label
    )


def mean_height(ax: Axes) -> float:
    """Return the mean height of the points of all curves above the diagonal."""
    curves = [np.array(line.get_data()) for line in ax.lines if line.get_gid() == MODEL]
    x, y = np.concatenate(curves, axis=1)
    return float((y - x).mean())
