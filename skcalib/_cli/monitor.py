"""``skcalib monitor``: count a batch of labels, and say whether probabilities are calibrated."""

from __future__ import annotations

import argparse
import hashlib
import os
import sys
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skcalib._arrays.source import ALL, as_source
from skcalib._cli.decision_log import options_of
from skcalib._cli.files import lines_of, read, save
from skcalib._cli.measured import Rows, held_out
from skcalib._cli.printed import Printed, in_format
from skcalib._cli.saved_predictions import STREAM, SavedPredictions
from skcalib._monitor.monitor import CalibrationMonitor
from skcalib._storage.files import load_json

# Options of a monitor, which its state keeps.
OPTIONS = ("alpha", "period", "tolerance")
# What labels and options that a state does not have ask for.
NEW_STATE = "or begin another state file"
# Attributes of a monitor that JSON has.
SHOWN = ("alarm", "e_value", "where", "since", "advice", "shift")


def run_monitor(args: argparse.Namespace) -> Printed:
    """Count a batch of labels, and say whether the probabilities are still calibrated."""
    if args.file == STREAM:
        raise ValueError("monitor counts files, each once: pass a file, not -")
    saved = read(args)
    assert saved.labels is not None
    if saved.weights is not None:
        raise ValueError("a monitor takes no weights: leave them out, or pass copies of rows")
    # The system releases the lock of a process that is killed; the empty file stays.
    with open(f"{os.path.realpath(args.state)}.lock", "ab") as lock:
        wait_for(lock)
        monitor, rows = count(args, saved)
        save(monitor, args.state)
    words, n_updates = monitor.in_words(), monitor.n_updates_
    record = {
        **rows.record(),
        "update": n_updates,
        **{name: getattr(monitor, f"{name}_") for name in SHOWN},
        "summary": words,
    }
    first = f"{args.file}: update {n_updates:,}, {len(rows.predictions.code):,} rows: {words}"
    lines = [first, *lines_of(rows.texts())]
    return Printed(in_format(args, lines, record), code=int(monitor.alarm_))


def wait_for(lock: BinaryIO) -> None:
    """Lock an open file, once no other process has locked it; on Windows wait 10 s at most."""
    if sys.platform == "win32":
        import msvcrt

        msvcrt.locking(lock.fileno(), msvcrt.LK_LOCK, 1)
    else:
        import fcntl

        fcntl.flock(lock, fcntl.LOCK_EX)


def count(args: argparse.Namespace, saved: SavedPredictions) -> tuple[CalibrationMonitor, Rows]:
    """Return the monitor of a state file, or a new one, with the rows of a file."""
    options = {name: value for name in OPTIONS if (value := getattr(args, name)) is not None}
    monitor, label, known = CalibrationMonitor(**options), args.pos_label, {}
    if is_old := Path(args.state).exists():
        monitor, args.pos_label = load_monitor(args.state, options), None
        known = {"classes": monitor.classes_, "pos_label": monitor.pos_label}
    digest = hashlib.sha256(Path(args.file).read_bytes()).hexdigest()
    files = getattr(monitor, "_files", [])
    if digest in files:
        raise ValueError(f"these rows were counted before, as update {files.index(digest) + 1}")
    if saved.records is not None and is_old:
        saved = with_options(saved, monitor.classes_, args.state)
    try:
        rows, _ = held_out(args, saved, **known)
    except ValueError as error:
        way = "add it to classes, or give the row weight 0", f"leave the row out, {NEW_STATE}"
        raise ValueError(str(error).replace(*way)) from None
    predictions, classes = rows.predictions, rows.predictions.classes
    event = None if predictions.event is None else classes.tolist()[predictions.event]
    if is_old and label not in (None, str(event)):
        raise ValueError(f"--pos-label {label}: {args.state} has {event}; begin another state file")
    monitor.labels, monitor.pos_label = classes, event
    # Probabilities as they are in the file: not divided, NaN where an option was not offered.
    P, scores = predictions.P.read(ALL), saved.measured(saved.scores)
    if saved.records is not None:
        offered = [options_of(record) for record in saved.records]
        P = saved.measured(pd.DataFrame(offered, columns=saved.columns, dtype=float).to_numpy())
    elif rows.kind == "proba" and scores.ndim == 2 and scores.shape[1] > 1:
        P = P * np.nansum(scores, axis=1, keepdims=True, dtype=float)
    given: Any = predictions._replace(P=as_source(P))  # in the place of labels and probabilities
    monitor.update(given, given, groups=saved.measured(saved.groups))
    monitor._files = [*files, digest]
    return monitor, rows


def with_options(saved: SavedPredictions, known: NDArray[Any], state: str) -> SavedPredictions:
    """Return a log with a column for each option of a state, also for those it does not have."""
    columns, labels = known.tolist(), saved.labels
    if new := set(saved.columns or ()).difference(columns):
        raise ValueError(f"option {min(new)!r} is not in {state}: leave its lines out, {NEW_STATE}")

    def of_all(values: NDArray[Any], absent: float) -> NDArray[Any]:
        frame = pd.DataFrame(values, columns=saved.columns)
        return frame.reindex(columns=columns, fill_value=absent).to_numpy()

    if labels is not None and labels.ndim > 1:
        labels = of_all(labels, 0.0)
    scores = of_all(saved.scores, np.nan)
    return saved._replace(scores=scores, labels=labels, classes=known, columns=columns)


def load_monitor(path: str, options: dict[str, float]) -> CalibrationMonitor:
    """Return the monitor of a state file, whose options stay."""
    monitor = load_json(path)
    if not isinstance(monitor, CalibrationMonitor):
        raise ValueError(f"{path} is a calibrator, not the state of a monitor")
    for name, value in options.items():
        before = getattr(monitor, name)
        if value != before:
            raise ValueError(f"--{name} {value:g}: {path} has {before:g}; begin another state file")
    return monitor
