"""Types of arrays, and blocks of rows of bounded size."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

# Blocks of rows and of columns, of bounded memory.
#
# A pass over an ``(n, K)`` array is a loop over blocks that fit into a core's cache. No temporary
# has the size of the array, and each pass reads a memory-mapped array once.


# Half a mebibyte of float64 leaves room in a 1-2 MiB second-level cache for the two or three
# temporaries that a kernel makes of its block.
ROW_BLOCK_BYTES = 1 << 19
# Matrix products need taller blocks than row sums, and so do threads that make many short calls.
TALL_BLOCK_BYTES = 4 * ROW_BLOCK_BYTES
# A block of columns is sorted or searched column by column, so it may exceed the cache. It only
# bounds the memory: each thread keeps a few blocks.
COLUMN_BLOCK_BYTES = 1 << 22
# Passes that compute little need larger blocks, and more of them for each task: otherwise threads
# spend more time waiting for the interpreter's lock than computing.
LIGHT_BLOCK_BYTES = 1 << 21
LIGHT_AT_A_TIME = 16


def row_blocks(n_rows: int, n_columns: int, block_bytes: int = ROW_BLOCK_BYTES) -> Iterator[slice]:
    """Yield slices of rows, each of about `block_bytes` of float64 when `n_columns` wide."""
    step = max(1, block_bytes // (8 * max(1, n_columns)))
    for start in range(0, n_rows, step):
        yield slice(start, min(start + step, n_rows))


def column_blocks(
    n_rows: int, n_columns: int, block_bytes: int = COLUMN_BLOCK_BYTES, first: int = 0
) -> Iterator[slice]:
    """Yield slices of columns from `first` on, each of about `block_bytes` when `n_rows` long."""
    step = max(1, block_bytes // (8 * max(1, n_rows)))
    for start in range(first, n_columns, step):
        yield slice(start, min(start + step, n_columns))


# Types of arrays.


Kind = Literal["logits", "proba"]
FloatArray = NDArray[np.floating]
Float64Array = NDArray[np.float64]
Intp = NDArray[np.intp]
Bools = NDArray[np.bool_]
# Row numbers: contiguous, or in any order.
Rows = slice | Intp
Float = TypeVar("Float", bound=np.floating)
# One number for all classes, or one for each of two classes.
Clip = float | NDArray[np.float64]
