"""Displays in styles, layouts and zoomed axes of the user."""

import pickle

import numpy as np
import pytest
from drawings import nothing_is_cut, predictions

from skcalib import CalibrationMapDisplay, ReliabilityDisplay, TemperatureScaling

plt = pytest.importorskip("matplotlib.pyplot", reason="displays need the extra plot")


def reliability(ax, **keywords):
    y, P, _ = predictions(2000)
    return ReliabilityDisplay.from_predictions(y, P, ax=ax, **keywords)


def curve(ax):
    return reliability(ax, curve="isotonic", pos_label=1)


def calibration_map(ax):
    y, _, Z = predictions(500)
    return CalibrationMapDisplay.from_estimator(TemperatureScaling().fit(Z, y), Z, ax=ax)


@pytest.mark.parametrize(
    ("draw", "layout"), [(reliability, "constrained"), (calibration_map, "tight"), (curve, None)]
)
def test_a_strip_of_its_own_below_the_diagram_whatever_the_layout(draw, layout):
    """In a grid of the user's, and in axes at a place; zooming leaves the strip's height."""
    figure = plt.figure(figsize=(9, 5), layout=layout)
    axes = [figure.add_subplot(1, 2, 1)]
    axes.append(figure.add_subplot(1, 2, 2) if layout else figure.add_axes((0.6, 0.2, 0.3, 0.6)))
    places = [ax.get_position().extents for ax in axes]
    for ax, place in zip(axes, places, strict=True):
        display = draw(ax)
        assert plt.gca() is ax
        strip = display.histogram_.axes
        nothing_is_cut(figure)
        before, rows = strip.get_window_extent().frozen(), strip.get_ylim()
        ax.set(xlim=(0.5, 0.9), ylim=(0.4, 0.8))
        figure.canvas.draw()
        assert (strip.get_xlim(), strip.get_ylim()) == ((0.5, 0.9), rows)
        assert strip.get_window_extent().height == pytest.approx(before.height, rel=0.1)
        assert ax.get_window_extent().y0 > before.y1
        if layout is None:
            left, low, right, high = place
            np.testing.assert_allclose(ax.get_position().extents[[0, 2, 3]], [left, right, high])
            np.testing.assert_allclose(strip.get_position().extents[:3], [left, low, right])


def luminance(color):
    from matplotlib.colors import to_rgb

    return float(np.dot([0.2126, 0.7152, 0.0722], np.array(to_rgb(color)) ** 2.2))


def contrast(one, two):
    high, low = sorted((luminance(one), luminance(two)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("style", ["default", "dark_background", "ggplot", "grayscale", "bmh"])
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


def test_colours_follow_the_style_that_the_user_has_chosen():
    with plt.rc_context({"axes.prop_cycle": plt.cycler(color=["#123456", "#654321"])}):
        one = reliability(None)
        two = reliability(one.ax_)
    assert (one.line_.get_color(), two.line_.get_color()) == ("#123456", "#654321")
    with plt.rc_context({"text.color": "#abcdef"}):
        display = reliability(None)
        diagonal = next(line for line in display.ax_.lines if line is not display.line_)
        assert diagonal.get_color() == "#abcdef"


def test_a_figure_can_be_pickled_and_drawn_on():
    display = curve(None)
    display.figure_.canvas.draw()
    again = pickle.loads(pickle.dumps(display.figure_))
    again.canvas.draw()
    boxes = [f.axes[0].get_window_extent().extents for f in (display.figure_, again)]
    np.testing.assert_allclose(*boxes, atol=1)
    assert curve(again.axes[0]).histogram_.axes is again.axes[1]
