"""Try invalid calls and write benchmarks/trust/README.md: ``python -m benchmarks.trust``.

It prints each fault, fills the page with the counts and with those of the record, and exits with 1
if there is a fault. ``--calls 0`` writes those of the record only.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from benchmarks._shared.report import fill, markdown
from benchmarks.trust.fuzz import OUTCOMES, run

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "benchmarks" / "trust" / "README.md"
RECORD = ROOT / "tests" / "record" / "values.json"
MEANING = (
    "correct result: that of the same data as a plain array",
    "valid result: finite and within its bounds; nothing to compare with",
    "error: `ValueError` or `TypeError` of one line that names the argument",
)


def calls_table(outcomes: Counter[str]) -> list[str]:
    """Return how many calls ended in which way."""
    rows = [(words, f"{outcomes[name]:,}") for words, name in zip(MEANING, OUTCOMES, strict=True)]
    faults = outcomes.total() - sum(outcomes[name] for name in OUTCOMES)
    rows.append(("anything else, which is a fault", f"{faults:,}"))
    return markdown(["result of the call", f"{outcomes.total():,} calls"], rows, left=1)


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
    parser.add_argument("--seed", type=int, default=0, help="which ones")
    parser.add_argument("--page", type=Path, default=PAGE, help="the page to write")
    options = parser.parse_args(arguments)
    fill(options.page, "record", record_lines())
    if not options.calls:
        return
    outcomes: Counter[str] = Counter()
    for case, seed, outcome, fault in run(options.calls, options.seed):
        outcomes[outcome] += 1
        if fault:
            print(f"{outcome}: {case} [{seed}]: {fault[:220]}", flush=True)
    lines = calls_table(outcomes)
    print(*lines, sep="\n")
    fill(options.page, "calls", lines)
    if not outcomes.keys() <= set(OUTCOMES):
        sys.exit("there are faults")


if __name__ == "__main__":
    main()
