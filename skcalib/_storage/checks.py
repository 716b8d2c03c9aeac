"""Checks of a calibrator whose fitted attributes were read from a file.

They are the same for every calibrator but that of groups: the attributes that each fit sets,
numbers that no prediction overflows on, and predictions for scores of several kinds. Every message
is one line.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from skcalib._arrays.types import Float64Array, FloatArray
from skcalib._meta_estimators.groupwise import GroupwiseCalibrator, of_group
from skcalib._meta_estimators.prior_correction import PriorCorrection
from skcalib._meta_estimators.selective import SelectiveClassifier
from skcalib._scores.clip import LEAST_CLIP, MOST_CLIP
from skcalib._scores.scores import Scores
from skcalib._scores.softmax import CLIP, softmax_inplace
from skcalib._validation.labels import check_labels
from skcalib.calibrators._base import ScoreCalibrator

# Fits return far smaller numbers, and products with scores up to 1e200 stay finite.
LARGEST = 1e100
# Entries of an array that a column of fitted numbers and a row of K scores may broadcast to.
MOST_BROADCAST = 1 << 27
PROBE_ROWS = 256
PROBE_ENTRIES = 1 << 16
# Entries of the probabilities that are tried, of all groups together.
GROUP_ENTRIES = 1 << 24
# Attributes with labels and names of columns; `check_common` checks them.
OF_LABELS = {"classes_", "feature_names_in_"}
# Those of a SelectiveClassifier.
OF_GATE = {"estimator_", "classes_", "thresholds_", "coverage_", "accuracy_"}
# Those of a PriorCorrection.
OF_PRIORS = {"classes_", "source_priors_", "priors_", "priors_low_", "priors_high_"}


def check_common(calibrator: Any) -> None:
    """Check the attributes that every fit sets."""
    classes = getattr(calibrator, "classes_", None)
    if not isinstance(classes, np.ndarray) or classes.ndim != 1 or classes.size < 2:
        raise wrong(calibrator, "classes_", "an array of two labels or more", classes)
    labels = check_labels(classes, f"{type(calibrator).__name__}.classes_")
    if not np.array_equal(np.unique(labels), labels):
        raise wrong(calibrator, "classes_", "distinct labels in ascending order", classes)
    given, flags = vars(calibrator), bool | np.bool_
    if given.get("input_") not in ("logits", "proba"):
        raise wrong(calibrator, "input_", "'logits' or 'proba'", given.get("input_"))
    for name in ("_refuses_simplex", "_options"):
        if not isinstance(given.get(name), flags):
            raise wrong(calibrator, name, "true or false", given.get(name))
    width = given.get("n_features_in_")
    widths = (1, 2) if classes.size == 2 else (classes.size,)
    if type(width) is not int or width not in widths:
        raise wrong(calibrator, "n_features_in_", f"the number of columns, {widths[-1]}", width)
    if calibrator._takes_logs or "clip_" in given:
        check_clip(calibrator)
    check_count(calibrator)
    names = given.get("feature_names_in_")
    are_names = isinstance(names, np.ndarray) and names.shape == (width,)
    if names is not None and not (are_names and all(isinstance(name, str) for name in names)):
        raise wrong(calibrator, "feature_names_in_", "a name for each column", names)


def check_count(calibrator: Any) -> None:
    """Refuse weights of classes that no fit gives."""
    count = vars(calibrator).get("class_count_")
    if not are_floats_of_classes(count, calibrator) or not (count >= 0).all():
        raise wrong(calibrator, "class_count_", "a weight for each class", count)


def check_clip(calibrator: Any) -> None:
    """Refuse a clip that no fit gives: it is a number, or one for each of two classes."""
    clip = vars(calibrator).get("clip_")
    is_number = isinstance(clip, float | np.floating | np.ndarray)
    clips = np.asarray(clip if is_number else "")
    shapes = ((), (2,)) if calibrator.classes_.size == 2 else ((),)
    if clips.dtype.kind != "f" or clips.shape not in shapes:
        raise wrong(calibrator, "clip_", "a number, or one for each of two classes", clip)
    if not ((clips >= LEAST_CLIP) & (clips <= MOST_CLIP)).all():
        raise wrong(calibrator, "clip_", f"from {LEAST_CLIP:g} to {MOST_CLIP:g}", clip)
    in_groups = isinstance(calibrator, GroupwiseCalibrator)  # which has no such attribute
    zeros = np.asarray(vars(calibrator).get("_had_zeros", in_groups or None))
    if zeros.dtype.kind != "b" or zeros.shape not in ((), clips.shape):
        raise wrong(calibrator, "_had_zeros", "true or false, as many as clip_", zeros)


def check_numbers(calibrator: Any, fitted: dict[str, Any]) -> None:
    """Refuse fitted attributes with NaN, infinity, numbers above 1e100 or arrays of other things.

    An entry of an array may be -inf: the intercept of a class that cannot occur.
    """
    for name, value in fitted.items():
        if name not in OF_LABELS:
            _check_value(calibrator, name, value)


def _check_value(calibrator: Any, name: str, value: Any) -> None:
    if value is None or isinstance(value, str | ScoreCalibrator):
        return
    if isinstance(value, list | tuple | dict):
        for item in value.values() if isinstance(value, dict) else value:
            _check_value(calibrator, name, item)
        return
    array = np.asarray(value)
    if array.dtype.kind not in "biuf" or array.ndim > 2:
        raise wrong(calibrator, name, "numbers, in arrays of one or two axes", value)
    with np.errstate(invalid="ignore"):
        inside = np.abs(array.astype(np.float64)) <= LARGEST
    if isinstance(value, np.ndarray):
        inside |= np.isneginf(array)
    if not inside.all():
        expected = f"from {-LARGEST:g} to {LARGEST:g}"
        raise wrong(calibrator, name, expected, array[~inside].ravel()[0])
    is_column = array.ndim == 2 and array.shape[1] == 1
    if is_column and len(array) * calibrator.classes_.size > MOST_BROADCAST:
        raise wrong(calibrator, name, "fewer numbers", f"shape {array.shape}")


def gives_probabilities(calibrator: ScoreCalibrator) -> bool:
    """Whether predictions for `probe_logits` are probability vectors: of one row, then of all."""
    classes, clip = calibrator.classes_, getattr(calibrator, "clip_", CLIP)
    Z = probe_logits(classes.size)
    # A shape that fits a single number of rows by chance fails for the other.
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
    """Check the attributes that a fit sets, but for the numbers among them."""
    common: Any = getattr(calibrator, "calibrator_", None)
    classes: Any = getattr(calibrator, "classes_", None)
    if not isinstance(common, ScoreCalibrator):
        raise wrong(calibrator, "calibrator_", "a calibrator", type(common).__name__)
    is_array = isinstance(classes, np.ndarray) and classes.dtype == common.classes_.dtype
    if not is_array or not np.array_equal(classes, common.classes_):
        raise wrong(calibrator, "classes_", "those of calibrator_", classes)
    groups: Any = getattr(calibrator, "groups_", None)
    if not isinstance(groups, list) or not groups or not _are_labels(groups):
        raise wrong(calibrator, "groups_", "a list of distinct labels", groups)
    numbers = len(groups), classes.size
    shapes = {"coef_": numbers, "intercept_": numbers, "effective_dof_": numbers[:1]}
    for name, shape in shapes.items():
        value: Any = getattr(calibrator, name, None)
        if not isinstance(value, np.ndarray) or value.dtype.kind != "f" or value.shape != shape:
            raise wrong(calibrator, name, f"an array of floats of shape {shape}", np.shape(value))
    if not isinstance(getattr(calibrator, "strengths_", None), dict):
        raise wrong(calibrator, "strengths_", "a dict", None)
    check_count(calibrator)
    check_clip(calibrator)


def _are_labels(groups: list[Any]) -> bool:
    """Whether these are distinct labels, of one column or of the same number of columns."""
    columns = {len(label) if isinstance(label, tuple) else 0 for label in groups}
    parts = [part for label in groups for part in (label if isinstance(label, tuple) else (label,))]
    are_plain = all(type(part) in (str, int, float, bool) for part in parts)
    return are_plain and len(columns) == 1 and len(set(groups)) == len(groups)


def gives_probabilities_in_groups(calibrator: GroupwiseCalibrator) -> bool:
    """Whether the predictions of every group are probability vectors."""
    Z = probe_logits(calibrator.classes_.size)
    every = max(1, len(calibrator.groups_) * Z.size // GROUP_ENTRIES)
    P = softmax_inplace(np.ascontiguousarray(Z[::every]))
    with np.errstate(all="ignore"):
        return all(
            are_probabilities(of_group(P, coef, intercept, calibrator.clip_))
            for coef, intercept in zip(calibrator.coef_, calibrator.intercept_, strict=True)
        )


def are_probabilities(Q: FloatArray) -> bool:
    """Whether rows are probability vectors."""
    # NaN is neither.
    return bool(Q.min() >= 0 and np.abs(Q.sum(axis=1) - 1).max() < 1e-6)


def probe_logits(n_classes: int) -> Float64Array:
    """Return logits: all equal, each class certain (the others -inf), and from tiny to huge.

    Of many classes there are fewer rows, to bound memory.
    """
    most = max(2, PROBE_ENTRIES // n_classes)
    random = np.random.default_rng(0).normal(size=(min(PROBE_ROWS, most), n_classes))
    random *= np.geomspace(1e-3, 1e6, len(random))[:, None]
    random[0] = 0.0
    certain = np.full((min(n_classes, most), n_classes), -np.inf)
    np.fill_diagonal(certain, 0.0)
    return np.vstack([random, certain])


def check_wrapper(outer: SelectiveClassifier | PriorCorrection, names: set[str]) -> None:
    """Check the attributes that a fit sets; those of the calibrator within were checked before."""
    is_gate = isinstance(outer, SelectiveClassifier)
    expected, inner = (OF_GATE, "estimator_") if is_gate else (OF_PRIORS, "estimator")
    if names != expected:
        raise ValueError(
            f"A stored {type(outer).__name__} has fitted {', '.join(sorted(expected))}; got "
            f"{', '.join(sorted(names))[:60]}."
        )
    calibrator, classes = getattr(outer, inner), outer.classes_
    if not isinstance(calibrator, ScoreCalibrator | GroupwiseCalibrator):
        raise wrong(outer, inner, "a calibrator", type(calibrator).__name__)
    known = calibrator.classes_
    same = isinstance(classes, np.ndarray) and classes.dtype == known.dtype
    if not same or not np.array_equal(classes, known):
        raise wrong(outer, "classes_", f"those of {inner}", classes)
    (check_thresholds if is_gate else check_shares)(outer)


def check_thresholds(gate: Any) -> None:
    """Check the thresholds of a gate, and what they accept."""
    t: Any = gate.thresholds_
    if not are_floats_of_classes(t, gate) or not (t >= 0).all():  # NaN neither
        raise wrong(gate, "thresholds_", "a float >= 0 or inf for each class", t)
    for name in ("coverage_", "accuracy_"):
        value: Any = getattr(gate, name)
        if type(value) is not float or not (0 <= value <= 1 or np.isnan(value)):
            raise wrong(gate, name, "a float in [0, 1]", value)


def check_shares(correction: Any) -> None:
    """Check the shares of a correction."""
    for name in sorted(OF_PRIORS - {"classes_"}):
        shares: Any = getattr(correction, name)
        if not are_floats_of_classes(shares, correction):
            raise wrong(correction, name, "a float for each class", shares)
        is_end = name in ("priors_low_", "priors_high_")
        inside = (shares >= 0) & (shares <= 1) | (is_end & np.isnan(shares))
        if not inside.all() or not (is_end or abs(shares.sum() - 1) < 1e-6):
            raise wrong(correction, name, "shares in [0, 1] that sum to 1", shares)


def are_floats_of_classes(value: Any, estimator: Any) -> bool:
    """Whether a value is an array of float64 with an entry for each class."""
    is_array = isinstance(value, np.ndarray) and value.dtype == np.float64
    return is_array and value.shape == estimator.classes_.shape


def wrong(calibrator: object, name: str, expected: str, value: object) -> ValueError:
    shown = " ".join(str(value).split())[:60]
    return ValueError(f"{type(calibrator).__name__}.{name} must be {expected}; got {shown}.")
