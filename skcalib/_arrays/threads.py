"""Blocks computed in threads, with results in order.

NumPy releases the interpreter's lock in most of its operations, so that a long loop over blocks
uses all cores. Blocks do not depend on the number of threads, and so neither do results.
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
from typing import TypeVar

import joblib
from joblib.parallel import get_active_backend
from threadpoolctl import ThreadpoolController

T = TypeVar("T")
# Row blocks that a thread takes at a time: handing over one takes as long as summing it.
AT_A_TIME = 8


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
