"""Softmax(W z + b) of all rows: the predictions of temperature, vector and matrix scaling."""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np

from skcalib._arrays.blocks import ROW_BLOCK_BYTES, row_blocks
from skcalib._arrays.rowwise import block_order, row_max, row_min, row_sums
from skcalib._arrays.threads import AT_A_TIME, each_block, one_blas_thread
from skcalib._arrays.types import Float64Array, FloatArray
from skcalib._scores.scores import Scores
from skcalib._scores.softmax import NEAR, exponentiate

# Exponentials, their row sums, and a lower bound on the exponentials.
Exponentials = tuple[Float64Array, Float64Array, float]

# BLAS sums in a different order for small batches. For |W| > 1e3 (unregularised fits), cancellation
# makes this visible, so multiply in fixed chunks of 32 rows.
FEW_ROWS = 32
LARGE_COEF = 1e3


def times_transposed(
    Z: Float64Array, coef: Float64Array, out: Float64Array | None = None
) -> Float64Array:
    """Return ``Z W'`` in `out`; a row does not depend on the other rows (to 1e-12)."""
    if np.abs(coef).max() <= LARGE_COEF:
        return np.matmul(Z, coef.T, out=out)
    out = np.empty_like(Z) if out is None else out
    some = np.zeros((FEW_ROWS, Z.shape[1]))
    for start in range(0, Z.shape[0], FEW_ROWS):
        rows = Z[start : start + FEW_ROWS]
        some[: rows.shape[0]] = rows
        out[start : start + FEW_ROWS] = (some @ coef.T)[: rows.shape[0]]
    return out


def keep_within(Z: Float64Array, largest: float, scale_alone: bool) -> None:
    """Shift or scale rows with logits beyond `largest`, so that products with W do not overflow."""
    top, bottom = row_max(Z), row_min(Z)
    max_abs_logit = np.maximum(top, -bottom)
    far = max_abs_logit > largest
    if scale_alone:  # the largest logit becomes 0, and the others may overflow to -inf
        Z[far] -= top[far, None]
    else:
        Z[far] *= (largest / max_abs_logit[far])[:, None]


# Range of the exponentials of logits near 0, with a margin for rounding.
FAR = NEAR[np.dtype(np.float64)]
LOWEST, HIGHEST = float(np.exp(0.1 - FAR)), float(np.exp(FAR - 0.1))
# A logit beyond 1e307, which is refused, stays far from 0 when multiplied by this.
LEAST_SCALE = 1e-300
# Largest product: the sum of two stays within float64.
LARGEST_PRODUCT = 1e300
# x * (1 / x) may round to 1 - 2**-53; such probabilities are set to 1.
ALMOST_ONE = 1.0 - 2.0**-53


def affine_softmax(
    scores: Scores, coef: float | Float64Array, intercept: Float64Array | None = None
) -> FloatArray:
    """Return softmax(W z + b) of all rows, ``(n, K)``, in the type of the scores.

    `coef` is a number (W is a multiple of the identity), W's diagonal ``(K,)`` or W ``(K, K)``.
    """
    W = np.asarray(coef)
    size = np.abs(W)
    full = size.ndim == 2
    gain = float(size.sum(axis=1).max() if full else size.max())
    largest = LARGEST_PRODUCT / max(gain, 1.0)
    offset = 0.0 if intercept is None else float(np.abs(intercept).max())
    out = np.empty(scores.shape, dtype=scores.dtype)
    in_place = out.dtype == np.float64 and block_order(scores.shape[1]) == "C"
    # Optimistic path: exponentiate without a shift. NaN, inf and large logits show up in the sums;
    # this block is then computed again, and it and all later ones take the checked path.
    all_near = not full and scores.as_given and size.min() > LEAST_SCALE * (1.0 + offset)

    def exponentials_if_near(rows: slice, place: Float64Array | None) -> Exponentials | None:
        with np.errstate(all="ignore"):
            if place is None:
                Z = scores.read(rows)
                Z *= W
            else:
                Z = np.multiply(scores.array[rows], W, out=place)
            if intercept is not None:
                Z += intercept
            np.exp(Z, out=Z)
            total, low = row_sums(Z), float(Z.min())
        return (Z, total, low) if low >= LOWEST and total.max() <= HIGHEST else None

    def exponentials(rows: slice, place: Float64Array | None) -> Exponentials:
        max_abs_logit = scores.reach_of(rows)
        Z = scores.logits(rows, None if full else place, max_abs_logit)
        if max_abs_logit > largest:
            keep_within(Z, largest, scale_alone=W.ndim == 0)
        if full:
            Z = times_transposed(Z, W, place)
        else:
            with np.errstate(over="ignore"):  # -inf has the same softmax as -1e309
                Z *= W
        if intercept is not None:
            Z += intercept
        max_abs_logit = max_abs_logit * gain + offset
        _, total = exponentiate(Z, max_abs_logit)
        return Z, total, float(np.exp(-max_abs_logit)) if max_abs_logit <= FAR else 0.0

    def fill(rows: slice) -> None:
        nonlocal all_near
        place = out[rows] if in_place else None
        near = exponentials_if_near(rows, place) if all_near else None
        all_near = near is not None
        Z, total, low = near or exponentials(rows, place)
        certain = low < 4 * (1 - ALMOST_ONE) * total.max()
        # One division per row, then products: a division takes 1.5 times as long as a product.
        Z *= np.reciprocal(total, out=total)[:, None]
        if certain and Z.max() >= ALMOST_ONE:
            np.copyto(Z, 1.0, where=Z >= ALMOST_ONE)
        if place is None:
            out[rows] = Z

    # Threads wait less for each other with taller blocks; in-place blocks need no room for copies.
    taller = 4 if in_place else 2
    blocks = list(row_blocks(*scores.shape, taller * ROW_BLOCK_BYTES))
    with one_blas_thread() if full else nullcontext():
        each_block(fill, blocks, min(AT_A_TIME // taller, max(1, len(blocks) // 2)))
    return out
