"""Scores and labels as they are given, read together; what follows knows no frames."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skcalib._arrays.selection import take_rows
from skcalib._arrays.source import Source
from skcalib._arrays.types import Float64Array, Intp
from skcalib._validation.absent import stand_ins, with_stand_ins
from skcalib._validation.labels import name_columns, read_categories
from skcalib._validation.scores import read_scores
from skcalib._validation.shares import (
    are_soft,
    check_shape,
    check_soft_hits,
    read_labels,
    shares_of_soft,
)
from skcalib._validation.weights import check_lengths

# The arguments of a fit in messages: scores, labels, labels of the columns.
NAMES = ("X", "y", "classes")


class GivenRows(NamedTuple):
    """Scores and labels that go together row by row; rows of weight 0 have those of another row.

    ``X`` are the scores as given, a frame with its columns in the order of the classes; ``scores
    (n, K)`` the same as a source; ``labels (n,)``. Of several raters, and of soft hits, ``shares
    (n, K)`` or ``(n, 2)`` are those of the classes; else None. ``classes (K,)`` are the labels of
    the columns; None if they are to be inferred. ``order (K,)`` are the classes in the order of a
    frame's columns, if it was read by name. Columns ``by_position`` were named by no one.
    """

    X: Any
    scores: Source
    labels: NDArray[Any]
    shares: Float64Array | None
    classes: ArrayLike | None
    order: Intp | None
    by_position: bool


def open_rows(
    X: Any,
    y: Any,
    sample_weight: Any,
    classes: ArrayLike | None,
    names: tuple[str, str, str] = NAMES,
    *,
    sort: bool = True,
    must_be_sorted: bool = False,
    refuse_soft: Callable[[NDArray[Any]], NoReturn] | None = None,
    **keywords: Any,
) -> GivenRows:
    """Read scores and labels; `names` are those of the arguments in messages.

    The order of `classes` is that of the columns; with `sort`, those of a frame are sorted. Classes
    of a calibrator `must_be_sorted`, also of one column: messages say so.
    `refuse_soft` raises the error of what takes no soft hits. Keywords are those of `read_labels`.
    """
    X_name, y_name, argument = names
    standing = stand_ins(sample_weight)
    y = with_stand_ins(y, standing)
    labels, shares, classes = read_labels(X, y, classes, names, **keywords)
    is_soft = are_soft(labels)
    order: Intp | None = None
    if not is_soft:
        given = classes
        X, classes, order = name_columns(
            X, labels, given, name=X_name, argument=argument, sort=sort
        )
        if shares is not None and sort and order is not None:
            shares = shares[:, np.argsort(np.asarray(given))]
    S = read_scores(X, X_name)
    if standing is not None and S.remote is None and S.shape[0] == standing.size:
        S = take_rows(S, standing)
    check_lengths(labels, S.shape[0], y_name, X_name)
    if shares is not None:
        check_shape(shares, S, y_name, X_name)
    if is_soft:
        check_soft_hits(labels, S, classes, names)
        if refuse_soft is not None:
            refuse_soft(labels)
        labels, shares = np.ceil(labels), shares_of_soft(labels)
        classes = [0, 1] if classes is None else classes
    n_columns = S.shape[1]
    by_position = classes is None and n_columns > 1
    if classes is None and (by_position or must_be_sorted):
        classes = read_categories(y, n_columns, name=y_name, argument=argument, sort=must_be_sorted)
    return GivenRows(X, S, labels, shares, classes, order, by_position)
