"""Read files of predictions and calibrators for the commands, and write them."""

from __future__ import annotations

import argparse
import gzip
import io
import os
import re
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
# Command-line options that `compare` saves with a calibrator, so that `apply` can reuse them.
TOLD = ("scores", "id", "groups", "pos_label")
# Error message if the user passes a folder instead of a file.
IN_PYTHON = (
    "is a directory, not a file: read predictions larger than memory in Python: "
    "import dask.array as da, skcalib; "
    "X, y = (da.from_zarr({path!r}, component=name) for name in ('logits', 'labels')); "
    "skcalib.compare_calibrators(X, y, ['auto']) "
    "(dask.dataframe.read_parquet reads .parquet, da.from_npy_stack .npy)"
)

# Keywords in messages, which are rewritten as command-line options, and a value that is one word.
KEYWORD = re.compile(
    r"(?<![\w/\\])(accuracy|calibrator|choose_by|clusters|cv|groups|input|pos_label|priors|"
    r"temperature|width)="
    r"(?:'([\w-]+)'|(?=([ ,;:.])))?"
)
PARAMETER = re.compile(r"The '(\w+)' parameter of \w+ must")
# Python terms in messages, and the terms for files that replace them on the command line.
IN_FILES = {
    "sample_weight": "weights",
    "pass w.astype(float)": "write decimals, such as 2.0",
    "NaN or ignore_index= if an entry is unknown": "leave an unknown entry empty",
    "pass floats": "write decimals, such as 2.0,",
    "Pass np.exp(X)": "Write exp(X)",
    "probabilities, predict_proba(X)[:, 1],": "probabilities",
    "or classes= if": "or an array 'classes' if",
    "pass classes= with": "name the columns after the labels, or write an array 'classes' with",
    "classes=[": "classes: [",
    "choose_by must be 'log_loss'": "--choose-by must be log_loss",
    "choose by 'log_loss'": "choose by log_loss",
    "metrics: ": "--metrics ",
    "priors lacks": "--priors lacks",
    "priors: ": "--priors: ",
    "pass groups= with a label for each row, or group_column= with the name or the index of the "
    "column of X that contains the groups": "name the columns of groups by --groups",
    ", or a splitter such as KFold(5, shuffle=True)": "",
    " (input_='logits')": "",
    " (input_='proba')": "",
}


def in_options(text: str) -> str:
    """Rewrite the keywords and Python terms of a message as options and terms for files."""

    def option(match: re.Match[str]) -> str:
        name, value, end = match.groups()
        return f"--{name.replace('_', '-')}{'' if end else ' '}{value or ''}"

    for python, words in IN_FILES.items():
        text = text.replace(python, words)
    return KEYWORD.sub(option, PARAMETER.sub(r"--\1 must", text))


def read(
    args: argparse.Namespace, classes: NDArray[Any] | None = None, keep: bool = False
) -> SavedPredictions:
    """Read a file of predictions, whose format is known from its ending, such as .csv.

    `classes` are the classes of the calibrator to apply. Without them, the file must have labels.
    With `keep`, all remaining columns of a table are copied like identifiers.
    """
    path = args.file
    args.scores = [name for text in args.scores for name in text.split(",") if name]
    if again := [name for name in args.scores if args.scores.count(name) > 1][:1]:
        raise ValueError(f"--scores has {again[0]!r} twice: name a different column for each label")
    suffix = ".csv" if path == tables.STREAM else known_ending(path)
    if suffix in tables.ARRAYS:
        predictions = (tables.read_npz if suffix == ".npz" else tables.read_npy)(path, args)
    elif suffix in tables.JSON_LINES and decision_log.is_log(path):
        predictions = decision_log.read_log(path, args, classes)
    else:
        table: Any = io.BytesIO(sys.stdin.buffer.read()) if path == tables.STREAM else path
        predictions = tables.read_table(table, suffix, args, classes)
        if keep:  # the file is read again as text, so that an identifier such as 001 is not changed
            weights = [] if predictions.weights is None else [args.weights or "weights"]
            args.id = [*args.id, *args.groups, *weights, *predictions.unused]
            if path == tables.STREAM:
                table.seek(0)
            predictions = tables.read_table(table, suffix, args, classes)
    return predictions if args.input is None else predictions._replace(input=args.input)


def known_ending(path: str) -> str:
    """Return the ending of an existing file, or refuse an ending that is not supported."""
    Path(path).stat()  # a missing file raises FileNotFoundError, whatever its ending
    suffix = tables.ending(path)
    if suffix == ".zarr" or Path(path).is_dir():
        raise ValueError(IN_PYTHON.format(path=path))
    if suffix not in tables.READ:
        what = f"ends in {suffix!r}" if suffix else "has no ending"
        raise ValueError(f"{what}: pass a file that ends in one of {', '.join(tables.READ)}")
    return suffix


def write_predictions(
    path: str,
    P: NDArray[Any],
    classes: NDArray[Any],
    read: SavedPredictions,
    accepted: NDArray[np.bool_] | None,
    calibrated: bool,
) -> str:
    """Write probabilities to a file, with the identifiers, the labels and the split of the input.

    For a selective classifier, a table also contains the label of each accepted row, and arrays
    contain which rows are accepted. A decision log gets the probabilities only if they are
    `calibrated`. Returns the text for standard output, which is empty for a file.
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
            raise ValueError(
                f"has a column {min(double)!r}, which is the name of an output column: rename it"
            )
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
    """Raise an error if an output file has the wrong ending or cannot be written."""
    if path is None:
        return
    if tables.ending(path) not in endings:
        raise ValueError(f"{path}: the name of the file must end in {' or '.join(endings)}")
    target = Path(path).resolve()
    if not target.parent.is_dir():
        raise ValueError(f"{path}: the directory does not exist: create it first")
    places = [place for place in (target.parent, target) if place.exists()]
    if target.is_dir() or not all(os.access(place, os.W_OK) for place in places):
        raise ValueError(
            f"{path}: cannot be written: pass a file in a folder that you may write to"
        )


def save(calibrator: Any, path: str, args: argparse.Namespace | None = None) -> None:
    """Save a fitted calibrator with the command's options that name its columns."""
    told = {name: value for name in TOLD if (value := getattr(args, name, None))}
    write_document({**skcalib.to_dict(calibrator), "options": told}, path)


def load(path: str, to_apply: bool = False) -> Any:
    """Load a calibrator; `to_apply` also allows groupwise calibrators and selective classifiers."""
    if Path(path).suffix.lower() != ".json":
        raise ValueError(f"{path}: is not .json: save the calibrator by skcalib.save_json")
    calibrator = skcalib.load_json(path)
    if isinstance(calibrator, skcalib.CalibrationMonitor):
        raise ValueError(f"{path} is the state of a monitor: pass a file that compare --save wrote")
    if isinstance(calibrator, skcalib.GroupwiseCalibrator) and not to_apply:
        raise ValueError(
            f"{path}: is a GroupwiseCalibrator, which only the command apply supports: pass a "
            "calibrator without groups"
        )
    if isinstance(calibrator, skcalib.SelectiveClassifier) and not to_apply:
        raise ValueError(
            f"{path}: is a SelectiveClassifier, which only the command apply supports: pass its "
            "calibrator"
        )
    return calibrator


def places(classes: NDArray[Any], known: NDArray[Any]) -> NDArray[np.intp]:
    """Return the index of the column with the scores of each class of a calibrator."""
    place = {str(label): k for k, label in enumerate(known.tolist())}
    texts = [str(label) for label in classes.tolist()]
    if set(place) != set(texts):
        raise ValueError(
            f"the columns have the {known.size} labels {short_repr(known.tolist())}, but the "
            f"calibrator was fitted on the {classes.size} labels {short_repr(classes.tolist())}: "
            "pass columns of these labels"
        )
    return np.array([place[text] for text in texts], dtype=np.intp)


def event_of(text: str | None, y: NDArray[Any]) -> Any:
    """Return the label of `y` that --pos-label names, or None without this option."""
    if text is None:
        return None
    known = np.unique(check_labels(y, "y")).tolist()
    for label in known:
        if str(label) == text:
            return label
    raise ValueError(f"--pos-label {text} is not one of the labels {short_repr(known)}")


def mapping_of(saved: SavedPredictions, classes: NDArray[Any], event: int | None) -> dict[str, Any]:
    """Return a dict from the name of each column of scores to its class label."""
    labels = classes.tolist()
    if event is not None and saved.scores.reshape(len(saved.scores), -1).shape[1] == 1:
        return {saved.columns[0] if saved.columns else "the array": labels[event]}
    column_labels = classes if saved.columns is not None or saved.classes is None else saved.classes
    names = saved.columns or [str(k) for k in range(len(labels))]
    return dict(zip(names, column_labels.tolist(), strict=True))


def description(
    saved: SavedPredictions, classes: NDArray[Any], event: int | None, n_rows: int
) -> dict[str, Any]:
    """Return the entries that the JSON output of every command contains."""
    return {
        "rows": n_rows,
        "columns": mapping_of(saved, classes, event),
        "not_used": saved.unused,
        "event": None if event is None else classes[event],
    }


def columns_of(saved: SavedPredictions, classes: NDArray[Any], event: int | None) -> dict[str, str]:
    """Describe which column contains the scores of which class, and which columns are ignored."""
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
    """Format a dict of texts as lines such as "weights: counts"."""
    return [f"{name}: {text}" for name, text in texts.items()]
