"""Rows of weight 0, which are absent: other rows stand in for them before anything is read."""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.utils import _safe_indexing

from skcalib._arrays.tensors import is_far
from skcalib._validation.keywords import shown
from skcalib._validation.scores import as_array, from_tensor


def stand_ins(sample_weight: Any) -> NDArray[np.intp] | None:
    """Return for each row its number or, if its weight is 0, that of a row before it that counts.

    None if no row has weight 0, or if these are not weights of rows, which is refused later.
    """
    if sample_weight is None or is_far(sample_weight):
        return None
    given = as_array("sample_weight", sample_weight, "pass one number for each row")
    if given.ndim != 1 or given.dtype.kind not in "biuf":
        return None
    counts = given != 0
    if counts.all() or not counts.any():
        return None
    return np.maximum.accumulate(np.where(counts, np.arange(counts.size), counts.argmax()))


def with_stand_ins(y: Any, rows: NDArray[np.intp] | None) -> Any:
    """Return labels, or another array of rows, with the rows that stand in."""
    fits = rows is not None and hasattr(y, "__len__") and len(y) == rows.size
    return _safe_indexing(y, rows) if fits else y


def ignore_label(y: Any, sample_weight: Any, label: Any) -> Any:
    """Return weights, 0 in the rows of an ignored label."""
    if not isinstance(label, str | np.generic | numbers.Number):
        raise ValueError(f"ignore_index={label!r} is not a label; pass one label, such as 255.")
    given = as_array("y", y, "pass one label for each row")
    if isinstance(y, list | tuple):  # NumPy writes numbers among strings as strings
        given = np.asarray(y, dtype=object)
    if given.dtype.kind == "O":
        given = given.copy()
        given[pd.isna(given)] = None  # an NA is neither equal to a label nor unequal
    ignored = np.zeros(given.shape, dtype=bool) | (given == label)
    if not ignored.any() or ignored.size != len(ignored):
        return sample_weight
    ignored = ignored.reshape(-1)
    if ignored.all():
        raise ValueError(f"y: every label is ignore_index={shown(label)}; no row is left.")
    w = from_tensor("sample_weight", 1 if sample_weight is None else sample_weight)
    return np.where(ignored, 0, w) if np.shape(w) in ((), ignored.shape) else sample_weight
