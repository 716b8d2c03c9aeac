"""Shares of several raters in metrics that take soft hits."""

from functools import partial

import numpy as np
import pandas as pd
import pytest
from scipy.special import softmax

from skcalib.metrics import (
    adaptive_calibration_error,
    expected_calibration_error,
    general_calibration_error,
    ks_calibration_error,
    label_binned_calibration_error,
    maximum_calibration_error,
    root_mean_squared_calibration_error,
    smooth_calibration_error,
    static_calibration_error,
    thresholded_adaptive_calibration_error,
    top_label_brier_score,
)

RATERS = 4
TOP = [
    expected_calibration_error,
    maximum_calibration_error,
    root_mean_squared_calibration_error,
    general_calibration_error,
    ks_calibration_error,
    label_binned_calibration_error,
    smooth_calibration_error,
    top_label_brier_score,
]
OF_CLASSES = [
    static_calibration_error,
    adaptive_calibration_error,
    thresholded_adaptive_calibration_error,
    partial(ks_calibration_error, mode="classwise"),
    partial(smooth_calibration_error, mode="classwise"),
]


def rated(n=400, K=3, seed=0):
    """Probabilities, the labels of four raters ``(n, 4)``, and their shares ``(n, K)``."""
    rng = np.random.default_rng(seed)
    Z = 2 * rng.normal(size=(n, K))
    labels = (Z[:, None] / 2 + rng.gumbel(size=(n, RATERS, K))).argmax(axis=2)
    return softmax(Z, axis=1), labels, (labels[:, :, None] == np.arange(K)).mean(axis=1)


@pytest.mark.parametrize("metric", TOP, ids=lambda metric: metric.__name__)
@pytest.mark.parametrize("weighted", [False, True])
def test_the_hit_of_the_top_label_is_its_share(metric, weighted):
    P, _, share = rated()
    w = np.random.default_rng(1).uniform(0.5, 2, len(P)) if weighted else None
    hit = share[np.arange(len(P)), P.argmax(axis=1)]
    assert metric(share, P, sample_weight=w) == pytest.approx(
        metric(hit, P.max(axis=1), sample_weight=w), rel=1e-9
    )


@pytest.mark.parametrize("metric", TOP + OF_CLASSES)
def test_a_row_that_counts_for_each_rater_is_a_row_for_each_rater(metric):
    P, labels, share = rated()
    value = metric(share, P, sample_weight=np.full(len(P), RATERS))
    assert value == pytest.approx(metric(labels.ravel(), np.repeat(P, RATERS, axis=0)), rel=1e-9)


def test_the_hit_of_a_class_is_its_share():
    P, _, share = rated()
    each = static_calibration_error(share, P, average=None)
    alone = [static_calibration_error(share[:, k], P[:, k]) for k in range(3)]
    np.testing.assert_allclose(each, alone, rtol=1e-9)
    of_second = expected_calibration_error(share, P, pos_label=1)
    assert of_second == pytest.approx(expected_calibration_error(share[:, 1], P[:, 1]), rel=1e-9)


def test_two_columns_are_one_event():
    P, _, share = rated(K=2)
    value = expected_calibration_error(share, P)
    assert value == pytest.approx(expected_calibration_error(share[:, 1], P[:, 1]), rel=1e-9)


def test_frames_of_shares_are_read_by_name():
    P, _, share = rated()
    names = ["dog", "ant", "cat"]
    X, y = pd.DataFrame(P, columns=names), pd.DataFrame(share, columns=names)
    each = static_calibration_error(share, P, average=None)
    of_frames = static_calibration_error(y[["ant", "cat", "dog"]], X, average=None)
    assert of_frames.index.tolist() == names
    np.testing.assert_allclose(of_frames, each, rtol=1e-9)
    in_order = static_calibration_error(y, P, labels=names, average=None)
    np.testing.assert_allclose(in_order, each, rtol=1e-9)


def test_shares_that_do_not_fit_are_refused():
    P, _, share = rated()
    with pytest.raises(ValueError, match=r"y_true has shape \(400, 3\), but y_proba has shape"):
        expected_calibration_error(share, P[:, :1])
    share[3] = 0.5, 0.3, np.nan
    with pytest.raises(ValueError, match=r"y_true: the shares of row 3 are \[0.5, 0.3, nan\]"):
        expected_calibration_error(share, P)
