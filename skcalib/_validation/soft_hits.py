"""Soft hits: shares of an event in [0, 1], such as the score of a judge.

With one column of probabilities, a row of weight w and share f is as a hit of weight w f together
with a miss of weight w (1 - f), wherever only sums of weights count.
"""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skcalib._arrays.source import ALL, Source
from skcalib._arrays.tensors import is_tensor
from skcalib._arrays.types import Float64Array
from skcalib._validation.keywords import shown
from skcalib._validation.labels import check_classes


def are_soft(y: NDArray[Any]) -> bool:
    """Whether checked labels are numbers in [0, 1], some of them fractions."""
    if is_tensor(y) or y.dtype.kind != "f" or not y.size or y.min() < 0 or y.max() > 1:
        return False
    return bool(((y > 0) & (y < 1)).any())


def refuse_soft(y: NDArray[Any], y_name: str, caller: str, supported: str) -> NoReturn:
    """Raise the error of what takes no soft hits, ``(n,)`` or as shares ``(n, K)``."""
    if y.ndim == 2 and y.shape[1] > 2:
        raise ValueError(
            f"{y_name} has shares of several raters: {caller} takes one label for each row; draw "
            f"one rater per row, rng.choice(K, p=share), or use {supported}, which take shares."
        )
    row, value = _first_fraction(y)
    raise ValueError(
        f"Unknown label type: continuous. {y_name} has {value:.6g} at row {row}: {caller} takes "
        f"labels of 0 and 1 only; round {y_name}, or use {supported}, which take soft hits."
    )


def check_soft_hits(
    y: NDArray[Any], S: Source, classes: ArrayLike | None, names: tuple[str, str, str]
) -> None:
    """Refuse soft hits beside several columns, beside labels as scores, or with other classes."""
    X_name, y_name, argument = names
    n_columns = S.shape[1]
    if n_columns > 1:
        row, value = _first_fraction(y)
        raise ValueError(
            f"Unknown label type: continuous. {y_name} has {value:.6g} at row {row}, but {X_name} "
            f"has {n_columns} columns: labels are integers, booleans or strings; soft hits in "
            "[0, 1] go with one column, the probability of a hit."
        )
    if np.isin(S.read(ALL), (0, 1)).all():
        raise ValueError(
            f"{y_name} has fractions and {X_name} is 0 or 1 in every row: were {y_name} and "
            f"{X_name} exchanged?"
        )
    if classes is not None and set(check_classes(classes, 2, argument).tolist()) != {0, 1}:
        raise ValueError(
            f"{argument}={shown(np.asarray(classes).tolist())} beside soft hits, which are shares "
            f"of a hit in [0, 1]: leave {argument} out."
        )


def shares_of_soft(y: NDArray[Any]) -> Float64Array:
    """Return the shares ``(n, 2)`` of a miss and of a hit."""
    hit = y.astype(np.float64)
    return np.column_stack([1.0 - hit, hit])


def _first_fraction(y: NDArray[Any]) -> tuple[int, float]:
    y = y if y.ndim == 1 else y[:, -1]
    row = int((y != np.floor(y)).argmax())
    return row, float(y[row])
