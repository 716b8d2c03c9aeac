"""The picture of a comparison shows the numbers of its frame."""

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from calls import refused
from drawings import predictions
from samples import Failing, Flat

from skcalib import IdentityCalibrator, TemperatureScaling, compare_calibrators
from skcalib.plotting import ComparisonDisplay

METRICS = ["log_loss", "ks_calibration_error"]


class Same(IdentityCalibrator):
    """Not the baseline itself, but equal to it."""


@pytest.fixture(scope="module")
def frame():
    """A calibrator that helps, one that harms, one that does nothing, one that fails."""
    y, _, Z = predictions()
    tried = {"fail": Failing(), "flat": Flat(), "same": Same(), "t": TemperatureScaling()}
    return compare_calibrators(Z, y, tried, metrics=METRICS, random_state=0).frame


def names_of(ax):
    return [text.get_text() for text in ax.get_yticklabels()]


def test_marks_stand_at_the_gains_best_first(frame):
    """One in each row, with the interval as a line; the identity is a dotted line at 0."""
    display = ComparisonDisplay.from_frame(frame)
    order = ["t", "same", "flat"]
    assert names_of(display.axes_[0]) == order
    for ax, metric in zip(display.axes_, METRICS, strict=True):
        marks = np.concatenate(
            [line.get_xydata() for line in ax.lines if line.get_marker() in "oDX"]
        )
        bars = np.concatenate([bar.get_segments() for bar in ax.collections])
        marks, bars = marks[marks[:, 1].argsort()], bars[bars[:, 0, 1].argsort()]
        for place, name in enumerate(order):
            row = frame.loc[name, metric]
            assert marks[place].tolist() == [row["gain"], place]
            np.testing.assert_allclose(bars[place], [[row["low"], place], [row["high"], place]])
        assert [line.get_xdata()[0] for line in ax.lines if line.get_linestyle() == ":"] == [0]


def test_the_choice_is_bold_and_a_large_loss_is_an_arrow(frame):
    """The axis reaches as far to the left as to the right, and the others keep their room."""
    bad = frame.copy()
    bad.loc["flat", ("log_loss", ["gain", "low", "high"])] = [-90.0, -99.0, -80.0]
    ax = ComparisonDisplay.from_frame(bad).axes_[0]
    assert [label.get_fontweight() for label in ax.get_yticklabels()] == [
        "bold",
        "normal",
        "normal",
    ]
    (arrow,) = ax.texts
    assert arrow.get_text() == "◂ -90"
    most = bad["log_loss", "high"].max()
    assert ax.get_xlim()[0] == pytest.approx(-1.1 * most)
    assert not ComparisonDisplay.from_frame(frame, metrics=METRICS[1:]).axes_[0].texts


def test_marks_say_what_the_intervals_say(frame):
    """Better, worse, or perhaps chance; differing in shape, not in colour alone."""
    display = ComparisonDisplay.from_frame(frame)
    assert display.marks_["log_loss"] == {"t": "better", "same": "unclear", "flat": "worse"}
    assert len({line.get_marker() for line in display.axes_[0].lines} & set("oDX")) == 3
    (legend,) = display.figure_.legends
    entries = sorted(text.get_text() for text in legend.get_texts())
    meanings = ["better than no calibration", "not significant", "worse than no calibration"]
    assert entries == meanings


def test_a_gain_outside_of_its_interval_is_drawn(frame):
    """An interval of a debiased gain need not contain the gain itself."""
    odd = frame.copy()
    odd.loc["t", ("log_loss", ["gain", "low", "high"])] = [0.01, 0.02, 0.03]
    ax = ComparisonDisplay.from_frame(odd, metrics=["log_loss"]).axes_[0]
    assert [0.01, 0.0] in [line.get_xydata()[0].tolist() for line in ax.lines]
    segments = [segment.tolist() for bar in ax.collections for segment in bar.get_segments()]
    assert [[0.02, 0.0], [0.03, 0.0]] in segments


def test_chosen_metrics_on_given_axes(frame):
    """No figure is made; too many or too few axes are an error."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, layout="constrained")
    display = ComparisonDisplay.from_frame(frame, metrics=METRICS[::-1], ax=axes)
    assert display.figure_ is figure
    assert [ax.get_title() for ax in axes] == ["KS calibration\nerror", "log loss"]
    assert plt.get_fignums() == [figure.number]
    refused("axes", ComparisonDisplay.from_frame, frame, metrics=["log_loss"], ax=axes)


def test_what_cannot_be_drawn(frame):
    refused("metrics must be some of", ComparisonDisplay.from_frame, frame, metrics=["ece"])
    refused("compare_calibrators", ComparisonDisplay.from_frame, pd.DataFrame({("a", "b"): [1]}))


@pytest.mark.usefixtures("few_label_sets")
def test_text_does_not_overlap():
    """Titles of all default metrics side by side."""
    y, _, Z = predictions()
    display = ComparisonDisplay.from_frame(compare_calibrators(Z, y, "temperature", cv=2).frame)
    display.figure_.canvas.draw()
    boxes = [ax.title.get_window_extent() for ax in display.axes_]
    for left, right in pairwise(boxes):
        assert left.x1 < right.x0
