"""Errors by kernels equal direct sums: over a fine mesh, and over all pairs of rows."""

import math

import numpy as np
import pytest
import reference as ref
from soft_references import kernel_mean

from skcalib.metrics import kde_calibration_error, maximum_mean_calibration_error
from skcalib.metrics._smooth import triweight_transform


def slow(score, hit, norm="l1"):
    """Every row, every image in the mirrors, and the trapezoidal rule."""
    score, hit = np.asarray(score), np.asarray(hit)
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
def test_it_equals_the_direct_sum(norm, kind, n):
    y, P = ref.predictions(3, n, seed=2, kind=kind)
    for mode in ("top", "classwise"):
        problems = ref.problems(y, P, mode == "top", mode == "classwise", None)
        each = [slow(*zip(*pairs, strict=True), norm) for pairs in problems]
        actual = kde_calibration_error(
            y, P, mode=mode, average="macro" if mode == "top" else None, norm=norm, labels=range(3)
        )
        np.testing.assert_allclose(actual, each if mode == "classwise" else each[0], atol=1e-5)


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
    (pairs,) = ref.problems(y, P, True, False, None)
    actual = maximum_mean_calibration_error(y, P, mode="top", labels=range(K))
    assert actual == pytest.approx(kernel_mean(pairs, [1] * n), abs=1e-10)
    each = [kernel_mean(pairs, [1] * n) for pairs in ref.problems(y, P, False, True, None)]
    actual = maximum_mean_calibration_error(y, P, mode="classwise", average=None, labels=range(K))
    np.testing.assert_allclose(actual, each, atol=1e-10)


def test_the_mean_error_of_many_rows_at_two_scores_have_a_closed_form():
    """No n x n matrix would fit: residual masses a at 0.2 and b at 0.9."""
    p = np.repeat([0.2, 0.9], [300_000, 100_000])
    y = np.concatenate([np.arange(300_000) % 2, np.arange(100_000) % 4 > 0]).astype(int)
    a, b = (0.5 - 0.2) * 0.75, (0.75 - 0.9) * 0.25
    expected = math.sqrt(a * a + b * b + 2 * a * b * math.exp(-0.7 / 0.4))
    error = maximum_mean_calibration_error(y, p)
    assert error == pytest.approx(expected, rel=1e-9)
