"""Scores of K classes, read block by block as logits or as probabilities."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from skcalib._arrays.blocks import ROW_BLOCK_BYTES, column_blocks, row_blocks
from skcalib._arrays.device import DeviceBlocks
from skcalib._arrays.passes import map_rows
from skcalib._arrays.rowwise import (
    NEAR,
    Normaliser,
    copied,
    entries_at,
    exponentiate,
    largest,
    row_min,
    row_sums,
    transpose_into,
)
from skcalib._arrays.selection import take_rows
from skcalib._arrays.source import Computed, Source, as_source
from skcalib._arrays.tensors import rows_of
from skcalib._arrays.types import Clip, Float64Array, FloatArray, Intp, Kind, Rows
from skcalib._scores.softmax import ABSENT, CLIP, log_sum_exp, softmax_inplace

# Column of each row's largest logit, that logit, and the log-sum-exp of the others less that logit;
# of probabilities: column, largest probability, sum of the others.
TopOdds = tuple[Intp, Float64Array, Float64Array]
# Log-odds of a probability of 1, and less those of 0, in a sort: above all others, and finite, so
# that lines between them and others have a slope.
MOST_ODDS = 1e38


def normaliser_of(block: FloatArray) -> Normaliser:
    """Return the shifts and the sums of exponentials of a block of logits."""
    return exponentiate(copied(block))


def top_odds_of(block: FloatArray, kind: Kind) -> TopOdds:
    """Return the `TopOdds` of a block of logits or clipped probabilities."""
    others = copied(block)
    top, column = largest(others)
    best: Intp = column.astype(np.intp, copy=False)
    entries, place = entries_at(others, best)
    if kind == "proba":
        entries[place] = 0.0
        return best, top, row_sums(others)
    others -= top[:, None]
    # Decided for each row by itself, so that blocks change no bit.
    far = np.flatnonzero(row_min(others) < -NEAR[others.dtype])
    distant = others[far]
    np.put_along_axis(distant, best[far, None], -np.inf, axis=1)
    np.exp(others, out=others)
    entries[place] = 0.0
    total = row_sums(others)
    total[far] = 1.0
    rest: Float64Array = np.log(total, out=total)
    if far.size:
        rest[far] = log_sum_exp(distant)
    return best, top, rest


def read_copy(source: Source, rows: Rows) -> Any:
    """Return a block as float64, a copy of the fastest memory order."""
    block = source.read(rows)
    return rows_of(block).copied(block)


class Scores:
    """Scores ``(n, K)`` of a known kind, read by rows or columns as logits or as probabilities.

    Parameters
    ----------
    array : ndarray or Source of shape (n, K), float32 or float64, K >= 2
        Checked scores; not copied as a whole and not modified.
    kind : {"logits", "proba"}
    classes : ndarray of shape (K,), default=None
        Labels of the columns; None means 0..K-1.
    max_abs_logit : float, default=inf
        Upper bound on the absolute value of the logits; inf if unknown.
    clip : float, or ndarray that broadcasts to (n, K), default=1e-12
        Smaller probabilities are raised to this before their logarithm is taken; a logit of -inf
        counts as this probability.
    options : bool, default=False
        Whether a logit of -inf, or a probability of NaN, is a class that was not offered in its
        row: its probability is exactly 0, and `clip` has no part in it.
    out : ndarray of shape (n, K), float64, default=None
        Where a map of these scores may write its result, if all rows are read at once.
    """

    def __init__(
        self,
        array: FloatArray | Source,
        kind: Kind,
        classes: NDArray[Any] | None = None,
        max_abs_logit: float = np.inf,
        clip: Clip = CLIP,
        out: FloatArray | None = None,
        options: bool = False,
    ) -> None:
        self.out = out
        self.options = options
        self.source = as_source(array)
        self.kind = kind
        self.max_abs_logit = max_abs_logit
        self.set_clip(clip)
        self.classes = np.arange(self.shape[1]) if classes is None else classes
        # Columns of probabilities and log-odds need row statistics, which are computed once.
        self._normaliser: Normaliser | None = None
        self._top_odds: TopOdds | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of classes."""
        return self.source.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the scores, and of the probabilities computed from them."""
        return self.source.dtype

    def set_clip(self, clip: Clip) -> None:
        """Set the clip."""
        self.clip = clip
        if self.kind == "proba":
            self.max_abs_logit = np.inf if self.options else -float(np.log(clip).min())

    def subsample(self, step: int) -> Scores:
        """Return the scores of every `step`-th row."""
        source, rows = self.source, np.arange(0, self.shape[0], step)
        few = take_rows(source, rows) if source.remote is None else as_source(source.read(rows))
        return self.of(few)

    def of(self, source: Source) -> Scores:
        """Return the scores of some rows."""
        return Scores(
            source, self.kind, self.classes, self.max_abs_logit, self.clip, options=self.options
        )

    def sample(self) -> tuple[Scores, Intp]:
        """Return evenly spaced rows of remote scores, kept from a pass, and their positions."""
        few, rows = self.source.remote.sample(self.source)
        return self.of(few), rows

    def log_proba(self) -> Scores:
        """Return the logarithms of the clipped probabilities as logits."""
        largest = -float(np.log(self.clip).min())
        logs: Any = self.logits
        device = self.device_logits()
        if self.kind == "logits":
            logs = partial(self._log_softmax, self.source)
            device = device and device.computed(partial(self._log_softmax, device))
        logs = Computed(self.source, logs, device=device)
        return Scores(logs, "logits", self.classes, largest, self.clip)

    def as_logits(self) -> Source:
        """Return the logits as a source."""
        return Computed(self.source, self.logits)

    def on_host(self) -> Scores:
        """Return the scores for passes of NumPy; the same unless they are on a device."""
        if self.source.on_device() is None:
            return self
        read: Any = self.source.read
        return self.of(Computed(self.source, read, self.dtype))

    def float64_logits(self) -> Source:
        """Return the logits as a source of new blocks of float64, where they are computed."""
        blocks = self.device_logits()
        return self.as_logits() if blocks is None else blocks.computed(partial(read_copy, blocks))

    def device_logits(self) -> DeviceBlocks | None:
        """Return the logits as blocks on a device; None if NumPy has to compute them."""
        blocks: DeviceBlocks | None = self.source.on_device()
        if blocks is None or self.max_abs_logit == np.inf:
            return None
        return blocks if self.kind == "logits" else blocks.computed(partial(self._logs_of, blocks))

    def _logs_of(self, blocks: DeviceBlocks, rows: Rows) -> Any:
        block = blocks.read(rows)
        block = block if block.element_size() == 8 else block.float()
        return block.maximum(blocks.tensor.new_tensor(self.clip, dtype=block.dtype)).log_()

    def as_proba(self, dtype: DTypeLike | None = None) -> Source:
        """Return the probabilities as a source of type `dtype`, by default that of the scores.

        The default numbers are those of `proba_columns`: both ways put an entry into the same bin.
        """
        if self.kind == "proba" and dtype in (None, self.dtype) and not self.options:
            return self.source
        return Computed(self.source, self.proba, self.dtype if dtype is None else dtype)

    def logits(self, rows: Rows) -> Float64Array:
        """Logits of a block of rows: a new finite float64 array, which may be overwritten."""
        block = read_copy(self.source, rows)
        if self.kind == "proba":
            np.maximum(block, self.clip, out=block)
            np.log(block, out=block)
            if self.options:
                block[np.isnan(block)] = ABSENT
            return block
        if self.max_abs_logit == np.inf and np.isneginf(block.min(initial=0.0)):
            if self.options:
                return np.maximum(block, ABSENT, out=block)
            floor = log_sum_exp(block)[:, None] + np.log(self.clip)
            np.copyto(block, np.broadcast_to(floor, block.shape), where=np.isneginf(block))
        return block

    def finite_logits(self, rows: Rows) -> FloatArray:
        """Logits of a block of rows, finite; they must not be modified, and may be in `out`."""
        if self.kind == "logits" and self.max_abs_logit < np.inf:
            return self.source.read(rows)
        if self.kind == "proba" and self.out is not None and not self.options:
            np.maximum(self.source.read(rows), self.clip, out=self.out)
            return np.log(self.out, out=self.out)
        return self.logits(rows)

    def proba(self, rows: Rows) -> Float64Array:
        """Probabilities of a block of rows: a new float64 array, which may be overwritten."""
        block = read_copy(self.source, rows)
        if self.kind == "logits":
            return softmax_inplace(block, self.max_abs_logit)
        return np.nan_to_num(block, copy=False) if self.options else block

    def _log_softmax(self, source: Source, rows: Rows) -> Any:
        """Logarithms of clipped probabilities of logits that lie here or on a device."""
        block = read_copy(source, rows)
        block -= log_sum_exp(block)[:, None]
        return rows_of(block).at_least_(block, np.log(self.clip))

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

    def ordered(self) -> Scores:
        """Return the scores for a sort, in which a logit of -inf is less than all others."""
        if self.kind == "proba" or self.max_abs_logit < np.inf:
            return self
        return Scores(self.source, self.kind, self.classes, options=True)

    def ordered_columns(self, columns: slice) -> FloatArray:
        """Return what classes are sorted by, ``(k, n)``: a new contiguous array in `dtype`.

        It is probabilities or, of `ordered` logits, log-odds, which do not round to 1.
        """
        if self.kind == "proba":
            return self.proba_columns(columns)
        odds = self.log_odds_columns(columns)
        if self.max_abs_logit == np.inf:
            np.clip(odds, -MOST_ODDS, MOST_ODDS, out=odds)
        return odds.astype(self.dtype, copy=False)

    def log_odds_columns(self, columns: slice) -> Float64Array:
        """Log-odds ``log p - log(1 - p)`` of classes, ``(k, n)``: a new contiguous array.

        Logits are not converted to probabilities, so large logits stay exact. For probabilities,
        ``1 - p`` is computed as the sum of the other classes, which is accurate for p near 1.
        """
        clip = np.broadcast_to(self.clip, self.shape).T
        if self.shape[1] == 2:
            both = self._transposed(slice(0, 2), np.float64)
            if self.kind == "logits":
                self._raise_impossible(both, clip)
                return both[columns] - both[::-1][columns]
            np.maximum(both, clip, out=both)
            odds = both[columns] / both[::-1][columns]
            return np.log(odds, out=odds)
        block = self._transposed(columns, np.float64)
        best, top, rest = self._row_odds()
        i = np.flatnonzero((best >= columns.start) & (best < columns.stop))
        if self.kind == "proba":
            np.maximum(block, clip[columns], out=block)
            others = (top + rest) - block
            others[best[i] - columns.start, i] = rest[i]
            block /= others
            return np.log(block, out=block)
        self._raise_impossible(block, clip[columns])
        # Mass of the other classes, relative to the row's largest entry. It is at least 1 except
        # for the largest entry itself, so nothing cancels.
        total = 1.0 + np.exp(rest)
        with np.errstate(divide="ignore"):
            for some in column_blocks(top.size, len(block), ROW_BLOCK_BYTES):
                odds = block[some]
                odds -= top
                others = np.exp(odds)
                np.subtract(total, others, out=others)
                odds -= np.log(others, out=others)
        block[best[i] - columns.start, i] = -rest[i]
        return block

    def _raise_impossible(self, block: Float64Array, clip: Float64Array) -> None:
        """Replace logits of -inf in columns ``(k, n)`` by the logarithm of the clip."""
        if self.max_abs_logit < np.inf or not (impossible := np.isneginf(block)).any():
            return
        floor: Float64Array | float = ABSENT
        if not self.options:
            shift, total = self._row_normaliser()
            floor = shift + np.log(total) + np.log(clip)
        np.copyto(block, floor, where=impossible)

    def top_log_odds(self) -> Float64Array:
        """Log-odds of the largest probability of each row against the others, ``(n,)``."""
        _, top, rest = self._row_odds()
        return np.log(top / rest) if self.kind == "proba" else -rest

    def _transposed(self, columns: slice, dtype: DTypeLike) -> NDArray[Any]:
        n, n_classes = self.shape
        n_columns = len(range(n_classes)[columns])
        out = np.empty((n_columns, n), dtype=dtype)
        for rows in row_blocks(n, n_columns):
            transpose_into(self.source.read(rows, columns), out[:, rows])
        return out

    def reader(self, read: str) -> Callable[[slice], FloatArray]:
        """Return the method that reads columns, after the sums over rows that it needs."""
        if read == "log_odds" or (read == "ordered" and self.kind == "logits"):
            if self.shape[1] > 2:
                self._row_odds()
        elif self.kind == "logits":
            self._row_normaliser()
        return getattr(self, f"{read}_columns")

    def _row_normaliser(self) -> Normaliser:
        if self._normaliser is None:
            n = self.shape[0]
            normaliser = np.empty(n), np.empty(n)
            map_rows(normaliser_of, self.source, out=normaliser)
            self._normaliser = normaliser
        return self._normaliser

    def _row_odds(self) -> TopOdds:
        if self._top_odds is None:
            n = self.shape[0]
            odds = np.empty(n, dtype=np.intp), np.empty(n), np.empty(n)
            source = self.source
            if self.kind == "proba" or self.max_abs_logit == np.inf:
                source = Computed(source, self._clipped if self.kind == "proba" else self.logits)
            map_rows(partial(top_odds_of, kind=self.kind), source, out=odds)
            self._top_odds = odds
        return self._top_odds

    def _clipped(self, rows: Rows) -> Float64Array:
        block = read_copy(self.source, rows)
        return np.maximum(block, np.broadcast_to(self.clip, self.shape)[rows], out=block)

    def best(self, rows: Rows) -> Intp:
        """Column of the largest score of each row of a block; the first column on ties."""
        block = self.source.read(rows)
        return (np.nan_to_num(block) if self.options else block).argmax(axis=1)
