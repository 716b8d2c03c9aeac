"""Losses of rows, and what their mean differences say: standard errors and intervals."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from skcalib._arrays.types import Float64Array, FloatArray
from skcalib._scores.softmax import LOG_PROBA_MIN
from skcalib._validation.weights import is_whole
from skcalib.metrics._statistics.row_means import RowLosses, hall_quantiles, hull_of_sums

# A wrong class counts as having at most the probability 1 less this.
LEAST_REST = 1e-6


def _true(P: FloatArray, code: NDArray[np.intp]) -> Float64Array:
    """Return the probability of the true class of each row."""
    return np.take_along_axis(P, code[:, None], axis=1)[:, 0].astype(np.float64)


def row_log_loss(P: FloatArray, code: NDArray[np.intp]) -> Float64Array:
    """Return ``-log P_iy`` of each row; a probability counts as at least 1e-12."""
    return -np.log(np.maximum(_true(P, code), np.exp(LOG_PROBA_MIN)))


def row_brier_score(P: FloatArray, code: NDArray[np.intp]) -> Float64Array:
    """Return ``sum_k (P_ik - [k = y_i])^2`` of each row: in [0, 2] for any K."""
    squares = np.einsum("ik,ik->i", P, P, dtype=np.float64)
    return np.asarray(squares - 2 * _true(P, code) + 1)


def row_error_rate(P: FloatArray, code: NDArray[np.intp]) -> NDArray[np.bool_]:
    """Return whether the largest probability of each row is that of a wrong class."""
    return P.argmax(axis=1) != code


def wrong_log_loss(P: FloatArray) -> Float64Array:
    """Return the log loss of each row if its top class were wrong, and all other mass right."""
    return -np.log(np.maximum(1 - P.max(axis=1).astype(np.float64), LEAST_REST))


def wrong_brier_score(P: FloatArray) -> Float64Array:
    """Return the Brier score of each row if its top class were wrong, and all other mass right.

    With p the top probability it is :math:`p^2 + (1 - (1 - p))^2`.
    """
    return 2 * P.max(axis=1).astype(np.float64) ** 2


def mean_and_error(differences: Float64Array, w: Float64Array) -> tuple[float, float, float]:
    r"""Return a weighted mean, its standard error and its skewness.

    With :math:`u_i = w_i (d_i - g) / n`, where n is the sum of the checked weights, they are g, the
    root of :math:`n / (n - 1) \sum_i u_i^2` and :math:`\sum_i u_i^3 / (\sum_i u_i^2)^{3/2}`. A row
    of a relative weight is one observation; of counts, each copy is one, of weight 1.
    """
    n = float(w.sum())
    mean = np.average(differences, weights=w)
    copies, weights = (w, 1.0) if is_whole(w) else (np.ones(w.size), w)
    u = weights * (differences - mean) / n
    square = copies @ u**2
    skewness = 0.0 if square == 0 else copies @ u**3 / square**1.5
    return float(mean), float(np.sqrt(square * n / max(n - 1, 1))), float(skewness)


def hall_interval(differences: RowLosses, level: float) -> tuple[float, float]:
    """Interval of a mean difference by Hall's t, which corrects for skewness.

    It is of the differences and the pseudo row; degrees of freedom count the rows without that. Of
    clusters it is the hull of it and of the score interval.
    """
    d, weights = differences.observations()
    mean, error, skewness = mean_and_error(d, weights)
    if differences.cluster is not None and error > 0:
        return hull_of_sums(weights * d, weights, level)
    low, high = mean - error * hall_quantiles(skewness, float(weights.sum()) - 1, level)
    return float(low), float(high)
