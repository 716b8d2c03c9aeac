"""Convert calibrators to plain JSON values and back, also from untrusted documents.

Names in a document are looked up among the classes of this package; they import and call nothing.
A calibrator made from a document is checked and then tried on scores of several kinds.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
from sklearn.frozen import FrozenEstimator
from sklearn.utils.validation import check_is_fitted

import skcalib.calibrators
import skcalib.metrics
from skcalib._meta_estimators.groupwise import GroupwiseCalibrator
from skcalib._meta_estimators.prior_correction import PriorCorrection
from skcalib._meta_estimators.selective import SelectiveClassifier
from skcalib._storage.checks import check_fitted
from skcalib._storage.values import from_plain, parts_to_plain, to_plain
from skcalib.calibrators._base import ScoreCalibrator

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
    unfitted = _with_parameters(cls, values["parameters"])
    return _restore(unfitted, values["fitted"]) if fitted else unfitted


def _may_be_missing(cls: type[Stored], parameter: str) -> bool:
    """Whether a parameter may be a function, a generator or a splitter, which is not stored."""
    constraints = cls._parameter_constraints.get(parameter, [])
    return any(kind in constraints for kind in (callable, "random_state", "cv_object"))


def _with_parameters(cls: type[Stored], parameters: dict[str, Any]) -> Stored:
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
