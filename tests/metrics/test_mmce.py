"""The maximum mean calibration error equals the double sum over all pairs of rows."""

import math

import numpy as np
import pytest
import reference as ref

from skcalib.metrics import maximum_mean_calibration_error


def slow(pairs):
    """All pairs of rows."""
    total = math.fsum(
        (t - s) * (u - r) * math.exp(-abs(s - r) / 0.4) for s, t in pairs for r, u in pairs
    )
    return math.sqrt(max(total, 0.0)) / len(pairs)


@pytest.mark.parametrize("kind", ["ties", "hard"])
@pytest.mark.parametrize(("K", "n"), [(2, 60), (4, 41), (3, 1)])
def test_it_equals_the_double_sum(K, n, kind):
    y, P = ref.predictions(K, n, seed=K, kind=kind)
    (pairs,) = ref.problems(y, P, True, False, None)
    actual = maximum_mean_calibration_error(y, P, mode="top", labels=range(K))
    assert actual == pytest.approx(slow(pairs), abs=1e-10)
    each = [slow(pairs) for pairs in ref.problems(y, P, False, True, None)]
    actual = maximum_mean_calibration_error(y, P, mode="classwise", average=None, labels=range(K))
    np.testing.assert_allclose(actual, each, atol=1e-10)


def test_many_rows_at_two_scores_have_a_closed_form():
    """No n x n matrix would fit: residual masses a at 0.2 and b at 0.9."""
    p = np.repeat([0.2, 0.9], [300_000, 100_000])
    y = np.concatenate([np.arange(300_000) % 2, np.arange(100_000) % 4 > 0]).astype(int)
    a, b = (0.5 - 0.2) * 0.75, (0.75 - 0.9) * 0.25
    expected = math.sqrt(a * a + b * b + 2 * a * b * math.exp(-0.7 / 0.4))
    error = maximum_mean_calibration_error(y, p)
    assert error == pytest.approx(expected, rel=1e-9)
