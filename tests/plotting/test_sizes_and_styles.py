"""Displays in small figures, dark styles and zoomed axes."""

import pickle

import numpy as np
import pytest
from drawings import nothing_is_cut_or_covered, predictions

from skcalib import (
    CalibrationMapDisplay,
    ClasswiseDisplay,
    DecompositionDisplay,
    KSDisplay,
    ReliabilityDisplay,
    TemperatureScaling,
)
from skcalib.plotting._display import MODEL
from skcalib.plotting._places import is_over, places_of
from skcalib.plotting._style import style_of

plt = pytest.importorskip("matplotlib.pyplot", reason="displays need the extra plot")


def event(n=1000, seed=0):
    rng = np.random.default_rng(seed)
    f = rng.normal(0, 2, n)
    return rng.random(n) < 1 / (1 + np.exp(-f / 1.7)), 1 / (1 + np.exp(-f))


def small():
    """Axes of 3 x 2.5 inches without a layout."""
    return plt.figure(figsize=(3, 2.5)).add_subplot()


def reliability(ax, **keywords):
    y, P, _ = predictions(2000)
    return ReliabilityDisplay.from_predictions(y, P, ax=ax, **keywords)


def curve(ax, **keywords):
    return ReliabilityDisplay.from_predictions(*event(), curve="smooth", ax=ax, **keywords)


def several(ax):
    y, P, _ = predictions(2000)
    for i, power in enumerate((0.3, 0.5, 0.7, 1.0)):
        Q = P**power / (P**power).sum(axis=1, keepdims=True)
        ax = ReliabilityDisplay.from_predictions(y, Q, ax=ax, name=f"model {i}").ax_


def long_names(ax):
    y, P, _ = predictions(500)
    names = np.array([f"{word} of a class with a long name" for word in "abcd"])
    name = "CalibratedClassifier of a vision transformer, base size"
    ReliabilityDisplay.from_predictions(names[y], P, pos_label=names[0], ax=ax, name=name)


def calibration_map(ax):
    y, _, Z = predictions(500)
    CalibrationMapDisplay.from_estimator(TemperatureScaling().fit(Z, y), Z, ax=ax)


def one_view(ax):
    y, P, _ = predictions(500)
    KSDisplay.from_predictions(y, P, views="gap", ax=ax, name="a model with a long name" * 2)


@pytest.mark.parametrize(
    "draw", [reliability, curve, several, long_names, calibration_map, one_view]
)
def test_in_a_small_figure_without_layout_no_text_is_cut_or_covers_another(draw):
    ax = small()
    draw(ax)
    figure = plt.gcf()
    figure.canvas.draw()
    nothing_is_cut_or_covered(figure)


def bars(ax, y, P, before, **keywords):
    order = None if before is None else before.order_
    return ClasswiseDisplay.from_predictions(y, P, ax=ax, kind="bars", order=order, **keywords)


def one_of_many(display, **keywords):
    def draw(ax, y, P, before, **name):
        return display.from_predictions(y, P, ax=ax, **name, **keywords)

    return draw


def map_of_many(ax, y, P, before, **name):
    """A map of these probabilities to sharper ones."""
    return CalibrationMapDisplay.from_predictions(P, P**2 / (P**2).sum(1)[:, None], ax=ax, **name)


@pytest.mark.parametrize("n_classes", [4, 100])
@pytest.mark.parametrize(
    "draw",
    [
        one_of_many(ReliabilityDisplay),
        one_of_many(ReliabilityDisplay, curve="smooth", pos_label=1),
        one_of_many(KSDisplay, views="cumulative_percentile"),
        one_of_many(DecompositionDisplay),
        bars,
        map_of_many,
    ],
    ids=["bins", "curve", "ks", "decomposition", "bars", "map"],
)
def test_the_legend_of_eight_models_leaves_room_to_their_curves(draw, n_classes):
    """It is not cut, covers no axes, and leaves them more than a fifth of the figure's height."""
    y, P, _ = predictions(1000, n_classes=n_classes)
    ax, display = plt.figure(figsize=(3, 2.4)).add_subplot(), None
    for i, power in enumerate(np.linspace(0.3, 1, 8)):
        Q = P**power / (P**power).sum(axis=1, keepdims=True)
        display = draw(ax, y, Q, display, name=f"{i} is the number of this model")
    figure = ax.figure
    figure.canvas.draw()
    nothing_is_cut_or_covered(figure)
    assert ax.bbox.height > 0.2 * figure.bbox.height
    box = ax.get_legend().get_window_extent()
    shown = [line for line in ax.lines if line.get_gid() == MODEL]
    assert not is_over(box, places_of(shown))
    names = [text.get_text() for text in ax.get_legend().get_texts()]
    assert len(set(names)) == len(names)


def test_a_figure_with_room_keeps_its_margins():
    figure, ax = plt.subplots(figsize=(8, 8))
    reliability(ax)
    assert figure.subplotpars.left == plt.rcParams["figure.subplot.left"]


def test_texts_of_a_large_figure_keep_their_size():
    _, ax = plt.subplots(figsize=(8, 8))
    sizes = ax.xaxis.label.get_fontsize()
    reliability(ax)
    assert ax.xaxis.label.get_fontsize() == sizes


@pytest.mark.parametrize("draw", [reliability, curve, calibration_map])
def test_the_strip_stays_when_the_user_zooms(draw):
    """Its place, its height and its own axis are as before; the curve does not enter it."""
    _, ax = plt.subplots(figsize=(5, 5))
    draw(ax)
    (strip,) = ax.child_axes
    ax.figure.canvas.draw()
    before, rows = strip.get_window_extent().frozen(), strip.get_ylim()
    ax.set_ylim(0.4, 0.8)
    ax.set_xlim(0.5, 0.9)
    ax.figure.canvas.draw()
    np.testing.assert_allclose(strip.get_window_extent().extents, before.extents)
    assert strip.get_ylim() == rows
    assert ax.get_window_extent().y0 > before.y1
    assert (ax.get_ylim(), strip.get_xlim()) == ((0.4, 0.8), (0.5, 0.9))
    assert len([tick for tick in ax.get_yticks() if 0.4 <= tick <= 0.8]) >= 3
    nothing_is_cut_or_covered(ax.figure)


def test_an_axes_without_a_strip_any_more_gets_its_place_back():
    figure, ax = plt.subplots(figsize=(8, 8))
    figure.canvas.draw()
    whole = ax.get_window_extent().frozen()
    reliability(ax)
    figure.canvas.draw()
    assert ax.get_window_extent().height < whole.height
    ax.clear()
    figure.canvas.draw()
    np.testing.assert_allclose(ax.get_window_extent().extents, whole.extents)


def luminance(color):
    from matplotlib.colors import to_rgb

    return float(np.dot([0.2126, 0.7152, 0.0722], np.array(to_rgb(color)) ** 2.2))


def contrast(one, two):
    high, low = sorted((luminance(one), luminance(two)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize(
    "style", ["default", "dark_background", "ggplot", "grayscale", "Solarize_Light2", "bmh"]
)
def test_lines_can_be_seen_on_the_ground_of_every_style(style):
    """The curve and the diagonal stand out against the axes, and the shade does a little."""
    with plt.style.context(style):
        display = reliability(None)
        ground = np.array(plt.matplotlib.colors.to_rgb(display.ax_.get_facecolor()))
        diagonal = next(line for line in display.ax_.lines if line is not display.line_)
        assert contrast(diagonal.get_color(), ground) > 3
        assert contrast(display.line_.get_color(), ground) > (2.5 if style != "bmh" else 2)
        *color, alpha = display.band_.get_facecolor()[0]
        shade = alpha * np.array(color) + (1 - alpha) * ground
        assert contrast(shade, ground) > 1.1


def test_marks_do_not_depend_on_the_width_of_edges_in_a_style():
    with plt.rc_context({"lines.markeredgewidth": 0}):
        assert reliability(None).means_.get_markeredgewidth() > 0


@pytest.mark.parametrize("size", [10, 14])
def test_large_fonts_do_not_make_labels_overlap(size):
    with plt.rc_context({"font.size": size, "axes.labelsize": "x-large"}):
        y, p = event()
        display = ReliabilityDisplay.from_predictions(
            y, p, curve="smooth", name="a model with a name that is long"
        )
        display.figure_.canvas.draw()
        nothing_is_cut_or_covered(display.figure_)


def test_colours_follow_the_style_that_the_user_has_chosen():
    with plt.rc_context({"axes.prop_cycle": plt.cycler(color=["#123456", "#654321"])}):
        one = reliability(None)
        two = reliability(one.ax_)
    assert (one.line_.get_color(), two.line_.get_color()) == ("#123456", "#654321")
    with plt.rc_context({"text.color": "#abcdef"}):
        display = reliability(None)
        diagonal = next(line for line in display.ax_.lines if line is not display.line_)
        assert diagonal.get_color() == "#abcdef"


def covers_data(display):
    box = display.statistics_.get_window_extent()
    x, y = display.line_.get_transform().transform(np.transpose(display.line_.get_data())).T
    at = np.linspace(0, len(x) - 1, 2000)
    x, y = (np.interp(at, np.arange(len(x)), values) for values in (x, y))
    legend = display.ax_.get_legend().get_window_extent()
    inside = (x > box.x0) & (x < box.x1) & (y > box.y0) & (y < box.y1)
    return bool(inside.any() or box.overlaps(legend))


@pytest.mark.parametrize("size", [(7, 7), (4.2, 4.6), (3.2, 3.6), (2.6, 4)])
def test_statistics_find_another_place_when_the_figure_is_resized(size):
    """They are written where there is room, smaller if need be, beside the axes at last."""
    display = curve(None, statistics=True)
    display.figure_.canvas.draw()
    display.figure_.set_size_inches(size)
    display.figure_.canvas.draw()
    assert not covers_data(display)
    display.figure_.set_size_inches(7, 7)
    display.figure_.canvas.draw()
    assert not covers_data(display)
    assert display.statistics_.get_fontsize() == display.statistics_.full_size


def test_statistics_find_another_place_when_the_user_zooms():
    display = curve(None, statistics=True)
    display.ax_.set(xlim=(0.4, 1), ylim=(0, 0.6))
    display.figure_.canvas.draw()
    assert not covers_data(display)


def test_a_figure_can_be_pickled():
    figure = curve(None, statistics=True).figure_
    figure.canvas.draw()
    again = pickle.loads(pickle.dumps(figure))
    again.canvas.draw()
    boxes = [f.axes[0].get_window_extent().extents for f in (figure, again)]
    np.testing.assert_allclose(*boxes, atol=1)


def test_one_score_of_one_event_is_drawn():
    display = ReliabilityDisplay.from_predictions([1, 0, 1, 1] * 50, [0.7] * 200)
    np.testing.assert_allclose(display.line_.get_data(), [[0.7], [0.75]])


def test_no_two_of_many_models_look_the_same():
    for keys in (("color", "marker"), ("color", "linestyle")):
        looks = {tuple(str(style_of(i)[key]) for key in keys) for i in range(40)}
        assert len(looks) == 40
