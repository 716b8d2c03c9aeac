"""Files of predictions and of calibrators, as the commands name them."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import skcalib
from skcalib._cli.saved_predictions import SavedPredictions, Wanted, read_predictions
from skcalib._validation.keywords import shown
from skcalib._validation.labels import check_labels

KINDS = {"logits": "logits", "proba": "probabilities"}
# Columns whose labels are printed.
SHOWN_COLUMNS = 12


def read(args: argparse.Namespace, classes: NDArray[Any] | None = None) -> SavedPredictions:
    """Read the file of a command."""
    groups = getattr(args, "groups", None) or ()
    wanted = Wanted(args.scores, args.labels, args.split, classes, groups)
    found = read_predictions(args.file, wanted)
    return found if args.input is None else found._replace(input=args.input)


def check_ending(path: str | None, endings: Sequence[str]) -> None:
    """Refuse, before any work, a file that could not be written."""
    if path is None:
        return
    if Path(path).suffix.lower() not in endings:
        raise ValueError(f"{path}: save it as {' or '.join(endings)}")
    parent = Path(path).resolve().parent
    if not parent.is_dir():
        raise ValueError(f"{path}: there is no such directory")
    if Path(path).is_dir() or not os.access(path if Path(path).exists() else parent, os.W_OK):
        raise ValueError(f"{path}: cannot be written")


def save(calibrator: Any, path: str) -> None:
    """Write a fitted calibrator."""
    try:
        skcalib.save_json(calibrator, path)
    except OSError as error:  # which may name a file in between
        raise OSError(error.errno, error.strerror, path) from error


def load(path: str) -> Any:
    """Read a fitted calibrator."""
    if Path(path).suffix.lower() != ".json":
        raise ValueError(f"{path}: save the calibrator as .json, by skcalib.save_json")
    try:
        return skcalib.load_json(path)
    except ValueError as error:
        text = str(error)
        raise ValueError(text if text.startswith(path) else f"{path}: {text}") from error


def places(classes: NDArray[Any], known: NDArray[Any]) -> NDArray[np.intp]:
    """Return where each class of a calibrator stands among the columns of a file."""
    place = {str(label): k for k, label in enumerate(known.tolist())}
    texts = [str(label) for label in classes.tolist()]
    if set(place) != set(texts):
        raise ValueError(
            f"the columns are those of the labels {shown(known.tolist())}, but the calibrator was "
            f"fitted on {shown(classes.tolist())}"
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
    raise ValueError(f"--pos-label {text} is not one of the labels {shown(known)}")


def columns_of(found: SavedPredictions, classes: NDArray[Any], event: int | None) -> str:
    """Say which column was taken for which label."""
    labels = classes.tolist()
    if event is not None and found.scores.reshape(len(found.scores), -1).shape[1] == 1:
        name = found.columns[0] if found.columns else "the array"
        return f"column: {name} is the score of {labels[event]}"
    given = classes if found.columns is not None or found.classes is None else found.classes
    names = found.columns or [str(k) for k in range(len(labels))]
    pairs = [
        name if name == str(label) else f"{name} is {label}"
        for name, label in zip(names, given.tolist(), strict=True)
    ]
    told = ", ".join(pairs[:SHOWN_COLUMNS]) + (", ..." if len(pairs) > SHOWN_COLUMNS else "")
    how = "in the order of the sorted labels" if found.classes is None else "by name"
    return f"columns, {how}: {told}"
