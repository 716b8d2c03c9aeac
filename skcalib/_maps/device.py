"""Predictions of tensors on a device: formulas of blocks that stay there."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import Any

from skcalib._arrays.device import DeviceBlocks
from skcalib._arrays.passes import map_rows
from skcalib._arrays.source import Source
from skcalib._arrays.tensors import rows_of
from skcalib._arrays.types import Kind
from skcalib._maps.arrays import predict
from skcalib._maps.operations import ColumnPlan, Plan, Value
from skcalib._maps.shared import probabilities, with_arrays
from skcalib._scores.scores import Scores
from skcalib._scores.softmax import CLIP

# Entries of a block: formulas take several temporaries of float64, 32 MiB each.
BLOCK_ENTRIES = 1 << 22


def predict_on_device(
    blocks: DeviceBlocks, plan: Plan | ColumnPlan, kind: Kind, n_classes: int, finite: bool
) -> Any:
    """Return the probabilities of checked scores as a tensor: float64, or float32 for shorter.

    Of `finite` scores, no logit is -inf.
    """
    torch, like = sys.modules["torch"], blocks.tensor
    dtype = torch.float64 if like.dtype == torch.float64 else torch.float32
    out = torch.empty((blocks.shape[0], n_classes), dtype=dtype, device=like.device)
    # A softmax of logits times a number has the digits of float32 if it is computed in float32.
    single = dtype == torch.float32 and kind == "logits" and plan.label == "near"
    there = placed([plan], blocks, finite, single)
    kernel = partial(formulas_of_block, *there, kind=kind, n_classes=n_classes, single=single)
    map_rows(kernel, blocks if single else blocks.in_blocks_of(BLOCK_ENTRIES), out=out)
    return out


def formulas_of(plans: list[Plan], logits: Source) -> Callable[[Any], tuple[Value, ...]]:
    """Return a function that computes formulas of a block of finite logits."""
    if (blocks := logits.on_device()) is None:
        return partial(predict_each, plans=plans)
    K = logits.shape[1]
    there = placed([with_arrays(plan, K, CLIP, False, True) for plan in plans], blocks, True)
    return partial(formulas_of_block, *there, kind="logits", n_classes=K)


def predict_each(Z: Any, plans: list[Plan]) -> tuple[Value, ...]:
    """Return what NumPy computes by formulas of a block of logits."""
    return tuple(predict(Scores(Z, "logits"), plan) for plan in plans)


def placed(
    plans: list[Any], blocks: DeviceBlocks, finite: bool, single: bool = False
) -> tuple[Any, list[Any]]:
    """Return the operations of tensors, and plans with constants, perhaps `single`, there."""
    from skcalib._maps.torch_operations import TorchOperations  # late: PyTorch is optional

    def there(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: there(part) for name, part in value.items()}
        constant = blocks.constant(value)
        return constant.float() if single and constant.is_floating_point() else constant

    o = TorchOperations(blocks.tensor.dtype)
    o.finite = finite
    return o, [plan._replace(constants=there(plan.constants)) for plan in plans]


def formulas_of_block(
    o: Any,
    plans: list[Plan | ColumnPlan],
    block: Any,
    *,
    kind: Kind,
    n_classes: int,
    single: bool = False,
) -> tuple[Value, ...]:
    """Return what formulas compute of a block; `single`: in float32, of logits of 32 or 16 bits."""
    r = rows_of(block)
    # In float32, products of large logits would lose digits that their differences have.
    x = r.minus(block, r.row_max(block)) if single else r.double(block)
    return tuple(probabilities(o, plan, plan.constants, x, kind, n_classes) for plan in plans)
