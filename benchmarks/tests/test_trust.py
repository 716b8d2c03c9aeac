"""The page of trust says what the stored figures say, and the programs behind it count right."""

import json
import re
import sys
import tomllib
from pathlib import Path

import pytest

# The benchmarks are not installed; last, so that it is the installed package that is tested.
sys.path.append(str(Path(__file__).parents[2]))

from benchmarks.trust import __main__ as trust
from benchmarks.trust import properties, repeated, versions

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


def test_the_page_is_what_the_program_makes_of_the_stored_figures():
    """Else: python -m benchmarks.trust."""
    assert trust.PAGE.read_text() == trust.page(), "python -m benchmarks.trust writes it anew"


def test_the_page_counts_what_is_stored(tmp_path):
    """Calls and faults; what is not stored is left out."""
    (tmp_path / "fuzz.json").write_text(
        json.dumps(
            {"seed": 0, "calls": 1200, "by_outcome": {"right answer": 1197, "crash": 2, "wrong": 1}}
        )
    )
    page = trust.page(tmp_path)
    assert "1,200 calls" in page
    assert "| anything else, which is a fault | 3 |" in page
    assert "## Versions" not in page


def test_the_oldest_versions_are_the_lower_bounds():
    """tests/oldest.txt pins what pyproject.toml allows at least."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    # Later releases of pyarrow are loaded by NumPy 2 alone, and do not say so to pip.
    arrow = [name for name in extras["test"] if name.startswith("pyarrow")]
    wanted = [*project["dependencies"], *extras["plot"], *arrow]
    bounds = dict(re.match(r"([\w-]+)>=([\d.]+)$", bound).groups() for bound in wanted)
    lines = (ROOT / "tests" / "oldest.txt").read_text().splitlines()
    pins = dict(line.split("==") for line in lines if not line.startswith("#"))
    assert pins.keys() == bounds.keys() == {*versions.SHOWN, "pyarrow"}
    for name, bound in bounds.items():
        assert f"{pins[name]}.".startswith(f"{bound}."), name


def test_what_the_run_on_the_oldest_leaves_out_exists():
    """A renamed file of tests would else be left out no more, unseen."""
    for name in versions.LEFT_OUT:
        path, _, test = name.partition("::")
        assert (ROOT / path).exists(), name
        assert not test or f"def {test}(" in (ROOT / path).read_text(), name


def test_a_test_is_repeated_if_others_take_its_branches(tmp_path):
    """The slowest is left out first; then another may be the only one that takes a branch."""
    branches = {"slow": {1, 2}, "twin": {1, 2}, "own": {2, 3}, "quick": {2}}
    seconds = {"slow": 3.0, "twin": 2.0, "own": 1.0, "quick": 0.01, "nothing": 0.5}
    assert repeated.repeated(seconds, branches) == ["slow", "nothing"]
    cases = "".join(
        f'<testcase classname="tests.a.test_b" name="{name}" time="0.5"/>'
        for name in ("test_c[1]", "test_c[2]", "test_d")
    )
    (tmp_path / "j.xml").write_text(f"<testsuites><testsuite>{cases}</testsuite></testsuites>")
    found = repeated.seconds_of(tmp_path / "j.xml")
    assert found == {"tests/a/test_b.py::test_c": 1.0, "tests/a/test_b.py::test_d": 0.5}


def test_a_run_is_counted_from_its_reports(tmp_path):
    """Tests by outcome, branches and lines in per cent."""
    (tmp_path / "j.xml").write_text(
        '<testsuites><testsuite tests="10" failures="1" errors="1" skipped="3"/></testsuites>'
    )
    assert versions.counts(tmp_path / "j.xml") == {"passed": 5, "failed": 2, "skipped": 3}
    totals = {"covered_branches": 19, "num_branches": 20, "covered_lines": 1, "num_statements": 3}
    (tmp_path / "c.json").write_text(json.dumps({"totals": totals}))
    assert versions.taken(tmp_path / "c.json") == {"branches": 95.0, "lines": 33.3}


@pytest.mark.parametrize(
    "told",
    [
        "    - 30 passing, 0 failing, and 2 invalid test cases",
        "    - 30 passing examples, 0 failing examples, 2 invalid examples",
    ],
)
def test_what_hypothesis_tells_is_counted(told):
    """In the words of its versions."""
    assert properties.COUNTS.findall(f"a\n{told}\n\n  - Stopped") == [("30", "0", "2")]


def test_properties_are_tried_as_often_as_asked_for(tmp_path):
    out = tmp_path / "properties.json"
    one = "tests/contract/test_properties_metrics.py::test_the_value_lies_within_its_bounds"
    test = f"{one}[expected_calibration_error]"
    properties.main(["--examples", "5", "--tests", test, "--out", str(out)])
    found = json.loads(out.read_text())
    assert found["properties"] == 1
    assert found["inputs_tried"] == 5
    assert found["faults"] == 0
    assert found["command"].endswith("--examples 5")
