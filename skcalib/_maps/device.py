"""Predictions of tensors on a device: formulas of blocks that stay there."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from skcalib._arrays.blocks import Float64Array, FloatArray, Kind
from skcalib._arrays.sources import FORMULAS, ROWS, Source, map_rows
from skcalib._arrays.tensors import DeviceBlocks, rows_of
from skcalib._maps.formulas import ColumnPlan, Plan, Value, predict, probabilities, with_arrays
from skcalib._scores.scores import CLIP, Scores


def predict_on_device(
    blocks: DeviceBlocks, plan: Plan | ColumnPlan, kind: Kind, n_classes: int, finite: bool
) -> Any:
    """Return the probabilities of checked scores as a tensor: float64, or float32 for shorter.

    Of `finite` scores, no logit is -inf.
    """
    like = blocks.tensor
    out = like.new_empty((blocks.shape[0], n_classes), dtype=rows_of(like).work_type(like))
    # A softmax of logits times a number has the digits of float32 if it is computed in float32.
    single = blocks.dtype == np.float32 and kind == "logits" and plan.label == "near"
    there = placed(plan, blocks, finite, single)
    kernel = partial(formula_of_block, *there, kind=kind, n_classes=n_classes, single=single)
    map_rows(kernel, blocks, out=out, work=ROWS if single else FORMULAS)
    return out


def formula_of(plan: Plan, logits: Source) -> Callable[[Any], Value]:
    """Return a function that computes a formula of a block of finite logits."""
    if (blocks := logits.on_device()) is None:
        return partial(predict_logits, plan=plan)
    K = logits.shape[1]
    there = placed(with_arrays(plan, K, CLIP, False, True), blocks, True)
    return partial(formula_of_block, *there, kind="logits", n_classes=K)


def predict_logits(Z: Float64Array, plan: Plan) -> FloatArray:
    """Return what NumPy computes by a formula of a block of logits."""
    return predict(Scores(Z, "logits"), plan)


def placed(
    plan: Plan | ColumnPlan, blocks: DeviceBlocks, finite: bool, single: bool = False
) -> tuple[Any, Plan | ColumnPlan]:
    """Return the operations of tensors, and a plan with constants, perhaps `single`, there."""
    from skcalib._maps.torch_operations import TorchOperations  # late: PyTorch is optional

    def there(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: there(part) for name, part in value.items()}
        if not np.ndim(value):
            return float(value)  # needs no copy to the device
        is_float = value.dtype.kind == "f"
        return blocks.constant(value.astype(np.float32) if single and is_float else value)

    o = TorchOperations(blocks.tensor.dtype)
    o.finite = finite
    return o, plan._replace(constants=there(plan.constants))


def formula_of_block(
    o: Any, plan: Plan | ColumnPlan, block: Any, *, kind: Kind, n_classes: int, single: bool = False
) -> Value:
    """Return what a formula computes of a block; `single`: in float32, of logits of 32 or 16 bits.

    In float32, products of large logits would lose digits that their differences have.
    """
    r = rows_of(block)
    x = r.minus(block, r.row_max(block)) if single else r.double(block)
    return probabilities(o, plan, plan.constants, x, kind, n_classes)
