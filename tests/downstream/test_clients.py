"""Programs of scikit-learn's users, with the calibration part rewritten."""

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier, StackingClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, GroupKFold
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from skcalib import (
    CalibratedClassifier,
    GroupwiseCalibrator,
    IsotonicCalibrator,
    TemperatureScaling,
    compare_calibrators,
    load_json,
    save_json,
)
from skcalib.metrics import (
    calibration_by_group,
    calibration_curve,
    calibration_summary,
    expected_calibration_error,
    get_scorer,
)


def test_competition_forest_of_a_frame(football, loss_of):
    X, X_new, y, y_new = football
    X, X_new = (pd.DataFrame(part).add_prefix("feature_") for part in (X, X_new))
    forest = RandomForestClassifier(30, random_state=0)
    calibrated = CalibratedClassifier(forest).fit(X, y)
    assert loss_of(calibrated, X_new, y_new) < loss_of(forest.fit(X, y), X_new, y_new)
    assert calibrated.feature_names_in_.tolist() == list(X.columns)


def test_fitted_model_from_joblib(binary, tmp_path, loss_of):
    X, X_new, y, y_new = binary
    joblib.dump(GaussianNB().fit(X[:500], y[:500]), tmp_path / "model.joblib")
    model = joblib.load(tmp_path / "model.joblib")
    calibrated = CalibratedClassifier(FrozenEstimator(model)).fit(X[500:], y[500:])
    joblib.dump(calibrated, tmp_path / "calibrated.joblib")
    again = joblib.load(tmp_path / "calibrated.joblib")
    assert loss_of(again, X_new, y_new) < loss_of(model, X_new, y_new)


def test_support_vectors_of_texts():
    texts = [
        f"{word} {i % 7} {i % 5}" for i in range(60) for word in ("refund", "invoice", "hello")
    ]
    labels = ["money", "money", "other"] * 54 + ["other", "money", "money"] * 6
    model = make_pipeline(TfidfVectorizer(), CalibratedClassifier(LinearSVC(), "platt", cv=3))
    model.fit(texts, pd.Series(labels))
    assert model.predict(["refund 3"]).tolist() == ["money"]
    assert model.predict_proba(["hello"]).shape == (1, 2)


def test_search_over_the_model_within(binary):
    X, _, y, _ = binary
    model = make_pipeline(StandardScaler(), CalibratedClassifier(LogisticRegression(), "platt"))
    grid = {"calibratedclassifier__estimator__C": [0.01, 1.0]}
    scoring = {"auc": "roc_auc", "ece": get_scorer("neg_expected_calibration_error")}
    search = GridSearchCV(model, grid, scoring=scoring, refit="auc", cv=3).fit(X, y)
    means = search.cv_results_["mean_test_auc"], search.cv_results_["mean_test_ece"]
    assert search.best_params_ == search.cv_results_["params"][np.argmax(means[0])]
    assert (np.array(means) > [[0.6], [-0.2]]).all()
    assert (means[1] < 0).all()


def test_weights_by_recency_and_folds_by_patient(binary, loss_of):
    X, X_new, y, y_new = binary
    weight = np.linspace(0.1, 1, len(y))
    patient = np.arange(len(y)) // 3
    model = CalibratedClassifier(LogisticRegression(), cv=GroupKFold(4))
    model.fit(X, y, sample_weight=weight, groups=patient)
    assert loss_of(model, X_new, y_new) < np.log(2)


def test_stack_of_calibrated_models(binary, loss_of):
    X, X_new, y, y_new = binary
    stack = StackingClassifier([
        ("bayes", CalibratedClassifier(GaussianNB())),
        ("forest", CalibratedClassifier(RandomForestClassifier(20, random_state=0))),
    ], cv=3)  # fmt: skip
    assert loss_of(stack.fit(X, y), X_new, y_new) < np.log(2)


def test_isotonic_map_of_a_scorecard_as_json(binary, tmp_path):
    X, X_new, y, _ = binary
    p, p_new = (GaussianNB().fit(X, y).predict_proba(part)[:, 1] for part in (X, X_new))
    save_json(IsotonicCalibrator().fit(p, y), tmp_path / "map.json")
    calibrator = load_json(tmp_path / "map.json")
    expected = IsotonicRegression(out_of_bounds="clip").fit(p, y).predict(p_new)
    np.testing.assert_allclose(calibrator.predict_proba(p_new)[:, 1], expected, atol=1e-12)
    assert 0 <= float(calibrator.predict_proba([p_new[0]])[0, 1]) <= 1


def test_a_map_for_each_hospital_and_the_gap_of_each(binary):
    X, X_new, y, y_new = binary
    site, site_new = (np.where(part[:, 0] > 0, "north", "south") for part in (X, X_new))
    model = GaussianNB().fit(X, y)
    Z, Z_new = (np.log(model.predict_proba(part) + 1e-9) for part in (X, X_new))
    P = GroupwiseCalibrator("platt").fit(Z, y, groups=site).predict_proba(Z_new, groups=site_new)
    before = calibration_by_group(
        y_new, model.predict_proba(X_new), groups=site_new, random_state=0
    )
    after = calibration_by_group(y_new, P, groups=site_new, random_state=0)
    assert after.frame["gap"].abs().max() < before.frame["gap"].abs().max()


def test_does_it_need_calibration(binary):
    X, X_new, y, y_new = binary
    P = GaussianNB().fit(X, y).predict_proba(X_new)
    comparison = compare_calibrators(P, y_new, ["temperature", "auto"], cv=3, random_state=0)
    losses = comparison.frame["log_loss", "value"]
    assert comparison.choice != "identity"
    assert losses[comparison.choice] < losses["identity"]
    assert comparison.verdict.startswith(f"Calibrate by {comparison.choice}")
    fitted = comparison.fit("temperature")
    assert isinstance(fitted, TemperatureScaling)
    assert fitted.temperature_ > 1


def test_curve_and_table_of_a_risk_model(binary):
    from sklearn.calibration import calibration_curve as theirs

    X, X_new, y, y_new = binary
    p = LogisticRegression().fit(X, y).predict_proba(X_new)[:, 1]
    for mine, other in zip(
        calibration_curve(y_new, p, n_bins=10), theirs(y_new, p, n_bins=10), strict=True
    ):
        np.testing.assert_allclose(mine, other, rtol=1e-12)
    assert "calibration" in repr(calibration_summary(y_new, p)).lower()


def test_stated_confidences_of_a_language_model():
    rng = np.random.default_rng(0)
    stated = rng.choice([0.5, 0.7, 0.8, 0.9, 0.95, 1.0], 400)
    right = rng.random(400) < 0.6 * stated + 0.1
    by_hand = sum(
        (stated == level).mean() * abs(right[stated == level].mean() - level)
        for level in np.unique(stated)
    )
    assert expected_calibration_error(right, stated, n_bins=20) == pytest.approx(by_hand, rel=1e-12)
