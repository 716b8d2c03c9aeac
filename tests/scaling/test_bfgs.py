"""Quasi-Newton steps: the update of BFGS, and where they end."""

import numpy as np
import pytest

from skcalib._scaling.bfgs import Point, _Inverse, descend


def largest(gradient):
    return float(np.abs(gradient).max())


def quadratic(eigenvalues):
    """A quadratic of the shape of the parameters (2, K), its minimum and its inverse Hessian."""
    p = len(eigenvalues)
    rng = np.random.default_rng(p)
    V = np.linalg.qr(rng.normal(size=(p, p)))[0]
    H, best = V * eigenvalues @ V.T, rng.normal(size=p)

    def objective(theta):
        away = theta.ravel() - best
        return 0.5 * away @ H @ away, (H @ away).reshape(theta.shape)

    return objective, best.reshape(2, -1), np.linalg.inv(H)


def run(objective, inverse, start, tol=1e-9, max_iter=100):
    lines = []
    at, n_iter = descend(
        objective,
        inverse,
        Point(start, *objective(start)),
        largest,
        tol,
        max_iter,
        lambda *line: lines.append(line),
    )
    return at, n_iter, lines


def test_the_inverse_is_that_of_the_formula():
    rng = np.random.default_rng(0)
    B = np.diag(rng.random(6) + 0.5)
    inverse = _Inverse(lambda g: (B0 @ g.ravel()).reshape(g.shape))
    B0, eye = B.copy(), np.eye(6)
    for _ in range(4):
        s = rng.normal(size=6)
        y = s + 0.3 * rng.normal(size=6)
        B = (eye - np.outer(s, y) / (s @ y)) @ B @ (eye - np.outer(y, s) / (s @ y))
        B += np.outer(s, s) / (s @ y)
        inverse.add(s.reshape(2, 3), y.reshape(2, 3))
    g = rng.normal(size=(2, 3))
    np.testing.assert_allclose(inverse(g).ravel(), B @ g.ravel(), rtol=1e-12)
    np.testing.assert_allclose(inverse(y.reshape(2, 3)).ravel(), s, rtol=1e-12)


def test_with_the_inverse_hessian_a_quadratic_takes_one_step():
    objective, best, inverse = quadratic(np.array([0.01, 0.1, 1.0, 10.0]))
    at, n_iter, lines = run(objective, lambda g: (inverse @ g.ravel()).reshape(g.shape), 0 * best)
    np.testing.assert_allclose(at.theta, best, atol=1e-10)
    assert n_iter == len(lines) == 1
    assert at.value == objective(at.theta)[0]


def test_with_a_rough_inverse_it_takes_far_fewer_steps_than_without_updates():
    """Eigenvalues within a factor of 4: fixed steps would shrink the gradient by .6 at best."""
    objective, best, _ = quadratic(np.linspace(0.5, 2.0, 10))
    at, n_iter, _ = run(objective, lambda g: 0.8 * g, 0 * best)
    assert largest(at.gradient) <= 1e-9
    assert n_iter < 20 < np.log(1e-9) / np.log(0.6)


def test_a_step_that_does_not_lower_the_objective_is_not_taken():
    objective, best, _ = quadratic(np.ones(4))
    at, n_iter, lines = run(objective, lambda g: 3.0 * g, 0 * best)
    assert n_iter == 0
    assert len(lines) == 1
    np.testing.assert_array_equal(at.theta, 0.0)


def test_it_ends_where_steps_are_slow():
    objective, best, _ = quadratic(np.ones(4))
    at, n_iter, _ = run(objective, lambda g: 0.1 * g, 0 * best)
    assert n_iter == 1
    np.testing.assert_allclose(at.theta, 0.1 * best)


@pytest.mark.parametrize("max_iter", [1, 3])
def test_it_takes_no_more_steps_than_allowed(max_iter):
    objective, best, _ = quadratic(np.linspace(0.5, 2.0, 10))
    at, n_iter, lines = run(objective, lambda g: 0.8 * g, 0 * best, max_iter=max_iter)
    assert n_iter == len(lines) == max_iter
    assert largest(at.gradient) > 1e-9
