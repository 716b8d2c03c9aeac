"""The solver of temperature, vector and matrix scaling, at sizes and scales that strain it."""

import warnings

import numpy as np
import pytest
from scipy.special import log_softmax
from sklearn.exceptions import ConvergenceWarning

import skcalib._affine as affine
from skcalib._affine import Penalty, find_temperature, fit_affine
from skcalib._objectives import AffineNLL
from skcalib._simplex import Scores


def data(n, K, seed=0, scale=2.0):
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(n, K))
    y = (1.5 * Z + rng.gumbel(size=Z.shape)).argmax(axis=1)
    return scale * Z, y


def fit(Z, y, *, full, penalty, about_temperature=False, tol=1e-8, max_iter=100):
    return fit_affine(
        Scores(Z, "logits"),
        y,
        np.ones(len(y)),
        full=full,
        penalty=Penalty(*penalty),
        about_temperature=about_temperature,
        tol=tol,
        max_iter=max_iter,
    )


def largest_gradient(Z, y, fitted, penalty):
    """Largest entry of the gradient for logits as given, with W's own penalty (not T's)."""
    n, K = Z.shape
    full = fitted.coef.ndim == 2
    W = fitted.coef if full else np.diag(fitted.coef)
    G = (np.exp(log_softmax(Z @ W.T + fitted.intercept, axis=1)) - np.eye(K)[y]) / n
    diagonal, off, mu = penalty
    assert diagonal == 0
    gW = G.T @ Z + 2 * off * (W - np.diag(np.diag(W)))
    gb = G.sum(axis=0) + 2 * mu * fitted.intercept
    return max(np.abs(gW if full else np.diag(gW)).max(), np.abs(gb).max())


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("factor", [1e-6, 1.0, 1e6])
def test_any_scale_of_logits_converges_in_a_few_steps(full, factor):
    """Logits far from order 1 reach a gradient of 1e-8 as given, and the same probabilities."""
    Z, y = data(600, 5)
    penalty = (0.0, 0.0, 0.0)
    fitted = fit(factor * Z, y, full=full, penalty=penalty)
    assert fitted.n_iter < 15
    # A full W whose columns sum to 1 drowns differences of 1e-6 in doubles; b and c stay clear.
    drowned = full and factor == 1e6
    assert largest_gradient(factor * Z, y, fitted, penalty) < (1e-4 if drowned else 2e-8)
    plain = fit(Z, y, full=full, penalty=penalty)
    W = fitted.coef if full else np.diag(fitted.coef)
    V = plain.coef if full else np.diag(plain.coef)
    np.testing.assert_allclose(
        np.exp(log_softmax(factor * Z @ W.T + fitted.intercept, axis=1)),
        np.exp(log_softmax(Z @ V.T + plain.intercept, axis=1)),
        atol=1e-6,
    )


@pytest.mark.parametrize("factor", [1e-6, 1.0, 1e6])
def test_odir_reaches_1e_8_at_any_scale_of_logits(factor):
    Z, y = data(600, 5)
    penalty = (0.0, 20 / 600, 5 / 600)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted = fit(factor * Z, y, full=True, penalty=penalty)
    assert largest_gradient(factor * Z, y, fitted, penalty) < 2e-8


@pytest.mark.parametrize(("off", "products"), [(1e-4, 45), (0.05, 25), (10.0, 20)])
def test_the_preconditioner_by_factors_serves_any_strength_of_penalty(monkeypatch, off, products):
    """More parameters than one matrix holds: cheap with the off-diagonal free, or held fast."""
    taken = []
    product = AffineNLL.hessian_product
    monkeypatch.setattr(
        AffineNLL, "hessian_product", lambda *args: (taken.append(1), product(*args))[1]
    )
    Z, y = data(1200, 30)
    penalty = (0.0, off, 0.01)
    assert affine.LARGEST_EXACT < 31 * 30
    fitted = fit(Z, y, full=True, penalty=penalty)
    assert fitted.n_iter < 15
    assert len(taken) < products
    assert largest_gradient(Z, y, fitted, penalty) < 1.5e-8


def test_both_preconditioners_of_a_matrix_lead_to_one_optimum(monkeypatch):
    Z, y = data(500, 6)
    penalty = (0.0, 0.01, 0.01)
    exact = fit(Z, y, full=True, penalty=penalty, tol=1e-10)
    monkeypatch.setattr(affine, "LARGEST_EXACT", 1)
    by_factors = fit(Z, y, full=True, penalty=penalty, tol=1e-10)
    np.testing.assert_allclose(by_factors.coef, exact.coef, atol=1e-7)
    np.testing.assert_allclose(by_factors.intercept, exact.intercept, atol=1e-7)


@pytest.mark.parametrize("factor", [0, 2048])
def test_vector_scaling_of_many_classes_by_blocks_and_by_a_factor(monkeypatch, factor):
    """Both preconditioners for many classes reach the optimum, whichever the fit settles on."""
    monkeypatch.setattr(affine, "LARGEST_FACTOR", factor)
    Z, y = data(4000, 150)
    assert affine.LARGEST_EXACT < 300
    fitted = fit(Z, y, full=False, penalty=(0.0, 0.0, 0.0))
    assert largest_gradient(Z, y, fitted, (0.0, 0.0, 0.0)) < 1.5e-8


def test_a_class_that_never_occurs_is_fitted():
    Z, y = data(500, 4)
    keep = y != 2
    fitted = fit(Z[keep], y[keep], full=False, penalty=(0.0, 0.0, 0.01))
    assert np.isfinite(fitted.coef).all()
    Q = np.exp(log_softmax(Z * fitted.coef + fitted.intercept, axis=1))
    assert Q[:, 2].mean() < 0.2 * Q[:, [0, 1, 3]].mean()


def test_steps_that_run_out_are_a_warning():
    Z, y = data(500, 4)
    with pytest.warns(ConvergenceWarning, match="1 of at most 1"):
        fit(Z, y, full=True, penalty=(0.0, 0.0, 0.0), max_iter=1)


@pytest.mark.parametrize("K", [2, 10, 100])
@pytest.mark.parametrize("scale", [0.01, 1.0, 100.0])
def test_temperature_takes_at_most_eight_passes_over_all_rows(monkeypatch, K, scale):
    """A sample finds the neighbourhood; all rows are read to finish, and once for their maxima."""
    Z, y = data(9000, K, scale=scale)
    rows = []
    of_scale = affine.nll_of_scale
    monkeypatch.setattr(
        affine,
        "nll_of_scale",
        lambda shifted, beta: (rows.append(shifted.share.size), of_scale(shifted, beta))[1],
    )
    found = find_temperature(Scores(Z, "logits"), y, np.ones(len(y)))
    assert found.bound == ""
    assert 1 <= rows.count(len(y)) <= 7
