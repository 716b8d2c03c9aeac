"""The page of trust, and the oldest versions."""

import builtins
import re
import tomllib
from pathlib import Path

from sklearn.utils import estimator_checks

from benchmarks.trust import __main__ as trust
from skcalib import testing

ROOT = Path(__file__).parents[2]


def test_the_page_has_the_counts_of_the_record():
    """Else: python -m benchmarks.trust --calls 0."""
    assert "\n".join(trust.record_lines()) in trust.PAGE.read_text()


def test_the_page_names_nothing_that_does_not_exist():
    """Files, programs, options of pytest's profile and functions between backticks."""
    code = re.findall(r"`([^`]+)`", trust.PAGE.read_text())
    words = {word for text in code for word in text.split() if not word.startswith(("-", "'"))}
    files = {word for word in words if "/" in word or word.endswith(".md")}
    modules = {word for word in words if word.startswith("benchmarks.")}
    names = {word for word in words if re.fullmatch(r"[a-z]+_[a-z_]+|[A-Z]\w*Error", word)}
    assert files
    assert modules == {"benchmarks.trust"}
    names -= set(vars(estimator_checks))
    assert names == {"check_calibrator", "check_calibration_metric", "ValueError", "TypeError"}
    for name in files:
        assert (ROOT / name).exists(), name
    for name in names:
        assert hasattr(testing, name) or hasattr(builtins, name), name
    profile = re.search(r"--hypothesis-profile=(\w+)", trust.PAGE.read_text())[1]
    assert f'"{profile}"' in (ROOT / "tests" / "conftest.py").read_text()


def test_a_run_counts_its_calls(tmp_path, capsys):
    page = tmp_path / "page.md"
    trust.main(["--calls", "20", "--files", "52", "--page", str(page)])
    counts = [int(n) for n in re.findall(r"^\| [a-z].* \| (\d+) \|$", page.read_text(), re.M)]
    assert (sum(counts[:4]), counts[3]) == (20, 0)
    assert (sum(counts[4:]), counts[7]) == (52, 0)
    assert min(counts[4:6]) > 0
    assert "52 files" in capsys.readouterr().out


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
    assert pins.keys() == bounds.keys()
    for name, bound in bounds.items():
        assert f"{pins[name]}.".startswith(f"{bound}."), name
