"""Decision logs as JSON lines: the question, the probabilities of its options, and the label."""

from __future__ import annotations

import argparse
import gzip
import json
from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skcalib._cli.tables import SavedPredictions, names_among, read_rows, some_of
from skcalib.extending import MOST_OPTIONS

QUESTION = "question"
SCORES = ("probabilities", "probability")
# For lines with a single probability: labels that mean "yes" or "no", in lower case.
YES_NO = {"true": "yes", "1": "yes", "false": "no", "0": "no"}
# Allowed distances of sums from 1 for values rounded to two decimals: 0.005 for the probability of
# each option, and 0.01 for soft labels.
ROUNDING, SUM_TOLERANCE = 0.005, 0.01
# Number of lines that are read to find out whether a file is a decision log.
FIRST_LINES = 100


def is_log(path: str) -> bool:
    """Whether a file is a decision log, not a table, judged by its first lines."""
    records = [record for _, record in islice(records_of(path), FIRST_LINES)]
    if not records:
        raise ValueError("is empty: write a JSON object on a line for each row")
    in_options = any(isinstance(r.get("probabilities"), dict | list) for r in records)
    return in_options or any({QUESTION, "probability"} <= r.keys() for r in records)


def records_of(path: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the number (from 1) and the JSON object of each line that is not empty."""
    opened: Any = gzip.open if path.lower().endswith(".gz") else open
    with opened(path, "rt", encoding="utf-8-sig") as file:
        for line, text in enumerate(file, 1):
            try:
                record = json.loads(text) if text.strip() else None
            except (ValueError, RecursionError) as error:
                raise ValueError(f"line {line}: is not JSON: {error}") from error
            if isinstance(record, dict):
                yield line, record
            elif text.strip():
                raise ValueError(f'line {line}: must be a JSON object, {{"label": ..., ...}}')


def read_log(path: str, args: argparse.Namespace, classes: NDArray[Any] | None) -> SavedPredictions:
    """Read a decision log.

    Lines without a label are ignored, unless a calibrator of these `classes` is applied. The
    probability of an option that is not in a line is NaN. Labels are soft labels ``(n, K)`` if
    some line has several raters.
    """
    lines = list(records_of(path))
    there = list(dict.fromkeys(key for _, record in lines for key in record))
    names = names_among(there, args, ())
    names.groups = names.groups or [QUESTION] * (QUESTION in there)
    unused = [name for name in there if name not in (*SCORES, names.labels)]
    options = [] if classes is None else [name_of(label) for label in classes.tolist()]
    if classes is None:
        n_lines = len(lines)
        lines = [line for line in lines if line[1].get(str(names.labels)) is not None]
        if not lines:
            raise ValueError(
                "no line has a label: add the key 'label', or name another key by --labels"
            )
        if without := n_lines - len(lines):
            unused.append(f"{without:,} of {n_lines:,} lines (without a label)")
    P, shares = [], []
    for line, record in lines:
        try:
            P.append(options_of(record))
            if classes is None:
                shares.append(shares_of(record, record[str(names.labels)], P[-1]))
            elif unknown := P[-1].keys() - options:
                raise ValueError(
                    f"the answer option {min(unknown)!r} is not in the lines on which the "
                    "calibrator was fitted: fit the calibrator again on lines with this option"
                )
        except ValueError as error:
            raise ValueError(f"line {line}: {error}") from error
    options = options or sorted({name for row in P for name in row})
    if len(options) > MOST_OPTIONS:  # the columns of the table would not fit into memory
        raise ValueError(
            f"has {len(options):,} different options, more than {MOST_OPTIONS:,}: if each line has "
            "options of its own, write the probabilities as lists"
        )
    scores, labels = (pd.DataFrame(rows, columns=options, dtype=float) for rows in (P, shares))
    known = np.array(options) if classes is None else classes
    names.labels = None  # the table `shares` already contains the labels
    saved = read_rows(
        scores.div(scores.sum(axis=1), axis=0).to_numpy(),
        names,
        lambda name: pd.Series([record.get(name) for _, record in lines]).to_numpy(),
        unused,
        input="proba",
        classes=known,
        columns=options,
    )._replace(records=[record for _, record in lines])
    if classes is not None:
        return saved
    F = labels.fillna(0).to_numpy()
    return saved._replace(labels=known[F.argmax(axis=1)] if (F.max(axis=1) == 1).all() else F)


def name_of(value: Any) -> str:
    """Return the name of an option: a text unchanged, another value as in JSON (2.0 becomes 2)."""
    if isinstance(value, str):
        return value
    whole = isinstance(value, float) and value.is_integer()
    return json.dumps(int(value) if whole else value)


def read_values(values: Any) -> dict[str, Any]:
    """Return values by option name; a list of numbers has the options 0, 1, ...

    `values` is an object, a list of numbers, or a list of objects with "value" and "probability".
    """
    if isinstance(values, dict):
        return values
    entries = enumerate(values)
    pairs = [e if isinstance(e, dict) else {"value": str(i), "probability": e} for i, e in entries]
    return {name_of(e.get("value", e.get("label"))): e.get("probability") for e in pairs}


def numbers_of(values: Any, what: str) -> dict[str, float]:
    """Check the probabilities or soft labels of the options, and drop options with null."""
    numbers = {name: value for name, value in read_values(values).items() if value is not None}
    for name, value in numbers.items():
        if type(value) not in (int, float) or not value >= 0:
            raise ValueError(f"the {what} of {name!r} must be a number >= 0; got {value!r}")
    return numbers


def options_of(record: dict[str, Any]) -> dict[str, float]:
    """Return the probability of each option in a line of a decision log."""
    probabilities, yes = record.get("probabilities"), record.get("probability")
    if probabilities is None and yes is not None:
        probabilities = {"yes": yes, "no": 1 - yes if type(yes) in (int, float) else None}
    if not isinstance(probabilities, dict | list):
        raise ValueError(
            "has no probabilities: write 'probabilities', an object or a list, or 'probability', "
            "the probability of yes"
        )
    P = numbers_of(probabilities, "probability")
    total = sum(P.values())
    if abs(total - 1) > max(SUM_TOLERANCE, ROUNDING * len(P)) + 1e-6:
        raise ValueError(f"the probabilities must sum to 1; their sum is {total:.6g}")
    return P


def shares_of(record: dict[str, Any], label: Any, offered: dict[str, float]) -> dict[str, float]:
    """Return the fraction of raters who chose each option as the label of a row.

    A single label has the fraction 1. Counts of raters are divided by their sum.
    """
    shares = numbers_of(label, "share") if isinstance(label, dict | list) else {name_of(label): 1}
    if record.get("probabilities") is None:
        shares = {YES_NO.get(name.lower(), name.lower()): share for name, share in shares.items()}
    shares = {name: share for name, share in shares.items() if share}
    if absent := shares.keys() - offered.keys():
        raise ValueError(
            f"label {min(absent)!r} is not one of the options of this line: "
            f"{some_of(list(offered))}"
        )
    total = sum(shares.values())
    are_counts = all(type(share) is int for share in shares.values())
    if not total or not (are_counts or abs(total - 1) <= SUM_TOLERANCE):
        raise ValueError(f"soft labels must be counts of raters or sum to 1; got {label!r}")
    return {name: share / total for name, share in shares.items()}


def draw_rater(saved: SavedPredictions, seed: int) -> SavedPredictions:
    """Replace soft labels by the label of one rater per row, drawn at random."""
    if saved.classes is None or saved.labels is None or saved.labels.ndim == 1:
        return saved
    up_to = saved.labels.cumsum(axis=1)
    drawn = np.random.default_rng(seed).random((len(up_to), 1)) * up_to[:, -1:]
    return saved._replace(labels=saved.classes[(up_to <= drawn).sum(axis=1)])


def calibrated_lines(
    saved: SavedPredictions, P: NDArray[Any], classes: NDArray[Any], accepted: Any, calibrated: bool
) -> str:
    """Add calibrated probabilities, and whether a row is accepted, to the lines of a log.

    "accepted" is added for a selective classifier, and "calibrated", in the form of the line's own
    probabilities, if the probabilities are `calibrated`.
    """
    options = [name_of(label) for label in classes.tolist()]
    texts = []
    for i, (record, p) in enumerate(zip(saved.records or (), P.tolist(), strict=True)):
        probabilities, q = record.get("probabilities"), dict(zip(options, p, strict=True))
        new: Any = q.get("yes")
        if probabilities is not None:
            new = {name: q.get(name, 0.0) for name in read_values(probabilities)}
        if isinstance(probabilities, list):
            pairs = zip(probabilities, new.values(), strict=True)
            new = [{**old, "probability": q} if isinstance(old, dict) else q for old, q in pairs]
        new = {"calibrated": new} if calibrated else {}
        act = {} if accepted is None else {"accepted": bool(accepted[i])}
        texts.append(json.dumps({**record, **new, **act}, ensure_ascii=False) + "\n")
    return "".join(texts)
