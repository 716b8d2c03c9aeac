"""Softmax, log-sum-exp and normalisation of rows, used by the whole package."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from skcalib._arrays.rowwise import row_max, row_min, row_sums
from skcalib._arrays.tensors import rows_of
from skcalib._arrays.types import Float, FloatArray

# The shift subtracted from the logits of each row, and the sum of exponentials after it.
Normaliser = tuple[NDArray[Any], NDArray[Any]]
# Largest absolute logit of a row that is not shifted: exponentials and their sums neither overflow
# nor become subnormal (which is slow). The decision is made for each row by itself.
NEAR = {np.dtype(np.float64): 64.0, np.dtype(np.float32): 30.0}
# exp(-50) is far below the rounding of 1 in float32 and far above subnormal numbers.
LEAST_FLOAT32 = -50.0
# Logit of a class that was not offered in a row. It is finite, so that products with a probability
# of 0 are 0, and far below all other logits (at most 1e30) times any scale that a fit tries.
ABSENT = -1e38
# Default lower bound on probabilities before a logarithm (`clip.find_clip` fits one). With it, a
# probability of 0 or a logit of -inf gets a log of -27.6 and cannot dominate a fit.
CLIP = 1e-12
LOG_PROBA_MIN = float(np.log(CLIP))


def exponentiate(Z: NDArray[Any], max_abs_logit: float = np.inf) -> Normaliser:
    """Overwrite logits ``Z (n, K)`` by ``exp(Z - shift)``; return the shifts and the row sums.

    The shift is the row's largest logit, or 0 if all its logits are near 0. `max_abs_logit` is an
    upper bound on the absolute value of every logit.
    """
    shift = np.zeros(Z.shape[0], dtype=Z.dtype)
    near = NEAR[Z.dtype]
    if not (max_abs_logit <= near or (-near <= Z.min() and Z.max() <= near)):
        top = row_max(Z)
        far = np.maximum(top, -row_min(Z)) > near
        shift[far] = top[far]
        Z -= shift[:, None]
        if Z.dtype == np.float32:
            np.maximum(Z, LEAST_FLOAT32, out=Z)
    np.exp(Z, out=Z)
    return shift, row_sums(Z)


def log_sum_exp(Z: NDArray[np.float64]) -> NDArray[np.float64]:
    """Log of the row sums of ``exp(Z)``; each row needs an entry above -inf."""
    shift, total = exponentiate(Z.copy(order="K"))
    return shift + np.log(total)


def softmax_inplace(Z: NDArray[Float], max_abs_logit: float = np.inf) -> NDArray[Float]:
    """Overwrite logits ``Z (n, K)`` by their softmax; return it."""
    _, total = exponentiate(Z, max_abs_logit)
    Z /= total[:, None]
    return Z


def log_of_proba(P: FloatArray) -> FloatArray:
    """Return the logarithm of probabilities, -inf for 0."""
    with np.errstate(divide="ignore"):
        return rows_of(P).log(P)


def normalise_rows(Q: FloatArray) -> FloatArray:
    """Divide each row of non-negative `Q` by its sum, in place; an all-zero row becomes uniform."""
    total = row_sums(Q.astype(np.float64, copy=False))
    empty = total <= 0.0
    if empty.any():
        Q[empty] = 1.0
        total[empty] = Q.shape[1]
    return np.divide(Q, total[:, None], out=Q, casting="same_kind")
