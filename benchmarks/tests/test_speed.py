"""The programs that time and weigh run where no peer but scikit-learn is installed."""

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from benchmarks._shared import peers, report
from benchmarks.speed import __main__ as speed
from benchmarks.speed import against, memory, timing
from benchmarks.speed.data import make_data
from benchmarks.speed.jobs import JOBS
from benchmarks.speed.peers import Peer
from benchmarks.speed.timing import OURS, Patience

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
AGAINST = ["--jobs", "ece", "--sizes", "300x3", "--repeats", "3", "--against"]


@pytest.fixture
def only_sklearn(monkeypatch):
    """Hide each peer but scikit-learn, and time each job once."""
    for limit in ("MOST", "QUICK_RUNS"):
        monkeypatch.setattr(timing, limit, 1)
    version = peers.version
    for module in (speed, memory, report):
        monkeypatch.setattr(
            module, "version", lambda name: version(name) if name == "scikit-learn" else None
        )


@pytest.mark.usefixtures("only_sklearn")
def test_every_job_is_timed_and_stored(tmp_path, capsys):
    """Scikit-learn's maps are the same; absent peers are named; CSV and page are written."""
    command = ["--sizes", "500x3", "--repeats", "1", "--out", str(tmp_path)]
    rows = speed.main(command)
    assert {row["job"] for row in rows} == set(JOBS)
    assert all(row["seconds"] > 0 and row["ratio"] > 0 for row in rows)
    beside = {row["job"]: row["answer"] for row in rows if row["library"] == "scikit-learn"}
    assert {beside[job] for job in ("table", "isotonic", "temperature")} == {"same"}
    assert "left out: netcal, probmetrics" in capsys.readouterr().out
    stored = (tmp_path / "results" / "speed_float64.csv").read_text().splitlines()
    assert len(stored) == len(rows) + 1
    page = (tmp_path / "README.md").read_text()
    assert all(job.title in page for job in JOBS.values())


def fail():
    raise RuntimeError("no such thing\nat all")


def never_end():
    while True:
        pass


@pytest.mark.parametrize(
    ("step", "rest", "answer", "note"),
    [
        (lambda: 0.5, {"note": "half of all"}, "differs", "half of all"),
        (fail, {}, "", "RuntimeError: no such thing"),
        (never_end, {}, "", "given up after 0.2 s"),
    ],
)
def test_another_result_is_never_a_win(step, rest, answer, note):
    """It is in brackets, with the reason, and skcalib is timed all the same."""
    peer, data = Peer("a peer", lambda data: (step,), **rest), make_data(300, 3)
    patience = Patience(1, 0.1, 0.2)
    cell = timing.measure(JOBS["ece"], (peer,), data, patience, set())
    ours, theirs = speed.rows_of("ece", data, (peer,), cell, patience)
    assert ours["seconds"] > 0
    assert (theirs["answer"], theirs["note"].startswith(note)) == (answer, True)
    assert speed.peer_words(theirs).startswith("[")


def test_memory_of_a_metric_is_weighed_apart(monkeypatch, tmp_path):
    """ECE of 4 MB of probabilities takes less than 16 MiB."""
    monkeypatch.setattr(memory, "version", lambda name: None)
    rows = memory.main(["--sizes", "50000x10", "--jobs", "ece", "--out", str(tmp_path)])
    assert [row["counted"] for row in rows] == ["traced", "resident"]
    assert 0 < rows[0]["mebibytes"] < 16
    assert "| ECE |" in (tmp_path / "README.md").read_text()


@pytest.mark.torch
def test_calls_on_a_device_are_timed(capsys):
    """Without a GPU, on few rows: each call of the three sizes, with its difference from NumPy."""
    pytest.importorskip("benchmarks.speed.device").main()
    assert capsys.readouterr().out.count(" difference ") == 22


def test_the_page_has_the_stored_numbers():
    """The milliseconds of each row of skcalib's."""
    page = (ROOT / "benchmarks" / "speed" / "README.md").read_text()
    for dtype in ("float64", "float32"):
        path = ROOT / "benchmarks" / "speed" / "results" / f"speed_{dtype}.csv"
        head, *lines = (line.split(",") for line in path.read_text().splitlines())
        for row in (dict(zip(head, line, strict=False)) for line in lines):
            if row["library"] == OURS:
                milliseconds = report.number(1e3 * float(row["seconds"]))
                assert f"| {JOBS[row['job']].title} | {row['step']} | {milliseconds} | " in page


def test_sections_of_a_page_are_replaced(tmp_path):
    """What is around the markers stays, and a second run leaves one copy."""
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- a -->\nold\n<!-- end of a -->\nafter\n")
    report.fill(page, "a", ["new"])
    report.fill(page, "a", ["new"])
    assert page.read_text() == "before\n<!-- a -->\n\nnew\n\n<!-- end of a -->\nafter\n"


def git(folder, *arguments):
    user = ["-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run(["git", "-C", str(folder), *user, *arguments], check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """A repository with this package committed."""
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "skcalib", tmp_path / "skcalib", ignore=ignore)
    git(tmp_path, "init")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-m", "all")
    monkeypatch.setattr(against, "REPOSITORY", tmp_path)
    return tmp_path


def test_the_same_code_is_not_slower(repository, capsys):
    """Beside a revision and beside a folder: a row with both times."""
    for revision in ("HEAD", str(repository)):
        (row,) = speed.main([*AGAINST, revision])
        assert (row["job"], row["size"]) == ("ece", (300, 3))
        assert row["ratio"] == row["now"] / row["then"]
        assert "| ece | 300 x 3 | " in capsys.readouterr().out
    with pytest.raises(SystemExit, match="not a valid object name"):
        speed.main(["--against", "no-such-thing"])


@pytest.mark.parametrize("line", ["sleep(0.005)", "raise TypeError('no such thing')"])
def test_slower_code_ends_in_an_error(line, repository):
    """One that sleeps for 5 ms; a side that cannot run the job has no ratio."""
    with (repository / "skcalib" / "metrics" / "__init__.py").open("a") as file:
        file.write(
            "\nfrom time import sleep\n_right = expected_calibration_error\n"
            f"def expected_calibration_error(*args, **keywords):\n    {line}\n"
            "    return _right(*args, **keywords)\n"
        )
    if line.startswith("sleep"):
        with pytest.raises(SystemExit, match="slower than 1.1 x HEAD: ece 300 x 3"):
            speed.main([*AGAINST, "HEAD"])
        return
    git(repository, "commit", "-am", "no metric")
    git(repository, "checkout", "HEAD~1", "--", "skcalib")
    (row,) = speed.main([*AGAINST, "HEAD"])
    assert row["note"] == "TypeError: no such thing"
    assert np.isnan(row.get("ratio", np.nan))
