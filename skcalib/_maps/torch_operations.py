"""Operations of prediction formulas on PyTorch tensors."""

from __future__ import annotations

from typing import Any

import torch

from skcalib._maps.formulas import SharedOperations

Tensor = Any


class TorchOperations(SharedOperations):
    """Operations of prediction formulas on float64 tensors; results have the type of the scores."""

    # Operations of prediction formulas that are functions of PyTorch.
    exp, log, sin = staticmethod(torch.exp), staticmethod(torch.log), staticmethod(torch.sin)
    absolute, equal = staticmethod(torch.abs), staticmethod(torch.eq)
    where = staticmethod(torch.where)

    def __init__(self, dtype: Any) -> None:
        # As in NumPy, types that are shorter than float32, such as float16, are treated like
        # float32.
        self.dtype = dtype if dtype == torch.float64 else torch.float32
        self.epsilon = float(torch.finfo(self.dtype).eps)

    def softmax(self, x: Tensor) -> Tensor:
        return torch.softmax(x, dim=1)

    def log_sum_exp(self, x: Tensor) -> Tensor:
        return torch.logsumexp(x, dim=1, keepdim=True)

    def maximum(self, x: Tensor, y: Any) -> Tensor:
        return torch.maximum(x, y) if isinstance(y, torch.Tensor) else torch.clamp(x, min=y)

    def minimum(self, x: Tensor, y: Any) -> Tensor:
        return torch.minimum(x, y) if isinstance(y, torch.Tensor) else torch.clamp(x, max=y)

    def clip(self, x: Tensor, low: Any, high: Any) -> Tensor:
        # torch.clamp is not used, because torch.onnx.export would give two clamps of a tensor the
        # same name.
        return torch.where(x > high, high, torch.where(x < low, low, x))

    def row_sum(self, x: Tensor) -> Tensor:
        return x.sum(dim=1, keepdim=True)

    def row_max(self, x: Tensor) -> Tensor:
        return x.amax(dim=1, keepdim=True)

    def argmax(self, x: Tensor) -> Tensor:
        return x.argmax(dim=1, keepdim=True)

    def map_sparse_rows(self, W_T: Tensor, x: Tensor) -> Tensor:
        return x @ W_T

    def take(self, table: Tensor, index: Tensor) -> Tensor:
        return table[index]

    def search_rows(
        self, table: Tensor, row: Tensor, shift: Tensor, p: Tensor, reached: bool
    ) -> Tensor:
        # In large batches, a binary search is several times faster than comparing each score with
        # all breakpoints.
        width = table.stride(0)  # while tracing, an entry of the shape would be a tensor
        entries, index, half = table.reshape(-1), row * width, width // 2
        while half:
            further = index + half
            limit = entries[further]
            index = torch.where(limit <= p if reached else limit < p, further, index)
            half //= 2
        return index + shift

    def concat(self, *parts: Tensor) -> Tensor:
        return torch.cat(parts, dim=1)

    def combine(self, weights: Tensor, *terms: Tensor) -> Tensor:
        total = weights[0] * terms[0]
        for j in range(1, len(terms)):
            total = torch.addcmul(total, weights[j], terms[j])
        return total

    def sorted_top(self, x: Tensor, k: int) -> list[Tensor]:
        top = torch.topk(x, k, dim=1)
        return [top.values, top.indices]

    def cumulative(self, x: Tensor) -> Tensor:
        return x.cumsum(dim=1)

    def take_along(self, x: Tensor, index: Tensor) -> Tensor:
        return x.gather(1, index)

    def put_along(self, x: Tensor, index: Tensor, entries: Tensor) -> Tensor:
        return x.scatter(1, index, entries)

    def add_along(self, x: Tensor, index: Tensor, entries: Tensor) -> Tensor:
        return x.scatter_add(1, index, entries)

    def to_float(self, x: Tensor) -> Tensor:
        return x.to(torch.float64)

    def to_int(self, x: Tensor) -> Tensor:
        return x.to(torch.int64)

    def rounded(self, x: Tensor) -> Tensor:
        return x.to(self.dtype).to(torch.float64)
