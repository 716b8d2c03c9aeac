"""Floor 0: the one door. Labels become codes, scores and probabilities become checked arrays.

Nothing behind this file validates anything. Every message says what is wrong, where (the first
row or label), and the mend.
"""

from __future__ import annotations

import numbers
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_array, check_random_state, column_or_1d

from skcalib._blocks import light_blocks, map_blocks
from skcalib._row_view import clip_to_unit, pick_rows
from skcalib._simplex import FloatArray, Kind

# Rows of float16 probabilities, summed exactly, stay within 5e-4 of 1.
ROW_SUM_TOLERANCE = 1e-3
# A float32 softmax can return 1 + 1e-7: rounding, not a logit.
RANGE_TOLERANCE = 1e-6
# The difference of two logits stays within float64.
FARTHEST = 1e307
# The sum of all weights, so that neither it nor its square leaves the range of float64.
WEIGHT_LOW, WEIGHT_HIGH = 1e-100, 1e100
# More bins, knots or resamples than this are a slip, and end in an error of NumPy's or worse.
COUNT_HIGH = 2**31 - 1


class Predictions(NamedTuple):
    """Checked predictions: what every metric works on.

    ``P (n, K)`` probabilities, ``code (n,)`` column of the true class, ``w (n,)`` float64
    weights, ``classes (K,)`` sorted labels. What rows of weight 0 or rounding leave of a large
    array is a `RowView`, which is read as an array is.
    """

    P: FloatArray
    code: NDArray[np.intp]
    w: NDArray[np.float64]
    classes: NDArray[Any]


def as_matrix(X: ArrayLike, name: str = "X") -> FloatArray:
    """Return `X` as a non-empty 2-D array of float32 or float64; 1-D becomes one column."""
    if X is None or np.isscalar(X) or getattr(X, "ndim", None) == 0:
        raise ValueError(
            f"Expected 2D array, got {'None' if X is None else 'scalar array'} instead: {name} "
            "must be (n, K) scores or (n,) scores of the second class. Reshape your data."
        )
    # Nothing to convert: looking for frames takes as long as an error of a few thousand rows.
    if type(X) is np.ndarray and X.dtype in (np.float64, np.float32) and X.ndim == 2 and X.size:
        return X
    with reading(name, X, "pass (n, K) or (n,) numbers"):
        # Frames of pandas and sparse matrices have no cheap array; scikit-learn knows them.
        if not (hasattr(X, "iloc") or hasattr(X, "tocsr") or isinstance(X, np.matrix)):
            X = np.asarray(X)
        types = np.atleast_1d(np.asarray(getattr(X, "dtypes", getattr(X, "dtype", None))))
        if any(getattr(dtype, "kind", None) in ("m", "M") for dtype in types):
            raise TypeError("dates and spans of time are no scores")
        half = types.size == 1 and types[0] == np.float16
        array = check_array(
            X,
            dtype=[np.float32] if half else [np.float64, np.float32],
            ensure_2d=False,
            ensure_all_finite=False,
            input_name=name,
        )
    return array[:, None] if array.ndim == 1 else array


@contextmanager
def reading(name: str, given: Any, mend: str) -> Iterator[None]:
    """Name the argument in whatever its conversion to an array raises, in one line."""
    if np.ma.is_masked(given):
        raise ValueError(f"{name} has masked entries; drop or fill such rows.")
    try:
        # Numbers beyond float64 become infinite, which is refused where it is said where.
        with np.errstate(over="ignore"):
            yield
    except (TypeError, ValueError, OverflowError, RuntimeError) as error:
        line = (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(" .:")
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"{name}: {line}; {mend}.") from error


class Survey(NamedTuple):
    """What one pass over scores finds: their range, and the first rows off the simplex."""

    low: float
    high: float
    flawed: slice | None

    @property
    def reach(self) -> float:
        """What no value exceeds in absolute value."""
        return max(-self.low, self.high)

    @property
    def in_unit_interval(self) -> bool:
        """Whether all values lie in [0, 1], up to rounding."""
        return self.low >= -RANGE_TOLERANCE and self.high <= 1 + RANGE_TOLERANCE

    @property
    def is_simplex(self) -> bool:
        """Whether every row is a probability vector (one column: every value in [0, 1])."""
        return self.flawed is None

    @property
    def is_rounded(self) -> bool:
        """Whether rounding left a value outside [0, 1]."""
        return self.low < 0 or self.high > 1


def survey(S: FloatArray, rows: slice, name: str = "X") -> Survey:
    """Refuse NaN, +inf, and rows whose every logit is -inf, in a block; return what is found."""
    block, single = S[rows], S.shape[1] == 1
    if _are_unit(block):
        low, high = 0.0, 1.0
    else:
        low, high = float(block.min()), float(block.max())
    if not high < np.inf:  # also true of NaN
        raise ValueError(_not_a_number(block, rows.start, name))
    if low == -np.inf and not single:
        dead = np.flatnonzero(np.isneginf(block).all(axis=1))
        if dead.size:
            raise ValueError(
                f"{name}: every logit of row {rows.start + dead[0]} is -inf; a row needs at "
                "least one class that is possible."
            )
    if high > FARTHEST or -np.inf < low < -FARTHEST:
        raise ValueError(
            f"{name} holds logits beyond {FARTHEST:g} in absolute value, whose differences "
            "are no numbers; divide all by a constant."
        )
    found = Survey(low, high, None)
    if found.in_unit_interval and (single or not (_excess(block) > ROW_SUM_TOLERANCE).any()):
        return found
    return found._replace(flawed=rows)


def together(each: list[Survey]) -> Survey:
    """Return what surveys of the blocks of an array, in any order, found."""
    flawed = [part.flawed for part in each if part.flawed is not None]
    return Survey(
        min(part.low for part in each),
        max(part.high for part in each),
        min(flawed, key=lambda rows: rows.start, default=None),
    )


def check_possible(S: FloatArray, name: str = "X") -> Survey:
    """Refuse NaN, +inf, and rows whose every logit is -inf; return what the pass found."""
    blocks, at_a_time = light_blocks(S.shape[0], S.shape[1], S.itemsize)
    return together(list(map_blocks(lambda rows: survey(S, rows, name), blocks, at_a_time)))


def _are_unit(block: FloatArray) -> bool:
    """Whether all lies in [0, 1], in one pass, which most logits end at their first row.

    Read as an unsigned integer, what does not, and NaN too, is larger than 1. (-0.0 is as well;
    it takes the slower way.)
    """
    bits = np.uint32 if block.itemsize == 4 else np.uint64
    numbers, one = block.view(bits), block.dtype.type(1).view(bits)
    return bool(numbers[0].max() <= one and numbers.max() <= one)


def _not_a_number(block: FloatArray, start: int, name: str) -> str:
    i, j = np.argwhere(np.isnan(block) | np.isposinf(block))[0]
    what = "NaN" if np.isnan(block[i, j]) else "infinity"
    return (
        f"{name} contains {what} (first at row {start + i}, column {j}); drop or repair such rows."
    )


def _excess(block: FloatArray) -> FloatArray:
    return np.abs(np.einsum("ij->i", block) - 1.0)


def _first_flaw(S: FloatArray, flawed: slice) -> str:
    """Say which row of a flawed block is the first off the simplex, and why."""
    block = S[flawed]
    outside = ~((block >= -RANGE_TOLERANCE) & (block <= 1 + RANGE_TOLERANCE))
    off = outside.any(axis=1)
    if S.shape[1] > 1:
        off |= _excess(block) > ROW_SUM_TOLERANCE
    i = int(np.flatnonzero(off)[0])
    if outside[i].any():
        why = f"holds {block[i, outside[i]][0]:.6g}, outside [0, 1]"
    else:
        why = f"sums to {block[i].sum(dtype=np.float64):.6g}, not 1"
    return f"row {flawed.start + i} {why}"


def resolve_kind(S: FloatArray, found: Survey, input: str, name: str = "X") -> Kind:
    """Decide, once, whether checked scores are logits or probabilities.

    Raises
    ------
    ValueError
        If ``input="proba"`` and a row is not a probability vector, or if ``input="auto"`` and
        the scores could be either.
    """
    if input == "logits":
        return "logits"
    if found.flawed is None:
        return "proba"
    if input == "proba":
        raise ValueError(
            f"{name}: {_first_flaw(S, found.flawed)}, but input='proba' was given; pass "
            "probabilities whose rows sum to 1, or input='logits'."
        )
    if not found.in_unit_interval:
        return "logits"
    raise ValueError(
        f"{name}: all values lie in [0, 1] but {_first_flaw(S, found.flawed)}: logits or "
        "probabilities? Pass input='logits' if these are logits; divide each row by its sum if "
        "these are probabilities."
    )


def check_kind(S: FloatArray, found: Survey, kind: Kind, certain: bool, name: str = "X") -> None:
    """Refuse scores of another kind than the one decided in fit.

    A single row, or one column, of logits may lie on the simplex by chance: only a batch of
    rows that all do is certain to be probabilities, and only if the fitted ones were not so
    (`certain`).
    """
    if kind == "proba":
        if found.flawed is not None:
            raise ValueError(
                f"{name}: {_first_flaw(S, found.flawed)}, but this calibrator was fitted on "
                "probabilities (input_='proba'); pass probabilities, or fit it again on logits."
            )
    elif certain and S.shape[0] > 1 and S.shape[1] > 1 and found.is_simplex:
        raise ValueError(
            f"{name}: all rows are probability vectors (row 0 sums to 1), but this calibrator "
            "was fitted on logits (input_='logits'); pass logits, or fit it again on "
            "probabilities."
        )


def two_columns(S: FloatArray, kind: Kind) -> FloatArray:
    """Write one column in two: ``(0, f)`` for a binary logit, ``(1 - p, p)`` for P(second)."""
    if S.shape[1] > 1:
        return S
    first = np.zeros_like(S) if kind == "logits" else 1 - S
    return np.hstack([first, S])


def as_columns(S: FloatArray, found: Survey, kind: Kind) -> FloatArray:
    """One column for each class; probabilities that rounding left outside [0, 1] are mended."""
    return two_columns(clip_to_unit(S) if kind == "proba" and found.is_rounded else S, kind)


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
        mend = (
            f"if it is one-hot, pass {name}.argmax(axis=1)"
            if array.ndim == 2
            else "pass one label for each row"
        )
        raise ValueError(
            f"{name} should be a 1d array of labels, got an array of shape {array.shape} instead; "
            f"{mend}."
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
    """Map checked labels to columns: ``code (n,)`` and the sorted ``classes (n_classes,)``.

    `classes` if given; else the distinct labels when there are `n_classes` of them; else
    ``0..n_classes-1`` when all labels are integers in that range and 0 occurs; two booleans
    need not both occur.
    """
    distinct, inverse = _distinct(y)
    if classes is not None:
        known = _check_classes(classes, n_classes, argument)
        position = {label: k for k, label in enumerate(known.tolist())}
        column = np.array([position.get(label, -1) for label in distinct.tolist()], dtype=np.intp)
        if (column < 0).any():
            row = int(np.flatnonzero(column[inverse] < 0)[0])
            label = distinct.tolist()[inverse[row]]
            raise ValueError(
                f"{name}: label {label!r} at row {row} is not in {argument}={known.tolist()}; "
                f"mend the label or add it to {argument}."
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


def _check_classes(classes: ArrayLike, n_classes: int, argument: str) -> NDArray[Any]:
    known = check_labels(classes, argument)
    distinct = np.unique(known)
    if distinct.size != known.size:
        raise ValueError(f"{argument}={known.tolist()} has a label twice; give each label once.")
    if distinct.size != n_classes:
        raise ValueError(
            f"{argument} has {distinct.size} labels but there are {n_classes} columns of scores; "
            "give one label for each column."
        )
    return distinct


def check_predictions(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
) -> Predictions:
    """Check the arguments of a metric; rows of weight 0 are left out.

    Predictions that came through this door before may stand in the place of `y_proba`, labels
    and weights included: whoever evaluates a metric a thousand times checks once.
    """
    if isinstance(y_proba, Predictions):
        return y_proba
    P = as_matrix(y_proba, "y_proba")
    found = check_possible(P, "y_proba")
    if found.flawed is not None:
        raise ValueError(
            f"y_proba: {_first_flaw(P, found.flawed)}; pass class probabilities (the softmax of "
            "logits, or rows divided by their sum)."
        )
    P = as_columns(P, found, "proba")
    y = check_labels(y_true, "y_true")
    check_lengths(y, P, "y_true", "y_proba")
    w = check_weight(sample_weight, P.shape[0])
    code, classes = encode_labels(y, P.shape[1], labels, name="y_true", argument="labels")
    P, code, w = drop_weightless(P, code, w)
    return Predictions(P, code, w, classes)


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
