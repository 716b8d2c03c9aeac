r"""KSDisplay: accuracy against score, and the difference of their cumulative sums."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from skcalib.calibrators import SplineCalibrator
from skcalib.extending import Float64Array, as_sample_weight, check_option
from skcalib.extending import check_inner_predictions as check_predictions
from skcalib.plotting import _drawing
from skcalib.plotting._drawing import Mode

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(eq=False, repr=False)
class KSDisplay(_drawing.PredictionDisplay):
    r"""Plot of the KS error: accuracy against score, and the gap of their cumulative sums.

    For rows sorted by score, :math:`s_1 \le s_2 \le \dots`, with outcomes t and weights w with
    sum W, the cumulative score and the cumulative accuracy are

    .. math:: g(\sigma) = \frac{1}{W} \sum_{s_i \le \sigma} w_i s_i, \qquad
              h(\sigma) = \frac{1}{W} \sum_{s_i \le \sigma} w_i t_i,
              \qquad \mathrm{KS} = \max_\sigma |g(\sigma) - h(\sigma)| .

    For a calibrated model, g and h are equal. The first panel shows the accuracy, which is the
    slope of h, against the score. Below the dashed line, the model is over-confident. The second
    panel shows the gap g - h against the percentile of the score, and the KS error, which is the
    largest distance from 0.

    Create the display by `from_estimator` or `from_predictions`.

    Parameters
    ----------
    percentile, score, cumulative_score, cumulative_accuracy : ndarray of shape (m,)
        For each distinct score, in ascending order: the percentage of the weight up to the score,
        the score, g and h.
    accuracy : ndarray of shape (m,)
        The accuracy at each score: the slope of a cubic spline through h.
    error : float
        The KS error.
    axis_names : (str, str)
        Labels of the axes of score and accuracy.
    name : str, default=None
        Name of the model in the legend.

    Attributes
    ----------
    place : int
        Index of the distinct score at which the KS error occurs.
    accuracy_line_, gap_line_ : matplotlib Line2D
        The two curves.
    ks_mark_ : matplotlib Line2D
        The KS error in the second panel.
    axes_ : list of matplotlib Axes
        The axes of the two panels.
    ax_ : matplotlib Axes
        The axes of the first panel.
    figure_ : matplotlib Figure
        The figure of the axes.

    See Also
    --------
    skcalib.metrics.ks_calibration_error : Compute the KS error.
    skcalib.SplineCalibrator : Calibrator that uses the spline.

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
        ax: Sequence[Axes] | None = None,
        name: str | None = None,
        **kwargs: Any,
    ) -> Self:
        """Plot the KS error of labels and probabilities.

        Parameters
        ----------
        y_true : array-like of shape (n,)
            Labels.
        y_proba : array-like of shape (n, K), (n,) or (n, 1)
            Class probabilities, with a column for each of the sorted labels, or of `labels` in
            their order. Columns of a frame that are named after the labels are read by name. One or
            two columns are the probability of the event `pos_label`.
        mode : {"top", "within_top"}, default=None
            "top": the r-th largest probability, and whether its class is the true one.
            "within_top": the sum of the r largest probabilities, and whether one of their classes
            is the true one. None: the event for one or two columns, "top" for more.
        r : int in [1, K], default=1
            Rank for `mode`.
        pos_label : label, default=None
            Label of the event whose probability is shown. None means 1 or True for labels {0, 1},
            {-1, 1} or booleans. For other labels, None means the second of two columns, and a
            single column needs `pos_label`. With more columns, None means the default of `mode`.
        n_knots : int, default=6
            Number of knots of the spline whose slope is the accuracy, at least 4.
        sample_weight : array-like of shape (n,), default=None
            Non-negative weights. Integers are counts: 2 is two copies of the row. Of floats only
            the ratios matter (see "Weights" under "Valid input" in the user guide). 0 is the row's
            absence.
        labels : array-like of shape (K,), default=None
            Labels of the columns, in their order; needed if they cannot be inferred from
            `y_true`.
        name : str, default=None
            Name in the legend.
        ax, **kwargs
            See `plot`.

        Returns
        -------
        display : KSDisplay
            The drawn display.

        Raises
        ------
        ValueError
            If probabilities, labels, weights or keywords are invalid.
        """
        check_option("mode", mode, (None, "top", "within_top"))
        predictions = check_predictions(y_true, y_proba, sample_weight, labels, pos_label)
        _, rows, names = _drawing.event_view(predictions, mode, r)
        (score, hit), w = rows.of_event(), rows.w
        spline = SplineCalibrator(
            n_knots=n_knots, mode="classwise", input="proba", classes=[False, True]
        )
        spline.fit(score, hit, sample_weight=as_sample_weight(w))
        s, place = np.unique(score.astype(np.float64), return_inverse=True)
        amounts = [np.bincount(place, each) for each in (w, w * score, w * hit)]
        share, g, h = np.cumsum(amounts, axis=1) / w.sum()
        accuracy = spline.predict_proba(s)[:, 1].astype(np.float64)
        error = float(np.abs(g - h).max())
        display = cls(100 * share, s, g, h, accuracy, error, axis_names=names, name=name)
        return display.plot(ax, **kwargs)

    def plot(self, ax: Sequence[Axes] | None = None, **kwargs: Any) -> Self:
        """Plot accuracy and gap in two panels.

        Parameters
        ----------
        ax : sequence of two matplotlib Axes, default=None
            Axes to draw on, such as the ``axes_`` of another display; None creates a figure.
        **kwargs : object
            Style of the curves, passed to matplotlib's ``plot``.

        Returns
        -------
        display : KSDisplay
            The display itself.

        Raises
        ------
        ValueError
            If the number of axes is not two.
        """
        self.axes_ = _drawing.panels(ax, 2, "score and gap", 2, 3.3, 3.3)
        left, right = self.axes_
        rate = "accuracy" if self.axis_names[1] == "Accuracy" else "frequency"
        label = _drawing.label_of(self.name or rate, f"KS {_drawing.percent(self.error)}")
        look = {"linestyle": "-", "markersize": 4, "linewidth": 1.4, "markevery": (0.05, 0.1)}
        style = _drawing.model_style(left, kwargs, label=label, **look)
        first = not _drawing.models_on(left)
        if first:
            left.set(xlabel=self.axis_names[0], ylabel=rate.capitalize())
            left.plot(
                self.score, self.score, color=_drawing.ink(), ls="--", lw=1, label="calibrated"
            )
            right.set(xlabel="Percentile of rows", ylabel=f"Cumulative score - {rate}")
            right.axhline(0, color=_drawing.ink(), ls="--", lw=1)
            right.yaxis.set_major_formatter(_drawing.percent_tick)
        (self.accuracy_line_,) = left.plot(self.score, self.accuracy, **style)
        x = np.append(0.0, self.percentile)
        gap = np.append(0.0, self.cumulative_score - self.cumulative_accuracy)
        # The curves are labelled in the legend of the first panel.
        plain = {"label": None, "markevery": max(x.size // 10, 1)}
        (self.gap_line_,) = right.plot(x, gap, **{**style, **plain})
        at, mark = self.place + 1, {"color": style["color"], "lw": 2.5, "ls": "-", "alpha": 0.6}
        mark["label"] = "KS error" if first else None
        (self.ks_mark_,) = right.plot([x[at]] * 2, [0.0, gap[at]], **mark)
        right.legend(**_drawing.LEGEND)
        return self._finish(left)

    def _in_words(self) -> str:
        return f"KS error {self.error:.4f} at a score of {self.score[self.place]:.3g}"
