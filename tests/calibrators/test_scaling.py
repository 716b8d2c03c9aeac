"""Temperature, vector and matrix scaling reach the optimum of an objective written out here."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import log_softmax
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.naive_bayes import GaussianNB

from skcalib import MatrixScaling, TemperatureScaling, VectorScaling
from skcalib._validation.rows import check_weight


def data(K=4, n=400, seed=0, scale=3.0):
    """Over-confident logits with an offset, and labels some of which they miss."""
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(n, K))
    y = (Z + np.linspace(0, 1, K) + rng.gumbel(size=Z.shape)).argmax(axis=1)
    y[:K] = np.arange(K)
    return scale * Z, y


def nll(Z, y, w=None):
    w = np.ones(len(y)) if w is None else w
    return -np.average(log_softmax(Z, axis=1)[np.arange(len(y)), y], weights=w)


def brier(Z, y, w=None):
    Q = np.exp(log_softmax(Z, axis=1)) - np.eye(Z.shape[1])[y]
    return np.average((Q**2).sum(axis=1), weights=w)


def best_temperature(loss, Z, y, w=None):
    """Golden section about the best of a fine grid; refined by the slope's sign."""
    grid = np.geomspace(1e-3, 1e4, 401)
    best = int(np.argmin([loss(Z / T, y, w) for T in grid]))
    low, high = np.log(grid[best - 1]), np.log(grid[best + 1])
    for _ in range(40):
        step = 1e-5
        middle = (low + high) / 2
        slope = loss(Z / np.exp(middle + step), y, w) - loss(Z / np.exp(middle - step), y, w)
        low, high = (low, middle) if slope > 0 else (middle, high)
    return np.exp((low + high) / 2)


# ------------------------------------------------------------------------------ temperature


@pytest.mark.parametrize(("objective", "loss"), [("nll", nll), ("brier", brier)])
@pytest.mark.parametrize("K", [2, 3])
def test_temperature_is_the_minimum_of_its_objective(objective, loss, K):
    Z, y = data(K)
    w = np.random.default_rng(1).uniform(0, 2, len(y))
    for weights in (None, w):
        fitted = TemperatureScaling(objective=objective).fit(Z, y, weights)
        assert fitted.temperature_ == pytest.approx(best_temperature(loss, Z, y, weights), rel=1e-6)


def test_temperature_makes_the_expected_logit_the_observed_one():
    """The closed condition of the optimum: mean of sum_k q_k z_k = mean of z_y, to 1e-8 in T."""
    Z, y = data(10, 9000)
    fitted = TemperatureScaling().fit(Z, y)

    def excess(T):
        Q = np.exp(log_softmax(Z / T, axis=1))
        return ((Q * Z).sum(axis=1) - Z[np.arange(len(y)), y]).mean()

    T = fitted.temperature_
    assert excess(T * (1 - 1e-8)) * excess(T * (1 + 1e-8)) < 0


@pytest.mark.parametrize("factor", [1e-29, 1e28])
@pytest.mark.parametrize("objective", ["nll", "brier"])
def test_temperature_scales_with_the_logits(factor, objective):
    Z, y = data()
    scaling = TemperatureScaling(objective=objective, input="logits")
    T = scaling.fit(Z, y).temperature_
    scaled = scaling.fit(factor * Z, y).temperature_
    assert scaled == pytest.approx(factor * T, rel=1e-8, abs=0)


def test_all_rows_right_is_a_warning_and_the_lower_bound():
    Z = 5 * np.eye(3)[[0, 1, 2, 0, 1, 2]]
    with pytest.warns(ConvergenceWarning, match="lower bound of T.*held-out rows"):
        fitted = TemperatureScaling(input="logits").fit(Z, [0, 1, 2, 0, 1, 2])
    assert 0 < fitted.temperature_ < 0.01


def test_scores_worse_than_chance_are_a_warning_and_the_upper_bound():
    Z, y = data()
    with pytest.warns(ConvergenceWarning, match="upper bound of T.*order of the sorted"):
        fitted = TemperatureScaling().fit(-Z, y)
    np.testing.assert_allclose(fitted.predict_proba(-Z), 0.25, atol=1e-3)


@pytest.mark.parametrize("objective", ["nll", "brier"])
def test_constant_logits_stay_uniform(objective):
    told = TemperatureScaling(objective=objective, input="logits")
    fitted = told.fit(np.full((6, 3), 7.0), [0, 1, 2] * 2)
    np.testing.assert_allclose(fitted.predict_proba(np.full((2, 3), 7.0)), 1 / 3)


def test_a_few_monstrous_logits_do_not_hide_the_optimum():
    """Naive Bayes with constant features gives log-probabilities down to -1e10."""
    X, y = load_digits(return_X_y=True)
    L = GaussianNB().fit(X[:800], y[:800]).predict_log_proba(X[:800])
    assert L.min() < -1e9
    fitted = TemperatureScaling().fit(L, y[:800])
    assert fitted.temperature_ == pytest.approx(best_temperature(nll, L, y[:800]), rel=1e-5)
    T = TemperatureScaling(objective="brier").fit(L, y[:800]).temperature_
    assert brier(L / T, y[:800]) <= brier(L / best_temperature(brier, L, y[:800]), y[:800]) + 1e-9


# ------------------------------------------------------------------------ vector and matrix


def objective_of(Z, y, w, full, penalty):
    """Objective and gradient as functions of (T W, b), written out, and T."""
    n, K = Z.shape
    w = np.ones(n) if w is None else w
    N = w.sum()
    T = best_temperature(nll, Z, y, w) if penalty == "structured" else 1.0
    on = K / N if penalty == "structured" else 0.0
    off = 0.0 if penalty is None else K * (K - 1) / N
    mu = 0.0 if penalty is None else K / N
    X, eye = Z / T, np.eye(K)
    ridge = np.where(eye == 1, on, off)

    def objective(theta):
        W, b = unpack(theta, K, full)
        L = log_softmax(X @ W.T + b, axis=1)
        D = W - eye
        value = -np.average(L[np.arange(n), y], weights=w)
        value += (ridge * D**2).sum() + mu * (b**2).sum()
        G = (np.exp(L) - eye[y]) * (w / N)[:, None]
        gW, gb = G.T @ X + 2 * ridge * D, G.sum(axis=0) + 2 * mu * b
        return value, pack(gW, gb, full)

    return objective, T


def pack(W, b, full):
    return np.concatenate([W.ravel() if full else np.diag(W), b])


def unpack(theta, K, full):
    return theta[:-K].reshape(K, K) if full else np.diag(theta[:K]), theta[-K:]


CASES = [
    (VectorScaling, False, "structured"),
    (VectorScaling, False, None),
    (MatrixScaling, True, "structured"),
    (MatrixScaling, True, "odir"),
    (MatrixScaling, True, None),
]


@pytest.mark.parametrize(("calibrator", "full", "penalty"), CASES)
@pytest.mark.parametrize(("K", "weighted"), [(2, True), (4, False)])
def test_affine_map_is_the_minimum_of_its_objective(calibrator, full, penalty, K, weighted):
    """Against a general-purpose method on the full gradient."""
    Z, y = data(K, 400)
    w = check_weight(np.random.default_rng(1).uniform(0.1, 2, len(y)), 400) if weighted else None
    objective, T = objective_of(Z, y, w, full, penalty)
    best = minimize(
        objective, pack(np.eye(K), np.zeros(K), full), jac=True, method="L-BFGS-B",
        options={"maxiter": 20000, "maxfun": 40000, "ftol": 1e-16, "gtol": 1e-10, "maxcor": 50},
    )  # fmt: skip
    fitted = calibrator(penalty=penalty, tol=1e-9).fit(Z, y, w)
    value, gradient = objective(np.concatenate([T * fitted.coef_.ravel(), fitted.intercept_]))
    assert value <= best.fun + 1e-12
    assert np.abs(gradient).max() < 1e-8
    W, b = unpack(best.x, K, full)
    expected = np.exp(log_softmax(Z / T @ W.T + b, axis=1))
    np.testing.assert_allclose(fitted.predict_proba(Z), expected, atol=2e-6)


@pytest.mark.parametrize(("calibrator", "full", "penalty"), CASES)
@pytest.mark.parametrize("factor", [1.0, 1e3])
def test_tol_is_the_largest_entry_of_the_gradient_for_logits_as_given(
    calibrator, full, penalty, factor
):
    Z, y = data(4, 500)
    objective, T = objective_of(factor * Z, y, None, full, penalty)
    fitted = calibrator(penalty=penalty, tol=1e-7).fit(factor * Z, y)
    _, gradient = objective(np.concatenate([T * fitted.coef_.ravel(), fitted.intercept_]))
    assert T * np.abs(gradient[:-4]).max() < 2e-7
    assert np.abs(gradient[-4:]).max() < 2e-7


@pytest.mark.parametrize(("calibrator", "full", "penalty"), CASES)
def test_shifts_that_change_nothing_are_left_out(calibrator, full, penalty):
    Z, y = data(5, 700)
    fitted = calibrator(penalty=penalty).fit(Z, y)
    assert fitted.intercept_.sum() == pytest.approx(0, abs=1e-9)
    if full and penalty is None:
        np.testing.assert_allclose(fitted.coef_.sum(axis=0), 1, atol=1e-9)


def test_too_few_steps_are_a_warning_with_the_mend():
    Z, y = data()
    with pytest.warns(ConvergenceWarning, match="raise max_iter, or pass penalty='structured'"):
        MatrixScaling(penalty=None, max_iter=1).fit(Z, y)


@pytest.mark.parametrize("calibrator", [VectorScaling, MatrixScaling])
def test_a_fit_that_ends_where_no_row_is_misclassified_says_that_there_is_no_optimum(calibrator):
    """Any scale of its logits above 1 is better: of rows not seen two fits may say anything."""
    Z = np.eye(3)[np.arange(30) % 3] + 0.1 * np.random.default_rng(0).normal(size=(30, 3))
    y, w = np.arange(30) % 3, np.ones(30)
    free = calibrator(penalty=None, input="logits")
    for scale in (1e-6, 1.0, 1e6):
        with pytest.warns(ConvergenceWarning, match="no finite optimum .* penalty='structured'"):
            free.fit(scale * Z, y, w)
    y[0], w[0] = 1, 0.0  # a row that is wrong counts for nothing
    with pytest.warns(ConvergenceWarning, match="no finite optimum"):
        free.fit(Z, y, w)
    Z, y = np.vstack([Z, Z[:1], Z[:1]]), np.append(y, [0, 2])  # a tie of two labels
    free.fit(Z, y)


@pytest.mark.parametrize("objective", ["nll", "brier", "soft_binned"])
@pytest.mark.parametrize("scale", [5e-324, 1e-31])
def test_the_smallest_logits_have_a_finite_temperature(scale, objective):
    Z, y = data()
    scaling = TemperatureScaling(objective=objective, input="logits").fit(scale * Z, y)
    assert 0 < scaling.temperature_ < np.inf
    assert np.isfinite(scaling.predict_proba(scale * Z)).all()


@pytest.mark.parametrize(("weight", "factor"), [(1e9, 1e-5), (1e9, 1.0), (1e300, 1e5)])
@pytest.mark.parametrize("calibrator", [VectorScaling, MatrixScaling])
def test_under_a_huge_penalty_it_is_temperature_scaling(calibrator, weight, factor):
    """Rounding of a weighted deviation of 0 is not taken for a gradient; nothing overflows."""
    rng = np.random.default_rng(0)
    Z = 3 * rng.normal(size=(300, 4))
    y = (Z + 2 * rng.gumbel(size=Z.shape)).argmax(axis=1)
    fitted = calibrator(reg_lambda=weight, reg_mu=weight).fit(factor * Z, y)
    expected = TemperatureScaling().fit(factor * Z, y).predict_proba(factor * Z)
    np.testing.assert_allclose(fitted.predict_proba(factor * Z), expected, atol=1e-7)
