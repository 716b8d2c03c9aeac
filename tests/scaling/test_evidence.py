"""Priors whose strengths have the largest evidence: Gaussian problems by hand, groups by loops."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import approx_fprime, brentq, minimize
from scipy.special import softmax

from skcalib._scaling import evidence
from skcalib._scaling.evidence import GroupRows, derivatives, fit_pooled


class Quadratic:
    """Loss ``(theta - y)' H (theta - y) / 2``; H is diagonal when given as a vector."""

    def __init__(self, y, H):
        self.y, self.H = np.asarray(y, dtype=float), np.asarray(H, dtype=float)

    def value_and_gradient(self, theta):
        away = theta - self.y
        pull = self.H * away if self.H.ndim == 1 else self.H @ away
        return float(away @ pull) / 2, pull

    def hessian(self, theta):
        return (
            evidence.DiagonalPosterior(self.H)
            if self.H.ndim == 1
            else evidence.FullPosterior(self.H)
        )

    rough_hessian = hessian


def fit(problem, groups, prior, **keywords):
    keywords = {"rounds": 500, "moved": 1e-9, "tol": 1e-9, "max_iter": 100, **keywords}
    return evidence.fit_by_evidence(problem, groups, prior, **keywords)


def fixed_point(y, h, prior):
    """The alpha of one group with curvature h everywhere, from the formula solved for 0.

    There theta = h y / (h + alpha), and each parameter counts h / (h + alpha).
    """

    def excess(log_alpha):
        alpha = np.exp(log_alpha)
        dof = y.size * h / (h + alpha)
        square = (h / (h + alpha)) ** 2 * (y @ y)
        return alpha * (square + evidence.PRIOR_SHAPE / (2 * prior)) - (dof + evidence.PRIOR_SHAPE)

    return np.exp(brentq(excess, -12, 12, xtol=1e-13))


@pytest.mark.parametrize("whole", [True, False])
def test_strengths_reach_the_fixed_point_of_a_gaussian_problem(whole):
    """Two groups that do not meet, each solved by hand."""
    rng = np.random.default_rng(0)
    y = np.concatenate([3 * rng.normal(size=8), 0.4 * rng.normal(size=20)])
    h = np.repeat([2.0, 9.0], [8, 20])
    groups = {"few": slice(0, 8), "many": slice(8, 28)}
    prior = {"few": 1.0, "many": 5.0}
    found = fit(Quadratic(y, np.diag(h) if whole else h), groups, prior)
    for name, where in groups.items():
        curve = h[where][0]
        alpha = fixed_point(y[where], curve, prior[name])
        assert found.strengths[name] == pytest.approx(alpha / 2, rel=1e-6)
        assert found.dof[name] == pytest.approx(y[where].size * curve / (curve + alpha), rel=1e-6)
        assert_allclose(found.theta[where], curve / (curve + alpha) * y[where], rtol=1e-6)


@pytest.mark.parametrize("whole", [True, False])
def test_the_evidence_of_a_gaussian_problem_is_exact(whole):
    """The integral of exp(-h (theta - y)**2 / 2) under N(0, 1 / alpha), summed in its logarithm."""
    y, h, alpha = np.array([0.5, -2.0, 1.0]), np.array([1.0, 4.0, 0.3]), 2 * 1.7
    found = fit(Quadratic(y, np.diag(h) if whole else h), {"g": slice(0, 3)}, {"g": 1.7}, rounds=0)
    exact = (np.log(alpha / (alpha + h)) / 2 - y**2 * h * alpha / (h + alpha) / 2).sum()
    assert found.path == pytest.approx([exact], rel=1e-9)


def test_a_parameter_on_its_bound_stays_there_and_is_not_counted():
    class Above0(Quadratic):
        def hessian(self, theta):
            return evidence.Bounded(self.H, theta > 1e-6)

        rough_hessian = hessian

    problem = Above0([-3.0, 2.0], [[1.0, 0.5], [0.5, 1.0]])
    problem.y = np.linalg.solve(problem.H, [-3.0, 2.0])
    low = np.zeros(2)
    found = fit(problem, {"g": slice(0, 2)}, {"g": 0.5}, rounds=0, low=low)
    assert found.theta[0] == 0.0
    assert found.theta[1] == pytest.approx(1.0)
    assert found.dof["g"] == pytest.approx(0.5)
    # -E + (sum log alpha - log det A) / 2, where the first parameter's part of A is alpha = 1.
    loss = (found.theta - problem.y) @ problem.H @ (found.theta - problem.y) / 2
    assert found.path == pytest.approx([-loss - 0.5 - np.log(2) / 2])


def test_the_hessian_by_class_is_that_of_its_blocks_and_border():
    """Against the whole matrix of the same entries: inverse, determinant, whitened coordinates."""
    rng = np.random.default_rng(5)
    m, K, d = 2, 3, 4
    F = rng.normal(size=(K, 20, m + d))
    of_class = F.transpose(0, 2, 1) @ F
    H = evidence.ByClass(of_class[:, :m, :m].sum(axis=0), of_class[:, :m, m:], of_class[:, m:, m:])
    alpha = rng.uniform(0.1, 2, m + d * K)
    whole = np.diag(alpha)
    whole[:m, :m] += H.shared
    for k in range(K):
        places = m + np.arange(d) * K + k
        whole[np.ix_(places, places)] += H.own[k]
        whole[:m, places] += H.between[k]
        whole[places, :m] += H.between[k].T
    found = H.posterior(alpha)
    assert_allclose(found.inverse_diagonal, np.linalg.inv(whole).diagonal(), rtol=1e-7)
    assert found.log_det == pytest.approx(np.linalg.slogdet(whole)[1], rel=1e-7)
    steps = np.column_stack([found.step(v) for v in np.eye(m + d * K)])
    assert_allclose(steps.T @ whole @ steps, np.eye(m + d * K), atol=1e-7)
    g = rng.normal(size=m + d * K)
    assert_allclose(found.whiten(g), steps.T @ g, rtol=1e-7)


def test_strengths_stay_within_their_limits():
    groups = {"none": slice(0, 50), "wide": slice(50, 51)}
    problem = Quadratic(np.append(np.zeros(50), 1e6), np.full(51, 1e9))
    found = fit(problem, groups, {"none": 1e5, "wide": 1.0}, strength_prior=lambda *_: (0.5, 1e-30))
    assert found.strengths == pytest.approx(
        {"none": evidence.LARGEST_STRENGTH, "wide": 0.01}, rel=1e-12
    )


def test_rounds_end_when_the_evidence_gains_little():
    problem, groups = Quadratic([0.1, -0.2], np.ones(2)), {"g": slice(0, 2)}
    steps = np.abs(np.diff(fit(problem, groups, {"g": 0.1}, rounds=50, moved=0.0).path))
    found = fit(problem, groups, {"g": 0.1}, rounds=50, moved=0.0, gain=0.01)
    assert found.path.size == 2 + np.flatnonzero(steps < 0.01)[0]


def test_another_prior_of_strengths():
    """A half-Cauchy prior of the width: the fixed point by its formula, solved for 0."""
    y, h = np.array([3.0, -2.0, 0.5]), 4.0

    def excess(log_alpha):
        alpha = np.exp(log_alpha)
        share = h / (h + alpha)
        return alpha * share**2 * (y @ y) - (y.size * share + 2 / (1 + alpha))

    found = fit(
        Quadratic(y, np.full(3, h)),
        {"g": slice(0, 3)},
        {"g": 1.0},
        strength_prior=lambda x, _: (2 / (1 + 2 * x), 0.0),
    )
    assert 2 * found.strengths["g"] == pytest.approx(np.exp(brentq(excess, -12, 5)), rel=1e-6)


def test_verbose_prints_a_line_for_each_round(capsys):
    found = fit(
        Quadratic([1.0, 2.0], np.ones(2)), {"g": slice(0, 2)}, {"g": 1.0}, moved=0.1, verbose=1
    )
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == found.path.size
    assert lines[0].startswith("round 0: log evidence")


# ------------------------------------------------------------------ pooled maps


def group(n, n_classes, seed, shift=0.0, slope=1.0, w=None):
    """Rows whose logits are right but for a shift of the last class and a slope."""
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(n, n_classes))
    truth = slope * Z + shift * (np.arange(n_classes) == n_classes - 1)
    code = (truth + rng.gumbel(size=Z.shape)).argmax(axis=1)
    return GroupRows(Z, Z - 0.1, code, np.ones(n) if w is None else w)


def slow_loss(rows, theta):
    """By the formula, row by row and class by class."""
    n_classes = rows.Z.shape[1]
    total = 0.0
    for z, x, k, w in zip(rows.Z, rows.X, rows.code, rows.w, strict=True):
        eta = [
            z[j] + theta[1 + j] + (theta[0] + theta[1 + n_classes + j]) * x[j]
            if len(theta) > 1
            else z[j] + theta[0] * x[j]
            for j in range(n_classes)
        ]
        total += w * (np.logaddexp.reduce(eta) - eta[k])
    return total


def slow_hessian(rows, theta):
    """By the formula of softmax(eta), with the derivatives of eta row by row; few classes."""
    K, H = rows.Z.shape[1], 0.0
    for z, x, w in zip(rows.Z, rows.X, rows.w, strict=True):
        D = np.hstack([x[:, None], np.eye(K), np.diag(x)])
        p = softmax(z + D @ theta)
        H = H + w * D.T @ (np.diag(p) - np.outer(p, p)) @ D
    return H


def slow_fit(groups, strengths):
    """Parameters ``(G, m)`` by a general minimiser, the log evidence, and the parts determined."""
    theta, determined, evidence = [], [], 0.0
    alpha = np.repeat(strengths, [1, *2 * [groups[0].Z.shape[1]]])
    for rows in groups:
        at = minimize(
            lambda t, rows=rows: slow_loss(rows, t) + 0.5 * alpha @ t**2,
            np.zeros(alpha.size),
            options={"gtol": 1e-7},
        )
        A = slow_hessian(rows, at.x) + np.diag(alpha)
        evidence += 0.5 * np.log(alpha).sum() - 0.5 * np.linalg.slogdet(A)[1] - at.fun
        theta.append(at.x)
        determined.append((1 - alpha * np.linalg.inv(A).diagonal()).sum())
    return np.array(theta), evidence, np.array(determined)


def in_groups(theta):
    """Slopes and shifts ``(G, K)`` of parameters ``(G, m)``."""
    K = theta.shape[1] // 2
    return theta[:, :1] + theta[:, K + 1 :], theta[:, 1 : K + 1]


@pytest.mark.parametrize("n_classes", [2, 3, 101])
def test_derivatives_are_those_of_the_loss(n_classes):
    rng = np.random.default_rng(0)
    rows = group(12, n_classes, 0, w=rng.random(12) + 0.5)
    size = 2 * n_classes + 1 if n_classes <= 100 else 1
    theta = 0.3 * rng.normal(size=size)
    value, gradient, hessian = derivatives(rows, theta)
    assert value == pytest.approx(slow_loss(rows, theta))
    expected = approx_fprime(theta, lambda t: slow_loss(rows, t), 1e-7)
    np.testing.assert_allclose(gradient, expected, atol=1e-5)
    columns = [
        (derivatives(rows, theta + e)[1] - derivatives(rows, theta - e)[1]) / 2e-6
        for e in 1e-6 * np.eye(size)
    ]
    np.testing.assert_allclose(hessian, np.array(columns), atol=1e-5)


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("strength", [0.01, 3.0])
def test_groups_are_fitted_as_by_a_general_minimiser(n_classes, strength):
    groups = [group(40, n_classes, 1, shift=1.0, slope=0.5), group(8, n_classes, 2, shift=-1.0)]
    found = fit_pooled(groups, strength)
    theta, _, determined = slow_fit(groups, np.full(3, strength))
    slope, shift = in_groups(theta)
    np.testing.assert_allclose(found.common, theta[:, 0], atol=1e-4)
    np.testing.assert_allclose(found.slope, slope, atol=1e-4)
    np.testing.assert_allclose(found.shift, shift, atol=1e-4)
    np.testing.assert_allclose(found.dof, determined, atol=2e-3)
    assert found.strengths == dict.fromkeys(["slope", "shift", "class slope"], strength)


def test_strengths_are_where_the_evidence_is_largest():
    """Laplace's formula at fits by a general minimiser, plus the log prior of each width."""
    groups = [group(200, 2, g, shift=s) for g, s in enumerate([-1.0, -0.5, 0.0, 0.5, 1.0])]

    def slow_evidence(alpha):
        return slow_fit(groups, alpha)[1] - np.log1p(1 / alpha).sum()

    alpha = np.array(list(fit_pooled(groups).strengths.values()))
    best = slow_evidence(alpha)
    assert alpha[1] < 20  # the shifts differ
    for block in range(3):
        for factor in (0.2, 5.0):
            other = alpha.copy()
            other[block] *= factor
            assert slow_evidence(other) < best + 0.05


def test_equal_groups_share_the_common_map():
    found = [fit_pooled([group(500, 3, 20 * r + g) for g in range(8)]) for r in range(5)]
    assert np.mean([fit.dof.mean() for fit in found]) < 0.4
    assert np.mean([np.abs(fit.slope).mean() for fit in found]) < 0.01
    assert np.mean([np.abs(fit.shift).mean() for fit in found]) < 0.01


def test_parameters_are_means_over_widths_by_their_evidence():
    groups = [group(40, 2, seed, 0.5 * (-1) ** seed) for seed in range(6)]
    found = fit_pooled(groups)
    alpha = np.array(list(found.strengths.values()))
    none = -sum(slow_loss(rows, np.zeros(5)) for rows in groups)
    theta, evidence, dof = [np.zeros((6, 5))], [none], [np.zeros(6)]
    for width in (1.0, 1 / 3, 1 / 9):
        fitted = slow_fit(groups, alpha / width**2)
        for parts, part in zip((theta, evidence, dof), fitted, strict=True):
            parts.append(part)
    weight = softmax(evidence)
    assert weight.max() < 0.9
    slope, shift = in_groups(np.einsum("f,fgm->gm", weight, theta))
    np.testing.assert_allclose(found.slope, slope, atol=1e-4)
    np.testing.assert_allclose(found.shift, shift, atol=1e-4)
    np.testing.assert_allclose(found.dof, weight @ dof, atol=1e-3)


def test_a_group_of_one_class_stays_finite():
    rows = group(30, 2, 0)
    sure = rows._replace(code=np.ones(30, dtype=np.intp))
    for strength in (None, 1e-7):
        found = fit_pooled([sure, rows], strength)
        assert np.isfinite(found.slope).all()
        assert np.isfinite(found.shift).all()
