"""Selection and correction of rows of scores without a copy."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from skcalib._arrays.rowwise import Float64Array, FloatArray, Intp, Rows
from skcalib._arrays.sources import ALL, ArraySource, Derived, Remote, Source, map_rows, to_array
from skcalib._arrays.tensors import on_host, ops_for

# Selection, clipping and normalisation of rows when they are read.
#
# Dropping rows of weight 0, or correcting the rounding of a softmax, would otherwise need a copy of
# the whole array.


# Selections of rows of at most this size in bytes are copied, because a copy is faster to read.
COPIED_BYTES = 1 << 22


@dataclass(eq=False, repr=False)
class Selection(Derived):
    """Selected rows of a source of scores, clipped and divided by their sums if requested.

    Parameters
    ----------
    source : Source of shape (N, K)
    rows : ndarray of shape (n,), default=None
        Row numbers, in any order, repeats allowed; None for all rows.
    clipped : bool, default=False
        Whether numbers are clipped to [0, 1].
    divisor : ndarray of shape (n,), default=None
        Divisor of each row, applied after clipping; it bounds a row from above.
    """

    source: Source
    rows: Intp | None = None
    clipped: bool = False
    divisor: Float64Array | None = None

    def __post_init__(self) -> None:
        n_rows = self.source.shape[0] if self.rows is None else self.rows.size
        self.dtype, self.shape = self.source.dtype, (n_rows, self.source.shape[1])

    def read(self, rows: Rows, columns: slice = ALL) -> FloatArray:
        """Return a block of the selected rows."""
        return self._block(self.source, rows, columns)

    def on_device(self) -> Any:
        """Return the selected rows as blocks on a device, or None."""
        blocks = self.source.on_device()
        return blocks and blocks.computed(partial(self._block, blocks), self.shape[0])

    def _block(self, source: Source, rows: Rows, columns: slice = ALL) -> Any:
        """Return a block of the selected rows of a source, which may be on a device."""
        places = rows if self.rows is None else source.rows_to_device(self.rows)[rows]
        if isinstance(places, np.ndarray) and places.size and (np.diff(places) == 1).all():
            places = slice(int(places[0]), int(places[-1]) + 1)  # a slice needs no copy
        block = source.read(places, columns)
        if self.clipped:
            block = block.clip(0, 1 if self.divisor is None else None)
        if self.divisor is not None:
            block = block / source.rows_to_device(self.divisor)[rows][:, None]
            block = ops_for(block).single(block) if self.dtype == np.float32 else block
        return block


def take_rows(source: Source, rows: Intp) -> Source:
    """Select rows of a source: return a copy if it is small, otherwise a `Selection`."""
    if isinstance(source, Remote):
        return source.remote.take(rows)
    if isinstance(source, Selection):
        chosen = rows if source.rows is None else source.rows[rows]
        divisor = None if source.divisor is None else source.divisor[rows]
        return _copy_small(Selection(source.source, chosen, source.clipped, divisor))
    return _copy_small(Selection(source, rows))


def clip_and_divide(source: Source, divide: bool) -> Source:
    """Clip probabilities to [0, 1] or, with `divide`, at 0, and divide rows by their sums."""
    if isinstance(source, Remote):
        return source.remote.corrected(lambda X: to_array(clip_and_divide(ArraySource(X), divide)))
    divisor = sums_of_rows(source) if divide else None
    return _copy_small(Selection(source, clipped=True, divisor=divisor))


def sums_of_rows(source: Source) -> Float64Array:
    """Return the sum of each row of a source, with negative numbers counted as 0."""
    blocks = source.on_device() or source
    out = blocks.empty_rows()

    def kernel(block: FloatArray) -> Float64Array:
        r = ops_for(block)
        return r.row_sums(r.at_least_(r.copied(block), 0))

    map_rows(kernel, blocks, out=out)
    return on_host(out)


def _copy_small(selection: Selection) -> Source:
    n, n_columns = selection.shape
    if n * n_columns * selection.dtype.itemsize > COPIED_BYTES or selection.on_device() is not None:
        return selection
    return ArraySource(selection.read(ALL))
