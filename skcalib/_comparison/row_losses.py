"""Losses of rows, by their probabilities."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from skcalib._arrays.types import Float64Array, FloatArray
from skcalib._scores.softmax import LOG_PROBA_MIN

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
