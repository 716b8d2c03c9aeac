"""Statistics of risk models by group, and what to expect of a new group."""

import numpy as np
import pytest
from scipy import stats

from skcalib.metrics import (
    calibration_by_group,
    calibration_intercept_slope,
    calibration_summary,
    observed_expected_ratio,
)
from skcalib.metrics._statistics.groups import STATISTICS

NAMES = ["observed_expected", "slope", "intercept", "in_the_large", "auc", "brier_score"]


def hospitals(n=1500, number=8, seed=0):
    """Hospitals whose events, and whose slopes, differ; the last has seven rows and one event."""
    rng = np.random.default_rng(seed)
    hospital = np.where(np.arange(n) < 7, number, rng.integers(0, number, n))
    odds = rng.normal(size=n) - 1
    shift, slope = 0.5 * rng.normal(size=9)[hospital], (1 + 0.3 * rng.normal(size=9))[hospital]
    y = rng.random(n) < 1 / (1 + np.exp(-shift - slope * odds))
    y[:7] = np.arange(7) == 3
    return y, 1 / (1 + np.exp(-odds)), hospital


def paule_mandel(y, error):
    """Return tau^2 by bisection."""

    def q(tau2):
        w = [1 / (s * s + tau2) for s in error]
        mean = sum(a * b for a, b in zip(w, y, strict=True)) / sum(w)
        return sum(a * (b - mean) ** 2 for a, b in zip(w, y, strict=True))

    low, high = 0.0, 100.0
    if q(0) <= len(y) - 1:
        return 0.0
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if q(middle) > len(y) - 1 else (low, middle)
    return low


def expected_of(y, error, level=0.95):
    G, tau2 = len(y), paule_mandel(y, error)
    w = 1 / (np.square(error) + tau2)
    mean = (w * y).sum() / w.sum()
    se2 = (w * (y - mean) ** 2).sum() / (G - 1) / w.sum()
    half = stats.t.ppf((1 + level) / 2, G - 1) * np.sqrt(se2)
    equal = w.sum() ** 2 / (w @ w)  # as many groups of equal weight
    size = np.mean(1 / np.square(error))  # the information of a group of mean size
    new = stats.t.ppf((1 + level) / 2, max(equal - 2, 1)) * np.sqrt(tau2 + se2 + 1 / size)
    v = 1 / np.square(error)
    Q = (v * (y - (v * y).sum() / v.sum()) ** 2).sum()
    I2 = max(1 - (G - 1) / Q, 0)
    return [mean, mean - half, mean + half, np.sqrt(tau2), I2, mean - new, mean + new]


def test_the_mean_of_groups_is_that_of_statsmodels():
    """statsmodels 0.15.0, combine_effects(y, s**2, method_re="iterated", use_t=True)."""
    y = np.array([0.21, -0.35, 0.62, 0.08, -0.11, 0.44, 0.30])
    s = np.array([0.12, 0.20, 0.25, 0.09, 0.31, 0.15, 0.18])
    effects = STATISTICS["intercept"].pool_groups
    _, mean, low, high, tau, I2, *_ = effects(y, s, 0.95)
    found = mean, low, high, tau**2, I2
    expected = 0.1775709594, -0.10550307, 0.46064498, 0.0610715024, 0.6174734011
    assert found == pytest.approx(expected, abs=2e-7)
    _, mean, low, high, tau, I2, *_ = effects(y / 5, s, 0.95)  # groups that do not differ
    assert (mean, low, high) == pytest.approx((0.0333525854, -0.0109066, 0.07761177), abs=1e-8)
    assert (tau, I2) == (0, 0)


@pytest.mark.parametrize("G", [3, 4, 12])
@pytest.mark.parametrize("spread", [0.0, 0.5])
def test_the_interval_of_a_new_group_is_the_formula(G, spread):
    rng = np.random.default_rng(G)
    error = rng.uniform(0.05, 0.4, G)
    y = error * rng.normal(size=G) + spread * rng.normal(size=G)
    found = STATISTICS["intercept"].pool_groups(y, error, 0.9)
    assert found == pytest.approx([G, *expected_of(y, error, 0.9)], rel=1e-7)


def test_each_group_has_the_numbers_of_its_rows_and_means_are_on_their_scales():
    y, p, hospital = hospitals()
    functions = [observed_expected_ratio, "calibration_intercept_slope", "auc", "brier_score"]
    found = calibration_by_group(y, p, hospital, metrics=functions)
    assert found.metrics == list(found.between.index)
    assert sorted(found.metrics) == sorted(NAMES)
    lines = {name: [] for name in NAMES}
    for c in range(8):
        rows = hospital == c
        summary = calibration_summary(y[rows], p[rows], random_state=0).frame
        for name in NAMES:
            line = found.frame.loc[c, name]
            ends = summary.loc[name, ["value", "low", "high"]].to_numpy()
            np.testing.assert_allclose(line.to_numpy(dtype=float), ends, rtol=1e-12)
            lines[name].append(ends)
    events = np.array([y[hospital == c].sum() for c in range(8)])
    n = np.array([(hospital == c).sum() for c in range(8)])
    for name, three in lines.items():
        value, low, high = np.transpose(three)
        error, back = (high - low) / (2 * stats.norm.ppf(0.975)), np.asarray
        if name == "observed_expected":
            value, error, back = np.log(value), np.sqrt(1 / events - 1 / n), np.exp
        if name == "auc":
            error, back = error / (value * (1 - value)), lambda x: 1 / (1 + np.exp(-x))
            value = np.log(value / (1 - value))
        mean, a, b, tau, I2, start, end = expected_of(value, error)
        expected = [8, *back(np.array([mean, a, b])), tau, I2, *back(np.array([start, end]))]
        np.testing.assert_allclose(found.between.loc[name].to_numpy(dtype=float), expected, 1e-6)
    mean, low, high, start, end = found.between.iloc[0, [1, 2, 3, 6, 7]]
    assert found.verdict == (
        f"observed_expected: {mean:.3g} ({low:.4g} to {high:.4g}) on average of 8 groups, "
        f"{start:.4g} to {end:.4g} in a new one."
    )
    assert np.isnan(found.p_value)


def test_groups_with_one_event_are_marked_and_come_last():
    y, p, hospital = hospitals()
    found = calibration_by_group(y, p, hospital, metrics=["slope"])
    assert found.frame.index[-1] == 8
    assert found.frame["finding"].tolist() == [*[""] * 8, "too few rows for slope"]
    assert np.isnan(found.frame.loc[8, ("slope", "value")])
    assert "too few rows for slope" in repr(found)
    assert "nan" not in repr(found)
    assert "prediction_low" in repr(found)
    assert "prediction_low" in found._repr_html_()


def test_the_worst_group_is_that_which_is_surely_farthest_from_perfect():
    y, p, hospital = hospitals()
    perfect = {"observed_expected": 1, "slope": 1, "intercept": 0, "auc": np.inf, "log_loss": 0}
    for name, ideal in perfect.items():
        frame = calibration_by_group(y, p, hospital, metrics=name).frame[name].iloc[:8]
        scale = np.log if name == "observed_expected" else np.asarray
        low, high = scale(frame["low"]), scale(frame["high"])
        ideal = scale(float(ideal)) if name == "observed_expected" else ideal
        if name == "auc":
            least = 1 - np.asarray(high)
        else:
            least = np.asarray(np.maximum(np.maximum(low - ideal, ideal - high), 0))
        assert (np.diff(least) <= 1e-12).all()


def test_two_groups_have_no_mean():
    y, p, hospital = hospitals(number=2)
    found = calibration_by_group(y, p, hospital, metrics="slope")
    assert found.between.loc["slope", "groups"] == 2
    assert found.between.loc["slope"].drop("groups").isna().all()
    assert found.verdict == "slope: fewer than 3 groups have enough events and other rows."


def test_errors_and_statistics_stand_side_by_side():
    y, p, hospital = hospitals()
    both = ["ks_calibration_error", "auc"]
    found = calibration_by_group(y, p, hospital, metrics=both, random_state=0)
    plain = calibration_by_group(y, p, hospital, random_state=0)
    assert found.frame[plain.frame.columns].equals(plain.frame.loc[found.frame.index])
    assert (found.verdict, found.p_value) == (plain.verdict, plain.p_value)
    assert found.between.index.tolist() == ["auc"]
    assert plain.between.empty
    assert "prediction_low" not in repr(plain)


def test_counts_are_copies_of_rows():
    y, p, hospital = hospitals(n=600, number=4)
    w = np.random.default_rng(0).integers(0, 3, y.size)
    rows = np.repeat(np.arange(y.size), w)
    keywords = {"metrics": ["observed_expected", "slope", "auc"]}
    counted = calibration_by_group(y, p, hospital, sample_weight=w, **keywords)
    copied = calibration_by_group(y[rows], p[rows], hospital[rows], **keywords)
    np.testing.assert_allclose(counted.between, copied.between, rtol=1e-9)


def test_clusters_within_groups_widen_their_intervals():
    y, p, hospital = hospitals()
    patient = np.arange(y.size) // 5 + 1000 * hospital
    found = calibration_by_group(y, p, hospital, metrics=["slope", "auc"], clusters=patient)
    rows = hospital == 0
    line = calibration_intercept_slope(y[rows], p[rows], clusters=patient[rows])
    assert tuple(found.frame.loc[0, "slope"]) == pytest.approx(line[:3], rel=1e-12)
    few = np.where(hospital == 0, np.arange(y.size) % 2, np.arange(y.size))
    found = calibration_by_group(y, p, hospital, metrics="slope", clusters=few)
    assert found.frame.loc[0, ("finding", "")] == "too few rows for slope"
    assert found.between.loc["slope", "groups"] == 7


def test_a_group_without_a_finite_slope_has_none():
    y, p, hospital = hospitals()
    rows = hospital == 0
    y = np.where(rows, p > np.median(p[rows]), y)
    found = calibration_by_group(y, p, hospital, metrics=["slope", "observed_expected", "auc"])
    assert np.isnan(found.frame.loc[0, ("slope", "value")])
    assert np.isfinite(found.frame.loc[0, ("observed_expected", "value")])
    assert found.between["groups"].tolist() == [7, 8, 7]  # the logit of an AUC of 1 is infinite


def test_the_top_label_of_many_classes_is_an_event():
    rng = np.random.default_rng(0)
    P = rng.dirichlet([1, 1, 1], 600)
    y = (P.cumsum(axis=1) < rng.random((600, 1))).sum(axis=1)
    found = calibration_by_group(y, P, np.arange(600) % 4, metrics=["slope", "auc"])
    assert found.between["groups"].tolist() == [4, 4]


def test_unknown_names_are_refused_with_those_that_are_known():
    y, p, hospital = hospitals()
    with pytest.raises(ValueError, match=r"^metrics: 'slopes' is not the name .* slope, intercept"):
        calibration_by_group(y, p, hospital, metrics=["slopes"])
    with pytest.raises(ValueError, match="metrics has .* twice"):
        calibration_by_group(y, p, hospital, metrics=["slope", "calibration_intercept_slope"])
