"""Sample weights: checked, and rows of weight 0 dropped."""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skcalib._arrays.selection import take_rows
from skcalib._arrays.source import Source
from skcalib._validation.scores import from_tensor, naming_errors_of

# Range of the sum of the weights, so that its square stays within float64.
WEIGHT_LOW, WEIGHT_HIGH = 1e-100, 1e100


def check_weight(
    sample_weight: ArrayLike | None, n_rows: int, name: str = "sample_weight"
) -> NDArray[np.float64]:
    """Return float64 weights ``(n,)``, ones for None; refuse negative or only zero weights."""
    if sample_weight is None:
        return np.ones(n_rows)
    if isinstance(sample_weight, numbers.Number):
        sample_weight = np.full(n_rows, sample_weight)
    sample_weight = from_tensor(name, sample_weight)
    with naming_errors_of(name, sample_weight, "pass one number for each row"):
        given = np.asarray(sample_weight)
        if given.dtype.kind in "cmMV":
            raise TypeError(f"{given.dtype} numbers cannot be weights")
        w = given.astype(np.float64)
    if w.ndim != 1:
        raise ValueError(
            f"{name} must be a 1D array with a weight for each row; got shape {w.shape}."
        )
    if w.shape[0] != n_rows:
        raise ValueError(
            f"{name}.shape == {w.shape}, expected {(n_rows,)}: give one weight for each row."
        )
    bad = np.flatnonzero(~(np.isfinite(w) & (w >= 0)))
    if bad.size:
        raise ValueError(
            f"{name} must be finite and non-negative; row {bad[0]} has {w[bad[0]]:.6g}."
        )
    if not w.any():
        raise ValueError(f"{name}: all weights are zero; at least one row must count.")
    with np.errstate(over="ignore"):
        total = float(w.sum())
    if not WEIGHT_LOW <= total <= WEIGHT_HIGH:
        raise ValueError(
            f"{name} sums to {total:.3g}, outside [{WEIGHT_LOW:g}, {WEIGHT_HIGH:g}]; divide "
            "the weights by their mean."
        )
    return w


def check_lengths(y: NDArray[Any], n_rows: int, y_name: str, S_name: str) -> None:
    """Refuse labels and scores of different lengths."""
    if y.shape[0] != n_rows:
        raise ValueError(
            f"Found input variables with inconsistent numbers of samples: {S_name} has "
            f"{n_rows} rows, {y_name} has {y.shape[0]}; they must go together row by row."
        )


def drop_zero_weight(
    S: Source, code: NDArray[Any], w: NDArray[np.float64]
) -> tuple[Source, NDArray[Any], NDArray[np.float64]]:
    """Drop rows of weight 0, so that later code can assume positive weights."""
    keep = w > 0
    if keep.all():
        return S, code, w
    rows = np.flatnonzero(keep)
    return take_rows(S, rows), code[rows], w[rows]
