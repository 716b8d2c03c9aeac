"""The negative log-likelihood of softmax(eta), and its derivative."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from skcalib._arrays.types import Float64Array, Intp


def nll_to_residual(eta: NDArray[Any], code: Intp, w: Float64Array) -> float:
    """Overwrite logits ``(n, K)`` by the derivative of the weighted NLL; return the NLL."""
    at_true = (np.arange(w.size), code)
    true = eta[at_true]
    top = eta.max(axis=1)
    eta -= top[:, None]
    np.exp(eta, out=eta)
    total = eta.sum(axis=1)
    eta[at_true] -= total
    eta *= (w / total).astype(eta.dtype)[:, None]
    return float(w @ (np.log(total, dtype=np.float64) + top - true))
