"""A norm is an exponent by name or a number from 1 to 10, in every error that has one."""

import inspect
import itertools

import numpy as np
import pytest
import reference as ref
from samples import drawn

from skcalib import TemperatureScaling, losses, metrics

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
    scaling = TemperatureScaling(
        objective="soft_binned", objective_params={"norm": 3}, input="logits"
    )
    T = scaling.fit(Z, y).temperature_
    here, hotter, colder = (
        losses.soft_binned_loss(Z / (factor * T), y, norm=3) for factor in (1, 1.05, 0.95)
    )
    assert here < min(hotter, colder)
    with pytest.raises(ValueError, match=r"objective_params\['norm'\] must be one of"):
        scaling.set_params(objective_params={"norm": 0.5}).fit(Z, y)
