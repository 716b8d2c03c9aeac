"""Predictions for tensors, which are computed by formulas on the device of the tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from skcalib._arrays.rowwise import Kind
from skcalib._arrays.sources import FORMULAS, ROWS, Source, map_rows
from skcalib._arrays.tensors import DeviceBlocks, ops_for
from skcalib._maps.formulas import ColumnPlan, Plan, Value, fill_plan, predict, probabilities
from skcalib._scores.scores import CLIP, Scores


def predict_on_device(
    blocks: DeviceBlocks, plan: Plan | ColumnPlan, kind: Kind, n_classes: int, finite: bool
) -> Any:
    """Return the calibrated probabilities of checked scores as a tensor on their device.

    The type is float64 for scores in float64, else float32. `finite` means that no logit is -inf.
    """
    like = blocks.tensor
    out = like.new_empty((blocks.shape[0], n_classes), dtype=ops_for(like).work_type(like))
    # For float32 logits, softmax(z / T) is accurate enough if computed in float32.
    single = blocks.dtype == np.float32 and kind == "logits" and plan.label == "near"
    o, placed = to_device(plan, blocks, finite, single)

    def kernel(block: Any) -> Value:
        # In float32, products of large logits would lose digits that the differences between the
        # logits have. So the largest logit of each row is subtracted first.
        r = ops_for(block)
        x = r.minus(block, r.row_max(block)) if single else r.double(block)
        return probabilities(o, placed, placed.constants, x, kind, n_classes)

    map_rows(kernel, blocks, out=out, work=ROWS if single else FORMULAS)
    return out


def formula_of(plan: Plan, logits: Source) -> Callable[[Any], Value]:
    """Return a function that computes a formula for blocks of finite logits on their device."""
    if (blocks := logits.on_device()) is None:
        return lambda Z: predict(Scores(Z, "logits"), plan)
    K = logits.shape[1]
    o, placed = to_device(fill_plan(plan, K, CLIP, False, True), blocks, True)
    constants = placed.constants
    return lambda Z: probabilities(o, placed, constants, ops_for(Z).double(Z), "logits", K)


def to_device(
    plan: Plan | ColumnPlan, blocks: DeviceBlocks, finite: bool, single: bool = False
) -> tuple[Any, Plan | ColumnPlan]:
    """Return operations on tensors, and a plan whose constants are on the device of the tensors.

    Constants are float32 if `single`.
    """
    # PyTorch is optional, so that it is imported only here.
    from skcalib._maps.torch_operations import TorchOperations

    def there(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: there(part) for name, part in value.items()}
        if not np.ndim(value):
            return float(value)  # a Python number needs no copy on the device
        is_float = value.dtype.kind == "f"
        return blocks.to_device(value.astype(np.float32) if single and is_float else value)

    o = TorchOperations(blocks.tensor.dtype)
    o.finite = finite
    return o, plan._replace(constants=there(plan.constants))
