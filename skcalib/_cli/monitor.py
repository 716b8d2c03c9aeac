"""``skcalib monitor``: count a batch of labels, and say whether probabilities are calibrated."""

from __future__ import annotations

import argparse
import hashlib
from pathlib import Path

import numpy as np

from skcalib._cli.files import event_of, read
from skcalib._cli.printed import Printed
from skcalib._cli.saved_predictions import STREAM
from skcalib._comparison.held_out import fit_rows, read_rows
from skcalib._monitor.monitor import CalibrationMonitor
from skcalib._storage.files import load_json, save_json
from skcalib.calibrators import IdentityCalibrator

# Options of a monitor, which its state keeps.
OPTIONS = ("alpha", "period", "tolerance")


def run_monitor(args: argparse.Namespace) -> Printed:
    """Count the rows of a file; the exit code is 1 after an alarm."""
    if args.file == STREAM:
        raise ValueError("monitor counts files, each once: pass a file, not -")
    found = read(args)
    assert found.labels is not None
    if found.weights is not None:
        raise ValueError("a monitor takes no weights: leave them out, or pass copies of rows")
    given = {name: value for name in OPTIONS if (value := getattr(args, name)) is not None}
    if Path(args.state).exists():
        monitor = load_monitor(args.state, given)
    else:
        monitor = CalibrationMonitor(**given, pos_label=event_of(args.pos_label, found.labels))
    digest = hashlib.sha256(Path(args.file).read_bytes()).hexdigest()
    files = getattr(monitor, "_files", [])
    if digest in files:
        raise ValueError(f"these rows were counted before, as update {files.index(digest) + 1}")
    classes = getattr(monitor, "classes_", found.classes)
    data = read_rows(
        found.scores,
        found.labels,
        None,
        input=found.input,
        classes=classes,
        pos_label=monitor.pos_label,
    )
    P = fit_rows(IdentityCalibrator(), data).predict_proba(data.scores.read(slice(None)))
    monitor.labels = data.classes
    rows = slice(None) if found.test is None else np.flatnonzero(found.test)
    groups = None if found.groups is None else found.groups.iloc[rows]
    monitor.update(data.y[rows], P[rows], groups=groups)
    monitor._files = [*files, digest]
    save_json(monitor, args.state)
    text = (
        f"{args.file}: update {monitor.n_updates_:,}, {len(P[rows]):,} rows: {monitor.in_words()}"
    )
    return Printed(text, code=int(monitor.alarm_))


def load_monitor(path: str, given: dict[str, float]) -> CalibrationMonitor:
    """Return the monitor of a state file, whose options stay."""
    monitor = load_json(path)
    if not isinstance(monitor, CalibrationMonitor):
        raise ValueError(f"{path} is a calibrator, not the state of a monitor")
    for name, value in given.items():
        before = getattr(monitor, name)
        if value != before:
            raise ValueError(f"--{name} {value:g}: {path} has {before:g}; begin another state file")
    return monitor
