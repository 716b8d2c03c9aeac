"""The programs that time and weigh run where no peer but scikit-learn is installed."""

import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

# The benchmarks are not installed; last, so that it is the installed package that is tested.
sys.path.append(str(Path(__file__).parents[2]))

from benchmarks._shared import peers, report
from benchmarks.speed import __main__ as speed
from benchmarks.speed import export, memory, timing
from benchmarks.speed.data import FLOORS, make_data
from benchmarks.speed.jobs import JOBS
from benchmarks.speed.peers import Peer
from benchmarks.speed.timing import OURS, Patience
from benchmarks.studies import published
from benchmarks.studies._published_tables import METHODS, PUBLISHED
from skcalib.metrics import kde_calibration_error

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
ONE_ROUND = Patience(repeats=1, budget=10.0, limit=30.0)
CHEAP = ("ece", "table", "isotonic", "temperature")


@pytest.fixture
def only_sklearn(monkeypatch):
    """Let no peer but scikit-learn be found, and time each job once."""
    for limit in ("MOST", "QUICK_RUNS"):
        monkeypatch.setattr(timing, limit, 1)
    found = peers.version
    for module in (speed, memory, report):
        monkeypatch.setattr(
            module, "version", lambda name: found(name) if name == "scikit-learn" else None
        )


def row_of(rows, job, library, step=""):
    """Return the one row of a job, a library and a step."""
    (row,) = [r for r in rows if (r["job"], r["library"], r["step"]) == (job, library, step)]
    return row


def test_no_peer_is_imported_with_the_programs():
    """Importing them loads none of the peers but scikit-learn, nor torch nor matplotlib."""
    program = (
        "import sys, benchmarks.speed.__main__, benchmarks.speed.memory, benchmarks.speed.growth;"
        "print([m for m in ('torch', 'netcal', 'probmetrics', 'calibration', 'relplot',"
        " 'torchmetrics', 'betacal', 'venn_abers', 'matplotlib') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert done.stdout.strip() == "[]"


def test_models_are_measured(monkeypatch, capsys):
    """A row for each calibrator, with the difference of its model."""
    pytest.importorskip("onnxruntime", reason="models are run by ONNX Runtime")
    monkeypatch.setattr(export, "REPEATS", (1, 1))
    arguments = ["--sizes", "60x3", "--calibrators", "PlattScaling", "IsotonicCalibrator"]
    monkeypatch.setattr(sys, "argv", ["export", *arguments, "--dtype", "float64"])
    export.main()
    rows = [line.split(" | ") for line in capsys.readouterr().out.splitlines() if "Cal" in line]
    name, n_classes, difference, *_ = rows[-1]
    assert (name, n_classes) == ("| IsotonicCalibrator", "3")
    assert float(difference) <= 1e-12


@pytest.mark.usefixtures("only_sklearn")
def test_every_job_is_timed_and_stored(tmp_path, capsys):
    """Each job has a row for each step; absent peers are named; CSV and page are written."""
    rows = speed.main(["--sizes", "500x3", "--repeats", "1", "--out", str(tmp_path)])
    assert {row["job"] for row in rows} == set(JOBS)
    assert {row["library"] for row in rows} == {OURS, "scikit-learn"}
    assert all(row["seconds"] > 0 and row["ratio"] > 0 for row in rows)
    printed = capsys.readouterr().out
    assert "left out: netcal, probmetrics" in printed
    stored = (tmp_path / "results" / "speed_float64.csv").read_text().splitlines()
    assert len(stored) == len(rows) + 1
    page = (tmp_path / "README.md").read_text()
    assert all(job.title in page for job in JOBS.values())


@pytest.mark.usefixtures("only_sklearn")
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_scikit_learn_gives_the_same_answer(dtype):
    """Reliability of each class, isotonic regression and the temperature agree with it."""
    rows = speed.main(
        ["--sizes", "600x4", "--repeats", "1", "--jobs", ",".join(CHEAP), "--dtype", dtype]
    )
    for job in ("table", "isotonic", "temperature"):
        step = "fit" if len(JOBS[job].budgets) == 2 else ""
        assert row_of(rows, job, "scikit-learn", step)["answer"] == "same", job


def fake(steps, **rest):
    """Return a peer whose only step is given."""
    return Peer("a peer", lambda data: (steps,), **rest)


def cell_of(peer, patience=ONE_ROUND):
    """Return rows of the ECE beside a peer, and the peers that were given up."""
    data, hopeless = make_data(300, 3), set()
    cell = timing.measure(JOBS["ece"], (peer,), data, patience, hopeless)
    return speed.rows_of("ece", data, (peer,), cell, patience), hopeless


def test_another_answer_is_never_a_win():
    """An error that is off by more than rounding differs, and its ratio stands in brackets."""
    rows, _ = cell_of(fake(lambda: 0.5, note="half of all"))
    found = row_of(rows, "ece", "a peer")
    assert found["answer"] == "differs"
    assert found["theirs"] == "0.5"
    assert speed.peer_words(found).startswith("[")
    assert "half of all" in " ".join(speed.answers(rows))


def test_another_problem_is_never_a_win_even_where_answers_agree():
    """A peer that says so is in brackets."""
    data = make_data(300, 3)
    value = JOBS["ece"].steps(data)[0]()
    rows, _ = cell_of(fake(lambda: value, same_problem=False))
    assert row_of(rows, "ece", "a peer")["answer"] == "other problem"
    rows, _ = cell_of(fake(lambda: value))
    assert row_of(rows, "ece", "a peer")["answer"] == "same"


def test_a_peer_that_fails_is_reported():
    """Its first line of error stands in its place, and skcalib is timed all the same."""

    def fail():
        raise RuntimeError("no such thing\nat all")

    rows, hopeless = cell_of(fake(fail))
    assert row_of(rows, "ece", "a peer")["note"] == "RuntimeError: no such thing"
    assert row_of(rows, "ece", OURS)["seconds"] > 0
    assert not hopeless


@pytest.mark.skipif(not hasattr(timing.signal, "SIGALRM"), reason="the system has no alarm clock")
def test_a_peer_without_end_is_given_up():
    """After the limit, for good."""

    def forever():
        while True:
            pass

    rows, hopeless = cell_of(fake(forever), Patience(1, 0.05, 0.2))
    assert row_of(rows, "ece", "a peer")["note"].startswith("given up after 0.2 s")
    assert len(hopeless) == 1


def test_a_slow_peer_runs_once():
    """One that takes longer than the budget is not repeated."""
    calls = []

    def slow():
        calls.append(1)
        timing.time.sleep(0.02)
        return 0.0

    rows, _ = cell_of(fake(slow), Patience(3, 0.01, 30.0))
    assert len(calls) == row_of(rows, "ece", "a peer")["rounds"] == 1
    assert row_of(rows, "ece", OURS)["rounds"] >= 3


def test_judged_by_mean_loss_and_penalty():
    """By the definition, row by row."""
    data = make_data(50, 3)
    Q = FLOORS["softmax(Z)"](data._replace(Z=data.Z / 2))
    for name, loss in [
        ("temperature", lambda q, k: -np.log(q[k])),
        ("isotonic", lambda q, k: ((q - np.eye(3)[k]) ** 2).sum()),
    ]:
        job = JOBS[name]
        expected = np.mean([loss(q, k) for q, k in zip(Q, data.y, strict=True)])
        assert timing.judged(job, job, data, [None, Q]) == pytest.approx(expected, abs=1e-12)
        charged = fake(None, penalty=lambda model, data: 2.0)
        assert timing.judged(job, charged, data, [None, Q]) == pytest.approx(expected + 2)


def test_memory_of_a_metric_is_weighed_apart(monkeypatch, tmp_path):
    """ECE of 4 MB of probabilities stays within its budget, read or mapped."""
    monkeypatch.setattr(memory, "version", lambda name: None)
    rows = memory.main(["--sizes", "50000x10", "--jobs", "ece", "--out", str(tmp_path)])
    assert [row["counted"] for row in rows] == ["traced", "mapped", "resident"]
    assert [row["met"] for row in rows] == ["met", "met", ""]
    assert 0 < rows[0]["mebibytes"] < 16
    assert "memory-mapped" in (tmp_path / "README.md").read_text()


def test_sections_of_a_page_are_replaced(tmp_path):
    """What stands around the markers stays, and a second run leaves one copy."""
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- a -->\nold\n<!-- end of a -->\nafter\n")
    report.fill(page, "a", ["new"])
    report.fill(page, "a", ["new"])
    assert page.read_text() == "before\n<!-- a -->\n\nnew\n\n<!-- end of a -->\nafter\n"


@pytest.fixture
def two_files(tmp_path):
    """The same logits as an .npz and as a file of Kull et al., named as that of a DenseNet-40."""
    rng = np.random.default_rng(0)
    labels = rng.integers(3, size=600)
    logits = 3 * (rng.normal(size=(600, 3)) + 1.5 * np.eye(3)[labels])
    split = np.repeat([0, 1], 300)
    np.savez(tmp_path / "saved.npz", logits=logits, labels=labels, split=split)
    pairs = tuple((logits[split == part], labels[split == part][:, None]) for part in (0, 1))
    theirs = tmp_path / "probs_densenet40_c10_logits.p"
    theirs.write_bytes(pickle.dumps(pairs, protocol=3))
    return tmp_path / "saved.npz", theirs


def table_of(printed):
    """The cells of the first table of a page, by row and column."""
    lines = [line for line in printed.splitlines() if line.startswith("|")]
    heads, _, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in lines)
    return {row[0]: dict(zip(heads[1:], row[1:], strict=True)) for row in rows}


def test_published_numbers_stand_beside_those_of_any_file(two_files, capsys):
    """A file of Kull et al. names its network; an .npz has no published numbers unless told."""
    ours, theirs = two_files
    published.main([str(theirs), "--no-tuning"])
    beside = table_of(capsys.readouterr().out)
    published.main([str(ours), "--no-tuning"])
    alone = table_of(capsys.readouterr().out)
    published.main([str(ours), "--no-tuning", "--network", "densenet40_c10"])
    assert table_of(capsys.readouterr().out) == beside
    top = beside["KS error top-1 (Table 1)"]
    printed = ("5.493", "0.900", "0.890", "0.897", "1.057", "0.773")  # Gupta et al., Table 1
    for (name, cell), number in zip(top.items(), printed, strict=True):
        assert cell == f"{number} / {alone['KS error top-1 (Table 1)'][name.split(':')[0]]}"
    assert [PUBLISHED["densenet40_c10"][row][3] for row in (1, 2, 3)] == [0.598, 0.395, 1.250]


def test_measured_numbers_of_the_published_table_are_of_the_test_rows(two_files, capsys):
    """The uncalibrated KS errors and ECE, from the logits, in loops over sorted rows and bins."""
    with np.load(two_files[0]) as data:
        Z, y = data["logits"][300:], data["labels"][300:]
    P = np.exp(Z) / np.exp(Z).sum(axis=1, keepdims=True)
    ranks = np.argsort(P, axis=1)[:, ::-1]
    scores = np.take_along_axis(P, ranks, axis=1)
    hits = ranks == y[:, None]

    def ks(score, hit):
        gap = largest = 0.0
        for i in sorted(range(300), key=lambda i: score[i]):
            gap += (score[i] - hit[i]) / 300
            largest = max(largest, abs(gap))
        return largest

    ece = 0.0
    for b in range(25):
        rows = [i for i in range(300) if b / 25 < scores[i, 0] <= (b + 1) / 25]
        ece += abs(sum(scores[i, 0] - hits[i, 0] for i in rows)) / 300
    within = scores[:, 0] + scores[:, 1], hits[:, 0] | hits[:, 1]
    expected = [ks(scores[:, 0], hits[:, 0]), ks(scores[:, 1], hits[:, 1]), ks(*within), ece]
    gaps = []
    for b in range(25):
        rows = [i for i in range(300) if b / 25 < scores[i, 0] <= (b + 1) / 25]
        gaps += [abs(sum(scores[i, 0] - hits[i, 0] for i in rows)) / len(rows)] if rows else []
    brier = sum((scores[i, 0] - hits[i, 0]) ** 2 for i in range(300)) / 300
    expected += [sum(hits[:, 0]) / 300, kde_calibration_error(y, P, mode="top"), max(gaps), brier]
    published.main([str(two_files[0]), "--no-tuning"])
    found = [float(row["uncalibrated"]) for row in table_of(capsys.readouterr().out).values()]
    assert found == pytest.approx([100 * error for error in expected], abs=6e-4)


def test_penalties_are_tuned_over_the_grid_and_printed_as_the_paper_writes_them(
    two_files, capsys, monkeypatch
):
    """Three columns of an ODIR method; lambda is times K (K - 1), mu times K in the paper."""
    monkeypatch.setattr(published, "kull_grid", lambda K: {"reg_lambda": [0.5], "reg_mu": [0.25]})
    published.main([str(two_files[1])])
    printed = capsys.readouterr().out
    assert "MS-ODIR: reg_lambda=0.5, reg_mu=0.25; as the paper writes it 3 and 0.75" in printed
    for row in table_of(printed).values():
        cells = row["MS-ODIR: published / tuned / default"].split(" / ")
        assert len(cells) == 3
        assert cells[1] != cells[2]


def test_the_grid_is_that_of_kull():
    """36 lambdas and 12 mus for ten classes, from 10^-2 on for a hundred."""
    assert [len(values) for values in published.kull_grid(10).values()] == [36, 12]
    grid = published.kull_grid(100)
    assert grid["reg_lambda"][:4] == pytest.approx([0.0025, 0.005, 0.01, 0.025])
    assert grid["reg_mu"][[0, -1]] == pytest.approx([0.01, 1e6])


def test_published_numbers_of_all_networks_are_whole_tables():
    """13 networks, five tables, six methods, all in per cent; Table 7 for two networks."""
    assert len(PUBLISHED) == 13
    for name, tables in PUBLISHED.items():
        assert len(tables) == (len(published.ROWS) if name.endswith("imgnet") else 5)
        assert all(len(row) == len(METHODS) for row in tables)
        assert all(0 < number < 25 for row in tables[:4] for number in row)
        assert all(33 < number < 99 for number in tables[4])
        assert all(row[2] is None and 0 < row[5] < 13 for row in tables[5:])


def test_the_page_has_the_numbers_of_the_program(two_files, tmp_path, capsys):
    """--page writes what is printed, and the page in the repository is of this form."""
    page = tmp_path / "README.md"
    published.main([str(two_files[1]), "--no-tuning", "--page", str(page)])
    assert capsys.readouterr().out.strip() in page.read_text()
    text = (Path(__file__).parents[1] / "README.md").read_text()
    rows = table_of(text.split("<!-- published -->")[1].split("<!-- end of")[0])
    assert list(rows) == [row.name for row in published.ROWS]
    accuracy = rows["accuracy (Table 5)"]["temperature"].split(" / ")
    assert accuracy[0] == accuracy[1] == "93.560"


def test_a_pickle_that_asks_for_more_than_arrays_is_refused(tmp_path):
    """Nothing of it is executed."""
    path = tmp_path / "probs_lenet5_c10_logits.p"
    path.write_bytes(pickle.dumps((Path, np.arange(3))))
    with pytest.raises(pickle.UnpicklingError, match="arrays alone are read"):
        published.main([str(path)])
