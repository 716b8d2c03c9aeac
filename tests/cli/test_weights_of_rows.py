"""`--weights`: counts of rows or relative weights, in what is measured, compared and grouped."""

import json
import re

import numpy as np
import pandas as pd
import pytest
from running import fails, run, scores, softmax

import skcalib
from skcalib import TemperatureScaling

Y, Z = scores()
P = softmax(Z)
COUNTS = np.random.default_rng(1).integers(0, 4, size=300)
RELATIVE = np.random.default_rng(2).uniform(0.1, 3, size=300)
FEW = ["--calibrators", "temperature", "--metrics", "log_loss", "expected_calibration_error"]

pytestmark = pytest.mark.usefixtures("few_errors")


def save(name, weights=None, rows=slice(None), **others):
    """Save some rows as a table or as arrays."""
    others = {key: values[rows] for key, values in others.items()}
    if weights is not None:
        others["weights"] = weights
    if name.endswith(".npz"):
        np.savez(name, probs=P[rows], labels=Y[rows], **others)
    else:
        pd.DataFrame(P[rows]).assign(labels=Y[rows], **others).to_csv(name, index=False)


def values(printed):
    """The numbers of a table that do not come from simulations."""
    return re.findall(r"^(\w+) +(\d\.\d{4})", printed, re.MULTILINE)


@pytest.mark.parametrize("kind", ["csv", "npz"])
@pytest.mark.parametrize("command", ["measure", "compare"])
def test_counts_are_copies(capsys, kind, command):
    """Of integers, 2 is two rows and 0 none."""
    save(f"p.{kind}", COUNTS)
    save("copies.npz", rows=np.repeat(np.arange(300), COUNTS))
    options = ["--format", "table"]
    if command == "compare":  # on the same rows, since copies would be in several folds
        split = np.arange(300) % 2
        save(f"p.{kind}", COUNTS, split=split)
        save("copies.npz", rows=np.repeat(np.arange(300), COUNTS), split=split)
        options = FEW
    weighted, copied = (
        run(capsys, command, path, *options) for path in (f"p.{kind}", "copies.npz")
    )
    n = COUNTS.sum() if command == "measure" else COUNTS[1::2].sum()
    assert f"\nweights: counts, {n:,} rows\n" in weighted
    assert "weights" not in copied
    assert len(values(weighted)) > 1
    assert values(weighted) == values(copied)
    if command == "measure":  # what is said of chance too: as many rows count
        assert weighted.split("\n\n")[-1].split(":")[1] == copied.split("\n\n")[-1].split(":")[1]


@pytest.mark.parametrize("command", ["measure", "compare"])
def test_relative_weights_count_as_fewer_rows(capsys, command):
    """Only ratios matter: numbers of any scale give the same text."""
    options = FEW if command == "compare" else []
    n_eff = RELATIVE.sum() ** 2 / (RELATIVE**2).sum()
    texts = []
    for factor in (1, 1000.5):
        save("p.csv", factor * RELATIVE)
        texts.append(run(capsys, command, "p.csv", *options))
    assert texts[0] == texts[1]
    assert f"\nweights: relative, 300 rows count as {n_eff:,.0f}\n" in texts[0]


def test_weights_may_be_called_otherwise(capsys):
    save("p.csv", patients=COUNTS)
    printed = run(capsys, "measure", "p.csv", "--weights", "patients")
    assert f"weights: counts, {COUNTS.sum():,} rows" in printed
    assert "not used" not in printed
    np.save("p.npy", P)
    np.save("y.npy", Y)
    np.save("w.npy", COUNTS)
    files = ["p.npy", "--labels", "y.npy", "--weights", "w.npy", "--format", "json"]
    found = json.loads(run(capsys, "measure", *files))
    assert found["weights"] == f"counts, {COUNTS.sum():,} rows"
    assert "has no 'w'" in fails(capsys, "measure", "p.csv", "--weights", "w")


def test_groups_are_weighted(capsys):
    site = np.where(np.arange(300) % 3, "a", "b")
    save("p.csv", COUNTS, site=site)
    found = json.loads(run(capsys, "measure", "p.csv", "--groups", "site", "--format", "json"))
    given = {group["group"]["site"]: group["mean_confidence"] for group in found["groups"]}
    for name in ("a", "b"):
        rows = site == name
        mean = np.average(P.max(axis=1)[rows], weights=COUNTS[rows])
        assert given[name] == pytest.approx(mean, rel=1e-6)


def test_the_saved_calibrator_is_fitted_with_weights_and_apply_ignores_them(capsys):
    save("p.npz", COUNTS)
    run(capsys, "compare", "p.npz", *FEW, "--save", "t.json")
    expected = TemperatureScaling().fit(P, Y, sample_weight=COUNTS)
    assert skcalib.load_json("t.json").temperature_ == pytest.approx(expected.temperature_)
    printed = run(capsys, "apply", "t.json", "p.npz", "-o", "q.npz")
    assert "weights" not in printed
    assert set(np.load("q.npz")) == {"probs", "classes", "labels"}
