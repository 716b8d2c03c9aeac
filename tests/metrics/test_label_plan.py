"""Planned numbers of rows: by closed forms, by simulation with other code, and what is drawn."""

import pickle

import numpy as np
import pandas as pd
import pytest
from calls import refused
from scipy.special import betainc, expit, logit
from scipy.stats import binom
from sklearn.metrics import brier_score_loss, log_loss

from skcalib import AutoCalibrator
from skcalib.metrics import (
    aurc_loss,
    calibration_intercept_slope,
    calibration_interval,
    expected_calibration_error,
    label_plan,
    observed_expected_ratio,
    static_calibration_error,
)
from skcalib.metrics._statistics import label_plan as module

Z = 1.959964  # normal quantile of 95 % intervals
RISKS = np.random.default_rng(0).beta(1, 4, size=2000)


def tempered(p, temperature=1.5):
    return expit(logit(p) / temperature)


def softmax(logits):
    e = np.exp(logits - logits.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


# ------------------------------------------------------------------ widths


@pytest.mark.parametrize("width", [0.05, 0.5])
def test_rows_of_a_ratio_are_those_of_a_proportion(width):
    """With one probability p, O:E is a proportion divided by p."""
    p, q = 0.3, tempered(0.3)
    plan = label_plan(np.full(30, p), observed_expected_ratio, width=width, random_state=0)
    assert plan.truth == "T = 1.5"
    assert plan.rows == pytest.approx((2 * Z / width / p) ** 2 * q * (1 - q), rel=0.08)


def test_rows_of_a_brier_score_are_those_of_a_loss_with_two_values():
    p, q, width = 0.2, tempered(0.2), 0.02
    expected = (2 * Z * (1 - 2 * p) / width) ** 2 * q * (1 - q)
    for metric in (brier_score_loss, "brier_score"):
        plan = label_plan(np.full(30, p), metric, width=width, random_state=0)
        assert plan.rows == pytest.approx(expected, rel=0.05)


@pytest.mark.parametrize("metric", [log_loss, "log_loss"])
def test_rows_of_a_log_loss_of_classes(metric):
    """With the same probabilities in each row, the loss has the variance of -log P[y]."""
    P = np.array([0.6, 0.3, 0.1])
    q = P ** (1 / 1.5) / (P ** (1 / 1.5)).sum()
    variance = q @ np.log(P) ** 2 - (q @ np.log(P)) ** 2
    plan = label_plan(np.tile(P, (40, 1)), metric, width=0.1, random_state=0)
    assert plan.rows == pytest.approx((2 * Z / 0.1) ** 2 * variance, rel=0.06)


def test_rows_of_a_slope_are_those_of_its_information():
    """Log-odds -f and f: the slope has the information n f^2 p (1 - p), less for labels of P."""
    f, width = 1.5, 0.4
    p = expit(f)
    plan = label_plan([1 - p, p], calibration_intercept_slope, width=width, random_state=0)
    assert plan.truth == "calibrated"
    assert plan.rows == pytest.approx((2 * Z / width / f) ** 2 / (p * (1 - p)), rel=0.06)


def test_a_level_and_a_temperature_change_the_rows():
    P, q = np.full(30, 0.3), tempered(0.3, 3)
    plan = label_plan(
        P, observed_expected_ratio, width=0.1, temperature=3, confidence_level=0.9, random_state=0
    )
    assert plan.truth == "T = 3"
    assert plan.rows == pytest.approx((2 * 1.644854 / 0.1 / 0.3) ** 2 * q * (1 - q), rel=0.08)


def test_widths_of_rare_events_are_simulated_with_enough_rows():
    """The first samples have no events; a few are not enough for c / sqrt(n)."""
    p, q = 1e-3, tempered(1e-3)
    plan = label_plan(np.full(9, p), observed_expected_ratio, width=1, random_state=0)
    assert plan.rows == pytest.approx((2 * Z / p) ** 2 * q * (1 - q), rel=0.08)


@pytest.mark.parametrize("width", [0.1, pytest.param(0.2, marks=pytest.mark.slow)])
def test_the_mean_interval_is_as_wide_as_requested(width):
    rng = np.random.default_rng(1)
    P = softmax(rng.normal(scale=2, size=(500, 4)))
    plan = label_plan(P, width=width, random_state=0)
    q = softmax(np.log(P) / 1.5)
    widths = []
    for seed in range(20):
        rows = rng.integers(500, size=plan.rows)
        y = (q[rows].cumsum(axis=1)[:, :3] < rng.random((plan.rows, 1))).sum(axis=1)
        found = calibration_interval(
            expected_calibration_error, y, P[rows], labels=range(4), random_state=seed
        )
        widths.append(found.high - found.low)
    assert np.mean(widths) == pytest.approx(width, rel=0.1)


def test_the_table_has_the_widths_of_other_numbers():
    plan = label_plan(np.full(30, 0.2), "brier_score", width=0.02, random_state=0)
    assert plan.table.columns.tolist() == ["rows", "width"]
    assert plan.table["rows"].tolist()[:5] == [100, 200, 500, 1000, 2000]
    assert plan.table["rows"].iloc[-2] < 2 * plan.rows <= plan.table["rows"].iloc[-1]
    q = tempered(0.2)
    expected = 2 * Z * 0.6 * np.sqrt(q * (1 - q) / plan.table["rows"])
    np.testing.assert_allclose(plan.table["width"], expected, rtol=0.06)


@pytest.mark.usefixtures("few_label_sets")
def test_keywords_reach_the_metric(monkeypatch):
    monkeypatch.setattr(module, "OF_ERRORS", (2, 0.02, 2, *module.OF_ERRORS[3:]))
    keywords = {"width": 0.1, "random_state": 0}
    plain = label_plan(RISKS, **keywords)
    assert label_plan(RISKS, n_bins=1, **keywords).rows != plain.rows
    by_name = label_plan(RISKS, "expected_calibration_error", **keywords)
    assert by_name.rows == plain.rows


# ------------------------------------------------------------------ thresholds and calibrators


@pytest.mark.parametrize("accuracy", [0.9, 0.95])
def test_a_threshold_exists_in_four_of_five_samples(accuracy):
    """With one score, it exists if a binomial test of all rows is significant."""
    p = 0.99
    plan = label_plan(np.full(50, p), accuracy=accuracy, act_on=1, random_state=0)
    assert plan.truth == "T = 1.5"
    wrong = np.arange(plan.rows)
    passes = betainc(plan.rows - wrong, wrong + 1, accuracy) <= 0.05
    most = wrong[passes].max()
    chance = binom.cdf(most, plan.rows, 1 - tempered(p))
    assert 0.75 < chance < 0.95
    assert plan.table.set_index("rows")["chance"][plan.rows] >= 0.8
    assert plan.table.columns.tolist() == ["rows", "chance"]


def test_a_threshold_for_few_rows_needs_more_labels_than_one_for_any():
    P = softmax(np.random.default_rng(2).normal(scale=3, size=(2000, 3)))
    some = label_plan(P, accuracy=0.8, random_state=0)
    many = label_plan(P, accuracy=0.8, act_on=0.4, random_state=0)
    assert some.rows < many.rows
    assert "a threshold that accepts 40 % of the rows" in str(many)


@pytest.mark.parametrize("temperature", [0.7, 1.5])
def test_a_calibrator_is_better_than_none_in_nine_of_ten_samples(temperature):
    p = np.linspace(0.05, 0.95, 400)
    plan = label_plan(p, purpose="calibrate", temperature=temperature, random_state=0)
    q, rng, better = tempered(p, temperature), np.random.default_rng(3), []
    for _ in range(60):
        rows = rng.integers(400, size=plan.rows)
        y = (rng.random(plan.rows) < q[rows]).astype(int)
        r = AutoCalibrator(classes=[0, 1]).fit(p[rows], y).predict_proba(p)[:, 1]
        better.append(
            -q @ np.log(r) - (1 - q) @ np.log1p(-r) < -q @ np.log(p) - (1 - q) @ np.log1p(-p)
        )
    assert np.mean(better) >= 0.8
    assert 50 < plan.rows < 250  # with 20 rows, it is better in 80 % of samples
    fewer = plan.table["rows"] < 0.8 * plan.rows
    assert (plan.table["chance"][fewer] < 0.9).all()


# ------------------------------------------------------------------ drawn rows


@pytest.fixture(scope="module")
def plan():
    return label_plan(np.full(30, 0.3), observed_expected_ratio, width=1, random_state=0)


def test_rows_are_drawn_with_the_inverse_of_their_weights(plan):
    p = np.concatenate([np.linspace(0.001, 0.999, 60), [0.0, 1.0], np.full(18, 0.5)])
    count, inverse = np.zeros(80), np.full(80, np.nan)
    for seed in range(1500):
        rows, weight = plan.draw(p, random_state=seed)
        assert (np.diff(rows) > 0).all()  # sorted, none twice
        assert len(rows) == plan.rows
        count[rows] += 1
        inverse[rows] = 1 / weight
    assert inverse.sum() == pytest.approx(plan.rows)
    assert inverse[60] < inverse[0] < inverse[30]  # a probability of 0 is drawn least
    error = np.sqrt(inverse * (1 - inverse) / 1500)
    np.testing.assert_array_less(np.abs(count / 1500 - inverse), 4.5 * error + 1e-9)


def test_rows_are_half_even_and_half_by_spread(plan):
    """By the formula of the docstring."""
    p = np.random.default_rng(4).random(500)
    s = np.sqrt(p * (1 - p))
    rows, weight = plan.draw(p, random_state=0)
    expected = plan.rows * (0.5 / 500 + 0.5 * s / s.sum())
    np.testing.assert_allclose(1 / weight, expected[rows])


def test_draws_are_stratified_by_score(plan):
    """Each tenth of the rows has its expected number of rows, up to 1."""
    p = np.random.default_rng(5).permutation(np.linspace(0, 1, 1000))
    s = np.sqrt(p * (1 - p))
    expected = plan.rows * np.histogram(p, 10, (0, 1), weights=(1 / 1000 + s / s.sum()) / 2)[0]
    for seed in range(20):
        rows, _ = plan.draw(p, random_state=seed)
        assert np.abs(np.histogram(p[rows], 10, (0, 1))[0] - expected).max() < 1.01
    assert (plan.draw(p, random_state=0)[0] == plan.draw(p, random_state=0)[0]).all()
    assert (plan.draw(p, random_state=0)[0] != plan.draw(p, random_state=1)[0]).any()


def test_rows_of_other_plans_are_counts_drawn_with_equal_probabilities():
    p, count = np.random.default_rng(5).random(60), np.zeros(60)
    for keywords in ({"metric": "brier_score", "width": 0.2}, {"accuracy": 0.6}):
        plan = label_plan(np.full(30, 0.9), random_state=0, **keywords)
        assert plan.rows < 60
        for seed in range(500):
            rows, weight = plan.draw(p, random_state=seed)
            count[rows] += 1 / plan.rows
            assert (np.diff(rows) > 0).all()
        assert weight.dtype.kind == "i"
        assert weight.tolist() == [1] * plan.rows
    np.testing.assert_allclose(count, 1000 / 60, rtol=0.25)


def test_all_rows_are_drawn_if_there_are_no_more(plan):
    p = np.random.default_rng(6).random(plan.rows)
    rows, weight = plan.draw(p, random_state=0)
    np.testing.assert_array_equal(rows, np.arange(plan.rows))
    np.testing.assert_allclose(weight, 1)
    more = np.append(p, 0.5)
    assert len(plan.draw(more, random_state=0)[0]) == plan.rows
    refused(rf"y_proba has {plan.rows - 1} rows, but the plan needs {plan.rows}", plan.draw, p[1:])


@pytest.mark.parametrize("P", [np.full(400, 0.5), np.tile([[1.0, 0.0, 0.0]], (400, 1))])
def test_equal_and_certain_scores_are_drawn_evenly(plan, P):
    labels = range(P.shape[1]) if P.ndim == 2 else None
    of = label_plan(P, observed_expected_ratio, width=1, labels=labels, random_state=0)
    rows, weight = of.draw(P, random_state=0)
    assert len(set(rows)) == of.rows
    np.testing.assert_allclose(weight, 400 / of.rows)


def test_weighted_means_of_drawn_rows_are_those_of_all_rows():
    """Of 400 samples; the standard error of the mean is that of the samples."""
    rng = np.random.default_rng(7)
    plan = label_plan(RISKS, observed_expected_ratio, width=0.4, random_state=0)
    q, means = tempered(RISKS), []
    for seed in range(400):
        rows, weight = plan.draw(RISKS, random_state=seed)
        y = rng.random(plan.rows) < q[rows]
        means.append(observed_expected_ratio(y, RISKS[rows], sample_weight=weight).ratio)
    bias = np.mean(means) - q.mean() / RISKS.mean()
    assert abs(bias) < 3 * np.std(means) / 20


# ------------------------------------------------------------------ input and output


def test_forms_of_one_event_give_one_plan():
    p = RISKS[:200]
    both = np.column_stack([1 - p, p])
    expected = label_plan(p, "brier_score", width=0.1, random_state=0).rows
    for form, keywords in (
        (p.tolist(), {}),
        (p[:, None], {}),
        (pd.Series(p), {}),
        (both, {}),
        (p, {"pos_label": "ill"}),
        (p, {"labels": ["ill", "well"], "pos_label": "ill"}),
        (pd.DataFrame(both, columns=["well", "ill"]), {"pos_label": "ill"}),
        (both[:, ::-1], {"labels": ["ill", "well"], "pos_label": "ill"}),
    ):
        plan = label_plan(form, "brier_score", width=0.1, random_state=0, **keywords)
        assert plan.rows == pytest.approx(expected, rel=0.03), keywords
        assert len(plan.draw(form, random_state=0)[0]) == plan.rows
    narrow = label_plan(p.astype(np.float32), "brier_score", width=0.1, random_state=0)
    assert narrow.rows == pytest.approx(expected, rel=0.02)


def test_columns_of_a_frame_are_named_by_labels():
    P = softmax(np.random.default_rng(8).normal(scale=2, size=(300, 3)))
    keywords = {"width": 0.3, "random_state": 0}
    expected = label_plan(P[:, 1], observed_expected_ratio, **keywords).rows
    frame = pd.DataFrame(P, columns=["prob_a", "prob_b", "prob_c"])
    for form, labels in (
        (P, ["a", "b", "c"]),
        (frame[["prob_c", "prob_a", "prob_b"]], list("abc")),
    ):
        plan = label_plan(form, observed_expected_ratio, pos_label="b", labels=labels, **keywords)
        assert plan.rows == pytest.approx(expected, rel=0.1)
    by_name = label_plan(frame, observed_expected_ratio, pos_label="prob_b", **keywords)
    assert by_name.rows == pytest.approx(expected, rel=0.1)


def test_a_plan_is_printed_as_sentences(plan):
    assert str(plan) == (
        f"Label {plan.rows} rows: the 95 % interval of the observed-expected ratio is then 1 wide "
        "on average. Assumed: new rows are like these 30, and the model is over-confident "
        "(T = 1.5)."
    )
    copy = pickle.loads(pickle.dumps(plan))
    assert str(copy) == str(plan)
    assert len(copy.draw(RISKS, random_state=0)[0]) == plan.rows


@pytest.mark.parametrize(
    ("keywords", "sentence"),
    [
        ({"width": 0.1, "metric": "log_loss", "temperature": 1}, "and the model is calibrated."),
        ({"width": 0.1, "metric": "log_loss", "temperature": 0.5}, "and the model is calibrated."),
        (
            {"purpose": "calibrate"},
            "AutoCalibrator then has a lower log loss than no calibrator in",
        ),
        ({"accuracy": 0.4}, "a threshold that accepts some rows with an accuracy of 40 %"),
        (
            {"width": 0.3, "metric": calibration_intercept_slope},
            "interval of the calibration slope",
        ),
    ],
)
def test_the_sentence_says_what_is_assumed(keywords, sentence):
    assert sentence in str(label_plan(RISKS, random_state=0, **keywords))


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({}, "pass exactly one of width=, accuracy= and purpose='calibrate'"),
        ({"width": 0.1, "accuracy": 0.9}, "pass exactly one of width="),
        ({"width": 0.1, "act_on": 0.5}, "act_on is for a threshold: pass accuracy= too"),
        ({"width": 0}, "width must be a number above 0, such as 0.04; got 0"),
        ({"width": "0.1"}, "width must be a number above 0"),
        ({"accuracy": 1.0}, r"accuracy must be a number in \(0, 1\); got 1.0"),
        ({"accuracy": 0.9, "act_on": 0}, r"act_on must be a number in \(0, 1\]; got 0"),
        ({"accuracy": 0.9, "act_on": 1.1}, r"act_on must be a number in \(0, 1\]; got 1.1"),
        ({"purpose": "act"}, "purpose must be one of .*'calibrate'"),
        ({"purpose": "calibrate", "temperature": 1}, "temperature=1: no calibrator improves"),
        ({"width": 0.1, "temperature": 0}, "temperature must be a number above 0"),
        ({"width": 0.1, "metric": aurc_loss}, "metric must be a calibration error .* aurc_loss"),
        ({"width": 0.1, "metric": "ece"}, "metric must be a calibration error .*; got ece"),
        ({"width": 0.1, "metric": 3}, "metric must be a calibration error .*; got int"),
        ({"width": 0.1, "metric": "log_loss", "n_bins": 5}, "n_bins is not a keyword of log_loss"),
        (
            {"width": 0.1, "metric": static_calibration_error, "average": None},
            "average=None gives an interval for each class",
        ),
        ({"width": 1e-5, "metric": "log_loss"}, "width=1e-05 needs more than 10,000,000 rows"),
        ({"width": 0.1, "random_state": "a"}, "random_state must be None"),
        (
            {"accuracy": 0.9, "act_on": 0.5},
            "accuracy=0.9 cannot be reached: .* lower accuracy, act_on",
        ),
        ({"width": 0.1, "pos_label": "ill", "labels": ["a", "b"]}, "pos_label='ill' is not one of"),
    ],
)
def test_impossible_plans_are_refused(keywords, message):
    refused(message, label_plan, RISKS, **keywords)


@pytest.mark.parametrize(
    ("y_proba", "message"),
    [
        ([], "y_proba.* 0 sample"),
        (0.5, "y_proba"),
        ([0.2, np.nan], "y_proba contains NaN"),
        ([0.2, 1.2], "y_proba: row 1 contains 1.2"),
        ([[0.5, 0.6]], "y_proba: row 0 sums to 1.1"),
    ],
)
def test_wrong_probabilities_are_refused(y_proba, message):
    refused(message, label_plan, y_proba, width=0.1)


def test_slopes_of_equal_probabilities_are_refused():
    refused("some samples of 300,000 rows have no interval", label_plan, np.full(9, 0.4),
            calibration_intercept_slope, width=1)  # fmt: skip


def test_a_threshold_that_needs_very_many_rows_is_refused(monkeypatch):
    monkeypatch.setattr(module, "MOST_SAMPLED", 500)
    P = np.full(30, 0.9)
    refused("more than 500 rows are needed in the assumed truth", label_plan, P,
            accuracy=0.895, temperature=1)  # fmt: skip
