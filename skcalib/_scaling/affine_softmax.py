"""Softmax(W z + b) of all rows: what temperature, vector and matrix scaling answer."""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np

from skcalib._arrays.blocks import ROW_BLOCK_BYTES, row_blocks
from skcalib._arrays.rowwise import block_order, row_max, row_min, row_sums
from skcalib._arrays.threads import AT_A_TIME, each_block, one_blas_thread
from skcalib._arrays.types import Float64Array, FloatArray
from skcalib._scores.scores import Scores
from skcalib._scores.softmax import NEAR, exponentiate

# Exponentials, their row sums, and what none of them is below.
Exponentials = tuple[Float64Array, Float64Array, float]

# Rows of a product that do not depend on their neighbours: BLAS adds those of a few rows in another
# order. Where W is this large, as of rows that nothing holds, its terms cancel and the order shows.
FEW_ROWS = 32
LARGE_COEF = 1e3


def times_transposed(
    Z: Float64Array, coef: Float64Array, out: Float64Array | None = None
) -> Float64Array:
    """Return ``Z W'`` in `out`, each row the same whatever other rows there are (to 1e-12)."""
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
    """Keep rows of logits beyond `largest`, which are certain, from products that overflow."""
    top, bottom = row_max(Z), row_min(Z)
    max_abs_logit = np.maximum(top, -bottom)
    far = max_abs_logit > largest
    if scale_alone:  # of its largest logit nothing is left, so that the others may overflow
        Z[far] -= top[far, None]
    else:
        Z[far] *= (largest / max_abs_logit[far])[:, None]


# Between these lie the exponentials of logits that are near 0; the margin is for rounding.
FAR = NEAR[np.dtype(np.float64)]
LOWEST, HIGHEST = float(np.exp(0.1 - FAR)), float(np.exp(FAR - 0.1))
# Times this, a logit that is refused (beyond 1e307) is still far from 0.
LEAST_SCALE = 1e-300
# What no product may exceed: the sum of two is still a number.
LARGEST_PRODUCT = 1e300
# A number times its inverse may be this; rows that are certain are to stay tied at 1.
ALMOST_ONE = 1.0 - 2.0**-53


def affine_softmax(
    scores: Scores, coef: float | Float64Array, intercept: Float64Array | None = None
) -> FloatArray:
    """Return softmax(W z + b) of all rows, ``(n, K)``, in the type of the scores.

    `coef` is W: a number times the identity, its diagonal ``(K,)``, or all of it ``(K, K)``.
    """
    W = np.asarray(coef)
    size = np.abs(W)
    full = size.ndim == 2
    gain = float(size.sum(axis=1).max() if full else size.max())
    largest = LARGEST_PRODUCT / max(gain, 1.0)
    offset = 0.0 if intercept is None else float(np.abs(intercept).max())
    out = np.empty(scores.shape, dtype=scores.dtype)
    in_place = out.dtype == np.float64 and block_order(scores.shape[1]) == "C"
    # Logits are taken to be near 0 until some are not. Nobody has to look at them before: an
    # exponential or a sum tells NaN, infinity and what is far from 0.
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
            with np.errstate(over="ignore"):  # -inf is as good as -1e309
                Z *= W
        if intercept is not None:
            Z += intercept
        max_abs_logit = max_abs_logit * gain + offset
        _, total = exponentiate(Z, max_abs_logit)
        return Z, total, float(np.exp(-max_abs_logit)) if max_abs_logit <= FAR else 0.0

    def fill(rows: slice) -> None:
        nonlocal all_near
        place = out[rows] if in_place else None
        found = exponentials_if_near(rows, place) if all_near else None
        all_near = found is not None
        Z, total, low = found or exponentials(rows, place)
        certain = low < 4 * (1 - ALMOST_ONE) * total.max()
        # One division for each row; one for each entry takes half as long again as a product.
        Z *= np.reciprocal(total, out=total)[:, None]
        if certain and Z.max() >= ALMOST_ONE:
            np.copyto(Z, 1.0, where=Z >= ALMOST_ONE)
        if place is None:
            out[rows] = Z

    # Threads meet less often over taller blocks; those in place need no room for copies.
    taller = 4 if in_place else 2
    blocks = list(row_blocks(*scores.shape, taller * ROW_BLOCK_BYTES))
    with one_blas_thread() if full else nullcontext():
        each_block(fill, blocks, min(AT_A_TIME // taller, max(1, len(blocks) // 2)))
    return out
