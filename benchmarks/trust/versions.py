"""Run the suite on the oldest or the newest versions of everything that skcalib stands on.

``python -m benchmarks.trust.versions oldest`` makes a fresh environment in a temporary folder,
installs the tree as it is with the versions that ``tests/oldest.txt`` pins (``newest``: whatever
pip finds), runs the suite in it, measures which branches of the package it takes, and writes what
came out to ``figures/versions.json``. It fails if a test fails or if less than 95 % of the branches
are taken; every warning is an error.
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
# A program that is watched takes twice as long. The tests of the package's own folders take nearly
# every branch; most of those of what all calibrators share, and a few that repeat one computation
# very often, run unwatched.
UNWATCHED = (
    *("tests/behaviour", "tests/record", "tests/project", "tests/contract/test_common.py"),
    "tests/contract/test_contract.py::test_every_calibrator_keeps_every_promise",
    "tests/arrays/test_blocks.py::test_the_number_of_threads_changes_no_bit_of_a_calibrator",
    "tests/binning/test_bins.py::test_every_class_against_the_rest_is_its_own_column",
    "tests/binning/test_bins.py::test_quantile_bins_open_at_exact_rows",
    "tests/binning/test_pooled.py::test_a_counted_table_is_that_of_a_sorted_copy",
    "tests/binning/test_precision.py::test_every_fraction_lies_in_the_bin_that_it_closes",
    "tests/calibrators/test_isotonic.py::test_centred_blocks_are_points_at_their_mean_scores",
    "tests/losses/test_losses.py::test_the_gradient_is_that_of_the_value",
    "tests/metrics/test_label_binned.py::test_it_equals_the_loop",
    "tests/metrics/test_significance.py::test_size_and_power",
    "tests/metrics/test_sweep.py::test_it_equals_the_loop",
    "tests/metrics/test_sweep.py::test_the_number_of_bins_equals_the_loop_far_into_the_sweep",
    "tests/plotting/test_calibration_map_display.py::test_binary_curve_is_the_map",
    "tests/calibrators/test_temperature_objectives.py::test_a_metric_is_at_most_one_percent_above_a_fine_grid",
)


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


def run_suite(python: str, folder: Path) -> dict[str, Any]:
    """Run the suite and return what came out."""
    start = time.monotonic()
    report = folder / "coverage.json"
    watched = ["--cov", f"--cov-report=json:{report}", "--cov-report=term"]
    watched += without(UNWATCHED)
    first = run_tests(python, folder / "watched.xml", watched)
    second = run_tests(python, folder / "unwatched.xml", UNWATCHED)
    both = {how: first[how] + second[how] for how in first}
    return {**both, **taken(report), "seconds": round(time.monotonic() - start)}


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
    parser.add_argument("--out", type=Path, default=RESULTS, help="where results are kept")
    parsed = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        python = parsed.python or make_environment(Path(folder) / "venv", CONSTRAINTS[parsed.run])
        result = {"python": platform.python_version(), "versions": installed(python)}
        print(parsed.run, result["versions"], flush=True)
        result |= run_suite(python, Path(folder))
    results = json.loads(parsed.out.read_text()) if parsed.out.exists() else {}
    parsed.out.parent.mkdir(parents=True, exist_ok=True)
    parsed.out.write_text(json.dumps({**results, parsed.run: result}, indent=1) + "\n")
    print(f"{result['branches']} % of the branches taken, {result['lines']} % of the lines run")
    if result["failed"] or not result["passed"] or result["branches"] < LEAST_BRANCHES:
        sys.exit(f"failed: {result['failed']} tests, or below {LEAST_BRANCHES} % of the branches")


if __name__ == "__main__":
    main()
