"""The tests of Hosmer and Lemeshow and of Spiegelhalter equal loops and closed forms."""

import math

import numpy as np
import pytest
import reference as ref
from scipy import stats

from skcalib.metrics import hosmer_lemeshow_test, spiegelhalter_test

OPTIONS = [
    {},
    {"strategy": "uniform"},
    {"strategy": "uniform", "closed": "left"},
    {"quantile_method": "edges"},
    {"quantile_method": "rank"},
    {"quantile_method": "split"},
]


def hosmer_lemeshow(scores, hits, n_bins, options):
    """Observed and expected events and non-events: the sum of (O - E)^2 / E over both."""
    defaults = {"strategy": "quantile", "closed": "right", "quantile_method": "linear"}
    where = ref.bins_of(scores, n_bins, *(defaults | options).values())
    statistic, used = 0.0, 0
    for b in range(n_bins):
        rows = [i for i in range(len(scores)) if where[i] == b]
        if not rows:
            continue
        used += 1
        expected, observed = sum(scores[i] for i in rows), sum(hits[i] for i in rows)
        for e, o in ((expected, observed), (len(rows) - expected, len(rows) - observed)):
            if abs(o - e) > 1e-12:
                statistic += (o - e) ** 2 / e if e > 0 else np.inf
    return statistic, used


@pytest.mark.parametrize("kind", ["ties", "hard"])
@pytest.mark.parametrize("options", OPTIONS, ids=lambda o: "-".join(o.values()) or "default")
def test_equals_the_double_loop(kind, options):
    """A class, the second class and the top label; all degrees of freedom and two fewer."""
    for K in (2, 4):
        y, P = ref.predictions(K, 90, seed=K, kind=kind)
        y[1] = 1
        score, hit = ref.top(y, P, 1, within=False)
        second = P[:, 1].tolist(), (y == 1).astype(int).tolist()
        default = second if K == 2 else (score, hit)
        for pos_label, (scores, hits) in ((None, default), (1, second)):
            statistic, used = hosmer_lemeshow(scores, hits, 7, options)
            for fitted, df in ((False, used), (True, used - 2)):
                if df < 1:
                    continue
                test = hosmer_lemeshow_test(
                    y, P, pos_label=pos_label, fitted=fitted, n_bins=7, labels=range(K), **options
                )
                # Within rounding of certainty, 1 - conf is rounding too.
                rounding = 0.1 if 1e6 < statistic < np.inf else 1e-9
                assert test.statistic == pytest.approx(statistic, rel=rounding, abs=1e-12)
                assert test.pvalue == pytest.approx(stats.chi2.sf(statistic, df), abs=1e-12)
                assert test.degrees_of_freedom == df


def test_the_impossible_is_infinitely_unlikely_and_the_certain_adds_nothing():
    p = [0.0, 0.0, 0.5, 0.5, 1.0, 1.0]
    test = hosmer_lemeshow_test([0, 1, 0, 1, 1, 1], p, n_bins=3)
    assert (test.statistic, test.pvalue) == (np.inf, 0.0)
    w = np.random.default_rng(0).uniform(0.1, 2, 400)  # their sum depends on its order
    y = np.ones(400, dtype=int)
    test = hosmer_lemeshow_test(y, y.astype(float), n_bins=1, sample_weight=w, labels=[0, 1])
    assert test.statistic == 0


def test_fitting_costs_two_degrees_of_freedom():
    with pytest.raises(ValueError, match="fitted=True with 2 non-empty bins leaves no degree"):
        hosmer_lemeshow_test([0, 1, 1], [0.2, 0.2, 0.7], n_bins=2, fitted=True)


def test_printed_a_pvalue_too_small_for_a_float_is_an_inequality():
    rng = np.random.default_rng(0)
    p = rng.random(20_000)
    y = rng.random(20_000) < p
    wrong = hosmer_lemeshow_test(y, p**3)
    assert wrong.pvalue == 0
    assert repr(wrong) == (
        f"HosmerLemeshowTest(statistic={wrong.statistic:.4g}, pvalue<1e-300, degrees_of_freedom=10)"
    )


# ------------------------------------------------------------------ Spiegelhalter's z


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
def test_spiegelhalters_z_equals_the_loop(weights):
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
