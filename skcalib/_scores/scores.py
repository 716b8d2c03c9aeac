"""Scores of K classes, read block by block as logits or as probabilities."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from skcalib._arrays.blocks import row_blocks
from skcalib._arrays.rowwise import block_order, row_sums, transpose_into
from skcalib._arrays.threads import each_block, map_blocks
from skcalib._arrays.types import Clip, FloatArray, Kind
from skcalib._scores.softmax import CLIP, Normaliser, exponentiate, log_sum_exp, softmax_inplace


class TopOdds(NamedTuple):
    """Column of each row's largest logit, that logit, and the log-sum-exp of the other logits.

    If the scores are probabilities: column, largest probability, sum of the others.
    """

    best: NDArray[np.intp]
    top: NDArray[np.float64]
    rest: NDArray[np.float64]


class Scores:
    """Scores ``(n, K)`` of a known kind, read by rows or columns as logits or as probabilities.

    Parameters
    ----------
    array : ndarray of shape (n, K), float32 or float64, K >= 2
        Checked scores; not copied as a whole and not modified.
    kind : {"logits", "proba"}
    classes : ndarray of shape (K,), default=None
        Labels of the columns; None means 0..K-1.
    reach : float, default=inf
        Upper bound on the absolute value of the logits; inf if unknown.
    look : callable, default=None
        If the scores have not been checked: ``look(rows)`` checks a block and returns the upper
        bound for it. Call `reach_of` before reading a block of such scores.
    clip : float, or ndarray of shape (2,) for two classes, default=1e-12
        Smaller probabilities are raised to this before their logarithm is taken; a logit of -inf
        counts as this probability.
    """

    def __init__(
        self,
        array: FloatArray,
        kind: Kind,
        classes: NDArray[Any] | None = None,
        reach: float = np.inf,
        look: Callable[[slice], float] | None = None,
        clip: Clip = CLIP,
    ) -> None:
        self.array = array
        self.look = look
        self.kind = kind
        self.reach = reach
        self.set_clip(clip)
        # Whether `logits` returns finite entries of the array unchanged.
        self.as_given = kind == "logits"
        self.classes = np.arange(array.shape[1]) if classes is None else classes
        # Columns of probabilities and log-odds need row statistics, computed once for all threads.
        self._once = Lock()
        self._normaliser: Normaliser | None = None
        self._top_odds: TopOdds | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of classes."""
        return self.array.shape[0], self.array.shape[1]

    @property
    def dtype(self) -> np.dtype:
        """Type of the scores, and of the probabilities computed from them."""
        return self.array.dtype

    def set_clip(self, clip: Clip) -> None:
        """Set the clip."""
        self.clip = clip
        if self.kind == "proba":
            self.reach = -float(np.log(clip).min())

    def thinned(self, step: int) -> Scores:
        """Return the scores of every `step`-th row."""
        few = copy(self)
        few.array = self.array[::step]
        few._normaliser = few._top_odds = None
        return few

    def reach_of(self, rows: slice) -> float:
        """Return an upper bound on a block's absolute logits; check the block if unchecked."""
        if self.look is None:
            return self.reach
        bound = self.look(rows)
        return bound if self.kind == "logits" else self.reach

    def read(self, rows: slice, out: NDArray[np.float64] | None = None) -> NDArray[np.float64]:
        """Scores of a block of rows, in `out` or in a new array of the fastest memory order."""
        if out is None:
            return self.array[rows].astype(np.float64, order=block_order(self.array.shape[1]))
        out[...] = self.array[rows]
        return out

    def logits(
        self, rows: slice, out: NDArray[np.float64] | None = None, reach: float | None = None
    ) -> NDArray[np.float64]:
        """Logits of a block of rows: a finite float64 array, which may be overwritten.

        The result is `out` if given, else a new array. `reach` is the bound of the block, if known.
        """
        if self.kind == "proba":
            block = self._clipped(rows, out)
            return np.log(block, out=block)
        block = self.read(rows, out)
        reach = self.reach if reach is None else reach
        if reach == np.inf and np.isneginf(block.min(initial=0.0)):
            floor = log_sum_exp(block)[:, None] + np.log(self.clip)
            np.copyto(block, np.broadcast_to(floor, block.shape), where=np.isneginf(block))
        return block

    def _clipped(self, rows: slice, out: NDArray[np.float64] | None = None) -> NDArray[np.float64]:
        """Probabilities of a block of rows, clipped from below, in `out` or in a new array."""
        if out is not None and self.dtype == np.float64:
            return np.maximum(self.array[rows], self.clip, out=out)
        block = self.read(rows, out)
        return np.maximum(block, self.clip, out=block)

    def proba(self, rows: slice) -> NDArray[np.float64]:
        """Probabilities of a block of rows: a new float64 array, which may be overwritten."""
        block = self.read(rows)
        return block if self.kind == "proba" else softmax_inplace(block, self.reach)

    def proba_columns(self, columns: slice) -> FloatArray:
        """Probabilities of a block of classes, ``(k, n)``: a new contiguous array in `dtype`."""
        if self.kind == "proba":
            return self._transposed(columns, self.dtype)
        # The same operations as in `proba`, so that rows and columns give identical numbers.
        shift, total = self._row_normaliser()
        P = self._transposed(columns, np.float64)
        P -= shift
        np.exp(P, out=P)
        P /= total
        return P.astype(self.dtype, copy=False)

    def log_odds_columns(self, columns: slice) -> NDArray[np.float64]:
        """Log-odds ``log p - log(1 - p)`` of classes, ``(k, n)``: a new contiguous array.

        Logits are not converted to probabilities, so large logits stay exact. For probabilities,
        ``1 - p`` is computed as the sum of the other classes, which is accurate for p near 1.
        """
        if self.kind == "proba" and self.shape[1] == 2:
            both = self._transposed(slice(0, 2), np.float64)
            np.maximum(both, np.broadcast_to(self.clip, 2)[:, None], out=both)
            odds = both[columns] / both[::-1][columns]
            return np.log(odds, out=odds)
        block = self._transposed(columns, np.float64)
        best, top, rest = self._row_odds()
        i = np.flatnonzero((best >= columns.start) & (best < columns.stop))
        clip = np.broadcast_to(self.clip, self.shape[1])[columns, None]
        if self.kind == "proba":
            np.maximum(block, clip, out=block)
            others = (top + rest) - block
            others[best[i] - columns.start, i] = rest[i]
            block /= others
            return np.log(block, out=block)
        impossible = np.isneginf(block)
        if impossible.any():
            shift, total = self._row_normaliser()
            np.copyto(block, shift + np.log(total) + np.log(clip), where=impossible)
        block -= top
        # Mass of the other classes, relative to the row's largest entry. It is at least 1 except
        # for the largest entry itself, so nothing cancels.
        others = 1.0 + np.exp(rest - top) - np.exp(block)
        others[best[i] - columns.start, i] = 1.0
        block -= np.log(others)
        block[best[i] - columns.start, i] = top[i] - rest[i]
        return block

    def _transposed(self, columns: slice, dtype: DTypeLike) -> NDArray[Any]:
        n, n_classes = self.shape
        n_columns = len(range(n_classes)[columns])
        out = np.empty((n_columns, n), dtype=dtype)
        for rows in row_blocks(n, n_columns):
            transpose_into(self.array[rows, columns], out[:, rows])
        return out

    def _row_normaliser(self) -> Normaliser:
        with self._once:
            if self._normaliser is None:
                each = list(
                    map_blocks(
                        lambda rows: exponentiate(self.read(rows)),
                        row_blocks(*self.shape),
                    )
                )
                self._normaliser = (
                    np.concatenate([shift for shift, _ in each]),
                    np.concatenate([total for _, total in each]),
                )
        return self._normaliser

    def _row_odds(self) -> TopOdds:
        with self._once:
            if self._top_odds is None:
                n = self.shape[0]
                odds = TopOdds(np.empty(n, dtype=np.intp), np.empty(n), np.empty(n))
                proba = self.kind == "proba"

                def find(rows: slice) -> None:
                    Z = self._clipped(rows) if proba else self.logits(rows)
                    best = Z.argmax(axis=1)
                    odds.best[rows] = best
                    odds.top[rows] = np.take_along_axis(Z, best[:, None], axis=1)[:, 0]
                    np.put_along_axis(Z, best[:, None], 0.0 if proba else -np.inf, axis=1)
                    odds.rest[rows] = row_sums(Z) if proba else log_sum_exp(Z)

                each_block(find, row_blocks(*self.shape))
                self._top_odds = odds
        return self._top_odds

    def best(self, rows: slice) -> NDArray[np.intp]:
        """Column of the largest score of each row of a block; the first column on ties."""
        return self.array[rows].argmax(axis=1)

    def map_rows(self, function: Callable[[slice], FloatArray]) -> FloatArray:
        """Return ``function(rows)`` for all blocks of rows, ``(n, K)``, as type `dtype`."""
        out = np.empty(self.shape, dtype=self.dtype)

        def fill(rows: slice) -> None:
            out[rows] = function(rows)

        each_block(fill, row_blocks(*self.shape))
        return out


class LogProba(Scores):
    """Scores whose logits are the logarithms of their clipped probabilities."""

    def __init__(self, scores: Scores) -> None:
        super().__init__(
            scores.array, scores.kind, scores.classes, look=scores.look, clip=scores.clip
        )
        self.reach = -float(np.log(self.clip).min())
        self.as_given = False

    def reach_of(self, rows: slice) -> float:
        """Return an upper bound on absolute log-probabilities; check the block if unchecked."""
        super().reach_of(rows)
        return self.reach

    def logits(
        self, rows: slice, out: NDArray[np.float64] | None = None, reach: float | None = None
    ) -> NDArray[np.float64]:
        """Log-probabilities of a block of rows, in `out` or a new array; may be overwritten."""
        block = super().logits(rows, out, reach)
        if self.kind == "logits":
            block -= log_sum_exp(block)[:, None]
            np.maximum(block, np.log(self.clip), out=block)
        return block
