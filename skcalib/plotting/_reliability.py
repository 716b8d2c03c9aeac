"""The reliability diagram: confidence against accuracy, bin by bin or as a curve."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skcalib._arrays.types import Float64Array, FloatArray
from skcalib._validation.keywords import check_between, check_flags, check_option
from skcalib._validation.predictions import Predictions, check_predictions
from skcalib.metrics import calibration_curve, reliability_table
from skcalib.metrics._calibration_curve import CalibrationCurve
from skcalib.metrics._curve.bands import wilson_interval
from skcalib.metrics._ks import reduce_top
from skcalib.metrics._modes import row_count
from skcalib.plotting._by_group import small_multiples
from skcalib.plotting._display import (
    MODEL,
    PredictionDisplay,
    check_matplotlib,
    draw_diagonal,
    draw_legend,
    free_corner,
    label_of,
    mean_height,
    merge_style,
    model_style,
    new_axes,
    percent,
    shade,
)
from skcalib.plotting._intervals import consistency_band
from skcalib.plotting._limits import WHOLE, Limits, limits_of, show_square
from skcalib.plotting._statistics import numbers_of, write_numbers
from skcalib.plotting._strip import count_rows, draw_both, draw_histogram

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

Mode = Literal["top", "within_top"]
Strategy = Literal["uniform", "quantile"]
Curve = Literal["bins", "smooth", "isotonic"]

# Of a curve, and of bins.
STYLE: dict[bool, dict[str, Any]] = {
    False: {"marker": "", "linewidth": 1.6},
    True: {"markersize": 4.5, "linewidth": 1.4},
}


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

    ``curve="smooth"`` and ``curve="isotonic"`` draw `calibration_curve` in place of bins: the dark
    shade is its pointwise band, the light one that of the whole curve. The histogram then shows
    events upwards and the other rows downwards, each as shares of their number.

    Of one event, the axes show where the scores and rates are: up to 0.1, say, if the event is
    rare. Limits that you set are kept.

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
    curve : CalibrationCurve, default=None
        The curve that is drawn in place of bins.
    limits : (float, float), default=(0, 1)
        Scores and rates that the axes show.
    numbers : dict of str to float, default=None
        Statistics that ``statistics=True`` writes into the picture, by name.

    Attributes
    ----------
    line_ : matplotlib Line2D
        The curve: one point for each bin with rows.
    interval_ : matplotlib collection or None
        The intervals; of a curve, the shade of the pointwise band.
    band_ : matplotlib PolyCollection or None
        The consistency band; of a curve, its simultaneous band.
    histogram_ : matplotlib StepPatch or None
        The outline of the histogram, of that of the events.
    statistics_ : matplotlib Text or None
        The statistics.
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
    curve: CalibrationCurve | None = None
    limits: Limits = WHOLE
    numbers: dict[str, float] | None = None

    @classmethod
    @small_multiples
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_proba: ArrayLike,
        *,
        mode: Mode = "top",
        r: int = 1,
        pos_label: Any = None,
        curve: Curve = "bins",
        groups: Any = None,  # noqa: ARG003  # small_multiples takes it
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
        statistics: bool = False,
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
        curve : {"bins", "smooth", "isotonic"}, default="bins"
            Bins, or the `method` of `calibration_curve`.
        groups : array-like of shape (n,) or (n, g), default=None
            Label of each row's group, or several, which are crossed: a panel for each group, in
            the order of `skcalib.metrics.calibration_by_group`, at most 12, and none for groups of
            fewer than 10 rows. The display returned is that of the worst group; its ``groups_``
            has the display of each by label, ``axes_`` their axes and ``by_group_`` the numbers.
        n_bins : int, default=15
            Number of bins; also of the error in the legend and of the histogram.
        strategy : {"uniform", "quantile"}, default="uniform"
            Bins of equal width, or of equal weight.
        confidence_level : float in (0, 1), default=0.95
            Level of intervals and band.
        sample_weight : array-like of shape (n,), default=None
            Non-negative weights; 2 counts as two copies of the row, 0 as its absence.
        labels : array-like of shape (K,), default=None
            Labels of the columns, in their order; needed if they cannot be inferred from
            `y_true`.
        ax, name, ref_line, interval, band, histogram, statistics, **kwargs
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
        check_option("curve", curve, ("bins", "smooth", "isotonic"))
        check_flags(statistics=statistics)
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
        drawn = None
        x, rate = (table[name].dropna().to_numpy() for name in ("confidence", "accuracy"))
        if curve != "bins":
            drawn = calibration_curve(
                hit,
                score,
                pos_label=True,
                method=curve,
                confidence_level=confidence_level,
                sample_weight=w,
            )
            x, rate = drawn.prob_pred, drawn.prob_true
        limits = (
            WHOLE if predictions.event is None else limits_of(score.astype(np.float64), w, x, rate)
        )
        bars = even[["left", "right"]].assign(share=even["weight"] / even["weight"].sum())
        if drawn is not None or limits != WHOLE:
            bars = count_rows(score, hit, w, limits, n_bins)
        display = cls(
            table,
            bars,
            error,
            confidence_level=confidence_level,
            axis_names=names,
            name=name,
            curve=drawn,
            limits=limits,
            numbers=numbers_of(score, hit, w) if statistics else None,
        )
        return display.plot(
            ax,
            ref_line=ref_line,
            interval=interval,
            band=band,
            histogram=histogram,
            statistics=statistics,
            **kwargs,
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
        statistics: bool = False,
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
            Whether to draw the interval of each bin, or the pointwise band of a curve.
        band : bool, default=True
            Whether to draw the consistency band, or the simultaneous band of a curve.
        histogram : bool, default=True
            Whether to draw the share of rows below.
        statistics : bool, default=False
            Whether to write the numbers of rows and events, slope and intercept of a logistic
            recalibration, the AUC (C) and the integrated calibration index with E90 into a corner,
            or beside the axes if no corner is free. A number that does not exist, such as the
            slope of equal scores, is left out.
        **kwargs : object
            Style of the curve, passed to matplotlib's ``plot``.

        Returns
        -------
        display : ReliabilityDisplay
            Itself.

        Raises
        ------
        ValueError
            If `statistics` are asked for that `from_predictions` was not asked for.
        ImportError
            If matplotlib is missing.
        """
        check_matplotlib(f"{type(self).__name__}.plot")
        check_flags(
            ref_line=ref_line,
            interval=interval,
            band=band,
            histogram=histogram,
            statistics=statistics,
        )
        if statistics and self.numbers is None:
            raise ValueError(
                "the display has no numbers to write: make it by from_predictions(..., "
                "statistics=True)."
            )
        ax = new_axes(4.2, 4.6) if ax is None else ax
        style = merge_style({**model_style(ax), **STYLE[self.curve is None]}, kwargs)
        if not ax.lines:
            ax.set(xlabel=self.axis_names[0], ylabel=self.axis_names[1])
        show_square(ax, self.limits)
        if ref_line:
            draw_diagonal(ax, "calibrated")
        self.band_ = self.histogram_ = self.statistics_ = None
        self.interval_: Any = None
        draw = self._draw_bins if self.curve is None else self._draw_curve
        x, y, number = draw(ax, style, interval, band)
        label = label_of(self.name if name is None else name, number)
        (self.line_,) = ax.plot(x, y, **{"label": label, **style}, gid=MODEL)
        if histogram:
            edges = np.append(self.histogram["left"].to_numpy(), self.histogram["right"].iloc[-1])
            share, *both = (part.to_numpy() for _, part in list(self.histogram.items())[2:])
            if self.curve is None:
                self.histogram_ = draw_histogram(ax, edges, share, style)
            else:
                self.histogram_ = draw_both(ax, edges, both, style)
        draw_legend(ax, free_corner(mean_height(ax)))
        if statistics and self.numbers is not None:
            self.statistics_ = write_numbers(ax, self.numbers)
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _draw_bins(
        self, ax: Axes, style: dict[str, Any], interval: bool, band: bool
    ) -> tuple[Float64Array, Float64Array, str]:
        """Draw bars and band; return the points, and the number of the legend."""
        table = self.table[self.table["weight"] > 0]
        x, y = table["confidence"].to_numpy(), table["accuracy"].to_numpy()
        if band:
            low, high = (table[f"band_{end}"].to_numpy() for end in ("low", "high"))
            what = f"{100 * self.confidence_level:g}% if calibrated"
            self.band_ = shade(ax, x, low, high, style, 0.15, what)
        if interval:
            low, high = (table[f"accuracy_{end}"].to_numpy() for end in ("low", "high"))
            self.interval_ = ax.vlines(x, low, high, color=style["color"], lw=1, zorder=1.8)
        return x, y, f"ECE {percent(self.error)}"

    def _draw_curve(
        self, ax: Axes, style: dict[str, Any], interval: bool, band: bool
    ) -> tuple[Float64Array, Float64Array, str]:
        """Draw both bands; return the points, and the number of the legend."""
        curve = self.curve
        assert curve is not None
        x, level = curve.prob_pred, f"{100 * self.confidence_level:g}%"
        if band:
            ends = curve.low_simultaneous, curve.high_simultaneous
            self.band_ = shade(ax, x, *ends, style, 0.1, f"{level}, whole curve")
        if interval:
            ends = curve.low, curve.high
            self.interval_ = shade(ax, x, *ends, style, 0.2, f"{level}, each score")
        return x, curve.prob_true, f"ECE {percent(self.error)}"
