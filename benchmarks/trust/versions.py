"""Run the suite on the oldest or the newest versions of everything that skcalib stands on.

``python -m benchmarks.trust.versions oldest`` makes a fresh environment in a temporary folder,
installs the tree as it is with the versions that ``tests/oldest.txt`` pins (``newest``: whatever
pip finds), runs the suite in it, measures which branches of the package it takes, and writes what
came out to ``figures/versions.json``. It fails if a test fails or if less than 95 % of the branches
are taken; every warning is an error. ``--branches`` leaves out tests whose branches others take.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
import venv
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.trust.repeated import LIST

ROOT = Path(__file__).parents[2]
RESULTS = Path(__file__).parent / "figures" / "versions.json"
CONSTRAINTS = {"oldest": ROOT / "tests" / "oldest.txt", "newest": None}
LEAST_BRANCHES = 95.0
SHOWN = ("numpy", "scipy", "scikit-learn", "pandas", "joblib", "threadpoolctl", "matplotlib")
# These look at the site, at imports or at threads, or run many inputs through code of NumPy's
# oldest functions: no version of a dependency changes what they look at. README's command runs
# them on the newest versions. The slow tests, which look at programs beside the package, at time
# and at memory, are left out too.
LEFT_OUT = (
    *("tests/behaviour/test_interrupted.py", "tests/behaviour/test_parallel.py"),
    *("tests/project/test_readme.py", "tests/project/test_docs.py"),
    "tests/project/test_imports.py",
    "tests/metrics/test_binned.py::test_core_equals_the_double_loop",
)
# A program that is watched takes more than twice as long. These take no branch that others do not,
# so they run unwatched: see `benchmarks.trust.repeated`.
REPEATED = tuple(LIST.read_text().split())


def make_environment(folder: Path, constraints: Path | None) -> str:
    """Make an environment with the tree and its tests' needs; return its Python."""
    venv.create(folder, with_pip=True)
    python = str(folder / "bin" / "python")
    pinned = [] if constraints is None else ["-c", str(constraints)]
    install = [python, "-m", "pip", "install", "-q", *pinned, "-e", f"{ROOT}[test]"]
    subprocess.run(install, check=True)
    return python


def installed(python: str) -> dict[str, str]:
    """Return the versions of what the package stands on."""
    listed = subprocess.run(
        [python, "-m", "pip", "list", "--format=json"], capture_output=True, text=True, check=True
    )
    versions = {entry["name"].lower(): entry["version"] for entry in json.loads(listed.stdout)}
    return {name: versions[name] for name in SHOWN}


def counts(junit: Path) -> dict[str, int]:
    """Return how many tests passed, failed and were left out."""
    suite = ET.parse(junit).getroot().find("testsuite")
    total, failed, skipped = (
        sum(int(suite.get(name, 0)) for name in names)
        for names in (("tests",), ("failures", "errors"), ("skipped",))
    )
    return {"passed": total - failed - skipped, "failed": failed, "skipped": skipped}


def taken(report: Path) -> dict[str, float]:
    """Return the percentages of branches taken and of lines run."""
    totals = json.loads(report.read_text())["totals"]
    return {
        "branches": round(100 * totals["covered_branches"] / totals["num_branches"], 1),
        "lines": round(100 * totals["covered_lines"] / totals["num_statements"], 1),
    }


def without(tests: Sequence[str]) -> list[str]:
    """Return options that leave out tests; whole files are not even imported."""
    return [f"--{'deselect' if '::' in test else 'ignore'}={test}" for test in tests]


def run_tests(python: str, junit: Path, arguments: Sequence[str]) -> dict[str, int]:
    """Run tests and return how many passed, failed and were left out."""
    command = [python, "-m", "pytest", "-q", "-n", "2", "-p", "no:cacheprovider"]
    command += [f"--junitxml={junit}", *without(LEFT_OUT)]
    environment = {**os.environ, "COVERAGE_FILE": str(junit.parent / "coverage")}
    subprocess.run([*command, *arguments], cwd=ROOT, env=environment, check=False)
    return counts(junit)


def run_suite(python: str, folder: Path, *, branches: bool) -> dict[str, Any]:
    """Run the suite, or the tests that take its branches, and return what came out."""
    start = time.monotonic()
    report = folder / "coverage.json"
    watched = ["--cov", f"--cov-report=json:{report}", "--cov-report=term", *without(REPEATED)]
    found = run_tests(python, folder / "watched.xml", watched)
    if not branches:
        unwatched = [test for test in REPEATED if not test.startswith(LEFT_OUT)]
        more = run_tests(python, folder / "unwatched.xml", unwatched)
        found = {how: found[how] + more[how] for how in found}
    return {**found, **taken(report), "seconds": round(time.monotonic() - start)}


def main(arguments: Sequence[str] | None = None) -> None:
    """Make the environment, run, store, and fail where something failed."""
    parser = argparse.ArgumentParser(
        description=__doc__, prog="python -m benchmarks.trust.versions"
    )
    parser.add_argument("run", choices=CONSTRAINTS)
    parser.add_argument(
        "--python",
        help="that of an environment with the versions; a fresh one is made if not given",
    )
    parser.add_argument(
        "--branches",
        action="store_true",
        help="run only tests that together take every branch that the suite takes",
    )
    parser.add_argument("--out", type=Path, default=RESULTS, help="where results are kept")
    parsed = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        python = parsed.python or make_environment(Path(folder) / "venv", CONSTRAINTS[parsed.run])
        result = {"python": platform.python_version(), "versions": installed(python)}
        print(parsed.run, result["versions"], flush=True)
        result |= run_suite(python, Path(folder), branches=parsed.branches)
    results = json.loads(parsed.out.read_text()) if parsed.out.exists() else {}
    parsed.out.parent.mkdir(parents=True, exist_ok=True)
    parsed.out.write_text(json.dumps({**results, parsed.run: result}, indent=1) + "\n")
    print(f"{result['branches']} % of the branches taken, {result['lines']} % of the lines run")
    if result["failed"] or not result["passed"] or result["branches"] < LEAST_BRANCHES:
        sys.exit(f"failed: {result['failed']} tests, or below {LEAST_BRANCHES} % of the branches")


if __name__ == "__main__":
    main()
