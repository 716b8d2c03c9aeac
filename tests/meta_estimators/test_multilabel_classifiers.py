"""CalibratedClassifier on labels of which a row can have several, against loops over folds."""

import pickle

import numpy as np
import pandas as pd
import pytest
from calls import refused
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.datasets import make_multilabel_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, Perceptron
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, cross_val_predict
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import ClassifierChain, MultiOutputClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from skcalib import (
    AutoCalibrator,
    CalibratedClassifier,
    GroupwiseCalibrator,
    MultilabelCalibrator,
    SelectiveClassifier,
    TemperatureScaling,
    load_json,
    save_json,
)

X, Y = make_multilabel_classification(300, n_features=8, n_classes=3, random_state=0)
NEW = make_multilabel_classification(40, n_features=8, n_classes=3, random_state=1)[0]
FOLDS = list(KFold(3).split(X))
MODELS = {
    "multi-output": MultiOutputClassifier(GaussianNB()),
    "one-vs-rest": OneVsRestClassifier(LogisticRegression()),
    "one-vs-rest, probabilities": OneVsRestClassifier(GaussianNB()),
    "chain": ClassifierChain(LogisticRegression()),
    "forest": RandomForestClassifier(20, min_samples_leaf=5, random_state=0),
    "tree": DecisionTreeClassifier(min_samples_leaf=20, random_state=0),
    "neighbours": KNeighborsClassifier(20),
    "network": MLPClassifier((4,), max_iter=20, solver="lbfgs", random_state=0),
    "pipeline": make_pipeline(StandardScaler(), RandomForestClassifier(5, random_state=0)),
}


def slow_scores(model, data):
    """Return the logits or probabilities of each label, and their kind."""
    if hasattr(model, "decision_function"):
        return model.decision_function(data), "logits"
    S = model.predict_proba(data)
    if isinstance(S, list):
        S = np.array([[S[j][i][1] for j in range(len(S))] for i in range(len(data))])
    return S, "proba"


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", MODELS)
def test_the_calibrator_of_all_labels_is_fitted_on_scores_of_rows_not_seen(name):
    scores = np.full(Y.shape, np.nan)
    for train, test in FOLDS:
        scores[test], kind = slow_scores(clone(MODELS[name]).fit(X[train], Y[train]), X[test])
    common = TemperatureScaling(input=kind)
    slow = MultilabelCalibrator(common).fit(scores, Y)
    refitted = clone(MODELS[name]).fit(X, Y)
    expected = slow.predict_proba(slow_scores(refitted, NEW)[0])
    model = CalibratedClassifier(MODELS[name], "temperature", cv=FOLDS).fit(X, Y)
    found = model.predict_proba(NEW)
    assert found.shape == (40, 3)
    np.testing.assert_allclose(found, expected, atol=1e-12)
    np.testing.assert_array_equal(model.predict(NEW), (found > 0.5).astype(int))
    np.testing.assert_array_equal(model.predict_log_proba(NEW), np.log(found))
    assert model.classes_.tolist() == [0, 1, 2]
    np.testing.assert_array_equal(model.class_count_, Y.sum(axis=0))
    assert model.score(NEW, model.predict(NEW)) == 1
    assert isinstance(model.calibrator_, MultilabelCalibrator)
    assert model.calibrator_.calibrator_.calibrator_.input_ == kind
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict_proba(NEW), found)


@pytest.mark.parametrize("own", [MultilabelCalibrator(), MultilabelCalibrator("platt"), "platt"])
def test_a_frozen_classifier_is_asked_once(own, tmp_path):
    fitted = MultiOutputClassifier(GaussianNB()).fit(X[:150], Y[:150])
    model = CalibratedClassifier(FrozenEstimator(fitted), own).fit(X[150:], Y[150:])
    common = own.calibrator if isinstance(own, MultilabelCalibrator) else own
    slow = MultilabelCalibrator(common).fit(fitted.predict_proba(X[150:]), Y[150:])
    expected = slow.predict_proba(fitted.predict_proba(NEW))
    np.testing.assert_allclose(model.predict_proba(NEW), expected, atol=1e-12)
    save_json(model.calibrator_, tmp_path / "c.json")
    stored = load_json(tmp_path / "c.json")
    np.testing.assert_allclose(
        stored.predict_proba(fitted.predict_proba(NEW)), expected, atol=1e-12
    )


def test_unknown_entries_of_a_frozen_classifier_are_absent():
    fitted = MultiOutputClassifier(GaussianNB()).fit(X[:150], Y[:150])
    lost = np.random.default_rng(0).random((150, 3)) < 0.3
    P = np.column_stack([each[:, 1] for each in fitted.predict_proba(X[150:])])
    slow = MultilabelCalibrator("platt").fit(P, np.where(lost, np.nan, Y[150:]))
    expected = slow.predict_proba(fitted.predict_proba(NEW))
    for marked in (np.where(lost, np.nan, Y[150:]), np.where(lost, -1, Y[150:])):
        model = CalibratedClassifier(FrozenEstimator(fitted), "platt").fit(X[150:], marked)
        np.testing.assert_allclose(model.predict_proba(NEW), expected, atol=1e-12)
        assert model.class_count_.tolist() == (Y[150:] * ~lost).sum(axis=0).tolist()


def test_an_ensemble_is_the_mean_of_its_pairs():
    model = CalibratedClassifier(MODELS["multi-output"], "platt", cv=FOLDS, ensemble=True)
    model.fit(X, Y)
    parts = []
    for train, test in FOLDS:
        own = clone(MODELS["multi-output"]).fit(X[train], Y[train])
        slow = MultilabelCalibrator("platt").fit(own.predict_proba(X[test]), Y[test])
        parts.append(slow.predict_proba(own.predict_proba(NEW)))
    np.testing.assert_allclose(model.predict_proba(NEW), np.mean(parts, axis=0), atol=1e-12)


def test_weights_reach_the_estimator_and_the_calibrator():
    w = np.random.default_rng(0).integers(0, 3, len(X))
    model = CalibratedClassifier(MODELS["multi-output"], "platt", cv=FOLDS).fit(X, Y, w)
    scores = np.empty(Y.shape)
    for train, test in FOLDS:
        own = clone(MODELS["multi-output"]).fit(X[train], Y[train], w[train])
        scores[test] = slow_scores(own, X[test])[0]
    slow = MultilabelCalibrator("platt").fit(scores, Y, w)
    own = clone(MODELS["multi-output"]).fit(X, Y, w)
    np.testing.assert_allclose(
        model.predict_proba(NEW), slow.predict_proba(own.predict_proba(NEW)), atol=1e-12
    )
    np.testing.assert_array_equal(model.class_count_, w @ Y)


def test_frames_name_the_labels():
    frame = pd.DataFrame(Y, columns=["red", "green", "blue"])
    model = CalibratedClassifier(MODELS["forest"], "platt", cv=FOLDS).fit(X, frame)
    assert model.classes_.tolist() == ["red", "green", "blue"]
    assert model.calibrator_.classes_.tolist() == ["red", "green", "blue"]
    expected = CalibratedClassifier(MODELS["forest"], "platt", cv=FOLDS).fit(X, Y == 1)
    np.testing.assert_array_equal(model.predict_proba(NEW), expected.predict_proba(NEW))


@pytest.mark.parametrize("name", ["forest", "neighbours"])
@pytest.mark.parametrize("value", [0, 1])
def test_entries_of_a_label_that_a_fold_did_not_learn_are_left_out(name, value):
    """All other values of a label are in one fold: a fit on the other folds gives one column."""
    rare = Y.copy()
    rare[:, 1] = value
    rare[:50:4, 1] = 1 - value
    model = CalibratedClassifier(MODELS[name], "platt", cv=FOLDS).fit(X, rare)
    scores, known = np.zeros(Y.shape), rare.astype(float)
    for train, test in FOLDS:
        own = clone(MODELS[name]).fit(X[train], rare[train])
        for j, part in enumerate(own.predict_proba(X[test])):
            scores[test, j] = part[:, -1]
            if part.shape[1] == 1:
                known[test, j] = np.nan
    assert np.isnan(known[:, 1]).sum() == 100
    slow = MultilabelCalibrator("platt").fit(scores, known)
    own = clone(MODELS[name]).fit(X, rare)
    np.testing.assert_allclose(
        model.predict_proba(NEW), slow.predict_proba(own.predict_proba(NEW)), atol=1e-12
    )


def test_a_frozen_forest_that_saw_one_value_of_a_label_gives_probability_0_or_1():
    for value in (0, 1):
        one = Y.copy()
        one[:150, 1] = value
        forest = RandomForestClassifier(5, random_state=0).fit(X[:150], one[:150])
        model = CalibratedClassifier(FrozenEstimator(forest), "identity").fit(X[150:], one[150:])
        P = forest.predict_proba(NEW)
        scores = np.column_stack([P[0][:, 1], np.full(len(NEW), value), P[2][:, 1]])
        expected = model.calibrator_.predict_proba(scores.astype(float))
        np.testing.assert_array_equal(model.predict_proba(NEW), expected)


class Float32(ClassifierMixin, BaseEstimator):
    """Returns float32 probabilities of several labels."""

    def fit(self, X, y):
        self.classes_ = np.arange(y.shape[1])
        return self

    def predict_proba(self, X):
        return expit(X[:, :3]).astype(np.float32)


def test_probabilities_are_float64_and_need_not_sum_to_1():
    model = CalibratedClassifier(Float32(), "identity", cv=FOLDS).fit(X - X.mean(axis=0), Y)
    P = model.predict_proba(X - X.mean(axis=0))
    assert P.dtype == np.float64
    assert np.ptp(P.sum(axis=1)) > 0.1


def test_scikit_learn_searches_and_predicts_out_of_fold():
    model = CalibratedClassifier(MODELS["multi-output"], "platt", cv=3)
    P = cross_val_predict(model, X, Y, cv=FOLDS, method="predict_proba")
    train, test = FOLDS[1]
    expected = clone(model).fit(X[train], Y[train]).predict_proba(X[test])
    np.testing.assert_array_equal(P[test], expected)
    search = GridSearchCV(model, {"calibrator": ["identity", "platt"]}, cv=2).fit(X, Y)
    assert search.best_params_["calibrator"] in ("identity", "platt")
    assert "3 labels with" in repr(search.best_estimator_)


LOST = Y.astype(float)
LOST[7, 1] = np.nan


@pytest.mark.parametrize(
    ("model", "y", "words"),
    [
        (CalibratedClassifier(GaussianNB()), np.eye(3)[np.arange(300) % 3], "it is one-hot"),
        (CalibratedClassifier(MODELS["forest"]), Y * 2, "calibrate them by MultilabelCalibrator"),
        (CalibratedClassifier(MODELS["forest"]), Y[:9], "300"),
        (
            CalibratedClassifier(MODELS["forest"], response_method="predict_log_proba"),
            Y,
            "response_method='predict_log_proba': .*pass 'predict_proba'",
        ),
        (
            CalibratedClassifier(MODELS["forest"], MultilabelCalibrator(GroupwiseCalibrator())),
            Y,
            "groups is None: pass groups=",
        ),
        (
            CalibratedClassifier(MultiOutputClassifier(Perceptron())),
            Y,
            "MultiOutputClassifier has no decision_function and no predict_proba",
        ),
        (CalibratedClassifier(MODELS["neighbours"]), LOST, "y has an unknown entry at row 7"),
        (CalibratedClassifier(MODELS["forest"]), [["a", "b"]] * 300, "matrix .n, L. of 0"),
        (SelectiveClassifier(MODELS["forest"], accuracy=0.9), Y, "MultilabelCalibrator"),
    ],
)
def test_what_has_no_meaning_is_refused_in_one_line(model, y, words):
    refused(words, model.fit, X, y)


def test_groups_go_to_the_splitter_and_the_response_can_be_chosen():
    groups = np.arange(len(X)) % 7
    model = CalibratedClassifier(
        MODELS["one-vs-rest"], "platt", cv=GroupKFold(3), response_method="predict_proba"
    )
    model.fit(X, Y, groups=groups)
    scores = np.empty(Y.shape)
    for train, test in GroupKFold(3).split(X, groups=groups):
        own = clone(MODELS["one-vs-rest"]).fit(X[train], Y[train])
        scores[test] = own.predict_proba(X[test])
    slow = MultilabelCalibrator("platt").fit(scores, Y)
    own = clone(MODELS["one-vs-rest"]).fit(X, Y)
    expected = slow.predict_proba(own.predict_proba(NEW))
    np.testing.assert_allclose(model.predict_proba(NEW), expected, atol=1e-12)
    assert model.response_method_ == "predict_proba"


def test_frames_of_features_and_the_default_calibrator():
    frame = pd.DataFrame(X, columns=[f"f{j}" for j in range(8)])
    model = CalibratedClassifier(MODELS["forest"], cv=3).fit(frame, Y)
    assert model.feature_names_in_.tolist() == frame.columns.tolist()
    P = model.predict_proba(frame)
    assert ((P > 0) & (P < 1)).all()
    assert -np.log(np.where(Y == 1, P, 1 - P)).mean() < 0.6
    assert type(model.calibrator_.calibrator_.calibrator_) is AutoCalibrator
