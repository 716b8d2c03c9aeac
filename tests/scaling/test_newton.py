"""Newton's method for several problems at once, against SciPy's minimiser, one by one."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit

from skcalib._scaling.optimise import minimise_each


def logistic_problems(k=6, n=30, p=3, seed=0):
    """Features ``(n, p)``, and hits ``(k, n)`` that are all alike in one problem."""
    rng = np.random.default_rng(seed)
    X, hits = rng.normal(size=(n, p)), rng.random((k, n)) < 0.3
    hits[2] = True
    return X, hits


def derivatives_of(X, hits, seen=None):
    def derivatives(theta, places):
        eta, H = theta @ X.T, hits[places]
        if seen is not None:
            seen.append(places)
        q = expit(eta)
        second = np.einsum("kn,np,nq->kpq", q * (1 - q), X, X)
        return (np.logaddexp(0, eta) - H * eta).sum(axis=1), (q - H) @ X, second

    return derivatives


@pytest.mark.parametrize("start", [0.0, 20.0])
def test_each_problem_reaches_its_minimum(start):
    """From 20, full steps of Newton's method would diverge."""
    X, hits = logistic_problems()
    alpha = np.array([0.1, 1.0, 5.0])
    found = minimise_each(derivatives_of(X, hits), np.full((6, 3), start), alpha, 1e-12)
    for k in range(6):

        def objective(theta, k=k):
            value = derivatives_of(X, hits)(theta[None], np.array([k]))[0][0]
            return value + alpha @ theta**2 / 2

        slow = minimize(objective, np.zeros(3), tol=1e-10)
        np.testing.assert_allclose(found.theta[k], slow.x, atol=1e-4)
        assert found.objective[k] == pytest.approx(slow.fun, abs=1e-9)
        q = expit(X @ found.theta[k])
        A = (X.T * (q * (1 - q))) @ X + np.diag(alpha)
        np.testing.assert_allclose(found.hessian[k], A, rtol=1e-5, atol=1e-5)


def test_problems_that_have_ended_are_left_alone():
    X, hits = logistic_problems()
    first = minimise_each(derivatives_of(X, hits), np.zeros((6, 3)), np.ones(3), 1e-12)
    start, seen = first.theta.copy(), []
    start[4] = 3.0
    again = minimise_each(derivatives_of(X, hits, seen), start, np.ones(3), 1e-8)
    np.testing.assert_allclose(again.theta, first.theta, atol=1e-5)
    assert seen[0].tolist() == list(range(6))
    assert all(places.tolist() == [4] for places in seen[1:])


def test_the_evidence_of_gaussian_problems_is_exact():
    """The integral of exp(-h (theta - y)**2 / 2) under N(0, 1 / alpha), summed in its logarithm."""
    y, h = np.array([[0.5, -2.0], [1.0, 3.0]]), np.array([[1.0, 4.0], [0.3, 2.0]])
    alpha = np.array([1.7, 0.2])

    def derivatives(theta, places):
        away, curve = theta - y[places], h[places]
        return (curve * away**2).sum(axis=1) / 2, curve * away, curve[:, :, None] * np.eye(2)

    found = minimise_each(derivatives, np.zeros((2, 2)), alpha, 1e-12).log_evidence(alpha)
    exact = (np.log(alpha / (alpha + h)) / 2 - y**2 * h * alpha / (h + alpha) / 2).sum(axis=1)
    np.testing.assert_allclose(found, exact, rtol=1e-9)
