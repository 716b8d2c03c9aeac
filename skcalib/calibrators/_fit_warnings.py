"""Warnings of fits whose result is of no use: classes without rows, scores of no use."""

from __future__ import annotations

import warnings
from typing import Any

from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from skcalib._arrays.tensors import on_host, rows_of
from skcalib._arrays.types import Intp

# Classes without rows that a warning names.
NAMED = 5


def warn_of_absent_classes(code: Intp, classes: NDArray[Any], probability: str) -> None:
    """Warn of classes without rows, and say what every probability of them becomes."""
    absent = classes[on_host(rows_of(code).totals(code, None, classes.size)) == 0].tolist()
    if absent:
        names = ", ".join(repr(label) for label in absent[:NAMED])
        more = f" and {len(absent) - NAMED:,} more" if len(absent) > NAMED else ""
        one = len(absent) == 1
        warnings.warn(
            f"no row of {'class' if one else 'classes'} {names}{more} among {len(code):,}: every "
            f"probability of {'it' if one else 'them'} becomes {probability}; fit on rows of every "
            "class, or use AutoCalibrator, which leaves it above 0.",
            ConvergenceWarning,
            stacklevel=3,
        )


def warn_of_flat_maps(name: str) -> None:
    """Warn, for the caller of ``fit``, that every row gets the base rates."""
    warnings.warn(
        f"{name}: the scores predict these labels no better than the base rates would, and every "
        "row gets these; check that columns follow the sorted labels.",
        ConvergenceWarning,
        stacklevel=4,
    )
