"""Bayesian binning into quantiles against loops over binnings, bins and rows."""

import math

import numpy as np
import pytest
from scipy.special import expit

from skcalib import BayesianBinning
from skcalib._validation.rows import check_weight
from skcalib.calibrators import _bayesian_binning

LEAST = 1e-12  # mid-points keep this distance from 0 and 1


# ------------------------------------------------------------------ the slow, obvious reference


def quantile_edges(column, w, n_bins):
    """Inner edges: the scores of rows round(r N / B), a row of weight w standing for w rows."""
    total, whole = sum(w), all(v == int(v) for v in w)
    pairs = sorted(zip(column, w, strict=True))
    edges = []
    for r in range(1, n_bins):
        position = r * (total / n_bins)
        position = round(position) if whole else position
        before, found = 0.0, pairs[-1][0]
        for s, weight in pairs:
            before += weight
            if before > position:
                found = s
                break
        edges.append(found)
    return edges


def one_binning(column, hit, w, n_bins, prior_strength, proba):
    """Return (edges, posterior means, log score) of the paper's formulas."""
    edges = quantile_edges(column, w, n_bins)
    bins = [sum(e <= s for e in edges) for s in column]
    bounds = [0.0, *map(proba, edges), 1.0]
    prior = prior_strength / n_bins
    means, score = [], 0.0
    for b in range(n_bins):
        rows = [i for i, own in enumerate(bins) if own == b]
        n = sum(w[i] for i in rows)
        h = sum(w[i] for i in rows if hit[i])
        left, right = bounds[b], bounds[b + 1]
        if left == 1.0:
            left = max([proba(s) for s in column if s < edges[b - 1]], default=0.0)
        middle = min(max((left + right) / 2, LEAST), 1 - LEAST)
        alpha, beta = prior * middle, prior * (1 - middle)
        score += math.lgamma(prior) - math.lgamma(prior + n)
        score += math.lgamma(alpha + h) - math.lgamma(alpha)
        score += math.lgamma(beta + n - h) - math.lgamma(beta)
        means.append((alpha + h) / (prior + n))
    return edges, means, score


def reference_map(column, hit, w, new, prior_strength=2.0, max_bins=1000, proba=float):
    n = sum(w)
    root = n ** (1 / 3)
    fewest, most = root / 10 - 1e-9, min(10 * root + 1e-9, n, max_bins)
    numbers = [B for B in range(1, 10 * len(column) + 100) if fewest <= B <= most]
    binnings = [one_binning(column, hit, w, B, prior_strength, proba) for B in numbers]
    best = max(score for _, _, score in binnings)
    weights = [math.exp(score - best) for _, _, score in binnings]
    answers = []
    for s in new:
        total = 0.0
        for weight, (edges, means, _) in zip(weights, binnings, strict=True):
            total += weight * means[sum(e <= s for e in edges)]
        answers.append(total / sum(weights))
    return answers


# ------------------------------------------------------------------------------------ the tests


def data(n, n_classes, seed=0):
    """Ties, exact 0 and 1; class 1 never occurs where there are more than two."""
    rng = np.random.default_rng(seed)
    # Multiples of 1/64: ties are exact, as scores that differ in the last bits count as tied.
    P = rng.multinomial(64, rng.dirichlet(np.full(n_classes, 0.5), size=n)) / 64
    P[:4] = np.eye(n_classes)[[0, -1, -1, 0]]
    mild = (P + 0.1) / (P + 0.1).sum(axis=1, keepdims=True)
    y = np.array([rng.choice(n_classes, p=p) for p in mild])
    if n_classes > 2:
        y[y == 1] = 0
    return P, y


WEIGHTS = {
    "none": lambda _, n: np.ones(n),
    "whole": lambda rng, n: rng.integers(1, 4, n),
    "any": lambda rng, n: check_weight(rng.exponential(size=n), n),
}


@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize(("n", "seed", "n_classes"), [(60, 0, 3), (12, 2, 2)])
def test_the_answer_is_the_mean_of_all_binnings_weighted_by_their_scores(
    n, seed, n_classes, weights
):
    """With 12 rows, their number bounds the number of bins."""
    P, y = data(n, n_classes, seed)
    rng = np.random.default_rng(seed + 10)
    w = WEIGHTS[weights](rng, n)
    new = np.vstack([P[:12], rng.dirichlet(np.ones(n_classes), size=12), np.eye(n_classes)])
    calibrator = BayesianBinning(classes=np.arange(n_classes)).fit(P, y, w)
    expected = np.array([reference_map(P[:, k], y == k, w, new[:, k]) for k in range(n_classes)]).T
    if n_classes == 2:
        expected[:, 0] = 1 - expected[:, 1]
    expected /= expected.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(calibrator.predict_proba(new), expected, rtol=0, atol=1e-11)


@pytest.mark.parametrize("options", [{"prior_strength": 20.0}, {"max_bins": 3}, {"max_bins": 1}])
def test_parameters_are_those_of_the_formula(options):
    P, y = data(80, 2)
    new = np.linspace(0, 1, 30)
    calibrator = BayesianBinning(**options).fit(P[:, 1], y)
    expected = reference_map(P[:, 1], y == 1, np.ones(80), new, **options)
    np.testing.assert_allclose(calibrator.predict_proba(new)[:, 1], expected, rtol=0, atol=1e-12)


def test_log_odds_of_any_size_keep_their_order():
    """Half of the probabilities are 1 exactly, and bins are cut among them."""
    rng = np.random.default_rng(0)
    f = np.round(rng.uniform(0, 80, 200), 1)
    y = rng.random(200) < expit((f - 40) / 8)
    new = np.linspace(-10, 90, 97)
    expected = reference_map(f, y, np.ones(200), new, proba=expit)
    found = BayesianBinning(input="logits").fit(f, y).predict_proba(new)[:, 1]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


def test_tiny_answers_keep_their_digits():
    """Next to answers of order 1, small ones on the left do not drown in their rounding."""
    rng = np.random.default_rng(0)
    p = np.concatenate([10.0 ** rng.uniform(-14, -6, 300), rng.uniform(0.5, 1, 60)])
    y = p > 0.5
    new = np.concatenate([p[::10], [0.0, 0.1, 1.0]])
    found = BayesianBinning().fit(p, y).predict_proba(new)[:, 1]
    expected = reference_map(p, y, np.ones(p.size), new)
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    assert (found > 0).all()
    assert (found < 1).all()


def test_small_answers_right_of_large_ones_do_not_fall_below_zero():
    """The smallest of tiny scores are hits, so that what follows is the rest of a subtraction."""
    rng = np.random.default_rng(0)
    p = 10.0 ** rng.uniform(-14, -12, 50_000)
    found = BayesianBinning().fit(p, p < 1e-13).predict_proba(np.sort(p))[:, 1]
    assert found[0] > 0.99
    assert found.min() > 0


def test_certain_scores_do_not_get_certain_answers():
    """Half of the rows say exactly 1 and are right: a bin of its own, but no answer of 1."""
    p, y = np.repeat([0.0, 0.6, 0.7, 1.0], 25), np.repeat([0, 0, 1, 1], 25)
    P = BayesianBinning().fit(p, y).predict_proba([0.0, 1.0])
    assert P[0, 1] < 0.05
    assert P[1, 1] > 0.95
    assert P.min() > 0


def test_fewer_thresholds_move_the_log_odds_by_a_step_at_most(monkeypatch):
    rng = np.random.default_rng(1)
    p = rng.random(2000)
    y = rng.random(2000) < p**2
    exact = BayesianBinning().fit(p, y)
    monkeypatch.setattr(_bayesian_binning, "MAX_THRESHOLDS", 20)
    few = BayesianBinning().fit(p, y)
    assert exact.X_thresholds_[0].size > 40
    assert few.X_thresholds_[0].size <= 20
    values = exact.y_thresholds_[0]
    odds = np.log(values / (1 - values))
    step = np.abs(np.diff(odds)).sum() / 19
    at = np.linspace(0, 1, 1000)
    means = [c.predict_proba(p)[:, 1].mean() for c in (exact, few)]
    assert means[1] == pytest.approx(means[0], rel=1e-12)
    change = np.diff([np.log(c.predict_proba(at)) @ [-1, 1] for c in (exact, few)], axis=0)
    assert 0 < np.abs(change).max() <= step * (1 + 1e-9)


def test_copies_of_a_score_that_rounding_tells_apart_are_tied():
    P, y = data(60, 2, seed=3)
    p, y = np.repeat(np.clip(P[:, 1], 1 / 64, 63 / 64), 3), np.repeat(y, 3)
    near = p.copy()
    near[::3], near[1::3] = np.nextafter(p[::3], 0), np.nextafter(p[1::3], 1)
    new = (np.arange(64) + 0.5) / 64
    found, expected = (BayesianBinning().fit(column, y).predict_proba(new) for column in (near, p))
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)
