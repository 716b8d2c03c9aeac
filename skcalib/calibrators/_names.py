"""Calibrators by name, as they are typed: ``"temperature"``, ``"auto"``."""

from __future__ import annotations

import re
from typing import Any

import skcalib.calibrators
from skcalib.calibrators._auto.calibrator import AutoCalibrator
from skcalib.calibrators._identity import IdentityCalibrator


def calibrators_by_name() -> dict[str, Any]:
    """Return every calibrator at its defaults, the identity first."""
    named: dict[str, Any] = {"identity": IdentityCalibrator()}
    for name in skcalib.calibrators.__all__:
        bare = re.sub("(Calibrator|Scaling|Binning)$", "", name)
        words = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", bare)
        named.setdefault(words.lower(), getattr(skcalib.calibrators, name)())
    return named


def resolve_calibrator(calibrator: Any) -> Any:
    """Return the calibrator that None or a name means; any other is returned unchanged."""
    if calibrator is None:
        return AutoCalibrator()
    if not isinstance(calibrator, str):
        return calibrator
    named = calibrators_by_name()
    if calibrator not in named:
        sigmoid = "; scikit-learn's sigmoid is 'platt'; the default is better"
        raise ValueError(
            f"calibrator={calibrator!r} is not a calibrator name; pass one of "
            f"{', '.join(named)}, or a calibrator{sigmoid if calibrator == 'sigmoid' else ''}."
        )
    return named[calibrator]
