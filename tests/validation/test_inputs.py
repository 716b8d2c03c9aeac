"""One door: what is let in, what is refused, and what the refusal says."""

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
from calls import onnx_predictions, refused
from scipy.sparse import csr_array
from scipy.special import softmax
from sklearn.base import clone

from skcalib import (
    IdentityCalibrator,
    IsotonicCalibrator,
    TemperatureScaling,
    VectorScaling,
    compare_calibrators,
    from_dict,
    to_dict,
)
from skcalib._validation.labels import check_labels
from skcalib.metrics import expected_calibration_error

P = np.array([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.3, 0.3, 0.4], [0.2, 0.5, 0.3]])
Y = np.array([0, 1, 2, 0])
Z = np.log(P) + 3
VALUE = expected_calibration_error(Y, P)
SEVERAL = np.array([[1, 0, 1], [0, 0, 0], [0, 1, 0], [1, 1, 1]])  # several labels for a row

LABELS = {
    "one to K": Y + 1,
    "negative": Y - 5,
    "gaps": Y * 10,
    "whole floats": Y.astype(float),
    "strings": np.array(["ape", "bee", "cat"])[Y],
    "objects": np.array(["ape", "bee", "cat"], dtype=object)[Y],
    "object ints": (Y + 4).astype(object),
    "list": (Y - 1).tolist(),
    "column": Y[:, None],
    "unsigned": Y.astype(np.uint8),
    "pandas, odd index": pd.Series(Y + 1, index=[7, 3, 9, 5]),
    "pandas category": pd.Series(np.array(["ape", "bee", "cat"])[Y]).astype("category"),
    "pandas strings": pd.Series(np.array(["ape", "bee", "cat"])[Y], dtype="string"),
    "pandas Int64": pd.Series(Y, dtype="Int64"),
    "polars": pl.Series(Y + 1),
    "polars strings": pl.Series(["ape", "bee", "cat", "ape"]),
}


@pytest.mark.parametrize("kind", LABELS)
def test_every_kind_of_label_gives_the_same_number(kind):
    assert expected_calibration_error(LABELS[kind], P) == VALUE


@pytest.mark.filterwarnings("ignore:A column-vector y was passed")
@pytest.mark.parametrize("kind", LABELS)
def test_every_kind_of_label_comes_back_from_a_calibrator(kind):
    y = LABELS[kind]
    fitted = IdentityCalibrator().fit(P, y)
    expected = np.unique(np.asarray(y).ravel())[[0, 1, 2, 1]]
    np.testing.assert_array_equal(fitted.predict(P), expected)


@pytest.mark.parametrize(
    "make",
    [list, pd.DataFrame, pl.DataFrame, np.asfortranarray, lambda a: np.repeat(a, 2, 1)[:, ::2]],
)
def test_every_kind_of_matrix_gives_the_same_number(make):
    assert expected_calibration_error(Y, make(P)) == pytest.approx(VALUE, abs=1e-15)


@pytest.mark.parametrize("y", [[0, 1, 1, 0], [0.0, 1.0, 1.0, 0.0]])
def test_integers_of_the_range_need_not_all_occur(y):
    assert expected_calibration_error(y, P) == expected_calibration_error(y, P, labels=[0, 1, 2])
    assert IdentityCalibrator().fit(P, y).classes_.tolist() == [0, 1, 2]


def test_one_boolean_is_enough_to_know_both():
    p = np.array([0.2, 0.9])
    for scores in (p, np.column_stack([1 - p, p])):
        assert expected_calibration_error([True, True], scores) == pytest.approx((0.8 + 0.1) / 2)
        assert IdentityCalibrator().fit(scores, [True, True]).classes_.tolist() == [False, True]


def spoilt(at, value, A=P):
    A = A.copy()
    A[at] = value
    return A


ONE_HOT = np.eye(3)[[0, 1, 2, 0]]
SEVERAL_WAYS = "calibrate them by MultilabelCalibrator and measure them by calibration_by_label"
# What is wrong with labels alone: the labels, those of the columns, and what the message says.
LABELS_REFUSED = [
    ([1, 2, 1, 2], None, r"2 distinct labels \(1, 2\) but there are 3 columns.*pass {classes}="),
    (["a", "b", "a", "b"], None, "pass {classes}= with the 3 labels"),
    ([0, 1, 2, 3], None, "4 distinct labels"),
    ([0, 1, 5, 0], [0, 1, 2], r"label (np.int64\()?5\)? at row 2 is not in {classes}=\[0, 1, 2\]"),
    (Y, [0, 1], "{classes} has 2 labels but there are 3 columns"),
    (Y, [0, 1, 1], r"{classes}=\[0, 1, 1\] has a label twice"),
    ([0, 1, np.nan, 0], None, "{y} contains NaN .first at row 2"),
    ([0, 1, np.inf, 0], None, "{y} contains infinity .first at row 2"),
    (["a", None, "c", "a"], None, "missing label .NaN or None; first at row 1"),
    (["a", 1, "c", "a"], None, "{y} has labels of type int, str; make all of them"),
    ([0.5, 1.0, 2.0, 0.0], None, "Unknown label type: continuous. {y} has 0.5 at row 0"),
    (np.array(["2020-01-01"] * 4, dtype="datetime64[D]"), None, "Unknown label type"),
    ([0, 1, 2j, 0], None, "Complex data not supported: {y} contains complex128 labels"),
    (np.array([{}, 1, 2, 0], dtype=object), None, "{y} has labels of type dict, int"),
    (ONE_HOT, None, r"it is one-hot: pass {y}.argmax\(axis=1\)"),
    (ONE_HOT == 1, None, r"one-hot: pass {y}.argmax\(axis=1\)"),
    (ONE_HOT.tolist(), None, r"pass np.array\({y}\).argmax\(axis=1\)"),
    ([np.arange(4)] * 2, None, r"one label per position, pass np.array\({y}\).reshape\(-1\);"),
    (np.full((4, 3), [50, 30, 20]), None, "for percentages or counts of raters, divide each row"),
    (np.full((4, 3), [5.0, 3, 2]), None, "for percentages or counts of raters, divide each row"),
    *[(each, None, SEVERAL_WAYS) for each in (SEVERAL, SEVERAL == 1, 2 * ONE_HOT)],
    (np.array([["a", "b"]] * 4), None, SEVERAL_WAYS),
    (np.zeros((0, 3)), None, "pass one label for each row"),
    (np.zeros((4, 2, 2)), None, "pass one label for each row"),
    ([0, 1, 2], None, "{X} has 4 rows, {y} has 3"),
    (None, None, "{y} should be a 1d array of labels, but None was passed"),
    (np.ndarray, None, r"{y} should be a 1d array of labels, got an array of shape \(\)"),
]
# Scores or weights, and what the message says.
SCORES_REFUSED = [
    (spoilt((2, 1), np.nan), r"{X} contains NaN \(first at row 2, column 1\)"),
    (spoilt((2, 1), np.inf), r"{X} contains infinity \(first at row 2, column 1\)"),
    (np.ones((4, 0)), "0 feature"),
    (np.ones((0, 3)), r"0 sample\(s\)"),
    (np.ones((4, 3, 2)), "has shape .4, 3, 2.: pass a row for each position"),
    ([np.ones((3, 2))] * 4, "^{X} has shape .4, 3, 2.: .* with y.reshape.-1..$"),
    (np.full((4, 3), "x"), "could not convert|dtype"),
    (np.float64(0.5), "Reshape your data"),
    (P + 1j, "{X}: Complex data not supported"),
]
WEIGHTS_REFUSED = [
    ([1, 1, 1], r"sample_weight.shape == \(3,\), expected \(4,\)"),
    ([1, -1, 1, 1], "finite and non-negative; row 1 has -1"),
    ([1, 1, np.nan, 1], "finite and non-negative; row 2 has nan"),
    ([0, 0, 0, 0], "all weights are zero"),
    (np.ones((4, 2)), "must be a 1D array"),
]
REFUSED = [
    *[(P, y, classes, None, message) for y, classes, message in LABELS_REFUSED],
    *[(X, Y, None, None, message) for X, message in SCORES_REFUSED],
    *[(P, Y, None, w, message) for w, message in WEIGHTS_REFUSED],
]


@pytest.mark.parametrize(("X", "y", "classes", "w", "message"), REFUSED)
@pytest.mark.parametrize("calibrator", [VectorScaling(), IsotonicCalibrator()], ids=str)
def test_odd_rows_are_refused_with_the_mend(calibrator, X, y, classes, w, message):
    """By the fits of both base classes, which change nothing, and by metrics."""
    fitted = clone(calibrator).fit(P, Y).set_params(classes=classes)
    state = joblib.hash(vars(fitted))
    refused(message.format(X="X", y="y", classes="classes"), fitted.fit, X, y, w)
    assert joblib.hash(vars(fitted)) == state
    names = {"X": "y_proba", "y": "y_true", "classes": "labels"}
    given = {"labels": classes, "sample_weight": w}
    refused(message.format(**names), expected_calibration_error, y, X, **given)


@pytest.mark.parametrize(
    ("proba", "message"),
    [
        (spoilt((1, 0), 0.6), "y_proba: row 1 sums to 1.5, not 1; pass class probabilities"),
        (spoilt((3, 2), -0.2), r"y_proba: row 3 contains -0.2, outside \[0, 1\]"),
    ],
)
def test_what_is_no_probability_is_named(proba, message):
    refused(message, expected_calibration_error, Y, proba)


def test_labels_of_tuples_are_read_and_sparse_scores_refused():
    y = np.array([(0,), (1,), (2,), (0,)], dtype=object)[:, 0].tolist()
    assert expected_calibration_error(y, P, labels=[0, 1, 2]) == VALUE
    refused(r"[Ss]parse", expected_calibration_error, Y, csr_array(P), error=TypeError)


CODE = np.arange(60) % 4
ROWS = np.random.default_rng(0).normal(size=(60, 4)) + np.eye(4)[CODE]
SHARES = softmax(ROWS, axis=1)
ODD_ROW = spoilt(7, [0.5, 0.5, 0.3, 0.0], SHARES)
NEGATIVE = spoilt(7, [1.2, -0.2, 0.0, 0.0], SHARES)
# Parameters, scores, and what the message says.
FITS_REFUSED = [
    ({}, spoilt(7, -np.inf, ROWS), "every logit of row 7 is -inf"),
    ({}, ODD_ROW, r"59 of 60 rows are probability vectors, but row 7 sums to 1.3, not 1.*logits"),
    ({"input": "proba"}, ROWS, "row 0 .*input='logits'"),
    ({"input": "proba"}, NEGATIVE, r"row 7 contains .*outside \[0, 1\]"),
    ({"input": "odds"}, SHARES, "'input' parameter"),
]
# Scores of the fit, new ones, and what the message says.
PREDICTIONS_REFUSED = [
    (SHARES, ROWS, "row 0 .*fitted on probabilities"),
    (ROWS, SHARES, "all rows are probability vectors .*fitted on logits"),
    (ROWS, ROWS[:, :3], r"has 3 features, but \w+ is expecting 4 features"),
    (ROWS, ROWS[:, :1], r"has 1 features, but \w+ is expecting 4 features"),
    (ROWS, ROWS[0], "Reshape your data"),
    (ROWS, spoilt((7, 2), np.nan, ROWS), "NaN .*row 7"),
    (ROWS, spoilt((7, 2), np.inf, ROWS), "infinity .*row 7"),
    (ROWS, spoilt(7, -np.inf, ROWS), "every logit of row 7 is -inf"),
    (SHARES, ODD_ROW, "row 7 sums to 1.3"),
    (ROWS, ROWS[:0], r"0 sample\(s\)"),
]


@pytest.mark.parametrize("calibrator", [VectorScaling(), IsotonicCalibrator()], ids=str)
def test_odd_scores_of_a_calibrator_are_refused_with_the_mend(calibrator):
    for parameters, X, message in FITS_REFUSED:
        fitted = clone(calibrator).fit(ROWS, CODE).set_params(**parameters)
        state = joblib.hash(vars(fitted))
        refused(message, fitted.fit, X, CODE)
        assert joblib.hash(vars(fitted)) == state
    for X, new, message in PREDICTIONS_REFUSED:
        fitted = clone(calibrator).fit(X, CODE)
        for ask in (fitted.predict_proba, fitted.predict):
            with pytest.raises(ValueError, match=message):
                ask(new)


@pytest.mark.parametrize(
    ("X", "kind"),
    [
        (P, "proba"),
        (P.astype(np.float16), "proba"),
        (np.eye(3)[Y], "proba"),
        (Z, "logits"),
        (np.where(P == 0.1, -np.inf, 0), "logits"),
        (np.linspace(0, 1, 4), "proba"),
        (np.linspace(-1, 1, 4), "logits"),
        (np.nextafter(np.float32(1), np.float32(2)) * np.eye(3, dtype=np.float32)[Y], "proba"),
    ],
)
def test_kind_is_decided_where_it_is_certain(X, kind):
    y = Y if X.ndim == 2 else [0, 1, 1, 0]
    fitted = IdentityCalibrator().fit(X, y)
    assert fitted.input_ == kind
    proba = fitted.predict_proba(X)
    np.testing.assert_allclose(proba.sum(axis=1), 1, rtol=0, atol=2e-3)
    assert proba.min() >= 0
    assert proba.max() <= 1


def test_only_a_sum_far_below_1_may_lack_a_column():
    for total, hint in ((0.6, r" \(is a column missing\?\)"), (0.995, ""), (1.1, "")):
        given = np.vstack([total * P[:1], P[1:]])
        refused(f"row 0 sums to {total}, not 1{hint}: logits", IdentityCalibrator().fit, given, Y)


def test_of_several_entries_that_are_no_number_the_first_is_named():
    X = np.zeros((6, 3))
    X[5, 0] = X[3, 2] = np.nan
    X[3, 1] = np.inf
    with pytest.raises(ValueError, match=r"contains infinity .first at row 3, column 1"):
        IdentityCalibrator(input="logits").fit(X, [0, 1, 2, 0, 1, 2])


@pytest.mark.parametrize(
    "y",
    [
        [2**63, 1, 2**63 + 1],  # NumPy makes float64 of them, in which the large ones are equal
        np.array([2**63, 1, 2**63 + 1], dtype=object),
        np.array([2.0**60, 1.0, 2.0]),
        np.array([2.0**25, 1.0, 2.0], dtype=np.float32),
    ],
)
def test_labels_that_floating_point_cannot_tell_apart_are_refused(y):
    refused(r"y has [\d.e+]+ at row 0, which float\d\d cannot distinguish", check_labels, y)


@pytest.mark.parametrize("y", [[2.0**53, 1.0], np.array([2**63, 1], dtype=np.uint64)])
def test_large_labels_that_are_exact_are_kept(y):
    assert check_labels(y).tolist() == [y[0], 1]


@pytest.mark.skipif(np.lib.NumpyVersion(np.__version__) < "2.0.0", reason="NumPy 2 has the type")
def test_labels_of_numpys_string_type_are_strings_everywhere():
    words = np.array(["ape", "bee", "cat"])
    y = np.resize(words, 60).astype(np.dtypes.StringDType())
    Z = np.random.default_rng(0).normal(size=(60, 3)) + np.eye(3)[np.arange(60) % 3]
    fitted = TemperatureScaling(classes=words.astype(np.dtypes.StringDType())).fit(Z, y)
    assert from_dict(to_dict(fitted)).classes_.tolist() == words.tolist()
    assert fitted.predict(Z[:2]).tolist() == words[Z[:2].argmax(axis=1)].tolist()
    label, _ = onnx_predictions(fitted, Z.astype(np.float32))
    assert label.tolist() == words[Z.argmax(axis=1)].tolist()
    assert compare_calibrators(Z, y, ["temperature"], metrics=["log_loss"]).choice
    y = np.array(["ape", None], dtype=np.dtypes.StringDType(na_object=None))
    refused("y contains a missing label .*row 1", check_labels, y)
