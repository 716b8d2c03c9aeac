"""CatBoost: a frozen model of three outcomes, whose names are the columns of a frame."""

import pandas as pd
import pytest
from catboost import CatBoostClassifier
from sklearn.frozen import FrozenEstimator

from skcalib import CalibratedClassifier, VectorScaling
from skcalib.metrics import static_calibration_error


def model(**keywords):
    return CatBoostClassifier(
        iterations=80, verbose=0, thread_count=1, allow_writing_files=False, **keywords
    )


def test_trees_are_calibrated_in_folds(football, loss_of):
    X, X_new, y, y_new = football
    calibrated = CalibratedClassifier(model(), "isotonic", cv=3).fit(X, y)
    assert list(calibrated.classes_) == ["Away", "Draw", "Home"]
    assert loss_of(calibrated, X_new, y_new) < 1.05


def test_saved_probabilities_are_read_by_name(football):
    X, X_new, y, y_new = football
    fitted = model(depth=8, learning_rate=0.5).fit(X[:500], y[:500])
    frame = pd.DataFrame(fitted.predict_proba(X_new), columns=fitted.classes_).add_prefix("prob_")
    shuffled = frame[["prob_Home", "prob_Away", "prob_Draw"]]
    error = static_calibration_error(y_new, shuffled)
    assert error == pytest.approx(static_calibration_error(y_new, frame), rel=1e-12)
    calibrated = CalibratedClassifier(FrozenEstimator(fitted), VectorScaling()).fit(
        X[500:], y[500:]
    )
    assert static_calibration_error(y_new, calibrated.predict_proba(X_new)) < error
