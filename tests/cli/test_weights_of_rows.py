"""`--weights` and `--clusters`: rows that count as several, and rows that were drawn together."""

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from running import fails, run, scores, softmax
from scipy import stats

import skcalib
from skcalib import TemperatureScaling, compare_calibrators, metrics
from skcalib._comparison.comparison import affordable_resamples

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
        assert weighted.split("\n\n")[1].split(":")[1] == copied.split("\n\n")[1].split(":")[1]


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
    assert (
        f"\nweights: relative, the 300 rows count as {n_eff:,.0f} rows of equal weight\n"
        in texts[0]
    )


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


# ------------------------------------------------------------------ clusters


RNG = np.random.default_rng(0)
HOSPITAL = RNG.integers(0, 12, 400)
SCORE = RNG.beta(2, 3, 400)
SHIFT = 0.8 * RNG.normal(size=12)[HOSPITAL]
EVENT = (RNG.random(400) < 1 / (1 + (1 - SCORE) / SCORE * np.exp(-SHIFT))).astype(int)


def save_events(name, **others):
    columns = {"label": EVENT, "score": SCORE, **others}
    if name.endswith(".npz"):
        del columns["score"]
        np.savez(name, probs=SCORE, **columns)
    else:
        pd.DataFrame(columns).to_csv(name, index=False)


@pytest.mark.parametrize("name", ["p.csv", "p.npz"])
def test_numbers_are_those_of_the_functions(capsys, monkeypatch, name):
    few = ["neg_expected_calibration_error", "neg_ks_calibration_error", "neg_aurc_loss"]
    monkeypatch.setattr("skcalib._cli.measured.MEASURED", few)
    names = np.array([f"{c:03}" for c in HOSPITAL])
    save_events(name, hospital=names)
    command = ["measure", name, "--clusters", "hospital"]
    found = json.loads(run(capsys, *command, "--all", "--format", "json"))
    assert found["clusters"] == 12
    rows = {row["metric"]: row for row in found["metrics"]}
    keywords = {"clusters": HOSPITAL, "random_state": 0}
    error = metrics.calibration_interval(metrics.ks_calibration_error, EVENT, SCORE, **keywords)
    assert rows["ks_calibration_error"]["high"] == pytest.approx(error.high)
    assert rows["ks_calibration_error"]["p_value"] == error.p_value
    n_resamples = affordable_resamples(400, 2)
    curve = metrics.bootstrap_interval(
        metrics.aurc_loss, EVENT, SCORE, n_resamples=n_resamples, **keywords
    )
    assert rows["aurc_loss"]["low"] == pytest.approx(curve.low)
    brier = metrics.score_decomposition(EVENT, SCORE, clusters=HOSPITAL)
    width = rows["brier_score"]["high"] - rows["brier_score"]["low"]
    assert width == pytest.approx(brier.score_high - brier.score_low, rel=0.1)
    printed = run(capsys, *command)
    assert "\nclusters: hospital, 12 clusters\n" in printed
    run(capsys, *command, "--report", "r.html")
    page = Path("r.html").read_text(encoding="utf-8")
    assert re.search(r"<td[^>]*>clusters</td><td[^>]*>hospital, 12 clusters</td>", page)
    assert "not used" not in printed


def test_five_clusters_leave_errors_without_intervals(capsys):
    save_events("p.csv", ward=HOSPITAL % 5)
    options = ["--clusters", "ward", "--scores", "score"]
    assert "nan" not in run(capsys, "measure", "p.csv", *options)
    printed = run(capsys, "measure", "p.csv", *options, "--all")
    assert "\nclusters: ward, 5 clusters: intervals of errors need at least 6\n" in printed
    assert "nan" not in printed
    (line,) = (x for x in printed.splitlines() if x.startswith("ks_calibration_error"))
    assert len(line.split()) == 2  # the metric as measured
    assert printed.split("\n\n")[1].endswith("5 clusters: intervals of errors need at least 6.")


def test_what_may_be_chance_is_said_of_clusters(capsys):
    """The mean of the scores is 3 standard errors of rows away from the rate, 1 of clusters."""
    score = np.full(400, 0.5)
    score[::2] += 1e-3
    ward = np.arange(400) // 40
    y = (np.arange(400) % 40 < np.array([34, 32, 30, 28, 26, 26, 24, 22, 16, 4])[ward]).astype(int)
    sums = [np.sum(y[ward == c] - score[ward == c]) for c in range(10)]
    t = sum(sums) / np.sqrt(np.sum(np.square(sums)))
    assert abs(t) < stats.t.ppf(0.975, 9)
    assert abs(np.mean(y - score)) > 1.96 * np.sqrt(0.25 / 400)
    pd.DataFrame({"label": y, "score": score, "ward": ward}).to_csv("p.csv", index=False)
    plain = run(capsys, "measure", "p.csv", "--scores", "score")
    assert "which is not significant" not in plain.replace("\n", " ")
    found = run(capsys, "measure", "p.csv", "--scores", "score", "--clusters", "ward")
    assert "which is not significant" in found.replace("\n", " ")


def test_clusters_belong_to_the_rows_of_the_test_split_and_of_groups(capsys):
    save_events(
        "p.csv", hospital=HOSPITAL, split=np.arange(400) % 2, site=np.where(HOSPITAL < 6, "a", "b")
    )
    options = ["--clusters", "hospital", "--groups", "site", "--format", "json"]
    found = json.loads(run(capsys, "measure", "p.csv", *options))
    assert found["clusters"] == 12
    assert [group["clusters"] for group in found["groups"]] == [6, 6]


def test_a_missing_or_poor_column_is_refused(capsys):
    save_events("p.csv", ward=np.where(np.arange(400) == 7, "", "a"))
    assert "has no 'wards'; it contains label" in fails(
        capsys, "measure", "p.csv", "--clusters", "wards"
    )
    assert "clusters has no label in row 7" in fails(
        capsys, "measure", "p.csv", "--clusters", "ward", "--scores", "score"
    )


@pytest.mark.parametrize("command", ["measure", "compare"])
def test_clusters_of_a_test_split_are_checked_by_themselves(capsys, command):
    """Two hospitals among the test rows are too few, however many there are in the file."""
    save_events("p.csv", hospital=HOSPITAL, split=(HOSPITAL < 2).astype(int))
    options = ["--clusters", "hospital", "--scores", "score"]
    message = "clusters has 2 different labels: an interval needs 3"
    assert message in fails(capsys, command, "p.csv", *options)


def test_compare_keeps_clusters_whole_and_counts_them(capsys):
    save_events("p.csv", hospital=HOSPITAL)
    options = ["--calibrators", "temperature", "--metrics", "log_loss", "--scores", "score"]
    options += ["--clusters", "hospital"]
    found = json.loads(run(capsys, "compare", "p.csv", *options, "--format", "json"))
    assert found["clusters"] == 12
    assert found["measured_on"] == "each in one of 5 stratified folds, clusters whole"
    (row,) = [row for row in found["calibrators"] if row["calibrator"] == "temperature"]
    frame = compare_calibrators(
        SCORE, EVENT, ["temperature"], metrics=["log_loss"], clusters=HOSPITAL, random_state=0
    ).frame
    assert row["log_loss_low"] == pytest.approx(frame["log_loss", "low"]["temperature"])
    assert "\nclusters: hospital, 12 clusters\n" in run(capsys, "compare", "p.csv", *options)


def test_compare_takes_clusters_beside_a_test_split(capsys):
    save_events("p.csv", hospital=HOSPITAL, split=np.arange(400) % 2)
    options = ["--calibrators", "temperature", "--metrics", "log_loss", "--clusters", "hospital"]
    found = json.loads(run(capsys, "compare", "p.csv", *options, "--format", "json"))
    assert found["clusters"] == 12
    assert found["measured_on"] == "the test split"
