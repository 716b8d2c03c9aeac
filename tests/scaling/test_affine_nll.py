"""NLL of affine logits: value and derivatives against the formula written out."""

import numpy as np
import pytest
from samples import uneven
from scipy.optimize import approx_fprime

from skcalib._scaling.affine import AffineNLL, Diagonal, Full
from skcalib._scores.scores import Scores


def nll_by_rows(L, code, w):
    """Weighted mean NLL of each row's probabilities, row by row."""
    total = 0.0
    for row, k, weight in zip(L, code, w, strict=True):
        q = [np.exp(z - row.max()) for z in row]
        total -= weight * np.log(q[k] / sum(q))
    return total / w.sum()


PATTERNS = [Diagonal(), Full()]


def some_theta(pattern, K, seed=2):
    rng = np.random.default_rng(seed)
    theta = pattern.identity(K)
    return theta + 0.3 * rng.normal(size=theta.shape)


def as_map(pattern, theta):
    """W and b of the parameters."""
    W = theta[:-1].T if isinstance(pattern, Full) else np.diag(theta[0])
    return W, theta[-1]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_affine_nll_and_its_gradient(pattern):
    Z, code, w = uneven()
    nll = AffineNLL(Scores(Z, "logits"), code, w, pattern)
    theta = some_theta(pattern, 4)
    value, gradient = nll.value_and_gradient(theta)
    W, b = as_map(pattern, theta)
    L = np.array([[sum(W[k, j] * z[j] for j in range(4)) + b[k] for k in range(4)] for z in Z])
    assert value == pytest.approx(nll_by_rows(L, code, w), rel=1e-12)

    def at(flat):
        return nll.value_and_gradient(flat.reshape(theta.shape))[0]

    np.testing.assert_allclose(gradient.ravel(), approx_fprime(theta.ravel(), at, 1e-7), atol=2e-6)


def hessian_by_differences(nll, theta, h=1e-5):
    """The Hessian, a column at a time."""
    columns = h * np.eye(theta.size).reshape(-1, *theta.shape)
    rises = [
        nll.value_and_gradient(theta + step)[1] - nll.value_and_gradient(theta - step)[1]
        for step in columns
    ]
    return np.array([rise.ravel() for rise in rises]).T / (2 * h)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_the_hessian_is_the_derivative_of_the_gradient(pattern):
    Z, code, w = uneven()
    nll = AffineNLL(Scores(Z, "logits"), code, w, pattern)
    theta = some_theta(pattern, 4)
    np.testing.assert_allclose(nll.hessian(theta), hessian_by_differences(nll, theta), atol=1e-8)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_the_hessian_of_a_sample_is_that_of_every_so_many_rows(pattern):
    Z, code, w = uneven()
    nll = AffineNLL(Scores(Z, "logits"), code, w, pattern)
    few = AffineNLL(Scores(Z[::3], "logits"), code[::3], w[::3], pattern)
    theta = some_theta(pattern, 4)
    expected = few.hessian(theta) * (3 * w[::3].sum() / w.sum())
    np.testing.assert_allclose(nll.hessian(theta, 3), expected, atol=1e-13)


def test_hessian_within_each_class_is_the_block_diagonal():
    Z, code, w = uneven()
    nll = AffineNLL(Scores(Z, "logits"), code, w, Diagonal())
    theta = some_theta(Diagonal(), 4)
    blocks = nll.hessian_by_class(theta)
    H = nll.hessian(theta).reshape(2, 4, 2, 4)
    for k in range(4):
        np.testing.assert_allclose(blocks[k], H[:, k, :, k], atol=1e-13)
