"""One column is the probability of one event, and is measured as that."""

import numpy as np
import pandas as pd
import pytest
from discovery import ERRORS
from sklearn.calibration import calibration_curve
from sklearn.metrics import brier_score_loss

from skcalib import IdentityCalibrator, compare_calibrators, metrics
from skcalib.metrics import (
    binary_view,
    bootstrap_interval,
    calibration_test,
    expected_calibration_error,
    hosmer_lemeshow_test,
    ks_calibration_error,
    local_calibration,
    reliability_table,
    static_calibration_error,
    top_label_brier_score,
)

rng = np.random.default_rng(0)
P = rng.random(500)
HIT = rng.random(500) < P**2
NAMES = np.where(HIT, "case", "control")  # the event is the first of the sorted labels

by_name = pytest.mark.parametrize("metric", ERRORS, ids=lambda metric: metric.__name__)


def slow_error(hit, p, n_bins=15):
    """Weighted gaps of even bins, closed on the right, by a loop."""
    total = 0.0
    for b in range(n_bins):
        rows = [i for i, s in enumerate(p) if b / n_bins < s <= (b + 1) / n_bins or (s == b == 0)]
        if rows:
            total += abs(sum(p[i] - hit[i] for i in rows))
    return total / len(p)


def test_confidences_that_are_too_high_have_the_gap_that_others_measure():
    """The reproducer: .028 as the top label of (1 - p, p), .18 by every other program."""
    confidence = rng.uniform(0.3, 1, 4000)
    right = (rng.random(4000) < confidence - 0.2).astype(int)
    share, mean = calibration_curve(right, confidence, n_bins=15)
    assert np.abs(mean - share).mean() > 0.17
    value = expected_calibration_error(right, confidence)
    assert value == pytest.approx(slow_error(right, confidence), abs=1e-12)
    assert value > 0.17


def test_the_event_may_be_the_first_of_the_sorted_labels():
    """The reproducer: pos_label="case" turned p round, an error of .806 for a calibrated model."""
    expected = slow_error(HIT, P)
    assert expected_calibration_error(NAMES, P, pos_label="case") == pytest.approx(expected)
    assert expected_calibration_error(NAMES, 1 - P, pos_label="control") == pytest.approx(
        slow_error(~HIT, 1 - P)
    )


@by_name
def test_every_error_of_one_column_is_that_of_the_event(metric):
    expected = metric(HIT, P)
    two = np.column_stack([P, 1 - P])  # case, control
    for value in (
        metric(HIT.astype(int), P[:, None]),
        metric(np.where(HIT, 1, -1), P),
        metric(np.where(HIT, 1.0, 0.0), pd.Series(P)),
        metric(NAMES, P, pos_label="case"),
        metric(NAMES, P, pos_label="case", labels=["control", "case"]),
        metric(NAMES, two, pos_label="case"),
        metric(NAMES, two[:, ::-1], pos_label="case", labels=["control", "case"]),
        metric(HIT, P, pos_label=True),
    ):
        assert value == pytest.approx(expected, abs=1e-9)


@by_name
def test_an_event_of_many_classes_is_its_column_against_the_rest(metric):
    y = rng.integers(3, size=200)
    Q = rng.dirichlet(np.ones(3), size=200)
    w = rng.integers(0, 3, size=200)
    event = metric(y, Q, pos_label=1, sample_weight=w)
    assert event == pytest.approx(metric(y == 1, Q[:, 1], sample_weight=w), abs=1e-12)


@by_name
def test_strings_need_to_know_the_event(metric):
    message = (
        r"y_proba is one column and y_true has the labels \['case', 'control'\]: pass pos_label= "
        "with the label that it is the probability of, such as pos_label='control'"
    )
    with pytest.raises(ValueError, match=message):
        metric(NAMES, P)


@pytest.mark.parametrize(
    ("y", "keywords", "message"),
    [
        ([1, 2, 1, 2], {}, r"y_true has the labels \[1, 2\]: pass pos_label="),
        (["no"] * 4, {}, r"y_true has the labels \['no'\]: pass pos_label="),
        (["a", "b", "a", "b"], {"pos_label": "c"}, r"pos_label='c' is not one of the labels"),
        (["a", "b", "a", "b"], {"pos_label": 1}, r"pos_label=1 is not one of the labels"),
        (["a", "b", "c", "b"], {"pos_label": "a"}, "y_true has 3 distinct labels but y_proba is "
                                                   "one column.*or y_true == 'a'"),
        ([0, 1, 2, 0], {}, "3 distinct labels.*pass a column for each label"),
        ([0, 1, 0, 1], {"labels": [0, 1, 2]}, "labels has 3 labels but there are 2 columns"),
        ([0, 1, 0, 1], {"labels": ["no", "yes"]}, "label 0 at row 0 is not in labels"),
    ],
)  # fmt: skip
def test_what_is_not_clear_is_refused(y, keywords, message):
    with pytest.raises(ValueError, match=message) as error:
        expected_calibration_error(y, [0.2, 0.4, 0.6, 0.8], **keywords)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("ones", [np.ones(100, int), np.ones(100), np.full(100, True)])
def test_a_sample_where_every_row_is_right_is_measured(ones):
    """The reproducer: integers that are all 1 were refused, zeros and True were not."""
    p = rng.random(100)
    assert expected_calibration_error(ones, p, pos_label=1) == pytest.approx(1 - p.mean())
    assert expected_calibration_error(ones, p) == pytest.approx(1 - p.mean())
    assert expected_calibration_error(ones * 0, p) == pytest.approx(p.mean())
    assert IdentityCalibrator().fit(p, ones).classes_.tolist() == [0, 1]


@pytest.mark.parametrize(("present", "hit"), [("case", 1.0), ("control", 0.0)])
def test_strings_of_which_one_occurs_are_measured(present, hit):
    value = expected_calibration_error([present] * 5, [0.3] * 5, pos_label="case", n_bins=1)
    assert value == pytest.approx(abs(hit - 0.3))


def test_two_columns_are_the_top_label_unless_told_otherwise():
    two = np.column_stack([1 - P, P])
    top = np.maximum(P, 1 - P)
    expected = expected_calibration_error((P > 0.5) == HIT, top)
    assert expected_calibration_error(HIT, two) == pytest.approx(expected, abs=1e-12)


def test_ranks_of_one_event_are_refused():
    for keywords in ({"mode": "within_top"}, {"r": 2}):
        with pytest.raises(ValueError, match="rank the classes of a row, but one event"):
            ks_calibration_error(HIT, P, **keywords)


def test_the_errors_of_each_class_are_those_of_the_event_and_its_opposite():
    each = static_calibration_error(HIT, P, average=None)
    assert each == pytest.approx([slow_error(~HIT, 1 - P), slow_error(HIT, P)], abs=1e-12)
    assert static_calibration_error(HIT, P) == pytest.approx(each[1], abs=1e-12)
    each = ks_calibration_error(NAMES, P, mode="classwise", average=None, pos_label="case")
    assert each[0] == pytest.approx(ks_calibration_error(HIT, P))
    assert each[1] == pytest.approx(ks_calibration_error(~HIT, 1 - P))


def test_what_stands_beside_the_errors_knows_the_event():
    expected = slow_error(HIT, P)
    table = reliability_table(NAMES, P, pos_label="case")
    assert set(table["class"]) == {"case"}
    assert (table["weight"] * table["gap"].abs()).sum() / 500 == pytest.approx(expected)
    score, hit = binary_view(NAMES, P, pos_label="case")
    np.testing.assert_array_equal(score, P)
    np.testing.assert_array_equal(hit, HIT)
    assert top_label_brier_score(NAMES, P, pos_label="case") == pytest.approx(
        brier_score_loss(NAMES, P, pos_label="case")
    )
    np.testing.assert_array_equal(
        local_calibration(NAMES, P, pos_label="case"), local_calibration(HIT, P)
    )
    assert hosmer_lemeshow_test(NAMES, P, pos_label="case") == hosmer_lemeshow_test(HIT, P)


@pytest.mark.parametrize("metric", [expected_calibration_error, brier_score_loss])
def test_resampling_passes_the_event_on(metric):
    keywords = {"n_resamples": 9, "random_state": 0}
    expected = bootstrap_interval(metric, HIT, P, **keywords)
    assert expected.estimate == pytest.approx(metric(HIT, P))
    assert bootstrap_interval(metric, NAMES, P, pos_label="case", **keywords) == pytest.approx(
        expected
    )
    drawn = calibration_test(metric, NAMES, P, pos_label="case", **keywords)
    assert drawn.statistic == pytest.approx(expected.estimate)
    assert drawn.mean < expected.estimate


@pytest.mark.usefixtures("few_label_sets")
def test_a_comparison_measures_the_event_of_one_column():
    names = ["expected_calibration_error", "log_loss", "brier_score"]

    def row(X, y, **keywords):
        found = compare_calibrators(X, y, ["temperature"], metrics=names, **keywords)
        return found.frame.xs("value", axis=1, level=1).to_numpy()

    expected = row(P, HIT)
    named = row(P, NAMES, pos_label="case")
    np.testing.assert_allclose(named, expected, rtol=1e-6)
    logits = np.log(P) - np.log1p(-P)
    # A probability below all that a calibrator has seen is raised (`clip_`), a logit is not.
    np.testing.assert_allclose(row(logits, NAMES, pos_label="case"), expected, atol=5e-6)
    folds = [expected_calibration_error(HIT[i], P[i]) for i in np.array_split(np.arange(500), 1)]
    tested = row(P, HIT, test=(P, HIT))
    assert tested[0, 0] == pytest.approx(folds[0])
    with pytest.raises(ValueError, match=r"X is one column and y has the labels.*pass pos_label="):
        row(P, NAMES)


@pytest.mark.usefixtures("closed_figures")
def test_displays_show_the_event_of_one_column():
    from skcalib.plotting import ClasswiseDisplay, KSDisplay, ReliabilityDisplay

    shown = ReliabilityDisplay.from_predictions(NAMES, P, pos_label="case")
    assert shown.error == pytest.approx(slow_error(HIT, P))
    assert shown.ax_.get_xlabel() == "Probability of class case"
    assert ReliabilityDisplay.from_predictions(HIT, P).error == pytest.approx(shown.error)
    assert KSDisplay.from_predictions(HIT, P).error == pytest.approx(
        metrics.ks_calibration_error(HIT, P)
    )
    drawn = ClasswiseDisplay.from_predictions(NAMES, P, pos_label="case")
    assert drawn.classes.tolist() == ["case"]
    assert drawn.errors == pytest.approx([slow_error(HIT, P)])
    with pytest.raises(ValueError, match="pass pos_label="):
        ReliabilityDisplay.from_predictions(NAMES, P)
