"""Predictions in tables: ``.csv``, ``.tsv`` and ``.jsonl``, also with ``.gz``, and ``.parquet``."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from typing import IO, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skcalib._cli.saved_predictions import (
    JSON_LINES,
    LABELS,
    SEPARATORS,
    SavedPredictions,
    named_by,
    names_among,
    read_rows,
    some_of,
)
from skcalib._validation.keywords import shown
from skcalib._validation.labels import binary_classes, check_labels
from skcalib._validation.named_columns import check_event_name, match_names

# The way out if it is not clear which columns are the scores.
BY_OPTION = "name the columns of scores by --scores a,b,c, in the order of the sorted labels"
OTHER_EVENT = "pass --pos-label with its label, or name another column by --scores"
NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?", re.IGNORECASE)
# What stands for a missing number.
MISSING = ("", "NA", "N/A", "NaN", "nan", "null", "None")


def read_table(
    source: str | IO[bytes], suffix: str, args: argparse.Namespace, classes: NDArray[Any] | None
) -> SavedPredictions:
    """Read the table of a path, or of a text, whose ending says what it is.

    `classes` are those of a calibrator; None means those of the labels.
    """
    compression: Any = "gzip" if suffix.endswith(".gz") else None
    try:
        if suffix == ".parquet":
            frame = pd.read_parquet(source)
        elif suffix in JSON_LINES:
            frame = pd.read_json(source, lines=True, compression=compression, dtype=False)
        else:
            frame = read_text(source, SEPARATORS[suffix], compression, args)
    except UnicodeDecodeError as error:
        raise ValueError("not text in UTF-8: save the table as UTF-8") from error
    except pd.errors.EmptyDataError as error:
        raise ValueError(
            "is empty: save a header, such as labels,0,1,2, and a line for each row"
        ) from error
    # The index that DataFrame.to_csv writes has no name.
    unnamed = [name for name in frame.columns[:1] if str(name).startswith("Unnamed: 0")]
    return from_frame(frame.drop(columns=unnamed), args, classes)


def read_text(
    source: str | IO[bytes], separator: str, compression: Any, args: argparse.Namespace
) -> pd.DataFrame:
    """Read a text with a header; labels, groups and ids stay as they are written."""
    how: dict[str, Any] = {"sep": separator, "compression": compression}
    header = pd.read_csv(source, nrows=0, **how).columns
    if not isinstance(source, str):
        source.seek(0)
    texts = {*LABELS, *args.groups, *args.id, args.labels, args.clusters}.intersection(header)
    frame = pd.read_csv(
        source,
        dtype=dict.fromkeys(texts, str),
        keep_default_na=False,
        na_values={name: MISSING for name in header if name not in texts},
        **how,
    )
    for name in texts:
        frame[name] = as_written(frame[name])
    return frame


def as_written(texts: pd.Series[Any]) -> NDArray[Any]:
    """Return numbers if the texts are numbers in their usual form; "001" and "NA" stay texts."""
    code, distinct = texts.factorize()
    known: Any = pd.Series(np.asarray(distinct), dtype=object)
    if known.str.fullmatch(r"-?(0|[1-9]\d*)(\.\d+)?").all():
        known = known.astype(float if known.str.contains(".", regex=False).any() else int)
    elif known.str.lower().isin(("true", "false")).all():
        known = known.str.lower() == "true"
    else:
        known = known.where(known != "", None)
    return known.to_numpy()[code]


def from_frame(
    frame: pd.DataFrame, args: argparse.Namespace, classes: NDArray[Any] | None
) -> SavedPredictions:
    """Take scores, labels, split, groups and ids from a frame; say what else it contains."""
    frame.columns = frame.columns.astype(str)
    there = list(frame.columns)
    if all(map(NUMBER.fullmatch, there)) and not all(map(str.isdecimal, there)):
        raise ValueError(
            "the first line has numbers only, and no names: write a header, such as labels,0,1,2"
        )
    if len(there) == 1 and any(mark in there[0] for mark in ";|\t,"):
        raise ValueError(
            f"has one column, {there[0]!r}: .csv has commas between columns, .tsv tabs"
        )
    names = names_among(there, args, args.scores)
    if not len(frame):
        raise ValueError("has a header and no rows")
    if classes is None:
        classes = np.unique(check_labels(frame[names.labels].to_numpy(), "y"))
    others = [name for name in there if name not in named_by(names)]
    columns, labels = find_scores(frame, args.scores or others, bool(args.scores), classes)
    refuse_text(frame[columns])
    known = binary_classes(classes) if args.pos_label is None else classes
    if len(columns) == 1 and known is not None and known.size == 2:
        event = int(str(known.tolist()[0]) != args.pos_label)
        check_event_name(frame[columns], known, event, "scores", OTHER_EVENT)
    scores = frame[columns].to_numpy(dtype=np.float64)
    return read_rows(
        scores[:, 0] if len(columns) == 1 else scores,
        names,
        lambda name: frame[name].to_numpy(),
        [name for name in others if name not in columns],
        input="auto",
        classes=labels,
        columns=columns,
    )


def find_scores(
    frame: pd.DataFrame, names: Sequence[str], chosen: bool, classes: NDArray[Any]
) -> tuple[list[str], NDArray[Any] | None]:
    """Return the columns of scores in their order, and their labels if the names say them.

    They are those that are named by the labels, or else those that are chosen, or all numbers.
    """
    columns = None
    try:
        if len(names) > 1:
            columns = match_names(names, classes, False, "scores", BY_OPTION)
    except ValueError:  # named by some of the labels
        if not chosen:
            raise
    if columns is not None and not (chosen and columns.rest):
        return [names[j] for j in columns.order], columns.classes
    if chosen:
        return list(names), None
    numbers = [name for name in names if frame[name].dtype.kind in "fiub"]
    if len(numbers) == classes.size or (len(numbers) == 1 and classes.size < 3):
        if not are_scores(frame[numbers].to_numpy(np.float64), len(numbers) == len(names)):
            raise ValueError(
                f"which column is the score? {some_of(numbers)}: named by no label, not clearly "
                "probabilities or logits: name it by --scores NAME, several by --scores a,b,c"
            )
        return numbers, None
    if len(numbers) < classes.size:
        refuse_text(frame[list(names)])
    listed = f" ({some_of(numbers)})" if numbers else ""
    raise ValueError(
        f"has {len(numbers)} columns of numbers{listed} for the {classes.size} "
        f"label{'s' * (classes.size > 1)} {shown(classes.tolist())}, and none is named by a label: "
        f"{BY_OPTION}"
    )


def are_scores(values: NDArray[np.float64], are_all: bool) -> bool:
    """Whether columns that no label names can be scores: probabilities, or logits of one scale.

    Identifiers, years and percentages are whole numbers of which none is negative. `are_all` says
    that the table has no other columns; only then they are logits.
    """
    values = values[np.isfinite(values).all(axis=1)]
    whole = (values == np.rint(values)).all(axis=0) & (values >= 0).all(axis=0)
    if values.shape[1] == 1 or not values.size or np.abs(values - 0.5).max() <= 0.51:
        return not whole.all() or not values.size
    sizes = np.abs(values).max(axis=0)
    return are_all and not whole.any() and values.min() < 0 and sizes.max() <= 10 * sizes.min()


def refuse_text(frame: pd.DataFrame) -> None:
    """Refuse columns of scores that are not numbers, by the first row that is none."""
    text = [name for name in frame if frame[name].dtype.kind not in "fiub"]
    if not text:
        return
    first, pairs = [], []
    for name in text:
        are_none = pd.to_numeric(frame[name].astype(str), errors="coerce").isna()
        row = int((are_none & frame[name].notna()).argmax())
        first.append(str(frame[name].iloc[row]))
        pairs.append(f"{name!r} ({first[-1]!r} in row {row})")
    way = f"write numbers, or {BY_OPTION}"
    if any(re.fullmatch(r"-?\d+,\d+", value) for value in first):
        way = "write decimal points in place of commas"
    elif any(re.fullmatch(r"[\d.]+ ?%", value) for value in first):
        way = "write shares, such as 0.25 in place of 25%"
    raise ValueError(f"not numbers: {some_of(pairs)}: {way}")
