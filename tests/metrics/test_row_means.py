"""Intervals of means: shares by Wilson's closed form, others by loops, no end out of range."""

import math

import numpy as np
import pytest

from skcalib.metrics._statistics.scores import RowLosses, mean_interval

Z = 1.959963984540054


def wilson(hits, n):
    """The two roots of ``(r - a)^2 = z^2 r (1 - r) / n``, a the share of hits."""
    a, b, c = 1 + Z**2 / n, -(2 * hits / n + Z**2 / n), (hits / n) ** 2
    root = math.sqrt(max(b * b - 4 * a * c, 0))
    return (-b - root) / (2 * a), (-b + root) / (2 * a)


@pytest.mark.parametrize(("hits", "most"), [(0, 1), (1, 1), (7, 1), (80, 1), (1, 2)])
def test_a_share_of_rows_has_wilsons_interval(hits, most):
    """Of no hit in 80 rows it ends at .046; every row's score may be 0 or 2 as well."""
    values = most * np.repeat([1.0, 0.0], [hits, 80 - hits])
    expected = [most * end for end in wilson(hits, 80)]
    found = mean_interval(RowLosses(values, None, np.ones(80)), 0.95, 0.0, most)
    assert found == pytest.approx(expected, abs=1e-12)
    copies = mean_interval(RowLosses(values[[0, -1]], None, np.array([40, 40])), 0.95, 0.0, most)
    half = 40 * (values[0] + values[-1]) / most
    assert copies == pytest.approx([most * end for end in wilson(half, 80)], abs=1e-12)


def test_no_end_is_outside_of_the_range():
    losses = np.array([0.01, 0.02, 0.05, 0.1, 3.0])
    low, high = mean_interval(RowLosses(losses, None, np.ones(5)), 0.95, 0.0, np.inf)
    assert low == 0.0
    assert high > losses.mean()
    unbounded = mean_interval(RowLosses(losses, None, np.ones(5)), 0.95, -np.inf, np.inf)
    assert unbounded == (pytest.approx(unbounded[0]), high)
    assert unbounded[0] < 0
    squares = np.array([0.98, 0.99, 1.0, 0.999, 0.4])
    assert mean_interval(RowLosses(squares, None, np.ones(5)), 0.95, 0.0, 1.0)[1] == 1.0


def test_a_pseudo_row_is_one_row_more_except_of_shares():
    losses = np.array([0.1, 0.2, 0.4, 0.3])
    found = mean_interval(RowLosses(losses, 2.0, np.ones(4)), 0.9, 0.0, np.inf)
    more = RowLosses(np.append(losses, 2.0), None, np.ones(5))
    assert found == mean_interval(more, 0.9, 0.0, np.inf)
    hits = np.array([0.0, 0.0, 1.0])
    plain = mean_interval(RowLosses(hits, None, np.ones(3)), 0.9, 0.0, 1.0)
    assert mean_interval(RowLosses(hits, 1.0, np.ones(3)), 0.9, 0.0, 1.0) == plain
