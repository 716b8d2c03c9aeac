"""A classifier as a transformer: its scores, a column for each class."""

import copy
import pickle

import numpy as np
import pandas as pd
import pytest
import sklearn
from calls import refused
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin, clone, is_classifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import check_estimator

from skcalib import (
    CalibratedClassifier,
    ClassifierScores,
    HistogramBinning,
    IdentityCalibrator,
    load_json,
    save_json,
)

ASKED: list[int] = []


class CountingNet(ClassifierMixin, BaseEstimator):
    """A classifier on 3 classes that notes how many rows it is asked about, each time."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def decision_function(self, X):
        ASKED.append(len(X))
        return np.asarray(X)[:, :3] * 2.0 - 1.0


@pytest.mark.parametrize("method", ["decision_function", "predict_proba", "predict_log_proba"])
def test_the_named_method_is_asked(three, method):
    X, y = three
    model = ClassifierScores(LogisticRegression(), response_method=method).fit(X, y)
    assert_allclose(model.transform(X), getattr(LogisticRegression().fit(X, y), method)(X))
    assert model.response_method_ == method


def test_a_binary_decision_value_becomes_two_logits(two):
    """(0, f) cannot be mistaken for a probability, and its softmax is expit(f)."""
    X, y = two
    f = LinearSVC(random_state=0).fit(X, y).decision_function(X)
    model = make_pipeline(ClassifierScores(LinearSVC(random_state=0)), IdentityCalibrator())
    model.fit(X, y)
    assert_allclose(model[0].transform(X), np.column_stack([np.zeros(len(f)), f]))
    assert model[-1].input_ == "logits"
    assert_allclose(model.predict_proba(X)[:, 1], expit(f))


def test_columns_are_named_after_the_classes_and_set_output_works(three):
    X, y = three
    names = np.array(["cat", "dog", "eel"])
    model = ClassifierScores(LogisticRegression()).set_output(transform="pandas").fit(X, names[y])
    frame = model.transform(X)
    assert list(frame.columns) == list(model.get_feature_names_out()) == list(names)
    assert_array_equal(model.classes_, names)
    assert_array_equal(
        ClassifierScores(GaussianNB()).fit(X, y).get_feature_names_out(), list("012")
    )


def test_a_pipeline_with_a_calibrator_is_a_classifier(three):
    X, y = three
    for output in ("default", "pandas"):
        model = make_pipeline(ClassifierScores(LogisticRegression()), IdentityCalibrator())
        model.set_output(transform=output).fit(X, y)
        assert is_classifier(model)
        assert_allclose(model.predict_proba(X), LogisticRegression().fit(X, y).predict_proba(X))


def test_a_frozen_estimator_is_not_fitted_again(three):
    X, y = three
    fitted = LogisticRegression().fit(X[:100], y[:100])
    model = ClassifierScores(FrozenEstimator(fitted)).fit(X[100:], y[100:])
    assert_allclose(model.transform(X), fitted.decision_function(X))
    assert_allclose(model.fit(X).transform(X), fitted.decision_function(X))
    assert clone(model).estimator.estimator is fitted


@pytest.mark.parametrize("estimator", [LogisticRegression(), GaussianNB()], ids=str)
def test_a_stored_calibrator_and_a_fitted_classifier_predict_without_a_fit(
    three, tmp_path, estimator
):
    """The same probabilities as the calibrated classifier that they were taken from."""
    X, y = three
    names = np.array(["cat", "dog", "eel"])[y]
    fitted = estimator.fit(X[:80], names[:80])
    whole = CalibratedClassifier(FrozenEstimator(fitted), "isotonic").fit(X[80:], names[80:])
    save_json(whole.calibrator_, tmp_path / "calibrator.json")
    scores = ClassifierScores(FrozenEstimator(fitted))
    model = make_pipeline(scores, load_json(tmp_path / "calibrator.json"))
    expected = whole.predict_proba(X)
    assert_array_equal(model.predict_proba(X), expected)
    assert_array_equal(model.predict(X), whole.predict(X))
    for again in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert_array_equal(again.predict_proba(X), expected)
    assert_array_equal(clone(scores).transform(X), scores.transform(X))
    assert_array_equal(scores.fit(X).transform(X), clone(scores).transform(X))


def test_a_frozen_classifier_gives_the_fitted_attributes_before_fit(three):
    X, y = three
    fitted = LogisticRegression().fit(pd.DataFrame(X, columns=list("abcdef")), y)
    unfitted, model = (ClassifierScores(FrozenEstimator(fitted)) for _ in range(2))
    model.fit(X)
    for name in ("classes_", "response_method_", "n_features_in_", "feature_names_in_"):
        assert_array_equal(getattr(unfitted, name), getattr(model, name))
    assert unfitted.estimator_.estimator is fitted
    assert list(unfitted.get_feature_names_out()) == list("012")
    assert "estimator_" not in vars(unfitted)


def test_names_of_features_are_checked_as_by_the_transformers_of_scikit_learn(three):
    X, y = three
    model = ClassifierScores(GaussianNB()).fit(pd.DataFrame(X, columns=list("abcdef")), y)
    assert list(model.get_feature_names_out(list("abcdef"))) == list("012")
    refused("input_features is not equal to feature_names_in_", model.get_feature_names_out, ["w"])
    with pytest.raises(ValueError, match="length equal to number of features"):
        ClassifierScores(GaussianNB()).fit(X, y).get_feature_names_out(["w"])


@pytest.mark.parametrize("frozen", [True, False])
def test_a_classifier_that_is_not_fitted_is_said_to_be_so(three, frozen):
    X, _ = three
    model = ClassifierScores(FrozenEstimator(GaussianNB()) if frozen else GaussianNB())
    with pytest.raises(sklearn.exceptions.NotFittedError, match="ClassifierScores instance is not"):
        model.transform(X)
    assert not hasattr(model, "classes_")
    assert not hasattr(model, "n_features_in_")


def test_a_wrong_response_of_a_frozen_classifier_is_refused_before_fit(three):
    X, y = three
    fitted = FrozenEstimator(GaussianNB().fit(X, y))
    for method in ("decision_function", "transform"):
        model = ClassifierScores(fitted, response_method=method)
        refused("response_method", model.transform, X)
        model._repr_html_()  # a notebook shows it all the same


def test_a_pipeline_with_memory_asks_the_classifier_once(three, tmp_path):
    """However many calibrators are fitted after it."""
    X, y = three
    net = CountingNet().fit(X, y)
    steps = [("scores", ClassifierScores(FrozenEstimator(net))), ("cal", HistogramBinning())]
    model = Pipeline(steps, memory=str(tmp_path))
    ASKED.clear()
    for n_bins in (3, 5, 8):
        model.set_params(cal__n_bins=n_bins).fit(X, y)
    assert [len(X)] == ASKED
    ASKED.clear()
    for n_bins in (3, 5, 8):
        model.set_params(memory=None, cal__n_bins=n_bins).fit(X, y)
    assert len(ASKED) == 3


def test_fit_parameters_reach_the_estimator(two):
    X, y = two
    w = np.where(X[:, 0] > 0, 3.0, 0.5)
    model = ClassifierScores(LogisticRegression()).fit(X, y, sample_weight=w)
    expected = LogisticRegression().fit(X, y, sample_weight=w)
    assert_allclose(model.transform(X)[:, 1], expected.decision_function(X))


def test_fit_parameters_are_routed_when_routing_is_on(two):
    X, y = two
    w = np.where(X[:, 0] > 0, 3.0, 0.5)
    with sklearn.config_context(enable_metadata_routing=True):
        asked = ClassifierScores(LogisticRegression().set_fit_request(sample_weight=True))
        model = make_pipeline(asked, IdentityCalibrator().set_fit_request(sample_weight=False))
        model.fit(X, y, sample_weight=w)
        unasked = ClassifierScores(LogisticRegression().set_fit_request(sample_weight=False))
        refused("sample_weight", unasked.fit, X, y, sample_weight=w, error=TypeError)
    expected = LogisticRegression().fit(X, y, sample_weight=w)
    assert_allclose(model.predict_proba(X), expected.predict_proba(X))


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (ClassifierScores(LinearSVC(), response_method="transform"), "response_method"),
        (ClassifierScores("svc"), "estimator"),
    ],
)
def test_what_gives_no_scores_is_refused(two, model, message):
    refused(message, model.fit, *two)


def test_scores_that_are_not_finite_are_refused(three):
    X, y = three

    class Broken(CountingNet):
        def decision_function(self, X):
            Z = np.array(X[:, :3])
            Z[4, 1] = np.nan
            return Z

    with pytest.raises(ValueError, match=r"decision_function of Broken contains NaN .*row 4"):
        ClassifierScores(Broken()).fit(X, y).transform(X)


def test_a_failed_fit_changes_nothing(two):
    X, y = two
    model = ClassifierScores(LogisticRegression()).fit(X, y)
    before = model.transform(X)
    model.set_params(estimator=LinearRegression())
    refused("decision_function", model.fit, X, y)
    assert_array_equal(model.transform(X), before)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("estimator", [LogisticRegression(), GaussianNB()])
def test_scikit_learn_finds_no_fault(estimator):
    results = check_estimator(ClassifierScores(estimator), on_fail=None, on_skip=None)
    assert [r["check_name"] for r in results if r["status"] == "failed"] == []
