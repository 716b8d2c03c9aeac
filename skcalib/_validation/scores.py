"""Conversion of frames, lists and tensors of scores to arrays; refusal of lazy arrays."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from math import prod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_array

from skcalib._arrays.rowwise import FloatArray
from skcalib._arrays.sources import Source, as_source
from skcalib._arrays.tensors import (
    TensorSource,
    array_of_tensor,
    is_tensor,
    needs_blocks,
    refuse_without_numbers,
)

# Conversion of frames of other libraries to pandas.


# Libraries other than pandas and polars whose data frames are accepted.
LIBRARIES = ("pyarrow", "duckdb", "modin", "cudf", "narwhals")


def read_frame(X: Any, name: str = "X") -> Any:
    """Convert a frame of pyarrow, duckdb or modin to pandas; return anything else unchanged."""
    if type(X).__module__.partition(".")[0] not in LIBRARIES:
        return X
    try:
        import narwhals  # imported here, because narwhals is optional
    except ImportError as error:
        raise ImportError(
            f"{name} is a {type(X).__module__}.{type(X).__name__}, which needs narwhals: pip "
            "install narwhals, or pass a frame of pandas or polars."
        ) from error
    frame = narwhals.from_native(X, pass_through=True)
    if isinstance(frame, narwhals.LazyFrame):
        frame = frame.collect()
    return frame.to_pandas() if isinstance(frame, narwhals.DataFrame) else X


# Lazy arrays and frames, which are refused because they would be loaded into memory.


# Libraries of lazy arrays, which are read from files or computed only when they are used.
LAZY_LIBRARIES = ("dask", "zarr", "h5py", "netCDF4", "cubed", "vaex", "pyspark")


def refuse_lazy(name: str, array: Any) -> None:
    """Refuse a lazy array or frame; the message names its type, its size and how to load it."""
    if isinstance(array, np.ndarray):
        return
    graph = getattr(array, "__dask_graph__", None)
    in_graph = callable(graph) and graph() is not None  # None if an xarray object is in memory
    library = type(array).__module__.partition(".")[0]
    frame = library == "polars" and hasattr(array, "collect")
    if in_graph or frame or library in LAZY_LIBRARIES:
        raise TypeError(describe_lazy(name, array))


def describe_lazy(name: str, array: Any) -> str:
    """Describe a lazy array or frame: its type, its size, and how to load it."""
    library = type(array).__module__.partition(".")[0]
    frame = library == "polars" and hasattr(array, "collect")
    load = "collect()" if frame else "compute()" if hasattr(array, "compute") else ""
    way = f"{name}.{load}" if load else f"{name}[:]"
    beside = ""
    if hasattr(array, "to_dask_array"):
        beside = f"{name}.to_dask_array(lengths=True) together with a dask array, "
    kind = f"{library}.{type(array).__name__}"
    return (
        f"{name} is a {kind}{_size(array)}, which would be loaded whole: pass {way} if it fits "
        f"into memory, {beside}or some of its rows."
    )


def _size(array: Any) -> str:
    shape, dtype = getattr(array, "shape", None), getattr(array, "dtype", None)
    if not isinstance(shape, tuple) or not all(isinstance(n, int | float) for n in shape):
        return ""
    text = f" of shape ({', '.join(str(n) for n in shape)}{',' * (len(shape) == 1)})"
    n_bytes = float(prod(shape) * getattr(dtype, "itemsize", 0))
    if not 0 < n_bytes < np.inf:  # a lazy array may not know its number of rows
        return text
    power = min(3, (int(n_bytes).bit_length() - 1) // 10)
    return f"{text}, {n_bytes / 1024**power:,.3g} {('bytes', 'KiB', 'MiB', 'GiB')[power]}"


# Conversion of scores (arrays, lists, frames and tensors) to arrays and sources.


def check_axes(X: Any, name: str = "X") -> None:
    """Refuse scores with more than two axes, such as (batch, class, position)."""
    shape = getattr(X, "shape", ())
    if isinstance(shape, tuple) and len(shape) > 2:
        shape = tuple(shape)
        rows = "reshape(-1, {})"
        move = f"{name}.movedim(1, -1)" if is_tensor(X) else f"numpy.moveaxis({name}, 1, -1)"
        raise ValueError(
            f"{name} has shape {shape}: pass a row for each position, {move}."
            f"{rows.format(shape[1])} if axis 1 is the class, {name}.{rows.format(shape[-1])} if "
            "the last axis is, with y.reshape(-1)."
        )


def as_matrix(X: ArrayLike, name: str = "X") -> FloatArray:
    """Convert scores to a non-empty 2-D array of float32 or float64; 1-D becomes one column."""
    if X is None or np.isscalar(X) or getattr(X, "ndim", None) == 0:
        raise ValueError(
            f"Expected 2D array, got {'None' if X is None else 'scalar array'} instead: {name} "
            "must be (n, K) scores or (n,) scores of the second class. Reshape your data."
        )
    # Arrays skip the checks for frames, which take as long as an ECE of a few
    # thousand rows.
    if type(X) is np.ndarray and X.dtype in (np.float64, np.float32) and X.ndim == 2 and X.size:
        return X
    check_axes(X, name)
    X = read_frame(from_tensor(name, X), name)
    advice = "pass (n, K) or (n,) numbers"
    # `check_array` of scikit-learn converts pandas frames and sparse matrices.
    if not (hasattr(X, "iloc") or hasattr(X, "tocsr") or isinstance(X, np.matrix)):
        X = as_array(name, X, advice)
        check_axes(X, name)
    with naming_errors_of(name, X, advice):
        types = np.atleast_1d(np.asarray(getattr(X, "dtypes", getattr(X, "dtype", None))))
        if any(getattr(dtype, "kind", None) in ("m", "M") for dtype in types):
            raise TypeError("dates and time differences are not scores")
        half = types.size == 1 and getattr(types[0], "name", "") in ("float16", "bfloat16")
        array = check_array(
            X,
            dtype=[np.float32] if half else [np.float64, np.float32],
            ensure_2d=False,
            ensure_all_finite=False,
            input_name=name,
        )
    return array[:, None] if array.ndim == 1 else array


def read_scores(X: ArrayLike | Source, name: str = "X") -> Source:
    """Convert scores to a source of float32 or float64 numbers; return a source unchanged."""
    if isinstance(X, Source):
        return X
    if is_tensor(X):
        refuse_without_numbers(name, X)  # first, because nested tensors have no shape
        check_axes(X, name)
        if needs_blocks(X):
            return TensorSource(X)
    return as_source(as_matrix(X, name))


def from_tensor(name: str, x: Any) -> Any:
    """Convert a tensor to an array; return anything else unchanged."""
    if not is_tensor(x):
        return x
    refuse_without_numbers(name, x)
    return array_of_tensor(x)


def as_array(name: str, values: Any, advice: str) -> NDArray[Any]:
    """Convert an argument to an array; errors contain the name of the argument and advice."""
    values = from_tensor(name, values)
    with naming_errors_of(name, values, advice):
        return np.asarray(values)


@contextmanager
def naming_errors_of(name: str, values: Any, advice: str) -> Iterator[None]:
    """Shorten conversion errors to one line: name of the argument, cause and advice."""
    refuse_lazy(name, values)
    if np.ma.is_masked(values):
        raise ValueError(f"{name} has masked entries; drop or fill such rows.")
    try:
        # Numbers beyond float64 become infinite; a later check refuses them and names the row.
        with np.errstate(over="ignore"):
            yield
    except (TypeError, ValueError, OverflowError, RuntimeError) as error:
        shapes = {getattr(x, "shape", ()) for x in values} if isinstance(values, list) else ()
        if len(shapes) > 1 and () not in shapes:
            raise ValueError(
                f"{name} is a list of {len(values)} arrays of different shapes: pass "
                f"np.concatenate({name}) if each of them has its own rows."
            ) from error
        line = (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(" .:")
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"{name}: {line}; {advice}.") from error
