"""The automatic calibrator: its logits, derivatives, optimum, strengths and promises."""

import re

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize_scalar
from scipy.special import expit, log_softmax, logit, softmax
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import log_loss
from sklearn.naive_bayes import GaussianNB
from strategies import Recipe

from skcalib import (
    AutoCalibrator,
    BetaCalibrator,
    PlattScaling,
    TemperatureScaling,
    from_dict,
    to_dict,
)
from skcalib._scores.scores import Scores
from skcalib.calibrators._auto.evidence import fit_by_evidence
from skcalib.calibrators._auto.features import Layout, Smoothing, logits, make_features, smooth
from skcalib.calibrators._auto.nll import FeatureNLL
from skcalib.calibrators._auto.order_preserving import to_shared

WHOLE = ("t", "b", "U", "V", "M", "L")
FEW = ("t", "b", "U", "M")


def data(K=3, n=300, seed=0, scale=2.5):
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(n, K)) * 1.5 + np.linspace(0, 0.7, K)
    code = (Z + rng.gumbel(size=Z.shape)).argmax(axis=1)
    return scale * Z, code


def design(Z, beta, n, centre, groups, n_shared=5):
    """Row by row and class by class: a, and the derivative of each logit by each parameter."""
    rows, K = Z.shape
    s = np.log(n * K)
    base, X = np.empty((rows, K)), []
    for i in range(rows):
        p = softmax(beta * Z[i])
        q = p * n / (n + 1) + 1 / (n + 1) / K
        a, H = np.log(q), -sum(q * np.log(q))
        if K > 30:
            p = np.where(p < 1e-2, 0.0, p)
        base[i] = a
        of_row = []
        for k in range(K):
            rest = np.log(1 - q[k] + 1 / (n * K))
            t = [q[k], a[k] ** 2 / s, a[k] * H, a[k] * max(a), rest, a[k]][:n_shared]
            own = {
                "b": [1.0],
                "U": [a[k]],
                "V": [q[k], a[k] ** 2 / s, rest],
                "M": p,
                "L": a - centre,
            }
            x = list(t)
            for g in groups[1:]:
                for value in own[g]:
                    one = np.zeros(K)
                    one[k] = value
                    x.extend(one)
            of_row.append(x)
        X.append(of_row)
    return base, np.array(X)


def problem(K, groups, n_shared=5, exact=True, n=40, dtype=np.float64):
    rng = np.random.default_rng(K)
    Z = 2 * rng.normal(size=(n, K))
    code, w = rng.integers(0, K - 1, n), rng.uniform(0.2, 3, n)
    smoothing = Smoothing(0.7, float(w.sum()), rng.normal(size=K))
    layout = Layout(K, groups, n_shared)
    nll = FeatureNLL(Scores(Z, "logits"), code, w, smoothing, layout, exact=exact, dtype=dtype)
    return Z, code, w, smoothing, layout, nll, 0.2 * rng.normal(size=layout.size)


CASES = [(2, WHOLE, 5), (4, WHOLE, 5), (3, ("t",), 6), (3, ("t", "b"), 6), (33, FEW, 5)]


@pytest.mark.parametrize(("K", "groups", "n_shared"), CASES)
def test_logits_are_the_formula(K, groups, n_shared):
    Z, _, _, smoothing, layout, _, theta = problem(K, groups, n_shared)
    base, X = design(Z, smoothing.beta, smoothing.n, smoothing.centre, groups, n_shared)
    f = make_features(Z.copy(), smoothing, groups)
    found = logits(f, layout.unpack(theta), smoothing.square_scale)
    assert_allclose(found, base + X @ theta, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(("K", "groups", "n_shared"), CASES)
def test_loss_and_gradient_are_those_of_the_formula(K, groups, n_shared):
    Z, code, w, smoothing, _, nll, theta = problem(K, groups, n_shared, exact=K <= 30)
    base, X = design(Z, smoothing.beta, smoothing.n, smoothing.centre, groups, n_shared)

    def loss(at):
        return -w @ log_softmax(base + X @ at, axis=1)[np.arange(len(code)), code]

    value, gradient = nll.value_and_gradient(theta)
    assert value == pytest.approx(loss(theta), rel=1e-12)
    for j in np.random.default_rng(0).choice(theta.size, min(25, theta.size), replace=False):
        h = np.zeros(theta.size)
        h[j] = 1e-5
        slope = (loss(theta + h) - loss(theta - h)) / 2e-5
        assert gradient[j] == pytest.approx(slope, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize(("K", "groups", "n_shared"), CASES)
def test_hessian_is_the_difference_of_gradients(K, groups, n_shared):
    """The whole of it, or its diagonal for many classes."""
    *_, nll, theta = problem(K, groups, n_shared, exact=K <= 30)
    H = nll.hessian(theta)
    for j in np.random.default_rng(1).choice(theta.size, min(25, theta.size), replace=False):
        h = np.zeros(theta.size)
        h[j] = 1e-5
        up, down = nll.value_and_gradient(theta + h)[1], nll.value_and_gradient(theta - h)[1]
        row = (up - down) / 2e-5
        assert_allclose(H[j], row if H.ndim == 2 else row[j], rtol=1e-6, atol=1e-6)


def test_features_in_single_precision_differ_by_its_rounding():
    *_, double, theta = problem(33, FEW, exact=False)
    *_, single, _ = problem(33, FEW, exact=False, dtype=np.float32)
    for found, expected in zip(
        single.value_and_gradient(theta), double.value_and_gradient(theta), strict=True
    ):
        assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


# ------------------------------------------------------------------ the fit


def test_the_scale_is_the_minimum_of_loss_and_prior():
    Z, code = data(4)
    w = np.random.default_rng(1).uniform(0, 2, len(code))

    def objective(t):
        fit = log_softmax(np.exp(t) * Z, axis=1)[np.arange(len(code)), code]
        return -(w @ fit) + t * t / 2

    best = minimize_scalar(objective, bounds=(-5, 5), method="bounded", options={"xatol": 1e-10}).x
    found = AutoCalibrator().fit(Z, code, sample_weight=w)
    assert found.temperature_ == pytest.approx(np.exp(-best), rel=1e-6)


def test_the_fit_is_the_minimum_and_the_strengths_are_at_rest():
    """Gradient and fixed point from the design written out, with weights."""
    Z, code = data(3, 200)
    w = np.random.default_rng(1).uniform(0.5, 2, len(code))
    fitted = AutoCalibrator(tol=1e-5).fit(Z, code, sample_weight=w)
    n, beta = w.sum(), 1 / fitted.temperature_
    a = np.log(softmax(beta * Z, axis=1) * n / (n + 1) + 1 / (n + 1) / 3)
    base, X = design(Z, beta, n, w @ a / n, WHOLE)
    theta, sizes = fitted._theta, [5, 3, 3, 9, 9, 9]
    Q = softmax(base + X @ theta, axis=1)
    assert_allclose(Q, fitted.predict_proba(Z), atol=1e-10)
    alpha = np.repeat([2 * fitted.strengths_[g] for g in WHOLE], sizes)
    gradient = np.einsum("i,ik,ikp->p", w, Q - np.eye(3)[code], X) + alpha * theta
    m = np.einsum("ik,ikp->ip", Q, X)
    A = np.einsum("i,ik,ikp,ikq->pq", w, Q, X, X) - m.T @ (m * w[:, None]) + np.diag(alpha)
    assert gradient @ np.linalg.solve(A, gradient) < 1e-6
    told = 1 - alpha * np.linalg.inv(A).diagonal()
    ends = np.cumsum(sizes)
    prior = {"t": 1, "b": 30, "U": 30, "V": 15, "M": 1, "L": 12}
    for g, end, size in zip(WHOLE, ends, sizes, strict=True):
        part = slice(end - size, end)
        assert fitted.effective_dof_[g] == pytest.approx(told[part].sum(), rel=0.01, abs=0.01)
        new = (told[part].sum() + 0.5) / (theta[part] @ theta[part] + 0.25 / prior[g]) / 2
        assert abs(np.log(new / fitted.strengths_[g])) < 0.12


class Held:
    """A problem of which only the columns of a matrix are free; the rest is held at zero."""

    def __init__(self, nll, columns):
        self.nll, self.columns = nll, columns

    def value_and_gradient(self, c):
        value, gradient = self.nll.value_and_gradient(self.columns @ c)
        return value, self.columns.T @ gradient

    def hessian(self, c):
        return self.columns.T @ self.nll.hessian(self.columns @ c) @ self.columns


def binary_fit(Z, code, groups, free):
    """Best logits of two classes with (almost) no penalty, and q of the second class."""
    w = np.ones(len(code))
    smoothing = Smoothing(1.0, float(len(code)), np.zeros(2))
    layout = Layout(2, groups, 6)
    nll = FeatureNLL(Scores(Z, "logits"), code, w, smoothing, layout, exact=True)
    held = Held(nll, np.eye(layout.size)[:, free])
    c = fit_by_evidence(
        held,
        np.zeros(len(free)),
        {"free": slice(0, len(free))},
        {"free": 1e-9},
        rounds=0,
        moved=0.1,
        tol=1e-7,
        max_iter=500,
    ).theta
    f = make_features(Z.copy(), smoothing, groups)
    eta = logits(f, layout.unpack(held.columns @ c), smoothing.square_scale)
    return softmax(eta, axis=1)[:, 1], smooth(Z.copy(), 1.0, float(len(code)))[:, 1]


def test_slope_and_intercepts_alone_are_platt_scaling():
    """The shared slope and b, all else held at zero: Platt scaling of the log-odds of q."""
    Z, code = data(2, 500)
    found, q = binary_fit(Z, code, ("t", "b"), [5, 6, 7])
    platt = PlattScaling().fit(logit(q), code)
    assert_allclose(found, platt.predict_proba(logit(q))[:, 1], atol=1e-5)


def test_slopes_and_intercepts_of_two_classes_are_beta_calibration():
    """U and b, all else held at zero: beta calibration of q."""
    rng = np.random.default_rng(0)
    f = 2 * rng.normal(size=800)
    code = (rng.random(800) < expit(0.6 * f + 0.4 + 0.3 * np.maximum(f, 0))).astype(int)
    Z = np.column_stack([0 * f, f])
    found, q = binary_fit(Z, code, ("t", "b", "U"), [6, 7, 8, 9])
    beta = BetaCalibrator().fit(q, code)
    assert (beta.coef_ > 0.01).all()
    assert_allclose(found, beta.predict_proba(q)[:, 1], atol=1e-5)


def test_it_beats_the_temperature_where_classes_err_each_in_its_own_way():
    X, y = load_digits(return_X_y=True)
    L = GaussianNB(var_smoothing=1e-3).fit(X[:600], y[:600]).predict_log_proba(X[600:])
    half, rest = slice(0, 600), slice(600, None)
    y = y[600:]
    temperature = TemperatureScaling().fit(L[half], y[half]).predict_proba(L[rest])
    for keywords, share in [({}, 0.9), ({"order_preserving": True}, 1.0)]:
        mended = AutoCalibrator(**keywords).fit(L[half], y[half]).predict_proba(L[rest])
        assert log_loss(y[rest], mended) < share * log_loss(y[rest], temperature)


def test_calibrated_scores_stay_nearly_as_they_are():
    """Labels drawn from the probabilities: the ridge saves most of what its freedom could cost.

    A fit of 57 parameters without penalty loses 57 / (2 n) of log loss on average.
    """
    Z, code = data(4, 5000, scale=1.0)
    fitted = AutoCalibrator().fit(Z, code)
    assert fitted._theta.size == 57
    assert fitted.temperature_ == pytest.approx(1, abs=0.1)
    T, _ = data(4, 20000, seed=1, scale=1.0)
    truth = softmax(T, axis=1)
    lost = (truth * np.log(truth / fitted.predict_proba(T))).sum(axis=1).mean()
    assert lost < 0.5 * 57 / (2 * 5000)


def test_scores_without_an_error_are_no_warning():
    """The priors hold what has no finite optimum."""
    Z = 5 * np.eye(3)[[0, 1, 2] * 20]
    fitted = AutoCalibrator(input="logits").fit(Z, [0, 1, 2] * 20)
    assert 0.05 < fitted.temperature_ < 2
    assert (fitted.predict(Z) == [0, 1, 2] * 20).all()


def test_constant_scores_give_the_frequencies():
    code = np.repeat([0, 1, 2], [100, 300, 600])
    proba = AutoCalibrator(input="logits").fit(np.zeros((1000, 3)), code).predict_proba([[0, 0, 0]])
    assert_allclose(proba[0], [0.1, 0.3, 0.6], atol=0.03)


@pytest.mark.parametrize("K", [4, 34])
def test_a_class_without_rows_keeps_a_small_probability(K):
    Z, code = data(K, 600)
    keep = code != K - 1
    fitted = AutoCalibrator(classes=np.arange(K)).fit(Z[keep], code[keep])
    proba = fitted.predict_proba(Z[keep])
    assert (proba[:, K - 1] > 0).all()
    assert proba[:, K - 1].mean() < softmax(Z[keep] / 2.5, axis=1)[:, K - 1].mean()


def test_many_classes_leave_out_what_their_number_does_not_allow():
    Z, code = data(34, 800)
    fitted = AutoCalibrator().fit(Z, code)
    assert tuple(fitted.strengths_) == FEW
    raw = TemperatureScaling().fit(Z, code).predict_proba(Z)
    assert log_loss(code, fitted.predict_proba(Z)) < log_loss(code, raw)
    single = AutoCalibrator().fit(Z.astype(np.float32), code)
    double = AutoCalibrator().fit(Z.astype(np.float32).astype(np.float64), code)
    assert_allclose(single.predict_proba(Z), double.predict_proba(Z), atol=1e-6)


def test_too_few_steps_are_a_warning():
    Z, code = data(3)
    with pytest.warns(ConvergenceWarning, match="max_iter=1 steps; raise max_iter"):
        AutoCalibrator(max_iter=1).fit(Z, code)


# ------------------------------------------------------------------ the order


@pytest.mark.parametrize("K", [2, 3, 12])
def test_terms_that_keep_the_order_rise_with_the_score(K):
    """Each of the eight, in rows of every kind, does not fall as q rises."""
    rng = np.random.default_rng(0)
    Z = np.vstack([s * rng.normal(size=(200, K)) for s in (0.01, 1.0, 20.0)])
    base, X = design(Z, 1.0, 50, np.zeros(K), ("t",), 6)
    features = X @ to_shared(K)
    order = base.argsort(axis=1)
    for j in range(8):
        along = np.take_along_axis(features[:, :, j], order, axis=1)
        assert (np.diff(along, axis=1) > -1e-12).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", ["logits", "proba"])
def test_order_preserving_keeps_every_prediction(kind, dtype):
    """Near ties, far scores and rows that the fit has never seen; from scores that mislead."""
    Z, code = data(5, 300)
    code = np.where(np.arange(300) % 3 == 0, 0, code)
    rng = np.random.default_rng(1)
    near = np.repeat(rng.normal(size=(500, 1)), 5, axis=1) + 1e-7 * rng.normal(size=(500, 5))
    T = np.vstack([Z, -Z, near, 30 * rng.normal(size=(500, 5)), np.zeros((1, 5))]).astype(dtype)
    S, T = (Z, T) if kind == "logits" else (softmax(Z, axis=1), softmax(T, axis=1))
    fitted = AutoCalibrator(order_preserving=True).fit(S.astype(dtype), code)
    assert_array_equal(fitted.predict(T), T.argmax(axis=1))
    assert (AutoCalibrator().fit(S, code).predict(T) != T.argmax(axis=1)).any()


def test_order_preserving_keeps_the_order_of_all_classes():
    Z, code = data(5, 300)
    proba = AutoCalibrator(order_preserving=True).fit(Z, code).predict_proba(Z)
    assert_array_equal(proba.argsort(axis=1), Z.argsort(axis=1))


# ------------------------------------------------------------------ what it says


def test_describe_says_what_the_map_does():
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(3000, 3))
    code = (Z + np.array([0.0, 1.0, 0.0]) + rng.gumbel(size=Z.shape)).argmax(axis=1)
    fitted = AutoCalibrator().fit(3 * Z, np.array(["ant", "bee", "cow"])[code])
    text = fitted.describe()
    assert re.search(r"Temperature [23]\.\d+: makes probabilities softer", text)
    assert re.search(r"Classes moved most.*: bee by \+", text)
    assert "cross-class" in text
    assert "order" not in text
    assert fitted.class_shift_.sum() == pytest.approx(0, abs=1e-9)
    dof = fitted.effective_dof_
    assert set(dof) == set("tbUVML")
    own, across = dof["b"] + dof["U"] + dof["V"], dof["M"] + dof["L"]
    assert (
        f"{dof['t']:.1f} shared by all classes, {own:.1f} of single classes, {across:.1f}" in text
    )
    kept = AutoCalibrator(order_preserving=True).fit(3 * Z, code)
    assert "Keeps the order" in kept.describe()
    assert "0.0 of single classes, 0.0 across classes" in kept.describe()
    assert kept.cross_share_ == 0


def test_an_under_confident_model_is_made_sharper_and_kept_in_a_file():
    """Its temperature is below 1; and rows may count for less than one together."""
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(500, 3))
    code = (Z + rng.gumbel(size=Z.shape)).argmax(axis=1)
    light = AutoCalibrator().fit(0.2 * Z, code, sample_weight=np.full(500, 1e-3))
    assert_array_equal(from_dict(to_dict(light)).predict_proba(Z), light.predict_proba(Z))
    fitted = AutoCalibrator().fit(0.2 * Z, code)
    assert fitted.temperature_ < 0.4
    assert "makes probabilities sharper" in fitted.describe()
    assert_array_equal(
        from_dict(to_dict(fitted)).predict_proba(0.2 * Z), fitted.predict_proba(0.2 * Z)
    )


def test_crossed_classes_are_told_as_such():
    """Where class 0 is predicted, half of the rows are of class 1: no map class by class."""
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(3000, 3))
    code = (Z + rng.gumbel(size=Z.shape)).argmax(axis=1)
    crossed = np.where((Z.argmax(axis=1) == 0) & (rng.random(3000) < 0.5), 1, code)
    plain, mixed = (AutoCalibrator().fit(Z, c).cross_share_ for c in (code, crossed))
    assert mixed > 0.3
    assert mixed > plain


def test_a_row_of_equal_logits_among_rows_that_are_all_right_overflows_nowhere():
    """The search for the scale leaves the range of squares, and comes back."""
    extremes = {"rows": frozenset({"uniform"}), "labels": frozenset({"always right"})}
    recipe = Recipe("logits", n=100, n_classes=3, seed=3, dtype="float64", scale=1.0, **extremes)
    half = recipe.only(np.arange(100) % 2 == 0)
    fitted = AutoCalibrator(order_preserving=True, input="logits", classes=range(3)).fit(*half)
    assert np.isfinite(fitted.predict_proba(recipe.S)).all()
