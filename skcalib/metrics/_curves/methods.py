r"""The points of a calibration curve and their bands, by each method.

The rising curve (isotonic regression) has a band that covers every rising truth. If the true rate
rises with the score, it is at most the rate of any run of rows with scores :math:`\ge x`, and at
least that of any run with scores :math:`\le x`. Clopper and Pearson's bounds of the runs' rates are
therefore bounds of the curve at x. Runs begin, or end, at x and have 1, 2, 4, ... cells; with L
such lengths each bound has the tail :math:`\alpha / 2L`. For the whole curve, runs begin at any of
m cells, and the tail is :math:`\alpha / 2Lm`. The idea, with all runs in place of these, is that of
Dimitriadis et al. (2023).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.special import expit, ndtri
from sklearn.isotonic import isotonic_regression

from skcalib._arrays.types import Float64Array
from skcalib._binning.bins import Bins
from skcalib._binning.quantiles import bin_index
from skcalib._scores.top_label import event_or_top
from skcalib._validation.predictions import Predictions
from skcalib.metrics._clusters import design_effect, student_of_rows
from skcalib.metrics._curves.bands import exact_bounds, tube_factor, wilson_interval
from skcalib.metrics._curves.cells import Cells, is_certain, join, place_rows, sum_by
from skcalib.metrics._curves.smooth import Smoother
from skcalib.metrics._errors.binned import bin_predictions
from skcalib.metrics._event import EventRows, event_rows

# Up to this many distinct scores, a smooth curve is given at each of them; of more, at as many
# points: quantiles of the scores, and points evenly spaced, also on the scale of logits.
POINTS, POINTS_EACH = 100, 34
# Share of the rows in each local fit, and of the range of the scores within which its result is
# interpolated: those of lowess in R's rms.
SPAN, STEP = 2 / 3, 0.01


# The least variance of a direction of coefficients.
LEAST_VARIANCE = 1e-12
# Runs are made of no more cells.
BAND_CELLS = 512
# Lower and upper bounds of rates.
Bounds = tuple[Float64Array, Float64Array]


class Points(NamedTuple):
    """Scores in ascending order, rates, and both bands; ``(g,)``."""

    p: Float64Array
    rate: Float64Array
    low: Float64Array
    high: Float64Array
    low_simultaneous: Float64Array
    high_simultaneous: Float64Array


def covariance_of_clusters(
    rows: EventRows, cells: Cells, X: Float64Array, q: Float64Array, S: Float64Array
) -> Float64Array:
    """Return the covariance of a curve's coefficients, S if rows were independent.

    The sums of the scores over clusters add ``S (meat - information) S`` where that is positive.
    """
    _, hit, w, cluster = rows
    at = cells.of_row
    scores = coo_array((w * (hit - q[at]), (cluster, at))) @ X
    C = len(scores)
    meat = scores.T @ scores * C / (C - 1) - (X.T * (cells.W * q * (1 - q))) @ X
    values, vectors = np.linalg.eigh(S + S @ meat @ S)
    return np.asarray((vectors * np.maximum(values, LEAST_VARIANCE)) @ vectors.T)


def smooth_points(rows: EventRows, level: float) -> Points:
    """Return the smooth curve of the hits of rows."""
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


def choose_points(cells: Cells) -> Float64Array:
    """Return the scores at which a curve is given."""
    _, p, x, W = cells
    if p.size <= POINTS:
        return p
    share = (np.cumsum(W) - W / 2) / W.sum()
    along = np.linspace(0.0, 1.0, POINTS_EACH)
    even, by_logit = (np.interp(along, (v - v[0]) / (v[-1] - v[0]), p) for v in (p, x))
    return np.unique(np.concatenate([np.interp(along, share, p), even, by_logit]))


def points_of_shares(
    cells: Cells, share: Float64Array, level: float, rows: EventRows | None
) -> Points:
    """Return shares of hits of cells, with Wilson's intervals; `rows` are needed in clusters."""
    cell, p, _, W = cells
    bands: list[Float64Array] = []
    for c in (level, 1.0 - (1.0 - level) / p.size):
        fewer = 1.0 if rows is None else design_effect(rows, rows.hit - share[cell], c, cell)
        bands += wilson_interval(share, W / fewer, c)
    return Points(p, share, *bands)


def binned_points(
    predictions: Predictions, bins: Bins, level: float
) -> tuple[Points, Float64Array]:
    """Return the bins that have rows, and their weights."""
    table, _ = bin_predictions(predictions, bins)
    full = table.weight[0] > 0
    p, share, W = (part[0][full] for part in (table.confidence, table.accuracy, table.weight))
    rows, cell = None, np.arange(p.size)
    if predictions.cluster is not None:
        rows = event_rows(predictions)
        score, _ = event_or_top(predictions)  # of its type, as of the table
        index = bin_index(score, table.left[0, 1:], bins.of_rows(predictions.w))
        cell = (np.cumsum(full) - 1)[index]
    return points_of_shares(Cells(cell, p, p, W), share, level, rows), W


def rising_points(rows: EventRows, level: float) -> Points:
    """Return the isotonic curve of the hits of rows."""
    cells = place_rows(rows.p, rows.w, rows.p.size)
    H = cells.hits(rows.hit, rows.w)
    fitted = isotonic_regression(H / cells.W, sample_weight=cells.W, y_min=0.0, y_max=1.0)
    new = np.diff(fitted) != 0
    is_end = np.append(new, True) | np.append(True, new)  # both ends of each constant piece
    ends, rate = cells.p[is_end], fitted[is_end]
    cell = join(cells.x, cells.W, BAND_CELLS)
    fewer = design_effect(rows, rows.hit - fitted[cells.of_row], level)
    W, H = (sum_by(cell, part) / fewer for part in (cells.W, H))
    at = np.searchsorted(cells.p, ends)
    point, whole = (bounds_at(at, cell, runs) for runs in bounds_by_runs(W, H, level))
    low, high = np.minimum(point[0], rate), np.maximum(point[1], rate)
    return Points(ends, rate, low, high, np.minimum(whole[0], low), np.maximum(whole[1], high))


def bounds_by_runs(W: Float64Array, H: Float64Array, level: float) -> tuple[Bounds, Bounds]:
    """Return bounds that are valid at each single cell, and bounds that are valid at all cells."""
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
    # A bound of all cells is a bound of those above, or below, too.
    return point, (np.maximum.accumulate(low), np.minimum.accumulate(high[::-1])[::-1])


def bounds_at(at: NDArray[np.intp], cell: NDArray[np.intp], runs: Bounds) -> Bounds:
    """Return bounds at distinct scores by runs of cells that lie wholly on one side of them."""
    edge = np.concatenate([[True], np.diff(cell) > 0, [True]])
    first, last = edge[at], edge[at + 1]
    low = np.concatenate([[0.0], runs[0]])[cell[at] + last]
    high = np.concatenate([runs[1], [1.0]])[cell[at] + ~first]
    return low, high


def lowess_points(rows: EventRows, _: float) -> Points:
    """Return local linear regression by statsmodels; it has no bands."""
    try:
        from statsmodels.nonparametric.smoothers_lowess import lowess
    except ImportError as error:
        raise ImportError(
            "calibration_curve(method='lowess') needs statsmodels: install it with `pip install "
            "statsmodels`, or use method='smooth'."
        ) from error
    if np.ptp(rows.w) > 0:
        raise ValueError(
            "method='lowess' takes no sample_weight, because statsmodels has none: use "
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


def weight_near(points: Float64Array, rows: EventRows) -> Float64Array:
    """Return the weight of the rows whose scores are nearest to each point."""
    middle = (points[1:] + points[:-1]) / 2
    nearest = np.searchsorted(middle, rows.p)
    return np.bincount(nearest, rows.w, points.size).astype(np.float64)
