"""Rows of a large array, selected, clipped and divided by their sums when they are read.

To drop rows of weight 0, or to correct the rounding of a softmax, would need a copy as large as the
array. Kernels read blocks, so a view computes each block when it is read.
"""

from __future__ import annotations

from numbers import Integral
from typing import Any, cast

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin
from numpy.typing import DTypeLike, NDArray

from skcalib._arrays.blocks import COLUMN_BLOCK_BYTES, row_blocks
from skcalib._arrays.rowwise import row_sums
from skcalib._arrays.threads import each_block
from skcalib._arrays.types import FloatArray

# Arrays up to this size, that of a few blocks, are copied: a copy is faster to read.
COPIED_BYTES = COLUMN_BLOCK_BYTES
# An index of one axis.
One = slice | Integral


def pick_rows(S: FloatArray, rows: NDArray[np.intp]) -> FloatArray:
    """Return ``S[rows]``, as a copy if it is small and else as a view."""
    if rows.size * S.shape[1] * S.itemsize <= COPIED_BYTES:
        return S[rows]
    if isinstance(S, RowView):
        chosen = rows if S.rows is None else S.rows[rows]
        return cast(FloatArray, RowView(S.array, chosen, S.clipped, S.divisor))
    return cast(FloatArray, RowView(S, rows))


def clip_and_divide(S: FloatArray, divide: bool) -> FloatArray:
    """Clip ``S`` to [0, 1] or, with `divide`, clip it at 0 and divide rows by their sums.

    Return a copy if it is small and else a view.
    """
    divisor = None
    if divide:
        divisor = np.empty(S.shape[0])

        def add_up(rows: slice) -> None:
            divisor[rows] = row_sums(np.maximum(S[rows], 0).astype(np.float64))

        each_block(add_up, row_blocks(*S.shape))
    view = RowView(S, clipped=True, divisor=divisor)
    return view[:] if S.nbytes <= COPIED_BYTES else cast(FloatArray, view)


class RowView(NDArrayOperatorsMixin):
    """Read-only rows of an array; indexing by rows and columns returns a plain array.

    Every other operation of an array is applied to a copy.

    Parameters
    ----------
    array : ndarray of shape (N, K)
    rows : ndarray of shape (n,), default=None
        Row numbers, in any order, repeats allowed; None for all rows.
    clipped : bool, default=False
        Whether values are clipped to [0, 1].
    divisor : ndarray of shape (N,), default=None
        Divisor of each row, applied after clipping.
    """

    def __init__(
        self,
        array: FloatArray,
        rows: NDArray[np.intp] | None = None,
        clipped: bool = False,
        divisor: NDArray[np.float64] | None = None,
    ) -> None:
        self.array = array
        self.rows = rows
        self.clipped = clipped
        self.divisor = divisor

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of columns."""
        n = self.array.shape[0] if self.rows is None else self.rows.size
        return n, self.array.shape[1]

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the values."""
        return self.array.dtype

    @property
    def ndim(self) -> int:
        """Two."""
        return 2

    @property
    def size(self) -> int:
        """Number of values."""
        return self.shape[0] * self.shape[1]

    @property
    def itemsize(self) -> int:
        """Bytes of a value."""
        return self.array.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes that a copy would take."""
        return self.size * self.itemsize

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: Any) -> Any:
        rows, columns = key if isinstance(key, tuple) and len(key) == 2 else (key, slice(None))
        if not isinstance(rows, One) and not (isinstance(rows, np.ndarray) and rows.ndim == 1):
            return np.asarray(self)[key]
        if not isinstance(columns, One):
            return np.asarray(self)[key]
        places = self._places(rows)
        block = self.array[places, columns]
        if self.clipped:
            # Division by the sum bounds a row from above.
            block = np.clip(block, 0, 1 if self.divisor is None else None)
        if self.divisor is not None:
            divisor = self.divisor[places]
            block = (block / (divisor[:, None] if block.ndim == 2 else divisor)).astype(self.dtype)
        return block

    def _places(self, rows: Any) -> Any:
        """Return the array's row numbers of rows of the view, as a slice if they are contiguous."""
        if self.rows is None:
            return rows
        places = self.rows[rows]
        if isinstance(rows, slice) and places.size and (np.diff(places) == 1).all():
            return slice(places[0], places[-1] + 1)
        return places

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        whole = np.asarray(self[:], dtype=dtype)
        return whole.copy() if copy else whole

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **keywords: Any) -> Any:
        plain = [np.asarray(each) if isinstance(each, RowView) else each for each in inputs]
        return getattr(ufunc, method)(*plain, **keywords)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or not hasattr(np.ndarray, name):
            raise AttributeError(f"'RowView' object has no attribute {name!r}")
        return getattr(np.asarray(self), name)
