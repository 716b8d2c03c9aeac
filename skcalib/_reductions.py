"""Floor 1: reductions of a K-class problem to a binary one: (score, hit) of the top labels."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from skcalib._blocks import row_blocks
from skcalib._simplex import FloatArray


def top_label(P: FloatArray) -> tuple[FloatArray, NDArray[np.intp]]:
    """Return the largest probability of each row and its column, the lowest one on ties."""
    predicted = P.argmax(axis=1)
    return np.take_along_axis(P, predicted[:, None], axis=1)[:, 0], predicted


def top_r(P: FloatArray, code: NDArray[np.intp], r: int) -> tuple[FloatArray, NDArray[np.bool_]]:
    """Return the r-th largest probability of each row and whether that class is the true one.

    Equal probabilities rank by column, the lowest first.
    """
    n, n_classes = P.shape
    score = np.empty(n, dtype=P.dtype)
    hit = np.empty(n, dtype=bool)
    for rows in row_blocks(n, n_classes):
        block = P[rows]
        score[rows] = np.partition(block, n_classes - r, axis=1)[:, n_classes - r]
        hit[rows] = _rank_of_true(block, code[rows]) == r
    return score, hit


def within_top_r(
    P: FloatArray, code: NDArray[np.intp], r: int
) -> tuple[FloatArray, NDArray[np.bool_]]:
    """Return the sum of the r largest probabilities and whether the true class is among them."""
    n, n_classes = P.shape
    score = np.ones(n, dtype=P.dtype)
    hit = np.ones(n, dtype=bool)
    if r == n_classes:
        # Sums of whole rows are 1 up to rounding; their order would be noise.
        return score, hit
    for rows in row_blocks(n, n_classes):
        block = P[rows]
        largest = np.sort(np.partition(block, n_classes - r, axis=1)[:, n_classes - r :], axis=1)
        score[rows] = np.minimum(largest[:, ::-1].sum(axis=1, dtype=np.float64), 1.0)
        hit[rows] = _rank_of_true(block, code[rows]) <= r
    return score, hit


def _rank_of_true(block: FloatArray, code: NDArray[np.intp]) -> NDArray[np.intp]:
    true = np.take_along_axis(block, code[:, None], axis=1)
    earlier = np.arange(block.shape[1]) < code[:, None]
    return 1 + ((block > true) | ((block == true) & earlier)).sum(axis=1)
