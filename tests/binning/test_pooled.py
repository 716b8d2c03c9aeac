"""A table of many entries is counted and not sorted; it is the table of a sorted copy."""

import numpy as np
import pytest

from skcalib._binning.bins import Bins
from skcalib._binning.pooled import pooled_table
from skcalib._binning.tables import flat_table
from skcalib._scores.scores import Scores

N, K = 30, 5


@pytest.fixture
def counted(monkeypatch, small_blocks):
    """Count where a copy would be small too, in blocks of 17 rows."""
    monkeypatch.setattr("skcalib._binning.pooled.SORTED", 0)
    small_blocks(17)


def probabilities(kind, dtype=np.float64):
    P = np.random.default_rng(0).dirichlet(np.full(K, 0.3), size=N)
    if kind == "tied":
        P = np.round(P, 1)
    return np.full((N, K), 1 / K, dtype) if kind == "equal" else P.astype(dtype)


def assert_same(table, expected):
    for part in ("left", "right", "count"):
        np.testing.assert_array_equal(
            getattr(table, part), getattr(expected, part), err_msg=part, strict=part == "count"
        )
    for part in ("weight", "score_sum", "hit_sum"):
        a, b = getattr(table, part), getattr(expected, part)
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-11, err_msg=part)


@pytest.mark.parametrize("threshold", [None, 0.0, 0.15, 0.9999999])
@pytest.mark.parametrize("kind", ["spread", "tied", "equal"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("method", ["edges", "floor", "split", "rank"])
def test_a_counted_table_is_that_of_a_sorted_copy(counted, method, weighted, kind, threshold):
    """Ties are split by row where the method splits them; bins may be more than entries."""
    rng = np.random.default_rng(1)
    code = rng.integers(K, size=N)
    w = rng.integers(1, 4, N).astype(float) if weighted else np.ones(N)
    hit = (np.arange(K) == code[:, None]).ravel()
    narrow, wide = np.float32, np.float64
    for n_bins, order, dtype in (
        (1, "C", narrow),
        (6, "F", wide),
        (15, "F", narrow),
        (170, "C", wide),
    ):
        P = probabilities(kind, dtype)
        bins = Bins(n_bins, method)
        expected = flat_table(P.ravel(), hit, np.repeat(w, K), bins, threshold=threshold)
        given = Scores(np.asarray(P, order=order), "proba")
        assert_same(pooled_table(given, code, w, bins, threshold=threshold), expected)


@pytest.mark.parametrize("method", ["edges", "floor", "split", "rank"])
def test_fractional_weights_cut_a_counted_table_where_the_mass_is(counted, method):
    rng = np.random.default_rng(2)
    code, w, P = rng.integers(K, size=N), rng.random(N) + 0.1, probabilities("spread")
    hit = (np.arange(K) == code[:, None]).ravel()
    found = pooled_table(Scores(P, "proba"), code, w, Bins(7, method))
    assert_same(found, flat_table(P.ravel(), hit, np.repeat(w, K), Bins(7, method)))


def test_logits_are_counted_as_the_probabilities_that_they_are(counted):
    rng = np.random.default_rng(3)
    scores = Scores(rng.normal(size=(N, K)).astype(np.float32), "logits")
    P = scores.proba(slice(0, N)).astype(np.float32)
    code, w = rng.integers(K, size=N), np.ones(N)
    found = pooled_table(scores, code, w, Bins(6, "edges"))
    assert_same(found, pooled_table(Scores(P, "proba"), code, w, Bins(6, "edges")))
