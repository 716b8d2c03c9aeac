"""Floor 0: checks of labels, weights, predictions and keywords.

Nothing behind this file checks its arguments again. Every message says what is wrong, where (the
first row or label), and the way out.
"""

from __future__ import annotations

import numbers
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state, column_or_1d

from skcalib._named_columns import column_names, match_names, take_columns
from skcalib._row_view import pick_rows
from skcalib._score_checks import as_columns, as_matrix, check_possible, first_flaw, reading
from skcalib._simplex import FloatArray

# The sum of all weights, so that neither it nor its square leaves the range of float64.
WEIGHT_LOW, WEIGHT_HIGH = 1e-100, 1e100
# More bins, knots or resamples than this are a slip, and end in an error of NumPy's or worse.
COUNT_HIGH = 2**31 - 1


class Predictions(NamedTuple):
    """Checked predictions: what every metric works on.

    ``P (n, K)`` probabilities, ``code (n,)`` column of the true class, ``w (n,)`` float64
    weights, ``classes (K,)`` labels of the columns. ``event`` is None, or the column of the one
    event that is measured: because a single column of probabilities was given, which stands here
    as two, or because ``pos_label`` named it. What rows of weight 0 or rounding leave of a large
    array is a `RowView`, which is read as an array is.
    """

    P: FloatArray
    code: NDArray[np.intp]
    w: NDArray[np.float64]
    classes: NDArray[Any]
    event: int | None = None

    def of_event(self) -> tuple[FloatArray, NDArray[np.bool_]]:
        """Return the probability of the event ``(n,)``, and whether it happened."""
        assert self.event is not None
        return self.P[:, self.event], self.code == self.event


def check_weight(
    sample_weight: ArrayLike | None, n_rows: int, name: str = "sample_weight"
) -> NDArray[np.float64]:
    """Return float64 weights ``(n,)``, ones when None; they must be >= 0 and not all 0."""
    if sample_weight is None:
        return np.ones(n_rows)
    if isinstance(sample_weight, numbers.Number):
        sample_weight = np.full(n_rows, sample_weight)
    with reading(name, sample_weight, "pass one number for each row"):
        given = np.asarray(sample_weight)
        if given.dtype.kind in "cmMV":
            raise TypeError(f"{given.dtype} numbers cannot be weights")
        w = given.astype(np.float64)
    if w.ndim != 1:
        raise ValueError(
            f"{name} must be a 1D array with a weight for each row; got shape {w.shape}."
        )
    if w.shape[0] != n_rows:
        raise ValueError(
            f"{name}.shape == {w.shape}, expected {(n_rows,)}: give one weight for each row."
        )
    bad = np.flatnonzero(~(np.isfinite(w) & (w >= 0)))
    if bad.size:
        raise ValueError(
            f"{name} must be finite and non-negative; row {bad[0]} has {w[bad[0]]:.6g}."
        )
    if not w.any():
        raise ValueError(f"{name}: all weights are zero; at least one row must count.")
    if not WEIGHT_LOW <= _sum(w) <= WEIGHT_HIGH:
        raise ValueError(
            f"{name} sums to {_sum(w):.3g}, outside [{WEIGHT_LOW:g}, {WEIGHT_HIGH:g}]; divide "
            "the weights by their mean."
        )
    return w


def _sum(w: NDArray[np.float64]) -> float:
    with np.errstate(over="ignore"):
        return float(w.sum())


def check_labels(y: ArrayLike, name: str = "y", warn: bool = False) -> NDArray[Any]:
    """Return labels as a 1-D array of one kind, without missing values."""
    if y is None:
        raise ValueError(f"{name} is required, but None was passed: give one label for each row.")
    if type(y) is np.ndarray:
        array = y
    else:
        with reading(name, y, "pass one label for each row"):
            array = np.asarray(y)
    if array.dtype.kind == "U" and array.ndim == 1 and isinstance(y, list | tuple):
        # NumPy writes numbers among strings as strings; keep what was given.
        array = array if all(isinstance(v, str) for v in y) else np.asarray(y, dtype=object)
    if array.ndim != 1 and (array.ndim != 2 or array.shape[1] != 1):
        advice = "pass one label for each row"
        if array.ndim == 2 and array.size:
            is_one_hot = ((array == 0) | (array == 1)).all() and (
                (array == 1).sum(axis=1) == 1
            ).all()
            advice = (
                f"it is one-hot: pass {name}.argmax(axis=1)"
                if is_one_hot
                else "where a row can have several labels, calibrate and measure each column by "
                f"itself, as a problem of two classes: {name}[:, j]"
            )
        raise ValueError(
            f"{name} should be a 1d array of labels, got an array of shape {array.shape} instead; "
            f"{advice}."
        )
    if array.dtype.kind == "c":
        raise ValueError(f"Complex data not supported: {name} holds {array.dtype} labels.")
    if array.dtype.kind not in "iufbUSTO":
        raise ValueError(
            f"Unknown label type: {name} has dtype {array.dtype}; labels are integers, booleans "
            "or strings."
        )
    array = array if array.ndim == 1 else column_or_1d(array, warn=warn)
    if array.dtype.kind == "O":
        array = _from_objects(array, name)
        if array.dtype.kind == "O":  # strings, kept as they are
            return array
    if array.dtype.kind == "f":
        _check_whole(array, name)
    return array


def _check_whole(array: NDArray[Any], name: str) -> None:
    lost = np.flatnonzero(~np.isfinite(array))
    if lost.size:
        what = "NaN" if np.isnan(array[lost[0]]) else "infinity"
        raise ValueError(
            f"{name} contains {what} (first at row {lost[0]}); drop rows without a label."
        )
    parts = np.flatnonzero(array != np.floor(array))
    if parts.size:
        _refuse_part(array[parts[0]], int(parts[0]), name)


def _refuse_part(value: Any, row: int, name: str) -> NoReturn:
    raise ValueError(
        f"Unknown label type: continuous. {name} has {float(value):.6g} at row {row}; labels are "
        "integers, booleans or strings, not numbers to regress on."
    )


def _from_objects(array: NDArray[Any], name: str) -> NDArray[Any]:
    import pandas as pd  # late: only object labels (strings of a frame, None, NA) need it

    missing = np.flatnonzero(pd.isna(array))
    if missing.size:
        raise ValueError(
            f"{name} contains a missing label (NaN or None; first at row {missing[0]}); drop "
            "rows without a label."
        )
    values = array.tolist()
    kinds = [
        "string"
        if isinstance(v, str)
        else "number"
        if isinstance(v, numbers.Number) and not isinstance(v, complex)
        else "other"
        for v in values
    ]
    if "other" in kinds:
        row = kinds.index("other")
        raise ValueError(
            f"Unknown label type: {name} has a {type(values[row]).__name__} at row {row}; labels "
            "are integers, booleans or strings."
        )
    if len(set(kinds)) > 1:
        row = next(i for i, kind in enumerate(kinds) if kind != kinds[0])
        raise ValueError(
            f"{name} mixes {kinds[0]}s and {kinds[row]}s (first at row {row}): make all labels "
            "one type."
        )
    if not kinds or kinds[0] == "string":
        return array
    plain = np.array(values)
    if plain.dtype.kind != "O":
        return plain
    # Fractions, decimals, and whole numbers beyond 64 bits.
    whole = [int(v) for v in values]
    for row, (value, rounded) in enumerate(zip(values, whole, strict=True)):
        if value != rounded:
            _refuse_part(value, row, name)
    plain = np.array(whole)
    if plain.dtype.kind == "O":
        raise ValueError(f"{name} has whole numbers beyond 64 bits; pass them as strings.")
    return plain


def encode_labels(
    y: NDArray[Any],
    n_classes: int,
    classes: ArrayLike | None,
    *,
    name: str = "y",
    argument: str = "classes",
) -> tuple[NDArray[np.intp], NDArray[Any]]:
    """Map checked labels to columns: ``code (n,)`` and the ``classes (n_classes,)``.

    `classes` if given, in their order; else the distinct labels, sorted, when there are
    `n_classes` of them; else ``0..n_classes-1`` when all labels are integers in that range and 0
    occurs; two booleans need not both occur.
    """
    distinct, inverse = _distinct(y)
    if classes is not None:
        known = check_classes(classes, n_classes, argument)
        position = {label: k for k, label in enumerate(known.tolist())}
        column = np.array([position.get(label, -1) for label in distinct.tolist()], dtype=np.intp)
        if (column < 0).any():
            row = int(np.flatnonzero(column[inverse] < 0)[0])
            label = distinct.tolist()[inverse[row]]
            raise ValueError(
                f"{name}: label {label!r} at row {row} is not in {argument}={known.tolist()}; "
                f"correct the label or add it to {argument}."
            )
        return column[inverse], known
    if distinct.size == n_classes:
        return inverse.astype(np.intp, copy=False), distinct
    if distinct.dtype.kind == "b" and n_classes == 2:
        return y.astype(np.intp), np.array([False, True])
    whole = distinct.dtype.kind in "iu" or (
        distinct.dtype.kind == "f" and (distinct == np.floor(distinct)).all()
    )
    if whole and distinct[0] == 0 and distinct[-1] < n_classes:
        return y.astype(np.intp), np.arange(n_classes).astype(distinct.dtype)
    shown = distinct[:10].tolist()
    more = ", ..." if distinct.size > 10 else ""
    raise ValueError(
        f"{name} has {distinct.size} distinct labels ({', '.join(map(repr, shown))}{more}) but "
        f"there are {n_classes} columns of scores: pass {argument}= with the {n_classes} labels "
        "of the columns."
    )


def _distinct(y: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """Return the distinct labels, sorted, and the place of each label among them."""
    if y.dtype.kind not in "iu" or not y.size or y.min() < 0 or y.max() >= 2 * y.size:
        return np.unique(y, return_inverse=True)
    # Small whole numbers, the rule, are counted in a fraction of the time that sorting takes.
    place = y.astype(np.intp)
    count = np.bincount(place)
    distinct = np.flatnonzero(count).astype(y.dtype)
    if distinct.size < count.size:
        place = (np.cumsum(count > 0) - 1)[place]
    return distinct, place


def check_classes(classes: ArrayLike, n_classes: int, argument: str) -> NDArray[Any]:
    """Return the labels of the columns, in their order: as many as columns, each once."""
    known = check_labels(classes, argument)
    if np.unique(known).size != known.size:
        raise ValueError(f"{argument}={known.tolist()} has a label twice; give each label once.")
    if known.size != n_classes:
        raise ValueError(
            f"{argument} has {known.size} labels but there are {n_classes} columns of scores; "
            "give one label for each column."
        )
    return known


def check_sorted(classes: NDArray[Any], argument: str = "classes", X: str = "X") -> None:
    """Refuse classes that are not sorted: a classifier's columns follow its sorted classes."""
    order = np.argsort(classes)
    if (order != np.arange(order.size)).any():
        raise ValueError(
            f"{argument}={shown(classes.tolist())} is not sorted, as the columns of a classifier "
            f"are: pass {X}[:, order] and {argument}[order] with order = "
            f"np.argsort({argument}), here {shown(order.tolist())}."
        )


def name_columns(
    X: Any,
    y: NDArray[Any],
    classes: ArrayLike | None,
    *,
    name: str = "X",
    argument: str = "classes",
    sort: bool = False,
) -> tuple[Any, ArrayLike | None]:
    """Return scores with columns in the order of their labels, if a frame names them so.

    Also return those labels: `classes`, in their order unless they are to be sorted, or those
    that the names say, sorted. Anything else is returned as it came.
    """
    names = column_names(X, name)
    if names is None or not y.size:
        return X, classes
    if classes is None:
        found = match_names(names, _distinct(y)[0], False, name)
    else:
        known = check_classes(classes, len(names), argument)
        found = match_names(names, np.sort(known) if sort else known, True, name)
    if found is None:
        return X, classes
    return take_columns(X, found.order), found.classes


def binary_classes(y: NDArray[Any]) -> NDArray[Any] | None:
    """Return both labels where those that occur tell: of {0, 1}, {-1, 1} or booleans."""
    present = set(_distinct(y)[0][:3].tolist())
    if y.dtype.kind == "b":
        return np.array([False, True])
    if y.dtype.kind in "iuf" and present and present <= {0, 1}:
        return np.array([0, 1], dtype=y.dtype)
    if y.dtype.kind in "if" and present and present <= {-1, 1}:
        return np.array([-1, 1], dtype=y.dtype)
    return None


class Event(NamedTuple):
    """What one column is the probability of: ``hit (n,)``, the two ``classes``, its column."""

    hit: NDArray[np.bool_]
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
    """Decide which label one column of probabilities speaks of.

    That is `pos_label`; without it 1 of {0, 1} or {-1, 1}, and True.
    """
    known = _distinct(y)[0] if labels is None else np.unique(check_classes(labels, 2, argument))
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
        return Event(y == classes[1], classes, 1)
    if known.size == 1 and _is_other_label(pos_label, known):
        known = np.unique(np.array([present[0], pos_label]))
    elif known.size == 1:
        other = f"not {present[0]}" if known.dtype.kind in "UO" else _other_number(present[0])
        known = np.unique(np.array([present[0], other]))
    column = class_column(pos_label, known, "pos_label")
    return Event(y == known[column], known, column)


def _is_other_label(pos_label: Any, known: NDArray[Any]) -> bool:
    """Whether a label is of the kind of the only one that occurs, and another."""
    label = pos_label.item() if isinstance(pos_label, np.generic) else pos_label
    of_the_kind = isinstance(label, str if known.dtype.kind in "UO" else numbers.Real)
    return of_the_kind and label != known.tolist()[0]


def _other_number(label: Any) -> Any:
    return not label if isinstance(label, bool) else 0 if label else 1


def check_predictions(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    pos_label: Any = None,
) -> Predictions:
    """Check the arguments of a metric; rows of weight 0 are left out.

    Checked predictions may stand in the place of `y_proba`, labels and weights included: a
    metric that is evaluated a thousand times checks once.
    """
    if isinstance(y_proba, Predictions):
        if pos_label is None:
            return y_proba
        return y_proba._replace(event=class_column(pos_label, y_proba.classes, "pos_label"))
    y = check_labels(y_true, "y_true")
    y_proba, labels = name_columns(y_proba, y, labels, name="y_proba", argument="labels")
    P = as_matrix(y_proba, "y_proba")
    found = check_possible(P, "y_proba", "proba")
    if not found.is_simplex:
        raise ValueError(
            f"y_proba: {first_flaw(P, found)}; pass class probabilities (the softmax of "
            "logits, or rows divided by their sum)."
        )
    check_lengths(y, P, "y_true", "y_proba")
    w = check_weight(sample_weight, P.shape[0])
    single = P.shape[1] == 1
    event: int | None
    P = as_columns(P, found, "proba", name="y_proba")
    if single:
        happened, classes, column = read_event(y, labels, pos_label)
        P = P if column == 1 else P[:, ::-1]
        code, event = np.where(happened, column, 1 - column), column
    else:
        code, classes = encode_labels(y, P.shape[1], labels, name="y_true", argument="labels")
        event = None if pos_label is None else class_column(pos_label, classes, "pos_label")
    P, code, w = drop_weightless(P, code, w)
    return Predictions(P, code, w, classes, event)


def check_lengths(y: NDArray[Any], S: FloatArray, y_name: str, S_name: str) -> None:
    """Refuse labels and scores of different lengths."""
    if y.shape[0] != S.shape[0]:
        raise ValueError(
            f"Found input variables with inconsistent numbers of samples: {S_name} has "
            f"{S.shape[0]} rows, {y_name} has {y.shape[0]}; they must go together row by row."
        )


def drop_weightless(
    S: FloatArray, code: NDArray[np.intp], w: NDArray[np.float64]
) -> tuple[FloatArray, NDArray[np.intp], NDArray[np.float64]]:
    """Leave out rows of weight 0: behind the door, weight 0 is absence."""
    keep = w > 0
    if keep.all():
        return S, code, w
    rows = np.flatnonzero(keep)
    return pick_rows(S, rows), code[rows], w[rows]


def shown(value: object) -> str:
    """Return a value as it stands in a message: in one line, and no longer than that."""
    line = " ".join(repr(value).split())
    return line if len(line) <= 80 else f"{line[:77]}..."


def check_option(name: str, value: object, options: tuple[object, ...]) -> None:
    """Refuse a keyword's value that is not one of `options`."""
    if not any(value is option or (value == option) is True for option in options):
        raise ValueError(f"{name} must be one of {list(options)}; got {shown(value)}.")


def check_count(name: str, value: object, low: int, high: int | None = None) -> None:
    """Refuse a keyword's value that is not a whole number in ``[low, high]``."""
    whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    most = COUNT_HIGH if high is None else high
    if not whole or not low <= value <= most:  # type: ignore[operator]
        told = high is None and not (whole and value > most)  # type: ignore[operator]
        span = f">= {low}" if told else f"from {low} to {most}"
        raise ValueError(f"{name} must be a whole number {span}; got {shown(value)}.")


def check_between(
    name: str, value: object, low: float, high: float, what: str, low_too: bool = False
) -> None:
    """Refuse a keyword's value that is not a number in ``(low, high)``; `what` says which."""
    number = isinstance(value, int | float | np.integer | np.floating)
    inside = number and not isinstance(value, bool) and low <= value < high  # type: ignore[operator]
    if not inside or (value == low and not low_too):
        raise ValueError(f"{name} must be {what}; got {shown(value)}.")


def check_flags(**flags: object) -> None:
    """Refuse a keyword's value that is not True or False (1 or 0)."""
    for name, value in flags.items():
        if not isinstance(value, int | np.bool_) or value not in (0, 1):
            raise ValueError(f"{name} must be True or False; got {shown(value)}.")


def check_seed(random_state: Any) -> np.random.RandomState:
    """Return the random numbers of `random_state`."""
    try:
        return check_random_state(random_state)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"random_state must be None, an integer in [0, 2**32) or a RandomState; got "
            f"{shown(random_state)}."
        ) from error


def class_column(label: object, classes: NDArray[Any], name: str) -> int:
    """Return the column of a class named by its label."""
    known = classes.tolist()
    label = label.item() if isinstance(label, np.generic) else label
    for k, each in enumerate(known):
        if (each == label) is True:
            return k
    raise ValueError(f"{name}={shown(label)} is not one of the labels {known}.")
