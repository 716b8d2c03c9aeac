"""Shares of several raters in metrics that take soft hits."""

from functools import partial

import numpy as np
import pandas as pd
import pytest
import samples
from calls import refused
from scipy.special import softmax

from skcalib import CalibrationMonitor, metrics
from skcalib.plotting import DecompositionDisplay, ReliabilityDisplay

RATERS = 4
TOP = [
    metrics.expected_calibration_error,
    metrics.maximum_calibration_error,
    metrics.root_mean_squared_calibration_error,
    metrics.general_calibration_error,
    metrics.ks_calibration_error,
    metrics.label_binned_calibration_error,
    metrics.smooth_calibration_error,
    metrics.top_label_brier_score,
    metrics.score_decomposition,
    metrics.local_calibration,
]
# How sure these are of their shape depends on the number of rows, not on weights alone.
OF_ROWS = [
    lambda *a, **k: metrics.reliability_table(*a, **k)[["count", "confidence", "accuracy", "gap"]],
    lambda *a, **k: metrics.calibration_curve(*a, **k).prob_true,
    lambda *a, **k: metrics.integrated_calibration_index(*a, **k),
    lambda *a, **k: metrics.bootstrap_interval(
        metrics.ks_calibration_error, *a, random_state=0, **k
    ),
]
OF_CLASSES = [
    metrics.static_calibration_error,
    metrics.adaptive_calibration_error,
    metrics.thresholded_adaptive_calibration_error,
    partial(metrics.ks_calibration_error, mode="classwise"),
    partial(metrics.smooth_calibration_error, mode="classwise"),
    partial(metrics.score_decomposition, mode="classwise"),
]


def rated(K=3):
    """Probabilities, the labels of four raters ``(n, 4)``, and their shares ``(n, K)``."""
    Z, labels, share = samples.rated(400, K)
    return softmax(Z, axis=1), labels, share


@pytest.mark.parametrize("metric", TOP + OF_ROWS)
@pytest.mark.parametrize("weighted", [False, True])
def test_the_hit_of_the_top_label_is_its_share(metric, weighted):
    P, _, share = rated()
    w = np.random.default_rng(1).uniform(0.5, 2, len(P)) if weighted else None
    hit = share[np.arange(len(P)), P.argmax(axis=1)]
    expected = metric(hit, P.max(axis=1), sample_weight=w)
    np.testing.assert_allclose(metric(share, P, sample_weight=w), expected, rtol=1e-9)


@pytest.mark.parametrize("metric", TOP + OF_CLASSES)
def test_a_row_that_counts_for_each_rater_is_a_row_for_each_rater(metric):
    P, labels, share = rated()
    value = metric(share, P, sample_weight=np.full(len(P), RATERS))
    expected = metric(labels.ravel(), np.repeat(P, RATERS, axis=0))
    np.testing.assert_allclose(value, expected, rtol=1e-9)


def test_the_hit_of_a_class_is_its_share():
    P, _, share = rated()
    each = metrics.static_calibration_error(share, P, average=None)
    alone = [metrics.static_calibration_error(share[:, k], P[:, k]) for k in range(3)]
    np.testing.assert_allclose(each, alone, rtol=1e-9)
    error = metrics.expected_calibration_error
    expected = pytest.approx(error(share[:, 1], P[:, 1]), rel=1e-9)
    assert error(share, P, pos_label=1) == expected
    P, _, share = rated(K=2)  # two columns are one event
    assert error(share, P) == pytest.approx(error(share[:, 1], P[:, 1]), rel=1e-9)


def test_a_bootstrap_gives_other_metrics_the_shares():
    P, _, share = rated()

    def log_loss(y, P):
        return float(-(y * np.log(P)).sum(axis=1).mean())

    found = metrics.bootstrap_interval(log_loss, share, P, n_resamples=50, random_state=0)
    assert found.estimate == pytest.approx(log_loss(share, P))
    assert found.low < found.estimate < found.high


@pytest.mark.usefixtures("closed_figures")
def test_displays_show_shares():
    P, labels, share = rated()
    hit = share[np.arange(len(P)), P.argmax(axis=1)]
    top = ReliabilityDisplay.from_predictions(share, P)
    assert top.means == pytest.approx((P.max(axis=1).mean(), hit.mean()))
    every = ReliabilityDisplay.from_predictions(share, P, mode="all")
    of_raters = ReliabilityDisplay.from_predictions(
        labels.ravel(), np.repeat(P, RATERS, axis=0), mode="all"
    )
    assert every.error == pytest.approx(of_raters.error, rel=1e-9)
    parts = DecompositionDisplay.from_predictions(share, P).frame.loc["model"]
    assert parts.tolist() == list(metrics.score_decomposition(share, P))


def test_a_monitor_bets_on_shares():
    P, _, share = rated(K=2)
    of_event = CalibrationMonitor().update(share[:, 1], P[:, 1])
    assert CalibrationMonitor().update(share, P).e_value_ == pytest.approx(of_event.e_value_)
    P, labels, share = rated()
    frames = [
        CalibrationMonitor(labels=range(3)).update(y, Q).frame
        for y, Q in ((share, P), (labels.ravel(), np.repeat(P, RATERS, axis=0)))
    ]
    columns = ["mean_proba", "rate"]
    np.testing.assert_allclose(*(frame[columns] for frame in frames), rtol=1e-9)


def test_what_takes_no_shares_says_so():
    P, _, share = rated()
    with pytest.raises(ValueError, match="avuc_loss takes one label for each row; draw the label"):
        metrics.bootstrap_interval(metrics.avuc_loss, share, P)
    with pytest.raises(
        ValueError, match=r"draw the label of one rater per row, rng.choice\(K, p=row\)"
    ):
        metrics.calibration_interval(metrics.expected_calibration_error, share, P)
    for call in (
        partial(metrics.ks_calibration_error, r=2),
        partial(metrics.ks_calibration_error, mode="within_top"),
        partial(metrics.score_decomposition, mode="joint"),
    ):
        says = "soft labels of several raters, but .* needs? labels: pass one label for each row"
        refused(says, call, share, P)


def test_frames_of_shares_are_read_by_name():
    P, _, share = rated()
    names = ["dog", "ant", "cat"]
    X, y = pd.DataFrame(P, columns=names), pd.DataFrame(share, columns=names)
    each = metrics.static_calibration_error(share, P, average=None)
    of_frames = metrics.static_calibration_error(y[["ant", "cat", "dog"]], X, average=None)
    assert of_frames.index.tolist() == names
    np.testing.assert_allclose(of_frames, each, rtol=1e-9)
    in_order = metrics.static_calibration_error(y, P, labels=names, average=None)
    np.testing.assert_allclose(in_order, each, rtol=1e-9)
