"""Files of predictions and of calibrators, as the commands name them."""

from __future__ import annotations

import argparse
import gzip
import io
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import skcalib
from skcalib._cli import decision_log, tables
from skcalib._cli.tables import SavedPredictions, some_of
from skcalib._storage.files import write_document
from skcalib._storage.writing import write_file
from skcalib.extending import check_labels, short_repr

KINDS = {"logits": "logits", "proba": "probabilities"}
# Options that `compare` saves with a calibrator, and `apply` uses.
TOLD = ("scores", "id", "groups", "pos_label")
# What to do about a folder.
IN_PYTHON = (
    "is a directory, not a file: predictions larger than memory are read in Python: "
    "import dask.array as da, skcalib; "
    "X, y = (da.from_zarr({path!r}, component=name) for name in ('logits', 'labels')); "
    "skcalib.compare_calibrators(X, y, ['auto']) "
    "(dask.dataframe.read_parquet reads .parquet, da.from_npy_stack .npy)"
)


def read(
    args: argparse.Namespace, classes: NDArray[Any] | None = None, keep: bool = False
) -> SavedPredictions:
    """Read the file of a command, whose ending says what it is.

    `classes` are those of the calibrator to apply; other commands need labels in the file. With
    `keep`, all columns of a table are ids that are not read as something else.
    """
    path = args.file
    args.scores = [name for text in args.scores for name in text.split(",") if name]
    if again := [name for name in args.scores if args.scores.count(name) > 1][:1]:
        raise ValueError(f"--scores names {again[0]!r} twice: name one column for each label")
    suffix = ".csv" if path == tables.STREAM else known_ending(path)
    if suffix in tables.ARRAYS:
        predictions = (tables.read_npz if suffix == ".npz" else tables.read_npy)(path, args)
    elif suffix in tables.JSON_LINES and decision_log.is_log(path):
        predictions = decision_log.read_log(path, args, classes)
    else:
        table: Any = io.BytesIO(sys.stdin.buffer.read()) if path == tables.STREAM else path
        predictions = tables.read_table(table, suffix, args, classes)
        if keep:  # read again, so that an id 001 stays as it is written
            weights = [] if predictions.weights is None else [args.weights or "weights"]
            args.id = [*args.id, *args.groups, *weights, *predictions.unused]
            if path == tables.STREAM:
                table.seek(0)
            predictions = tables.read_table(table, suffix, args, classes)
    return predictions if args.input is None else predictions._replace(input=args.input)


def known_ending(path: str) -> str:
    """Return the ending of a file that is there and can be read."""
    Path(path).stat()  # raises FileNotFoundError before the ending is looked at
    suffix = tables.ending(path)
    if suffix == ".zarr" or Path(path).is_dir():
        raise ValueError(IN_PYTHON.format(path=path))
    if suffix not in tables.READ:
        what = f"its ending is {suffix!r}" if suffix else "it has no ending"
        raise ValueError(f"the file must be one of {', '.join(tables.READ)}; {what}")
    return suffix


def write_predictions(
    path: str,
    P: NDArray[Any],
    classes: NDArray[Any],
    read: SavedPredictions,
    accepted: NDArray[np.bool_] | None,
    calibrated: bool,
) -> str:
    """Write probabilities, after the ids and with the labels and the split read.

    Of a gate, a table also contains the label of each row that is accepted, arrays which rows are.
    A log only contains the probabilities if they are `calibrated`.
    Returns the text for standard output, empty if it went to a file.
    """
    suffix, file = tables.ending(path), io.BytesIO()
    first: dict[str, Any] = {}
    if read.ids is not None:
        first = {str(name): read.ids[name].to_numpy() for name in read.ids}
    last: dict[str, Any] = {} if read.labels is None else {"labels": read.labels}
    if read.test is not None:
        last["split"] = read.test.astype(np.uint8)
    if read.records is not None:
        check_ending(None if path == tables.STREAM else path, tables.JSON_LINES)
        file.write(decision_log.calibrated_lines(read, P, classes, accepted, calibrated).encode())
    elif suffix == ".npy":
        np.save(file, P)
    elif suffix == ".npz":
        if accepted is not None:
            last["accepted"] = accepted
        arrays = {**first, "probs": P, "classes": classes, **last}
        texts = {name: a.astype(str) for name, a in arrays.items() if a.dtype.kind == "O"}
        np.savez_compressed(file, **arrays | texts)
    else:
        columns = {f"prob_{label}": P[:, k] for k, label in enumerate(classes.tolist())}
        if accepted is not None:
            labels = classes[P.argmax(axis=1)].astype(object)
            last = {"decision": np.where(accepted, labels, None), **last}
        if double := first.keys() & {**columns, **last}.keys():
            raise ValueError(f"has a column {min(double)!r}, which apply writes: rename it")
        frame = pd.DataFrame({**first, **columns, **last})
        if suffix == ".parquet":
            frame.to_parquet(file, index=False)
        elif suffix in tables.JSON_LINES:
            frame.to_json(file, orient="records", lines=True, double_precision=15)
        else:
            frame.to_csv(file, index=False, sep=tables.SEPARATORS.get(suffix, ","))
    if path == tables.STREAM:
        return file.getvalue().decode("utf-8")
    data = file.getvalue()
    write_file(path, gzip.compress(data, mtime=0) if suffix.endswith(".gz") else data)
    return ""


def check_ending(path: str | None, endings: Sequence[str]) -> None:
    """Refuse, before any work, a file that could not be written."""
    if path is None:
        return
    if tables.ending(path) not in endings:
        raise ValueError(f"{path}: save it as {' or '.join(endings)}")
    target = Path(path).resolve()
    if not target.parent.is_dir():
        raise ValueError(f"{path}: there is no such directory")
    places = [place for place in (target.parent, target) if place.exists()]
    if target.is_dir() or not all(os.access(place, os.W_OK) for place in places):
        raise ValueError(f"{path}: cannot be written")


def save(calibrator: Any, path: str, args: argparse.Namespace | None = None) -> None:
    """Write a fitted calibrator, with the options that name its columns."""
    told = {name: value for name in TOLD if (value := getattr(args, name, None))}
    write_document({**skcalib.to_dict(calibrator), "options": told}, path)


def load(path: str, to_apply: bool = False) -> Any:
    """Read a fitted calibrator, or a gate around one if the command takes gates."""
    if Path(path).suffix.lower() != ".json":
        raise ValueError(f"{path}: save the calibrator as .json, by skcalib.save_json")
    calibrator = skcalib.load_json(path)
    if isinstance(calibrator, skcalib.CalibrationMonitor):
        raise ValueError(f"{path}: is the state of a monitor, not a calibrator of compare --save")
    if isinstance(calibrator, skcalib.GroupwiseCalibrator) and not to_apply:
        raise ValueError(
            f"{path}: a GroupwiseCalibrator needs the group of each row, which only apply takes"
        )
    if isinstance(calibrator, skcalib.SelectiveClassifier) and not to_apply:
        raise ValueError(f"{path}: contains a gate, a SelectiveClassifier, which only apply takes")
    return calibrator


def places(classes: NDArray[Any], known: NDArray[Any]) -> NDArray[np.intp]:
    """Return where each class of a calibrator stands among the columns of a file."""
    place = {str(label): k for k, label in enumerate(known.tolist())}
    texts = [str(label) for label in classes.tolist()]
    if set(place) != set(texts):
        raise ValueError(
            f"the columns are those of the {known.size} labels {short_repr(known.tolist())}, but "
            f"the calibrator was fitted on the {classes.size} labels {short_repr(classes.tolist())}"
        )
    return np.array([place[text] for text in texts], dtype=np.intp)


def event_of(text: str | None, y: NDArray[Any]) -> Any:
    """Return the label that is written as `text` on the command line, None if none is given."""
    if text is None:
        return None
    known = np.unique(check_labels(y, "y")).tolist()
    for label in known:
        if str(label) == text:
            return label
    raise ValueError(f"--pos-label {text} is not one of the labels {short_repr(known)}")


def mapping_of(saved: SavedPredictions, classes: NDArray[Any], event: int | None) -> dict[str, Any]:
    """Return the label of each column that was read; of one column, the label that it scores."""
    labels = classes.tolist()
    if event is not None and saved.scores.reshape(len(saved.scores), -1).shape[1] == 1:
        return {saved.columns[0] if saved.columns else "the array": labels[event]}
    column_labels = classes if saved.columns is not None or saved.classes is None else saved.classes
    names = saved.columns or [str(k) for k in range(len(labels))]
    return dict(zip(names, column_labels.tolist(), strict=True))


def description(
    saved: SavedPredictions, classes: NDArray[Any], event: int | None, n_rows: int
) -> dict[str, Any]:
    """Return the names that the JSON of every command has."""
    return {
        "rows": n_rows,
        "columns": mapping_of(saved, classes, event),
        "not_used": saved.unused,
        "event": None if event is None else classes[event],
    }


def columns_of(saved: SavedPredictions, classes: NDArray[Any], event: int | None) -> dict[str, str]:
    """Say, by name, which column was taken for which label, and what was not used."""
    pairs = mapping_of(saved, classes, event)
    how = "by position, in the order of the sorted labels" if saved.classes is None else "by name"
    if saved.records is not None:
        texts = {"options": some_of(classes.tolist())}
    elif len(pairs) == 1:
        ((name, label),) = pairs.items()
        texts = {"column": f"{name} is the score of {label}"}
    else:
        names = [
            name if name == str(label) else f"{name} is {label}" for name, label in pairs.items()
        ]
        texts = {f"columns, {how}": some_of(names)}
        if event is not None:
            texts["event"] = str(classes[event])
    return texts | ({"not used": ", ".join(saved.unused)} if saved.unused else {})


def lines_of(texts: dict[str, str]) -> list[str]:
    """Return texts with their names, one to a line."""
    return [f"{name}: {text}" for name, text in texts.items()]
