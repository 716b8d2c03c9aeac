"""Predictions softmax(W z + b) of temperature, vector and matrix scaling."""

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

# Predictions overwrite a block of scores, so that no copies are needed and blocks can have more
# rows.
IN_PLACE = Work(4 * ROW_BLOCK_BYTES, 1)
# For small batches, BLAS adds numbers in a different order than for large batches. If an entry of W
# exceeds 1e3 (fits without penalty), the difference is visible, so products are computed in chunks
# of 32 rows.
FEW_ROWS = 32
LARGE_COEF = 1e3
# Probabilities of 1 - 2**-53 are set to 1, because x * (1 / x) may round to 1 - 2**-53.
ALMOST_ONE = 1.0 - 2.0**-53


def times_transposed(Z: FloatArray, coef: Float64Array, out: FloatArray) -> FloatArray:
    """Write the product ``Z W'`` to `out`, so that each row depends on itself alone (to 1e-12)."""
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
    """Return the probabilities softmax(W z + b) of a block of logits z.

    `coef` is a number (W is a multiple of the identity), the diagonal ``(K,)`` of W, or W ``(K,
    K)``. `max_abs_logit` is an upper bound on the absolute value of every logit. The result is
    written to `out` if possible.
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
    elif W.ndim and order == "F":  # a copy is faster than multiplying arrays of different orders
        transpose_into(Z.T, out)
        Q = np.multiply(out, W, out=out)
    else:
        Q = np.multiply(Z, W, out=out, dtype=np.float64)  # NumPy 1 would compute in float32
    max_abs_logit *= gain
    if intercept is not None:
        Q += intercept
        max_abs_logit += float(np.abs(intercept).max())
    _, total = exponentiate(Q, max_abs_logit)
    # If all logits are small in absolute value, no probability rounds to 1, because the
    # exponentials of the other classes are too large.
    certain = np.exp(-max_abs_logit) < 4 * (1 - ALMOST_ONE) * total.max()
    # Multiplication by one reciprocal per row is faster than a division of each entry.
    Q *= np.reciprocal(total, out=total)[:, None]
    if certain and Q.max() >= ALMOST_ONE:
        np.copyto(Q, 1.0, where=Q >= ALMOST_ONE)
    return Q
