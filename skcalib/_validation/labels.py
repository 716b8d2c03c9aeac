"""Checks of labels: the column of scores of each label, the event to measure, and soft labels."""

from __future__ import annotations

import numbers
from typing import Any, Literal, NamedTuple, NoReturn

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import column_or_1d

from skcalib._arrays.rowwise import Float64Array, Intp
from skcalib._arrays.sources import ALL, Source, as_source, is_dask, refuse_remote, to_array
from skcalib._arrays.tensors import are_labels_beside, array_of_tensor, is_bfloat16, is_tensor
from skcalib._validation.keywords import short_repr
from skcalib._validation.named_columns import check_event_name, column_names, match_names
from skcalib._validation.scores import as_array, read_frame, refuse_lazy

# Python types that labels in an array of objects may have, besides strings.
NUMBERS = (int, float, np.integer, np.floating)


def check_labels(
    y: ArrayLike, name: str = "y", warn: bool = False, soft: bool = False
) -> NDArray[Any]:
    """Return labels as a 1-D array of numbers, booleans or strings; refuse missing labels.

    With `soft`, fractions are allowed if all numbers lie in [0, 1].
    """
    if y is None:
        raise ValueError(
            f"{name} should be a 1d array of labels, but None was passed: pass one label for each "
            "row."
        )
    array = y if type(y) is np.ndarray else as_array(name, y, "pass one label for each row")
    if array.dtype.kind == "U" and array.ndim == 1 and isinstance(y, list | tuple):
        # NumPy would convert numbers to strings, so lists of numbers and strings would be accepted.
        array = array if all(isinstance(v, str) for v in y) else np.asarray(y, dtype=object)
    if array.ndim != 1 and (array.ndim != 2 or array.shape[1] != 1):
        advice = _advice_on_axes(array, name if hasattr(y, "reshape") else f"np.array({name})")
        raise ValueError(
            f"{name} should be a 1d array of labels, got an array of shape {array.shape} instead; "
            f"{advice}."
        )
    if array.dtype.kind == "c":
        raise ValueError(f"Complex data not supported: {name} contains {array.dtype} labels.")
    if array.dtype.kind not in "iufbUSTO":
        raise ValueError(
            f"Unknown label type: {name} has dtype {array.dtype}; labels are integers, booleans "
            "or strings."
        )
    array = array if array.ndim == 1 else column_or_1d(array, warn=warn)
    if array.dtype.kind in ("O", "T"):
        array = _from_objects(array.astype(object, copy=False), name)
        if array.dtype.kind == "O":  # strings need no conversion
            return array
    if array.dtype.kind == "f":
        _check_integers(array, name, soft, 8 if is_bfloat16(y) else np.finfo(array.dtype).nmant + 1)
    return array


def _advice_on_axes(array: NDArray[Any], name: str) -> str:
    """Return the advice for labels that are not one-dimensional, such as one-hot labels."""
    if array.ndim != 2 or not array.size:
        return f"pass one label for each row, {name}.reshape(-1)"
    is_binary = ((array == 0) | (array == 1)).all()
    if is_binary and ((array == 1).sum(axis=1) == 1).all():
        return f"it is one-hot: pass {name}.argmax(axis=1)"
    several = (
        "if a row can have several labels, calibrate them by MultilabelCalibrator and measure them "
        "by calibration_by_label"
    )
    if is_binary or array.dtype.kind not in "iuf":
        return several
    if (
        array.dtype.kind == "f"
        and array.min() >= 0
        and np.allclose(array.sum(axis=1), 1, atol=0.01)
    ):
        return (
            f"its rows sum to 1: pass {name}.argmax(axis=1) if these are soft labels, or draw "
            "the label of one rater per row, rng.choice(K, p=row); were labels and probabilities "
            "exchanged?"
        )
    return (
        "for percentages or counts of raters, divide each row by its sum; for one label per "
        f"position, pass {name}.reshape(-1); {several}"
    )


def _check_integers(array: NDArray[Any], name: str, soft: bool, digits: int) -> None:
    lost = np.flatnonzero(~np.isfinite(array))
    if lost.size:
        what = "NaN" if np.isnan(array[lost[0]]) else "infinity"
        raise ValueError(
            f"{name} contains {what} (first at row {lost[0]}); drop rows without a label."
        )
    # Integers above this limit are not exact in floating point: different labels become equal.
    large = np.flatnonzero(np.abs(array) > 2.0**digits)
    if large.size:
        row = int(large[0])
        type_name = "bfloat16" if digits == 8 else array.dtype
        raise ValueError(
            f"{name} has {array[row]:.17g} at row {row}, which {type_name} cannot "
            "distinguish from its neighbours; pass labels of one integer type, or strings."
        )
    parts = np.flatnonzero(array != np.floor(array))
    if parts.size and not (soft and array.min() >= 0 and array.max() <= 1):
        row = int(parts[0])
        within = array.min() >= 0 and array.max() <= 1
        raise ValueError(
            f"Unknown label type: continuous. {name} has {float(array[row]):.6g} at row {row}; "
            "labels are integers, booleans or strings, not continuous targets"
            f"{': were labels and probabilities exchanged?' if within else '.'}"
        )


def _from_objects(array: NDArray[Any], name: str) -> NDArray[Any]:
    missing = np.flatnonzero(pd.isna(array))
    if missing.size:
        raise ValueError(
            f"{name} contains a missing label (NaN or None; first at row {missing[0]}); drop "
            "rows without a label."
        )
    types = {type(label) for label in array.tolist()}
    if all(issubclass(kind, str) for kind in types):
        return array
    plain = np.array(array.tolist()) if all(issubclass(kind, NUMBERS) for kind in types) else array
    if plain.dtype.kind == "O":
        names = ", ".join(sorted(kind.__name__ for kind in types))
        raise ValueError(
            f"Unknown label type: {name} has labels of type {names}; make all of them integers of "
            "at most 64 bits, booleans or strings."
        )
    return plain


def encode_labels(
    y: Any,
    n_classes: int,
    classes: ArrayLike | None,
    *,
    name: str = "y",
    argument: str = "classes",
    ignore: str = "",
) -> tuple[NDArray[np.intp], NDArray[Any]]:
    """Return the column of scores of each label, and the label of each column.

    The labels of the columns are `classes`, if given. Otherwise, they are the sorted distinct
    labels if there are `n_classes` of them, or else ``0..n_classes-1`` if all labels are integers
    in that range and 0 occurs. Booleans have two columns, even if only one of them occurs. A single
    integer outside the range is refused (see `_find_stray`); the message suggests the keyword
    `ignore`, if there is one. If `y` is a tensor, `code` is a tensor on the same device.
    """
    if is_tensor(y):
        names: dict[str, Any] = {"name": name, "argument": argument, "ignore": ignore}
        labels, index = y.unique(return_inverse=True)
        try:
            column, known = encode_labels(array_of_tensor(labels), n_classes, classes, **names)
        except ValueError:  # check all rows, to report row numbers
            return encode_labels(array_of_tensor(y), n_classes, classes, **names)
        return index.new_tensor(column)[index], known
    # Labels 0, 1, ..., K-1 need no sorting.
    if classes is None and y.dtype.kind in "iu" and y.size and y.min() == 0 and y.max() < n_classes:
        return y.astype(np.intp), np.arange(n_classes).astype(y.dtype)
    distinct, inverse = find_distinct(y)
    if classes is not None:
        known = check_classes(classes, n_classes, argument)
        column = places_among(known, distinct)
        if (column < 0).any():
            row = int(np.flatnonzero(column[inverse] < 0)[0])
            label = distinct.tolist()[inverse[row]]
            raise ValueError(
                f"{name}: label {label!r} at row {row} is not in {argument}={known.tolist()}; "
                f"correct the label, add it to {argument}, or give the row weight 0."
            )
        return column[inverse], known
    if distinct.dtype.kind == "b" and n_classes == 2:
        return y.astype(np.intp), np.array([False, True])
    are_numbers = distinct.dtype.kind in "iuf"  # labels with fractions were refused before
    stray = _find_stray(distinct, n_classes) if are_numbers else None
    if stray is not None:
        rows = int((y == stray).sum())
        keyword = f", pass {ignore}={stray:.0f}" if ignore else ", give them weight 0"
        raise ValueError(
            f"{name}: label {stray:.0f} of {rows:,} row{'s' * (rows > 1)} is outside "
            f"0..{n_classes - 1}: drop these rows (an ignore label?){keyword}, or pass {argument}= "
            f"with the {n_classes} labels of the columns."
        )
    if distinct.size == n_classes:
        return inverse.astype(np.intp, copy=False), distinct
    if are_numbers and distinct[0] == 0 and distinct[-1] < n_classes:
        return y.astype(np.intp), np.arange(n_classes).astype(distinct.dtype)
    first = ", ".join(map(repr, distinct[:10].tolist()))
    more = ", ..." if distinct.size > 10 else ""
    raise ValueError(
        f"{name} has {distinct.size} distinct labels ({first}{more}) but "
        f"there are {n_classes} columns of scores: pass {argument}= with the {n_classes} labels "
        "of the columns."
    )


def places_among(known: NDArray[Any], labels: NDArray[Any]) -> NDArray[np.intp]:
    """Return the index of each label in the known labels, and -1 for an unknown label."""
    if labels.dtype.kind == known.dtype.kind == "i":  # a dictionary is slow for 100,000 labels
        order = np.argsort(known)
        index = order[np.searchsorted(known, labels, sorter=order) % known.size]
        return np.where(known[index] == labels, index, -1)
    position = {label: k for k, label in enumerate(known.tolist())}
    return np.array([position.get(label, -1) for label in labels.tolist()], dtype=np.intp)


def _find_stray(distinct: NDArray[Any], n_classes: int) -> float | None:
    """Return the only label outside 0..K-1, such as an ignore label 255 or -1, or None.

    Such a label would be counted as a class instead of a class that has no rows. None is returned
    for labels that are usual (1..K, (-1, 0, 1), any two labels), and for 0..K, which needs another
    column.
    """
    if n_classes < 3 or distinct.size < 2 or (distinct[0] >= 0 and distinct[-1] < n_classes):
        return None
    outside = (distinct < 0) | (distinct >= n_classes)
    if outside.sum() != 1:
        return None
    usual = (range(1, n_classes + 1), (-1, 0, 1), range(n_classes + 1))
    if any(np.array_equal(distinct, labels) for labels in usual):
        return None
    return float(distinct[outside][0])


def find_distinct(y: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """Return the sorted distinct labels, and for each row the index of its label."""
    if y.dtype.kind not in "iub" or not y.size or y.min() < 0 or y.max() >= 2 * y.size:
        return np.unique(y, return_inverse=True)
    # Counting small integers takes a fraction of the time of sorting them.
    index = y.astype(np.intp, copy=False)
    count = np.bincount(index)
    distinct = count.nonzero()[0].astype(y.dtype)
    if distinct.size < count.size:
        index = (np.cumsum(count > 0) - 1)[index]
    return distinct, index


def check_classes(classes: ArrayLike, n_classes: int | None, argument: str) -> NDArray[Any]:
    """Return the labels of the columns; refuse duplicates and a wrong number of labels."""
    known = check_labels(classes, argument)
    if find_distinct(known)[0].size != known.size:
        raise ValueError(f"{argument}={known.tolist()} has a label twice; give each label once.")
    if n_classes not in (None, known.size):
        raise ValueError(
            f"{argument} has {known.size} labels but there are {n_classes} columns of scores; "
            "give one label for each column."
        )
    return known


def check_sorted(classes: NDArray[Any]) -> None:
    """Refuse class labels that are not sorted, because a classifier sorts its columns by label."""
    order = np.argsort(classes)
    if (order != np.arange(order.size)).any():
        raise ValueError(
            f"classes={short_repr(classes.tolist())} is not sorted, but the columns of a "
            "classifier are: pass X[:, order] and classes[order] with order = "
            f"np.argsort(classes), here {short_repr(order.tolist())}."
        )


def name_columns(
    X: Any,
    y: NDArray[Any],
    classes: ArrayLike | None,
    *,
    name: str = "X",
    argument: str = "classes",
    sort: bool = False,
) -> tuple[Any, ArrayLike | None, NDArray[np.intp] | None]:
    """Sort the columns of a frame of scores by the class labels in the column names.

    Return the sorted frame, the labels of its columns, and the index of each original column among
    these labels. The labels are `classes`, in their order or, with `sort`, sorted; without
    `classes`, they are the sorted labels in the names. Scores without such names are returned
    unchanged, with `classes` and None.
    """
    if isinstance(X, np.ndarray):
        return X, classes, None
    refuse_lazy(name, X)
    X = read_frame(X, name)
    names = column_names(X)
    if names is None or len(names) < 2 or not y.size:
        return X, classes, None
    if classes is None:
        known = find_distinct(y)[0]
    else:
        known = check_classes(classes, None, argument)
        known = np.sort(known) if sort else known

    def values(j: int) -> NDArray[Any]:
        return np.asarray((X.iloc[:, j] if hasattr(X, "iloc") else X[:, j]).to_numpy())

    match = match_names(names, known, classes is not None, name, values=values)
    if match is None:
        return X, classes, None
    if match.rest:
        rest = [repr(names[j]) for j in match.rest]
        scores = [names[j] for j in sorted(match.order)]
        listed = ", ".join(rest[:12]) + (", ..." if len(rest) > 12 else "")
        verb = f"column {listed} is" if len(rest) == 1 else f"columns {listed} are"
        way = f"{name}[{scores!r}]" if len(scores) <= 12 else "only the other columns"
        if_classes = f", or {argument}= with the labels of all columns" if classes is None else ""
        raise ValueError(
            f"{name}: {verb} not named after a label, unlike the columns of "
            f"{match.classes.size} classes; pass {way}{if_classes}."
        )
    if (match.order != np.arange(match.order.size)).any():
        X = X.iloc[:, match.order] if hasattr(X, "iloc") else X[:, match.order.tolist()]
    return X, match.classes, np.argsort(match.order)


def read_categories(
    y: Any, n_columns: int, *, name: str = "y", argument: str = "classes", sort: bool = False
) -> NDArray[Any] | None:
    """Return the sorted categories of categorical labels, if each column has a category.

    Categories without rows count. Refuse categories in another order: columns without names have to
    be in the order of the sorted labels, and may be in that of the categories. With `sort`, the
    message says how to sort the columns.
    """
    if hasattr(y, "columns"):
        y = y[y.columns[0]]
    dtype: Any = getattr(y, "dtype", None)
    if not hasattr(getattr(dtype, "categories", None), "__len__"):  # polars may list no categories
        return None
    categories = list(dtype.categories)
    known = np.sort(np.asarray(categories)) if len(categories) == n_columns > 1 else None
    if len(categories) != max(n_columns, 2):
        present = set(np.asarray(y).tolist())
        categories = [label for label in categories if label in present]
        if n_columns > 1 and len(categories) != n_columns:
            return None  # `encode_labels` refuses the wrong number of labels
    order = sorted(range(len(categories)), key=categories.__getitem__)
    if order == list(range(len(categories))):
        return known
    in_order = [categories[k] for k in order]
    if not sort:
        way = f"pass {argument}={categories} if columns are in the order of the categories"
    elif n_columns > 1:
        way = (
            f"pass X[:, {order}] if columns are in the order of the categories, and {argument}="
            f"{in_order}"
        )
    else:
        way = (
            f"pass 1 - X (probabilities) or -X (logits) if it belongs to {categories[-1]!r}, and "
            f"{argument}={in_order}"
        )
    columns = "columns without names follow" if n_columns > 1 else "one column is for the last of"
    raise ValueError(
        f"{name} has the categories {short_repr(categories)}, but {columns} the sorted labels: "
        f"{way}; otherwise pass only {argument}={in_order}."
    )


def with_absent_label(label: Any) -> NDArray[Any]:
    """Return two sorted labels for a binary problem in which only one label occurs."""
    if isinstance(label, str):
        return np.unique([label, f"not {label}"])
    return np.unique([label, not label if isinstance(label, bool) else 0 if label else 1])


def binary_classes(y: NDArray[Any]) -> NDArray[Any] | None:
    """Infer the two labels of a binary problem from labels in {0, 1}, {-1, 1} or booleans."""
    present = set(find_distinct(y)[0][:3].tolist())
    if y.dtype.kind == "b":
        return np.array([False, True])
    for pair in ([0, 1], [-1, 1]):
        if y.dtype.kind in "iuf" and present <= set(pair):
            return np.array(pair, dtype=y.dtype)
    return None


# The event of a binary problem: the class whose probability a metric measures.


# Reason why a metric measures a binary event: scores have a single column or two, or `pos_label` is
# passed.
EventBy = Literal["column", "columns", "pos_label"]


class Event(NamedTuple):
    """True classes, labels of the columns, and the event that a metric measures.

    ``code (n,)`` is the column of the true class of each row, and ``classes`` are the labels of the
    columns. ``column`` is the column of the event, and ``event_by`` the reason why this event is
    measured; both are None if all classes are measured.
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
    """Find the column of each label, and decide which column is the event to measure.

    The event is `pos_label`, if given. Otherwise, a single column is the probability of label 1 of
    {0, 1} or {-1, 1}, or of True. For two columns, the event is this label or, among other labels,
    the second one. More columns have no event. `names` are the names of the scores, the labels and
    the argument `labels` in messages.
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
    """Return the two columns of a binary problem in the order of the classes.

    Refuse a column `X` that is named after the other class; `way` is the advice in the message.
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
        encode_labels(y, 2, known, name=name, argument=argument)  # error for labels not in `known`
    present = known.tolist()
    if known.size > 2:
        example = present[-1] if pos_label is None else pos_label
        raise ValueError(
            f"{name} has {known.size} distinct labels but {X} is one column, the probability of "
            f"one event: pass a column for each label, or {name} == {short_repr(example)}."
        )
    if pos_label is None:
        classes = binary_classes(known)
        if classes is None:
            raise ValueError(
                f"{X} is one column and {name} has the labels {present}: pass pos_label= with the "
                f"label whose probability it is, such as pos_label={present[-1]!r}."
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
    """Return the index of the column of a class label; refuse an unknown label."""
    known = classes.tolist()
    label = label.item() if isinstance(label, np.generic) else label
    for k, each in enumerate(known):
        same = each == label
        if isinstance(same, bool | np.bool_) and same:  # == of a np.longdouble returns np.bool_
            return k
    raise ValueError(f"{name}={short_repr(label)} is not one of the labels {known}.")


# Soft labels: numbers in [0, 1] for one event, or the shares of raters, which sum to 1 in each row.
#
# In sums over rows, a row of weight w with the shares f_1, ..., f_K counts as K rows: class k has
# the weight w f_k. A number f in [0, 1], such as the score of a judge, belongs to one column of
# probabilities, and means the shares (1 - f, f).


# Largest distance from 1 of the sum of the soft labels in a row.
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
    """Read labels or soft labels; return labels, soft labels (or None) and class labels.

    If `y` contains shares, the label of a row is the class with its largest share, and the classes
    are those of the columns. `names` are the names of the arguments in messages. With `on_device`,
    labels may be a tensor on a device. Without `shares`, several columns of labels are refused.
    """
    if on_device and ignore_index is None and are_labels_beside(y, X):
        return y, None, classes
    share = read_shares(y, names[1]) if shares else None
    if share is None:
        return check_labels(y, names[1], warn=warn, soft=soft), None, classes
    if ignore_index is not None:
        raise ValueError(
            f"ignore_index={ignore_index!r} needs one label for each row, but y has soft labels: "
            "drop the ignored rows, or give them weight 0."
        )
    share, known = name_shares(X, y, share, classes, names)
    return known[share.argmax(axis=1)], share, known


def read_shares(y: Any, name: str) -> Float64Array | None:
    """Return soft labels ``(n, K)`` with rows that sum to 1, or None for hard labels.

    NaN is read as 0. A table of whole numbers does not contain shares: it is one-hot, or contains
    the labels of several problems.
    """
    shape = np.shape(y[:1]) if isinstance(y, list) else getattr(y, "shape", ())
    # If `y` is a Python type instead of an array, its shape is not a tuple.
    if not isinstance(shape, tuple) or len(shape) != 2 or is_dask(y):
        return None
    array = as_array(name, read_frame(y, name), "pass one label, or K soft labels, for each row")
    if array.dtype.kind != "f" or array.shape[1] < 2 or not array.size:
        return None
    share = np.nan_to_num(array.astype(np.float64), nan=0.0, posinf=np.inf)
    if (share == np.floor(share)).all():
        return None
    total = share.sum(axis=1)
    wrong = (share < 0).any(axis=1) | ~(np.abs(total - 1.0) <= SHARE_TOLERANCE)
    if wrong.any():
        row = int(wrong.argmax())
        raise ValueError(
            f"{name}: the soft labels of row {row} are {short_repr(array[row].tolist())}; soft "
            "labels must be at least 0 and sum to 1 in each row."
        )
    return np.asarray(share / total[:, None])


def name_shares(
    X: Any, y: Any, share: Float64Array, classes: ArrayLike | None, names: tuple[str, str, str]
) -> tuple[Float64Array, NDArray[Any]]:
    """Return soft labels with columns in the order of the classes, and the class labels."""
    X_name, y_name, argument = names
    known = None if classes is None else check_classes(classes, share.shape[1], argument)
    columns = np.array(column_names(y) or column_names(X)).tolist()  # None if columns have no names
    if columns is None:
        return share, np.arange(share.shape[1]) if known is None else known
    known = np.array(sorted(columns)) if known is None else known
    if set(columns) != set(known.tolist()):
        raise ValueError(
            f"{y_name} has soft labels for {short_repr(columns)}, but "
            f"{argument}={short_repr(known.tolist())}: pass a column of soft labels for each class."
        )
    named, bare = (X_name, y_name) if column_names(y) is None else (y_name, X_name)
    both_named = column_names(y) is not None and column_names(X) is not None
    if columns != known.tolist() and not both_named:
        raise ValueError(
            f"{named} has the columns {short_repr(columns)}, but {bare} has no names: pass {bare} "
            "as a frame with these names, or both with columns in the order "
            f"{short_repr(known.tolist())}."
        )
    return share[:, [columns.index(label) for label in known.tolist()]], known


def split_shares(share: Float64Array, w: Float64Array) -> tuple[Intp, Intp, Float64Array]:
    """Split soft labels: return the row, the class and the weight of each soft label above 0."""
    rows, code = np.nonzero(share)
    return rows, code, w[rows] * share[rows, code]


def check_shape(share: Float64Array, S: Source, y_name: str, X_name: str) -> None:
    """Refuse soft labels if scores have another shape or are a Dask array."""
    if share.shape != S.shape:
        raise ValueError(
            f"{y_name} has shape {share.shape}, but {X_name} has shape {S.shape}: pass soft "
            f"labels for each column of {X_name}; were {y_name} and {X_name} exchanged?"
        )
    refuse_remote(S, f"{y_name} with soft labels")


def are_soft(y: NDArray[Any]) -> bool:
    """Return whether labels are soft labels: numbers in [0, 1], some between 0 and 1."""
    if is_tensor(y) or y.dtype.kind != "f" or not y.size or y.min() < 0 or y.max() > 1:
        return False
    return bool(((y > 0) & (y < 1)).any())


def refuse_soft(y: NDArray[Any], y_name: str, caller: str, supported: str) -> NoReturn:
    """Raise an error if a function that needs hard labels gets soft labels."""
    if y.ndim == 2 and y.shape[1] > 2:
        raise ValueError(
            f"{y_name} has soft labels of several raters: {caller} takes one label for each row; "
            f"draw the label of one rater per row, rng.choice(K, p=row), or use {supported}, "
            "which accept soft labels."
        )
    row, value = _first_fraction(y)
    raise ValueError(
        f"Unknown label type: continuous. {y_name} has {value:.6g} at row {row}: {caller} takes "
        f"labels of 0 and 1 only; round {y_name}, or use {supported}, which accept soft labels."
    )


def check_soft_hits(
    y: NDArray[Any], S: Source, classes: ArrayLike | None, names: tuple[str, str, str]
) -> None:
    """Refuse soft labels if scores have several columns or are 0 and 1, or classes not 0 and 1."""
    X_name, y_name, argument = names
    n_columns = S.shape[1]
    if n_columns > 1:
        row, value = _first_fraction(y)
        raise ValueError(
            f"Unknown label type: continuous. {y_name} has {value:.6g} at row {row}, but {X_name} "
            f"has {n_columns} columns: labels are integers, booleans or strings; soft labels "
            "in [0, 1] need one column, the probability of the event."
        )
    if np.isin(S.read(ALL), (0, 1)).all():
        raise ValueError(
            f"{y_name} has fractions and {X_name} is 0 or 1 in every row: were {y_name} and "
            f"{X_name} exchanged?"
        )
    if classes is not None and set(check_classes(classes, 2, argument).tolist()) != {0, 1}:
        raise ValueError(
            f"{argument}={short_repr(np.asarray(classes).tolist())} is not allowed with soft "
            f"labels of one event, which are numbers in [0, 1]: leave {argument} out."
        )


def shares_of_soft(y: NDArray[Any]) -> Float64Array:
    """Return soft labels f of a binary event as two columns, 1 - f and f."""
    hit = y.astype(np.float64)
    return np.column_stack([1.0 - hit, hit])


def _first_fraction(y: NDArray[Any]) -> tuple[int, float]:
    y = y if y.ndim == 1 else y[:, -1]
    row = int((y != np.floor(y)).argmax())
    return row, float(y[row])
