"""Intervals and bands of a bin, against published numbers and sums over all outcomes."""

from math import comb

import numpy as np
import pytest

from skcalib.metrics._curves.curves import wilson_interval
from skcalib.plotting._drawing import consistency_band, expected_deviation


def test_wilson_interval_of_published_examples():
    """Newcombe (1998), Statistics in Medicine 17, table I, method 3: the score interval."""
    hits, rows = np.array([81, 15, 0, 1]), np.array([263.0, 148, 20, 29])
    low, high = wilson_interval(hits / rows, rows, 0.95)
    np.testing.assert_allclose(low, [0.2553, 0.0624, 0.0, 0.0061], atol=5e-5)
    np.testing.assert_allclose(high, [0.3662, 0.1605, 0.1611, 0.1718], atol=5e-5)


def probability(x, n, p):
    return comb(n, x) * p**x * (1 - p) ** (n - x)


@pytest.mark.parametrize(("n", "p"), [(1, 0.3), (10, 0.5), (25, 0.07), (40, 0.999)])
def test_band_holds_what_it_says(n, p):
    """No more than 5 % lies outside of it, and it could not be drawn in at either end."""
    low, high = (float(end[0]) for end in consistency_band(np.array([p]), np.array([n]), 0.9))
    below = sum(probability(x, n, p) for x in range(n + 1) if x / n < low)
    above = sum(probability(x, n, p) for x in range(n + 1) if x / n > high)
    assert below <= 0.05
    assert above <= 0.05
    assert below + probability(round(low * n), n, p) > 0.05 - 1e-12
    assert above + probability(round(high * n), n, p) > 0.05 - 1e-12


@pytest.mark.parametrize(("n", "p"), [(1, 0.3), (10, 0.5), (25, 0.07), (40, 0.999), (5, 0), (5, 1)])
def test_expected_deviation_is_the_mean_over_all_outcomes(n, p):
    """The closed form equals the sum over every number of hits."""
    expected = sum(probability(x, n, p) * abs(x / n - p) for x in range(n + 1))
    assert expected_deviation(np.array([p]), np.array([n]))[0] == pytest.approx(expected)


def test_an_empty_bin_says_nothing():
    """Without rows there is no interval and no band, and nothing is added to an error."""
    nothing = np.array([np.nan]), np.array([0.0])
    assert np.isnan([*wilson_interval(*nothing, 0.95), *consistency_band(*nothing, 0.95)]).all()
    assert expected_deviation(*nothing)[0] == 0
