"""CalibrationMapDisplay: a plot of the calibration function of a fitted calibrator."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skcalib.extending import (
    AffineCalibrator,
    Float64Array,
    as_source,
    check_classes,
    class_column,
    name_columns,
    top_label,
)
from skcalib.plotting import _drawing
from skcalib.plotting._score_pairs import ScorePairs, read_proba, score_pairs

if TYPE_CHECKING:
    from matplotlib.axes import Axes


GRID = np.linspace(0, 1, 1001)
# Largest number of rows that a plot shows as points.
MAX_POINTS = 2000
# Smallest number of rows in a group of similar scores, so that it has quantiles.
LEAST_ROWS = 12
EDGES = np.linspace(0, 1, 21)  # edges of the bars of histograms
# Largest number of classes for a heat map that shows its numbers, and for one with all labels.
WRITTEN, LABELLED = 6, 12


@dataclass(eq=False, repr=False)
class CalibrationMapDisplay(_drawing.Display):
    r"""Calibration function: probability after calibration against the probability before.

    With two classes, the score is the probability p of the second class. The curve is the
    calibration function of (1 - p, p), or of the two logits with mean 0 that have this softmax, for
    all p in [0, 1]. Each point is a row. Points may be off the curve if the calibrator uses more
    than the difference of two logits.

    With more classes, a calibrated probability depends on all scores of the row. Each point is a
    row: the probability of its top label before calibration, and of the same class after it (or of
    the class `pos_label`). The curve is the median of rows with similar scores, and the shade
    contains 90 % of these rows. The legend shows the fraction of rows whose top label changes.

    A curve below the dotted diagonal makes a model less confident. The histogram below shows the
    scores before calibration (grey and dotted) and after it.

    Create the display by `from_estimator` or `from_predictions`.

    Parameters
    ----------
    before, after : ndarray of shape (n,)
        Probability of the event in each row.
    curve : tuple of two ndarray of shape (m,)
        Probabilities before and after calibration: the calibration function, or the medians.
    band : tuple of two ndarray of shape (m,), or None
        Lower and upper end of the shade; None if the curve is the calibration function.
    flipped : float
        Fraction of rows whose top label changes.
    coef : ndarray of shape (K, K), default=None
        Matrix of coefficients of `MatrixScaling` or `DirichletCalibrator`.
    classes : ndarray of shape (K,), default=None
        Labels of the columns.
    event : str, default="top label"
        Name of the event whose probability is shown.
    name : str, default=None
        Name in the legend.

    Attributes
    ----------
    line_ : matplotlib Line2D
        The curve.
    points_ : matplotlib PathCollection
        The rows: all, or 2,000 at equal distances in the order of their score.
    band_ : matplotlib PolyCollection or None
        The shade.
    histogram_ : matplotlib StepPatch
        Outline of the histogram of the scores after calibration.
    image_ : matplotlib AxesImage
        The matrix, after a call of `plot_coef`.
    ax_ : matplotlib Axes
        The axes that were drawn last.
    figure_ : matplotlib Figure
        The figure of the axes.

    See Also
    --------
    ReliabilityDisplay : Reliability diagram, such as that of the calibrated probabilities.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib import TemperatureScaling
    >>> from skcalib.plotting import CalibrationMapDisplay
    >>> rng = np.random.default_rng(0)
    >>> f = rng.normal(size=500) * 4
    >>> y = rng.random(500) < 1 / (1 + np.exp(-f / 2))
    >>> calibrator = TemperatureScaling().fit(f, y)
    >>> display = CalibrationMapDisplay.from_estimator(calibrator, f)
    >>> score, becomes = display.curve
    >>> bool(becomes[score == 0.9] < 0.8)
    True
    """

    before: Float64Array
    after: Float64Array
    curve: tuple[Float64Array, Float64Array]
    band: tuple[Float64Array, Float64Array] | None
    flipped: float
    _: KW_ONLY
    coef: Float64Array | None = None
    classes: NDArray[Any] | None = None
    event: str = "top label"
    name: str | None = None

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        *,
        pos_label: Any = None,
        ax: Axes | None = None,
        name: str | None = None,
        **kwargs: Any,
    ) -> Self:
        """Plot the calibration function of a fitted calibrator, with the rows of `X`.

        Parameters
        ----------
        estimator : classifier
            A fitted calibrator, of this package or not, a fitted `CalibratedClassifier`, or a
            pipeline that ends with one of them.
        X : array-like of shape (n, K), (n, 1) or (n,), or any input of the estimator
            Scores; for a `CalibratedClassifier` or a pipeline its data.
        pos_label : label, default=None
            Class whose probability is shown. None means the second of two classes, or the top
            label with more classes.
        name : str, default=None
            Name in the legend; None means the name of the calibrator's class.
        ax, **kwargs
            See `plot`.

        Returns
        -------
        display : CalibrationMapDisplay
            The drawn display.

        Raises
        ------
        ValueError
            If the scores are invalid, or the class `pos_label` does not exist.
        """
        pairs = score_pairs(estimator, X)
        model = estimator if pairs.calibrator is None else pairs.calibrator
        name = type(model).__name__ if name is None else name
        return cls._from_pairs(pairs, pos_label, name).plot(ax, **kwargs)

    @classmethod
    def from_predictions(
        cls,
        proba_before: ArrayLike,
        proba_after: ArrayLike,
        *,
        pos_label: Any = None,
        labels: ArrayLike | None = None,
        ax: Axes | None = None,
        name: str | None = None,
        **kwargs: Any,
    ) -> Self:
        """Plot probabilities after calibration against the probabilities before.

        Parameters
        ----------
        proba_before, proba_after : array-like of shape (n, K), (n,) or (n, 1)
            Class probabilities of the same rows; one column is the probability of the second
            class.
        pos_label : label, default=None
            Class whose probability is shown. None means the second of two classes, or the top
            label with more classes.
        labels : array-like of shape (K,), default=None
            Labels of the columns, in their order; None means 0 to K - 1. Columns of a frame that
            are named after the labels are read by name.
        name : str, default=None
            Name in the legend.
        ax, **kwargs
            See `plot`.

        Returns
        -------
        display : CalibrationMapDisplay
            The drawn display.

        Raises
        ------
        ValueError
            If the probabilities are invalid or of different shapes.
        """
        pair = {"proba_before": proba_before, "proba_after": proba_after}
        for argument, P in pair.items():
            codes = np.arange((getattr(P, "shape", None) or (0,))[-1])
            pair[argument] = name_columns(P, codes, labels, name=argument, argument="labels")[0]
        before, after = (read_proba(P, "proba", argument)[0] for argument, P in pair.items())
        if before.shape != after.shape:
            raise ValueError(
                f"proba_before has shape {before.shape}, but proba_after {after.shape}: pass the "
                "same rows and classes."
            )
        K = before.shape[1]
        classes = np.arange(K) if labels is None else check_classes(labels, K, "labels")
        pairs = ScorePairs(before, after, classes, None, None)
        return cls._from_pairs(pairs, pos_label, name).plot(ax, **kwargs)

    @classmethod
    def _from_pairs(cls, pairs: ScorePairs, pos_label: Any, name: str | None) -> Self:
        P, Q, classes, calibrator, binary_map = pairs
        top, predicted = top_label(as_source(P))
        flipped = float((Q.argmax(axis=1) != predicted).mean())
        if pos_label is None and classes.size > 2:
            event = "top label"
            before = top
            after = np.take_along_axis(Q, predicted[:, None], axis=1)[:, 0]
        else:
            k = 1 if pos_label is None else class_column(pos_label, classes, "pos_label")
            event = f"class {classes[k]}"
            before, after = P[:, k], Q[:, k]
        order = np.lexsort((after, before))
        x, y = before[order].astype(np.float64), after[order].astype(np.float64)
        # The plot shows the median score of each group of similar scores, plus the 5 %, 50 % and
        # 95 % quantiles of the change by calibration, y - x. Quantiles of y would also contain the
        # spread of the scores within a group.
        cuts = stretches(x)
        middle = np.array([np.median(group) for group in np.split(x, cuts)])
        changes = np.split(y - x, cuts)
        low, change, high = np.array([np.quantile(group, (0.05, 0.5, 0.95)) for group in changes]).T
        curve = (middle, middle + change)
        band: tuple[Float64Array, Float64Array] | None = (middle + low, middle + high)
        if binary_map is not None:
            second = binary_map(GRID)
            # For the first class, both the score and the calibrated probability are 1 minus those
            # of the second class.
            curve = (GRID, second) if event == f"class {classes[1]}" else (GRID, 1 - second[::-1])
            band = None
        has_matrix = isinstance(calibrator, AffineCalibrator) and calibrator.coef_.ndim == 2
        coef = calibrator.coef_ if has_matrix else None
        return cls(x, y, curve, band, flipped, coef=coef, classes=classes, event=event, name=name)

    def plot(self, ax: Axes | None = None, **kwargs: Any) -> Self:
        """Plot the calibration function.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on, such as the ``ax_`` of another display; None creates a figure.
        **kwargs : object
            Style of the curve, passed to matplotlib's ``plot``.

        Returns
        -------
        display : CalibrationMapDisplay
            The display itself.
        """
        ax = _drawing.new_axes(5.2, 5.4) if ax is None else ax
        first = not _drawing.models_on(ax)
        x, y = self.curve
        mark = "" if x.size > 1 else "o"  # a single median is drawn as a point
        label = _drawing.label_of(self.name, f"{_drawing.percent(self.flipped)} change class")
        style = _drawing.model_style(ax, kwargs, label=label, marker=mark, linewidth=1.6)
        limits = _drawing.free_limits(ax, _drawing.WHOLE)
        before, after = (
            np.histogram(score, EDGES)[0] / score.size for score in (self.before, self.after)
        )
        if first:
            ax.set(
                xlabel=f"Probability of {_drawing.shorten([self.event], 22)[0]}, before",
                ylabel="After",
            )
            _drawing.draw_histogram(
                ax, EDGES, [before], {"color": _drawing.ink(), "linestyle": ":"}
            )
        self.histogram_ = _drawing.draw_histogram(ax, EDGES, [after], style)
        _drawing.draw_diagonal(ax, "as before")
        self.band_: Any = None
        look: dict[str, Any] = {"color": style["color"], "lw": 0}
        if self.band is not None and x.size > 1:
            name = "90% of rows" if first else None
            self.band_ = ax.fill_between(x, *self.band, zorder=1.4, alpha=0.25, label=name, **look)
        n = self.before.size
        rows = np.linspace(0, n - 1, min(n, MAX_POINTS)).astype(np.intp)
        look |= {"s": 5, "alpha": 0.3, "zorder": 1.3, "rasterized": True}
        self.points_ = ax.scatter(self.before[rows], self.after[rows], **look)
        (self.line_,) = ax.plot(x, y, **style)
        _drawing.set_limits(ax, limits)
        return self._finish(ax)

    def _in_words(self) -> str:
        return f"{self.before.size:,} rows, {100 * self.flipped:.1f} % change their top label"

    def plot_coef(self, ax: Axes | None = None) -> Self:
        """Plot the matrix of coefficients as a heat map.

        Row k contains the coefficients of the new logit of class k. The range of the colours is
        that of the entries off the diagonal, on both sides of 0, so that these entries are visible.
        Entries on the diagonal may be outside the range.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on; None creates a figure.

        Returns
        -------
        display : CalibrationMapDisplay
            The display itself.

        Raises
        ------
        ValueError
            If the calibrator has no matrix of coefficients.
        """
        if self.coef is None or self.classes is None:
            raise ValueError(
                f"{self.name or 'the display'} has no matrix of coefficients: pass a fitted "
                "MatrixScaling or DirichletCalibrator to from_estimator."
            )
        ax = _drawing.new_axes(5.0, 4.3) if ax is None else ax
        self.ax_, self.figure_ = ax, ax.figure
        W, K = self.coef, self.classes.size
        span = float(np.abs(W[~np.eye(K, dtype=bool)]).max()) or 1.0
        # The lightness of this colour map is monotone, so that signs are visible in grey, too.
        self.image_ = ax.imshow(W, cmap="cividis", vmin=-span, vmax=span)
        extend = "max" if W.max() > span else "neither"
        self.figure_.colorbar(self.image_, ax=ax, extend=extend).set_label("Coefficient")
        if K <= WRITTEN:
            digits = int(np.clip(1 - np.floor(np.log10(span)), 2, 4))
            for (row, column), value in np.ndenumerate(W):
                text = f"{value:z.{digits}f}"
                color = "black" if value > 0 else "white"
                ax.text(column, row, text, ha="center", va="center", color=color, size=8)
        ticks = np.arange(K) if K <= LABELLED else np.linspace(0, K - 1, 6).astype(np.intp)
        for axis in (ax.xaxis, ax.yaxis):
            _drawing.name_ticks(axis, ticks, self.classes[ticks])
        ax.set(xlabel="From the score of class", ylabel="To the score of class")
        low, high = (f"{end(np.diag(W)):.2f}" for end in (np.min, np.max))
        ax.set_title(f"diagonal {low}" if low == high else f"diagonal {low} to {high}")
        return self


def stretches(score: Float64Array) -> NDArray[np.intp]:
    """Return the indices at which sorted scores are cut into groups of similar scores.

    Groups end at bars of the histogram and at parts of equal size, if they have enough rows. There
    are about sqrt(n) / 2 parts. With bars only, the many rows near 1 would be one group; with parts
    only, the few rows far from 1 would be one group.
    """
    n = score.size
    part = np.arange(n) * (1 + int(np.sqrt(n) / 2)) // n
    bar = np.searchsorted(EDGES, score)
    cuts = [0]
    for cut in np.flatnonzero((np.diff(part) > 0) | (np.diff(bar) > 0)) + 1:
        if min(cut - cuts[-1], n - cut) >= LEAST_ROWS:
            cuts.append(int(cut))
    return np.array(cuts[1:], dtype=np.intp)
