r"""Distances of the smooth curve from the diagonal, over the rows.

Of gaps :math:`g_c = |r(p_c) - p_c|` of cells with weights :math:`W_c`: their mean, the smallest one
that half, and nine tenths, of the weight do not exceed, and the largest.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import expit

from skcalib._arrays.types import Float64Array
from skcalib._scores.top_label import event_or_top
from skcalib._validation.predictions import Predictions
from skcalib.metrics._curves.cells import Places, is_certain, place_rows, sum_by
from skcalib.metrics._curves.methods import smooth_points
from skcalib.metrics._curves.smooth import Smoother
from skcalib.metrics._intervals.cells import CellError, cells_of_rows
from skcalib.metrics._intervals.scored_rows import scored_rows

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


class Curve:
    """The smooth curve at the cells, as a function of their shares of hits."""

    def __init__(self, places: Places, rows: float, **drawn: Any) -> None:
        self.W = places.W * (rows / places.W.sum())
        certain = is_certain(places.p)
        self._smoother = None if certain else Smoother(places.x, self.W, **drawn)

    def rates(self, share: Float64Array) -> Float64Array:
        """Return the rates ``(R, m)`` for shares of hits ``(R, m)``."""
        if self._smoother is None:
            return share
        theta = self._smoother.fit(self.W * share).theta
        return np.asarray(expit(self._smoother.logits(theta)))


def curve_distances(predictions: Predictions) -> Float64Array:
    """Return the four distances ``(4,)`` of predictions."""
    w, (score, hit) = predictions.w, event_or_top(predictions)
    places = place_rows(score, w)
    share = sum_by(places.of_row, w * hit) / places.W
    rate = Curve(places, float(w.sum())).rates(share[None])
    return distances(rate, places.p, places.W)[0]


def farthest_of_band(predictions: Predictions, level: float) -> float:
    """Return the largest distance of the pointwise band of the curve from the diagonal."""
    w, (score, hit) = predictions.w, event_or_top(predictions)
    points = smooth_points(place_rows(score, w).with_hits(hit, w), level)
    return float(np.maximum(points.high - points.p, points.p - points.low).max())


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
        Curve(places, rows, n_knots=DRAWN_KNOTS, taus=DRAWN_TAUS)
        for rows in (float(w.sum()), MANY_ROWS)
    )

    def close(H: Float64Array, S: Float64Array, W: Float64Array) -> Float64Array:  # noqa: ARG001
        return distances(few.rates(H[:, 0] / W), places.p, W)[:, which]

    def close_limit(H: Float64Array, S: Float64Array, W: Float64Array) -> Float64Array:
        total = np.maximum(W[..., 0, :], np.finfo(np.float64).tiny)
        truth, model = (
            many.rates(part[..., 0, :].reshape(-1, places.p.size) / total) for part in (H, S)
        )
        return distances(truth, model, total)[:, which]

    return CellError(cells, close, close_limit, has_excess=False)
