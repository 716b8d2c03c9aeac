"""The calibrators that are compared, by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.base import clone

from skcalib._arrays.dask import is_dask
from skcalib._arrays.source import to_array
from skcalib._comparison.held_out import HeldOutRows
from skcalib._meta_estimators.groupwise import GroupwiseCalibrator
from skcalib.calibrators import AutoCalibrator, IdentityCalibrator
from skcalib.calibrators._names import calibrators_by_name, resolve_calibrator, suggest_name

# Calibrators that are slow with more classes, where they run only if named.
HEAVY = ("dirichlet", "matrix")
HEAVY_CLASSES = 100


def choose_calibrators(
    calibrators: Any, data: HeldOutRows
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return calibrators by name, the identity first, and the reasons to leave others out."""
    known = {**calibrators_by_name(), "groupwise": GroupwiseCalibrator(AutoCalibrator())}
    left_out = {}
    if calibrators is None:
        named = dict(known)
        if data.groups is None:
            del named["groupwise"]
        n_classes = data.classes.size
        if not is_dask(data.scores) and np.isnan(to_array(data.scores)).any():
            named = {
                name: c for name, c in named.items() if c.__sklearn_tags__().input_tags.allow_nan
            }
        elif n_classes > HEAVY_CLASSES:
            why = f"left out: {n_classes} classes, more than {HEAVY_CLASSES}; name it to run it"
            left_out = {name: why for name in HEAVY if named.pop(name, None) is not None}
    else:
        if isinstance(calibrators, str) or hasattr(calibrators, "fit"):
            calibrators = [calibrators]
        if not np.iterable(calibrators):
            raise TypeError(f"calibrators must be a list or a dict; got {calibrators!r}.")
        if not isinstance(calibrators, Mapping):
            calibrators = _by_name(list(calibrators))
        named = {str(name): _resolve(given, known) for name, given in calibrators.items()}
    is_identity = [name for name, c in named.items() if type(c) is IdentityCalibrator]
    if not is_identity and "identity" in named:
        raise ValueError("'identity' is the name of the baseline: give that calibrator another.")
    first = is_identity[0] if is_identity else "identity"
    return {first: known["identity"], **named}, left_out


def _by_name(listed: list[Any]) -> dict[str, Any]:
    kinds = [type(given).__name__ for given in listed]
    named: dict[str, Any] = {}
    for given, kind in zip(listed, kinds, strict=True):
        name = kind if kinds.count(kind) == 1 else one_line(repr(given))
        name = given if isinstance(given, str) else name
        if name in named:
            raise ValueError(f"calibrators has {name} twice: pass a dict that names each.")
        named[name] = given
    return named


def _resolve(given: Any, known: dict[str, Any]) -> Any:
    if isinstance(given, str):
        if given not in known:
            raise ValueError(
                f"calibrators: {given!r} is not a calibrator name: {suggest_name(given, known)}"
            )
        return known[given]
    if isinstance(given, type):
        name = given.__name__
        raise TypeError(
            f"calibrators contains the class {name}: write {name}() for an object of it."
        )
    if not (hasattr(given, "fit") and hasattr(given, "get_params")):
        raise TypeError(f"calibrators are names or scikit-learn classifiers; got {given!r}.")
    if isinstance(given, GroupwiseCalibrator):  # so that input and classes are set
        return clone(given).set_params(calibrator=resolve_calibrator(given.calibrator))
    return given


def one_line(text: object) -> str:
    """Write a text, such as that of an object, on one line."""
    return " ".join(str(text).split())
