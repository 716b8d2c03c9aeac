"""Reductions of a K-class problem to a binary one: (score, hit) of the top labels."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from skcalib._arrays.blocks import LIGHT_AT_A_TIME, light_blocks, row_blocks
from skcalib._arrays.rowwise import entries_at
from skcalib._arrays.threads import each_block
from skcalib._arrays.types import FloatArray
from skcalib._validation.predictions import Predictions

# Up to this many columns, a maximum along columns is faster than one along short rows.
VERY_FEW_COLUMNS = 24


def _largest(block: FloatArray) -> tuple[FloatArray, NDArray[np.integer]]:
    if block.shape[1] > VERY_FEW_COLUMNS:
        predicted = block.argmax(axis=1)
        entries, at = entries_at(block, predicted)
        return entries.take(at), predicted
    columns = np.ascontiguousarray(block.T)
    top = columns.max(axis=0)
    left = np.arange(len(columns), 0, -1, dtype=np.uint8)  # more for earlier columns
    return top, len(columns) - ((columns == top).view(np.uint8) * left[:, None]).max(axis=0)


def top_label(P: FloatArray) -> tuple[FloatArray, NDArray[np.intp]]:
    """Return the largest probability of each row and its column, the first one on ties."""
    score = np.empty(P.shape[0], dtype=P.dtype)
    predicted = np.empty(P.shape[0], dtype=np.intp)

    def reduce(rows: slice) -> None:
        score[rows], predicted[rows] = _largest(P[rows])

    if P.shape[1] > VERY_FEW_COLUMNS:
        each_block(reduce, *light_blocks(P.shape[0], P.shape[1], P.itemsize))
    else:  # columns are read one by one, so the block has to stay in the cache
        each_block(reduce, row_blocks(P.shape[0], P.shape[1]), LIGHT_AT_A_TIME)
    return score, predicted


def event_or_top(predictions: Predictions) -> tuple[FloatArray, NDArray[np.bool_]]:
    """Return score and hit of the measured event, or of the top label if there is no event."""
    if predictions.event is not None:
        return predictions.of_event()
    score, predicted = top_label(predictions.P)
    return score, predicted == predictions.code


def event_as_classes(predictions: Predictions) -> tuple[FloatArray, NDArray[np.intp]]:
    """Return probabilities and codes of all classes, or of the two classes "not event", "event"."""
    if predictions.event is None:
        return predictions.P, predictions.code
    score, hit = predictions.of_event()
    return np.column_stack([1 - score, score]), hit.astype(np.intp)


def keep_top(P: FloatArray, top: NDArray[np.intp]) -> FloatArray:
    """Make column `top` the first of the largest in its row, in place, if rounding changed that."""
    lost = np.flatnonzero(P.argmax(axis=1) != top)
    # The difference is a tie or rounding, and the maximum is below 1 because two classes share it.
    P[lost, top[lost]] = np.nextafter(P[lost].max(axis=1), P.dtype.type(1))
    return P


def top_r(P: FloatArray, code: NDArray[np.intp], r: int) -> tuple[FloatArray, NDArray[np.bool_]]:
    """Return the r-th largest probability of each row and whether that class is the true one.

    Equal probabilities are ranked by column, the first one highest.
    """
    n, n_classes = P.shape
    score = np.empty(n, dtype=P.dtype)
    hit = np.empty(n, dtype=bool)

    def reduce(rows: slice) -> None:
        block = P[rows]
        score[rows] = np.partition(block, n_classes - r, axis=1)[:, n_classes - r]
        hit[rows] = rank_of_true(block, code[rows]) == r

    each_block(reduce, row_blocks(n, n_classes))
    return score, hit


def within_top_r(
    P: FloatArray, code: NDArray[np.intp], r: int
) -> tuple[FloatArray, NDArray[np.bool_]]:
    """Return the sum of the r largest probabilities and whether the true class is among them."""
    n, n_classes = P.shape
    score = np.ones(n, dtype=P.dtype)
    hit = np.ones(n, dtype=bool)
    if r == n_classes:
        # Sums of whole rows are 1 up to rounding, and rounding must not order the rows.
        return score, hit

    def reduce(rows: slice) -> None:
        block = P[rows]
        largest = np.sort(np.partition(block, n_classes - r, axis=1)[:, n_classes - r :], axis=1)
        score[rows] = np.minimum(largest[:, ::-1].sum(axis=1, dtype=np.float64), 1.0)
        hit[rows] = rank_of_true(block, code[rows]) <= r

    each_block(reduce, row_blocks(n, n_classes))
    return score, hit


def rank_of_true(block: FloatArray, code: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return the rank of the true class in each row, 1 to K; ties are ranked by column."""
    true = np.take_along_axis(block, code[:, None], axis=1)
    earlier = np.arange(block.shape[1]) < code[:, None]
    return 1 + ((block > true) | ((block == true) & earlier)).sum(axis=1)
