"""Sources of scores in memory, in files or on devices, and computation on their rows in threads."""

from __future__ import annotations

import os
import sys
import threading
import warnings
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, nullcontext
from functools import cache, partial
from itertools import chain, islice
from typing import Any, NamedTuple, TypeVar

import joblib
import numpy as np
from joblib import parallel_config
from joblib.parallel import get_active_backend
from numpy.typing import DTypeLike, NDArray
from threadpoolctl import ThreadpoolController

from skcalib._arrays.rowwise import (
    FEW_COLUMNS,
    LIGHT_AT_A_TIME,
    LIGHT_BLOCK_BYTES,
    ROW_BLOCK_BYTES,
    TALL_BLOCK_BYTES,
    Float64Array,
    FloatArray,
    Rows,
    block_order,
    row_blocks,
    transpose_into,
)

# Threads that compute blocks of rows and return the results in order; recording of warnings.
#
# NumPy releases the interpreter's lock in most operations, so a long loop over blocks can use all
# cores. The blocks, and so the results, do not depend on the number of threads.


T = TypeVar("T")
Block = TypeVar("Block")
# Number of blocks that a task of a thread computes, because submitting a task takes as long as
# summing a block.
AT_A_TIME = 8


# The thread pools of libraries and the number of cores are cached, because finding them takes
# milliseconds.
_thread_pools, _cores = cache(ThreadpoolController), cache(joblib.cpu_count)


def thread_count() -> int:
    """Return the number of threads that a loop over blocks may use.

    The number is ``n_jobs`` of an enclosing `joblib.parallel_config`. Otherwise, it is 1 in a
    worker of joblib, because other workers use the other cores, and elsewhere the number of cores,
    or a lower limit that threadpoolctl or ``OMP_NUM_THREADS`` sets.
    """
    backend, n_jobs = get_active_backend()
    if n_jobs is None:
        if backend.nesting_level:
            return 1
        before = getattr(_within, "limits", None)
        return min([_cores(), *(_limits() if before is None else before)])
    return n_jobs if n_jobs > 0 else max(1, _cores() + 1 + n_jobs)


def _limits() -> list[int]:
    return [pool.num_threads for pool in _thread_pools().lib_controllers]


_within = threading.local()
_limiting = threading.Lock()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit BLAS to one thread, so that loops over blocks can use all cores.

    BLAS threads wait for the next product in busy loops and block the cores, so that a fit with
    many small products takes twice as long. The limit applies to the whole process, so only the
    first of several concurrent callers sets and removes it.
    """
    if not _limiting.acquire(blocking=False):
        yield
        return
    try:
        _within.limits = _limits()
        with _thread_pools().limit(limits=1, user_api="blas"):
            yield
    finally:
        _within.limits = None
        _limiting.release()


_depth = threading.local()


@cache
def _threads(count: int, depth: int) -> ThreadPoolExecutor:
    """Return a cached pool of threads, because starting a pool takes as long as a small metric.

    Nested loops use a pool for each depth: in a shared pool, tasks would wait for each other.
    """
    return ThreadPoolExecutor(count, "skcalib", setattr, (_depth, "value", depth + 1))


if hasattr(os, "register_at_fork"):  # a forked process does not inherit the threads
    os.register_at_fork(after_in_child=_threads.cache_clear)


def map_blocks(
    function: Callable[[Block], T], blocks: Iterable[Block], at_a_time: int = AT_A_TIME
) -> Iterator[T]:
    """Yield ``function(block)`` for each block, in order; use threads for many blocks.

    A task computes `at_a_time` blocks. The queue is short, which bounds the memory. A single task
    runs in the caller's thread.
    """
    blocks = iter(blocks)
    shares = iter(lambda: list(islice(blocks, at_a_time)), [])
    first, second = next(shares, []), next(shares, [])
    if not second or (threads := thread_count()) == 1:
        yield from map(function, chain(first, second, blocks))
        return

    def compute(several: list[Block]) -> list[T]:
        return [function(block) for block in several]

    waiting: deque[Future[list[T]]] = deque()
    pool = _threads(threads, getattr(_depth, "value", 0))
    try:
        for several in chain([first, second], shares):
            waiting.append(pool.submit(compute, several))
            if len(waiting) > threads + 1:
                yield from waiting.popleft().result()
        while waiting:
            yield from waiting.popleft().result()
    finally:
        wait([future for future in waiting if not future.cancel()])


@contextmanager
def recorded_warnings() -> Iterator[list[warnings.WarningMessage]]:
    """Record warnings in the main thread, to show them later.

    Python has one list of warning filters for all threads: replacing it in one of several threads
    would lose the warnings of the others. In threads of joblib, warnings are therefore shown at
    once. Processes of joblib work in their main thread.
    """
    if threading.current_thread() is not threading.main_thread():
        yield []
        return
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield caught


# Sources: numbers in memory, in a file, on a device or on a Dask cluster, which are read in blocks.
#
# A kernel gets blocks of a `Source`, so it does not depend on the storage of the numbers. A source
# never has to be in memory as a whole.


ALL = slice(None)


class Source(ABC):
    """Source of floating-point numbers ``(n, K)`` that are read in blocks of rows.

    Attributes
    ----------
    shape : tuple of int
        Number of rows and of columns.
    dtype : dtype
        Type of the numbers.
    """

    shape: tuple[int, int]
    dtype: np.dtype[Any]

    # The Dask array (`Remote` source) that has the numbers; None for numbers in this process.
    remote: Any = None

    @abstractmethod
    def read(self, rows: Rows, columns: slice = ALL) -> FloatArray:
        """Read a block of rows as an array that must not be modified."""

    # Size in bytes of a block of rows in float64; 0 if each pass over the rows chooses a size.
    block_bytes = 0

    def run(self, task: Callable[[Any], T], parts: Iterable[Any], at_a_time: int) -> Iterator[T]:
        """Yield ``task(part)`` for each part, in order; a thread gets `at_a_time` parts at once."""
        return map_blocks(task, parts, at_a_time)

    def on_device(self) -> Any:
        """Return the numbers as `DeviceBlocks` on a device, or None if NumPy computes them."""
        return None

    def computed(self, compute: Callable[[Rows], Any]) -> Source:
        """Return a source of the float64 blocks that ``compute(rows)`` returns."""
        return Computed(self, compute)

    def empty_rows(self, dtype: DTypeLike = np.float64) -> Any:
        """Return a new array with an entry for each row, on the device of the blocks."""
        return np.empty(self.shape[0], dtype=dtype)

    def rows_to_device(self, values: Any) -> Any:
        """Move an array with an entry for each row to the device of the blocks."""
        return values

    def to_device(self, values: Any) -> Any:
        """Move an array of parameters to the device of the blocks."""
        return values

    def to_host(self, result: Any) -> Any:
        """Convert the result of a pass to numbers and NumPy arrays."""
        return result


class ArraySource(Source):
    """Source of scores in a NumPy array."""

    def __init__(self, array: FloatArray) -> None:
        self.array = array
        self.shape = array.shape[0], array.shape[1]
        self.dtype = array.dtype

    def read(self, rows: Rows, columns: slice = ALL) -> FloatArray:
        """Read a block of rows of the array; the block is a view if `rows` is a slice."""
        return self.array[rows, columns]


class Remote(Source):
    """Source that is never read as a whole: functions are sent to the chunks of the source.

    Its methods are documented in `DaskSource` of `skcalib._arrays.dask`.
    """

    @property
    def remote(self) -> Any:
        """The source itself, because its rows may be on other machines, as for a Dask array."""
        return self


def is_dask(X: Any) -> bool:
    """Return whether `X` is a Dask array, without importing Dask."""
    dask_array = sys.modules.get("dask.array")
    return dask_array is not None and isinstance(X, dask_array.Array)


class Derived(Source):
    """Source that is computed from the blocks of another source."""

    source: Source

    @property
    def remote(self) -> Any:
        """The `Remote` source from which the numbers are computed, or None."""
        return self.source.remote

    def run(self, task: Callable[[Any], T], parts: Iterable[Any], at_a_time: int) -> Iterator[T]:
        """Yield ``task(part)`` for each part, in order; a thread gets `at_a_time` parts at once."""
        return self.source.run(task, parts, at_a_time)


class Computed(Derived):
    """Source whose numbers are computed from the blocks of another source when they are read.

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
        self.source, self.shape, self.dtype = source, source.shape, np.dtype(dtype)
        self._compute, self._device = compute, device

    def __setstate__(self, state: dict[str, Any]) -> None:
        # On a Dask worker, the source may be replaced by a chunk, which has fewer rows than the
        # Dask array. So the shape is read from the source.
        self.__dict__ = {**state, "shape": state["source"].shape}

    def on_device(self) -> Any:
        """Return the computed blocks on a device, or None if NumPy computes the blocks."""
        return self._device

    def read(self, rows: Rows, columns: slice = ALL) -> FloatArray:
        """Compute a block of rows as a new array."""
        return self._compute(rows)[:, columns].astype(self.dtype, copy=False)


def refuse_remote(source: Source, caller: str) -> None:
    """Raise TypeError for Dask arrays; the message names the `caller` that needs all rows."""
    if source.remote is not None:
        raise TypeError(f"{caller}: {source.remote.refusal}")


def as_source(X: FloatArray | Source) -> Source:
    """Convert an array to a source, ``(n,)`` to one column; return a source unchanged."""
    if not isinstance(X, np.ndarray):
        return X
    return ArraySource(X[:, None] if X.ndim == 1 else X)


def to_array(source: Source) -> FloatArray:
    """Return all numbers of a source as an array, without a copy if it is an array."""
    return source.array if isinstance(source, ArraySource) else source.read(ALL)


# Passes over the rows of a source, which sum, merge or store the results of a function of a block.
#
# A kernel is a function of a block, and of the entries of other arrays for the rows of the block. A
# kernel is a closure next to its use, where it reads its parameters. cloudpickle sends the kernel
# with its parameters to the chunks of a Dask array, so it must not refer to `self` or to an array
# of all rows. If ``range(n)`` is one of the other arrays, the kernel gets the row numbers.


Kernel = Callable[..., Any]
# An array with an entry for each row, or None for weights that are all 1.
PerRow = NDArray[Any] | range | None
# Largest number of entries (16 MiB) of a computed source that is cached. Larger sources are
# computed again in each pass.
CACHED_ENTRIES = 1 << 21


class Work(NamedTuple):
    """Settings of a computation on all rows: size of blocks, and number of blocks in a task.

    For matrix `products`, BLAS is limited to one thread, so that blocks can be computed in threads.
    If products are so large that BLAS should use its threads, blocks are computed `one_by_one`.
    Blocks have at least `least_rows` rows. On a device, they are `on_device` times as large as
    usual.
    """

    block_bytes: int
    at_a_time: int
    products: bool = False
    one_by_one: bool = False
    least_rows: int = 1
    on_device: float = 1.0

    def blocks(self, source: Source) -> Iterator[slice]:
        """Return the slices of rows that are the blocks of a source."""
        least_bytes = 8 * source.shape[1] * self.least_rows
        on_device = int(source.block_bytes * self.on_device)
        return row_blocks(*source.shape, on_device or max(least_bytes, self.block_bytes))

    def run(self, task: Callable[[slice], Any], source: Source) -> Iterator[Any]:
        """Apply a function to all blocks of a source, and return the results in order."""
        results = source.run(task, self.blocks(source), self.at_a_time)
        return self._limited(results) if self.products or self.one_by_one else results

    def _limited(self, results: Iterator[Any]) -> Iterator[Any]:
        sequential = parallel_config(n_jobs=1) if self.one_by_one else nullcontext()
        with one_blas_thread() if self.products else nullcontext(), sequential:
            yield from results


# Block size for costly functions such as exponentials.
ROWS = Work(ROW_BLOCK_BYTES, AT_A_TIME)
# Block size for cheap functions such as sums, which need larger blocks.
LIGHT = Work(LIGHT_BLOCK_BYTES, LIGHT_AT_A_TIME)
# Block sizes on a device such as a GPU: larger for functions without temporary arrays (READS),
# smaller for functions with several temporary arrays of the size of a block (FORMULAS).
READS, FORMULAS = LIGHT._replace(on_device=16.0), ROWS._replace(on_device=0.25)
# Block sizes for matrix products, and for many short calls in a single thread.
PRODUCTS = Work(TALL_BLOCK_BYTES, 1, products=True)
ONE_BY_ONE = Work(TALL_BLOCK_BYTES, 1, one_by_one=True)


def apply(kernel: Kernel, source: Source, per_row: tuple[PerRow, ...], rows: slice) -> Any:
    """Apply a kernel (a function of a block) to a block of rows."""
    parts = (None if values is None else source.rows_to_device(values)[rows] for values in per_row)
    return kernel(source.read(rows), *parts)


def fill(
    kernel: Kernel,
    source: Source,
    per_row: tuple[PerRow, ...],
    out: tuple[NDArray[Any], ...],
    rows: slice,
) -> Any:
    """Write the arrays that a kernel returns to the rows of `out`; return its other results."""
    result = apply(kernel, source, per_row, rows)
    result = result if isinstance(result, tuple) else (result,)
    for target, part in zip(out, result, strict=False):
        wide = isinstance(part, np.ndarray) and part.ndim == 2 and part.shape[1] > FEW_COLUMNS
        if wide and part.flags.f_contiguous:
            transpose_into(part.T, target[rows])
        elif getattr(part, "base", None) is not target:  # otherwise, the kernel wrote to `out`
            target[rows] = part
    return result[-1] if len(result) > len(out) else None


def sum_rows(kernel: Kernel, source: Source, *per_row: PerRow, work: Work = ROWS) -> Any:
    """Return the sum over blocks of the results of a kernel (numbers, arrays or tuples)."""
    if source.remote is not None:
        return source.remote.total(partial(sum_rows, kernel, work=work), source, per_row)
    parts = work.run(partial(apply, kernel, source, per_row), source)
    total = next(parts)
    for part in parts:
        total = add(total, part)
    return source.to_host(total)


def add(total: Any, part: Any) -> Any:
    """Add two numbers, two arrays, or the corresponding entries of two tuples."""
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
    """Apply a kernel to all blocks of a source, and merge the results, which are in order."""
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
    """Write the results of a kernel for each block to the rows of this block in `out`.

    `out` is an array with a row for each row of the source, or a tuple of such arrays; the kernel
    returns as many arrays. If the kernel returns one more value, the list of these values is
    returned. For blocks on a device, `out` are tensors on this device (`Source.empty_rows`).
    """
    out = out if isinstance(out, tuple) else (out,)
    if source.remote is not None:
        of_chunk = partial(
            _map_chunk, kernel, [(target.shape[1:], target.dtype) for target in out], work
        )
        results = source.remote.each(of_chunk, source, per_row)
        values: list[Any] = []
        for rows in source.remote.spans():
            parts, more = results.pop(0)  # `pop` frees the memory of each result
            values += more
            for target, part in zip(out, parts, strict=True):
                target[rows] = part
        return values
    return list(work.run(partial(fill, kernel, source, per_row, out), source))


def _map_chunk(
    kernel: Kernel, likes: list[Any], work: Work, source: Source, *per_row: PerRow
) -> tuple[tuple[NDArray[Any], ...], list[Any]]:
    out = tuple(np.empty((source.shape[0], *shape), dtype=dtype) for shape, dtype in likes)
    return out, map_rows(kernel, source, *per_row, out=out, work=work)


def cached(source: Source, limit: int = CACHED_ENTRIES) -> Source:
    """Store the numbers of a small source in an array, in the fastest memory order."""
    n, n_columns = source.shape
    if n * n_columns > limit or source.remote is not None or source.on_device() is not None:
        return source
    out = np.empty((n, n_columns), dtype=source.dtype, order=block_order(n_columns))
    map_rows(np.asarray, source, out=out)
    return ArraySource(out)
