"""Where numbers lie: arrays in memory or in files, read in NumPy blocks.

A kernel gets blocks of a `Source`, so it does not depend on where the numbers lie. A source never
has to be in memory as a whole.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import numpy as np
from numpy.typing import DTypeLike

from skcalib._arrays.threads import map_blocks
from skcalib._arrays.types import Float64Array, FloatArray, Rows

T = TypeVar("T")
ALL = slice(None)


class Source(ABC):
    """Numbers ``(n, K)`` of one floating type.

    Attributes
    ----------
    shape : tuple of int
        Number of rows and of columns.
    dtype : dtype
        Type of the numbers.
    """

    shape: tuple[int, int]
    dtype: np.dtype[Any]

    # The `Remote` source whose chunks compute these numbers, None if they are in this process.
    remote: Any = None

    @abstractmethod
    def read(self, rows: Rows, columns: slice = ALL) -> FloatArray:
        """Return a block as an array that must not be modified."""

    # Bytes of float64 in a block of rows; 0 if each pass chooses them.
    block_bytes = 0

    def run(self, task: Callable[[Any], T], parts: Iterable[Any], at_a_time: int) -> Iterator[T]:
        """Yield ``task(part)`` for each part, in order, `at_a_time` parts in one job."""
        return map_blocks(task, parts, at_a_time)

    def on_device(self) -> Any:
        """Return the numbers as `device.DeviceBlocks`; None if NumPy computes them."""
        return None

    def computed(self, compute: Callable[[Rows], Any]) -> Source:
        """Return the float64 blocks that ``compute(rows)`` makes of these."""
        return Computed(self, compute)

    def empty_rows(self, dtype: DTypeLike = np.float64) -> Any:
        """Return a new array for a number of each row, where the blocks are."""
        return np.empty(self.shape[0], dtype=dtype)

    def place(self, values: Any) -> Any:
        """Return an array with an entry for each row where the blocks are."""
        return values

    def constant(self, values: Any) -> Any:
        """Return an array of parameters where the blocks are."""
        return values

    def fetch(self, result: Any) -> Any:
        """Return the result of a pass as numbers and arrays."""
        return result


class ArraySource(Source):
    """An array."""

    def __init__(self, array: FloatArray) -> None:
        self.array = array
        self.shape = array.shape[0], array.shape[1]
        self.dtype = array.dtype

    def read(self, rows: Rows, columns: slice = ALL) -> FloatArray:
        """Return a block; a view if `rows` is a slice."""
        return self.array[rows, columns]


class Remote(Source):
    """Numbers that are never read whole: a pass sends a function to each of their chunks.

    What such a source has beside ``read`` is said where it is defined, in `skcalib._arrays.dask`.
    """

    @property
    def remote(self) -> Any:
        """The source itself."""
        return self


class Derived(Source):
    """Numbers made of those of another source, whose passes run where that source lies."""

    @property
    def remote(self) -> Any:
        """That of the other source."""
        return self.source.remote

    def __init__(self, source: Source, n_rows: int, dtype: DTypeLike) -> None:
        self.source = source
        self.shape = n_rows, source.shape[1]
        self.dtype = np.dtype(dtype)

    def run(self, task: Callable[[Any], T], parts: Iterable[Any], at_a_time: int) -> Iterator[T]:
        """Yield ``task(part)`` for each part, in order, `at_a_time` parts in one job."""
        return self.source.run(task, parts, at_a_time)


class Computed(Derived):
    """Numbers computed from the blocks of a source when they are read.

    Parameters
    ----------
    source : Source of shape (n, K)
    compute : callable
        ``compute(rows)`` returns a new array of shape (rows, K).
    dtype : dtype, default=float64
        Type of the numbers.
    device : DeviceBlocks, default=None
        The same numbers, computed on a device.
    """

    def __init__(
        self,
        source: Source,
        compute: Callable[[Rows], Float64Array],
        dtype: DTypeLike = np.float64,
        device: Any = None,
    ) -> None:
        super().__init__(source, source.shape[0], dtype)
        self._compute = compute
        self._device = device

    def __setstate__(self, state: dict[str, Any]) -> None:
        # Where a pass runs, the source is a chunk of it.
        self.__dict__ = {**state, "shape": state["source"].shape}

    def on_device(self) -> Any:
        """Return the blocks on a device, if there are."""
        return self._device

    def read(self, rows: Rows, columns: slice = ALL) -> FloatArray:
        """Return a block, a new array."""
        return self._compute(rows)[:, columns].astype(self.dtype, copy=False)


def refuse_remote(source: Source, caller: str) -> None:
    """Raise TypeError, in the name of `caller`, if a remote source would have to be read whole."""
    if source.remote is not None:
        raise TypeError(f"{caller}: {source.remote.refusal}")


def as_source(X: FloatArray | Source) -> Source:
    """Return an array as a source, ``(n,)`` as one column; return a source as it is."""
    if not isinstance(X, np.ndarray):
        return X
    return ArraySource(X[:, None] if X.ndim == 1 else X)


def to_array(source: Source) -> FloatArray:
    """Return all numbers as one array, a copy unless they are an array already."""
    return source.array if isinstance(source, ArraySource) else source.read(ALL)
