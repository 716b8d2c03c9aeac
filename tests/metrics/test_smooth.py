"""Errors without bins or with soft bins equal direct sums and loops over rows and pairs of rows."""

import itertools
import math
from functools import partial

import numpy as np
import pytest
import reference as ref
from soft_references import kernel_mean, slow_avuc, slow_soft_avuc, slow_soft_power

from skcalib.metrics import (
    avuc_loss,
    kde_calibration_error,
    label_binned_calibration_error,
    maximum_mean_calibration_error,
    smooth_calibration_error,
    soft_avuc_loss,
    soft_binned_calibration_error,
)
from skcalib.metrics._smooth import triweight_transform

# ------------------------------------------------------------------ the smooth error


def size_at(sigma, score, hit, w=None):
    """Integral of the smoothed residual's size: every row, every image in the mirrors."""
    w = np.ones(len(score)) if w is None else w
    x = np.linspace(0, 1, max(4001, int(40 / sigma)))
    g = np.zeros_like(x)
    for s, t, mass in zip(score, hit, w, strict=True):
        for mirror in range(-3, 4):
            for image in (2 * mirror + s, 2 * mirror - s):
                if abs(image - 0.5) < 0.5 + 9 * sigma:
                    g += mass * (t - s) * np.exp(-0.5 * ((x - image) / sigma) ** 2)
    g = np.abs(g) / (np.sqrt(2 * np.pi) * sigma * w.sum())
    return (g[1:] + g[:-1]).sum() / 2 * x[1]


def slow_smooth(pairs):
    """Bisection for the width that equals its size."""
    score, hit = zip(*pairs, strict=True)
    low, high = 1e-9, 1.0
    while high - low > 1e-8:
        middle = (low + high) / 2
        low, high = (middle, high) if size_at(middle, score, hit) > middle else (low, middle)
    return (low + high) / 2


@pytest.mark.parametrize("kind", ["plain", "ties", "hard"])
def test_it_equals_the_slow_fixed_point(kind):
    y, P = ref.predictions(3, 16, seed=4, kind=kind)
    ref.equals_loop(smooth_calibration_error, slow_smooth, y, P, atol=1e-6)


@pytest.mark.parametrize(
    ("n", "ends"), [(20, False), (2_000, False), (2_000, True)], ids=["few", "many", "ends"]
)
def test_the_fixed_point_holds_to_a_millionth(n, ends):
    """Size falls with width, so a residual below 1e-6 puts the error within 1e-6 of the root."""
    rng = np.random.default_rng(n)
    p = rng.random(n)
    if ends:  # most scores within a hundredth of 0 and 1, some on them
        p = np.clip(1 / (1 + np.exp(-rng.normal(0, 6, n))), 1e-6, 1)
        p[::50] = 1.0
    y = (rng.random(n) < p).astype(int)
    sigma = smooth_calibration_error(y, p)
    assert size_at(sigma, p, y) == pytest.approx(sigma, abs=1e-6)
    assert sigma < 0.3


def test_narrow_widths_are_found_too():
    """Residuals that cancel in pairs a thousandth apart leave an error of their own size."""
    p = np.tile([0.4995, 0.5005], 500)
    y = np.tile([1, 0], 500)
    p, y = np.append(p, np.full(99_000, 1.0)), np.append(y, np.ones(99_000, int))
    sigma = smooth_calibration_error(y, p)
    w = np.array([500.0, 500.0, 99_000.0])
    assert 1e-4 < sigma < 2e-3
    assert size_at(sigma, [0.4995, 0.5005, 1.0], [1, 0, 1], w) == pytest.approx(sigma, abs=1e-6)


@pytest.mark.parametrize("sign", [0, 1])
def test_residuals_of_one_sign_leave_their_mean_exactly(sign):
    p = np.random.default_rng(0).random(50) ** (8 if sign else 1 / 8)
    p[:5] = sign
    error = smooth_calibration_error(np.full(50, sign), p, mode="classwise", labels=[0, 1])
    assert error == pytest.approx(abs(sign - p.mean()), rel=1e-14)


def test_errors_smaller_than_the_grid_are_found():
    """Certain, and off by a millionth at either end or in a pair: sizes stay between the bounds."""
    p = np.array([1e-6, 1 - 1e-6, 3e-6, 1 - 2e-6])
    error = smooth_calibration_error([0, 1, 0, 1], p)
    assert 0 < error <= 1.75e-6 + 1e-12
    p = np.array([0.5 - 1e-7, 0.5 + 1e-7])
    assert smooth_calibration_error([0, 1], p, mode="classwise") <= 0.5


# ------------------------------------------------------------------ errors by kernels


def slow_kde(pairs, norm="l1"):
    """Every row, every image in the mirrors, and the trapezoidal rule."""
    score, hit = np.array(pairs).T
    if np.ptp(score) == 0:
        return abs(hit.mean() - score[0])
    h = 3.15 * score.std() * len(score) ** -0.2
    x = np.linspace(0, 1, 10_001)
    density, hits = np.zeros_like(x), np.zeros_like(x)
    for s, t in zip(score, hit, strict=True):
        for image in [2 * m + sign * s for m in (-1, 0, 1) for sign in (1, -1)]:
            u = np.clip((x - image) / h, -1, 1)
            kernel = 35 / 32 / h * (1 - u * u) ** 3
            density += kernel / len(score)
            hits += t * kernel / len(score)
    near = density > 1e-9
    curve = np.divide(hits, density, out=np.zeros_like(x), where=near)
    q = {"l1": 1, "l2": 2}.get(norm, norm)
    cost = np.where(near, np.abs(curve - x) ** q * density, 0.0)
    return ((cost[1:] + cost[:-1]).sum() / 20_000) ** (1 / q)


@pytest.mark.parametrize("norm", ["l1", "l2", 3])
@pytest.mark.parametrize("kind", ["ties", "hard"])
@pytest.mark.parametrize("n", [2, 9])
def test_the_kernel_error_equals_the_direct_sum(norm, kind, n):
    y, P = ref.predictions(3, n, seed=2, kind=kind)
    ref.equals_loop(kde_calibration_error, partial(slow_kde, norm=norm), y, P, atol=1e-5, norm=norm)


@pytest.mark.parametrize("frequency", [0.0, 0.0099, 0.0101, 60.0])
def test_the_transform_is_the_integral_of_kernel_and_cosine(frequency):
    u = np.linspace(-1, 1, 200_001)
    values = 35 / 32 * (1 - u * u) ** 3 * np.cos(frequency * u)
    expected = values.sum() * (u[1] - u[0])
    assert triweight_transform(np.array([frequency]))[0] == pytest.approx(expected, abs=1e-9)


def test_scores_that_differ_by_rounding_are_as_good_as_equal():
    p = np.full(20, 0.3)
    p[::2] += 1e-15
    y = np.repeat([0, 1], [15, 5])
    error = kde_calibration_error(y, p, mode="classwise")
    assert error == pytest.approx(0.05, abs=1e-4)


@pytest.mark.parametrize("kind", ["ties", "hard"])
@pytest.mark.parametrize(("K", "n"), [(2, 60), (4, 41), (3, 1)])
def test_the_mean_error_equals_the_double_sum(K, n, kind):
    y, P = ref.predictions(K, n, seed=K, kind=kind)

    def slow(pairs):
        return kernel_mean(pairs, [1] * n)

    ref.equals_loop(maximum_mean_calibration_error, slow, y, P, atol=1e-10)


def test_the_mean_error_of_many_rows_at_two_scores_have_a_closed_form():
    """No n x n matrix would fit: residual masses a at 0.2 and b at 0.9."""
    p = np.repeat([0.2, 0.9], [300_000, 100_000])
    y = np.concatenate([np.arange(300_000) % 2, np.arange(100_000) % 4 > 0]).astype(int)
    a, b = (0.5 - 0.2) * 0.75, (0.75 - 0.9) * 0.25
    expected = math.sqrt(a * a + b * b + 2 * a * b * math.exp(-0.7 / 0.4))
    error = maximum_mean_calibration_error(y, p)
    assert error == pytest.approx(expected, rel=1e-9)


# ------------------------------------------------------------------ soft bins and label bins


def slow_soft_binned(pairs, *, norm, **keywords):
    q = {"l1": 1, "l2": 2}.get(norm, norm)
    return slow_soft_power(pairs, [1] * len(pairs), q, **keywords) ** (1 / q)


@pytest.mark.parametrize("kind", ["bin", "label"])
@pytest.mark.parametrize("norm", ["l1", "l2", 3])
@pytest.mark.parametrize("data", ["ties", "hard"])
def test_the_soft_binned_error_equals_the_loop(kind, norm, data):
    y, P = ref.predictions(4, 40, seed=2, kind=data)
    for n_bins, temperature in itertools.product([1, 15], [1e-4, 0.01, 3.0]):
        keywords = {"n_bins": n_bins, "temperature": temperature, "kind": kind, "norm": norm}
        slow = partial(slow_soft_binned, **keywords)
        ref.equals_loop(soft_binned_calibration_error, slow, y, P, **keywords)


every_strategy = pytest.mark.parametrize("strategy", ["uniform", "quantile"])


def slow_label_binned(pairs, n_bins, norm, strategy):
    """Distance of each score from the share of hits among the rows of its bin."""
    where = ref.bins_of([s for s, _ in pairs], n_bins, strategy, "right", "edges")
    gaps = []
    for (score, _), b in zip(pairs, where, strict=True):
        hits = [t for (_, t), c in zip(pairs, where, strict=True) if c == b]
        gaps.append(abs(sum(hits) / len(hits) - score))
    if norm == "max":
        return max(gaps)
    q = {"l1": 1, "l2": 2}.get(norm, norm)
    return (math.fsum(gap**q for gap in gaps) / len(gaps)) ** (1 / q)


@every_strategy
@pytest.mark.parametrize("kind", ["plain", "ties", "hard", "sparse"])
def test_the_label_binned_error_equals_the_loop(strategy, kind):
    y, P = ref.predictions(4, 61, seed=3, kind=kind)
    kinds = ["plain", "ties", "hard", "sparse"]
    for i, norm in enumerate(["l1", "l2", "max", 3]):
        n_bins = [1, 4, 15, 80][(i + kinds.index(kind)) % 4]  # each beside each norm
        keywords = {"strategy": strategy, "norm": norm, "n_bins": n_bins}
        slow = partial(slow_label_binned, **keywords)
        ref.equals_loop(label_binned_calibration_error, slow, y, P, **keywords)


def test_one_label_bin_measures_the_spread_about_the_accuracy():
    p = np.array([0.1, 0.3, 0.5, 0.9])
    error = label_binned_calibration_error([0, 1, 0, 1], p, n_bins=1)
    assert error == pytest.approx(np.sqrt(((p - 0.5) ** 2).mean()))


# ------------------------------------------------------------------ accuracy against uncertainty


@pytest.mark.parametrize("kind", ["ties", "hard"])
@pytest.mark.parametrize("K", [2, 10])
def test_losses_equal_the_loop(K, kind):
    y, P = ref.predictions(K, 60, seed=K, kind=kind)
    w = np.random.default_rng(0).uniform(0, 2, 60)
    data, given = (P.tolist(), y.tolist(), w), {"sample_weight": w, "labels": range(K)}
    for threshold in (0.1, 0.5, 1.2):
        actual = avuc_loss(y, P, threshold=threshold, **given)
        assert actual == pytest.approx(slow_avuc(*data, threshold), abs=1e-10)
    for kappa, temperature in [(0.5, 1.0), (0.2, 0.3), (0.9, 5.0)]:
        actual = soft_avuc_loss(y, P, kappa=kappa, temperature=temperature, **given)
        assert actual == pytest.approx(slow_soft_avuc(*data, kappa, temperature), abs=1e-10)


@pytest.mark.parametrize("loss", [avuc_loss, soft_avuc_loss])
def test_right_and_certain_is_best_and_wrong_and_certain_is_finite(loss):
    P = np.eye(3)
    assert loss([0, 1, 2], P) == pytest.approx(0, abs=1e-11)
    assert 5 < loss([1, 2, 0], P) <= -math.log(1e-12)
