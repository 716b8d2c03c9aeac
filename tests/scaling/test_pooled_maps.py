"""Corrections of groups under one prior: against loops, a general minimiser, and their limits."""

import numpy as np
import pytest
from scipy.optimize import approx_fprime, minimize

from skcalib._scaling.pooled import (
    Blocks,
    GroupRows,
    derivatives,
    find_strengths,
    fit_all,
    fit_group,
    fit_pooled,
    loss_of,
)


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


@pytest.mark.parametrize("n_classes", [2, 3, 101])
def test_derivatives_are_those_of_the_loss(n_classes):
    rng = np.random.default_rng(0)
    rows = group(12, n_classes, 0, w=rng.random(12) + 0.5)
    blocks = Blocks(n_classes)
    assert blocks.size == (2 * n_classes + 1 if n_classes <= 100 else 1)
    theta = 0.3 * rng.normal(size=blocks.size)
    value, P = loss_of(rows, theta, blocks)
    assert value == pytest.approx(slow_loss(rows, theta))
    gradient, hessian = derivatives(rows, P, blocks)
    expected = approx_fprime(theta, lambda t: slow_loss(rows, t), 1e-7)
    np.testing.assert_allclose(gradient, expected, atol=1e-5)

    def gradient_at(t):
        return derivatives(rows, loss_of(rows, t, blocks)[1], blocks)[0]

    columns = [
        (gradient_at(theta + 1e-6 * e) - gradient_at(theta - 1e-6 * e)) / 2e-6
        for e in np.eye(blocks.size)
    ]
    np.testing.assert_allclose(hessian, np.array(columns), atol=1e-5)


@pytest.mark.parametrize("n_classes", [2, 4])
def test_a_group_is_fitted_as_by_a_general_minimiser(n_classes):
    rows, blocks = group(40, n_classes, 1, shift=1.0, slope=0.5), Blocks(n_classes)
    alpha = blocks.spread(np.array([2.0, 0.5, 5.0]))
    found, hessian, value = fit_group(rows, alpha, np.zeros(blocks.size), blocks)
    slow = minimize(
        lambda t: slow_loss(rows, t) + 0.5 * alpha @ t**2, np.zeros(blocks.size), tol=1e-12
    )
    np.testing.assert_allclose(found, slow.x, atol=1e-4)
    assert value == pytest.approx(slow.fun, abs=1e-8)
    np.testing.assert_allclose(hessian, hessian.T, atol=1e-12)


def test_a_start_far_away_ends_at_the_same_place():
    rows, blocks = group(40, 3, 1), Blocks(3)
    alpha = np.full(blocks.size, 0.1)
    near = fit_group(rows, alpha, np.zeros(blocks.size), blocks)[0]
    far = fit_group(rows, alpha, np.full(blocks.size, 30.0), blocks)[0]
    np.testing.assert_allclose(near, far, atol=1e-4)


def test_strengths_are_where_the_evidence_is_largest():
    groups = [group(200, 2, g, shift=s) for g, s in enumerate([-1.0, -0.5, 0.0, 0.5, 1.0])]
    blocks = Blocks(2)

    def slow_evidence(alpha):
        """Laplace's formula at a fit by a general minimiser, plus the log prior of each width."""
        each = blocks.spread(alpha)
        total = -np.log1p(1 / alpha).sum()
        for rows in groups:
            start = fit_group(rows, each, np.zeros(5), blocks)[0]
            hessian = derivatives(rows, loss_of(rows, start, blocks)[1], blocks)[1]
            value = slow_loss(rows, start) + 0.5 * each @ start**2
            _, log_det = np.linalg.slogdet(hessian + np.diag(each))
            total += 0.5 * np.log(each).sum() - 0.5 * log_det - value
        return total

    alpha, fits = find_strengths(groups, blocks)
    best = slow_evidence(alpha)
    assert fits.evidence == pytest.approx(best + np.log1p(1 / alpha).sum(), abs=1e-6)
    assert alpha[1] < 20  # the shifts differ
    for block in range(3):
        for factor in (0.2, 5.0):
            other = alpha.copy()
            other[block] *= factor
            assert slow_evidence(other) < best + 0.05


def test_equal_groups_share_the_common_map():
    found = [fit_pooled([group(500, 3, 20 * r + g) for g in range(8)], 3) for r in range(5)]
    assert np.mean([fit.dof.mean() for fit in found]) < 0.4
    assert np.mean([np.abs(fit.theta).mean() for fit in found]) < 0.01


def test_parameters_are_means_over_widths_by_their_evidence():
    groups = [group(40, 2, seed, 0.5 * (-1) ** seed) for seed in range(6)]
    blocks = Blocks(2)
    alpha, fits = find_strengths(groups, blocks)
    theta, evidence = [np.zeros((6, 5))], [-sum(slow_loss(rows, np.zeros(5)) for rows in groups)]
    for width in (1.0, 1 / 3, 1 / 9):
        each = fit_all(groups, alpha / width**2, fits.theta, blocks)
        theta.append(each.theta)
        evidence.append(each.evidence)
    weight = np.exp(evidence - np.max(evidence))
    assert (weight / weight.sum()).max() < 0.9
    expected = sum(w * t for w, t in zip(weight / weight.sum(), theta, strict=True))
    np.testing.assert_allclose(fit_pooled(groups, 2).theta, expected, atol=1e-4)


def test_a_given_strength_is_not_sought():
    groups = [group(50, 2, seed) for seed in range(3)]
    found = fit_pooled(groups, 2, 3.0)
    expected = [fit_group(rows, np.full(5, 3.0), np.zeros(5), Blocks(2))[0] for rows in groups]
    np.testing.assert_array_equal(found.theta, expected)
    assert found.strengths.tolist() == [3.0, 3.0, 3.0]


def test_a_group_of_one_class_stays_finite():
    rows = group(30, 2, 0)
    sure = rows._replace(code=np.ones(30, dtype=np.intp))
    found = fit_pooled([sure, rows], 2)
    assert np.isfinite(found.theta).all()
