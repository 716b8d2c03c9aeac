"""DecompositionDisplay: a plot of discrimination against miscalibration of several models."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from skcalib.extending import ScoreName
from skcalib.metrics import score_decomposition
from skcalib.plotting._drawing import PredictionDisplay, label_of, model_style, models_on, new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

NAMES = {"brier": "Brier score", "log": "log loss"}
GREY = "0.5"  # a grey that is readable on white and on black

# Start of the matplotlib identifier (gid) of lines of equal score; the uncertainty follows.
LEVEL = "skcalib-level "
LEVELS = 7
# Margin around the points, as a fraction of their range.
MARGIN = 0.1
# Lines of equal score that are closer to a corner than this fraction have no label.
LABELLED = 0.07


@dataclass(eq=False, repr=False)
class DecompositionDisplay(PredictionDisplay):
    r"""Plot of discrimination against miscalibration, with a point for each model.

    A mean score is :math:`\bar S = \mathrm{MCB} - \mathrm{DSC} + \mathrm{UNC}`. The uncertainty UNC
    is the same for all models of the same rows, so that models of equal score are on a line of
    slope 1. Good models are at the top left. Calibration can correct a large miscalibration (a
    model far to the right), but not a low discrimination. On the dotted line, a model is as good
    as the base rate.

    Create the display by `from_estimator` or `from_predictions`.

    Parameters
    ----------
    frame : pandas.DataFrame
        A row for each model, with its name as the index and the columns ``score``,
        ``miscalibration``, ``discrimination``, ``uncertainty`` and ``scaled_score`` of
        `skcalib.metrics.score_decomposition`.
    score : {"brier", "log"}, default="brier"
        The score.

    Attributes
    ----------
    points_ : list of matplotlib Line2D
        The point of each model.
    levels_ : matplotlib ContourSet
        The lines of equal score.
    ax_ : matplotlib Axes
        The axes of the plot.
    figure_ : matplotlib Figure
        The figure of the axes.

    See Also
    --------
    skcalib.metrics.score_decomposition : Compute the decomposition of a score.
    ReliabilityDisplay : Reliability diagram, which shows where a model is miscalibrated.

    References
    ----------
    Dimitriadis, Gneiting, Jordan (2021). Stable reliability diagrams for probabilistic
    classifiers. PNAS 118.

    Dimitriadis, Gneiting, Jordan, Vogel (2024). Evaluating probabilistic classifiers: The triptych.
    International Journal of Forecasting 40.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib.plotting import DecompositionDisplay
    >>> rng = np.random.default_rng(0)
    >>> p = rng.random(1000)
    >>> y = rng.random(1000) < p
    >>> models = {"right": p, "too sure": p**3 / (p**3 + (1 - p) ** 3), "half": (p + 0.5) / 2}
    >>> display = DecompositionDisplay.from_predictions(y, models)
    >>> display.frame["miscalibration"].round(3).to_dict()
    {'right': 0.005, 'too sure': 0.032, 'half': 0.027}
    """

    frame: pd.DataFrame
    _: KW_ONLY
    score: ScoreName = "brier"

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_proba: ArrayLike | Mapping[str, ArrayLike],
        *,
        score: ScoreName = "brier",
        calibrator: Any = None,
        mode: Literal["top", "classwise", "joint"] | None = None,
        pos_label: Any = None,
        sample_weight: ArrayLike | None = None,
        labels: ArrayLike | None = None,
        ax: Axes | None = None,
        name: str | None = None,
        **kwargs: Any,
    ) -> Self:
        """Plot the decomposition of one or several models from labels and probabilities.

        Parameters
        ----------
        y_true : array-like of shape (n,) or (n, K)
            Labels; or soft labels: numbers in [0, 1] for a binary problem, or the shares of several
            raters, with a column for each class.
        y_proba : array-like of shape (n, K), (n,) or (n, 1), or dict of such by name
            Class probabilities of a model, or of several models by name, with a column for each of
            the sorted labels, or of `labels` in their order. Columns of a frame that are named
            after the labels are read by name. One or two columns are the probability of the event
            `pos_label`.
        score : {"brier", "log"}, default="brier"
            The score.
        calibrator : fitted calibrator, default=None
            Calibrator that is used for the decomposition instead of isotonic regression; for a
            single model.
        mode : {"top", "classwise", "joint"} or None, default=None
            "top": the top label, and whether it is the true one. "classwise": the mean over all
            classes. "joint": vectors of probabilities. None: the event for one or two columns,
            "top" for more.
        pos_label : label, default=None
            Label of the event whose probability is shown. None means 1 or True for labels {0, 1},
            {-1, 1} or booleans. For other labels, None means the second of two columns, and a
            single column needs `pos_label`. With more columns, None means the default of `mode`.
        sample_weight : array-like of shape (n,), default=None
            Non-negative weights. Integers are counts: 2 is two copies of the row. Of floats only
            the ratios matter (see "Weights" under "Valid input" in the user guide). 0 is the row's
            absence.
        labels : array-like of shape (K,), default=None
            Labels of the columns, in their order; needed if they cannot be inferred from
            `y_true`.
        ax : matplotlib Axes, default=None
            Axes to draw on, such as the ``ax_`` of another display of the same rows; None creates
            a figure.
        name : str, default=None
            Name of a single model in the legend.
        **kwargs : object
            Style of the points, passed to matplotlib's ``plot``.

        Returns
        -------
        display : DecompositionDisplay
            The drawn display.

        Raises
        ------
        ValueError
            If probabilities, labels, weights or keywords are invalid, a score is infinite, or the
            models on the axes were measured on other rows.
        """
        if not isinstance(y_proba, Mapping):
            models = {"model" if name is None else name: y_proba}
        elif name is not None or calibrator is not None or not y_proba:
            raise ValueError(
                "y_proba is a dict of models by name: pass at least one model, without name= and "
                "calibrator=, which are for a single model; to use them, draw each model on the "
                "same ax= by a call of its own."
            )
        else:
            models = dict(y_proba)
        rows: Any = {"sample_weight": sample_weight, "labels": labels, "pos_label": pos_label}
        measure = partial(score_decomposition, score=score, calibrator=calibrator, mode=mode)
        parts = [measure(y_true, P, **rows) for P in models.values()]
        frame = pd.DataFrame(parts, index=list(models))
        return cls(frame, score=score).plot(ax, **kwargs)

    def _in_words(self) -> str:
        rows = zip(self.frame.index, self.frame["score"], strict=True)
        return f"{self.score} score: " + ", ".join(f"{name} {score:.4f}" for name, score in rows)

    def plot(self, ax: Axes | None = None, **kwargs: Any) -> Self:
        """Plot a point for each model, and lines of equal score.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on, such as the ``ax_`` of another display of the same rows; None creates
            a figure.
        **kwargs : object
            Style of the points, passed to matplotlib's ``plot``.

        Returns
        -------
        display : DecompositionDisplay
            The display itself.

        Raises
        ------
        ValueError
            If a score is infinite, or the models on the axes were measured on other rows.
        """
        endless = ~np.isfinite(self.frame["miscalibration"].to_numpy())
        if endless.any():
            raise ValueError(
                f"the log loss of {self.frame.index[endless][0]!r} is infinite, because a true "
                "class has probability 0: pass score='brier'."
            )
        uncertainty = self.frame["uncertainty"].to_numpy()
        known = np.append(uncertainty, [] if ax is None else uncertainties(ax))
        if not np.allclose(known, known[0], rtol=1e-9, atol=0):
            raise ValueError(
                f"models in one plot must be measured by the same score on the same rows, but "
                f"their uncertainties are {known.min():.6g} and {known.max():.6g}: draw them on "
                "separate axes."
            )
        ax = new_axes(4.8, 4.2) if ax is None else ax
        self.points_: list[Line2D] = []
        look: dict[str, Any] = {"linestyle": "none", "markersize": 7, "zorder": 3, "clip_on": False}
        for name, row in self.frame.iterrows():
            look["label"] = label_of(str(name), f"{row['score']:.3g}")
            place: Any = row["miscalibration"], row["discrimination"]
            self.points_ += ax.plot(*place, **model_style(ax, kwargs, **look))
        ax.set(xlabel="Miscalibration (MCB)", ylabel="Discrimination (DSC)")
        self.levels_ = draw_levels(ax, float(known[0]))
        return self._finish(ax, title=NAMES[self.score], edgecolor=GREY)


def uncertainties(ax: Axes) -> list[float]:
    """Return the uncertainties for which an axes already has lines of equal score."""
    marks = [str(artist.get_gid()) for artist in ax.collections]
    return [float(mark.removeprefix(LEVEL)) for mark in marks if mark.startswith(LEVEL)]


def draw_levels(ax: Axes, uncertainty: float) -> Any:
    """Draw the lines of equal score for all models on an axes, and remove earlier lines."""
    from matplotlib.ticker import MaxNLocator

    mark = f"{LEVEL}{uncertainty!r}"
    earlier = [artist for artist in ax.collections if artist.get_gid() == mark]
    for artist in earlier:
        artist.remove()
    if not earlier:
        label = label_of("base rate", f"{uncertainty:.3g}")
        ax.axline((0, 0), slope=1, color=GREY, ls=":", lw=1.4, zorder=1.5, label=label)
    points = [line.get_xydata() for line in models_on(ax)]
    low, high = (end([(0.0, 0.0), *np.concatenate(points)], axis=0) for end in (np.min, np.max))
    margin = MARGIN * np.where(high > low, high - low, 1.0)
    (left, bottom), (right, top) = low - margin, high + margin
    ax.set(xlim=(left, right), ylim=(bottom, top))
    x, y = np.linspace(left, right), np.linspace(bottom, top)
    look: dict[str, Any] = {"colors": GREY, "linewidths": 0.6, "linestyles": "solid", "zorder": 1}
    locator = MaxNLocator(LEVELS, steps=[1, 2, 2.5, 5, 10])
    lines = ax.contour(x, y, uncertainty + x - y[:, None], locator=locator, **look)
    lines.set_gid(mark)
    # Lines of equal score have their labels on the diagonal from the top left (best score) down.
    best, worst = uncertainty + left - top, uncertainty + right - bottom
    share = (lines.levels - best) / (worst - best)
    share = share[(share > LABELLED) & (share < 1 - LABELLED)]
    places = np.column_stack([left + share * (right - left), top + share * (bottom - top)])
    ax.clabel(lines, fmt="%.4g", fontsize="x-small", manual=places.tolist(), zorder=2)
    return lines
