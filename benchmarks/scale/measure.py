"""Passes, time, memory and bytes of jobs on chunks, on threads and on a cluster of processes."""

from __future__ import annotations

import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from benchmarks._shared.timing import quiet
from benchmarks.scale.jobs import JOBS, Data

WORKERS = 2
MIB = 2**20


class Figures(NamedTuple):
    """Of a job on Dask chunks; `sent` is NaN without a cluster."""

    passes: float
    seconds: float
    peak: float
    sent: float


@contextmanager
def scheduler(where: str) -> Iterator[Any]:
    """Compute on "threads" or on a cluster of "processes", whose client is the value."""
    import dask

    if where == "threads":
        with dask.config.set(scheduler="threads", num_workers=WORKERS):
            yield None
        return
    import distributed

    with (
        distributed.LocalCluster(
            n_workers=WORKERS, threads_per_worker=1, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


def timed(call: Callable[[], Any]) -> float:
    """Return the seconds that a call takes."""
    start = time.perf_counter()
    with quiet():
        call()
    return time.perf_counter() - start


def beside(
    first: Callable[[], Any], second: Callable[[], Any], repeats: int
) -> tuple[float, float]:
    """Return the least seconds of two calls that take turns."""
    pairs = [(timed(first), timed(second)) for _ in range(repeats)]
    return min(a for a, _ in pairs), min(b for _, b in pairs)


def traced_peak(call: Callable[[], Any], client: Any = None) -> float:
    """Return MiB that Python and NumPy allocated at most, here or in the fullest worker."""
    everywhere = client.run if client else lambda function: {"": function()}
    everywhere(tracemalloc.start)
    before = everywhere(tracemalloc.get_traced_memory)
    with quiet():
        call()
    after = everywhere(tracemalloc.get_traced_memory)
    everywhere(tracemalloc.stop)
    return max(after[each][1] - before[each][0] for each in after) / MIB


def bytes_sent(dask_worker: Any) -> float:
    """Return bytes that a worker sent to others, and those that it put into an exchange of columns.

    Of the exchange Dask counts the bytes of all pieces, also of those that stay where they are.
    """
    exchanged = sum(
        value
        for key, value in dask_worker.digests_total.items()
        if "p2p-shards" in key and "bytes" in key
    )
    return float(dask_worker.transfer_outgoing_bytes_total + exchanged)


def total_sent(client: Any) -> float:
    """Return the bytes of all workers."""
    return float(sum(client.run(bytes_sent).values()))


def figures(
    name: str, data: Data, n_chunks: int, repeats: int, client: Any
) -> tuple[float, Figures]:
    """Return the seconds of NumPy and what the job takes on chunks."""
    job = JOBS[name]
    array, lazy = data.array(job.scores), data.lazy(job.scores, n_chunks)
    file = data.files[job.scores]

    def on_chunks() -> Any:
        return job.run(lazy, data.y)

    before = file.readings()
    sent = total_sent(client) if client else float("nan")
    with quiet():
        on_chunks()
    passes = (file.readings() - before) / lazy.numblocks[0]
    if client:
        sent = total_sent(client) - sent
    alone, seconds = beside(lambda: job.run(array, data.y), on_chunks, repeats)
    peak = traced_peak(on_chunks, client)
    print(f"{name}, {file.shape}: {seconds:.2f} s", file=sys.stderr)
    return alone, Figures(passes, seconds, peak, sent)


def growth(name: str, data: Data, chunks: list[int], repeats: int) -> list[float]:
    """Return the least seconds of a job for each number of chunks, which take turns."""
    job = JOBS[name]
    arrays = [data.lazy(job.scores, n) for n in chunks]
    rounds = [[timed(lambda X=X: job.run(X, data.y)) for X in arrays] for _ in range(repeats)]
    return [min(each) for each in zip(*rounds, strict=True)]
