"""Whole columns of Dask arrays, which workers of a cluster exchange."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from joblib import parallel_config
from numpy.typing import NDArray

# Memory that work on a column takes, as a multiple of the column.
COPIES = 4


def active_client() -> Any:
    """Return the client of the cluster on which Dask computes, or None."""
    import dask

    client = getattr(dask.base.get_scheduler(), "__self__", None)
    return client if hasattr(client, "scheduler_info") else None


@contextmanager
def without_size_warning() -> Iterator[None]:
    """Silence the warning of Dask that labels and weights are large."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sending large graph", category=UserWarning)
        yield


def exchanged(
    client: Any,
    values: Sequence[Any],
    lengths: Sequence[int],
    columns: slice,
    dtype: np.dtype[Any],
    use: Callable[[NDArray[Any], int], list[Any]],
    step: int,
) -> Iterator[Any]:
    """Yield what ``use(numbers, first)`` lists for `step` columns at a time, in order.

    Parameters
    ----------
    client : distributed.Client
    values : sequence of Delayed
        Arrays ``(rows, K)``, the wanted columns of each chunk.
    lengths : sequence of int
        Their rows.
    columns : slice
        Numbers of the wanted columns.
    dtype : dtype
    use : callable
        It runs on the workers, on arrays ``(step, n)``.
    step : int
    """
    import dask
    import dask.array as da

    check_workers(client, sum(lengths) * dtype.itemsize, sum(lengths))
    width = columns.stop - columns.start
    parts = [
        da.from_delayed(each, (n, width), dtype) for each, n in zip(values, lengths, strict=True)
    ]
    blocks = da.concatenate(parts).rechunk({0: -1, 1: step}).to_delayed()[0]
    work = dask.delayed(use, pure=False, traverse=False)  # a task of its own: sent only once
    run = dask.delayed(use_block, pure=False)
    tasks = [run(work, block, columns.start + i * step) for i, block in enumerate(blocks)]
    with without_size_warning():
        for results in dask.compute(*tasks):
            yield from results


def use_block(use: Callable[..., list[Any]], block: NDArray[Any], first: int) -> list[Any]:
    """Return what ``use(numbers, first)`` lists for a block of whole columns."""
    with parallel_config(n_jobs=1):
        return use(np.ascontiguousarray(block.T), first)


def check_workers(client: Any, column_bytes: int, n: int) -> None:
    """Refuse columns that the smallest worker cannot take, before anything is exchanged."""
    limits = [worker["memory_limit"] for worker in client.scheduler_info()["workers"].values()]
    least = min((limit for limit in limits if limit), default=np.inf)
    needed = COPIES * column_bytes
    if needed > least:
        raise ValueError(
            f"Whole columns are needed: {n:,} rows take {needed / 1e9:.3g} GB each and the "
            f"smallest worker has {least / 1e9:.3g} GB; use fewer rows (X[::k]) or larger workers."
        )
