"""Corrections of groups under one prior: against loops, a general minimiser, and their limits."""

import numpy as np
import pytest
from scipy.optimize import approx_fprime, minimize
from scipy.special import softmax

from skcalib._scaling.evidence import GroupRows, derivatives, fit_pooled


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
