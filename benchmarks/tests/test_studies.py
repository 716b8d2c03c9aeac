"""The studies run on small settings, and print numbers that must hold."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_breast_cancer
from sklearn.naive_bayes import GaussianNB

from benchmarks.studies import ensembles, first_picture, groups, labels
from skcalib import AutoCalibrator, CalibratedClassifier

pytestmark = pytest.mark.slow


def test_groups(capsys):
    """Groups that differ are calibrated best by both, equal ones by the common map."""
    known, real = groups.main(["--seeds", "2", "--sizes", "20"])
    table = known.groupby("strength")[["one map", "own maps", "groupwise"]].mean()
    assert table.loc[0.5].idxmin() == table.loc[1.0].idxmin() == "groupwise"
    assert (
        table.loc[0.0, "groupwise"] < 1.5 * table.loc[0.0, "one map"] < table.loc[0.0, "own maps"]
    )
    assert "diabetes" in real.index.get_level_values("set")
    assert "Real data" in capsys.readouterr().out


def test_groups_has_the_numbers_of_its_page():
    """The rows of ten rows a group, of both numbers of classes."""
    cells = pd.DataFrame(groups.known_cells(4, [10]))
    means = 1000 * cells.groupby(["K", "strength"])[["one map", "own maps", "groupwise"]].mean()
    text = (Path(__file__).parents[1] / "studies" / "README.md").read_text()
    for K in (2, 4):
        line = " | ".join(" / ".join(f"{x:.1f}" for x in row) for row in means.loc[K].to_numpy())
        assert f"| {K} | 10 | {line} |" in text


def test_ensembles_are_those_of_the_classifiers():
    """Models that are fitted once for all ways give what the lines of a user give."""
    X, y = load_breast_cancer(return_X_y=True)
    ways = ensembles.by_ways(GaussianNB(), X[::2, :3], y[::2], X[1::2, :3])
    lines = {
        "default": CalibratedClassifier(GaussianNB()),
        "ensemble": CalibratedClassifier(GaussianNB(), ensemble=True),
        "order kept": CalibratedClassifier(GaussianNB(), AutoCalibrator(order_preserving=True)),
        "platt": CalibratedClassifier(GaussianNB(), "platt"),
        "sigmoid": CalibratedClassifierCV(GaussianNB()),
    }
    assert set(ways) == set(lines)
    for way, model in lines.items():
        P = model.fit(X[::2, :3], y[::2]).predict_proba(X[1::2, :3])
        np.testing.assert_allclose(ways[way], P, rtol=0, atol=1e-9)


def test_the_first_picture_shows_models_that_calibration_corrects():
    """README says how: two models are over-confident, the forest is under-confident."""
    figure, errors = first_picture.draw()
    assert all(after < before / 3 for before, after in errors.values())
    titles = [text.get_text() for ax in figure.axes for text in ax.texts]
    assert titles == [f"ECE {before:.0%} → {after:.0%}" for before, after in errors.values()]


def test_the_study_of_labels_is_better_than_platt_scaling_of_each(monkeypatch, capsys):
    some = list(labels.problems())[:2]
    monkeypatch.setattr(labels, "problems", lambda: iter(some))
    monkeypatch.setattr(labels, "MODELS", {"naive bayes": labels.MODELS["naive bayes"]})
    means = labels.main(["--splits", "1", "--sizes", "50"])
    assert means.index.tolist() == [(50, "generated 0"), (50, "generated 1")]
    assert (means["multilabel"] < means["Platt for each"]).all()
    assert "50 rows: above Platt by more than 1 % in 0 of 2 problems" in capsys.readouterr().out


def test_a_label_with_one_value_gets_a_constant():
    P, Y = np.full((8, 2), 0.5), np.array([[0, 1]] * 8)
    found = labels.by_own_calibrators(None, P, Y, P)
    np.testing.assert_allclose(found, [[0.1, 0.9]] * 8)
    assert labels.log_loss(Y, found) == pytest.approx(-np.log(0.9))
