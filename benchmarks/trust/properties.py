"""Run the property tests on many generated inputs, the same in every run, and count them.

``python -m benchmarks.trust.properties`` prints what hypothesis says of each property and writes
``figures/properties.json``; ``--examples`` asks for more inputs of each. It fails if a
property does.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).parents[2]
RESULTS = Path(__file__).parent / "figures" / "properties.json"
TESTS = (
    "tests/contract/test_properties_calibrators.py",
    "tests/contract/test_properties_metrics.py",
)
# "20 passing, 0 failing, and 2 invalid test cases" (or "examples", in other versions)
COUNTS = re.compile(
    r"(\d+) passing(?: examples)?, (\d+) failing(?: examples)?,(?: and)? (\d+) invalid"
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run, count, store, and fail where a property did."""
    parser = argparse.ArgumentParser(
        description=__doc__, prog="python -m benchmarks.trust.properties"
    )
    parser.add_argument("--examples", type=int, default=30, help="inputs of each property")
    parser.add_argument("--tests", nargs="*", default=TESTS, help="files, or tests of them")
    parser.add_argument("--out", type=Path, default=RESULTS, help="where results are kept")
    parsed = parser.parse_args(arguments)
    # In one process: hypothesis tells its counts there.
    command = [sys.executable, "-m", "pytest", "-q", "-m", "", "--hypothesis-show-statistics"]
    environment = {**os.environ, "SKCALIB_EXAMPLES": str(parsed.examples)}
    run = subprocess.run(
        [*command, *parsed.tests], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    print(run.stdout, run.stderr)
    counts = [tuple(map(int, found)) for found in COUNTS.findall(run.stdout)]
    passing, failing, invalid = (sum(part) for part in zip(*counts, strict=True))
    again = "" if parsed.examples == 30 else f" --examples {parsed.examples}"
    results = {
        "command": f"python -m benchmarks.trust.properties{again}",
        "properties": len(counts),
        "inputs_tried": passing + failing,
        "inputs_set_aside": invalid,
        "faults": failing,
        "date": datetime.now(UTC).date().isoformat(),
    }
    parsed.out.write_text(json.dumps(results, indent=1) + "\n")
    if run.returncode:
        sys.exit("a property failed")


if __name__ == "__main__":
    main()
