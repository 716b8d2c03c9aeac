"""Rows chosen and values clipped when they are read: the same numbers as of a copy."""

import numpy as np
import pytest
from discovery import CALIBRATORS, ERRORS
from sklearn.base import clone

from skcalib._arrays.selection import Selection, clip_and_divide, take_rows
from skcalib._arrays.sources import ArraySource, as_source, to_array
from skcalib._validation.rows import check_predictions


@pytest.fixture
def all_views(monkeypatch):
    """Make views where copies are small too."""
    monkeypatch.setattr("skcalib._arrays.selection.COPIED_BYTES", 0)


def test_rows_are_divided_by_their_sums_after_clipping():
    P = np.array([[0.5, 0.5, -0.1], [1.0, 1.0, 2.0], [0.2, 0.2, 0.4]])
    divided = clip_and_divide(as_source(P), True)
    expected = [[0.5, 0.5, 0.0], [0.25, 0.25, 0.5], [0.25, 0.25, 0.5]]
    np.testing.assert_allclose(to_array(divided), expected, rtol=1e-15)
    np.testing.assert_array_equal(
        to_array(take_rows(divided, np.array([2, 0]))), to_array(divided)[[2, 0]]
    )


def test_a_small_selection_is_a_copy_and_a_large_one_reads_the_array_itself():
    small, large = as_source(np.zeros((10, 4))), as_source(np.zeros((200_000, 4)))
    assert isinstance(take_rows(small, np.arange(9)), ArraySource)
    assert isinstance(clip_and_divide(small, False), ArraySource)
    assert isinstance(take_rows(large, np.arange(9)), ArraySource)
    picked = take_rows(clip_and_divide(large, False), np.arange(1, 200_000))
    again = take_rows(picked, np.arange(1, 199_999))
    assert again.source is large
    assert again.clipped
    assert again.rows[0] == 2
    contiguous = take_rows(large, np.arange(1, 200_000))
    assert np.shares_memory(contiguous.read(slice(5, 9)), large.array)


def sample():
    """Probabilities of float32, one of them beyond 1; labels; weights, some of them 0."""
    rng = np.random.default_rng(0)
    P = rng.dirichlet(np.full(4, 0.5), size=90).astype(np.float32)
    code = (np.cumsum(P, axis=1) < rng.random((90, 1))).sum(axis=1)
    P[5] = [0, 1.0000001, 0, 0]
    w = rng.integers(0, 3, 90).astype(float)
    w[5] = 1
    return code, P, w


@pytest.mark.parametrize("metric", ERRORS, ids=lambda metric: metric.__name__)
def test_an_error_is_that_of_copies(all_views, metric):
    code, P, w = sample()
    assert isinstance(check_predictions(code, P, w, range(4)).P, Selection)
    kept = w > 0
    expected = metric(code[kept], np.clip(P, 0, 1)[kept], sample_weight=w[kept], labels=range(4))
    assert metric(code, P, sample_weight=w, labels=range(4)) == expected


@pytest.mark.parametrize("calibrator", CALIBRATORS, ids=repr)
def test_a_fit_is_that_of_copies(all_views, calibrator):
    code, P, w = sample()
    kept, clipped = w > 0, np.clip(P, 0, 1)
    expected = clone(calibrator).fit(clipped[kept], code[kept], w[kept]).predict_proba(clipped)
    found = clone(calibrator).fit(P, code, w).predict_proba(P)
    np.testing.assert_array_equal(found, expected, strict=True)
