"""Several labels for a row: an indicator matrix as the rows of one binary problem."""

from __future__ import annotations

import numbers
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skcalib._arrays.rowwise import Bools, Float64Array, FloatArray, Intp
from skcalib._validation.labels import name_columns
from skcalib._validation.named_columns import column_names
from skcalib._validation.rows import check_lengths, read_weight
from skcalib._validation.scores import as_matrix, from_tensor, naming_errors_of, read_frame
from skcalib._validation.survey import refuse_labels

# An indicator matrix Y (n, L) contains 1 if a row has a label, and 0 if not. In long form, each
# entry of Y is a row of a binary problem: its score, its code 0 or 1, and the index of its label.
# The entries of a label are consecutive. Unknown entries have no row.


# Integer matrices often mark an unknown entry by this number.
UNKNOWN = -1


class LongForm(NamedTuple):
    """Rows of a binary problem, with a row for each known entry of an indicator matrix.

    ``score (m,)`` is the score of each entry, ``code (m,)`` is 0 or 1, ``label (m,)`` and
    ``row (m,)`` are its column and row in the matrix, ``w (m,)`` are the weights, which may be
    None, ``names (L,)`` are the labels of the columns, and ``n_rows`` is n.
    """

    score: FloatArray
    code: Intp
    label: Intp
    row: Intp
    w: NDArray[Any] | None
    names: NDArray[Any]
    n_rows: int

    @contextmanager
    def naming_entries(self) -> Iterator[None]:
        """Replace the row of the long form by the row and the label in error messages."""

        def entry(match: re.Match[str]) -> str:
            i = int(match[1])
            return f"row {self.row[i]} of label {self.names.tolist()[self.label[i]]!r}"

        try:
            yield
        except ValueError as error:
            raise ValueError(re.sub(r"\brow (\d+)", entry, str(error))) from error


def read_long_form(
    X: Any, y: Any, sample_weight: Any, ignore_index: Any, names: tuple[str, str] = ("X", "y")
) -> LongForm:
    """Convert scores and an indicator matrix, both ``(n, L)``, to the rows of a binary problem.

    Columns of frames are matched by name. `names` are the names of the arguments in messages.
    """
    Y = _read_entries(y, names[1])
    n = len(Y)
    columns = _names_of(Y, y, X)
    S = read_columns(X, columns, names[0])
    check_lengths(Y, len(S), names[1], names[0])
    w = None if sample_weight is None else read_weight(sample_weight, n)
    known = _are_known(Y, ignore_index) & (True if w is None else (w > 0)[:, None])
    _refuse_other_values(np.where(known, Y, 0), columns, names[1])
    if not known.any():
        raise ValueError(f"{names[1]}: every entry is unknown; no row is left.")
    label, row = np.nonzero(known.T)
    code = Y[row, label].astype(np.intp)
    return LongForm(S[row, label], code, label, row, None if w is None else w[row], columns, n)


def read_indicator(y: Any, unknown: bool) -> tuple[NDArray[Any], NDArray[Any]] | None:
    """Return an indicator matrix of several labels and the names of its columns, or None.

    Returns None for one-hot labels, and for labels that are not a matrix of 0, 1 and unknown
    entries. Unknown entries become NaN, and are refused unless `unknown` is true. A matrix without
    unknown entries contains integers.
    """
    shape = np.shape(y[:1]) if isinstance(y, list) else getattr(y, "shape", ())
    if not isinstance(shape, tuple) or len(shape) != 2 or shape[1] < 2 or not shape[0]:
        return None
    Y = _read_entries(y, "y")
    known = _are_known(Y, None)
    one_hot = known.all() and (Y.sum(axis=1) == 1).all()
    if one_hot or not np.isin(Y[known], (0, 1)).all() or not known.any():
        return None
    if not (unknown or known.all()):
        row = int(known.all(axis=1).argmin())
        raise ValueError(
            f"y has an unknown entry at row {row}: freeze a fitted estimator, or drop the row."
        )
    return (Y.astype(np.intp) if known.all() else np.where(known, Y, np.nan)), _names_of(Y, y)


def all_entries(S: FloatArray, names: NDArray[Any]) -> LongForm:
    """Return the long form of all scores ``(n, L)``, with codes of 0."""
    n, L = S.shape
    label, row = np.repeat(np.arange(L), n), np.tile(np.arange(n), L)
    return LongForm(S.T.ravel(), np.zeros_like(row), label, row, None, names, n)


def read_columns(X: Any, labels: NDArray[Any], name: str = "X", classes: Any = None) -> FloatArray:
    """Return scores ``(n, L)`` with a column for each label.

    Columns of a frame are read by name. A list of L arrays, which forests return, contains the
    probabilities of 0 and 1 of each label, or only of its `classes`.
    """
    if isinstance(X, list | tuple) and len(X) and np.ndim(X[0]) == 2:
        parts = [np.asarray(from_tensor(name, part)) for part in X]
        values = [[0, 1]] * len(parts) if classes is None else classes
        if [part.shape[1] for part in parts] != [len(known) for known in values]:
            raise ValueError(
                f"{name} is a list of {len(X)} arrays: pass an array (n, 2) for each label, or a "
                "matrix (n, L)."
            )
        pairs = zip(parts, values, strict=True)
        X = np.column_stack([part[:, -1] * (known[-1] == 1) for part, known in pairs])
    X, _, _ = name_columns(X, labels, labels, name=name, argument="the labels")
    S = as_matrix(X, name)
    if ((S == 0) | (S == 1)).all():
        refuse_labels(X, name)
    if S.shape[1] != labels.size:
        raise ValueError(
            f"{name} has shape {S.shape}, but the number of labels is {labels.size}: pass a column "
            "for each label."
        )
    return S


def _names_of(Y: Float64Array, *frames: Any) -> NDArray[Any]:
    """Return the names of L columns in the first of the frames that has them, or 0 to L - 1."""
    named = [column_names(read_frame(frame)) or [] for frame in frames]
    L = Y.shape[1]
    return np.asarray(next((names for names in named if len(names) == L), range(L)))


def _read_entries(y: Any, name: str) -> Float64Array:
    """Return an indicator matrix as float64, with NaN for missing entries."""
    y = read_frame(from_tensor(name, y), name)
    advice = "pass a matrix (n, L) of 0 and 1, with a column for each label"
    with naming_errors_of(name, y, advice):
        if hasattr(y, "iloc"):
            y = y.to_numpy(dtype=np.float64, na_value=np.nan)
        array = np.asarray(y.toarray() if hasattr(y, "tocsr") else y)
        Y = array.astype(np.float64)
    if array.ndim not in (1, 2) or not array.size or array.dtype.kind not in "biufO":
        raise ValueError(f"{name} has shape {array.shape} and dtype {array.dtype}; {advice}.")
    return Y[:, None] if Y.ndim == 1 else Y


def _are_known(Y: Float64Array, ignore_index: Any) -> Bools:
    """Return which entries are known: neither NaN nor `ignore_index`.

    If `ignore_index` is None, -1 is unknown if 0 occurs too. Without 0, -1 could mean "no".
    """
    if not isinstance(ignore_index, numbers.Number | None):
        raise ValueError(f"ignore_index={ignore_index!r} is not a number; pass one, such as -1.")
    known = ~np.isnan(Y)
    if ignore_index is None and (Y == 0).any():
        ignore_index = UNKNOWN
    return known if ignore_index is None else known & (ignore_index != Y)


def _refuse_other_values(Y: Float64Array, labels: NDArray[Any], name: str) -> None:
    """Refuse entries other than 0 and 1."""
    wrong = (Y != 0) & (Y != 1)
    if not wrong.any():
        return
    row, column = np.unravel_index(wrong.argmax(), Y.shape)
    value = float(Y[row, column])
    way = "pass 0 or 1 for each label, and NaN or ignore_index= if an entry is unknown"
    if value == UNKNOWN:
        way = f"pass {name} == 1 if -1 means no, or ignore_index=-1 if it means unknown"
    elif 0 < value < 1:
        way = "were labels and probabilities exchanged?"
    raise ValueError(
        f"{name} has {value:.6g} at row {row} of label {labels.tolist()[column]!r}: {way}."
    )
