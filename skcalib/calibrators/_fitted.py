"""Checks of fitted attributes that are read from a file.

A calibrator's ``_check_fitted`` uses these to refuse values that its ``_fit`` cannot return, before
a changed file can give predictions. Every message names the class, the attribute and what it must
be.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from skcalib._scores.clip import LEAST_CLIP, MOST_CLIP
from skcalib._validation.labels import check_labels

# Fits of scores of any sensible scale return far smaller numbers, and sums of products with scores
# up to 1e200 stay finite.
LARGEST = 1e100

# None means any size of at least 1.
Shape = tuple[int | None, ...]
# Order along the last axis: each entry above the one before, or not below it.
Order = Literal["strict", "weak"] | None


def check_number(calibrator: object, name: str, *, low: float, high: float = LARGEST) -> None:
    """Refuse an attribute that is not a number in ``[low, high]``."""
    value: Any = getattr(calibrator, name, None)
    is_number = isinstance(value, int | float | np.integer | np.floating)
    if not is_number or isinstance(value, bool) or not low <= value <= high:
        raise _wrong(calibrator, name, f"a number from {low:g} to {high:g}", value)


def check_numbers(
    calibrator: object,
    name: str,
    shape: Shape,
    *,
    low: float = -LARGEST,
    high: float = LARGEST,
    never: bool = False,
    order: Order = None,
) -> None:
    """Refuse an attribute that is not a float array of this shape, range and order.

    With `never`, entries may also be -inf: intercepts of classes that cannot occur.
    """
    value = getattr(calibrator, name, None)
    _check_array(calibrator, name, value, shape, low, high, never, order)


def check_curves(
    calibrator: object,
    n_maps: int,
    *,
    low: float,
    high: float,
    order: Order = None,
    values: str = "y_thresholds_",
) -> None:
    """Refuse thresholds that are not tables of `n_maps` maps from [0, 1] to ``[low, high]``.

    `order` is that of the attribute `values`; scores ascend.
    """
    names = ("X_thresholds_", values)
    X, Y = (getattr(calibrator, name, None) for name in names)
    for name, value in zip(names, (X, Y), strict=True):
        if not isinstance(value, list) or len(value) != n_maps:
            raise _wrong(calibrator, name, f"a list of {n_maps} arrays", value)
    for x, y in zip(X, Y, strict=True):  # type: ignore[arg-type]
        _check_array(calibrator, names[0], x, (None,), 0.0, 1.0, False, "strict")
        _check_array(calibrator, names[1], y, x.shape, low, high, False, order)


def check_clip(calibrator: Any) -> None:
    """Refuse a clip that no fit gives; it is a number, or one for each of two classes."""
    if calibrator.classes_.size == 2 and isinstance(calibrator.clip_, np.ndarray):
        check_numbers(calibrator, "clip_", (2,), low=LEAST_CLIP, high=MOST_CLIP)
    else:
        check_number(calibrator, "clip_", low=LEAST_CLIP, high=MOST_CLIP)


def check_common(calibrator: Any) -> None:
    """Check the attributes that every fit sets."""
    classes = getattr(calibrator, "classes_", None)
    if not isinstance(classes, np.ndarray) or classes.ndim != 1 or classes.size < 2:
        raise _wrong(calibrator, "classes_", "an array of two labels or more", classes)
    labels = check_labels(classes, f"{type(calibrator).__name__}.classes_")
    if not np.array_equal(np.unique(labels), labels):
        raise _wrong(calibrator, "classes_", "distinct labels in ascending order", classes)
    if getattr(calibrator, "input_", None) not in ("logits", "proba"):
        raise _wrong(calibrator, "input_", "'logits' or 'proba'", calibrator.__dict__.get("input_"))
    if not isinstance(getattr(calibrator, "_refuses_simplex", None), bool | np.bool_):
        raise _wrong(calibrator, "_refuses_simplex", "true or false", None)
    width = getattr(calibrator, "n_features_in_", None)
    widths = (1, 2) if classes.size == 2 else (classes.size,)
    if type(width) is not int or width not in widths:
        raise _wrong(calibrator, "n_features_in_", f"the number of columns, {widths[-1]}", width)
    if hasattr(calibrator, "clip_"):  # files of early versions have none; their clip is 1e-12
        check_clip(calibrator)
    names = getattr(calibrator, "feature_names_in_", None)
    if names is not None and (
        not isinstance(names, np.ndarray)
        or names.shape != (width,)
        or not all(isinstance(name, str) for name in names)
    ):
        raise _wrong(calibrator, "feature_names_in_", "a name for each column", names)


def _check_array(
    calibrator: object,
    name: str,
    value: object,
    shape: Shape,
    low: float,
    high: float,
    never: bool,
    order: Order,
) -> None:
    if (
        not isinstance(value, np.ndarray)
        or value.dtype.kind != "f"
        or value.ndim != len(shape)
        or any(n < 1 if k is None else n != k for n, k in zip(value.shape, shape, strict=True))
    ):
        wanted = " x ".join("any" if size is None else str(size) for size in shape)
        found = f"shape {value.shape}" if isinstance(value, np.ndarray) else value
        raise _wrong(calibrator, name, f"a float array of shape {wanted}", found)
    inside = (value >= low) & (value <= high)
    if never:
        inside |= np.isneginf(value)
    if not inside.all():
        span = f"from {low:g} to {high:g}" + (" or -inf" if never else "")
        raise _wrong(calibrator, name, span, value[~inside][0])
    if order is not None:
        step = np.diff(value)
        if not (step > 0 if order == "strict" else step >= 0).all():
            raise _wrong(calibrator, name, "in ascending order", "another order")


def _wrong(calibrator: object, name: str, wanted: str, found: object) -> ValueError:
    shown = " ".join(str(found).split())[:60]
    return ValueError(f"{type(calibrator).__name__}.{name} must be {wanted}; got {shown}.")
