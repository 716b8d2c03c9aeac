"""The automatic calibrator: optimum, evidence and strengths by the formula, and its promises."""

import re
from copy import copy

import numpy as np
import pytest
from calls import onnx_predictions, peak_memory
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import brentq, minimize_scalar
from scipy.special import expit, log_softmax, logit, softmax
from sklearn.exceptions import ConvergenceWarning
from strategies import Recipe

from skcalib import AutoCalibrator, from_dict, to_dict
from skcalib._validation.rows import check_weight

# Groups of parameters of up to 30 classes, and of more.
WHOLE, MANY = ("t", "b", "R", "M", "L"), ("t", "b", "U", "M")


def data(K=3, n=300, seed=0, scale=2.5):
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(n, K)) * 1.5 + np.linspace(0, 0.7, K)
    code = (Z + rng.gumbel(size=Z.shape)).argmax(axis=1)
    return scale * Z, code


def positions_by_sorting(Z, w, beta, n, power):
    """G of all log-scores by its definition: sorted, ties together, half of their own weight."""
    K = Z.shape[1]
    q = softmax(beta * Z, axis=1) * n / (n + 1) + 1 / (n + 1) / K
    weights = (w[:, None] * (q * (1 - q)) ** power).ravel()
    values, place = np.unique(np.log(q).ravel().round(12), return_inverse=True)
    mass = np.bincount(place, weights)
    u = (mass.cumsum() - mass / 2) / mass.sum()
    at = [min(np.searchsorted(u, level), u.size - 1) for level in np.arange(64) / 63]
    return values[np.unique(at)], u[np.unique(at)]


def design(Z, beta, n, centre, position, groups):
    """Row by row and class by class: the offset, and the derivative of each logit by theta."""
    rows, K = Z.shape
    s = np.log(n * K)
    base, X = np.empty((rows, K)), []
    for i in range(rows):
        p = softmax(beta * Z[i])
        eps = 1 / (n + 1)
        q = (1 - eps) * p + eps / K
        a, H = np.log(q), -sum(q * np.log(q))
        offset = np.log((1 - 0.1 * eps) * p + 0.1 * eps / K)
        large = p
        if K > 30:
            offset, large = a, np.where(p < 1e-2, 0.0, p)
        base[i] = offset
        u = np.interp(a, *position)
        of_row = []
        for k in range(K):
            rest = np.log(1 - q[k] + 1 / (n * K))
            if K > 30:
                rest = np.log(1 - large[k] / (1 + 1 / (n * K)))
            x = [large[k] if K > 30 else q[k], a[k] ** 2 / s, a[k] * H, a[k] * max(a), rest]
            own = {
                "b": [1.0],
                "R": [np.sqrt(2) * np.cos(np.pi * j * u[k]) / j for j in range(1, 7)],
                "U": [a[k]],
                "M": large,
                "L": a - (0 if centre is None else centre),
            }
            for g in groups[1:]:
                for value in own[g]:
                    one = np.zeros(K)
                    one[k] = value
                    x.extend(one)
            of_row.append(x)
        X.append(of_row)
    return base, np.array(X)


def rising_design(Z, beta, n, position):
    """The offset and the sixteen increasing terms, entry by entry."""
    rows, K = Z.shape
    s, log_k, eps = np.log(n * K), np.log(K), 1 / (n + 1)
    base, X = np.empty((rows, K)), np.empty((rows, K, 16))
    for i in range(rows):
        p = softmax(beta * Z[i])
        q = (1 - eps) * p + eps / K
        a = np.log(q)
        H, top = -sum(q * a) / log_k, -max(a) / log_k
        base[i] = np.log((1 - 0.1 * eps) * p + 0.1 * eps / K)
        for k in range(K):
            u = np.interp(a[k], *position)
            X[i, k, :5] = a[k], a[k] * H, a[k] * (1 - H), a[k] * top, a[k] * (1 - top)
            X[i, k, 5:8] = q[k], -(a[k] ** 2) / s, -np.log(1 - q[k] + 1 / (n * K))
            X[i, k, 8:] = [min(max(8 * u - j, 0), 1) for j in range(8)]
    return base, X


def hessian(w, Q, X):
    m = np.einsum("ik,ikp->ip", Q, X)
    return np.einsum("i,ik,ikp,ikq->pq", w, Q, X, X, optimize=True) - m.T @ (m * w[:, None])


# ------------------------------------------------------------------ the fit


def test_the_scale_is_the_minimum_of_loss_and_prior():
    Z, code = data(4)
    w = check_weight(np.random.default_rng(1).uniform(0, 2, len(code)), len(code))

    def objective(t):
        fit = log_softmax(np.exp(t) * Z, axis=1)[np.arange(len(code)), code]
        return -(w @ fit) + t * t / (2 * 0.7**2)

    best = minimize_scalar(objective, bounds=(-5, 5), method="bounded", options={"xatol": 1e-10}).x
    found = AutoCalibrator().fit(Z, code, sample_weight=w)
    assert found.temperature_ == pytest.approx(np.exp(-best), rel=1e-6)


@pytest.mark.parametrize(
    ("K", "preserving"), [(2, False), (3, False), (34, False), (2, True), (3, True), (40, True)]
)
def test_the_fit_is_the_minimum_and_its_evidence_that_of_the_formula(K, preserving):
    """Gradient, positions, evidence, weight of no calibration: from the design written out."""
    few = K <= 30
    n_rows = 200 if few else 60
    Z, code = data(K, n_rows, scale=1.2)
    w = check_weight(np.random.default_rng(1).uniform(0.5, 2, n_rows), n_rows)
    fitted = AutoCalibrator(tol=1e-6, order_preserving=preserving, classes=np.arange(K))
    fitted.fit(Z, code, sample_weight=w)
    n, beta, eps = w.sum(), 1 / fitted.temperature_, 1 / (w.sum() + 1)
    if few or preserving:
        position = positions_by_sorting(Z, w, beta, n, 1.0 if preserving else 0.5)
        found, expected = (
            np.interp(np.linspace(-7, 0, 99), *knots)
            for knots in ((fitted._knots, fitted._levels), position)
        )
        assert_allclose(found, expected, atol=0.01)
    position = (fitted._knots, fitted._levels) if few or preserving else ([0], [0])
    q = softmax(beta * Z, axis=1) * (1 - eps) + eps / K
    lam = fitted.strengths_
    if preserving:
        base, X = rising_design(Z, beta, n, position)
        alpha = np.repeat([2 * lam["t"], 2 * lam["R"]], 8)
        low = np.repeat([-0.99, 0.0], [1, 15])
    else:
        groups = MANY if not few else WHOLE if K > 2 else WHOLE[:3]
        assert tuple(lam) == groups
        base, X = design(Z, beta, n, w @ np.log(q) / n, position, groups)
        sizes = {"t": 5, "b": K, "U": K, "R": 6 * K, "M": K * K, "L": K * K}
        alpha = np.repeat([2 * lam[g] for g in groups], [sizes[g] for g in groups])
        low = np.full(alpha.size, -np.inf)
    theta = fitted._theta
    Q = softmax(base + X @ theta, axis=1)
    omega = fitted.identity_weight_
    raw = softmax(Z, axis=1) * (1 - 0.1 * eps) + 0.1 * eps / K
    assert 0 < omega < 1
    if K == 2 and not preserving:
        fitted._line = None  # its knots have these probabilities
    assert_allclose((1 - omega) * Q + omega * raw, fitted.predict_proba(Z), atol=1e-10)
    free = theta > low + 1e-6
    gradient = np.einsum("i,ik,ikp->p", w, Q - np.eye(K)[code], X) + alpha * theta
    H = hessian(w, Q, X)[np.ix_(free, free)]
    A = H + np.diag(alpha[free])
    # In units of the objective; a fit ends when a step lowers it by less than 1e-8 of it, 2e-6.
    assert gradient[free] @ np.linalg.solve(A, gradient[free]) < 1e-5
    assert (gradient[~free] > -1e-2).all()
    # Laplace's estimate at the last strengths, the scale's, and that of no calibration.
    rows, log_beta = np.arange(n_rows), np.log(beta)
    energy = -(w @ np.log(Q[rows, code])) + theta @ (alpha * theta) / 2
    log_det = np.linalg.slogdet(A)[1] if few or preserving else np.log(A.diagonal()).sum()
    log_ev = -energy + np.log(alpha[free]).sum() / 2 - log_det / 2
    # For more than two classes, the Hessian is that of an earlier round.
    assert fitted.evidence_path_[-1] == pytest.approx(log_ev, abs=0.005 if K == 2 else 0.05)

    def objective(t):
        p = softmax(np.exp(t) * Z, axis=1)[rows, code]
        return -(w @ np.log((1 - 0.1 * eps) * p + 0.1 * eps / K)) + t * t / (2 * 0.7**2)

    up, at, down = (objective(log_beta + t) for t in (1e-4, 0, -1e-4))
    h = (up - 2 * at + down) / 1e-8
    log_ev = fitted.evidence_path_[-1]
    log_ev += -(log_beta**2) / (2 * 0.7**2) - np.log(0.7 * np.sqrt(2 * np.pi))
    log_ev += np.log(2 * np.pi / h) / 2
    log_raw = w @ np.log(raw[rows, code]) + np.log(200 / n)
    assert omega == pytest.approx(expit(log_raw - log_ev), rel=1e-3)


def test_the_strengths_are_at_rest():
    """MacKay's fixed point, from the design written out, for two classes."""
    Z, code = data(2, 400)
    fitted = AutoCalibrator(tol=1e-5).fit(Z, code)
    beta = 1 / fitted.temperature_
    base, X = design(Z, beta, 400, None, (fitted._knots, fitted._levels), WHOLE[:3])
    alpha = np.repeat([2 * fitted.strengths_[g] for g in WHOLE[:3]], [5, 2, 12])
    H = hessian(np.ones(400), softmax(base + X @ fitted._theta, axis=1), X)
    determined = 1 - alpha * np.linalg.inv(H + np.diag(alpha)).diagonal()
    starts, prior = [0, 5, 7, 19], {"t": 1, "b": 20, "R": 20}
    for g, start, stop in zip(WHOLE, starts, starts[1:], strict=False):
        dof, theta = determined[start:stop].sum(), fitted._theta[start:stop]
        assert fitted.effective_dof_[g] == pytest.approx(dof, rel=0.02, abs=0.02)
        new = (dof + 0.5) / (theta @ theta + 0.25 / prior[g]) / 2
        assert abs(np.log(new / fitted.strengths_[g])) < 0.12


def test_few_rows_of_calibrated_scores_are_left_nearly_as_they_are():
    """Ten rows with one error in line with their probabilities: no calibration weighs most."""
    Z = np.log([[0.9, 0.1]] * 10)
    fitted = AutoCalibrator(input="logits").fit(Z, [0] * 9 + [1])
    assert fitted.identity_weight_ > 0.5
    assert fitted.predict_proba(Z)[0, 0] == pytest.approx(0.9, abs=0.01)
    share = "Shrunk by 98% towards the original probabilities, because the rows do not show"
    assert share in fitted.describe()


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


def test_a_thousand_and_one_classes_leave_out_the_links_too():
    """K^2 numbers would be 8 MB, of which a fit with links takes some 40."""
    rng, K = np.random.default_rng(0), 1001
    Z = rng.normal(size=(300, K))
    code = (Z + rng.gumbel(size=Z.shape)).argmax(axis=1)
    fitted = AutoCalibrator(classes=np.arange(K))
    assert peak_memory(fitted.fit, Z, code) < 12 * Z.nbytes
    assert tuple(fitted.strengths_) == ("t", "b", "U")
    assert "Parameters that link" not in fitted.describe()
    base, X = design(Z[:2], 1 / fitted.temperature_, 300, None, ([0], [0]), ("t", "b", "U"))
    P = softmax(base + X @ fitted._theta, axis=1)
    omega = fitted.identity_weight_
    none = (1 - 0.1 / 301) * softmax(Z[:2], axis=1) + 0.1 / 301 / K
    expected = (1 - omega) * P + omega * none
    assert_allclose(fitted.predict_proba(Z[:2]), expected, atol=1e-9)
    assert_allclose(onnx_predictions(fitted, Z[:2], dtype="float64")[1], expected, atol=1e-9)


def test_too_few_steps_are_a_warning():
    Z, code = data(3)
    with pytest.warns(ConvergenceWarning, match="max_iter=1 steps; raise max_iter"):
        AutoCalibrator(max_iter=1).fit(Z, code)


# ------------------------------------------------------------------ the order


@pytest.mark.parametrize(("kind", "dtype"), [("logits", np.float32), ("proba", np.float64)])
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


# ------------------------------------------------------------------ two classes


def one_event(n, seed=0, wrong=False):
    """Log-odds too large and shifted, and outcomes; perhaps in a wrong order at one end."""
    rng = np.random.default_rng(seed)
    f = 2.5 * rng.standard_t(4, size=n)
    odds = np.where(f > 3, 6 - f, f) if wrong else f
    return f, (rng.random(n) < expit(0.5 * odds - 1)).astype(int)


def increasing_by_definition(fitted, f, w):
    """Log-odds at the knots: the min-max formula of isotonic regression, row by row elsewhere."""
    x = fitted._line[0]
    terms = copy(fitted)
    terms._line = None
    m = terms.predict_proba(np.clip(x, -1e30, 1e30))[:, 1]
    mass = np.full(x.size, 1e-3)
    for value, weight in zip(f, w, strict=True):
        mass[np.abs(x - value).argmin()] += weight
    # Means of light knots are differences of large sums: longer numbers keep their digits.
    longer = np.array([mass * m, mass], dtype=np.longdouble)
    sums, masses = np.pad(longer.cumsum(axis=1), [(0, 0), (1, 0)])
    first, last = np.arange(x.size)[:, None], np.arange(1, x.size + 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = (sums[last] - sums[first]) / (masses[last] - masses[first])
    mean[last <= first] = np.inf
    r = np.array([mean[: j + 1, j:].min(axis=1).max() for j in range(x.size)], float)
    beta, target = 1 / fitted.temperature_, mass @ r
    b = brentq(lambda b: mass @ expit(beta * x + b) - target, -40, 40, xtol=1e-12)
    rise = 0.01 * np.cumsum(np.minimum(np.diff(x, prepend=x[0]) / (f.max() - f.min()), 1))
    rise -= np.average(rise, weights=mass)
    return logit(0.99 * r + 0.01 * expit(beta * x + b)) + rise


def test_the_map_of_two_classes_is_increasing_by_definition():
    f, y = one_event(3000)
    w = check_weight(np.random.default_rng(1).uniform(0.5, 2, 3000), 3000)
    fitted = AutoCalibrator().fit(f, y, sample_weight=w)
    x, log_odds = fitted._line
    assert fitted.increasing_
    assert x.size < 128 + 2 * (7 + 31) + 1
    assert_allclose(x[[38, 38 + 64, 38 + 127]], weighted_quantiles(f, w, [0, 64 / 127, 1]))
    assert_allclose(log_odds, increasing_by_definition(fitted, f, w), atol=1e-7)
    new = np.linspace(-40, 40, 1001)
    expected = expit(np.interp(new, x, log_odds))
    assert_allclose(fitted.predict_proba(new)[:, 1], expected, rtol=1e-12)
    p = expit(f / fitted.temperature_)
    change = np.average(fitted.predict_proba(f)[:, 1] - p, weights=w)
    assert_allclose(fitted.class_shift_, [-change, change], atol=1e-12)


def weighted_quantiles(f, w, levels):
    """Quantiles at the middle of each row's weight."""
    order = np.argsort(f)
    rank = np.cumsum(w[order]) - w[order] / 2
    return np.interp(np.array(levels) * w.sum(), rank, f[order])


@pytest.mark.parametrize("n", [10, 200, 20_000])
@pytest.mark.parametrize("kind", ["logits", "two logits", "probabilities"])
def test_the_order_of_the_rows_stays(kind, n):
    """Of new rows too, far outside and close together; and so the AUC stays."""
    f, y = one_event(n)
    rng = np.random.default_rng(1)
    new = np.sort(np.concatenate([3 * rng.normal(size=500), 1 + 1e-6 * np.arange(50), [-200, 90]]))
    as_kind = {
        "logits": lambda f: f,
        "two logits": lambda f: np.column_stack([1 - f / 2, 1 + f / 2]),
        "probabilities": lambda f: expit(f[np.abs(f) < 30]),
    }[kind]
    if kind == "probabilities":
        y = y[np.abs(f) < 30]
    fitted = AutoCalibrator().fit(as_kind(f), y)
    assert fitted.increasing_
    P = fitted.predict_proba(as_kind(new))
    assert (np.diff(P[:, 1]) > 0).all()
    assert (np.diff(P[:, 0]) < 0).all()
    assert repr(fitted).endswith("; keeps the order of the rows")
    assert fitted.describe().endswith("\nKeeps the order of the rows.")


def test_scores_in_a_wrong_order_keep_their_own_map():
    """Above log-odds of 3 the event becomes rarer; the projection would lose more than 2 nats."""
    f, y = one_event(3000, wrong=True)
    fitted = AutoCalibrator().fit(f, y)
    assert not fitted.increasing_
    middle, high = fitted.predict_proba([3.0, 8.0])[:, 1]
    assert high < middle - 0.1
    changes = "he scores are in a wrong order, so the order of the rows changes"
    assert repr(fitted).endswith(f"; t{changes}")
    assert fitted.describe().endswith(f"T{changes}.")
    terms = copy(fitted)
    terms._line = None
    grid = np.quantile(f, np.linspace(0.01, 0.99, 999))
    assert_allclose(terms.predict_proba(grid), fitted.predict_proba(grid), atol=0.01)
    increasing = increasing_by_definition(fitted, f, np.ones(3000))
    losses = [
        np.logaddexp(0, (1 - 2 * y) * np.interp(f, fitted._line[0], each)).sum()
        for each in (fitted._line[1], increasing)
    ]
    assert losses[1] > losses[0] + 2


def test_one_misplaced_row_does_not_change_the_order():
    """2 nats are more than a single row of few can show."""
    f = np.linspace(-3, 3, 60)
    y = (f > 0).astype(int)
    y[-1] = 0
    assert AutoCalibrator().fit(f, y).increasing_


def test_a_loss_of_a_few_nats_shows_a_wrong_order():
    """The increasing function would lose 4.7 nats."""
    assert not AutoCalibrator().fit(*one_event(400, wrong=True)).increasing_


def test_outliers_and_the_scale_of_the_logits_do_not_change_the_knots():
    f, y = one_event(3000)
    fitted, new = AutoCalibrator().fit(f, y), np.linspace(-6, 6, 50)
    with_outliers = np.append(f, [-1e20, 1e20]), np.append(y, [0, 1])
    for scores, labels, scale in [(*with_outliers, 1), (1e4 * f, y, 1e4)]:
        other = AutoCalibrator(input="logits").fit(scores, labels)
        assert other._line.shape == fitted._line.shape
        P = other.predict_proba(scale * new)
        assert_allclose(P, fitted.predict_proba(new), atol=1e-3)


def test_equal_scores_have_an_increasing_function():
    with np.errstate(divide="raise", invalid="raise"):
        fitted = AutoCalibrator(input="logits").fit(np.zeros(60), np.arange(60) % 3 == 0)
    assert (np.diff(fitted._line[1]) > 0).all()


def test_scores_that_differ_by_rounding_are_one_knot():
    """Means of ten trees, summed in two orders."""
    p = np.arange(1, 10) / 10
    p, y = np.concatenate([p, p * (1 + 2e-16), p - 1e-16] * 10), np.tile(np.arange(9) > 4, 30)
    x = AutoCalibrator().fit(p, y.astype(int))._line[0]
    assert ((x > -2.3) & (x < 2.3)).sum() == 9


def test_more_classes_have_no_order_of_rows():
    fitted = AutoCalibrator().fit(*data(3))
    assert fitted.increasing_ is None
    assert "order" not in repr(fitted) + fitted.describe()
    assert AutoCalibrator(order_preserving=True).fit(*data(2)).increasing_


def test_a_file_without_a_line_predicts_by_its_terms():
    """As it was written before two classes had one."""
    fitted = AutoCalibrator().fit(*one_event(300))
    document = to_dict(fitted)
    for name in ("_line", "increasing_"):
        del document["fitted"][name]
    old = from_dict(document)
    assert_allclose(old.predict_proba([0.3]), fitted.predict_proba([0.3]), atol=0.02)
    assert "order" not in repr(old) + old.describe()


# ------------------------------------------------------------------ what it says


def test_describe_says_what_the_map_does():
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(3000, 3))
    code = (Z + np.array([0.0, 1.0, 0.0]) + rng.gumbel(size=Z.shape)).argmax(axis=1)
    fitted = AutoCalibrator().fit(3 * Z, np.array(["ant", "bee", "cow"])[code])
    text = fitted.describe()
    assert re.match(r"Temperature [23]\.\d+: makes probabilities less extreme\.\n", text)
    assert re.search(r"probabilities beyond the temperature, .*: bee \+\d+\.\d\d, ", text)
    assert f"link classes cause {fitted.cross_share_:.0%} of the change" in text
    assert text.endswith("No shrinkage towards the original probabilities.")
    assert "order" not in text
    assert fitted.class_shift_.sum() == pytest.approx(0, abs=1e-9)
    dof = fitted.effective_dof_
    assert set(dof) == set("tbRML")
    own, across = dof["b"] + dof["R"], dof["M"] + dof["L"]
    parts = f"{dof['t']:.1f} are shared by all classes, {own:.1f} belong to single classes and"
    parts = f"Effective parameters: {sum(dof.values()):.1f}, of which {parts}"
    assert f"{parts} {across:.1f} link classes." in text
    kept = AutoCalibrator(order_preserving=True).fit(3 * Z, code)
    assert "The order of the classes in each row stays" in kept.describe()
    total = sum(kept.effective_dof_.values())
    assert f"Effective parameters: {total:.1f}, which all classes share." in kept.describe()
    assert "link classes" not in kept.describe()
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
    assert "makes probabilities more extreme" in fitted.describe()
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
