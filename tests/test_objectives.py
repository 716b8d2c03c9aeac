"""Losses of scaled and affine logits: values and derivatives against the formula written out."""

import numpy as np
import pytest
from scipy.optimize import approx_fprime

import skcalib._objectives as objectives
from skcalib._objectives import AffineNLL, Diagonal, Full, TopShifted, brier_of_scale, nll_of_scale
from skcalib._simplex import Scores


def data(n=40, K=4, seed=0):
    """Logits with ties, a missing class and uneven weights."""
    rng = np.random.default_rng(seed)
    Z = 3 * rng.normal(size=(n, K))
    Z[:3] = np.round(Z[:3])
    Z[3, 1] = Z[3, 0] = Z[3].max()
    return Z, rng.integers(0, K - 1, n), rng.uniform(0.2, 3, n)


def loss(L, code, w, row_loss):
    """Weighted mean of a loss of each row's probabilities, row by row."""
    total = 0.0
    for i, row in enumerate(L):
        q = [np.exp(z - row.max()) for z in row]
        total += w[i] * row_loss(np.array(q) / sum(q), code[i])
    return total / w.sum()


def row_nll(q, k):
    return -np.log(q[k])


def row_brier(q, k):
    return sum((q[j] - (j == k)) ** 2 for j in range(len(q)))


# ------------------------------------------------------------------------------- a single scale


@pytest.mark.parametrize(
    ("of_scale", "row_loss"), [(nll_of_scale, row_nll), (brier_of_scale, row_brier)]
)
@pytest.mark.parametrize("beta", [0.02, 0.4, 1.0, 3.0])
def test_loss_of_a_scale_and_its_two_derivatives(of_scale, row_loss, beta):
    Z, code, w = data()
    shifted = TopShifted(Scores(Z, "logits"), code, w)
    found = of_scale(shifted, beta)
    assert found.value == pytest.approx(loss(beta * Z, code, w, row_loss), rel=1e-12)
    h = 1e-5 * beta
    up, down = of_scale(shifted, beta + h), of_scale(shifted, beta - h)
    assert found.first == pytest.approx((up.value - down.value) / (2 * h), rel=1e-6, abs=1e-9)
    assert found.second == pytest.approx((up.first - down.first) / (2 * h), rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("of_scale", [nll_of_scale, brier_of_scale])
def test_the_blocks_do_not_show_in_the_sums(of_scale, monkeypatch):
    Z, code, w = data()
    whole = of_scale(TopShifted(Scores(Z, "logits"), code, w), 0.7)
    monkeypatch.setattr(
        objectives, "row_blocks", lambda n, K: [slice(i, i + 7) for i in range(0, n, 7)]
    )
    in_pieces = of_scale(TopShifted(Scores(Z, "logits"), code, w), 0.7)
    np.testing.assert_allclose(in_pieces, whole, rtol=1e-13)


@pytest.mark.parametrize("of_scale", [nll_of_scale, brier_of_scale])
def test_a_weight_of_two_is_two_rows(of_scale):
    Z, code, _ = data()
    w = np.random.default_rng(1).integers(1, 4, len(code))
    weighted = of_scale(TopShifted(Scores(Z, "logits"), code, w.astype(float)), 0.7)
    repeated = of_scale(
        TopShifted(Scores(np.repeat(Z, w, axis=0), "logits"), np.repeat(code, w), np.ones(w.sum())),
        0.7,
    )
    np.testing.assert_allclose(weighted, repeated, rtol=1e-12)


def test_deficit_and_spread_are_the_slopes_of_the_nll_at_its_ends():
    """At scale 0 the NLL falls by spread - deficit; far out it rises by the deficit."""
    Z, code, w = data()
    shifted = TopShifted(Scores(Z, "logits"), code, w)
    assert nll_of_scale(shifted, 0.0).first == pytest.approx(shifted.deficit - shifted.spread)
    alone = np.sort(Z, axis=1)
    clear = alone[:, -1] > alone[:, -2]
    shifted = TopShifted(Scores(Z[clear], "logits"), code[clear], w[clear])
    assert nll_of_scale(shifted, 1e6).first == pytest.approx(shifted.deficit)


def test_the_deficit_is_exactly_0_when_every_true_class_is_on_top():
    Z = np.array([[0.1, 0.3, 0.3], [1e6, 0.0, -np.inf]])
    assert TopShifted(Scores(Z, "logits"), np.array([2, 0]), np.ones(2)).deficit == 0.0


@pytest.mark.parametrize(("n", "expected"), [(9, 9), (10, 5), (14, 7), (25, 5)])
def test_thinned_rows_are_evenly_spaced(n, expected):
    Z, code, w = data(n)
    few = TopShifted(Scores(Z, "logits"), code, w).thinned(5)
    step = n // 5 if n >= 10 else 1
    assert few.code.size == expected
    np.testing.assert_array_equal(few.scores.array, Z[::step])
    np.testing.assert_allclose(few.share, w[::step] / w[::step].sum())


# ------------------------------------------------------------------------------- an affine map

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
    assert value == pytest.approx(loss(L, code, w, row_nll), rel=1e-12)

    def at(flat):
        return nll.value_and_gradient(flat.reshape(theta.shape))[0]

    np.testing.assert_allclose(gradient.ravel(), approx_fprime(theta.ravel(), at, 1e-7), atol=2e-6)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_hessian_product_is_the_derivative_of_the_gradient(pattern):
    Z, code, w = data()
    nll = AffineNLL(Scores(Z, "logits"), code, w, pattern)
    theta = some_theta(pattern, 4)
    V = np.random.default_rng(3).normal(size=theta.shape)
    h = 1e-5
    up = nll.value_and_gradient(theta + h * V)[1]
    down = nll.value_and_gradient(theta - h * V)[1]
    np.testing.assert_allclose(
        nll.hessian_product(theta, V), (up - down) / (2 * h), rtol=1e-5, atol=1e-8
    )


def hessian_by_products(nll, theta):
    """The Hessian, a column at a time."""
    columns = np.eye(theta.size).reshape(-1, *theta.shape)
    return np.array([nll.hessian_product(theta, V).ravel() for V in columns]).T


def hessian_by_blocks(nll, theta):
    H = np.zeros((theta.size, theta.size))
    for Z, Q, share in nll.predictions(theta):
        nll.pattern.add_hessian(H, Z, Q, share)
    return H


@pytest.mark.parametrize("pattern", PATTERNS)
def test_the_explicit_hessian_equals_the_products(pattern):
    Z, code, w = data()
    nll = AffineNLL(Scores(Z, "logits"), code, w, pattern)
    theta = some_theta(pattern, 4)
    np.testing.assert_allclose(
        hessian_by_blocks(nll, theta), hessian_by_products(nll, theta), atol=1e-13
    )


def test_hessian_within_each_class_is_the_block_diagonal():
    Z, code, w = data()
    nll = AffineNLL(Scores(Z, "logits"), code, w, Diagonal())
    theta = some_theta(Diagonal(), 4)
    blocks = np.zeros((4, 2, 2))
    for block, Q, share in nll.predictions(theta):
        Diagonal().add_hessian_by_class(blocks, block, Q, share)
    H = hessian_by_products(nll, theta).reshape(2, 4, 2, 4)
    for k in range(4):
        np.testing.assert_allclose(blocks[k], H[:, k, :, k], atol=1e-13)


@pytest.mark.parametrize("sharpness", [1.0, 5.0])
def test_hessian_of_the_pairs_that_count_is_positive_and_near(monkeypatch, sharpness):
    """What preconditions many classes: no negative curvature, and little is lost."""
    monkeypatch.setattr(objectives, "ALL_PAIRS_CLASSES", 3)
    Z, code, w = data(200, 6)
    nll = AffineNLL(Scores(Z, "logits"), code, w, Diagonal())
    theta = sharpness * some_theta(Diagonal(), 6)
    exact, near = hessian_by_products(nll, theta), hessian_by_blocks(nll, theta)
    scale = np.abs(exact).max()
    assert np.linalg.eigvalsh(near).min() > -1e-12 * scale
    assert 0 < np.abs(near - exact).max() < 0.02 * scale


def test_rows_without_doubt_bring_only_their_top_class(monkeypatch):
    """Where 1 - max q rounds to 0 every class would exceed its share, at K squared a row."""
    monkeypatch.setattr(objectives, "ALL_PAIRS_CLASSES", 3)
    sizes = []
    csr_array = objectives.csr_array

    def counted(entries, shape):
        sizes.append(entries[0].size)
        return csr_array(entries, shape=shape)

    monkeypatch.setattr(objectives, "csr_array", counted)
    Z, code, w = 100 * np.eye(6)[[0, 1, 2, 3]], np.array([0, 1, 2, 3]), np.ones(4)
    hessian_by_blocks(AffineNLL(Scores(Z, "logits"), code, w, Diagonal()), Diagonal().identity(6))
    assert sizes == [2 * 4]
