"""The reliability diagram: confidence against accuracy, bin by bin."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skcalib._arrays.types import FloatArray
from skcalib._validation.keywords import check_between, check_flags, check_option
from skcalib._validation.predictions import Predictions, check_predictions
from skcalib.metrics import reliability_table
from skcalib.metrics._curve.bands import wilson_interval
from skcalib.metrics._ks import reduce_top
from skcalib.metrics._modes import row_count
from skcalib.plotting._display import (
    MODEL,
    PredictionDisplay,
    check_matplotlib,
    count_models,
    draw_diagonal,
    draw_histogram,
    draw_legend,
    free_corner,
    label_of,
    merge_style,
    model_style,
    new_axes,
    percent,
    unit_square,
)
from skcalib.plotting._intervals import consistency_band

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

Mode = Literal["top", "within_top"]
Strategy = Literal["uniform", "quantile"]


def check_level(confidence_level: float) -> None:
    """Refuse a confidence level outside (0, 1)."""
    check_between("confidence_level", confidence_level, 0, 1, "in (0, 1), such as 0.95")


def event_view(
    predictions: Predictions, mode: Mode, r: int
) -> tuple[FloatArray, NDArray[np.bool_], tuple[str, str]]:
    """Return score and hit of the shown event, and the names of the axes."""
    check_option("mode", mode, ("top", "within_top"))
    score, hit = reduce_top(predictions, mode, r)
    if predictions.event is not None:
        label = predictions.classes.tolist()[predictions.event]
        names = (f"Probability of class {label}", f"Share of class {label}")
    elif mode == "within_top":
        names = (f"Probability of the {r} likeliest", "Share of hits")
    elif r == 1:
        names = ("Confidence (top label)", "Accuracy")
    else:
        names = (f"Probability of rank {r}", "Share of hits")
    return score, hit, names


@dataclass(eq=False, repr=False)
class ReliabilityDisplay(PredictionDisplay):
    r"""Reliability diagram: confidence against accuracy, bin by bin.

    For each bin of the scores, the mean score is on the horizontal axis and the share of hits on
    the vertical one:

    .. math:: \mathrm{conf}_b = \frac{1}{W_b} \sum_{i \in b} w_i s_i, \qquad
              \mathrm{acc}_b = \frac{1}{W_b} \sum_{i \in b} w_i t_i .

    A curve below the diagonal is over-confident. Bars are Wilson's intervals of each accuracy; the
    shaded band is the range of the accuracies of a calibrated model with the same number of rows.
    The histogram below shows the distribution of the scores.

    Create it with `from_estimator` or `from_predictions`.

    Parameters
    ----------
    table : pandas.DataFrame
        A row for each bin: the columns of `reliability_table`, and ``accuracy_low``,
        ``accuracy_high`` (interval), ``band_low``, ``band_high`` (band).
    histogram : pandas.DataFrame
        A row for each bar below: ``left``, ``right``, ``share`` of the rows.
    error : float
        Expected calibration error: the weighted mean of the absolute gaps of `table`.
    confidence_level : float
        Level of intervals and band, for the legend.
    axis_names : (str, str)
        Names of the axes.
    name : str, default=None
        Name of the model in the legend.

    Attributes
    ----------
    line_ : matplotlib Line2D
        The curve: one point for each bin with rows.
    interval_ : matplotlib LineCollection or None
        The intervals.
    band_ : matplotlib PolyCollection or None
        The consistency band.
    histogram_ : matplotlib StepPatch or None
        The outline of the histogram.
    ax_ : matplotlib Axes
        The axes of the diagram.
    figure_ : matplotlib Figure
        Its figure.

    See Also
    --------
    skcalib.metrics.reliability_table : The numbers as a frame.
    KSDisplay : The same comparison without bins.

    Notes
    -----
    The confidence level is that of each bin by itself, not of all together: of 20 bins of a
    calibrated model, one is expected outside a band of 95 %. The band consists of quantiles of a
    binomial distribution, without resampling; it is exact if the scores of a bin are equal, else
    slightly too wide. Weights that are whole numbers count copies of rows; for others the number
    of rows is the effective one, the square of their sum over the sum of their squares.

    References
    ----------
    DeGroot, Fienberg (1983). The Comparison and Evaluation of Forecasters. The Statistician 32.

    Niculescu-Mizil, Caruana (2005). Predicting good probabilities with supervised learning. ICML.

    Guo, Pleiss, Sun, Weinberger (2017). On Calibration of Modern Neural Networks. ICML.

    Broecker, Smith (2007). Increasing the Reliability of Reliability Diagrams. Weather and
    Forecasting 22.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib.plotting import ReliabilityDisplay
    >>> rng = np.random.default_rng(0)
    >>> p = rng.random(2000)
    >>> y = rng.random(2000) < p**2
    >>> display = ReliabilityDisplay.from_predictions(y, p, pos_label=True, n_bins=5)
    >>> display.table["accuracy"].round(2).tolist()
    [0.01, 0.09, 0.25, 0.49, 0.82]
    >>> round(display.error, 2)
    0.17
    """

    table: pd.DataFrame
    histogram: pd.DataFrame
    error: float
    _: KW_ONLY
    confidence_level: float = 0.95
    axis_names: tuple[str, str] = ("Confidence (top label)", "Accuracy")
    name: str | None = None

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_proba: ArrayLike,
        *,
        mode: Mode = "top",
        r: int = 1,
        pos_label: Any = None,
        n_bins: int = 15,
        strategy: Strategy = "uniform",
        confidence_level: float = 0.95,
        sample_weight: ArrayLike | None = None,
        labels: ArrayLike | None = None,
        ax: Axes | None = None,
        name: str | None = None,
        ref_line: bool = True,
        interval: bool = True,
        band: bool = True,
        histogram: bool = True,
        **kwargs: Any,
    ) -> Self:
        """Plot labels and probabilities.

        Parameters
        ----------
        y_true : array-like of shape (n,)
            Labels.
        y_proba : array-like of shape (n, K), (n,) or (n, 1)
            Class probabilities, a column for each of the sorted labels, or of `labels` in their
            order; a frame whose columns are named by the labels is read by name. One column is
            the probability of one event, `pos_label`.
        mode : {"top", "within_top"}, default="top"
            The r-th largest probability and whether that class is true; or the sum of the r
            largest and whether the true class is among them.
        r : int in [1, K], default=1
            Rank.
        pos_label : label, default=None
            The event whose probability is shown. With one column, None means 1 or True for labels
            {0, 1}, {-1, 1} or booleans; others need it. With more columns, None means what `mode`
            says.
        n_bins : int, default=15
            Number of bins.
        strategy : {"uniform", "quantile"}, default="uniform"
            Bins of equal width, or of equal weight.
        confidence_level : float in (0, 1), default=0.95
            Level of intervals and band.
        sample_weight : array-like of shape (n,), default=None
            Non-negative weights; 2 counts as two copies of the row, 0 as its absence.
        labels : array-like of shape (K,), default=None
            Labels of the columns, in their order; needed if they cannot be inferred from
            `y_true`.
        ax, name, ref_line, interval, band, histogram, **kwargs
            See `plot`.

        Returns
        -------
        display : ReliabilityDisplay
            The display, drawn.

        Raises
        ------
        ValueError
            If probabilities, labels, weights or keywords are invalid.
        ImportError
            If matplotlib is missing.
        """
        check_matplotlib(f"{cls.__name__}.from_predictions")
        check_level(confidence_level)
        predictions = check_predictions(y_true, y_proba, sample_weight, labels, pos_label)
        score, hit, names = event_view(predictions, mode, r)
        w = predictions.w

        def bin_by(strategy: Strategy) -> pd.DataFrame:
            return reliability_table(
                hit, score, pos_label=True, n_bins=n_bins, strategy=strategy, sample_weight=w
            )

        table = bin_by(strategy)
        even = table if strategy == "uniform" else bin_by("uniform")
        weight = table["weight"].to_numpy()
        error = float((weight * table["gap"].abs().fillna(0.0)).sum() / weight.sum())
        n = weight * (row_count(w) / weight.sum())
        ends = {
            "accuracy": wilson_interval(table["accuracy"].to_numpy(), n, confidence_level),
            "band": consistency_band(table["confidence"].to_numpy(), n, confidence_level),
        }
        for what, (low, high) in ends.items():
            table[f"{what}_low"], table[f"{what}_high"] = low, high
        bars = even[["left", "right"]].assign(share=even["weight"] / even["weight"].sum())
        display = cls(
            table, bars, error, confidence_level=confidence_level, axis_names=names, name=name
        )
        return display.plot(
            ax, ref_line=ref_line, interval=interval, band=band, histogram=histogram, **kwargs
        )

    def plot(
        self,
        ax: Axes | None = None,
        *,
        name: str | None = None,
        ref_line: bool = True,
        interval: bool = True,
        band: bool = True,
        histogram: bool = True,
        **kwargs: Any,
    ) -> Self:
        """Plot the diagram.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on, such as the ``ax_`` of another display; None creates a figure.
        name : str, default=None
            Name in the legend; None takes that of the display.
        ref_line : bool, default=True
            Whether to draw the diagonal of perfect calibration.
        interval : bool, default=True
            Whether to draw the interval of each bin.
        band : bool, default=True
            Whether to draw the consistency band.
        histogram : bool, default=True
            Whether to draw the share of rows below.
        **kwargs : object
            Style of the curve, passed to matplotlib's ``plot``.

        Returns
        -------
        display : ReliabilityDisplay
            Itself.

        Raises
        ------
        ImportError
            If matplotlib is missing.
        """
        check_matplotlib(f"{type(self).__name__}.plot")
        check_flags(ref_line=ref_line, interval=interval, band=band, histogram=histogram)
        ax = new_axes(4.2, 4.6) if ax is None else ax
        style = merge_style({**model_style(ax), "markersize": 4.5, "linewidth": 1.4}, kwargs)
        if not ax.lines:
            unit_square(ax)
            ax.set(xlabel=self.axis_names[0], ylabel=self.axis_names[1])
        table = self.table[self.table["weight"] > 0]
        x, y = table["confidence"].to_numpy(), table["accuracy"].to_numpy()
        low, high = (table[f"accuracy_{end}"].to_numpy() for end in ("low", "high"))
        level = f"{100 * self.confidence_level:g}%"

        if ref_line:
            draw_diagonal(ax, "calibrated")
        self.band_ = self.interval_ = self.histogram_ = None
        if band:
            self.band_ = ax.fill_between(
                x,
                table["band_low"].to_numpy(),
                table["band_high"].to_numpy(),
                color=style["color"],
                alpha=0.15,
                lw=0,
                zorder=1,
                label=None if count_models(ax) else f"{level} if calibrated",
            )
        if interval:
            self.interval_ = ax.vlines(x, low, high, color=style["color"], lw=1, zorder=1.8)
        label = label_of(self.name if name is None else name, f"ECE {percent(self.error)}")
        (self.line_,) = ax.plot(x, y, **{"label": label, **style}, gid=MODEL)
        if histogram:
            edges = np.append(self.histogram["left"].to_numpy(), self.histogram["right"].iloc[-1])
            self.histogram_ = draw_histogram(ax, edges, self.histogram["share"].to_numpy(), style)
        draw_legend(ax, free_corner(_mean_height(ax)))
        self.ax_, self.figure_ = ax, ax.figure
        return self


def _mean_height(ax: Axes) -> float:
    """Return the mean height of the points of all curves above the diagonal."""
    curves = [np.array(line.get_data()) for line in ax.lines if line.get_gid() == MODEL]
    x, y = np.concatenate(curves, axis=1)
    return float((y - x).mean())
