"""Convert calibrators to plain JSON values and back, also from untrusted documents.

Names in a document are looked up among the classes of this package; they import and call nothing.
A calibrator made from a document is checked and then tried on scores of several kinds.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray
from sklearn.frozen import FrozenEstimator
from sklearn.utils.validation import check_is_fitted

import skcalib.calibrators
import skcalib.metrics
from skcalib._storage.checks import check_fitted
from skcalib.extending import (
    GroupwiseCalibrator,
    PriorCorrection,
    ScoreCalibrator,
    SelectiveClassifier,
)

# Convert values to plain JSON values and back, without loss.
#
# None, booleans, whole numbers, finite floats, strings and lists are stored as such; a float is
# written with the fewest decimals that give the same float. Anything else is an object that names
# its type::
#
#     {"float": "inf"}, "-inf" or "nan"
#     {"tuple": [...]}
#     {"dict": [[key, value], ...]}
#     {"dtype": "float64", "scalar": 0.5}
#     {"dtype": "float64", "shape": [2, 2], "array": [1.0, 0.0, 0.0, "-inf"]}    row by row
#
# Reading executes nothing, and creates nothing larger than its input.


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


# What is stored.
Stored = ScoreCalibrator | GroupwiseCalibrator | PriorCorrection | SelectiveClassifier
# The classes that a document may name.
KNOWN: dict[str, type[Stored]] = {
    **{cls.__name__: cls for cls in (GroupwiseCalibrator, PriorCorrection, SelectiveClassifier)},
    **{name: getattr(skcalib.calibrators, name) for name in skcalib.calibrators.__all__},
}
# Metadata routing, which scikit-learn's set_fit_request and similar methods set, and what
# partial_fit keeps of its rows: a file predicts, and holds no data.
NOT_FITTED = {"_metadata_request", "_stream", "assumption_pvalue_"}


@dataclass(frozen=True)
class NotStored:
    """Placeholder for a parameter that a file cannot store, such as a function or a generator."""

    what: str

    def __call__(self, *_: object, **__: object) -> NoReturn:
        """Raise an error: the function was not stored."""
        raise ValueError(
            f"{self.what} was not stored with the calibrator: set the parameter again before "
            "fitting it anew."
        )


def calibrator_to_plain(estimator: Any, fitted: bool = True) -> dict[str, Any]:
    """Write the class, the parameters and, if `fitted`, the fitted attributes of a calibrator."""
    cls = type(estimator)
    if KNOWN.get(cls.__name__) is not cls:
        advice = "keep others with skops.io"
        if hasattr(estimator, "calibrator"):
            advice = "store its calibrator_ (or the calibrators of its pairs_)"
        raise ValueError(
            f"Only calibrators of skcalib are stored as JSON, not {cls.__name__}: {advice}."
        )
    parameters = estimator.get_params(deep=False)
    parts = {"parameters": parameters}
    if fitted:
        check_is_fitted(estimator)
        if isinstance(estimator, PriorCorrection | SelectiveClassifier):
            calibrator_to_plain(estimator._inner())  # or the error of another classifier
        known = {*parameters, *NOT_FITTED}
        parts["fitted"] = {k: v for k, v in vars(estimator).items() if k not in known}

    def other(value: Any, where: str) -> Any:
        parameter = where.partition(".")[2]
        if isinstance(value, FrozenEstimator) and isinstance(estimator, SelectiveClassifier):
            return {"frozen": "estimator_"}  # it is stored as that
        if isinstance(value, ScoreCalibrator | GroupwiseCalibrator):
            # Other fits clone the calibrators among their parameters, fitted or not.
            is_fitted = parameter not in parameters or cls is PriorCorrection
            return calibrator_to_plain(value, fitted=is_fitted)
        name = getattr(value, "__name__", "")
        if name in skcalib.metrics.__all__ and getattr(skcalib.metrics, name) is value:
            return {"metric": name}
        if isinstance(value, NotStored):
            return {"not_stored": value.what}
        if parameter in parameters and _may_be_missing(cls, parameter):
            return {"not_stored": getattr(value, "__qualname__", type(value).__name__)}
        if isinstance(value, range) or hasattr(value, "to_numpy"):  # as `classes`
            return to_plain(np.asarray(value), where, other)
        raise ValueError(f"{where} is a {type(value).__name__}, which cannot be stored as JSON.")

    return {"calibrator": cls.__name__, **parts_to_plain(cls.__name__, parts, other)}


def calibrator_from_plain(body: dict[str, Any], fitted: bool = True) -> Stored:
    """Return the stored calibrator, or raise ValueError; one among parameters is not `fitted`."""
    parts = ["parameters", "fitted"] if fitted else ["parameters"]
    if set(body) != {"calibrator", *parts}:
        raise ValueError(
            f"A stored calibrator has 'calibrator', {' and '.join(map(repr, parts))}; got "
            f"{', '.join(sorted(map(str, body)))[:60]}."
        )
    name = body["calibrator"]
    cls = KNOWN.get(name) if isinstance(name, str) else None
    if cls is None:
        raise ValueError(
            f"{str(name)[:60]!r} is not a calibrator of this skcalib: install a newer skcalib if "
            "you trust the file."
        )

    def other(value: dict[str, Any], where: str) -> Any:
        keys = set(value)
        parameter = where.partition(".")[2]
        if "calibrator" in keys:
            is_fitted = parameter not in cls._get_param_names() or cls is PriorCorrection
            return calibrator_from_plain(value, fitted=is_fitted)
        if value == {"frozen": "estimator_"} and cls is SelectiveClassifier and fitted:
            return FrozenEstimator(values["fitted"].get("estimator_"))
        if keys == {"metric"} and value["metric"] in list(skcalib.metrics.__all__):
            return getattr(skcalib.metrics, value["metric"])
        named = keys == {"not_stored"} and type(value["not_stored"]) is str
        if named and _may_be_missing(cls, parameter):
            return NotStored(value["not_stored"])
        raise ValueError(f"{where} is not written as this skcalib stores values.")

    values: dict[str, dict[str, Any]] = {}
    for part in reversed(parts):
        if type(body[part]) is not dict or not all(type(k) is str for k in body[part]):
            raise ValueError(f"'{part}' of a stored {name} must be an object.")
        values[part] = {k: from_plain(v, f"{name}.{k}", other) for k, v in body[part].items()}
    unfitted = _create(cls, values["parameters"])
    return _restore(unfitted, values["fitted"]) if fitted else unfitted


def _may_be_missing(cls: type[Stored], parameter: str) -> bool:
    """Whether a parameter may be a function, a generator or a splitter, which is not stored."""
    constraints = cls._parameter_constraints.get(parameter, [])
    return any(kind in constraints for kind in (callable, "random_state", "cv_object"))


def _create(cls: type[Stored], parameters: dict[str, Any]) -> Stored:
    """Create the calibrator, not fitted."""
    known = set(cls._get_param_names())
    if "estimator" in known and "estimator" not in parameters:
        raise ValueError(f"A stored {cls.__name__} has a parameter 'estimator'.")
    if not set(parameters) <= known:
        unknown = sorted(set(parameters) - known)[0]
        raise ValueError(f"{cls.__name__} has no parameter {unknown[:60]!r}.")
    stored = {k: v for k, v in parameters.items() if not isinstance(v, NotStored)}
    cls(**stored)._validate_params()
    return cls(**parameters)


def _restore(calibrator: Stored, fitted: dict[str, Any]) -> Stored:
    """Set the fitted attributes and check the calibrator."""
    cls = type(calibrator)
    for name in fitted:
        is_taken = hasattr(cls, name) or hasattr(calibrator, name)
        if is_taken or not re.fullmatch(r"_[a-zA-Z]\w*|[a-zA-Z]\w*_", name):
            raise ValueError(f"{cls.__name__} has no fitted attribute {name[:60]!r}.")
    for name, value in fitted.items():
        setattr(calibrator, name, value)
    check_fitted(calibrator, fitted)
    return calibrator
