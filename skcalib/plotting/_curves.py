"""Displays of curves: reliability, groups, risk and coverage, decisions."""

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


# Small multiples: a display for each group of rows, the worst first.


# Panels of a figure, and of a row at most, and the size of one in inches.
MOST_PANELS, COLUMNS, WIDTH, HEIGHT = 12, 4, 2.4, 2.6
# Letters of the name of a group above its panel.
LETTERS = 26


def draw_groups(draw: Callable[..., Any], grouped: Grouped, ax: Any) -> Any:
    """Draw groups side by side and return the display of the worst.

    ``draw(predictions, axes, ...)`` draws one. The display gets the attributes ``groups_``, the
    display of each group by label, ``axes_`` and ``by_group_``, the numbers. Groups of fewer than
    10 rows, and those after the twelfth, are not drawn; a line below says so.
    """
    named = {"ks_calibration_error": ks_calibration_error}
    by_group = measure_groups(grouped, named, level=0.95, random_state=0)
    parts = dict(zip(grouped.groups.labels, grouped.parts, strict=True))
    n_large = int((by_group.frame["n"] >= FEWEST_ROWS).sum())
    labels = by_group.frame.index[: min(n_large, MOST_PANELS)].tolist()
    if not labels:
        raise ValueError(f"groups: none has {FEWEST_ROWS} rows, the fewest that are drawn.")
    n_panels = len(labels)
    columns = -(-n_panels // -(-n_panels // COLUMNS))  # rows of equal length, if there can be
    axes = _drawing.panels(ax, n_panels, "a panel for each group", columns, WIDTH, HEIGHT)
    displays, titles = {}, _drawing.shorten([label_text(label) for label in labels], LETTERS)
    for label, title, panel in zip(labels, titles, axes, strict=True):
        part = parts[label if len(grouped.groups.names) > 1 else (label,)]
        display = displays[label] = draw(part, panel, gaps=False, means=False)  # no legend
        n, error = int(by_group.frame["n"].loc[label]), error_text(display.error, display.curve)
        write_title(display, f"{title}\n{n:,} rows, {error}")
    _drawing.share_square(list(displays.values()))
    first = displays[labels[0]]
    first.groups_, first.axes_, first.by_group_ = displays, list(axes), by_group
    if ax is None:
        n_small = len(by_group.frame) - n_large
        notes = [f"the {n_panels} worst of {n_large} groups"] if n_large > n_panels else []
        notes += [f"not shown: {n_small} of fewer than {FEWEST_ROWS} rows"] if n_small else []
        share_labels(first, "; ".join(notes))
    return first


def write_title(display: Any, title: str) -> None:
    """Write what a panel shows above it, in place of a legend."""
    panel = display.ax_
    panel.get_legend().remove()
    if display.statistics_ is not None:  # its place is that of the title
        title = f"{title}\n{display.statistics_.get_text()}"
        display.statistics_.set_text("")
    panel.set_title(title, fontsize="small")


def share_labels(display: Any, note: str) -> None:
    """Name the axes of all panels once, beside and below them, above a note."""
    for ax in display.figure_.axes:
        ax.set(xlabel="", ylabel="")
    xlabel, ylabel = display.axis_names
    display.figure_.supxlabel(f"{xlabel}\n{note}".strip(), fontsize="medium")
    display.figure_.supylabel(ylabel, fontsize="medium")


# A plot of net benefit against the threshold, beside acting on all rows and on none.


@dataclass(eq=False, repr=False)
class DecisionCurveDisplay(_drawing.CurveDisplay):
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
        if _drawing.models_on(ax):
            top = max(top, ax.get_ylim()[1])
        else:
            look: dict[str, Any] = {"color": _drawing.ink(), "lw": 1.0, "alpha": 0.8, "zorder": 1.5}
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


# A plot of the share of wrong rows against the share of rows that are acted on.


# Points of a curve that are drawn, at most.
MAX_POINTS = 1000


@dataclass(eq=False, repr=False)
class RiskCoverageDisplay(_drawing.CurveDisplay):
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
        curve, first = self.curve, not _drawing.models_on(ax)
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
        # At the start the curve may leave the axes: one wrong row of few is a large risk.
        limits = [0.01, 1.25 * risk[x >= 0.05].max(), 0.0 if first else ax.get_ylim()[1]]
        self.target_ = self.point_ = None
        if self.accuracy is not None:
            limits.append(1.5 * (1 - self.accuracy))
            mark = f"skcalib-target {self.accuracy!r}"  # one line for all models of an accuracy
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
        ax.set(xlabel="Coverage (share of rows)", ylabel="Risk (share wrong)")
        ax.yaxis.set_major_formatter(_drawing.percent_tick)

    def _in_words(self) -> str:
        curve, threshold = self.curve, self.threshold
        words = f"AURC {curve.aurc:.4f} ({curve.aurc_low:.4f} to {curve.aurc_high:.4f})"
        if threshold is None:
            return words
        if np.isinf(threshold.threshold):
            return f"{words}, no threshold for accuracy {self.accuracy:g}"
        return f"{words}, acts on {threshold.coverage:.1%} at {threshold.threshold:.3g} or more"


# The reliability diagram: confidence against accuracy, bin by bin or as a curve.


# Statistics in a picture, line by line.
LINES = (("n", "events", "O:E"), ("slope", "in the large"), ("C", "ICI", "E90"))
# Smallest and largest area of a point, relative to that of a bin with the mean number of rows.
AREAS = 0.4, 4.0
# Parts beside the curve, and the number of models up to which they are drawn unless the user asks.
MOST = {"interval": 2, "band": 2, "gaps": 1, "means": 1}
# Mark on parts that the user has not asked for.
AUTO = "skcalib-auto-"


def error_text(error: float, curve: CalibrationCurve | None) -> str:
    """Return the error of bins or of a curve, with its name."""
    if curve is not None and curve.method == "isotonic":
        return f"MCB {error:.3g}"
    names = {"bins": "ECE", "smooth": "ICI", "local": "mean gap"}
    return f"{names['bins' if curve is None else curve.method]} {_drawing.percent(error)}"


def text_of(numbers: dict[str, float]) -> str:
    """Return the numbers in lines that fit above a diagram."""
    texts = {name: f"{name} {value:.3g}" for name, value in numbers.items()}
    texts |= {name: f"{name} {numbers[name]:,.0f}" for name in ("n", "events")}
    lines = [[texts[name] for name in line if name in texts] for line in LINES]
    return "\n".join(", ".join(line) for line in lines if line)


@dataclass(eq=False, repr=False)
class ReliabilityDisplay(_drawing.PredictionDisplay):
    r"""Reliability diagram: confidence against accuracy, bin by bin.

    For each bin of the scores, the mean score is on the horizontal axis and the share of hits on
    the vertical one:

    .. math:: \mathrm{conf}_b = \frac{1}{W_b} \sum_{i \in b} w_i s_i, \qquad
              \mathrm{acc}_b = \frac{1}{W_b} \sum_{i \in b} w_i t_i .

    A curve below the diagonal is over-confident. Bins with more rows have larger points. Bins with
    fewer than 10 rows have faint points; the curve and the band have a gap there. Bars are Wilson's
    intervals of each accuracy; the shaded band is the range of the accuracies of a calibrated model
    with the same number of rows. Wide bars are the gaps, the star is the mean of all rows. The
    histogram shows the distribution of the scores.

    ``curve="smooth"`` and ``curve="isotonic"`` draw `calibration_curve` in place of bins: the
    inner band is pointwise, the outer one is that of the whole curve. The histogram then shows
    events upwards and the other rows downwards, each as shares of their number. ``curve="local"``
    draws `local_calibration`, without bands.

    ``mode="all"`` shows the n K probabilities of all classes, of which most are near 0, and the
    histogram is that of all of them; ``threshold=0.01`` leaves out the smallest. Intervals and
    band then take the probabilities of a row for independent.

    Of one event, the axes show where the scores and rates are: up to 0.1, say, if the event is
    rare. Limits that you set are kept. The histogram has axes of its own, in a fifth of the place
    of those of the diagram, and the name of the horizontal axis is below it.

    Create it with `from_estimator` or `from_predictions`.

    Parameters
    ----------
    table : pandas.DataFrame
        A row for each bin: the columns of `reliability_table`, and ``accuracy_low``,
        ``accuracy_high`` (interval), ``band_low``, ``band_high`` (band).
    histogram : pandas.DataFrame
        A row for each bar below: ``left``, ``right``, ``share`` of the rows.
    error : float
        Expected calibration error (ECE): the weighted mean of the absolute gaps of the bins asked
        for, or of 15. Of a smooth curve the integrated calibration index (ICI), the mean distance
        of the curve from the diagonal, as of a local one; of an isotonic one the miscalibration
        (MCB) of the Brier score.
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
    means : (float, float), default=None
        Mean score and share of hits of all rows.
    curves : list of CalibrationCurve, default=None
        Smooth curves of clusters, which are drawn thin.

    Attributes
    ----------
    line_ : matplotlib Line2D
        The curve: one point for each bin with enough rows.
    points_ : list of matplotlib Line2D
        The points of these bins.
    few_ : matplotlib Line2D or None
        The bins of few rows.
    interval_ : matplotlib collection or None
        The intervals; of a curve, the shade of the pointwise band.
    band_ : matplotlib PolyCollection or None
        The consistency band; of a curve, its simultaneous band.
    gaps_ : matplotlib LineCollection or None
        The gaps of the bins.
    means_ : matplotlib Line2D or None
        The star at mean score and share of hits.
    curves_ : list of matplotlib Line2D
        The curves of the clusters.
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
    slightly too wide. Intervals and bands of soft hits are those of the same number of outcomes 0
    and 1: soft hits of the same mean vary less, so the intervals are wider than necessary.

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
        curve: Curve = "bins",
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
        """Plot labels and probabilities.

        Parameters
        ----------
        y_true : array-like of shape (n,) or (n, K)
            Labels; with one column also soft hits, shares of the event in [0, 1]; or the shares of
            several raters, a column for each class.
        y_proba : array-like of shape (n, K), (n,) or (n, 1)
            Class probabilities, a column for each of the sorted labels, or of `labels` in their
            order; a frame whose columns are named by the labels is read by name. One or two
            columns give the probability of one event, `pos_label`.
        mode : {"top", "within_top", "all"}, default=None
            The r-th largest probability and whether that class is true; or the sum of the r
            largest and whether the true class is among them; or every probability and whether its
            class is true. None means the event of one or two columns (as "all" does), else "top".
        r : int in [1, K], default=1
            Rank.
        threshold : float in [0, 1), default=None
            Only scores above it are shown.
        pos_label : label, default=None
            The event whose probability is shown. None means 1 or True for labels {0, 1}, {-1, 1} or
            booleans; of other labels the second of two columns, while one column needs it. With
            more columns, None means what `mode` says.
        curve : {"bins", "smooth", "isotonic", "local"}, default="bins"
            Bins, or the `method` of `calibration_curve`, or `local_calibration`.
        groups : array-like of shape (n,) or (n, g), default=None
            Label of each row's group, or several, which are crossed: a panel for each group, in
            the order of `skcalib.metrics.calibration_by_group`, at most 12, and none for groups of
            fewer than 10 rows. The display returned is that of the worst group; its ``groups_``
            has the display of each by label, ``axes_`` their axes and ``by_group_`` the numbers.
        clusters : array-like of shape (n,), default=None
            Label of each row's cluster, such as the hospital of a patient: rows of a cluster were
            drawn together, and may go wrong together. At least 3; see "Rows that belong together"
            in the user guide. None means that rows are independent. Smooth curves of the clusters,
            of the 50 largest with at least 10 rows, are drawn thin.
        n_bins : int or "cube_root", default=None
            Number of bins, also of the error of bins and of the histogram. "cube_root" is the cube
            root of the number of rows, rounded up. None draws that, but at most 15, and takes 15
            for error and histogram, as `skcalib.metrics.expected_calibration_error` does.
        strategy : {"uniform", "quantile"}, default=None
            Bins of equal width, or of equal weight. None means "uniform", but if `n_bins` is None
            too and 98 % of the scores lie within 0.25 of one another, bins of equal weight are
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
            Whether to write the numbers of rows and events, the slope of a logistic recalibration,
            its intercept in the large (of slope 1), observed by expected events (O:E), the AUC (C)
            and the integrated calibration index with E90 above the diagram. A number that does not
            exist, such as the slope of equal scores or of soft hits, is left out.
        ax, **kwargs
            See `plot`: also `ref_line`, `interval`, `band`, `gaps`, `means` and `histogram`.

        Returns
        -------
        display : ReliabilityDisplay
            The display, drawn.

        Raises
        ------
        ValueError
            If probabilities, labels, weights or keywords are invalid.
        """
        check_level(confidence_level)
        check_option("curve", curve, ("bins", "smooth", "isotonic", "local"))
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
                "groups= shows the top label or one event: leave out mode and r, or draw each "
                "group by itself."
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
        """Plot the diagram.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on, such as the ``ax_`` of another display; None creates a figure.
        ref_line : bool, default=True
            Whether to draw the diagonal of perfect calibration.
        interval : bool, default=None
            Whether to draw the interval of each bin, or the pointwise band of a curve. None draws
            it for at most two models on the axes: a third one removes all of them.
        band : bool, default=None
            Whether to draw the consistency band, or the simultaneous band of a curve. None draws
            that of the last of at most two models.
        gaps : bool, default=None
            Whether to draw a wide bar from the diagonal to each point: the gap of the bin. None
            draws them while there is one model; a curve has none.
        means : bool, default=None
            Whether to mark the mean score and the share of hits of all rows by a star. None marks
            them while there is one model.
        histogram : bool, default=True
            Whether to draw the share of rows below.
        **kwargs : object
            Style of the curve, passed to matplotlib's ``plot``.

        Returns
        -------
        display : ReliabilityDisplay
            Itself.
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
        if self.curves_:
            self.curves_[0].set_label(f"{len(self.curves_)} clusters")
        (self.line_,) = ax.plot(x, y, **style)
        self.points_: list[Any] = []
        if self.curve is None:
            self.line_.set_markevery([])  # but the legend has the mark
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
                _drawing.strip_below(ax).set_ylabel("Others | events", fontsize="small")
        if self.numbers is not None:
            self.statistics_ = ax.set_title(text_of(self.numbers), loc="left", fontsize="small")
        _drawing.set_limits(ax, limits)
        return self._finish(ax)

    def _draw_parts(
        self, ax: Axes, color: Any, marker: Any, optional: dict[str, bool | None]
    ) -> None:
        """Draw what is beside the curve of the next model."""
        level, marks = f"{100 * self.confidence_level:g}%", mark_parts(ax, optional)
        there = {artist.get_label() for artist in ax.get_children()}
        self.interval_ = self.band_ = self.gaps_ = self.means_ = self.few_ = None

        def look(part: str | None, text: str, **style: Any) -> dict[str, Any]:
            return {"color": color, "gid": part, "label": None if text in there else text, **style}

        def shade(part: str, x: Any, low: Any, high: Any, text: str, alpha: float) -> Any:
            if marks[part] is None:
                return None
            style = look(marks[part], text, alpha=alpha, lw=0, zorder=1)
            return ax.fill_between(x, low, high, **style)

        if self.curve is None:
            bins, few = _drawing.full_and_few(self.table)
            x, y = bins["confidence"].to_numpy(), bins["accuracy"].to_numpy()
            calibrated, broken = f"{level} if calibrated", _drawing.blank_few(self.table)
            low, high = broken["band_low"], broken["band_high"]
            self.band_ = shade("band", broken["confidence"], low, high, calibrated, 0.22)
            if marks["interval"]:
                style = look(marks["interval"], f"{level} interval", lw=1, zorder=1.8)
                self.interval_ = ax.vlines(x, bins["accuracy_low"], bins["accuracy_high"], **style)
            if marks["gaps"]:
                style = look(marks["gaps"], "gap", alpha=0.4, lw=5, zorder=1.7)
                self.gaps_ = ax.vlines(x, np.minimum(x, y), np.maximum(x, y), **style)
            if len(few):
                style = look("few", "few rows", alpha=0.35, ls="none", marker=marker, ms=2.8)
                (self.few_,) = ax.plot(few["confidence"], few["accuracy"], **style)
        elif self.curve.method != "local":
            x, c = self.curve.prob_pred, self.curve
            whole = f"{level}, whole curve"
            self.band_ = shade("band", x, c.low_simultaneous, c.high_simultaneous, whole, 0.15)
            self.interval_ = shade("interval", x, c.low, c.high, f"{level}, each score", 0.25)
        if self.means and marks["means"]:
            rate = "accuracy" if self.axis_names[1] == "Accuracy" else "share"
            style = {"marker": "*", "ms": 11, "ls": "none", "mew": 1.2, "mec": color, "zorder": 4}
            mean, share = map(_drawing.percent, self.means)
            style |= {"label": f"mean {mean}, {rate} {share}"}
            style |= {"mfc": ax.get_facecolor(), "gid": marks["means"]}
            (self.means_,) = ax.plot(*self.means, **style)


def mark_parts(ax: Axes, optional: dict[str, bool | None]) -> dict[str, str | None]:
    """Return the mark of each part of the next model, None if it is not drawn.

    Parts of earlier models that nobody has asked for are removed where there are too many models,
    and their bands in any case.
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
