"""Frames with columns named after the labels, which are read by name.

A column's name is its label, or its label as a string after a prefix that all columns share:
``cat, dog`` or ``prob_cat, prob_dog``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skcalib._validation.lazy import refuse_lazy


class NamedColumns(NamedTuple):
    """``order (K,)``, the position of each class among the columns, and ``classes (K,)``."""

    order: NDArray[np.intp]
    classes: NDArray[Any]


def column_names(X: Any, name: str = "X") -> list[Any] | None:
    """Return the column names of a frame with at least two columns, else None."""
    if isinstance(X, np.ndarray):
        return None
    refuse_lazy(name, X)
    if not hasattr(X, "columns"):
        return None
    names = list(X.columns)
    return names if len(names) > 1 else None


def match_names(
    names: Sequence[Any],
    labels: NDArray[Any],
    complete: bool,
    what: str,
    way: str = "pass an array with the columns in the order of the sorted labels",
) -> NamedColumns | None:
    """Match the names of columns with labels.

    Parameters
    ----------
    names : sequence of length K
        Names of the columns.
    labels : ndarray of shape (m,)
        Distinct labels. With `complete`, the label of every column, in the wanted order; without,
        the labels that occur in the data, sorted, possibly fewer than columns.
    complete : bool
        Whether `labels` has a label for every column.
    what, way : str
        For the message: name of the argument, and what to do instead of naming the columns.

    Returns
    -------
    columns : NamedColumns or None
        None if the names are not labels.

    Raises
    ------
    ValueError
        If the names contain some, but not all, of the labels, and labels are strings.
    """
    known = labels.tolist()
    own = {name: j for j, name in enumerate(names)}
    if set(own) == set(known) and len(own) == len(names):
        return NamedColumns(np.array([own[label] for label in known], dtype=np.intp), labels)
    texts = [str(name) for name in names]
    words = isinstance(known[0], str)
    lost: set[Any] = set()
    for length in range(min(map(len, texts)) + 1):
        if len({text[:length] for text in texts}) > 1:
            break
        ends = [text[length:] for text in texts]
        found = _match_ends(ends, known, complete, words)
        if found is not None:
            classes = labels if complete else _as_labels(sorted(found), labels.dtype)
            place = {label: j for j, label in enumerate(found)}
            order = np.array([place[label] for label in classes.tolist()], dtype=np.intp)
            return NamedColumns(order, classes)
        if words and 0 < len(set(known) - set(ends)) < len(known):
            lost = lost or set(known) - set(ends)
    if lost:
        shown = ", ".join(texts[:12]) + (", ..." if len(texts) > 12 else "")
        raise ValueError(
            f"{what}: label {min(lost)!r} is the name of no column, as others are ({shown}); name "
            f"every column by its label, or {way}."
        )
    return None


def _match_ends(ends: list[str], known: list[Any], complete: bool, words: bool) -> list[Any] | None:
    """Return the label of each column, None if the ends of the names are not labels."""
    if len(set(ends)) < len(ends):
        return None
    by_text = {str(label): label for label in known}
    if set(ends) == set(by_text):
        return [by_text[end] for end in ends]
    if complete or not set(by_text) < set(ends):
        return None
    # Names of labels that do not occur in the data: strings, or whole numbers to convert.
    if words:
        return list(ends)
    if isinstance(known[0], int) and not isinstance(known[0], bool):
        try:
            return [int(end) for end in ends]
        except ValueError:
            return None
    return None


def _as_labels(classes: list[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    # The string type of the labels that occur may be too short for the others.
    return np.array(classes) if dtype.kind == "U" else np.array(classes, dtype=dtype)


def take_columns(X: Any, order: NDArray[np.intp]) -> Any:
    """Return a frame with its columns in another order."""
    if (order == np.arange(order.size)).all():
        return X
    return X.iloc[:, order] if hasattr(X, "iloc") else X[:, order.tolist()]
