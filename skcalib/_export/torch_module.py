"""The PyTorch module that computes the formula of a calibrator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from skcalib._export.common import two_columns
from skcalib._maps.torch_operations import TorchOperations
from skcalib.extending import ColumnPlan, Constants, Kind, Plan, probabilities

Tensor = Any


class CalibratorModule(torch.nn.Module):
    """A fitted calibrator as a layer, from scores ``(..., K)`` or ``(n,)`` to probabilities.

    The fitted numbers are buffers. They stay float64 in `half`, `float` and `to`, because
    thresholds and temperatures would lose digits. Probabilities have the type of the scores.
    """

    def __init__(
        self,
        plan: Plan | ColumnPlan,
        kind: Kind,
        n_features: int,
        n_classes: int,
        output: str,
    ) -> None:
        super().__init__()
        self.plan = plan._replace(constants={})
        self.input, self.n_features, self.n_classes = kind, n_features, n_classes
        self.output = output
        self.names = self._register_all("", plan.constants)
        # The kind of the scores (logits or probabilities) is stored as a buffer, because some files
        # contain only tensors.
        self.register_buffer("is_proba", torch.tensor(int(kind == "proba")))

    def _register_all(self, prefix: str, constants: Constants) -> dict[str, Any]:
        """Register all constants as buffers, also those in nested dicts; return their names."""
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
        """Load the fitted numbers of a calibrator for the same kind of scores."""
        is_proba = state_dict.get(f"{prefix}is_proba")
        kind = self.input if is_proba is None else "proba" if is_proba else "logits"
        if kind != self.input:
            raise ValueError(
                f"the state dict is from a calibrator for {kind}, but this module is for "
                f"{self.input}: load it into the module of a calibrator fitted with input={kind!r}."
            )
        super()._load_from_state_dict(state_dict, prefix, *arguments)

    def forward(self, scores: Tensor) -> Tensor:
        """Compute the output for scores, in the type and on the device of the scores."""
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
        if self.output == "logits":  # a gradient through the logarithm of 0 would be NaN
            q = torch.where(q > 0, torch.where(q > 0, q, 1.0).log(), -torch.inf)
        return q.reshape(*scores.shape[:-1], self.n_classes).to(scores.dtype)

    def extra_repr(self) -> str:
        """Return the kind of the input, the number of classes and the output, for ``repr``."""
        return f"input={self.input!r}, n_classes={self.n_classes}, output={self.output!r}"

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> CalibratorModule:
        buffers = dict(self._buffers)
        super()._apply(fn, recurse)
        for name, before in buffers.items():
            after = self._buffers[name]
            if after.dtype != before.dtype:
                self._buffers[name] = before.to(after.device)
        return self
