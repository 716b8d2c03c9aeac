"""Convert calibrators to plain JSON values and back, also from untrusted documents.

A name in a document must be a class of this package: nothing is imported or executed. A loaded
calibrator is checked, and its predictions are tested on scores of several kinds.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn, get_args

import numpy as np
from numpy.typing import NDArray
from sklearn.frozen import FrozenEstimator
from sklearn.utils.validation import check_is_fitted

import skcalib.calibrators
import skcalib.metrics
from skcalib.extending import (
    CLIP,
    LEAST_CLIP,
    Float64Array,
    FloatArray,
    GroupwiseCalibrator,
    MultilabelCalibrator,
    PriorCorrection,
    ScoreCalibrator,
    Scores,
    SelectiveClassifier,
    check_labels,
    map_group,
    softmax_inplace,
)

# Convert values to plain JSON values and back, without loss.
#
# None, booleans, integers, finite floats, strings and lists are stored as they are. A float is
# written with the fewest decimals that give the same float. Other values become an object that
# contains their type::
#
#     {"float": "inf"}, "-inf" or "nan"
#     {"tuple": [...]}
#     {"dict": [[key, value], ...]}
#     {"dtype": "float64", "scalar": 0.5}
#     {"dtype": "float64", "shape": [2, 2], "array": [1.0, 0.0, 0.0, "-inf"]}    row by row
#
# Reading executes no code, and creates no value that is larger than the input.


SPECIAL = ["inf", "-inf", "nan"]
# JSON types of the entries of an array, by its numpy kind. A float may be an integer in JSON.
ENTRY_TYPES = {"b": (bool,), "i": (int,), "u": (int,), "f": (float, int), "U": (str,)}
STORED = "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 str object"
DTYPES = {name: np.dtype(name) for name in STORED.split()}
MAX_AXES = 8
# Largest memory of an array of strings, in characters: all strings need as much as the longest.
MAX_CHARACTERS = 1 << 24

# Type of functions that convert values of other types; arguments: the value and its location.
Other = Callable[[Any, str], Any]


def to_plain(value: Any, where: str, other: Other) -> Any:
    """Convert a value to JSON values; `other` converts values of other types."""
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
    """Convert the parameters and the fitted attributes of an estimator to JSON values."""
    return {
        part: {k: to_plain(v, f"{name}.{k}", other) for k, v in values.items()}
        for part, values in parts.items()
    }


def from_plain(value: Any, where: str, other: Other) -> Any:
    """Convert JSON values back to the value; `other` converts objects of other types."""
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
        raise ValueError(f"{where}: must be a list; got {type(value).__name__}.")
    return value


def _dict_from_plain(pairs: list[Any], where: str, other: Other) -> dict[Any, Any]:
    values = {}
    for pair in pairs:
        if type(pair) is not list or len(pair) != 2:
            raise ValueError(f"{where}: write a dict as a list of pairs [key, value].")
        key, value = (from_plain(part, where, other) for part in pair)
        try:
            values[key] = value
        except TypeError:
            raise ValueError(f"{where}: a {type(key).__name__} cannot be a dict key.") from None
    if len(values) != len(pairs):
        raise ValueError(f"{where}: a dict has a key twice.")
    return values


def _array_to_plain(array: NDArray[Any], where: str, other: Other) -> dict[str, Any]:
    kind = array.dtype.kind
    name = {"U": "str", "T": "str", "O": "object"}.get(kind, array.dtype.name)
    if name not in DTYPES:
        raise ValueError(
            f"{where}: an array of {name} cannot be stored: use labels and parameters that are "
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
        raise ValueError(f"{where}: a value is outside the range of {plain['dtype']}.") from None
    if dtype.kind == "f" and (np.isfinite(array) != np.isfinite(np.array(values, float))).any():
        raise ValueError(f"{where}: a value is outside the range of {plain['dtype']}.")
    return array.reshape(shape)


# Types of estimators that can be stored as JSON.
Wrapper = GroupwiseCalibrator | MultilabelCalibrator | PriorCorrection | SelectiveClassifier
Stored = ScoreCalibrator | Wrapper
# Python classes of the estimators that a document may contain, by name.
KNOWN: dict[str, type[Stored]] = {
    **{cls.__name__: cls for cls in get_args(Wrapper)},
    **{name: getattr(skcalib.calibrators, name) for name in skcalib.calibrators.__all__},
}
# Attributes that are not stored, because predictions do not need them: metadata routing, which
# scikit-learn's set_fit_request sets, and the rows that partial_fit stores.
NOT_FITTED = {"_metadata_request", "_stream", "assumption_pvalue_"}


@dataclass(frozen=True)
class NotStored:
    """Placeholder for a parameter that a file cannot store, such as a function or a generator."""

    what: str

    def __call__(self, *_: object, **__: object) -> NoReturn:
        """Raise an error, because the function was not stored."""
        raise ValueError(
            f"{self.what} was not stored with the calibrator: set the parameter again before a new "
            "fit."
        )


def calibrator_to_plain(estimator: Any, fitted: bool = True) -> dict[str, Any]:
    """Convert a calibrator to a dict: class, parameters and, if `fitted`, fitted attributes."""
    cls = type(estimator)
    if KNOWN.get(cls.__name__) is not cls:
        advice = "save other estimators by skops.io"
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
            calibrator_to_plain(estimator._inner())  # refuses classifiers that cannot be stored
        known = {*parameters, *NOT_FITTED}
        parts["fitted"] = {k: v for k, v in vars(estimator).items() if k not in known}

    def other(value: Any, where: str) -> Any:
        parameter = where.partition(".")[2]
        if isinstance(value, FrozenEstimator) and isinstance(estimator, SelectiveClassifier):
            return {"frozen": "estimator_"}  # the parameter equals the attribute estimator_
        if isinstance(value, ScoreCalibrator | GroupwiseCalibrator):
            # Estimators other than PriorCorrection clone the calibrators in their parameters, so
            # that only the parameters of these calibrators are stored.
            is_fitted = parameter not in parameters or cls is PriorCorrection
            return calibrator_to_plain(value, fitted=is_fitted)
        name = getattr(value, "__name__", "")
        if name in skcalib.metrics.__all__ and getattr(skcalib.metrics, name) is value:
            return {"metric": name}
        if isinstance(value, NotStored):
            return {"not_stored": value.what}
        if parameter in parameters and _may_be_missing(cls, parameter):
            return {"not_stored": getattr(value, "__qualname__", type(value).__name__)}
        if isinstance(value, range) or hasattr(value, "to_numpy"):  # `classes` may be a Series
            return to_plain(np.asarray(value), where, other)
        raise ValueError(f"{where} is a {type(value).__name__}, which cannot be stored as JSON.")

    return {"calibrator": cls.__name__, **parts_to_plain(cls.__name__, parts, other)}


def calibrator_from_plain(body: dict[str, Any], fitted: bool = True) -> Stored:
    """Create a calibrator from its dict; without `fitted`, the dict has only its parameters."""
    parts = ["parameters", "fitted"] if fitted else ["parameters"]
    if set(body) != {"calibrator", *parts}:
        raise ValueError(
            f"A stored calibrator must have 'calibrator', {' and '.join(map(repr, parts))}; got "
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
        raise ValueError(f"{where} has a value that this version of skcalib cannot store or load.")

    values: dict[str, dict[str, Any]] = {}
    for part in reversed(parts):
        if type(body[part]) is not dict or not all(type(k) is str for k in body[part]):
            raise ValueError(f"'{part}' of a stored {name} must be a JSON object.")
        values[part] = {k: from_plain(v, f"{name}.{k}", other) for k, v in body[part].items()}
    unfitted = _create(cls, values["parameters"])
    return _restore(unfitted, values["fitted"]) if fitted else unfitted


def _may_be_missing(cls: type[Stored], parameter: str) -> bool:
    """Whether a parameter may be a function, generator or splitter, which cannot be stored."""
    constraints = cls._parameter_constraints.get(parameter, [])
    return any(kind in constraints for kind in (callable, "random_state", "cv_object"))


def _create(cls: type[Stored], parameters: dict[str, Any]) -> Stored:
    """Create an unfitted calibrator from its parameters."""
    known = set(cls._get_param_names())
    if "estimator" in known and "estimator" not in parameters:
        raise ValueError(f"A stored {cls.__name__} must have the parameter 'estimator'.")
    if not set(parameters) <= known:
        unknown = sorted(set(parameters) - known)[0]
        raise ValueError(f"{cls.__name__} has no parameter {unknown[:60]!r}.")
    stored = {k: v for k, v in parameters.items() if not isinstance(v, NotStored)}
    cls(**stored)._validate_params()
    return cls(**parameters)


def _restore(calibrator: Stored, fitted: dict[str, Any]) -> Stored:
    """Set the fitted attributes of a calibrator and check them."""
    cls = type(calibrator)
    for name in fitted:
        is_taken = hasattr(cls, name) or hasattr(calibrator, name)
        if is_taken or not re.fullmatch(r"_[a-zA-Z]\w*|[a-zA-Z]\w*_", name):
            raise ValueError(f"{cls.__name__} has no fitted attribute {name[:60]!r}.")
    for name, value in fitted.items():
        setattr(calibrator, name, value)
    check_fitted(calibrator, fitted)
    return calibrator


# Checks of a calibrator whose fitted attributes were read from a file.
#
# All calibrators except GroupwiseCalibrator have the same checks: the attributes that every fit
# sets, numbers that cannot overflow in a prediction, and predictions for scores of several kinds.


# Largest number in fitted attributes. Fits return far smaller numbers, and the products of fitted
# numbers with scores up to 1e200 are finite.
LARGEST = 1e100
# Largest array that may result from broadcasting a column of fitted numbers and a row of scores.
MOST_BROADCAST = 1 << 27
# A clip that is below the largest probability of each row does not change the predicted class.
MOST_CLIP = 0.25
PROBE_ROWS = 256
PROBE_ENTRIES = 1 << 16
# Largest number of probabilities that are tested, over all groups.
GROUP_ENTRIES = 1 << 24
# Attributes with labels and names of columns, which `check_common` checks.
OF_LABELS = {"classes_", "feature_names_in_"}
# Fitted attributes of a SelectiveClassifier.
OF_SELECTIVE = {"estimator_", "classes_", "thresholds_", "coverage_", "accuracy_"}
# Fitted attributes of a PriorCorrection.
OF_PRIORS = {"classes_", "source_priors_", "priors_", "priors_low_", "priors_high_"}
# Fitted attributes of a MultilabelCalibrator.
OF_SEVERAL = {"calibrator_", "classes_", "class_count_"}


def check_fitted(calibrator: Any, fitted: dict[str, Any]) -> None:
    """Check the fitted attributes and the predictions of an estimator."""
    if isinstance(calibrator, PriorCorrection | SelectiveClassifier | MultilabelCalibrator):
        check_wrapper(calibrator, set(fitted))
        return
    in_groups = isinstance(calibrator, GroupwiseCalibrator)
    (check_groupwise if in_groups else check_common)(calibrator)
    for name in [name for name in fitted if name not in OF_LABELS]:
        check_numbers(calibrator, name, fitted[name])
    name = type(calibrator).__name__
    try:
        is_valid = (gives_probabilities_in_groups if in_groups else gives_probabilities)(calibrator)
    except Exception as error:  # wrong attributes can raise any error
        reason = " ".join(str(error).split())[:200]
        raise ValueError(f"The stored {name} is not valid: {reason}") from error
    if not is_valid:
        raise ValueError(
            f"{name}: the predictions of the stored attributes are not probabilities: fit it again."
        )


def check_common(calibrator: Any) -> None:
    """Check the attributes that every fit sets."""
    classes: Any = getattr(calibrator, "classes_", None)
    is_array = isinstance(classes, np.ndarray) and classes.ndim == 1 and classes.size > 1
    require(is_array, calibrator, "classes_", "an array of two labels or more", classes)
    labels = check_labels(classes, f"{type(calibrator).__name__}.classes_")
    ascend = np.array_equal(np.unique(labels), labels)
    require(ascend, calibrator, "classes_", "distinct labels in ascending order", classes)
    fitted = vars(calibrator)
    kind, width = fitted.get("input_"), fitted.get("n_features_in_")
    require(kind in ("logits", "proba"), calibrator, "input_", "'logits' or 'proba'", kind)
    for name in ("_refuses_simplex", "_options"):
        flag = fitted.get(name)
        require(isinstance(flag, bool | np.bool_), calibrator, name, "true or false", flag)
    widths = (1, 2) if classes.size == 2 else (classes.size,)
    is_width, columns = type(width) is int and width in widths, widths[-1]
    require(is_width, calibrator, "n_features_in_", f"the number of columns, {columns}", width)
    if calibrator._takes_logs or "clip_" in fitted:
        check_clip(calibrator)
    check_count(calibrator)
    names = fitted.get("feature_names_in_")
    are_names = isinstance(names, np.ndarray) and names.shape == (width,)
    are_names = names is None or (are_names and all(isinstance(name, str) for name in names))
    require(are_names, calibrator, "feature_names_in_", "a name for each column", names)


def check_count(calibrator: Any) -> None:
    """Raise an error unless ``class_count_`` has a weight for each class."""
    count = vars(calibrator).get("class_count_")
    are_weights = are_floats_of_classes(count, calibrator) and (count >= 0).all()
    require(are_weights, calibrator, "class_count_", "a weight for each class", count)


def check_clip(calibrator: Any) -> None:
    """Raise an error unless ``clip_`` is one small number, or one for each of two classes."""
    clip = vars(calibrator).get("clip_")
    is_number = isinstance(clip, float | np.floating | np.ndarray)
    clips = np.asarray(clip if is_number else "")
    shapes = ((), (2,)) if calibrator.classes_.size == 2 else ((),)
    are_clips = clips.dtype.kind == "f" and clips.shape in shapes
    require(are_clips, calibrator, "clip_", "a number, or one for each of two classes", clip)
    inside = ((clips >= LEAST_CLIP) & (clips <= MOST_CLIP)).all()
    require(inside, calibrator, "clip_", f"from {LEAST_CLIP:g} to {MOST_CLIP:g}", clip)
    in_groups = isinstance(calibrator, GroupwiseCalibrator)  # GroupwiseCalibrator has no _had_zeros
    zeros = np.asarray(vars(calibrator).get("_had_zeros", in_groups or None))
    are_flags = zeros.dtype.kind == "b" and zeros.shape in ((), clips.shape)
    require(are_flags, calibrator, "_had_zeros", "true or false, as many as clip_", zeros)


def check_numbers(calibrator: Any, name: str, value: Any) -> None:
    """Raise an error unless an attribute contains only numbers from -1e100 to 1e100.

    An entry of an array may be -inf, such as the intercept of a class that cannot occur.
    """
    if value is None or isinstance(value, str | ScoreCalibrator):
        return
    if isinstance(value, list | tuple | dict):
        for item in value.values() if isinstance(value, dict) else value:
            check_numbers(calibrator, name, item)
        return
    array = np.asarray(value)
    are_numbers = array.dtype.kind in "biuf" and array.ndim <= 2
    require(are_numbers, calibrator, name, "numbers, in arrays of one or two axes", value)
    with np.errstate(invalid="ignore"):
        inside = np.abs(array.astype(np.float64)) <= LARGEST
    if isinstance(value, np.ndarray):
        inside |= np.isneginf(array)
    if not inside.all():
        expected = f"from {-LARGEST:g} to {LARGEST:g}"
        require(False, calibrator, name, expected, array[~inside].ravel()[0])
    is_column = array.ndim == 2 and array.shape[1] == 1
    is_small = not is_column or len(array) * calibrator.classes_.size <= MOST_BROADCAST
    require(is_small, calibrator, name, "fewer numbers", f"shape {array.shape}")


def gives_probabilities(calibrator: ScoreCalibrator) -> bool:
    """Whether a calibrator predicts probability vectors for the logits of `probe_logits`."""
    classes, clip = calibrator.classes_, getattr(calibrator, "clip_", CLIP)
    Z = probe_logits(classes.size)
    # The calibrator predicts for one row and for several rows, because an attribute of a wrong
    # shape may fit one of these numbers of rows by chance.
    for rows in (Z[:1], Z):
        scores = Scores(rows, "logits", classes, clip=clip)
        if calibrator.input_ == "proba":
            scores = Scores(scores.proba(slice(None)), "proba", classes, clip=clip)
        with np.errstate(all="ignore"):
            Q = np.asarray(calibrator._map(scores))
            if Q.shape != rows.shape or not are_probabilities(Q):
                return False
    return True


def check_groupwise(calibrator: GroupwiseCalibrator) -> None:
    """Check the labels, shapes and types of the fitted attributes of a GroupwiseCalibrator."""
    check_calibrator_within(calibrator, "calibrator_", ScoreCalibrator)
    fitted = vars(calibrator)
    groups = fitted.get("groups_")
    are_labels = isinstance(groups, list) and groups and _are_labels(groups)
    require(are_labels, calibrator, "groups_", "a list of distinct labels", groups)
    numbers = len(calibrator.groups_), calibrator.classes_.size
    shapes = {"coef_": numbers, "intercept_": numbers, "effective_dof_": numbers[:1]}
    for name, shape in shapes.items():
        value: Any = fitted.get(name)
        are_floats = isinstance(value, np.ndarray) and value.dtype.kind == "f"
        expected = f"an array of floats of shape {shape}"
        require(are_floats and value.shape == shape, calibrator, name, expected, np.shape(value))
    require(isinstance(fitted.get("strengths_"), dict), calibrator, "strengths_", "a dict", None)
    check_count(calibrator)
    check_clip(calibrator)


def check_calibrator_within(outer: Any, name: str, kinds: Any) -> None:
    """Check that an attribute is a calibrator for the same class labels as its estimator."""
    inner: Any = getattr(outer, name, None)
    classes: Any = getattr(outer, "classes_", None)
    require(isinstance(inner, kinds), outer, name, "a calibrator", type(inner).__name__)
    known = inner.classes_
    same = isinstance(classes, np.ndarray) and classes.dtype == known.dtype
    same = same and np.array_equal(classes, known)
    require(same, outer, "classes_", f"those of {name}", classes)


def _are_labels(groups: list[Any]) -> bool:
    """Whether group labels are distinct, and are values or tuples of the same length."""
    columns = {len(label) if isinstance(label, tuple) else 0 for label in groups}
    parts = [part for label in groups for part in (label if isinstance(label, tuple) else (label,))]
    are_plain = all(type(part) in (str, int, float, bool) for part in parts)
    return are_plain and len(columns) == 1 and len(set(groups)) == len(groups)


def gives_probabilities_in_groups(calibrator: GroupwiseCalibrator) -> bool:
    """Whether the predictions for every group are probability vectors."""
    Z = probe_logits(calibrator.classes_.size)
    every = max(1, len(calibrator.groups_) * Z.size // GROUP_ENTRIES)
    P = softmax_inplace(np.ascontiguousarray(Z[::every]))
    with np.errstate(all="ignore"):
        return all(
            are_probabilities(map_group(P, coef, intercept, calibrator.clip_))
            for coef, intercept in zip(calibrator.coef_, calibrator.intercept_, strict=True)
        )


def are_probabilities(Q: FloatArray) -> bool:
    """Whether all rows of an array are probability vectors."""
    # Comparisons with NaN are false, so that NaN is not a probability.
    return bool(Q.min() >= 0 and np.abs(Q.sum(axis=1) - 1).max() < 1e-6)


def probe_logits(n_classes: int) -> Float64Array:
    """Return logits to test predictions on: equal ones, infinite ones, and tiny to huge ones.

    With many classes there are fewer rows, to limit memory.
    """
    most = max(2, PROBE_ENTRIES // n_classes)
    random = np.random.default_rng(0).normal(size=(min(PROBE_ROWS, most), n_classes))
    random *= np.geomspace(1e-3, 1e6, len(random))[:, None]
    random[0] = 0.0
    certain = np.full((min(n_classes, most), n_classes), -np.inf)
    np.fill_diagonal(certain, 0.0)
    return np.vstack([random, certain])


def check_wrapper(outer: Wrapper, names: set[str]) -> None:
    """Check the fitted attributes of an estimator that contains a fitted calibrator.

    The attributes of the calibrator inside are already checked.
    """
    checks: dict[type, tuple[set[str], Callable[[Any], None]]] = {
        MultilabelCalibrator: (OF_SEVERAL, check_several),
        PriorCorrection: (OF_PRIORS, check_shares),
        SelectiveClassifier: (OF_SELECTIVE, check_thresholds),
    }
    expected, check = checks[type(outer)]
    if names != expected:
        raise ValueError(
            f"A stored {type(outer).__name__} must have the fitted attributes "
            f"{', '.join(sorted(expected))}; got {', '.join(sorted(names))[:60]}."
        )
    check(outer)


def check_several(calibrator: Any) -> None:
    """Check the names of the labels of a MultilabelCalibrator, and its groups."""
    inner, names = calibrator.calibrator_, calibrator.classes_
    is_binary = isinstance(inner, GroupwiseCalibrator) and inner.classes_.tolist() == [0, 1]
    expected = "a GroupwiseCalibrator of the labels 0 and 1"
    require(is_binary, calibrator, "calibrator_", expected, type(inner).__name__)
    are_names = isinstance(names, np.ndarray) and names.ndim == 1 and names.dtype.kind in "ifU"
    are_names = are_names and 0 < names.size == np.unique(names).size
    require(are_names, calibrator, "classes_", "an array of distinct names", names)
    check_count(calibrator)


def check_thresholds(classifier: Any) -> None:
    """Check the thresholds, the coverage and the accuracy of a selective classifier."""
    check_calibrator_within(classifier, "estimator_", ScoreCalibrator | GroupwiseCalibrator)
    t: Any = classifier.thresholds_
    are_thresholds = are_floats_of_classes(t, classifier) and (t >= 0).all()  # NaN >= 0 is false
    require(are_thresholds, classifier, "thresholds_", "a float >= 0 or inf for each class", t)
    for name in ("coverage_", "accuracy_"):
        value: Any = getattr(classifier, name)
        is_share = type(value) is float and (0 <= value <= 1 or np.isnan(value))
        require(is_share, classifier, name, "a float in [0, 1]", value)


def check_shares(correction: Any) -> None:
    """Check the class priors of a PriorCorrection."""
    check_calibrator_within(correction, "estimator", ScoreCalibrator | GroupwiseCalibrator)
    for name in sorted(OF_PRIORS - {"classes_"}):
        shares: Any = getattr(correction, name)
        are_floats = are_floats_of_classes(shares, correction)
        require(are_floats, correction, name, "a float for each class", shares)
        is_end = name in ("priors_low_", "priors_high_")
        inside = (shares >= 0) & (shares <= 1) | (is_end & np.isnan(shares))
        are_shares = inside.all() and (is_end or abs(shares.sum() - 1) < 1e-6)
        require(are_shares, correction, name, "class priors in [0, 1] that sum to 1", shares)


def are_floats_of_classes(value: Any, estimator: Any) -> bool:
    """Whether a value is a float64 array with an entry for each class."""
    is_array = isinstance(value, np.ndarray) and value.dtype == np.float64
    return is_array and value.shape == estimator.classes_.shape


def require(is_right: Any, calibrator: object, name: str, expected: str, value: object) -> None:
    """Raise a ValueError that shows the value of an attribute, unless the value is right."""
    if not is_right:
        got = " ".join(str(value).split())[:60]
        raise ValueError(f"{type(calibrator).__name__}.{name} must be {expected}; got {got}.")
