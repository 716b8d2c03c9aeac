"""What every error of a binary problem promises, whatever it measures."""

from functools import partial

import numpy as np
import pytest
import reference as ref
from calls import refused

from skcalib import metrics

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
        ({"average": None}, "it needs mode='classwise'"),
    ],
)
@every_error
def test_wrong_modes_are_refused(error, norm, keywords, message):
    refused(message, error, [0, 1], [0.2, 0.7], **keywords)
