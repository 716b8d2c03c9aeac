"""Beta calibration against a constrained optimiser and the cases that have a closed form."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit, softmax
from sklearn.exceptions import ConvergenceWarning

from skcalib import BetaCalibrator


def optimum(p, t, w):
    """A bounded quasi-Newton run on the sum written in full."""
    p = np.clip(p, 1e-12, 1 - 1e-12)

    def loss(theta):
        a, b, c = theta
        eta = a * np.log(p) - b * np.log(1 - p) + c
        slope = w * (expit(eta) - t)
        gradient = [slope @ np.log(p), -slope @ np.log(1 - p), slope.sum()]
        return w @ (np.logaddexp(0, eta) - t * eta), np.array(gradient)

    best = minimize(
        loss,
        [1, 1, 0],
        jac=True,
        bounds=[(0, None), (0, None), (None, None)],
        method="L-BFGS-B",
        options={"ftol": 1e-15, "gtol": 1e-10, "maxiter": 5000},
    )
    return best.x, best.fun, loss


# How P(second class) comes from p, so that the free optimum has both, one or no slope above 0.
TRUTHS = {
    "both": lambda p: p**2 / (p**2 + 1 - p),
    "a held at 0": lambda p: expit(-2 * np.log(p) - 3 * np.log(1 - p) - 4),
    "b held at 0": lambda p: expit(3 * np.log(p) + 2 * np.log(1 - p) + 4),
    "decreasing": lambda p: 1 - p,
    "unrelated": lambda p: 0.3 + 0 * p,
}


@pytest.mark.parametrize("truth", TRUTHS)
@pytest.mark.filterwarnings("ignore:.*no better than the base rates")
def test_the_fit_is_the_best_with_slopes_of_at_least_zero(truth):
    rng = np.random.default_rng(0)
    p = rng.uniform(0.01, 0.99, 500)
    t = rng.random(500) < TRUTHS[truth](p)
    w = rng.integers(1, 5, 500) * 0.5
    fitted = BetaCalibrator().fit(p, t, w)
    (a, b), c = fitted.coef_[0], fitted.intercept_[0]
    theta, least, loss = optimum(p, t, w)
    assert min(a, b) >= 0
    assert loss((a, b, c))[0] <= least * (1 + 1e-10)
    np.testing.assert_allclose([a, b, c], theta, atol=1e-3)
    if truth in ("a held at 0", "decreasing"):
        assert a == 0
    if truth in ("b held at 0", "decreasing"):
        assert b == 0
    expected = expit(a * np.log(p) - b * np.log(1 - p) + c)
    np.testing.assert_allclose(fitted.predict_proba(p)[:, 1], expected, atol=1e-12)
    assert (np.diff(fitted.predict_proba(np.sort(p))[:, 1]) >= 0).all()


def test_each_of_many_classes_is_fitted_against_the_rest():
    rng = np.random.default_rng(1)
    P = rng.dirichlet(np.ones(4), size=600)
    y = np.array([rng.choice(4, p=p) for p in softmax(0.6 * np.log(P), axis=1)])
    w = rng.random(600) + 0.1
    fitted = BetaCalibrator().fit(P, y, w)
    assert fitted.coef_.shape == (4, 2)
    assert fitted.intercept_.shape == (4,)
    G = np.empty_like(P)
    for k in range(4):
        (a, b, c), _, _ = optimum(P[:, k], y == k, w)
        np.testing.assert_allclose([*fitted.coef_[k], fitted.intercept_[k]], [a, b, c], atol=1e-3)
        G[:, k] = expit(a * np.log(P[:, k]) - b * np.log(1 - P[:, k]) + c)
    expected = G / G.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(fitted.predict_proba(P), expected, atol=1e-4)


def test_two_scores_are_answered_by_their_frequencies():
    """Three parameters, two values: no unique optimum, and one answer all the same."""
    p = np.repeat([0.3, 0.9], [10, 5])
    y = np.r_[np.ones(2), np.zeros(8), np.ones(4), np.zeros(1)].astype(int)
    answer = BetaCalibrator().fit(p, y).predict_proba([0.3, 0.9])[:, 1]
    np.testing.assert_allclose(answer, [0.2, 0.8], atol=1e-9)


def test_certain_probabilities_have_a_finite_fit():
    p = np.r_[np.zeros(6), np.full(6, 0.5), np.ones(6)]
    y = np.r_[0, 0, 0, 0, 0, 1, 0, 1, 0, 1, 0, 1, 1, 1, 1, 1, 1, 0]
    answer = BetaCalibrator().fit(p, y).predict_proba([0.0, 0.5, 1.0])[:, 1]
    np.testing.assert_allclose(answer, [1 / 6, 1 / 2, 5 / 6], atol=1e-9)


def test_separated_scores_are_warned_of():
    with pytest.warns(ConvergenceWarning, match="BetaCalibrator: .*fit on more held-out rows"):
        fitted = BetaCalibrator().fit([0.1, 0.2, 0.7, 0.9], [0, 0, 1, 1])
    answer = fitted.predict_proba([0.1, 0.2, 0.7, 0.9])[:, 1]
    np.testing.assert_allclose(answer, [0, 0, 1, 1], atol=1e-6)


@pytest.mark.filterwarnings("ignore:.*no better than the base rates")
def test_scores_separated_the_wrong_way_round_are_a_constant():
    """No warning: the slopes that are allowed have an optimum, both 0."""
    fitted = BetaCalibrator().fit([0.1, 0.2, 0.7, 0.9], [1, 1, 1, 0])
    assert fitted.coef_.tolist() == [[0, 0]]
    np.testing.assert_allclose(fitted.predict_proba([0.1, 0.9])[:, 1], 0.75, atol=1e-12)
