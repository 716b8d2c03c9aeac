"""Predictions of tensors on a device: formulas of blocks that stay there."""

from __future__ import annotations

import sys
from functools import partial
from typing import Any

from skcalib._arrays.device import DeviceBlocks
from skcalib._arrays.passes import map_rows
from skcalib._arrays.types import Kind
from skcalib._maps.operations import ColumnPlan, Constants, Plan
from skcalib._maps.shared import probabilities

# Entries of a block: formulas take several temporaries of float64, 32 MiB each.
BLOCK_ENTRIES = 1 << 22


def predict_on_device(
    blocks: DeviceBlocks, plan: Plan | ColumnPlan, kind: Kind, n_classes: int
) -> Any:
    """Return the probabilities of checked scores as a tensor: float64, or float32 for shorter."""
    torch = sys.modules["torch"]
    from skcalib._maps.torch_operations import TorchOperations  # late: PyTorch is optional

    like = blocks.tensor
    dtype = torch.float64 if like.dtype == torch.float64 else torch.float32
    out = torch.empty((blocks.shape[0], n_classes), dtype=dtype, device=like.device)
    constants = placed(plan.constants, blocks)
    o = TorchOperations(like.dtype)
    kernel = partial(formula_of_block, o, plan, constants, kind=kind, n_classes=n_classes)
    map_rows(kernel, blocks.in_blocks_of(BLOCK_ENTRIES), out=out)
    return out


def placed(constants: Constants, blocks: DeviceBlocks) -> Constants:
    """Return constants as tensors on the device."""
    return {
        name: placed(value, blocks) if isinstance(value, dict) else blocks.constant(value)
        for name, value in constants.items()
    }


def formula_of_block(
    o: Any, plan: Plan | ColumnPlan, c: Constants, block: Any, *, kind: Kind, n_classes: int
) -> Any:
    """Return the probabilities of a block."""
    return probabilities(o, plan, c, block.double(), kind, n_classes)
