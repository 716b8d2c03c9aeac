"""n_bins="cube_root": the cube root of the number of rows, rounded up, wherever there are bins."""

import inspect

import numpy as np
import pytest
import reference as ref
from calls import refused
from numpy.testing import assert_array_equal

import skcalib
from skcalib import losses, metrics

RNG = np.random.default_rng(0)
N = 130  # its cube root is 5.07
P = RNG.dirichlet([1, 1, 1], N)
Y = (P.cumsum(axis=1) < RNG.random((N, 1))).sum(axis=1)
HIT, SCORE = (Y == 0).astype(int), P[:, 0]
WITH_BINS = [
    name
    for name in sorted(set(metrics.__all__) - {"SCORERS"})
    if "n_bins" in inspect.signature(getattr(metrics, name)).parameters
]


@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
@pytest.mark.parametrize("n", [1, 2, 8, 9, 125, 126])
def test_it_is_the_calibration_error_of_scikit_learn(n, strategy):
    y, p = HIT[:n], SCORE[:n]
    got = metrics.general_calibration_error(
        y, p, n_bins="cube_root", strategy=strategy, norm="l2", quantile_method="linear",
        labels=[0, 1],
    )  # fmt: skip
    number = next(k for k in range(1, 10) if k**3 >= n)
    apart = {"max_prob": False, "class_conditional": True, "average": None, "norm": "l2"}
    both = np.column_stack([1 - p, p])
    of_classes = ref.gce(
        y, both, n_bins=number, strategy=strategy, quantile_method="linear", **apart
    )
    assert got == pytest.approx(of_classes[1], rel=1e-12, abs=1e-15)


@pytest.mark.parametrize("name", WITH_BINS)
def test_every_metric_takes_it(name):
    metric = getattr(metrics, name)
    y, proba = (HIT, SCORE) if name in ("hosmer_lemeshow_test", "calibration_curve") else (Y, P)
    assert repr(metric(y, proba, n_bins="cube_root")) == repr(metric(y, proba, n_bins=6))
    refused("n_bins must be a whole number >= 1; got 'cube'", metric, y, proba, n_bins="cube")


def test_rows_are_those_that_count():
    """2 is two copies, 0 the absence of a row, and of other weights only the ratios matter."""
    w = np.repeat([0, 2, 1], [4, 3, N - 7])
    for weights, number in ((w, 6), (w[:10], 3), (np.full(N, 0.1), 6), (np.full(8, 0.3), 2)):
        n = len(weights)
        data = Y[:n], P[:n]
        rows = {"sample_weight": weights, "labels": [0, 1, 2]}
        got = metrics.expected_calibration_error(*data, n_bins="cube_root", **rows)
        assert got == metrics.expected_calibration_error(*data, n_bins=number, **rows)


@pytest.mark.parametrize("metric", [
    metrics.expected_calibration_error, metrics.label_binned_calibration_error,
    metrics.soft_binned_calibration_error, metrics.debiased_calibration_error,
])  # fmt: skip
def test_intervals_have_the_same_bins(metric):
    got, expected = (
        metrics.calibration_interval(metric, Y, P, n_bins=n_bins, random_state=0)
        for n_bins in ("cube_root", 6)
    )
    assert got == expected


def test_calibrators_losses_and_displays_take_it():
    pytest.importorskip("matplotlib").use("Agg")
    for strategy in ("uniform", "quantile"):
        got, expected = (
            skcalib.HistogramBinning(n_bins=n_bins, strategy=strategy).fit(P, Y)
            for n_bins in ("cube_root", 6)
        )
        assert_array_equal(got.bin_edges_, expected.bin_edges_)
    got, expected = (
        skcalib.TemperatureScaling(objective="soft_binned", objective_params=params).fit(P, Y)
        for params in ({"n_bins": "cube_root"}, {"n_bins": 6})
    )
    assert got.temperature_ == expected.temperature_
    got, expected = (
        losses.soft_binned_loss(np.log(P), Y, n_bins=n_bins) for n_bins in ("cube_root", 6)
    )
    assert got == expected
    for display in (skcalib.ReliabilityDisplay, skcalib.ClasswiseDisplay):
        got, expected = (
            display.from_predictions(Y, P, n_bins=n_bins) for n_bins in ("cube_root", 6)
        )
        assert got.table.equals(expected.table)


def test_the_curve_of_scikit_learn_has_the_same_bins():
    from sklearn.calibration import calibration_curve as theirs

    for strategy in ("uniform", "quantile"):
        expected = theirs(HIT, SCORE, n_bins=6, strategy=strategy)
        got = metrics.calibration_curve(HIT, SCORE, n_bins="cube_root", strategy=strategy)
        for part, expected_part in zip(got, expected, strict=True):
            np.testing.assert_allclose(part, expected_part, rtol=1e-12)
