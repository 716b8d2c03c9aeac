"""The calibration test: labels from the probabilities, an exact p-value, the right size."""

import numpy as np
import pytest
import reference as ref
from scipy import stats

from skcalib import metrics
from skcalib.metrics import calibration_test, ks_calibration_error, static_calibration_error


def accuracy(y_true, y_proba):
    return (y_proba.argmax(axis=1) == y_true).mean()


def calibrated(rng, n, K):
    """Probabilities, and labels drawn from them one by one."""
    P = rng.dirichlet(np.ones(K), n)
    return np.array([rng.choice(K, p=p) for p in P]), P


def test_mean_and_standard_error_of_a_sum_of_bernoullis_are_the_closed_form():
    """Accuracy of drawn labels: mean of the top scores, variance of the sum of s (1 - s)."""
    y, P = ref.predictions(4, 300, seed=0)
    test = calibration_test(accuracy, y, P, n_resamples=3000, random_state=0, labels=range(4))
    s = P.max(axis=1)
    sigma = np.sqrt((s * (1 - s)).sum()) / 300
    assert test.mean == pytest.approx(s.mean(), abs=4 * sigma / np.sqrt(3000))
    assert test.standard_error == pytest.approx(sigma, rel=0.06)
    assert test.statistic == accuracy(y, P)


def test_pvalue_counts_the_draws_that_are_at_least_as_large():
    y, P = ref.predictions(4, 100, seed=0)
    test = calibration_test(
        ks_calibration_error, y, P, n_resamples=99, random_state=0, labels=range(4)
    )
    null = test.null_distribution
    assert null.shape == (99,)
    larger = sum(value >= test.statistic for value in null)
    assert test.pvalue == (1 + larger) / 100
    assert test.mean == pytest.approx(np.mean(null))
    assert test.standard_error == pytest.approx(np.std(null, ddof=1))
    assert test.statistic == ks_calibration_error(y, P, labels=range(4))
    constant = calibration_test(lambda y, P: 1.0, y, P, n_resamples=9, labels=range(4))
    assert constant.pvalue == 1


def test_size_and_power():
    """At level 0.05 about 5 % of calibrated models are rejected, and most bent ones."""
    rng = np.random.default_rng(0)
    metric = ks_calibration_error
    rejected = bent = 0
    for i in range(200):
        y, P = calibrated(rng, 100, 3)
        rejected += calibration_test(metric, y, P, n_resamples=19, random_state=i).pvalue <= 0.05
        if i < 20:
            Q = P**3 / (P**3).sum(axis=1, keepdims=True)
            bent += calibration_test(metric, y, Q, n_resamples=19, random_state=i).pvalue <= 0.05
    assert stats.binom(200, 0.05).ppf(0.001) <= rejected <= stats.binom(200, 0.05).ppf(0.999)
    assert bent >= 15


def test_an_error_for_each_class_has_a_pvalue_for_each():
    y, P = ref.predictions(4, 90, seed=3)
    keywords = {"n_resamples": 30, "random_state": 0, "labels": range(4), "n_bins": 5}
    each = calibration_test(static_calibration_error, y, P, average=None, **keywords)
    assert each.null_distribution.shape == (30, 4)
    for k in range(4):
        alone = calibration_test(metrics.expected_calibration_error, y, P, pos_label=k, **keywords)
        assert [part[k] for part in each[:4]] == pytest.approx(list(alone[:4]), abs=1e-12)


def test_a_single_draw_has_no_standard_error():
    with pytest.raises(ValueError, match="n_resamples must be a whole number >= 2; got 1"):
        calibration_test(ks_calibration_error, [0, 1], [0.2, 0.7], n_resamples=1)


@pytest.mark.filterwarnings("ignore:The largest score of a row belongs to its label")
@pytest.mark.parametrize(("n_resamples", "least"), [(199, "0.005"), (30, "0.033")])
def test_a_pvalue_that_no_draw_reached_is_printed_as_an_inequality(n_resamples, least):
    """Rounded up; the draws are not printed."""
    y, P = calibrated(np.random.default_rng(0), 200, 3)
    wrong = np.roll(P, 1, axis=1)
    test = calibration_test(ks_calibration_error, y, wrong, n_resamples=n_resamples, random_state=0)
    assert repr(test) == (
        f"CalibrationTest(statistic={test.statistic:.4g}, pvalue<{least}, mean={test.mean:.4g}, "
        f"standard_error={test.standard_error:.4g}, n_resamples={n_resamples})"
    )


def test_a_value_that_is_not_a_number_is_printed_as_such():
    """A metric that is undefined has no p-value at the floor."""
    y, P = calibrated(np.random.default_rng(0), 50, 3)
    test = calibration_test(lambda y, p: np.nan, y, P, n_resamples=9)
    assert "statistic=nan, " in repr(test)
