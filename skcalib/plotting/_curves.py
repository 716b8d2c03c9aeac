"""Displays of curves: reliability diagrams, decision curves and risk-coverage curves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from skcalib.extending import (
    FEWEST_ROWS,
    CalibrationCurve,
    Grouped,
    NumberOfBins,
    RiskCoverageCurve,
    SelectiveThreshold,
    Strategy,
    check_flags,
    check_level,
    check_option,
    find_threshold,
    group_rows,
    label_text,
    measure_groups,
    read_ranked,
)
from skcalib.extending import InnerPredictions as Predictions
from skcalib.extending import check_inner_predictions as check_predictions
from skcalib.metrics import ks_calibration_error, net_benefit
from skcalib.plotting import _drawing
from skcalib.plotting._drawing import Curve, Limits, Mode

if TYPE_CHECKING:
    from matplotlib.axes import Axes


# A panel for each group of rows, the worst group first.


# Largest number of panels in a figure and in a row, and the size of a panel in inches.
MOST_PANELS, COLUMNS, WIDTH, HEIGHT = 12, 4, 2.4, 2.6
# Largest number of letters of the name of a group above its panel.
LETTERS = 26


def draw_groups(draw: Callable[..., Any], grouped: Grouped, ax: Any) -> Any:
    """Draw a panel for each group, and return the display of the worst group.

    ``draw(predictions, axes, ...)`` draws a panel. The returned display has the attributes
    ``groups_`` (the display of each group by label), ``axes_`` and ``by_group_`` (the numbers).
    Groups with fewer than 10 rows, and groups after the twelfth, are not drawn; a note below the
    panels counts these groups.
    """
    named = {"ks_calibration_error": ks_calibration_error}
    by_group = measure_groups(grouped, named, level=0.95, random_state=0)
    parts = dict(zip(grouped.groups.labels, grouped.parts, strict=True))
    n_large = int((by_group.frame["n"] >= FEWEST_ROWS).sum())
    labels = by_group.frame.index[: min(n_large, MOST_PANELS)].tolist()
    if not labels:
        raise ValueError(
            f"groups: every group has fewer than {FEWEST_ROWS} rows: pass larger groups, or leave "
            "out groups."
        )
    n_panels = len(labels)
    columns = -(-n_panels // -(-n_panels // COLUMNS))  # fill the last row of panels, if possible
    axes = _drawing.panels(ax, n_panels, "a panel for each group", columns, WIDTH, HEIGHT)
    displays, titles = {}, _drawing.shorten([label_text(label) for label in labels], LETTERS)
    for label, title, panel in zip(labels, titles, axes, strict=True):
        part = parts[label if len(grouped.groups.names) > 1 else (label,)]
        display = displays[label] = draw(part, panel, gaps=False, means=False)
        n, error = int(by_group.frame["n"].loc[label]), error_text(display.error, display.curve)
        write_title(display, f"{title}\n{n:,} rows, {error}")
    _drawing.share_square(list(displays.values()))
    first = displays[labels[0]]
    first.groups_, first.axes_, first.by_group_ = displays, list(axes), by_group
    if ax is None:
        n_small = len(by_group.frame) - n_large
        notes = [f"the {n_panels} worst of {n_large} groups"] if n_large > n_panels else []
        notes += [f"not shown: {n_small} with fewer than {FEWEST_ROWS} rows"] if n_small else []
        share_labels(first, "; ".join(notes))
    return first


def write_title(display: Any, title: str) -> None:
    """Write the title of a panel, which replaces its legend."""
    panel = display.ax_
    panel.get_legend().remove()
    if display.statistics_ is not None:  # the title contains the statistics
        title = f"{title}\n{display.statistics_.get_text()}"
        display.statistics_.set_text("")
    panel.set_title(title, fontsize="small")


def share_labels(display: Any, note: str) -> None:
    """Label the axes of all panels once, with a note below."""
    for ax in display.figure_.axes:
        ax.set(xlabel="", ylabel="")
    xlabel, ylabel = display.axis_names
    display.figure_.supxlabel(f"{xlabel}\n{note}".strip(), fontsize="medium")
    display.figure_.supylabel(ylabel, fontsize="medium")


# Decision curve: net benefit against the threshold, compared with acting on all or no rows.


@dataclass(eq=False, repr=False)
class DecisionCurveDisplay(_drawing.CurveDisplay):
    """Decision curve: net benefit of acting on the model's predictions, against the threshold.

    At a threshold t, a missed event costs (1 - t) / t times as much as a false alarm. A model is
    useful if its curve is above the lines for acting on all rows and for acting on none.

    Create the display by `from_estimator` or `from_predictions`.

    Parameters
    ----------
    frame : DataFrame
        Result of `skcalib.metrics.net_benefit`.
    name : str, default=None
        Name of the model in the legend.

    Attributes
    ----------
    line_, band_ : matplotlib Line2D, PolyCollection
        The net benefit, and its pointwise interval.
    all_, none_ : matplotlib Line2D
        The lines for acting on all rows and on none, which are drawn once on the axes.
    ax_, figure_ : matplotlib Axes, Figure
        The axes of the plot and their figure.

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
        """Plot the decision curve of labels and probabilities.

        Parameters
        ----------
        y_true : array-like of shape (n,)
            Labels.
        y_proba : array-like of shape (n, K), (n,) or (n, 1)
            Class probabilities, with a column for each of the sorted labels, or of `labels` in
            their order. One or two columns are the probability of the event `pos_label`.
        thresholds : array-like of shape (m,), default=None
            Probabilities in [0, 1). None means 0.01, 0.02, ..., 0.99. Thresholds that are used in
            practice are more informative.
        confidence_level, pos_label, sample_weight, labels
            See `skcalib.metrics.net_benefit`.
        name : str, default=None
            Name of the model in the legend.
        ax, **kwargs
            See `plot`.

        Returns
        -------
        display : DecisionCurveDisplay
            The drawn display.

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
        # The line for acting on all rows is unbounded below, so the axes show only values near 0
        # and above.
        top = 1.05 * max(float(high.max()), float((value - gain).max()), 1e-6)
        if _drawing.models_on(ax):
            top = max(top, ax.get_ylim()[1])
        else:
            look: dict[str, Any] = {"color": _drawing.ink(), "lw": 1.0, "alpha": 0.8, "zorder": 1.5}
            ax.plot(t, value - gain, ls="--", label="act on all", gid="skcalib-all", **look)
            ax.axhline(0, ls=":", label="act on none", gid="skcalib-none", **look)
        lines = {str(line.get_gid()): line for line in ax.lines}
        self.all_, self.none_ = lines["skcalib-all"], lines["skcalib-none"]
        (self.line_,) = ax.plot(
            t, value, **{"label": _drawing.label_of(self.name or "model"), **style}
        )
        self.band_ = ax.fill_between(t, low, high, color=style["color"], alpha=0.2, lw=0)
        ax.set(ylim=(-0.2 * top, top), xlabel="Threshold", ylabel="Net benefit")

    def _in_words(self) -> str:
        useful = self.frame[(self.frame["low"] > 0) & (self.frame["gain_low"] > 0)]["threshold"]
        if not len(useful):
            return "at no threshold significantly better than acting on all or on none"
        return f"better than acting on all or on none from {useful.min():g} to {useful.max():g}"


# Risk-coverage curve: fraction of wrong predictions against fraction of accepted rows.


# Largest number of points with which a risk-coverage curve is drawn.
MAX_POINTS = 1000


@dataclass(eq=False, repr=False)
class RiskCoverageDisplay(_drawing.CurveDisplay):
    """Risk-coverage curve: fraction of wrong predictions against the fraction of accepted rows.

    The steps show the risk at each threshold, and the shade its pointwise interval. The risk of a
    good model is near 0 at low coverage, and rises late. The legend shows the area under the curve
    (AURC) and its interval.

    Create the display by `from_estimator` or `from_predictions`.

    Parameters
    ----------
    curve : RiskCoverageCurve
        Result of `skcalib.metrics.risk_coverage_curve`.
    accuracy : float, default=None
        Required accuracy of the rows at or above a threshold.
    threshold : SelectiveThreshold, default=None
        Result of `skcalib.metrics.selective_threshold` for this accuracy.
    name : str, default=None
        Name of the model in the legend.

    Attributes
    ----------
    line_, band_ : matplotlib Line2D, PolyCollection
        The risk, and its interval.
    target_, point_ : matplotlib Line2D or None
        The line of the allowed risk, and the point of the threshold, if there is one.
    ax_, figure_ : matplotlib Axes, Figure
        The axes of the plot and their figure.

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
        """Plot the risk-coverage curve of labels and probabilities.

        Parameters
        ----------
        y_true, y_proba, pos_label, sample_weight, labels
            See `skcalib.metrics.selective_threshold`.
        accuracy : float in (0, 1), default=None
            Required accuracy. If given, the allowed risk and the threshold that guarantees the
            accuracy are also drawn.
        confidence_level : float in (0, 1), default=0.95
            Level of the band, of the interval of the area, and of the guarantee.
        name : str, default=None
            Name of the model in the legend.
        ax, **kwargs
            See `plot`.

        Returns
        -------
        display : RiskCoverageDisplay
            The drawn display.

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
        curve, first = self.curve, not _drawing.models_on(ax)
        places = np.linspace(0, curve.coverage.size - 1, MAX_POINTS).round()
        points = np.unique(places).astype(np.intp)
        # The curve begins at coverage 0 with the risk of the first threshold.
        x = np.append(0.0, curve.coverage[points])
        ends = curve._ends_at(points)
        risk, low, high = (np.append(y[0], y) for y in (curve.risk[points], *ends))
        area = f"AURC {curve.aurc:.3g}, {curve.aurc_low:.3g} to {curve.aurc_high:.3g}"
        name = f"{_drawing.label_of(self.name)}\n" if self.name else ""  # two lines fit small axes
        style = {"label": name + area, "drawstyle": "steps-pre", **style}
        (self.line_,) = ax.plot(x, risk, **style)
        color = style["color"]
        self.band_ = ax.fill_between(x, low, high, step="pre", color=color, alpha=0.2, lw=0)
        # The curve may leave the axes at low coverage, where one wrong prediction is a large risk.
        limits = [0.01, 1.5 * risk[x >= 0.05].max(), 0.0 if first else ax.get_ylim()[1]]
        self.target_ = self.point_ = None
        if self.accuracy is not None:
            limits.append(1.5 * (1 - self.accuracy))
            mark = f"skcalib-target {self.accuracy!r}"  # models with equal accuracy share a line
            self.target_ = next((line for line in ax.lines if line.get_gid() == mark), None)
            if self.target_ is None:
                look: dict[str, Any] = {"color": _drawing.ink(), "ls": ":", "lw": 1.2, "gid": mark}
                look["label"] = f"accuracy {self.accuracy:g}"
                self.target_ = ax.axhline(1 - self.accuracy, **look)
            chosen = self.threshold
            if chosen is not None and np.isfinite(chosen.threshold):
                look = {"color": color, "marker": "*", "ms": 11, "ls": "none", "zorder": 4}
                look["label"] = f"guaranteed at {chosen.threshold:.3g} or more"
                (self.point_,) = ax.plot(chosen.coverage, 1 - chosen.accuracy, **look)
        limit = min(max(limits), 1.02)
        ax.set(xlim=(-0.02, 1.02), ylim=(-0.02 * limit, limit))
        ax.set(xlabel="Coverage (fraction of rows)", ylabel="Risk (fraction wrong)")
        ax.yaxis.set_major_formatter(_drawing.percent_tick)

    def _in_words(self) -> str:
        curve, threshold = self.curve, self.threshold
        words = f"AURC {curve.aurc:.4f} ({curve.aurc_low:.4f} to {curve.aurc_high:.4f})"
        if threshold is None:
            return words
        if np.isinf(threshold.threshold):
            return f"{words}, no threshold for accuracy {self.accuracy:g}"
        return f"{words}, accepts {threshold.coverage:.1%} at {threshold.threshold:.3g} or more"


# The reliability diagram: accuracy against confidence, in bins or as a curve.


# Names of the statistics in each text line above a reliability diagram.
LINES = (("n", "events", "O:E"), ("slope", "in the large"), ("C", "ICI", "E90"))
# Smallest and largest area of the point of a bin; a bin with the mean number of rows has area 1.
AREAS = 0.4, 4.0
# Optional elements of a diagram, and the largest number of models that have them by default.
MOST = {"interval": 2, "band": 2, "gaps": 1, "means": 1}
# Start of the matplotlib identifier (gid) of optional elements that are drawn by default.
AUTO = "skcalib-auto-"


def error_text(error: float, curve: CalibrationCurve | None) -> str:
    """Format the calibration error of bins or of a curve, with the name of the error."""
    if curve is not None and curve.method == "isotonic":
        return f"MCB {error:.3g}"
    names = {"bins": "ECE", "smooth": "ICI", "local": "mean gap"}
    return f"{names['bins' if curve is None else curve.method]} {_drawing.percent(error)}"


def text_of(numbers: dict[str, float]) -> str:
    """Format statistics as lines of text above a diagram."""
    texts = {name: f"{name} {value:.3g}" for name, value in numbers.items()}
    texts |= {name: f"{name} {numbers[name]:,.0f}" for name in ("n", "events")}
    lines = [[texts[name] for name in line if name in texts] for line in LINES]
    return "\n".join(", ".join(line) for line in lines if line)


@dataclass(eq=False, repr=False)
class ReliabilityDisplay(_drawing.PredictionDisplay):
    r"""Reliability diagram: accuracy against confidence, in bins or as a curve.

    For each bin of the scores, the horizontal axis shows the mean score, and the vertical axis the
    mean outcome:

    .. math:: \mathrm{conf}_b = \frac{1}{W_b} \sum_{i \in b} w_i s_i, \qquad
              \mathrm{acc}_b = \frac{1}{W_b} \sum_{i \in b} w_i t_i .

    Below the diagonal, the model is over-confident. For one event, the default is a smooth curve
    instead of bins. The legend has three entries: the model with its calibration error, the band,
    and the diagonal ("calibrated").

    Bins: the band ("95% if calibrated") is the range of the accuracies of a calibrated model with
    the same number of rows. Thin bars are Wilson's intervals of each accuracy, and wide bars are
    the gaps. Bins with more rows have larger points. Bins with fewer than 10 rows have faint
    points; the curve and the band have a gap there. The histogram shows the distribution of the
    scores.

    Curves: ``curve="smooth"`` and ``curve="isotonic"`` draw `calibration_curve`. The outer band
    ("95% confidence") contains the whole true curve in 95 % of samples, and the darker inner band
    the rate at a single score. The histogram shows events upwards and the other rows downwards,
    each as fractions of their number. ``curve="local"`` draws `local_calibration`, without bands.

    In all diagrams, the star shows the mean score and the mean outcome of all rows, and thin curves
    are those of clusters.

    ``mode="all"`` shows the n K probabilities of all classes, most of which are near 0;
    ``threshold=0.01`` leaves out the smallest. Intervals and band then assume that the
    probabilities of a row are independent.

    For binary problems, the axes show the range of the scores and rates, such as 0 to 0.1 for a
    rare event. Axis limits that you set are kept. The histogram has its own axes, with a fifth of
    the height, and the label of the horizontal axis is below the histogram.

    Create the display by `from_estimator` or `from_predictions`.

    Parameters
    ----------
    table : pandas.DataFrame
        A row for each bin: the columns of `reliability_table`, and ``accuracy_low``,
        ``accuracy_high`` (interval), ``band_low``, ``band_high`` (band).
    histogram : pandas.DataFrame
        A row for each bar of the histogram: ``left``, ``right`` and the ``share`` of the rows.
    error : float
        Expected calibration error (ECE): the weighted mean of the absolute gaps of `n_bins` bins,
        by default 15. For a smooth curve, the integrated calibration index (ICI), which is the mean
        distance of the curve from the diagonal; for a local curve, the same distance; for an
        isotonic curve, the miscalibration (MCB) of the Brier score.
    confidence_level : float
        Level of intervals and band, for the legend.
    axis_names : (str, str)
        Labels of the axes.
    name : str, default=None
        Name of the model in the legend.
    curve : CalibrationCurve, default=None
        The curve that is drawn instead of bins.
    limits : (float, float), default=(0, 1)
        Limits of both axes.
    numbers : dict of str to float, default=None
        Statistics by name, which are written above the diagram with ``statistics=True``.
    means : (float, float), default=None
        Mean score and mean outcome of all rows.
    curves : list of CalibrationCurve, default=None
        Smooth curves of clusters, which are drawn as thin lines.

    Attributes
    ----------
    line_ : matplotlib Line2D
        The curve: one point for each bin with enough rows.
    points_ : list of matplotlib Line2D
        The points of these bins.
    few_ : matplotlib Line2D or None
        The points of the bins with few rows.
    interval_ : matplotlib collection or None
        The intervals of the bins, or the shade of the pointwise band of a curve.
    band_ : matplotlib PolyCollection or None
        The consistency band of the bins, or the simultaneous band of a curve.
    gaps_ : matplotlib LineCollection or None
        The gaps of the bins.
    means_ : matplotlib Line2D or None
        The star at the mean score and the mean outcome.
    curves_ : list of matplotlib Line2D
        The curves of the clusters.
    histogram_ : matplotlib StepPatch or None
        The outline of the histogram, or of the histogram of the events.
    statistics_ : matplotlib Text or None
        The statistics.
    ax_ : matplotlib Axes
        The axes of the diagram.
    figure_ : matplotlib Figure
        The figure of the axes.

    See Also
    --------
    skcalib.metrics.reliability_table : Compute the numbers of the bins.
    KSDisplay : Plot of scores and outcomes without bins.

    Notes
    -----
    The confidence level is for each bin separately, not for all bins together: of 20 bins of a
    calibrated model, one is expected outside a band of 95 %. The band consists of quantiles of a
    binomial distribution, without resampling. It is exact if the scores in a bin are equal, and
    otherwise slightly too wide. With soft labels, intervals and bands are computed as for the same
    number of outcomes 0 and 1. Soft labels with the same mean vary less, so the intervals are wider
    than necessary.

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
    limits: Limits = _drawing.WHOLE
    numbers: dict[str, float] | None = None
    means: tuple[float, float] | None = None
    curves: list[CalibrationCurve] | None = None

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_proba: ArrayLike,
        *,
        mode: Mode | Literal["all"] | None = None,
        r: int = 1,
        threshold: float | None = None,
        pos_label: Any = None,
        curve: Curve | None = None,
        groups: Any = None,
        clusters: Any = None,
        n_bins: NumberOfBins | None = None,
        strategy: Strategy | None = None,
        confidence_level: float = 0.95,
        sample_weight: ArrayLike | None = None,
        labels: ArrayLike | None = None,
        ax: Axes | None = None,
        name: str | None = None,
        statistics: bool = False,
        **kwargs: Any,
    ) -> Self:
        """Plot the reliability diagram of labels and probabilities.

        Parameters
        ----------
        y_true : array-like of shape (n,) or (n, K)
            Labels; or soft labels: numbers in [0, 1] for a binary problem, or the shares of several
            raters, with a column for each class.
        y_proba : array-like of shape (n, K), (n,) or (n, 1)
            Class probabilities, with a column for each of the sorted labels, or of `labels` in
            their order. Columns of a frame that are named after the labels are read by name. One or
            two columns are the probability of the event `pos_label`.
        mode : {"top", "within_top", "all"}, default=None
            "top": the r-th largest probability, and whether its class is the true one.
            "within_top": the sum of the r largest probabilities, and whether one of their classes
            is the true one. "all": every probability, and whether its class is the true one; for
            one or two columns the event. None: the event for one or two columns, "top" for more.
        r : int in [1, K], default=1
            Rank for "top" and "within_top".
        threshold : float in [0, 1), default=None
            Scores up to this threshold are left out.
        pos_label : label, default=None
            Label of the event whose probability is shown. None means 1 or True for labels {0, 1},
            {-1, 1} or booleans. For other labels, None means the second of two columns, and a
            single column needs `pos_label`. With more columns, None means the default of `mode`.
        curve : {"bins", "smooth", "isotonic", "local"}, default=None
            Bins, a curve by the `method` "smooth" or "isotonic" of `calibration_curve`, or
            `local_calibration`. None means "smooth" for one event if neither `n_bins` nor
            `strategy` is given, otherwise "bins".
        groups : array-like of shape (n,) or (n, g), default=None
            Group of each row; several columns are crossed. Each group has a panel, in the order of
            `skcalib.metrics.calibration_by_group`. At most 12 groups are shown, and no groups with
            fewer than 10 rows. The returned display is that of the worst group. Its ``groups_``
            contains the display of each group by label, ``axes_`` their axes and ``by_group_`` the
            numbers.
        clusters : array-like of shape (n,), default=None
            Cluster of each row, such as the hospital of a patient, if rows of one cluster are
            dependent. At least 3 clusters are needed; see "Dependent rows" in the user guide. None
            means that rows are independent. Smooth curves of the 50 largest clusters with at least
            10 rows are drawn as thin lines.
        n_bins : int or "cube_root", default=None
            Number of bins of the diagram, of the error of bins and of the histogram. "cube_root" is
            the cube root of the number of rows, rounded up. None means this number, at most 15, for
            the diagram, and 15 for error and histogram, as in
            `skcalib.metrics.expected_calibration_error`.
        strategy : {"uniform", "quantile"}, default=None
            Bins of equal width, or of equal weight. None means "uniform". But if `n_bins` is also
            None and 98 % of the scores are in a range smaller than 0.25, bins of equal weight are
            drawn.
        confidence_level : float in (0, 1), default=0.95
            Level of intervals and band.
        sample_weight : array-like of shape (n,), default=None
            Non-negative weights. Integers are counts: 2 is two copies of the row. Of floats only
            the ratios matter (see "Weights" under "Valid input" in the user guide). 0 is the row's
            absence.
        labels : array-like of shape (K,), default=None
            Labels of the columns, in their order; needed if they cannot be inferred from
            `y_true`.
        name : str, default=None
            Name in the legend.
        statistics : bool, default=False
            Whether to write statistics above the diagram: the numbers of rows and events, the slope
            of a logistic recalibration, its intercept in the large (with slope 1), the ratio of
            observed to expected events (O:E), the AUC (C), the integrated calibration index and
            E90. A number that is not defined, such as the slope for equal scores or soft labels, is
            left out.
        ax, **kwargs
            See `plot`: also `ref_line`, `interval`, `band`, `gaps`, `means` and `histogram`.

        Returns
        -------
        display : ReliabilityDisplay
            The drawn display.

        Raises
        ------
        ValueError
            If probabilities, labels, weights or keywords are invalid.
        """
        check_level(confidence_level)
        check_option("curve", curve, (None, "bins", "smooth", "isotonic", "local"))
        check_option("mode", mode, (None, "top", "within_top", "all"))
        check_flags(statistics=statistics)
        predictions = check_predictions(
            y_true,
            y_proba,
            sample_weight,
            labels,
            pos_label,
            soft=groups is None,
            caller="a diagram by groups",
            clusters=clusters,
        )

        def draw(rows: Predictions, ax: Axes | None, **usual: Any) -> Any:
            fields = _drawing.reliability(
                rows, mode, r, threshold, curve, n_bins, strategy, confidence_level, statistics
            )
            display = cls(**fields, confidence_level=confidence_level, name=name)
            return display.plot(ax, **usual | kwargs)

        if groups is None:
            return draw(predictions, ax)
        _drawing.check_matplotlib(cls.__name__)
        if mode not in (None, "top") or r != 1:
            raise ValueError(
                "groups= shows only the top label or an event: leave out mode and r, or draw each "
                "group by a separate call."
            )
        rows = predictions.of_mode(mode)
        grouped = group_rows(rows, groups, np.shape(y_true)[0], sample_weight)
        worst: Self = draw_groups(draw, grouped, ax)
        return worst

    def _in_words(self) -> str:
        x, y = (name[0].lower() + name[1:] for name in self.axis_names)
        rows = f"{self.table['weight'].sum():,.0f} rows"
        return f"{y} against {x}, {rows}: error {self.error:.4f}"

    def plot(
        self,
        ax: Axes | None = None,
        *,
        ref_line: bool = True,
        interval: bool | None = None,
        band: bool | None = None,
        gaps: bool | None = None,
        means: bool | None = None,
        histogram: bool = True,
        **kwargs: Any,
    ) -> Self:
        """Plot the reliability diagram.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on, such as the ``ax_`` of another display; None creates a figure.
        ref_line : bool, default=True
            Whether to draw the diagonal of perfect calibration.
        interval : bool, default=None
            Whether to draw the interval of each bin, or the pointwise band of a curve. None draws
            it if there are at most two models on the axes: a third model removes all intervals.
        band : bool, default=None
            Whether to draw the consistency band, or the simultaneous band of a curve. None draws
            the band of the last model, if there are at most two models.
        gaps : bool, default=None
            Whether to draw a wide bar from the diagonal to each point: the gap of the bin. None
            draws gaps if there is a single model. A curve has no gaps.
        means : bool, default=None
            Whether to mark the mean score and the mean outcome of all rows by a star. None marks
            them if there is a single model.
        histogram : bool, default=True
            Whether to draw the histogram below the diagram.
        **kwargs : object
            Style of the curve, passed to matplotlib's ``plot``.

        Returns
        -------
        display : ReliabilityDisplay
            The display itself.
        """
        check_flags(ref_line=ref_line, histogram=histogram)
        optional = {"interval": interval, "band": band, "gaps": gaps, "means": means}
        check_flags(**{what: flag for what, flag in optional.items() if flag is not None})
        ax = _drawing.new_axes(5.2, 5.4) if ax is None else ax
        label = _drawing.label_of(self.name, error_text(self.error, self.curve))
        look: dict[str, Any] = {"marker": "", "linewidth": 1.6}
        if self.curve is None:
            look = {"markersize": 4.5, "linewidth": 1.4}
        style = _drawing.model_style(ax, kwargs, label=label, **look)
        limits = _drawing.free_limits(ax, self.limits)
        if not _drawing.models_on(ax):
            xlabel, ylabel = self.axis_names
            ax.set(xlabel=ax.get_xlabel() or xlabel, ylabel=ax.get_ylabel() or ylabel)
        if ref_line:
            _drawing.draw_diagonal(ax, "calibrated")
        self._draw_parts(ax, style["color"], style["marker"], optional)
        if self.curve is None:
            broken = _drawing.blank_few(self.table)
            x, y = broken["confidence"].to_numpy(), broken["accuracy"].to_numpy()
        else:
            x, y = self.curve.prob_pred, self.curve.prob_true
        self.curves_: list[Any] = []
        thin = {"color": style["color"], "lw": 0.6, "alpha": 0.5, "zorder": 1.9}
        for each in self.curves or []:
            self.curves_ += ax.plot(each.prob_pred, each.prob_true, **thin)
        (self.line_,) = ax.plot(x, y, **style)
        self.points_: list[Any] = []
        if self.curve is None:
            self.line_.set_markevery([])  # the marker is only shown in the legend
            bins, _ = _drawing.full_and_few(self.table)
            areas = np.clip(bins["weight"] / bins["weight"].mean(), *AREAS)
            sizes = style["markersize"] * np.sqrt(areas)
            one = {**style, "gid": None, "label": None, "linestyle": "none"}
            for *point, size in zip(bins["confidence"], bins["accuracy"], sizes, strict=True):
                self.points_ += ax.plot(*point, **one | {"markersize": size})
        self.histogram_ = self.statistics_ = None
        if histogram:
            edges = np.append(self.histogram["left"].to_numpy(), self.histogram["right"].iloc[-1])
            names = ["share"] if self.curve is None else ["events", "others"]
            shares = [self.histogram[column].to_numpy() for column in names]
            self.histogram_ = _drawing.draw_histogram(ax, edges, shares, style)
            if self.curve is not None:
                _drawing.strip_below(ax).set_ylabel("Others | events", fontsize="x-small")
        if self.numbers is not None:
            self.statistics_ = ax.set_title(text_of(self.numbers), loc="left", fontsize="small")
        _drawing.set_limits(ax, limits)
        return self._finish(ax)

    def _draw_parts(
        self, ax: Axes, color: Any, marker: Any, optional: dict[str, bool | None]
    ) -> None:
        """Draw the optional elements of the next model: intervals, bands, gaps and means."""
        level, marks = f"{100 * self.confidence_level:g}%", mark_parts(ax, optional)
        there = {artist.get_label() for artist in ax.get_children()}
        self.interval_ = self.band_ = self.gaps_ = self.means_ = self.few_ = None

        def shade(part: str, x: Any, low: Any, high: Any, alpha: float, text: str) -> Any:
            if marks[part] is None:
                return None
            style: dict[str, Any] = {"color": color, "gid": marks[part], "alpha": alpha, "lw": 0}
            label = None if text in there else text
            return ax.fill_between(x, low, high, label=label, zorder=1, **style)

        if self.curve is None:
            bins, few = _drawing.full_and_few(self.table)
            x, y = bins["confidence"].to_numpy(), bins["accuracy"].to_numpy()
            calibrated, broken = f"{level} if calibrated", _drawing.blank_few(self.table)
            low, high = broken["band_low"], broken["band_high"]
            self.band_ = shade("band", broken["confidence"], low, high, 0.22, calibrated)
            look: dict[str, Any] = {"color": color, "gid": marks["interval"], "zorder": 1.8}
            if marks["interval"]:
                low, high = bins["accuracy_low"], bins["accuracy_high"]
                self.interval_ = ax.vlines(x, low, high, lw=1, **look)
            if marks["gaps"]:
                look |= {"gid": marks["gaps"], "alpha": 0.4, "lw": 5, "zorder": 1.7}
                self.gaps_ = ax.vlines(x, np.minimum(x, y), np.maximum(x, y), **look)
            if len(few):
                look = {"color": color, "alpha": 0.35, "ls": "none", "marker": marker, "ms": 2.8}
                (self.few_,) = ax.plot(few["confidence"], few["accuracy"], **look)
        elif self.curve.method != "local":
            x, c = self.curve.prob_pred, self.curve
            ends, text = (c.low_simultaneous, c.high_simultaneous), f"{level} confidence"
            self.band_ = shade("band", x, *ends, 0.15, text)
            self.interval_ = shade("interval", x, c.low, c.high, 0.25, "_pointwise")
        if self.means and marks["means"]:
            look = {"marker": "*", "ms": 11, "ls": "none", "mew": 1.2, "mec": color, "zorder": 4}
            look |= {"mfc": ax.get_facecolor(), "gid": marks["means"]}
            (self.means_,) = ax.plot(*self.means, **look)


def mark_parts(ax: Axes, optional: dict[str, bool | None]) -> dict[str, str | None]:
    """Return the identifiers of optional elements of the next model; None if one is not drawn.

    If there are too many models, optional elements that earlier models have by default are removed.
    Bands of earlier models that are drawn by default are always removed.
    """
    n_models, marks = len(_drawing.models_on(ax)) + 1, {}
    for part, most in MOST.items():
        wish = optional[part]
        drawn = n_models <= most if wish is None else wish
        marks[part] = (f"{AUTO}{part}" if wish is None else part) if drawn else None
        if n_models > most or part == "band":
            for artist in ax.get_children():
                if artist.get_gid() == f"{AUTO}{part}":
                    artist.remove()
    return marks
