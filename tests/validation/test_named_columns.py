"""The order of labels: as given, or as the columns of a frame say."""

import sys
import time

import numpy as np
import pandas as pd
import polars as pl
import pytest
from calls import refused
from edges import even_error
from sklearn.base import clone

from skcalib import (
    GroupwiseCalibrator,
    IdentityCalibrator,
    PlattScaling,
    TemperatureScaling,
    VectorScaling,
    compare_calibrators,
    from_dict,
    to_dict,
)
from skcalib._validation.named_columns import match_names
from skcalib.metrics import expected_calibration_error, static_calibration_error

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


def test_classes_of_a_calibrator_have_to_be_sorted():
    """The reproducer: an accuracy of .35 where .9 is right."""
    message = (
        r"classes=\['low', 'medium', 'high'\] is not sorted.*pass X\[:, order\] and "
        r"classes\[order\] with order = np.argsort\(classes\), here \[2, 0, 1\]"
    )
    refused(message, VectorScaling(classes=GIVEN).fit, Z, Y)
    fitted = VectorScaling(classes=GIVEN[ORDER]).fit(Z[:, ORDER], Y)
    assert (fitted.predict(Z[:, ORDER]) == Y).mean() > 0.7


@pytest.mark.parametrize("make", FRAMES)
def test_a_calibrator_reads_a_frame_by_name(make):
    calibrator = VectorScaling()
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


FORMS = ["{}", "prob_{}", "p_{}", "proba_{}", "logit_{}", "{}_prob", "{}_proba", "{}_logit"]
FORMS += ["P({})", "p({})", "softmax of {}", "class={}|model"]


def slow_classwise_error(y, P, labels):
    """SCE by loops: the mean over the classes."""
    y = np.asarray(y)
    return sum(even_error(y == label, P[:, k]) for k, label in enumerate(labels)) / len(labels)


KINDS = {
    "strings": ["owl", "cat", "dog"],
    "integers": [2, 0, 1],
    "negative": [-1, 3, 10],
    "floats": [2.0, 0.0, 1.0],
    "with a prefix": ["prob_a", "a", "prob_b"],
    "digits as strings": ["10", "2", "01"],
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", KINDS)
def test_names_in_every_form_are_read_by_name(kind, form):
    given = KINDS[kind]
    y = np.array(given)[CODE]
    expected = slow_classwise_error(y, P, given)
    frame = pd.DataFrame(P, columns=[form.format(label) for label in given])
    assert static_calibration_error(y, frame) == pytest.approx(expected, rel=1e-9)
    assert static_calibration_error(y, frame, labels=given) == pytest.approx(expected, rel=1e-9)
    upper = pd.DataFrame(P, columns=[form.format(label).upper() for label in given])
    assert static_calibration_error(y, upper) == pytest.approx(expected, rel=1e-9)
    fitted = VectorScaling().fit(frame, y)
    assert fitted.classes_.tolist() == sorted(given)
    order = [given.index(label) for label in sorted(given)]
    same = VectorScaling().fit(P[:, order], y).predict_proba(P[:, order])
    np.testing.assert_allclose(fitted.predict_proba(frame), same, rtol=1e-12)


@pytest.mark.parametrize(
    ("labels", "names"),
    [
        ([2.0, 0.0, 1.0], ["2", "0", "1"]),
        ([2.0, 0.0, 1.0], [2, 0, 1]),
        ([2, 0, 1], ["2.0", "0.0", "1.0"]),
        ([2, 0, 1], [2.0, 0.0, 1.0]),
        ([2, 0, 1], ["class_02", "class_00", "class_01"]),
        (["2", "0", "1"], [2, 0, 1]),
        (["2", "0", "1"], [2.0, 0.0, 1.0]),
        ([-1, 0, 1], ["x-1", "x0", "x1"]),
        (["b", "B", "a"], ["b", "B", "a"]),
        (["b", "B", "a"], ["p_b", "p_B", "p_a"]),
        (["low", "high", "mid"], pd.MultiIndex.from_product([["p"], ["low", "high", "mid"]])),
    ],
)
def test_numbers_compare_as_numbers_and_case_only_where_labels_differ_by_more(labels, names):
    y = np.array(labels)[CODE]
    expected = slow_classwise_error(y, P, labels)
    frame = pd.DataFrame(P, columns=names)
    assert static_calibration_error(y, frame) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("names", [["True", "False"], ["p_true", "p_false"], ["1", "0"], [1, 0]])
def test_booleans_are_names_too(names):
    y = CODE == 0
    both = np.column_stack([P[:, 0], 1 - P[:, 0]])
    frame = pd.DataFrame(both, columns=names)
    expected = slow_classwise_error(y, both, [True, False])
    assert static_calibration_error(y, frame) == pytest.approx(expected, rel=1e-9)
    every = frame[y]  # True alone occurs
    value = static_calibration_error(y[y], every)
    assert value == pytest.approx(slow_classwise_error(y[y], both[y], [True, False]), rel=1e-9)


def test_classes_that_do_not_occur_are_named_by_numbers_too():
    seen = CODE != 1
    y = np.array([2.0, 5.0, 0.0])[CODE]
    for names in (["2", "5", "0"], ["p_2", "p_5", "p_0"], ["2_prob", "5_prob", "0_prob"]):
        frame = pd.DataFrame(P, columns=names)[seen]
        expected = slow_classwise_error(y[seen], P[seen], [2, 5, 0])
        assert static_calibration_error(y[seen], frame) == pytest.approx(expected, rel=1e-9)
        assert VectorScaling().fit(frame, y[seen]).classes_.tolist() == [0, 2, 5]


PARTLY = [
    ([1, 2, 3], ["0", "1", "2"]),
    ([1, 2, 3], ["p_0", "p_1", "p_2"]),
    ([1, 2, 3], [0, 1, 3]),
    (["cat", "dog", "owl"], ["Cat", "Dog", "bird"]),
    (["cat", "dog", "owl"], ["cat_prob", "dog_prob", "bird_prob"]),
    (["cat", "dog", "owl"], ["cat", "p_dog", "owl_prob"]),
    (["cat", "dog", "owl"], ["score of cat", "score of dog", "score of bird"]),
]


@pytest.mark.parametrize(("labels", "names"), PARTLY)
def test_names_of_some_labels_alone_are_refused(labels, names):
    y = np.array(labels)[CODE]
    frame = pd.DataFrame(P, columns=names)
    for call in (
        lambda: expected_calibration_error(y, frame),
        lambda: expected_calibration_error(y, frame, labels=labels),
        lambda: VectorScaling().fit(frame, y),
        lambda: IdentityCalibrator().fit(P, y).predict_proba(frame),
        lambda: compare_calibrators(frame, y, ["temperature"]),
    ):
        message = r"has no column, but other labels have .*; name every column after its label, or"
        said = refused(message, call)
        assert str(names[0]) in said


@pytest.mark.parametrize("make", FRAMES)
def test_columns_that_were_not_named_are_read_in_order(make):
    """The default names 0, 1, 2 and column_0, ... of the classes 1, 2, 3."""
    y = CODE + 1
    frame = FRAMES[make](P, ["a", "b", "c"])
    frame = pd.DataFrame(P) if make == "pandas" else pl.DataFrame(P)
    assert expected_calibration_error(y, frame) == expected_calibration_error(CODE, P)
    given = expected_calibration_error(CODE, P, labels=[2, 0, 1])
    assert expected_calibration_error(CODE, frame, labels=[2, 0, 1]) == given
    with pytest.raises(ValueError, match="pass labels= with the 3 labels"):
        expected_calibration_error(y[y < 3], frame[y < 3] if make == "pandas" else P[y < 3])


@pytest.mark.parametrize("make", FRAMES)
@pytest.mark.parametrize("form", ["{}", "prob_{}", "{}_prob", "P({})", "softmax_{}"])
@pytest.mark.parametrize("kind", ["strings", "integers", "floats"])
def test_further_numeric_columns_are_refused_by_name(kind, form, make):
    """The reproducer: site and fold became classes 3 and 4, log loss .82 to 1.37."""
    given = KINDS[kind]
    y = np.array(given)[CODE]
    names = [form.format(label) for label in given]
    site = rng.integers(4, size=N)
    wide = np.column_stack([site, P[:, :2], site % 2, P[:, 2]])
    frame = FRAMES[make](wide, ["site", *names[:2], "fold", names[2]])
    message = r"columns 'site', 'fold' are not named after a label, .* of 3 classes; pass "
    line = f"[{names!r}]"
    fitted = VectorScaling().fit(FRAMES[make](P, names), y)
    for call in (
        lambda: static_calibration_error(y, frame),
        lambda: static_calibration_error(y, frame, labels=given),
        lambda: VectorScaling().fit(frame, y),
        lambda: fitted.predict_proba(frame),
        lambda: compare_calibrators(frame, y, ["temperature"]),
    ):
        with pytest.raises(ValueError, match=message) as error:
            call()
        assert line in str(error.value)
    clean = static_calibration_error(y, frame[names])
    assert clean == pytest.approx(slow_classwise_error(y, P, given), rel=1e-9)


def test_messages_about_many_or_odd_names_are_one_short_line():
    K = 60
    labels = np.array([f"class {k}\n{'x' * 50}" for k in range(K)])
    y = labels[np.arange(N) % K]
    frame = pd.DataFrame(np.full((N, K), 1 / K), columns=labels)
    for odd in (frame.assign(site=1), frame.rename(columns={labels[0]: "other"})):
        said = refused("not named after a label|has no column", expected_calibration_error, y, odd)
        assert len(said) < 900


def test_columns_of_text_beside_others_are_refused_in_one_line():
    frame = pd.DataFrame(P, columns=GIVEN).assign(name="x")
    refused("column 'name' is not named after a label", expected_calibration_error, Y, frame)
    frame["low"] = "much"
    refused("y_proba: .*", expected_calibration_error, Y, frame)
    with pytest.raises(ValueError, match="y_proba: could not convert string to float: 'much'"):
        expected_calibration_error(Y, frame[GIVEN])


def test_whole_numbers_beside_logits_are_no_class():
    frame = pd.DataFrame(Z, columns=GIVEN)
    frame["fold"] = CODE
    refused("column 'fold' is not named after a label", VectorScaling().fit, frame, Y)
    logits = pd.DataFrame(Z, columns=GIVEN)
    seen = Y != "low"  # a class that does not occur has a column of logits
    assert VectorScaling().fit(logits[seen], Y[seen]).classes_.tolist() == sorted(GIVEN)


def test_names_that_stand_for_a_label_twice_are_refused():
    twice = pd.DataFrame(P[:, [0, 1, 2, 0]], columns=["low", "medium", "high", "low"])
    with pytest.raises(
        ValueError, match=r"columns 0 and 3 are named after one label \('low', 'low'\)"
    ):
        expected_calibration_error(Y, twice)
    folded = pd.DataFrame(P[:, [0, 1, 2, 0]], columns=["LOW", "Medium", "high", "Low"])
    refused(r"named after one label \('LOW', 'Low'\)", expected_calibration_error, Y, folded)
    both = pd.concat([pd.DataFrame(A, columns=[f"{p}_{g}" for g in GIVEN]) for p, A in
                      (("prob", P), ("logit", Z))], axis=1)  # fmt: skip
    refused(r"both \['prob_low'.*and \['logit_low'", VectorScaling().fit, both, Y)


ONE = [
    ("case", "control", "p_control"),
    ("case", "control", "Control"),
    ("case", "control", "control_prob"),
    ("case", "control", "P(control)"),
    (1, 0, "0"),
    (1, 0, "prob_0"),
    (1.0, 0.0, "p_0.0"),
    (1, -1, "p_-1"),
    (True, False, "p_false"),
    (1, 0, "class_0"),
    (1, 0, "p0"),
    (1, 0, "Prob(0)"),
    (1, 0, "score_0"),
    (1, 0, "probability_of_class_0"),
    (1, 0, "P(y=0)"),
    ("yes", "no", "score of class no"),
]


@pytest.mark.parametrize("make", ["frame", "series", "polars"])
@pytest.mark.parametrize(("event", "other", "name"), ONE)
def test_one_column_named_by_the_other_label_is_refused(event, other, name, make):
    p = P[:, 0]
    y = np.where(CODE == 0, event, other)
    build = {
        "frame": lambda name: pd.DataFrame({name: p}),
        "series": lambda name: pd.Series(p, name=name),
        "polars": lambda name: pl.DataFrame({name: p}),
    }[make]
    one = build(name)
    for call in (
        lambda: expected_calibration_error(y, one, pos_label=event),
        lambda: compare_calibrators(one, y, ["temperature"], pos_label=event),
    ):
        with pytest.raises(ValueError, match="is one column with the name") as error:
            call()
        assert repr(name) in str(error.value)
    expected = expected_calibration_error(y, p, pos_label=event)
    for free in (name.lower().replace(str(other).lower(), str(event)), "risk", "p"):
        assert expected_calibration_error(y, build(free), pos_label=event) == expected
    assert expected_calibration_error(y, one, pos_label=other) >= 0
    second = max(event, other)
    first = pd.DataFrame({f"p_{min(event, other)}": p})
    refused(f"the scores of {second!r}: pass 1 - X", IdentityCalibrator().fit, first, y)
    fitted = IdentityCalibrator().fit(p, y)
    refused(f"has to contain the scores of {second!r}: pass 1 - X", fitted.predict_proba, first)


def test_a_series_of_a_frame_without_names_is_that_of_its_class():
    """``pd.DataFrame(P)[0]`` is called 0; the same of one column is not told apart."""
    A = np.column_stack([1 - P[:, 0], P[:, 0]])
    y = (CODE == 0).astype(int)
    first, second = (pd.DataFrame(A)[k] for k in (0, 1))
    for call in (expected_calibration_error, lambda y, X: PlattScaling().fit(X, y)):
        refused("one column with the name 0, but has to contain", call, y, first)
        call(y, second)
        call(y, pd.DataFrame(A[:, 1]))  # its column has no name
    refused("one column with the name 0", PlattScaling().fit(second, y).predict_proba, first)
    right = expected_calibration_error(y, A[:, 1])
    assert expected_calibration_error(y, second) == right
    assert expected_calibration_error(y, (1 - first).rename("p")) == pytest.approx(right)
    assert expected_calibration_error(y, first, pos_label=0) == pytest.approx(right)


@pytest.mark.parametrize("name", ["model_0", "not_0", "seed 0", "p10", "q0.5", "p_1", "10", "zero"])
def test_names_that_are_not_of_the_other_class_are_free(name):
    y, p = (CODE == 0).astype(int), P[:, 0]
    expected = expected_calibration_error(y, p)
    assert expected_calibration_error(y, pd.Series(p, name=name)) == expected


ORDERED = {
    "pandas": lambda y: pd.Series(pd.Categorical(y, GIVEN, ordered=True)),
    "categorical": lambda y: pd.Categorical(y, GIVEN, ordered=True),
    "frame": lambda y: pd.DataFrame({"y": pd.Categorical(y, GIVEN, ordered=True)}),
    "polars": lambda y: pl.Series("y", y, dtype=pl.Enum(GIVEN.tolist())),
}


@pytest.mark.filterwarnings("ignore:A column-vector y was passed")
@pytest.mark.parametrize("make", ORDERED)
def test_ordered_categories_that_are_not_sorted_are_refused_with_an_array(make):
    """The reproducer: SCE .216 for .016."""
    y = ORDERED[make](Y)
    line = r"pass labels=\['low', 'medium', 'high'\] if columns are in the order of the categories"
    for scores in (P, P.tolist(), pd.DataFrame(P), pd.DataFrame(P, columns=["x", "y", "z"])):
        refused(line, static_calibration_error, y, scores)
    expected = slow_classwise_error(Y, P, GIVEN)
    assert static_calibration_error(y, P, labels=GIVEN) == pytest.approx(expected, rel=1e-9)
    frame = pd.DataFrame(P, columns=GIVEN)
    assert static_calibration_error(y, frame) == pytest.approx(expected, rel=1e-9)
    refused(line.replace("labels", "classes"), compare_calibrators, P, y, ["temperature"])
    line = r"pass X\[:, \[2, 0, 1\]\] .* and classes=\['high', 'low', 'medium'\]"
    refused(line, VectorScaling().fit, Z, y)
    classes = ["high", "low", "medium"]
    fitted = VectorScaling(classes=classes).fit(Z[:, [2, 0, 1]], y)
    assert fitted.predict_proba(Z[:, [2, 0, 1]]).shape == (N, 3)
    refused(line, GroupwiseCalibrator("temperature").fit, Z, y, groups=CODE)


def test_categories_in_another_order_without_names_are_refused():
    """The reproducer: low, mid and high without an order: SCE .126 for .038."""
    y = pd.Categorical(Y, GIVEN)
    refused(
        r"y_true has the categories \['low', .*pass labels=\['low", static_calibration_error, y, P
    )
    assert static_calibration_error(y, P, labels=GIVEN) == pytest.approx(
        slow_classwise_error(Y, P, GIVEN), rel=1e-9
    )
    expected = slow_classwise_error(Y, SORTED, sorted(GIVEN))
    found = static_calibration_error(y, SORTED, labels=sorted(GIVEN))
    assert found == pytest.approx(expected, rel=1e-9)
    frame = pd.DataFrame(P, columns=GIVEN)
    by_name = static_calibration_error(y, frame)
    assert by_name == static_calibration_error(Y, frame)
    refused(r"y has the categories .*pass X\[:, \[2, 0, 1\]\]", VectorScaling().fit, Z, y)
    for column in (P[:, 1], P[:, :1]):  # the label of one column is given
        hit = expected_calibration_error(y == "low", column)
        binary = pd.Categorical(np.where(y == "low", "yes", "no"), ["yes", "no"])
        assert expected_calibration_error(binary, column, pos_label="yes") == hit


def test_categories_of_fewer_labels_than_columns_ask_for_classes():
    """Before, the message said to pass two of the three columns."""
    y = pd.Series(pd.Categorical(["b", "a"] * 5, categories=["b", "a"]))
    line = r"y has 2 distinct labels \('a', 'b'\) but there are 3 columns of scores: pass classes="
    refused(line, VectorScaling().fit, np.random.default_rng(0).normal(size=(10, 3)), y)


def test_categories_in_sorted_order_are_labels():
    expected = static_calibration_error(Y, SORTED)
    for y in (
        pd.Categorical(Y),
        pd.Categorical(Y, sorted(GIVEN), ordered=True),
        pl.Series("y", Y, dtype=pl.Categorical),
        pl.Series("y", Y, dtype=pl.Enum(sorted(GIVEN))),
    ):
        assert static_calibration_error(y, SORTED) == expected


def test_an_unused_category_is_a_class():
    P = np.random.default_rng(0).dirichlet([1, 1, 1], 60)
    code = np.arange(60) % 2
    names = np.array(["cat", "owl"])[code]
    y = pd.Series(pd.Categorical(names, categories=["cat", "dog", "owl"]))
    fitted = TemperatureScaling().fit(P, y)
    assert fitted.classes_.tolist() == ["cat", "dog", "owl"]
    expected = expected_calibration_error(names, P, labels=["cat", "dog", "owl"])
    assert expected_calibration_error(y, P) == expected
    assert expected_calibration_error(y.to_frame(), P) == expected
    losses = [
        compare_calibrators(P, labels, ["temperature"], cv=2, **classes).frame["log_loss"]
        for labels, classes in ((y, {}), (names, {"classes": fitted.classes_}))
    ]
    pd.testing.assert_frame_equal(*losses)


def test_ordered_categories_without_rows_are_left_out():
    names = ["low", "medium", "none", "high"]
    y = pd.Categorical(Y, names, ordered=True)
    refused(
        r"\['low', 'medium', 'high'\] if columns are in the order", static_calibration_error, y, P
    )


def test_one_column_of_ordered_categories():
    """The last category is "mild", as is the first label: the column may be either's."""
    y = pd.Categorical(np.where(CODE == 0, "severe", "mild"), ["severe", "mild"], ordered=True)
    with pytest.raises(ValueError, match="one column is for the last .*labels: pass 1 - X"):
        IdentityCalibrator().fit(P[:, 1], y)
    sorted_too = pd.Categorical(y, ["mild", "severe"], ordered=True)
    assert IdentityCalibrator().fit(P[:, 0], sorted_too).classes_.tolist() == ["mild", "severe"]


def test_tables_of_other_libraries_need_narwhals(monkeypatch):
    pa = pytest.importorskip("pyarrow")
    monkeypatch.setitem(sys.modules, "narwhals", None)
    with pytest.raises(ImportError, match="which needs narwhals: pip install narwhals, or pass"):
        static_calibration_error(Y, pa.table(dict(zip(GIVEN, P.T, strict=True))))


@pytest.mark.parametrize("form", ["{}", "P({})"])
def test_tables_of_other_libraries_are_read_by_name(form):
    pytest.importorskip("narwhals")
    pa = pytest.importorskip("pyarrow")

    def make(A, names):
        return pa.table(dict(zip(names, A.T, strict=True)))

    names = [form.format(label) for label in GIVEN]
    expected = slow_classwise_error(Y, P, GIVEN)
    assert static_calibration_error(Y, make(P, names)) == pytest.approx(expected, rel=1e-9)
    fitted = VectorScaling().fit(make(Z, names), Y)
    same = VectorScaling().fit(Z[:, ORDER], Y).predict_proba(Z[:, ORDER])
    for table in (make(Z, names), make(Z[:, ::-1], names[::-1])):
        np.testing.assert_array_equal(fitted.predict_proba(table), same)
    refused(
        "not named after a label",
        static_calibration_error,
        Y,
        make(np.c_[P, CODE], [*names, "site"]),
    )


def test_a_frame_of_a_thousand_classes_is_matched_at_once():
    K = 1000
    labels = np.array([f"class_{k}" for k in range(K)])
    scores = np.random.default_rng(0).normal(size=(3000, K))
    y = labels[np.arange(3000) % K]
    order = np.random.default_rng(1).permutation(K)
    frame = pd.DataFrame(scores[:, order], columns=[f"prob of {labels[k]} (%)" for k in order])
    start = time.perf_counter()
    found = match_names(list(frame.columns), np.unique(y), False, "X")
    assert time.perf_counter() - start < 1.0
    np.testing.assert_array_equal(order[found.order], np.argsort(labels))
    start = time.perf_counter()
    assert match_names([f"score {j} of" for j in range(K)], np.unique(y), False, "X") is None
    assert time.perf_counter() - start < 1.0
