"""Calibration errors work wherever scikit-learn takes a scorer."""

import pickle

import numpy as np
import pytest
import sklearn
from calls import refused
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.datasets import load_iris
from sklearn.linear_model import RidgeClassifier
from sklearn.metrics import brier_score_loss, log_loss
from sklearn.model_selection import cross_val_score
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
    ends = ("_error", "_score", "_loss", "_index")
    errors = {name for name in metrics.__all__ if name.endswith(ends)}
    assert {name.removeprefix("neg_") for name in SCORERS} == errors


def padded(P, known, classes):
    """The obvious way: a column of zeros for a class that is not known."""
    if len(known) == 2:  # of two columns scikit-learn's scorers give the second
        P = np.column_stack([1 - P[:, 1], P[:, 1]])
    columns = [
        P[:, list(known).index(c)] if c in list(known) else np.zeros(len(P)) for c in classes
    ]
    return np.column_stack(columns)


@pytest.mark.parametrize("seen", [[0, 1], [1, 2], [1]], ids=str)
def test_a_class_that_no_training_row_had_is_a_column_of_zeros(seen):
    """Its rows count as misses, in every metric."""
    names = NAMES[y]
    model = GaussianNB().fit(X[np.isin(y, seen)], names[np.isin(y, seen)])
    rows = np.random.default_rng(0).permutation(len(y))[:90]
    P = padded(model.predict_proba(X[rows]), model.classes_, NAMES)
    for name in SCORERS:
        metric = getattr(metrics, name.removeprefix("neg_"))
        found = SCORERS[name](model, X[rows], names[rows])
        assert found == pytest.approx(-metric(names[rows], P, labels=NAMES)), name


@pytest.mark.parametrize("label", [0, 1, True, "ape"], ids=repr)
def test_one_class_in_training_and_test_is_no_error(label):
    """As in the first folds of rows in order of time, before the other classes come."""
    names = np.full(50, label)
    model = GaussianNB().fit(X[:50], names)
    assert model.predict_proba(X[:50]).shape == (50, 1)
    for name in SCORERS:
        assert SCORERS[name](model, X[:50], names) == 0, name


def test_a_metric_of_others_gets_the_column_of_zeros_too():
    """Sorted columns whether or not it takes labels; as scikit-learn's log loss clips, a number."""
    seen = []

    def gap(y_true, y_proba):
        seen.append(y_proba)
        return abs((NAMES[y_proba.argmax(axis=1)] == y_true).mean() - y_proba.max(axis=1).mean())

    model = GaussianNB().fit(X[y != 1], NAMES[y[y != 1]])
    P = padded(model.predict_proba(X), model.classes_, NAMES)
    assert make_calibration_scorer(gap)(model, X, NAMES[y]) == -gap(NAMES[y], P)
    np.testing.assert_allclose(seen[0], P, atol=1e-15)  # scikit-learn gives p and 1 - p
    found = make_calibration_scorer(log_loss)(model, X, NAMES[y])
    assert np.isfinite(found)
    assert found == pytest.approx(-log_loss(NAMES[y], P, labels=NAMES))


def test_a_binary_metric_of_others_gets_one_column_whatever_the_fold_had():
    """As from scikit-learn's own scorers; 0 is all that a model which knows only 0 can say."""
    scorer = make_calibration_scorer(lambda y_true, p: brier_score_loss(y_true, p, pos_label=1))
    cut = y[:100]
    both, one = GaussianNB().fit(X[:100], cut), GaussianNB().fit(X[:50], cut[:50])
    assert scorer(both, X[:100], cut) == -brier_score_loss(cut, both.predict_proba(X[:100])[:, 1])
    assert scorer(one, X[:100], cut) == -0.5


def test_labels_given_to_a_scorer_are_classes_in_every_fold():
    """In any order; the columns stay those of the estimator's own names."""
    model = GaussianNB().fit(X[:100], NAMES[y[:100]])
    scorer = make_calibration_scorer(metrics.static_calibration_error, labels=NAMES[::-1])
    P = padded(model.predict_proba(X[:100]), model.classes_, NAMES)
    expected = metrics.static_calibration_error(NAMES[y[:100]], P, labels=NAMES)
    assert scorer(model, X[:100], NAMES[y[:100]]) == -expected
    one = make_calibration_scorer(
        metrics.expected_calibration_error, pos_label="cat", labels=list(NAMES)
    )
    assert one(model, X[:100], NAMES[y[:100]]) == 0


class Fixed(ClassifierMixin, BaseEstimator):
    """The same probabilities for any rows."""

    def __init__(self, classes, P):
        self.classes_, self.P = np.array(classes), P

    def predict_proba(self, X):
        return self.P


def test_an_estimator_that_lists_its_classes_out_of_order_is_read_by_its_names():
    model = GaussianNB().fit(X, NAMES[y])
    turned = Fixed(NAMES[::-1], model.predict_proba(X)[:, ::-1])
    for name in SCORERS:
        expected = SCORERS[name](model, X, NAMES[y])
        assert SCORERS[name](turned, X, NAMES[y]) == pytest.approx(expected), name


def test_a_row_of_weight_0_adds_no_class():
    model = GaussianNB().fit(X[:100], NAMES[y[:100]])
    scorer, w = SCORERS["neg_static_calibration_error"], np.repeat([1.0, 0.0], [100, 50])
    expected = scorer(model, X[:100], NAMES[y[:100]])
    assert scorer(model, X, NAMES[y], sample_weight=w) == expected


def test_labels_and_columns_that_do_not_go_with_the_classes_are_refused():
    """Labels of another type are no new classes: '0' is not 0."""
    model, scorer = GaussianNB().fit(X, y), SCORERS["neg_ks_calibration_error"]
    message = r"label '0' at row 0 is not in labels=\[0, 1, 2\]"
    refused(message, scorer, model, X, y.astype(str))
    refused("Unknown label type: y_true", scorer, model, X, np.zeros(len(y), dtype=[("a", int)]))
    ragged = [[[1], [2]], [[1], [2, 3]]]
    refused("y_true: .*pass one label for each row", scorer, model, X[:2], ragged)
    two = Fixed([1, 2, 3], np.full((150, 2), 0.5))
    refused("predict_proba .*2 columns.* classes_ has 3 labels", scorer, two, X, y)


def test_metrics_of_several_labels_for_each_row_are_left_alone():
    """A classifier of indicator rows: its metric gets its probabilities."""
    model, Y = Fixed([0, 1, 2], np.full((150, 3), 1 / 3)), np.eye(3, dtype=int)[y]
    scorer = make_calibration_scorer(lambda Y, P: abs(Y.mean() - P.mean()))
    assert scorer(model, X, Y) == pytest.approx(0)


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


def test_sample_weight_is_routed_to_the_scorer():
    w = np.random.default_rng(0).integers(0, 3, len(y))
    model = GaussianNB().fit(X, y)
    scorer = SCORERS["neg_static_calibration_error"]
    P = model.predict_proba(X)
    expected = -metrics.static_calibration_error(y, P, sample_weight=w)
    assert scorer(model, X, y, sample_weight=w) == expected
    with sklearn.config_context(enable_metadata_routing=True):
        scorer = get_scorer("neg_static_calibration_error").set_score_request(sample_weight=True)
        estimator = GaussianNB().set_fit_request(sample_weight=False)
        seen = cross_val_score(estimator, X, y, scoring=scorer, params={"sample_weight": w})
        unasked = SCORERS["neg_static_calibration_error"]
        # scikit-learn 1.6.0 routes no params only if they are an empty dict.
        plain = cross_val_score(GaussianNB(), X, y, scoring=unasked, params={})
    assert not np.allclose(seen, plain)


def test_a_request_set_on_one_scorer_stays_there():
    with sklearn.config_context(enable_metadata_routing=True):
        get_scorer("neg_ks_calibration_error").set_score_request(sample_weight=True)
        routing = get_scorer("neg_ks_calibration_error").get_metadata_routing()
    assert "sample_weight" not in {k for k, v in routing.score.requests.items() if v is True}


def test_names_of_scikit_learn_are_known_too():
    model = GaussianNB().fit(X, y)
    expected = -log_loss(y, model.predict_proba(X))
    assert get_scorer("neg_log_loss")(model, X, y) == pytest.approx(expected)
    refused("'neg_ecce' is not the name of a scorer: pass one of", get_scorer, "neg_ecce")
    scorer = SCORERS["neg_ks_calibration_error"]
    assert get_scorer(scorer) is scorer


@pytest.mark.parametrize(
    ("short", "full"),
    [
        ("ece", "expected"),
        ("ECE", "expected"),
        ("neg_ece", "expected"),
        ("sce", "static"),
        ("ace", "adaptive"),
        ("tace", "thresholded_adaptive"),
        ("ks", "ks"),
    ],
)
def test_short_names_of_errors_are_minus_the_error(short, full):
    assert repr(get_scorer(short)) == f"make_calibration_scorer({full}_calibration_error)"
    model = GaussianNB().fit(X, y)
    error = getattr(metrics, f"{full}_calibration_error")(y, model.predict_proba(X))
    assert get_scorer(short)(model, X, y) == pytest.approx(-error)


def test_a_model_without_probabilities_is_told_the_mend():
    model = RidgeClassifier().fit(X, y)
    with pytest.raises(AttributeError, match="wrap it in skcalib.CalibratedClassifier"):
        SCORERS["neg_ks_calibration_error"](model, X, y)
    refused("metric must be a function", make_calibration_scorer, "ece", error=TypeError)


def test_scorers_can_be_pickled_and_cloned():
    model = GaussianNB().fit(X, y)
    for scorer in SCORERS.values():
        again = pickle.loads(pickle.dumps(scorer))
        assert again(model, X, y) == clone(scorer, safe=False)(model, X, y) == scorer(model, X, y)
