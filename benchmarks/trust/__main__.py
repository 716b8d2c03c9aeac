"""Try invalid calls and damaged files: ``python -m benchmarks.trust`` writes its README.md.

It prints each fault, fills the page with the counts and with those of the record, and exits with 1
if there is a fault. ``--calls 0`` or ``--files 0`` leaves out the one or the other.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from benchmarks._shared.report import fill, markdown
from benchmarks.trust import damaged, fuzz

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "benchmarks" / "trust" / "README.md"
RECORD = ROOT / "tests" / "record" / "values.json"
MEANING = {
    "right answer": "correct result: that of the same data as a plain array",
    "valid answer": "valid result: finite and within its bounds; nothing to compare with",
    "refused": "error: `ValueError` or `TypeError` of one line that names the argument",
}
OF_FILES = {
    "rejected": "rejected: `ValueError` of one line that names the file",
    "same": "loaded, with the same results",
    "other": "loaded, with other results: rows that sum to 1, or an error of one line",
}


def table(what: str, meaning: dict[str, str], outcomes: Counter[str]) -> list[str]:
    """Return how many calls or files ended in which way."""
    rows = [(words, f"{outcomes[name]:,}") for name, words in meaning.items()]
    faults = outcomes.total() - sum(outcomes[name] for name in meaning)
    rows.append(("anything else, which is a fault", f"{faults:,}"))
    return markdown([f"result of the {what}", f"{outcomes.total():,} {what}s"], rows, left=1)


def record_lines() -> list[str]:
    """Return how many numbers are recorded."""
    record = json.loads(RECORD.read_text())
    count = sum(len(value) for value in record["values"].values() if isinstance(value, list))
    versions = ", ".join(f"{name} {version}" for name, version in record["made_with"].items())
    calls = len(record["values"])
    return [f"{count:,} numbers of {calls:,} calls, computed with {versions}."]


def main(arguments: Sequence[str] | None = None) -> None:
    """Call, print faults, and write the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.trust", description=__doc__)
    parser.add_argument("--calls", type=int, default=8000, help="invalid calls")
    parser.add_argument("--files", type=int, default=2600, help="damaged files")
    parser.add_argument("--seed", type=int, default=0, help="which ones")
    parser.add_argument("--page", type=Path, default=PAGE, help="the page to write")
    options = parser.parse_args(arguments)
    fill(options.page, "record", record_lines())
    calls: Counter[str] = Counter()
    for case, seed, outcome, fault in fuzz.run(options.calls, options.seed):
        calls[outcome] += 1
        if fault:
            print(f"{outcome}: {case} [{seed}]: {fault[:220]}", flush=True)
    files: Counter[str] = Counter()
    for name, outcome in damaged.run(options.files, options.seed):
        files[outcome] += 1
        if outcome not in OF_FILES:
            print(f"{name}: {outcome[:220]}", flush=True)
    for section, what, meaning, counts in (
        ("calls", "call", MEANING, calls),
        ("files", "file", OF_FILES, files),
    ):
        if counts:
            lines = table(what, meaning, counts)
            print(*lines, sep="\n")
            fill(options.page, section, lines)
    if not (calls.keys() <= MEANING.keys() and files.keys() <= OF_FILES.keys()):
        sys.exit("there are faults")


if __name__ == "__main__":
    main()
