"""``skcalib monitor``: count a batch of labels, and say whether probabilities are calibrated."""

from __future__ import annotations

import argparse
import hashlib
from pathlib import Path
from typing import Any

from skcalib._cli.files import event_of, read
from skcalib._cli.measured import held_out
from skcalib._cli.printed import Printed, in_format
from skcalib._cli.saved_predictions import STREAM
from skcalib._monitor.monitor import CalibrationMonitor
from skcalib._storage.files import load_json, save_json

# Options of a monitor, which its state keeps.
OPTIONS = ("alpha", "period", "tolerance")
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
    options = {name: value for name in OPTIONS if (value := getattr(args, name)) is not None}
    if Path(args.state).exists():
        monitor = load_monitor(args.state, options)
    else:
        monitor = CalibrationMonitor(**options, pos_label=event_of(args.pos_label, saved.labels))
    digest = hashlib.sha256(Path(args.file).read_bytes()).hexdigest()
    files = getattr(monitor, "_files", [])
    if digest in files:
        raise ValueError(f"these rows were counted before, as update {files.index(digest) + 1}")
    known = {"classes": getattr(monitor, "classes_", saved.classes), "pos_label": monitor.pos_label}
    rows, _ = held_out(args, saved, **known)
    given: Any = rows.predictions  # in the place of labels and probabilities
    monitor.labels = given.classes
    monitor.update(given, given, groups=saved.measured(saved.groups))
    monitor._files = [*files, digest]
    save_json(monitor, args.state)
    words, n_updates = monitor.in_words(), monitor.n_updates_
    record = {
        **rows.record(),
        "update": n_updates,
        **{name: getattr(monitor, f"{name}_") for name in SHOWN},
        "summary": words,
    }
    line = f"{args.file}: update {n_updates:,}, {len(given.code):,} rows: {words}"
    return Printed(in_format(args, [line], record), code=int(monitor.alarm_))


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
