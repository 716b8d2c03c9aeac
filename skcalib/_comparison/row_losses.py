"""Losses of rows, by their probabilities."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skcalib._arrays.passes import map_rows
from skcalib._arrays.source import to_array
from skcalib._arrays.types import Bools, Float64Array, FloatArray
from skcalib._scores.softmax import LOG_PROBA_MIN
from skcalib._validation.predictions import Predictions
from skcalib._validation.shares import split_shares
from skcalib.metrics._statistics.row_means import RowLosses
from skcalib.metrics._statistics.score_parts import vector_scores

# A wrong class counts as having at most the probability 1 less this.
LEAST_REST = 1e-6


def row_log_loss(P: FloatArray, code: NDArray[np.intp]) -> Float64Array:
    """Return ``-log P_iy`` of each row; a probability counts as at least 1e-12."""
    true = np.take_along_axis(P, code[:, None], axis=1)[:, 0].astype(np.float64)
    return -np.log(np.maximum(true, np.exp(LOG_PROBA_MIN)))


def row_error_rate(P: FloatArray, code: NDArray[np.intp]) -> Bools:
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


class RowLoss(NamedTuple):
    """A loss that is a mean over rows: ``of(P, code)`` of each row, from 0 to ``most``.

    ``if_wrong(P)`` is the loss of each row if its top class were wrong, for the pseudo row of an
    interval; None where no such row is needed.
    """

    of: Callable[..., NDArray[Any]]
    most: float
    if_wrong: Callable[..., NDArray[Any]] | None = None

    def losses(self, predictions: Predictions) -> RowLosses:
        """Return the loss of each row, of shares the mean over the raters, and the pseudo-error."""
        P, code = predictions.P, predictions.code
        losses, wrong, mean = np.empty(len(code)), np.empty(len(code)), None
        if predictions.are_shares:
            row, label, share = split_shares(code, np.ones(len(code)))
            losses[:] = np.bincount(row, share * self.of(to_array(P)[row], label))
        else:
            map_rows(self.of, P, code, out=losses)
        if self.if_wrong is not None:
            map_rows(self.if_wrong, P, out=wrong)
            mean = float(np.average(wrong, weights=predictions.w))
        return RowLosses(losses, mean, predictions.w, predictions.cluster)


LOG_LOSS = RowLoss(row_log_loss, np.inf, wrong_log_loss)
ROW_LOSSES = {
    "log_loss": LOG_LOSS,
    "brier_score": RowLoss(partial(vector_scores, score="brier"), 2.0, wrong_brier_score),
    "error_rate": RowLoss(row_error_rate, 1.0),
}
