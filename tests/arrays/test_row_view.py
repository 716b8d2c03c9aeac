"""Rows chosen and values clipped when they are read: the same numbers as of a copy."""

import pickle

import numpy as np
import pandas as pd
import pytest
from discovery import CALIBRATORS, ERRORS
from sklearn.base import clone

from skcalib import IdentityCalibrator, PlattScaling, compare_calibrators, metrics
from skcalib._arrays.row_view import RowView, clip_and_divide, pick_rows
from skcalib._validation.predictions import check_predictions
from skcalib.metrics import bootstrap_interval, calibration_test

INDICES = [
    slice(None),
    slice(2, 7),
    slice(2, 2),
    slice(None, None, 3),
    slice(None, None, -1),
    3,
    -1,
    np.array([4, 0, 4]),
    np.arange(12) % 3 == 0,
    (slice(2, 7), slice(1, 3)),
    (slice(None), slice(1, 3)),
    (slice(None), 1),
    (slice(None), np.array([0, 2])),
    (np.array([1, 5]), np.array([0, 2])),
    (2, 1),
    ...,
    (slice(None), None),
    None,
]
ROWS = {
    "all": None,
    "without a gap": np.arange(3, 15),
    "with a gap": np.delete(np.arange(13), 4),
    "repeated": np.repeat([2, 3, 7, 8], 3),
}


@pytest.fixture
def all_views(monkeypatch):
    """Make views where copies are small too."""
    monkeypatch.setattr("skcalib._arrays.row_view.COPIED_BYTES", 0)


def made(rows, clipped):
    array = np.random.default_rng(0).normal(0.5, 0.5, size=(12 if rows is None else 20, 4))
    copy = array if rows is None else array[rows]
    return RowView(array, rows, clipped), np.clip(copy, 0, 1) if clipped else copy


@pytest.mark.parametrize("clipped", [False, True])
@pytest.mark.parametrize("rows", ROWS.values(), ids=ROWS)
def test_a_part_is_that_of_a_copy(rows, clipped):
    view, copy = made(rows, clipped)
    for index in INDICES:
        np.testing.assert_array_equal(view[index], copy[index], strict=True)


@pytest.mark.parametrize("rows", ROWS.values(), ids=ROWS)
def test_a_view_does_what_an_array_does(rows):
    view, copy = made(rows, clipped=True)
    for name in ("shape", "dtype", "ndim", "size", "itemsize", "nbytes"):
        assert getattr(view, name) == getattr(copy, name)
    assert len(view) == len(copy)
    for function in (
        np.asarray,
        np.log1p,
        lambda A: A.max(axis=1),
        lambda A: A.T,
        lambda A: A.astype(np.float32),
        lambda A: 1 - A,
        lambda A: A * A,
        lambda A: A[A > 0.5],
        lambda A: np.ones(len(A)) @ A,
        lambda A: np.take_along_axis(A, np.zeros((len(A), 1), dtype=int), axis=1),
        lambda A: np.einsum("ij->i", A),
    ):
        np.testing.assert_array_equal(function(view), function(copy))
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(view)), copy)


def test_a_view_is_read_only_and_has_no_attributes_but_an_array_s():
    view, _ = made(None, clipped=False)
    with pytest.raises(TypeError, match="assignment"):
        view[0] = 1.0
    assert not hasattr(view, "iloc")


def test_a_small_copy_is_an_array_and_a_large_one_a_view_of_the_array_itself():
    small, large = np.zeros((10, 4)), np.zeros((200_000, 4))
    rows = np.arange(9)
    assert type(pick_rows(small, rows)) is type(clip_and_divide(small, False)) is np.ndarray
    assert type(pick_rows(large, rows)) is np.ndarray
    picked = pick_rows(clip_and_divide(large, False), np.arange(1, 200_000))
    again = pick_rows(picked, np.arange(1, 199_999))
    assert type(again) is RowView
    assert again.array is large
    assert again.clipped
    assert again.rows[0] == 2
    assert np.shares_memory(pick_rows(large, np.arange(1, 200_000))[5:9], large)


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
    assert type(check_predictions(code, P, w, range(4)).P) is RowView
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


def plain(y_true, y_proba):
    """A metric of no package, which takes arrays."""
    return (y_proba.argmax(axis=1) != y_true).mean()


@pytest.mark.parametrize("metric", [metrics.static_calibration_error, plain])
@pytest.mark.parametrize("scale", [1.0, 0.5])
def test_resamples_are_those_of_copies(all_views, metric, scale):
    code, P, w = sample()
    kept, w = w > 0, scale * w
    keywords = {"n_resamples": 12, "random_state": 0, "labels": range(4)}
    for function in (bootstrap_interval, calibration_test):
        if metric is plain and scale < 1:
            continue
        found = function(metric, code, P, sample_weight=w, **keywords)
        copies = code[kept], np.clip(P, 0, 1)[kept]
        expected = function(metric, *copies, sample_weight=w[kept], **keywords)
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_array_equal(a, b)


def test_a_comparison_is_that_of_copies(all_views):
    code, P, w = sample()
    kept = w > 0
    calibrators = {"identity": IdentityCalibrator(), "platt": PlattScaling()}
    keywords = {"calibrators": calibrators, "cv": 3, "classes": range(4), "random_state": 0}
    found = compare_calibrators(P, code, sample_weight=w, **keywords)
    clipped = np.clip(P, 0, 1)[kept]
    expected = compare_calibrators(clipped, code[kept], sample_weight=w[kept], **keywords)
    numbers = [name for name in found.columns if "seconds" not in name[0]]
    pd.testing.assert_frame_equal(found[numbers], expected[numbers], check_exact=True)
