"""BFGS: the update, and where it ends."""

import numpy as np
import pytest
from scipy.optimize import minimize, rosen, rosen_der

from skcalib._scaling.optimise import WHITENED_PAIRS, Inverse, minimise, minimise_whitened


def largest(gradient):
    return float(np.abs(gradient).max())


def run(objective, inverse, start, tol=1e-9, max_iter=100):
    """Minimise with an inverse for each turn; return the point, the steps and the turns."""
    turns = []
    at, n_iter = minimise(
        [objective],
        lambda theta, turn, lift, single: turns.append(turn) or inverse(theta, turn),
        start,
        largest,
        tol,
        max_iter,
        lambda *line: None,
    )
    return at, n_iter, turns


def quadratic(eigenvalues):
    """A quadratic of the shape of the parameters (2, K), and its minimum."""
    p = len(eigenvalues)
    rng = np.random.default_rng(p)
    V = np.linalg.qr(rng.normal(size=(p, p)))[0]
    H, best = V * eigenvalues @ V.T, rng.normal(size=p)

    def objective(theta):
        away = theta.ravel() - best
        return 0.5 * away @ H @ away, (H @ away).reshape(theta.shape)

    return objective, best.reshape(2, -1)


def test_the_inverse_is_that_of_the_formula():
    rng = np.random.default_rng(0)
    B0 = B = np.diag(rng.random(6) + 0.5)
    inverse, eye = Inverse(lambda g: (B0 @ g.ravel()).reshape(g.shape), []), np.eye(6)
    for _ in range(4):
        s = rng.normal(size=6)
        y = s + 0.3 * rng.normal(size=6)
        B = (eye - np.outer(s, y) / (s @ y)) @ B @ (eye - np.outer(y, s) / (s @ y))
        B = B + np.outer(s, s) / (s @ y)
        inverse.add(s.reshape(2, 3), y.reshape(2, 3))
    g = rng.normal(size=(2, 3))
    np.testing.assert_allclose(inverse(g).ravel(), B @ g.ravel(), rtol=1e-12)
    np.testing.assert_allclose(inverse(y.reshape(2, 3)).ravel(), s, rtol=1e-12)


@pytest.mark.parametrize("scale", [0.8, 50.0])
def test_a_quadratic_takes_far_fewer_steps_than_without_updates(scale):
    """Eigenvalues within a factor of 4; an inverse that is far too large costs a few steps."""
    objective, best = quadratic(np.linspace(0.5, 2.0, 10))
    at, n_iter, _ = run(objective, lambda *_: lambda g: scale * g, 0 * best)
    np.testing.assert_allclose(at.theta, best, atol=1e-8)
    assert n_iter < 25 < np.log(1e-9) / np.log(0.6)


def test_float32_is_left_where_its_rounding_hides_the_descent():
    objective, best = quadratic(np.linspace(0.5, 2.0, 10))
    calls = []

    def rounded(theta):
        calls.append("float32")
        return tuple(np.asarray(x, dtype=np.float32).astype(float) for x in objective(theta))

    def exact(theta):
        calls.append("float64")
        return objective(theta)

    at, n_iter = minimise(
        [rounded, exact],
        lambda *_: lambda g: 0.8 * g,
        0 * best,
        largest,
        1e-9,
        100,
        lambda *line: None,
    )
    np.testing.assert_allclose(at.theta, best, atol=1e-8)
    assert calls == sorted(calls)
    assert 2 < calls.count("float64") < calls.count("float32") <= n_iter


def test_the_inverse_is_computed_again_where_steps_are_slow():
    """The curvature of cosh changes a hundredfold on the way to its minimum."""

    def objective(theta):
        return float(np.cosh(theta).sum()), np.sinh(theta)

    start = np.linspace(3.0, 8.0, 40).reshape(2, -1)
    at, _, turns = run(objective, lambda theta, _: lambda g: g / np.cosh(theta), start)
    assert largest(at.theta) < 1e-8
    assert turns == list(range(len(turns)))
    assert len(turns) > 1


def test_it_ends_where_no_step_is_lower():
    """The gradient cannot become 0 by rounding."""
    at, n_iter, turns = run(
        lambda t: (1.0, np.ones_like(t)), lambda *_: lambda g: g, np.zeros((2, 3))
    )
    assert n_iter == 0
    assert len(turns) < 10
    np.testing.assert_array_equal(at.theta, 0.0)


def test_it_takes_no_more_steps_than_allowed():
    objective, best = quadratic(np.linspace(0.5, 2.0, 10))
    at, n_iter, _ = run(objective, lambda *_: lambda g: 0.8 * g, 0 * best, max_iter=3)
    assert n_iter == 3
    assert largest(at.gradient) > 1e-9


@pytest.mark.parametrize("max_iter", [1, 4, 16])
@pytest.mark.parametrize("p", [2, 30])
def test_steps_of_whitened_parameters_are_those_of_scipy(p, max_iter):
    """`DCSRCH`, a private part of SciPy, is the line search of its L-BFGS-B."""
    quadratic_of, _ = quadratic(np.linspace(0.05, 3.0, p))

    def flat_quadratic(v):
        value, gradient = quadratic_of(v.reshape(2, -1))
        return value, gradient.ravel()

    def rosenbrock(v):  # its line searches take several points
        return rosen(v), rosen_der(v)

    options = {"maxiter": max_iter, "gtol": 1e-6, "ftol": 0.0, "maxcor": WHITENED_PAIRS}
    for objective in (flat_quadratic, rosenbrock):
        start = np.full(p, -0.5)
        v, n_iter = minimise_whitened(objective, start, 1e-6, 0.0, max_iter)
        expected = minimize(objective, start, jac=True, method="L-BFGS-B", options=options)
        assert n_iter == expected.nit
        np.testing.assert_allclose(v, expected.x, rtol=0, atol=1e-9)
