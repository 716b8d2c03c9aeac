"""The smooth calibration error is the fixed point of a direct sum over reflected Gaussians."""

import numpy as np
import pytest
import reference as ref

from skcalib.metrics import smooth_calibration_error


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


def slow(score, hit):
    """Bisection for the width that equals its size."""
    low, high = 1e-9, 1.0
    while high - low > 1e-8:
        middle = (low + high) / 2
        low, high = (middle, high) if size_at(middle, score, hit) > middle else (low, middle)
    return (low + high) / 2


@pytest.mark.parametrize("kind", ["plain", "ties", "hard"])
def test_it_equals_the_slow_fixed_point(kind):
    y, P = ref.predictions(3, 16, seed=4, kind=kind)
    for mode in ("top", "classwise"):
        problems = ref.problems(y, P, mode == "top", mode == "classwise", None)
        each = [slow(*zip(*pairs, strict=True)) for pairs in problems]
        actual = smooth_calibration_error(
            y, P, mode=mode, average="macro" if mode == "top" else None, labels=range(3)
        )
        np.testing.assert_allclose(actual, each if mode == "classwise" else each[0], atol=1e-6)


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
