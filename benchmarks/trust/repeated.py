"""Which tests take no branch of the package that others do not take.

``python -m benchmarks.trust.repeated`` runs the suite in the environment of this Python, notes
which test takes which branch, and writes the tests that can be left out, the slowest first, to
``repeated.txt``. ``.ci/run`` leaves them out on the oldest versions; `benchmarks.trust.versions`
without ``--branches`` runs them too. Tests that the file does not name are run, so it has to be
written again only when that run has become slow.
"""

from __future__ import annotations

import argparse
import os
import sqlite3
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from collections import Counter, defaultdict
from collections.abc import Hashable
from pathlib import Path

ROOT = Path(__file__).parents[2]
LIST = Path(__file__).parent / "repeated.txt"
# Tests that take less than so many seconds, all cases together, are always run.
LEAST_SECONDS = 0.1


def repeated(
    seconds: dict[str, float], branches: dict[str, set[Hashable]], least: float = LEAST_SECONDS
) -> list[str]:
    """Return tests without which the others take every branch, tried from the slowest on."""
    times_taken = Counter(branch for taken in branches.values() for branch in taken)
    found = []
    for test in sorted(seconds, key=lambda test: -seconds[test]):
        taken = branches.get(test, set())
        if seconds[test] >= least and all(times_taken[branch] > 1 for branch in taken):
            found.append(test)
            times_taken.subtract(taken)
    return found


def seconds_of(junit: Path) -> dict[str, float]:
    """Return the time of each test, of all its cases."""
    found: dict[str, float] = defaultdict(float)
    for case in ET.parse(junit).iter("testcase"):
        path = f"{case.attrib['classname'].replace('.', '/')}.py"
        found[f"{path}::{case.attrib['name'].partition('[')[0]}"] += float(case.attrib["time"])
    return found


def branches_of(coverage: Path) -> dict[str, set[Hashable]]:
    """Return the branches that each test takes, from the database of coverage.py."""
    found: dict[str, set[Hashable]] = defaultdict(set)
    with sqlite3.connect(coverage) as data:
        rows = data.execute(
            "SELECT context.context, arc.file_id, arc.fromno, arc.tono "
            "FROM arc JOIN context ON context.id = arc.context_id"
        )
        for case, *branch in rows:
            found[case.partition("|")[0].partition("[")[0]].add(tuple(branch))
    return found


def main() -> None:
    """Run the suite and write the list."""
    prog = "python -m benchmarks.trust.repeated"
    argparse.ArgumentParser(description=__doc__, prog=prog).parse_args()
    with tempfile.TemporaryDirectory() as folder:
        junit, coverage = Path(folder) / "suite.xml", Path(folder) / "coverage"
        command = [sys.executable, "-m", "pytest", "-q", "-n", "2", "-p", "no:cacheprovider"]
        command += ["--cov", "--cov-context=test", "--cov-report=", f"--junitxml={junit}"]
        subprocess.run(
            command, cwd=ROOT, env={**os.environ, "COVERAGE_FILE": str(coverage)}, check=True
        )
        found = repeated(seconds_of(junit), branches_of(coverage))
    LIST.write_text("".join(f"{test}\n" for test in found))
    print(f"{len(found)} tests in {LIST.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
