"""Checks of a calibrator whose fitted attributes were read from a file.

They are the same for every calibrator but that of groups: the attributes that each fit sets,
numbers that no prediction overflows on, and predictions for scores of several kinds. Every message
is one line.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from skcalib.extending import (
    CLIP,
    LEAST_CLIP,
    Float64Array,
    FloatArray,
    GroupwiseCalibrator,
    PriorCorrection,
    ScoreCalibrator,
    Scores,
    SelectiveClassifier,
    check_labels,
    map_group,
    softmax_inplace,
)

# Fits return far smaller numbers, and products with scores up to 1e200 stay finite.
LARGEST = 1e100
# Entries of an array that a column of fitted numbers and a row of K scores may broadcast to.
MOST_BROADCAST = 1 << 27
# Clips are below the largest probability of any row, so that clipping keeps it the largest.
MOST_CLIP = 0.25
PROBE_ROWS = 256
PROBE_ENTRIES = 1 << 16
# Entries of the probabilities that are tried, of all groups together.
GROUP_ENTRIES = 1 << 24
# Attributes with labels and names of columns; `check_common` checks them.
OF_LABELS = {"classes_", "feature_names_in_"}
# Those of a SelectiveClassifier.
OF_SELECTIVE = {"estimator_", "classes_", "thresholds_", "coverage_", "accuracy_"}
# Those of a PriorCorrection.
OF_PRIORS = {"classes_", "source_priors_", "priors_", "priors_low_", "priors_high_"}


def check_fitted(calibrator: Any, fitted: dict[str, Any]) -> None:
    """Check the fitted attributes of an estimator, and what it predicts by them."""
    if isinstance(calibrator, PriorCorrection | SelectiveClassifier):
        check_wrapper(calibrator, set(fitted))
        return
    in_groups = isinstance(calibrator, GroupwiseCalibrator)
    (check_groupwise if in_groups else check_common)(calibrator)
    for name in [name for name in fitted if name not in OF_LABELS]:
        check_numbers(calibrator, name, fitted[name])
    name = type(calibrator).__name__
    try:
        is_valid = (gives_probabilities_in_groups if in_groups else gives_probabilities)(calibrator)
    except Exception as error:  # of any type: attributes may be missing or of another kind
        reason = " ".join(str(error).split())[:200]
        raise ValueError(f"The stored {name} is refused: {reason}") from error
    if not is_valid:
        raise ValueError(f"{name}: the fitted attributes do not give probabilities: fit it again.")


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
    """Refuse weights of classes that no fit gives."""
    count = vars(calibrator).get("class_count_")
    are_weights = are_floats_of_classes(count, calibrator) and (count >= 0).all()
    require(are_weights, calibrator, "class_count_", "a weight for each class", count)


def check_clip(calibrator: Any) -> None:
    """Refuse a clip that no fit gives: it is a number, or one for each of two classes."""
    clip = vars(calibrator).get("clip_")
    is_number = isinstance(clip, float | np.floating | np.ndarray)
    clips = np.asarray(clip if is_number else "")
    shapes = ((), (2,)) if calibrator.classes_.size == 2 else ((),)
    are_clips = clips.dtype.kind == "f" and clips.shape in shapes
    require(are_clips, calibrator, "clip_", "a number, or one for each of two classes", clip)
    inside = ((clips >= LEAST_CLIP) & (clips <= MOST_CLIP)).all()
    require(inside, calibrator, "clip_", f"from {LEAST_CLIP:g} to {MOST_CLIP:g}", clip)
    in_groups = isinstance(calibrator, GroupwiseCalibrator)  # which has no such attribute
    zeros = np.asarray(vars(calibrator).get("_had_zeros", in_groups or None))
    are_flags = zeros.dtype.kind == "b" and zeros.shape in ((), clips.shape)
    require(are_flags, calibrator, "_had_zeros", "true or false, as many as clip_", zeros)


def check_numbers(calibrator: Any, name: str, value: Any) -> None:
    """Refuse an attribute with NaN, infinity, numbers above 1e100 or arrays of other things.

    An entry of an array may be -inf: the intercept of a class that cannot occur.
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
    """Check that an attribute is a calibrator whose classes are those of the estimator."""
    inner: Any = getattr(outer, name, None)
    classes: Any = getattr(outer, "classes_", None)
    require(isinstance(inner, kinds), outer, name, "a calibrator", type(inner).__name__)
    known = inner.classes_
    same = isinstance(classes, np.ndarray) and classes.dtype == known.dtype
    same = same and np.array_equal(classes, known)
    require(same, outer, "classes_", f"those of {name}", classes)


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
            are_probabilities(map_group(P, coef, intercept, calibrator.clip_))
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
    is_selective = isinstance(outer, SelectiveClassifier)
    expected, inner = (OF_SELECTIVE, "estimator_") if is_selective else (OF_PRIORS, "estimator")
    if names != expected:
        raise ValueError(
            f"A stored {type(outer).__name__} has fitted {', '.join(sorted(expected))}; got "
            f"{', '.join(sorted(names))[:60]}."
        )
    check_calibrator_within(outer, inner, ScoreCalibrator | GroupwiseCalibrator)
    (check_thresholds if is_selective else check_shares)(outer)


def check_thresholds(classifier: Any) -> None:
    """Check the thresholds of a selective classifier, and what they accept."""
    t: Any = classifier.thresholds_
    are_thresholds = are_floats_of_classes(t, classifier) and (t >= 0).all()  # NaN is not
    require(are_thresholds, classifier, "thresholds_", "a float >= 0 or inf for each class", t)
    for name in ("coverage_", "accuracy_"):
        value: Any = getattr(classifier, name)
        is_share = type(value) is float and (0 <= value <= 1 or np.isnan(value))
        require(is_share, classifier, name, "a float in [0, 1]", value)


def check_shares(correction: Any) -> None:
    """Check the shares of a correction."""
    for name in sorted(OF_PRIORS - {"classes_"}):
        shares: Any = getattr(correction, name)
        are_floats = are_floats_of_classes(shares, correction)
        require(are_floats, correction, name, "a float for each class", shares)
        is_end = name in ("priors_low_", "priors_high_")
        inside = (shares >= 0) & (shares <= 1) | (is_end & np.isnan(shares))
        are_shares = inside.all() and (is_end or abs(shares.sum() - 1) < 1e-6)
        require(are_shares, correction, name, "shares in [0, 1] that sum to 1", shares)


def are_floats_of_classes(value: Any, estimator: Any) -> bool:
    """Whether a value is an array of float64 with an entry for each class."""
    is_array = isinstance(value, np.ndarray) and value.dtype == np.float64
    return is_array and value.shape == estimator.classes_.shape


def require(is_right: Any, calibrator: object, name: str, expected: str, value: object) -> None:
    """Raise ValueError with the wrong value of an attribute."""
    if not is_right:
        got = " ".join(str(value).split())[:60]
        raise ValueError(f"{type(calibrator).__name__}.{name} must be {expected}; got {got}.")
