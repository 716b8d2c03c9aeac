"""Code that all displays share: base classes, axes, and the numbers of diagrams."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, Self, cast

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.stats import binom
from sklearn.metrics import roc_auc_score
from sklearn.utils.validation import check_is_fitted

from skcalib.metrics import (
    calibration_curve,
    calibration_intercept_slope,
    expected_calibration_error,
    integrated_calibration_index,
    local_calibration,
    reliability_table,
    score_decomposition,
)
from skcalib.plotting._score_pairs import proba_before

from skcalib.extending import (  # isort: skip
    FEWEST_ROWS, CalibrationCurve, Float64Array, FloatArray, InnerPredictions as Predictions, Intp,
    NumberOfBins, Strategy, add_absent_classes, bin_index, check_between, check_bins, check_flags,
    check_inner_predictions as check_predictions, class_scores, cluster_sums, design_effect,
    number_of_bins, reduce_top, to_array, wilson_interval,
)  # fmt: skip

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import PolyCollection
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D


# Drawing: figures, colours, legends, the histogram below a diagram, names and numbers.
#
# Models have the colours of Okabe and Ito, which colour-blind readers can distinguish, or those of
# the user's style (``axes.prop_cycle``). Markers and dashes also differ, for prints in grey. Lines
# that belong to no model have the colour of texts.


Limits = tuple[float, float]
WHOLE: Limits = (0.0, 1.0)

COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
DASHES = ("-", "--", "-.", (0, (5, 1, 1, 1, 1, 1)), (0, (8, 2)), (0, (3, 1)), ":")

# Style of a legend, which is placed where it covers the least.
LEGEND: dict[str, Any] = {
    "loc": "best",
    "fontsize": "small",
    "title_fontsize": "small",
    "framealpha": 0.7,
    "edgecolor": "none",
    "borderpad": 0.2,
    "labelspacing": 0.2,
    "handletextpad": 0.5,
    "handlelength": 1.6,
    "borderaxespad": 0.3,
}
# Largest number of letters of the name of a class in a plot, and on a vertical axis.
LETTERS, SHORT = 14, 8
# Largest number of letters of the name of a model in a legend, and of a name with a number in one
# line. The font is smaller in legends with more letters in a line than `LARGE` or two lines in a
# label, and in legends of several models in axes that are narrow (in inches). So legends leave room
# for the curves.
LONGEST, ONE_LINE, LARGE, NARROW = 22, 24, 20, 3.0
# Matplotlib identifier (gid) of the line of a model.
MODEL = "skcalib-model"
# Matplotlib identifiers (gid) of the diagonal and of the axes with the histogram.
REFERENCE, STRIP = "skcalib-reference", "skcalib-histogram"
MARGIN = 0.02


def check_matplotlib(caller: str) -> None:
    """Raise an ImportError with an installation command if matplotlib is missing."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise ImportError(
            f'{caller} needs matplotlib: install it with `pip install "skcalib[plot]"`.'
        ) from error


def new_axes(width: float, height: float) -> Axes:
    """Create a figure with one axes."""
    return panels(None, 1, "", 1, width, height)[0]


def panels(axes: Any, n: int, what: str, columns: int, width: float, height: float) -> list[Axes]:
    """Return the `n` axes that the user passed, or create a figure with `n` axes.

    `what` describes the axes in an error message. `width` and `height` of each axes are in inches.
    """
    import matplotlib.pyplot as plt

    if axes is not None:
        return check_axes(axes, n, what)
    rows = -(-n // columns)
    figure = plt.figure(figsize=(width * columns, height * rows), layout="constrained")
    return [figure.add_subplot(rows, columns, i + 1) for i in range(n)]


def check_axes(axes: Any, n: int, what: str) -> list[Axes]:
    """Return axes as a list, or raise a ValueError unless there are `n` of them."""
    axes = list(np.ravel(np.asarray(axes, dtype=object)))
    if len(axes) != n:
        raise ValueError(
            f"ax contains {len(axes)} axes, but {n} are needed ({what}): pass {n} axes."
        )
    return axes


def models_on(ax: Axes) -> list[Line2D]:
    """Return the lines of the models that have been drawn on an axes."""
    return [line for line in ax.lines if line.get_gid() == MODEL]


def ink() -> Any:
    """Return the colour of texts, which is also used for lines that belong to no model."""
    from matplotlib import rcParams

    return rcParams["text.color"]


def model_style(ax: Axes, keywords: dict[str, Any] | None = None, **default: Any) -> dict[str, Any]:
    """Return the style of the line of the next model on an axes.

    `keywords` of the user replace the defaults, also with short names such as ``c``. Colours are
    those of the user's matplotlib style, if it sets colours.
    """
    from matplotlib import rcParams, rcParamsDefault
    from matplotlib.cbook import normalize_kwargs
    from matplotlib.lines import Line2D

    i, cycle, colors = len(models_on(ax)), rcParams["axes.prop_cycle"], [*COLORS, ink()]
    if cycle != rcParamsDefault["axes.prop_cycle"] and "color" in cycle.keys:
        colors = cycle.by_key()["color"]
    j = i + i // len(MARKERS)  # if a colour repeats, its marker and dashes differ
    style = {
        "gid": MODEL,
        "color": colors[i % len(colors)],
        "marker": MARKERS[j % len(MARKERS)],
        "linestyle": DASHES[j % len(DASHES)],
    }
    return {**style, **default, **normalize_kwargs(keywords or {}, Line2D)}


def label_of(name: str | None, number: str = "") -> str:
    """Return the label of a model in the legend, with the number in a new line if it is long."""
    if not name:
        return number
    short = shorten([name], LONGEST)[0]
    space = " " if len(f"{short} ({number})") <= ONE_LINE else "\n"
    return f"{short}{space}({number})" if number else short


def shorten(names: Sequence[Any], length: int = LETTERS) -> list[str]:
    """Shorten long names by replacing their middle with dots, so that names still differ."""
    texts = [str(name) for name in names]
    while True:
        last = max((length - 1) // 3, 1)
        short = [
            f"{text[: length - 1 - last].rstrip()}…{text[-last:].lstrip()}"
            if len(text) > length
            else text
            for text in texts
        ]
        if len(set(short)) == len(set(texts)):
            return short
        length += 1


def name_ticks(axis: Any, places: Any, names: Any) -> None:
    """Label ticks with short names, which are slanted on a horizontal axis if they are wide."""
    texts = shorten(names)
    slanted = axis.axis_name == "x" and max(map(len, texts)) > 3
    look = {"rotation": 40, "ha": "right", "rotation_mode": "anchor"} if slanted else {}
    axis.set_ticks(places, texts, **look)


def percent(share: float) -> str:
    """Format a proportion as a percentage with one decimal, or two digits if it is below 1 %."""
    if 0 < abs(share) < 1e-5:
        return "<0.001%"
    text = f"{100 * share:.1f}" if abs(share) >= 0.01 else f"{100 * share:.2g}"
    return f"{text}%"


def percent_tick(value: float, position: float) -> str:  # noqa: ARG001  # matplotlib passes it
    """Return the label of a tick as a percentage, without trailing zeros."""
    return f"{100 * value:.4g}%" if abs(value) > 1e-12 else "0%"


def free_limits(ax: Axes, limits: Limits) -> dict[str, Limits]:
    """Return axis limits that include a square and the models that are already drawn.

    An axis whose limits the user has set is left out: matplotlib does not autoscale it.
    """
    margin = MARGIN * (limits[1] - limits[0])
    low, high = limits[0] - margin, limits[1] + margin
    limits_of, first = {}, not models_on(ax)
    for axis in ("x", "y"):
        start, end = getattr(ax, f"get_{axis}lim")()
        if getattr(ax, f"get_autoscale{axis}_on")():
            limits_of[axis] = (low, high) if first else (min(low, start), max(high, end))
    return limits_of


def set_limits(ax: Axes, limits: dict[str, Limits]) -> None:
    """Set axis limits but keep autoscaling on; only limits that the user sets turn it off."""
    for axis, ends in limits.items():
        getattr(ax, f"set_{axis}lim")(*ends, auto=True)


def share_square(displays: Sequence[Any]) -> None:
    """Give several reliability diagrams the same axis limits."""
    lows, highs = zip(*(display.limits for display in displays), strict=True)
    for display in displays:
        set_limits(display.ax_, free_limits(display.ax_, (min(lows), max(highs))))


def draw_diagonal(ax: Axes, label: str) -> None:
    """Draw the diagonal y = x, unless the axes already has one."""
    if not any(line.get_gid() == REFERENCE for line in ax.lines):
        style: dict[str, Any] = {"ls": ":", "lw": 1.2, "alpha": 0.7, "marker": "", "zorder": 1.5}
        ax.plot([0, 1], [0, 1], color=ink(), label=label, gid=REFERENCE, **style)


def strip_below(ax: Axes) -> Axes:
    """Return the axes of the histogram below a diagram; a new one takes a fifth of the height."""
    from matplotlib.ticker import MaxNLocator

    figure: Any = ax.figure
    cell: Any = ax.get_subplotspec()
    for strip in [other for other in figure.axes if other.get_gid() == STRIP]:
        if cell and strip.get_subplotspec().get_gridspec() is cell.get_gridspec():
            return cast("Axes", strip)
    if cell is None:
        left, bottom, right, top = ax.get_position().extents
        cell = figure.add_gridspec(left=left, bottom=bottom, right=right, top=top)[0]
    grid = cell.subgridspec(2, 1, height_ratios=(4, 1), hspace=0.04)
    ax.set_subplotspec(grid[0])
    strip = figure.add_subplot(grid[1], sharex=ax, gid=STRIP)
    figure.sca(ax)
    ax.tick_params(axis="x", labelbottom=False)
    strip.set(xlabel=ax.get_xlabel(), ylabel="Rows")
    ax.set_xlabel("")
    strip.yaxis.set_major_locator(MaxNLocator(2))
    strip.yaxis.set_major_formatter(distance_tick)
    return strip


def distance_tick(value: float, position: float) -> str:
    """Return the label of a tick of a histogram with bars upwards and downwards."""
    return percent_tick(abs(value), position)


def draw_histogram(
    ax: Axes, edges: Float64Array, shares: Sequence[Float64Array], style: dict[str, Any]
) -> Any:
    """Draw histograms below a diagram, a second one downwards; return the outline of the first."""
    strip, color = strip_below(ax), style["color"]
    outlines = []
    for share, sign in zip(shares, (1, -1), strict=False):
        strip.stairs(sign * share, edges, fill=True, color=color, alpha=0.25, lw=0)
        look: dict[str, Any] = {"color": color, "ls": style["linestyle"], "lw": 1.2}
        outlines.append(strip.stairs(sign * share, edges, **look))
    return outlines[0]


# Base classes of displays.


class Display:
    """Base class of all displays, with ``repr``, axes and legend."""

    ax_: Axes
    figure_: Figure | Any
    # Method that describes the display in one short line.
    _in_words: Callable[[], str]

    def __post_init__(self) -> None:
        check_matplotlib(type(self).__name__)

    def _finish(self, ax: Axes, **look: Any) -> Self:
        """Draw the legend, models first, and set the attributes ``ax_`` and ``figure_``."""

        def place(entry: tuple[Any, Any]) -> int:
            # Containers, such as bars that a user has drawn, have no identifier.
            gid = entry[0].get_gid() if hasattr(entry[0], "get_gid") else None
            return 0 if gid == MODEL else 2 if gid == REFERENCE else 1

        entries = sorted(zip(*ax.get_legend_handles_labels(), strict=True), key=place)
        handles, labels = [handle for handle, _ in entries], [label for _, label in entries]
        narrow = ax.get_window_extent().width < NARROW * ax.figure.dpi
        long = any("\n" in label or len(label) > LARGE for label in labels)
        if long or (len(labels) > 3 and narrow):
            look = {"fontsize": "x-small", "title_fontsize": "x-small", **look}
        ax.legend(handles, labels, **LEGEND | look)
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def __repr__(self) -> str:
        name = getattr(self, "name", None)
        model = f"{name}: " if name else ""
        return f"<{type(self).__name__} {model}{self._in_words()}>"


class PredictionDisplay(Display):
    """Base class of displays of labels and probabilities."""

    before_: Self | None
    # Class method that creates the display from labels and probabilities.
    from_predictions: Callable[..., Any]

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: ArrayLike, *, before: bool = False, **keywords: Any
    ) -> Self:
        """Plot the probabilities of a fitted classifier for `X`, with the labels `y`.

        Parameters
        ----------
        estimator : classifier
            A fitted classifier with ``predict_proba``, or a pipeline that ends with one.
        X : array-like of length n, or any input of the estimator
            Data that the estimator was not fitted on.
        y : array-like of shape (n,)
            Labels. A label that was not in the training data has probability 0.
        before : bool, default=False
            Whether to draw the uncalibrated model on the same axes, too. The estimator must be a
            `skcalib.CalibratedClassifier`, a calibrator of this package, or a pipeline that ends
            with one of these. The returned display is that of the calibrated model; its ``before_``
            is the display of the uncalibrated one.
        **keywords : object
            Keywords of `from_predictions`, except ``labels``: the columns follow
            ``estimator.classes_``. The default of ``name`` is the class of the estimator, or
            "after" with `before`.

        Returns
        -------
        display : object
            The drawn display.

        Raises
        ------
        ValueError
            If the estimator has no ``predict_proba``, if `before` is true but the estimator is not
            calibrated or there are ``groups``, or for the reasons listed in `from_predictions`.
        """
        check_is_fitted(estimator)
        check_flags(before=before)
        if before and keywords.get("groups") is not None:
            raise ValueError(
                "before=True cannot be combined with groups=, because the two models may have "
                "their groups in different orders: draw the models by two calls."
            )
        if keywords.get("name") is None:
            keywords["name"] = "after" if before else type(estimator).__name__
        if not hasattr(estimator, "predict_proba"):
            raise ValueError(
                f"{type(estimator).__name__} has no predict_proba: wrap it in "
                "skcalib.CalibratedClassifier."
            )
        classes = np.asarray(estimator.classes_)
        proba = class_scores(estimator, X, "predict_proba", classes)
        weight = keywords.get("sample_weight")

        def draw(proba: Any, more: dict[str, Any]) -> Any:
            y_true, padded, labels = add_absent_classes(y, proba, classes, None, weight)
            return cls.from_predictions(y_true, padded, labels=labels, **(keywords | more))

        other = draw(proba_before(estimator, X), {"name": "before"}) if before else None
        display: Self = draw(proba, other._axes_keywords() if other else {})
        display.before_ = other
        return display

    def _axes_keywords(self) -> dict[str, Any]:
        """Return the keywords that draw another model on the same axes."""
        return {"ax": getattr(self, "axes_", None) or self.ax_}


class CurveDisplay(PredictionDisplay):
    """Base class of displays of a curve with a band, also of several models on the same axes."""

    name: str | None
    line_: Line2D
    band_: PolyCollection
    # Method that draws the line, its band and reference lines, and sets axis limits and labels.
    _draw: Callable[[Axes, dict[str, Any]], None]

    def plot(self, ax: Axes | None = None, **kwargs: Any) -> Self:
        """Plot the curve and its band.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on, such as the ``ax_`` of another display; None creates a figure.
        **kwargs : object
            Style of the line, passed to matplotlib's ``plot``.

        Returns
        -------
        display : object
            The display itself.
        """
        ax = new_axes(4.8, 3.6) if ax is None else ax
        style = model_style(ax, kwargs, markersize=4, markevery=(0.1, 0.2), linewidth=1.4)
        self._draw(ax, style)
        ax.xaxis.set_major_formatter(percent_tick)
        return self._finish(ax)


# Numbers that displays show: scores and outcomes, bins, bands, errors and statistics.
#
# With n rows, an average over a bin of width h has a squared bias of order h^2 and a variance of
# order 1/(n h). Their sum is smallest at a width of order :math:`n^{-1/3}`. So the number of bins
# is the cube root of n, rounded up, at most 15.
#
# For a calibrated model, let the n scores of a bin have the mean p. The number of events is
# binomial(n, p) if the scores are equal, and has a slightly smaller variance otherwise. The band
# consists of quantiles of this distribution. Its mean deviation is, with
# :math:`m = \lfloor n p \rfloor + 1` (De Moivre),
#
# .. math:: \frac{1}{n} E |X - n p| = \frac{2 m (1 - p)}{n} P(X = m) ,
#
# which is the mean gap of a calibrated model with n rows.


Mode = Literal["top", "within_top"]
Curve = Literal["bins", "smooth", "isotonic", "local"]

# Side lengths of diagrams that show only a square from 0, or up to 1. If no side is long enough for
# the data, the diagram shows [0, 1].
ENDS = (0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5)
# Fraction of the rows whose scores may be beyond the limits of the axes, at each end.
BEYOND = 0.01
# Bins with fewer than 10 rows are drawn faintly, and curves have a gap there.
FEWEST = 10
# Default number of bins of calibration errors and histograms, and largest number in diagrams.
USUAL = 15
# Largest number of clusters whose curves are drawn.
MOST_CURVES = 50
# If most scores are in a range smaller than this, bins of equal weight are drawn, because bins of
# equal width would contain nearly all rows in one or two bins.
PART = 0.25


def reliability(
    predictions: Predictions,
    mode: Mode | Literal["all"] | None,
    r: int,
    threshold: float | None,
    curve: Curve | None,
    n_bins: NumberOfBins | None,
    strategy: Strategy | None,
    confidence_level: float,
    statistics: bool,
) -> dict[str, Any]:
    """Compute the numbers of a reliability diagram, as keywords of its display."""
    predictions, rows, names = event_view(predictions, mode, r)
    if threshold is not None:
        check_between("threshold", threshold, 0, 1, "None or a number in [0, 1)", low_too=True)
        above = np.flatnonzero(rows.column(1) > threshold)
        if not above.size:
            raise ValueError(
                f"no score is above threshold={threshold:g}: pass a smaller threshold."
            )
        rows = rows.take(above)
    (score, hit), w, cluster = rows.of_event(), rows.w, rows.cluster
    even: Strategy = "uniform" if strategy is None else strategy
    if n_bins is None:
        number, drawn = USUAL, fillable(float(w.sum()))
        low, high = most_scores(score, w)
        adapted: Strategy = "quantile" if high - low < PART else "uniform"
        way = adapted if strategy is None else strategy
    else:
        number = drawn = number_of_bins(n_bins, w.sum())
        way = even
    checked: Any = rows  # metrics accept checked predictions instead of probabilities
    table = reliability_table(rows.code, checked, n_bins=drawn, strategy=way)
    bin_of_row: Intp = bin_index(score, table["left"].to_numpy()[1:], check_bins(drawn, way))
    residual = hit - table["accuracy"].to_numpy()[bin_of_row]
    effect = design_effect(rows, residual, confidence_level, bin_of_row)
    add_intervals(table, confidence_level, effect)
    if curve is None:
        binned = predictions.event is None or n_bins is not None or strategy is not None
        curve = "bins" if binned else "smooth"
    if curve == "isotonic":
        error = float(score_decomposition(rows.code, checked).miscalibration)
    elif curve == "local":
        distance = np.abs(local_calibration(rows.code, checked, at=score) - score)
        error = float(np.average(distance, weights=w))
    elif curve == "smooth":
        error = integrated_calibration_index(rows.code, checked).ici
    else:
        error = expected_calibration_error(rows.code, checked, n_bins=number, strategy=even)
    line = None
    if curve == "bins":
        filled, _ = full_and_few(table)
        x, rate = (filled[name].to_numpy() for name in ("confidence", "accuracy"))
    else:
        line = compute_curve(curve, rows, confidence_level)
        x, rate = line.prob_pred, line.prob_true
    limits = WHOLE
    if predictions.event is not None:
        limits = limits_of(score.astype(np.float64), w, x, rate, line is None)
    return {
        "table": table,
        "histogram": count_rows(rows, limits, number),
        "error": error,
        "axis_names": names,
        "curve": line,
        "limits": limits,
        "numbers": numbers_of(rows) if statistics else None,
        "curves": None if cluster is None else curves_of_clusters(rows, cluster),
        "means": (float(np.average(score, weights=w)), float(np.average(hit, weights=w))),
    }


def event_view(
    predictions: Predictions, mode: Mode | Literal["all"] | None, r: int
) -> tuple[Predictions, Predictions, tuple[str, str]]:
    """Return the predictions, the binary problem that is shown, and the labels of the axes.

    The binary problem has one score for each row, or all n K probabilities if ``mode="all"``.
    """
    if mode == "all" and r != 1:
        raise ValueError(f"r={r}: mode='all' shows the probabilities of all ranks: leave out r.")
    score, hit = reduce_top(predictions, None if mode == "all" else mode, r)
    predictions = predictions.of_mode(mode, int(r))
    code, w, cluster = predictions.code, predictions.w, predictions.cluster
    if predictions.event is not None:
        label = predictions.classes.tolist()[predictions.event]
        rate = f"class {label}" if len(str(label)) <= SHORT else "the class"
        names = (f"Probability of class {shorten([label])[0]}", f"Frequency of {rate}")
        if label is True:
            names = ("Probability of the event", "Frequency of the event")
    elif mode == "all":
        P, K = to_array(predictions.P), predictions.classes.size
        hit = code if predictions.are_shares else code[:, None] == np.arange(K)
        names = ("Probability of a class", "Frequency of the class")
        score, hit, w = P.ravel(), hit.ravel(), np.repeat(w, K)
        cluster = None if cluster is None else np.repeat(cluster, K)
    elif r == 1:
        names = ("Confidence (top label)", "Accuracy")
    elif mode == "within_top":
        names = (f"Sum of the {r} largest probabilities", "Fraction correct")
    else:
        names = (f"Probability of rank {r}", "Fraction correct")
    rows = check_predictions(hit, score, pos_label=True, soft=True)
    return predictions, rows._replace(w=w, cluster=cluster), names


def most_scores(score: FloatArray, w: Float64Array) -> Limits:
    """Return the range of the scores without 1 % of the rows at each end."""
    order = np.argsort(score)
    share = np.cumsum(w[order]) / w.sum()
    places = np.searchsorted(share, (BEYOND, 1.0 - BEYOND))
    low, high = score[order][np.minimum(places, score.size - 1)].tolist()
    return low, high


def limits_of(
    score: FloatArray, w: Float64Array, x: Float64Array, rate: Float64Array, bins: bool
) -> Limits:
    """Return axis limits of a square that contains nearly all scores, and the bins or the curve."""
    low, high = most_scores(score, w)
    drawn = [*x, *rate] if bins else rate[(x >= low) & (x <= high)].tolist()
    low, high = min([low, *drawn]), max([high, *drawn])
    end = next((end for end in ENDS if high <= end), 1.0)
    start = 1.0 - next((end for end in ENDS if 1.0 - low <= end), 1.0)
    return (0.0, end) if end < 1.0 else (start, 1.0)


def full_and_few(table: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Split a table into bins with enough rows and bins with few rows.

    If no bin has enough rows, all bins with rows count as having enough. Empty bins are left out.
    """
    weight = table["weight"].to_numpy()
    enough = weight >= FEWEST
    enough = enough if enough.any() else weight > 0
    return table[enough], table[(weight > 0) & ~enough]


def blank_few(table: pd.DataFrame) -> pd.DataFrame:
    """Drop empty bins, and set bins with few rows to NaN, where the curve has a gap."""
    return full_and_few(table)[0].reindex(table.index[table["weight"] > 0])


def fillable(n_rows: float) -> int:
    """Return the number of bins for `n_rows` rows: the cube root of `n_rows`, at most 15."""
    return min(USUAL, number_of_bins("cube_root", n_rows))


def add_intervals(table: pd.DataFrame, confidence_level: float, effect: float = 1.0) -> None:
    """Add the interval and the consistency band of each bin to a table.

    The number of rows of a bin is divided by `effect`, the design effect of clusters.
    """
    n = table["weight"].to_numpy() / effect
    ends = {
        "accuracy": wilson_interval(table["accuracy"].to_numpy(), n, confidence_level),
        "band": consistency_band(table["confidence"].to_numpy(), n, confidence_level),
    }
    for what, (low, high) in ends.items():
        table[f"{what}_low"], table[f"{what}_high"] = low, high


def consistency_band(
    confidence: Float64Array, n: Float64Array, confidence_level: float
) -> tuple[Float64Array, Float64Array]:
    """Return quantiles of the accuracy of each bin if the model were calibrated.

    Quantiles of empty bins are NaN.
    """
    copies = _copies(n)
    tail = (1 - confidence_level) / 2
    p = np.clip(confidence, 0.0, 1.0)
    return binom.ppf(tail, copies, p) / copies, binom.ppf(1 - tail, copies, p) / copies


def expected_deviation(confidence: Float64Array, n: Float64Array) -> Float64Array:
    """Return the mean gap of each bin if the model were calibrated; 0 for empty bins."""
    copies = _copies(n)
    p = np.clip(np.where(n > 0, confidence, 0.0), 0.0, 1.0)
    m = np.floor(copies * p) + 1
    return np.asarray(2 * m * (1 - p) * binom.pmf(m, copies, p) / copies)


def _copies(n: Float64Array) -> Float64Array:
    """Round numbers of rows, which may be sums of weights, to integers of at least 1."""
    return np.maximum(np.round(n), 1.0)


def compute_curve(
    method: Literal["smooth", "isotonic", "local"], rows: Any, level: float
) -> CalibrationCurve:
    """Compute the curve that is drawn instead of bins; a local curve has no bands.

    `rows` are checked `Predictions`.
    """
    if method != "local":
        return calibration_curve(rows.code, rows, method=method, confidence_level=level)
    score = rows.column(1)
    at = np.unique(np.clip(np.linspace(0.0, 1.0, 101), score.min(), score.max()))
    rate, none = local_calibration(rows.code, rows, at=at), np.full(at.size, np.nan)
    return CalibrationCurve(at, rate, none, none, none, none, none, method, level)


def curves_of_clusters(rows: Predictions, cluster: Intp) -> list[CalibrationCurve]:
    """Compute smooth curves of the largest clusters that have enough rows."""
    sizes = cluster_sums(rows.w, cluster)
    largest = np.argsort(-sizes, kind="stable")[:MOST_CURVES]
    alone: Any = rows._replace(cluster=None)
    parts = [alone.take(np.flatnonzero(cluster == c)) for c in largest if sizes[c] >= FEWEST_ROWS]
    return [calibration_curve(part.code, part, method="smooth") for part in parts]


def count_rows(rows: Predictions, limits: Limits, n_bins: int) -> pd.DataFrame:
    """Compute histograms of all rows, of the events and of the other rows, as fractions."""
    (score, hit), w, edges = rows.of_event(), rows.w, np.linspace(*limits, n_bins + 1)
    shares = [
        np.histogram(score, edges, weights=amount)[0] / max(float(amount.sum()), 1e-300)
        for amount in (w, w * hit, w * (1.0 - hit))
    ]
    names = ("left", "right", "share", "events", "others")
    return pd.DataFrame(dict(zip(names, (edges[:-1], edges[1:], *shares), strict=True)))


def numbers_of(rows: Predictions) -> dict[str, float]:
    """Compute the statistics of a diagram by name, without those that are not defined."""
    (score, hit), w = rows.of_event(), rows.w
    alone: Any = rows._replace(cluster=None)  # with too few clusters, no intervals exist
    events = float((w * hit).sum())
    numbers = {"n": float(w.sum()), "events": events}
    try:
        line = calibration_intercept_slope(rows.code, alone)
        numbers |= {"slope": line.slope, "in the large": line.in_the_large}
    except ValueError:  # no slope for soft labels, equal labels or equal scores
        pass
    if score.any():
        numbers["O:E"] = events / float(w @ score)
    if hit.dtype.kind == "b" and 0 < events < numbers["n"]:
        numbers["C"] = float(roc_auc_score(hit, score, sample_weight=w))
    index = integrated_calibration_index(rows.code, alone)
    return {**numbers, "ICI": index.ici, "E90": index.e90}
