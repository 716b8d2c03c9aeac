"""Predictions that were saved: what a file contains, and its format by its ending."""

from __future__ import annotations

import argparse
import zipfile
from collections.abc import Callable, Sequence
from copy import copy
from pathlib import Path
from tokenize import TokenError
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

# Endings of text, and the separators of its columns; JSON lines have none.
SEPARATORS = {".csv": ",", ".tsv": "\t", ".csv.gz": ",", ".tsv.gz": "\t"}
JSON_LINES = (".jsonl", ".jsonl.gz")
ARRAYS = (".npz", ".npy")
SUFFIXES = (*SEPARATORS, *JSON_LINES, *ARRAYS, ".parquet")
# What the labels are called, if no option says it.
LABELS = ("label", "labels", "y", "y_true", "target")
# A file of this name is standard input, or standard output.
STREAM = "-"
# What a word of a split means.
CALIBRATION = {"cal", "calib", "calibration", "val", "valid", "validation", "dev", "0", "false"}
TEST = {"test", "testing", "eval", "evaluation", "holdout", "1", "true"}

# Returns the array or column of a name.
Read = Callable[[str], NDArray[Any]]


class SavedPredictions(NamedTuple):
    """The contents of a file: ``scores (n, K)`` or ``(n,)``, ``labels (n,)``, and the test rows.

    ``input`` is what the scores are, as a calibrator takes it; ``classes`` the labels of the
    columns where the file says them; ``columns`` the names of the columns of a table, in the
    order of the scores; ``groups`` and ``ids`` frames with a column for each that was named;
    ``weights (n,)`` counts or relative weights; ``clusters (n,)`` labels of clusters; ``unused``
    the names of columns or arrays that are none of these; ``records`` the objects of the lines of
    a log of decisions, whose labels may be shares of raters ``(n, K)``.
    Labels, test, classes, columns, groups, ids, weights, clusters and records are None where there
    are none.
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
        """Return those of the test rows, or all without a split; None stays."""
        return values if values is None or self.test is None else values[self.test]


def ending(path: str) -> str:
    """Return the ending of a file's name in lower case, that before ``.gz`` too."""
    suffixes = [suffix.lower() for suffix in Path(path).suffixes]
    return "".join(suffixes[-2:] if suffixes[-1:] == [".gz"] else suffixes[-1:])


def names_among(
    there: Sequence[str], args: argparse.Namespace, scores: Sequence[str]
) -> argparse.Namespace:
    """Return the options, with the usual names of what is there; refuse what is not there."""
    for name in (*scores, *named_by(args)):
        if name not in there:
            raise ValueError(f"has no {name!r}; it contains {some_of(there)}")
    usual = [name for name in LABELS if name in there]
    if args.labels is None and len(usual) > 1:
        raise ValueError(f"has {' and '.join(usual)}: pass --labels NAME, that of the labels")
    if args.labels is None and not usual and args.command != "apply":
        raise ValueError(f"has no 'labels'; it contains {some_of(there)}: pass --labels NAME")
    names = copy(args)
    names.labels = args.labels or next(iter(usual), None)
    names.split = args.split or ("split" if "split" in there else None)
    names.weights = args.weights or ("weights" if "weights" in there else None)
    return names


def named_by(names: argparse.Namespace) -> list[str]:
    """Return the names of the arrays or columns beside the scores."""
    beside = names.labels, names.split, names.weights, names.clusters
    return [*names.groups, *names.id, *filter(None, beside)]


def read_rows(
    scores: NDArray[Any], names: argparse.Namespace, read: Read, there: Sequence[str], **known: Any
) -> SavedPredictions:
    """Read what a file contains beside its scores, by the names of options.

    `there` are names of which those that are not read are unused; `known` is what is known of the
    scores: their input, classes and columns.
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
            raise ValueError(f"{what} has shape {values.shape}, expected {n_rows}: one a row")
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
    """Write names, not too many of them."""
    return ", ".join(map(str, names[:12])) + (", ..." if len(names) > 12 else "")


def read_test_rows(split: NDArray[Any]) -> NDArray[np.bool_]:
    """Read a split: 0, "cal" and the like are for calibration, 1, "test" and the like for test."""
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
            f"split contains {sorted(unknown)[0]!r}: write 0 or 'cal' for rows to calibrate on, 1 "
            "or 'test' for rows to measure on, and leave rows out that fitted the model"
        )
    if not distinct & TEST or not distinct & CALIBRATION:
        which = "test" if distinct & TEST else "calibration"
        raise ValueError(f"split has {which} rows only: both 0 and 1 are needed")
    return np.isin(words, list(TEST))


def read_npz(path: str, args: argparse.Namespace) -> SavedPredictions:
    """Read ``logits`` or ``probs``, ``labels``, perhaps ``split`` and ``classes``."""
    if not zipfile.is_zipfile(path):
        raise ValueError("not an .npz file: save one by np.savez(path, logits=Z, labels=y)")
    # Pickled objects would run code on loading.
    with np.load(path, allow_pickle=False) as data:
        there = list(data)
        kinds = args.scores or [name for name in ("logits", "probs") if name in there]
        if len(kinds) != 1:
            raise ValueError(
                f"needs 'logits' or 'probs', one of them; contains {', '.join(there)} (--scores "
                "NAME chooses an array)"
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
    """Read an array of scores; labels, split, groups and ids are files of their own."""
    if args.scores:
        raise ValueError("an .npy file is one array, of the scores: leave out --scores")
    if args.labels is None and args.command != "apply":
        raise ValueError("an .npy file has the scores alone: pass --labels FILE.npy, of the labels")

    def read(path: str) -> NDArray[Any]:
        return read_array(lambda name: np.load(name, allow_pickle=False), path, "np.save")

    Z = read_scores(read, path)
    return read_rows(Z, args, read, [], input="auto", classes=None, columns=None)


def read_scores(read: Callable[[str], NDArray[Any]], name: str) -> NDArray[Any]:
    """Read an array of scores."""
    Z = read(name)
    if Z.ndim not in (1, 2) or Z.dtype.kind not in "fiub":
        raise ValueError(
            f"{name!r} must be numbers of shape (n, K) or (n,); it is {Z.dtype} of shape {Z.shape}"
        )
    return Z


def read_array(load: Callable[[str], Any], name: str, save: str) -> NDArray[Any]:
    """Load an array without objects; bytes become text."""
    try:
        values = np.asarray(load(name))
    except (EOFError, SyntaxError, TokenError) as error:  # a header is read as Python
        raise ValueError(f"{name!r} is damaged: save it again by {save}") from error
    except ValueError as error:
        if "allow_pickle" not in str(error) and "Python objects" not in str(error):
            raise
        raise ValueError(
            f"{name!r} contains pickled objects, which are not read: save it with a plain dtype, "
            "such as np.asarray(values, dtype=str) or dtype=int"
        ) from error
    return values.astype(str) if values.dtype.kind == "S" else values
