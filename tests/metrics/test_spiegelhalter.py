"""Spiegelhalter's z by its closed form, in a loop, and from the moments of the Brier score."""

import math

import numpy as np
import pytest
from scipy import stats

from skcalib.metrics import spiegelhalter_test


def closed_form(y, p, w):
    above = sum(w[i] * (y[i] - p[i]) * (1 - 2 * p[i]) for i in range(len(p)))
    variance = sum(w[i] * (1 - 2 * p[i]) ** 2 * p[i] * (1 - p[i]) for i in range(len(p)))
    z = above / math.sqrt(variance)
    return z, 2 * stats.norm.sf(abs(z))


def sample(n=100, seed=0):
    rng = np.random.default_rng(seed)
    p = rng.random(n)
    return rng.random(n) < p**1.5, p, rng.integers(0, 4, n), rng.uniform(0.2, 3, n)


@pytest.mark.parametrize("weights", ["none", "counts", "fractions"])
def test_equals_the_loop(weights):
    y, p, counts, fractions = sample()
    w = {"none": np.ones(100), "counts": counts, "fractions": fractions}[weights]
    scale = 1.0 if weights != "fractions" else sum(w) / sum(x * x for x in w)
    expected = closed_form(y, p, [x * scale for x in w])
    assert spiegelhalter_test(y, p, sample_weight=w) == pytest.approx(expected, rel=1e-12)


def test_a_miss_at_probability_1_counts_1_as_in_val_prob_of_r():
    """By hand: excess 1 - .1 x .8 - .2 x .6 - .3 x .4, variance .0576 + .0576 + .0336 + 0."""
    found = spiegelhalter_test([0, 0, 1, 0], [0.1, 0.2, 0.7, 1.0])
    assert found.statistic == pytest.approx(0.68 / math.sqrt(0.1488), rel=1e-12)
    wrong = spiegelhalter_test([0, 1, 0], [0.5, 1.0, 1.0])  # no variance at all
    assert wrong == (np.inf, 0.0)


def test_certain_rows_add_nothing_unless_they_are_wrong():
    y, p, _, _ = sample()
    certain = spiegelhalter_test(np.r_[y, 0, 1], np.r_[p, 0.0, 1.0])
    assert certain == pytest.approx(spiegelhalter_test(y, p))
    for outcome, score in ((1, 0.0), (0, 1.0)):
        Y, P = np.r_[y, outcome], np.r_[p, score]
        expected = closed_form(Y, P, np.ones(101))
        assert expected[0] > closed_form(y, p, np.ones(100))[0] + 0.2
        assert spiegelhalter_test(Y, P) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("p", [[0.5, 0.5, 0.5], [0.0, 1.0, 0.0], [0.5, 1.0, 0.0]])
def test_probabilities_of_which_the_brier_score_says_nothing(p):
    assert spiegelhalter_test([0, 1, 0], p) == (0.0, 1.0)


def test_printed_in_one_line():
    found = spiegelhalter_test([0, 0, 0, 1], [0.1, 0.2, 0.3, 0.6])
    assert repr(found) == "SpiegelhalterTest(statistic=-1.005, pvalue=0.3149)"
    assert repr(spiegelhalter_test([1, 0], [0.0, 0.5])) == (
        "SpiegelhalterTest(statistic=inf, pvalue<1e-300)"
    )


def test_sums_over_clusters_are_the_observations():
    y, p, counts, _ = sample()
    cluster = np.random.default_rng(1).integers(0, 12, 100)
    for w in (np.ones(100, dtype=int), counts):
        sums = [0.0] * 12
        for i in range(100):
            sums[cluster[i]] += w[i] * (y[i] - p[i]) * (1 - 2 * p[i])
        z = sum(sums) / math.sqrt(sum(s * s for s in sums))
        found = spiegelhalter_test(y, p, clusters=cluster, sample_weight=w)
        assert found == pytest.approx((z, 2 * stats.norm.sf(abs(z))), rel=1e-12)
        assert found == spiegelhalter_test(y, p, clusters=-cluster, sample_weight=w)
    twice = spiegelhalter_test(np.r_[y, y], np.r_[p, p], clusters=np.r_[:100, :100])
    alone = [(y[i] - p[i]) * (1 - 2 * p[i]) for i in range(100)]
    z = sum(alone) / math.sqrt(sum(s * s for s in alone))  # two copies of the rows
    assert twice.statistic == pytest.approx(z, rel=1e-12)
