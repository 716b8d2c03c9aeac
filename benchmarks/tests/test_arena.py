"""The arena: its scores, its rows, and what its report says of them, without data or peers."""

import gzip
import itertools
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import log_loss

from benchmarks._shared import model_scores
from benchmarks._shared.model_scores import Given, Scores
from benchmarks.arena import __main__ as arena
from benchmarks.arena import entrants as arena_entrants
from benchmarks.arena import page as arena_page
from benchmarks.arena import report as arena_report
from benchmarks.arena import run as arena_run
from benchmarks.arena import versus as arena_versus
from benchmarks.arena.entrants import Entrant
from benchmarks.arena.run import Experiment, Store

pytestmark = pytest.mark.slow


def made(n=400, n_classes=3, seed=0):
    """Return over-confident logits and labels drawn from half of them."""
    rng = np.random.default_rng(seed)
    Z = 2 * rng.normal(size=(n, n_classes))
    return Z, (Z / 2 + rng.gumbel(size=Z.shape)).argmax(axis=1)


def scores_of(n_pool=250, **keywords):
    Z, y = made(**keywords)
    return Scores("made", "logits", Z[:n_pool], y[:n_pool], Z[n_pool:], y[n_pool:])


def frame_of(rows):
    """Return the rows of a family, a number of rows, a calibrator and its log loss."""
    frame = pd.DataFrame(rows, columns=["family", "n_cal", "calibrator", "log_loss"])
    return frame.assign(data=frame["family"], model="m", seed=0, classes=2)


def table(losses):
    """Return the losses of {calibrator: {(family, n_cal): log loss}}."""
    rows = [(*cell, name, x) for name, cells in losses.items() for cell, x in cells.items()]
    return arena_versus.losses(frame_of(rows))


# --- the report -----------------------------------------------------------------------------

CELLS = list(itertools.product("abc", (300, 1000)))
ONE = dict(zip(CELLS, [0.5, 0.4, 0.3, 0.9, 0.2, 0.2], strict=True))
OTHER = dict(zip(CELLS, [0.6, 0.5, 0.3, 0.6, 0.4, 0.4], strict=True))


def test_sets_count_the_same_in_win_rate_and_mean():
    """The win rate halves ties, the mean is geometric, and each set is one number in both."""
    a_only_once = {cell: loss for cell, loss in ONE.items() if cell != ("a", 1000)}
    found = arena_versus.versus(table({"one": a_only_once, "other": OTHER}), "one", "other")
    wins = {"a": [1.0], "b": [0.5, 0.0], "c": [1.0, 1.0]}
    ratios = {"a": [0.5 / 0.6], "b": [1.0, 0.9 / 0.6], "c": [0.5, 0.5]}
    win = sum(sum(w) / len(w) for w in wins.values()) / 3
    mean = np.exp(sum(np.log(r).mean() for r in ratios.values()) / 3)
    assert (found.experiments, found.families) == (5, 3)
    assert found.win == pytest.approx(100 * win)
    assert found.mean == pytest.approx(100 * (mean - 1))
    assert found.worst == pytest.approx(50.0)
    assert found.worst_where == "b, m, 1,000 rows"


def few_rows(cells):
    """Return rows of {(family, n_cal): (loss of none, loss of "Other")}."""
    names = "IdentityCalibrator", "Other"
    return frame_of(
        [(*cell, *one) for cell, pair in cells.items() for one in zip(names, pair, strict=True)]
    )


def test_few_rows_are_the_same_models_in_every_row_of_the_table():
    """Change against no calibration and share of harm; a model without all sizes is left out."""
    rows = few_rows(
        {
            ("a", 10): (0.50, 0.60),
            ("a", 100): (0.50, 0.40),
            ("b", 10): (0.20, 0.201),
            ("b", 100): (0.20, 0.10),
            ("c", 100): (0.30, 0.90),
        }
    )
    ten = 100 * (np.sqrt(0.60 / 0.50 * 0.201 / 0.20) - 1)
    hundred = 100 * (np.sqrt(0.40 / 0.50 * 0.10 / 0.20) - 1)
    temperature = rows[rows["calibrator"] == "Other"].assign(calibrator="TemperatureScaling")
    only_with_many = rows[rows["n_cal"] == 100].replace({"calibrator": {"Other": "Late"}})
    late = only_with_many[only_with_many["calibrator"] == "Late"]
    assert arena_report.few_rows_table(pd.concat([rows, temperature, late])) == [
        "| calibrator | models | n = 10 | worse in | n = 100 | worse in |",
        "| --- | --- | --: | --: | --: | --: |",
        f"| `Other` | 2 | {ten:+.1f} % | 50.0 % | {hundred:+.1f} % | 0.0 % |",
        f"| `TemperatureScaling` | 2 | {ten:+.1f} % | 50.0 % | {hundred:+.1f} % | 0.0 % |",
    ]


def test_a_failure_is_in_no_comparison():
    """Where one of the two has no loss, the experiment does not count."""
    broken = dict(ONE) | {("b", 1000): np.nan}
    found = arena_versus.versus(table({"one": broken, "other": OTHER}), "one", "other")
    assert found.experiments == 5
    assert found.worst == pytest.approx(0.0)
    assert arena_versus.versus(table({"one": ONE}), "one", "other") is None


# --- data -----------------------------------------------------------------------------------


def test_a_model_scores_rows_that_it_did_not_see(tmp_path):
    """Scores are split into a pool and a test part, and read back the same."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2_000, 2))
    told = (X[:, 0] + rng.normal(size=2_000) > 0).astype(int)
    fresh = model_scores.train((X, told), "logistic", 0, "made")
    assert (len(fresh.pool), len(fresh.test)) == (500, 500)
    assert fresh.kind == "logits"
    assert not fresh.test[:, 0].any()
    assert ((fresh.test[:, 1] > 0) == fresh.test_labels).mean() > 0.7
    assert model_scores.train((X, told), "naive_bayes", 0, "made").kind == "proba"
    first = model_scores.cached(tmp_path, "digits", "naive_bayes", 0)
    again = model_scores.cached(tmp_path, "digits", "naive_bayes", 0)
    for ours, theirs in zip(first, again, strict=True):
        assert np.array_equal(ours, theirs)


# --- rows -----------------------------------------------------------------------------------


def test_measures_are_those_of_their_definitions():
    """Log loss as scikit-learn's, Brier score as a mean of squared distances."""
    Z, y = made()
    P = Given(Z, "logits").probabilities
    found = arena_run.measures(P, y)
    assert found["log_loss"] == pytest.approx(log_loss(y, P))
    assert found["brier"] == pytest.approx(((P - np.eye(3)[y]) ** 2).sum(axis=1).mean())
    assert found["accuracy"] == pytest.approx((Z.argmax(axis=1) == y).mean())
    certain = arena_run.measures(np.array([[1.0, 0.0]]), np.array([1]))
    assert certain["log_loss"] == pytest.approx(-np.log(1e-15))


@pytest.mark.parametrize(("n_classes", "kind"), [(2, "logits"), (5, "proba")])
def test_our_entrants_answer(n_classes, kind):
    """Every one answers both kinds of scores, zeros and an absent class included."""
    scores = scores_of(n_classes=n_classes, n=450)
    if n_classes > 2:
        scores.pool_labels[scores.pool_labels == 4] = 0
    if kind == "proba":
        pool, test = (Given(S, "logits").probabilities for S in (scores.pool, scores.test))
        pool[0], test[0] = np.eye(n_classes)[0], np.eye(n_classes)[1]
        scores = scores._replace(kind=kind, pool=pool, test=test)
    for entrant in arena_entrants.our_entrants():
        row = arena_run.enter(entrant, scores, 200, 30)
        assert "note" not in row, (entrant.name, row)
        assert np.isfinite(float(row["log_loss"]))


def burn(X, y, n_classes):
    while True:
        pass


def broken(X, y, n_classes):
    raise ValueError("no\nlast words")


@pytest.mark.skipif(not hasattr(__import__("signal"), "SIGPROF"), reason="needs a CPU alarm")
def test_failures_are_told_and_the_slow_are_not_tried_again(tmp_path):
    """Each failure is a row with a reason, and what is stored is not run again."""
    entrants = [
        Entrant("a", "broken", broken),
        Entrant("a", "slow", burn),
        Entrant("a", "odd", lambda X, y, n_classes: lambda X: X.scores[:, :1]),
    ]
    chosen = [Experiment("made", "m", 0, scores_of)]
    store = Store(tmp_path / "results.csv.gz")
    lines = list(arena_run.run(chosen, [100, 200, 900], entrants, store, 0.1))
    assert len(lines) == 2
    notes = {(row["calibrator"], row["n_cal"]): row["note"] for row in store.rows()}
    assert notes["broken", "100"] == "ValueError: no"
    assert notes["slow", "100"] == "given up after 0.1 s"
    assert notes["slow", "200"] == "given up on fewer rows"
    assert notes["odd", "200"] == "ValueError: the answer has shape (150, 1), not (150, 3)"


def test_a_run_that_is_killed_loses_only_the_row_that_it_was_writing(tmp_path):
    """The text that it leaves is read, a line without its end is not; packed, it is gone."""
    store = Store(tmp_path / "results.csv.gz")
    first, second, third = (
        {**dict.fromkeys(arena_run.KEY, "x"), "seed": seed, "log_loss": "0.25"}
        for seed in (0, 1, 2)
    )
    store.add([first])
    store.pack()
    store = Store(store.path)
    store.add([second])
    with store.text.open("a") as file:
        file.write("x,x,2")
    again = Store(store.path)
    assert [again.has(row) for row in (first, second, third)] == [True, True, False]
    again.add([third])
    again.pack()
    packed = again.path.read_bytes()
    lines = gzip.decompress(packed).decode().splitlines()
    assert lines[0] == ",".join(arena_run.COLUMNS)
    assert [line.split(",")[2] for line in lines[1:]] == ["0", "1", "2"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["results.csv.gz"]


def test_one_command_runs_resumes_and_reports(tmp_path, capsys):
    """A second run adds nothing; report, figure and page are written, and the page twice alike."""
    pytest.importorskip("matplotlib")
    names = ["hotel_a", "tuna_b", "digits_c"]
    for seed, name in enumerate(names):
        Z, y = made(n=1_200, seed=seed)
        np.savez(tmp_path / f"{name}.npz", logits=Z, labels=y)
    np.savez(tmp_path / "other.npz", conf=np.ones(3))
    page = tmp_path / "which.md"
    command = ["--extra", str(tmp_path), "--out", str(tmp_path), "--page", str(page)]
    command += ["--data", *names, "--seeds", "1", "--n-cal"]
    arena.main([*command, "200", "5000"])
    packed = tmp_path / "results.csv.gz"
    rows = gzip.decompress(packed.read_bytes()).decode()
    before = packed.read_bytes()
    entrants = len(arena_entrants.our_entrants())
    assert len(rows.splitlines()) == 1 + entrants * len(names)
    written = page.read_text()
    arena.main([*command, "200", "5000"])
    assert packed.read_bytes() == before
    assert not (tmp_path / "results.csv").exists()
    assert page.read_text() == written
    assert "| experiments | lowest log loss |" in written
    assert "| all | `" in written
    assert "| `AutoCalibrator` |" in capsys.readouterr().out
    assert "## Few rows" not in written
    only = ["AutoCalibrator", "AutoCalibrator(order_preserving=True)"]
    only += ["TemperatureScaling", "IdentityCalibrator"]
    arena.main([*command, "10", "50", "--only", *only])
    rows = pd.read_csv(packed)
    assert set(rows[rows["n_cal"] == 10]["calibrator"]) == set(only)
    with_few = page.read_text()
    assert "## Few rows" in with_few
    # Few rows change no other table.
    opening, _, rest = with_few.partition("## Few rows")
    assert opening + "## All" + rest.partition("## All")[2] == written


def test_a_report_of_no_results_says_so(tmp_path, capsys):
    arena.main(["--report-only", "--out", str(tmp_path / "new")])
    assert capsys.readouterr().out == "no experiment of the report half with 100 rows or more\n"


def test_the_pages_are_those_of_the_stored_results(tmp_path):
    """Else: python -m benchmarks.arena --report-only --page benchmarks/arena/README.md."""
    folder = Path(arena.__file__).parent
    page = tmp_path / "which.md"
    page.write_text((folder / "README.md").read_text())
    before = page.read_text().splitlines()
    arena_page.write(folder / "results.csv.gz", page)
    changed = [line for line in page.read_text().splitlines() if line not in before]
    assert [line[:8] for line in changed] in ([], ["* Seeds:"])  # which names the machine
