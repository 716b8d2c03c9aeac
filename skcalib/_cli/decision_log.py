"""Logs of decisions as JSON lines: the question, the probabilities of its options, the label."""

from __future__ import annotations

import argparse
import gzip
import json
from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skcalib._cli.saved_predictions import (
    DecisionLog,
    SavedPredictions,
    names_among,
    read_rows,
    some_of,
)
from skcalib._validation.options import MOST_OPTIONS

QUESTION = "question"
SCORES = ("probabilities", "probability")
# Names of the options of a `probability`, as JSON writes its label.
YES_NO = {"true": "yes", "1": "yes", "false": "no", "0": "no"}
# Probabilities of m options with two decimals may sum to 1 within 0.005 m, shares within 0.01.
ROUNDING, SUM_TOLERANCE = 0.005, 0.01
# Lines that show whether a file is a log.
FIRST_LINES = 100
# What JSON reads a number as; true and false are no numbers.
NUMBERS = (int, float)


def is_log(path: str) -> bool:
    """Whether one of the first lines of a file is a decision, and not a row of a table."""
    records = [record for _, record in islice(records_of(path), FIRST_LINES)]
    if not records:
        raise ValueError("has no line: write an object for each row")
    return any(
        isinstance(record.get("probabilities"), dict | list)
        or {QUESTION, "probability"} <= record.keys()
        for record in records
    )


def records_of(path: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Read the objects of the lines that are not empty, with the numbers of the lines from 1."""
    opened: Any = gzip.open if path.lower().endswith(".gz") else open
    with opened(path, "rt", encoding="utf-8-sig") as file:
        for line, text in enumerate(file, 1):
            if not text.strip():
                continue
            try:
                record = json.loads(text)
            except (ValueError, RecursionError) as error:
                raise ValueError(
                    f"line {line}: is not JSON: {getattr(error, 'msg', error)}"
                ) from error
            if not isinstance(record, dict):
                raise ValueError(f'line {line}: must be an object, {{"label": ..., ...}}')
            yield line, record


def read_log(path: str, args: argparse.Namespace, classes: NDArray[Any] | None) -> SavedPredictions:
    """Read a log; lines without a label are left out, unless a calibrator of `classes` is applied.

    An option that was not offered is NaN. Labels are shares ``(n, K)`` if some line has shares.
    """
    import pandas as pd  # late: only tables need it

    lines = list(records_of(path))
    there = list(dict.fromkeys(key for _, record in lines for key in record))
    args.groups = args.groups or [QUESTION] * (QUESTION in there)
    names = names_among(there, args, ())
    options = [] if classes is None else [name_of(label) for label in classes.tolist()]
    records, offered, shares = [], [], []
    for line, record in lines:
        label = record.get(str(names.labels))
        if classes is None and label is None:
            continue
        try:
            row = options_of(record)
            if classes is None:
                shares.append(shares_of(record, label, row))
            elif unknown := row.keys() - options:
                raise ValueError(
                    f"the calibrator was fitted without the option {min(unknown)!r}: fit it on "
                    "lines that offer it, or drop the line"
                )
        except ValueError as error:
            raise ValueError(f"line {line}: {error}") from error
        records.append(record)
        offered.append(row)
    if not records:
        raise ValueError("no line has a label: write one, or name its key by --labels")
    options = options or sorted({name for row in offered for name in row})
    if len(options) > MOST_OPTIONS:  # before there is a table
        raise ValueError(
            f"has {len(options):,} options: where their text changes from line to line, write the "
            "probabilities as a list, by position"
        )
    P = pd.DataFrame(offered, columns=options, dtype=np.float64).to_numpy()
    saved = read_rows(
        P / np.nansum(P, axis=1, keepdims=True),
        names._replace(labels=None),
        lambda name: pd.Series([record.get(name) for record in records]).to_numpy(),
        [name for name in there if name not in (*SCORES, names.labels)],
        input="proba",
        classes=np.array(options) if classes is None else classes,
        columns=options,
    )
    labels = None
    if classes is None:
        labels = pd.DataFrame(shares, columns=options, dtype=np.float64).fillna(0).to_numpy()
        if (labels.max(axis=1) == 1).all():
            labels = np.array(options)[labels.argmax(axis=1)]
    return saved._replace(labels=labels, log=DecisionLog(records, len(lines)))


def name_of(value: Any) -> str:
    """Return the name of an option: a text, or a value as JSON writes it; 2.0 is 2."""
    if isinstance(value, str):
        return value
    whole = isinstance(value, float) and value.is_integer()
    return json.dumps(int(value) if whole else value)


def by_option(given: Any) -> dict[str, Any]:
    """Return the numbers of an object, of a list by position, or of {"value", "probability"}."""
    if isinstance(given, dict):
        return given
    pairs = [
        (name_of(entry.get("value", entry.get("label"))), entry.get("probability"))
        if isinstance(entry, dict)
        else (str(place), entry)
        for place, entry in enumerate(given)
    ]
    if len(dict(pairs)) < len(pairs):
        raise ValueError(f"has an option twice: {some_of([name for name, _ in pairs])}")
    return dict(pairs)


def options_of(record: dict[str, Any]) -> dict[str, float]:
    """Return the probability of each option that was offered."""
    given, yes = record.get("probabilities"), record.get("probability")
    if given is None and yes is not None:
        given = {"yes": yes, "no": 1 - yes if type(yes) in NUMBERS else None}
    if not isinstance(given, dict | list):
        raise ValueError("has no 'probabilities', an object or a list, and no 'probability' of yes")
    P = {name: p for name, p in by_option(given).items() if p is not None}
    for name, p in P.items():
        if not (type(p) in NUMBERS and 0 <= p <= 1 + SUM_TOLERANCE):
            raise ValueError(f"the probability of {name!r} is {p!r}, not a number from 0 to 1")
    total = sum(P.values())
    if abs(total - 1) > max(SUM_TOLERANCE, ROUNDING * len(P)) + 1e-6:
        raise ValueError(f"the probabilities sum to {total:.6g}, not to 1")
    return P


def shares_of(record: dict[str, Any], label: Any, offered: dict[str, float]) -> dict[str, float]:
    """Return the share of raters for each option: 1 of a label; counts are divided by their sum."""
    shares = by_option(label) if isinstance(label, dict | list) else {name_of(label): 1}
    if record.get("probabilities") is None:
        shares = {YES_NO.get(name.lower(), name.lower()): share for name, share in shares.items()}
    shares = {name: share for name, share in shares.items() if share}
    if absent := shares.keys() - offered.keys():
        there = some_of(list(offered))
        raise ValueError(
            f"the label, {min(absent)!r}, was not offered there, where the options are {there}"
        )
    total = sum(s if type(s) in NUMBERS and s > 0 else np.nan for s in shares.values())
    are_counts = all(type(share) is int for share in shares.values())
    if not (total > 0 and (are_counts or abs(total - 1) <= SUM_TOLERANCE)):
        raise ValueError(f"the shares of the label are {label!r}; they must sum to 1")
    return {name: share / total for name, share in shares.items()}


def one_label(saved: SavedPredictions, seed: int) -> SavedPredictions:
    """Return predictions with the label of one drawn rater in place of shares."""
    shares = saved.labels
    if shares is None or shares.ndim == 1 or saved.classes is None:
        return saved
    up_to = shares.cumsum(axis=1)
    drawn = np.random.default_rng(seed).random((len(shares), 1)) * up_to[:, -1:]
    return saved._replace(labels=saved.classes[(up_to <= drawn).sum(axis=1)])


def offered_in(saved: SavedPredictions) -> str:
    """Say how many questions there are, and how many options."""
    counts = (~np.isnan(saved.scores)).sum(axis=1)
    text = " to ".join(map(str, sorted({counts.min(), counts.max()}))) + " options"
    if saved.groups is None:
        return text
    n_groups, name = len(saved.groups.drop_duplicates()), " x ".join(saved.groups.columns)
    return f"{n_groups:,} {name}{'s' * (n_groups > 1)}, {text}"


def labels_in(log: DecisionLog) -> str:
    """Say how many lines have no label."""
    without = log.n_lines - len(log.records)
    return f"\n{without:,} of {log.n_lines:,} lines have no label" if without else ""


def calibrated_lines(
    log: DecisionLog, P: NDArray[Any], classes: NDArray[Any], accepted: NDArray[Any] | None
) -> str:
    """Write each line with "calibrated", in the form of its probabilities; perhaps "accepted"."""
    options = [name_of(label) for label in classes.tolist()]
    texts = []
    for i, (record, p) in enumerate(zip(log.records, P.tolist(), strict=True)):
        given, q = record.get("probabilities"), dict(zip(options, p, strict=True))
        calibrated: Any = q.get("yes")
        if given is not None:
            calibrated = {name: q.get(name, 0.0) for name in by_option(given)}
        if isinstance(given, list):
            calibrated = [
                {**entry, "probability": value} if isinstance(entry, dict) else value
                for entry, value in zip(given, calibrated.values(), strict=True)
            ]
        act = {} if accepted is None else {"accepted": bool(accepted[i])}
        texts.append(json.dumps({**record, "calibrated": calibrated, **act}, ensure_ascii=False))
    return "\n".join(texts) + "\n"
