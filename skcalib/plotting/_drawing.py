"""What displays share: their base class, axes, numbers."""

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


# What displays draw with: figures, colours, legends, the strip below a diagram, names and numbers.
#
# The colours of models are those of Okabe and Ito, which colour-blind readers can distinguish, or
# those of the style that the user has chosen (``axes.prop_cycle``). Markers and dashes differ as
# well, for prints in grey. Lines that belong to no model have the colour of texts.


Limits = tuple[float, float]
WHOLE: Limits = (0.0, 1.0)

COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
DASHES = ("-", "--", "-.", (0, (5, 1, 1, 1, 1, 1)), (0, (8, 2)), (0, (3, 1)), ":")

# Look of a legend, in the corner in which it covers least.
LEGEND: dict[str, Any] = {
    "loc": "best",
    "fontsize": "small",
    "title_fontsize": "small",
    "framealpha": 0.7,
    "edgecolor": "none",
    "borderpad": 0.2,
    "labelspacing": 0.2,
    "handletextpad": 0.5,
}
# Letters of the name of a class in a picture, at most.
LETTERS = 14
# Letters of the name of a model in a legend: a wider legend would leave no room for the diagram.
LONGEST = 30
# Mark on the line of a model.
MODEL = "skcalib-model"
# Marks on the diagonal and on the axes of the histogram.
REFERENCE, STRIP = "skcalib-reference", "skcalib-histogram"
MARGIN = 0.02


def check_matplotlib(caller: str) -> None:
    """Raise ImportError with the way to install matplotlib if it is missing."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise ImportError(
            f'{caller} needs matplotlib: install it with `pip install "skcalib[plot]"`.'
        ) from error


def new_axes(width: float, height: float) -> Axes:
    """Create an axes in a new figure."""
    return panels(None, 1, "", 1, width, height)[0]


def panels(axes: Any, n: int, what: str, columns: int, width: float, height: float) -> list[Axes]:
    """Return the given axes, which have to be `n` for `what` is drawn, or those of a new figure.

    A new figure has them row by row; `width` and `height` of each are in inches.
    """
    import matplotlib.pyplot as plt

    if axes is not None:
        return check_axes(axes, n, what)
    rows = -(-n // columns)
    figure = plt.figure(figsize=(width * columns, height * rows), layout="constrained")
    return [figure.add_subplot(rows, columns, i + 1) for i in range(n)]


def check_axes(axes: Any, n: int, what: str) -> list[Axes]:
    """Return the given axes as a list; raise ValueError unless there are `n` of them."""
    axes = list(np.ravel(np.asarray(axes, dtype=object)))
    if len(axes) != n:
        raise ValueError(f"ax contains {len(axes)} axes but {n} are drawn ({what}): pass {n} axes.")
    return axes


def models_on(ax: Axes) -> list[Line2D]:
    """Return the lines of the models that an axes shows."""
    return [line for line in ax.lines if line.get_gid() == MODEL]


def ink() -> Any:
    """Return the colour of texts, that of lines which belong to no model."""
    from matplotlib import rcParams

    return rcParams["text.color"]


def model_style(ax: Axes, keywords: dict[str, Any] | None = None, **default: Any) -> dict[str, Any]:
    """Return mark, colour, marker and dashes of the next model on an axes, and the default style.

    Colours are those of the style, if the user has chosen one. Parts that are given come before the
    default ones, short names such as ``c`` included.
    """
    from matplotlib import rcParams, rcParamsDefault
    from matplotlib.cbook import normalize_kwargs
    from matplotlib.lines import Line2D

    i, cycle, colors = len(models_on(ax)), rcParams["axes.prop_cycle"], [*COLORS, ink()]
    if cycle != rcParamsDefault["axes.prop_cycle"] and "color" in cycle.keys:
        colors = cycle.by_key()["color"]
    j = i + i // len(MARKERS)  # where colours repeat, marks and dashes are others
    style = {
        "gid": MODEL,
        "color": colors[i % len(colors)],
        "marker": MARKERS[j % len(MARKERS)],
        "linestyle": DASHES[j % len(DASHES)],
    }
    return {**style, **default, **normalize_kwargs(keywords or {}, Line2D)}


def label_of(name: str | None, number: str) -> str:
    """Return the label of a model in the legend."""
    return f"{shorten([name], LONGEST)[0]} ({number})" if name else number


def shorten(names: Sequence[Any], length: int = LETTERS) -> list[str]:
    """Return names, the middle of long ones replaced by dots, with as many letters as differ."""
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
    """Name ticks by classes, in short names, which are slanted below axes if they are wide."""
    texts = shorten(names)
    slanted = axis.axis_name == "x" and max(map(len, texts)) > 3
    look = {"rotation": 40, "ha": "right", "rotation_mode": "anchor"} if slanted else {}
    axis.set_ticks(places, texts, **look)


def percent(share: float) -> str:
    """Return a share in per cent: one decimal, or two digits if it is below 1 %."""
    if 0 < abs(share) < 1e-5:
        return "<0.001%"
    text = f"{100 * share:.1f}" if abs(share) >= 0.01 else f"{100 * share:.2g}"
    return f"{text}%"


def percent_tick(value: float, position: float) -> str:  # noqa: ARG001  # matplotlib passes it
    """Return the label of a tick at a share, without zeros that say nothing."""
    return f"{100 * value:.4g}%" if abs(value) > 1e-12 else "0%"


def free_limits(ax: Axes, limits: Limits) -> dict[str, Limits]:
    """Return the limits of x and y that show a square, and what earlier models show.

    Matplotlib stops autoscaling an axis when the user sets its limits, which are then kept.
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
    """Set limits and leave autoscaling on, which distinguishes them from limits of the user."""
    for axis, ends in limits.items():
        getattr(ax, f"set_{axis}lim")(*ends, auto=True)


def share_square(displays: Sequence[Any]) -> None:
    """Let reliability diagrams show the same square."""
    lows, highs = zip(*(display.limits for display in displays), strict=True)
    for display in displays:
        set_limits(display.ax_, free_limits(display.ax_, (min(lows), max(highs))))


def draw_diagonal(ax: Axes, label: str) -> None:
    """Draw the line y = x, only once on an axes."""
    if not any(line.get_gid() == REFERENCE for line in ax.lines):
        style: dict[str, Any] = {"ls": ":", "lw": 1.2, "alpha": 0.7, "marker": "", "zorder": 1.5}
        ax.plot([0, 1], [0, 1], color=ink(), label=label, gid=REFERENCE, **style)


def strip_below(ax: Axes) -> Axes:
    """Return the axes of the histogram below a diagram, which takes a fifth of its place."""
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
    """Return the label of a tick at a share that is drawn upwards or downwards."""
    return percent_tick(abs(value), position)


def draw_histogram(
    ax: Axes, edges: Float64Array, shares: Sequence[Float64Array], style: dict[str, Any]
) -> Any:
    """Draw shares of rows in the strip, the second of two downwards; return the first outline."""
    strip, color = strip_below(ax), style["color"]
    outlines = []
    for share, sign in zip(shares, (1, -1), strict=False):
        strip.stairs(sign * share, edges, fill=True, color=color, alpha=0.25, lw=0)
        look: dict[str, Any] = {"color": color, "ls": style["linestyle"], "lw": 1.2}
        outlines.append(strip.stairs(sign * share, edges, **look))
    return outlines[0]


# Base class of displays, and what they share.


class Display:
    """Base class: ``repr`` is the class, the name of the model, and ``_in_words()``."""

    ax_: Axes
    figure_: Figure | Any
    # What is shown, in one short line.
    _in_words: Callable[[], str]

    def __post_init__(self) -> None:
        check_matplotlib(type(self).__name__)

    def _finish(self, ax: Axes, **look: Any) -> Self:
        """Draw the legend of the axes, which are then those of the display."""
        ax.legend(**LEGEND | look)
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def __repr__(self) -> str:
        name = getattr(self, "name", None)
        model = f"{name}: " if name else ""
        return f"<{type(self).__name__} {model}{self._in_words()}>"


class PredictionDisplay(Display):
    """Base class of displays of labels and probabilities."""

    before_: Self | None
    # Draws labels and probabilities.
    from_predictions: Callable[..., Any]

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: ArrayLike, *, before: bool = False, **keywords: Any
    ) -> Self:
        """Plot a fitted classifier's probabilities for `X`, given the labels `y`.

        Parameters
        ----------
        estimator : classifier
            Fitted, with ``predict_proba``; also a pipeline that ends with a classifier.
        X : array-like or whatever the estimator takes, of length n
            Data that the estimator was not fitted on.
        y : array-like of shape (n,)
            Labels; one that the estimator never saw has probability 0.
        before : bool, default=False
            Whether to draw the uncalibrated model, too, on the same axes, if the estimator is a
            `skcalib.CalibratedClassifier`, a calibrator of this package or a pipeline that ends
            with either. The display of the calibrated one is returned; its ``before_`` is the
            other.
        **keywords : object
            Those of `from_predictions`, except ``labels``: the columns are those of
            ``estimator.classes_``. ``name`` is the estimator's class if not given, or "after".

        Returns
        -------
        display : object
            The display, drawn.

        Raises
        ------
        ValueError
            If the estimator has no ``predict_proba``, `before` is asked of one that is not
            calibrated or with ``groups``, or as `from_predictions` says.
        """
        check_is_fitted(estimator)
        check_flags(before=before)
        if before and keywords.get("groups") is not None:
            raise ValueError(
                "before=True draws two models on the same axes, and groups= may put its panels in "
                "another order for each: draw them by two calls."
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
        """Return the keywords that draw another model beside this one."""
        return {"ax": getattr(self, "axes_", None) or self.ax_}


class CurveDisplay(PredictionDisplay):
    """Base class of displays of a line and its band, of several models on the same axes."""

    name: str | None
    line_: Line2D
    band_: PolyCollection
    # Draws the line, its band and lines to compare it with; sets limits and names of axes.
    _draw: Callable[[Axes, dict[str, Any]], None]

    def plot(self, ax: Axes | None = None, **kwargs: Any) -> Self:
        """Plot the curve.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on, such as the ``ax_`` of another display; None creates a figure.
        **kwargs : object
            Style of the line, passed to matplotlib's ``plot``.

        Returns
        -------
        display : object
            Itself.
        """
        ax = new_axes(4.8, 3.6) if ax is None else ax
        style = model_style(ax, kwargs, markersize=4, markevery=(0.1, 0.2), linewidth=1.4)
        self._draw(ax, style)
        ax.xaxis.set_major_formatter(percent_tick)
        return self._finish(ax)


# Numbers that displays show: score and hit of an event, bins, bands, errors and statistics.
#
# An average over a bin of width h has a squared bias of order h^2 and, of n rows, a variance of
# order 1/(n h). Their sum is least at a width of order :math:`n^{-1/3}`: the number of bins is the
# cube root of n, rounded up, at most 15.
#
# For a calibrated model whose n scores of a bin have mean p, the number of hits is binomial(n, p)
# if the scores are equal, and has a slightly smaller variance if they are not. Its quantiles are
# the band. Its mean deviation, with :math:`m = \lfloor n p \rfloor + 1` (De Moivre),
#
# .. math:: \frac{1}{n} E |X - n p| = \frac{2 m (1 - p)}{n} P(X = m) ,
#
# is the mean gap that n rows of a calibrated model show by chance.


Mode = Literal["top", "within_top"]
Curve = Literal["bins", "smooth", "isotonic", "local"]

# Ends of a smaller square, from 0 up or from 1 down; with a wider range of data, all is shown.
ENDS = (0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5)
# Share of the rows with scores beyond the square, at each end.
BEYOND = 0.01
# Bins of fewer rows are faint, and no line goes through them.
FEWEST = 10
# Bins of the errors, of the histogram, and of the diagram at most.
USUAL = 15
# Clusters of which curves are drawn, at most.
MOST_CURVES = 50
# Where most scores lie within so small a part of [0, 1], even bins would hold all rows in a few.
PART = 0.25


def reliability(
    predictions: Predictions,
    mode: Mode | Literal["all"] | None,
    r: int,
    threshold: float | None,
    curve: Curve,
    n_bins: NumberOfBins | None,
    strategy: Strategy | None,
    confidence_level: float,
    statistics: bool,
) -> dict[str, Any]:
    """Return what a reliability diagram shows, as keywords of its display."""
    predictions, rows, names = event_view(predictions, mode, r)
    if threshold is not None:
        check_between("threshold", threshold, 0, 1, "None or a number in [0, 1)", low_too=True)
        above = np.flatnonzero(rows.column(1) > threshold)
        if not above.size:
            raise ValueError(f"no score is above threshold={threshold:g}: pass a smaller one.")
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
    checked: Any = rows  # metrics take checked predictions in the place of probabilities
    table = reliability_table(rows.code, checked, n_bins=drawn, strategy=way)
    bin_of_row: Intp = bin_index(score, table["left"].to_numpy()[1:], check_bins(drawn, way))
    residual = hit - table["accuracy"].to_numpy()[bin_of_row]
    effect = design_effect(rows, residual, confidence_level, bin_of_row)
    add_intervals(table, confidence_level, effect)
    line = None
    if curve == "bins":
        filled, _ = full_and_few(table)
        x, rate = (filled[name].to_numpy() for name in ("confidence", "accuracy"))
        error = expected_calibration_error(rows.code, checked, n_bins=number, strategy=even)
    else:
        line, error = curve_and_error(curve, rows, confidence_level)
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
    """Return predictions with their event, if it is shown, those of what is shown, names of axes.

    ``mode="all"`` of several classes shows all n K probabilities, else a score of each row.
    """
    if mode == "all" and r != 1:
        raise ValueError(f"mode='all' shows every probability, r={r} one rank: leave out r.")
    score, hit = reduce_top(predictions, None if mode == "all" else mode, r)
    predictions = predictions.of_mode(mode, int(r))
    code, w, cluster = predictions.code, predictions.w, predictions.cluster
    if predictions.event is not None:
        label = predictions.classes.tolist()[predictions.event]
        names = (f"Probability of class {label}", f"Share of class {label}")
        if label is True:
            names = ("Probability of the event", "Share of events")
    elif mode == "all":
        P, K = to_array(predictions.P), predictions.classes.size
        hit = code if predictions.are_shares else code[:, None] == np.arange(K)
        names = ("Probability of a class", "Share of rows of the class")
        score, hit, w = P.ravel(), hit.ravel(), np.repeat(w, K)
        cluster = None if cluster is None else np.repeat(cluster, K)
    elif r == 1:
        names = ("Confidence (top label)", "Accuracy")
    elif mode == "within_top":
        names = (f"Probability of the {r} likeliest", "Share of hits")
    else:
        names = (f"Probability of rank {r}", "Share of hits")
    rows = check_predictions(hit, score, pos_label=True, soft=True)
    return predictions, rows._replace(w=w, cluster=cluster), names


def most_scores(score: FloatArray, w: Float64Array) -> Limits:
    """Return the range of all scores but those of 1 % of the rows at each end."""
    order = np.argsort(score)
    share = np.cumsum(w[order]) / w.sum()
    places = np.searchsorted(share, (BEYOND, 1.0 - BEYOND))
    low, high = score[order][np.minimum(places, score.size - 1)].tolist()
    return low, high


def limits_of(
    score: FloatArray, w: Float64Array, x: Float64Array, rate: Float64Array, bins: bool
) -> Limits:
    """Return the square of nearly all scores and of all bins, or of the rates of a curve there."""
    low, high = most_scores(score, w)
    drawn = [*x, *rate] if bins else rate[(x >= low) & (x <= high)].tolist()
    low, high = min([low, *drawn]), max([high, *drawn])
    end = next((end for end in ENDS if high <= end), 1.0)
    start = 1.0 - next((end for end in ENDS if 1.0 - low <= end), 1.0)
    return (0.0, end) if end < 1.0 else (start, 1.0)


def full_and_few(table: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the bins that are drawn in full, and the others that have rows.

    If none has enough rows, all that have rows are drawn in full.
    """
    weight = table["weight"].to_numpy()
    enough = weight >= FEWEST
    enough = enough if enough.any() else weight > 0
    return table[enough], table[(weight > 0) & ~enough]


def blank_few(table: pd.DataFrame) -> pd.DataFrame:
    """Return the bins that have rows, NaN for those that no line goes through."""
    return full_and_few(table)[0].reindex(table.index[table["weight"] > 0])


def fillable(n_rows: float) -> int:
    """Return the number of bins that `n_rows` rows can fill."""
    return min(USUAL, number_of_bins("cube_root", n_rows))


def add_intervals(table: pd.DataFrame, confidence_level: float, effect: float = 1.0) -> None:
    """Add interval and band of each bin to a table; `effect` divides the number of rows."""
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
    """Return quantiles of the share of hits of a calibrated bin; NaN where there are no rows."""
    copies = _copies(n)
    tail = (1 - confidence_level) / 2
    p = np.clip(confidence, 0.0, 1.0)
    return binom.ppf(tail, copies, p) / copies, binom.ppf(1 - tail, copies, p) / copies


def expected_deviation(confidence: Float64Array, n: Float64Array) -> Float64Array:
    """Mean distance of the share of hits of a calibrated bin from its confidence; 0 if empty."""
    copies = _copies(n)
    p = np.clip(np.where(n > 0, confidence, 0.0), 0.0, 1.0)
    m = np.floor(copies * p) + 1
    return np.asarray(2 * m * (1 - p) * binom.pmf(m, copies, p) / copies)


def _copies(n: Float64Array) -> Float64Array:
    """Return a whole number of rows, at least one: sums of weights may be fractions."""
    return np.maximum(np.round(n), 1.0)


def curve_and_error(
    method: Literal["smooth", "isotonic", "local"], rows: Any, level: float
) -> tuple[CalibrationCurve, float]:
    """Return the curve that is drawn in place of bins, and the number in the legend.

    `rows` are checked `Predictions`. A local curve has no bands; its number is the mean distance of
    the rows from the diagonal. That of a smooth one is the ICI, that of an isotonic one the
    miscalibration.
    """
    if method == "local":
        score = rows.column(1)
        distance = np.abs(local_calibration(rows.code, rows, at=score) - score)
        at = np.unique(np.clip(np.linspace(0.0, 1.0, 101), score.min(), score.max()))
        rate, none = local_calibration(rows.code, rows, at=at), np.full(at.size, np.nan)
        curve = CalibrationCurve(at, rate, none, none, none, none, none, method, level)
        return curve, float(np.average(distance, weights=rows.w))
    curve = calibration_curve(rows.code, rows, method=method, confidence_level=level)
    if method == "smooth":
        return curve, integrated_calibration_index(rows.code, rows).ici
    return curve, float(score_decomposition(rows.code, rows).miscalibration)


def curves_of_clusters(rows: Predictions, cluster: Intp) -> list[CalibrationCurve]:
    """Return the smooth curves of the largest clusters, of those that have enough rows."""
    sizes = cluster_sums(rows.w, cluster)
    largest = np.argsort(-sizes, kind="stable")[:MOST_CURVES]
    alone: Any = rows._replace(cluster=None)
    parts = [alone.take(np.flatnonzero(cluster == c)) for c in largest if sizes[c] >= FEWEST_ROWS]
    return [calibration_curve(part.code, part, method="smooth") for part in parts]


def count_rows(rows: Predictions, limits: Limits, n_bins: int) -> pd.DataFrame:
    """Return the shares of all rows, events and other rows in even parts of the limits."""
    (score, hit), w, edges = rows.of_event(), rows.w, np.linspace(*limits, n_bins + 1)
    shares = [
        np.histogram(score, edges, weights=amount)[0] / max(float(amount.sum()), 1e-300)
        for amount in (w, w * hit, w * (1.0 - hit))
    ]
    names = ("left", "right", "share", "events", "others")
    return pd.DataFrame(dict(zip(names, (edges[:-1], edges[1:], *shares), strict=True)))


def numbers_of(rows: Predictions) -> dict[str, float]:
    """Return the statistics by their names, without those that these rows do not have."""
    (score, hit), w = rows.of_event(), rows.w
    alone: Any = rows._replace(cluster=None)  # a slope may have no interval of clusters
    events = float((w * hit).sum())
    numbers = {"n": float(w.sum()), "events": events}
    try:
        line = calibration_intercept_slope(rows.code, alone)
        numbers |= {"slope": line.slope, "in the large": line.in_the_large}
    except ValueError:  # soft hits, one outcome alone, equal scores, or no finite slope
        pass
    if score.any():
        numbers["O:E"] = events / float(w @ score)
    if hit.dtype.kind == "b" and 0 < events < numbers["n"]:
        numbers["C"] = float(roc_auc_score(hit, score, sample_weight=w))
    index = integrated_calibration_index(rows.code, alone)
    return {**numbers, "ICI": index.ici, "E90": index.e90}
