"""The reliability diagram shows the numbers of its bins."""

import itertools

import numpy as np
import pandas as pd
import polars as pl
import pytest
from drawings import bins, predictions
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from skcalib import ReliabilityDisplay
from skcalib.metrics import (
    calibration_curve,
    calibration_intercept_slope,
    expected_calibration_error,
    integrated_calibration_index,
)

plt = pytest.importorskip("matplotlib.pyplot", reason="displays need the extra plot")


def drawn(line):
    return np.array(line.get_data())


def top(y, P):
    return P.max(axis=1), P.argmax(axis=1) == y


def class_two(y, P):
    return P[:, 2], y == 2


def within_two(y, P):
    order = np.argsort(-P, axis=1)[:, :2]
    return np.take_along_axis(P, order, 1).sum(axis=1), (order == y[:, None]).any(axis=1)


def second(y, P):
    order = np.argsort(-P, axis=1)[:, 1]
    return P[np.arange(len(y)), order], order == y


VIEWS = {
    "top": ({}, top),
    "class": ({"pos_label": 2}, class_two),
    "within top 2": ({"mode": "within_top", "r": 2}, within_two),
    "second": ({"r": 2}, second),
}


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("weighted", [False, True])
def test_points_are_the_bins(view, weighted):
    """Each point is the mean score and the share of hits of a bin, by loops over rows."""
    y, P, _ = predictions()
    w = np.random.default_rng(1).integers(4, size=400) if weighted else np.ones(400)
    keywords, reduce = VIEWS[view]
    display = ReliabilityDisplay.from_predictions(
        y, P, n_bins=8, sample_weight=w if weighted else None, **keywords
    )
    confidence, accuracy, weight = bins(*reduce(y, P), w, 8)
    np.testing.assert_allclose(drawn(display.line_), [confidence, accuracy])
    error = (weight * np.abs(accuracy - confidence)).sum() / weight.sum()
    assert display.error == pytest.approx(error)
    heights = display.histogram_.get_data().values
    np.testing.assert_allclose(heights[heights > 0], weight / w.sum())
    assert display.line_.get_label() == f"ECE {100 * error:.1f}%"


def test_quantile_bins_hold_equal_parts():
    """With quantile bins each point stands for as many rows, and the strip stays even."""
    y, P, _ = predictions()
    display = ReliabilityDisplay.from_predictions(y, P, n_bins=5, strategy="quantile")
    np.testing.assert_array_equal(display.table["weight"], 80)
    edges = display.histogram_.get_data().edges
    np.testing.assert_allclose(edges, np.linspace(0, 1, 6))
    expected = expected_calibration_error(y, P, n_bins=5, strategy="quantile")
    assert display.error == pytest.approx(expected)


def test_intervals_and_band_are_drawn_where_the_table_says():
    """The bars reach from low to high over each point; the band goes through its corners."""
    y, P, _ = predictions()
    display = ReliabilityDisplay.from_predictions(y, P, n_bins=6, confidence_level=0.8)
    table = display.table[display.table["weight"] > 0]
    x = table["confidence"].to_numpy()
    for segment, place, low, high in zip(
        display.interval_.get_segments(),
        x,
        table["accuracy_low"],
        table["accuracy_high"],
        strict=True,
    ):
        np.testing.assert_allclose(segment, [[place, low], [place, high]])
        assert low < high
    corners = {tuple(point) for point in display.band_.get_paths()[0].vertices.round(12)}
    for end in ("band_low", "band_high"):
        assert corners >= set(zip(x.round(12), table[end].round(12), strict=True))


def test_a_calibrated_model_stays_within_its_band():
    """Of 15 calibrated samples in 10 bins, about 5 % of the points lie outside of the band."""
    outside = []
    bare = {"ref_line": False, "interval": False, "histogram": False}
    for seed in range(15):
        rng = np.random.default_rng(seed)
        p = rng.random(500)
        table = ReliabilityDisplay.from_predictions(
            rng.random(500) < p, p, pos_label=True, n_bins=10, **bare
        ).table
        outside.append(
            (table["accuracy"] < table["band_low"]) | (table["accuracy"] > table["band_high"])
        )
        plt.close("all")
    assert 0.01 < np.mean(outside) < 0.07


def test_weights_are_copies_and_zero_is_absence():
    """Whole weights give the diagram of the repeated rows, intervals included."""
    y, P, _ = predictions(200)
    w = np.random.default_rng(0).integers(3, size=200)
    weighted = ReliabilityDisplay.from_predictions(y, P, sample_weight=w).table
    repeated = ReliabilityDisplay.from_predictions(np.repeat(y, w), np.repeat(P, w, axis=0)).table
    pd.testing.assert_frame_equal(
        weighted.drop(columns="count"), repeated.drop(columns="count"), rtol=1e-12
    )


def test_fractions_of_weights_count_as_effective_rows():
    """Weights of .5 throughout say as much of each bin as no weights."""
    y, P, _ = predictions(200)
    half = ReliabilityDisplay.from_predictions(y, P, sample_weight=np.full(200, 0.5)).table
    full = ReliabilityDisplay.from_predictions(y, P).table
    for column in ("accuracy_low", "accuracy_high", "band_low", "band_high"):
        np.testing.assert_allclose(half[column], full[column])


def test_row_order_and_containers_do_not_matter():
    """Shuffled rows, frames, polars and words as labels draw the same points."""
    y, P, _ = predictions(100, 3)
    points = drawn(ReliabilityDisplay.from_predictions(y, P).line_)
    words, order = np.array(["a", "b", "c"])[y], np.random.default_rng(0).permutation(100)
    for labels, proba in (
        (y[order], P[order]),
        (pd.Series(words, index=range(5, 105)), pd.DataFrame(P)),
        (pl.Series(words), pl.DataFrame(P)),
    ):
        np.testing.assert_allclose(
            drawn(ReliabilityDisplay.from_predictions(labels, proba).line_), points
        )


def test_one_column_is_the_second_class():
    """P(second) alone draws what two columns draw."""
    y, P, _ = predictions(100, 2)
    one = ReliabilityDisplay.from_predictions(y, P[:, 1], pos_label=1)
    two = ReliabilityDisplay.from_predictions(y, P, pos_label=1)
    np.testing.assert_allclose(drawn(one.line_), drawn(two.line_))


@pytest.mark.parametrize("n_classes", [2, 1000])
def test_exact_probabilities_and_missing_classes(n_classes):
    """Certain probabilities, few rows and classes without rows are drawn without a warning."""
    P = np.zeros((6, n_classes), dtype=np.float32)
    P[:, 0] = 1
    display = ReliabilityDisplay.from_predictions(
        [0, 0, 0, 1, 0, 1], P, labels=np.arange(n_classes)
    )
    display.figure_.canvas.draw()
    np.testing.assert_allclose(drawn(display.line_), [[1], [4 / 6]])


def test_several_models_share_an_axes():
    """They differ in colour, marker and dashes, and share diagonal, strip and legend."""
    y, P, _ = predictions()
    first = ReliabilityDisplay.from_predictions(y, P, name="one")
    second = ReliabilityDisplay.from_predictions(
        y, P**0.5 / (P**0.5).sum(1, keepdims=True), ax=first.ax_, name="two"
    )
    assert second.ax_ is first.ax_
    for look in ("get_color", "get_marker", "get_linestyle"):
        assert getattr(first.line_, look)() != getattr(second.line_, look)()
    (strip,) = first.ax_.child_axes
    assert first.histogram_.axes is second.histogram_.axes is strip
    texts = [text.get_text() for text in first.ax_.get_legend().get_texts()]
    assert texts.count("calibrated") == 1
    assert [text.split()[0] for text in texts[-2:]] == ["one", "two"]


def test_from_estimator_is_from_predictions():
    """An estimator's display is that of its probabilities, under its own name."""
    y, _, Z = predictions()
    words = np.array(["p", "q", "r", "s"])[y]
    model = LogisticRegression().fit(Z, words)
    display = ReliabilityDisplay.from_estimator(model, Z, words, n_bins=6)
    expected = ReliabilityDisplay.from_predictions(words, model.predict_proba(Z), n_bins=6)
    np.testing.assert_array_equal(drawn(display.line_), drawn(expected.line_))
    assert display.name == "LogisticRegression"
    named = ReliabilityDisplay.from_estimator(model, Z, words, name="mine", pos_label="q")
    assert named.line_.get_label().startswith("mine (ECE ")
    assert named.ax_.get_xlabel() == "Probability of class q"


def test_options_leave_things_out_and_style_the_line():
    """Without reference, interval, band and histogram the curve is alone, in the user's style."""
    y, P, _ = predictions()
    _, ax = plt.subplots()
    display = ReliabilityDisplay.from_predictions(
        y, P, ax=ax, ref_line=False, interval=False, band=False, histogram=False, c="red", ls=":"
    )
    assert (display.interval_, display.band_, display.histogram_) == (None, None, None)
    assert display.ax_ is ax
    assert len(ax.lines) == 1
    assert not ax.collections
    assert not ax.child_axes
    assert (display.line_.get_color(), display.line_.get_linestyle()) == ("red", ":")
    assert display.plot(name="again").line_.get_label().startswith("again (ECE")


@pytest.mark.parametrize("layout", ["constrained", "tight", None])
def test_layouts_do_not_warn_and_nothing_leaves_its_axes(layout):
    """In a grid of the user's the strip stays within the axes, under every layout."""
    figure, axes = plt.subplots(1, 2, layout=layout, figsize=(6, 3))
    for ax, factor in zip(axes, (2, 0.4), strict=True):  # legends left and right
        y, P, _ = predictions(factor=factor)
        ReliabilityDisplay.from_predictions(y, P, ax=ax)
    figure.canvas.draw()
    for ax in axes:
        outer, inner = ax.get_window_extent(), ax.child_axes[0].get_window_extent()
        assert outer.x0 <= inner.x0 + 1e-6
        assert outer.y0 <= inner.y0 + 1e-6
        legend = ax.get_legend().get_window_extent()
        assert legend.y0 >= inner.y1  # the legend stays off the histogram


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"confidence_level": 95}, "confidence_level must be in"),
        ({"mode": "all"}, "mode must be one of"),
        ({"pos_label": 7}, "pos_label=7"),
        ({"pos_label": 1, "mode": "within_top"}, "but one event is measured"),
        ({"n_bins": 0}, "n_bins must be"),
        ({"strategy": "even"}, "strategy must be"),
        ({"r": 9}, "r must be a whole number from 1 to 4"),
        ({"sample_weight": [1.0]}, "sample_weight"),
    ],
)
def test_wrong_arguments_are_refused_in_one_line(keywords, message):
    """What is wrong is said before anything is drawn."""
    y, P, _ = predictions(50)
    with pytest.raises(ValueError, match=message) as caught:
        ReliabilityDisplay.from_predictions(y, P, **keywords)
    assert "\n" not in str(caught.value)
    assert not plt.get_fignums()


def test_an_estimator_without_probabilities_is_refused():
    """A classifier that only decides cannot be drawn."""
    from sklearn.svm import LinearSVC

    y, _, Z = predictions(50)
    with pytest.raises(ValueError, match="has no predict_proba"):
        ReliabilityDisplay.from_estimator(LinearSVC().fit(Z, y), Z, y)


def test_a_class_that_the_estimator_never_saw_counts_as_a_miss():
    y, P, _ = predictions(60)
    model = LogisticRegression().fit(P[y != 3], y[y != 3])
    shown = ReliabilityDisplay.from_estimator(model, P, y)
    padded = np.column_stack([model.predict_proba(P), np.zeros(60)])
    assert shown.error == pytest.approx(expected_calibration_error(y, padded))


# ------------------------------------------------------------------ curves, limits, statistics


def rare(n=3000, slope=0.7, seed=0, rate=-4.3):
    rng = np.random.default_rng(seed)
    x = rng.normal(rate, 1.0, n)
    hit = rng.random(n) < 1 / (1 + np.exp(-(rate + slope * (x - rate))))
    return hit.astype(int), 1 / (1 + np.exp(-x))


@pytest.mark.parametrize("curve", ["smooth", "isotonic"])
def test_curves_are_those_of_calibration_curve(curve):
    """The line goes through its points, and both shades through its bands."""
    y, p = rare()
    w = np.random.default_rng(0).integers(0, 3, y.size)
    display = ReliabilityDisplay.from_predictions(
        y, p, curve=curve, sample_weight=w, confidence_level=0.9
    )
    expected = calibration_curve(y, p, method=curve, sample_weight=w, confidence_level=0.9)
    np.testing.assert_allclose(drawn(display.line_), [expected.prob_pred, expected.prob_true])
    for shade, ends in ((display.interval_, "low high"), (display.band_, "low_simultaneous")):
        path = {tuple(point) for point in shade.get_paths()[0].vertices.tolist()}
        for end in ends.split():
            points = zip(expected.prob_pred, getattr(expected, end), strict=True)
            assert {(float(a), float(b)) for a, b in points} <= path
    assert display.line_.get_marker() == ""
    text = " ".join(t.get_text() for t in display.ax_.get_legend().get_texts())
    assert "90%, each score" in text
    assert "90%, whole curve" in text


@pytest.mark.parametrize(
    ("scores", "hits", "limits"),
    [
        ([0.01, 0.02, 0.04], [0, 0, 0], (0.0, 0.05)),
        ([0.01, 0.02, 0.09], [0, 0, 0], (0.0, 0.1)),
        ([0.97, 0.98, 0.99], [1, 1, 1], (0.95, 1.0)),
        ([0.1, 0.2, 0.6], [0, 0, 1], (0.0, 1.0)),
        ([0.01, 0.02, 0.04], [1, 0, 1], (0.0, 1.0)),  # rates are far above the scores
    ],
)
def test_axes_show_where_the_data_of_one_event_are(scores, hits, limits):
    display = ReliabilityDisplay.from_predictions(hits, scores)
    assert display.limits == pytest.approx(limits)
    margin = 0.02 * (limits[1] - limits[0])
    ends = limits[0] - margin, limits[1] + margin
    assert display.ax_.get_xlim() == pytest.approx(ends)
    assert display.ax_.get_ylim()[1] == pytest.approx(ends[1])
    edges = display.histogram_.get_data().edges
    assert (edges[0], edges[-1]) == pytest.approx(limits)


def test_a_rare_event_fills_the_picture_in_any_view_but_the_top_label_does_not():
    y, p = rare()
    for curve in ("bins", "smooth", "isotonic"):
        assert ReliabilityDisplay.from_predictions(y, p, curve=curve).limits[1] <= 0.3
    two = np.column_stack([1 - p, p])
    assert ReliabilityDisplay.from_predictions(y, two, curve="smooth").limits == (0.0, 1.0)
    assert ReliabilityDisplay.from_predictions(y, two, pos_label=1).limits[1] <= 0.3


def test_limits_of_the_user_are_kept():
    """Set before the first display, or between two of them; on either axis."""
    y, p = rare()
    _, ax = plt.subplots()
    ax.set_xlim(0, 0.07)
    ReliabilityDisplay.from_predictions(y, p, curve="smooth", ax=ax)
    assert ax.get_xlim() == (0, 0.07)
    assert ax.get_ylim()[1] > 0.07
    _, ax = plt.subplots()
    ax.set_ylim(0, 0.6)
    ReliabilityDisplay.from_predictions(y, p, ax=ax)
    assert ax.get_ylim() == (0, 0.6)
    first = ReliabilityDisplay.from_predictions(y, p, curve="smooth")
    first.ax_.set(xlim=(0, 0.02), ylim=(0, 0.03))
    ReliabilityDisplay.from_predictions(y, p**0.5, curve="smooth", ax=first.ax_)
    assert (first.ax_.get_xlim(), first.ax_.get_ylim()) == ((0, 0.02), (0, 0.03))


def test_a_second_model_widens_the_square_to_hold_both():
    y, p = rare()
    first = ReliabilityDisplay.from_predictions(y, p, curve="smooth")
    before = first.ax_.get_xlim()[1]
    second = ReliabilityDisplay.from_predictions(y, p**0.5, curve="smooth", ax=first.ax_)
    assert first.ax_.get_xlim()[1] > before
    assert second.ax_.get_xlim()[1] >= second.limits[1]
    assert first.ax_.get_ylim()[0] < 0  # room for the strip
    assert len([line for line in first.ax_.lines if line.get_gid() == "skcalib-floor"]) == 1


def test_the_strip_of_a_curve_has_events_above_and_other_rows_below():
    y, p = rare()
    display = ReliabilityDisplay.from_predictions(y, p, curve="smooth", n_bins=7)
    frame = display.histogram
    edges = np.linspace(*display.limits, 8)
    for name, kept in (("events", y == 1), ("others", y == 0)):
        expected = [((p[kept] >= a) & (p[kept] < b)).mean() for a, b in itertools.pairwise(edges)]
        np.testing.assert_allclose(frame[name], expected)
    strip = display.ax_.child_axes[0]
    heights = [patch.get_data().values for patch in strip.patches]
    assert any(np.array_equal(h, frame["events"]) for h in heights)
    assert any(np.array_equal(h, -frame["others"]) for h in heights)


@pytest.mark.parametrize(
    ("curve", "slope", "width"),  # each curve and each slope in either width
    [
        (curve, slope, (3.0, 5.0)[(i + j) % 2])
        for i, curve in enumerate(["bins", "smooth", "isotonic"])
        for j, slope in enumerate([0.5, 1.0, 1.6])
    ],
)
def test_statistics_are_written_on_request_and_cover_no_data(curve, slope, width):
    y, p = rare(slope=slope)
    figure = plt.figure(figsize=(width, width), layout="constrained")
    display = ReliabilityDisplay.from_predictions(
        y, p, curve=curve, statistics=True, ax=figure.add_subplot()
    )
    index = integrated_calibration_index(y, p)
    numbers = display.numbers
    assert numbers["n"] == 3000
    assert numbers["events"] == y.sum()
    assert numbers["C"] == pytest.approx(roc_auc_score(y, p))
    assert (numbers["ICI"], numbers["E90"]) == pytest.approx((index.ici, index.e90))
    line = calibration_intercept_slope(y, p)
    assert (numbers["slope"], numbers["intercept"]) == pytest.approx((line.slope, line.intercept))
    assert f"ICI {index.ici:.3g}" in display.statistics_.get_text()
    figure.draw_without_rendering()
    box = display.statistics_.get_window_extent()
    x, rate = display.line_.get_transform().transform(np.transpose(drawn(display.line_))).T
    left, low, right, high = display.ax_.get_window_extent().extents
    seen = (x >= left) & (x <= right) & (rate >= low) & (rate <= high)
    x, rate = x[seen], rate[seen]
    over = (x > box.x0) & (x < box.x1) & (rate > box.y0) & (rate < box.y1)
    assert not over.any()
    assert not box.overlaps(display.ax_.get_legend().get_window_extent())


def test_statistics_are_not_written_unasked():
    plain = ReliabilityDisplay.from_predictions(*rare())
    assert (plain.statistics_, plain.numbers) == (None, None)


def test_statistics_that_do_not_exist_are_left_out():
    display = ReliabilityDisplay.from_predictions([0, 0, 0], [0.2, 0.3, 0.2], statistics=True)
    assert list(display.numbers) == ["n", "events", "ICI", "E90"]


def test_statistics_that_were_not_asked_for_can_still_be_drawn_again():
    y, p = rare()
    display = ReliabilityDisplay.from_predictions(y, p, curve="smooth", statistics=True)
    assert display.plot(statistics=False).statistics_ is None
    with pytest.raises(ValueError, match="statistics=True"):
        ReliabilityDisplay.from_predictions(y, p).plot(statistics=True)
    with pytest.raises(ValueError, match="curve must be one of"):
        ReliabilityDisplay.from_predictions(y, p, curve="loess")
    with pytest.raises(ValueError, match="statistics must be True or False"):
        ReliabilityDisplay.from_predictions(y, p, statistics=pd.NA)
