"""Read saved predictions from tables and arrays."""

from __future__ import annotations

import argparse
import re
import zipfile
from collections.abc import Callable, Sequence
from copy import copy
from pathlib import Path
from tokenize import TokenError
from typing import IO, Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skcalib.extending import (
    binary_classes,
    check_event_name,
    check_labels,
    match_names,
    short_repr,
)

# The contents of a file of predictions, and the endings of supported formats.


# Endings of text files with the separators of their columns.
SEPARATORS = {".csv": ",", ".tsv": "\t", ".csv.gz": ",", ".tsv.gz": "\t"}
JSON_LINES = (".jsonl", ".jsonl.gz")
ARRAYS = (".npz", ".npy")
SUFFIXES = (*SEPARATORS, *JSON_LINES, *ARRAYS, ".parquet")
# Endings of the files of predictions that the commands read. The commands do not write predictions
# to .json and .xlsx files.
READ = (*SUFFIXES, ".json", ".xlsx")
# Default names of the column or array of labels.
LABELS = ("label", "labels", "y", "y_true", "target")
# Name of the column of labels in files without a column named label, labels, y, y_true or target.
OUTCOME = "correct"
# Default names of a single column of scores, and names of columns that do not contain scores.
SCORES = ("confidence", "probability", "prob", "proba", "p", "risk", "score", "prediction")
NO_SCORES = ("id", "index", "row")
# Commands for files that need no labels.
WITHOUT_LABELS = ("apply", "plan")
# The name of a file that means standard input or standard output.
STREAM = "-"
# Values in the column `split` that mark calibration rows or test rows.
CALIBRATION = {"cal", "calib", "calibration", "val", "valid", "validation", "dev", "0", "false"}
TEST = {"test", "testing", "eval", "evaluation", "holdout", "1", "true"}

# Type of a function that reads an array or column by its name.
Read = Callable[[str], NDArray[Any]]


class SavedPredictions(NamedTuple):
    """The contents of a file of predictions.

    ``scores (n, K)`` or ``(n,)`` and ``labels (n,)``, or soft labels ``(n, K)`` of a decision log;
    ``input`` is the kind of the scores, as for a calibrator; ``test (n,)`` marks the test rows;
    ``classes`` are the labels of the columns, if the file has them; ``columns`` are the names of
    the columns of scores; ``groups`` and ``ids`` are frames with the columns of these options;
    ``weights (n,)`` are counts or relative weights; ``clusters (n,)`` are labels of clusters;
    ``unused`` are the names of all other columns or arrays; ``records`` are the JSON objects of a
    decision log. A part that the file does not contain is None.
    """

    scores: NDArray[Any]
    input: str
    labels: NDArray[Any] | None
    test: NDArray[np.bool_] | None
    classes: NDArray[Any] | None
    columns: list[str] | None
    groups: pd.DataFrame | None
    ids: pd.DataFrame | None
    weights: NDArray[Any] | None
    unused: Sequence[str]
    clusters: NDArray[Any] | None = None
    records: list[dict[str, Any]] | None = None

    def measured(self, values: Any) -> Any:
        """Select the values of the test rows, or all values without a split; None stays None."""
        return values if values is None or self.test is None else values[self.test]


def ending(path: str) -> str:
    """Return the ending of a file's name in lower case, such as ``.csv`` or ``.csv.gz``."""
    suffixes = [suffix.lower() for suffix in Path(path).suffixes]
    return "".join(suffixes[-2:] if suffixes[-1:] == [".gz"] else suffixes[-1:])


def names_among(
    there: Sequence[str], args: argparse.Namespace, scores: Sequence[str]
) -> argparse.Namespace:
    """Set the options that name columns, by default to the usual column names in the file.

    Names of columns that do not exist are refused, unless they were saved with the calibrator and
    the calibrator does not need them.
    """
    names, absent = copy(args), set(getattr(args, "optional", ())).difference(there)
    names.id, names.groups = ([n for n in x if n not in absent] for x in (args.id, args.groups))
    for name in (*scores, *named_by(names)):
        if name not in there:
            raise ValueError(f"has no {name!r}; it contains {some_of(there)}")
    usual = [name for name in LABELS if name in there]
    if not usual and OUTCOME in there and args.command != "apply":  # `apply` needs no labels
        usual = [OUTCOME]
    if args.labels is None and len(usual) > 1:
        raise ValueError(
            f"has several columns of labels ({', '.join(usual)}): choose one by --labels NAME"
        )
    if args.labels is None and not usual and args.command not in WITHOUT_LABELS:
        raise ValueError(f"has no 'labels'; it contains {some_of(there)}: pass --labels NAME")
    names.labels = args.labels or next(iter(usual), None)
    names.split = args.split or ("split" if "split" in there else None)
    names.weights = args.weights or ("weights" if "weights" in there else None)
    return names


def named_by(names: argparse.Namespace) -> list[str]:
    """List the columns that the user named by options, such as --weights, except the scores."""
    beside = names.labels, names.split, names.weights, names.clusters
    return [*names.groups, *names.id, *filter(None, beside)]


def read_rows(
    scores: NDArray[Any], names: argparse.Namespace, read: Read, there: Sequence[str], **known: Any
) -> SavedPredictions:
    """Read the labels, split, weights, groups and other columns that the options name.

    `there` are the names of the other arrays or columns of the file, and `known` are the fields of
    `SavedPredictions` that describe the scores: input, classes and columns.
    """
    n_rows = scores.shape[:1]

    def column(name: str | None, what: str) -> Any:
        if name is None:
            return None
        values = read(name)
        if what == "labels" and values.shape == (*n_rows, 1):
            values = values[:, 0]
        if what == "labels" and values.ndim == 2:
            raise ValueError(
                f"labels have shape {values.shape}: write one label for each row, such as "
                "Y.argmax(axis=1)"
            )
        if values.shape != n_rows:
            raise ValueError(
                f"{what} has shape {values.shape}: it must be {n_rows}, with one value for each row"
            )
        return values

    def frame(names: Sequence[str]) -> pd.DataFrame | None:
        if not names:
            return None
        return pd.DataFrame({name: column(name, name) for name in names})

    labels, split = column(names.labels, "labels"), column(names.split, "split")
    return SavedPredictions(
        scores,
        labels=labels,
        test=None if split is None else read_test_rows(split),
        weights=column(names.weights, "weights"),
        clusters=column(names.clusters, "clusters"),
        groups=frame(names.groups),
        ids=frame(names.id),
        unused=[name for name in there if name not in named_by(names)],
        **known,
    )


def some_of(names: Sequence[str]) -> str:
    """Join names by commas, at most the first twelve."""
    return ", ".join(map(str, names[:12])) + (", ..." if len(names) > 12 else "")


def read_test_rows(split: NDArray[Any]) -> NDArray[np.bool_]:
    """Convert a split with words such as "cal" and "test" to a mask of the test rows."""
    empty = np.flatnonzero([value != value or value is None or value == "" for value in split])
    if empty.size:
        raise ValueError(f"split is empty at row {empty[0]}: write 0 or 1 for every row")
    if split.dtype.kind == "f" and (split == np.floor(split)).all():
        split = split.astype(int)
    words = np.char.lower(np.char.strip(split.astype(str)))
    distinct = set(np.unique(words).tolist())
    unknown = distinct - CALIBRATION - TEST
    if unknown:
        raise ValueError(
            f"split contains {sorted(unknown)[0]!r}: write 0 or 'cal' for calibration rows, 1 or "
            "'test' for test rows, and remove rows that the model was fitted on"
        )
    if not distinct & TEST or not distinct & CALIBRATION:
        which = "test" if distinct & TEST else "calibration"
        raise ValueError(
            f"split has only {which} rows: mark calibration rows by 0 and test rows by 1"
        )
    return np.isin(words, list(TEST))


def read_npz(path: str, args: argparse.Namespace) -> SavedPredictions:
    """Read predictions from an .npz file, with arrays such as ``logits`` and ``labels``."""
    if not zipfile.is_zipfile(path):
        raise ValueError("is not an .npz file: save one by np.savez(path, logits=Z, labels=y)")
    # Pickled objects could run code when they are loaded.
    with np.load(path, allow_pickle=False) as data:
        there = list(data)
        kinds = args.scores or [name for name in ("logits", "probs") if name in there]
        if len(kinds) != 1:
            raise ValueError(
                f"must contain either 'logits' or 'probs'; it contains {', '.join(there)}: pass "
                "--scores NAME to choose an array"
            )
        names = names_among(there, args, kinds)

        def read(name: str) -> NDArray[Any]:
            return read_array(data.__getitem__, name, "np.savez")

        name = kinds[0]
        Z = read_scores(read, name)
        named = [key for key in ("classes", "class_names") if key in there][:1]
        classes = read(named[0]) if named else None
        if classes is not None and classes.shape != Z.shape[1:]:
            raise ValueError(
                f"the labels of the columns have shape {classes.shape}, but {name!r} {Z.shape}: "
                "write one label for each column"
            )
        kind = {"logits": "logits", "probs": "proba"}.get(name, "auto")
        others = [key for key in there if key not in (name, *named)]
        rows = read_rows(Z, names, read, others, input=kind, classes=classes, columns=None)
    y = rows.labels
    if classes is None or classes.dtype.kind != "U" or y is None or y.dtype.kind not in "iu":
        return rows
    are_places = y.size and y.min() >= 0 and y.max() < classes.size
    return rows._replace(labels=classes[y]) if are_places else rows


def read_npy(path: str, args: argparse.Namespace) -> SavedPredictions:
    """Read scores from an .npy file; labels and other arrays are in separate .npy files."""
    if args.scores:
        raise ValueError("an .npy file contains only the scores: leave out --scores")
    if args.labels is None and args.command not in WITHOUT_LABELS:
        raise ValueError("an .npy file contains only the scores: pass --labels FILE.npy")

    def read(path: str) -> NDArray[Any]:
        return read_array(lambda name: np.load(name, allow_pickle=False), path, "np.save")

    Z = read_scores(read, path)
    return read_rows(Z, args, read, [], input="auto", classes=None, columns=None)


def read_scores(read: Callable[[str], NDArray[Any]], name: str) -> NDArray[Any]:
    """Read an array of scores, and check its shape and type."""
    Z = read(name)
    if Z.ndim not in (1, 2) or Z.dtype.kind not in "fiub":
        raise ValueError(
            f"{name!r} must be numbers of shape (n, K) or (n,); it is {Z.dtype} of shape {Z.shape}"
        )
    return Z


def read_array(load: Callable[[str], Any], name: str, save: str) -> NDArray[Any]:
    """Load an array, refuse pickled objects, and turn bytes into text."""
    try:
        values = np.asarray(load(name))
    except (EOFError, SyntaxError, TokenError) as error:  # numpy parses the file's header as Python
        raise ValueError(f"{name!r} is damaged: save it again by {save}") from error
    except ValueError as error:
        if "allow_pickle" not in str(error) and "Python objects" not in str(error):
            raise
        raise ValueError(
            f"{name!r} contains pickled objects, which could run code: save it with a plain dtype, "
            "such as np.asarray(values, dtype=str) or dtype=int"
        ) from error
    return values.astype(str) if values.dtype.kind == "S" else values


# Predictions in tables: ``.csv``, ``.tsv`` and ``.jsonl``, also with ``.gz``, and ``.parquet``.


# Advice in error messages if it is not clear which columns are the scores.
BY_OPTION = "name the columns of scores by --scores a,b,c, in the order of the sorted labels"
OTHER_EVENT = "pass --pos-label with the label of the column, or name another column by --scores"
NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?", re.IGNORECASE)
# Texts that mean a missing number.
MISSING = ("", "NA", "N/A", "NaN", "nan", "null", "None")


def read_table(
    source: str | IO[bytes], suffix: str, args: argparse.Namespace, classes: NDArray[Any] | None
) -> SavedPredictions:
    """Read predictions from a table in the format of the ending `suffix`.

    `classes` are the classes of a calibrator; None means the classes in the labels.
    """
    compression: Any = "gzip" if suffix.endswith(".gz") else None
    try:
        if suffix == ".parquet":
            frame = pd.read_parquet(source)
        elif suffix == ".xlsx":
            frame = pd.read_excel(source, engine="openpyxl")
        elif suffix in (*JSON_LINES, ".json"):
            lines = suffix != ".json"
            frame = pd.read_json(source, lines=lines, compression=compression, dtype=False)
        else:
            frame = read_text(source, SEPARATORS[suffix], compression, args)
    except UnicodeDecodeError as error:
        raise ValueError("is not text in UTF-8: save the table as UTF-8") from error
    except pd.errors.EmptyDataError as error:
        raise ValueError(
            "is empty: write a header line, such as labels,0,1,2, and a line for each row"
        ) from error
    # DataFrame.to_csv writes the index as a column without a name.
    unnamed = [name for name in frame.columns[:1] if str(name).startswith("Unnamed: 0")]
    return read_frame(frame.drop(columns=unnamed), args, classes)


def read_text(
    source: str | IO[bytes], separator: str, compression: Any, args: argparse.Namespace
) -> pd.DataFrame:
    """Read a .csv or .tsv table, with labels, groups and identifiers as text."""

    def read(separator: str, **how: Any) -> pd.DataFrame:
        if not isinstance(source, str):
            source.seek(0)
        return pd.read_csv(source, sep=separator, compression=compression, **how)

    header = read(separator, nrows=0).columns
    # Spreadsheets separate columns by semicolons where the decimal separator is a comma.
    if len(header) == 1 and (marks := [mark for mark in ";\t" if mark in header[0]]):
        separator = marks[0]
        header = read(separator, nrows=0).columns
    named = {*LABELS, OUTCOME, *args.groups, *args.id, args.labels, args.clusters}
    texts = named.intersection(header)
    frame = read(
        separator,
        dtype=dict.fromkeys(texts, str),
        keep_default_na=False,
        na_values={name: MISSING for name in header if name not in texts},
    )
    for name in frame:
        if name in texts:
            frame[name] = parse_numbers(frame[name])
        elif frame[name].dtype.kind not in "fiub":
            frame[name] = parse_typed_numbers(frame[name])
    return frame


def parse_typed_numbers(texts: pd.Series[Any]) -> pd.Series[Any]:
    """Convert texts with decimal commas, or with a percent sign in each row, to numbers."""
    known = texts.dropna().astype(str).str.strip()
    has_sign = known.str.endswith("%")
    with_comma = known[known.str.contains(",", regex=False)]
    if len(with_comma) and with_comma.str.fullmatch(r"[-+]?[1-9]\d{0,2},\d{3}").all():
        return texts  # "1,234" may mean 1.234 or 1234
    known = known.str.rstrip("% ").str.replace(",", ".", regex=False)
    if not known.str.fullmatch(NUMBER).all() or has_sign.any() != has_sign.all():
        return texts
    numbers = known.astype(np.float64) / (100 if has_sign.any() else 1)
    return numbers.reindex(texts.index)


def parse_numbers(texts: pd.Series[Any]) -> NDArray[Any]:
    """Convert texts to numbers or booleans, if all can be; "001" and "NA" stay texts."""
    code, distinct = texts.factorize()
    known: Any = pd.Series(np.asarray(distinct), dtype=object)
    if known.str.fullmatch(r"-?(0|[1-9]\d*)(\.\d+)?").all():
        known = known.astype(float if known.str.contains(".", regex=False).any() else int)
    elif known.str.lower().isin(("true", "false")).all():
        known = known.str.lower() == "true"
    else:
        known = known.where(known != "", None)
    return known.to_numpy()[code]


def read_frame(
    frame: pd.DataFrame, args: argparse.Namespace, classes: NDArray[Any] | None
) -> SavedPredictions:
    """Read predictions from a frame: scores, labels, and the columns that options name."""
    frame.columns = frame.columns.astype(str)
    there = list(frame.columns)
    if all(map(NUMBER.fullmatch, there)) and not all(map(str.isdecimal, there)):
        raise ValueError(
            "the first line has only numbers: write a header with names, such as labels,0,1,2"
        )
    if len(there) == 1 and any(mark in there[0] for mark in ";|\t,"):
        raise ValueError(
            f"has one column, {there[0]!r}: separate columns by commas (.csv) or tabs (.tsv)"
        )
    if args.multilabel:
        return read_several(frame, args)
    names = names_among(there, args, args.scores)
    if not len(frame):
        raise ValueError("has a header but no rows: write a line for each row")
    others = [name for name in there if name not in named_by(names)]
    if classes is None and names.labels is None:
        classes = name_classes(frame, others, args.scores)
    elif classes is None:
        classes = np.unique(check_labels(frame[names.labels].to_numpy(), "y"))
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


def read_several(frame: pd.DataFrame, args: argparse.Namespace) -> SavedPredictions:
    """Read a frame in which a row can have several labels, such as columns cat and prob_cat."""
    there = list(frame.columns)
    labels = [name for name in there if f"prob_{name}" in there]
    if not labels:
        raise ValueError(f"has no columns such as cat and prob_cat; it contains {some_of(there)}")
    args.labels, columns = labels[0], [f"prob_{name}" for name in labels]
    names = names_among(there, args, ())
    saved = read_rows(
        frame[columns].to_numpy(),
        names,
        lambda name: frame[name].to_numpy(),
        [name for name in there if name not in (*labels, *columns)],
        input="proba",
        classes=np.array(labels),
        columns=columns,
    )
    entries: Any = frame[labels]
    return saved._replace(labels=entries)


def find_scores(
    frame: pd.DataFrame, names: Sequence[str], chosen: bool, classes: NDArray[Any]
) -> tuple[list[str], NDArray[Any] | None]:
    """Find the columns of scores by name or by value; return their names and any labels in them.

    The columns of scores are those named after the labels, else the columns of --scores
    (`chosen`), else all numeric columns, or the numeric column with a default name.
    """
    columns = None
    try:
        if len(names) > 1:
            columns = match_names(names, classes, False, "scores", BY_OPTION)
    except ValueError:  # only some labels have a column of scores
        if not chosen:
            raise
    if columns is not None and not (chosen and columns.rest):
        return [names[j] for j in columns.order], columns.classes
    if chosen:
        return list(names), None
    numbers = [name for name in names if frame[name].dtype.kind in "fiub"]
    numbers = [name for name in numbers if name.lower() not in NO_SCORES] or numbers
    usual = [name for name in numbers if name.lower() in SCORES]
    has_usual = (
        len(usual) == 1 < len(numbers)
        and frame[usual[0]].dropna().between(0, 1).all()
        and are_scores(frame[usual].to_numpy(np.float64), False)  # columns of 0/1 are no scores
    )
    if len(numbers) == classes.size or (len(numbers) == 1 and classes.size < 3):
        if are_scores(frame[numbers].to_numpy(np.float64), len(numbers) == len(names)):
            return numbers, None
        if classes.size > 2 or not has_usual:
            raise ValueError(
                f"cannot find the scores: the numeric columns ({some_of(numbers)}) are not named "
                "after labels and are not clearly probabilities or logits: name one column by "
                "--scores NAME, several by --scores a,b,c"
            )
    if has_usual and classes.size < 3:
        return usual, None
    if len(numbers) < classes.size:
        refuse_text(frame[list(names)])
    listed = f" ({some_of(numbers)})" if numbers else ""
    raise ValueError(
        f"has {len(numbers)} numeric columns{listed} for the {classes.size} "
        f"label{'s' * (classes.size > 1)} {short_repr(classes.tolist())}, and none is named after "
        f"a label: {BY_OPTION}"
    )


def name_classes(frame: pd.DataFrame, names: Sequence[str], chosen: Sequence[str]) -> NDArray[Any]:
    """Return the labels of a table without labels: the names of the columns of scores, or 0 and 1.

    `chosen` are the columns of --scores. Columns with a default name are the scores of one event.
    """
    numbers = [name for name in names if frame[name].dtype.kind in "fiub"]
    numbers = [name for name in numbers if name.lower() not in NO_SCORES]
    columns = chosen or numbers
    if len(columns) == 1 or (not chosen and {name.lower() for name in numbers} & {*SCORES}):
        return np.array([0, 1])
    refuse_text(frame[[*chosen]])
    if not chosen and not are_scores(frame[numbers].to_numpy(np.float64), numbers == [*names]):
        raise ValueError(
            f"cannot find the scores: the numeric columns ({some_of(numbers)}) are not clearly "
            "probabilities or logits: name one column by --scores NAME, several by --scores a,b,c"
        )
    return np.array(columns)


def are_scores(values: NDArray[np.float64], are_all: bool) -> bool:
    """Whether the values of columns look like scores: probabilities, or logits of similar size.

    Columns of non-negative integers, such as identifiers or years, are not scores. Columns can be
    logits only if `are_all`: the table has no other columns.
    """
    values = values[np.isfinite(values).all(axis=1)]
    whole = (values == np.rint(values)).all(axis=0) & (values >= 0).all(axis=0)
    if values.shape[1] == 1 or not values.size or np.abs(values - 0.5).max() <= 0.51:
        return not whole.all() or not values.size
    sizes = np.abs(values).max(axis=0)
    return are_all and not whole.any() and values.min() < 0 and sizes.max() <= 10 * sizes.min()


def refuse_text(frame: pd.DataFrame) -> None:
    """Raise an error for columns of scores that contain text, with the first such row."""
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
        way = "write decimal points instead of commas"
    elif any(re.fullmatch(r"[\d.]+ ?%", value) for value in first):
        way = "write fractions, such as 0.25 instead of 25%"
    raise ValueError(f"contains texts instead of numbers: {some_of(pairs)}: {way}")
