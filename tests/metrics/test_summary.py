"""The summary is its parts, which have tests of their own, and scores by other programs."""

from functools import partial

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import brier_score_loss, log_loss, roc_auc_score

from skcalib.metrics import (
    calibration_intercept_slope,
    calibration_interval,
    calibration_summary,
    expected_calibration_error,
    hosmer_lemeshow_test,
    integrated_calibration_index,
    observed_expected_ratio,
    score_decomposition,
    spiegelhalter_test,
)
from skcalib.metrics._common import EventRows
from skcalib.metrics._statistics.event import auc_interval

STATISTICS = [
    "rows", "events", "mean_probability", "observed_expected", "in_the_large", "intercept",
    "slope", "cox", "ece", "ici", "e50", "e90", "emax", "brier_score",
    "miscalibration", "discrimination", "uncertainty",
    "scaled_brier_score", "log_loss", "auc", "hosmer_lemeshow", "spiegelhalter",
]  # fmt: skip


def sample(n=300, seed=0):
    """Ties among the probabilities, and weights that count copies."""
    rng = np.random.default_rng(seed)
    p = rng.beta(1, 3, n).round(2).clip(0.01, 0.99)
    return rng.random(n) < p**1.3, p, rng.integers(0, 4, n)


@pytest.mark.usefixtures("few_label_sets")
@pytest.mark.parametrize("given", ["rows", "weights", "clusters"])
def test_is_its_parts(given):
    y, p, w = sample()
    w = w if given == "weights" else None
    asked = {"sample_weight": w}
    if given == "clusters":
        asked["clusters"] = np.random.default_rng(1).integers(15, size=300)
    frame = calibration_summary(y, p, random_state=0, **asked).frame
    assert frame.index.tolist() == STATISTICS
    assert frame.columns.tolist() == ["value", "low", "high", "pvalue", "debiased"]
    ratio, line = observed_expected_ratio(y, p, **asked), calibration_intercept_slope(y, p, **asked)
    ece = partial(expected_calibration_error, n_bins=10, strategy="quantile")
    error = calibration_interval(ece, y, p, random_state=0, **asked)
    parts, index = score_decomposition(y, p, **asked), integrated_calibration_index(y, p, **asked)
    debiased = [error.debiased, *index.interval.debiased]  # to which the intervals belong
    assert frame.loc[["ece", "ici", "e50", "e90", "emax"], "debiased"].tolist() == debiased
    four = index.frame[["estimate", "low", "high"]]
    np.testing.assert_allclose(frame.loc[four.index, ["value", "low", "high"]], four, rtol=1e-9)
    expected = {
        "miscalibration": (parts.miscalibration,),
        "discrimination": (parts.discrimination,),
        "uncertainty": (parts.uncertainty,),
        "scaled_brier_score": (parts.scaled_score,),
        "log_loss": (log_loss(y, p, sample_weight=w),),
        "auc": (roc_auc_score(y, p, sample_weight=w),),
        "rows": (300 if w is None else w.sum(),),
        "events": (y.sum() if w is None else w @ y,),
        "mean_probability": (np.average(p, weights=w),),
        "observed_expected": ratio[:3],
        "in_the_large": (line.in_the_large, line.in_the_large_low, line.in_the_large_high),
        "intercept": (line.intercept, line.intercept_low, line.intercept_high),
        "slope": (line.slope, line.slope_low, line.slope_high),
        "brier_score": (brier_score_loss(y, p, sample_weight=w), parts.score_low, parts.score_high),
        "ece": (error.estimate, error.low, error.high),
    }
    for name, numbers in expected.items():
        found = frame.loc[name].to_numpy()[: len(numbers)]
        np.testing.assert_allclose(found, numbers, rtol=1e-9, err_msg=name)
    hosmer_lemeshow = hosmer_lemeshow_test(y, p, sample_weight=w)[:2]
    if given == "clusters":  # the test takes rows as independent
        hosmer_lemeshow = hosmer_lemeshow[0], np.nan
    tests = {
        "cox": (line.statistic, line.pvalue),
        "hosmer_lemeshow": hosmer_lemeshow,
        "spiegelhalter": spiegelhalter_test(y, p, **asked),
        "ece": (error.estimate, error.p_value),
        "e90": (index.e90, index.interval.p_value[2]),
    }
    for name, numbers in tests.items():
        np.testing.assert_allclose(frame.loc[name, ["value", "pvalue"]], numbers, rtol=1e-9)


@pytest.mark.usefixtures("few_label_sets")
def test_a_note_says_as_what_0_and_1_are_read():
    """Half the smallest probability above 0 against 1, and 1 against half the distance to 1."""
    y, p, _ = sample()
    p = p.clip(0.02, 0.9)
    p[0], p[5], y[0] = 0, 0.9, False
    frame, notes = (s := calibration_summary(y, p, random_state=0)).frame, s.notes
    assert notes == ["slope: 1 row with probability 0, replaced by 0.0099."]
    assert np.isfinite(frame.loc["log_loss", "value"])
    p[1:4] = [1, 1, 0]
    y[1:4] = [True, False, False]
    s = calibration_summary(y, p, random_state=0)
    assert s.notes == ["slope: 4 rows with probability 0 or 1, replaced by 0.0099 and 0.952."]
    assert s.frame.loc["log_loss", "value"] == np.inf
    assert repr(s).endswith(s.notes[0])


def pairs_won(y, p):
    """Share of pairs of an event and a non-event in which the event is above, by loops."""
    events = [s for s, t in zip(p, y, strict=True) if t]
    others = [s for s, t in zip(p, y, strict=True) if not t]
    won = sum(1.0 if a > b else 0.5 if a == b else 0.0 for a in events for b in others)
    return won / (len(events) * len(others)), len(events), len(others)


def far(t, area, n1, n0, z):
    """How far an area t lies beyond the interval of Newcombe 2006, method 5: 0 at its ends."""
    m = (n1 + n0) / 2 - 1
    variance = t * (1 - t) * (1 + m * (1 - t) / (2 - t) + m * t / (1 + t)) / (n1 * n0)
    return abs(t - area) - z * np.sqrt(variance)


def test_the_auc_is_that_of_all_pairs_with_the_interval_of_newcombe():
    y, p, w = sample()
    y, p = np.repeat(y, w), np.repeat(p, w)
    area, n1, n0 = pairs_won(y, p)
    found = auc_interval(EventRows(p, y, np.ones(y.size)), 0.9)
    assert found[0] == pytest.approx(area, rel=1e-12)
    for end in found[1:]:
        assert far(end, area, n1, n0, 1.6448536269514722) == pytest.approx(0, abs=1e-9)
    assert found[1] < area < found[2]
    frame = calibration_summary(y, p, confidence_level=0.9, random_state=0).frame
    np.testing.assert_allclose(frame.loc["auc", ["value", "low", "high"]], found)


@pytest.mark.parametrize("n", [1, 3, 400, 200_000])
def test_an_area_of_1_or_0_has_an_interval(n):
    """n events against n others; of one each, 1 - t = z^2 t."""
    rows = np.repeat([0.2, 0.4], n)
    hit = rows > 0.3
    area, low, high = auc_interval(EventRows(rows, hit, np.ones(2 * n)), 0.95)
    assert (area, high) == (1, 1)
    assert far(low, 1.0, n, n, 1.959963984540054) == pytest.approx(0, abs=1e-9)
    assert 0 < low < 1
    if n == 1:
        assert low == pytest.approx(1 / (1 + 1.959963984540054**2))
    reversed_rows = auc_interval(EventRows(rows, ~hit, np.ones(2 * n)), 0.95)
    assert reversed_rows == pytest.approx((0, 0, 1 - low))


@pytest.mark.usefixtures("few_label_sets")
def test_several_classes_are_the_event_against_the_rest_or_the_top_label():
    y, p, _ = sample()
    P, code = np.column_stack([p, (1 - p) / 2, (1 - p) / 2]), np.where(y, 0, 2)
    top = P.argmax(axis=1) == code, P.max(axis=1)
    for pos_label, one in ((0, (y, p)), (None, top)):
        found = calibration_summary(code, P, pos_label=pos_label, labels=range(3)).frame["value"]
        pd.testing.assert_series_equal(found, calibration_summary(*one).frame["value"], rtol=1e-6)


@pytest.mark.usefixtures("few_label_sets")
@pytest.mark.parametrize(
    ("y", "p", "missing"),
    [
        ([0, 0, 0], [0.1, 0.2, 0.4], "in_the_large intercept slope cox scaled_brier_score auc"),
        ([1, 1, 1], [0.1, 0.2, 0.4], "in_the_large intercept slope cox scaled_brier_score auc"),
        ([0, 1, 1], [0.2, 0.2, 0.2], "intercept slope cox"),
        ([0, 0, 1], [0.1, 0.2, 0.4], "intercept slope cox"),
        ([0, 1], [0.0, 1.0], "intercept slope cox"),
        ([0], [0.0], "observed_expected in_the_large intercept slope cox scaled_brier_score auc"),
        ([0, 1, 0], [0.1, 0.3, 0.6], ""),
    ],
)
def test_what_does_not_exist_is_missing_and_told(y, p, missing):
    """The rest of the page is there."""
    summary = calibration_summary(y, p, random_state=0)
    value = summary.frame["value"]
    assert value.index[value.isna()].tolist() == missing.split()
    for name in missing.split():
        known = ("intercept, slope" if name in ("in_the_large", "cox") else name,)
        assert any(each in note for each in known for note in summary.notes)
    assert bool(summary.notes) == bool(missing)
    assert all("\n" not in note for note in summary.notes)


def test_printed_as_a_table_with_its_notes():
    y, p, _ = sample()
    text = repr(calibration_summary(y, p, random_state=0))
    assert len(text.splitlines()) == 1 + len(STATISTICS)
    slope = calibration_intercept_slope(y, p)
    assert f"{slope.slope:.4g}" in text
    assert f"{slope.slope_low:.4g} to {slope.slope_high:.4g}" in text
    summary = calibration_summary([0] * 3, [0.1, 0.2, 0.4], random_state=0)
    assert repr(summary).splitlines()[-1].startswith("scaled_brier_score, auc, interval of")
    page = summary._repr_html_()
    assert page.count("<tr") == 1 + len(STATISTICS)
    assert "<p>intercept, slope: y_true: the event occurs in no row" in page
    wrong = calibration_summary(np.tile([0, 1], 200), np.full(400, 0.01), random_state=0)
    assert "< 0.0034" in repr(wrong)
