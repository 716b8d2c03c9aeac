"""Logs of decisions as JSON lines: the question, the probabilities of its options, the label."""

from __future__ import annotations

import argparse
import gzip
import json
from collections.abc import Iterator
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

QUESTION = "question"
SCORES = ("probabilities", "probability")
# Names of the options of a `probability`, as JSON writes its label.
YES_NO = {"true": "yes", "1": "yes", "false": "no", "0": "no"}
# More options are no columns: their text changes from row to row.
MOST_OPTIONS = 1000
# Probabilities of m options with two decimals may sum to 1 within 0.005 m, shares within 0.01.
ROUNDING, SUM_TOLERANCE = 0.005, 0.01
# What JSON reads a number as; true and false are no numbers.
NUMBERS = (int, float)


def is_log(path: str) -> bool:
    """Whether the first line of a file is a decision, and not a row of a table."""
    try:
        _, record = next(records_of(path), (0, {}))
    except ValueError:
        return False
    in_options = isinstance(record.get("probabilities"), dict | list)
    return in_options or {QUESTION, "probability"} <= record.keys()


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
                raise ValueError(f"line {line}: is not JSON: {error}") from error
            if not isinstance(record, dict):
                raise ValueError(
                    f'line {line}: must be an object, such as {{"probabilities": ...}}'
                )
            yield line, record


def read_log(path: str, args: argparse.Namespace, classes: NDArray[Any] | None) -> SavedPredictions:
    """Read a log; lines without a label are left out, unless a calibrator of `classes` is applied.

    An option that was not offered is NaN. Of shares, the label of a row is that of one drawn rater.
    """
    import pandas as pd  # late: only tables need it

    lines = list(records_of(path))
    there = list(dict.fromkeys(key for _, record in lines for key in record))
    args.groups = args.groups or [name for name in (QUESTION,) if name in there]
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
                raise ValueError(f"the calibrator was fitted without the option {min(unknown)!r}")
        except ValueError as error:
            raise ValueError(f"line {line}: {error}") from error
        records.append(record)
        offered.append(row)
    if not records:
        raise ValueError("no line has a label: write one, or name its key by --labels")
    options = options or sorted({name for row in offered for name in row})
    if len(options) > MOST_OPTIONS and any(len(row) < len(options) for row in offered):
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
    labels = F = None
    if classes is None:
        F = pd.DataFrame(shares, columns=options, dtype=np.float64).fillna(0).to_numpy()
        up_to = F.cumsum(axis=1)
        drawn = np.random.default_rng(vars(args).get("seed", 0)).random((len(F), 1))
        labels = np.array(options)[(up_to <= drawn * up_to[:, -1:]).sum(axis=1)]
        F = F if (F.max(axis=1) < 1).any() else None
    return saved._replace(labels=labels, log=DecisionLog(records, len(lines), F))


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
    numbers: dict[str, Any] = {}
    for place, entry in enumerate(given):
        name, number = str(place), entry
        if isinstance(entry, dict):
            name, number = name_of(entry.get("value", entry.get("label"))), entry.get("probability")
        if name in numbers:
            raise ValueError(f"has the option {name!r} twice")
        numbers[name] = number
    return numbers


def options_of(record: dict[str, Any]) -> dict[str, float]:
    """Return the probability of each option that was offered."""
    given: Any = record.get("probabilities")
    yes: Any = record.get("probability")
    if given is None and type(yes) in NUMBERS:
        given = {"no": 1 - yes, "yes": yes}
    if not isinstance(given, dict | list):
        raise ValueError("has no 'probabilities', an object or a list, and no 'probability'")
    P = {name: p for name, p in by_option(given).items() if p is not None}
    for name, p in P.items():
        if not (type(p) in NUMBERS and 0 <= p <= 1 + SUM_TOLERANCE):
            raise ValueError(f"the probability of {name!r} is {p!r}, not a number from 0 to 1")
    if not P:
        raise ValueError("has no option")
    total = sum(P.values())
    if abs(total - 1) > max(SUM_TOLERANCE, ROUNDING * len(P)) + 1e-6:
        raise ValueError(f"the probabilities sum to {total:.6g}, not to 1")
    return P


def shares_of(record: dict[str, Any], label: Any, offered: dict[str, float]) -> dict[str, float]:
    """Return the share of raters for each option: 1 of a label; counts are divided by their sum."""
    yes_or_no = record.get("probabilities") is None
    if isinstance(label, dict | list):
        shares = by_option(label)
    elif yes_or_no and isinstance(label, float) and 0 < label < 1:
        shares = {"no": 1 - label, "yes": label}
    else:
        shares = {name_of(label): 1}
    names = YES_NO if yes_or_no else {}
    shares = {names.get(name.lower(), name): share for name, share in shares.items() if share}
    if absent := shares.keys() - offered.keys():
        there = some_of(list(offered))
        raise ValueError(
            f"the label, {min(absent)!r}, was not offered there, where the options are {there}"
        )
    numbers = list(shares.values())
    total = sum(numbers) if all(type(s) in NUMBERS and s > 0 for s in numbers) else 0
    if not total or (abs(total - 1) > SUM_TOLERANCE and any(type(s) is float for s in numbers)):
        raise ValueError(f"the shares of the label are {label!r}; they must sum to 1")
    return {name: share / total for name, share in shares.items()}


def offered_in(saved: SavedPredictions) -> str:
    """Say how many questions there are, and how many options."""
    counts = (~np.isnan(saved.scores)).sum(axis=1)
    text = " to ".join(map(str, sorted({counts.min(), counts.max()}))) + " options"
    if saved.groups is None:
        return text
    n_groups, name = len(saved.groups.drop_duplicates()), " x ".join(saved.groups.columns)
    return f"{n_groups:,} {name}{'s' * (n_groups > 1)}, {text}"


def labels_in(log: DecisionLog) -> str:
    """Say how many lines have no label, and whether labels are shares."""
    without = log.n_lines - len(log.records)
    text = f"\n{without:,} of {log.n_lines:,} lines have no label" if without else ""
    if log.shares is not None:
        text += "\nlabels: shares of raters; errors are those of one rater drawn in each row"
    return text


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
