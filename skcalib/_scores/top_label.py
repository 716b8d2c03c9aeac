"""Reductions of a K-class problem to a binary one: (score, hit) of the top labels."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skcalib._arrays.blocks import LIGHT_AT_A_TIME, ROW_BLOCK_BYTES
from skcalib._arrays.passes import READS, Work, map_rows
from skcalib._arrays.rowwise import VERY_FEW_COLUMNS
from skcalib._arrays.source import Source, as_source
from skcalib._arrays.tensors import is_tensor, on_host, rows_of
from skcalib._arrays.types import Bools, FloatArray, Intp
from skcalib._validation.predictions import Predictions

# They are read one by one, so the block has to stay in the cache.
BY_COLUMNS = Work(ROW_BLOCK_BYTES, LIGHT_AT_A_TIME)


def largest(block: FloatArray) -> tuple[FloatArray, NDArray[np.integer]]:
    """Return the largest entry of each row of a block and its column, the first one on ties."""
    return rows_of(block).largest(block)


def top_label(P: Source, like: Any = None) -> tuple[FloatArray, Intp]:
    """Return the largest probability of each row and its column, the first one on ties.

    They are tensors if `like` is one.
    """
    blocks = P.on_device() or P
    score, predicted = blocks.empty_rows(P.dtype), blocks.empty_rows(np.int64)
    work = READS if P.shape[1] > VERY_FEW_COLUMNS else BY_COLUMNS
    map_rows(largest, blocks, out=(score, predicted), work=work)
    return (score, predicted) if is_tensor(like) else (on_host(score), on_host(predicted))


def event_or_top(predictions: Predictions) -> tuple[FloatArray, Bools]:
    """Return score and hit of the measured event, or of the top label if there is no event."""
    if predictions.event is not None:
        return predictions.of_event()
    score, predicted = top_label(predictions.P)
    return score, predictions.hits(predicted)


def event_as_classes(predictions: Predictions) -> tuple[Source, Intp]:
    """Return probabilities and codes of all classes, or of the two classes "not event", "event"."""
    predictions = predictions.as_classes()
    if predictions.event is None:
        return predictions.P, predictions.code
    score, hit = predictions.of_event()
    return as_source(np.column_stack([1 - score, score])), hit.astype(np.intp)


def keep_top(P: FloatArray, top: Intp) -> FloatArray:
    """Make column `top` the first of the largest in its row, in place, if rounding changed that."""
    lost = np.flatnonzero(P.argmax(axis=1) != top)
    # The difference is a tie or rounding, and the maximum is below 1 because two classes share it.
    P[lost, top[lost]] = np.nextafter(P[lost].max(axis=1), P.dtype.type(1))
    return P


def top_r(P: Source, code: Intp, r: int, within: bool) -> tuple[FloatArray, Bools]:
    """Return the r-th largest probability of each row and whether that class is the true one.

    Equal probabilities are ranked by column, the first one highest. With `within`, return the sum
    of the r largest and whether the true class is among them.
    """
    n, n_classes = P.shape
    score, hit = np.ones(n, dtype=P.dtype), np.ones(n, dtype=bool)
    # Sums of whole rows are 1 up to rounding, and rounding must not order the rows.
    if not within or r < n_classes:
        map_rows(partial(top_r_of_block, r=r, within=within), P, code, out=(score, hit))
    return score, hit


def top_r_of_block(block: FloatArray, code: Intp, r: int, within: bool) -> tuple[FloatArray, Bools]:
    """Return `top_r` of a block."""
    place, rank = block.shape[1] - r, rank_of_true(block, code)
    largest = np.partition(block, place, axis=1)[:, place:]
    if not within:
        return largest[:, 0], rank == r
    descending = np.sort(largest, axis=1)[:, ::-1]
    return np.minimum(descending.sum(axis=1, dtype=np.float64), 1.0), rank <= r


def rank_of_true(block: FloatArray, code: Intp) -> Intp:
    """Return the rank of the true class in each row, 1 to K; ties are ranked by column."""
    true = np.take_along_axis(block, code[:, None], axis=1)
    earlier = np.arange(block.shape[1]) < code[:, None]
    return 1 + ((block > true) | ((block == true) & earlier)).sum(axis=1)
