"""Labels of rows and of columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import column_or_1d

from skcalib._arrays.tensors import array_of_tensor, as_type_of, is_bfloat16, is_tensor
from skcalib._validation.frames import read_frame
from skcalib._validation.keywords import shown
from skcalib._validation.lazy import refuse_lazy
from skcalib._validation.named_columns import column_names, match_names, refuse_rest, take_columns
from skcalib._validation.scores import as_array

# What may be a label among objects, beside strings.
NUMBERS = (int, float, np.integer, np.floating)


def check_labels(
    y: ArrayLike, name: str = "y", warn: bool = False, soft: bool = False
) -> NDArray[Any]:
    """Return labels as a 1-D array of one kind, without missing values.

    With `soft`, fractions pass if all numbers lie in [0, 1].
    """
    if y is None:
        raise ValueError(
            f"{name} should be a 1d array of labels, but None was passed: give one label for each "
            "row."
        )
    array = y if type(y) is np.ndarray else as_array(name, y, "pass one label for each row")
    if array.dtype.kind == "U" and array.ndim == 1 and isinstance(y, list | tuple):
        # NumPy writes numbers among strings as strings; keep what was given.
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
        if array.dtype.kind == "O":  # strings, kept as they are
            return array
    if array.dtype.kind == "f":
        _check_whole(array, name, soft, 8 if is_bfloat16(y) else np.finfo(array.dtype).nmant + 1)
    return array


def _advice_on_axes(array: NDArray[Any], name: str) -> str:
    """Return what to do with labels of several axes."""
    if array.ndim != 2 or not array.size:
        return f"pass one label for each row, {name}.reshape(-1)"
    is_binary = ((array == 0) | (array == 1)).all()
    if is_binary and ((array == 1).sum(axis=1) == 1).all():
        return f"it is one-hot: pass {name}.argmax(axis=1)"
    several = (
        "where a row can have several labels, calibrate and measure each column by itself, as a "
        f"problem of two classes: {name}[:, j]"
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
            "one rater per row, rng.choice(K, p=share); were labels and probabilities exchanged?"
        )
    return (
        "of percentages or counts of raters, divide each row by its sum; of one label for each "
        f"position, pass {name}.reshape(-1); {several}"
    )


def _check_whole(array: NDArray[Any], name: str, soft: bool, digits: int) -> None:
    lost = np.flatnonzero(~np.isfinite(array))
    if lost.size:
        what = "NaN" if np.isnan(array[lost[0]]) else "infinity"
        raise ValueError(
            f"{name} contains {what} (first at row {lost[0]}); drop rows without a label."
        )
    # Beyond this, neighbouring integers are the same floating-point number.
    large = np.flatnonzero(np.abs(array) > 2.0**digits)
    if large.size:
        row = int(large[0])
        type_name = "bfloat16" if digits == 8 else array.dtype
        raise ValueError(
            f"{name} has {array[row]:.17g} at row {row}, too large for {type_name} to tell "
            "it from its neighbours; pass labels of one integer type, or strings."
        )
    parts = np.flatnonzero(array != np.floor(array))
    if parts.size and not (soft and array.min() >= 0 and array.max() <= 1):
        row = int(parts[0])
        within = array.min() >= 0 and array.max() <= 1
        raise ValueError(
            f"Unknown label type: continuous. {name} has {float(array[row]):.6g} at row {row}; "
            "labels are integers, booleans or strings, not numbers to regress on"
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
    """Map checked labels to columns: ``code (n,)`` and the ``classes (n_classes,)``.

    `classes` if given, in their order; else the distinct labels, sorted, when there are
    `n_classes` of them; else ``0..n_classes-1`` when all labels are integers in that range and 0
    occurs; two booleans need not both occur. An integer that is unlike the others is refused (see
    `_find_stray`); the message names the keyword `ignore`, if there is one, that drops its rows.
    Of a tensor, `code` is a tensor on its device, and the host gets the distinct labels.
    """
    if is_tensor(y):
        names: dict[str, Any] = {"name": name, "argument": argument, "ignore": ignore}
        labels, place = y.unique(return_inverse=True)
        try:
            column, known = encode_labels(array_of_tensor(labels), n_classes, classes, **names)
        except ValueError:  # which counts rows
            return encode_labels(array_of_tensor(y), n_classes, classes, **names)
        return as_type_of(column, y)[place], known
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
    whole = distinct.dtype.kind in "iuf"  # checked labels have no fractions
    stray = _find_stray(distinct, n_classes) if whole else None
    if stray is not None:
        rows = int((y == stray).sum())
        keyword = f", pass {ignore}={stray:.0f}" if ignore else ", give them weight 0"
        raise ValueError(
            f"{name}: label {stray:.0f} of {rows:,} row{'s' * (rows > 1)} is outside "
            f"0..{n_classes - 1}: drop these rows (ignored?){keyword}, or pass {argument}= with "
            f"the {n_classes} labels of the columns."
        )
    if distinct.size == n_classes:
        return inverse.astype(np.intp, copy=False), distinct
    if whole and distinct[0] == 0 and distinct[-1] < n_classes:
        return y.astype(np.intp), np.arange(n_classes).astype(distinct.dtype)
    shown = distinct[:10].tolist()
    more = ", ..." if distinct.size > 10 else ""
    raise ValueError(
        f"{name} has {distinct.size} distinct labels ({', '.join(map(repr, shown))}{more}) but "
        f"there are {n_classes} columns of scores: pass {argument}= with the {n_classes} labels "
        "of the columns."
    )


def places_among(known: NDArray[Any], labels: NDArray[Any]) -> NDArray[np.intp]:
    """Return the place of each label among the known ones, -1 without one."""
    if labels.dtype.kind == known.dtype.kind == "i":  # of 100,000 words, a dictionary is slow
        order = np.argsort(known)
        place = order[np.searchsorted(known, labels, sorter=order) % known.size]
        return np.where(known[place] == labels, place, -1)
    position = {label: k for k, label in enumerate(known.tolist())}
    return np.array([position.get(label, -1) for label in labels.tolist()], dtype=np.intp)


def _find_stray(distinct: NDArray[Any], n_classes: int) -> float | None:
    """Return the only label outside 0..K-1, such as an ignore label 255 or -1, or None.

    It would take the place of a class without rows. Two labels are the two classes, however they
    are written, 1..K and (-1, 0, 1) are usual, and 0..K lack a column.
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
    """Return the distinct labels, sorted, and the place of each label among them."""
    if y.dtype.kind not in "iub" or not y.size or y.min() < 0 or y.max() >= 2 * y.size:
        return np.unique(y, return_inverse=True)
    # Small whole numbers, the rule, are counted in a fraction of the time that sorting takes.
    place = y.astype(np.intp, copy=False)
    count = np.bincount(place)
    distinct = count.nonzero()[0].astype(y.dtype)
    if distinct.size < count.size:
        place = (np.cumsum(count > 0) - 1)[place]
    return distinct, place


def check_classes(classes: ArrayLike, n_classes: int | None, argument: str) -> NDArray[Any]:
    """Return the labels of the columns, in their order: as many as columns, if known, each once."""
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
    """Refuse classes that are not sorted: a classifier's columns follow its sorted classes."""
    order = np.argsort(classes)
    if (order != np.arange(order.size)).any():
        raise ValueError(
            f"classes={shown(classes.tolist())} is not sorted, as the columns of a classifier are: "
            "pass X[:, order] and classes[order] with order = np.argsort(classes), here "
            f"{shown(order.tolist())}."
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
    """Return scores with columns in the order of their labels, if a frame names them so.

    Also return those labels: `classes`, in their order unless they are to be sorted, or those
    that the names say, sorted; and the places of the frame's columns among them. Anything else is
    returned as it came, without places.
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
    refuse_rest(names, match, name, None if classes is not None else argument)
    return take_columns(X, match.order), match.classes, np.argsort(match.order)


def read_categories(
    y: Any, n_columns: int, *, name: str = "y", argument: str = "classes", sort: bool = False
) -> NDArray[Any] | None:
    """Return the sorted categories of labels, also unused ones, if there is one for each column.

    Refuse categories that are not sorted: columns without names follow the sorted labels, and may
    have been written in the order of the categories. With `sort`, the labels of the columns have to
    be sorted.
    """
    if hasattr(y, "columns"):
        y = y[y.columns[0]]
    dtype: Any = getattr(y, "dtype", None)
    if not hasattr(getattr(dtype, "categories", None), "__len__"):  # polars may not say
        return None
    given = list(dtype.categories)
    known = np.sort(np.asarray(given)) if len(given) == n_columns > 1 else None
    if len(given) != max(n_columns, 2):
        present = set(np.asarray(y).tolist())
        given = [label for label in given if label in present]
    order = sorted(range(len(given)), key=given.__getitem__)
    if order == list(range(len(given))):
        return known
    in_order = [given[k] for k in order]
    if not sort:
        way = f"pass {argument}={given} if they are in the order of the categories"
    elif n_columns > 1:
        way = (
            f"pass X[:, {order}] if they are in the order of the categories, and {argument}="
            f"{in_order}"
        )
    else:
        way = (
            f"pass 1 - X (probabilities) or -X (logits) if it is that of {given[-1]!r}, and "
            f"{argument}={in_order}"
        )
    columns = "columns without names follow" if n_columns > 1 else "one column is the last of"
    raise ValueError(
        f"{name} has the categories {shown(given)}, but {columns} the sorted labels: "
        f"{way}; {argument}={in_order} alone if they are sorted."
    )


def with_absent_label(label: Any) -> NDArray[Any]:
    """Return two sorted labels: the only one that occurs, and one that never does."""
    if isinstance(label, str):
        return np.unique([label, f"not {label}"])
    return np.unique([label, not label if isinstance(label, bool) else 0 if label else 1])


def binary_classes(y: NDArray[Any]) -> NDArray[Any] | None:
    """Return both labels, inferred from the labels present: of {0, 1}, {-1, 1} or booleans."""
    present = set(find_distinct(y)[0][:3].tolist())
    if y.dtype.kind == "b":
        return np.array([False, True])
    for pair in ([0, 1], [-1, 1]):
        if y.dtype.kind in "iuf" and present <= set(pair):
            return np.array(pair, dtype=y.dtype)
    return None
