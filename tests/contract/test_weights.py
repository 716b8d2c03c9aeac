"""Integer weights are counts of rows; of float weights only the ratios matter."""

from inspect import signature

import numpy as np
import pandas as pd
import pytest
from calls import refused
from scipy.special import softmax
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

import skcalib
from skcalib import metrics as all_metrics
from skcalib._validation.rows import as_sample_weight, check_weight, effective
from skcalib.metrics import calibration_by_group, calibration_summary, static_calibration_error

WEIGHTED = {
    name: function
    for name in all_metrics.__all__
    if callable(function := getattr(all_metrics, name))
    and not isinstance(function, type)
    and "sample_weight" in signature(function).parameters
}
KEYWORDS = {
    "calibration_by_group": {"random_state": 0},
    "calibration_by_label": {"random_state": 0},
    "bootstrap_interval": {"random_state": 0, "n_resamples": 20, "method": "bca"},
    "calibration_interval": {"random_state": 0},
    "calibration_test": {"random_state": 0, "n_resamples": 20},
    "calibration_summary": {"random_state": 0},
    "net_benefit": {"thresholds": [0.1, 0.3]},
}


def sample(n=90):
    rng = np.random.default_rng(4)
    p = np.round(rng.random(n) * 0.96 + 0.02, 3)
    y = (rng.random(n) < p**1.3).astype(int)
    return y, p, np.where(rng.random(n) < 0.5, "a", "b")


def numbers(result):
    """All numbers of a result, in one array; without how many rows of the arrays a bin has."""
    if isinstance(result, pd.DataFrame):
        return result.select_dtypes("number").drop(columns="count", errors="ignore").to_numpy()
    if hasattr(result, "frame"):
        return numbers(result.frame)
    if isinstance(result, tuple):
        return np.concatenate([numbers(x).ravel() for x in result if not isinstance(x, str)])
    return np.asarray(result, dtype=float)


def value(name, y, p, group, w):
    function, keywords = WEIGHTED[name], {"sample_weight": w, **KEYWORDS.get(name, {})}
    if "metric" in signature(function).parameters:
        return numbers(function(static_calibration_error, y, p, **keywords))
    if name == "calibration_by_group":
        return numbers(function(y, p, group, **keywords))
    return numbers(function(y, p, **keywords))


@pytest.mark.parametrize("name", WEIGHTED)
def test_counts_are_copies(name):
    """Drawn labels and rows too: each copy is drawn by itself."""
    y, p, group = sample()
    w = np.random.default_rng(5).integers(0, 4, y.size)
    expected = value(name, *(np.repeat(x, w) for x in (y, p, group)), None)
    np.testing.assert_allclose(value(name, y, p, group, w), expected, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("name", sorted(WEIGHTED.keys() - {"selective_threshold"}))
def test_the_scale_of_relative_weights_does_not_matter(name):
    y, p, group = sample()
    w = np.random.default_rng(5).lognormal(size=y.size)
    w[::9] = 0.0
    expected = value(name, y, p, group, w)
    for scale in (1000.5, 1e-3):
        np.testing.assert_allclose(value(name, y, p, group, scale * w), expected, rtol=1e-9)
    # A survey's weights, in whole numbers but as floats, are relative too.
    rounded = np.ceil(2 * w)
    expected = value(name, y, p, group, rounded / 7)
    np.testing.assert_allclose(value(name, y, p, group, rounded), expected, rtol=1e-9)
    expected = value(name, y, p, group, None)
    np.testing.assert_array_equal(value(name, y, p, group, np.full(y.size, 100.5)), expected)


def classes(n=150):
    y, _, _ = sample(n)
    rng = np.random.default_rng(6)
    return rng.normal(size=(n, 2)) + 1.5 * np.eye(2)[y], y


def test_bootstrapped_bins_count_copies_to_their_monte_carlo_error():
    Z, y = classes()
    counts = np.where(y == 1, 3, 1)
    copies = np.repeat(np.arange(y.size), counts)
    binning = skcalib.HistogramBinning(n_bins=4, n_bootstraps=4000, random_state=0)
    weighted = clone(binning).fit(Z, y, counts).predict_proba(Z)
    np.testing.assert_allclose(weighted, clone(binning).fit(Z[copies], y[copies]).predict_proba(Z),
                               rtol=0, atol=0.01)  # fmt: skip
    assert np.abs(weighted - clone(binning).fit(Z, y).predict_proba(Z)).max() > 0.1


def test_the_effective_number_is_shown():
    y, p, _ = sample()
    w = np.random.default_rng(5).lognormal(size=y.size)
    n = w.sum() ** 2 / (w @ w)
    assert calibration_summary(y, p, sample_weight=w, random_state=0).frame.loc[
        "rows", "value"
    ] == pytest.approx(n)


# ------------------------------------------------------------------ estimators around others


def test_classifiers_and_comparisons_pass_counts_on():
    Z, y = classes()
    X = Z + np.random.default_rng(8).normal(size=Z.shape)
    counts = np.random.default_rng(9).integers(0, 4, y.size)
    copies = np.repeat(np.arange(y.size), counts)
    base = LogisticRegression().fit(X, y)
    frozen = FrozenEstimator(base)

    def proba(w, rows=slice(None)):
        model = skcalib.CalibratedClassifier(frozen, skcalib.AutoCalibrator())
        return model.fit(X[rows], y[rows], sample_weight=w).predict_proba(X)

    np.testing.assert_allclose(proba(counts), proba(None, copies), atol=1e-6)
    np.testing.assert_array_equal(proba(np.full(y.size, 7.5)), proba(None))
    assert np.abs(proba(counts) - proba(counts.astype(float))).max() > 1e-4


def test_each_group_counts_as_its_own_effective_number():
    Z, y = classes()
    group = np.arange(y.size) % 3
    rng = np.random.default_rng(1)
    counts, relative = rng.integers(1, 4, y.size), rng.lognormal(size=y.size)
    copies = np.repeat(np.arange(y.size), counts)

    def proba(w, rows=slice(None)):
        model = skcalib.GroupwiseCalibrator(skcalib.TemperatureScaling())
        model.fit(Z[rows], y[rows], sample_weight=w, groups=group[rows])
        return model.predict_proba(Z, groups=group)

    np.testing.assert_allclose(proba(counts), proba(None, copies), atol=1e-6)
    np.testing.assert_allclose(proba(1000.5 * relative), proba(relative), atol=1e-9)


def test_comparisons_do_not_depend_on_the_unit_and_count_copies():
    Z, y = classes(200)
    fit, new = slice(120), slice(120, 200)
    rng = np.random.default_rng(1)
    counts, relative = rng.integers(0, 4, y.size), rng.lognormal(size=y.size)
    copies = np.repeat(np.arange(80), counts[new])
    fitted = np.repeat(np.arange(120), counts[fit])

    def numbers_of(w, rows=fit, test_rows=None):
        at = np.arange(120, 200) if test_rows is None else 120 + test_rows
        test = (Z[at], y[at]) if w is None else (Z[at], y[at], w[new])
        names = ["identity", "temperature", "vector"]
        metrics = ["log_loss", "brier_score", "error_rate", "static_calibration_error"]
        frame = skcalib.compare_calibrators(
            Z[rows],
            y[rows],
            names,
            metrics=metrics,
            test=test,
            sample_weight=None if w is None else w[rows],
            random_state=0,
        ).frame
        columns = [c for c in frame.columns if c[0] not in ("choice", "fit seconds")]
        return frame.sort_index()[columns].select_dtypes("number").to_numpy()

    np.testing.assert_allclose(numbers_of(counts), numbers_of(None, fitted, copies), atol=1e-6)
    scaled, plain = numbers_of(1e-3 * relative), numbers_of(relative)
    np.testing.assert_allclose(scaled, plain, rtol=1e-9, atol=1e-9)


# ------------------------------------------------------------------ the one function


def test_weights_are_scaled_by_their_type():
    relative = np.array([0.5, 2.0, 0.0, 1.0])
    scaled = check_weight(relative, 4)
    assert scaled.sum() == pytest.approx(3.5**2 / (0.25 + 4 + 1))
    np.testing.assert_allclose(scaled / scaled[0], relative / 0.5)
    for counts in (
        [2, 0, 1, 3],
        np.array([2, 0, 1, 3], dtype=object),
        np.array([2, 0, 1, 3], dtype=np.uint8),
        pd.Series([2, 0, 1, 3], dtype="Int64"),
    ):
        np.testing.assert_array_equal(check_weight(counts, 4), [2.0, 0.0, 1.0, 3.0])
    np.testing.assert_array_equal(check_weight([True, False], 2), [1.0, 0.0])
    np.testing.assert_array_equal(
        check_weight(pd.Series([True, False], dtype="boolean"), 2), [1, 0]
    )
    np.testing.assert_array_equal(check_weight(2, 3), [2.0, 2.0, 2.0])
    for equal in (2.0, [2.0, 2.0, 2.0], np.full(3, 0.1, dtype=np.float32), [1e-90] * 3):
        np.testing.assert_array_equal(check_weight(equal, 3), [1.0, 1.0, 1.0])
    np.testing.assert_array_equal(check_weight([0.0, 5.0, 5.0], 3), [0.0, 1.0, 1.0])


def test_a_part_of_relative_weights_is_never_taken_for_counts():
    """Scaled, these are 2 and 1/2; the rows of 2 alone are rows of equal weight."""
    w = check_weight(np.array([4.0] * 2 + [1.0] * 16), 18)
    np.testing.assert_allclose(w[[0, -1]], [2.0, 0.5])
    np.testing.assert_array_equal(effective(w[:2]), [1.0, 1.0])
    assert as_sample_weight(w[:2]).dtype == np.float64
    np.testing.assert_allclose(effective(w), w, rtol=1e-15)
    assert as_sample_weight(check_weight([2, 3], 2)).tolist() == [2, 3]


def test_counts_beyond_float64_are_refused():
    refused(r"sum to 1.8e\+16, more than 2\*\*53; pass floats", check_weight, [2**53, 2**53], 2)


RELATIVE = np.random.default_rng(0).integers(5, 40, 150)
READ_AS = (
    "sample_weight contains whole numbers, none of them 1, among 150 rows: these counts are read "
    f"as {RELATIVE.sum():,} rows; if they are relative weights, pass w.astype(float)."
)


def five_classes():
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(150, 5))
    return 1.6 * Z, (Z + rng.gumbel(size=Z.shape)).argmax(axis=1)


WEIGHED = {
    "fit": lambda Z, y, w: skcalib.AutoCalibrator().fit(Z, y, w),
    "groups": lambda Z, y, w: skcalib.GroupwiseCalibrator("temperature").fit(
        Z, y, groups=np.arange(150) % 2, sample_weight=w
    ),
    "classifier": lambda Z, y, w: skcalib.CalibratedClassifier(GaussianNB(), "temperature").fit(
        Z, y, w
    ),
    "comparison": lambda Z, y, w: skcalib.compare_calibrators(
        Z, y, ["temperature"], metrics=["log_loss"], sample_weight=w
    ),
    "metric": lambda Z, y, w: static_calibration_error(y, softmax(Z, axis=1), sample_weight=w),
    "by group": lambda Z, y, w: calibration_by_group(
        y, softmax(Z, axis=1), np.arange(150) % 2, sample_weight=w
    ),
}


@pytest.mark.parametrize("way", WEIGHED)
def test_whole_weights_that_may_be_relative_are_one_warning(way):
    """Survey weights stored as integers counted as many rows without a word."""
    Z, y = five_classes()
    with pytest.warns(UserWarning, match="^sample_weight contains") as caught:
        WEIGHED[way](Z, y, RELATIVE)
    assert [str(each.message) for each in caught] == [READ_AS]
    WEIGHED[way](Z, y, RELATIVE.astype(float))  # warnings are errors


@pytest.mark.parametrize(
    "w",
    [
        np.r_[1, RELATIVE[1:]],
        np.arange(150),
        np.full(150, 10),
        np.where(np.arange(150) % 2 == 0, 10, 0),
        np.full(150, True),
        np.full(150, 1000.0),
    ],
)
def test_counts_are_no_warning(w):
    Z, y = five_classes()
    skcalib.TemperatureScaling().fit(Z, y, w)
    static_calibration_error(y, softmax(Z, axis=1), sample_weight=w)


def test_folds_of_an_ensemble_warn_once_of_counts():
    Z, y = five_classes()
    with pytest.warns(UserWarning, match="^sample_weight contains") as caught:
        skcalib.CalibratedClassifier(GaussianNB(), "temperature", ensemble=True).fit(Z, y, RELATIVE)
    assert len(caught) == 1


def test_the_table_of_a_comparison_does_not_repeat_the_warning_of_counts():
    Z, y = five_classes()
    with pytest.warns(UserWarning, match="^sample_weight contains"):
        found = skcalib.compare_calibrators(
            Z, y, ["temperature"], metrics=["log_loss"], sample_weight=RELATIVE
        )
    assert (found.frame["warning"] == "").all(axis=None)


def test_hosmer_lemeshow_rejects_as_often_as_it_should():
    """Of calibrated models with weights of sigma 1; each weight as a row, it was 97 %."""
    rejected = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        p = rng.random(1000)
        w = np.round(100 * rng.lognormal(size=1000))
        y = rng.random(1000) < p
        rejected += all_metrics.hosmer_lemeshow_test(y, p, sample_weight=w).pvalue < 0.05
    assert 1 <= rejected <= 24
