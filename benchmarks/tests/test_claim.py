"""The comparison with scikit-learn: its rule, its experiments, and the pages that quote it."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_digits
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import log_loss
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.arena import claim, claim_run, claim_sets
from benchmarks.arena.run import Store
from benchmarks.arena.versus import read

ROOT = Path(__file__).parents[2]
FOLDER = Path(claim.__file__).parent


@pytest.fixture
def people():
    """A table with a number of each person, a code of the label, and a rare class."""
    rng = np.random.default_rng(0)
    answer = np.r_[rng.choice(["yes", "no"], 1_990), 10 * ["refused"]]
    return pd.DataFrame(
        {
            "number": np.arange(2_000),
            **{name: rng.normal(size=2_000).round(2) for name in ("a", "b", "c")},
            "code": pd.Series(answer).map({"yes": 1.0, "no": 2.5, "refused": 3.0}),
            "town": rng.choice(["here", "there", "elsewhere"], 2_000),
            "answer": answer,
        }
    )


def test_identifiers_codes_of_the_label_and_rare_classes_are_left_out(people):
    assert claim_sets.label_column("some people", people) == "answer"
    X, y = claim_sets.as_task("some people", people)
    assert X.shape == (1_990, 6)  # three numbers, three towns
    assert np.bincount(y).tolist() == people["answer"].value_counts().loc[["no", "yes"]].tolist()


def test_tables_that_are_no_task(people):
    numbers = people.drop(columns=["answer", "town"])
    assert claim_sets.as_task("some numbers", numbers) is None
    assert claim_sets.as_task("some few", people[:1_400]) is None
    assert claim_sets.as_task("some narrow", people[["a", "b", "answer"]]) is None
    assert claim_sets.as_task("keel regression", people[["town", "b", "c", "a"]]) is None


def test_copies_of_a_table_are_found(people):
    own = claim_sets.signature("some people", people)
    names = claim_sets.signature("other part", people.sample(50, random_state=0).drop(columns="a"))
    content = claim_sets.signature("other names", people.set_axis(list("qrstuvw"), axis=1))
    other = claim_sets.signature("some other", people[["number"]].set_axis(["n"], axis=1))
    assert own.is_like(names)
    assert own.is_like(content)
    assert not own.is_like(other)  # 0, 1, 2, ... are the numbers of any table
    one, two = (claim_sets.signature(f"keel poker-{k}", people[["town"]]) for k in "89")
    assert one.is_like(two)


def test_like_tables_and_those_that_were_looked_at_are_left_out(people, monkeypatch):
    rng = np.random.default_rng(1)
    other = people.set_axis(list("qrstuvw"), axis=1)
    other = other.assign(**{name: rng.normal(size=2_000).round(2) for name in "rst"})
    tables = [("some people", people), ("some copy", people), ("other people", other)]
    monkeypatch.setattr(claim_sets, "all_tables", lambda: iter(tables))
    assert sorted(claim_sets.chosen()) == ["other people", "some people"]
    monkeypatch.setattr(claim_sets, "LOOKED_AT", {"some copy"})
    assert sorted(claim_sets.chosen()) == ["other people"]


def test_undersampled_rows_are_as_many_of_each_class():
    X, y = np.arange(100)[:, None] / 100, np.repeat(["a", "b"], [90, 10])
    model = claim_run.Undersampled(GaussianNB()).fit(X, y)
    assert model.estimator_.class_count_.tolist() == [10, 10]
    assert model.predict(X[[0, 99]]).tolist() == ["a", "b"]


def test_an_experiment_has_the_losses_that_its_user_has():
    X, y = load_digits(return_X_y=True)
    rows = list(claim_run.experiment((X, y), "naive Bayes", False))
    order = np.random.default_rng(0).permutation(len(y))
    train, rest, test = np.split(order, [len(y) // 2, len(y) - 500])
    model = make_pipeline(StandardScaler(), GaussianNB()).fit(X[train], y[train])
    sigmoid = CalibratedClassifierCV(FrozenEstimator(model)).fit(X[rest[:300]], y[rest[:300]])
    expected = log_loss(y[test], sigmoid.predict_proba(X[test]))
    (row,) = (row for row in rows if row["calibrator"] == "sigmoid" and row["n_cal"] == 300)
    assert float(row["log_loss"]) == pytest.approx(expected, rel=1e-5)
    assert {row["n_cal"] for row in rows} == {100, 300}
    assert len(rows) == 2 * 5


def test_a_run_is_stored_resumed_and_reported(tmp_path, monkeypatch, capsys):
    X, y = load_digits(return_X_y=True)
    monkeypatch.setattr(claim, "chosen", lambda: {"digits": (X[y < 2], y[y < 2])})
    monkeypatch.setattr(claim_run, "FEWEST_TO_TEST", 50)
    few = {name: claim_run.MODELS[name] for name in ("tree", "SVC")}
    monkeypatch.setattr(claim_run, "MODELS", few)
    monkeypatch.setattr(claim_run, "SIZES", (100,))
    claim.main(["--out", str(tmp_path)])
    assert "0 digits: 14 rows" in capsys.readouterr().out  # 5 and 4 frozen, 3 and 2 in folds
    page = (tmp_path / "claim.md").read_text()
    claim.main(["--out", str(tmp_path)])
    assert "0 digits: 0 rows" in capsys.readouterr().out
    assert (tmp_path / "claim.md").read_text() == page
    assert (tmp_path / "reason.png").exists()
    assert list(claim_run.run({"b": (X, y)}, Store(tmp_path / "claim.csv.gz"), -1.0)) == []


def test_a_method_that_fails_is_noted():
    def fail():
        raise ValueError("no such thing")

    assert claim_run.measured(fail, None, None) == {"note": "ValueError: no such thing"}


def test_a_class_that_is_not_known_has_probability_0():
    model = GaussianNB().fit([[0.0], [1.0], [5.0], [6.0]], [0, 0, 1, 1])
    loss = claim_run.log_loss(model, np.array([[0.5], [5.5]]), np.array([0, 2]))
    assert loss == pytest.approx(-np.log(1e-15) / 2)


def test_the_pages_are_those_of_the_stored_results(tmp_path):
    """Else: python -m benchmarks.arena.claim --report-only, and its sentence on each page."""
    rows = read(FOLDER / "claim.csv.gz")
    page = (FOLDER / "claim.md").read_text()
    assert "\n".join(claim.page_lines(rows)) in page
    sentence = claim.sentence(claim.split(rows)[0])
    for name in (
        "README.md",
        "CHANGELOG.md",
        "docs/index.md",
        "docs/coming_from.md",
        "benchmarks/README.md",
        "benchmarks/arena/README.md",
    ):
        assert sentence in " ".join((ROOT / name).read_text().split()), name


def test_no_table_of_the_results_was_looked_at():
    names = set(read(FOLDER / "claim.csv.gz")["data"])
    assert names
    assert not names & claim_sets.LOOKED_AT
