"""XGBoost: float32 probabilities, eval_set through fit, a service that writes JSON."""

import json

import numpy as np
from sklearn.frozen import FrozenEstimator
from xgboost import XGBClassifier

from skcalib import CalibratedClassifier


def model():
    return XGBClassifier(n_estimators=80, n_jobs=1, random_state=0)


def test_trees_are_calibrated_in_folds(binary, loss_of):
    X, X_new, y, y_new = binary
    before = np.asarray(model().fit(X, y).predict_proba(X_new), dtype=float)
    calibrated = CalibratedClassifier(model()).fit(X, y, eval_set=[(X_new, y_new)], verbose=False)
    after = loss_of(calibrated, X_new, y_new)
    assert after < 0.9 * -np.log(before[np.arange(len(y_new)), y_new]).mean()
    assert calibrated.estimator_.feature_importances_.shape == (10,)


def test_a_service_writes_json_of_a_frozen_model(binary):
    X, X_new, y, _ = binary
    fitted = model().fit(X[:500], y[:500])
    calibrated = CalibratedClassifier(FrozenEstimator(fitted)).fit(X[500:], y[500:])
    text = json.dumps({"probability": calibrated.predict_proba(X_new[:1])[0, 1]})
    assert 0 < json.loads(text)["probability"] < 1
