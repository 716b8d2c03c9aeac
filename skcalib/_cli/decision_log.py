"""Logs of decisions as JSON lines: the question, the probabilities of its options, the label."""

from __future__ import annotations

import argparse
import gzip
import json
from collections import Counter
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


def is_log(path: str) -> bool:
    """Whether the first line of a file is a decision, and not a row of a table."""
    try:
        record = json.loads(next(lines_of(path), (1, "null"))[1])
    except (ValueError, RecursionError):
        return False
    if not isinstance(record, dict):
        return False
    in_options = isinstance(record.get("probabilities"), dict | list)
    return in_options or {QUESTION, "probability"} <= record.keys()


def lines_of(path: str) -> Iterator[tuple[int, str]]:
    """Read the lines that are not empty, with their numbers from 1."""
    opened: Any = gzip.open if path.lower().endswith(".gz") else open
    with opened(path, "rt", encoding="utf-8-sig") as file:
        yield from ((line, text) for line, text in enumerate(file, 1) if text.strip())


def read_log(path: str, args: argparse.Namespace, classes: NDArray[Any] | None) -> SavedPredictions:
    """Read a log; lines without a label are left out, unless a calibrator of `classes` is applied.

    An option that was not offered is NaN. Of shares, the label of a row is that of one drawn rater.
    """
    import pandas as pd  # late: only tables need it

    lines, records = [], []
    for line, text in lines_of(path):
        lines.append(line)
        records.append(parsed(line, text))
    there = list(dict.fromkeys(key for record in records for key in record))
    args.groups = args.groups or [name for name in (QUESTION,) if name in there]
    names = names_among(there, args, ())
    n_lines = len(records)
    if classes is None:
        rows = [i for i, record in enumerate(records) if record.get(str(names.labels)) is not None]
        if not rows:
            raise ValueError("no line has a label: write one, or name its key by --labels")
        records, lines = [records[i] for i in rows], [lines[i] for i in rows]
    offered, shares = [], []
    for line, record in zip(lines, records, strict=True):
        try:
            offered.append(options_of(record))
            shares.append({} if classes is not None else shares_of(record, names, offered[-1]))
        except ValueError as error:
            raise ValueError(f"line {line}: {error}") from error
    if classes is None:
        options = sorted({name for row in offered for name in row})
    else:
        options = [name_of(label) for label in classes.tolist()]
    P = table_of(offered, options, lines)
    P /= np.nansum(P, axis=1, keepdims=True)
    F = np.nan_to_num(table_of(shares, options, lines))
    code = np.zeros(len(P), dtype=np.intp)
    if classes is None:
        drawn = np.random.default_rng(vars(args).get("seed", 0)).random((len(P), 1))
        up_to = F.cumsum(axis=1)
        code = (up_to <= drawn * up_to[:, -1:]).sum(axis=1)
    saved = read_rows(
        P,
        names._replace(labels=None),
        lambda name: pd.Series([record.get(name) for record in records]).to_numpy(),
        [name for name in there if name not in (*SCORES, names.labels)],
        input="proba",
        classes=np.array(options) if classes is None else classes,
        columns=options,
    )
    are_shares = classes is None and (F.max(axis=1) < 1).any()
    return saved._replace(
        labels=np.array(options)[code] if classes is None else None,
        log=DecisionLog(records, n_lines, F if are_shares else None),
    )


def parsed(line: int, text: str) -> dict[str, Any]:
    """Return the object of a line."""
    try:
        record = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"line {line}: is not JSON: {error}") from error
    if not isinstance(record, dict):
        raise ValueError(f'line {line}: must be an object, such as {{"probabilities": ...}}')
    return record


def name_of(value: Any) -> str:
    """Return the name of an option: a text, or a value as JSON writes it; 2.0 is 2."""
    if isinstance(value, str):
        return value
    whole = isinstance(value, float) and value.is_integer()
    return json.dumps(int(value) if whole else value)


def options_of(record: dict[str, Any]) -> dict[str, Any]:
    """Return the probability of each option, None where it was not offered."""
    given = record.get("probabilities")
    if given is not None:
        P = by_option(given)
    else:
        yes: Any = record.get("probability")
        if not is_number(yes):
            raise ValueError("has no 'probabilities', an object or a list, and no 'probability'")
        P = {"no": 1 - yes, "yes": yes}
    for name, p in P.items():
        if p is not None and not (is_number(p) and 0 <= p <= 1 + SUM_TOLERANCE):
            raise ValueError(f"the probability of {name!r} is {p!r}, not a number from 0 to 1")
    numbers = [p for p in P.values() if p is not None]
    if not numbers:
        raise ValueError("has no option")
    if abs(sum(numbers) - 1) > max(SUM_TOLERANCE, ROUNDING * len(numbers)) + 1e-6:
        raise ValueError(f"the probabilities sum to {sum(numbers):.6g}, not to 1")
    return P


def by_option(given: Any) -> dict[str, Any]:
    """Return a number for each option of an object, of positions or of {"value", "probability"}."""
    if isinstance(given, dict):
        return given
    if not isinstance(given, list):
        raise ValueError(f"must be an object of option: number, or a list; it is {given!r}")
    pairs = [
        (name_of(entry.get("value", entry.get("label"))), entry.get("probability"))
        if isinstance(entry, dict)
        else (str(place), entry)
        for place, entry in enumerate(given)
    ]
    name, count = Counter(name for name, _ in pairs).most_common(1)[0] if pairs else ("", 1)
    if count > 1:
        raise ValueError(f"has the option {name!r} {count} times")
    return dict(pairs)


def is_number(value: Any) -> bool:
    """Whether a value of JSON is a number."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def shares_of(record: dict[str, Any], names: Any, offered: dict[str, Any]) -> dict[str, float]:
    """Return the share of raters for each option: 1 of a label; counts are divided by their sum."""
    label = record[names.labels]
    if isinstance(label, dict | list):
        shares = by_option(label)
    elif record.get("probabilities") is None and isinstance(label, float) and 0 < label < 1:
        shares = {"no": 1 - label, "yes": label}
    else:
        shares = {name_of(label): 1}
    if record.get("probabilities") is None:
        shares = {YES_NO.get(name.lower(), name): share for name, share in shares.items()}
    shares = {name: share for name, share in shares.items() if share not in (0, None)}
    for name in shares:
        if offered.get(name) is None:
            raise ValueError(
                f"the label, {name!r}, was not offered there, where the options are "
                f"{some_of([option for option, p in offered.items() if p is not None])}"
            )
    numbers = [share for share in shares.values() if is_number(share) and share > 0]
    total = sum(numbers)
    counts = all(isinstance(share, int) for share in numbers)
    if len(numbers) < len(shares) or not (abs(total - 1) <= SUM_TOLERANCE or (counts and total)):
        raise ValueError(f"the shares of the label are {label!r}; they must sum to 1")
    return {name: share / total for name, share in shares.items()}


def table_of(rows: list[dict[str, Any]], options: list[str], lines: list[int]) -> NDArray[Any]:
    """Return the numbers of rows in a column for each option, NaN where there is none."""
    if len(options) > MOST_OPTIONS and any(len(row) < len(options) for row in rows):
        raise ValueError(
            f"has {len(options):,} options: where their text changes from line to line, write the "
            "probabilities as a list, by position"
        )
    place = {name: k for k, name in enumerate(options)}
    table = np.full((len(rows), len(options)), np.nan)
    for i, row in enumerate(rows):
        for name, value in row.items():
            if name not in place:
                raise ValueError(
                    f"line {lines[i]}: the calibrator was fitted without the option {name!r}"
                )
            table[i, place[name]] = np.nan if value is None else value
    return table


def heading(path: str, saved: SavedPredictions, log: DecisionLog) -> str:
    """Say what a log contains."""
    n, offered = len(saved.scores), (~np.isnan(saved.scores)).sum(axis=1)
    fewest, most = offered.min(), offered.max()
    options = f"{most}" if fewest == most else f"{fewest} to {most}"
    groups = ""
    if saved.groups is not None:
        n_groups, name = len(saved.groups.drop_duplicates()), " x ".join(saved.groups.columns)
        groups = f", {n_groups:,} {name}{'s' * (n_groups > 1)}"
    lines = [f"{path}: {n:,} rows{groups}, {options} options, probabilities"]
    if n < log.n_lines:
        lines.append(f"{log.n_lines - n:,} of {log.n_lines:,} lines have no label")
    if log.shares is not None:
        lines.append("labels: shares of raters; errors are those of one rater drawn in each row")
    if saved.unused:
        lines.append(f"not used: {some_of(saved.unused)}")
    return "\n".join(lines)


def losses_of_shares(P: NDArray[Any], F: NDArray[Any]) -> dict[str, NDArray[Any]]:
    """Return the mean losses of each row over its raters."""
    return {
        "log_loss": -(F * np.log(np.maximum(P, 1e-12))).sum(axis=1),
        "brier_score": (P**2).sum(axis=1) - 2 * (F * P).sum(axis=1) + 1,
        "error_rate": 1 - F[np.arange(len(P)), P.argmax(axis=1)],
    }


def entropy(F: NDArray[Any]) -> NDArray[Any]:
    """Return the entropy of the shares of each row, which no log loss is below."""
    return np.asarray(-(F * np.log(np.where(F > 0, F, 1.0))).sum(axis=1))


def calibrated_lines(
    log: DecisionLog, P: NDArray[Any], classes: NDArray[Any], accepted: NDArray[Any] | None
) -> str:
    """Write each line with "calibrated", in the form of its probabilities; perhaps "accepted"."""
    place = {name_of(label): k for k, label in enumerate(classes.tolist())}
    texts = []
    for i, (record, p) in enumerate(zip(log.records, P.tolist(), strict=True)):
        given, q = record.get("probabilities"), [p[place[name]] for name in options_of(record)]
        calibrated: Any = q
        if given is None:
            calibrated = q[1]
        elif isinstance(given, dict):
            calibrated = dict(zip(given, q, strict=True))
        elif isinstance(given[0], dict):
            calibrated = [{**e, "probability": v} for e, v in zip(given, q, strict=True)]
        act = {} if accepted is None else {"accepted": bool(accepted[i])}
        texts.append(json.dumps({**record, "calibrated": calibrated, **act}, ensure_ascii=False))
    return "\n".join(texts) + "\n"
