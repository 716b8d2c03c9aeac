"""Comparisons of rows in clusters: folds keep them whole, intervals and the verdict count them."""

from functools import partial

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import log_loss
from sklearn.model_selection import GroupKFold, StratifiedGroupKFold

from skcalib import GroupwiseCalibrator, TemperatureScaling, compare_calibrators
from skcalib._comparison.comparison import mean_gain_and_se, mean_gain_interval, rows_of
from skcalib._comparison.held_out import in_folds, read_rows
from skcalib.metrics import expected_calibration_error, general_calibration_error
from skcalib.metrics._common import ratio_ends
from skcalib.metrics._statistics.scores import RowLosses

ONE = {"calibrators": ["temperature"], "metrics": ["log_loss"]}


def rows(n=400, C=20, n_classes=3, seed=0):
    """Labels, logits that are too large by a factor of each cluster, and clusters of any size."""
    rng = np.random.default_rng(seed)
    cluster = np.r_[np.arange(C), rng.choice(C, n - C, p=rng.dirichlet(np.ones(C)))]
    y = rng.integers(n_classes, size=n)
    Z = rng.normal(size=(n, n_classes)) + 1.5 * np.eye(n_classes)[y]
    return y, Z * rng.uniform(1.5, 4.0, C)[cluster, None], cluster


def table(found):
    return found.frame.drop(columns="fit seconds", level=0)


def test_each_cluster_is_in_one_fold():
    y, Z, cluster = rows()
    splits = rows_of(compare_calibrators(Z, y, clusters=cluster, **ONE)).splits
    assert len(splits) == 5
    for train, test in splits:
        assert not set(cluster[train]) & set(cluster[test])
    _, number = np.unique(cluster, return_inverse=True)
    plain = StratifiedGroupKFold(5).split(Z, y, number)  # clusters come in the order of their rows
    assert all(
        np.array_equal(np.sort(one[1]), two[1]) for one, two in zip(splits, plain, strict=True)
    )
    few = compare_calibrators(Z, y, clusters=cluster % 4, **ONE)
    assert len(rows_of(few).splits) == 4


def test_groups_and_splitters_keep_clusters_whole():
    y, Z, cluster = rows()
    group = np.arange(400) % 2
    keywords = {"input": "logits", "classes": None, "groups": group, "clusters": cluster}
    data = read_rows(Z, y, None, **keywords)
    for cv in (5, GroupKFold(4)):
        for train, test in in_folds(data, cv).splits:
            assert not set(cluster[train]) & set(cluster[test])
    with_groups = compare_calibrators(
        Z,
        y,
        [GroupwiseCalibrator(TemperatureScaling())],
        metrics=["log_loss"],
        groups=group,
        clusters=cluster,
    )
    assert not with_groups.frame["error"].any()


def test_gains_of_means_are_sums_over_clusters():
    rng = np.random.default_rng(0)
    cluster, w = np.r_[np.arange(9), rng.integers(0, 9, 91)], rng.integers(1, 4, 100).astype(float)
    before, after = (
        RowLosses(rng.exponential(size=100), pseudo, w, cluster) for pseudo in (4.0, 3.0)
    )
    d, weights = np.r_[before.losses - after.losses, 1.0], np.r_[w, 1.0]
    c = np.r_[cluster, 9]  # the pseudo row is a cluster of its own
    D, N = ([(weights * x)[c == k].sum() for k in range(10)] for x in (d, np.ones(101)))
    D, N = np.array(D), np.array(N)
    mean = D.sum() / N.sum()
    u = (D - mean * N) / N.sum()
    error, skewness = np.sqrt((u**2).sum() * 10 / 9), (u**3).sum() / (u**2).sum() ** 1.5
    assert mean_gain_and_se(before, after) == pytest.approx((mean, error), rel=1e-12)
    t = stats.t.ppf([0.975, 0.025], 9)
    hall = mean - error * 3 / skewness * (np.cbrt(1 + skewness * (t - skewness / 6)) - 1)
    score = ratio_ends(D, N, 0.95)
    hull = min(hall[0], score[0]), max(hall[1], score[1])
    assert mean_gain_interval(before, after, 0.95) == pytest.approx(hull, rel=1e-9)
    assert mean_gain_interval(before, before, 0.95) == (0.0, 0.0)


def test_the_pseudo_row_gives_equal_gains_of_rows_the_hull_too():
    cluster = np.arange(90) % 9
    before, after = (RowLosses(np.full(90, x), x * 8, np.ones(90), cluster) for x in (0.5, 0.4))
    D, N = np.array([1.0] * 9 + [0.8]), np.array([10.0] * 9 + [1.0])
    low, high = ratio_ends(D, N, 0.95)
    found = mean_gain_interval(before, after, 0.95)
    assert found[0] <= low + 1e-12
    assert found[1] >= high - 1e-12


def test_rows_that_are_clusters_of_their_own_are_independent():
    y, Z, _ = rows(200)
    names = np.random.default_rng(0).permutation(200)
    found = compare_calibrators(Z, y, clusters=names, random_state=0, calibrators=["temperature"])
    usual = compare_calibrators(Z, y, random_state=0, calibrators=["temperature"])
    assert table(found).equals(table(usual))
    assert found.verdict == usual.verdict


def test_numbers_of_clusters_do_not_depend_on_their_names():
    y, Z, cluster = rows()
    keywords = {"calibrators": ["temperature"], "metrics": ["log_loss", "ks_calibration_error"]}
    found, other = (
        compare_calibrators(Z, y, clusters=c, random_state=0, **keywords)
        for c in (cluster, [f"ward {-c}" for c in cluster])
    )
    assert table(found).equals(table(other))
    assert "Intervals of 20 clusters." in repr(found)
    ks = found.frame["ks_calibration_error"].loc["temperature"]
    assert ks["low"] < ks["gain"] < ks["high"]


@pytest.mark.filterwarnings("ignore:clusters. 0 has")
def test_twelve_hospitals_of_different_sizes_have_finite_intervals_and_are_what_is_few():
    rng = np.random.default_rng(1)
    cluster = np.r_[np.arange(12), rng.choice(12, 588, p=np.r_[0.6, np.full(11, 0.4 / 11)])]
    odds = rng.normal(size=600) - 1
    y = rng.random(600) < 1 / (1 + np.exp(-odds - 0.5 * rng.normal(size=12)[cluster]))
    p = 1 / (1 + np.exp(-odds))
    found = compare_calibrators(p, y, metrics=["log_loss"], clusters=cluster)
    ends = found.frame["log_loss"][["low", "high"]].to_numpy(dtype=float)
    assert np.isfinite(ends).all()
    assert "12 clusters" in found.verdict
    assert "600 rows are too few" not in found.verdict


def test_metrics_of_others_are_resampled_by_clusters():
    y, Z, cluster = rows(C=8)

    def loss(y_true, y_proba):
        return log_loss(y_true, y_proba)

    found, usual = (
        compare_calibrators(Z, y, ["temperature"], metrics=[loss], random_state=0, clusters=c)
        .frame["loss"]
        .loc["temperature"]
        for c in (cluster, None)
    )
    assert found["high"] - found["low"] > usual["high"] - usual["low"]


def test_few_clusters_have_intervals_of_means_alone():
    y, Z, cluster = rows()
    metrics = ["log_loss", "ks_calibration_error"]
    few = compare_calibrators(Z, y, ["temperature"], metrics=metrics, clusters=cluster % 5)
    assert "Intervals of 5 clusters: intervals of errors need at least 6." in repr(few)
    row = few.frame.loc["temperature"]
    assert np.isfinite(row["log_loss"][["low", "gain", "high"]].astype(float)).all()
    ks = row["ks_calibration_error"].astype(float)
    assert np.isfinite(ks[["value", "gain"]]).all()
    assert np.isnan(ks[["debiased", "if calibrated", "low", "high"]]).all()
    few.plot()
    message = "^choose_by='ks_calibration_error': 5 clusters: .* at least 6; pass 'log_loss'.$"
    with pytest.raises(ValueError, match=message):
        compare_calibrators(Z, y, clusters=cluster % 5, choose_by="ks_calibration_error", **ONE)


def test_test_rows_have_clusters_too():
    y, Z, cluster = rows()
    train, test = slice(0, 250), slice(250, 400)
    given = (Z[test], y[test], None, None, cluster[test])
    found = compare_calibrators(Z[train], y[train], test=given, clusters=cluster[train], **ONE)
    usual = compare_calibrators(Z[train], y[train], test=given[:2], **ONE)
    assert f"Intervals of {len(set(cluster[test]))} clusters." in repr(found)
    gain = "log_loss", "gain"
    assert found.frame[gain].tolist() == usual.frame[gain].tolist()
    assert (
        found.frame["log_loss", "low"]["temperature"]
        != usual.frame["log_loss", "low"]["temperature"]
    )
    with pytest.raises(
        ValueError, match="^test clusters is missing: pass both clusters= and test="
    ):
        compare_calibrators(Z[train], y[train], test=given[:2], clusters=cluster[train], **ONE)


def test_weights_and_rows_of_weight_0():
    y, Z, cluster = rows()
    w = np.random.default_rng(1).integers(0, 3, 400)
    labels = np.where(w > 0, cluster, np.nan)
    found = compare_calibrators(Z, y, clusters=labels, sample_weight=w, **ONE)
    kept = w > 0
    same = compare_calibrators(
        Z[kept], y[kept], clusters=cluster[kept], sample_weight=w[kept], **ONE
    )
    assert table(found).equals(table(same))


def test_errors_that_split_ties_are_refused():
    y, Z, cluster = rows()
    ranked = partial(general_calibration_error, strategy="quantile", quantile_method="rank")
    with pytest.raises(
        ValueError, match="^clusters= does not support .*, only calibration errors of skcalib"
    ):
        compare_calibrators(Z, y, ["temperature"], metrics=[ranked], clusters=cluster)
    with pytest.raises(ValueError, match="^clusters has 2 different labels: an interval needs 3"):
        compare_calibrators(Z, y, clusters=cluster % 2, **ONE)


def test_clusters_beside_shares_and_dask():
    y, Z, cluster = rows()
    shares = 0.8 * np.eye(3)[y] + 0.2 / 3
    keywords = {"classes": [0, 1, 2], "metrics": ["log_loss", expected_calibration_error]}
    soft = compare_calibrators(Z, shares, ["temperature"], clusters=cluster, **keywords).frame
    assert np.isfinite(soft["log_loss"].to_numpy(dtype=float)[1, 4:]).all()
    da = pytest.importorskip("dask.array")
    lazy = da.from_array(Z, chunks=(90, 3))
    found, usual = (
        compare_calibrators(X, y, clusters=cluster, **ONE).frame["log_loss"].to_numpy()
        for X in (lazy, Z)
    )
    np.testing.assert_allclose(found[:, 3:], usual[:, 3:], atol=1e-6)
