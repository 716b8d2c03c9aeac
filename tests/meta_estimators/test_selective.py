"""SelectiveClassifier: out-of-fold thresholds, labels where it is right often enough, storage."""

import copy
import re
import warnings

import numpy as np
import pandas as pd
import pytest
from calls import refused
from listing import known_failures
from sklearn import config_context
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    KFold,
    ShuffleSplit,
    StratifiedKFold,
    cross_val_predict,
)
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import check_estimator

from skcalib import (
    AutoCalibrator,
    CalibratedClassifier,
    IdentityCalibrator,
    SelectiveClassifier,
    TemperatureScaling,
    from_dict,
    load_json,
    save_json,
    to_dict,
)
from skcalib.metrics import selective_threshold

rng = np.random.default_rng(0)
NAMES = np.array(["ant", "bee", "cat"])
CODE = rng.integers(3, size=900)
Y = NAMES[CODE]
Z = 4 * (rng.normal(size=(900, 3)) + 2 * np.eye(3)[CODE])
FIT, NEW = slice(0, 600), slice(600, None)


def test_the_threshold_is_that_of_probabilities_out_of_fold():
    gate = SelectiveClassifier(GaussianNB(), accuracy=0.9).fit(Z, Y)
    P = cross_val_predict(GaussianNB(), Z, Y, method="predict_proba")
    expected = selective_threshold(Y, P, accuracy=0.9)
    assert (gate.thresholds_ == expected.threshold).all()
    assert gate.thresholds_.shape == (3,)
    assert (gate.coverage_, gate.accuracy_) == pytest.approx((expected.coverage, expected.accuracy))
    whole = GaussianNB().fit(Z, Y).predict_proba(Z)
    assert (gate.predict_proba(Z) == whole).all()
    assert (gate.accept(Z) == (whole.max(axis=1) >= expected.threshold)).all()
    assert repr(gate).endswith(f"accepts {gate.coverage_:.1%} of the rows, with an accuracy of "
                               f"{gate.accuracy_:.1%}")  # fmt: skip


def test_a_frozen_estimator_is_not_fitted_and_all_rows_choose():
    model = FrozenEstimator(GaussianNB().fit(Z[FIT], Y[FIT]))
    gate = SelectiveClassifier(model, accuracy=0.9).fit(Z[NEW], Y[NEW])
    expected = selective_threshold(Y[NEW], model.predict_proba(Z[NEW]), accuracy=0.9)
    assert gate.thresholds_[0] == expected.threshold
    assert gate.estimator_ is model.estimator
    steps = make_pipeline(FrozenEstimator(StandardScaler().fit(Z)), model)
    assert SelectiveClassifier(steps, accuracy=0.9).fit(Z[NEW], Y[NEW]).estimator_ is steps


def test_a_dict_has_a_threshold_for_each_predicted_class():
    """Each is that of the rows predicted as it; a class that is not named is never accepted."""
    accuracy = {"ant": 0.9, "cat": 0.95}
    gate = SelectiveClassifier(GaussianNB(), accuracy=accuracy).fit(Z, Y)
    P = cross_val_predict(GaussianNB(), Z, Y, method="predict_proba")
    top, predicted = P.max(axis=1), NAMES[P.argmax(axis=1)]
    for k, label in enumerate(NAMES):
        rows = predicted == label
        expected = np.inf
        if label in accuracy:
            hit = Y[rows] == label
            expected = selective_threshold(hit, top[rows], accuracy=accuracy[label]).threshold
        assert gate.thresholds_[k] == expected
    assert "bee" not in set(gate.predict(Z))
    assert set(gate.predict(Z)) == {"ant", "cat", None}


def test_rejected_rows_get_reject_label_or_none():
    gate = SelectiveClassifier(GaussianNB(), accuracy=0.95).fit(Z, Y)
    accepted, plain = gate.accept(Z), GaussianNB().fit(Z, Y).predict(Z)
    assert 0 < accepted.mean() < 1
    labels = gate.predict(Z)
    assert labels.dtype == object
    assert (labels[accepted] == plain[accepted]).all()
    assert set(labels[~accepted]) == {None}
    assert gate.predict(Z[accepted]).dtype.kind == "U"  # every row is accepted
    gate.set_params(reject_label="ask a person")
    assert set(gate.predict(Z)[~accepted]) == {"ask a person"}
    whole = SelectiveClassifier(GaussianNB(), accuracy=0.95, reject_label=-1).fit(Z, CODE)
    assert whole.predict(Z).dtype.kind == "i"
    assert (whole.predict(Z) == np.where(accepted, np.searchsorted(NAMES, plain), -1)).all()


def test_float32_probabilities_are_compared_as_float32():
    """0.7 of float32 is below 0.7 of float64, in which the threshold is stored."""
    P = np.repeat([[0.3, 0.7], [0.4, 0.6]], 200, axis=0)
    y = np.append(np.arange(200) >= 5, np.arange(200) >= 100).astype(int)
    identity = FrozenEstimator(IdentityCalibrator(input="proba").fit(P, y))
    gate = SelectiveClassifier(identity, accuracy=0.9)
    gate.fit(P, y)
    assert (gate.thresholds_ == 0.7).all()
    for new in (P, P.astype(np.float32)):
        assert (gate.accept(new) == (np.arange(400) < 200)).all()
    single = clone(gate).fit(P.astype(np.float32), y)
    assert (single.coverage_, single.accuracy_) == (gate.coverage_, gate.accuracy_) == (0.5, 0.975)


@pytest.mark.filterwarnings("ignore:accuracy. no threshold")
def test_folds_with_fewer_rows_than_columns_warn():
    """The estimator of all rows may be less accurate than those that choose the threshold."""
    X, y = np.random.default_rng(0).normal(size=(98, 98)), np.arange(98) % 2
    message = "a fold has only 78 training rows for 98 columns, so that the estimator"
    with pytest.warns(UserWarning, match=message):
        SelectiveClassifier(LogisticRegression(), accuracy=0.6).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        warnings.filterwarnings("ignore", "accuracy: no threshold")
        SelectiveClassifier(LogisticRegression(), accuracy=0.6).fit(X[:, :78], y)
        SelectiveClassifier(CalibratedClassifier(SVC(kernel="precomputed"))).fit(X @ X.T, y)
        text = make_pipeline(CountVectorizer(), LogisticRegression())
        SelectiveClassifier(text).fit([f"word{i}" for i in range(98)], y)
        frozen = FrozenEstimator(LogisticRegression().fit(X, y))
        SelectiveClassifier(frozen, accuracy=0.6).fit(X, y)


def test_without_a_threshold_it_warns_and_rejects_every_row():
    with pytest.warns(UserWarning, match="at least 59 rows are needed, .* but there are only 30"):
        gate = SelectiveClassifier(GaussianNB()).fit(Z[:30], Y[:30])
    assert np.isinf(gate.thresholds_).all()
    assert gate.coverage_ == 0
    assert np.isnan(gate.accuracy_)
    assert not gate.accept(Z).any()
    with pytest.warns(
        UserWarning,
        match="guarantees 0.9999, so that no row predicted as 'bee' is accepted: at least 29,956",
    ):
        SelectiveClassifier(GaussianNB(), accuracy={"bee": 0.9999}).fit(Z, Y)


BAD = {
    "accuracy must be a number in (0, 1); got 1.0.": {"accuracy": 1.0},
    "accuracy must be a number in (0, 1); got 2.": {"accuracy": {"ant": 2}},
    "confidence_level must be a number in (0, 1)": {"confidence_level": 1.5},
    "accuracy: 'bird' is not one of the labels ['ant', 'bee', 'cat'].": {"accuracy": {"bird": 0.9}},
    "accuracy is an empty dict: pass a number or {label: number}.": {"accuracy": {}},
    "reject_label='cat' is one of the labels: pass another label or None.": {"reject_label": "cat"},
    "reject_label=-1 is a number, but the labels are strings: pass a string.": {"reject_label": -1},
    "reject_label=['?'] is not a label: pass a number or a string.": {"reject_label": ["?"]},
    "cv='prefit' is not supported: write SelectiveClassifier(FrozenEstimator(estimator))": {
        "cv": "prefit"
    },
    "estimator: LinearSVC has no predict_proba: pass CalibratedClassifier(estimator).": {
        "estimator": LinearSVC()
    },
}


@pytest.mark.parametrize("message", BAD)
def test_errors_of_one_line(message):
    gate = SelectiveClassifier(GaussianNB()).set_params(**BAD[message])
    refused(f"^{re.escape(message)}", gate.fit, Z, Y)


def test_soft_hits_and_labels_unknown_to_a_frozen_estimator_are_refused():
    for kind in (SelectiveClassifier, CalibratedClassifier):
        with pytest.raises(ValueError, match=f"{kind.__name__} takes labels of 0 and 1 only"):
            kind(GaussianNB()).fit(Z, np.linspace(0, 1, 900))
    model = FrozenEstimator(GaussianNB().fit(Z[Y != "cat"], Y[Y != "cat"]))
    refused("label 'cat' at row", SelectiveClassifier(model).fit, Z, Y)


def test_a_class_that_a_fold_lacks_counts_as_wrong():
    """Its column is 0 in that fold."""
    order = np.argsort(Y, kind="stable")
    gate = SelectiveClassifier(GaussianNB(), accuracy=0.2, cv=KFold(3))
    with pytest.warns(RuntimeWarning, match="has no training row of label 'ant'"):
        gate.fit(Z[order], Y[order])
    assert 0 < gate.coverage_ <= 1
    assert gate.accuracy_ < 0.9


def test_a_row_that_folds_test_twice_counts_once():
    cv = ShuffleSplit(5, test_size=0.5, random_state=0)
    tested = np.unique(np.concatenate([test for _, test in cv.split(Z)]))
    gate = SelectiveClassifier(IdentityCalibrator(), accuracy=0.8, cv=cv).fit(Z, Y)
    P = IdentityCalibrator().fit(Z, Y).predict_proba(Z)
    expected = selective_threshold(Y[tested], P[tested], accuracy=0.8)
    assert (gate.thresholds_[0], gate.coverage_) == (expected.threshold, expected.coverage)


def test_a_calibrator_reads_all_folds_alike_and_may_know_a_class_without_rows():
    wide = np.column_stack([Z, np.full(900, -9.0)])
    gate = SelectiveClassifier(AutoCalibrator(), accuracy=0.9).fit(wide, CODE)
    assert gate.classes_.tolist() == [0, 1, 2, 3]
    assert gate.thresholds_.shape == (4,)


def test_weights_are_copies_and_relative_ones_are_refused():
    frozen = FrozenEstimator(GaussianNB().fit(Z[FIT], Y[FIT]))
    w = np.random.default_rng(1).integers(0, 4, 300)
    gate = SelectiveClassifier(frozen, accuracy=0.9)
    counted = clone(gate).fit(Z[NEW], Y[NEW], sample_weight=w)
    copied = clone(gate).fit(np.repeat(Z[NEW], w, axis=0), np.repeat(Y[NEW], w))
    assert (counted.thresholds_ == copied.thresholds_).all()
    assert (counted.coverage_, counted.accuracy_) == pytest.approx(
        (copied.coverage_, copied.accuracy_)
    )
    equal = clone(gate).fit(Z[NEW], Y[NEW], sample_weight=np.full(300, 7.5))
    assert (equal.thresholds_ == clone(gate).fit(Z[NEW], Y[NEW]).thresholds_).all()
    for w in (np.where(Y == "ant", 1.0, 10.0), np.linspace(1, 2, 900)):
        with pytest.raises(
            ValueError, match="sample_weight: with relative weights, a threshold has no"
        ):
            SelectiveClassifier(GaussianNB()).fit(Z, Y, sample_weight=w)
    unweighted = SelectiveClassifier(Unweighted(), accuracy=0.9)
    with pytest.warns(UserWarning, match="weights are used only in the choice of the threshold"):
        unweighted.fit(Z, Y, sample_weight=np.ones(900))


class Unweighted(GaussianNB):
    """Takes no weights."""

    def fit(self, X, y):
        return super().fit(X, y)


def test_grid_search_pipelines_frames_groups_and_routing():
    model = SelectiveClassifier(CalibratedClassifier(GaussianNB(), cv=2), accuracy=0.8, cv=2)
    grid = {"estimator__calibrator": [IdentityCalibrator(), TemperatureScaling()]}
    search = GridSearchCV(model, grid, scoring="neg_log_loss", cv=2)
    frame = pd.DataFrame(Z, columns=list("abc"))
    pipe = make_pipeline(StandardScaler().set_output(transform="pandas"), search).fit(frame, Y)
    assert pipe.predict_proba(frame).shape == (900, 3)
    best = search.fit(frame, Y).best_estimator_
    assert best.feature_names_in_.tolist() == ["a", "b", "c"]
    assert best.n_features_in_ == 3
    groups = np.arange(900) % 10
    by_group = SelectiveClassifier(GaussianNB(), accuracy=0.8, cv=GroupKFold(5))
    assert by_group.fit(Z, Y, groups=groups).coverage_ > 0
    with config_context(enable_metadata_routing=True):
        inner = LogisticRegression().set_fit_request(sample_weight=True)
        routed = SelectiveClassifier(inner, accuracy=0.8, cv=GroupKFold(5))
        routed.fit(Z, Y, groups=groups, sample_weight=np.ones(900))
        assert routed.coverage_ > 0
    assert "GaussianNB" in by_group._repr_html_()
    with pytest.raises(NotFittedError):
        clone(by_group).accept(Z)


RELATIVE = {"check_sample_weights_not_overwritten": "relative weights are refused"}
KNOWN = dict.fromkeys(known_failures("`SelectiveClassifier`"), "the page of trust has the reason")


class AcceptsAll(SelectiveClassifier):
    """Accepts every row."""

    def fit(self, X, y, sample_weight=None, **params):
        super().fit(X, y, sample_weight, **params)
        self.thresholds_ = np.zeros_like(self.thresholds_)
        return self


@pytest.mark.filterwarnings("ignore:accuracy. no threshold")
@pytest.mark.filterwarnings("ignore:The least populated class in y")  # of scikit-learn 1.6's data
@pytest.mark.parametrize(
    ("gate", "expected"),
    [
        (SelectiveClassifier(LogisticRegression(), accuracy=0.5), KNOWN),
        pytest.param(
            AcceptsAll(LogisticRegression(), accuracy=0.5), RELATIVE, marks=pytest.mark.slow
        ),
    ],
)
def test_it_passes_the_checks_of_scikit_learn(gate, expected):
    results = check_estimator(gate, expected_failed_checks=expected, on_fail=None, on_skip=None)
    failed = [each["check_name"] for each in results if each["status"] == "failed"]
    assert not failed
    assert {each["check_name"] for each in results if each["status"] == "xfail"} == set(expected)


# ------------------------------------------------------------------ storage


@pytest.mark.parametrize("accuracy", [0.9, {"ant": 0.9, "cat": 0.95}])
@pytest.mark.parametrize("frozen", [False, True])
def test_a_stored_gate_decides_as_before(tmp_path, accuracy, frozen):
    calibrator = TemperatureScaling()
    if frozen:
        calibrator = FrozenEstimator(calibrator.fit(Z[FIT], Y[FIT]))
    gate = SelectiveClassifier(
        calibrator, accuracy=accuracy, reject_label="?", cv=StratifiedKFold(3)
    ).fit(Z, Y)
    save_json(gate, tmp_path / "gate.json")
    again = load_json(tmp_path / "gate.json")
    assert (again.predict(Z) == gate.predict(Z)).all()
    assert (again.predict_proba(Z) == gate.predict_proba(Z)).all()
    assert (again.accuracy, again.coverage_) == (accuracy, gate.coverage_)
    assert isinstance(again.estimator, FrozenEstimator) == frozen


def test_a_gate_around_another_classifier_is_not_stored():
    gate = SelectiveClassifier(GaussianNB(), accuracy=0.9).fit(Z, Y)
    refused("Only calibrators of skcalib are stored as JSON", to_dict, gate)


STORED = to_dict(SelectiveClassifier(TemperatureScaling(), accuracy=0.9).fit(Z, Y))
HOSTILE = {
    "thresholds_ must be a float >= 0 or inf": ("thresholds_", [-1.0, 0.5, 0.5]),
    "thresholds_ must be a float >= 0 or inf ": ("thresholds_", ["nan", 0.5, 0.5]),
    "classes_ must be those of estimator_": ("classes_", ["a", "b", "c"]),
    "estimator_ must be a calibrator": ("estimator_", 3),
    "coverage_ must be a float in": ("coverage_", 2.0),
    "has no fitted attribute 'predict'": ("predict", 1),
    "must have the fitted attributes accuracy_": ("other_", 1),
}


@pytest.mark.parametrize("message", HOSTILE)
def test_hostile_files_are_refused(message):
    name, value = HOSTILE[message]
    document = copy.deepcopy(STORED)
    if isinstance(value, list):
        document["fitted"][name]["array"] = value
    else:
        document["fitted"][name] = value
    refused(message.strip(), from_dict, document)


def test_a_stored_gate_has_an_estimator():
    document = copy.deepcopy(STORED)
    del document["parameters"]["estimator"]
    refused("must have the parameter 'estimator'", from_dict, document)


# ------------------------------------------------------------------ the promise


def noise_beside_a_class(rng, n):
    code = rng.integers(2, size=n)
    X = rng.normal(size=(n, 20))
    X[:, 0] += 1.5 * code
    return X, code


def noise_about_a_score(rng, n, right=0.697):
    """The largest of five columns is right in just less than the wanted share of rows."""
    X = rng.normal(size=(n, 5))
    X[np.arange(n), rng.integers(5, size=n)] += 2.0
    top, other = X.argmax(axis=1), rng.integers(1, 5, size=n)
    return X, np.where(rng.random(n) < right, top, (top + other) % 5)


TREE = DecisionTreeClassifier(max_depth=4, random_state=0)
AUTO = AutoCalibrator(input="logits", classes=np.arange(5))
LIMIT = 0.05 + 2 * np.sqrt(0.05 * 0.95 / 100)  # of 100 samples


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:accuracy. no threshold")
@pytest.mark.parametrize(
    ("draw", "outside", "inside", "target", "least"),
    [
        (noise_beside_a_class, LogisticRegression(), TREE, 0.85, 0.5),
        (noise_about_a_score, AUTO, AUTO, 0.7, LIMIT),
    ],
)
def test_rows_of_the_fit_must_not_choose_the_threshold(draw, outside, inside, target, least):
    """With columns of noise, in sample the promise breaks far more often than out of fold."""
    rng, broken = np.random.default_rng(0), {"in": [], "out": []}
    X_new, y_new = draw(rng, 20_000)
    for _ in range(100):
        X, y = draw(rng, 150)
        ways = {"out": outside, "in": FrozenEstimator(clone(inside).fit(X, y))}
        for way, estimator in ways.items():
            gate = SelectiveClassifier(estimator, accuracy=target).fit(X, y)
            accepted = gate.accept(X_new)
            right = gate.classes_[gate.predict_proba(X_new).argmax(axis=1)] == y_new
            broken[way].append(accepted.any() and right[accepted].mean() < target)
    assert np.mean(broken["out"]) <= LIMIT
    assert np.mean(broken["in"]) > least
