"""NLL of affine logits: value and derivatives against the formula written out."""

import numpy as np
import pytest
from scipy.optimize import approx_fprime

from skcalib._scaling import affine_nll
from skcalib._scaling.affine_nll import AffineNLL, Diagonal, Full
from skcalib._scores.scores import Scores


def data(n=40, K=4, seed=0):
    """Logits with ties, a missing class and uneven weights."""
    rng = np.random.default_rng(seed)
    Z = 3 * rng.normal(size=(n, K))
    Z[:3] = np.round(Z[:3])
    Z[3, 1] = Z[3, 0] = Z[3].max()
    return Z, rng.integers(0, K - 1, n), rng.uniform(0.2, 3, n)


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
    Z, code, w = data()
    nll = AffineNLL(Scores(Z, "logits"), code, w, pattern)
    theta = some_theta(pattern, 4)
    value, gradient = nll.value_and_gradient(theta)
    W, b = as_map(pattern, theta)
    L = np.array([[sum(W[k, j] * z[j] for j in range(4)) + b[k] for k in range(4)] for z in Z])
    assert value == pytest.approx(nll_by_rows(L, code, w), rel=1e-12)

    def at(flat):
        return nll.value_and_gradient(flat.reshape(theta.shape))[0]

    np.testing.assert_allclose(gradient.ravel(), approx_fprime(theta.ravel(), at, 1e-7), atol=2e-6)


@pytest.mark.parametrize("kept", [0, 1 << 21])
@pytest.mark.parametrize("pattern", PATTERNS)
def test_hessian_product_is_the_derivative_of_the_gradient(pattern, kept, monkeypatch):
    """Whether exponentials are kept for all products or made anew for each."""
    monkeypatch.setattr("skcalib._scaling.affine_nll.CACHED_ENTRIES", kept)
    Z, code, w = data()
    nll = AffineNLL(Scores(Z, "logits"), code, w, pattern)
    theta = some_theta(pattern, 4)
    V = np.random.default_rng(3).normal(size=theta.shape)
    h = 1e-5
    up = nll.value_and_gradient(theta + h * V)[1]
    down = nll.value_and_gradient(theta - h * V)[1]
    product = nll.hessian_at(theta)
    for _ in range(2):
        np.testing.assert_allclose(product(V), (up - down) / (2 * h), rtol=1e-5, atol=1e-8)


def hessian_by_products(nll, theta):
    """The Hessian, a column at a time."""
    columns = np.eye(theta.size).reshape(-1, *theta.shape)
    product = nll.hessian_at(theta)
    return np.array([product(V).ravel() for V in columns]).T


@pytest.mark.parametrize("pattern", PATTERNS)
def test_the_explicit_hessian_equals_the_products(pattern):
    Z, code, w = data()
    nll = AffineNLL(Scores(Z, "logits"), code, w, pattern)
    theta = some_theta(pattern, 4)
    np.testing.assert_allclose(nll.hessian(theta), hessian_by_products(nll, theta), atol=1e-13)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_the_hessian_of_a_sample_is_that_of_every_so_many_rows(pattern):
    Z, code, w = data()
    nll = AffineNLL(Scores(Z, "logits"), code, w, pattern)
    few = AffineNLL(Scores(Z[::3], "logits"), code[::3], w[::3], pattern)
    theta = some_theta(pattern, 4)
    expected = few.hessian(theta) * (3 * w[::3].sum() / w.sum())
    np.testing.assert_allclose(nll.hessian(theta, 3), expected, atol=1e-13)


def test_hessian_within_each_class_is_the_block_diagonal():
    Z, code, w = data()
    nll = AffineNLL(Scores(Z, "logits"), code, w, Diagonal())
    theta = some_theta(Diagonal(), 4)
    blocks = nll.hessian_by_class(theta)
    H = hessian_by_products(nll, theta).reshape(2, 4, 2, 4)
    for k in range(4):
        np.testing.assert_allclose(blocks[k], H[:, k, :, k], atol=1e-13)


@pytest.mark.parametrize("sharpness", [1.0, 5.0])
def test_hessian_of_the_pairs_that_count_is_positive_and_near(sharpness):
    """What preconditions many classes: no negative curvature, and little is lost."""
    Z, code, w = data(200, 6)
    nll = AffineNLL(Scores(Z, "logits"), code, w, Diagonal())
    theta = sharpness * some_theta(Diagonal(), 6)
    exact, near = hessian_by_products(nll, theta), nll.hessian_of_pairs(theta)
    scale = np.abs(exact).max()
    assert np.linalg.eigvalsh(near).min() > -1e-12 * scale
    assert 0 < np.abs(near - exact).max() < 0.02 * scale


def test_rows_without_doubt_bring_only_their_top_class(monkeypatch):
    """Where 1 - max q rounds to 0 every class would exceed its share, at K squared a row."""
    sizes = []
    csr_array = affine_nll.csr_array

    def counted(entries, shape):
        sizes.append(entries[0].size)
        return csr_array(entries, shape=shape)

    monkeypatch.setattr(affine_nll, "csr_array", counted)
    Z, code, w = 100 * np.eye(6)[[0, 1, 2, 3]], np.array([0, 1, 2, 3]), np.ones(4)
    nll = AffineNLL(Scores(Z, "logits"), code, w, Diagonal())
    nll.hessian_of_pairs(Diagonal().identity(6))
    assert sizes == [2 * 4]
