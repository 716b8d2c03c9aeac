"""The order of labels: as given, or as the columns of a frame say."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from discovery import DEFAULTS, ERRORS
from sklearn.base import clone

from skcalib import (
    IdentityCalibrator,
    VectorScaling,
    compare_calibrators,
    from_dict,
    to_dict,
)
from skcalib.metrics import (
    binary_view,
    bootstrap_interval,
    expected_calibration_error,
    reliability_table,
    static_calibration_error,
)
from skcalib.plotting import ClasswiseDisplay, ReliabilityDisplay

rng = np.random.default_rng(0)
N = 400
GIVEN = np.array(["low", "medium", "high"])  # sorted: high, low, medium
ORDER = np.argsort(GIVEN)
CODE = rng.integers(3, size=N)
Y = GIVEN[CODE]
Z = 2 * (rng.normal(size=(N, 3)) + 1.5 * np.eye(3)[CODE])  # columns in the order of GIVEN
P = np.exp(Z) / np.exp(Z).sum(axis=1, keepdims=True)
SORTED = P[:, ORDER]

FRAMES = {
    "pandas": lambda A, names: pd.DataFrame(A, columns=list(names)),
    "polars": lambda A, names: pl.DataFrame(A, schema=list(names)),
}


@pytest.mark.parametrize("metric", ERRORS, ids=lambda metric: metric.__name__)
def test_labels_name_the_columns_in_their_order(metric):
    assert metric(Y, P, labels=GIVEN) == pytest.approx(metric(Y, SORTED), rel=1e-12)
    assert metric(Y, P, labels=GIVEN.tolist()) == metric(CODE, P)


def test_labels_that_are_numbers_name_the_columns_too():
    y = np.array([10, -3, 7])[CODE]
    assert expected_calibration_error(y, P, labels=[10, -3, 7]) == expected_calibration_error(
        CODE, P
    )


def test_errors_of_each_class_follow_the_labels():
    each = static_calibration_error(Y, P, labels=GIVEN, average=None)
    np.testing.assert_array_equal(each, static_calibration_error(CODE, P, average=None))
    table = reliability_table(Y, P, max_prob=False, class_conditional=True, labels=GIVEN, n_bins=2)
    assert table["class"].tolist() == np.repeat(GIVEN, 2).tolist()
    score, hit = binary_view(Y, P, mode="classwise", r="medium", labels=GIVEN)
    np.testing.assert_array_equal(score, P[:, 1])
    np.testing.assert_array_equal(hit, Y == "medium")


def test_resamples_keep_the_order_of_the_labels():
    given = bootstrap_interval(
        expected_calibration_error, Y, P, labels=GIVEN, n_resamples=9, random_state=0
    )
    assert given.estimate == expected_calibration_error(CODE, P)
    assert given == bootstrap_interval(
        expected_calibration_error, CODE, P, n_resamples=9, random_state=0
    )


@pytest.mark.parametrize("make", FRAMES)
@pytest.mark.parametrize("prefix", ["", "prob_", "p "])
@pytest.mark.parametrize("metric", ERRORS, ids=lambda metric: metric.__name__)
def test_a_frame_whose_columns_are_the_labels_is_read_by_name(metric, make, prefix):
    frame = FRAMES[make](P, [prefix + name for name in GIVEN])
    assert metric(Y, frame) == metric(Y, SORTED)
    assert metric(Y, frame, labels=GIVEN) == metric(CODE, P)


def test_columns_named_by_numbers_are_read_by_name():
    y = np.array([7, 2, 5])[CODE]
    expected = expected_calibration_error(CODE, P)
    for names in ([7, 2, 5], ["7", "2", "5"], ["class 7", "class 2", "class 5"]):
        frame = pd.DataFrame(P, columns=names)
        assert expected_calibration_error(y, frame) == pytest.approx(expected, rel=1e-12)


def test_columns_with_other_names_are_read_in_order():
    frame = pd.DataFrame(SORTED, columns=["x", "y", "z"])
    assert expected_calibration_error(Y, frame) == expected_calibration_error(Y, SORTED)
    numbered = pd.DataFrame(P)
    assert expected_calibration_error(CODE + 5, numbered) == expected_calibration_error(CODE, P)


def test_names_tell_the_classes_that_do_not_occur():
    seen = Y != "medium"
    frame = pd.DataFrame(P, columns=GIVEN)
    value = expected_calibration_error(Y[seen], frame[seen])
    assert value == expected_calibration_error(CODE[seen], P[seen])
    fitted = VectorScaling().fit(frame[seen], Y[seen])
    assert fitted.classes_.tolist() == sorted(GIVEN)


def test_names_that_say_some_of_the_labels_are_refused():
    frame = pd.DataFrame(P, columns=["p_low", "p_medium", "p_top"])
    message = (
        r": label 'high' is the name of no column, as others are \(p_low, p_medium, p_top\); name "
        "every column by its label, or pass an array"
    )
    for call in (
        lambda: expected_calibration_error(Y, frame),
        lambda: VectorScaling().fit(frame, Y),
        lambda: compare_calibrators(frame, Y, ["temperature"]),
    ):
        with pytest.raises(ValueError, match=message):
            call()


def test_classes_of_a_calibrator_have_to_be_sorted():
    """The reproducer: an accuracy of .35 where .9 is right."""
    message = (
        r"classes=\['low', 'medium', 'high'\] is not sorted.*pass X\[:, order\] and "
        r"classes\[order\] with order = np.argsort\(classes\), here \[2, 0, 1\]"
    )
    with pytest.raises(ValueError, match=message):
        VectorScaling(classes=GIVEN).fit(Z, Y)
    fitted = VectorScaling(classes=GIVEN[ORDER]).fit(Z[:, ORDER], Y)
    assert (fitted.predict(Z[:, ORDER]) == Y).mean() > 0.7


@pytest.mark.parametrize("make", FRAMES)
@pytest.mark.parametrize("calibrator", DEFAULTS, ids=repr)
def test_a_calibrator_reads_a_frame_by_name(calibrator, make):
    frame = FRAMES[make](Z, GIVEN)
    expected = clone(calibrator).fit(Z[:, ORDER], Y).predict_proba(Z[:, ORDER])
    fitted = clone(calibrator).set_params(classes=GIVEN).fit(frame, Y)
    assert fitted.classes_.tolist() == sorted(GIVEN)
    np.testing.assert_array_equal(fitted.predict_proba(frame), expected)
    turned = FRAMES[make](Z[:, ::-1], GIVEN[::-1])
    np.testing.assert_array_equal(fitted.predict_proba(turned), expected)
    again = from_dict(to_dict(fitted))
    np.testing.assert_array_equal(again.predict_proba(turned), expected)


def test_a_comparison_reads_labels_in_any_order_and_frames_by_name():
    def losses(X, **keywords):
        metrics = ["log_loss", "brier_score"]
        found = compare_calibrators(X, Y, ["vector"], metrics=metrics, **keywords)
        return found.frame.xs("value", axis=1, level=1)

    expected = losses(SORTED)
    named = pd.DataFrame(P, columns=[f"p_{name}" for name in GIVEN])
    np.testing.assert_allclose(losses(P, classes=GIVEN), expected, rtol=1e-12)
    np.testing.assert_allclose(losses(named), expected, rtol=1e-12)
    np.testing.assert_allclose(losses(named, classes=GIVEN), expected, rtol=1e-12)
    tested = losses(SORTED, test=(SORTED, Y))
    np.testing.assert_allclose(losses(P, classes=GIVEN, test=(named, Y)), tested, rtol=1e-12)
    np.testing.assert_allclose(losses(named, test=(P, Y), classes=GIVEN), tested, rtol=1e-12)


@pytest.mark.usefixtures("closed_figures")
def test_displays_read_labels_in_any_order_and_frames_by_name():
    frame = pd.DataFrame(P, columns=GIVEN)
    expected = expected_calibration_error(CODE, P)
    each = static_calibration_error(Y, SORTED, average=None)
    assert ReliabilityDisplay.from_predictions(Y, P, labels=GIVEN).error == pytest.approx(expected)
    assert ReliabilityDisplay.from_predictions(Y, frame).error == pytest.approx(expected)
    drawn = ClasswiseDisplay.from_predictions(Y, frame)
    assert drawn.classes.tolist() == sorted(GIVEN)
    np.testing.assert_allclose(drawn.errors, each, rtol=1e-9)


def test_a_map_of_one_frame_column_is_left_alone():
    p = pd.DataFrame({"case": np.linspace(0, 1, 8)})
    y = np.arange(8) > 3
    assert IdentityCalibrator().fit(p, y).predict_proba(p).shape == (8, 2)
