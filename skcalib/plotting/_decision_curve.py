"""A plot of net benefit against the threshold, beside acting on all rows and on none."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from skcalib.metrics import net_benefit
from skcalib.plotting._display import CurveDisplay
from skcalib.plotting._drawing import ink, models_on

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(eq=False, repr=False)
class DecisionCurveDisplay(CurveDisplay):
    """Net benefit against the threshold: for which costs acting by the model is worth it.

    At a threshold t, a miss costs (1 - t) / t times as much as a false alarm. A model is useful
    where its curve is above both lines, that of acting on all rows and that of acting on none.

    Create it with `from_estimator` or `from_predictions`.

    Parameters
    ----------
    frame : DataFrame
        What `skcalib.metrics.net_benefit` returns.
    name : str, default=None
        Name of the model in the legend.

    Attributes
    ----------
    line_, band_ : matplotlib Line2D, PolyCollection
        The net benefit, and its pointwise interval.
    all_, none_ : matplotlib Line2D
        Acting on all rows and on none, drawn once on the axes.
    ax_, figure_ : matplotlib Axes, Figure
        Where they are drawn.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib.plotting import DecisionCurveDisplay
    >>> rng = np.random.default_rng(0)
    >>> p = rng.beta(1, 4, size=1000)
    >>> display = DecisionCurveDisplay.from_predictions(rng.random(1000) < p, p)
    >>> display
    <DecisionCurveDisplay better than acting on all or on none from 0.05 to 0.55>
    """

    frame: pd.DataFrame
    _: KW_ONLY
    name: str | None = None

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_proba: ArrayLike,
        *,
        thresholds: ArrayLike | None = None,
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
            order. One or two columns give the probability of one event, `pos_label`.
        thresholds : array-like of shape (m,), default=None
            Probabilities in [0, 1). None means 0.01, 0.02, ..., 0.99; those that somebody would
            act at say more.
        confidence_level, pos_label, sample_weight, labels
            See `skcalib.metrics.net_benefit`.
        name : str, default=None
            Name of the model in the legend.
        ax, **kwargs
            See `plot`.

        Returns
        -------
        display : DecisionCurveDisplay
            The display, drawn.

        Raises
        ------
        ValueError
            If probabilities, labels, weights or keywords are invalid.
        """
        rows: Any = {"sample_weight": sample_weight, "labels": labels, "pos_label": pos_label}
        t = np.arange(1, 100) / 100 if thresholds is None else thresholds
        frame = net_benefit(y_true, y_proba, t, confidence_level=confidence_level, **rows)
        return cls(frame.sort_values("threshold"), name=name).plot(ax, **kwargs)

    def _draw(self, ax: Axes, style: dict[str, Any]) -> None:
        t, value, low, high, gain = (self.frame[each].to_numpy() for each in self.frame.columns[:5])
        # Acting on all rows falls without end: the axes show what is near 0 and above.
        top = 1.05 * max(float(high.max()), float((value - gain).max()), 1e-6)
        if models_on(ax):
            top = max(top, ax.get_ylim()[1])
        else:
            look: dict[str, Any] = {"color": ink(), "lw": 1.0, "alpha": 0.8, "zorder": 1.5}
            ax.plot(t, value - gain, ls="--", label="act on all", gid="skcalib-all", **look)
            ax.axhline(0, ls=":", label="act on none", gid="skcalib-none", **look)
        lines = {str(line.get_gid()): line for line in ax.lines}
        self.all_, self.none_ = lines["skcalib-all"], lines["skcalib-none"]
        (self.line_,) = ax.plot(t, value, **{"label": self.name or "model", **style})
        self.band_ = ax.fill_between(t, low, high, color=style["color"], alpha=0.2, lw=0)
        ax.set(ylim=(-0.2 * top, top), xlabel="Threshold", ylabel="Net benefit")

    def _in_words(self) -> str:
        useful = self.frame[(self.frame["low"] > 0) & (self.frame["gain_low"] > 0)]["threshold"]
        if not len(useful):
            return "no threshold at which it is certainly better than acting on all or on none"
        return f"better than acting on all or on none from {useful.min():g} to {useful.max():g}"
