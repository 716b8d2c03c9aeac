"""Convert values to plain JSON values and back, without loss.

None, booleans, whole numbers, finite floats, strings and lists are stored as such; a float is
written with the fewest decimals that give the same float. Anything else is an object that names its
type::

    {"float": "inf"}, "-inf" or "nan"
    {"tuple": [...]}
    {"dict": [[key, value], ...]}
    {"dtype": "float64", "scalar": 0.5}
    {"dtype": "float64", "shape": [2, 2], "array": [1.0, 0.0, 0.0, "-inf"]}    row by row

Reading executes nothing, and creates nothing larger than its input.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

SPECIAL = ["inf", "-inf", "nan"]
# Types of entries by the kind of the array; floats may be whole numbers in JSON.
ENTRY_TYPES = {"b": (bool,), "i": (int,), "u": (int,), "f": (float, int), "U": (str,)}
STORED = "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 str object"
DTYPES = {name: np.dtype(name) for name in STORED.split()}
MAX_AXES = 8
# In an array of strings each takes as many characters as the longest.
MAX_CHARACTERS = 1 << 24

# Conversion of values that are not listed above: (value, its place) -> value.
Other = Callable[[Any, str], Any]


def to_plain(value: Any, where: str, other: Other) -> Any:
    """Convert a value to JSON values; `other` converts those of unknown type."""
    if value is None or type(value) in (bool, int, str):
        return value
    if type(value) is float:
        return value if math.isfinite(value) else {"float": str(value)}
    if isinstance(value, np.ndarray):
        return _array_to_plain(value, where, other)
    if isinstance(value, np.generic):
        plain = _array_to_plain(np.asarray(value), where, other)
        return {"dtype": plain["dtype"], "scalar": plain["array"][0]}
    if type(value) is list:
        return [to_plain(item, where, other) for item in value]
    if type(value) is tuple:
        return {"tuple": [to_plain(item, where, other) for item in value]}
    if type(value) is dict:
        pairs = value.items()
        return {"dict": [[to_plain(part, where, other) for part in pair] for pair in pairs]}
    return other(value, where)


def parts_to_plain(name: str, parts: dict[str, dict[str, Any]], other: Other) -> dict[str, Any]:
    """Convert the values of each part of an estimator, such as its parameters."""
    return {
        part: {k: to_plain(v, f"{name}.{k}", other) for k, v in values.items()}
        for part, values in parts.items()
    }


def from_plain(value: Any, where: str, other: Other) -> Any:
    """Convert a result of `to_plain` back; `other` converts objects of unknown type."""
    if value is None or type(value) in (bool, int, float, str):
        return value
    if type(value) is list:
        return [from_plain(item, where, other) for item in value]
    if type(value) is not dict:
        raise ValueError(f"{where}: {type(value).__name__} is not a JSON value.")
    keys = set(value)
    if keys == {"float"}:
        return _special(value["float"], where)
    if keys == {"tuple"}:
        return tuple(from_plain(item, where, other) for item in _list(value["tuple"], where))
    if keys == {"dict"}:
        return _dict_from_plain(_list(value["dict"], where), where, other)
    if keys == {"dtype", "scalar"}:
        whole = {"dtype": value["dtype"], "shape": [1], "array": [value["scalar"]]}
        return _array_from_plain(whole, where, other)[0]
    if keys == {"dtype", "shape", "array"}:
        return _array_from_plain(value, where, other)
    return other(value, where)


def _special(name: object, where: str) -> float:
    if not isinstance(name, str) or name not in SPECIAL:
        raise ValueError(f"{where}: a float must be a number or one of {SPECIAL}.")
    return float(name)


def _list(value: object, where: str) -> list[Any]:
    if type(value) is not list:
        raise ValueError(f"{where}: a list was expected; got {type(value).__name__}.")
    return value


def _dict_from_plain(pairs: list[Any], where: str, other: Other) -> dict[Any, Any]:
    values = {}
    for pair in pairs:
        if type(pair) is not list or len(pair) != 2:
            raise ValueError(f"{where}: a dict must be a list of pairs [key, value].")
        key, value = (from_plain(part, where, other) for part in pair)
        try:
            values[key] = value
        except TypeError:
            raise ValueError(f"{where}: a {type(key).__name__} cannot be a key.") from None
    if len(values) != len(pairs):
        raise ValueError(f"{where}: a dict has a key twice.")
    return values


def _array_to_plain(array: NDArray[Any], where: str, other: Other) -> dict[str, Any]:
    kind = array.dtype.kind
    name = {"U": "str", "T": "str", "O": "object"}.get(kind, array.dtype.name)
    if name not in DTYPES:
        raise ValueError(
            f"{where}: an array of {name} cannot be stored; its labels and parameters must be "
            "numbers, strings or booleans."
        )
    values = array.ravel().tolist()
    if kind == "f" and not np.isfinite(array).all():
        values = [v if math.isfinite(v) else str(v) for v in values]
    elif kind == "O":
        values = [to_plain(v, where, other) for v in values]
    return {"dtype": name, "shape": list(array.shape), "array": values}


def _array_from_plain(plain: dict[str, Any], where: str, other: Other) -> NDArray[Any]:
    if not isinstance(plain["dtype"], str) or plain["dtype"] not in DTYPES:
        raise ValueError(f"{where}: the dtype must be one of {', '.join(DTYPES)}.")
    dtype = DTYPES[plain["dtype"]]
    shape, values = _list(plain["shape"], where), _list(plain["array"], where)
    whole = all(type(size) is int and size >= 0 for size in shape)
    if not whole or len(shape) > MAX_AXES or math.prod(shape) != len(values):
        raise ValueError(f"{where}: {len(values)} values do not fill an array of shape {shape}.")
    if dtype.kind == "O":
        array = np.empty(len(values), dtype=object)
        for i, value in enumerate(values):
            array[i] = from_plain(value, where, other)
        return array.reshape(shape)
    if dtype.kind == "f":
        values = [_special(v, where) if type(v) is str else v for v in values]
    allowed = ENTRY_TYPES[dtype.kind]
    if not all(type(value) in allowed for value in values):
        raise ValueError(f"{where}: an array of {plain['dtype']} has an entry of another type.")
    if dtype.kind == "U" and len(values) * max(map(len, values), default=0) > MAX_CHARACTERS:
        raise ValueError(f"{where}: the strings of an array are too long.")
    try:
        with np.errstate(over="ignore"):
            array = np.array(values, dtype=dtype)
    except OverflowError:
        raise ValueError(f"{where}: a value lies outside the range of {plain['dtype']}.") from None
    if dtype.kind == "f" and (np.isfinite(array) != np.isfinite(np.array(values, float))).any():
        raise ValueError(f"{where}: a value lies outside the range of {plain['dtype']}.")
    return array.reshape(shape)
