"""PyTorch operations on each row of a block, with the names of the NumPy operations in `rowwise`.

A kernel begins with ``r = ops_for(block)``, so that it is written once for arrays and tensors.
Numbers of rows, and sums over rows, are float64. Entries are computed in float64, or in float32 if
they have 32 or 16 bits. `places`, `above`, `totals` and `smallest_above_zero` may wait for the
device; other operations do not.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from skcalib._arrays.rowwise import FEW_COLUMNS, NEAR

Tensor = Any
# Smallest argument of exp in PyTorch: no bound. NumPy needs a bound, because subnormal numbers are
# slow on a CPU.
LEAST = -float("inf")
# With more codes (groups of rows) than this number, parallel threads rarely add to the sum of the
# same code.
FEW_CODES = 1 << 10
exp, log, log1p = torch.exp, torch.log, torch.log1p


def work_type(Z: Tensor) -> torch.dtype:
    """Return the floating-point type in which a block is computed: float64 or float32."""
    return torch.float64 if Z.dtype == torch.float64 else torch.float32


def row_max(Z: Tensor) -> Tensor:
    """Return the largest entry of each row of ``Z (n, K)``."""
    return Z.amax(1).to(work_type(Z))


def row_min(Z: Tensor) -> Tensor:
    """Return the smallest entry of each row of ``Z (n, K)``."""
    return Z.amin(1).to(work_type(Z))


def row_sums(A: Tensor) -> Tensor:
    """Return the sum of each row of ``A (n, K)``."""
    # Summing float32 numbers in float64 would copy the whole block.
    return A.sum(1, dtype=work_type(A)).double()


def exponentiate(Z: Tensor, max_abs_logit: float = float("inf")) -> tuple[Any, Tensor]:
    """Overwrite logits ``Z (n, K)`` by ``exp(Z - shift)``; return the shifts and the row sums."""
    shift: Any = 0.0
    if not max_abs_logit <= NEAR[np.dtype(np.float32)]:
        shift = Z.amax(1)
        Z -= shift[:, None]
    return shift, row_sums(Z.exp_())


def row_dots(A: Tensor, B: Tensor) -> Tensor:
    """Return the dot product of each row of ``A`` with the same row of ``B``."""
    return (A * B).sum(1).double()


def largest(block: Tensor) -> tuple[Tensor, Tensor]:
    """Return the largest entry of each row of a block and its column, the first one on ties."""
    # `torch.max`, which returns the entry and its column, takes ten times as long.
    return block.amax(1), block.argmax(1)


def at(A: Tensor, code: Tensor) -> Tensor:
    """Return the entry ``A[i, code[i]]`` of each row."""
    return A.gather(1, code[:, None])[:, 0].double()


def copied(Z: Tensor) -> Tensor:
    """Return a float64 copy of a block."""
    return Z.to(torch.float64, copy=True)


def minus(Z: Tensor, v: Tensor) -> Tensor:
    """Subtract the number ``v[i]`` from each row i of ``Z``; return a new block."""
    # A single operation converts 16-bit numbers and subtracts. With few columns, the result is in
    # column order, as in NumPy.
    n, n_columns = Z.shape
    few = n_columns <= FEW_COLUMNS
    shape = (n_columns, n) if few else (n, n_columns)
    out = torch.empty(shape, dtype=work_type(Z), device=Z.device)
    return torch.sub(Z, v[:, None].to(out.dtype), out=out.T if few else out)


def add_at_(A: Tensor, code: Tensor, v: Tensor) -> None:
    """Add ``v[i]`` to the entry ``A[i, code[i]]`` of each row i."""
    A.scatter_add_(1, code[:, None], v[:, None].to(A.dtype))


def times_matrix(Z: Tensor, W: Tensor) -> Tensor:
    """Return the matrix product ``Z W``."""
    return Z @ W


def single(x: Tensor) -> Tensor:
    """Convert numbers to float32."""
    return x.float()


def double(x: Tensor) -> Tensor:
    """Convert numbers to float64."""
    return x.double()


def round_to_int(x: Tensor) -> Tensor:
    """Round numbers to the nearest integers."""
    return x.round().long()


def places(A: Tensor) -> Tensor:
    """Return the indices of the nonzero entries of a block, counted in its flat order."""
    return A.reshape(-1).nonzero()[:, 0]


def pieces(_: Tensor) -> list[slice]:
    """Return a single slice of all rows of a block, because a device computes all rows at once."""
    return [slice(None)]


def times_rows_(A: Tensor, v: Tensor) -> None:
    """Multiply each row i of a block by ``v[i]`` in place."""
    A *= v[:, None].to(A.dtype)


def divide_rows_(A: Tensor, v: Tensor) -> None:
    """Divide each row i of a block by ``v[i]`` in place."""
    # Dividing tensors of different types would take several times as long.
    A /= v[:, None].to(A.dtype)


def at_least_(A: Tensor, least: float) -> Tensor:
    """Raise entries of a block below `least` to `least` in place; return the block."""
    return A.clamp_(min=least)


def exp_(A: Tensor) -> Tensor:
    """Replace the entries of a block by their exponentials in place; return the block."""
    return A.exp_()


def weighted_sum(share: Tensor, v: Tensor) -> Tensor:
    """Return the weighted sum of the numbers ``v`` of all rows, with the row weights ``share``."""
    return share.dot(v.to(share.dtype))


def weighted_columns(share: Tensor, A: Tensor) -> Tensor:
    """Return the weighted sum of the rows of ``A``, with the row weights ``share``."""
    return (share.to(A.dtype) @ A).double()


def totals(code: Tensor, x: Tensor | None, n: int) -> Tensor:
    """Sum `x` over the rows of each of n integer codes; count the rows if `x` is None."""
    if x is None:
        return code.bincount(minlength=n)
    if n > FEW_CODES or torch.are_deterministic_algorithms_enabled():
        return torch.zeros(n, dtype=torch.float64, device=x.device).index_add_(0, code, x.double())
    return code.bincount(x.double(), n)


def concatenate(parts: list[Tensor]) -> Tensor:
    """Concatenate vectors as float64."""
    return torch.cat([part.double() for part in parts])


def smallest_above_zero(block: Tensor) -> tuple[float, bool]:
    """Return the smallest positive number of a block (inf if none), and whether a 0 occurs."""
    positive = block > 0
    return float(block.where(positive, torch.inf).amin()), not bool(positive.all())


def column_sums(A: Tensor, w: Tensor | None) -> Tensor:
    """Return the sum of each column of ``A`` in float64, with row weights ``w`` (None: all 1)."""
    A = A.double()
    return A.sum(0) if w is None else w @ A


def above(A: Tensor, cut: np.floating) -> tuple[Tensor, Tensor]:
    """Return the entries of a block above the `cut`: their flat indices, and their values."""
    # The threshold `cut` is converted to a matrix, because PyTorch would round a plain number to 16
    # bits before the comparison.
    at = places(torch.tensor([[cut]], dtype=work_type(A), device=A.device) < A)
    return at, A.reshape(-1)[at].to(work_type(A))


def vector(values: list[Tensor]) -> Tensor:
    """Convert a list of numbers to a float64 tensor."""
    return torch.stack([value.double() for value in values])
