"""Losses to train a classifier: proper scores and smooth calibration errors.

Each is ``loss(logits, y, *, sample_weight=None, ...)``. NumPy logits give a float, PyTorch logits a
differentiable 0-d tensor on their device. Both come from one formula.

NaN in NumPy logits is an error. +inf is an error too, except in logits of one column, where it is
P = 1. Tensors are not searched for them, because that would synchronise the device once more: their
loss is NaN, and so are the gradients of their rows.

A calibration error alone does not teach a model to be right: add a multiple of it to a proper
loss, as in ``nll_loss + beta * soft_binned_loss``.
"""

from skcalib.losses._calibration import avuc_loss, mmce_loss, soft_avuc_loss, soft_binned_loss
from skcalib.losses._proper import brier_loss, focal_loss, nll_loss

__all__ = [
    "avuc_loss",
    "brier_loss",
    "focal_loss",
    "mmce_loss",
    "nll_loss",
    "soft_avuc_loss",
    "soft_binned_loss",
]
