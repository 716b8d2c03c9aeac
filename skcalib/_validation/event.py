"""The event whose probability one or two columns give."""

from __future__ import annotations

import numbers
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skcalib._arrays.source import Source, as_source, to_array
from skcalib._validation.keywords import shown
from skcalib._validation.labels import (
    binary_classes,
    check_classes,
    encode_labels,
    find_distinct,
    with_absent_label,
)
from skcalib._validation.named_columns import check_event_name

# What says that one event is measured: a single column, two of them, or `pos_label`.
EventBy = Literal["column", "columns", "pos_label"]


class Event(NamedTuple):
    """The columns of the true classes ``code (n,)``, the ``classes``, and the measured event.

    That is the one of ``column``, as ``event_by`` says; both are None if all classes are measured.
    """

    code: NDArray[np.intp]
    classes: NDArray[Any]
    column: int | None
    event_by: EventBy | None


def read_event(
    y: NDArray[Any],
    labels: ArrayLike | None,
    n_columns: int,
    pos_label: Any,
    names: tuple[str, str, str],
) -> Event:
    """Map labels to columns, and decide which column is the event.

    That is the one of `pos_label`; without it, of one column 1 for the labels {0, 1} and {-1, 1},
    and True for booleans; of two columns the same or the second; of more none. `names` are those
    of scores, labels and `labels` in messages.
    """
    if n_columns == 1:
        code, classes, column = _event_of_one(y, labels, pos_label, names)
        return Event(code, classes, column, "column" if pos_label is None else "pos_label")
    code, classes = encode_labels(y, n_columns, labels, name=names[1], argument=names[2])
    if pos_label is not None:
        return Event(code, classes, class_column(pos_label, classes, "pos_label"), "pos_label")
    if n_columns > 2:
        return Event(code, classes, None, None)
    known = binary_classes(classes)
    column = 1 if known is None else class_column(known[1], classes, "labels")
    return Event(code, classes, column, "columns")


def in_class_order(P: Source, X: Any, event: Event, X_name: str, way: str) -> Source:
    """Return both columns of one event in the order of the classes.

    Refuse a column `X` with the name of the other class; `way` says what to do instead.
    """
    column = event.column or 0
    check_event_name(X, event.classes, column, X_name, way)
    return P if column == 1 else as_source(to_array(P)[:, ::-1])


def _event_of_one(
    y: NDArray[Any], labels: ArrayLike | None, pos_label: Any, names: tuple[str, str, str]
) -> tuple[NDArray[np.intp], NDArray[Any], int]:
    X, name, argument = names
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
        return (y == classes[1]).astype(np.intp), classes, 1
    if known.size == 1:
        label = pos_label.item() if isinstance(pos_label, np.generic) else pos_label
        alike = isinstance(label, str if known.dtype.kind in "UO" else numbers.Real)
        known = with_absent_label(present[0])
        if alike and label != present[0]:
            known = np.unique(np.array([present[0], label]))
    column = class_column(pos_label, known, "pos_label")
    return np.where(y == known[column], column, 1 - column), known, column


def class_column(label: object, classes: NDArray[Any], name: str) -> int:
    """Return the column of the class with this label."""
    known = classes.tolist()
    label = label.item() if isinstance(label, np.generic) else label
    for k, each in enumerate(known):
        same = each == label
        if isinstance(same, bool | np.bool_) and same:  # np.bool_ of longdouble
            return k
    raise ValueError(f"{name}={shown(label)} is not one of the labels {known}.")
