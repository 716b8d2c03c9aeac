"""Platt scaling and beta calibration against other optimisers, and where neither has an optimum."""

import numpy as np
import pytest
from calls import refused
from scipy.optimize import minimize
from scipy.special import expit, softmax
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from skcalib import BetaCalibrator, PlattScaling


def data(n=400, n_classes=4, seed=0, scale=2.0):
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(n, n_classes)) + np.linspace(0, 0.5, n_classes)
    y = (Z + rng.gumbel(size=Z.shape)).argmax(axis=1)
    return scale * Z + rng.normal(size=(n, 1)), y, rng.integers(1, 5, n) * 0.5


def bent(n=600, n_classes=4, seed=0):
    """Scores whose log-odds are wrong by a square, none beyond 1e-12, and weights."""
    Z, y, w = data(n, n_classes, seed, scale=1.0)
    Z[:, -1] += 0.2 * Z[:, -1] ** 2
    return Z, y, w


def regression(f, t, w=None):
    f = f.reshape(len(t), -1)
    return LogisticRegression(C=1e12, tol=1e-12, max_iter=10_000, solver="newton-cholesky").fit(
        f, t, sample_weight=w
    )


def odds_of_each(Z):
    """Log-odds of each class, by a loop: the logit against the log-sum-exp of the others."""
    others = np.logaddexp.reduce
    return np.array([[z[k] - others(np.delete(z, k)) for k in range(len(z))] for z in Z])


@pytest.mark.parametrize("degree", [1, 2])
@pytest.mark.parametrize(("kind", "weighted"), [("logits", True), ("proba", False)])
def test_each_class_is_a_logistic_regression_on_its_log_odds(kind, weighted, degree):
    """And, of degree 2, on their squares."""
    Z, y, w = data(n_classes=3) if degree == 1 else bent(300, 3)
    w = w if weighted else None
    X = Z if kind == "logits" else softmax(Z, axis=1)
    platt = PlattScaling(degree=degree).fit(X, y, w)
    assert platt.coef_.shape == (3, 2)[:degree]
    G = np.empty_like(Z)
    for k, f in enumerate(odds_of_each(Z).T):
        F = np.column_stack([f, f**2])[:, :degree]
        reference = regression(F, y == k, w)
        np.testing.assert_allclose(np.ravel(platt.coef_[k]), reference.coef_[0], atol=2e-6)
        assert platt.intercept_[k] == pytest.approx(reference.intercept_[0], abs=1e-5)
        G[:, k] = reference.predict_proba(F)[:, 1]
    expected = G / G.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(platt.predict_proba(X), expected, atol=1e-6)


def test_two_columns_are_their_difference():
    """Logits of any size enter as they are, not rounded to probabilities of 0 and 1."""
    Z, y, w = data(n_classes=2, scale=500.0)
    platt = PlattScaling().fit(Z, y, w)
    f = Z[:, 1] - Z[:, 0]
    assert np.abs(f).max() > 1000
    reference = regression(f / 500, y, w)
    np.testing.assert_allclose(platt.coef_, reference.coef_[0] / 500, atol=1e-8)
    np.testing.assert_allclose(platt.intercept_, reference.intercept_, atol=1e-6)
    expected = reference.predict_proba(f[:, None] / 500)
    np.testing.assert_allclose(platt.predict_proba(Z), expected, atol=1e-7)
    one = PlattScaling().fit(f, y, w)
    np.testing.assert_allclose(one.predict_proba(f), expected, atol=1e-7)


def test_a_constant_score_answers_the_frequency():
    platt = PlattScaling().fit(np.full(8, 0.7), [1, 0, 0, 0, 1, 0, 0, 0])
    assert platt.coef_.tolist() == [0]
    np.testing.assert_allclose(platt.predict_proba([0.7, 0.2])[:, 1], 0.25, atol=1e-12)


@pytest.mark.parametrize("sign", [1, -1])
def test_separated_scores_are_warned_of_and_answered_by_a_step(sign):
    f = np.array([-3.0, -1.0, 2.0, 4.0])
    with pytest.warns(ConvergenceWarning, match="1 of 1 classes .*fit on more held-out rows"):
        platt = PlattScaling().fit(sign * f, [0, 0, 1, 1])
    assert np.isfinite(platt.coef_).all()
    np.testing.assert_allclose(platt.predict_proba(sign * f)[:, 1], [0, 0, 1, 1], atol=1e-8)


def test_scores_that_only_touch_have_no_optimum_either():
    with pytest.warns(ConvergenceWarning, match="without error"):
        platt = PlattScaling().fit([-1.0, 2.0, 2.0, 5.0], [0, 0, 1, 1])
    np.testing.assert_allclose(platt.predict_proba([-1.0, 2.0, 5.0])[:, 1], [0, 0.5, 1], atol=1e-6)


# ------------------------------------------------------------------------------- degree 2


@pytest.mark.parametrize(("factor", "shift"), [(1e-3, 0.0), (1e3, 1e5)])
def test_a_quadratic_does_not_mind_the_unit_or_the_origin_of_the_logits(factor, shift):
    f = np.random.default_rng(0).normal(size=500)
    y = f**2 + f + np.random.default_rng(1).logistic(size=500) > 0
    expected = PlattScaling(degree=2).fit(f - 0.5, y).predict_proba(f - 0.5)
    moved = factor * (f + shift)
    answer = PlattScaling(degree=2, input="logits").fit(moved, y).predict_proba(moved)
    # The square of the shift takes ten digits of the sum.
    np.testing.assert_allclose(answer, expected, atol=1e-5 if shift else 1e-9)


def test_a_square_that_is_a_line_but_for_rounding_is_not_fitted():
    """Log-odds near log 1/2 are known to 1e-16: the order of the rows once moved .17."""
    rng = np.random.default_rng(0)
    Z, y = 1e-12 * rng.normal(size=(10, 3)), np.arange(10) % 3
    platt, order = PlattScaling(degree=2, input="logits"), rng.permutation(10)
    Q = platt.fit(Z, y).predict_proba(Z)
    assert platt.coef_[:, 1].tolist() == [0, 0, 0]
    np.testing.assert_allclose(platt.fit(Z[order], y[order]).predict_proba(Z), Q, atol=2e-4)


@pytest.mark.parametrize("factor", [5e-324, 1e-20, 1e29])
def test_a_line_through_logits_of_any_size_is_finite(factor):
    f = np.random.default_rng(0).normal(size=200)
    y = f + np.random.default_rng(1).logistic(size=200) > 0
    expected = PlattScaling(input="logits").fit(f, y).predict_proba(f)
    answer = PlattScaling(input="logits").fit(factor * f, y).predict_proba(factor * f)
    if factor < 1e-30:  # constant
        expected = np.tile([1 - y.mean(), y.mean()], (200, 1))
    np.testing.assert_allclose(answer, expected, atol=1e-9)


@pytest.mark.parametrize("factor", [1e-200, 1e-29, 1e29])
def test_a_quadratic_of_logits_of_any_size_is_finite(factor):
    f = factor * np.random.default_rng(0).normal(size=200)
    y = f / factor + np.random.default_rng(1).logistic(size=200) > 0
    platt = PlattScaling(degree=2, input="logits").fit(f, y)
    assert np.isfinite(platt.coef_).all()
    assert np.isfinite(platt.predict_proba(f)).all()


@pytest.mark.parametrize(
    ("scores", "labels", "apart"),
    [
        ([-2, -1, 0, 1, 2], [0, 1, 1, 1, 0], True),  # within an interval
        ([-2, -1, 0, 1, 2], [1, 0, 0, 0, 1], True),  # outside of one
        ([-2, -1, -1, 0, 1, 2], [0, 0, 1, 1, 1, 0], True),  # touching it
        ([-1, 0, 0, 1], [0, 0, 1, 0], True),  # an interval of one score
        ([-1, -1, 1, 1], [0, 1, 0, 1], False),  # two scores: a square says no more than a line
        ([-2, -1, 0, 1, 2, 3], [0, 1, 0, 1, 0, 0], False),
    ],
)
def test_classes_that_an_interval_separates_are_warned_of(scores, labels, apart, recwarn):
    platt = PlattScaling(degree=2).fit(np.array(scores, dtype=float), labels)
    warned = [w for w in recwarn if issubclass(w.category, ConvergenceWarning)]
    assert bool(warned) == apart
    assert np.isfinite(platt.coef_).all()
    assert np.isfinite(platt.predict_proba(np.array([-9.0, 0.0, 9.0]))).all()


# ------------------------------------------------------------------------------- intercept alone


def shift_by_bisection(f, t, w):
    """The intercept at which the weighted sum of probabilities is that of the events."""
    low, high = -60.0, 60.0
    for _ in range(200):
        middle = (low + high) / 2
        total = sum(w[i] * (1 / (1 + np.exp(-f[i] - middle)) - t[i]) for i in range(len(f)))
        low, high = (low, middle) if total > 0 else (middle, high)
    return low


@pytest.mark.parametrize(("kind", "weighted"), [("logits", True), ("proba", False)])
@pytest.mark.parametrize("n_classes", [2, 4])
def test_each_intercept_alone_makes_the_mean_the_rate_of_its_class(n_classes, kind, weighted):
    Z, y, w = data(150, n_classes=n_classes)
    w = w if weighted else np.ones(150)
    X = Z if kind == "logits" else softmax(Z, axis=1)
    platt = PlattScaling(fit_slope=False).fit(X, y, w)
    f = odds_of_each(Z)
    shifts = np.array([shift_by_bisection(f[:, k], y == k, w) for k in range(n_classes)])
    own = slice(1, None) if n_classes == 2 else slice(None)
    np.testing.assert_allclose(platt.intercept_, shifts[own], atol=1e-9)
    assert platt.coef_.tolist() == [1.0] * len(shifts[own])
    G = expit(f + shifts)
    expected = G / G.sum(axis=1, keepdims=True)
    if n_classes == 2:
        expected = np.column_stack([1 - G[:, 1], G[:, 1]])
        assert w @ expected[:, 1] == pytest.approx(w @ (y == 1), rel=1e-9)
    np.testing.assert_allclose(platt.predict_proba(X), expected, atol=1e-9)


def test_the_intercept_alone_has_a_closed_form_for_one_score():
    platt = PlattScaling(fit_slope=False).fit(np.full(8, 0.75), [1, 0, 0, 0, 1, 0, 0, 0])
    assert platt.intercept_[0] == pytest.approx(np.log(2 / 6) - np.log(3), abs=1e-12)


@pytest.mark.parametrize("size", [1e-6, 1.0, 300.0, 1e5])
def test_the_intercept_alone_is_found_at_any_size_of_the_scores(size):
    """Also where all rows are certain and some of them wrong."""
    rng = np.random.default_rng(0)
    f = size * rng.normal(size=300) + 3
    t = rng.random(300) < 0.02
    platt = PlattScaling(fit_slope=False, input="logits").fit(f, t)
    with np.errstate(over="ignore"):
        mean = np.mean(1 / (1 + np.exp(-f - platt.intercept_[0])))
    assert mean == pytest.approx(t.mean(), rel=1e-8)


def test_scores_that_separate_the_classes_still_have_an_intercept():
    """No warning: the slope stays at 1."""
    platt = PlattScaling(fit_slope=False).fit([-3.0, -1.0, 2.0, 4.0], [0, 0, 1, 1])
    shift = shift_by_bisection([-3.0, -1.0, 2.0, 4.0], [0, 0, 1, 1], np.ones(4))
    assert platt.intercept_[0] == pytest.approx(shift, abs=1e-9)


def test_a_square_beside_a_fixed_slope_is_refused():
    platt = PlattScaling(degree=2, fit_slope=False)
    refused(
        "fit_slope=False with degree=2: .* pass fit_slope=True",
        platt.fit,
        [0.2, 0.4, 0.7],
        [0, 1, 1],
    )


# ------------------------------------------------------------------ beta calibration


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
