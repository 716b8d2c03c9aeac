"""imbalanced-learn: SMOTE belongs into the pipeline that is fitted in the folds."""

import numpy as np
from imblearn.over_sampling import SMOTE
from imblearn.pipeline import make_pipeline
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import log_loss

from skcalib import CalibratedClassifier


def test_oversampled_training_rows_are_corrected(loss_of):
    X, y = make_classification(3000, 10, weights=[0.95], flip_y=0.02, random_state=0)
    X, X_new, y, y_new = X[:2000], X[2000:], y[:2000], y[2000:]
    forest = RandomForestClassifier(50, min_samples_leaf=3, random_state=0)
    fraud = make_pipeline(SMOTE(random_state=0), forest)
    before = clone(fraud).fit(X, y).predict_proba(X_new)
    calibrated = CalibratedClassifier(fraud).fit(X, y)
    assert loss_of(calibrated, X_new, y_new) < log_loss(y_new, before)
    rate = calibrated.predict_proba(X_new)[:, 1].mean()
    assert abs(rate - y_new.mean()) < 0.5 * abs(before[:, 1].mean() - y_new.mean())
    assert np.isfinite(calibrated.estimator_[-1].feature_importances_).all()
