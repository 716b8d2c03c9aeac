"""Shares of several raters, or of samples, as labels: a row of numbers that sum to 1.

A row of weight w and shares f counts as K rows of weights w f_k, one for each label that a rater
who is drawn would give, wherever only sums of weights count.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skcalib._arrays.dask import is_dask
from skcalib._arrays.source import Source, to_array
from skcalib._arrays.types import Float64Array
from skcalib._validation.frames import read_frame
from skcalib._validation.keywords import shown
from skcalib._validation.labels import check_classes, name_columns
from skcalib._validation.named_columns import column_names
from skcalib._validation.scores import Options, from_tensor, refuse_absent

# Largest distance of the sum of shares from 1.
SHARE_TOLERANCE = 1e-2 + 1e-6


def read_shares(y: Any) -> Float64Array | None:
    """Return `y` as shares ``(n, K)`` that sum to 1, NaN as 0; None if it has one label a row.

    Zeros and ones alone are no shares: they are one-hot, or labels of several problems.
    """
    n_axes = len(y.shape) if hasattr(y, "shape") else np.ndim(y[:1]) if isinstance(y, list) else 1
    if n_axes != 2 or is_dask(y):
        return None
    given = np.asarray(from_tensor("y", read_frame(y, "y")))
    if given.dtype.kind != "f" or given.shape[1] < 2 or not given.size:
        return None
    share = np.nan_to_num(given.astype(np.float64), nan=0.0, posinf=np.inf)
    if ((share == 0) | (share == 1)).all():
        return None
    total = share.sum(axis=1)
    wrong = (share < 0).any(axis=1) | ~(np.abs(total - 1.0) <= SHARE_TOLERANCE)
    if wrong.any():
        row = int(wrong.argmax())
        raise ValueError(
            f"y: the shares of row {row} are {shown(given[row].tolist())}; they must sum to 1."
        )
    return np.asarray(share / total[:, None])


def name_shares(
    X: Any, y: Any, share: Float64Array, classes: ArrayLike | None
) -> tuple[Float64Array, NDArray[Any]]:
    """Return shares in the order of the sorted labels of the columns, and these labels."""
    of_X, of_y = column_names(X), column_names(y)
    K = share.shape[1]
    if of_X is None and of_y is None:
        return share, np.arange(K) if classes is None else check_classes(classes, K, "classes")
    names = np.array(of_X if of_y is None else of_y)
    known = np.sort(names) if classes is None else check_classes(classes, K, "classes")
    if of_y is None:
        in_order = name_columns(X, known, known, sort=True)[0].columns
        return share[:, [names.tolist().index(name) for name in in_order]], known
    if set(names.tolist()) != set(known.tolist()):
        raise ValueError(
            f"y has shares of {shown(names.tolist())}, but classes={shown(known.tolist())}: give "
            "a share for each class."
        )
    order = np.argsort(names)
    if of_X is None and (order != np.arange(K)).any():
        raise ValueError(
            f"y has the columns {shown(names.tolist())}, and X has no names: pass X as a frame "
            "with these names, or the columns of both in sorted order."
        )
    return share[:, order], known


def refuse_absent_shares(
    share: Float64Array, w: Float64Array, S: Source, classes: NDArray[Any]
) -> None:
    """Refuse a share above 0 of an option that was not offered: NaN or -inf in S."""
    wrong = (share > 0) & (w > 0)[:, None] & ~(to_array(S) > -np.inf)
    if wrong.any():
        row, _ = np.argwhere(wrong)[0]
        refuse_absent(Options(0.0, int(row)), wrong.argmax(axis=1), classes, "NaN or -inf in X")
