"""Rows chosen and values clipped when they are read: the same numbers as of a copy."""

import numpy as np
import pytest

from skcalib._arrays.selection import clip_and_divide, take_rows
from skcalib._arrays.sources import ArraySource, as_source, to_array


@pytest.mark.parametrize("copied_bytes", [0, 1 << 20])
def test_rows_are_divided_by_their_sums_after_clipping(copied_bytes, monkeypatch):
    """Both as copies and as views."""
    monkeypatch.setattr("skcalib._arrays.selection.COPIED_BYTES", copied_bytes)
    P = np.array([[0.5, 0.5, -0.1], [1.0, 1.0, 2.0], [0.2, 0.2, 0.4]])
    divided = clip_and_divide(as_source(P), True)
    expected = [[0.5, 0.5, 0.0], [0.25, 0.25, 0.5], [0.25, 0.25, 0.5]]
    np.testing.assert_allclose(to_array(divided), expected, rtol=1e-15)
    picked = take_rows(divided, np.array([2, 0]))
    np.testing.assert_array_equal(to_array(picked), to_array(divided)[[2, 0]])
    clipped = to_array(clip_and_divide(as_source(P), False))
    np.testing.assert_array_equal(clipped, np.clip(P, 0, 1))


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
