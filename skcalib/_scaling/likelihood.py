"""The negative log-likelihood of softmax(eta), and its derivative."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from skcalib._arrays.tensors import rows_of
from skcalib._arrays.types import Float64Array, Intp


def nll_to_residual(eta: NDArray[Any], code: Intp, w: Float64Array) -> Any:
    """Overwrite logits ``(n, K)`` by the derivative of the weighted NLL; return the NLL."""
    r = rows_of(eta)
    true, top = r.at(eta, code), r.row_max(eta)
    eta -= top[:, None]
    r.exp_(eta)
    total = eta.sum(1)
    r.add_at_(eta, code, -total)
    r.times_rows_(eta, w / total)
    return w @ (r.log(r.copied(total)) + top - true)
