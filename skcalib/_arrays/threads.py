"""Blocks computed in threads, with results in order; warnings kept where threads allow it.

NumPy releases the interpreter's lock in most operations, so a long loop over blocks can use all
cores. Blocks, and therefore results, do not depend on the number of threads.
"""

from __future__ import annotations

import os
import threading
import warnings
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
Block = TypeVar("Block")
# Row blocks that a thread takes at a time: submitting a task takes as long as summing one block.
AT_A_TIME = 8


# To inspect the loaded libraries, and to read the limits of the container, takes milliseconds.
_thread_pools, _cores = cache(ThreadpoolController), cache(joblib.cpu_count)


def thread_count() -> int:
    """Return the number of threads that a loop may use.

    That is ``n_jobs`` of an enclosing `joblib.parallel_config`. Without one, it is 1 in a worker of
    joblib, because the other workers use the other cores, and elsewhere the number of cores or the
    lower limit that threadpoolctl or ``OMP_NUM_THREADS`` sets.
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

    BLAS threads wait for the next product in busy loops and keep the cores from other work: a fit
    with many small products takes twice as long. The limit applies to the whole process, so only
    the first of several concurrent callers sets it and removes it.
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
    """Return a cached pool; starting one takes as long as an ECE of 10,000 rows.

    Nested loops use a pool for each depth: in a shared pool, tasks would wait for each other.
    """
    return ThreadPoolExecutor(count, "skcalib", setattr, (_depth, "value", depth + 1))


if hasattr(os, "register_at_fork"):  # threads do not survive a fork
    os.register_at_fork(after_in_child=_threads.cache_clear)


def map_blocks(
    function: Callable[[Block], T], blocks: Iterable[Block], at_a_time: int = AT_A_TIME
) -> Iterator[T]:
    """Yield ``function(block)`` for each block, in order, computed in threads if there are many.

    A task is `at_a_time` blocks. The queue is short, which bounds the memory. A single
    task runs in the caller's thread.
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
    """Keep warnings to show them later; in the main thread only.

    Python has one list of filters for all threads: replacing it in one of several threads would
    lose the warnings of the others. Processes of joblib work in their main thread; in threads of
    joblib warnings are shown at once.
    """
    if threading.current_thread() is not threading.main_thread():
        yield []
        return
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield caught
