"""One door: what is let in, what is refused, and what the refusal says."""

import re

import numpy as np
import pandas as pd
import polars as pl
import pytest
from onnxruntime import InferenceSession
from scipy.sparse import csr_array

from skcalib import (
    IdentityCalibrator,
    TemperatureScaling,
    compare_calibrators,
    from_dict,
    to_dict,
    to_onnx,
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


def test_integers_of_the_range_need_not_all_occur():
    y = [0, 1, 1, 0]
    assert expected_calibration_error(y, P) == expected_calibration_error(y, P, labels=[0, 1, 2])
    assert IdentityCalibrator().fit(P, y).classes_.tolist() == [0, 1, 2]


def test_one_boolean_is_enough_to_know_both():
    p = [0.2, 0.9]
    assert expected_calibration_error([True, True], p) == pytest.approx((0.8 + 0.1) / 2)
    assert IdentityCalibrator().fit(p, [True, True]).classes_.tolist() == [False, True]


@pytest.mark.parametrize(
    ("y", "labels", "message"),
    [
        ([1, 2, 1, 2], None, r"2 distinct labels \(1, 2\) but there are 3 columns.*pass labels="),
        (["a", "b", "a", "b"], None, "pass labels= with the 3 labels"),
        ([0, 1, 2, 3], None, "4 distinct labels"),
        ([0, 1, 5, 0], [0, 1, 2], r"label (np.int64\()?5\)? at row 2 is not in labels=\[0, 1, 2\]"),
        (Y, [0, 1], "labels has 2 labels but there are 3 columns"),
        (Y, [0, 1, 1], r"labels=\[0, 1, 1\] has a label twice"),
        ([0, 1, np.nan, 0], None, "y_true contains NaN .first at row 2"),
        ([0, 1, np.inf, 0], None, "y_true contains infinity .first at row 2"),
        (["a", None, "c", "a"], None, "missing label .NaN or None; first at row 1"),
        (["a", 1, "c", "a"], None, "y_true has labels of type int, str; make all of them"),
        ([0.5, 1.0, 2.0, 0.0], None, "Unknown label type: continuous. y_true has 0.5 at row 0"),
        (np.array(["2020-01-01"] * 4, dtype="datetime64[D]"), None, "Unknown label type"),
        ([0, 1, 2j, 0], None, "Complex data not supported: y_true contains complex128 labels"),
        (np.array([(0,), (1,), (2,), (0,)], dtype=object)[:, 0].tolist(), [0, 1, 2], None),
        (np.array([{}, 1, 2, 0], dtype=object), None, "y_true has labels of type dict, int"),
        (np.eye(3)[[0, 1, 2, 0]], None, r"it is one-hot: pass y_true.argmax\(axis=1\)"),
        (np.eye(3, dtype=bool)[[0, 1, 2, 0]], None, r"one-hot: pass y_true.argmax\(axis=1\)"),
        (np.eye(3)[[0, 1, 2, 0]].tolist(), None, r"pass np.array\(y_true\).argmax\(axis=1\)"),
        ([np.arange(4)] * 2, None, r"each position, pass np.array\(y_true\).reshape\(-1\);"),
        (
            np.full((4, 3), [50, 30, 20]),
            None,
            "of percentages or counts of raters, divide each row",
        ),
        (np.full((4, 3), [5.0, 3, 2]), None, "of percentages or counts of raters, divide each row"),
        (SEVERAL, None, r"each column by itself, as a problem of two classes: y_true\[:, j\]"),
        (SEVERAL.astype(bool), None, r"by itself, as a problem of two classes: y_true\[:, j\]"),
        (2 * np.eye(3)[[0, 1, 2, 0]], None, r"each column by itself, .*: y_true\[:, j\]"),
        (np.array([["a", "b"]] * 4), None, r"each column by itself, .*: y_true\[:, j\]"),
        (np.zeros((0, 3)), None, "pass one label for each row"),
        (np.zeros((4, 2, 2)), None, "pass one label for each row"),
        ([0, 1, 2], None, "y_proba has 4 rows, y_true has 3"),
        (None, None, "y_true should be a 1d array of labels, but None was passed"),
        (np.ndarray, None, "y_true should be a 1d array of labels, got an array of shape \\(\\)"),
    ],
)
def test_wrong_labels_are_named_with_the_mend(y, labels, message):
    if message is None:
        assert expected_calibration_error(y, P, labels=labels) == VALUE
        return
    with pytest.raises(ValueError, match=message) as error:
        expected_calibration_error(y, P, labels=labels)
    assert "\n" not in str(error.value)


def changed(row, column, value):
    copy = P.copy()
    copy[row, column] = value
    return copy


@pytest.mark.parametrize(
    ("proba", "message"),
    [
        (changed(2, 1, np.nan), r"y_proba contains NaN \(first at row 2, column 1\)"),
        (changed(2, 1, np.inf), r"y_proba contains infinity \(first at row 2, column 1\)"),
        (changed(1, 0, 0.6), "y_proba: row 1 sums to 1.5, not 1; pass class probabilities"),
        (changed(3, 2, -0.2), r"y_proba: row 3 contains -0.2, outside \[0, 1\]"),
        (Z, "y_proba: row 0 contains .* outside"),
        (np.ones((4, 0)), "0 feature"),
        (np.ones((0, 3)), "0 sample"),
        (np.ones((4, 3, 2)), "has shape .4, 3, 2.: pass a row for each position"),
        ([np.ones((3, 2))] * 4, "^y_proba has shape .4, 3, 2.: .* with y.reshape.-1..$"),
        (np.full((4, 3), "x"), "could not convert|dtype"),
        (np.float64(0.5), "Reshape your data"),
    ],
)
def test_wrong_probabilities_are_named_with_the_mend(proba, message):
    with pytest.raises(ValueError, match=message):
        expected_calibration_error(Y, proba)


def test_sparse_and_complex_scores_are_refused():
    with pytest.raises(TypeError, match=r"[Ss]parse"):
        expected_calibration_error(Y, csr_array(P))
    with pytest.raises(ValueError, match="Complex"):
        expected_calibration_error(Y, P + 1j)


@pytest.mark.parametrize(
    ("w", "message"),
    [
        ([1, 1, 1], r"sample_weight.shape == \(3,\), expected \(4,\)"),
        ([1, -1, 1, 1], "finite and non-negative; row 1 has -1"),
        ([1, 1, np.nan, 1], "finite and non-negative; row 2 has nan"),
        ([0, 0, 0, 0], "all weights are zero"),
        (np.ones((4, 2)), "must be a 1D array"),
    ],
)
def test_wrong_weights_are_named_with_the_mend(w, message):
    with pytest.raises(ValueError, match=message):
        expected_calibration_error(Y, P, sample_weight=w)
    with pytest.raises(ValueError, match=message):
        IdentityCalibrator().fit(P, Y, sample_weight=w)


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


@pytest.mark.parametrize(
    ("factor", "words"),
    [
        (0.6, "row 0 sums to 0.6, not 1 (is a column missing?): logits"),
        (0.995, "row 0 sums to 0.995, not 1: logits"),
        (1.1, "row 0 sums to 1.1, not 1: logits"),
    ],
)
def test_a_row_that_sums_to_much_less_than_1_may_lack_a_column(factor, words):
    """The message asks so neither of rounding nor of a row that sums to more."""
    X = P.copy()
    X[0] *= factor
    with pytest.raises(ValueError, match=re.escape(words)):
        IdentityCalibrator().fit(X, Y)


def test_a_row_without_a_possible_class_is_refused():
    X = Z.copy()
    X[1] = -np.inf
    with pytest.raises(ValueError, match="every logit of row 1 is -inf"):
        IdentityCalibrator().fit(X, Y)


def test_a_binary_logit_is_the_pair_of_nought_and_itself():
    f = np.array([-2.0, 0.3, 1.5, -0.1])
    one = IdentityCalibrator().fit(f, [0, 1, 1, 0]).predict_proba(f)
    np.testing.assert_allclose(one[:, 1], 1 / (1 + np.exp(-f)), rtol=1e-15)
    two = IdentityCalibrator().fit(np.column_stack([0 * f, f]), [0, 1, 1, 0])
    np.testing.assert_array_equal(two.predict_proba(np.column_stack([0 * f, f])), one)


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
    with pytest.raises(ValueError, match=r"y has [\d.e+]+ at row 0, too large for float\d\d"):
        check_labels(y)


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
    session = InferenceSession(to_onnx(fitted).SerializeToString())
    label, _ = session.run(None, {session.get_inputs()[0].name: Z.astype(np.float32)})
    assert label.tolist() == words[Z.argmax(axis=1)].tolist()
    assert compare_calibrators(Z, y, ["temperature"], metrics=["log_loss"]).choice
    y = np.array(["ape", None], dtype=np.dtypes.StringDType(na_object=None))
    with pytest.raises(ValueError, match="y contains a missing label .*row 1"):
        check_labels(y)
