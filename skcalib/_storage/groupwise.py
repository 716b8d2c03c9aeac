"""Checks of a groupwise calibrator whose fitted attributes were read from a file."""

from __future__ import annotations

from typing import Any

import numpy as np

from skcalib._meta_estimators.groupwise import GroupwiseCalibrator, of_group
from skcalib._scores.softmax import softmax_inplace
from skcalib._storage.checks import are_probabilities, check_clip, probe_logits, wrong
from skcalib.calibrators._base import ScoreCalibrator

# Entries of the probabilities that are tried, of all groups together.
PROBE_ENTRIES = 1 << 24


def check_groupwise(calibrator: GroupwiseCalibrator) -> None:
    """Check the attributes that a fit sets, but for the numbers among them."""
    common: Any = getattr(calibrator, "calibrator_", None)
    classes: Any = getattr(calibrator, "classes_", None)
    if not isinstance(common, ScoreCalibrator):
        raise wrong(calibrator, "calibrator_", "a calibrator", type(common).__name__)
    if not isinstance(classes, np.ndarray) or not _equal(classes, common.classes_):
        raise wrong(calibrator, "classes_", "those of calibrator_", classes)
    groups: Any = getattr(calibrator, "groups_", None)
    if not isinstance(groups, list) or not groups or not _are_labels(groups):
        raise wrong(calibrator, "groups_", "a list of distinct labels", groups)
    numbers = len(groups), classes.size
    for name, shape in {
        "coef_": numbers,
        "intercept_": numbers,
        "effective_dof_": numbers[:1],
    }.items():
        value: Any = getattr(calibrator, name, None)
        if not isinstance(value, np.ndarray) or value.dtype.kind != "f" or value.shape != shape:
            raise wrong(calibrator, name, f"an array of floats of shape {shape}", np.shape(value))
    if not isinstance(getattr(calibrator, "strengths_", None), dict):
        raise wrong(calibrator, "strengths_", "a dict", None)
    check_clip(calibrator)


def _equal(a: Any, b: Any) -> bool:
    return bool(a.dtype == b.dtype and np.array_equal(a, b))


def _are_labels(groups: list[Any]) -> bool:
    """Whether these are distinct labels, of one column or of the same number of columns."""
    columns = {len(label) if isinstance(label, tuple) else 0 for label in groups}
    parts = [part for label in groups for part in (label if isinstance(label, tuple) else (label,))]
    are_plain = all(type(part) in (str, int, float, bool) for part in parts)
    return are_plain and len(columns) == 1 and len(set(groups)) == len(groups)


def gives_probabilities_in_groups(calibrator: GroupwiseCalibrator) -> bool:
    """Whether the predictions of every group are probability vectors."""
    Z = probe_logits(calibrator.classes_.size)
    every = max(1, len(calibrator.groups_) * Z.size // PROBE_ENTRIES)
    P = softmax_inplace(np.ascontiguousarray(Z[::every]))
    with np.errstate(all="ignore"):
        return all(
            are_probabilities(of_group(P, coef, intercept, calibrator.clip_))
            for coef, intercept in zip(calibrator.coef_, calibrator.intercept_, strict=True)
        )
