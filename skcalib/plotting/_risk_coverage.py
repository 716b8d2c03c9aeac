"""A plot of the share of wrong rows against the share of rows that are acted on."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from skcalib._validation.keywords import check_level
from skcalib.metrics._curves.risk_coverage import RiskCoverageCurve, read_ranked
from skcalib.metrics._statistics.selective_threshold import SelectiveThreshold, find_threshold
from skcalib.plotting._display import CurveDisplay
from skcalib.plotting._drawing import ink, models_on, percent_tick

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Points of a curve that are drawn, at most.
MAX_POINTS = 1000
# Up to this share of the rows the curve may leave the axes: one wrong row is a large risk.
EARLY = 0.05
# Mark on the line of the allowed risk.
TARGET = "skcalib-target"


@dataclass(eq=False, repr=False)
class RiskCoverageDisplay(CurveDisplay):
    """Share of wrong rows among those of the highest scores, for each share of the rows.

    The steps are the risk at each threshold, the shade its pointwise interval. A good model starts
    near 0 and rises late. The legend shows the area under the curve (AURC) and its interval.

    Create it with `from_estimator` or `from_predictions`.

    Parameters
    ----------
    curve : RiskCoverageCurve
        What `skcalib.metrics.risk_coverage_curve` returns.
    accuracy : float, default=None
        The wanted accuracy of the rows at or above a threshold.
    threshold : SelectiveThreshold, default=None
        What `skcalib.metrics.selective_threshold` returns for it.
    name : str, default=None
        Name of the model in the legend.

    Attributes
    ----------
    line_, band_ : matplotlib Line2D, PolyCollection
        The risk, and its interval.
    target_, point_ : matplotlib Line2D or None
        The line of the allowed risk, and the threshold, if there is one.
    ax_, figure_ : matplotlib Axes, Figure
        Where they are drawn.

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
        y_true, y_proba, pos_label, sample_weight, labels
            As in `skcalib.metrics.selective_threshold`.
        accuracy : float in (0, 1), default=None
            Draws the allowed risk, and the threshold that guarantees this accuracy.
        confidence_level : float in (0, 1), default=0.95
            Level of the band, of the interval of the area and of the guarantee.
        name : str, default=None
            Name of the model in the legend.
        ax, **kwargs
            See `plot`.

        Returns
        -------
        display : RiskCoverageDisplay
            The display, drawn.

        Raises
        ------
        ValueError
            If probabilities, labels, weights or keywords are invalid.
        """
        check_level(confidence_level)
        ranked = read_ranked(cls.__name__, y_true, y_proba, sample_weight, labels, pos_label)
        curve, threshold = RiskCoverageCurve.of(ranked, confidence_level), None
        if accuracy is not None:
            threshold = find_threshold(ranked, accuracy, confidence_level)
        return cls(curve, accuracy=accuracy, threshold=threshold, name=name).plot(ax, **kwargs)

    def _draw(self, ax: Axes, style: dict[str, Any]) -> None:
        curve, first = self.curve, not models_on(ax)
        places = np.linspace(0, curve.coverage.size - 1, MAX_POINTS).round()
        points = np.unique(places).astype(np.intp)
        # A row of the first score is at risk before its coverage is reached.
        x = np.append(0.0, curve.coverage[points])
        ends = curve._ends_at(points)
        risk, low, high = (np.append(y[0], y) for y in (curve.risk[points], *ends))
        area = f"AURC {curve.aurc:.3g}, {curve.aurc_low:.3g} to {curve.aurc_high:.3g}"
        name = f"{self.name}\n" if self.name else ""  # on one line it is as wide as small axes
        style = {"label": name + area, "drawstyle": "steps-pre", **style}
        (self.line_,) = ax.plot(x, risk, **style)
        color = style["color"]
        self.band_ = ax.fill_between(x, low, high, step="pre", color=color, alpha=0.2, lw=0)
        limits = [0.01, 1.25 * risk[x >= EARLY].max(), 0.0 if first else ax.get_ylim()[1]]
        self.target_ = self.point_ = None
        if self.accuracy is not None:
            limits.append(1.5 * (1 - self.accuracy))
            mark = f"{TARGET} {self.accuracy!r}"  # one line for all models of an accuracy
            self.target_ = next((line for line in ax.lines if line.get_gid() == mark), None)
            if self.target_ is None:
                look: dict[str, Any] = {"color": ink(), "ls": ":", "lw": 1.2, "gid": mark}
                look["label"] = f"accuracy {self.accuracy:g}"
                self.target_ = ax.axhline(1 - self.accuracy, **look)
            chosen = self.threshold
            if chosen is not None and np.isfinite(chosen.threshold):
                look = {"color": color, "marker": "*", "ms": 11, "ls": "none", "zorder": 4}
                look["label"] = f"guaranteed at {chosen.threshold:.3g} or more"
                (self.point_,) = ax.plot(chosen.coverage, 1 - chosen.accuracy, **look)
        limit = min(max(limits), 1.02)
        ax.set(xlim=(-0.02, 1.02), ylim=(-0.02 * limit, limit))
        ax.set(xlabel="Coverage (share of rows)", ylabel="Risk (share wrong)")
        ax.yaxis.set_major_formatter(percent_tick)

    def _in_words(self) -> str:
        curve, threshold = self.curve, self.threshold
        words = f"AURC {curve.aurc:.4f} ({curve.aurc_low:.4f} to {curve.aurc_high:.4f})"
        if threshold is None:
            return words
        if np.isinf(threshold.threshold):
            return f"{words}, no threshold for accuracy {self.accuracy:g}"
        return f"{words}, acts on {threshold.coverage:.1%} at {threshold.threshold:.3g} or more"
