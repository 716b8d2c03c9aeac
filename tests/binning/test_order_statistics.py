"""Values at places of an order, against a sort; cells between edges, against a search."""

import numpy as np
import pytest

from skcalib._arrays.passes import Work
from skcalib._arrays.source import as_source
from skcalib._binning.order_statistics import Cells, column_values, values_at


def values_of(kind, dtype, n=240):
    rng = np.random.default_rng(0)
    values = {
        "spread": 10.0 ** rng.uniform(-40, 0, n),
        "even": rng.random(n),
        "tied": np.round(rng.random(n), 1),
        "equal": np.full(n, 0.1),
        "nought": np.where(rng.random(n) < 0.5, rng.choice([0.0, -0.0], n), rng.random(n)),
        "neighbours": 0.5 + rng.integers(-3, 4, n) * 2.0**-23,
    }[kind]
    return values.astype(dtype)


KINDS = ["spread", "even", "tied", "equal", "nought", "neighbours"]


@pytest.mark.parametrize("limits", [(1 << 16, 1 << 19, 16), (64, 0, 4), (2, 50, 4)])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", KINDS)
def test_values_are_those_of_a_sort(kind, dtype, weighted, limits, monkeypatch):
    """However few bits are counted in a pass, and whether or not the rest is gathered."""
    for name, limit in zip(("COUNTERS", "GATHERED", "TABLE_BITS"), limits, strict=True):
        monkeypatch.setattr(f"skcalib._binning.order_statistics.{name}", limit)
    values = values_of(kind, dtype)
    rng = np.random.default_rng(1)
    w = rng.integers(1, 4, values.size).astype(float) if weighted else np.ones(values.size)
    place = np.array([0, 1, 2, 57, 57.5, 200, w.sum() - 1, w.sum()])
    monkeypatch.setattr(
        "skcalib._binning.order_statistics.ONE_AT_A_TIME", Work(block_bytes=8 * 30, at_a_time=1)
    )
    found = values_at(column_values, as_source(values), w if weighted else None, place=place)
    one_each = np.repeat(np.sort(values), w[np.argsort(values, kind="stable")].astype(int))
    below = one_each[np.maximum(np.ceil(place).astype(int) - 1, 0)]
    above = one_each[np.minimum(place.astype(int), one_each.size - 1)]
    np.testing.assert_array_equal(found.below, below)
    np.testing.assert_array_equal(found.above, above)
    assert found.under.tolist() == [w[values < value].sum() for value in found.below]


def test_no_place_has_no_value():
    found = values_at(column_values, as_source(np.ones(3)), None, place=np.zeros(0))
    assert [part.size for part in found] == [0, 0, 0]


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", KINDS)
def test_cells_are_those_of_a_search(kind, dtype, side):
    values = values_of(kind, dtype)
    middles = (values[:10].astype(np.float64) + values[10:20]) / 2
    for edges in (np.sort(np.append(values[:30], middles)), np.zeros(0), np.array([0.0, 1.0, 1.0])):
        found = Cells(edges.astype(np.float64), side, values.dtype)(values)
        np.testing.assert_array_equal(found, np.searchsorted(edges, values, side=side))
