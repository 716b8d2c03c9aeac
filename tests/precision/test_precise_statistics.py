"""The KS error and p-values against references with 50 digits.

P-values below the smallest float are 0. The relative error of the p-value of a statistic s is s
times that of s.
"""

import numpy as np
import pytest
from exact import assert_precise, exact, logistic, mp

from skcalib.metrics import (
    calibration_intercept_slope,
    hosmer_lemeshow_test,
    ks_calibration_error,
    spiegelhalter_test,
)
from skcalib.metrics._statistics.selective_threshold import p_values

rng = np.random.default_rng(1)
P = rng.random(200)
HIT = (rng.random(200) < P).astype(int)
FIRST = (np.arange(200) == 0).astype(int)
ONES, SMALL, UNEQUAL = np.ones(200), np.full(200, 1e-6), rng.random(200) * 1e-6
TINY = np.finfo(float).tiny

CASES = {
    "probabilities of 1e-12": (1e-12 * P, FIRST, ONES, 1),
    "probabilities of 1 - 1e-12": (1 - 1e-12 * P, 1 - FIRST, ONES, 1),
    "differences of 1e-12": (0.5 + 1e-12 * P, HIT, ONES, 1),
    "probabilities of 1e-300": (1e-300 * P, FIRST, np.where(FIRST, 1e-12, 1.0), 1),
    "a million rows of weight 1e-6": (P, HIT, SMALL, 5000),
    "a million rows of unequal weights": (P, HIT, UNEQUAL, 5000),
}


def rows(p, hit, w, repeats):
    """Arguments of a metric. Weights of 1 are left out."""
    weight = None if (w == 1).all() else np.tile(w, repeats)
    return (np.tile(hit, repeats), np.tile(p, repeats)), {"pos_label": 1, "sample_weight": weight}


def effective(w, repeats):
    """Weights of the copies of a row. Floats are relative: their sum is Kish's number of rows."""
    w = exact(w)
    return w * (repeats * mp.fsum(w) / mp.fsum(w**2))


@pytest.mark.parametrize(("p", "hit", "w", "repeats"), CASES.values(), ids=CASES)
def test_ks_error(p, hit, w, repeats):
    order = np.argsort(p)
    terms = (exact(w) * (exact(p) - hit))[order]
    gaps = [abs(each) for each in np.cumsum(terms)]
    arguments, keywords = rows(p, hit, w, repeats)
    found = ks_calibration_error(*arguments, **keywords)
    assert_precise(found, max(gaps) / mp.fsum(exact(w)))


CASES = CASES | {
    "a p-value of 1e-68": (np.full(200, 1e-3), (np.arange(200) < 8).astype(int), ONES, 1),
    "a p-value of 1e-200": (np.full(200, 0.01), (np.arange(200) < 45).astype(int), ONES, 1),
}


@pytest.mark.parametrize(("p", "hit", "w", "repeats"), CASES.values(), ids=CASES)
def test_spiegelhalter_test(p, hit, w, repeats):
    q, weight = exact(p), effective(w, repeats)
    z = mp.fdot(weight, (hit - q) * (1 - 2 * q))
    z /= mp.sqrt(mp.fdot(weight, (1 - 2 * q) ** 2 * q * (1 - q)))
    arguments, keywords = rows(p, hit, w, repeats)
    found = spiegelhalter_test(*arguments, **keywords)
    assert_precise(found.statistic, z)
    assert_precise(found.pvalue, mp.erfc(abs(z) / mp.sqrt(2)), absolute=TINY)


BINS = np.repeat([0.1, 0.2, 0.4, 0.9], 50)
EVENTS = np.tile(np.arange(50) < 15, 4).astype(int)


@pytest.mark.parametrize(
    ("p", "hit", "w", "repeats"),
    [
        (BINS, EVENTS, ONES, 1),
        (np.repeat([1e-12, 2e-12, 0.5, 0.6], 50), EVENTS, ONES, 1),
        (np.repeat([0.4, 0.5, 1 - 2e-12, 1 - 1e-12], 50), np.where(BINS > 0.3, 1, EVENTS), ONES, 1),
        (BINS, EVENTS, SMALL, 1),
        (np.repeat([0.299, 0.2999, 0.3, 0.3001], 50), EVENTS, SMALL, 5000),
    ],
)
def test_hosmer_lemeshow_test(p, hit, w, repeats):
    """If all gaps are 1e-12, only four of their digits are known: 1 - 1e-12 is rounded."""
    weight, statistic = effective(w, repeats), mp.mpf(0)
    for score in np.unique(p):
        inside, q = weight[p == score], mp.mpf(score)
        gap = mp.fdot(inside, hit[p == score]) - mp.fsum(inside) * q
        statistic += gap**2 / mp.fsum(inside) / (q * (1 - q))
    arguments, keywords = rows(p, hit, w, repeats)
    found = hosmer_lemeshow_test(*arguments, n_bins=4, strategy="quantile", **keywords)
    assert found.degrees_of_freedom == 4
    assert_precise(found.statistic, statistic)
    assert_precise(found.pvalue, (1 + statistic / 2) * mp.exp(-statistic / 2), absolute=TINY)


@pytest.mark.parametrize("extreme", [1e-3, 1e-12, 1e-36])
@pytest.mark.parametrize(("w", "repeats"), [(ONES, 1), (SMALL, 50)])
def test_slope_test(extreme, w, repeats):
    """The statistic is a difference of log-likelihoods. Probabilities below 1e-38 are raised."""
    p = np.where(np.arange(200) % 10 == 0, extreme, P)
    odds, weight = [mp.log(q / (1 - q)) for q in exact(p)], effective(w, repeats)
    arguments, keywords = rows(p, HIT, w, repeats)
    found = calibration_intercept_slope(*arguments, **keywords)
    X = np.column_stack([exact(odds), exact(np.ones(200))])
    theta, fitted = logistic(X, HIT, weight, [found.slope, found.intercept])
    logs = [mp.log(q if hit else 1 - q) for q, hit in zip(exact(p), HIT, strict=True)]
    statistic = 2 * (fitted - mp.fdot(weight, logs))
    assert_precise([found.slope, found.intercept], theta)
    assert_precise(found.statistic, statistic)
    assert_precise(found.pvalue, mp.exp(-statistic / 2), absolute=TINY)


@pytest.mark.parametrize(
    ("right", "wrong", "accuracy"),
    [
        (1000, 3, 0.9), (10**6, 9000, 0.99), (10**6, 0, 0.9999), (10**6, 0, 0.99),
        (5, 5000, 0.5), (2.5, 1.25, 0.9), (10, 0, 1 - 1e-12), (10**6, 10, 1 - 1e-6),
    ],
)  # fmt: skip
def test_p_value_of_a_threshold(right, wrong, accuracy):
    """The tail of a binomial distribution, or an incomplete beta function for other weights."""
    if isinstance(right, int):
        q, n = mp.mpf(accuracy), right + wrong
        terms = [q**n]
        for j in range(1, wrong + 1):
            terms.append(terms[-1] * (n - j + 1) * (1 - q) / (j * q))
        tail = mp.fsum(terms)
    else:
        tail = mp.betainc(right, mp.mpf(wrong) + 1, 0, mp.mpf(accuracy), regularized=True)
    assert_precise(p_values(np.array(right), np.array(wrong), accuracy), tail, absolute=TINY)
