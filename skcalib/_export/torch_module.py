"""Formulas as a PyTorch module: the operations on tensors, and a module with the constants."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from skcalib._arrays.types import Kind
from skcalib._export.common import SharedOperations, probabilities, two_columns
from skcalib._maps.operations import ColumnPlan, Constants, Plan

Tensor = Any


class TorchOperations(SharedOperations):
    """Operations on tensors of float64, for scores of a type."""

    # Operations that PyTorch has.
    exp, log, sin = staticmethod(torch.exp), staticmethod(torch.log), staticmethod(torch.sin)
    absolute, equal = staticmethod(torch.abs), staticmethod(torch.eq)
    where = staticmethod(torch.where)

    def __init__(self, dtype: Any) -> None:
        # As NumPy's: shorter types are computed as float32 is.
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
        # torch.onnx.export writes two clamps of one tensor under one name.
        return torch.where(x > high, high, torch.where(x < low, low, x))

    def row_sum(self, x: Tensor) -> Tensor:
        return x.sum(dim=1, keepdim=True)

    def row_max(self, x: Tensor) -> Tensor:
        return x.amax(dim=1, keepdim=True)

    def argmax(self, x: Tensor) -> Tensor:
        return x.argmax(dim=1, keepdim=True)

    def map_rows(self, W: Tensor, x: Tensor) -> Tensor:
        return x @ W.T

    def map_sparse_rows(self, W_T: Tensor, x: Tensor) -> Tensor:
        return x @ W_T

    def take(self, table: Tensor, place: Tensor) -> Tensor:
        return table[place]

    def search_rows(
        self, table: Tensor, row: Tensor, shift: Tensor, p: Tensor, reached: bool
    ) -> Tensor:
        # In large batches a binary search is several times quicker than to compare all limits.
        width = table.stride(0)  # of a shape, tracing makes a tensor
        entries, place, half = table.reshape(-1), row * width, width // 2
        while half:
            further = place + half
            limit = entries[further]
            place = torch.where(limit <= p if reached else limit < p, further, place)
            half //= 2
        return place + shift

    def concat(self, *parts: Tensor) -> Tensor:
        return torch.cat(parts, dim=1)

    def combine(self, weights: Tensor, *terms: Tensor) -> Tensor:
        return (weights[:, None] * torch.stack(terms)).sum(dim=0)

    def columns(self, x: Tensor, start: int, stop: int) -> Tensor:
        return x[:, start:stop]

    def choose(self, x: Tensor, columns: list[int]) -> Tensor:
        return x[:, columns]

    def sorted_top(self, x: Tensor, k: int) -> list[Tensor]:
        top = torch.topk(x, k, dim=1)
        return [top.values, top.indices]

    def cumulative(self, x: Tensor) -> Tensor:
        return x.cumsum(dim=1)

    def take_along(self, x: Tensor, place: Tensor) -> Tensor:
        return x.gather(1, place)

    def put_along(self, x: Tensor, place: Tensor, entries: Tensor) -> Tensor:
        return x.scatter(1, place, entries)

    def add_along(self, x: Tensor, place: Tensor, entries: Tensor) -> Tensor:
        return x.scatter_add(1, place, entries)

    def filled(self, x: Tensor, number: float) -> Tensor:
        return torch.full_like(x, number, dtype=torch.float64)

    def to_float(self, x: Tensor) -> Tensor:
        return x.to(torch.float64)

    def to_whole(self, x: Tensor) -> Tensor:
        return x.to(torch.int64)

    def rounded(self, x: Tensor) -> Tensor:
        return x.to(self.dtype).to(torch.float64)


class CalibratorModule(torch.nn.Module):
    """A fitted calibrator as a layer, from scores ``(..., K)`` or ``(n,)`` to probabilities.

    Its numbers are buffers, which stay float64 under `half`, `float` and `to`: thresholds and
    temperatures would lose digits. Probabilities have the type of the scores.
    """

    def __init__(
        self, plan: Plan | ColumnPlan, kind: Kind, n_features: int, n_classes: int
    ) -> None:
        super().__init__()
        self.plan = plan._replace(constants={})
        self.input, self.n_features, self.n_classes = kind, n_features, n_classes
        self.names = self._register_all("", plan.constants)
        # A number, so that files of tensors alone contain it too.
        self.register_buffer("is_proba", torch.tensor(int(kind == "proba")))

    def _register_all(self, prefix: str, constants: Constants) -> dict[str, Any]:
        """Let constants, also those of searches, be buffers; return their names."""
        names: dict[str, Any] = {}
        for name, value in constants.items():
            if isinstance(value, dict):
                names[name] = self._register_all(f"{prefix}{name}_", value)
            else:
                names[name] = f"{prefix}{name}"
                self.register_buffer(names[name], torch.from_numpy(np.array(value)))
        return names

    def _named(self, names: dict[str, Any]) -> Constants:
        return {
            name: self._named(buffer) if isinstance(buffer, dict) else getattr(self, buffer)
            for name, buffer in names.items()
        }

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *arguments: Any) -> None:
        """Load the numbers of a calibrator of the same kind of scores."""
        is_proba = state_dict.get(f"{prefix}is_proba")
        kind = self.input if is_proba is None else "proba" if is_proba else "logits"
        if kind != self.input:
            raise ValueError(
                f"this state is of a calibrator of {kind}, the module is of {self.input}: load it "
                f"into a module of a calibrator fitted with input={kind!r}."
            )
        super()._load_from_state_dict(state_dict, prefix, *arguments)

    def forward(self, scores: Tensor) -> Tensor:
        """Return the probabilities of scores, in their type and on their device."""
        if not torch.is_floating_point(scores):
            raise TypeError(f"scores must be floating-point numbers; got {scores.dtype}.")
        if self.n_features == 1 and scores.dim() == 1:
            scores = scores[:, None]
        if not torch.jit.is_tracing() and scores.shape[-1:] != (self.n_features,):
            form = f"(..., {self.n_features})" + (" or (n,)" if self.n_features == 1 else "")
            raise ValueError(f"scores must have shape {form}; got {tuple(scores.shape)}.")
        o = TorchOperations(scores.dtype)
        x = scores.to(torch.float64).reshape(-1, self.n_features)
        if self.n_features == 1:
            x = two_columns(o, x, self.input)
        q = probabilities(o, self.plan, self._named(self.names), x, self.input, self.n_classes)
        return q.reshape(*scores.shape[:-1], self.n_classes).to(scores.dtype)

    def extra_repr(self) -> str:
        """Return what goes in and how many classes there are."""
        return f"input={self.input!r}, n_classes={self.n_classes}"

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> CalibratorModule:
        kept = dict(self._buffers)
        super()._apply(fn, recurse)
        for name, before in kept.items():
            after = self._buffers[name]
            if after.dtype != before.dtype:
                self._buffers[name] = before.to(after.device)
        return self
