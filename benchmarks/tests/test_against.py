"""The present tree is timed beside a revision of it."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

# The benchmarks are not installed; last, so that it is the installed package that is tested.
sys.path.append(str(Path(__file__).parents[2]))

from benchmarks.speed import __main__ as speed
from benchmarks.speed import against

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("git") is None, reason="needs git"),
]

COMMAND = ["--against", "HEAD", "--jobs", "ece", "--sizes", "300x3", "--repeats", "3"]
# Every ECE begins with another line; RIGHT takes it back.
CHANGED = """

from time import sleep
_right = expected_calibration_error
def expected_calibration_error(*args, **keywords):
    {}
    return _right(*args, **keywords)
"""
RIGHT = "expected_calibration_error = _right\n"


def git(folder, *arguments):
    who = ["-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run(["git", "-C", str(folder), *who, *arguments], check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """A repository of this package, nothing committed."""
    package = Path(__file__).parents[2] / "skcalib"
    shutil.copytree(package, tmp_path / "skcalib", ignore=shutil.ignore_patterns("__pycache__"))
    git(tmp_path, "init")
    monkeypatch.setattr(against, "REPOSITORY", tmp_path)
    return tmp_path


def commit(folder):
    git(folder, "add", ".")
    git(folder, "commit", "-m", "all")


def files_of(folder):
    return sorted(path for path in folder.rglob("*") if "__pycache__" not in path.parts)


def add(folder, source):
    """Add lines to the module of the metrics."""
    with (folder / "skcalib" / "metrics" / "__init__.py").open("a") as file:
        file.write(source)


def test_the_same_code_is_not_slower(repository, capsys):
    """A row with both times, and nothing left in the repository."""
    commit(repository)
    before = files_of(repository)
    (row,) = speed.main(COMMAND)
    assert (row["job"], row["size"]) == ("ece", (300, 3))
    assert 0 < row["now"] < 0.1
    assert 0 < row["then"] < 0.1
    assert row["ratio"] == row["now"] / row["then"]
    head, _, line = capsys.readouterr().out.splitlines()
    assert head == "| job | size | now, ms | HEAD, ms | ratio |"
    assert line.startswith("| ece | 300 x 3 | ")
    assert (
        sorted(path for path in repository.rglob("*") if "__pycache__" not in str(path)) == before
    )


def test_slower_code_ends_in_an_error(repository, capsys):
    """One that sleeps for 5 ms; in the revision it does not."""
    commit(repository)
    add(repository, CHANGED.format("sleep(0.005)"))
    with pytest.raises(SystemExit, match="slower than 1.25 x HEAD: ece 300 x 3"):
        speed.main(COMMAND)
    assert "**slower**" in capsys.readouterr().out


def test_what_the_revision_cannot_do_is_told(repository, capsys):
    """Its error stands in the table, and no ratio."""
    add(repository, CHANGED.format("raise TypeError('no such thing')"))
    commit(repository)
    add(repository, RIGHT)
    (row,) = speed.main(COMMAND)
    assert row["note"] == "TypeError: no such thing"
    assert "ratio" not in row
    assert "not there: TypeError: no such thing" in capsys.readouterr().out


def test_no_such_revision(repository):
    with pytest.raises(SystemExit, match="not a valid object name"):
        speed.main(["--against", "no-such-thing"])


def test_the_default_jobs_and_sizes():
    """Ten of each kind, at 5,000 x 10 and at the largest of the job."""
    assert len(set(against.TIMED)) == 10
    assert set(against.TIMED) <= set(speed.JOBS)
    for name in against.TIMED:
        assert against.sizes_of(name, None) == [(5_000, 10), (25_000, 1_000)]
