"""The Hosmer-Lemeshow test equals a double loop and SciPy's chi-square distribution."""

import numpy as np
import pytest
import reference as ref
from scipy import stats

from skcalib.metrics import hosmer_lemeshow_test

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
