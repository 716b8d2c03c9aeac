"""The event whose probability one or two columns give."""

from __future__ import annotations

import numbers
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skcalib._validation.keywords import shown
from skcalib._validation.labels import (
    binary_classes,
    check_classes,
    encode_labels,
    find_distinct,
    with_absent_label,
)

# What says that one event is measured: a single column, two of them, or `pos_label`.
EventBy = Literal["column", "columns", "pos_label"]


class Event(NamedTuple):
    """An event: ``code (n,)``, columns of the true classes; the two ``classes``; its column."""

    code: NDArray[np.intp]
    classes: NDArray[Any]
    column: int


def read_event(
    y: NDArray[Any],
    labels: ArrayLike | None,
    pos_label: Any,
    *,
    name: str = "y_true",
    argument: str = "labels",
    X: str = "y_proba",
) -> Event:
    """Decide which label is the event of one column of probabilities.

    That is `pos_label` or, without it, 1 for the labels {0, 1} and {-1, 1}, and True for booleans.
    """
    known = find_distinct(y)[0] if labels is None else np.unique(check_classes(labels, 2, argument))
    if labels is not None:
        encode_labels(y, 2, known, name=name, argument=argument)  # refuses other labels
    present = known.tolist()
    if known.size > 2:
        example = present[-1] if pos_label is None else pos_label
        raise ValueError(
            f"{name} has {known.size} distinct labels but {X} is one column, the probability of "
            f"one event: pass a column for each label, or {name} == {shown(example)}."
        )
    if pos_label is None:
        classes = binary_classes(known)
        if classes is None:
            raise ValueError(
                f"{X} is one column and {name} has the labels {present}: pass pos_label= with the "
                f"label that it is the probability of, such as pos_label={present[-1]!r}."
            )
        return Event((y == classes[1]).astype(np.intp), classes, 1)
    if known.size == 1:
        label = pos_label.item() if isinstance(pos_label, np.generic) else pos_label
        alike = isinstance(label, str if known.dtype.kind in "UO" else numbers.Real)
        known = with_absent_label(present[0])
        if alike and label != present[0]:
            known = np.unique(np.array([present[0], label]))
    column = class_column(pos_label, known, "pos_label")
    return Event(np.where(y == known[column], column, 1 - column), known, column)


def event_of_columns(classes: NDArray[Any], pos_label: Any) -> int | None:
    """Return the column of the event: of `pos_label`; of two columns else 1, True or the second."""
    if pos_label is not None:
        return class_column(pos_label, classes, "pos_label")
    if classes.size != 2:
        return None
    known = binary_classes(classes)
    return 1 if known is None else class_column(known[1], classes, "labels")


def event_by(event: int | None, pos_label: Any, single: bool) -> EventBy | None:
    """Return what says that one event is measured; None if none is."""
    if event is None:
        return None
    if pos_label is not None:
        return "pos_label"
    return "column" if single else "columns"


def class_column(label: object, classes: NDArray[Any], name: str) -> int:
    """Return the column of the class with this label."""
    known = classes.tolist()
    label = label.item() if isinstance(label, np.generic) else label
    for k, each in enumerate(known):
        same = each == label
        if isinstance(same, bool | np.bool_) and same:  # np.bool_ of longdouble
            return k
    raise ValueError(f"{name}={shown(label)} is not one of the labels {known}.")
