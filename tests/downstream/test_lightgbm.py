"""LightGBM: over-confident trees, early stopping, importances of the model within."""

import numpy as np
from lightgbm import LGBMClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import TimeSeriesSplit

from skcalib import CalibratedClassifier


def model():
    return LGBMClassifier(n_estimators=100, min_child_samples=5, verbose=-1, n_jobs=1)


def test_trees_are_calibrated_in_folds(football, loss_of):
    X, X_new, y, y_new = football
    calibrated = CalibratedClassifier(model()).fit(X, y)
    assert loss_of(calibrated, X_new, y_new) < 0.9 * loss_of(model().fit(X, y), X_new, y_new)
    assert calibrated.estimator_.feature_importances_.shape == (10,)
    assert calibrated.calibrated_classifiers_[0].estimator is calibrated.estimator_


def test_a_fitted_model_with_early_stopping(binary, loss_of):
    import lightgbm

    X, X_new, y, y_new = binary
    fitted = model().fit(
        X[:500], y[:500], eval_set=[(X[500:700], y[500:700])],
        callbacks=[lightgbm.early_stopping(10, verbose=False)],
    )  # fmt: skip
    calibrated = CalibratedClassifier(FrozenEstimator(fitted), "platt").fit(X[500:], y[500:])
    assert loss_of(calibrated, X_new, y_new) < loss_of(fitted, X_new, y_new)
    scores = np.asarray(fitted.predict_proba(X_new))
    assert calibrated.predict_proba(X_new).shape == scores.shape


def test_folds_in_the_order_of_time(binary, loss_of):
    X, X_new, y, y_new = binary
    calibrated = CalibratedClassifier(model(), "isotonic", cv=TimeSeriesSplit(4)).fit(X, y)
    assert loss_of(calibrated, X_new, y_new) < loss_of(model().fit(X, y), X_new, y_new)
