"""The reliability diagram shows the numbers of its bins."""

import itertools

import numpy as np
import pandas as pd
import pytest
from calls import refused
from drawings import bins, nothing_is_cut, predictions
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from skcalib import ReliabilityDisplay
from skcalib.metrics import (
    calibration_curve,
    calibration_intercept_slope,
    calibration_summary,
    expected_calibration_error,
    integrated_calibration_index,
    score_decomposition,
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
    few = weight < 10
    np.testing.assert_allclose(drawn(display.line_), np.where(few, np.nan, [confidence, accuracy]))
    faint = [[], []] if display.few_ is None else drawn(display.few_)
    np.testing.assert_allclose(faint, [confidence[few], accuracy[few]])
    error = (weight * np.abs(accuracy - confidence)).sum() / weight.sum()
    assert display.error == pytest.approx(error)
    heights = display.histogram_.get_data().values
    np.testing.assert_allclose(heights[heights > 0], weight / w.sum())
    assert display.line_.get_label() == f"ECE {100 * error:.1f}%"


@pytest.mark.parametrize("threshold", [None, 0.1])
def test_all_probabilities_of_all_classes_are_bins_of_their_own(threshold):
    """By a loop over rows and classes; the histogram below is of all of them."""
    y, P, _ = predictions()
    w = np.random.default_rng(1).integers(1, 4, size=400)
    display = ReliabilityDisplay.from_predictions(
        y, P, mode="all", threshold=threshold, n_bins=10, sample_weight=w
    )
    total, hits, scores = np.zeros((3, 10))
    for i, row in enumerate(P):
        for k, p in enumerate(row):
            if threshold is None or p > threshold:
                b = max(int(np.ceil(p * 10)) - 1, 0)
                total[b] += w[i]
                hits[b] += w[i] * (y[i] == k)
                scores[b] += w[i] * p
    some = total > 0
    np.testing.assert_allclose(display.table["weight"], total)
    np.testing.assert_allclose(display.table["accuracy"][some], hits[some] / total[some])
    np.testing.assert_allclose(display.histogram["share"], total / total.sum())
    gaps = np.abs(hits - scores).sum() / total.sum()
    assert display.error == pytest.approx(gaps)
    assert display.axis_names[0] == "Probability of a class"
    one = ReliabilityDisplay.from_predictions(y == 2, P[:, 2], mode="all", n_bins=10)
    expected = ReliabilityDisplay.from_predictions(y == 2, P[:, 2], n_bins=10)
    pd.testing.assert_frame_equal(one.table, expected.table)


def test_the_local_curve_is_the_decay_estimate():
    """By a loop over rows: hits whose weight falls by a tenth for each hundredth."""
    y, P, _ = predictions()
    w = np.random.default_rng(1).integers(1, 4, size=400)
    score, hit = top(y, P)
    display = ReliabilityDisplay.from_predictions(y, P, curve="local", sample_weight=w)

    def rate(g):
        sides = []
        for side in (score <= g, score >= g):
            if side.any():
                near = w[side] * 0.9 ** (np.abs(score[side] - g) / 0.01)
                sides.append(near @ hit[side] / near.sum())
        return np.mean(sides)

    x, y_drawn = drawn(display.line_)
    inner = [g for g in np.arange(101) / 100 if score.min() < g < score.max()]
    np.testing.assert_allclose(x, [score.min(), *inner, score.max()])
    np.testing.assert_allclose(y_drawn, [rate(g) for g in x], atol=1e-9)
    gaps = [abs(rate(s) - s) for s in score]
    assert display.error == pytest.approx(np.average(gaps, weights=w))
    assert display.band_ is display.interval_ is None
    assert "mean gap" in display.line_.get_label()


def test_intervals_and_band_are_drawn_where_the_table_says():
    """The bars reach from low to high over each point; the band goes through its corners."""
    y, P, _ = predictions()
    display = ReliabilityDisplay.from_predictions(y, P, n_bins=6, confidence_level=0.8)
    table = display.table[display.table["weight"] >= 10]
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


def test_exact_probabilities_and_missing_classes():
    """Certain probabilities, few rows and classes without rows are drawn without a warning."""
    P = np.zeros((6, 1000), dtype=np.float32)
    P[:, 0] = 1
    y = [0, 0, 0, 1, 0, 1]
    display = ReliabilityDisplay.from_predictions(y, P, labels=np.arange(1000))
    display.figure_.canvas.draw()
    np.testing.assert_allclose(drawn(display.line_), [[1], [4 / 6]])


def test_from_estimator_is_from_predictions():
    """An estimator's display is that of its probabilities, under its own name."""
    y, _, Z = predictions()
    model = LogisticRegression().fit(Z, y)
    display = ReliabilityDisplay.from_estimator(model, Z, y, n_bins=6, pos_label=1)
    P = model.predict_proba(Z)
    expected = ReliabilityDisplay.from_predictions(y, P, n_bins=6, pos_label=1)
    np.testing.assert_array_equal(drawn(display.line_), drawn(expected.line_))
    assert display.name == "LogisticRegression"


def test_options_leave_things_out_and_style_the_line():
    """Without reference, interval, band and histogram the curve is alone, in the user's style."""
    y, P, _ = predictions()
    _, ax = plt.subplots()
    parts = ("ref_line", "interval", "band", "gaps", "means", "histogram")
    display = ReliabilityDisplay.from_predictions(
        y, P, ax=ax, **dict.fromkeys(parts, False), c="red", ls=":"
    )
    assert (display.interval_, display.band_, display.histogram_) == (None, None, None)
    assert display.ax_ is ax
    assert list(ax.lines) == [display.few_, display.line_, *display.points_]
    assert not ax.collections
    assert ax.figure.axes == [ax]
    assert (display.line_.get_color(), display.line_.get_linestyle()) == ("red", ":")


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"confidence_level": 95}, "confidence_level must be a number in"),
        ({"mode": "every"}, "mode must be one of .*'all'"),
        ({"threshold": 1}, "threshold must be"),
        ({"gaps": "yes"}, "gaps must be True or False"),
        ({"mode": "all", "r": 2}, "leave out r"),
        ({"threshold": 0.9999999}, "no score is above threshold=1"),
        ({"curve": "loess"}, "curve must be one of"),
        ({"statistics": pd.NA}, "statistics must be True or False"),
    ],
)
def test_wrong_arguments_are_refused_in_one_line(keywords, message):
    """What is wrong is said before anything is drawn."""
    y, P, _ = predictions(50)
    refused(message, ReliabilityDisplay.from_predictions, y, P, **keywords)
    assert not plt.get_fignums()


# ------------------------------------------------------------------ curves, limits, statistics


@pytest.mark.parametrize(
    "keywords",
    [{"pos_label": 2}, {"pos_label": 2, "mode": "all"}, {"pos_label": 2, "threshold": 0.1}],
)
def test_one_event_has_a_smooth_curve_and_the_ici_by_default(keywords):
    y, P, _ = predictions()
    w = np.random.default_rng(0).integers(0, 3, 400)
    of_class = ReliabilityDisplay.from_predictions(y, P, sample_weight=w, **keywords)
    used = P[:, 2] > keywords.get("threshold", -1)
    hit, p, weight = (part[used] for part in (y == 2, P[:, 2], w))
    alone = ReliabilityDisplay.from_predictions(hit, p, sample_weight=weight)
    pair = ReliabilityDisplay.from_predictions(
        np.where(hit, "yes", "no"), np.column_stack([1 - p, p]), sample_weight=weight
    )
    expected = calibration_curve(hit, p, sample_weight=weight)
    error = calibration_summary(hit, p, sample_weight=weight).frame.loc["ici", "value"]
    for display in (of_class, alone, pair):
        assert display.curve.method == "smooth"
        np.testing.assert_allclose(drawn(display.line_), [expected.prob_pred, expected.prob_true])
        assert display.error == pytest.approx(error)
        assert display.line_.get_label() == f"ICI {100 * error:.1f}%"


@pytest.mark.parametrize(
    ("columns", "keywords"),
    [
        (4, {}),
        (4, {"mode": "all"}),
        (2, {"mode": "top"}),
        (2, {"n_bins": 5}),
        (2, {"strategy": "quantile"}),
        (2, {"curve": "bins"}),
    ],
)
def test_bins_are_the_default_of_classes_and_if_their_number_or_kind_is_given(columns, keywords):
    y, P, _ = predictions(n_classes=columns)
    assert ReliabilityDisplay.from_predictions(y, P, **keywords).curve is None


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
    assert "90% confidence" in text


@pytest.mark.parametrize("curve", ["bins", "smooth", "isotonic"])
@pytest.mark.parametrize("soft", [False, True])
def test_the_legend_has_the_error_of_what_is_drawn(curve, soft):
    y, p = rare()
    if soft:
        y = np.clip(p + np.random.default_rng(0).normal(0, 0.1, p.size), 0, 1)
    w = np.random.default_rng(0).integers(0, 3, y.size)
    display = ReliabilityDisplay.from_predictions(y, p, curve=curve, sample_weight=w)
    expected = expected_calibration_error(y, p, n_bins=15, sample_weight=w)
    if curve == "smooth":
        expected = integrated_calibration_index(y, p, sample_weight=w).ici
    if curve == "isotonic":
        expected = score_decomposition(y, p, sample_weight=w).miscalibration
    assert display.error == pytest.approx(expected, rel=1e-9)
    name, number = display.line_.get_label().split()
    assert name == {"bins": "ECE", "smooth": "ICI", "isotonic": "MCB"}[curve]
    shown = float(number.rstrip("%")) / (100 if number.endswith("%") else 1)
    assert shown == pytest.approx(expected, rel=0.05)


@pytest.mark.parametrize(
    ("scores", "hits", "limits"),
    [
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


def test_limits_of_the_user_are_kept():
    """Set before the first display, or between two of them; on either axis."""
    y, p = rare()
    _, ax = plt.subplots()
    ax.set_ylim(0, 0.6)
    ReliabilityDisplay.from_predictions(y, p, ax=ax)
    assert ax.get_ylim() == (0, 0.6)
    ax.set_xlim(0, 0.02)
    ReliabilityDisplay.from_predictions(y, p**0.5, ax=ax)
    assert (ax.get_xlim(), ax.get_ylim()) == ((0, 0.02), (0, 0.6))


def test_a_second_model_widens_the_square_to_hold_both():
    y, p = rare()
    first = ReliabilityDisplay.from_predictions(y, p, curve="smooth")
    before = first.ax_.get_xlim()[1]
    second = ReliabilityDisplay.from_predictions(y, p**0.5, curve="smooth", ax=first.ax_)
    assert first.ax_.get_xlim()[1] > before
    assert second.ax_.get_xlim()[1] >= second.limits[1]
    assert first.ax_.get_ylim() == first.ax_.get_xlim()


def test_the_strip_of_a_curve_has_events_above_and_other_rows_below():
    y, p = rare()
    display = ReliabilityDisplay.from_predictions(y, p, curve="smooth", n_bins=7)
    frame = display.histogram
    edges = np.linspace(*display.limits, 8)
    for name, kept in (("events", y == 1), ("others", y == 0)):
        expected = [((p[kept] >= a) & (p[kept] < b)).mean() for a, b in itertools.pairwise(edges)]
        np.testing.assert_allclose(frame[name], expected)
    heights = [patch.get_data().values for patch in display.histogram_.axes.patches]
    assert any(np.array_equal(h, frame["events"]) for h in heights)
    assert any(np.array_equal(h, -frame["others"]) for h in heights)


def test_statistics_are_written_above_the_diagram_on_request():
    y, p = rare()
    display = ReliabilityDisplay.from_predictions(y, p, curve="smooth", statistics=True)
    index, line = integrated_calibration_index(y, p), calibration_intercept_slope(y, p)
    expected = {
        **{"n": 3000, "events": y.sum(), "slope": line.slope, "in the large": line.in_the_large},
        **{"O:E": y.sum() / p.sum(), "C": roc_auc_score(y, p), "ICI": index.ici, "E90": index.e90},
    }
    assert display.numbers == pytest.approx(expected)
    text = display.statistics_.get_text().split("\n")
    assert text[0] == f"n 3,000, events {y.sum()}, O:E {y.sum() / p.sum():.3g}"
    assert text[1] == f"slope {line.slope:.3g}, in the large {line.in_the_large:.3g}"
    assert text[2].endswith(f"ICI {index.ici:.3g}, E90 {index.e90:.3g}")
    nothing_is_cut(display.figure_)
    assert display.statistics_.get_window_extent().y0 > display.ax_.get_window_extent().y1


def test_statistics_are_those_that_exist_and_that_were_asked_for():
    few = ReliabilityDisplay.from_predictions([0, 0, 0], [0.2, 0.3, 0.2], statistics=True)
    assert list(few.numbers) == ["n", "events", "O:E", "ICI", "E90"]
    assert ReliabilityDisplay.from_predictions([0, 1, 0], [0.2, 0.3, 0.2]).statistics_ is None


# ------------------------------------------------------------------ bins, models, marks


@pytest.mark.filterwarnings("ignore:sample_weight contains whole numbers")
@pytest.mark.parametrize(
    ("n", "n_bins"), [(1, 1), (8, 2), (20, 3), (200, 6), (1000, 10), (3375, 15), (9000, 15)]
)
def test_bins_are_as_many_as_the_rows_can_fill(n, n_bins):
    """The cube root of n, rounded up; the error and the histogram keep 15 bins."""
    rng = np.random.default_rng(0)
    p = rng.random(n)
    y = (rng.random(n) < p).astype(int)
    display = ReliabilityDisplay.from_predictions(y, p, curve="bins")
    assert len(display.table) == n_bins
    assert display.error == pytest.approx(expected_calibration_error(y, p))
    if n > 100:
        assert len(display.histogram) == 15
    weighted = ReliabilityDisplay.from_predictions(y, p, sample_weight=np.full(n, 27))
    assert len(weighted.table) == min(15, int(np.ceil(round(3 * n ** (1 / 3), 9))))


def test_scores_in_a_small_part_of_the_unit_interval_have_bins_of_equal_weight():
    """Even bins of [0, 1] would put them all into two or three; a strategy asked for is kept."""
    y, p = rare()
    display = ReliabilityDisplay.from_predictions(y, p, curve="bins")
    weight = display.table["weight"]
    assert len(weight) == 15
    assert weight.max() - weight.min() <= 1
    even = ReliabilityDisplay.from_predictions(y, p, strategy="uniform")
    np.testing.assert_allclose(even.table["right"], np.arange(1, 16) / 15)
    assert display.error == even.error


def test_gaps_reach_from_the_diagonal_to_the_points_and_the_star_is_the_mean():
    y, P, _ = predictions()
    w = np.random.default_rng(0).integers(0, 3, 400)
    display = ReliabilityDisplay.from_predictions(y, P, n_bins=6, sample_weight=w)
    points = [point for point in drawn(display.line_).T if not np.isnan(point).any()]
    for (x, rate), bar in zip(points, display.gaps_.get_segments(), strict=True):
        np.testing.assert_allclose(bar, [[x, min(x, rate)], [x, max(x, rate)]])
    score, hit = top(y, P)
    means = (w * score).sum() / w.sum(), (w * hit).sum() / w.sum()
    assert display.means == pytest.approx(means)
    np.testing.assert_allclose(drawn(display.means_)[:, 0], means)
    assert ReliabilityDisplay.from_predictions(y, P, curve="smooth").gaps_ is None


def sharpened(y, P, powers, **keywords):
    """Displays of several models on the same axes."""
    displays = []
    for power in powers:
        Q = P**power / (P**power).sum(axis=1, keepdims=True)
        ax = displays[0].ax_ if displays else None
        displays.append(
            ReliabilityDisplay.from_predictions(y, Q, ax=ax, name=f"power {power}", **keywords)
        )
    return displays


@pytest.mark.parametrize("curve", ["bins", "smooth"])
def test_bands_are_drawn_for_two_models_at_most_and_gaps_for_one(curve):
    y, P, _ = predictions()
    ax = sharpened(y, P, [1.0], curve=curve)[0].ax_
    n_bins_parts = {"bins": 3, "smooth": 2}[curve]  # band, intervals and gaps, or two bands
    assert len(ax.collections) == n_bins_parts
    two = sharpened(y, P, [1.0, 0.5], curve=curve)
    assert len(two[0].ax_.collections) == 3  # intervals of both, and the band of the second
    assert two[1].band_ in two[0].ax_.collections
    assert (two[1].gaps_, two[1].means_) == (None, None)
    three = sharpened(y, P, [1.0, 0.5, 0.3], curve=curve)
    assert not three[0].ax_.collections
    assert (three[2].band_, three[2].interval_) == (None, None)
    asked = dict.fromkeys(("interval", "band", "gaps", "means"), True)
    drawn_parts = sharpened(y, P, [1.0, 0.5, 0.3], curve=curve, **asked)
    assert len(drawn_parts[0].ax_.collections) == 3 * n_bins_parts
    assert all(display.means_ in display.ax_.lines for display in drawn_parts)


def test_bins_with_more_rows_have_larger_points():
    """Areas are 0.4 to 4 of that for the mean number of rows; `markersize` is of this number."""
    rows = [9, 200, 400, 500, 4880]
    scores = np.repeat([0.1, 0.3, 0.5, 0.7, 0.9], rows)
    display = ReliabilityDisplay.from_predictions(np.arange(5989) % 2, scores, curve="bins")
    fewer = ReliabilityDisplay.from_predictions(
        np.arange(1100) % 2, scores[9:1109], curve="bins"
    ).plot(ms=3)
    assert len(display.few_.get_xydata()) == 1
    areas = [line.get_markersize() ** 2 / 4.5**2 for line in display.points_]
    np.testing.assert_allclose(areas, [0.4, 0.4, 0.4, 4880 / 1495])
    areas = [line.get_markersize() ** 2 / 3**2 for line in fewer.points_]
    np.testing.assert_allclose(areas, [6 / 11, 12 / 11, 15 / 11])
    places = [line.get_xydata()[0] for line in display.points_]
    np.testing.assert_array_equal(places, display.line_.get_xydata()[1:])


@pytest.mark.parametrize("n", [400, 50_000])
def test_bins_of_few_rows_are_faint_and_pull_no_line(n):
    """Fewer than 10 rows, whatever share of all; where no bin has more, all are drawn in full."""
    scores = np.repeat([0.9, 0.5, 0.3], [n - 19, 10, 9])
    hits = np.arange(n) % 2
    display = ReliabilityDisplay.from_predictions(hits, scores, n_bins=10, mode="all")
    np.testing.assert_allclose(drawn(display.line_)[0], [np.nan, 0.5, 0.9])
    np.testing.assert_allclose(drawn(display.few_)[0], [0.3])
    assert display.few_.get_alpha() < 0.5
    assert len(display.interval_.get_segments()) == len(display.gaps_.get_segments()) == 2
    tiny = ReliabilityDisplay.from_predictions([0, 1, 1], [0.2, 0.5, 0.8], n_bins=10)
    assert drawn(tiny.line_).shape == (2, 3)
    assert tiny.few_ is None


def test_line_and_band_have_a_gap_where_a_bin_is_faint():
    """A line from 0.2 to 0.6 would say something about scores of 0.4."""
    scores = np.repeat([0.1, 0.2, 0.4, 0.6, 0.7], [50, 50, 5, 50, 50])
    hits = np.arange(205) % 2
    display = ReliabilityDisplay.from_predictions(hits, scores, n_bins=10, mode="all")
    np.testing.assert_allclose(drawn(display.line_)[0], [0.1, 0.2, np.nan, 0.6, 0.7])
    ends = [path.vertices[:, 0] for path in display.band_.get_paths()]
    assert len(ends) == 2
    np.testing.assert_allclose([(x.min(), x.max()) for x in ends], [(0.1, 0.2), (0.6, 0.7)])
    assert len(display.points_) == 4


def test_a_long_name_is_cut_in_the_legend():
    """At 22 letters; a legend as wide as the diagram would squeeze it."""
    name = "GradientBoostingClassifier(learning_rate=0.05, max_depth=3)"
    display = ReliabilityDisplay.from_predictions([0, 1, 1], [0.2, 0.5, 0.8], name=name)
    shown = display.line_.get_label().split("\n(ICI")[0]
    assert len(shown) == 22
    assert shown.startswith("GradientBoos")
    assert display.name == name


def test_the_square_of_a_rare_event_holds_every_point_of_the_line():
    """Also those of the 1 % of the rows with the largest scores, as of the model before."""
    scores = np.concatenate([np.linspace(0, 0.05, 2000), np.linspace(0.55, 0.6, 16)])
    hits = np.arange(2016) >= 1990
    display = ReliabilityDisplay.from_predictions(hits, scores, n_bins=10)
    assert drawn(display.line_)[0].max() > 0.5
    assert display.limits == (0, 1)


@pytest.mark.parametrize("n_models", [1, 2, 4])
@pytest.mark.parametrize("curve", ["bins", "smooth"])
def test_the_legend_has_the_models_the_band_and_the_diagonal(n_models, curve):
    """In this order; models differ in colour, marker and dashes, and share the histogram."""
    y, P, _ = predictions()
    displays = sharpened(y, P, [1.0, 0.5, 0.3, 0.7][:n_models], curve=curve)
    ax = displays[0].ax_
    lines = [display.line_ for display in displays]
    assert len({(line.get_color(), line.get_linestyle()) for line in lines}) == n_models
    assert ax.figure.axes == [ax, displays[-1].histogram_.axes]
    texts = [text.get_text() for text in ax.get_legend().get_texts()]
    band = {"bins": "95% if calibrated", "smooth": "95% confidence"}[curve]
    errors = [
        f"power {power} ({'ICI' if curve == 'smooth' else 'ECE'}"
        for power in (1.0, 0.5, 0.3, 0.7)[:n_models]
    ]
    assert [text.replace("\n", " ")[:14] for text in texts[:n_models]] == errors
    assert texts[n_models:] == [band] * (n_models <= 2) + ["calibrated"]


def test_axes_are_named_by_what_they_show():
    """Below the histogram and beside the diagram, unless the user has named them."""
    y, P, _ = predictions()
    display = ReliabilityDisplay.from_predictions(y, P)
    names = display.histogram_.axes.get_xlabel(), display.ax_.get_ylabel()
    assert names == ("Confidence (top label)", "Accuracy")
    display = ReliabilityDisplay.from_predictions(y == 1, P[:, 1])
    assert display.axis_names == ("Probability of the event", "Frequency of the event")
    code, proba, _ = predictions(50, 2)
    two = ReliabilityDisplay.from_predictions(np.array(["no", "yes"])[code], proba)
    assert two.axis_names == ("Probability of class yes", "Frequency of class yes")
    _, ax = plt.subplots()
    ax.set(xlabel="mine", ylabel="too")
    display = ReliabilityDisplay.from_predictions(y, P, ax=ax)
    assert (display.histogram_.axes.get_xlabel(), ax.get_ylabel()) == ("mine", "too")


def wards(n=600, number=12):
    """Rows whose events depend on the ward, and one ward that is too small for a curve."""
    rng = np.random.default_rng(0)
    ward = np.where(np.arange(n) < 5, number, rng.integers(0, number, n))
    p = rng.beta(2, 3, n)
    shift = rng.normal(size=number + 1)[ward]
    return rng.random(n) < 1 / (1 + (1 - p) / p * np.exp(-shift)), p, ward


@pytest.mark.parametrize("curve", ["bins", "smooth", "isotonic"])
def test_clusters_have_thin_curves_and_the_pooled_one_wider_bands(curve):
    y, p, ward = wards()
    plain = ReliabilityDisplay.from_predictions(y, p, curve=curve)
    display = ReliabilityDisplay.from_predictions(y, p, curve=curve, clusters=ward)
    sizes = np.bincount(ward)[:12]
    assert len(display.curves_) == 12
    for line, c in zip(display.curves_, np.argsort(-sizes, kind="stable"), strict=True):
        if np.sum(sizes == sizes[c]) == 1:  # the larger first
            expected = calibration_curve(y[ward == c], p[ward == c], pos_label=True)
            np.testing.assert_array_equal(drawn(line), [expected.prob_pred, expected.prob_true])
        assert line.get_linewidth() < display.line_.get_linewidth() / 2
    np.testing.assert_array_equal(drawn(display.line_), drawn(plain.line_))
    assert display.error == plain.error
    assert len(display.ax_.get_legend().get_texts()) == 3
    if curve == "bins":
        found = calibration_curve(y, p, n_bins=9, clusters=ward)
        np.testing.assert_allclose(display.table["accuracy_low"].dropna(), found.low)
        np.testing.assert_allclose(display.table["accuracy_high"].dropna(), found.high)
        width, usual = (d.table["band_high"] - d.table["band_low"] for d in (display, plain))
        assert width.mean() > 1.2 * usual.mean()
    else:
        expected = calibration_curve(y, p, method=curve, clusters=ward)
        np.testing.assert_array_equal(display.curve.low, expected.low)
        np.testing.assert_array_equal(display.curve.high_simultaneous, expected.high_simultaneous)
    plt.close("all")


def test_clusters_stay_with_their_rows_in_groups_and_above_a_threshold():
    y, p, ward = wards()
    P = np.column_stack([0.6 * (1 - p), p, 0.4 * (1 - p)])
    display = ReliabilityDisplay.from_predictions(
        y.astype(int), P, clusters=ward, labels=[0, 1, 2], mode="all", threshold=0.2
    )
    assert len(display.curves_) == 13  # the five rows of the last one have ten such entries
    site = np.where(ward < 6, "north", "south")
    display = ReliabilityDisplay.from_predictions(y, p, clusters=ward, groups=site)
    assert [len(each.curves_) for each in display.groups_.values()] == [6, 6]
    plt.close("all")


def test_an_empty_array_is_no_strategy():
    with pytest.raises(ValueError, match="strategy"):
        ReliabilityDisplay.from_predictions([0, 1, 1], [0.2, 0.6, 0.7], strategy=np.array([]))
