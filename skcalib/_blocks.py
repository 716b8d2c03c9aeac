"""Floor 0: row blocks and class blocks of bounded memory, computed in threads.

A pass over an ``(n, K)`` array is a loop over pieces that fit a core's cache, so that no
temporary of the array's own size is ever made and a memory-mapped array is read once. NumPy
releases the interpreter's lock in these pieces, so a long loop uses the cores there are. What a
piece is does not depend on the number of threads, and results come back in order: neither do they.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import cache
from itertools import chain, islice
from typing import Any, TypeVar

import joblib
from joblib.parallel import get_active_backend
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

T = TypeVar("T")

# Half a mebibyte of float64 leaves room in a 1-2 MiB second-level cache for the two or three
# temporaries that a kernel makes of its block.
ROW_BLOCK_BYTES = 1 << 19
# A block of columns is sorted or searched column by column: it need not fit the cache, only
# bound the memory, of which each thread holds a few blocks.
COLUMN_BLOCK_BYTES = 1 << 22
# Rows of a tile of a transposition.
TILE = 512
# Row blocks that a thread takes at a time: handing over one takes as long as summing it.
AT_A_TIME = 8
# Where a block is read once or twice and little is done with it, threads wait for each other's
# calls more than they compute unless blocks are larger and more of them are taken.
LIGHT_BLOCK_BYTES = 1 << 21
LIGHT_AT_A_TIME = 16


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


def light_blocks(n_rows: int, n_columns: int, itemsize: int = 8) -> tuple[Iterator[slice], int]:
    """Return blocks of rows to read once or twice, and how many a thread takes at a time.

    Calls on float32 take half the time: its blocks are four times as tall.
    """
    taller = 4 if itemsize < 8 else 1
    blocks = row_blocks(n_rows, n_columns, taller * LIGHT_BLOCK_BYTES)
    return blocks, LIGHT_AT_A_TIME // taller


def transpose_into(A: NDArray[Any], out: NDArray[Any]) -> None:
    """Write ``A.T`` to `out` in tiles of a few hundred rows (or columns, if A is wider than long).

    Written whole, a few columns of a wide array would miss the cache at every entry.
    """
    if A.shape[0] < A.shape[1]:
        A, out = A.T, out.T
    for start in range(0, A.shape[0], TILE):
        out[:, start : start + TILE] = A[start : start + TILE].T


@cache
def _thread_pools() -> ThreadpoolController:
    return ThreadpoolController()  # looks through the loaded libraries: milliseconds


@cache
def _cores() -> int:
    return joblib.cpu_count()  # reads the limits of the container


def thread_count() -> int:
    """Threads that a loop may use.

    ``n_jobs`` of an enclosing `joblib.parallel_config`; else 1 within a worker of joblib (whoever
    works in parallel already has taken the cores); else the cores there are, or fewer if
    threadpoolctl or ``OMP_NUM_THREADS`` say so.
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
    """Give the cores to loops over blocks: they have their threads, products of matrices one.

    The threads of BLAS wait for their next product in busy loops, and take the cores from whatever
    comes between: a fit of many small products takes twice as long. The limit holds for the whole
    process, so only the first of several threads that ask sets it, and takes it back.
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


def _enter(depth: int) -> None:
    _depth.value = depth


@cache
def _threads(count: int, depth: int) -> ThreadPoolExecutor:
    """Return threads, which are kept: to start them takes as long as an error of 10,000 rows.

    A loop in a thread of another loop, at a depth of one more, has others, so that none waits for
    a thread that waits for it.
    """
    return ThreadPoolExecutor(count, "skcalib", _enter, (depth + 1,))


if hasattr(os, "register_at_fork"):  # a forked process has none of its parent's threads
    os.register_at_fork(after_in_child=_threads.cache_clear)


def each_block(
    function: Callable[[slice], None], blocks: Iterable[slice], at_a_time: int = AT_A_TIME
) -> None:
    """Call ``function(block)`` of each block, which writes its result where it belongs."""
    deque(map_blocks(function, blocks, at_a_time), maxlen=0)


def map_blocks(
    function: Callable[[slice], T], blocks: Iterable[slice], at_a_time: int = AT_A_TIME
) -> Iterator[T]:
    """Yield ``function(block)`` of each block, in order, computed in threads if there are many.

    Each thread takes `at_a_time` blocks, and only a few results wait to be taken, so that memory
    stays bounded. A loop that two threads could not share stays in the caller's; of one that has no
    more than a share for each, the caller's thread takes the first.
    """
    blocks = iter(blocks)
    shares = iter(lambda: list(islice(blocks, at_a_time)), [])
    first, second = next(shares, []), next(shares, [])
    if not second or (threads := thread_count()) == 1:
        yield from map(function, chain(first, second, blocks))
        return

    def compute(several: list[slice]) -> list[T]:
        return [function(block) for block in several]

    waiting: deque[Future[list[T]]] = deque()
    pool = _threads(threads, getattr(_depth, "value", 0))
    others = [second, *islice(shares, threads - 1)]
    try:
        if len(others) < threads:
            # One thread less to wake: a tenth of the time of a softmax of 8 MB.
            waiting.extend(pool.submit(compute, several) for several in others)
            yield from compute(first)
        else:
            for several in chain([first], others, shares):
                waiting.append(pool.submit(compute, several))
                if len(waiting) > threads + 1:
                    yield from waiting.popleft().result()
        while waiting:
            yield from waiting.popleft().result()
    finally:
        wait([future for future in waiting if not future.cancel()])
