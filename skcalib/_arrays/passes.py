"""Passes over the rows of a source: sum, merge, map.

A kernel is a function of a block, of the block's part of each array with one entry per row, and of
nothing else; `functools.partial` fixes its parameters. A kernel of a module, unlike a closure, can
be sent to another process. ``range(n)`` as an array per row gives a kernel its row numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from joblib import parallel_config
from numpy.typing import NDArray

from skcalib._arrays.blocks import (
    LIGHT_AT_A_TIME,
    LIGHT_BLOCK_BYTES,
    ROW_BLOCK_BYTES,
    TALL_BLOCK_BYTES,
    row_blocks,
)
from skcalib._arrays.rowwise import FEW_COLUMNS, block_order, transpose_into
from skcalib._arrays.source import ArraySource, Source
from skcalib._arrays.threads import AT_A_TIME, one_blas_thread

Kernel = Callable[..., Any]
# An entry for each row; None stands for weights that are all 1.
PerRow = NDArray[Any] | range | None
# Up to this many entries, computed numbers are cached (16 MiB); else each pass computes them again.
CACHED_ENTRIES = 1 << 21


class Work(NamedTuple):
    """Size of the blocks of a pass, and how many a thread takes at a time.

    For `products` of matrices, BLAS is limited to one thread, so that blocks can be computed in
    threads; if they are so large that BLAS should use its threads, blocks are computed
    `one_by_one`. Blocks have `least_rows` or more. On a device, they are `on_device` times as large
    as usual.
    """

    block_bytes: int
    at_a_time: int
    products: bool = False
    one_by_one: bool = False
    least_rows: int = 1
    on_device: float = 1.0

    def blocks(self, source: Source) -> Iterator[slice]:
        """Return the blocks of rows of a source."""
        least_bytes = 8 * source.shape[1] * self.least_rows
        on_device = int(source.block_bytes * self.on_device)
        return row_blocks(*source.shape, on_device or max(least_bytes, self.block_bytes))

    def run(self, task: Callable[[slice], Any], source: Source) -> Iterator[Any]:
        """Return the task's results for the blocks of a source, in order."""
        results = source.run(task, self.blocks(source), self.at_a_time)
        return self._limited(results) if self.products or self.one_by_one else results

    def _limited(self, results: Iterator[Any]) -> Iterator[Any]:
        sequential = parallel_config(n_jobs=1) if self.one_by_one else nullcontext()
        with one_blas_thread() if self.products else nullcontext(), sequential:
            yield from results


# Passes that compute exponentials or more, little, and matrix products.
ROWS = Work(ROW_BLOCK_BYTES, AT_A_TIME)
LIGHT = Work(LIGHT_BLOCK_BYTES, LIGHT_AT_A_TIME)
# Passes that allocate no temporary as large as a block, and passes that allocate several.
READS, FORMULAS = LIGHT._replace(on_device=16.0), ROWS._replace(on_device=0.25)
PRODUCTS = Work(TALL_BLOCK_BYTES, 1, products=True)
ONE_BY_ONE = Work(TALL_BLOCK_BYTES, 1, one_by_one=True)


def apply(kernel: Kernel, source: Source, per_row: tuple[PerRow, ...], rows: slice) -> Any:
    """Return what a kernel computes for a block of rows."""
    parts = (None if values is None else source.place(values)[rows] for values in per_row)
    return kernel(source.read(rows), *parts)


def fill(
    kernel: Kernel,
    source: Source,
    per_row: tuple[PerRow, ...],
    out: tuple[NDArray[Any], ...],
    rows: slice,
) -> Any:
    """Write the arrays that a kernel computes to `rows` of `out`; return the value after them."""
    result = apply(kernel, source, per_row, rows)
    result = result if isinstance(result, tuple) else (result,)
    for whole, part in zip(out, result, strict=False):
        wide = isinstance(part, np.ndarray) and part.ndim == 2 and part.shape[1] > FEW_COLUMNS
        if wide and part.flags.f_contiguous:
            transpose_into(part.T, whole[rows])
        elif getattr(part, "base", None) is not whole:  # the kernel may have written there
            whole[rows] = part
    return result[-1] if len(result) > len(out) else None


def sum_rows(kernel: Kernel, source: Source, *per_row: PerRow, work: Work = ROWS) -> Any:
    """Return the sum of what `kernel` returns for each block: a number, an array or a tuple."""
    if source.remote is not None:
        return source.remote.total(partial(sum_rows, kernel, work=work), source, per_row)
    parts = work.run(partial(apply, kernel, source, per_row), source)
    total = next(parts)
    for part in parts:
        total = add(total, part)
    return source.fetch(total)


def add(total: Any, part: Any) -> Any:
    """Return the sum of two numbers or arrays, or of tuples of them."""
    if isinstance(total, tuple):
        sums = [add(*pair) for pair in zip(total, part, strict=True)]
        return type(total)(*sums) if hasattr(total, "_fields") else tuple(sums)
    return total + part


def merge_rows(
    kernel: Kernel,
    source: Source,
    *per_row: PerRow,
    merge: Callable[[Iterable[Any]], Any] = list,
    work: Work = ROWS,
) -> Any:
    """Return ``merge(results)``, with the kernel's results of all blocks in order."""
    if source.remote is not None:
        results = source.remote.each(partial(merge_rows, kernel, work=work), source, per_row)
        return merge(chain.from_iterable(results))
    return merge(work.run(partial(apply, kernel, source, per_row), source))


def map_rows(
    kernel: Kernel,
    source: Source,
    *per_row: PerRow,
    out: NDArray[Any] | tuple[NDArray[Any], ...],
    work: Work = ROWS,
) -> list[Any]:
    """Write what `kernel` returns for each block to its rows of `out`.

    `out` is an array with a row for each row of the source, or a tuple of them, and the kernel
    returns as many arrays. If it returns one more value, a list of these is returned. Of blocks on
    a device, `out` are tensors there (`Source.empty_rows`).
    """
    out = out if isinstance(out, tuple) else (out,)
    if source.remote is not None:
        of_chunk = partial(
            _map_chunk, kernel, [(whole.shape[1:], whole.dtype) for whole in out], work
        )
        results = source.remote.each(of_chunk, source, per_row)
        for rows, (parts, _) in zip(source.remote.spans(), results, strict=True):
            for whole, part in zip(out, parts, strict=True):
                whole[rows] = part
        return [value for _, rest in results for value in rest]
    return list(work.run(partial(fill, kernel, source, per_row, out), source))


def _map_chunk(
    kernel: Kernel, likes: list[Any], work: Work, source: Source, *per_row: PerRow
) -> tuple[tuple[NDArray[Any], ...], list[Any]]:
    out = tuple(np.empty((source.shape[0], *shape), dtype=dtype) for shape, dtype in likes)
    return out, map_rows(kernel, source, *per_row, out=out, work=work)


def cached(source: Source, limit: int = CACHED_ENTRIES) -> Source:
    """Return computed numbers as an array, in the fastest memory order, if they are few."""
    n, n_columns = source.shape
    if n * n_columns > limit or source.remote is not None or source.on_device() is not None:
        return source
    out = np.empty((n, n_columns), dtype=source.dtype, order=block_order(n_columns))
    map_rows(np.asarray, source, out=out)
    return ArraySource(out)
