"""Logarithms of probabilities, and probabilities as small as floats can be."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

import skcalib
from skcalib import CalibratedClassifier, GroupwiseCalibrator, metrics

rng = np.random.default_rng(0)
Z = 300 * rng.normal(size=(300, 3))
y = (Z / 300 + rng.gumbel(size=Z.shape)).argmax(axis=1)
P = np.exp(Z - Z.max(axis=1, keepdims=True))
P /= P.sum(axis=1, keepdims=True)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", sorted(skcalib.calibrators.__all__))
def test_logarithms_are_those_of_the_probabilities(name):
    calibrator = getattr(skcalib.calibrators, name)().fit(Z, y)
    Q = calibrator.predict_proba(Z)
    with np.errstate(all="raise", under="ignore"):
        found = calibrator.predict_log_proba(Z)
    assert found.dtype == Q.dtype
    np.testing.assert_array_equal(found == -np.inf, Q == 0)
    np.testing.assert_array_equal(found[Q > 0], np.log(Q[Q > 0]))


def test_logarithms_of_groups_and_of_a_classifier():
    groups = np.arange(300) % 2
    fitted = GroupwiseCalibrator("identity").fit(P, y, groups=groups)
    expected = fitted.predict_proba(P, groups=groups)
    assert (expected == 0).any()
    with np.errstate(all="raise", under="ignore"):
        np.testing.assert_array_equal(
            np.exp(fitted.predict_log_proba(P, groups=groups)) == 0, expected == 0
        )
    for model in (LogisticRegression(), DecisionTreeClassifier(random_state=0)):
        fitted = CalibratedClassifier(model, "isotonic").fit(Z, y)
        Q = fitted.predict_proba(Z)
        found = fitted.predict_log_proba(Z)
        np.testing.assert_array_equal(found == -np.inf, Q == 0)
        np.testing.assert_allclose(np.exp(found), Q)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("scores", [Z, P], ids=["logits", "proba"])
@pytest.mark.parametrize("name", sorted(skcalib.calibrators.__all__))
def test_underflow_stops_no_fit(name, scores):
    calibrator = getattr(skcalib.calibrators, name)()
    with np.errstate(under="raise"):
        Q = calibrator.fit(scores, y).predict_proba(scores)
    assert np.isfinite(Q).all()


@pytest.mark.parametrize(
    "name",
    [
        "smooth_calibration_error",
        "calibration_summary",
        "calibration_curve",
        "integrated_calibration_index",
        "score_decomposition",
    ],
)
def test_underflow_stops_no_metric(name):
    scores = 40 * rng.normal(size=400)
    p = 1 / (1 + np.exp(-scores))
    event = (rng.random(400) < p).astype(int)
    with np.errstate(under="raise"):
        repr(getattr(metrics, name)(event, p))
