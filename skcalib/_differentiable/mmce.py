r"""The maximum mean calibration error (MMCE), a kernel norm of the residuals.

With weights normalised to :math:`\sum_i w_i = 1`,

.. math:: \mathrm{MMCE}^2 = \sum_{ij} w_i w_j (t_i - s_i)(t_j - s_j)\, e^{-|s_i - s_j| / \lambda} .

Scores are in [0, 1], so :math:`e^{\pm s / \lambda}` cannot overflow. For :math:`s_j < s_i`, the
kernel is a product :math:`e^{-s_i / \lambda} e^{s_j / \lambda}`, and for sorted scores the double
sum becomes cumulative sums. Equal scores are summed as a group; its kernel is 1 and its slope 0.

References
----------
Kumar, Sarawagi, Jain (2018). Trainable Calibration Measures For Neural Networks From Kernel Mean
Embeddings. ICML.
"""

from __future__ import annotations

from typing import Any

import numpy as np

# The width of the paper's Laplacian kernel.
WIDTH = 0.4


def kernel_mean_error(score: Any, hit: Any, w: Any, *, xp: Any = np) -> Any:
    """Maximum mean calibration error of a binary problem.

    Parameters
    ----------
    score : array of shape (n,)
        Scores in [0, 1].
    hit : array of shape (n,)
        Booleans.
    w : array of shape (n,)
        Weights, not all 0, in the precision of the sums.
    xp : namespace
        NumPy, or the array API namespace of the arrays.

    Returns
    -------
    error : 0-d array
    """
    share = w / xp.sum(w)
    order = xp.argsort(score)
    s = score[order]
    a = (xp.where(hit, share, 0.0) - share * score)[order]
    first, last = xp.searchsorted(s, s, side="left"), xp.searchsorted(s, s, side="right")
    below = xp.exp(-s / WIDTH) * _before(a * xp.exp(s / WIDTH), first, xp)
    tied = _before(a, last, xp) - _before(a, first, xp)
    square = xp.sum(a * (2.0 * below + tied))
    zero = square <= 0.0  # False for NaN, which passes through the root
    return xp.where(zero, 0.0, xp.sqrt(xp.where(zero, 1.0, square)))


def _before(values: Any, position: Any, xp: Any) -> Any:
    """Sum of the values that precede each position."""
    has_standard = hasattr(xp, "cumulative_sum")  # NumPy 1.26 and raw tensors do not
    total = xp.cumulative_sum(values, axis=0) if has_standard else xp.cumsum(values, 0)
    return xp.where(position > 0, total[xp.where(position > 0, position - 1, 0)], 0.0)
