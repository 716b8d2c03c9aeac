"""Logistic regressions of several events at once, begun in a sample of the rows."""

import numpy as np
import pytest
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from skcalib._scaling import logistic
from skcalib._scaling.logistic import SAMPLE_ROWS, fit_logistic, logistic_loss, separates


def problems(n, seed=0):
    """Features of two kinds, and events from one in two to three in all, in sorted rows."""
    rng = np.random.default_rng(seed)
    f = np.sort(3 * rng.normal(size=(4, n)), axis=1)
    F = np.stack([f, np.cos(f)], axis=1)
    hit = rng.random((4, n)) < expit(0.7 * f + np.array([0.0, -3.0, -6.0, 3.0])[:, None])
    hit[2, np.flatnonzero(hit[2])[3:]] = False
    return F, hit, rng.exponential(size=n)


@pytest.mark.parametrize("n", [600, 2 * SAMPLE_ROWS, 20 * SAMPLE_ROWS + 7])
@pytest.mark.parametrize("weighted", [False, True])
def test_each_event_has_the_largest_likelihood_however_rare_it_is(n, weighted):
    F, hit, w = problems(n)
    w = w if weighted else np.ones(n)
    fitted = fit_logistic(F, hit, w)
    for k in range(4):
        reference = LogisticRegression(C=1e13, tol=1e-13, solver="newton-cholesky", max_iter=999)
        reference.fit(F[k].T, hit[k], sample_weight=w / w.mean())
        np.testing.assert_allclose(fitted.coef[k], reference.coef_[0], rtol=1e-5)
        np.testing.assert_allclose(fitted.intercept[k], reference.intercept_[0], rtol=1e-5)
        q = expit(fitted.coef[k] @ F[k] + fitted.intercept[k])
        lack = w * (q - hit[k]) / w.sum()
        assert abs(lack.sum()) < 1e-11
        assert np.abs(F[k] @ lack).max() < 1e-10


def test_events_that_never_or_always_happen_are_the_limit_and_spoil_no_other():
    F, hit, w = problems(3000)
    hit[1], hit[3] = False, True
    fitted = fit_logistic(F, hit, w)
    assert fitted.intercept[1] == -np.inf
    assert fitted.intercept[3] == np.inf
    assert not fitted.coef[[1, 3]].any()
    others = fit_logistic(F[[0, 2]], hit[[0, 2]], w)
    np.testing.assert_allclose(fitted.coef[[0, 2]], others.coef, rtol=1e-9)


def test_equal_features_share_a_coefficient_and_constant_ones_have_none():
    F, hit, w = problems(4000)
    F[:, 1] = F[:, 0]
    fitted = fit_logistic(F, hit, w)
    np.testing.assert_allclose(fitted.coef[:, 0], fitted.coef[:, 1], rtol=1e-6)
    alone = fit_logistic(F[:, :1], hit, w)
    np.testing.assert_allclose(fitted.coef.sum(axis=1), alone.coef[:, 0], rtol=1e-6)
    F[:, 1] = 7.0
    fitted = fit_logistic(F, hit, w)
    assert not fitted.coef[:, 1].any()
    np.testing.assert_allclose(fitted.coef[:, 0], alone.coef[:, 0], rtol=1e-6)


def test_a_separated_event_ends_where_the_gradient_cannot_tell():
    f = np.linspace(-1, 1, 4001)
    fitted = fit_logistic(np.stack([f, f])[:, None], np.stack([f > 0.3, f > -2]), np.ones(4001))
    assert np.isfinite(fitted.coef).all()
    q = expit(fitted.coef[0, 0] * f + fitted.intercept[0])
    assert np.abs(q - (f > 0.3)).mean() < 1e-9


def test_a_period_in_the_rows_does_not_change_the_fit():
    """The fit starts on every fourth row, and all of these have the event."""
    f = np.repeat([-83.0, -55, -28, -14, -7, -2.3, 0, 0, 0, 0, 0, 0], 2)
    hit = np.tile([True, False], 12)
    rate = expit(np.repeat(np.linspace(-2, 1, 12), 2))
    w = np.where(hit, rate, 1 - rate)
    few = fit_logistic(f[None, None], hit[None], w)
    many = fit_logistic(*(np.tile(each, 107) for each in (f[None, None], hit[None], w)))
    np.testing.assert_allclose(many.coef, few.coef, rtol=1e-9)
    np.testing.assert_allclose(many.intercept, few.intercept, rtol=1e-9)
    q = expit(few.coef[0, 0] * f + few.intercept)
    np.testing.assert_allclose([w @ (q - hit), f @ (w * (q - hit))], 0.0, atol=1e-9)


def test_rows_of_tiny_weight_do_not_spoil_the_fit():
    """A plane separates the one row with the event, so that the log loss can be 0."""
    F = np.array([[-1.0, -1, 1, -2, -2], [0, -2, 1, 2, -1], [-2, -2, -2, 0, 1]])
    hit, w = np.array([[False, False, False, True, False]]), np.array([1e-6, 1, 1e-6, 1e-6, 1])
    assert logistic_loss(F[None], hit, w, fit_logistic(F[None], hit, w)) < 1e-6


def test_separation_is_an_order_without_exception():
    score = np.array([[1.0, 2, 3, 4], [1, 3, 2, 4], [1, 2, 2, 3], [5, 5, 5, 5], [1, 2, 3, 4]])
    hit = np.array([[0, 0, 1, 1], [0, 0, 1, 1], [0, 0, 1, 1], [0, 0, 1, 1], [0, 0, 0, 0]], bool)
    assert separates(score, hit).tolist() == [True, False, True, False, False]


def test_the_sigmoid_is_exact_to_rounding_also_far_out_and_warns_of_nothing():
    eta = np.array([-np.inf, -1e4, -700.0, -40.0, -1.0, 0.0, 1.0, 40.0, 1e4, np.inf])
    q = logistic.expit(eta.copy())
    np.testing.assert_allclose(q, expit(eta), rtol=1e-15)
    assert q[0] == 0.0
    assert q[-1] == 1.0


@pytest.mark.parametrize("n", [SAMPLE_ROWS, 30 * SAMPLE_ROWS])
def test_a_fit_ends_at_the_tolerance_and_not_only_near_it(n):
    F, hit, w = problems(n, seed=2)
    fitted = fit_logistic(F, hit, w)
    share = w / w.sum()
    for k in range(4):
        G = F[k] - (F[k] @ share)[:, None]
        G /= np.sqrt((G * G) @ share)[:, None]
        lack = share * (expit(fitted.coef[k] @ F[k] + fitted.intercept[k]) - hit[k])
        assert np.abs(np.append(G @ lack, lack.sum())).max() < 1.5 * logistic.GRADIENT_TOLERANCE
