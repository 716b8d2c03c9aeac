"""The column of a table with the groups of its rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from skcalib._validation.frames import read_frame
from skcalib._validation.keywords import shown
from skcalib._validation.lazy import refuse_lazy
from skcalib._validation.scores import from_tensor


def take_groups(X: Any, groups: Any, column: Any) -> tuple[Any, Any]:
    """Return the scores and the groups as given, or else `X` without a column, and that column."""
    if groups is not None:
        return X, groups
    if column is None:
        raise ValueError(
            "groups is None: pass groups= with a label for each row, or group_column= with the "
            "name (or the place) of their column in X."
        )
    refuse_lazy("X", X)
    X = read_frame(X)
    columns = list(column) if isinstance(column, list | tuple) else [column]
    if hasattr(X, "columns"):
        names = [_name(place, list(X.columns)) for place in columns]
        rest = X.drop(columns=names) if hasattr(X, "iloc") else X.drop(names)
        return rest, X[names[0]] if len(names) == 1 else X[names]
    table = X.tocsr() if hasattr(X, "tocsr") else np.asarray(from_tensor("X", X))
    if table.ndim != 2 or any(isinstance(place, str) for place in columns):
        raise ValueError(
            f"group_column={column!r}: X has no named columns; pass a frame, or a table and the "
            "place of the column, such as group_column=-1."
        )
    n = table.shape[1]
    for place in columns:
        if not -n <= place < n:
            raise ValueError(f"group_column={column!r}, but X has {n} columns.")
    groups = table[:, columns]
    groups = groups if isinstance(table, np.ndarray) else groups.toarray()
    rest = table[:, np.delete(np.arange(n), columns)]
    return rest, groups[:, 0] if len(columns) == 1 else groups


def labels_of_rows(groups: Any) -> NDArray[Any]:
    """Return groups as an array of objects whose rows can be taken."""
    groups = read_frame(groups, "groups")
    if hasattr(groups, "columns"):
        return np.column_stack([labels_of_rows(groups[name]) for name in groups.columns])
    if hasattr(groups, "to_list"):
        groups = groups.to_list()
    groups = from_tensor("groups", groups)
    return groups if isinstance(groups, np.ndarray) else np.asarray(groups, dtype=object)


def _name(column: Any, names: list[Any]) -> Any:
    """Return the name of a column that is given by name or by place."""
    if column in names:
        return column
    if isinstance(column, int | np.integer) and -len(names) <= column < len(names):
        return names[column]
    raise ValueError(f"group_column={column!r} is not a column of X, which has {shown(names)}.")
