"""Run scikit-learn's tests of calibration, isotonic regression and scorers on skcalib.

``python -m benchmarks.peers.suites`` replaces names of scikit-learn before its test files import
them, runs the files as they are installed, and compares what fails with the table of README.md:
what differs on purpose. The exit code is 0 if these are the same.
"""

import os
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sklearn.calibration
import sklearn.isotonic
from sklearn.metrics import _scorer

from benchmarks.peers.suites import stand_ins
from skcalib.metrics import SCORERS

PAGE = Path(__file__).parent / "README.md"
FILES = ("tests.test_calibration", "tests.test_isotonic", "metrics.tests.test_score_objects")
# AvUC has no weight to see in the probabilities of a tree, which are 0 and 1.
ADDED = {name: scorer for name, scorer in SCORERS.items() if name != "neg_avuc_loss"}


def replace_names() -> None:
    """Replace names of scikit-learn's modules by stand-ins, and add scorers to its own."""
    calibration, isotonic = sklearn.calibration, sklearn.isotonic
    calibration.CalibratedClassifierCV = stand_ins.CalibratedClassifierCV
    calibration.calibration_curve = stand_ins.calibration_curve
    calibration._SigmoidCalibration = stand_ins.SigmoidCalibration
    calibration._TemperatureScaling = stand_ins.TemperatureCalibration
    calibration._sigmoid_calibration = stand_ins.sigmoid_calibration
    isotonic.IsotonicRegression = stand_ins.IsotonicRegression
    isotonic.isotonic_regression = stand_ins.isotonic_regression
    _scorer._SCORERS |= ADDED | {"neg_log_loss": SCORERS["neg_top_label_brier_score"]}


def differences() -> list[tuple[str, tuple[str, ...]]]:
    """Return the rows of the page: what differs, and how the names of its tests begin."""
    rows = []
    for reason, tests in re.findall(r"^\| (.+) \| (`test_.+`) \|$", PAGE.read_text(), re.MULTILINE):
        names = re.findall("`(.+?)`", tests)
        rows.append((reason, tuple(name if "[" in name else f"{name}[" for name in names)))
    return rows


class Suite:
    """Plugin of pytest that notes which tests reach skcalib, and which fail."""

    def __init__(self) -> None:
        self.collected: set[str] = set()
        self.reached: set[str] = set()
        self.failed: dict[str, str] = {}

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        """Let the tests of scorers use a classifier for those that are added.

        Those of array-api-strict are left out: classifiers around an estimator take no array of
        another namespace than those of NumPy and PyTorch.
        """
        items[:] = [item for item in items if "array_api_strict" not in item.name]
        self.collected.update(item.name for item in items)
        for module in {item.module for item in items}:
            getattr(module, "CLF_SCORERS", []).extend(ADDED)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: Any) -> Any:
        """Run a test and note whether it calls skcalib."""

        def note(frame: Any, *_: Any) -> None:
            if frame.f_globals.get("__name__", "").startswith("skcalib"):
                self.reached.add(item.name)
                sys.setprofile(None)

        np.random.seed(0)  # noqa: NPY002  some of the tests draw from it
        sys.setprofile(note)
        try:
            return (yield)
        finally:
            sys.setprofile(None)

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Note why a test fails."""
        if report.failed:
            text = str(report.longrepr.reprcrash.message)
            self.failed[report.nodeid.partition("::")[2]] = " ".join(text.split())[:200]


def main() -> int:
    """Run the tests; 0 if those fail that differ on purpose, else 1."""
    replace_names()
    suite = Suite()
    options = ["-c", os.devnull, "-q", "-p", "no:cacheprovider", "--tb=no", "--disable-warnings"]
    paths = [f"sklearn.{file}" for file in FILES]
    code = pytest.main([*options, "-rN", "--pyargs", *paths], plugins=[suite])
    names = suite.reached | set(suite.failed)
    listed: set[str] = set()
    stale: list[str] = []
    for reason, tests in differences():
        stale += [
            test for test in tests if not any(f"{x}[".startswith(test) for x in suite.collected)
        ]
        here = {name for name in names if f"{name}[".startswith(tests)}
        listed |= here
        print(f"{len(here)} differ: {reason}")
    for name in sorted(listed ^ set(suite.failed)):
        print(f"NOT ON THE LIST: {name}: {suite.failed.get(name, 'passes, though it is there')}")
    for test in stale:
        print(f"ON THE LIST, AND NO TEST: {test.removesuffix('[')}")
    print(f"{len(names)} tests call skcalib, {len(names - set(suite.failed))} pass")
    return int(code > pytest.ExitCode.TESTS_FAILED or listed != set(suite.failed) or bool(stale))


if __name__ == "__main__":
    sys.exit(main())
