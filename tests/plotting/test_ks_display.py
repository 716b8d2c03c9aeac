"""The KS graphs show cumulative sums, and the error where they are farthest apart."""

import numpy as np
import pytest
from calls import refused
from drawings import legend_names, predictions
from sklearn.naive_bayes import GaussianNB

from skcalib import KSDisplay, SplineCalibrator
from skcalib.metrics import ks_calibration_error

plt = pytest.importorskip("matplotlib.pyplot", reason="displays need the extra plot")


def curves(score, hit, weight):
    """Percentile, score, cumulative score and accuracy at each distinct score, by loops."""
    found = []
    for s in sorted(set(score.tolist())):
        up_to = [i for i in range(len(score)) if score[i] <= s]
        found.append(
            (
                100 * sum(weight[i] for i in up_to) / weight.sum(),
                s,
                sum(weight[i] * score[i] for i in up_to) / weight.sum(),
                sum(weight[i] * hit[i] for i in up_to) / weight.sum(),
            )
        )
    return np.array(found).T


@pytest.mark.parametrize("weighted", [False, True])
def test_curves_are_cumulative_sums(weighted):
    """Ties, weights and all, by loops over rows; the gap starts at 0."""
    y, P, _ = predictions(120, 3)
    P = P.round(2)
    P[:, 0] = 1 - P[:, 1] - P[:, 2]
    w = np.random.default_rng(0).integers(1, 4, size=120) if weighted else np.ones(120)
    display = KSDisplay.from_predictions(y, P, sample_weight=w if weighted else None)
    percentile, score, g, h = curves(P.max(axis=1), P.argmax(axis=1) == y, w)
    np.testing.assert_allclose(display.accuracy_line_.get_xdata(), score)
    x, gap = display.gap_line_.get_data()
    np.testing.assert_allclose(x, [0.0, *percentile])
    np.testing.assert_allclose(gap, [0.0, *(g - h)], atol=1e-12)
    assert display.error == pytest.approx(np.abs(g - h).max())
    assert display.place == np.abs(g - h).argmax()


def test_the_mark_is_as_long_as_the_error():
    """It joins the gap to 0 where that is largest: the KS error."""
    y, P, _ = predictions()
    display = KSDisplay.from_predictions(y, P, name="sharp")
    assert display.error == pytest.approx(ks_calibration_error(y, P))
    bottom, top = display.ks_mark_.get_ydata()
    assert abs(bottom - top) == pytest.approx(display.error)
    assert set(display.ks_mark_.get_xdata()) == {display.percentile[display.place]}
    assert display.accuracy_line_.get_label() == f"sharp (KS {100 * display.error:.1f}%)"


def test_accuracy_is_the_slope_of_a_spline():
    """It is what a spline makes of the score of the top label."""
    y, P, _ = predictions()
    display = KSDisplay.from_predictions(y, P, n_knots=5)
    score, hit = P.max(axis=1), P.argmax(axis=1) == y
    spline = SplineCalibrator(n_knots=5).fit(score, hit)
    expected = spline.predict_proba(np.sort(score))[:, 1]
    np.testing.assert_allclose(display.accuracy_line_.get_ydata(), expected)


@pytest.mark.parametrize(
    ("keywords", "of_metric"),
    [
        ({"pos_label": 2}, {"mode": "classwise", "average": None}),
        ({"mode": "within_top", "r": 2}, {"mode": "within_top", "r": 2}),
        ({"r": 2}, {"r": 2}),
    ],
)
def test_other_events(keywords, of_metric):
    """A class, within-top-r and top-r have the error of the metric."""
    y, P, _ = predictions()
    expected = np.ravel(ks_calibration_error(y, P, **of_metric))[2 * ("pos_label" in keywords)]
    assert KSDisplay.from_predictions(y, P, **keywords).error == pytest.approx(expected)


def test_several_models_share_two_axes():
    """Each entry of a legend is there once; other numbers of axes are refused."""
    y, P, Z = predictions()
    first = KSDisplay.from_predictions(y, P, name="a")
    second = KSDisplay.from_estimator(GaussianNB().fit(Z, y), Z, y, ax=first.axes_)
    assert second.axes_ == first.axes_
    assert first.accuracy_line_.get_marker() != second.accuracy_line_.get_marker()
    legends = [legend_names(ax.get_legend()) for ax in first.axes_]
    assert legends == [["a", "GaussianNB", "calibrated"], ["KS error"]]
    _, ax = plt.subplots()
    refused("ax contains 1 axes, but 2 are needed", KSDisplay.from_predictions, y, P, ax=ax)


def test_axes_are_named_by_what_is_measured():
    y, P, _ = predictions(factor=3)
    for keywords, rate in (({}, "Accuracy"), ({"pos_label": 1}, "Frequency")):
        display = KSDisplay.from_predictions(y, P, **keywords)
        assert display.ax_.get_ylabel() == rate
        assert display.accuracy_line_.get_label().startswith(f"{rate.lower()} (KS ")
