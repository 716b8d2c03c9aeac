"""Softmax, log-sum-exp and normalisation of rows, used by the whole package."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from skcalib._arrays.dask import is_dask, mapped
from skcalib._arrays.rowwise import row_sums
from skcalib._arrays.tensors import rows_of
from skcalib._arrays.types import Float, FloatArray

# Logit of a class that was not offered in a row. It is finite, so that products with a probability
# of 0 are 0, and far below all other logits (at most 1e30) times any scale that a fit tries.
ABSENT = -1e38
# Default lower bound on probabilities before a logarithm (`clip.find_clip` fits one). With it, a
# probability of 0 or a logit of -inf gets a log of -27.6 and cannot dominate a fit.
CLIP = 1e-12
LOG_PROBA_MIN = float(np.log(CLIP))


def log_sum_exp(Z: NDArray[np.float64]) -> NDArray[np.float64]:
    """Log of the row sums of ``exp(Z)``; each row needs an entry above -inf."""
    r = rows_of(Z)
    shift, total = r.exponentiate(1.0 * Z)
    return shift + r.log(total)


def softmax_inplace(Z: NDArray[Float], max_abs_logit: float = np.inf) -> NDArray[Float]:
    """Overwrite logits ``Z (n, K)`` by their softmax; return it."""
    r = rows_of(Z)
    _, total = r.exponentiate(Z, max_abs_logit)
    r.divide_rows_(Z, total)
    return Z


def log_of_proba(P: FloatArray) -> FloatArray:
    """Return the logarithm of probabilities, -inf for 0."""
    if is_dask(P):
        return mapped(log_of_proba, P, P.shape[1:], P.dtype)
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
