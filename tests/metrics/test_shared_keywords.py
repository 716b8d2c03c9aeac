"""Keywords that metrics share: mode and average, norm, and n_bins="cube_root"."""

import inspect
import itertools
from functools import partial

import numpy as np
import pytest
import reference as ref
from calls import refused
from numpy.testing import assert_array_equal
from samples import drawn

import skcalib
from skcalib import losses, metrics

# ------------------------------------------------------------------ mode and average


# Errors with keywords that change them, and the norm that averages their classes.
ERRORS = {
    "label-max": (partial(metrics.label_binned_calibration_error, norm="max"), "max"),
    "label": (metrics.label_binned_calibration_error, "l2"),
    "soft": (metrics.soft_binned_calibration_error, "l2"),
    "debiased": (metrics.debiased_calibration_error, "l2"),
    "sweep": (metrics.sweep_calibration_error, "l2"),
    "smooth": (metrics.smooth_calibration_error, "l1"),
    "kde": (metrics.kde_calibration_error, "l1"),
    "kde-l2": (partial(metrics.kde_calibration_error, norm="l2"), "l2"),
    "mmce": (metrics.maximum_mean_calibration_error, "l1"),
}
every_error = pytest.mark.parametrize(("error", "norm"), ERRORS.values(), ids=ERRORS)


@every_error
def test_a_class_is_a_problem_of_its_own_and_the_mean_is_closed_by_the_norm(error, norm):
    """Class k of K, by its column in the two-class problem it makes; the last never occurs."""
    y, P = ref.predictions(4, 70, seed=5)
    each = error(y, P, mode="classwise", average=None, labels=range(4))
    alone = [error((y == k).astype(int), P[:, k]) for k in range(4)]
    np.testing.assert_allclose(each, alone, rtol=1e-9, atol=1e-12)
    closed = {"l1": each.mean(), "l2": np.sqrt((each**2).mean()), "max": each.max()}[norm]
    assert error(y, P, mode="classwise", labels=range(4)) == pytest.approx(closed, rel=1e-12)


@every_error
def test_one_score_for_all_rows_leaves_the_gap_of_score_and_accuracy(error, norm):
    P = np.tile([0.7, 0.2, 0.1], (40, 1))
    y = np.repeat([0, 1], [10, 30])
    noise = 0.25 * 0.75 / 39 if error is metrics.debiased_calibration_error else 0.0
    expected = np.sqrt(0.45**2 - noise)
    assert error(y, P, labels=range(3)) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"mode": "within_top"}, "mode must be one of"),
        ({"average": "micro", "mode": "classwise"}, "average must be one of"),
        ({"average": None}, "average=None.* needs mode='classwise'"),
    ],
)
@every_error
def test_wrong_modes_are_refused(error, norm, keywords, message):
    refused(message, error, [0, 1], [0.2, 0.7], **keywords)


# ------------------------------------------------------------------ norm


WITH_NORM = {
    name: metric
    for name in metrics.__all__
    if callable(metric := getattr(metrics, name)) and "norm" in inspect.signature(metric).parameters
}
every_metric = pytest.mark.parametrize("name", WITH_NORM)


@pytest.mark.parametrize("norm", [1.5, 3, 10])
def test_the_general_error_is_the_root_of_the_sum_of_powers(norm):
    y, P = ref.predictions(4, 60, seed=4, kind="ties")
    for max_prob, classwise, class_weight, bin_weight in itertools.product(
        (True, False), (True, False), ("uniform", "count"), ("uniform", "count")
    ):
        keywords = {
            "max_prob": max_prob,
            "class_conditional": classwise,
            "class_weight": class_weight,
            "bin_weight": bin_weight,
            "norm": norm,
        }
        expected = ref.gce(y, P, **keywords)
        found = metrics.general_calibration_error(y, P, labels=range(4), **keywords)
        assert found == pytest.approx(expected, abs=1e-12)
    each = metrics.static_calibration_error(y, P, norm=norm, average=None, labels=range(4))
    assert metrics.static_calibration_error(y, P, norm=norm, labels=range(4)) == pytest.approx(
        np.mean(each**norm) ** (1 / norm)
    )


@every_metric
def test_one_and_two_are_l1_and_l2(name):
    y, P = ref.predictions(4, 80, seed=5)
    for number, norm in ((1, "l1"), (2, "l2"), (np.float32(1), "l1"), (np.int8(2), "l2")):
        found = WITH_NORM[name](y, P, norm=number, labels=range(4))
        expected = WITH_NORM[name](y, P, norm=norm, labels=range(4))
        assert found == pytest.approx(expected, rel=1e-12)


@every_metric
def test_every_error_refuses_other_norms(name):
    with pytest.raises(ValueError, match="norm must be one of .* or a number from 1 to 10; got"):
        WITH_NORM[name]([0, 1], [0.2, 0.7], norm=0.5)


def test_a_small_gap_to_the_largest_power_is_not_lost():
    """A gap of 3e-4 in single precision, and of 1e-9 in double."""
    y, p = np.arange(10_000) < 5_000, np.full(10_000, 0.5 + 1e-9)
    found = metrics.expected_calibration_error(
        y, p, norm=10, pos_label=True, labels=[False, True], n_bins=1
    )
    assert found == pytest.approx(1e-9, rel=1e-6)
    assert np.float32(3e-4) ** 10 > np.finfo(np.float32).smallest_normal


def test_a_temperature_may_be_sought_under_any_norm():
    """It has the least error under that norm of three temperatures about it."""
    Z, y = drawn(800, noise=2, scale=3)
    scaling = skcalib.TemperatureScaling(
        objective="soft_binned", objective_params={"norm": 3}, input="logits"
    )
    T = scaling.fit(Z, y).temperature_
    here, hotter, colder = (
        losses.soft_binned_loss(Z / (factor * T), y, norm=3) for factor in (1, 1.05, 0.95)
    )
    assert here < min(hotter, colder)
    with pytest.raises(ValueError, match=r"objective_params\['norm'\] must be one of"):
        scaling.set_params(objective_params={"norm": 0.5}).fit(Z, y)


# ------------------------------------------------------------------ n_bins="cube_root"


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
