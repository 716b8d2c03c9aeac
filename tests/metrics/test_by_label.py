"""Calibration by label, against calibration by group on rows that loops write one by one."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from calls import refused
from scipy.special import expit

from skcalib.metrics import (
    calibration_by_group,
    calibration_by_label,
    calibration_intercept_slope,
    calibration_interval,
    expected_calibration_error,
    static_calibration_error,
)

pytestmark = pytest.mark.usefixtures("few_label_sets")

ECE, NAMES = "expected_calibration_error", ["cat", "dog", "owl"]


def labels_of_rows(n=200, seed=0, unknown=0.3):
    """Return labels (NaN: unknown), probabilities that are wrong for the first, and weights."""
    rng = np.random.default_rng(seed)
    f = rng.normal(-0.5, 1.5, size=(n, 3))
    Y = (rng.random((n, 3)) < expit(f + np.array([2, 0, 0]))).astype(float)
    Y[rng.random(Y.shape) < unknown] = np.nan
    return Y, expit(f), rng.integers(0, 3, n)


def slow_rows(Y, P, w):
    """Return label 0 or 1, probability, name, weight and row of each known entry."""
    rows = [
        (int(Y[i, j]), P[i, j], NAMES[j], w[i], i)
        for j in range(3)
        for i in range(len(Y))
        if not np.isnan(Y[i, j])
    ]
    return map(np.array, zip(*rows, strict=True))


@pytest.mark.parametrize("weights", ["none", "counts", "floats"])
@pytest.mark.parametrize("clustered", [False, True])
def test_labels_are_groups_of_all_entries(weights, clustered):
    Y, P, w = labels_of_rows()
    w = {"none": np.ones(len(Y), int), "counts": w, "floats": w / 7}[weights]
    patient = np.arange(len(Y)) // 4
    y, p, name, weight, row = slow_rows(Y, P, w)
    keywords = {"random_state": 3, "metrics": [ECE, "slope", "auc"]}
    expected = calibration_by_group(
        y, p, name, sample_weight=weight, clusters=patient[row] if clustered else None, **keywords
    )
    found = calibration_by_label(
        pd.DataFrame(Y, columns=NAMES),
        P,
        sample_weight=None if weights == "none" else w,
        clusters=patient.tolist() if clustered else None,
        **keywords,
    )
    assert ("clusters" in found.frame) == clustered
    pd.testing.assert_frame_equal(found.frame, expected.frame, check_names=False)
    assert found.frame.index.name == "label"
    assert found.p_value == expected.p_value
    # The mean over groups, which follows there, is no verdict on labels.
    verdict, _, mean = expected.verdict.replace("group", "label").partition(" slope: ")
    assert found.verdict == verdict
    assert "on average of 3 labels" in mean


def test_each_label_has_the_numbers_of_its_rows_alone():
    Y, P, _ = labels_of_rows()
    found = calibration_by_label(Y, P, random_state=5)
    assert sorted(found.frame.index) == [0, 1, 2]
    for j in range(3):
        known = ~np.isnan(Y[:, j])
        y, p = Y[known, j].astype(int), P[known, j]
        row = found.frame.loc[j]
        alone = calibration_interval(expected_calibration_error, y, p, random_state=5)
        parts = ["value", "debiased", "low", "high", "if calibrated"]
        assert [row[ECE, part] for part in parts] == list(alone[:-1])
        assert [row["n", ""], row["events", ""]] == [known.sum(), y.sum()]
        assert row["mean probability", ""] == pytest.approx(p.mean())
        slope = calibration_intercept_slope(y, p)
        assert row["slope", "value"] == pytest.approx(slope.slope)
    assert found.frame.index[0] == 0
    assert found.frame[ECE, "corrected p-value"].iloc[0] < 0.05
    assert "Miscalibrated labels: 0 (" in found.verdict


def test_macro_is_the_mean_over_labels():
    Y, P, _ = labels_of_rows(unknown=0)
    found = calibration_by_label(Y, P, random_state=0)
    assert found.macro == np.mean([found.frame.loc[j, (ECE, "debiased")] for j in range(3)])
    # The mean of the errors as measured is the class-wise error of each label.
    sce = [
        static_calibration_error(Y[:, j], np.column_stack([1 - P[:, j], P[:, j]])) for j in range(3)
    ]
    assert found.frame[ECE, "value"].mean() == pytest.approx(np.mean(sce))
    assert f"Mean over labels, ECE (debiased): {found.macro:.4f}" in repr(found)
    assert "  ECE, debiased" in repr(found)
    assert f"(debiased): {found.macro:.4f}</p>" in found._repr_html_()
    slopes = calibration_by_label(Y, P, metrics="slope")
    assert slopes.macro == pytest.approx(slopes.frame["slope", "value"].mean())
    assert "Mean over labels, slope (value)" in repr(slopes)
    assert slopes.verdict.endswith("in a new label.")


@pytest.mark.parametrize("mark", [np.nan, -1, 255])
def test_unknown_entries_are_absent(mark):
    Y, P, w = labels_of_rows()
    expected = calibration_by_label(Y, P, sample_weight=w, random_state=0).frame
    lost = np.where(np.isnan(Y), 2.0, P)  # the probabilities of unknown entries are not read
    keywords = {"ignore_index": 255} if mark == 255 else {}
    marked = np.nan_to_num(Y, nan=mark)
    found = calibration_by_label(marked, lost, sample_weight=w, random_state=0, **keywords)
    pd.testing.assert_frame_equal(found.frame, expected)


def test_one_label_is_one_event():
    Y, P, _ = labels_of_rows(unknown=0)
    y, p = Y[:, 1].astype(int), P[:, 1]
    frames = [
        calibration_by_label(*each, random_state=0).frame
        for each in ((y, p), (y[:, None], p[:, None]), (y, [np.column_stack([1 - p, p])]))
    ]
    for frame in frames:
        pd.testing.assert_frame_equal(frame, frames[0])
    alone = calibration_interval(expected_calibration_error, y, p, random_state=0)
    assert frames[0].loc[0, (ECE, "debiased")] == alone.debiased


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_frames_are_read_by_name(frame):
    Y, P, _ = labels_of_rows(unknown=0)
    expected = calibration_by_label(pd.DataFrame(Y, columns=NAMES), P, random_state=0).frame
    scores = frame({f"prob_{NAMES[j]}": P[:, j] for j in (2, 0, 1)})
    labels = frame(dict(zip(NAMES, (Y == 1).T, strict=True)))
    found = calibration_by_label(labels, scores, random_state=0)
    pd.testing.assert_frame_equal(found.frame, expected)


def test_labels_without_entries_are_listed():
    Y, P, _ = labels_of_rows(unknown=0)
    Y[:, 1] = np.nan
    found = calibration_by_label(pd.DataFrame(Y, columns=NAMES), P, random_state=0)
    assert found.frame.loc["dog", ("finding", "")] == "no rows"
    assert "(1 of 2 tested, 1 too small to test" in found.verdict
    assert found.macro == found.frame[ECE, "debiased"].dropna().mean()


Y, P, _ = labels_of_rows()


@pytest.mark.parametrize(
    ("y", "p", "keywords", "words"),
    [
        (
            P,
            Y,
            {},
            r"y_true has 0.\d+ at row 0 of label 0: were labels and prob.* exchanged",
        ),
        (Y, P + 1, {}, r"y_proba: row \d+ of label 0"),
        (Y, np.where(np.arange(3) == 2, np.nan, P), {}, r"y_proba.* row \d+ of label 2"),
        (Y, P[:, :2], {}, r"y_proba has shape \(200, 2\), but the number of labels is 3"),
        (Y, P[:9], {}, "y_proba has 9 rows, y_true has 200"),
        (Y, P, {"clusters": [1, 2]}, "y_proba has 200 rows, clusters has 2"),
        (Y, P, {"metrics": "slopes"}, "'slopes' is not the name"),
        (Y, P, {"sample_weight": -np.ones(200)}, "sample_weight"),
    ],
)
def test_bad_input_is_refused_in_one_line(y, p, keywords, words):
    refused(words, calibration_by_label, y, p, **keywords)
