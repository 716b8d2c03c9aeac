"""Legends cover no curve of a narrow figure, and long names leave diagrams their size."""

import numpy as np
import pytest
from drawings import nothing_is_cut, predictions
from scipy.special import expit

from skcalib import TemperatureScaling, plotting

plt = pytest.importorskip("matplotlib.pyplot", reason="displays need the extra plot")

NARROW = 3.3, 3.4
LONG = "GradientBoostingClassifier(learning_rate=0.05, max_depth=3), fitted on 20,000 patients"


def narrow(panels=1):
    """Axes of a figure of one column of a paper."""
    width, height = NARROW
    figure = plt.figure(figsize=(width, height * panels), layout="constrained")
    return figure.subplots(panels, 1)


def event(shape, n=1500):
    """Labels and probabilities of an event."""
    rng = np.random.default_rng(0)
    x = rng.normal(-4.3, 1.0, n) if "rare" in shape else 2.0 * rng.normal(size=n)
    slope = {"over-confident": 0.4, "rare, over-confident": 0.4, "under-confident": 2.5}
    centre = x.mean()
    true = centre + slope.get(shape, 1.0) * (x - centre) + {"too low": 1.5}.get(shape, 0.0)
    return (rng.random(n) < expit(true)).astype(int), expit(x)


SHAPES = ("perfect", "over-confident", "under-confident", "too low", "rare", "rare, over-confident")


def is_free(ax, lines):
    """Whether no line has a vertex, or a point between two of them, below the legend."""
    ax.figure.canvas.draw()
    box = ax.get_legend().get_window_extent()
    for line in lines:
        places = line.get_transform().transform(line.get_xydata())
        along = np.linspace(0, len(places) - 1, 20 * len(places))
        x, y = (np.interp(along, np.arange(len(places)), part) for part in places.T)
        if ((x > box.x0) & (x < box.x1) & (y > box.y0) & (y < box.y1)).any():
            return False
    return True


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", [None, "calibrated", LONG])
def test_the_legend_covers_no_curve_of_an_event(shape, name):
    y, p = event(shape)
    display = plotting.ReliabilityDisplay.from_predictions(y, p, ax=narrow(), name=name)
    assert len(display.ax_.get_legend().get_texts()) == 3
    assert is_free(display.ax_, [display.line_])
    nothing_is_cut(display.figure_)


@pytest.mark.parametrize("n_classes", [2, 10, 100])
@pytest.mark.parametrize("factor", [0.5, 1.0, 2.0])
def test_the_legend_covers_no_curve_of_classes(n_classes, factor):
    y, P, _ = predictions(1500, n_classes, factor)
    keywords = {"labels": np.arange(n_classes), "name": "RandomForestClassifier"}
    for show in (plotting.ReliabilityDisplay, plotting.ClasswiseDisplay):
        axes = {"n_curves": 0} if show is plotting.ClasswiseDisplay else {}
        display = show.from_predictions(y, P, ax=narrow(), **axes, **keywords)
        line = getattr(display, "line_", None) or display.dots_
        assert len(display.ax_.get_legend().get_texts()) <= 3
        assert is_free(display.ax_, [line])
        nothing_is_cut(display.figure_)


def test_the_legend_covers_no_curve_before_and_after():
    y, _, Z = predictions(1500, 10)
    calibrator = TemperatureScaling().fit(Z, y)
    display = plotting.ReliabilityDisplay.from_estimator(calibrator, Z, y, before=True, ax=narrow())
    assert is_free(display.ax_, [display.line_, display.before_.line_])
    display = plotting.KSDisplay.from_estimator(calibrator, Z, y, before=True, ax=narrow(2))
    assert is_free(display.ax_, [display.accuracy_line_, display.before_.accuracy_line_])
    display = plotting.CalibrationMapDisplay.from_estimator(calibrator, Z, ax=narrow())
    assert is_free(display.ax_, [display.line_])
    assert len(display.ax_.get_legend().get_texts()) == 3


Y, P, _ = predictions(400, 4)
NAMED = {
    "classes": lambda name: plotting.ReliabilityDisplay.from_predictions(Y, P, name=name),
    "event": lambda name: plotting.ReliabilityDisplay.from_predictions(Y == 1, P[:, 1], name=name),
    "ks": lambda name: plotting.KSDisplay.from_predictions(Y, P, name=name),
    "classwise": lambda name: plotting.ClasswiseDisplay.from_predictions(Y, P, name=name),
    "map": lambda name: plotting.CalibrationMapDisplay.from_predictions(P, P, name=name),
    "risk": lambda name: plotting.RiskCoverageDisplay.from_predictions(Y, P, name=name),
    "decomposition": lambda name: plotting.DecompositionDisplay.from_predictions(Y, P, name=name),
    "benefit": lambda name: plotting.DecisionCurveDisplay.from_predictions(
        Y == 1, P[:, 1], name=name
    ),
}


@pytest.mark.parametrize("kind", NAMED)
def test_a_name_of_85_letters_leaves_a_diagram_its_size(kind):
    """In a narrow figure; two panels of a narrow figure are below one another."""
    sizes = []
    for name in ("forest", LONG):
        display = NAMED[kind](name)
        if kind != "ks":
            display.figure_.set_figwidth(NARROW[0])
        display.figure_.canvas.draw()
        sizes.append(display.ax_.get_window_extent().size)
    assert sizes[1] == pytest.approx(sizes[0], rel=0.05)


def test_a_long_name_of_a_class_leaves_a_diagram_its_size():
    y, p = event("perfect")
    for show in (plotting.ReliabilityDisplay, plotting.KSDisplay):
        sizes = []
        for label in ("event", LONG):
            labels = np.where(y == 1, label, "another")
            ax = narrow(2 if show is plotting.KSDisplay else 1)
            display = show.from_predictions(labels, p, pos_label=label, ax=ax)
            nothing_is_cut(display.figure_)
            first, second = (ax.yaxis.label.get_window_extent() for ax in display.figure_.axes)
            assert not first.overlaps(second)
            sizes.append(display.ax_.get_window_extent().size)
        assert sizes[1] == pytest.approx(sizes[0], rel=0.03)
