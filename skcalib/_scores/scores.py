"""Scores of K classes that are read block by block, either as logits or as probabilities."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from skcalib._arrays.dask import mapped
from skcalib._arrays.rowwise import (
    LIGHT_AT_A_TIME,
    NEAR,
    ROW_BLOCK_BYTES,
    VERY_FEW_COLUMNS,
    Bools,
    Clip,
    Float,
    Float64Array,
    FloatArray,
    Intp,
    Kind,
    Normaliser,
    Rows,
    column_blocks,
    copied,
    entries_at,
    exponentiate,
    largest,
    row_blocks,
    row_min,
    row_sums,
    transpose_into,
)
from skcalib._arrays.selection import take_rows
from skcalib._arrays.sources import (
    READS,
    ROWS,
    Computed,
    Source,
    Work,
    as_source,
    is_dask,
    map_rows,
    merge_rows,
)
from skcalib._arrays.tensors import DeviceBlocks, is_tensor, on_host, ops_for
from skcalib._validation.rows import Predictions
from skcalib._validation.survey import Smallest, smallest_of_block

# Softmax and log-sum-exp of the logits in each row.


# Logit of a masked class (not available in a row). This logit is finite, so that its product with a
# probability of 0 is 0, and is far below all other logits (at most 1e30) times any scale in a fit.
ABSENT = -1e38
# Default lower bound on probabilities before a logarithm (`find_clip` computes one from data). A
# probability of 0 or a logit of -inf then gets a logarithm of -27.6, and cannot dominate a fit.
CLIP = 1e-12
LOG_PROBA_MIN = float(np.log(CLIP))


def log_sum_exp(Z: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the log-sum-exp of each row of logits; each row needs an entry above -inf."""
    r = ops_for(Z)
    shift, total = r.exponentiate(1.0 * Z)
    return shift + r.log(total)


def softmax_inplace(Z: NDArray[Float], max_abs_logit: float = np.inf) -> NDArray[Float]:
    """Overwrite logits ``Z (n, K)`` by their softmax; return the softmax."""
    r = ops_for(Z)
    _, total = r.exponentiate(Z, max_abs_logit)
    r.divide_rows_(Z, total)
    return Z


def log_of_proba(P: FloatArray) -> FloatArray:
    """Return the logarithms of probabilities, with -inf for a probability of 0."""
    if is_dask(P):
        return mapped(log_of_proba, P, P.shape[1:], P.dtype)
    with np.errstate(divide="ignore"):
        return ops_for(P).log(P)


# Binary problems derived from K classes: score and outcome of the top label or the top r labels.


# Size in bytes of blocks that are read column by column, and so have to stay in the cache.
BY_COLUMNS = Work(ROW_BLOCK_BYTES, LIGHT_AT_A_TIME)


def top_label(P: Source, like: Any = None) -> tuple[FloatArray, Intp]:
    """Return the largest probability of each row and its column, the first one on ties.

    Both are tensors if `like` is a tensor.
    """
    blocks = P.on_device() or P
    score, predicted = blocks.empty_rows(P.dtype), blocks.empty_rows(np.int64)
    work = READS if P.shape[1] > VERY_FEW_COLUMNS else BY_COLUMNS
    map_rows(lambda block: ops_for(block).largest(block), blocks, out=(score, predicted), work=work)
    return (score, predicted) if is_tensor(like) else (on_host(score), on_host(predicted))


def event_or_top(predictions: Predictions) -> tuple[FloatArray, Bools]:
    """Return score and outcome of the event or, without an event, of the top label."""
    if predictions.event is not None:
        return predictions.of_event()
    score, predicted = top_label(predictions.P)
    return score, predictions.hits(predicted)


def event_as_classes(predictions: Predictions) -> tuple[Source, Intp]:
    """Return probabilities and codes of all classes; an event and its absence are two classes."""
    predictions = predictions.as_classes()
    if predictions.event is None:
        return predictions.P, predictions.code
    score, hit = predictions.of_event()
    return as_source(np.column_stack([1 - score, score])), hit.astype(np.intp)


def top_r(P: Source, code: Intp, r: int, within: bool) -> tuple[FloatArray, Bools]:
    """Return the r-th largest probability of each row, and whether its class is the true class.

    Among equal probabilities, the first column ranks highest. With `within`, return the sum of the
    r largest probabilities, and whether the true class is one of their classes.
    """
    n, n_classes = P.shape
    score, hit = np.ones(n, dtype=P.dtype), np.ones(n, dtype=bool)
    # If r is the number of classes, the score within the top r is exactly 1: rounding errors of
    # sums must not rank the rows.
    if not within or r < n_classes:
        map_rows(partial(top_r_of_block, r=r, within=within), P, code, out=(score, hit))
    return score, hit


def top_r_of_block(block: FloatArray, code: Intp, r: int, within: bool) -> tuple[FloatArray, Bools]:
    """Return score and outcome of the r-th (or r) largest probabilities of a block of rows."""
    index = block.shape[1] - r
    true = np.take_along_axis(block, code[:, None], axis=1)
    earlier = np.arange(block.shape[1]) < code[:, None]
    # The rank of the true class, 1 to K; ties are ranked by column.
    rank = 1 + ((block > true) | ((block == true) & earlier)).sum(axis=1)
    largest_of_rows = np.partition(block, index, axis=1)[:, index:]
    if not within:
        return largest_of_rows[:, 0], rank == r
    descending = np.sort(largest_of_rows, axis=1)[:, ::-1]
    return np.minimum(descending.sum(axis=1, dtype=np.float64), 1.0), rank <= r


# Parts of the log-odds of the top label in each row. For logits: column and value of the largest
# logit, and log-sum-exp of the other logits minus the largest. For probabilities: column and value
# of the largest probability, and sum of the other probabilities.
TopOdds = tuple[Intp, Float64Array, Float64Array]
# Log-odds of a probability of 1 in sorted scores (negative for a probability of 0). They are larger
# than all other log-odds, and finite, so that lines to other log-odds have a slope.
MOST_ODDS = 1e38


def top_odds_of(block: FloatArray, kind: Kind) -> TopOdds:
    """Return the top label of each row, and two parts from which its log-odds are computed."""
    others = copied(block)
    top, column = largest(others)
    best: Intp = column.astype(np.intp, copy=False)
    entries, index = entries_at(others, best)
    if kind == "proba":
        entries[index] = 0.0
        return best, top, row_sums(others)
    others -= top[:, None]
    # The formula for a row does not depend on other rows, so that the size of blocks has no effect.
    far = np.flatnonzero(row_min(others) < -NEAR[others.dtype])
    distant = others[far]
    np.put_along_axis(distant, best[far, None], -np.inf, axis=1)
    np.exp(others, out=others)
    entries[index] = 0.0
    total = row_sums(others)
    total[far] = 1.0
    rest: Float64Array = np.log(total, out=total)
    if far.size:
        rest[far] = log_sum_exp(distant)
    return best, top, rest


def read_copy(source: Source, rows: Rows) -> Any:
    """Return a float64 copy of a block, in the fastest memory order."""
    block = source.read(rows)
    return ops_for(block).copied(block)


class Scores:
    """Scores of K classes that are read by rows or columns, as logits or as probabilities.

    Parameters
    ----------
    array : ndarray or Source of shape (n, K), float32 or float64, K >= 2
        Checked scores, which are not copied as a whole and not modified.
    kind : {"logits", "proba"}
    classes : ndarray of shape (K,), default=None
        Labels of the columns; None means 0..K-1.
    max_abs_logit : float, default=inf
        Upper bound on the absolute value of the logits; inf if unknown.
    clip : float, or ndarray that broadcasts to (n, K), default=1e-12
        Smaller probabilities are raised to this value before their logarithm is computed. A logit
        of -inf counts as this probability.
    options : bool, default=False
        Whether a logit of -inf, or a probability of NaN, marks a class that is not available in
        the row, whose probability is exactly 0, whatever `clip` is.
    out : ndarray of shape (n, K), float64, default=None
        Array for the result of a calibration function, if all rows are read at once.
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
        self.source = array if isinstance(array, Source) else as_source(array)
        self.kind = kind
        self.max_abs_logit = max_abs_logit
        self.set_clip(clip)
        self.classes = np.arange(self.shape[1]) if classes is None else classes
        # Columns of probabilities and of log-odds need row sums, which are computed once.
        self._normaliser: Normaliser | None = None
        self._top_odds: TopOdds | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Return the attributes to send to Dask workers, without row sums of all rows."""
        return self.__dict__ | {"_normaliser": None, "_top_odds": None}

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of classes."""
        return self.source.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """Floating-point type of the scores and of their probabilities."""
        return self.source.dtype

    def set_clip(self, clip: Clip) -> None:
        """Set the clip, the smallest probability whose logarithm is used."""
        self.clip = clip
        if self.kind == "proba":
            self.max_abs_logit = np.inf if self.options else -float(np.log(clip).min())

    def subsample(self, step: int) -> Scores:
        """Return the scores of every `step`-th row."""
        source, rows = self.source, np.arange(0, self.shape[0], step)
        few = take_rows(source, rows) if source.remote is None else as_source(source.read(rows))
        return self.of(few)

    def of(self, source: Source) -> Scores:
        """Return scores with the same settings for another source, such as selected rows."""
        return Scores(
            source, self.kind, self.classes, self.max_abs_logit, self.clip, options=self.options
        )

    def sample(self) -> tuple[Scores, Intp]:
        """Sample evenly spaced rows of Dask scores; return the sample and the row indices."""
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
        """Return the logits as a source that is read in blocks of rows."""
        return Computed(self.source, self.logits)

    def on_host(self) -> Scores:
        """Return the scores for computation in NumPy; scores on a device are copied."""
        if self.source.on_device() is None:
            return self
        read: Any = self.source.read
        return self.of(Computed(self.source, read, self.dtype))

    def float64_logits(self) -> Source:
        """Return the logits as a source of new float64 blocks, on a device if possible."""
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

        By default, the numbers equal those of `proba_columns`, so that an entry has the same bin.
        """
        if self.kind == "proba" and dtype in (None, self.dtype) and not self.options:
            return self.source
        return Computed(self.source, self.proba, self.dtype if dtype is None else dtype)

    def logits(self, rows: Rows) -> Float64Array:
        """Read finite float64 logits of a block of rows as a new array."""
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
        """Read finite logits of a block of rows as an array that must not be modified."""
        if self.kind == "logits" and self.max_abs_logit < np.inf:
            return self.source.read(rows)
        if self.kind == "proba" and self.out is not None and not self.options:
            np.maximum(self.source.read(rows), self.clip, out=self.out)
            return np.log(self.out, out=self.out)
        return self.logits(rows)

    def proba(self, rows: Rows) -> Float64Array:
        """Read float64 probabilities of a block of rows as a new array."""
        block = read_copy(self.source, rows)
        if self.kind == "logits":
            return softmax_inplace(block, self.max_abs_logit)
        return np.nan_to_num(block, copy=False) if self.options else block

    def _log_softmax(self, source: Source, rows: Rows) -> Any:
        """Return the logarithms of clipped probabilities of logits, in NumPy or on a device."""
        block = read_copy(source, rows)
        block -= log_sum_exp(block)[:, None]
        return ops_for(block).at_least_(block, np.log(self.clip))

    def proba_columns(self, columns: slice) -> FloatArray:
        """Read the probabilities of k classes as a new contiguous array ``(k, n)``."""
        if self.kind == "proba":
            return self._transposed(columns, self.dtype)
        # Probabilities are computed with the operations of `proba`, so that reading rows and
        # reading columns give identical numbers.
        shift, total = self._row_normaliser()
        P = self._transposed(columns, np.float64)
        P -= shift
        np.exp(P, out=P)
        P /= total
        return P.astype(self.dtype, copy=False)

    def ordered(self) -> Scores:
        """Return scores whose columns can be sorted, with -inf below all other logits."""
        if self.kind == "proba" or self.max_abs_logit < np.inf:
            return self
        return Scores(self.source, self.kind, self.classes, options=True)

    def ordered_columns(self, columns: slice) -> FloatArray:
        """Read the scores of k classes by which rows are sorted, as a new array ``(k, n)``.

        These are probabilities or, for `ordered` logits, log-odds, which do not round to 1.
        """
        if self.kind == "proba":
            return self.proba_columns(columns)
        odds = self.log_odds_columns(columns)
        if self.max_abs_logit == np.inf:
            np.clip(odds, -MOST_ODDS, MOST_ODDS, out=odds)
        return odds.astype(self.dtype, copy=False)

    def log_odds_columns(self, columns: slice) -> Float64Array:
        """Read the log-odds ``log p - log(1 - p)`` of k classes as a new array ``(k, n)``.

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
        # The odds of a class need the sum of the exponentials of the other classes, relative to the
        # largest exponential. This sum is at least 1, except for the class with the largest
        # exponential. So no digits cancel when the exponential of the class is subtracted from
        # `total`.
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
        """Return the log-odds of the top label (largest probability) of each row."""
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
        """Return the method that reads columns of scores, after computing the row sums it needs."""
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
            map_rows(lambda block: exponentiate(copied(block)), self.source, out=normaliser)
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
        """Return the index of the top label of each row of a block, the first on ties."""
        block = self.source.read(rows)
        return (np.nan_to_num(block) if self.options else block).argmax(axis=1)


# The clip: the lower bound on probabilities before their logarithm is taken.
#
# A probability of 0 represents a number below the resolution of the scores: below 1 / 100 for a
# forest of 100 trees, below 0.05 for confidences in multiples of 5 %. The smallest probability m
# above 0 among the calibration rows estimates the resolution. With K classes, probabilities below
#
# .. math:: c = \max\left(l, \min\left(\frac{m}{2}, \frac{1}{2K}\right)\right)
#
# are raised to c, where l is the smallest normal number of float32. Calibration rows without a 0 do
# not show the resolution. In this case, only a 0 in a new row is raised, to the minimum of c and
# half the smallest positive number of the row; all other numbers above l are not changed.
#
# With two classes, each column has its own clip, because float32 resolves p to 1e-45 near 0 and to
# 6e-8 near 1. If a column was computed as 1 - p, a few rounding errors count as 0: ten weights of
# 0.1 add up to 1 - 1.1e-16.
#
# A logit of -inf is the logarithm of a probability of 0. If the calibration rows have no such
# logit, c is l and logits are not read.


# Smallest clip (lower bound on probabilities). Smaller numbers lose digits or become 0 in float32,
# where they are subnormal.
LEAST_CLIP = float(np.finfo(np.float32).tiny)


def find_clip(scores: Scores, smallest: list[Smallest] | None = None) -> tuple[Clip, bool | Bools]:
    """Return the clip for calibration scores ``(n, K)``, and whether a probability is 0.

    `smallest` are the smallest probabilities of blocks, if they are known.
    """
    if needs_no_clip(scores):
        return LEAST_CLIP, True
    least, any_zero = smallest_proba(scores) if smallest is None else smallest_of(smallest)
    n_classes = scores.shape[1]
    if scores.options:  # with masked classes: the largest number of available classes in a row
        n_classes = max(merge_rows(lambda P: (~np.isnan(P)).sum(axis=1).max(), scores.source))
    clip = clip_below(least, n_classes)
    return clip, any_zero if any_zero.size == 2 else bool(any_zero[0])


def clip_of_rows(P: FloatArray, clip: Clip, any_zero: bool | Bools) -> Clip:
    """Return the clip for new probabilities, from the results of `find_clip`."""
    if np.all(any_zero):
        return clip
    low = np.fmin.reduce(P, axis=None)
    if low > 0.0:
        return np.where(any_zero, clip, max(low, LEAST_CLIP))
    least = np.where(P > 0.0, P, 1.0).min(axis=1, keepdims=True).astype(np.float64)
    return np.maximum(np.where(any_zero, clip, LEAST_CLIP), np.minimum(clip, least / 2))


def needs_no_clip(scores: Scores) -> bool:
    """Return whether the logarithm of every probability of these scores is finite."""
    return scores.kind == "logits" and (scores.options or scores.max_abs_logit < np.inf)


def smallest_proba(scores: Scores) -> tuple[Float64Array, Bools]:
    """Return the smallest positive probability, and whether 0 occurs; for each of two columns."""
    # Float32 logits can have probabilities below the range of float32, so float64 is used.
    proba = scores.source if scores.kind == "proba" else Computed(scores.source, scores.proba)
    if scores.options:  # ignore masked classes
        proba = Computed(proba, lambda rows: np.nan_to_num(scores.source.read(rows), nan=1.0))
    device = proba.on_device() if scores.shape[1] > 2 else None
    return smallest_of(merge_rows(smallest_of_block, device or proba, work=ROWS))


def smallest_of(blocks: list[Smallest]) -> tuple[Float64Array, Bools]:
    """Merge the smallest positive probabilities of blocks, and whether a 0 occurs."""
    pairs = np.array(blocks)
    return pairs[..., 0].min(axis=0), pairs[..., 1].max(axis=0) > 0


def clip_below(smallest: Float64Array, n_classes: int) -> Clip:
    """Compute the lower bound of probabilities from the smallest positive one of K classes."""
    clip = np.maximum(np.minimum(smallest / 2, 0.5 / n_classes), LEAST_CLIP)
    return clip if clip.size == 2 else float(clip[0])


@dataclass(frozen=True)
class RunningClip:
    """Clip (lower bound on probabilities) of scores that are read once, batch by batch.

    Until a 0 occurs, the clip is below all previous probabilities and has changed none of them.
    From the batch with the first 0 on, the clip is constant (for two classes, in each column).
    """

    clip: Clip = LEAST_CLIP
    any_zero: Bools | bool = False
    smallest: Float64Array | float = np.inf

    def with_rows(self, scores: Scores) -> RunningClip:
        """Return the clip that is updated with a batch of scores."""
        if needs_no_clip(scores):
            return self
        smallest, any_zero = smallest_proba(scores)
        smallest, any_zero = np.minimum(smallest, self.smallest), any_zero | self.any_zero
        now = clip_below(smallest, scores.shape[1])
        clip = np.where(self.any_zero, self.clip, now)
        return RunningClip(clip if clip.size > 1 else float(clip.item()), any_zero, smallest)


NO_ROWS = RunningClip()
