"""Match the columns of a frame with labels by the names of the columns.

A name is the label itself, or contains the label in the form of all other names: ``cat, dog``,
``prob_cat, prob_dog``, ``P(cat), P(dog)``. Numbers are compared as numbers. Case is ignored unless
some labels differ only in case.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from os.path import commonprefix
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skcalib._validation.keywords import short_repr

# Known texts before and after the label in a column name. A frame may also have other columns.
# Other texts around the labels are accepted only if all names contain the texts.
PLAIN = ("", "")
FORMS = [
    *((before, "") for before in ("prob_", "p_", "proba_", "logit_")),
    *(("", after) for after in ("_prob", "_p", "_proba", "_logit")),
    *((before, ")") for before in ("P(", "p(")),
]
NUMBER = re.compile(r"([+-]?\d+)(?:\.0*)?")
NUMBERS_WITHIN = re.compile(r"\d+(?:\.0+)?|true|false", re.IGNORECASE)
# Words that the name of a single column may contain besides the label, such as class_0, Prob(0) and
# probability_of_class_0, and the characters between words.
WORD = "(?:p|pr|prob|probs|proba|probability|logit|score|scores|pred|predicted|class|label|of|is|y)"
BETWEEN = r"(?:[^\w-]|_)"
# Largest distance from 1 of the sum of probabilities that were rounded to two decimals.
SUM_TOLERANCE = 1e-2 + 1e-6

Form = tuple[str, str]


class NamedColumns(NamedTuple):
    """Columns of a frame that are named after the class labels.

    ``order (K,)`` is the index of the column of each class, ``classes (K,)`` are the labels, and
    ``rest`` are the indices of the columns that are not named after a label.
    """

    order: NDArray[np.intp]
    classes: NDArray[Any]
    rest: list[int]


def column_names(X: Any) -> list[Any] | None:
    """Return the column names of a frame, or None for default names such as 0, 1, 2."""
    if isinstance(X, np.ndarray) or not hasattr(X, "columns"):
        return None
    names = list(X.columns)
    if names == [f"column_{j}" for j in range(len(names))]:  # the default names of polars
        return None
    counted = type(X.columns).__name__ == "RangeIndex" and names == list(range(len(names)))
    return None if counted else names


class _Reader:
    """Reader that finds class labels in column names; with `fold`, case is ignored.

    ``keys`` are the labels as they are compared with names, in the given order.
    """

    def __init__(self, names: Iterable[Any], labels: Sequence[Any], fold: bool) -> None:
        self.words = isinstance(labels[0], str | bytes)
        self.truth = isinstance(labels[0], bool)
        folded = str.casefold if fold else str
        self.names = [_text(name) for name in names]
        self.texts = [folded(name) for name in self.names]
        self.keys: list[Any] = [folded(_text(v)) if self.words else int(v) for v in labels]
        self.listed = list(dict.fromkeys((folded(a), folded(b)) for a, b in FORMS))

    def read(self, text: str) -> Any:
        """Return the class label that a text represents, or None if the text is not a label."""
        if self.words:
            return text if text or "" in self.keys else None
        if self.truth and text.casefold() in ("true", "false"):
            return int(text.casefold() == "true")
        number = NUMBER.fullmatch(text)
        if number is None or (self.truth and int(number[1]) not in (0, 1)):
            return None
        return int(number[1])

    def columns(self, form: Form) -> dict[int, Any]:
        """Return the label of each column whose name is a label between the two texts `form`."""
        before, after = form
        labels = {
            j: self.read(text[len(before) : len(text) - len(after)])
            for j, text in enumerate(self.texts)
            if text.startswith(before) and text.endswith(after)
        }
        return {j: label for j, label in labels.items() if label is not None}

    def forms_within(self) -> set[Form]:
        """Return the pairs of texts that occur in column names around the longest label."""
        longest = max(self.keys, key=lambda key: len(str(key)))
        pattern = re.compile(re.escape(longest)) if self.words else NUMBERS_WITHIN
        forms = set()
        for text in self.texts:
            for match in pattern.finditer(text):
                for start in (match.start(), match.start() - 1):  # the number without or with sign
                    sign = start == match.start() or text[max(start, 0)] in "+-"
                    if start >= 0 and sign and self.read(text[start : match.end()]) == longest:
                        forms.add((text[:start], text[match.end() :]))
        return forms


def _text(name: Any) -> str:
    """Return a column name or a label as text; write whole numbers without decimals."""
    if isinstance(name, bytes):
        return name.decode()
    return str(int(name)) if isinstance(name, float) and name.is_integer() else str(name)


def _short(text: str) -> str:
    """Shorten a column name to at most 40 characters for an error message."""
    line = " ".join(text.split())
    return line if len(line) <= 40 else f"{line[:37]}..."


def match_names(
    names: Sequence[Any],
    labels: NDArray[Any],
    complete: bool,
    what: str,
    way: str = "pass an array with the columns in the order of the sorted labels",
    values: Callable[[int], NDArray[Any]] | None = None,
) -> NamedColumns | None:
    """Match the names of columns with the class labels.

    Parameters
    ----------
    names : sequence
        Names of the columns.
    labels : ndarray of shape (m,)
        Distinct labels. With `complete`, the labels of all classes, in the required order.
        Otherwise, the sorted labels that occur in the data; other names of the same form are then
        labels of classes without rows.
    complete : bool
        Whether `labels` has every class.
    what, way : str
        Name of the argument, and an alternative to naming the columns, for messages.
    values : callable, default=None
        ``values(j)`` returns the values of column j. If names are nothing but string labels, every
        name could be a label. The values then distinguish the scores of a class without rows from
        other numbers. Without `values`, such columns are not used.

    Returns
    -------
    columns : NamedColumns or None
        None if the names contain no labels.

    Raises
    ------
    ValueError
        If the names contain some, but not all, of the labels, or one of them several times.
    """
    known = labels.tolist()
    for fold in (False, True):
        reader = _Reader(names, known, fold)
        if len(set(reader.keys)) < len(known):
            break  # do not ignore case, because some labels differ only in case
        match = _find_form(reader, what)
        if match is not None:
            return _classes(*match, reader, labels, complete, what, values)
    _refuse_some(reader, known, what, way)
    return None


def _find_form(reader: _Reader, what: str) -> tuple[dict[int, Any], Form] | None:
    """Find the common text before and after the labels in names that contain all labels.

    Return the labels by column index, and the form (text before, text after); None if there is no
    such form.
    """
    for forms in ([PLAIN], reader.listed, None):
        tried = reader.forms_within() - {PLAIN, *reader.listed} if forms is None else forms
        full = []
        for form in tried:
            own = reader.columns(form)
            # If there is only one label, other column names may end with this label by chance.
            chance = forms is None and len(reader.keys) == 1 and len(own) < len(reader.names)
            if set(reader.keys) <= set(own.values()) and not chance:
                full.append((own, form))
        if len(full) > 1:
            twice = [[reader.texts[j] for j in own] for own, _ in full[:2]]
            raise ValueError(
                f"{what}: both {short_repr(twice[0])} and {short_repr(twice[1])} are named after "
                "the labels; pass only one of these sets of columns."
            )
        if full:
            return full[0]
    return None


def _classes(
    own: dict[int, Any],
    form: Form,
    reader: _Reader,
    labels: NDArray[Any],
    complete: bool,
    what: str,
    values: Callable[[int], NDArray[Any]] | None,
) -> NamedColumns:
    """Return the columns in the order of the classes, including classes without rows."""
    texts = reader.names
    keys = set(reader.keys)
    known = [j for j, label in own.items() if label in keys]
    others = [] if complete else [j for j, label in own.items() if label not in keys]
    if form == PLAIN and reader.words and others:
        others = [] if values is None else _are_classes(known, others, values)
    column_of: dict[Any, int] = {}
    for j in [*known, *others]:
        first = column_of.setdefault(own[j], j)
        if first != j:
            raise ValueError(
                f"{what}: columns {first} and {j} are named after one label ({texts[first]!r}, "
                f"{texts[j]!r}); pass one of them."
            )
    order = [column_of[key] for key in reader.keys]
    if others:
        before, after = map(len, form)
        ends = [texts[j][before : len(texts[j]) - after] for j in others]
        absent = ends if reader.words else [own[j] for j in others]
        known_labels = map(_text, labels.tolist()) if reader.words else labels.tolist()
        both = sorted(zip([*known_labels, *absent], [*order, *others], strict=True))
        order = [j for _, j in both]
        # The string dtype of the labels that occur in rows may be too short for the other labels.
        dtype = labels.dtype.kind if labels.dtype.kind in "US" else labels.dtype
        labels = np.array([label for label, _ in both], dtype=dtype)
    rest = sorted(set(range(len(texts))) - set(order))
    return NamedColumns(np.array(order, dtype=np.intp), labels, rest)


def _are_classes(
    order: list[int], others: list[int], values: Callable[[int], NDArray[Any]]
) -> list[int]:
    """Return which of the `others`, unmatched columns, may be scores of classes without rows."""
    named = [values(j) for j in order]
    if any(column.dtype.kind not in "fiub" for column in named):
        return []  # a later check refuses values that are not numbers
    total = np.sum(named, axis=0, dtype=np.float64)
    if (np.abs(total - 1.0) <= SUM_TOLERANCE).all():  # sums of 1: every class has a column
        return [j for j in others if (values(j) == 0).all()]
    are_integers = all(column.dtype.kind in "iub" for column in named)
    return [j for j in others if are_integers or values(j).dtype.kind == "f"]


def _refuse_some(reader: _Reader, known: list[Any], what: str, way: str) -> None:
    """Refuse column names that contain some of the labels, but not all."""
    shared = commonprefix(reader.texts)  # noqa: RUF071  # a prefix of characters, not of a path
    ends = commonprefix([text[::-1] for text in reader.texts])[::-1]  # noqa: RUF071
    forms = {PLAIN, *reader.listed}
    if reader.words:
        forms |= {(shared[:i], "") for i in range(len(shared) + 1)}
        forms |= {("", ends[i:]) for i in range(len(ends))}
    keys = set(reader.keys)
    most = max((keys.intersection(reader.columns(f).values()) for f in sorted(forms)), key=len)
    if most:
        lost = next(label for label, key in zip(known, reader.keys, strict=True) if key not in most)
        listed = ", ".join(map(_short, reader.names[:12]))
        listed += ", ..." if len(reader.names) > 12 else ""
        raise ValueError(
            f"{what}: label {lost!r} has no column, but other labels have columns ({listed}); name "
            f"every column after its label, or {way}."
        )


def check_event_name(X: Any, classes: NDArray[Any], column: int, what: str, way: str) -> None:
    """Refuse a single column that is named after the other class, not the event."""
    names = column_names(X) if hasattr(X, "columns") else [getattr(X, "name", None)]
    if names is None or len(names) != 1 or names[0] is None:
        return
    reader = _Reader(names, classes.tolist(), True)
    label = re.escape(str(reader.keys[1 - column])) + ("" if reader.words else r"(?:\.0*)?")
    if reader.truth:
        label += f"|{str(column == 0).casefold()}"
    # Labels that are words need a separator before them (class_no), labels that are numbers do not
    # (class0).
    between = f"{BETWEEN}{'+' if reader.words else '*'}"
    form = f"(?:{WORD}{between})*(?:{label})(?:{between}{WORD})*{BETWEEN}*"
    if re.fullmatch(form, reader.texts[0]):
        raise ValueError(
            f"{what} is one column with the name {names[0]!r}, but has to contain the scores "
            f"of {classes.tolist()[column]!r}: {way}."
        )
