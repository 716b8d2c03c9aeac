r"""The norm of an error, :math:`\big(\sum_b \mu_b |\mathrm{gap}_b|^q\big)^{1/q}`."""

from __future__ import annotations

from typing import Literal

import numpy as np

from skcalib._validation.keywords import shown

# The exponent q as a name or a number; "max" is the limit of large q.
MeanNorm = Literal["l1", "l2"] | float
Norm = Literal["l1", "l2", "max"] | float

# In single precision, 2e-4 to the power of 10 is still above 0. Larger powers of small gaps would
# silently underflow to an error of 0.
LARGEST = 10


def check_norm(norm: object, *, name: str = "norm", has_max: bool = True) -> None:
    """Refuse a norm that is not "l1", "l2", "max" (with `has_max`) or a number in [1, 10]."""
    names = ["l1", "l2", "max"] if has_max else ["l1", "l2"]
    number = isinstance(norm, int | float | np.integer | np.floating) and not isinstance(norm, bool)
    inside = number and 1 <= norm <= LARGEST  # type: ignore[operator]
    if not inside and not (isinstance(norm, str) and norm in names):
        raise ValueError(
            f"{name} must be one of {names} or a number from 1 to {LARGEST}; got {shown(norm)}."
        )


def exponent(norm: str | float) -> float:
    """Return q of a checked norm other than "max"; 1 and 2 as integers, whose powers are fast."""
    q = {"l1": 1, "l2": 2}.get(norm, norm) if isinstance(norm, str) else float(norm)
    return int(q) if q in (1, 2) else float(q)
