"""SHAP: values of a calibrated probability add up to it, and trees are explained within."""

import numpy as np
import shap
from sklearn.ensemble import RandomForestClassifier

from skcalib import CalibratedClassifier


def test_values_of_a_calibrated_model_add_up(binary):
    X, X_new, y, _ = binary
    model = CalibratedClassifier(RandomForestClassifier(10, max_depth=4, random_state=0)).fit(X, y)
    explain = shap.Explainer(lambda Z: model.predict_proba(Z)[:, 1], X[:5], seed=0)
    values = explain(X_new[:1])
    total = values.base_values + values.values.sum(axis=1)
    np.testing.assert_allclose(total, model.predict_proba(X_new[:1])[:, 1], atol=1e-6)


def test_trees_are_found_within(binary):
    X, X_new, y, _ = binary
    model = CalibratedClassifier(RandomForestClassifier(10, max_depth=4, random_state=0)).fit(X, y)
    forest = model.calibrated_classifiers_[0].estimator
    values = shap.TreeExplainer(forest)(X_new[:3])
    assert values.shape[:2] == (3, 10)
