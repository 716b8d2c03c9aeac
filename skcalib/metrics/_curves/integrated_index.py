r"""The integrated calibration index: distances of the smooth calibration curve from the diagonal.

Of gaps :math:`g_c = |r(p_c) - p_c|` of cells with weights :math:`W_c`: their mean, the smallest one
that half, and nine tenths, of the weight do not exceed, and the largest.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.special import expit

from skcalib._arrays.types import Float64Array, FloatArray
from skcalib._scores.top_label import event_or_top
from skcalib._validation.keywords import check_level
from skcalib._validation.predictions import Predictions, check_predictions, takes_predictions
from skcalib.metrics._curves.cells import Cells, is_certain, place_rows
from skcalib.metrics._curves.methods import smooth_points
from skcalib.metrics._curves.smooth import Smoother
from skcalib.metrics._event import event_rows
from skcalib.metrics._intervals.cells import CellError, cells_of_rows
from skcalib.metrics._intervals.intervals import CalibrationInterval, interval_of
from skcalib.metrics._intervals.scored_rows import scored_rows
from skcalib.metrics._intervals.signs import too_few
from skcalib.metrics._listed import listed
from skcalib.metrics._resampling import Evaluation

NAMES = ("ici", "e50", "e90", "emax")
# Cells, knots and prior standard deviations of the curves of labels that are drawn for an interval:
# fewer than of a single curve, because there are two thousand.
DRAWN_CELLS, DRAWN_KNOTS, DRAWN_TAUS = 128, 10, np.geomspace(0.03, 2.0, 5)
# Rows whose curve is the limit.
MANY_ROWS = 1e7
SHARES = (0.5, 0.9)
# A sum of weights that misses a share by rounding reaches it.
ROUNDING = 1e-12


def distances(rate: Float64Array, p: Float64Array, W: Float64Array) -> Float64Array:
    """Return the four distances ``(..., 4)`` of rates ``(..., m)``."""
    gap = np.abs(rate - p)
    W = np.broadcast_to(W, gap.shape)
    total = W.sum(axis=-1, keepdims=True)
    order = np.argsort(gap, axis=-1)
    ascending = np.take_along_axis(gap, order, axis=-1)
    share = np.cumsum(np.take_along_axis(W, order, axis=-1), axis=-1) / total
    at = [(share < s - ROUNDING).sum(axis=-1, keepdims=True) for s in SHARES]
    quantiles = [np.take_along_axis(ascending, each, axis=-1) for each in at]
    mean = (W * gap).sum(axis=-1, keepdims=True) / total
    return np.concatenate([mean, *quantiles, gap.max(axis=-1, keepdims=True)], axis=-1)


def curve_rates(cells: Cells, rows: float, **drawn: Any) -> Callable[[Float64Array], Float64Array]:
    """Return the rates ``(R, m)`` of the curve as a function of shares of hits ``(R, m)``."""
    if is_certain(cells.p):
        return lambda share: share
    W = cells.W * (rows / cells.W.sum())
    smoother = Smoother(cells.x, W, **drawn)
    return lambda share: np.asarray(expit(smoother.logits(smoother.fit(W * share).theta)))


def distances_by_cells(
    predictions: Predictions,
    keywords: dict[str, Any],  # noqa: ARG001
    *,
    which: slice,
) -> CellError:
    """Return some of the distances as a function of the hits of cells.

    The limit is the distance of the curves of many more rows, of the truth and of the scores: what
    a smooth curve can show of the difference, and 0 where there is none.
    """
    w, rows = predictions.w, scored_rows(predictions)
    places = place_rows(event_or_top(predictions)[0], w, DRAWN_CELLS)
    cells = cells_of_rows(rows, places.of_row[rows.order], (1, places.W.size))
    few, many = (
        curve_rates(places, rows, n_knots=DRAWN_KNOTS, taus=DRAWN_TAUS)
        for rows in (float(w.sum()), MANY_ROWS)
    )

    def close(H: Float64Array, S: Float64Array, W: Float64Array) -> Float64Array:  # noqa: ARG001
        return distances(few(H[:, 0] / W), places.p, W)[:, which]

    def close_limit(H: Float64Array, S: Float64Array, W: Float64Array) -> Float64Array:
        total = np.maximum(W[..., 0, :], np.finfo(np.float64).tiny)
        truth, model = (many(part[..., 0, :].reshape(-1, places.p.size) / total) for part in (H, S))
        return distances(truth, model, total)[:, which]

    return CellError(cells, close, close_limit, has_excess=False)


class IntegratedCalibrationIndex(float):
    """What `integrated_calibration_index` returns: a float, the ICI, with further attributes.

    Intervals are computed when they are first used or printed. Of soft hits there are none.

    Attributes
    ----------
    ici, e50, e90, emax : float
        Mean, median, 90th percentile and largest of the distances, in [0, 1].
    frame : DataFrame
        A row for each of the four numbers, with the columns of `interval`.
    interval : CalibrationInterval
        Arrays of four numbers in the order above: ``estimate``, ``debiased``, ``low``, ``high``,
        ``expected_if_calibrated`` and ``p_value``, as of `calibration_interval`.
    confidence_level : float
        Level of the intervals.
    """

    ici: float
    e50: float
    e90: float
    emax: float
    confidence_level: float
    _distances: Float64Array
    _predictions: Predictions

    def __new__(
        cls, distances: Float64Array, predictions: Predictions, level: float
    ) -> IntegratedCalibrationIndex:
        """Keep the four numbers, and what their intervals are made of."""
        index = super().__new__(cls, distances[0])
        vars(index).update(zip(NAMES, distances.tolist(), strict=True))
        index.confidence_level = level
        index._distances, index._predictions = distances, predictions
        return index

    def __getnewargs__(self) -> tuple[Any, ...]:
        return self._distances, self._predictions, self.confidence_level

    @cached_property
    def interval(self) -> CalibrationInterval:
        """The intervals of all four numbers; a ValueError for soft hits and shares."""
        if self._predictions.are_shares:
            raise ValueError(
                "y_true has soft hits or shares, but intervals of the ICI are of outcomes 0 and 1: "
                "round y_true, or take bootstrap_interval(integrated_calibration_index, ...)."
            )
        with np.errstate(under="ignore"):
            return distance_intervals(self._predictions, self.confidence_level, random_state=0)

    @property
    def frame(self) -> pd.DataFrame:
        """A row for each of the four numbers, with their intervals, as a frame."""
        columns = {"estimate": [getattr(self, name) for name in NAMES]}
        if not self._predictions.are_shares:
            columns = self.interval._asdict()
        return pd.DataFrame(columns, index=list(NAMES))

    def __repr__(self) -> str:
        parts = [f"{name}={getattr(self, name):.4g}" for name in NAMES]
        if not (self._predictions.are_shares or too_few(self._predictions.n_clusters)):
            _, debiased, low, high, *_ = self.interval
            parts = [
                f"{part} (debiased {middle:.4g}, {start:.4g} to {end:.4g})"
                for part, middle, start, end in zip(parts, debiased, low, high, strict=True)
            ]
        if self._predictions.cluster is not None:
            parts += [f"{100 * self.confidence_level:g} %, {self._predictions.n_clusters} clusters"]
        return f"IntegratedCalibrationIndex({', '.join(parts)})"


@takes_predictions
def four_distances(_: object, predictions: Predictions) -> Float64Array:
    """Return mean, median, 90th percentile and largest of the distances ``(4,)``."""
    p, hit, w, _ = event_rows(predictions)
    cells = place_rows(p, w)
    rate = curve_rates(cells, float(w.sum()))(cells.hits(hit, w)[None] / cells.W)
    return distances(rate, cells.p, cells.W)[0]


four_distances._is_error = True  # type: ignore[attr-defined]
four_distances._by_cells = partial(distances_by_cells, which=slice(0, 4))  # type: ignore[attr-defined]


def distance_intervals(
    predictions: Predictions, level: float, random_state: Any, smooth: FloatArray | None = None
) -> CalibrationInterval:
    """Return the intervals of all four distances, for labels 0 and 1.

    The largest distance ends where the pointwise band is farthest from the diagonal: the band
    contains the truth where that is farthest, whatever its place. Labels drawn from the curve of
    the data would not do: if chance bends it towards the diagonal at the sparse end, its largest
    distance is that of the dense middle, which varies less.
    """
    evaluate = Evaluation(four_distances, {}, column=False)
    interval = interval_of(
        evaluate, predictions, level=level, random_state=random_state, smooth=smooth
    )
    high = interval.high.copy()
    points = smooth_points(event_rows(predictions), level)
    farthest = float(np.maximum(points.high - points.p, points.p - points.low).max())
    high[-1] = max(interval.low[-1], farthest)
    return interval._replace(high=high)


@listed(
    "Austin and Steyerberg 2019",
    scorer=True,
    by_cells=partial(distances_by_cells, which=slice(0, 1)),
)
def integrated_calibration_index(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    pos_label: Any = None,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    confidence_level: float = 0.95,
    clusters: Any = None,
) -> IntegratedCalibrationIndex:
    r"""Integrated calibration index (ICI): mean distance of the smooth curve from the diagonal.

    With r the smooth curve of `calibration_curve`, the distances of the rows are
    :math:`d_i = |r(s_i) - s_i|`, and

    .. math:: \mathrm{ICI} = \frac{1}{W} \sum_i w_i d_i .

    E50 and E90 are their median and their 90th percentile, Emax the largest.

    Parameters
    ----------
    y_true : array-like of shape (n,) or (n, K)
        Labels; with one column also soft hits, shares of the event in [0, 1]; or the shares of
        several raters, a column for each class.
    y_proba : array-like of shape (n, K), (n,) or (n, 1)
        Class probabilities, a column for each of the sorted labels, or of `labels` in their
        order; a frame whose columns are named by the labels is read by name. One or two columns
        give the probability of one event, `pos_label`, and are measured as that.
    pos_label : label, default=None
        The event whose probability is measured. None means 1 or True for labels {0, 1}, {-1, 1} or
        booleans; of other labels the second of two columns, while one column needs it. With more
        columns, None means the top label.
    sample_weight : array-like of shape (n,), default=None
        Non-negative weights. Integers are counts: 2 is two copies of the row. Of floats only the
        ratios matter (see "Weights" under "Valid input" in the user guide). 0 is the row's absence.
    labels : array-like of shape (K,), default=None
        Labels of the columns, in their order; needed if they cannot be inferred from `y_true`.
    confidence_level : float in (0, 1), default=0.95
        Level of the intervals.
    clusters : array-like of shape (n,), default=None
        Label of each row's cluster, such as the hospital of a patient: rows of a cluster were drawn
        together, and may go wrong together. At least 3; see "Rows that belong together" in the user
        guide. None means that rows are independent.

    Returns
    -------
    index : IntegratedCalibrationIndex
        In [0, 1]; 0 is best. A float, the ICI, with the attributes ``ici``, ``e50``, ``e90``,
        ``emax``, ``interval`` and ``frame``, a table of all four with the ends of their intervals.

    Raises
    ------
    ValueError
        If probabilities, labels, weights or keywords are invalid.

    See Also
    --------
    calibration_curve : The curve.
    calibration_interval : How intervals are made.

    Notes
    -----
    Chance moves a curve off the diagonal, so that the ICI of few rows is larger than that of many.
    The intervals and ``interval.debiased`` are for the ICI of very many rows (see
    `calibration_interval`), and may lie below the ICI of these rows. They need 6 clusters, if there
    are `clusters`. The interval of Emax ends at
    the largest distance of the curve's pointwise band from the diagonal. It never ends at 0: where
    scores are sparse, a distance cannot be excluded. Intervals take a second or two, and are
    computed when first used. They need labels 0 and 1. For soft hits, use `bootstrap_interval` of
    the ICI.

    References
    ----------
    Austin, Steyerberg (2019). The Integrated Calibration Index (ICI) and related metrics for
    quantifying the calibration of logistic regression models. Statistics in Medicine 38.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib.metrics import integrated_calibration_index
    >>> rng = np.random.default_rng(0)
    >>> p = rng.random(1000)
    >>> y = rng.random(1000) < p**2
    >>> index = integrated_calibration_index(y, p)
    >>> round(index.ici, 3), round(index.emax, 3)
    (0.151, 0.232)
    >>> index.frame.loc["ici", ["low", "high"]].round(3).tolist()
    [0.123, 0.175]
    """
    check_level(confidence_level)
    given = y_true, y_proba, sample_weight, labels, pos_label
    predictions = check_predictions(*given, soft=True, clusters=clusters)
    four = four_distances(None, predictions)
    return IntegratedCalibrationIndex(four, predictions, confidence_level)
