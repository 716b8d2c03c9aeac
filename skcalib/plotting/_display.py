"""Base class of displays, and what they share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from skcalib._scores.responses import choose_response, class_scores
from skcalib._validation.keywords import check_flags
from skcalib.metrics._every_class import MetricInput, with_every_class
from skcalib.plotting._in_words import InWords
from skcalib.plotting._score_pairs import proba_before
from skcalib.plotting._style import ink, style_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Mark on the artists of a model; counting them gives the number of models on the axes.
MODEL = "skcalib-model"
REFERENCE = "skcalib-reference"


def check_matplotlib(caller: str) -> None:
    """Raise ImportError with the way to install matplotlib if it is missing."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise ImportError(
            f'{caller} needs matplotlib: install it with `pip install "skcalib[plot]"`.'
        ) from error


class PredictionDisplay(InWords):
    """Base class of displays of labels and probabilities."""

    before_: Self | None
    ax_: Axes

    @classmethod
    def from_predictions(cls, *args: Any, **keywords: Any) -> Self:
        """Plot labels and probabilities."""
        raise NotImplementedError

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: ArrayLike, *, before: bool = False, **keywords: Any
    ) -> Self:
        """Plot a fitted classifier's probabilities for `X`, given the labels `y`.

        Parameters
        ----------
        estimator : classifier
            Fitted, with ``predict_proba``; also a pipeline that ends with a classifier.
        X : array-like or whatever the estimator takes, of length n
            Data that the estimator was not fitted on.
        y : array-like of shape (n,)
            Labels; one that the estimator never saw has probability 0.
        before : bool, default=False
            Whether to draw the uncalibrated model, too, on the same axes, if the estimator is a
            `skcalib.CalibratedClassifier`, a calibrator of this package or a pipeline that ends
            with either. The display of the calibrated one is returned; its ``before_`` is the
            other.
        **keywords : object
            Those of `from_predictions`, except ``labels``: the columns are those of
            ``estimator.classes_``. ``name`` is the estimator's class if not given, or "after".

        Returns
        -------
        display : object
            The display, drawn.

        Raises
        ------
        ValueError
            If the estimator has no ``predict_proba``, `before` is asked of one that is not
            calibrated or with ``groups``, or as `from_predictions` says.
        ImportError
            If matplotlib is missing.
        """
        check_matplotlib(f"{cls.__name__}.from_estimator")
        check_is_fitted(estimator)
        check_flags(before=before)
        if before and keywords.get("groups") is not None:
            raise ValueError(
                "before=True draws two models on the same axes, and groups= may put its panels in "
                "another order for each: draw them by two calls."
            )
        if keywords.get("name") is None:
            keywords["name"] = "after" if before else type(estimator).__name__
        response = choose_response(estimator, "predict_proba")
        classes = np.asarray(estimator.classes_)
        proba = class_scores(estimator, X, response, classes)
        weight = keywords.get("sample_weight")
        found = [proba_before(estimator, X), proba] if before else [proba]
        inputs = [with_every_class(MetricInput(y, each, classes), None, weight) for each in found]
        other = None
        if before:
            y, each, labels = inputs[0]
            other = cls.from_predictions(y, each, labels=labels, **{**keywords, "name": "before"})
            keywords |= other._beside()
        y, proba, labels = inputs[-1]
        display = cls.from_predictions(y, proba, labels=labels, **keywords)
        display.before_ = other
        return display

    def _beside(self) -> dict[str, Any]:
        """Return the keywords that draw another model beside this one."""
        return {"ax": getattr(self, "axes_", None) or self.ax_}


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
            f"ax contains {len(found)} axes but {wanted} are drawn ({what}): pass so many."
        )
    return found


def count_models(ax: Axes) -> int:
    """Return the number of models that an axes shows."""
    return sum(artist.get_gid() == MODEL for artist in ax.get_children())


def model_style(ax: Axes) -> dict[str, Any]:
    """Return colour, marker and dashes of the next model on an axes."""
    return style_of(count_models(ax))


def draw_diagonal(ax: Axes, label: str) -> None:
    """Draw the line y = x, only once on an axes."""
    if not any(line.get_gid() == REFERENCE for line in ax.lines):
        style: dict[str, Any] = {"ls": ":", "lw": 1.2, "alpha": 0.7, "marker": ""}
        ax.plot([0, 1], [0, 1], color=ink(), label=label, gid=REFERENCE, zorder=1.5, **style)


def unit_square(ax: Axes) -> None:
    """Set the limits of both axes to [0, 1]."""
    ax.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
    ax.set_xticks(np.linspace(0, 1, 6))
    ax.set_yticks(np.linspace(0, 1, 6))
