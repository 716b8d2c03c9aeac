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
@every_mode
@pytest.mark.parametrize("kind", ["plain", "ties", "hard"])
def test_whole_weights_are_copies_and_zero_is_absence(name, mode, kind):
    y, P = ref.predictions(4, 60, seed=9, kind=kind)
    w = np.random.default_rng(0).integers(0, 4, 60)
    error = partial(error_of(name), mode=mode, labels=range(4))
    weighted = error(y, P, sample_weight=w)
    repeated = error(np.repeat(y, w), np.repeat(P, w, axis=0))
    assert weighted == pytest.approx(repeated, **CLOSE)


@every_error
@every_mode
def test_fractional_weights_count_by_their_ratios(name, mode):
    """The scale of weights that count nothing means nothing, and equal ones are none."""
    y, P = ref.predictions(3, 50, seed=2)
    error = partial(error_of(name), mode=mode, labels=range(3))
    if not name.startswith(("label", "debiased", "sweep")) or name.endswith("uniform"):
        # Quantile bins are cut between rows only where weights count them.
        assert error(y, P, sample_weight=np.full(50, 0.3)) == pytest.approx(error(y, P), **CLOSE)
    w = np.random.default_rng(0).uniform(0.1, 1.9, 50)
    assert error(y, P, sample_weight=w) == pytest.approx(
        error(y, P, sample_weight=w / w.sum()), **CLOSE
    )


@pytest.mark.parametrize(("name", "kind"), [*((n, k) for n in ERRORS for k in ("plain", "ties")),
                                            *((n, "plain") for n in BY_RANK)])  # fmt: skip
@every_mode
def test_row_order_does_not_matter(name, mode, kind):
    y, P = ref.predictions(4, 60, seed=9, kind=kind)
    w = np.random.default_rng(0).integers(1, 4, 60)
    order = np.random.default_rng(1).permutation(60)
    error = partial(error_of(name), mode=mode, labels=range(4))
    shuffled = error(y[order], P[order], sample_weight=w[order])
    assert shuffled == pytest.approx(error(y, P, sample_weight=w), **CLOSE)


@every_error
@every_mode
def test_float32_probabilities_are_measured_in_float64(name, mode):
    y, P = ref.predictions(5, 200, seed=1)
    single = P.astype(np.float32)
    error = partial(error_of(name), mode=mode, labels=range(5))
    assert error(y, single) == pytest.approx(error(y, single.astype(float)), rel=1e-12)


@every_error
@every_mode
def test_one_column_is_the_probability_of_an_event(name, mode):
    y, P = ref.predictions(2, 40, seed=1)
    error = partial(error_of(name), mode=mode, labels=[0, 1])
    two = np.column_stack([1 - P[:, 1], P[:, 1]])
    assert error(y, P[:, 1]) == error(y, P[:, [1]]) == error(y, two)
    if mode != "top":
        assert error(y, P[:, 1]) == error(y, two, pos_label=1)


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


@every_error
def test_certain_and_right_is_free_of_error_at_the_top(name):
    P = np.eye(3)[[0, 1, 2, 0, 1]]
    assert error_of(name)([0, 1, 2, 0, 1], P) == 0


@pytest.mark.parametrize("name", ERRORS)
def test_one_score_for_all_rows_leaves_the_gap_of_score_and_accuracy(name):
    P = np.tile([0.7, 0.2, 0.1], (40, 1))
    y = np.repeat([0, 1], [10, 30])
    noise = 0.25 * 0.75 / 39 if name.startswith("debiased") else 0.0
    expected = np.sqrt(0.45**2 - noise)
    error = ERRORS[name][0](y, P, labels=range(3))
    assert error == pytest.approx(expected, abs=1e-9)


@every_error
@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"mode": "within_top"}, "mode must be one of"),
        ({"average": "micro", "mode": "classwise"}, "average must be one of"),
        ({"average": None}, "it needs mode='classwise'"),
    ],
)
def test_wrong_modes_are_named_with_the_mend(name, keywords, message):
    with pytest.raises(ValueError, match=message):
        error_of(name)([0, 1], [0.2, 0.7], **keywords)
