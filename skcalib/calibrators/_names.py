"""Calibrators by name, such as ``"temperature"`` and ``"auto"``."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any

import skcalib.calibrators
from skcalib.calibrators._auto.calibrator import AutoCalibrator
from skcalib.calibrators._identity import IdentityCalibrator

# Names of calibration methods in other packages, with their names in this package.
OTHER_NAMES = {"sigmoid": "platt", "logistic": "platt", "bbq": "bayesian"}


def calibrators_by_name() -> dict[str, Any]:
    """Return all calibrators with default parameters by name, first the identity."""
    named: dict[str, Any] = {"identity": IdentityCalibrator()}
    for name in skcalib.calibrators.__all__:
        named.setdefault(_bare_name(name), getattr(skcalib.calibrators, name)())
    return named


def _bare_name(text: str) -> str:
    """Return the name of a calibrator in lower case, without common endings such as "scaling"."""
    words = re.sub(r"(?<=[a-z])(?=[A-Z])|[\s-]+", "_", text).lower()
    return re.sub("_(calibrator|calibration|scaling|binning|regression)$", "", words)


def suggest_name(text: str, known: Iterable[str]) -> str:
    """Suggest the calibrator name that is most similar to an unknown name, or list all names."""
    bare = _bare_name(text)
    return suggest(OTHER_NAMES.get(bare, bare), known)


def suggest(text: str, known: Iterable[str]) -> str:
    """Suggest the known name that is most similar to an unknown name, or list all known names."""
    near = get_close_matches(text, known, 1)
    return f"did you mean {near[0]}?" if near else f"use one of {', '.join(known)}"


def resolve_calibrator(calibrator: Any) -> Any:
    """Return the calibrator for a name or for None; return a calibrator unchanged."""
    if calibrator is None:
        return AutoCalibrator()
    if not isinstance(calibrator, str):
        return calibrator
    named = calibrators_by_name()
    if calibrator not in named:
        better = " The default is better." if calibrator == "sigmoid" else ""
        raise ValueError(
            f"calibrator={calibrator!r} is not a calibrator name: "
            f"{suggest_name(calibrator, named)}{better}"
        )
    return named[calibrator]
