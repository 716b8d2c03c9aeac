"""Predictions that were saved: what a file contains, and its format by its ending."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pandas as pd

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


class SavedPredictions(NamedTuple):
    """The contents of a file: ``scores (n, K)`` or ``(n,)``, ``labels (n,)``, and the test rows.

    ``input`` is what the scores are, as a calibrator takes it; ``classes`` the labels of the
    columns where the file says them; ``columns`` the names of the columns of a table, in the
    order of the scores; ``groups`` and ``ids`` frames with a column for each that was named;
    ``weights (n,)`` counts or relative weights; ``unused`` the names of columns or arrays that are
    none of these.
    Labels, test, classes, columns, groups, ids and weights are None where there are none.
    """

    scores: NDArray[Any]
    input: str
    labels: NDArray[Any] | None
    test: NDArray[np.bool_] | None
    classes: NDArray[Any] | None
    columns: list[str] | None = None
    groups: pd.DataFrame | None = None
    ids: pd.DataFrame | None = None
    weights: NDArray[Any] | None = None
    unused: Sequence[str] = ()


class Wanted(NamedTuple):
    """Names of arrays or columns, where they are called otherwise.

    A split that is not named may be missing. With `classes`, the labels that names of columns may
    end with, the file needs no labels. Groups and ids are read if they are named.
    """

    scores: Sequence[str] | None = None
    labels: str | None = None
    split: str | None = None
    classes: NDArray[Any] | None = None
    groups: Sequence[str] = ()
    ids: Sequence[str] = ()
    weights: str | None = None


def ending(path: str) -> str:
    """Return the ending of a file's name in lower case, that before ``.gz`` too."""
    suffixes = [suffix.lower() for suffix in Path(path).suffixes]
    return "".join(suffixes[-2:] if suffixes[-1:] == [".gz"] else suffixes[-1:])


def names_found(
    there: Sequence[str], wanted: Wanted, scores: Sequence[str]
) -> tuple[str | None, str | None, str | None]:
    """Return the names of labels, split and weights, None where there is none and need not be."""
    labels, split, weights = wanted.labels, wanted.split, wanted.weights
    named = [name for name in (labels, split, weights) if name is not None]
    for name in (*scores, *wanted.groups, *wanted.ids, *named):
        if name not in there:
            raise ValueError(f"has no {name!r}; it contains {some_of(there)}")
    if labels is None:
        found = [name for name in LABELS if name in there]
        if len(found) > 1:
            raise ValueError(f"has {' and '.join(found)}: pass --labels NAME, that of the labels")
        if not found and wanted.classes is None:
            raise ValueError(f"has no 'labels'; it contains {some_of(there)}: pass --labels NAME")
        labels = found[0] if found else None
    return (
        labels,
        split or ("split" if "split" in there else None),
        weights or ("weights" if "weights" in there else None),
    )


def some_of(names: Sequence[str]) -> str:
    """Write names, not too many of them."""
    return ", ".join(map(str, names[:12])) + (", ..." if len(names) > 12 else "")


def as_text(values: NDArray[Any]) -> NDArray[Any]:
    """Return bytes as text."""
    return values.astype(str) if values.dtype.kind == "S" else values


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
