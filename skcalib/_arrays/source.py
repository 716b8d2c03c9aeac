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

    @abstractmethod
    def read(self, rows: Rows, columns: slice = ALL) -> FloatArray:
        """Return a block as an array that must not be modified."""

    @abstractmethod
    def run(
        self, task: Callable[[slice], T], blocks: Iterable[slice], at_a_time: int
    ) -> Iterator[T]:
        """Yield ``task(rows)`` for each block, in order, `at_a_time` blocks in one job."""


class ArraySource(Source):
    """An array; its blocks are computed in threads."""

    def __init__(self, array: FloatArray) -> None:
        self.array = array
        self.shape = array.shape[0], array.shape[1]
        self.dtype = array.dtype

    def read(self, rows: Rows, columns: slice = ALL) -> FloatArray:
        """Return a block; a view if `rows` is a slice."""
        return self.array[rows, columns]

    def run(
        self, task: Callable[[slice], T], blocks: Iterable[slice], at_a_time: int
    ) -> Iterator[T]:
        """Yield ``task(rows)`` for each block, in order, computed in threads if there are many."""
        return map_blocks(task, blocks, at_a_time)


class Derived(Source):
    """Numbers made of those of another source, whose passes run where that source lies."""

    def __init__(self, source: Source, n_rows: int, dtype: DTypeLike) -> None:
        self.source = source
        self.shape = n_rows, source.shape[1]
        self.dtype = np.dtype(dtype)

    def run(
        self, task: Callable[[slice], T], blocks: Iterable[slice], at_a_time: int
    ) -> Iterator[T]:
        """Yield ``task(rows)`` for each block, in order, `at_a_time` blocks in one job."""
        return self.source.run(task, blocks, at_a_time)


class Computed(Derived):
    """Numbers computed from the blocks of a source when they are read.

    Parameters
    ----------
    source : Source of shape (n, K)
    compute : callable
        ``compute(rows)`` returns a new array of shape (rows, K).
    dtype : dtype, default=float64
        Type of the numbers.
    """

    def __init__(
        self,
        source: Source,
        compute: Callable[[Rows], Float64Array],
        dtype: DTypeLike = np.float64,
    ) -> None:
        super().__init__(source, source.shape[0], dtype)
        self._compute = compute

    def read(self, rows: Rows, columns: slice = ALL) -> FloatArray:
        """Return a block, a new array."""
        return self._compute(rows)[:, columns].astype(self.dtype, copy=False)


def as_source(X: FloatArray | Source) -> Source:
    """Return an array as a source, ``(n,)`` as one column; return a source as it is."""
    if not isinstance(X, np.ndarray):
        return X
    return ArraySource(X[:, None] if X.ndim == 1 else X)


def whole(source: Source) -> FloatArray:
    """Return all numbers as one array, a copy unless they are an array already."""
    return source.array if isinstance(source, ArraySource) else source.read(ALL)
