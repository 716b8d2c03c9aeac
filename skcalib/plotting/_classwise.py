"""ClasswiseDisplay: calibration errors of all classes, and curves of some classes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from skcalib.extending import (
    EACH,
    Float64Array,
    Intp,
    NumberOfBins,
    Strategy,
    check_count,
    check_level,
    class_column,
    group_labels,
    read_indicator,
)
from skcalib.extending import check_inner_predictions as check_predictions
from skcalib.metrics import reliability_table
from skcalib.plotting import _drawing

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Largest number of class names that fit next to one another on an axis.
NAMED = 12
COLUMNS = 3
# Start of the matplotlib identifier (gid) of titles and labels; the names of classes follow.
CLASS = "skcalib-class "
# Matplotlib identifier (gid) of the line with the expected errors of a calibrated model.
EXPECTED = "skcalib-expected"


@dataclass(eq=False, repr=False)
class ClasswiseDisplay(_drawing.PredictionDisplay):
    r"""Calibration error of every class, and reliability curves of some classes.

    The dots are the class-wise errors, the largest first,

    .. math:: e_k = \sum_b \frac{W_{kb}}{W} |\mathrm{acc}_{kb} - \mathrm{conf}_{kb}| ,

    whose mean is the static calibration error (SCE). The shade is the mean of each error if the
    last model were calibrated: an error in the shade may be due to the small number of rows alone.
    Arrows point to the errors of the next model. Below are the reliability curves of the classes
    with the largest errors, or of chosen classes.

    Create the display by `from_estimator` or `from_predictions`.

    Parameters
    ----------
    table : pandas.DataFrame
        A row for each class and bin of the curves: the columns of the table of a
        `ReliabilityDisplay`, and ``class``.
    classes : ndarray of shape (K,)
        Labels, sorted.
    errors : ndarray of shape (K,)
        Error of each class.
    expected : ndarray of shape (K,)
        Mean error of each class if the model were calibrated. If the scores in a bin differ, it is
        an upper bound.
    name : str, default=None
        Name of the model in the legend.

    Attributes
    ----------
    order_ : ndarray of shape (K,)
        Labels in the order of the dots.
    shown_ : ndarray of shape (n_curves,)
        Labels of the classes whose curves are drawn.
    dots_ : matplotlib Line2D
        The errors.
    expected_ : matplotlib StepPatch
        The errors of a calibrated model.
    lines_ : list of matplotlib Line2D
        The curves.
    axes_ : list of matplotlib Axes
        The axes of the errors, followed by the axes of the curves.
    ax_ : matplotlib Axes
        The axes of the errors.
    figure_ : matplotlib Figure
        The figure of the axes.

    See Also
    --------
    skcalib.metrics.static_calibration_error : Compute the mean of the errors.
    ReliabilityDisplay : Reliability diagram of one class or of the top label.

    References
    ----------
    Nixon, Dusenberry, Jerfel, Nguyen, Liu, Zhang, Tran (2020). Measuring Calibration in Deep
    Learning. arXiv:1904.01685v2.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib.plotting import ClasswiseDisplay
    >>> rng = np.random.default_rng(0)
    >>> P = rng.dirichlet(np.ones(4), size=1000)
    >>> y = rng.integers(4, size=1000)
    >>> y[P[:, 2] > 0.3] = 2
    >>> display = ClasswiseDisplay.from_predictions(y, P, n_curves=3)
    >>> int(display.order_[0]), display.errors.round(1).tolist()
    (2, [0.2, 0.2, 0.2, 0.1])
    """

    table: pd.DataFrame
    classes: NDArray[Any]
    errors: Float64Array
    expected: Float64Array
    _: KW_ONLY
    name: str | None = None

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_proba: ArrayLike,
        *,
        n_bins: NumberOfBins | None = None,
        strategy: Strategy = "uniform",
        confidence_level: float = 0.95,
        pos_label: Any = None,
        sample_weight: ArrayLike | None = None,
        labels: ArrayLike | None = None,
        ax: Axes | Sequence[Axes] | None = None,
        name: str | None = None,
        **kwargs: Any,
    ) -> Self:
        """Plot the class-wise errors of labels and probabilities.

        Parameters
        ----------
        y_true : array-like of shape (n,) or (n, L)
            Labels. If a row can have several labels, a matrix with 1 if a row has a label,
            otherwise 0, and NaN if it is unknown. Each label is then drawn as a class, from its
            known entries.
        y_proba : array-like of shape (n, K), (n, L), (n,) or (n, 1)
            Class probabilities, with a column for each of the sorted labels, or of `labels` in
            their order. Columns of a frame that are named after the labels are read by name. One
            column is the probability of the event `pos_label`.
        n_bins : int or "cube_root", default=None
            Number of bins; "cube_root" is the cube root of the number of rows, rounded up. None
            means 15 bins for the errors, as in `skcalib.metrics.static_calibration_error`, and for
            the curves the cube root of n/K, rounded up, at most 15.
        strategy : {"uniform", "quantile"}, default="uniform"
            Bins of equal width, or of equal weight within each class.
        confidence_level : float in (0, 1), default=0.95
            Level of the intervals on the curves.
        pos_label : label, default=None
            Label of the event that is shown. None means 1 or True for labels {0, 1}, {-1, 1} or
            booleans. For other labels, None means the second of two columns, and a single column
            needs `pos_label`. With more columns, None means every class.
        sample_weight : array-like of shape (n,), default=None
            Non-negative weights. Integers are counts: 2 is two copies of the row. Of floats only
            the ratios matter (see "Weights" under "Valid input" in the user guide). 0 is the row's
            absence.
        labels : array-like of shape (K,), default=None
            Labels of the columns, in their order; needed if they cannot be inferred from
            `y_true`.
        name : str, default=None
            Name in the legend.
        ax, **kwargs
            See `plot`: also `n_curves`, `classes` and `order`.

        Returns
        -------
        display : ClasswiseDisplay
            The drawn display.

        Raises
        ------
        ValueError
            If probabilities, labels, weights or keywords are invalid.
        """
        check_level(confidence_level)
        n_rows: Any
        if read_indicator(y_true, unknown=True) is None:
            predictions: Any = check_predictions(y_true, y_proba, sample_weight, labels, pos_label)
            event = predictions.as_classes().event
            classes = predictions.classes if event is None else predictions.classes[[event]]
            n_rows = float(predictions.w.sum())
            n_events = n_rows / classes.size
            bin_by = partial(reliability_table, y_true, predictions, strategy=strategy, **EACH)
        else:
            grouped = group_labels(y_true, y_proba, sample_weight)
            pairs = zip(grouped.groups.labels, grouped.parts, strict=True)
            parts: dict[Any, Any] = {label: part for (label,), part in pairs if len(part.code)}
            classes = np.array(list(parts))
            n_rows = np.array([[part.w.sum()] for part in parts.values()])
            n_events = sum(part.w @ part.code for part in parts.values()) / classes.size
            bin_by = partial(_bin_labels, parts, strategy=strategy, **EACH)

        binned = bin_by(n_bins=_drawing.USUAL if n_bins is None else n_bins)
        weight, confidence, gap = (
            binned[column].to_numpy().reshape(classes.size, -1)
            for column in ("weight", "confidence", "gap")
        )
        table = binned if n_bins else bin_by(n_bins=_drawing.fillable(n_events))
        _drawing.add_intervals(table, confidence_level)
        share = weight / n_rows
        errors = (share * np.nan_to_num(np.abs(gap))).sum(axis=1)
        expected = (share * _drawing.expected_deviation(confidence, weight)).sum(axis=1)
        return cls(table, classes, errors, expected, name=name).plot(ax, **kwargs)

    def plot(
        self,
        ax: Axes | Sequence[Axes] | None = None,
        *,
        n_curves: int = 6,
        classes: ArrayLike | None = None,
        order: ArrayLike | None = None,
    ) -> Self:
        """Plot the class-wise errors and the reliability curves.

        Parameters
        ----------
        ax : matplotlib Axes or sequence of them, default=None
            Axes to draw on, such as the ``axes_`` of another display: one for the errors, then one
            for each curve. None creates a figure.
        n_curves : int, default=6
            Number of classes with a curve, at most K, those with the largest errors first; 0 means
            no curves.
        classes : array-like of labels, default=None
            The classes whose curves are drawn, instead of those with the largest errors.
        order : array-like of shape (K,), default=None
            Labels in the order of the dots, such as the ``order_`` of another display. None means
            the order of the errors, the largest first.

        Returns
        -------
        display : ClasswiseDisplay
            The display itself.

        Raises
        ------
        ValueError
            If a class does not exist, the number of axes is wrong, or the axes show other classes.
        """
        check_count("n_curves", n_curves, 0)
        ranked = self._columns(order, np.argsort(-self.errors, kind="stable"), "order")
        if np.unique(ranked).size != self.classes.size:
            raise ValueError(
                f"order must contain each of the {self.classes.size} labels exactly once."
            )
        columns = self._columns(classes, ranked[:n_curves], "classes")
        what = f"errors and {columns.size} curves"
        self.axes_ = (
            _grid(columns.size) if ax is None else _drawing.check_axes(ax, 1 + columns.size, what)
        )
        self.order_, self.shown_ = self.classes[ranked], self.classes[columns]
        errors, *panels = self.axes_
        self._draw_errors(errors, ranked)
        self.lines_ = [self._draw_curve(*each) for each in zip(panels, columns, strict=True)]
        if ax is None:
            for panel in panels:
                panel.label_outer()
        return self._finish(errors, loc="lower right", bbox_to_anchor=(1, 1), ncols=2)

    def _in_words(self) -> str:
        sce, worst = self.errors.mean(), int(self.errors.argmax())
        largest = f"{self.classes[worst]}, {self.errors[worst]:.4f}"
        return f"SCE {sce:.4f}, {self.errors.size} classes; largest error: {largest}"

    def _axes_keywords(self) -> dict[str, Any]:
        return {"ax": self.axes_, "order": self.order_, "classes": self.shown_}

    def _columns(self, labels: ArrayLike | None, default: Intp, argument: str) -> Intp:
        if labels is None:
            return default
        names = np.asarray(labels).ravel().tolist()
        return np.array([class_column(label, self.classes, argument) for label in names], np.intp)

    def _draw_errors(self, ax: Axes, ranked: Intp) -> None:
        n_classes, errors = ranked.size, self.errors[ranked]
        places = np.arange(1, n_classes + 1)
        named = n_classes <= NAMED
        names = [str(label) for label in self.classes[ranked]]
        mark = CLASS + ", ".join(names)
        earlier = _drawing.models_on(ax)
        if named and earlier and ax.xaxis.label.get_gid() != mark:
            raise ValueError(
                "the axes show the classes in another order: pass order= with the order_ of the "
                "display that drew them."
            )
        # Many dots are drawn as pixels, because vector graphics would make the image file large.
        dots = {"linestyle": "none", "rasterized": not named, "markersize": 6 if named else 2}
        label = _drawing.label_of(self.name, f"SCE {_drawing.percent(float(self.errors.mean()))}")
        if earlier and named:
            look = {"arrowstyle": "->", "color": _drawing.ink(), "alpha": 0.6, "shrinkA": 4}
            for (x, start), end in zip(np.asarray(earlier[-1].get_xydata()), errors, strict=True):
                ax.annotate("", (x, end), (x, start), arrowprops=look)
        for shade in [patch for patch in ax.patches if patch.get_gid() == EXPECTED]:
            shade.remove()
        shape: dict[str, Any] = {"edges": np.append(places, n_classes + 1) - 0.5, "fill": True}
        shape |= {"color": _drawing.ink(), "alpha": 0.15, "lw": 0, "zorder": 1, "gid": EXPECTED}
        self.expected_ = ax.stairs(self.expected[ranked], label="if calibrated", **shape)
        (self.dots_,) = ax.plot(places, errors, **_drawing.model_style(ax, dots, label=label))
        xlabel = "Class" if named else "Rank of the class"
        ax.set(xlim=(0.5, n_classes + 0.5), xlabel=xlabel, ylabel="Error")
        if named and not earlier:
            _drawing.name_ticks(ax.xaxis, places, names)
            ax.xaxis.label.set_gid(mark)
        highest = max(np.max(line.get_ydata()) for line in [*earlier, self.dots_])
        ax.set_ylim(0, 1.1 * max(highest, self.expected.max(), 1e-6))
        ax.yaxis.set_major_formatter(_drawing.percent_tick)

    def _draw_curve(self, ax: Axes, k: int) -> Any:
        first, style = not _drawing.models_on(ax), _drawing.model_style(ax)
        of_class = self.table[self.table["class"] == self.classes[k]]
        table, (full, few) = _drawing.blank_few(of_class), _drawing.full_and_few(of_class)
        name = str(self.classes[k])
        if first:
            ax.title.set_gid(f"{CLASS}{name}")
            ax.set_xlabel("Probability", fontsize="small")
            ax.set_ylabel("Frequency", fontsize="small")
            ax.set(xlim=(-0.04, 1.04), ylim=(-0.04, 1.04), xticks=(0, 0.5, 1), yticks=(0, 0.5, 1))
            ax.tick_params(labelsize="small")
            short = _drawing.shorten(self.classes.tolist())[k]
            ax.set_title(f"{short}: {_drawing.percent(float(self.errors[k]))}", fontsize="small")
        elif ax.title.get_gid() != f"{CLASS}{name}":
            raise ValueError(
                f"the axes show the class {str(ax.title.get_gid()).removeprefix(CLASS)}, not "
                f"{name}: pass classes= with the shown_ of the display that drew them."
            )
        _drawing.draw_diagonal(ax, "calibrated")
        columns = ("confidence", "accuracy", "accuracy_low", "accuracy_high")
        x, y, low, high = (table[column].to_numpy() for column in columns)
        ax.vlines(x, low, high, color=style["color"], lw=0.8, alpha=0.6, zorder=1.8)
        style |= {"markersize": 3, "linewidth": 1.2}
        faint = {**style, "linestyle": "none", "alpha": 0.35, "gid": None}
        ax.plot(few["confidence"], few["accuracy"], **faint)
        (line,) = ax.plot(x, y, **style)
        if first and len(full) < 2:
            ax.text(0, 1, "too few\nrows", va="top", fontsize="small", alpha=0.6)
        return line


def _bin_labels(parts: dict[Any, Any], **keywords: Any) -> pd.DataFrame:
    """Return the tables of bins of several labels, with the label as the class."""
    tables = {label: reliability_table(part, part, **keywords) for label, part in parts.items()}
    return pd.concat([table.assign(**{"class": label}) for label, table in tables.items()])


def _grid(n_panels: int) -> list[Axes]:
    import matplotlib.pyplot as plt

    columns = min(COLUMNS, max(n_panels, 1))
    rows = -(-n_panels // columns)
    figure = plt.figure(figsize=(5.6, 2.2 + 1.6 * rows), layout="constrained")
    grid = figure.add_gridspec(1 + rows, columns, height_ratios=[1.4] + [1.0] * rows)
    cells = [grid[0, :], *(grid[1 + i // columns, i % columns] for i in range(n_panels))]
    return [figure.add_subplot(cell) for cell in cells]
