"""The risk-coverage curve, its area, and how often the interval of the area contains the truth."""

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import binomtest

from skcalib.metrics import aurc_loss, risk_coverage_curve


def integral(score, hit, w, steps=200_000):
    """Risk integrated over coverage; of equal scores the first part has their mean risk."""
    levels = np.unique(score)[::-1]
    mass = np.array([w[score == t].sum() for t in levels]) / w.sum()
    risk = np.array([np.average(~hit[score == t], weights=w[score == t]) for t in levels])
    u = (np.arange(steps) + 0.5) / steps
    edges = np.append(0.0, np.cumsum(mass))
    errors = np.append(0.0, np.cumsum(mass * risk))
    return np.mean(np.interp(u, edges, errors) / u)


def sample(n, digits, seed=0):
    rng = np.random.default_rng(seed)
    score = expit(np.abs(rng.normal(0, 2, n))).round(digits)
    return score, rng.random(n) < score, rng


@pytest.mark.parametrize("digits", [1, 6])
def test_the_area_is_the_integral_of_risk_over_coverage(digits):
    score, hit, rng = sample(60, digits)
    ones, w = np.ones(60), rng.exponential(size=60)
    assert aurc_loss(hit, score) == pytest.approx(integral(score, hit, ones), abs=1e-5)
    weighted = aurc_loss(hit, score, sample_weight=w)
    assert weighted == pytest.approx(integral(score, hit, w), abs=1e-5)
    assert aurc_loss(np.tile(hit, 3), np.tile(score, 3)) == pytest.approx(aurc_loss(hit, score))


def test_the_excess_is_0_for_the_best_order_and_all_equal_scores_give_the_error_rate():
    hit = np.arange(50) >= 8
    assert aurc_loss(hit, np.linspace(0, 1, 50), excess=True) == pytest.approx(0, abs=1e-3)
    many = np.arange(50_000) >= 8_000
    assert aurc_loss(many, np.linspace(0, 1, 50_000), excess=True) == pytest.approx(0, abs=1e-6)
    assert aurc_loss(many, 1.0 * many, excess=True) == pytest.approx(0, abs=1e-12)
    assert aurc_loss(hit, np.full(50, 0.7)) == pytest.approx(8 / 50)
    assert aurc_loss(np.ones(9), np.linspace(0, 1, 9)) == 0
    assert aurc_loss(np.zeros(9), np.linspace(0, 1, 9)) == pytest.approx(1)


def test_the_points_of_the_curve_and_their_exact_intervals():
    score, hit, _ = sample(300, 1)
    curve = risk_coverage_curve(hit, score, confidence_level=0.9)
    assert curve.thresholds.tolist() == sorted(set(score), reverse=True)
    for i, t in enumerate(curve.thresholds):
        n, m = int((score >= t).sum()), int(((score >= t) & ~hit).sum())
        assert (curve.coverage[i], curve.risk[i]) == pytest.approx((n / 300, m / n))
        exact = binomtest(m, n).proportion_ci(0.9, method="exact")
        assert (curve.low[i], curve.high[i]) == pytest.approx((exact.low, exact.high))
    columns = ["coverage", "risk", "thresholds", "low", "high"]
    assert curve.frame.columns.tolist() == columns
    assert (curve.aurc, curve.excess_aurc) == (
        aurc_loss(hit, score),
        aurc_loss(hit, score, excess=True),
    )
    assert curve.aurc_low < curve.aurc < curve.aurc_high
    assert repr(curve).startswith(f"RiskCoverageCurve({curve.coverage.size} points, aurc=0.")
    assert "<table" in curve._repr_html_()


@pytest.mark.parametrize(
    ("n", "accuracy", "slope"),
    [(100, 0.9, 1), (300, 0.7, 1), (300, 0.95, 0), (1000, 0.9, 1), (1000, 0.99, 1)],
)
def test_the_interval_of_the_area_covers(n, accuracy, slope):
    """95 % intervals cover in 92 % of samples or more: errors at the bottom, or anywhere."""
    rng = np.random.default_rng(0)

    def draw(n):
        u = rng.random(n)
        wrong = (1 - accuracy) * (2 * u if slope else np.ones(n))
        return rng.random(n) >= np.minimum(wrong, 1), 1 - u

    truth = aurc_loss(*draw(500_000))
    inside = 0
    for _ in range(300):
        curve = risk_coverage_curve(*draw(n))
        inside += curve.aurc_low <= truth <= curve.aurc_high
    assert inside / 300 >= 0.92


def test_weights_that_are_far_apart_give_numbers():
    """Rows of almost no weight change nothing."""
    y, p = np.array([0, 1, 1, 0, 1, 0]), np.array([0.95, 0.9, 0.8, 0.7, 0.6, 0.55])
    few = np.array([False, True, False, True, True, True])
    w = np.where(few, 1.5, 1e-90)
    expected = aurc_loss(y[few], p[few], sample_weight=w[few])
    assert aurc_loss(y, p, sample_weight=w) == pytest.approx(expected, rel=1e-9)
    for last in (1e90, 1e-90):
        curve = risk_coverage_curve(y, p, sample_weight=np.array([1e-90] * 5 + [last]))
        assert np.isfinite([curve.aurc, curve.aurc_low, curve.aurc_high]).all()
