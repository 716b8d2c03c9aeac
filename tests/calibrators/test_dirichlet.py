"""Dirichlet calibration: the optimum of its objective, and what it shares with matrix scaling."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax

from skcalib import DirichletCalibrator, MatrixScaling


def data(n=400, n_classes=3, seed=0):
    rng = np.random.default_rng(seed)
    Z = 1.5 * rng.normal(size=(n, n_classes)) + np.linspace(0, 0.5, n_classes)
    y = (0.6 * Z + 0.3 * np.roll(Z, 1, axis=1) + rng.gumbel(size=Z.shape)).argmax(axis=1)
    return Z + rng.normal(size=(n, 1)), y, rng.integers(1, 5, n)


def odir(W, b, L, y, w, reg_lambda, reg_mu):
    """The objective of the paper in loops."""
    K, total = len(b), 0.0
    for row, k, weight in zip(L, y, w, strict=True):
        total -= weight * log_softmax(W @ row + b)[k]
    off = sum(W[i, j] ** 2 for i in range(K) for j in range(K) if i != j)
    return total / sum(w) + reg_lambda * off + reg_mu * sum(v**2 for v in b)


@pytest.mark.parametrize("kind", ["logits", "proba"])
@pytest.mark.parametrize("given", [False, True])
def test_the_fit_is_the_optimum_of_the_objective(kind, given):
    """Of log-probabilities, also where logits come in; defaults K (K - 1) / n and K / n."""
    Z, y, w = data(150)
    L = log_softmax(Z, axis=1)
    n = w.sum()
    penalties = (0.02, 0.3) if given else (3 * 2 / n, 3 / n)
    keywords = dict(zip(("reg_lambda", "reg_mu"), penalties, strict=True)) if given else {}
    X = Z if kind == "logits" else np.exp(L)
    fitted = DirichletCalibrator(tol=1e-9, **keywords).fit(X, y, w)

    def objective(theta):
        return odir(theta[:9].reshape(3, 3), theta[9:], L, y, w, *penalties)

    at = np.r_[fitted.coef_.ravel(), fitted.intercept_]
    best = minimize(objective, at, method="BFGS", options={"gtol": 1e-7, "maxiter": 3})
    assert objective(at) <= best.fun + 1e-10
    for j in range(12):  # stationary along every parameter
        h = 1e-5 * np.eye(12)[j]
        assert abs(objective(at + h) - objective(at - h)) / 2e-5 < 1e-6
    expected = softmax(L @ fitted.coef_.T + fitted.intercept_, axis=1)
    np.testing.assert_allclose(fitted.predict_proba(X), expected, atol=1e-12)


@pytest.mark.parametrize("penalty", ["odir", "structured"])
def test_a_constant_added_to_a_row_changes_nothing(penalty):
    """That is what tells it from matrix scaling, which sees the logits as they are."""
    Z, y, _ = data()
    shifted = Z + np.random.default_rng(1).normal(size=(len(Z), 1)) * 3
    method = DirichletCalibrator(penalty=penalty, tol=1e-10)
    expected = method.fit(Z, y).predict_proba(Z)
    np.testing.assert_allclose(method.fit(shifted, y).predict_proba(shifted), expected, atol=1e-7)
    matrix = MatrixScaling(penalty=penalty)
    before = matrix.fit(Z, y).predict_proba(Z)
    assert np.abs(matrix.fit(shifted, y).predict_proba(shifted) - before).max() > 1e-3


def test_log_probabilities_are_clipped():
    """Exact zeros and impossible logits are half of the smallest probability there is."""
    Z, y, _ = data()
    P = softmax(Z, axis=1)
    P[::7] = [1 - 1e-12, 1e-12, 0]
    half = P.copy()
    half[::7, 2] = 5e-13
    expected = DirichletCalibrator().fit(half, y)
    with np.errstate(divide="ignore"):
        for scores in (P, np.log(P)):
            fitted = DirichletCalibrator().fit(scores, y)
            assert fitted.clip_ == pytest.approx(5e-13)
            np.testing.assert_allclose(fitted.coef_, expected.coef_, atol=1e-5)


def test_a_heavy_penalty_leaves_the_diagonal_free():
    Z, y, _ = data()
    fitted = DirichletCalibrator(reg_lambda=1e6, reg_mu=1e6).fit(softmax(Z, axis=1), y)
    np.testing.assert_allclose(fitted.coef_, np.diag(np.diag(fitted.coef_)), atol=1e-5)
    np.testing.assert_allclose(fitted.intercept_, 0, atol=1e-5)
    assert np.abs(np.diag(fitted.coef_) - 1).max() > 0.05


@pytest.mark.parametrize("Calibrator", [MatrixScaling, DirichletCalibrator])
def test_penalties_of_the_paper_are_divided_by_the_number_of_terms(Calibrator):
    """Kull's lambda and mu, as printed, are lambda / (K (K - 1)) and mu / K here."""
    Z, y, _ = data(200, 4)
    K, lam, mu = 4, 0.9, 0.2
    L = log_softmax(Z, axis=1) if Calibrator is DirichletCalibrator else Z

    def printed(theta):
        W, b = theta[: K * K].reshape(K, K), theta[K * K :]
        loss = -log_softmax(L @ W.T + b, axis=1)[np.arange(len(y)), y].mean()
        off = (W[~np.eye(K, dtype=bool)] ** 2).mean()
        return loss + lam * off + mu * (b**2).mean()

    start = np.r_[np.eye(K).ravel(), np.zeros(K)]
    found = minimize(printed, start, method="BFGS", options={"gtol": 1e-7})
    fitted = Calibrator(
        penalty="odir", reg_lambda=lam / (K * (K - 1)), reg_mu=mu / K, tol=1e-9, input="logits"
    ).fit(Z, y)
    np.testing.assert_allclose(fitted.coef_.ravel(), found.x[: K * K], atol=1e-5)
    np.testing.assert_allclose(fitted.intercept_, found.x[K * K :], atol=1e-5)
