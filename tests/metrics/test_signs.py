"""Errors of rows in clusters: signs of residuals, their mean in rare cells, tests and intervals."""

from functools import partial
from itertools import product

import numpy as np
import pytest
from calls import refused
from edges import even_error
from scipy.stats import binom

from skcalib import metrics
from skcalib._arrays.sources import to_array
from skcalib._validation.rows import check_predictions
from skcalib.metrics import (
    calibration_by_group,
    calibration_interval,
    calibration_test,
    expected_calibration_error,
    ks_calibration_error,
    static_calibration_error,
)
from skcalib.metrics._common import number_of, widening
from skcalib.metrics._intervals import interval, label_errors
from skcalib.metrics._intervals.gains import Gain, GainSimulation, gain_interval, moments_of
from skcalib.metrics._intervals.interval import interval_of, label_error
from skcalib.metrics._intervals.truths import random_groups
from skcalib.metrics._resampling import Evaluation

ECE, SCE, KS = expected_calibration_error, static_calibration_error, ks_calibration_error


def sample(n=300, K=3, C=12, together=0.3, factor=1.2, seed=0):
    """Labels, probabilities and clusters; a share of a cluster's rows has one random number."""
    rng = np.random.default_rng(seed)
    T, cluster = 1.5 * rng.normal(size=(n, K)), rng.integers(0, C, n)
    q, P = (np.exp(f * T) / np.exp(f * T).sum(axis=1, keepdims=True) for f in (1, factor))
    u = np.where(rng.random(n) < together, rng.random(C)[cluster], rng.random(n))
    return (np.cumsum(q, axis=1)[:, :-1] <= u[:, None]).sum(axis=1), P, cluster


def signed(metric, y, P, cluster, w=None):
    predictions = check_predictions(y, P, w, range(P.shape[1]), clusters=cluster)
    return label_error(Evaluation(metric, {}, False), predictions), predictions


def slow_ks(h, s, w):
    at = largest = 0.0
    for i in np.argsort(s):
        at += w[i] * (h[i] - s[i])
        largest = max(largest, abs(at))
    return largest / sum(w)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("metric", ["ECE", "SCE", "KS", "KS by class"])
def test_signs_keep_or_turn_the_residuals_of_clusters(metric, weighted):
    y, P, cluster = sample(200)
    w = np.random.default_rng(1).exponential(size=200) if weighted else None
    one = {"ECE": ECE, "SCE": SCE, "KS": KS, "KS by class": partial(KS, mode="classwise")}[metric]
    error, predictions = signed(one, y, P, cluster, w)
    w, slow = predictions.w, slow_ks if "KS" in metric else even_error
    rng = np.random.default_rng(2)
    q, flips = rng.dirichlet(np.ones(3), 200), rng.choice([-1.0, 1.0], (4, label_errors.MOST))
    away = np.eye(3)[y] - q
    for about, larger in ((None, 1.0), (P, 1.3)):
        used = error if about is None else error.residuals_about(about, larger)
        residual = away if about is None else larger * (np.eye(3)[y] - about)
        for row, value in zip(flips, used.values(q, flips), strict=True):
            h = q + np.array([row[c] for c in predictions.cluster])[:, None] * residual
            if metric in ("ECE", "KS"):
                top = P.argmax(axis=1)
                expected = slow(h[np.arange(200), top], P.max(axis=1), w)
            else:
                expected = np.mean([slow(h[:, k], P[:, k], w) for k in range(3)])
            assert value[0] == pytest.approx(expected, rel=1e-10)
    assert error.observed(predictions.code)[0] == pytest.approx(float(one(y, P, sample_weight=w)))


def test_the_mean_error_of_rare_cells_is_that_of_labels(monkeypatch):
    """One bin, 6 clusters of 2 rows, all with probability .05: every outcome is counted."""
    monkeypatch.setattr(label_errors, "LABEL_SETS", 20_000)
    share, counts = binom.pmf(range(3), 2, 0.05), np.arange(3) - 0.1
    of_labels = of_signs = 0.0
    for outcome in product(range(3), repeat=6):
        chance, away = np.prod(share[list(outcome)]), counts[list(outcome)]
        of_labels += chance * abs(away.sum())
        of_signs += chance * np.mean([abs(away @ s) for s in product((-1, 1), repeat=6)])
    y, p = np.repeat([1, 0], [1, 11]), np.full(12, 0.05)
    metric = partial(ECE, n_bins=1)
    predictions = check_predictions(y, p, clusters=np.repeat(range(6), 2))
    error = label_error(Evaluation(metric, {}, True), predictions)
    limit, lacking = error.references[0]
    assert limit == pytest.approx(0.0, abs=1e-15)
    assert of_labels - of_signs > 0.02 * of_labels
    assert 12 * lacking[0] == pytest.approx(of_labels - of_signs, abs=0.006)


def test_what_rare_cells_lack_is_interpolated_along_a_path():
    error, predictions = signed(ECE, *sample())
    Q = np.full((300, 3), 1 / 3)
    along = error.with_reference(predictions.P, Q)
    (low, first), (high, second) = along.references
    middle = (to_array(predictions.P) + Q) / 2
    place = (error.limits(middle)[0] - low[0]) / (high[0] - low[0])
    assert 0 < place < 1
    seed = np.random.SeedSequence(0)
    added = along.simulate(middle, 5, seed).values - along.values(middle, along.draw(Q, 5, seed))
    expected = (1 - place) * first[0] + place * second[0]
    np.testing.assert_allclose(added, expected, atol=1e-11)


def test_many_places_of_a_curve_are_joined():
    y, P, cluster = sample(3000, C=40)
    error, predictions = signed(KS, y, P, cluster)
    assert error.labels.shape[2] <= interval.SIGNED_RANKS < 3000
    assert error.observed(predictions.code)[0] == pytest.approx(KS(y, P), abs=0.003)
    by_class, _ = signed(partial(KS, mode="classwise", average=None), y, P, cluster)
    assert by_class.observed(y) == pytest.approx(
        KS(y, P, mode="classwise", average=None), abs=0.003
    )


def test_the_p_value_is_the_share_of_signs_that_reach_the_error(monkeypatch):
    def reference_truth(self, q):
        return self.limits(q), 0.0 * self.limits(q)

    monkeypatch.setattr(label_errors.SignedError, "reference_truth", reference_truth)
    y, P, cluster = sample(100, K=2, C=7)
    s = P[:, 1]
    residuals = [(y - s)[cluster == c].sum() for c in range(7)]
    drawn = np.abs([np.dot(row, residuals) for row in product((-1, 1), repeat=7)])
    share = np.mean(drawn >= abs(sum(residuals)) - 1e-9)
    test = calibration_test(ECE, y, s, n_bins=1, clusters=cluster, n_resamples=4000, random_state=0)
    assert test.statistic == pytest.approx(abs(sum(residuals)) / 100)
    assert test.pvalue == pytest.approx(share, abs=4 * np.sqrt(share * (1 - share) / 4000))
    assert test.mean == pytest.approx(drawn.mean() / 100, rel=0.05)
    each = calibration_test(SCE, y, P, average=None, clusters=cluster, n_resamples=50)
    assert each.pvalue.shape == (2,)
    assert each.null_distribution.shape == (50, 2)
    interval = calibration_interval(ECE, y, s, n_bins=1, clusters=cluster, random_state=0)
    assert interval.p_value == pytest.approx(share, abs=4 * np.sqrt(share * (1 - share) / 300))


CALLS = {
    "interval": partial(calibration_interval, SCE, average=None),
    "test": partial(calibration_test, KS, n_resamples=50),
}


@pytest.mark.parametrize("call", CALLS)
def test_rows_that_are_clusters_of_their_own_have_the_numbers_of_independent_rows(call):
    y, P, _ = sample(120)
    found, usual = (CALLS[call](y, P, random_state=0, clusters=c) for c in (range(120), None))
    assert all(np.array_equal(*pair) for pair in zip(found, usual, strict=True))


@pytest.mark.parametrize("call", CALLS)
def test_names_of_clusters_and_jobs_change_nothing_and_seeds_do(call):
    y, P, cluster = sample(120)
    names = np.array([f"ward {7 * c % 12}" for c in cluster])
    found = CALLS[call](y, P, random_state=0, clusters=cluster)
    for other in (
        CALLS[call](y, P, random_state=0, clusters=names),
        CALLS[call](y, P, random_state=0, clusters=cluster, n_jobs=2),
    ):
        assert all(np.array_equal(*pair) for pair in zip(found, other, strict=True))
    another = CALLS[call](y, P, random_state=1, clusters=cluster)
    assert not all(np.array_equal(*pair) for pair in zip(found, another, strict=True))
    assert "12 clusters" in repr(found)


def test_copies_of_rows_are_in_their_cluster():
    y, P, cluster = sample(150)
    counts = np.random.default_rng(3).integers(0, 3, 150)
    rows = np.repeat(np.arange(150), counts)
    found = calibration_interval(ECE, y, P, sample_weight=counts, clusters=cluster, random_state=0)
    copies = calibration_interval(ECE, y[rows], P[rows], clusters=cluster[rows], random_state=0)
    np.testing.assert_allclose(found, copies, rtol=1e-9)


def test_the_second_path_is_wider_and_the_jackknife_leaves_out_clusters():
    y, P, cluster = sample(400, C=50, together=0.0)
    error, predictions = signed(ECE, y, P, cluster)
    group = random_groups(predictions.units)
    assert number_of(group) == 30
    assert all(len(set(group[cluster == c])) == 1 for c in range(50))
    few, _ = signed(ECE, y, P, cluster % 8)
    assert error.has_excess
    assert not few.has_excess
    fewer = predictions._replace(cluster=predictions.cluster % 8)
    assert 1 < widening(predictions, 0.95) < widening(fewer, 0.95)


def test_more_clusters_than_tables_take_are_joined():
    y, P, _ = sample(1400, C=2)
    error, _ = signed(ECE, y, P, np.arange(1400) // 2)
    assert len(error.labels) == number_of(error.group) == 500


def test_the_interval_of_rows_that_go_wrong_together_is_wider():
    y, P, cluster = sample(600, together=0.5)
    found, usual = (
        calibration_interval(ECE, y, P, random_state=0, clusters=c) for c in (cluster, None)
    )
    assert found.estimate == usual.estimate
    assert found.high - found.low > 1.3 * (usual.high - usual.low)
    assert found.p_value > usual.p_value


@pytest.mark.slow
def test_calibrated_models_are_rejected_seldom():
    rejected = np.zeros(2)
    for seed in range(60):
        y, P, cluster = sample(600, K=2, C=10, together=0.5, factor=1.0, seed=seed)
        for j, c in enumerate((cluster, None)):
            test = calibration_test(ECE, y, P, clusters=c, n_resamples=200, random_state=0)
            rejected[j] += test.pvalue <= 0.05
    assert rejected[0] <= 9
    assert rejected[1] >= 20


def test_few_clusters_and_other_metrics_are_refused():
    y, P, cluster = sample(100)
    for call in (calibration_interval, calibration_test):
        with pytest.raises(
            ValueError, match="^clusters has 5 different labels.* need at least 6: use boot"
        ):
            call(ECE, y, P, clusters=cluster % 5)
        for metric in (
            lambda y, p: 1.0,
            metrics.avuc_loss,
            partial(metrics.general_calibration_error, strategy="quantile", quantile_method="rank"),
        ):
            refused("use bootstrap_interval", call, metric, y, P, clusters=cluster)
    few = check_predictions(y, P, clusters=cluster % 5)
    interval = interval_of(Evaluation(ECE, {}, False), few)
    assert interval[0] == ECE(y, P)
    assert np.isnan(interval[1:]).all()


def test_a_group_of_few_clusters_is_marked():
    y, P, cluster = sample(300, K=2)
    group = np.where(cluster < 5, "few", "many")
    found = calibration_by_group(y, P, group, clusters=cluster, random_state=0)
    assert found.frame.loc["few", ("clusters", "")] == 5
    assert (
        found.frame.loc["few", ("finding", "")] == "5 clusters: intervals of errors need at least 6"
    )
    rows = group == "many"
    interval = calibration_interval(KS, y[rows], P[rows], clusters=cluster[rows], random_state=0)
    of_group = found.frame.loc["many", "ks_calibration_error"]
    assert tuple(of_group[["value", "debiased", "low", "high", "if calibrated"]]) == interval[:5]
    assert "clusters" in repr(found)
    with pytest.raises(ValueError, match="^clusters= does not support <lambda>, only .*: use boot"):
        calibration_by_group(y, P, group, metrics=lambda y, p: 0.1, clusters=cluster)


def test_gains_are_of_the_same_signs_for_both_models():
    y, P, cluster = sample(300)
    before, after = (
        check_predictions(y, p, labels=range(3), clusters=cluster)
        for p in (P, P**0.5 / (P**0.5).sum(axis=1, keepdims=True))
    )
    evaluations = [Evaluation(metric, {}, False) for metric in (ECE, SCE)]
    simulation = GainSimulation(evaluations, before, random_state=0)
    for same in simulation.gains(before, 0.95):
        assert same == pytest.approx(Gain(0.0, 0.0, 0.0), abs=1e-9)
    independent = GainSimulation(evaluations, before._replace(cluster=None), random_state=0)
    for gain, usual in zip(
        simulation.gains(after, 0.95),
        independent.gains(after._replace(cluster=None), 0.95),
        strict=True,
    ):
        assert gain.low < gain.gain < gain.high
        assert gain.high - gain.low > usual.high - usual.low


def test_standard_deviations_of_gains_are_as_much_larger():
    rng = np.random.default_rng(0)
    moments = [
        moments_of(np.array([0.1, 0.1]), rng.normal(0.1, 0.02, (500, 2)), np.full((30, 2), 0.1))
        for _ in range(13)
    ]
    usual, wider = (gain_interval(moments, 0.1, 0.1, 0.95, larger) for larger in (1.0, 1.5))
    assert (wider.high - wider.low) / (usual.high - usual.low) == pytest.approx(1.5, abs=0.1)
