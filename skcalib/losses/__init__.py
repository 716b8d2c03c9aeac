"""Losses to train a classifier: proper scores and smooth calibration errors.

Every loss is a function ``loss(logits, y, *, sample_weight=None, ...)``. It returns a float for
NumPy logits, and a differentiable 0-d tensor on the same device for PyTorch logits. Both use one
formula.

NaN in NumPy logits raises an error. +inf also raises an error, except in a single column of logits,
where +inf means P = 1. Tensors are not searched for NaN and +inf, because a search would
synchronise the device once more. Instead, the loss becomes NaN, and so do the gradients of the rows
with NaN or +inf, or of all rows if the loss is not a mean over rows.

A calibration error alone does not make predictions correct: add a multiple of it to a proper score,
as in ``nll_loss + beta * soft_binned_loss``.
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
