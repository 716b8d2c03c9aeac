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
    absent = classes[rows_of_classes(code, classes) == 0].tolist()
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


def warn_of_one_label(code: Intp, classes: NDArray[Any]) -> None:
    """Warn if all rows have the same label."""
    count = rows_of_classes(code, classes)
    if (count > 0).sum() == 1:
        warnings.warn(
            f"all {len(code):,} rows have the label {classes[count.argmax()].item()!r}, which says "
            "nothing about the other classes: fit on rows of every class.",
            ConvergenceWarning,
            stacklevel=3,
        )


def rows_of_classes(code: Intp, classes: NDArray[Any]) -> NDArray[Any]:
    """Return the number of rows of each class, ``(K,)``."""
    return on_host(rows_of(code).totals(code, None, classes.size))


def warn_of_flat_maps(name: str, same: str = "the base rates") -> None:
    """Warn, for the caller of ``fit``, that every row gets the `same` probabilities."""
    warnings.warn(
        f"{name}: the scores predict these labels no better than {same} would, and every "
        "row gets these; check that columns follow the sorted labels.",
        ConvergenceWarning,
        stacklevel=4,
    )
