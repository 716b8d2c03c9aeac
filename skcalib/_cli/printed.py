"""What a command prints: sentences and tables to read, or JSON."""

from __future__ import annotations

import argparse
import json
import math
import re
import textwrap
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from skcalib._scores.top_label import event_or_top
from skcalib._validation.predictions import Predictions
from skcalib.metrics._clusters import cluster_sums, student_of_rows
from skcalib.metrics._printing import LINE

# The number of the form of JSON output; a name that goes or changes takes the next one.
SCHEMA = 1
# A difference of fewer standard errors may be chance.
STANDARD_ERRORS = 1.96


class Printed(NamedTuple):
    """Texts for standard output and for stderr, and the exit code."""

    out: str
    err: str = ""
    code: int = 0


def wrapped(text: str) -> str:
    """Break a sentence into lines, none between a number and its per cent."""
    unbroken = text.replace(" %", "\u00a0%")
    lines = textwrap.fill(unbroken, LINE, break_long_words=False, break_on_hyphens=False)
    return lines.replace("\u00a0", " ")


def in_format(args: argparse.Namespace, lines: list[str], record: dict[str, Any]) -> str:
    """Return the lines of a command or its JSON, in which numbers that are not finite are null."""
    if args.format == "table":
        return "\n".join(lines)
    record = {"command": args.command, "schema": SCHEMA, "file": args.file, **record}
    return json.dumps(_plain(record), indent=2, ensure_ascii=False, allow_nan=False)


def flat_records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows, with names of one level for columns of two."""
    names = [re.sub("[ -]", "_", "_".join(filter(None, pair))) for pair in frame.columns]
    rows: Any = frame.set_axis(names, axis=1).to_dict("records")
    return list(rows)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(entry) for entry in value]
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if isinstance(value, (str, int, bool, type(None))) else str(value)


def confidence_of(predictions: Predictions) -> tuple[float, float, float]:
    """Return mean score, share of hits, and the standard error of their difference if calibrated.

    The score is that of the top label and a hit a correct prediction, or the probability of one
    event and its occurrence.
    """
    score, hit = event_or_top(predictions)
    n = predictions.w.sum()
    score, w = np.asarray(score, dtype=np.float64), predictions.w / n
    error = np.sqrt(w @ (score * (1 - score)) / n)
    if predictions.cluster is not None:
        sums = cluster_sums(w * (hit - score), predictions.cluster)
        t = student_of_rows(predictions, 0.95)
        error = np.sqrt(sums @ sums) * t / STANDARD_ERRORS
    return float(w @ score), float(w @ hit), float(error)


def confidence_sentence(predictions: Predictions) -> str:
    """Say whether predictions claim too much."""
    score, hits, standard_error = confidence_of(predictions)
    mean, rate, more = percent(score), percent(hits), score > hits
    # Of the numbers as they are written, so that they agree.
    points = f"{abs(round(100 * score, 1) - round(100 * hits, 1)):.1f} points"
    if predictions.event is not None:
        start = f"Predicts {mean} on average, and {rate} of the rows are events"
        none, fault = "as often as predicted", f"too {'high' if more else 'low'} by {points}"
    else:
        start = f"The model is {mean} confident on average and right {rate} of the time"
        none = "calibrated on average"
        fault = f"{'over' if more else 'under'}-confident by {points}"
    if points == "0.0 points":
        return f"{start}: {none}."
    chance = abs(score - hits) <= STANDARD_ERRORS * standard_error
    return f"{start}: {fault}{', which may be chance' if chance else ''}."


def percent(share: float) -> str:
    """Write a share in per cent."""
    return f"{100 * share:.1f} %"
