"""Calibration errors work wherever scikit-learn takes a scorer."""

import pickle

import numpy as np
import pytest
import sklearn
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, PredefinedSplit, cross_val_score, cross_validate
from sklearn.naive_bayes import GaussianNB

from skcalib import metrics
from skcalib.metrics import SCORERS, get_scorer, make_calibration_scorer

NAMES = np.array(["ape", "bee", "cat"])
X, y = load_iris(return_X_y=True)


@pytest.mark.parametrize("name", SCORERS)
def test_every_scorer_is_minus_its_error(name):
    model = GaussianNB().fit(X, NAMES[y])
    metric = getattr(metrics, name.removeprefix("neg_"))
    expected = -metric(NAMES[y], model.predict_proba(X))
    assert SCORERS[name](model, X, NAMES[y]) == expected
    assert get_scorer(name)(model, X, NAMES[y]) == expected


def test_there_is_a_scorer_for_every_error_of_the_package():
    errors = {name for name in metrics.__all__ if name.endswith(("_error", "_score", "_loss"))}
    assert {name.removeprefix("neg_") for name in SCORERS} == errors


def test_a_fold_that_lacks_a_class_still_scores():
    fold = np.repeat([0, 1, 2], 50)  # each test fold is a single class
    fold[::10] = 3
    result = cross_validate(
        GaussianNB(), X, NAMES[y], cv=PredefinedSplit(np.roll(fold, 0)), scoring=dict(SCORERS)
    )
    for name in SCORERS:
        assert np.isfinite(result[f"test_{name}"]).all()


def test_binary_scorer_measures_both_columns():
    Xb, yb = load_breast_cancer(return_X_y=True)
    model = GaussianNB().fit(Xb, yb)
    expected = -metrics.expected_calibration_error(yb, model.predict_proba(Xb))
    assert SCORERS["neg_expected_calibration_error"](model, Xb, yb) == pytest.approx(expected)


def test_keywords_reach_the_metric():
    model = GaussianNB().fit(X, NAMES[y])
    scorer = make_calibration_scorer(
        metrics.expected_calibration_error, n_bins=3, pos_label="bee", norm="l2"
    )
    expected = metrics.expected_calibration_error(
        NAMES[y], model.predict_proba(X), n_bins=3, pos_label="bee", norm="l2"
    )
    assert scorer(model, X, NAMES[y]) == -expected
    assert "n_bins=3" in repr(scorer)


def test_any_function_of_labels_and_probabilities_can_be_a_scorer():
    def gap(y_true, y_proba):
        return abs((y_proba.argmax(axis=1) == y_true).mean() - y_proba.max(axis=1).mean())

    model = GaussianNB().fit(X, y)
    assert make_calibration_scorer(gap)(model, X, y) == -gap(y, model.predict_proba(X))
    assert make_calibration_scorer(log_loss)(model, X, y) == -log_loss(y, model.predict_proba(X))


def test_grid_search_with_several_scorers_refits_by_the_one_named():
    search = GridSearchCV(
        LogisticRegression(max_iter=2000),
        {"C": [1e-4, 1.0]},
        scoring={
            "sce": SCORERS["neg_static_calibration_error"],
            "ks": make_calibration_scorer(metrics.ks_calibration_error, mode="classwise"),
            "nll": "neg_log_loss",
        },
        refit="sce",
        n_jobs=2,
    ).fit(X, NAMES[y])
    assert search.best_index_ == np.argmax(search.cv_results_["mean_test_sce"])
    assert np.isfinite(search.cv_results_["mean_test_ks"]).all()


def test_sample_weight_is_routed_to_the_scorer():
    w = np.random.default_rng(0).integers(0, 3, len(y))
    model = GaussianNB().fit(X, y)
    scorer = SCORERS["neg_static_calibration_error"]
    P = model.predict_proba(X)
    expected = -metrics.static_calibration_error(y, P, sample_weight=w)
    assert scorer(model, X, y, sample_weight=w) == expected
    with sklearn.config_context(enable_metadata_routing=True):
        scorer = SCORERS["neg_static_calibration_error"].set_score_request(sample_weight=True)
        estimator = GaussianNB().set_fit_request(sample_weight=False)
        seen = cross_val_score(estimator, X, y, scoring=scorer, params={"sample_weight": w})
        unasked = SCORERS["neg_static_calibration_error"]
        # scikit-learn 1.6.0 routes no params only if they are an empty dict.
        plain = cross_val_score(GaussianNB(), X, y, scoring=unasked, params={})
    assert not np.allclose(seen, plain)


def test_a_request_set_on_one_scorer_stays_there():
    with sklearn.config_context(enable_metadata_routing=True):
        SCORERS["neg_ks_calibration_error"].set_score_request(sample_weight=True)
        routing = SCORERS["neg_ks_calibration_error"].get_metadata_routing()
    assert "sample_weight" not in {k for k, v in routing.score.requests.items() if v is True}


def test_names_of_scikit_learn_are_known_too():
    model = GaussianNB().fit(X, y)
    expected = -log_loss(y, model.predict_proba(X))
    assert get_scorer("neg_log_loss")(model, X, y) == pytest.approx(expected)
    with pytest.raises(ValueError, match="'neg_ece' is not the name of a scorer: use one of"):
        get_scorer("neg_ece")
    scorer = SCORERS["neg_ks_calibration_error"]
    assert get_scorer(scorer) is scorer


def test_a_model_without_probabilities_is_told_the_mend():
    model = RidgeClassifier().fit(X, y)
    with pytest.raises(AttributeError, match="wrap it in skcalib.CalibratedClassifier"):
        SCORERS["neg_ks_calibration_error"](model, X, y)
    with pytest.raises(TypeError, match="metric must be a function"):
        make_calibration_scorer("ece")


def test_predictions_are_made_once_for_several_scorers():
    class Counting(ClassifierMixin, BaseEstimator):
        calls = 0

        def fit(self, X, y):
            self.classes_ = np.unique(y)
            return self

        def predict_proba(self, X):
            type(self).calls += 1
            return np.full((len(X), self.classes_.size), 1 / self.classes_.size)

    cross_validate(Counting(), X, y, cv=2, scoring=dict(SCORERS))
    assert Counting.calls == 2


def test_scorers_can_be_pickled_and_cloned():
    model = GaussianNB().fit(X, y)
    for scorer in SCORERS.values():
        again = pickle.loads(pickle.dumps(scorer))
        assert again(model, X, y) == clone(scorer, safe=False)(model, X, y) == scorer(model, X, y)
