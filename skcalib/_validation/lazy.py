"""Arrays that are not in memory are refused, so that they are not loaded silently."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

# Libraries whose arrays are read from files, or computed, on access.
LIBRARIES = ("dask", "zarr", "h5py", "netCDF4", "cubed", "vaex", "pyspark")


def refuse_lazy(name: str, given: Any) -> None:
    """Refuse a lazy array or frame; the message names its type, its size and how to load it."""
    if isinstance(given, np.ndarray):
        return
    graph = getattr(given, "__dask_graph__", None)
    in_graph = callable(graph) and graph() is not None  # xarray returns None for data in memory
    library = type(given).__module__.partition(".")[0]
    frame = library == "polars" and hasattr(given, "collect")
    if in_graph or frame or library in LIBRARIES:
        raise TypeError(describe_lazy(name, given))


def describe_lazy(name: str, given: Any) -> str:
    """Return the type and the size of a lazy array or frame, and how to load it."""
    library = type(given).__module__.partition(".")[0]
    frame = library == "polars" and hasattr(given, "collect")
    load = "collect()" if frame else "compute()" if hasattr(given, "compute") else ""
    way = f"{name}.{load}" if load else f"{name}[:]"
    beside = ""
    if hasattr(given, "to_dask_array"):
        beside = f"{name}.to_dask_array(lengths=True) beside a dask array, "
    kind = f"{library}.{type(given).__name__}"
    return (
        f"{name} is a {kind}{_size(given)}, which would be loaded whole: pass {way} if it fits "
        f"into memory, {beside}or some of its rows."
    )


def _size(given: Any) -> str:
    shape, dtype = getattr(given, "shape", None), getattr(given, "dtype", None)
    if not isinstance(shape, tuple) or not all(isinstance(n, int | float) for n in shape):
        return ""
    text = f" of shape ({', '.join(str(n) for n in shape)}{',' * (len(shape) == 1)})"
    n_bytes = float(prod(shape) * getattr(dtype, "itemsize", 0))
    if not 0 < n_bytes < np.inf:  # the number of rows may be unknown
        return text
    power = min(3, (int(n_bytes).bit_length() - 1) // 10)
    return f"{text}, {n_bytes / 1024**power:,.3g} {('bytes', 'KiB', 'MiB', 'GiB')[power]}"
