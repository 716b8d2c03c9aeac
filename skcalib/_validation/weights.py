r"""Sample weights: counts or relative weights, scaled to the number of rows that they count as.

Integers are counts: 2 is two copies of a row. Floating-point weights are relative: only their
ratios matter, and they are scaled to sum to the effective number of rows,

.. math:: n_{\mathrm{eff}} = \Big(\sum_i w_i\Big)^2 \Big/ \sum_i w_i^2 .

Checked weights are float64 and sum to the number of rows that they count as. Counts are whole
numbers then, and relative weights are not, except for 0 and 1, so that a part of the rows shows
which of them it has.
"""

from __future__ import annotations

import numbers
import warnings
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skcalib._arrays.selection import take_rows
from skcalib._arrays.source import Source
from skcalib._arrays.tensors import as_type_of, is_beside, is_tensor, on_host
from skcalib._validation.scores import from_tensor, naming_errors_of

# Range of the sum of the weights, so that its square stays within float64.
WEIGHT_LOW, WEIGHT_HIGH = 1e-100, 1e100
# Float64 has all whole numbers up to this one.
MOST_COUNTED = 2**53
# Counts are often relative weights by mistake if their mean is larger and none of them is 1.
MOST_OF_MEAN = 10
OF_COUNTS = "sample_weight contains whole numbers"
# The largest number below 1.
BELOW_ONE = 1 - 2**-53


def check_weight(
    sample_weight: ArrayLike | None,
    n_rows: int,
    name: str = "sample_weight",
    *,
    scaled: bool = True,
    labels: Any = None,
    warn: bool = False,
) -> NDArray[np.float64]:
    """Return float64 weights ``(n,)`` that sum to the number of rows that they count as.

    None gives ones. Negative or only zero weights are refused. Relative weights that are not
    `scaled` can be compared with those of other batches. Beside `labels` on a device, the weights
    are a tensor there. With `warn`, whole numbers that may be relative weights give a warning.
    """
    if is_tensor(labels):
        if sample_weight is None:
            return labels.new_ones(n_rows).double()
        tensor = _on_device(sample_weight, labels, scaled)
        if tensor is not None:
            return tensor
        w = check_weight(sample_weight, n_rows, name, scaled=scaled, warn=warn)
        return as_type_of(w, labels)
    if sample_weight is None:
        return np.ones(n_rows)
    given = read_weight(sample_weight, n_rows, name)
    w = given.astype(np.float64, copy=False)
    if given.dtype.kind == "f":
        return _scaled(w) if scaled else w
    n, total = (w > 0).sum(), w.sum()
    if warn and total > MOST_OF_MEAN * n and not (w == 1).any():
        warnings.warn(
            f"{OF_COUNTS}, none of them 1, among {n:,} rows: these counts are read as "
            f"{total:,.0f} rows; if they are relative weights, pass w.astype(float).",
            stacklevel=4,
        )
    return w


def _on_device(given: Any, labels: Any, scaled: bool) -> Any:
    """Return the checked weights of a tensor; None if the host has to read or refuse them."""
    if not is_beside(given, labels) or given.shape != labels.shape:
        return None
    w, are_counts = given.detach().double(), not given.is_floating_point()
    total = float(w.sum())
    valid = float(w.amin()) >= 0 and total >= WEIGHT_LOW
    if not valid or total > (MOST_COUNTED if are_counts else WEIGHT_HIGH):  # also true of NaN
        return None
    return w if are_counts or not scaled else _scaled(w)


def read_weight(
    sample_weight: ArrayLike, n_rows: int, name: str = "sample_weight"
) -> NDArray[np.int64] | NDArray[np.float64]:
    """Return valid weights ``(n,)`` as they are given: counts as int64, others as float64."""
    if isinstance(sample_weight, numbers.Number):
        sample_weight = np.full(n_rows, sample_weight)
    sample_weight = from_tensor(name, sample_weight)
    with naming_errors_of(name, sample_weight, "pass one number for each row"):
        given = np.asarray(sample_weight)
        if given.dtype.kind in "cmMV":
            raise ValueError(f"{given.dtype} numbers cannot be weights")
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
    if _are_counts(given):
        if total > MOST_COUNTED:
            raise ValueError(
                f"{name}: integers are counts of rows, and these sum to {total:.3g}, more than "
                "2**53; pass floats for weights of which only the ratios matter."
            )
        return w.astype(np.int64)
    if not WEIGHT_LOW <= total <= WEIGHT_HIGH:
        raise ValueError(
            f"{name} sums to {total:.3g}, outside [{WEIGHT_LOW:g}, {WEIGHT_HIGH:g}]; divide "
            "the weights by their mean."
        )
    return w


def _are_counts(given: NDArray[Any]) -> bool:
    """Whether weights are integers or booleans; an array of objects, whether each of them is."""
    if given.dtype.kind == "O":
        return all(isinstance(each, numbers.Integral | np.bool_) for each in given.tolist())
    return given.dtype.kind in "biu"


def is_whole(w: NDArray[np.float64]) -> bool:
    """Whether checked weights are whole numbers: counts, or relative weights of 0 and 1."""
    return bool((w == w.round()).all())


def effective(w: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the checked weights of some rows, scaled to the number of rows that they count as."""
    return w if is_whole(w) else _scaled(w)


def as_given(w: NDArray[np.float64]) -> NDArray[Any]:
    """Return checked weights as an argument `sample_weight`: counts as integers."""
    return w.astype(np.int64) if is_whole(w) else w


def _scaled(w: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return relative weights scaled to the effective number of rows."""
    positive = w > 0
    if not positive.all():  # rows of weight 0 do not even change a rounding error
        scaled = 0 * w
        scaled[positive] = _scaled(w[positive])
        return scaled
    scaled = w / w.max()  # so that no square is lost
    if scaled.min() < 1:
        scaled *= scaled.sum() / (scaled @ scaled)
        # One may happen to be 2.0, and rows of it alone would then be read as copies.
        scaled[(scaled > 1) & (scaled == scaled.round())] *= BELOW_ONE
    return scaled


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
    if (keep := w > 0).all():
        return S, code, w
    rows = np.flatnonzero(on_host(keep))
    # Places of rows are followed in a third of the time of a mask; tensors have masks alone.
    kept = rows if isinstance(keep, np.ndarray) else keep
    return take_rows(S, rows), code[kept], w[kept]
