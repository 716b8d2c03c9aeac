"""What holds for every calibrator, found by discovery: a new one is tested on the day it is added.

Most of these are faults that have happened in other libraries.
"""

import pickle

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit, softmax
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import check_estimator

import skcalib.calibrators
from skcalib import CalibratedClassifier

# Parameters under which a calibrator goes another way than by default.
VARIANTS = {
    "TemperatureScaling": [{"objective": "brier"}, {"objective": "soft_binned"}],
    "VectorScaling": [{"penalty": None}],
    "MatrixScaling": [{"penalty": None}, {"penalty": "odir"}],
    "SplineCalibrator": [{"mode": "top"}, {"target": "cumulative", "runout": "cubic"}],
    "HistogramBinning": [
        {"strategy": "quantile", "n_bins": 8},
        {"class_conditional": False},
        {"empty": "prior"},
    ],
    "IsotonicCalibrator": [{"interpolation": "step"}],
}


def discover():
    for name in skcalib.calibrators.__all__:
        for keywords in [{}, *VARIANTS.get(name, [])]:
            yield getattr(skcalib.calibrators, name)(**keywords)


CALIBRATORS = list(discover())
DEFAULTS = [getattr(skcalib.calibrators, name)() for name in skcalib.calibrators.__all__]

every_calibrator = pytest.mark.parametrize("calibrator", CALIBRATORS, ids=str)
every_kind = pytest.mark.parametrize("kind", ["logits", "proba"])
every_size = pytest.mark.parametrize("n_classes", [2, 4])


def make(kind, n_classes, n=240, seed=0, scale=2.5):
    """Scores of an over-confident model and labels drawn from what it should have said.

    A third of the rows has the scores of another row: ties.
    """
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(n, n_classes)) * 1.5 + np.linspace(0, 0.5, n_classes)
    Z[::3] = Z[1::3]
    code = (softmax(Z, axis=1).cumsum(axis=1) < rng.random((n, 1))).sum(axis=1)
    return (scale * Z if kind == "logits" else softmax(scale * Z, axis=1)), code


def tells_classes_apart(calibrator):
    """Not so: one map for all classes, one temperature, or the top label alone."""
    return not (
        type(calibrator).__name__ in ("IdentityCalibrator", "TemperatureScaling")
        or getattr(calibrator, "mode", None) == "top"
        or not getattr(calibrator, "class_conditional", True)
    )


def assert_simplex(proba, shape, atol=1e-9):
    assert proba.shape == shape
    assert np.isfinite(proba).all()
    assert proba.min() >= 0
    assert proba.max() <= 1
    assert_allclose(proba.sum(axis=1, dtype=np.float64), 1, atol=atol)


def hard_rows(kind, n_classes):
    """Rows at the edge: certain ones, and ones far from any that a fit has seen."""
    if kind == "proba":
        return np.vstack([np.eye(n_classes), np.full((1, n_classes), 1 / n_classes)])
    certain = np.where(np.eye(n_classes, dtype=bool), 3.0, -np.inf)
    far = 200.0 * np.eye(n_classes)
    return np.vstack([certain, far, -far, np.zeros((1, n_classes)), np.full((1, n_classes), 1e6)])


# ------------------------------------------------------------------ what comes out


@every_calibrator
@every_kind
@every_size
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_are_probability_vectors(calibrator, kind, n_classes, dtype):
    """Within [0, 1], summing to 1, never NaN, also on certain scores and far from the fit's."""
    S, code = make(kind, n_classes)
    fitted = clone(calibrator).fit(S.astype(dtype), code)
    atol = 1e-9 if dtype == np.float64 else 1e-6
    for T in (S, make(kind, n_classes, seed=1)[0], hard_rows(kind, n_classes)):
        proba = fitted.predict_proba(T.astype(dtype))
        assert_simplex(proba, T.shape, atol)
        assert proba.dtype == dtype


@every_calibrator
@every_kind
@every_size
def test_certain_scores_can_be_fitted(calibrator, kind, n_classes):
    """Probabilities of exactly 0 and 1 and logits of -inf, right and wrong."""
    S, code = make(kind, n_classes)
    if kind == "proba":
        S[::3] = np.eye(n_classes)[S[::3].argmax(axis=1)]
    else:
        S[::3, 1] = -np.inf
        S[5, 1:] = -np.inf
    fitted = clone(calibrator).fit(S, code)
    assert_simplex(fitted.predict_proba(S), S.shape)
    assert_simplex(
        fitted.predict_proba(hard_rows(kind, n_classes)),
        (len(hard_rows(kind, n_classes)), n_classes),
    )


@every_calibrator
@every_kind
def test_columns_belong_to_their_classes(calibrator, kind):
    """Naming the classes otherwise moves the columns and nothing else."""
    S, code = make(kind, 4, n=420)
    order = np.array([2, 0, 3, 1])
    expected = clone(calibrator).fit(S, code).predict_proba(S)
    moved = clone(calibrator).fit(S[:, order], np.argsort(order)[code])
    assert_allclose(moved.predict_proba(S[:, order]), expected[:, order], atol=1e-6)


@pytest.mark.parametrize("calibrator", [c for c in CALIBRATORS if tells_classes_apart(c)], ids=str)
@every_kind
def test_a_frequent_class_gets_the_mass(calibrator, kind):
    """Scores that know nothing, labels nearly always of one class: no mass in a wrong column."""
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(600, 3))
    S = Z if kind == "logits" else softmax(Z, axis=1)
    code = np.where(rng.random(600) < 0.94, 1, rng.integers(0, 3, 600))
    mean = clone(calibrator).fit(S, code).predict_proba(S).mean(axis=0)
    assert mean.argmax() == 1
    assert mean[1] > 0.6


@every_calibrator
@every_kind
def test_a_calibrator_mends(calibrator, kind):
    """The Brier score of an over-confident model falls, on rows not fitted on."""
    S, code = make(kind, 3, n=3000, scale=4.0)
    T, test = make(kind, 3, n=3000, seed=7, scale=4.0)
    raw = T if kind == "proba" else softmax(T, axis=1)
    mended = clone(calibrator).fit(S, code).predict_proba(T)
    onehot = np.eye(3)[test]
    before, after = ((raw - onehot) ** 2).sum(), ((mended - onehot) ** 2).sum()
    if type(calibrator).__name__ == "IdentityCalibrator":
        assert_allclose(after, before)
    else:
        assert after < 0.97 * before


@every_calibrator
@every_kind
def test_predict_is_the_label_of_the_largest_probability(calibrator, kind):
    S, code = make(kind, 4)
    names = np.array(["a", "b", "c", "d"])
    fitted = clone(calibrator).fit(S, names[code])
    proba = fitted.predict_proba(S)
    assert_array_equal(fitted.predict(S), [names[max(range(4), key=lambda k: p[k])] for p in proba])
    assert fitted.score(S, names[code]) == np.mean(fitted.predict(S) == names[code])


# ------------------------------------------------------------------ same question, same answer


@every_calibrator
@every_kind
@every_size
def test_row_order_means_nothing(calibrator, kind, n_classes):
    S, code = make(kind, n_classes)
    order = np.random.default_rng(3).permutation(len(code))
    fitted = clone(calibrator).fit(S, code)
    shuffled = clone(calibrator).fit(S[order], code[order])
    assert_allclose(shuffled.predict_proba(S), fitted.predict_proba(S), atol=1e-7)
    assert_array_equal(fitted.predict_proba(S[order]), fitted.predict_proba(S)[order])


@every_calibrator
@every_kind
@every_size
def test_rows_are_calibrated_one_by_one_as_in_a_batch(calibrator, kind, n_classes):
    S, code = make(kind, n_classes)
    fitted = clone(calibrator).fit(S, code)
    batch = fitted.predict_proba(S[:25])
    single = np.vstack([fitted.predict_proba(S[i : i + 1]) for i in range(25)])
    assert_allclose(single, batch, rtol=1e-12, atol=1e-15)


@every_calibrator
@every_kind
@every_size
def test_a_weight_of_two_is_two_rows(calibrator, kind, n_classes):
    S, code = make(kind, n_classes)
    w = np.random.default_rng(2).integers(0, 4, len(code))
    times = np.repeat(np.arange(len(code)), w)
    weighted = clone(calibrator).fit(S, code, sample_weight=w)
    repeated = clone(calibrator).fit(S[times], code[times])
    assert_allclose(weighted.predict_proba(S), repeated.predict_proba(S), atol=1e-7)


@every_calibrator
@every_kind
@every_size
def test_a_weight_of_zero_is_absence(calibrator, kind, n_classes):
    S, code = make(kind, n_classes)
    w = np.random.default_rng(2).random(len(code)) + 0.1
    w[::4] = 0
    keep = w > 0
    weighted = clone(calibrator).fit(S, code, sample_weight=w)
    absent = clone(calibrator).fit(S[keep], code[keep], sample_weight=w[keep])
    assert_array_equal(weighted.predict_proba(S), absent.predict_proba(S))


@every_calibrator
@every_kind
def test_weights_count(calibrator, kind):
    """Another weighting is another fit."""
    S, code = make(kind, 4)
    w = np.where(code == S.argmax(axis=1), 5.0, 0.2)
    plain = clone(calibrator).fit(S, code).predict_proba(S)
    weighted = clone(calibrator).fit(S, code, sample_weight=w).predict_proba(S)
    if type(calibrator).__name__ == "IdentityCalibrator":
        assert_array_equal(weighted, plain)
    else:
        assert np.abs(weighted - plain).max() > 0.01


@every_calibrator
@every_kind
@every_size
def test_float32_scores_give_the_fit_of_float64(calibrator, kind, n_classes):
    """The same numbers in half the bits: nothing but the last rounding differs."""
    S, code = make(kind, n_classes)
    S = S.astype(np.float32)
    single = clone(calibrator).fit(S, code).predict_proba(S)
    double = clone(calibrator).fit(S.astype(np.float64), code).predict_proba(S.astype(np.float64))
    assert single.dtype == np.float32
    assert_allclose(single, double, atol=2e-6)


@every_calibrator
def test_float16_scores_are_understood(calibrator):
    """Their rows sum to 1 only within 5e-4, and are probabilities all the same."""
    S, code = make("proba", 4)
    fitted = clone(calibrator).fit(S.astype(np.float16), code)
    assert fitted.input_ == "proba"
    assert_simplex(fitted.predict_proba(S.astype(np.float16)), S.shape, atol=2e-3)


@every_calibrator
@every_kind
def test_one_column_is_the_second_class(calibrator, kind):
    """P(second class), or a binary logit f, is the same as (1 - p, p), or (0, f)."""
    Z, code = make("logits", 2)
    f = Z[:, 1] - Z[:, 0]
    column = f if kind == "logits" else expit(f)
    wide = np.c_[np.zeros(len(f)), f] if kind == "logits" else np.c_[1 - column, column]
    expected = clone(calibrator).fit(wide, code).predict_proba(wide)
    for narrow in (column, column[:, None]):
        fitted = clone(calibrator).fit(narrow, code)
        assert fitted.n_features_in_ == 1
        assert_allclose(fitted.predict_proba(narrow), expected, atol=1e-12)


@every_calibrator
def test_logits_and_their_softmax_give_one_map(calibrator):
    """For logits normalised to log-probabilities, the space is only a way of writing."""
    Z, code = make("logits", 3)
    logits = Z - np.log(np.exp(Z).sum(axis=1, keepdims=True))
    from_logits = clone(calibrator).fit(logits, code).predict_proba(logits)
    P = np.exp(logits)
    from_proba = clone(calibrator).fit(P, code).predict_proba(P)
    assert_allclose(from_logits, from_proba, atol=1e-6)


@every_calibrator
def test_a_refit_forgets_the_last_fit(calibrator):
    """Other classes, another space, a frame with names: nothing stays behind."""
    S, code = make("proba", 2)
    fitted = clone(calibrator).fit(pd.DataFrame(S, columns=["no", "yes"]), np.where(code, "y", "n"))
    Z, many = make("logits", 4, seed=5)
    fitted.fit(Z, many)
    fresh = clone(calibrator).fit(Z, many)
    assert set(vars(fitted)) == set(vars(fresh))
    assert_array_equal(fitted.predict_proba(Z), fresh.predict_proba(Z))
    assert_array_equal(fitted.classes_, [0, 1, 2, 3])


@every_calibrator
def test_clone_and_parameters_go_round(calibrator):
    S, code = make("proba", 3)
    copy = clone(clone(calibrator).set_params(input="proba", classes=[5, 6, 7]).fit(S, code + 5))
    assert copy.get_params()["classes"] == [5, 6, 7]
    assert copy.get_params()["input"] == "proba"
    assert not [name for name in vars(copy) if name.endswith("_")]
    assert type(copy)(**copy.get_params()).get_params() == copy.get_params()


@every_calibrator
@every_kind
def test_pickle_gives_the_same_probabilities(calibrator, kind):
    S, code = make(kind, 4)
    fitted = clone(calibrator).fit(S, code)
    again = pickle.loads(pickle.dumps(fitted))
    assert_array_equal(again.predict_proba(S), fitted.predict_proba(S))


@every_calibrator
@every_kind
def test_what_is_passed_in_is_not_changed(calibrator, kind):
    """Arrays that cannot be written to are as good as others."""
    S, code = make(kind, 3)
    w = np.linspace(0.0, 2.0, len(code))
    kept = [S.copy(), code.copy(), w.copy()]
    for array in (S, code, w):
        array.flags.writeable = False
    fitted = clone(calibrator).fit(S, code, sample_weight=w)
    state = joblib.hash(vars(fitted))
    fitted.predict_proba(S)[:] = -1.0
    fitted.predict(S)
    for array, before in zip((S, code, w), kept, strict=True):
        assert_array_equal(array, before)
    assert joblib.hash(vars(fitted)) == state


@every_calibrator
@every_kind
def test_memory_layout_means_nothing(calibrator, kind):
    S, code = make(kind, 4)
    expected = clone(calibrator).fit(S, code).predict_proba(S)
    strided = np.repeat(S, 2, axis=1)[:, ::2]
    frame = pd.DataFrame(S, columns=list("abcd"), index=np.arange(len(S))[::-1] + 3)
    for T in (
        np.asfortranarray(S),
        strided,
        frame,
        pl.DataFrame(S, schema=list("abcd")),
        S.tolist(),
    ):
        assert_allclose(clone(calibrator).fit(T, code).predict_proba(T), expected, atol=1e-7)


# ------------------------------------------------------------------ labels of any kind


LABELS = {
    "strings": lambda code: np.array(["b", "c", "z"])[code],
    "objects": lambda code: np.array(["b", "c", "z"], dtype=object)[code],
    "1..K": lambda code: code + 1,
    "negative": lambda code: np.array([-5, -1, 3])[code],
    "floats": lambda code: code + 1.0,
    "unsigned": lambda code: (code + 4).astype(np.uint8),
    "list": lambda code: [("b", "c", "z")[k] for k in code],
    "pandas without 0 in its index": lambda code: pd.Series(
        code + 4, index=np.arange(len(code)) + 9
    ),
    "pandas strings": lambda code: pd.Series(np.array(["b", "c", "z"])[code]),
    "pandas categories": lambda code: pd.Series(pd.Categorical(np.array(["b", "c", "z"])[code])),
    "pandas nullable": lambda code: pd.Series(code + 1, dtype="Int64"),
    "polars": lambda code: pl.Series("y", code + 2),
    "polars strings": lambda code: pl.Series("y", [("b", "c", "z")[k] for k in code]),
}


@every_calibrator
@pytest.mark.parametrize("kind", LABELS)
def test_labels_of_any_kind(calibrator, kind):
    S, code = make("proba", 3)
    expected = clone(calibrator).fit(S, code)
    y = LABELS[kind](code)
    fitted = clone(calibrator).fit(S, y)
    assert_array_equal(fitted.predict_proba(S), expected.predict_proba(S))
    assert_array_equal(fitted.classes_, np.unique(np.asarray(y)))
    assert_array_equal(fitted.predict(S), fitted.classes_[expected.predict(S)])


@every_calibrator
@pytest.mark.parametrize("labels", [(-1, 1), (1, 2), (False, True), ("no", "yes")], ids=str)
def test_binary_labels_of_any_kind(calibrator, labels):
    S, code = make("proba", 2)
    expected = clone(calibrator).fit(S, code)
    fitted = clone(calibrator).fit(S, np.array(labels)[code])
    assert_array_equal(fitted.predict_proba(S), expected.predict_proba(S))
    assert_array_equal(fitted.classes_, labels)


@every_calibrator
@every_kind
@pytest.mark.parametrize("missing", [0, 2, 3])
def test_a_class_may_be_missing_from_the_calibration_set(calibrator, kind, missing):
    """Given `classes`, and for labels 0..K-1 also without, if 0 occurs."""
    S, code = make(kind, 4)
    some = code != missing
    names = np.array(["a", "b", "c", "d"])
    fitted = clone(calibrator).set_params(classes=names[::-1]).fit(S[some], names[code[some]])
    proba = fitted.predict_proba(S)
    assert_simplex(proba, (len(S), 4))
    assert_array_equal(fitted.classes_, names)
    weightless = clone(calibrator).fit(S, names[code], sample_weight=some.astype(float))
    assert_array_equal(weightless.predict_proba(S), proba)
    if missing:
        whole = clone(calibrator).fit(S[some], code[some])
        assert_array_equal(whole.classes_, [0, 1, 2, 3])
        assert_array_equal(whole.predict_proba(S), proba)


# ------------------------------------------------------------------ what is refused


def spoil(S, at, value):
    S = S.copy()
    S[at] = value
    return S


Z0, CODE0 = make("logits", 4, n=60)
P0 = softmax(Z0, axis=1)
W0 = np.ones(60)
NAMES0 = np.array(["a", "b", "c", "d"])[CODE0]

# name: (parameters, scores, labels, weights, what the message says)
BAD_FITS = {
    "NaN": ({}, spoil(Z0, (7, 2), np.nan), CODE0, None, r"NaN .*row 7, column 2\); drop"),
    "+inf": ({}, spoil(Z0, (7, 2), np.inf), CODE0, None, r"infinity .*row 7, column 2\); drop"),
    "dead row": ({}, spoil(Z0, 7, -np.inf), CODE0, None, r"every logit of row 7 is -inf"),
    "empty": ({}, Z0[:0], CODE0[:0], None, r"0 sample\(s\)"),
    "three axes": ({}, Z0[:, :, None], CODE0, None, r"dim 3"),
    "lengths": ({}, Z0, CODE0[:-1], None, r"60 rows, y has 59"),
    "no labels": ({}, Z0, None, None, r"requires y to be passed"),
    "one-hot labels": ({}, Z0, np.eye(4)[CODE0], None, r"pass y.argmax\(axis=1\)"),
    "NaN label": ({}, Z0, spoil(CODE0.astype(float), 7, np.nan), None, r"NaN .*row 7\); drop"),
    "None label": ({}, Z0, spoil(NAMES0.astype(object), 7, None), None, r"missing label.*row 7"),
    "mixed labels": (
        {},
        Z0,
        spoil(NAMES0.astype(object), 7, 3),
        None,
        r"mixes strings and numbers",
    ),
    "unknown label": (
        {"classes": [0, 1, 2, 3]},
        Z0,
        spoil(CODE0, 7, 9),
        None,
        r"label 9 at row 7 is not in classes=.*add it to classes",
    ),
    "labels of too few classes": (
        {},
        Z0[NAMES0 != "a"],
        NAMES0[NAMES0 != "a"],
        None,
        "pass classes=",
    ),
    "labels of too many classes": ({}, Z0[:, :3], NAMES0, None, "4 distinct labels .* 3 columns"),
    "doubled class": ({"classes": list("abca")}, Z0, NAMES0, None, "has a label twice"),
    "wrong classes": (
        {"classes": list("abc")},
        Z0,
        NAMES0,
        None,
        "3 labels but there are 4 columns",
    ),
    "negative weight": ({}, Z0, CODE0, spoil(W0, 7, -1), "non-negative; row 7 has -1"),
    "NaN weight": ({}, Z0, CODE0, spoil(W0, 7, np.nan), "finite .*row 7 has nan"),
    "no weight": ({}, Z0, CODE0, 0 * W0, "all weights are zero"),
    "weight of another length": ({}, Z0, CODE0, W0[1:], r"give one weight for each row"),
    "weights in columns": ({}, Z0, CODE0, np.ones((60, 2)), "must be a 1D array"),
    "one row off the simplex": (
        {},
        spoil(P0, 7, [0.5, 0.5, 0.3, 0.0]),
        CODE0,
        None,
        r"row 7 sums to 1.3, not 1.*input='logits'.*divide",
    ),
    "logits called probabilities": ({"input": "proba"}, Z0, CODE0, None, r"row 0 .*input='logits'"),
    "negative probability": (
        {"input": "proba"},
        spoil(P0, 7, [1.2, -0.2, 0.0, 0.0]),
        CODE0,
        None,
        r"row 7 holds .*outside \[0, 1\]",
    ),
    "unheard-of input": ({"input": "odds"}, P0, CODE0, None, "'input' parameter"),
}

# name: (fitted on, asked about, what the message says)
BAD_QUESTIONS = {
    "logits after probabilities": (P0, Z0, r"row 0 .*fitted on probabilities"),
    "probabilities after logits": (Z0, P0, r"all rows are probability vectors .*fitted on logits"),
    "other columns": (Z0, Z0[:, :3], r"has 3 features, but \w+ is expecting 4 features"),
    "one column": (Z0, Z0[:, :1], r"has 1 features, but \w+ is expecting 4 features"),
    "a row as a vector": (Z0, Z0[0], r"Reshape your data"),
    "NaN": (Z0, spoil(Z0, (7, 2), np.nan), r"NaN .*row 7"),
    "+inf": (Z0, spoil(Z0, (7, 2), np.inf), r"infinity .*row 7"),
    "dead row": (Z0, spoil(Z0, 7, -np.inf), r"every logit of row 7 is -inf"),
    "one row off the simplex": (P0, spoil(P0, 7, [0.5, 0.5, 0.3, 0.0]), r"row 7 sums to 1.3"),
    "nothing": (Z0, Z0[:0], r"0 sample\(s\)"),
}


@every_calibrator
@pytest.mark.parametrize("case", BAD_FITS)
def test_a_bad_fit_says_what_where_and_the_mend_and_changes_nothing(calibrator, case):
    parameters, S, y, w, message = BAD_FITS[case]
    fitted = clone(calibrator).fit(Z0, CODE0)
    fitted.set_params(**parameters)
    state, proba = joblib.hash(vars(fitted)), fitted.predict_proba(Z0)
    with pytest.raises(ValueError, match=message) as caught:
        fitted.fit(S, y, sample_weight=w)
    assert joblib.hash(vars(fitted)) == state
    assert_array_equal(fitted.predict_proba(Z0), proba)
    if case != "three axes":  # scikit-learn's own message
        assert "\n" not in str(caught.value).strip()


@every_calibrator
@pytest.mark.parametrize("case", BAD_QUESTIONS)
def test_a_bad_question_says_what_where_and_the_mend_and_changes_nothing(calibrator, case):
    S, T, message = BAD_QUESTIONS[case]
    fitted = clone(calibrator).fit(S, CODE0)
    state = joblib.hash(vars(fitted))
    for ask in (fitted.predict_proba, fitted.predict):
        with pytest.raises(ValueError, match=message):
            ask(T)
    assert joblib.hash(vars(fitted)) == state


@every_calibrator
def test_a_fit_that_breaks_off_changes_nothing(calibrator, monkeypatch):
    """Fitted attributes are set together, at the very end."""
    fitted = clone(calibrator).fit(Z0, CODE0)
    state = joblib.hash(vars(fitted))

    whole = type(calibrator)._fit

    def interrupted(self, scores, code, w):
        whole(self, scores, code, w)
        raise KeyboardInterrupt

    monkeypatch.setattr(type(calibrator), "_fit", interrupted)
    with pytest.raises(KeyboardInterrupt):
        fitted.fit(P0, NAMES0)
    assert joblib.hash(vars(fitted)) == state


# ------------------------------------------------------------------ scikit-learn's own checks


def failures(estimator):
    results = check_estimator(estimator, on_fail=None, on_skip=None)
    return {r["check_name"]: r["exception"] for r in results if r["status"] == "failed"}


LABELS_AND_COLUMNS = "the data have more labels than columns, or fewer; a column is a class here"
FEATURES = "the features are no scores: the check asks for an accuracy that they cannot give"
EITHER = "the features lie in [0, 1] without summing to 1: logits or probabilities is asked"

# Checks whose data are not scores of classes. A bare calibrator passes all others.
EXPECTED_FAILED_CHECKS = {
    "check_estimators_overwrite_params": LABELS_AND_COLUMNS,
    "check_estimators_fit_returns_self": LABELS_AND_COLUMNS,
    "check_readonly_memmap_input": LABELS_AND_COLUMNS,
    "check_estimators_dtypes": LABELS_AND_COLUMNS,
    "check_classifiers_classes": LABELS_AND_COLUMNS,
    "check_fit2d_1sample": LABELS_AND_COLUMNS,
    "check_classifiers_train": FEATURES,
    "check_fit_score_takes_y": EITHER,
    "check_sample_weights_list": EITHER,
    "check_sample_weight_equivalence_on_dense_data": EITHER,
    "check_dtype_object": EITHER,
    "check_estimators_nan_inf": EITHER,
    "check_classifiers_one_label": EITHER,
    "check_classifiers_one_label_sample_weights": EITHER,
    "check_supervised_y_2d": EITHER,
}


@pytest.mark.filterwarnings("ignore")
def test_bare_calibrators_pass_every_check_whose_data_are_scores():
    """The list of the others is as short as it can be, and told the space, half of it passes."""
    failed = set()
    for calibrator in DEFAULTS:
        found = set(failures(clone(calibrator)))
        assert found <= set(EXPECTED_FAILED_CHECKS), f"{calibrator}: {found}"
        told = set(failures(clone(calibrator).set_params(input="logits")))
        either = {name for name, why in EXPECTED_FAILED_CHECKS.items() if why == EITHER}
        assert told <= set(EXPECTED_FAILED_CHECKS) - either, f"{calibrator}: {told & either}"
        failed |= found
    assert set(EXPECTED_FAILED_CHECKS) == failed


# A forest that draws no rows, and a solver that converges: fits that respect weights exactly.
JOINED = [
    *[CalibratedClassifier(LogisticRegression(), calibrator, cv=3) for calibrator in DEFAULTS],
    *[CalibratedClassifier(GaussianNB(), calibrator, cv=3) for calibrator in DEFAULTS],
    CalibratedClassifier(LogisticRegression(), cv=3, ensemble=True),
    CalibratedClassifier(LinearSVC(tol=1e-10, random_state=0), cv=3),
    CalibratedClassifier(
        RandomForestClassifier(n_estimators=5, bootstrap=False, random_state=0), cv=3
    ),
    CalibratedClassifier(LogisticRegression(), LogisticRegression(), cv=3),
    CalibratedClassifier(GaussianNB(), GaussianNB(), cv=3),
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("model", JOINED, ids=lambda model: " ".join(str(model).split()))
def test_scikit_learn_finds_no_fault_in_a_calibrated_classifier(model):
    assert failures(model) == {}
