"""Floor 0: row blocks and class blocks of bounded memory.

A pass over an ``(n, K)`` array is a loop over pieces that fit a core's cache, so that no
temporary of the array's own size is ever made and a memory-mapped array is read once.
"""

from __future__ import annotations

from collections.abc import Iterator

# Half a mebibyte of float64 leaves room in a 1-2 MiB second-level cache for the two or three
# temporaries that a kernel makes of its block.
ROW_BLOCK_BYTES = 1 << 19
# A block of columns is sorted or searched column by column: it need not fit the cache, only
# bound the memory.
COLUMN_BLOCK_BYTES = 1 << 23


def row_blocks(n_rows: int, n_columns: int, block_bytes: int = ROW_BLOCK_BYTES) -> Iterator[slice]:
    """Yield slices of rows, each of about `block_bytes` of float64 when `n_columns` wide."""
    step = max(1, block_bytes // (8 * max(1, n_columns)))
    for start in range(0, n_rows, step):
        yield slice(start, min(start + step, n_rows))


def column_blocks(
    n_rows: int, n_columns: int, block_bytes: int = COLUMN_BLOCK_BYTES
) -> Iterator[slice]:
    """Yield slices of columns, each of about `block_bytes` of float64 when `n_rows` long."""
    step = max(1, block_bytes // (8 * max(1, n_rows)))
    for start in range(0, n_columns, step):
        yield slice(start, min(start + step, n_columns))
