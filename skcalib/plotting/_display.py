"""Base class of displays, and what they share."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from skcalib._scores.responses import class_scores
from skcalib._validation.keywords import check_flags
from skcalib.metrics._every_class import with_every_class
from skcalib.plotting._drawing import LEGEND, check_matplotlib, model_style, new_axes, percent_tick
from skcalib.plotting._score_pairs import proba_before

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import PolyCollection
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D


class Display:
    """Base class: ``repr`` is the class, the name of the model, and ``_in_words()``."""

    ax_: Axes
    figure_: Figure | Any
    # What is shown, in one short line.
    _in_words: Callable[[], str]

    def __post_init__(self) -> None:
        check_matplotlib(type(self).__name__)

    def _finish(self, ax: Axes, **look: Any) -> Self:
        """Draw the legend of the axes, which are then those of the display."""
        ax.legend(**LEGEND | look)
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def __repr__(self) -> str:
        name = getattr(self, "name", None)
        model = f"{name}: " if name else ""
        return f"<{type(self).__name__} {model}{self._in_words()}>"


class PredictionDisplay(Display):
    """Base class of displays of labels and probabilities."""

    before_: Self | None
    # Draws labels and probabilities.
    from_predictions: Callable[..., Any]

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
        """
        check_is_fitted(estimator)
        check_flags(before=before)
        if before and keywords.get("groups") is not None:
            raise ValueError(
                "before=True draws two models on the same axes, and groups= may put its panels in "
                "another order for each: draw them by two calls."
            )
        if keywords.get("name") is None:
            keywords["name"] = "after" if before else type(estimator).__name__
        if not hasattr(estimator, "predict_proba"):
            raise ValueError(
                f"{type(estimator).__name__} has no predict_proba: wrap it in "
                "skcalib.CalibratedClassifier."
            )
        classes = np.asarray(estimator.classes_)
        proba = class_scores(estimator, X, "predict_proba", classes)
        weight = keywords.get("sample_weight")

        def draw(proba: Any, more: dict[str, Any]) -> Any:
            y_true, padded, labels = with_every_class(y, proba, classes, None, weight)
            return cls.from_predictions(y_true, padded, labels=labels, **(keywords | more))

        other = draw(proba_before(estimator, X), {"name": "before"}) if before else None
        display: Self = draw(proba, other._beside() if other else {})
        display.before_ = other
        return display

    def _beside(self) -> dict[str, Any]:
        """Return the keywords that draw another model beside this one."""
        return {"ax": getattr(self, "axes_", None) or self.ax_}


class CurveDisplay(PredictionDisplay):
    """Base class of displays of a line and its band, of several models on the same axes."""

    name: str | None
    line_: Line2D
    band_: PolyCollection
    # Draws the line, its band and lines to compare it with; sets limits and names of axes.
    _draw: Callable[[Axes, dict[str, Any]], None]

    def plot(self, ax: Axes | None = None, **kwargs: Any) -> Self:
        """Plot the curve.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on, such as the ``ax_`` of another display; None creates a figure.
        **kwargs : object
            Style of the line, passed to matplotlib's ``plot``.

        Returns
        -------
        display : object
            Itself.
        """
        ax = new_axes(4.8, 3.6) if ax is None else ax
        style = model_style(ax, kwargs, markersize=4, markevery=(0.1, 0.2), linewidth=1.4)
        self._draw(ax, style)
        ax.xaxis.set_major_formatter(percent_tick)
        return self._finish(ax)
