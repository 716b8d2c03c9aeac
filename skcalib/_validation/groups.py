"""Groups of rows: one column of labels, or several that are crossed."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skcalib._validation.frames import read_frame
from skcalib._validation.scores import from_tensor, naming_errors_of

# The label of rows whose label is missing (None, NaN, NA).
MISSING = "(missing)"
# Numbers with fractions are measurements, not labels, if more than this many differ.
MOST_FRACTIONS = 50


class Groups(NamedTuple):
    """Groups of rows.

    ``code (n,)`` is the place of each row's group in ``labels``, a tuple for each group with one
    label for each of the columns, whose ``names`` may be None. A category that no row has is a
    group without rows, unless several columns are crossed.
    """

    code: NDArray[np.intp]
    labels: list[tuple[Any, ...]]
    names: list[str | None]

    @property
    def complete(self) -> NDArray[np.bool_]:
        """Whether each group has all its labels."""
        return np.array([MISSING not in label for label in self.labels], dtype=bool)


def read_groups(groups: Any, n_rows: int, name: str = "groups") -> Groups:
    """Read group labels of shape ``(n,)`` or ``(n, g)``; `n_rows` is how many there must be."""
    # Clusters are not crossed.
    several = "" if name == "clusters" else ", or a column for each of several"
    advice = f"pass one label for each row{several}"
    groups = read_frame(from_tensor(name, groups), name)
    if groups is None:
        raise ValueError(f"{name} is required, but None was passed: {advice}.")
    with naming_errors_of(name, groups, advice):
        columns = _columns(groups)
        coded = [_read_column(values) for _, values in columns]
    names = [column_name for column_name, _ in columns]
    for column_name, (code, labels) in zip(names, coded, strict=True):
        if code.size != n_rows:
            raise ValueError(
                f"{name} has {code.size} rows, but there are {n_rows} rows of scores: pass one "
                "label for each row."
            )
        _refuse_measurements(labels, name, column_name)
    if len(coded) == 1:
        code, labels = coded[0]
        return Groups(code, [(label,) for label in labels], names)
    codes = np.column_stack([code for code, _ in coded])
    places, crossed = np.unique(codes, axis=0, return_inverse=True)
    crossed_labels = [
        tuple(labels[i] for (_, labels), i in zip(coded, row, strict=True)) for row in places
    ]
    return Groups(crossed.reshape(-1).astype(np.intp), crossed_labels, names)


def _columns(groups: Any) -> list[tuple[str | None, Any]]:
    """Return the name and the values of each column."""
    if hasattr(groups, "columns"):
        if not len(groups.columns):
            raise ValueError("it has no columns")
        return [(str(name), _series(groups[name])) for name in groups.columns]
    if hasattr(groups, "to_list") or isinstance(groups, pd.Categorical):
        name = getattr(groups, "name", None)
        return [(None if name in (None, "") else str(name), _series(groups))]
    # NumPy would write numbers among strings as strings.
    table = groups if isinstance(groups, np.ndarray) else np.asarray(groups, dtype=object)
    if table.ndim not in (1, 2) or (table.shape[-1:] == (0,) and table.ndim == 2):
        raise ValueError(f"it has shape {table.shape}")
    if any(isinstance(label, list | tuple | np.ndarray) for label in table.ravel()[:1000]):
        raise ValueError("its rows have different numbers of labels")
    table = table[:, None] if table.ndim == 1 else table
    return [(None, pd.Series(table[:, j])) for j in range(table.shape[1])]


def _series(values: Any) -> Any:
    if isinstance(values, pd.Series | pd.Index | pd.Categorical):
        return pd.Series(values)
    return pd.Series(values.to_list(), dtype=object)


def _read_column(values: Any) -> tuple[NDArray[np.intp], list[Any]]:
    """Return the place of each value among the labels, and the labels, the missing one last."""
    if isinstance(values.dtype, pd.CategoricalDtype):
        code, labels = values.cat.codes.to_numpy().astype(np.intp), _plain(values.cat.categories)
    else:
        code, distinct = pd.factorize(values.to_numpy(), sort=True)
        labels = _plain(pd.Index(distinct))
    lost = code < 0
    if lost.any():
        if MISSING not in labels:
            labels.append(MISSING)
        code = np.where(lost, labels.index(MISSING), code)
    return code, labels


def _plain(index: Any) -> list[Any]:
    """Return the labels as Python's own numbers and strings; 2.0 is 2."""
    values = [label.item() if isinstance(label, np.generic) else label for label in index]
    whole = all(isinstance(v, float) and v.is_integer() for v in values)
    return [int(v) for v in values] if whole else values


def _refuse_measurements(labels: list[Any], name: str, column_name: str | None) -> None:
    """Refuse a column of many numbers with fractions."""
    fractions = [v for v in labels if isinstance(v, float) and not v.is_integer()]
    if len(fractions) > MOST_FRACTIONS:
        column = "" if column_name is None else f" column {column_name!r}"
        raise ValueError(
            f"{name}{column} has {len(labels)} different numbers, such as {fractions[0]:g}: cut "
            "them into ranges first, for instance by pandas.cut."
        )
