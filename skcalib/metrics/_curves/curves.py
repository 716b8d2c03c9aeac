"""Smooth, isotonic and binned calibration curves, with confidence bands."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq
from scipy.sparse import coo_array
from scipy.special import betaincinv, expit, ndtr, ndtri
from sklearn.isotonic import isotonic_regression

from skcalib._arrays.rowwise import Bools, Float64Array, FloatArray, Intp
from skcalib._arrays.sources import as_source
from skcalib._binning import Bins, NumberOfBins, bin_index
from skcalib._scores.scores import Scores, event_or_top, find_clip
from skcalib._validation.keywords import check_level, check_option
from skcalib._validation.rows import Predictions, check_predictions, takes_predictions
from skcalib.metrics._binned import Strategy, bin_predictions, check_bins
from skcalib.metrics._common import EventRows, design_effect, event_rows, listed, student_of_rows
from skcalib.metrics._curves.smooth import Smoother
from skcalib.metrics._intervals.interval import CalibrationInterval, interval_of
from skcalib.metrics._intervals.label_errors import CellError, cells_of_rows, sort_scores, too_few
from skcalib.metrics._resampling import Evaluation

# Intervals of proportions, and the half-width of a confidence band that covers a whole curve.
#
# Let :math:`f(x) = l(x)' Z` be a curve with independent standard normal Z, divided by its standard
# deviation. By the volume-of-tube formula, the probability that the curve leaves :math:`[-c, c]`
# anywhere is at most
#
# .. math:: \frac{\kappa}{\pi} e^{-c^2 / 2} + 2 \Phi(-c) ,
#
# where :math:`\kappa` is the length of the path of :math:`l(x) / \|l(x)\|` on the unit sphere.


LARGEST_FACTOR = 40.0


def wilson_interval(
    share: Float64Array, n: Float64Array | float, confidence_level: float
) -> tuple[Float64Array, Float64Array]:
    r"""Return both ends of Wilson's interval of a proportion, or NaN if there are no rows.

    The interval of a proportion a of n rows with confidence level :math:`1 - \alpha` is, with z the
    normal quantile of :math:`1 - \alpha / 2`,

    .. math:: \frac{1}{1 + z^2/n} \Big( a + \frac{z^2}{2n}
              \pm z \sqrt{\frac{a (1 - a)}{n} + \frac{z^2}{4 n^2}} \Big) .
    """
    z = ndtri((1 + confidence_level) / 2)
    rows = np.where(n > 0, n, np.nan)
    centre = share + z * z / (2 * rows)
    half = z * np.sqrt(share * (1 - share) / rows + (z / (2 * rows)) ** 2)
    scale = 1 + z * z / rows
    # If a proportion is 0 or 1, rounding could move the end of the interval away from 0 or 1.
    low, high = (centre - half) / scale, (centre + half) / scale
    return np.where(share == 0, 0.0 * rows, low), np.where(share == 1, 1.0 + 0.0 * rows, high)


def exact_bounds(
    H: Float64Array, W: Float64Array, tail: float
) -> tuple[Float64Array, Float64Array]:
    """Return Clopper-Pearson bounds of proportions, each wrong with probability at most `tail`."""
    misses = np.maximum(W - H, 0.0)
    low = np.where(H > 0, betaincinv(np.maximum(H, 1e-300), misses + 1.0, tail), 0.0)
    high = np.where(misses > 0, betaincinv(H + 1.0, np.maximum(misses, 1e-300), 1.0 - tail), 1.0)
    return low, high


def tube_factor(path: Float64Array, level: float) -> float:
    """Return the half-width, in standard deviations, of a band that covers a whole curve.

    `path (g, size)` contains l(x) at a sequence of points x.
    """
    length = np.linalg.norm(path, axis=1, keepdims=True)
    unit = path / np.where(length > 0, length, 1.0)
    # Angles are computed from the lengths of chords, which are precise even for small angles.
    chords = np.linalg.norm(np.diff(unit, axis=0), axis=1)
    kappa = float((2.0 * np.arcsin(np.minimum(chords / 2.0, 1.0))).sum())

    def excess(c: float) -> float:
        return kappa / np.pi * np.exp(-c * c / 2.0) + 2.0 * float(ndtr(-c)) - (1.0 - level)

    return float(brentq(excess, 0.0, LARGEST_FACTOR))


# Cells (small ranges of scores), to which a calibration curve is fitted.
#
# Each distinct score is a cell, up to `MOST_CELLS` cells. With more distinct scores, similar scores
# share a cell. Cells end at quantiles of the scores and at even steps of the logit, so that both
# the dense middle and the sparse ends of the scores have enough cells.


MOST_CELLS = 2048


class CurveCells(NamedTuple):
    """Cells (small ranges of scores) in ascending order.

    ``of_row (n,)`` contains the index of the cell of each row. ``p``, ``x`` and ``W (m,)`` contain
    the mean score, the mean logit and the weight of each cell.
    """

    of_row: Intp
    p: Float64Array
    x: Float64Array
    W: Float64Array

    def hits(self, hit: Bools, w: Float64Array) -> Float64Array:
        """Return the weight of the events in each score range."""
        return sum_by(self.of_row, w * hit)


def is_certain(p: Float64Array) -> bool:
    """Return whether every score is 0 or 1, so that no calibration curve can be fitted."""
    return bool(((p == 0) | (p == 1)).all())


def sum_by(cell: NDArray[np.integer], amounts: Float64Array) -> Float64Array:
    """Sum the amounts of the rows in each cell (score range); no cell may be empty."""
    return np.asarray(np.bincount(cell, amounts), dtype=np.float64)


def place_rows(score: FloatArray, w: Float64Array, most: int = MOST_CELLS) -> CurveCells:
    """Divide rows into at most `most` cells of similar scores."""
    distinct, of_row = np.unique(score.astype(np.float64), return_inverse=True)
    both = Scores(as_source(np.column_stack([1.0 - distinct, distinct])), "proba")
    least_rest, least = np.broadcast_to(find_clip(both)[0], 2)
    rest = np.clip(1.0 - distinct, least_rest, 1.0 - least)
    x = np.log(np.clip(distinct, least, 1.0 - least_rest)) - np.log(rest)
    W = sum_by(of_row, w)
    cell = join(x, W, most)
    total = sum_by(cell, W)
    p = distinct
    if cell.size > total.size:  # with equal sizes, each cell has exactly one score
        p, x = (sum_by(cell, W * values) / total for values in (distinct, x))
    return CurveCells(cell[of_row], p, x, total)


def join(x: Float64Array, W: Float64Array, most: int) -> Intp:
    """Assign each of the ascending logits ``(d,)`` to one of at most `most` cells."""
    if x.size <= most:
        return np.arange(x.size)
    share = (np.cumsum(W) - W / 2) / W.sum()
    along = (x - x[0]) / (x[-1] - x[0])
    steps = [np.minimum(part * (most // 2), most // 2 - 1) // 1 for part in (share, along)]
    starts = np.any(np.diff(steps, axis=1) > 0, axis=0)
    return np.concatenate([[0], np.cumsum(starts)])


# Points of calibration curves and their confidence bands, for each method.
#
# The band of the isotonic curve covers every increasing true curve. If the true rate increases with
# the score, the rate at x is at most the rate of any run of rows with scores :math:`\ge x`, and at
# least the rate of any run of rows with scores :math:`\le x`. So Clopper-Pearson bounds of the
# rates of runs are bounds of the curve at x. Runs begin or end at x and have 1, 2, 4, ... cells.
# With L such lengths, each bound has the error probability :math:`\alpha / 2L`. For the whole
# curve, runs begin at any of m cells, and the error probability is :math:`\alpha / 2Lm`.
# Dimitriadis et al. (2023) use all runs instead.


# A smooth curve has a point at each distinct score, if there are at most `METHOD_POINTS` scores.
# Otherwise it has 34 points at quantiles of the scores, 34 at equal distances of the score, and 34
# at equal distances of the logit.
METHOD_POINTS, POINTS_EACH = 100, 34
# The fraction of the rows in each local fit of lowess, and the distance between two fits as a
# fraction of the range of scores. Both are as in the R package rms.
SPAN, STEP = 2 / 3, 0.01


# Lower bound of the variance of any linear combination of curve coefficients.
LEAST_VARIANCE = 1e-12
# The isotonic band uses runs of neighbouring cells (ranges of scores), with at most this number of
# cells in total.
BAND_CELLS = 512
# Type of a pair of arrays: lower and upper bounds of event rates.
Bounds = tuple[Float64Array, Float64Array]


class Points(NamedTuple):
    """Points of a calibration curve by ascending score, with pointwise and simultaneous bands."""

    p: Float64Array
    rate: Float64Array
    low: Float64Array
    high: Float64Array
    low_simultaneous: Float64Array
    high_simultaneous: Float64Array


def covariance_of_clusters(
    rows: EventRows, cells: CurveCells, X: Float64Array, q: Float64Array, S: Float64Array
) -> Float64Array:
    """Return the covariance of the coefficients of a curve for dependent rows in clusters.

    S is the covariance for independent rows. The sums of the scores over clusters add
    ``S (meat - information) S`` in the directions in which this matrix is positive.
    """
    hit, w, cluster = rows.hit, rows.w, rows.cluster
    at = cells.of_row
    scores = coo_array((w * (hit - q[at]), (cluster, at))) @ X
    C = len(scores)
    meat = scores.T @ scores * C / (C - 1) - (X.T * (cells.W * q * (1 - q))) @ X
    values, vectors = np.linalg.eigh(S + S @ meat @ S)
    return np.asarray((vectors * np.maximum(values, LEAST_VARIANCE)) @ vectors.T)


def smooth_points(rows: EventRows, level: float) -> Points:
    """Return the points of the smooth calibration curve, with confidence bands."""
    cells = place_rows(rows.p, rows.w)
    H = cells.hits(rows.hit, rows.w)
    if is_certain(cells.p):
        return points_of_shares(cells, H / cells.W, level, rows)
    smoother = Smoother(cells.x, cells.W)
    fitted = smoother.fit(H[None])
    p = choose_points(cells)
    x = np.interp(p, cells.p, cells.x)
    theta, covariance = fitted.theta[0], fitted.covariance[0]
    X = smoother.basis.columns(x)
    eta = x + X @ theta
    bands, z = [], float(ndtri((1 + level) / 2))
    for factor in (z, tube_factor(X @ np.linalg.cholesky(covariance), level)):
        fall, rise = smoother.spread(theta, covariance, x, factor)
        bands += [(eta - fall, eta + rise)]
    if rows.cluster is not None:
        q = expit(smoother.logits(theta))
        V = covariance_of_clusters(rows, cells, smoother.X, q, covariance)
        sd = np.sqrt(np.maximum(*(np.einsum("gj,jk,gk->g", X, S, X) for S in (covariance, V))))
        t = student_of_rows(rows, level)
        factors = t, t / z * tube_factor(X @ np.linalg.cholesky(V), level)
        bands = [
            (np.minimum(low, eta - factor * sd), np.maximum(high, eta + factor * sd))
            for (low, high), factor in zip(bands, factors, strict=True)
        ]
    return Points(p, expit(eta), *(expit(end) for band in bands for end in band))


def choose_points(cells: CurveCells) -> Float64Array:
    """Return the scores at which a calibration curve has points."""
    _, p, x, W = cells
    if p.size <= METHOD_POINTS:
        return p
    share = (np.cumsum(W) - W / 2) / W.sum()
    along = np.linspace(0.0, 1.0, POINTS_EACH)
    even, by_logit = (np.interp(along, (v - v[0]) / (v[-1] - v[0]), p) for v in (p, x))
    return np.unique(np.concatenate([np.interp(along, share, p), even, by_logit]))


def points_of_shares(
    cells: CurveCells, share: Float64Array, level: float, rows: EventRows | None
) -> Points:
    """Return event rates of score ranges with Wilson's intervals; `rows` has any clusters."""
    cell, p, _, W = cells
    bands: list[Float64Array] = []
    for c in (level, 1.0 - (1.0 - level) / p.size):
        fewer = 1.0 if rows is None else design_effect(rows, rows.hit - share[cell], c, cell)
        bands += wilson_interval(share, W / fewer, c)
    return Points(p, share, *bands)


def binned_points(
    predictions: Predictions, bins: Bins, level: float
) -> tuple[Points, Float64Array]:
    """Return the points of the binned calibration curve, and the weight of each bin."""
    table, _ = bin_predictions(predictions, bins)
    full = table.weight[0] > 0
    p, share, W = (part[0][full] for part in (table.confidence, table.accuracy, table.weight))
    rows, cell = None, np.arange(p.size)
    if predictions.cluster is not None:
        rows = event_rows(predictions)
        score, _ = event_or_top(predictions)  # scores must have the dtype of the bin edges
        index = bin_index(score, table.left[0, 1:], bins.resolve(predictions.w))
        cell = (np.cumsum(full) - 1)[index]
    return points_of_shares(CurveCells(cell, p, p, W), share, level, rows), W


def rising_points(rows: EventRows, level: float) -> Points:
    """Return the points of the isotonic calibration curve, with confidence bands."""
    cells = place_rows(rows.p, rows.w, rows.p.size)
    H = cells.hits(rows.hit, rows.w)
    fitted = isotonic_regression(H / cells.W, sample_weight=cells.W, y_min=0.0, y_max=1.0)
    new = np.diff(fitted) != 0
    # Points are at both ends of each constant section of the curve.
    is_end = np.append(new, True) | np.append(True, new)
    ends, rate = cells.p[is_end], fitted[is_end]
    cell = join(cells.x, cells.W, BAND_CELLS)
    fewer = design_effect(rows, rows.hit - fitted[cells.of_row], level)
    W, H = (sum_by(cell, part) / fewer for part in (cells.W, H))
    at = np.searchsorted(cells.p, ends)
    point, whole = (bounds_at(at, cell, runs) for runs in bounds_by_runs(W, H, level))
    low, high = np.minimum(point[0], rate), np.maximum(point[1], rate)
    return Points(ends, rate, low, high, np.minimum(whole[0], low), np.maximum(whole[1], high))


def bounds_by_runs(W: Float64Array, H: Float64Array, level: float) -> tuple[Bounds, Bounds]:
    """Return pointwise and simultaneous bounds of an increasing curve, by runs of score ranges."""
    m = W.size
    lengths = 2 ** np.arange(int(np.log2(m)) + 1)
    rows, hits = (np.concatenate([[0.0], np.cumsum(part)]) for part in (W, H))
    both = []
    for n_runs in (lengths.size, lengths.size * m):
        low, high = np.zeros(m), np.ones(m)
        for length in lengths:
            in_run = rows[length:] - rows[:-length]
            of_run = np.clip(hits[length:] - hits[:-length], 0.0, in_run)
            at_least, at_most = exact_bounds(of_run, in_run, (1.0 - level) / (2.0 * n_runs))
            low[length - 1 :] = np.maximum(low[length - 1 :], at_least)
            high[: m - length + 1] = np.minimum(high[: m - length + 1], at_most)
        both.append((low, high))
    point, (low, high) = both
    # The true curve increases, so a simultaneous lower bound for one range of scores also holds for
    # all higher scores.
    return point, (np.maximum.accumulate(low), np.minimum.accumulate(high[::-1])[::-1])


def bounds_at(at: NDArray[np.intp], cell: NDArray[np.intp], runs: Bounds) -> Bounds:
    """Return bounds of a curve at distinct scores, from the bounds at the ranges around them."""
    edge = np.concatenate([[True], np.diff(cell) > 0, [True]])
    first, last = edge[at], edge[at + 1]
    low = np.concatenate([[0.0], runs[0]])[cell[at] + last]
    high = np.concatenate([runs[1], [1.0]])[cell[at] + ~first]
    return low, high


def lowess_points(rows: EventRows, _: float) -> Points:
    """Return the points of the lowess curve of statsmodels, which has no confidence bands."""
    try:
        from statsmodels.nonparametric.smoothers_lowess import lowess
    except ImportError as error:
        raise ImportError(
            "method='lowess' needs statsmodels: install it with `pip install statsmodels`, or use "
            "method='smooth'."
        ) from error
    if np.ptp(rows.w) > 0:
        raise ValueError(
            "method='lowess' takes no sample_weight, because statsmodels has no weights: use "
            "method='smooth'."
        )
    order = np.lexsort((rows.hit, rows.p))
    p, t = rows.p[order], rows.hit[order].astype(np.float64)
    delta = STEP * float(p[-1] - p[0])
    fitted = lowess(t, p, frac=SPAN, it=0, delta=delta, is_sorted=True, return_sorted=False)
    points = choose_points(place_rows(p, np.ones(p.size)))
    rate = np.clip(np.interp(points, p, fitted), 0.0, 1.0)
    unknown = np.full(points.size, np.nan)
    return Points(points, rate, unknown, unknown, unknown, unknown)


# The public function for calibration curves, and the class of its result.


POINTS = {"smooth": smooth_points, "isotonic": rising_points, "lowess": lowess_points}


@dataclass(frozen=True, eq=False, repr=False)
class CalibrationCurve:
    """Result of `calibration_curve`: the points of a curve in ascending order of the score.

    The result unpacks to ``prob_true, prob_pred``, like the result of scikit-learn's function.

    Attributes
    ----------
    prob_pred : ndarray of shape (g,)
        Predicted probabilities, in [0, 1].
    prob_true : ndarray of shape (g,)
        Rates of the event at these probabilities, in [0, 1].
    low, high : ndarray of shape (g,)
        Pointwise band: a confidence interval of each rate.
    low_simultaneous, high_simultaneous : ndarray of shape (g,)
        Simultaneous band: a confidence band of the whole curve.
    weight : ndarray of shape (g,)
        Weight of the rows in each bin, or, for other methods, of the rows that are nearest to each
        point.
    method : str
        The method.
    confidence_level : float
        Level of both bands.
    n_clusters : int or None
        Number of clusters; None if rows are independent.
    """

    prob_pred: Float64Array
    prob_true: Float64Array
    low: Float64Array
    high: Float64Array
    low_simultaneous: Float64Array
    high_simultaneous: Float64Array
    weight: Float64Array
    method: str
    confidence_level: float
    n_clusters: int | None = None

    @property
    def frame(self) -> pd.DataFrame:
        """Points of the curve as a table: a column for each array and a row for each point."""
        return pd.DataFrame(
            {name: part for name, part in vars(self).items() if isinstance(part, np.ndarray)}
        )

    def __iter__(self) -> Iterator[Float64Array]:
        return iter((self.prob_true, self.prob_pred))

    def __repr__(self) -> str:
        p, rate = self.prob_pred, self.prob_true
        clusters = "" if self.n_clusters is None else f", {self.n_clusters} clusters"
        return (
            f"CalibrationCurve(method={self.method!r}, {p.size} points, "
            f"prob_pred {p[0]:.3g} to {p[-1]:.3g}, "
            f"prob_true {rate.min():.3g} to {rate.max():.3g}, "
            f"confidence_level={self.confidence_level:g}{clusters})"
        )


@listed("Austin and Steyerberg 2014; Dimitriadis et al. 2021")
def calibration_curve(
    y_true: ArrayLike,
    y_proba: ArrayLike | None = None,
    *,
    method: Literal["smooth", "isotonic", "bins", "lowess"] | None = None,
    confidence_level: float = 0.95,
    n_bins: NumberOfBins | None = None,
    strategy: Strategy | None = None,
    pos_label: Any = None,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    clusters: Any = None,
    y_prob: ArrayLike | None = None,
) -> CalibrationCurve:
    r"""Rate of an event as a function of its predicted probability, with confidence bands.

    With :math:`x = \log (p / (1 - p))`, the method "smooth" fits

    .. math:: \log \frac{r(p)}{1 - r(p)} = x + a + b x + s(x),

    where s is a natural cubic spline with 16 knots and a penalty on its curvature. The penalty is
    estimated from the labels, and the bands include the uncertainty of the penalty.

    ``prob_true, prob_pred = calibration_curve(y, p, n_bins=10)`` returns the same two arrays as
    the function of scikit-learn with this name.

    Parameters
    ----------
    y_true : array-like of shape (n,) or (n, K)
        Labels, or the fractions of raters who chose each class, with a column for each class. With
        one column of probabilities, also soft labels in [0, 1].
    y_proba : array-like of shape (n, K), (n,) or (n, 1)
        Class probabilities, with a column for each of the sorted labels, or of `labels` in their
        order. Columns of a frame that are named after the labels are read by name. One or two
        columns give the probability of the event `pos_label`, which is measured.
    method : {"smooth", "isotonic", "bins", "lowess"}, default=None
        None means "bins" if `n_bins` or `strategy` is given, otherwise "smooth".

        * "smooth": the logistic spline above.
        * "isotonic": the increasing step function with the smallest squared error (pool adjacent
          violators), as in CORP reliability diagrams. Points are both ends of each step.
        * "bins": the event rate of each bin that has rows.
        * "lowess": local linear regression by statsmodels, as in R's ``val.prob``. Its bands are
          NaN, and it does not support weights.
    confidence_level : float in (0, 1), default=0.95
        Level of both bands.
    n_bins : int or "cube_root", default=None
        Number of bins for "bins". "cube_root" is the cube root of the number of rows, rounded
        up. None means 15.
    strategy : {"uniform", "quantile"}, default=None
        Bins of equal width or of equal weight for "bins". None means "uniform" if `n_bins` is
        given, otherwise "quantile". If `n_bins` is given, the edges of quantile bins are those of
        scikit-learn (``quantile_method="linear"`` of `general_calibration_error`). Otherwise edges
        are scores (``quantile_method="edges"``).
    pos_label : label, default=None
        Label of the event whose probability is the score. None means 1 or True for labels {0, 1},
        {-1, 1} or booleans. For other labels, None means the second of two columns, and one column
        needs `pos_label`. With more columns, None means the top label.
    sample_weight : array-like of shape (n,), default=None
        Non-negative weights. Integers are counts: 2 is two copies of the row. Of floats only the
        ratios matter (see "Weights" under "Valid input" in the user guide). 0 is the row's absence.
    labels : array-like of shape (K,), default=None
        Labels of the columns, in their order; needed if they cannot be inferred from `y_true`.
    clusters : array-like of shape (n,), default=None
        Cluster of each row, such as the hospital of a patient, if rows of one cluster are
        dependent. At least 3 clusters are needed; see "Dependent rows" in the user guide. None
        means that rows are independent.
    y_prob : array-like of shape (n, K), (n,) or (n, 1), default=None
        Name of `y_proba` in scikit-learn. Pass either `y_proba` or `y_prob`.

    Returns
    -------
    curve : CalibrationCurve
        Arrays ``prob_pred``, ``prob_true``, ``low``, ``high``, ``low_simultaneous``,
        ``high_simultaneous`` and ``weight`` of shape (g,), with g points in ascending order of the
        score. ``frame`` contains these arrays as columns. Between points, the curve is linear:
        ``np.interp(p, curve.prob_pred, curve.prob_true)``.

    Raises
    ------
    ValueError
        If probabilities, labels, weights or keywords are invalid, if weights are passed for
        "lowess", or if `n_bins` or `strategy` are passed for a method other than "bins".
    ImportError
        If statsmodels is not installed, for "lowess".

    See Also
    --------
    integrated_calibration_index : Mean distance of the smooth curve from the diagonal.
    reliability_table : The bins of a reliability diagram.
    skcalib.plotting.ReliabilityDisplay : A plot of the curve.

    Notes
    -----
    The pointwise band contains the true rate at 95 % of the scores. The simultaneous band contains
    the whole true curve in 95 % of samples.

    "smooth": the bands are those of a normal posterior of the logit of the curve, averaged over
    the penalty. The volume-of-tube formula widens the simultaneous band. ``python -m
    benchmarks.coverage bands`` measures the coverage, with a table under "How often intervals
    cover". Intercept and slope have a weak prior (standard deviation 5), which keeps the curve
    finite if no row or every row has the event. An exact 0 counts as half the smallest probability
    above 0 among the rows, and 1 likewise. If no score is between 0 and 1, rates are proportions of
    events. With more than 2,048 distinct scores, similar scores are joined for the fit.

    "isotonic": the bands cover every increasing curve, for any n. The bound at a score is the
    narrowest Clopper-Pearson bound of all runs of rows that end or begin at this score, corrected
    for the number of runs. The bands are wider than those of "smooth", and need not cover a curve
    that decreases anywhere.

    "bins": the bands are Wilson's intervals of the rate of each bin, which is the mean rate of the
    rows in the bin. The simultaneous band has Bonferroni's correction.

    With `clusters`, the bands of "smooth" also contain symmetric bands with quantiles of Student's
    t and the covariance S + S (M - I) S of the coefficients. S is the covariance for independent
    rows, M the covariance of the sums of the scores over clusters, and I the information. For
    "isotonic" and "bins", the number of rows is divided by the design effect of the residuals.

    For soft labels, the bands are those of the same number of outcomes 0 and 1. Soft labels with
    the same mean vary less, so these bands are wider than necessary.

    References
    ----------
    Austin, Steyerberg (2014). Graphical assessment of internal and external calibration of logistic
    regression models by using loess smoothers. Statistics in Medicine 33.

    Dimitriadis, Gneiting, Jordan (2021). Stable reliability diagrams for probabilistic classifiers.
    PNAS 118.

    Dimitriadis, Duembgen, Henzi, Puke, Ziegel (2023). Honest calibration assessment for binary
    outcome predictions. Biometrika 110.

    Marra, Wood (2012). Coverage properties of confidence intervals for generalized additive model
    components. Scandinavian Journal of Statistics 39.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib.metrics import calibration_curve
    >>> rng = np.random.default_rng(0)
    >>> p = rng.beta(1, 20, size=5000)
    >>> y = rng.random(5000) < 0.5 * p
    >>> curve = calibration_curve(y, p)
    >>> curve  # doctest: +NORMALIZE_WHITESPACE
    CalibrationCurve(method='smooth', 98 points, prob_pred 1.2e-05 to 0.433,
                     prob_true 1.16e-06 to 0.0785, confidence_level=0.95)
    >>> at = [0.01, 0.1]  # the true rates are 0.005 and 0.05
    >>> [np.interp(at, curve.prob_pred, end).round(3).tolist() for end in (curve.low, curve.high)]
    [[0.002, 0.037], [0.009, 0.065]]
    """
    if y_proba is not None and y_prob is not None:
        raise ValueError("y_prob is another name of y_proba: pass one of them, not both.")
    proba: Any = y_proba if y_prob is None else y_prob
    has_bins = n_bins is not None or strategy is not None
    if method is None:
        method = "bins" if has_bins else "smooth"
    check_option("method", method, ("smooth", "isotonic", "bins", "lowess"))
    if has_bins and method != "bins":
        raise ValueError(
            f"method={method!r} has no bins: pass method='bins', or neither n_bins nor strategy."
        )
    check_level(confidence_level)
    if strategy is None:
        strategy = "quantile" if n_bins is None else "uniform"
    cuts = "edges" if n_bins is None else "linear"
    bins = check_bins(15 if n_bins is None else n_bins, strategy, quantile_method=cuts)
    predictions = check_predictions(
        y_true, proba, sample_weight, labels, pos_label, soft=True, clusters=clusters
    )
    with np.errstate(under="ignore"):
        if method == "bins":
            points, weight = binned_points(predictions, bins, confidence_level)
        else:
            rows = event_rows(predictions)
            points = POINTS[method](rows, confidence_level)
            # The weight of a point is the weight of the rows whose scores are nearest to the point.
            nearest = np.searchsorted((points.p[1:] + points.p[:-1]) / 2, rows.p)
            weight = np.bincount(nearest, rows.w, points.p.size).astype(np.float64)
    return CalibrationCurve(*points, weight, method, confidence_level, predictions.n_clusters)


# The integrated calibration index (ICI): distances of the smooth calibration curve from the
# diagonal.
#
# The cells have distances :math:`g_c = |r(p_c) - p_c|` and weights :math:`W_c`. ICI is the mean
# distance, E50 and E90 are the quantiles 0.5 and 0.9, and Emax is the largest distance.


NAMES = ("ici", "e50", "e90", "emax")
# Numbers of cells and knots, and prior standard deviations, for curves that are fitted to simulated
# labels. The numbers are smaller than for a single curve, because an interval needs two thousand
# fits.
DRAWN_CELLS, DRAWN_KNOTS, DRAWN_TAUS = 128, 10, np.geomspace(0.03, 2.0, 5)
# The limit of the ICI for many rows is computed from a curve for this number of rows.
MANY_ROWS = 1e7
SHARES = (0.5, 0.9)
# Tolerance of cumulative weights, so that rounding errors do not change quantiles of distances.
ROUNDING = 1e-12


def distances(rate: Float64Array, p: Float64Array, W: Float64Array) -> Float64Array:
    """Return mean, median, 90th percentile and maximum of the distances from the diagonal."""
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


def curve_rates(
    cells: CurveCells, rows: float, **drawn: Any
) -> Callable[[Float64Array], Float64Array]:
    """Return a function that fits calibration curves to event rates ``(R, m)`` of score ranges."""
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
    """Return ICI, E50, E90 or Emax as functions of the event counts in score ranges.

    The limit for many rows is the distance between two smooth curves with many more rows: the curve
    of the true probabilities and the curve of the scores. It is 0 if the scores are calibrated.
    """
    w, rows = predictions.w, sort_scores(predictions)
    places = place_rows(event_or_top(predictions)[0], w, DRAWN_CELLS)
    cells = cells_of_rows(rows, places.of_row[rows.order], (1, places.W.size))
    few, many = (
        curve_rates(places, rows, n_knots=DRAWN_KNOTS, taus=DRAWN_TAUS)
        for rows in (float(w.sum()), MANY_ROWS)
    )

    def error_of_table(H: Float64Array, S: Float64Array, W: Float64Array) -> Float64Array:  # noqa: ARG001
        return distances(few(H[:, 0] / W), places.p, W)[:, which]

    def limit_of_table(H: Float64Array, S: Float64Array, W: Float64Array) -> Float64Array:
        total = np.maximum(W[..., 0, :], np.finfo(np.float64).tiny)
        truth, model = (many(part[..., 0, :].reshape(-1, places.p.size) / total) for part in (H, S))
        return distances(truth, model, total)[:, which]

    error = CellError(cells, error_of_table, limit_of_table)
    error.has_excess = False  # the jackknife does not estimate the bias of quantiles
    return error


class IntegratedCalibrationIndex(float):
    """Result of `integrated_calibration_index`: the ICI as a float, with further attributes.

    Intervals are computed when they are first used or printed. Soft labels have no intervals.

    Attributes
    ----------
    ici, e50, e90, emax : float
        Mean, median, 90th percentile and largest distance, in [0, 1].
    frame : DataFrame
        A row for each of the four numbers, with the columns of `interval`.
    interval : CalibrationInterval
        Arrays of four numbers in the order above: ``estimate``, ``debiased``, ``low``, ``high``,
        ``expected_if_calibrated`` and ``p_value``, as in `calibration_interval`.
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
        """Create a float with the value of the ICI, and store the data for its intervals."""
        index = super().__new__(cls, distances[0])
        vars(index).update(zip(NAMES, distances.tolist(), strict=True))
        index.confidence_level = level
        index._distances, index._predictions = distances, predictions
        return index

    def __getnewargs__(self) -> tuple[Any, ...]:
        return self._distances, self._predictions, self.confidence_level

    @cached_property
    def interval(self) -> CalibrationInterval:
        """Intervals of ICI, E50, E90 and Emax; soft labels raise a ValueError."""
        if self._predictions.are_shares:
            raise ValueError(
                "y_true contains soft labels, but intervals of the ICI need outcomes 0 and 1: "
                "round y_true, or use bootstrap_interval(integrated_calibration_index, ...)."
            )
        with np.errstate(under="ignore"):
            return distance_intervals(self._predictions, self.confidence_level, random_state=0)

    @property
    def frame(self) -> pd.DataFrame:
        """Table with a row for each of ICI, E50, E90 and Emax, and with their intervals."""
        columns = {"estimate": [getattr(self, name) for name in NAMES]}
        if not self._predictions.are_shares:
            columns = self.interval._asdict()
        return pd.DataFrame(columns, index=list(NAMES))

    def __repr__(self) -> str:
        parts = [f"{name}={getattr(self, name):.4g}" for name in NAMES]
        if not (self._predictions.are_shares or too_few(self._predictions.n_clusters)):
            ci = self.interval
            parts = [
                f"{part} (debiased {value:.4g}, {low:.4g} to {high:.4g})"
                for part, value, low, high in zip(parts, ci.debiased, ci.low, ci.high, strict=True)
            ]
        if self._predictions.cluster is not None:
            parts += [f"{100 * self.confidence_level:g} %, {self._predictions.n_clusters} clusters"]
        return f"IntegratedCalibrationIndex({', '.join(parts)})"


@takes_predictions
def four_distances(_: object, predictions: Predictions) -> Float64Array:
    """Return ICI, E50, E90 and Emax: mean, quantiles and maximum of the curve's distances."""
    rows = event_rows(predictions)
    cells = place_rows(rows.p, rows.w)
    rate = curve_rates(cells, float(rows.w.sum()))(cells.hits(rows.hit, rows.w)[None] / cells.W)
    return distances(rate, cells.p, cells.W)[0]


four_distances._is_error = True  # type: ignore[attr-defined]
four_distances._by_cells = partial(distances_by_cells, which=slice(0, 4))  # type: ignore[attr-defined]


def distance_intervals(
    predictions: Predictions, level: float, random_state: Any, smooth: FloatArray | None = None
) -> CalibrationInterval:
    """Return the intervals of ICI, E50, E90 and Emax, for labels 0 and 1.

    The interval of Emax ends at the largest distance of the pointwise band from the diagonal,
    because the band contains the true curve at the point where it is farthest from the diagonal.
    Labels that are drawn from the observed curve would give too low an end. If the observed curve
    is randomly close to the diagonal where scores are sparse, its largest distance is in the dense
    middle, where the distance varies less.
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

    E50 and E90 are the median and the 90th percentile of the distances, Emax is the largest.

    Parameters
    ----------
    y_true : array-like of shape (n,) or (n, K)
        Labels, or the fractions of raters who chose each class, with a column for each class. With
        one column of probabilities, also soft labels in [0, 1].
    y_proba : array-like of shape (n, K), (n,) or (n, 1)
        Class probabilities, with a column for each of the sorted labels, or of `labels` in their
        order. Columns of a frame that are named after the labels are read by name. One or two
        columns give the probability of the event `pos_label`, which is measured.
    pos_label : label, default=None
        Label of the event whose probability is measured. None means 1 or True for labels {0, 1},
        {-1, 1} or booleans. For other labels, None means the second of two columns, and one column
        needs `pos_label`. With more columns, None means the top label.
    sample_weight : array-like of shape (n,), default=None
        Non-negative weights. Integers are counts: 2 is two copies of the row. Of floats only the
        ratios matter (see "Weights" under "Valid input" in the user guide). 0 is the row's absence.
    labels : array-like of shape (K,), default=None
        Labels of the columns, in their order; needed if they cannot be inferred from `y_true`.
    confidence_level : float in (0, 1), default=0.95
        Level of the intervals.
    clusters : array-like of shape (n,), default=None
        Cluster of each row, such as the hospital of a patient, if rows of one cluster are
        dependent. At least 3 clusters are needed; see "Dependent rows" in the user guide. None
        means that rows are independent.

    Returns
    -------
    index : IntegratedCalibrationIndex
        In [0, 1]; 0 is best. The ICI as a float, with the attributes ``ici``, ``e50``, ``e90``,
        ``emax``, ``interval``, and ``frame``, a table of all four numbers with their intervals.

    Raises
    ------
    ValueError
        If probabilities, labels, weights or keywords are invalid.

    See Also
    --------
    calibration_curve : The smooth curve.
    calibration_interval : The method of the intervals.

    Notes
    -----
    Random deviations move the curve away from the diagonal, so that the ICI has a small-sample
    bias. The intervals and ``interval.debiased`` describe the ICI of very many rows (see
    `calibration_interval`), and may be below the ICI of these rows. With `clusters`, intervals need
    6 clusters. The interval of Emax ends at the largest distance of the pointwise band from the
    diagonal. It never ends at 0, because a distance cannot be excluded where scores are sparse.
    Intervals take a second or two, and are computed when they are first used. They need labels 0
    and 1: for soft labels, use `bootstrap_interval` with the ICI.

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
    predictions = check_predictions(
        y_true, y_proba, sample_weight, labels, pos_label, soft=True, clusters=clusters
    )
    four = four_distances(None, predictions)
    return IntegratedCalibrationIndex(four, predictions, confidence_level)
