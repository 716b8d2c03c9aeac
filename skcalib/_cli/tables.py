"""Predictions in tables: ``.csv``, ``.tsv`` and ``.jsonl``, also with ``.gz``, and ``.parquet``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import IO, TYPE_CHECKING, Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from skcalib._cli.saved_predictions import (
    JSON_LINES,
    SEPARATORS,
    SavedPredictions,
    Wanted,
    names_found,
    read_test_rows,
    some_of,
)
from skcalib._validation.labels import check_labels
from skcalib._validation.named_columns import match_names

if TYPE_CHECKING:
    import pandas as pd

# The way out of names that say some of the labels only.
BY_OPTION = "name them by --scores in the order of the sorted labels"
# What to do about a column that is none of the scores.
NOT_SCORES = "name the columns of scores by --scores, or this one by --id"


def read_table(source: str | IO[bytes], suffix: str, wanted: Wanted) -> SavedPredictions:
    """Read the table of a path, or of a text, whose ending says what it is."""
    import pandas as pd  # late: only tables need it

    gz: Any = "gzip" if suffix.endswith(".gz") else None
    try:
        if suffix == ".parquet":
            frame = pd.read_parquet(source)
        elif suffix in JSON_LINES:
            frame = pd.read_json(source, lines=True, compression=gz, dtype=False)
        else:
            frame = pd.read_csv(source, sep=SEPARATORS[suffix], compression=gz)
    except ImportError as error:
        raise ValueError(
            "reading .parquet needs pyarrow: pip install pyarrow, or save as .npz or .csv"
        ) from error
    except UnicodeDecodeError as error:
        raise ValueError("not text in UTF-8: save the table as UTF-8") from error
    except pd.errors.EmptyDataError as error:
        raise ValueError(
            "is empty: save a header, such as labels,0,1,2, and a line for each row"
        ) from error
    # The index that DataFrame.to_csv writes has no name.
    unnamed = [name for name in frame.columns[:1] if str(name).startswith("Unnamed: 0")]
    return from_frame(frame.drop(columns=unnamed), wanted)


class Named(NamedTuple):
    """The columns of labels and split, None where there is none, and those of scores."""

    labels: str | None
    split: str | None
    scores: list[str]


def name_table(there: Sequence[str], wanted: Wanted) -> Named:
    """Say which columns are labels, split and scores."""
    if all(map(_is_number, there)) and not all(map(str.isdecimal, there)):
        raise ValueError(
            "the first line has numbers only, and no names: write a header, such as labels,0,1,2"
        )
    if len(there) == 1 and any(mark in there[0] for mark in ";|\t,"):
        raise ValueError(
            f"has one column, {there[0]!r}: .csv has commas between columns, .tsv tabs"
        )
    labels, split = names_found(there, wanted, wanted.scores or ())
    others = (labels, split, *wanted.groups, *wanted.ids)
    left = [name for name in there if name not in others]
    scores = left if wanted.scores is None else list(wanted.scores)
    if not scores:
        raise ValueError(f"has no column of scores; it contains {some_of(there)}")
    return Named(labels, split, scores)


def from_frame(frame: pd.DataFrame, wanted: Wanted) -> SavedPredictions:
    """Take scores, labels, split, groups and ids from a frame."""
    frame.columns = frame.columns.astype(str)
    named = name_table(list(frame.columns), wanted)
    if not len(frame):
        raise ValueError("has a header and no rows")
    test = None if named.split is None else read_test_rows(frame[named.split].to_numpy())
    for name in named.scores:
        if frame[name].dtype.kind not in "fiub":
            refuse_text(name, str(frame[name].iloc[0]))
    groups = frame[list(wanted.groups)] if wanted.groups else None
    ids = frame[list(wanted.ids)] if wanted.ids else None
    y = None if named.labels is None else frame[named.labels].to_numpy()
    columns, own = in_order_of_labels(named, y, wanted)
    if own is None:
        refuse_running_number(frame, columns)
    return SavedPredictions(_matrix(frame, columns), "auto", y, test, own, columns, groups, ids)


def refuse_text(name: str, text: str) -> NoReturn:
    """Refuse a column of scores by the text that its first row contains."""
    decimal = re.fullmatch(r"-?\d+,\d+", text)
    way = "write decimal points in place of commas" if decimal else NOT_SCORES
    raise ValueError(f"column {name!r} is not of numbers (row 0 has {text!r}): {way}")


def in_order_of_labels(
    named: Named, y: NDArray[Any] | None, wanted: Wanted
) -> tuple[list[str], NDArray[Any] | None]:
    """Return the columns of scores in their order, and their labels if the names say them."""
    found = _columns_by_label(named.scores, y, wanted.classes, wanted.scores is not None)
    return (named.scores, None) if found is None else found


def _matrix(frame: pd.DataFrame, columns: Sequence[str]) -> NDArray[Any]:
    values = frame[list(columns)].to_numpy(dtype=np.float64)
    return values[:, 0] if len(columns) == 1 else values


def _is_number(name: str) -> bool:
    try:
        float(name)
    except ValueError:
        return False
    return True


def refuse_running_number(frame: pd.DataFrame, columns: Sequence[str]) -> None:
    """Refuse a column 0, 1, 2, ... or 1, 2, 3, ...: it contains numbers of rows, not scores."""
    for name in columns if len(frame) > 2 else ():
        if (frame[name].diff().iloc[1:] == 1).all():
            raise ValueError(f"column {name!r} numbers the rows: {NOT_SCORES}")


def _columns_by_label(
    columns: Sequence[str],
    labels: NDArray[Any] | None,
    classes: NDArray[Any] | None,
    chosen: bool,
) -> tuple[list[str], NDArray[Any]] | None:
    """Order columns that are named by the labels, such as ``cat`` or ``p_cat``, by label.

    Names that say some of the labels only are refused, unless the caller has `chosen` them.
    """
    if len(columns) < 2:
        return None
    known = classes
    if known is None:
        assert labels is not None
        known = np.unique(check_labels(labels, "y"))
        if known.dtype.kind == "f":
            return None
    try:
        found = match_names(columns, known, classes is not None, "scores", BY_OPTION)
    except ValueError:
        if not chosen:
            raise
        return None
    return None if found is None else ([columns[i] for i in found.order], found.classes)


def write_table(file: IO[bytes], suffix: str, frame: pd.DataFrame) -> None:
    """Write a frame as text or as ``.parquet``."""
    if suffix in JSON_LINES:
        frame.to_json(file, orient="records", lines=True, double_precision=15)
        return
    if suffix != ".parquet":
        frame.to_csv(file, index=False, sep=SEPARATORS.get(suffix, ","))
        return
    try:
        frame.to_parquet(file, index=False)
    except ImportError as error:
        raise ValueError(
            "writing .parquet needs pyarrow: pip install pyarrow, or write .npz or .csv"
        ) from error
