"""What a command prints: a table to read, or JSON."""

from __future__ import annotations

import json
import math
import re
import textwrap
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import argparse

    import pandas as pd

# Characters of a line in a terminal.
WIDTH = 100
# The number of the form of JSON output; a name that goes or changes takes the next one.
SCHEMA = 1


class Printed(NamedTuple):
    """Texts for standard output and for stderr, and the exit code."""

    out: str
    err: str = ""
    code: int = 0


def wrapped(text: str) -> str:
    """Break a sentence into lines, none between a number and its per cent."""
    unbroken = text.replace(" %", "\u00a0%")
    lines = textwrap.fill(unbroken, WIDTH, break_long_words=False, break_on_hyphens=False)
    return lines.replace("\u00a0", " ")


def as_json(args: argparse.Namespace, record: dict[str, Any]) -> str:
    """Write the JSON of a command; numbers that are not finite are null."""
    record = {"command": args.command, "schema": SCHEMA, "file": args.file, **record}
    return json.dumps(_plain(record), indent=2, ensure_ascii=False, allow_nan=False)


def flat_records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows, with names of one level for columns of two."""
    names = [re.sub("[ -]", "_", "_".join(filter(None, pair))) for pair in frame.columns]
    rows = frame.set_axis(names, axis=1).to_dict("records")
    return [{str(name): value for name, value in row.items()} for row in rows]


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
