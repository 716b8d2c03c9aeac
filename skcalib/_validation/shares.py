"""Labels that are shares: of several raters, rows that sum to 1; of one event, soft hits.

A row of weight w and shares f counts as K rows of weights w f_k, one for each label that a rater
who is drawn would give, wherever only sums of weights count. Soft hits are numbers in [0, 1], such
as the score of a judge, beside one column of probabilities: f is as the shares (1 - f, f).
"""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skcalib._arrays.dask import is_dask
from skcalib._arrays.source import ALL, Source, refuse_remote
from skcalib._arrays.tensors import are_labels_beside, is_tensor
from skcalib._arrays.types import Float64Array, Intp
from skcalib._validation.frames import read_frame
from skcalib._validation.keywords import shown
from skcalib._validation.labels import check_classes, check_labels
from skcalib._validation.named_columns import column_names
from skcalib._validation.scores import as_array

# Largest distance of the sum of shares from 1.
SHARE_TOLERANCE = 1e-2 + 1e-6


def read_labels(
    X: Any,
    y: Any,
    classes: ArrayLike | None,
    names: tuple[str, str, str] = ("X", "y", "classes"),
    warn: bool = False,
    ignore_index: Any = None,
    soft: bool = True,
    on_device: bool = False,
    shares: bool = True,
) -> tuple[NDArray[Any], Float64Array | None, ArrayLike | None]:
    """Return labels, which may be soft hits; the shares of several raters or None; and the classes.

    Of shares, the label of a row is that of its largest one, and the classes are those of the
    columns. `names` are those of the arguments. Labels `on_device` may be a tensor there. Without
    `shares`, several columns of labels are refused.
    """
    if on_device and ignore_index is None and are_labels_beside(y, X):
        return y, None, classes
    share = read_shares(y, names[1]) if shares else None
    if share is None:
        return check_labels(y, names[1], warn=warn, soft=soft), None, classes
    if ignore_index is not None:
        raise ValueError(
            f"ignore_index={ignore_index!r} leaves out labels, and y has shares: drop such rows, "
            "or give them weight 0."
        )
    share, known = name_shares(X, y, share, classes, names)
    return known[share.argmax(axis=1)], share, known


def read_shares(y: Any, name: str) -> Float64Array | None:
    """Return `y` as shares ``(n, K)`` that sum to 1, NaN as 0; None if it has one label a row.

    Whole numbers alone are no shares: they are one-hot, or labels of several problems.
    """
    shape = np.shape(y[:1]) if isinstance(y, list) else getattr(y, "shape", ())
    if not isinstance(shape, tuple) or len(shape) != 2 or is_dask(y):  # a class has no shape
        return None
    given = as_array(name, read_frame(y, name), "pass one label, or K shares, for each row")
    if given.dtype.kind != "f" or given.shape[1] < 2 or not given.size:
        return None
    share = np.nan_to_num(given.astype(np.float64), nan=0.0, posinf=np.inf)
    if (share == np.floor(share)).all():
        return None
    total = share.sum(axis=1)
    wrong = (share < 0).any(axis=1) | ~(np.abs(total - 1.0) <= SHARE_TOLERANCE)
    if wrong.any():
        row = int(wrong.argmax())
        raise ValueError(
            f"{name}: the shares of row {row} are {shown(given[row].tolist())}; they must sum to 1."
        )
    return np.asarray(share / total[:, None])


def name_shares(
    X: Any, y: Any, share: Float64Array, classes: ArrayLike | None, names: tuple[str, str, str]
) -> tuple[Float64Array, NDArray[Any]]:
    """Return shares in the order of the labels of the columns, sorted if not given, and these."""
    X_name, y_name, argument = names
    known = None if classes is None else check_classes(classes, share.shape[1], argument)
    given = np.array(column_names(y) or column_names(X)).tolist()  # None without names
    if given is None:
        return share, np.arange(share.shape[1]) if known is None else known
    known = np.array(sorted(given)) if known is None else known
    if set(given) != set(known.tolist()):
        raise ValueError(
            f"{y_name} has shares of {shown(given)}, but {argument}={shown(known.tolist())}: give "
            "a share for each class."
        )
    named, bare = (X_name, y_name) if column_names(y) is None else (y_name, X_name)
    both_named = column_names(y) is not None and column_names(X) is not None
    if given != known.tolist() and not both_named:
        raise ValueError(
            f"{named} has the columns {shown(given)}, and {bare} has no names: pass {bare} as a "
            f"frame with these names, or both with columns in the order {shown(known.tolist())}."
        )
    return share[:, [given.index(label) for label in known.tolist()]], known


def split_shares(share: Float64Array, w: Float64Array) -> tuple[Intp, Intp, Float64Array]:
    """Return the number of the row, the label and the part of the weight of each share above 0."""
    rows, code = np.nonzero(share)
    return rows, code, w[rows] * share[rows, code]


def check_shape(share: Float64Array, S: Source, y_name: str, X_name: str) -> None:
    """Refuse shares of another shape than the scores, and scores that lie elsewhere."""
    if share.shape != S.shape:
        raise ValueError(
            f"{y_name} has shape {share.shape}, but {X_name} has shape {S.shape}: give a share for "
            f"each column of {X_name}; were they exchanged?"
        )
    refuse_remote(S, f"{y_name} of shares")


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
