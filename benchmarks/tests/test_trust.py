"""The page of trust says what the stored figures say, and the programs behind it count right."""

import ast
import json
import re
import sys
import tomllib
from pathlib import Path

import pytest

# The benchmarks are not installed; last, so that it is the installed package that is tested.
sys.path.append(str(Path(__file__).parents[2]))

from benchmarks.trust import __main__ as trust
from benchmarks.trust import mutants, properties, repeated, versions

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


def changes(source):
    """What each mutant of a source makes of it, stripped of parentheses."""
    return [mutant.source.replace("(", "").replace(")", "") for mutant in mutants_of(source)]


def mutants_of(source):
    return mutants.mutants_of("file", source)


def test_the_page_is_what_the_program_makes_of_the_stored_figures():
    """Else: python -m benchmarks.trust."""
    assert trust.PAGE.read_text() == trust.page(), "python -m benchmarks.trust writes it anew"


def test_the_page_counts_what_is_stored(tmp_path):
    """Killed, timed out, explained and unexplained survivors; faults; versions."""
    (tmp_path / "mutants.json").write_text(
        json.dumps(
            {
                "seed": 3,
                "files": {
                    "_a": {
                        "sha256": "",
                        "possible": 9,
                        "mutants": {
                            "_a:1:0:x": "killed",
                            "_a:2:0:y": "timeout",
                            "_a:3:0:z": "survived",
                            "_a:4:0:u": "survived",
                        },
                    }
                },
                "examined": {"_a:3:0:z": "the same number"},
            }
        )
    )
    (tmp_path / "fuzz.json").write_text(
        json.dumps(
            {"seed": 0, "calls": 1200, "by_outcome": {"right answer": 1197, "crash": 2, "wrong": 1}}
        )
    )
    page = trust.page(tmp_path)
    assert "| `_a` | 9 | 4 | 2 | 1 | 1 |" in page
    assert "| **all** | **9** | **4** | **2** | **1** | **1** |" in page
    assert "* `_a:4:0:u`" in page
    assert "* `_a:3:0:z`" not in page
    assert "1,200 calls" in page
    assert "| anything else, which is a fault | 3 |" in page
    assert "## Versions" not in page


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("a + b", ["a - b"]),
        ("a ** 2", ["a * 2", "a ** 3", "a ** 1", "a ** 4"]),
        ("a // b", ["a / b"]),
        ("a < b", ["a <= b"]),
        ("a == b", ["a != b"]),
        ("0.5", ["1.5", "-0.5", "1.0"]),
        ("1", ["2", "0"]),
        ("x = True", ["x = False"]),
        ("a and not b", ["a or not b", "a and b"]),
        ("np.abs(a)", ["a"]),
        ("math.sqrt(a)", ["a"]),
        ("np.argmin(a)", ["np.argmax a".replace(" ", "")]),
        ("max(a, b)", ["mina, b"]),
        ("-a", ["a"]),
        ("a += b", ["a -= b", "pass"]),
    ],
)
def test_each_kind_of_mutant(source, expected):
    """Operators, comparisons, constants, booleans, calls and additions in place."""
    assert changes(source) == expected


def test_what_computes_nothing_has_no_mutants():
    """Messages, docstrings, types, imports and parameter constraints."""
    source = '''
"""Docstring of 1 + 1."""
from a import b
def f(x: Literal[1]) -> Literal[2]:
    raise ValueError(f"{1 + 1}" + "a")
class C:
    _parameter_constraints: dict = {"n": [Interval(Integral, 1, None)]}
'''
    assert mutants_of(source) == []


def test_every_mutant_of_the_core_is_a_program_and_has_its_tests():
    """Sources parse, differ from the original, and names are told apart by place."""
    for file in mutants.core_files(ROOT):
        source = (ROOT / "skcalib" / f"{file}.py").read_text()
        found = mutants_of(source)
        assert len({mutant.name for mutant in found}) == len(found), file
        for mutant in found[::50]:
            assert ast.dump(ast.parse(mutant.source)) != ast.dump(ast.parse(source)), mutant.name
        tests = mutants.tests_of(file, ROOT)
        assert len(tests) >= 2
        assert all((ROOT / test).exists() for test in tests), file


def test_a_sample_is_the_same_for_the_same_seed():
    """And another for another, and all where there are fewer."""
    found = mutants_of("\n".join(f"a + {i}" for i in range(20)))
    drawn = mutants.sample("f", found, 5, 0)
    assert drawn == mutants.sample("f", found, 5, 0)
    assert drawn != mutants.sample("f", found, 5, 1)
    assert mutants.sample("f", found, 1000, 0) == found
    assert mutants.sample("f", found, 8, 0)[:5] == drawn


def test_mutants_are_tried_on_a_copy_and_found_again(tmp_path, monkeypatch, capsys):
    """A test that looks kills, one that does not lets live; a second run tries nothing."""
    tree = tmp_path / "tree"
    for folder in mutants.CORE:
        (tree / "skcalib" / folder).mkdir(parents=True, exist_ok=True)
    (tree / "skcalib" / "__init__.py").write_text("")
    code = tree / "skcalib" / "_binning" / "bins.py"
    code.write_text(
        "def seen():\n    return a + b\n\n\ndef unseen():\n    return a + b\n\n\na = b = 3\n"
    )
    (tree / "tests" / "binning").mkdir(parents=True)
    (tree / "tests" / "binning" / "test_bins.py").write_text(
        "from skcalib._binning.bins import seen\n\n\ndef test_it():\n    assert seen() == 6\n"
    )
    (tree / "pyproject.toml").write_text("")
    monkeypatch.setattr(mutants, "ROOT", tree)
    before = code.read_text()
    options = ["--files", "_binning/bins", "--limit", "100", "--out", str(tmp_path / "out.json")]
    found = mutants.main(options)["files"]["_binning/bins"]
    assert found["mutants"]["_binning/bins:2:11:a + b -> a - b"] == "killed"
    assert found["mutants"]["_binning/bins:6:11:a + b -> a - b"] == "survived"
    assert found["possible"] == len(found["mutants"]) == 5
    assert code.read_text() == before
    capsys.readouterr()
    mutants.main(options)
    assert capsys.readouterr().out == ""


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
