"""Observed over expected events: its interval solves an equation, and has its edges right."""

import numpy as np
import pytest
from reference import student_ends
from scipy.optimize import brentq
from scipy.stats import norm

from skcalib.metrics import observed_expected_ratio

Z = 1.959963984540054


def interval_by_search(y, p, w, z=Z):
    """Ends of {r : (O - r E)^2 <= z^2 v r E}, by bisection on each side of the ratio."""
    rows = sum(w) if all(x == int(x) for x in w) else sum(w) ** 2 / sum(x * x for x in w)
    w = [x * rows / sum(w) for x in w]
    n = len(w)
    observed, E = sum(w[i] * y[i] for i in range(n)), sum(w[i] * p[i] for i in range(n))
    mean = observed / sum(w)
    squared = [x if rows == int(rows) else x * x for x in w]  # relative weights
    spread = sum(squared[i] * (y[i] - observed / E * p[i]) ** 2 for i in range(n))
    v = (spread + z * z / 2 * (mean**2 + (1 - mean) ** 2)) / (observed + z * z / 2)

    def excess(r):
        return (observed - r * E) ** 2 - z * z * v * r * E

    low = 0.0 if observed == 0 else brentq(excess, 0, observed / E, xtol=1e-14)
    high = brentq(excess, max(observed / E, 1e-9), (observed + 100) / E, xtol=1e-14)
    if rows != int(rows):
        ends = student_ends(np.array(w) * y, np.array(w) * p, 2 * norm.cdf(z) - 1, -0.5)
        low, high = min(low, ends[0]), max(high, ends[1])
    return observed / E, max(low, 0.0), min(high, sum(w) / E)


def sample(n=200, seed=0):
    rng = np.random.default_rng(seed)
    p = rng.beta(1, 4, n)
    return rng.random(n) < p**1.3, p, rng.integers(0, 4, n), rng.uniform(0.2, 3, n)


@pytest.mark.parametrize("weights", ["none", "counts", "fractions"])
def test_the_interval_holds_all_ratios_that_are_near_enough(weights):
    y, p, counts, fractions = sample()
    w = {"none": np.ones(200), "counts": counts, "fractions": fractions}[weights]
    found = observed_expected_ratio(y, p, sample_weight=w)
    assert found[:3] == pytest.approx(interval_by_search(y, p, w), abs=1e-9)
    scaled = w * w.sum() / (w @ w) if weights == "fractions" else w
    assert found.observed == pytest.approx(scaled @ y)
    assert found.expected == pytest.approx(scaled @ p)
    wide = observed_expected_ratio(y, p, sample_weight=w, confidence_level=0.99)
    assert wide[:3] == pytest.approx(interval_by_search(y, p, w, 2.5758293035489004), abs=1e-9)


def test_rare_events_of_one_probability_have_the_score_interval_of_a_count():
    """v is nearly 1: Wilson's interval of a Poisson number, 20 +- sqrt(20 + z^2/4) z + z^2/2."""
    n = 1_000_000
    y = np.arange(n) < 20
    found = observed_expected_ratio(y, np.full(n, 1e-5))
    half = Z * np.sqrt(20 + Z**2 / 4)
    assert found.low * 10 == pytest.approx(20 + Z**2 / 2 - half, rel=1e-4)
    assert found.high * 10 == pytest.approx(20 + Z**2 / 2 + half, rel=1e-4)


def test_without_events_the_interval_is_from_0_to_z_squared():
    """Poisson numbers of mean above z^2 = 3.84 are 0 in 2.1 % of cases; exact ends 3.69."""
    found = observed_expected_ratio([0] * 1000, [0.02] * 1000)
    assert (found.ratio, found.low, found.observed) == (0, 0, 0)
    assert found.high == pytest.approx(Z**2 / 20, rel=1e-12)


def test_probabilities_that_are_all_0_expect_nothing():
    for y in ([0, 1], [0, 0]):
        with pytest.raises(ValueError, match="y_proba is 0 in every row.*O:E does not exist"):
            observed_expected_ratio(y, [0.0, 0.0])


def test_printed_in_one_line():
    found = observed_expected_ratio([1] * 30 + [0] * 970, [0.02] * 1000)
    assert repr(found) == (
        "ObservedExpectedRatio(ratio=1.5 (1.057 to 2.129), observed=30, expected=20)"
    )
