"""ComparisonDisplay: a plot of the gains of every calibrator by every metric."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pandas as pd

from skcalib.extending import counted
from skcalib.plotting._drawing import COLORS, LEGEND, Display, ink, panels

# Styles of the marks, by whether the interval of the gain is above 0, contains 0 or is below 0.
MARKS: dict[str, dict[str, Any]] = {
    "better": {"marker": "o", "color": COLORS[0], "label": "better than no calibration"},
    "unclear": {"marker": "D", "color": "0.45", "label": "not significant"},
    "worse": {"marker": "X", "color": COLORS[1], "label": "worse than no calibration"},
}

# Spelling of proper names and abbreviations in the names of metrics, such as Brier and KS.
SPELLED = {"avuc": "AvUC", "brier": "Brier", "kde": "KDE", "ks": "KS"}


def metric_names(frame: pd.DataFrame) -> list[str]:
    """Return the names of the metrics of a comparison, in the order of its frame."""
    return [str(c[0]) for c in frame.columns if isinstance(c, tuple) and c[1] == "value"]


def ordered(frame: pd.DataFrame) -> pd.DataFrame:
    """Drop failed calibrators; put the chosen one first, and sort the others by log loss."""
    rows = frame[(frame["error"] == "").to_numpy()]
    names = metric_names(frame)
    losses = rows["log_loss", "value"] if "log_loss" in names else rows["choice", "log loss"]
    return rows.iloc[np.lexsort((losses.to_numpy(), ~rows["choice", "chosen"].to_numpy()))]


@dataclass(eq=False, repr=False)
class ComparisonDisplay(Display):
    """Plot of the result of `skcalib.compare_calibrators`, with a panel for each metric.

    The recommended calibrator is at the top, in bold; the others follow in the order of their log
    loss. A mark shows the gain over no calibration (the identity), and its line the interval. The
    dotted line is at a gain of 0. Positive gains, to the right, mean that a calibrator is better. A
    loss larger than the largest gain is drawn as an arrow with its number. Shape and colour of a
    mark show whether the interval is above 0, contains 0, or is below 0.

    Create it with `from_frame`.

    Parameters
    ----------
    frame : pandas.DataFrame
        The `frame` of a `skcalib.CalibratorComparison`; rows without numbers are not drawn.

    Attributes
    ----------
    frame : pandas.DataFrame
        The frame, with the recommended calibrator first and the others in the order of their log
        loss.
    axes_ : list of Axes
        A panel for each drawn metric.
    marks_ : dict
        For each metric, the verdict on each calibrator: "better", "unclear" or "worse".
    figure_ : Figure
        The figure of the panels.

    See Also
    --------
    skcalib.compare_calibrators : Compare calibrators; the `plot` of its result is this display.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib import compare_calibrators
    >>> from skcalib.plotting import ComparisonDisplay
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(3, size=600)
    >>> Z = 4 * (rng.normal(size=(600, 3)) + 1.5 * np.eye(3)[y])
    >>> found = compare_calibrators(Z, y, ["temperature", "vector"], random_state=0)
    >>> display = ComparisonDisplay.from_frame(found.frame)
    >>> display.marks_["log_loss"]["temperature"]
    'better'
    """

    frame: pd.DataFrame

    def __post_init__(self) -> None:
        super().__post_init__()
        if not metric_names(self.frame):
            raise ValueError(
                "frame must be `result.frame`, where result = compare_calibrators(...)."
            )
        # The identity has no gain over itself, so it is not drawn.
        self.frame = ordered(self.frame.iloc[1:])

    @classmethod
    def from_frame(
        cls, frame: pd.DataFrame, *, metrics: Sequence[str] | None = None, ax: Any = None
    ) -> Self:
        """Plot the data frame with the results of a comparison of calibrators.

        Parameters
        ----------
        frame : pandas.DataFrame
            The `frame` of a `skcalib.CalibratorComparison`.
        metrics, ax
            See `plot`.

        Returns
        -------
        display : ComparisonDisplay
            The drawn display.

        Raises
        ------
        ValueError
            If the frame is not that of a comparison, or does not contain a metric.
        """
        return cls(frame).plot(metrics=metrics, ax=ax)

    def plot(self, *, metrics: Sequence[str] | None = None, ax: Any = None) -> Self:
        """Plot the gains, with a panel for each metric.

        Parameters
        ----------
        metrics : list of str, default=None
            Metrics of the frame; None means all.
        ax : sequence of Axes, default=None
            One for each metric; None creates a figure.

        Returns
        -------
        display : ComparisonDisplay

        Raises
        ------
        ValueError
            If the frame does not contain a metric, or there are too few or too many axes.
        """
        known = metric_names(self.frame)
        names = known if metrics is None else list(metrics)
        unknown = [name for name in names if name not in known]
        if unknown or not names:
            raise ValueError(f"metrics must be some of {known}; got {names}.")
        n, height = len(names), 1.3 + 0.27 * len(self.frame)
        self.axes_ = panels(ax, n, f"one for each of {n} metrics", n, 2.1 + 1.6 / n, height)
        self.figure_ = self.axes_[0].figure
        self.marks_ = {}
        for i, (axes, name) in enumerate(zip(self.axes_, names, strict=True)):
            self.marks_[name] = self._draw(axes, name)
            if ax is None and i:
                axes.tick_params(labelleft=False)
        handles: dict[str, Any] = {}
        for axes in self.axes_:
            for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
                handles.setdefault(str(label), handle)
        look = {**LEGEND, "loc": "outside lower center", "ncols": min(n, len(MARKS))}
        self.figure_.legend(list(handles.values()), list(handles), **look)
        return self

    def _in_words(self) -> str:
        names, count = metric_names(self.frame), counted(len(self.frame), "calibrator")
        chosen = [*self.frame.index[self.frame["choice", "chosen"]], "the identity"][0]
        return f"{count} and the identity, {counted(len(names), 'metric')}; chosen: {chosen}"

    def _draw(self, ax: Any, name: str) -> dict[str, str]:
        """Draw the panel of a metric; return better, worse or unclear for each calibrator."""
        from matplotlib.ticker import MaxNLocator

        gain, low, high = (self.frame[name, part].to_numpy() for part in ("gain", "low", "high"))
        marks = np.where(low > 0, "better", np.where(high < 0, "worse", "unclear"))
        for mark, style in MARKS.items():
            places = np.flatnonzero(marks == mark)
            if places.size:
                ax.hlines(places, low[places], high[places], color=style["color"], lw=1.4)
                ax.plot(gain[places], places, ls="none", ms=6, **style)
        # A very bad calibrator is drawn as an arrow, so that the others have enough room.
        most = float(high.max())
        if low.min() < -most < 0:
            ax.set_xlim(left=-1.1 * most)
            for place in np.flatnonzero(gain < -most):
                ax.text(-most, place, f"◂ {gain[place]:.2g}", va="center", fontsize="small")
        ax.axvline(0, color=ink(), ls=":", lw=1.2, zorder=1)
        calibrators = [str(calibrator) for calibrator in self.frame.index]
        ax.set_yticks(range(len(calibrators)), calibrators)
        if self.frame["choice", "chosen"].iloc[0]:
            ax.get_yticklabels()[0].set_fontweight("bold")
        ax.set_ylim(len(self.frame) - 0.5, -0.5)
        ax.grid(axis="y", color=ink(), alpha=0.12, lw=0.8, zorder=0)
        ax.set_axisbelow(True)
        # The axis has few and short tick labels, because they could overlap in narrow panels.
        ax.xaxis.set_major_locator(MaxNLocator(3, steps=[1, 2, 5, 10]))
        words = " ".join(SPELLED.get(word, word) for word in name.split("_"))
        ax.set_title(textwrap.fill(words, 17), fontsize="medium")
        ax.set_xlabel("gain")
        ax.spines[["top", "right"]].set_visible(False)
        return dict(zip(calibrators, marks.tolist(), strict=True))
