"""One and two columns are the probability of one event, and are measured as that."""

from inspect import signature

import numpy as np
import pandas as pd
import pytest
from calls import refused
from discovery import ERRORS
from edges import even_error

from skcalib import IdentityCalibrator, metrics
from skcalib.metrics import (
    binary_view,
    bootstrap_interval,
    calibration_by_group,
    calibration_interval,
    calibration_summary,
    calibration_test,
    debiased_calibration_error,
    expected_calibration_error,
    general_calibration_error,
    ks_calibration_error,
    local_calibration,
    score_decomposition,
    static_calibration_error,
)

rng = np.random.default_rng(0)
P = rng.random(500)
HIT = rng.random(500) < P**2
NAMES = np.where(HIT, "case", "control")  # the event is the first of the sorted labels

by_name = pytest.mark.parametrize("metric", ERRORS, ids=lambda metric: metric.__name__)


AMONG = (
    r"y_proba is one column and y_true has the labels \['case', 'control'\]: pass pos_label= "
    "with the label whose probability it is, such as pos_label='control'"
)


@pytest.mark.parametrize(
    ("y", "keywords", "message"),
    [
        ([1, 2, 1, 2], {}, r"y_true has the labels \[1, 2\]: pass pos_label="),
        (["control", "case"] * 2, {}, AMONG),
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
    refused(message, expected_calibration_error, y, [0.2, 0.4, 0.6, 0.8], **keywords)


@pytest.mark.parametrize("ones", [np.ones(100, int), np.ones(100), np.full(100, True)])
def test_a_sample_where_every_row_is_right_is_measured(ones):
    """The reproducer: integers that are all 1 were refused, zeros and True were not."""
    p = rng.random(100)
    assert expected_calibration_error(ones, p, pos_label=1) == pytest.approx(1 - p.mean())
    assert expected_calibration_error(ones, p) == pytest.approx(1 - p.mean())
    assert expected_calibration_error(ones * 0, p) == pytest.approx(p.mean())
    assert IdentityCalibrator().fit(p, ones).classes_.tolist() == [0, 1]


OF_CLASSES = {  # two columns are two classes
    "general_calibration_error",
    "top_label_brier_score",
    "avuc_loss",
    "soft_avuc_loss",
    "aurc_loss",
}
of_events = pytest.mark.parametrize(
    "metric",
    [metric for metric in ERRORS if metric.__name__ not in OF_CLASSES],
    ids=lambda metric: metric.__name__,
)
TIES = np.concatenate([rng.integers(0, 16, 300) / 15, [0.0, 1.0, 0.5]])
TIED_HIT = rng.random(303) < TIES


@of_events
def test_one_and_two_columns_give_the_same_error(metric):
    """Of scores at the edges of bins."""
    hit, p = TIED_HIT, TIES
    expected = metric(hit, p)
    two = np.column_stack([1 - p, p])
    names = np.where(hit, "b", "a")
    frame = pd.DataFrame({"b": p, "a": 1 - p})
    for value in (
        metric(hit, p[:, None]),
        metric(hit, two),
        metric(hit.astype(int), two),
        metric(np.where(hit, 1, -1), two),
        metric(hit.astype(int), two[:, ::-1], labels=[1, 0]),
        metric(names, two),
        metric(names, frame),
        metric(names, p, pos_label="b"),
        metric(names, two, pos_label="b"),
        metric(names, two[:, ::-1], labels=["b", "a"], pos_label="b"),
        metric(np.where(hit, 2, 1), two),
    ):
        assert value == pytest.approx(expected, abs=1e-12)
    first = metric(names, two, pos_label="a")
    assert first == pytest.approx(metric(~hit, 1 - p), abs=1e-12)
    # Other labels than 0 and 1: the event is the second column, as it is written.
    assert metric(names, two[:, ::-1], labels=["b", "a"]) == pytest.approx(first, abs=1e-12)


def test_events_predicted_too_often_are_not_hidden_by_the_other_class():
    """Of the top label, what is too high for one class is too low for the other."""
    random = np.random.default_rng(0)
    true = random.beta(2, 3, 4000)
    y = (random.random(4000) < true).astype(int)
    p = np.clip(true + 0.2, 0, 1)
    two = np.column_stack([1 - p, p])
    value = expected_calibration_error(y, two)
    assert value == pytest.approx(even_error(y, p), abs=1e-12)
    assert value > 0.17
    top = even_error((p > 0.5) == y, np.maximum(p, 1 - p))
    assert top < value / 2
    assert general_calibration_error(y, two) == pytest.approx(top, abs=1e-12)
    for mode_of in (ks_calibration_error, debiased_calibration_error):
        assert mode_of(y, two, mode="top") == pytest.approx(
            mode_of((p > 0.5) == y, np.maximum(p, 1 - p)), abs=1e-12
        )


@pytest.mark.parametrize(
    "metric", [metric for metric in ERRORS if "mode" in signature(metric).parameters]
)
def test_the_top_label_is_measured_where_it_is_written(metric):
    two = np.column_stack([1 - P, P])
    expected = metric(two.argmax(axis=1) == HIT, two.max(axis=1))
    for probabilities in (P, two):
        assert metric(HIT, probabilities, mode="top") == pytest.approx(expected, abs=1e-12)
    Q = rng.dirichlet(np.ones(3), size=200)
    y = rng.integers(3, size=200)
    assert metric(y, Q) == metric(y, Q, mode="top")
    for labels, probabilities in ((HIT, P), (HIT, two), (y, Q)):
        with pytest.raises(ValueError, match=r"mode='top' ranks the classes.*leave out pos_label"):
            metric(labels, probabilities, mode="top", pos_label=1)


def test_all_that_measures_two_columns_measures_their_event():
    two, frame = np.column_stack([1 - P, P]), pd.DataFrame({"control": 1 - P, "case": P})
    frame_event = {"pos_label": "case"}
    for metric in (expected_calibration_error, ks_calibration_error, static_calibration_error):
        expected = calibration_interval(metric, HIT, P, random_state=0)
        assert calibration_interval(metric, HIT, two, random_state=0) == expected
        named = calibration_interval(metric, NAMES, frame, random_state=0, **frame_event)
        np.testing.assert_allclose(named, expected, atol=0.02)  # of other labels that are drawn
        assert named.estimate == pytest.approx(expected.estimate)
        for resampled in (bootstrap_interval, calibration_test):
            keywords = {"n_resamples": 9, "random_state": 0}
            both = [resampled(metric, HIT, X, **keywords)[:3] for X in (P, two)]
            assert both[1] == pytest.approx(both[0], abs=1e-12)
    assert score_decomposition(HIT, two)[:4] == pytest.approx(score_decomposition(HIT, P)[:4])
    np.testing.assert_array_equal(local_calibration(HIT, two), local_calibration(HIT, P))
    for found, expected in zip(binary_view(HIT, two), (P, HIT), strict=True):
        np.testing.assert_array_equal(found, expected)
    site = rng.integers(2, size=500)
    by_group = [calibration_by_group(HIT, X, site, random_state=0).frame for X in (P, two)]
    pd.testing.assert_frame_equal(*by_group)
    turned = calibration_summary(HIT.astype(int), two[:, ::-1], labels=[1, 0]).frame["value"]
    pd.testing.assert_series_equal(turned, calibration_summary(HIT, P).frame["value"])


def test_a_rank_of_a_named_event_is_refused():
    refused("^r ranks the classes .*pos_label=", ks_calibration_error, HIT, P, pos_label=True, r=2)


def test_the_errors_of_each_class_are_those_of_the_event_and_its_opposite():
    each = static_calibration_error(HIT, P, average=None)
    assert each == pytest.approx([even_error(~HIT, 1 - P), even_error(HIT, P)], abs=1e-12)
    assert static_calibration_error(HIT, P) == pytest.approx(each[1], abs=1e-12)
    each = ks_calibration_error(NAMES, P, mode="classwise", average=None, pos_label="case")
    assert each[0] == pytest.approx(ks_calibration_error(HIT, P))
    assert each[1] == pytest.approx(ks_calibration_error(~HIT, 1 - P))


ACROSS = pytest.mark.parametrize(
    "metric",
    [metric for metric in ERRORS if "average" in signature(metric).parameters],
    ids=lambda metric: metric.__name__,
)


@ACROSS
def test_errors_of_each_class_follow_the_columns_of_a_named_frame(metric):
    """`dict(zip(frame.columns, errors))` was wrong: errors followed the sorted labels."""
    keywords = {"average": None}
    if "mode" in signature(metric).parameters:
        keywords["mode"] = "classwise"
    if metric is metrics.general_calibration_error:
        keywords |= {"max_prob": False, "class_conditional": True}
    Q = rng.dirichlet(np.ones(3), size=100)
    y = np.array(["a", "b", "c"])[rng.integers(3, size=100)]
    errors = dict(zip("abc", metric(y, Q, **keywords), strict=True))
    turned = metric(y, Q[:, [2, 0, 1]], labels=["c", "a", "b"], **keywords)
    assert isinstance(turned, np.ndarray)
    assert dict(zip("cab", turned, strict=True)) == pytest.approx(errors)
    for names, labels in (
        (["c", "a", "b"], None),
        (["prob_c", "prob_a", "prob_b"], np.array(list("abc"))),
    ):
        series = metric(y, pd.DataFrame(Q[:, [2, 0, 1]], columns=names), labels=labels, **keywords)
        assert series.index.tolist() == ["c", "a", "b"]
        assert series.to_dict() == pytest.approx(errors)
    two = pd.DataFrame({True: P, False: 1 - P})
    series = metric(HIT, two, **keywords)
    assert series.index.tolist() == [True, False]
    assert series.to_numpy() == pytest.approx(metric(HIT, P, **keywords)[::-1])


def test_intervals_of_each_class_follow_the_columns_of_a_named_frame():
    Q = rng.dirichlet(np.ones(3), size=100)
    y = np.array(["a", "b", "c"])[rng.integers(3, size=100)]
    frame = pd.DataFrame(Q[:, [2, 0, 1]], columns=["c", "a", "b"])
    keywords = {"average": None, "random_state": 0}
    for interval in (calibration_interval, bootstrap_interval):
        by_name = interval(static_calibration_error, y, frame, **keywords)
        by_place = interval(static_calibration_error, y, Q, **keywords)
        for found, expected in zip(by_name, by_place, strict=True):
            assert found.index.tolist() == ["c", "a", "b"]
            assert found[["a", "b", "c"]].to_numpy() == pytest.approx(expected)
    parts = score_decomposition(y, frame, mode="classwise", average=None)
    array = score_decomposition(y, Q, mode="classwise", average=None)
    assert parts.score["b"] == pytest.approx(array.score[1])
    assert parts.score_low["b"] == pytest.approx(array.score_low[1])


LEVELS = [
    name
    for name in metrics.__all__
    if name != "SCORERS" and "confidence_level" in signature(getattr(metrics, name)).parameters
]


@pytest.mark.parametrize("level", [0, 1, 95, "0.95", None])
@pytest.mark.parametrize("name", LEVELS)
def test_other_confidence_levels_are_refused(name, level):
    given = {"metric": expected_calibration_error, "y_true": HIT, "y_proba": P}
    given |= {"groups": NAMES, "thresholds": [0.5]}
    needed = signature(getattr(metrics, name)).parameters.keys() & given.keys()
    data = {key: given[key] for key in needed}
    with pytest.raises(ValueError, match=r"confidence_level must be a number in \(0, 1\)"):
        getattr(metrics, name)(**data, confidence_level=level)
