"""MultilabelCalibrator against GroupwiseCalibrator on rows that loops write one by one."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from calls import refused
from scipy.special import expit, logit
from sklearn.base import clone
from sklearn.datasets import make_multilabel_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.utils import estimator_checks as checks

from skcalib import (
    GroupwiseCalibrator,
    MultilabelCalibrator,
    PlattScaling,
    TemperatureScaling,
    from_dict,
    load_json,
    save_json,
    to_dict,
)

NAMES = ["cat", "dog", "owl"]


def labels_of_rows(n=300, seed=0, unknown=0.0):
    """Return probabilities, labels (NaN: unknown) and weights; each label has its own error."""
    rng = np.random.default_rng(seed)
    f = rng.normal(-1, 2, size=(n, 3))
    Y = (rng.random((n, 3)) < expit([1.5, 1, 0.5] * f + [0, 1, -0.5])).astype(float)
    Y[rng.random(Y.shape) < unknown] = np.nan
    return expit(f), Y, rng.integers(0, 3, n)


def slow_rows(P, Y, w=None):
    """Return score, label 0 or 1, group and weight of each known entry."""
    rows = [
        (P[i, j], int(Y[i, j]), j, 1 if w is None else w[i])
        for i in range(len(Y))
        for j in range(Y.shape[1])
        if not np.isnan(Y[i, j]) and (w is None or w[i] > 0)
    ]
    score, y, group, weight = map(np.array, zip(*rows, strict=True))
    return score, y, group, None if w is None else weight


@pytest.mark.parametrize("common", [None, "platt", TemperatureScaling(input="proba")])
@pytest.mark.parametrize("unknown", [0.0, 0.3])
@pytest.mark.parametrize("weights", [None, "counts", "floats"])
def test_it_is_the_groupwise_calibrator_of_all_entries(common, unknown, weights):
    P, Y, w = labels_of_rows(unknown=unknown)
    w = {None: None, "counts": w, "floats": w / 7}[weights]
    score, y, group, weight = slow_rows(P, Y, w)
    slow = GroupwiseCalibrator(common).fit(score, y, weight, groups=group)
    fitted = MultilabelCalibrator(common).fit(P, Y, w)
    assert fitted.calibrator_.groups_ == slow.groups_ == [0, 1, 2]
    found = fitted.predict_proba(P)
    for j in range(3):
        expected = slow.predict_proba(P[:, j], groups=np.full(len(P), j))[:, 1]
        # The order of rows changes only rounding.
        np.testing.assert_allclose(found[:, j], expected, rtol=0, atol=1e-9)
    np.testing.assert_array_equal(fitted.predict(P), found > 0.5)
    events = np.bincount(group, y if weight is None else weight * y)
    np.testing.assert_allclose(fitted.class_count_, events)


def test_in_the_same_order_of_rows_it_is_equal_bit_by_bit():
    P, Y, _ = labels_of_rows()
    group = np.repeat(np.arange(3), len(P))
    slow = GroupwiseCalibrator().fit(P.T.ravel(), Y.T.ravel().astype(int), groups=group)
    fitted = MultilabelCalibrator().fit(P, Y)
    np.testing.assert_array_equal(fitted.calibrator_.coef_, slow.coef_)
    expected = slow.predict_proba(P.T.ravel(), groups=group)[:, 1].reshape(3, -1).T
    np.testing.assert_array_equal(fitted.predict_proba(P), expected)


@pytest.mark.parametrize("shape", ["(n,)", "(n, 1)", "list"])
def test_one_label_is_one_event(shape):
    P, Y, _ = labels_of_rows()
    p, y = P[:, 0], Y[:, 0]
    X = {"(n,)": p, "(n, 1)": p[:, None], "list": [np.column_stack([1 - p, p])]}[shape]
    one = GroupwiseCalibrator("platt").fit(p, y.astype(int), groups=np.zeros(p.size, int))
    fitted = MultilabelCalibrator("platt").fit(X, y)
    expected = one.predict_proba(p, groups=np.zeros(p.size, int))[:, 1:]
    np.testing.assert_array_equal(fitted.predict_proba(X), expected)


@pytest.mark.parametrize("mark", [np.nan, -1, 255])
def test_unknown_entries_are_absent(mark):
    P, Y, w = labels_of_rows(unknown=0.4)
    marked = np.nan_to_num(Y, nan=mark)
    marked = marked if np.isnan(mark) else marked.astype(int)
    worse = np.where(np.isnan(Y), np.nan, P)  # the scores of unknown entries are not read
    keywords = {"ignore_index": 255} if mark == 255 else {}
    fitted = MultilabelCalibrator("platt").fit(worse, marked, w, **keywords)
    expected = MultilabelCalibrator("platt").fit(P, Y, w)
    np.testing.assert_array_equal(fitted.predict_proba(P), expected.predict_proba(P))
    given = MultilabelCalibrator("platt").fit(P, np.nan_to_num(Y, nan=-1), w, ignore_index=-1)
    np.testing.assert_array_equal(given.predict_proba(P), expected.predict_proba(P))


def test_rows_of_weight_0_are_absent():
    P, Y, w = labels_of_rows()
    P[w == 0], Y[w == 0] = np.nan, 7
    fitted = MultilabelCalibrator("platt").fit(P, Y, w)
    few = MultilabelCalibrator("platt").fit(P[w > 0], Y[w > 0], w[w > 0])
    np.testing.assert_array_equal(fitted.calibrator_.coef_, few.calibrator_.coef_)


def test_a_label_without_known_entries_gets_the_common_calibrator():
    P, Y, _ = labels_of_rows()
    Y[:, 1] = np.nan
    fitted = MultilabelCalibrator("platt").fit(P, Y)
    assert fitted.calibrator_.groups_ == [0, 2]
    common = fitted.calibrator_.calibrator_.predict_proba(P[:, 1])[:, 1]
    np.testing.assert_array_equal(fitted.predict_proba(P)[:, 1], common)
    assert fitted.class_count_[1] == 0


def test_logits_give_the_probabilities_of_their_probabilities():
    P, Y, _ = labels_of_rows()
    found = MultilabelCalibrator("platt").fit(logit(P), Y).predict_proba(logit(P))
    expected = MultilabelCalibrator("platt").fit(P, Y).predict_proba(P)
    np.testing.assert_allclose(found, expected, atol=1e-6)


@pytest.mark.parametrize("library", ["pandas", "polars"])
@pytest.mark.parametrize("form", ["{}", "prob_{}"])
def test_columns_of_frames_are_matched_by_name(library, form):
    P, Y, _ = labels_of_rows(unknown=0.2)
    frame = pd.DataFrame if library == "pandas" else pl.DataFrame
    order = [2, 0, 1]
    scores = frame({form.format(NAMES[j]): P[:, j] for j in order})
    entries = [[None if np.isnan(v) else bool(v) for v in column] for column in Y.T]
    labels = frame(dict(zip(NAMES, entries, strict=True)))
    expected = MultilabelCalibrator("platt").fit(P, Y).predict_proba(P)
    fitted = MultilabelCalibrator("platt").fit(scores, labels)
    assert fitted.classes_.tolist() == NAMES
    np.testing.assert_array_equal(fitted.predict_proba(scores), expected)
    np.testing.assert_array_equal(fitted.predict_proba(P), expected)
    named = MultilabelCalibrator("platt").fit(frame(dict(zip(NAMES, P.T, strict=True))), Y)
    assert named.classes_.tolist() == NAMES
    np.testing.assert_array_equal(named.predict_proba(scores), expected)
    if library == "pandas":
        fitted.fit(P, labels.astype("Int8"))
        np.testing.assert_array_equal(fitted.predict_proba(P), expected)


@pytest.mark.parametrize("make", [list, np.asarray, sp.csr_array])
def test_labels_in_any_container(make):
    P, Y, _ = labels_of_rows()
    found = MultilabelCalibrator("platt").fit(P, make(Y.astype(int).tolist()))
    expected = MultilabelCalibrator("platt").fit(P, Y)
    np.testing.assert_array_equal(found.calibrator_.coef_, expected.calibrator_.coef_)


@pytest.mark.parametrize(
    "model", [KNeighborsClassifier(25), RandomForestClassifier(10, min_samples_leaf=5)]
)
def test_lists_of_two_columns_are_read_as_forests_return_them(model):
    X, Y = make_multilabel_classification(400, n_classes=4, random_state=0)
    model.fit(X[:200], Y[:200])
    both = model.predict_proba(X[200:])
    P = np.column_stack([each[:, 1] for each in both])
    fitted = MultilabelCalibrator("platt").fit(both, Y[200:])
    expected = MultilabelCalibrator("platt").fit(P, Y[200:]).predict_proba(P)
    np.testing.assert_array_equal(fitted.predict_proba(both), expected)


def test_float32_stays_float32():
    P, Y, _ = labels_of_rows()
    fitted = MultilabelCalibrator().fit(P.astype(np.float32), Y)
    found = fitted.predict_proba(P.astype(np.float32))
    assert found.dtype == np.float32
    assert found.flags.c_contiguous
    np.testing.assert_allclose(found, MultilabelCalibrator().fit(P, Y).predict_proba(P), atol=1e-4)


@pytest.mark.parametrize("common", [None, "platt", PlattScaling(input="proba"), "isotonic"])
def test_it_is_cloned_pickled_and_stored(common, tmp_path):
    P, Y, _ = labels_of_rows()
    names = pd.DataFrame(Y, columns=NAMES)
    fitted = MultilabelCalibrator(common, shrinkage=3.0).fit(P, names)
    expected = fitted.predict_proba(P)
    again = clone(fitted)
    assert not hasattr(again, "classes_")
    np.testing.assert_array_equal(again.fit(P, names).predict_proba(P), expected)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(fitted)).predict_proba(P), expected)
    save_json(fitted, tmp_path / "c.json")
    stored = load_json(tmp_path / "c.json")
    np.testing.assert_array_equal(stored.predict_proba(P), expected)
    assert stored.classes_.tolist() == NAMES
    assert to_dict(stored) == to_dict(fitted)
    assert set(vars(stored)) == set(vars(fitted))


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("calibrator_", None, "calibrator_ must be a GroupwiseCalibrator of the labels 0 and 1"),
        ("classes_", [["a", "b"]], "classes_ must be an array of distinct names"),
        ("classes_", ["a", "a", "b"], "classes_ must be an array of distinct names"),
        ("class_count_", [1.0, 2.0, -1.0], "class_count_ must be a weight for each class"),
    ],
)
def test_a_spoilt_file_is_refused_in_one_line(name, value, words):
    P, Y, _ = labels_of_rows()
    document = to_dict(MultilabelCalibrator("platt").fit(P, Y))
    plain = value
    if value is not None:
        array = np.array(value)
        kind = "str" if array.dtype.kind == "U" else array.dtype.name
        plain = {"dtype": kind, "shape": list(array.shape), "array": array.ravel().tolist()}
    document["fitted"][name] = plain
    refused(words, from_dict, document)


def test_a_fit_is_said_in_words():
    P, Y, _ = labels_of_rows()
    fitted = MultilabelCalibrator("platt", shrinkage=1e9).fit(P, Y)
    said = "common calibrator PlattScaling; 3 labels with 0 parameters of their own"
    assert repr(fitted).endswith(f"  # {said}")
    assert said in fitted._repr_html_()
    tags = fitted.__sklearn_tags__()
    assert tags.estimator_type == "classifier"
    assert tags.classifier_tags.multi_label
    assert not tags.classifier_tags.multi_class
    assert fitted.n_features_in_ == 3
    for method in ("predict_proba", "predict"):
        with pytest.raises(NotFittedError):
            getattr(MultilabelCalibrator(), method)(P)


def test_a_calibrator_of_another_package_may_be_common():
    P, Y, _ = labels_of_rows()
    score, y, group, _ = slow_rows(P, Y)
    slow = GroupwiseCalibrator(LogisticRegression()).fit(score[:, None], y, groups=group)
    found = MultilabelCalibrator(LogisticRegression()).fit(P, Y).predict_proba(P)
    expected = slow.predict_proba(P[:, [1]], groups=np.ones(len(P), int))[:, 1]
    np.testing.assert_allclose(found[:, 1], expected, atol=1e-6)


def with_value(A, place, value):
    A = A.copy()
    A[place] = value
    return A


P, Y, _ = labels_of_rows()
HALF = with_value(Y, (3, 1), 0.5)


@pytest.mark.parametrize(
    ("X", "y", "words"),
    [
        (P, HALF, "y has 0.5 at row 3 of label 1: were labels and probabilities exchanged"),
        (P, with_value(Y, (4, 2), 3), r"y has 3 at row 4 of label 2: pass 0 or 1 .*ignore_index="),
        (P, 2 * Y - 1, r"y has -1 at row \d+ of label \d: pass y == 1 if -1 means no"),
        (P, Y.astype(str), r"y has shape \(300, 3\) and dtype <U\d+; pass a matrix"),
        (P, Y[None], r"y has shape \(1, 300, 3\)"),
        (P, Y * np.nan, "y: every entry is unknown"),
        (P[:200], Y, "X has 200 rows, y has 300"),
        (P[:, :2], Y, r"X has shape \(300, 2\), but the number of labels is 3"),
        (Y.astype(int), Y, "these are labels"),
        (with_value(P, (5, 2), np.nan), Y, "X.* row 5 of label 2"),
        (with_value(P, (5, 2), 3.0), Y, "X: 899 of 900 values .* row 5 of label 2"),
        (pd.DataFrame({**dict(zip("abc", P.T, strict=True)), "d": 1}), Y, "number of labels is 3"),
        ([P, P], Y, "X is a list of 2 arrays: pass an array"),
        (P, None, "y"),
    ],
)
def test_bad_input_is_refused_in_one_line(X, y, words):
    refused(words, MultilabelCalibrator().fit, X, y)


def test_names_that_do_not_match_are_refused():
    scores = pd.DataFrame(P, columns=["cat", "dog", "emu"])
    refused(
        "X: label 'owl' has no column",
        MultilabelCalibrator().fit, scores, pd.DataFrame(Y, columns=NAMES),
    )  # fmt: skip


def test_a_bad_call_changes_nothing():
    fitted = MultilabelCalibrator("platt").fit(P, Y)
    before = fitted.predict_proba(P)
    refused("0.5", fitted.fit, P, HALF)
    refused("number of labels is 3", fitted.predict_proba, P[:, :2])
    refused("row 7 of label 0", fitted.predict_proba, with_value(P, (7, 0), 1.5))
    refused("ignore_index='x'", fitted.fit, P, Y, ignore_index="x")
    refused("shrinkage", MultilabelCalibrator(shrinkage=0).fit, P, Y)
    np.testing.assert_array_equal(fitted.predict_proba(P), before)


@pytest.mark.parametrize(
    "check",
    [
        checks.check_parameters_default_constructible,
        checks.check_no_attributes_set_in_init,
        checks.check_get_params_invariance,
        checks.check_set_params,
        checks.check_estimator_repr,
        checks.check_estimator_cloneable,
        checks.check_estimator_tags_renamed,
    ],
)
def test_it_follows_the_conventions_of_scikit_learn(check):
    check("MultilabelCalibrator", MultilabelCalibrator())
    nested = MultilabelCalibrator(PlattScaling()).set_params(calibrator__degree=2)
    assert nested.get_params()["calibrator__degree"] == 2


def test_a_fit_leaves_its_arguments_and_parameters_alone():
    calibrator, X, y = PlattScaling(), P.copy(), Y.copy()
    MultilabelCalibrator(calibrator).fit(X, y).predict_proba(X)
    np.testing.assert_array_equal(X, P)
    np.testing.assert_array_equal(y, Y)
    assert not hasattr(calibrator, "classes_")
