"""The KS graphs show cumulative sums, and the error where they are farthest apart."""

import numpy as np
import pytest
from drawings import predictions
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
    """Ties, weights and all, by loops over rows; the cumulative views start at the origin."""
    y, P, _ = predictions(120, 3)
    P = P.round(2)
    P[:, 0] = 1 - P[:, 1] - P[:, 2]
    w = np.random.default_rng(0).integers(1, 4, size=120) if weighted else np.ones(120)
    display = KSDisplay.from_predictions(y, P, sample_weight=w if weighted else None)
    percentile, score, g, h = curves(P.max(axis=1), P.argmax(axis=1) == y, w)
    zero = [0.0]
    for x, line_s, line_a, start in zip(
        (percentile, g, percentile, score),
        display.score_lines_,
        display.accuracy_lines_,
        (zero, zero, [], []),
        strict=True,
    ):
        np.testing.assert_allclose(line_s.get_xdata(), [*start, *x], atol=1e-12)
        np.testing.assert_allclose(line_s.get_xdata(), line_a.get_xdata())
        np.testing.assert_allclose(line_s.get_ydata(), [*start, *(g if start else score)])
    for line in display.accuracy_lines_[:2]:
        np.testing.assert_allclose(line.get_ydata(), [0.0, *h], atol=1e-12)
    gap = np.abs(g - h)
    assert display.error == pytest.approx(gap.max())
    assert display.place == gap.argmax()


def test_the_mark_is_as_long_as_the_error():
    """In the cumulative views it joins the curves at their greatest distance: the KS error."""
    y, P, _ = predictions()
    display = KSDisplay.from_predictions(y, P, name="sharp")
    assert display.error == pytest.approx(ks_calibration_error(y, P))
    for mark in display.ks_marks_[:2]:
        bottom, top = mark.get_ydata()
        assert abs(bottom - top) == pytest.approx(display.error)
    assert set(display.ks_marks_[3].get_xdata()) == {display.score[display.place]}
    assert display.accuracy_lines_[0].get_label() == f"sharp (KS {100 * display.error:.1f}%)"


def test_accuracy_is_the_slope_of_a_spline():
    """In the last two views it is what a spline makes of the score of the top label."""
    y, P, _ = predictions()
    display = KSDisplay.from_predictions(y, P, n_knots=5)
    score, hit = P.max(axis=1), P.argmax(axis=1) == y
    spline = SplineCalibrator(n_knots=5).fit(score, hit)
    expected = spline.predict_proba(np.sort(score))[:, 1]
    for line in display.accuracy_lines_[2:]:
        np.testing.assert_allclose(line.get_ydata(), expected)


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


def test_several_models_and_chosen_views():
    """A second model goes on the same axes; views can be picked, for axes of one's own."""
    y, P, Z = predictions()
    first = KSDisplay.from_predictions(y, P, views=["score", "cumulative_score"], name="a")
    second = KSDisplay.from_estimator(
        GaussianNB().fit(Z, y), Z, y, views=["score", "cumulative_score"], ax=first.axes_
    )
    assert second.axes_ == first.axes_
    assert first.accuracy_lines_[0].get_marker() != second.accuracy_lines_[0].get_marker()
    (legend,) = first.figure_.legends
    texts = [text.get_text().split(" (")[0] for text in legend.get_texts()]
    marks = ["place of the KS error", "KS error"]
    assert sorted(texts) == sorted(["Confidence", "a", "GaussianNB", *marks])
    _, ax = plt.subplots()
    assert KSDisplay.from_predictions(y, P, views="percentile", ax=ax).ax_ is ax


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"views": ["all"]}, "views must be some of"),
        ({"views": []}, "views must be some of"),
        ({"ax": [1]}, "ax contains 1 axes but 4 are drawn"),
    ],
)
def test_wrong_arguments_are_refused(keywords, message):
    y, P, _ = predictions(50)
    with pytest.raises(ValueError, match=message):
        KSDisplay.from_predictions(y, P, **keywords)


def test_the_gap_is_drawn_where_the_curves_cannot_be_told_apart():
    """As a fifth panel in a figure of its own, or where five axes are given."""
    y, P, _ = predictions(3000, factor=1.02)
    display = KSDisplay.from_predictions(y, P)
    assert display.error < 0.03
    assert len(display.axes_) == 5
    line = display.accuracy_lines_[-1]
    gap = np.append(0.0, display.cumulative_score - display.cumulative_accuracy)
    x = np.append(0.0, display.percentile)
    np.testing.assert_allclose(np.interp(line.get_xdata(), x, gap), line.get_ydata(), atol=1e-12)
    bottom, top = display.ks_marks_[-1].get_ydata()
    assert abs(bottom - top) == pytest.approx(display.error)
    y, P, _ = predictions(factor=3)
    far = KSDisplay.from_predictions(y, P)
    assert far.error > 0.03
    assert len(far.axes_) == 4
    assert len(KSDisplay.from_predictions(y, P, ax=display.axes_).axes_) == 5
    assert len(KSDisplay.from_predictions(y, P, views="gap").axes_) == 1


def test_panels_have_titles_of_their_own():
    y, P, _ = predictions(factor=3)
    for keywords, rate in (({}, "accuracy"), ({"pos_label": 1}, "share")):
        display = KSDisplay.from_predictions(y, P, **keywords)
        titles = [panel.get_title() for panel in display.axes_]
        assert len(set(titles)) == 4
        assert rate in titles[3]
        assert display.accuracy_lines_[0].get_label().startswith(f"{rate} (KS ")
