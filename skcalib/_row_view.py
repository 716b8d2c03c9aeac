"""Floor 0: rows of a large array, chosen and clipped when they are read.

What rows of weight 0 or the rounding of a softmax leave of an array would be a copy as large as the
array. Kernels read blocks, and so do without: a block is chosen and clipped when it is read.
"""

from __future__ import annotations

from numbers import Integral
from typing import Any, cast

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin
from numpy.typing import DTypeLike, NDArray

from skcalib._blocks import COLUMN_BLOCK_BYTES
from skcalib._simplex import FloatArray

# Up to this size, that of a few blocks, a copy is made: it is faster to read.
COPIED_BYTES = COLUMN_BLOCK_BYTES
# An index of one axis that leaves the other alone.
One = slice | Integral


def pick_rows(S: FloatArray, rows: NDArray[np.intp]) -> FloatArray:
    """Return ``S[rows]``; a view that is read block by block where a copy would be large."""
    if rows.size * S.shape[1] * S.itemsize <= COPIED_BYTES:
        return S[rows]
    if isinstance(S, RowView):
        S, rows, clipped = S.array, rows if S.rows is None else S.rows[rows], S.clipped
        return cast(FloatArray, RowView(S, rows, clipped))
    return cast(FloatArray, RowView(S, rows))


def clip_to_unit(S: FloatArray) -> FloatArray:
    """Return ``S`` clipped to [0, 1]; a view that is read block by block where that is large."""
    if S.nbytes <= COPIED_BYTES:
        return np.clip(S, 0, 1)
    return cast(FloatArray, RowView(S, clipped=True))


class RowView(NDArrayOperatorsMixin):
    """Rows of an array, to read only: an index of rows and columns gives a plain array.

    Whatever else is asked of it, as of any array, is asked of a copy.

    Parameters
    ----------
    array : ndarray of shape (N, K)
    rows : ndarray of shape (n,), default=None
        Numbers of the rows, in any order, with or without repeats; None for all of them.
    clipped : bool, default=False
        Whether values are clipped to [0, 1].
    """

    def __init__(
        self, array: FloatArray, rows: NDArray[np.intp] | None = None, clipped: bool = False
    ) -> None:
        self.array = array
        self.rows = rows
        self.clipped = clipped

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
        block = self.array[self._places(rows), columns]
        return np.clip(block, 0, 1) if self.clipped else block

    def _places(self, rows: Any) -> Any:
        """Where rows of the view lie in the array: a block without a gap is a slice there."""
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
