"""Softmax(W z + b): the predictions of temperature, vector and matrix scaling."""

from __future__ import annotations

import numpy as np

from skcalib._arrays.rowwise import (
    ROW_BLOCK_BYTES,
    Float64Array,
    FloatArray,
    block_order,
    exponentiate,
    transpose_into,
)
from skcalib._arrays.sources import Work

# Predictions are computed in place, so that a block needs no room for copies and may be taller.
IN_PLACE = Work(4 * ROW_BLOCK_BYTES, 1)
# BLAS sums in a different order for small batches. For |W| > 1e3 (unregularised fits), cancellation
# makes this visible, so multiply in fixed chunks of 32 rows.
FEW_ROWS = 32
LARGE_COEF = 1e3
# x * (1 / x) may round to 1 - 2**-53; such probabilities are set to 1.
ALMOST_ONE = 1.0 - 2.0**-53


def times_transposed(Z: FloatArray, coef: Float64Array, out: FloatArray) -> FloatArray:
    """Write ``Z W'`` to `out`; a row does not depend on the other rows (to 1e-12)."""
    if np.abs(coef).max() <= LARGE_COEF:
        return np.matmul(Z, coef.T, out=out)
    some = np.zeros((FEW_ROWS, Z.shape[1]))
    for start in range(0, Z.shape[0], FEW_ROWS):
        rows = Z[start : start + FEW_ROWS]
        some[: rows.shape[0]] = rows
        out[start : start + FEW_ROWS] = (some @ coef.T)[: rows.shape[0]]
    return out


def affine_softmax(
    Z: FloatArray,
    coef: float | Float64Array,
    intercept: Float64Array | None = None,
    max_abs_logit: float = np.inf,
    out: FloatArray | None = None,
) -> FloatArray:
    """Return softmax(W z + b) of a block of logits.

    `coef` is a number (W is a multiple of the identity), W's diagonal ``(K,)`` or W ``(K, K)``.
    `max_abs_logit` is an upper bound on the absolute value of every logit. The result is `out`
    where it can be.
    """
    W = np.asarray(coef)
    size = np.abs(W)
    full = size.ndim == 2
    gain = float(size.sum(axis=1).max() if full else size.max())
    order = block_order(Z.shape[1])
    if out is None:
        out = np.empty(Z.shape, order=order)
    if full:
        Q = times_transposed(Z.astype(np.float64, order=order, copy=False), W, out)
    elif W.ndim and order == "F":  # a product of two memory orders takes longer than a copy too
        transpose_into(Z.T, out)
        Q = np.multiply(out, W, out=out)
    else:
        Q = np.multiply(Z, W, out=out, dtype=np.float64)  # NumPy 1 would compute in float32
    max_abs_logit *= gain
    if intercept is not None:
        Q += intercept
        max_abs_logit += float(np.abs(intercept).max())
    _, total = exponentiate(Q, max_abs_logit)
    # Whether a probability may be this close to 1: the others are at least exp(-max_abs_logit).
    certain = np.exp(-max_abs_logit) < 4 * (1 - ALMOST_ONE) * total.max()
    # One division per row, then products: a division takes 1.5 times as long as a product.
    Q *= np.reciprocal(total, out=total)[:, None]
    if certain and Q.max() >= ALMOST_ONE:
        np.copyto(Q, 1.0, where=Q >= ALMOST_ONE)
    return Q
