"""What every error of a binary problem promises, whatever it measures."""

from functools import partial

import numpy as np
import pytest
import reference as ref

from skcalib import metrics

# Each error with every keyword that changes what it computes, and the norm its classes close by.
ERRORS = {
    "label": (metrics.label_binned_calibration_error, "l2"),
    "label-max": (partial(metrics.label_binned_calibration_error, norm="max"), "max"),
    "label-l1-uniform": (
        partial(metrics.label_binned_calibration_error, norm="l1", strategy="uniform"),
        "l1",
    ),
    "soft": (metrics.soft_binned_calibration_error, "l2"),
    "soft-label-l1": (
        partial(metrics.soft_binned_calibration_error, kind="label", norm="l1"),
        "l1",
    ),
    "debiased": (metrics.debiased_calibration_error, "l2"),
    "debiased-uniform": (partial(metrics.debiased_calibration_error, strategy="uniform"), "l2"),
    "sweep-uniform": (
        partial(metrics.sweep_calibration_error, strategy="uniform", norm="l1"),
        "l1",
    ),
    "smooth": (metrics.smooth_calibration_error, "l1"),
    "kde": (metrics.kde_calibration_error, "l1"),
    "kde-l2": (partial(metrics.kde_calibration_error, norm="l2"), "l2"),
    "mmce": (metrics.maximum_mean_calibration_error, "l1"),
}
# These give ranks to equal scores by row order, so that only distinct scores can be shuffled.
BY_RANK = {
    "sweep": (metrics.sweep_calibration_error, "l2"),
}
every_error = pytest.mark.parametrize("name", [*ERRORS, *BY_RANK])
every_mode = pytest.mark.parametrize("mode", ["top", "classwise"])
CLOSE = {"rel": 1e-9, "abs": 1e-9}


def error_of(name):
    return {**ERRORS, **BY_RANK}[name][0]


@every_error
def test_whole_weights_are_copies_in_every_class(name):
    y, P = ref.predictions(4, 60, seed=9, kind="ties")
    w = np.random.default_rng(0).integers(0, 4, 60)
    error = partial(error_of(name), mode="classwise", labels=range(4))
    weighted = error(y, P, sample_weight=w)
    repeated = error(np.repeat(y, w), np.repeat(P, w, axis=0))
    assert weighted == pytest.approx(repeated, **CLOSE)


@pytest.mark.parametrize("name", [*ERRORS, *BY_RANK])
def test_a_class_is_a_problem_of_its_own_and_the_mean_is_closed_by_the_norm(name):
    """Class k of K, by its column in the two-class problem it makes; the last never occurs."""
    error, norm = {**ERRORS, **BY_RANK}[name]
    y, P = ref.predictions(4, 70, seed=5)
    each = error(y, P, mode="classwise", average=None, labels=range(4))
    alone = [error((y == k).astype(int), P[:, k]) for k in range(4)]
    np.testing.assert_allclose(each, alone, rtol=1e-9, atol=1e-12)
    closed = {"l1": each.mean(), "l2": np.sqrt((each**2).mean()), "max": each.max()}[norm]
    assert error(y, P, mode="classwise", labels=range(4)) == pytest.approx(closed, rel=1e-12)


@every_error
@every_mode
def test_the_error_lies_between_0_and_1_on_what_is_awkward(name, mode):
    error = partial(error_of(name), mode=mode)
    for kind in ("plain", "ties", "hard", "sparse"):
        y, P = ref.predictions(6, 45, seed=4, kind=kind)
        assert 0 <= error(y, P, labels=range(6)) <= 1
    assert 0 <= error([1], [[0.2, 0.8]], labels=[0, 1]) <= 1
    if mode == "top":
        assert error([0, 1], [[0.0, 1.0], [1.0, 0.0]]) == pytest.approx(1)


@pytest.mark.parametrize("name", ERRORS)
def test_one_score_for_all_rows_leaves_the_gap_of_score_and_accuracy(name):
    P = np.tile([0.7, 0.2, 0.1], (40, 1))
    y = np.repeat([0, 1], [10, 30])
    noise = 0.25 * 0.75 / 39 if name.startswith("debiased") else 0.0
    expected = np.sqrt(0.45**2 - noise)
    error = ERRORS[name][0](y, P, labels=range(3))
    assert error == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("name", ["label", "soft", "debiased", "sweep", "smooth", "kde", "mmce"])
def test_wrong_modes_are_refused(name):
    for keywords, message in (
        ({"mode": "within_top"}, "mode must be one of"),
        ({"average": "micro", "mode": "classwise"}, "average must be one of"),
        ({"average": None}, "it needs mode='classwise'"),
    ):
        with pytest.raises(ValueError, match=message):
            error_of(name)([0, 1], [0.2, 0.7], **keywords)
