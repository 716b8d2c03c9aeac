"""A plot of the share of wrong rows against the share of rows that are acted on."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from skcalib._validation.keywords import check_level
from skcalib._validation.predictions import check_predictions
from skcalib.metrics._curves.risk_coverage import (
    RankedRows,
    RiskCoverageCurve,
    curve_of_ranked,
    rank_predictions,
    risk_bounds,
)
from skcalib.metrics._statistics.selective_threshold import (
    SelectiveThreshold,
    check_accuracy,
    find_threshold,
)
from skcalib.plotting._display import PredictionDisplay
from skcalib.plotting._drawing import (
    LEGEND,
    MODEL,
    count_models,
    ink,
    label_of,
    model_style,
    new_axes,
    percent_tick,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import PolyCollection
    from matplotlib.lines import Line2D

# Points of a curve that are drawn, at most.
MAX_POINTS = 1000
# Up to this share of the rows the curve may leave the axes: one wrong row is a large risk.
EARLY = 0.05
# Mark on the line of the allowed risk.
TARGET = "skcalib-target"


@dataclass(eq=False, repr=False)
class RiskCoverageDisplay(PredictionDisplay):
    r"""Share of wrong rows among those of the highest scores, for each share of the rows.

    The steps are the risk at each threshold, the shade its pointwise interval. A good model starts
    near 0 and rises late. The legend shows the area under the curve (AURC) and its interval.

    Create it with `from_estimator` or `from_predictions`.

    Parameters
    ----------
    curve : RiskCoverageCurve
        What `skcalib.metrics.risk_coverage_curve` returns.
    accuracy : float, default=None
        The accuracy that is wanted above a threshold.
    threshold : SelectiveThreshold, default=None
        The threshold for it, what `skcalib.metrics.selective_threshold` returns.
    name : str, default=None
        Name of the model in the legend.

    Attributes
    ----------
    line_ : matplotlib Line2D
        The risk.
    band_ : matplotlib PolyCollection
        Its interval.
    target_ : matplotlib Line2D or None
        The line of the allowed risk.
    point_ : matplotlib Line2D or None
        The threshold, if there is one.
    ax_ : matplotlib Axes
        Their axes.
    figure_ : matplotlib Figure
        Its figure.

    See Also
    --------
    skcalib.metrics.risk_coverage_curve : The numbers.
    skcalib.metrics.selective_threshold : The threshold, and its guarantee.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib.plotting import RiskCoverageDisplay
    >>> rng = np.random.default_rng(0)
    >>> confidence = 1 / (1 + np.exp(-3 * np.abs(rng.normal(size=1000))))
    >>> correct = rng.random(1000) < confidence
    >>> display = RiskCoverageDisplay.from_predictions(correct, confidence, accuracy=0.95)
    >>> round(display.curve.aurc, 3), round(display.threshold.coverage, 2)
    (0.054, 0.42)
    """

    curve: RiskCoverageCurve
    _: KW_ONLY
    accuracy: float | None = None
    threshold: SelectiveThreshold | None = None
    name: str | None = None

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_proba: ArrayLike,
        *,
        accuracy: float | None = None,
        confidence_level: float = 0.95,
        pos_label: Any = None,
        sample_weight: ArrayLike | None = None,
        labels: ArrayLike | None = None,
        ax: Axes | None = None,
        name: str | None = None,
        **kwargs: Any,
    ) -> Self:
        """Plot labels and probabilities.

        Parameters
        ----------
        y_true : array-like of shape (n,)
            Labels.
        y_proba : array-like of shape (n, K), (n,) or (n, 1)
            Class probabilities, a column for each of the sorted labels, or of `labels` in their
            order; a frame whose columns are named by the labels is read by name. The score is the
            largest probability, also of two columns. One column is the probability of one event.
        accuracy : float in (0, 1), default=None
            The accuracy wanted above a threshold: draws the allowed risk, and the threshold that
            guarantees it.
        confidence_level : float in (0, 1), default=0.95
            Level of the band, of the interval of the area and of the guarantee.
        pos_label : label, default=None
            The event whose probability is the score. With one column, None means 1 or True for
            labels {0, 1}, {-1, 1} or booleans; others need it. With more columns, None means the
            top label.
        sample_weight : array-like of shape (n,), default=None
            Non-negative weights. Integers are counts: 2 is two copies of the row. Of floats only
            the ratios matter (see "Weights" under "Valid input" in the user guide). 0 is the row's
            absence.
        labels : array-like of shape (K,), default=None
            Labels of the columns, in their order; needed if they cannot be inferred from
            `y_true`.
        ax, name, **kwargs
            See `plot`.

        Returns
        -------
        display : RiskCoverageDisplay
            The display, drawn.

        Raises
        ------
        ValueError
            If probabilities, labels, weights or keywords are invalid.
        ImportError
            If matplotlib is missing.
        """
        check_level(confidence_level)
        if accuracy is not None:
            check_accuracy(accuracy)
        ranked = rank_predictions(
            check_predictions(
                y_true, y_proba, sample_weight, labels, pos_label, caller=cls.__name__
            )
        )
        threshold = None
        if accuracy is not None:
            threshold = find_threshold(ranked, float(accuracy), float(confidence_level))
        curve = curve_of_ranked(ranked, confidence_level)
        return cls(curve, accuracy=accuracy, threshold=threshold, name=name).plot(ax, **kwargs)

    def plot(self, ax: Axes | None = None, *, name: str | None = None, **kwargs: Any) -> Self:
        """Plot the curve.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on, such as the ``ax_`` of another display; None creates a figure.
        name : str, default=None
            Name in the legend; None takes that of the display.
        **kwargs : object
            Style of the line, passed to matplotlib's ``plot``.

        Returns
        -------
        display : RiskCoverageDisplay
            Itself.

        Raises
        ------
        ImportError
            If matplotlib is missing.
        """
        ax = new_axes(4.8, 3.6) if ax is None else ax
        curve, name = self.curve, self.name if name is None else name
        size = curve.coverage.size
        points = np.unique(np.linspace(0, size - 1, min(size, MAX_POINTS)).round().astype(np.intp))
        low, high = risk_bounds(
            RankedRows(*(part[points] for part in curve._ranked)), curve.confidence_level
        )
        # A row of the first score is at risk before its coverage is reached.
        x = np.append(0.0, curve.coverage[points])
        risk, low, high = (np.append(y[0], y) for y in (curve.risk[points], low, high))
        style = model_style(ax, kwargs, markersize=4, markevery=(0.1, 0.2), linewidth=1.4)
        first = not count_models(ax)
        area = f"AURC {curve.aurc:.3g}, {curve.aurc_low:.3g} to {curve.aurc_high:.3g}"
        label = {"label": label_of(name, area)}
        (self.line_,) = ax.plot(x, risk, drawstyle="steps-pre", gid=MODEL, **{**label, **style})
        shade: dict[str, Any] = {"color": style["color"], "alpha": 0.2, "lw": 0}
        self.band_: PolyCollection = ax.fill_between(x, low, high, step="pre", **shade)
        self.target_: Line2D | None = None
        self.point_: Line2D | None = None
        if self.accuracy is not None:
            self._draw_threshold(ax, style["color"])
        top = float(curve.risk[curve.coverage >= EARLY].max())
        limit = max(1.25 * top, 1.5 * (1 - self.accuracy) if self.accuracy is not None else 0.0)
        limit = min(max(limit, 0.01, 0.0 if first else ax.get_ylim()[1]), 1.02)
        ax.set(xlim=(-0.02, 1.02), ylim=(-0.02 * limit, limit))
        ax.set(xlabel="Coverage (share of rows)", ylabel="Risk (share wrong)")
        ax.xaxis.set_major_formatter(percent_tick)
        ax.yaxis.set_major_formatter(percent_tick)
        ax.legend(**LEGEND)
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _draw_threshold(self, ax: Axes, color: Any) -> None:
        """Draw the allowed risk, once for each accuracy, and the threshold that guarantees it."""
        assert self.accuracy is not None
        mark = f"{TARGET} {self.accuracy!r}"
        self.target_ = next((line for line in ax.lines if line.get_gid() == mark), None)
        if self.target_ is None:
            wanted = f"accuracy {self.accuracy:g}"
            look: dict[str, Any] = {"color": ink(), "ls": ":", "lw": 1.2, "gid": mark}
            self.target_ = ax.axhline(1 - self.accuracy, label=wanted, **look)
        threshold = self.threshold
        if threshold is not None and np.isfinite(threshold.threshold):
            look = {"color": color, "marker": "*", "ms": 11, "ls": "none", "zorder": 4}
            (self.point_,) = ax.plot(
                threshold.coverage,
                1 - threshold.accuracy,
                label=f"guaranteed at {threshold.threshold:.3g} or more",
                **look,
            )

    def _in_words(self) -> str:
        curve = self.curve
        words = f"AURC {curve.aurc:.4f} ({curve.aurc_low:.4f} to {curve.aurc_high:.4f})"
        threshold = self.threshold
        if threshold is None:
            return words
        if np.isinf(threshold.threshold):
            return f"{words}, no threshold for accuracy {self.accuracy:g}"
        return f"{words}, acts on {threshold.coverage:.1%} at {threshold.threshold:.3g} or more"
