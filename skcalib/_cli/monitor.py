"""``skcalib monitor``: count a batch of labels, and say whether probabilities are calibrated."""

from __future__ import annotations

import argparse
import hashlib
from pathlib import Path

import numpy as np

from skcalib._cli.files import KINDS, description, event_of, read
from skcalib._cli.printed import Printed, as_json
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
    saved = read(args)
    assert saved.labels is not None
    if saved.weights is not None:
        raise ValueError("a monitor takes no weights: leave them out, or pass copies of rows")
    options = {name: value for name in OPTIONS if (value := getattr(args, name)) is not None}
    if Path(args.state).exists():
        monitor = load_monitor(args.state, options)
    else:
        monitor = CalibrationMonitor(**options, pos_label=event_of(args.pos_label, saved.labels))
    digest = hashlib.sha256(Path(args.file).read_bytes()).hexdigest()
    files = getattr(monitor, "_files", [])
    if digest in files:
        raise ValueError(f"these rows were counted before, as update {files.index(digest) + 1}")
    data = read_rows(
        saved.scores,
        saved.labels,
        None,
        input=saved.input,
        classes=getattr(monitor, "classes_", saved.classes),
        pos_label=monitor.pos_label,
    )
    rows = slice(None) if saved.test is None else np.flatnonzero(saved.test)
    P = fit_rows(IdentityCalibrator(), data).predict_proba(data.scores.read(slice(None)))[rows]
    monitor.labels = data.classes
    groups = None if saved.groups is None else saved.groups.iloc[rows]
    monitor.update(data.y[rows], P, groups=groups)
    monitor._files = [*files, digest]
    save_json(monitor, args.state)
    words, n_updates = monitor.in_words(), monitor.n_updates_
    text = f"{args.file}: update {n_updates:,}, {len(P):,} rows: {words}"
    if args.format == "json":
        shown = ("alarm", "e_value", "where", "since", "advice", "shift")
        record = {
            **description(saved, data.classes, data.event, len(P)),
            "scores": KINDS[data.kind],
            "update": n_updates,
            **{name: getattr(monitor, f"{name}_") for name in shown},
            "summary": words,
        }
        text = as_json(args, record)
    return Printed(text, code=int(monitor.alarm_))


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
