"""Forms of an array: other layouts, containers and types, spoilt copies, and what is no array."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import scipy.sparse as sp

Array = Any


class AsArray:
    """An object that is none of the known containers and turns itself into an array."""

    def __init__(self, values: Array) -> None:
        self.values = values

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        """Return the values."""
        return np.array(self.values, dtype=dtype)


class Refuses:
    """An object whose conversion fails, as that of a remote array may."""

    shape = (40, 3)
    ndim = 2
    dtype = np.dtype(float)

    def __len__(self) -> int:
        return 40

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        """Fail."""
        raise TypeError("no array here")


class Lazy:
    """An array of 7 GiB that is computed when it is read."""

    shape = (10**6, 1000)
    ndim = 2
    dtype = np.dtype(float)

    def __len__(self) -> int:
        return 10**6

    def __dask_graph__(self) -> dict[str, Any]:
        """Return something: it is lazy."""
        return {}

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        """Fail."""
        raise AssertionError("a lazy array was read")


def spoilt(values: Array, at: Any, value: Any, dtype: Any = None) -> Array:
    """Return a copy in which some entries are others."""
    changed = np.array(values, dtype=dtype)
    changed[at] = value
    return changed


def memory_mapped(values: Array, mode: str) -> Array:
    """Write the values to a file that has no name any more, and map it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "values.npy"
        np.save(path, values)
        return np.load(path, mmap_mode=mode)  # type: ignore[call-overload]


def read_only(values: Array) -> Array:
    """Return a copy that cannot be written to."""
    fixed = np.array(values)
    fixed.flags.writeable = False
    return fixed


def unaligned(values: Array) -> Array:
    """Return a copy that does not begin at a multiple of its items' size."""
    room = np.zeros(values.nbytes + 1, dtype=np.uint8)[1:]
    moved = room.view(values.dtype).reshape(values.shape)
    moved[...] = values
    return moved


def as_matrix(values: Array) -> Array:
    """Return a np.matrix; its making warns, which is no concern of a call with it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PendingDeprecationWarning)
        return np.asmatrix(values)


def with_nulls(values: Array, frame: bool) -> Any:
    """Return a polars frame or series whose third row is missing."""
    if not frame:
        return pl.Series([None if i == 2 else v for i, v in enumerate(values.tolist())])
    return pl.DataFrame(
        {str(j): [None if i == 2 else v for i, v in enumerate(c)] for j, c in enumerate(values.T)}
    )


def layouts(values: Array) -> dict[str, Callable[[], Any]]:
    """Return other layouts and containers of an array: the same numbers."""
    table = values.ndim == 2
    index = np.arange(len(values))[::-1] + 7
    return {
        "Fortran order": lambda: np.asfortranarray(values),
        "every second entry": lambda: np.repeat(values, 2, axis=-1)[..., ::2],
        "reversed strides": lambda: values[::-1].copy()[::-1],
        "read-only": lambda: read_only(values),
        "memmap": lambda: memory_mapped(values, "r"),
        "memmap, copy on write": lambda: memory_mapped(values, "c"),
        "list": values.tolist,
        "tuple": lambda: tuple(map(tuple, values.tolist())) if table else tuple(values.tolist()),
        "list of arrays": lambda: list(values),
        "object array": lambda: values.astype(object),
        "pandas": lambda: pd.DataFrame(values) if table else pd.Series(values),
        "pandas, odd index": lambda: (
            pd.DataFrame(values, index=index, columns=[f"c{j}" for j in range(values.shape[1])])
            if table
            else pd.Series(values, index=index)
        ),
        "pandas, repeated index": lambda: (
            pd.DataFrame(values, index=0 * index) if table else pd.Series(values, index=0 * index)
        ),
        "polars": lambda: (
            pl.DataFrame(values, schema=[str(j) for j in range(values.shape[1])])
            if table
            else pl.Series(values.tolist())
        ),
        "masked, nothing masked": lambda: np.ma.masked_array(values),
        "converts itself": lambda: AsArray(values),
    }


def number_layouts(values: Array) -> dict[str, Callable[[], Any]]:
    """Return other types of the same numbers."""
    table = values.ndim == 2
    return {
        "big-endian": lambda: values.astype(values.dtype.newbyteorder(">")),
        "longdouble": lambda: values.astype(np.longdouble),
        "unaligned": lambda: unaligned(values),
        "pandas nullable": lambda: (
            pd.DataFrame(values).astype("Float64") if table else pd.Series(values).astype("Float64")
        ),
        "pandas objects": lambda: (
            pd.DataFrame(values).astype(object) if table else pd.Series(values).astype(object)
        ),
    }


def nonsense(n: int) -> dict[str, Callable[[], Any]]:
    """Return what is no array of n rows of anything."""
    return {
        "string": lambda: "scores",
        "bytes": lambda: b"scores",
        "dict": lambda: {"a": 1},
        "set": lambda: {1, 2},
        "generator": lambda: (i for i in range(n)),
        "object": object,
        "objects": lambda: [object() for _ in range(n)],
        "function": lambda: print,
        "class": lambda: np.ndarray,
        "NaN alone": lambda: np.nan,
        "empty list": list,
        "empty array": lambda: np.empty(0),
        "empty frame": pd.DataFrame,
        "0-d array": lambda: np.array(1.0),
        "ellipsis": lambda: ...,
        "NotImplemented": lambda: NotImplemented,
        "refuses to convert": Refuses,
        "lazy": Lazy,
        "None in a list": lambda: [None] * n,
        "ragged": lambda: [[0.5, 0.5]] * (n - 1) + [[0.5]],
        "ragged, deep": lambda: [[0.5, [0.5]]] * n,
        "dates": lambda: np.full(n, np.datetime64("2020-01-01")),
        "spans of time": lambda: np.full(n, np.timedelta64(3, "s")),
        "NaT": lambda: np.full(n, np.datetime64("NaT")),
        "records": lambda: np.zeros(n, dtype=[("a", float), ("b", int)]),
        "void": lambda: np.zeros(n, dtype="V8"),
        "complex": lambda: np.full(n, 0.5 + 1j),
        "three axes": lambda: np.full((n, 2, 2), 0.5),
        "five axes": lambda: np.full((n, 1, 1, 1, 2), 0.5),
        "sparse vector": lambda: sp.csr_matrix(np.ones((n, 1))),
    }
