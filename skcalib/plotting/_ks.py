r"""KS graphs: cumulative score and accuracy, and their slopes, without bins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from skcalib._arrays.types import Float64Array
from skcalib._scores.one_vs_rest import stable_order
from skcalib._validation.predictions import check_predictions
from skcalib._validation.weights import as_given
from skcalib.calibrators import SplineCalibrator
from skcalib.metrics import ks_calibration_error
from skcalib.plotting._display import PredictionDisplay
from skcalib.plotting._drawing import (
    LEGEND,
    MODEL,
    count_models,
    ink,
    label_of,
    model_style,
    panels,
    percent,
    percent_tick,
    shared_legend,
)
from skcalib.plotting._numbers import Mode, as_shown, event_view

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

View = Literal["cumulative_percentile", "cumulative_score", "percentile", "score", "gap"]
# Below this KS error the two curves of the first four views cannot be told apart.
VISIBLE = 0.03
# Mark on a legend above the panels.
ABOVE = "skcalib-legend"
# Title of each view, and names of its axes; the place of "accuracy" is left open.
TEXTS: dict[View, tuple[str, str, str]] = {
    "cumulative_percentile": ("Cumulative, by percentile", "Percentile of rows", "Cumulative"),
    "cumulative_score": ("Cumulative, by cumulative score", "Cumulative score", "Cumulative"),
    "percentile": ("Score and {}, by percentile", "Percentile of rows", "Score, {}"),
    "score": ("Score and {}, by score", "Score", "Score, {}"),
    "gap": ("Cumulative score minus {}", "Percentile of rows", "Score minus {}"),
}
VIEWS = tuple(TEXTS)


@dataclass(eq=False, repr=False)
class KSDisplay(PredictionDisplay):
    r"""KS graphs: score and accuracy, cumulative and not, and the place of the KS error.

    With the rows in order of their score :math:`s_1 \le s_2 \le \dots`, outcomes t and weights w
    of sum W, the cumulative score and the cumulative accuracy are

    .. math:: g(\sigma) = \frac{1}{W} \sum_{s_i \le \sigma} w_i s_i, \qquad
              h(\sigma) = \frac{1}{W} \sum_{s_i \le \sigma} w_i t_i,
              \qquad \mathrm{KS} = \max_\sigma |g(\sigma) - h(\sigma)| .

    For a calibrated model the two curves coincide. The views are: both against the percentile of
    the score; both against the cumulative score, so that g is the diagonal; the score and the
    accuracy themselves, the slopes of the first view, against percentile; and against score; and
    the gap g - h against percentile, which is above 0 for an over-confident model.

    Create it with `from_estimator` or `from_predictions`.

    Parameters
    ----------
    percentile, score, cumulative_score, cumulative_accuracy : ndarray of shape (m,)
        At each distinct score, ascending: the percentage of the weight up to it, the score,
        g and h.
    accuracy : ndarray of shape (m,)
        The accuracy at that score: the slope of a cubic spline through h.
    error : float
        The KS error.
    axis_names : (str, str)
        Names of score and accuracy.
    name : str, default=None
        Name of the model in the legend.

    Attributes
    ----------
    place : int
        Index of the distinct score at which the KS error occurs.
    score_lines_, accuracy_lines_ : list of matplotlib Line2D
        The two curves of each view.
    ks_marks_ : list of matplotlib Line2D
        The distance in a cumulative view; in the others the place of the KS error.
    axes_ : list of matplotlib Axes
        The axes of each view.
    ax_ : matplotlib Axes
        The first of them.
    figure_ : matplotlib Figure
        Their figure.

    See Also
    --------
    skcalib.metrics.ks_calibration_error : The KS error as a number.
    skcalib.SplineCalibrator : The spline as a calibrator.

    References
    ----------
    Gupta, Rahimi, Ajanthan, Mensink, Sminchisescu, Hartley (2021). Calibration of Neural
    Networks using Splines. ICLR. Figure 1.

    Examples
    --------
    >>> from skcalib.plotting import KSDisplay
    >>> y = [0, 0, 1, 0, 1, 1]
    >>> p = [0.2, 0.4, 0.4, 0.8, 0.9, 1.0]
    >>> display = KSDisplay.from_predictions(y, p, pos_label=1)
    >>> round(display.error, 3), float(display.score[display.place])
    (0.133, 0.8)
    """

    percentile: Float64Array
    score: Float64Array
    cumulative_score: Float64Array
    cumulative_accuracy: Float64Array
    accuracy: Float64Array
    error: float
    _: KW_ONLY
    axis_names: tuple[str, str] = ("Confidence (top label)", "Accuracy")
    name: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self.place = int(np.abs(self.cumulative_score - self.cumulative_accuracy).argmax())

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_proba: ArrayLike,
        *,
        mode: Mode | None = None,
        r: int = 1,
        pos_label: Any = None,
        n_knots: int = 6,
        sample_weight: ArrayLike | None = None,
        labels: ArrayLike | None = None,
        ax: Axes | Sequence[Axes] | None = None,
        name: str | None = None,
        views: View | Sequence[View] | None = None,
        **kwargs: Any,
    ) -> Self:
        """Plot labels and probabilities.

        Parameters
        ----------
        y_true : array-like of shape (n,)
            Labels.
        y_proba : array-like of shape (n, K), (n,) or (n, 1)
            Class probabilities, a column for each of the sorted labels, or of `labels` in their
            order; a frame whose columns are named by the labels is read by name. One or two
            columns give the probability of one event, `pos_label`.
        mode : {"top", "within_top"}, default=None
            The r-th largest probability and whether that class is true; or the sum of the r
            largest and whether the true class is among them. None means the event of one or two
            columns, else "top".
        r : int in [1, K], default=1
            Rank.
        pos_label : label, default=None
            The event whose probability is shown. None means 1 or True for labels {0, 1}, {-1, 1} or
            booleans; of other labels the second of two columns, while one column needs it. With
            more columns, None means what `mode` says.
        n_knots : int, default=6
            Knots of the spline whose slope is the accuracy, at least 4.
        sample_weight : array-like of shape (n,), default=None
            Non-negative weights. Integers are counts: 2 is two copies of the row. Of floats only
            the ratios matter (see "Weights" under "Valid input" in the user guide). 0 is the row's
            absence.
        labels : array-like of shape (K,), default=None
            Labels of the columns, in their order; needed if they cannot be inferred from
            `y_true`.
        name : str, default=None
            Name in the legend.
        ax, views, **kwargs
            See `plot`.

        Returns
        -------
        display : KSDisplay
            The display, drawn.

        Raises
        ------
        ValueError
            If probabilities, labels, weights or keywords are invalid.
        ImportError
            If matplotlib is missing.
        """
        given = check_predictions(y_true, y_proba, sample_weight, labels, pos_label)
        predictions = as_shown(given, mode, r)
        score, hit, names = event_view(predictions, mode, r)
        w = predictions.w
        spline = SplineCalibrator(
            n_knots=n_knots, mode="classwise", input="proba", classes=[False, True]
        )
        spline.fit(score, hit, sample_weight=as_given(w))
        order = stable_order(score)
        s, t, weight = score[order].astype(np.float64), hit[order], w[order] / w.sum()
        last = np.flatnonzero(np.append(score[order][1:] != score[order][:-1], True))
        error = ks_calibration_error(hit, score, sample_weight=as_given(w))
        display = cls(
            100 * np.cumsum(weight)[last],
            s[last],
            np.cumsum(weight * s)[last],
            np.cumsum(weight * t)[last],
            spline.predict_proba(s[last])[:, 1].astype(np.float64),
            float(error),
            axis_names=names,
            name=name,
        )
        return display.plot(ax, views=views, **kwargs)

    def plot(
        self,
        ax: Axes | Sequence[Axes] | None = None,
        *,
        views: View | Sequence[View] | None = None,
        **kwargs: Any,
    ) -> Self:
        """Plot the views.

        Parameters
        ----------
        ax : matplotlib Axes or sequence of them, default=None
            One axes for each view, such as the ``axes_`` of another display; None creates a
            figure.
        views : str or sequence of str, default=None
            One or some of "cumulative_percentile", "cumulative_score", "percentile", "score",
            "gap". None draws the first four, and the gap too if `ax` is None and the KS error is
            below 3 %, or if `ax` has five axes.
        **kwargs : object
            Style of the accuracy curves, passed to matplotlib's ``plot``.

        Returns
        -------
        display : KSDisplay
            Itself.

        Raises
        ------
        ValueError
            If there is no such view, or the number of axes is not that of the views.
        """
        if views is None:
            wide = self.error < VISIBLE if ax is None else np.size(np.asarray(ax, object)) == 5
            views = VIEWS if wide else VIEWS[:4]
        views = (views,) if isinstance(views, str) or not np.iterable(views) else tuple(views)
        if not views or not all(isinstance(view, str) and view in VIEWS for view in views):
            raise ValueError(f"views must be some of {list(VIEWS)}; got {list(views)}.")
        columns = -(-len(views) // 2) if len(views) > 2 else len(views)
        self.axes_ = panels(ax, len(views), f"{list(views)}", columns, 3.3, 2.8)
        self.score_lines_: list[Line2D] = []
        self.accuracy_lines_: list[Line2D] = []
        self.ks_marks_: list[Line2D] = []
        label = label_of(self.name or self._rate(), f"KS {percent(self.error)}")
        for view, panel in zip(views, self.axes_, strict=True):
            self._draw(panel, view, label, kwargs)
        self.ax_, self.figure_ = self.axes_[0], self.axes_[0].figure
        earlier = [legend for legend in self.figure_.legends if legend.get_gid() == ABOVE]
        if earlier or (ax is None and len(views) > 1):
            for legend in earlier:
                legend.remove()
            shared_legend(self.axes_, loc="outside upper left", ncols=2).set_gid(ABOVE)
        else:
            self.ax_.legend(**LEGEND)
        return self

    def _in_words(self) -> str:
        return f"KS error {self.error:.4f}, at the score {self.score[self.place]:.3g}"

    def _rate(self) -> str:
        return "accuracy" if self.axis_names[1] == "Accuracy" else "share"

    def _draw(self, ax: Axes, view: View, label: str, kwargs: dict[str, Any]) -> None:
        look = {"linestyle": "-", "markersize": 4, "linewidth": 1.4, "markevery": (0.05, 0.1)}
        style = model_style(ax, kwargs, **look)
        rate = self._rate()
        x, score, accuracy, at = self._curves(view)
        first = not count_models(ax)
        dashed: dict[str, Any] = {"color": style["color"], "ls": (0, (4, 2)), "lw": 1.1}
        dashed["label"] = self.axis_names[0] if first else None
        self.score_lines_ += ax.plot(x, score, **dashed)
        line = {"label": label, **style}
        if view == "gap":  # it is too jagged for marks at equal distances along it
            line["markevery"] = max(x.size // 10, 1)
            ax.yaxis.set_major_formatter(percent_tick)
        self.accuracy_lines_ += ax.plot(x, accuracy, **line, gid=MODEL)
        bar = view.startswith("cumulative") or view == "gap"
        ends = [score[at], accuracy[at]] if bar else [0.0, score[at]]
        name = "KS error" if bar else "place of the KS error"
        mark: dict[str, Any] = {"color": ink() if first else style["color"], "zorder": 2.5}
        mark |= {"lw": 2.2, "ls": "-"} if bar else {"lw": 0.9, "ls": ":"}
        mark |= {"solid_capstyle": "butt", "label": name if first else None}
        self.ks_marks_ += ax.plot([x[at]] * 2, ends, **mark)
        title, xlabel, ylabel = TEXTS[view]
        ax.set(xlabel=xlabel, ylabel=ylabel.format(rate))
        if not ax.get_title():
            ax.set_title(title.format(rate), fontsize="medium")
        if xlabel == "Percentile of rows":
            ax.set(xlim=(-2, 102), xticks=(0, 50, 100))

    def _curves(self, view: View) -> tuple[Float64Array, Float64Array, Float64Array, int]:
        """Return the horizontal axis of a view, its two curves and the index of the KS error."""
        other = {"cumulative_score": self.cumulative_score, "score": self.score}
        x = other.get(view, self.percentile)
        if view in ("percentile", "score"):
            return x, self.score, self.accuracy, self.place
        score, accuracy = self.cumulative_score, self.cumulative_accuracy
        if view == "gap":
            score, accuracy = np.zeros(score.size), score - accuracy
        x, score, accuracy = (np.append(0.0, values) for values in (x, score, accuracy))
        return x, score, accuracy, self.place + 1
