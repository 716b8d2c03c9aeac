"""The picture of a comparison shows the numbers of its frame."""

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from drawings import predictions

from skcalib import IdentityCalibrator, TemperatureScaling, compare_calibrators
from skcalib.plotting import ComparisonDisplay

METRICS = ["log_loss", "ks_calibration_error"]


class Failing(IdentityCalibrator):
    def _fit(self, scores, code, w):
        raise RuntimeError("no luck")


class Flat(IdentityCalibrator):
    def _map(self, scores):
        return np.full(scores.shape, 1 / scores.shape[1])


class Same(IdentityCalibrator):
    """Not the baseline itself, but equal to it."""


@pytest.fixture(scope="module")
def frame():
    """A calibrator that helps, one that harms, one that does nothing, one that fails."""
    y, _, Z = predictions()
    tried = {"fail": Failing(), "flat": Flat(), "same": Same(), "t": TemperatureScaling()}
    return compare_calibrators(Z, y, tried, metrics=METRICS, random_state=0)


def names_of(ax):
    return [text.get_text() for text in ax.get_yticklabels()]


def test_marks_stand_at_the_means_best_first(frame):
    """One in each row, at the mean over the folds, with a line of one standard deviation."""
    display = ComparisonDisplay.from_frame(frame)
    order = ["t", "identity", "same", "flat"]
    assert names_of(display.axes_[0]) == order
    for ax, metric in zip(display.axes_, METRICS, strict=True):
        marks = [container.lines[0].get_xydata()[0] for container in ax.containers]
        bars = [container.lines[2][0].get_segments()[0][:, 0] for container in ax.containers]
        for (x, place), (left, right) in zip(marks, bars, strict=True):
            row = frame.loc[order[int(place)], metric]
            assert x == pytest.approx(row["mean"])
            assert right - left == pytest.approx(2 * row["std"])
        assert sorted(place for _, place in marks) == [0, 1, 2, 3]


def test_marks_say_what_the_intervals_say(frame):
    """Better, worse, or no more than chance; differing in shape, not in colour alone."""
    display = ComparisonDisplay.from_frame(frame)
    assert display.marks_["log_loss"] == {"t": "better", "same": "unclear", "flat": "worse"}
    lines = [container.lines[0] for container in display.axes_[0].containers]
    assert len({line.get_marker() for line in lines}) == 4
    (legend,) = display.figure_.legends
    assert [text.get_text() for text in legend.get_texts()] == [
        "better than the identity", "no more than chance", "worse than the identity", "identity",
    ]  # fmt: skip


def test_identity_is_a_line_through_the_panel(frame):
    display = ComparisonDisplay.from_frame(frame)
    for ax, metric in zip(display.axes_, METRICS, strict=True):
        dotted = [line for line in ax.lines if line.get_linestyle() == ":"]
        assert [line.get_xdata()[0] for line in dotted] == [frame.loc["identity", (metric, "mean")]]


def test_single_split_has_no_spread_to_draw():
    y, _, Z = predictions()
    half = {"test": (Z[:200], y[:200]), "metrics": ["log_loss"]}
    display = ComparisonDisplay.from_frame(
        compare_calibrators(Z[200:], y[200:], "temperature", **half)
    )
    for container in display.axes_[0].containers:
        assert not container.has_xerr


def test_chosen_metrics_on_given_axes(frame):
    """No figure is made; too many or too few axes are an error."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, layout="constrained")
    display = ComparisonDisplay.from_frame(frame, metrics=METRICS[::-1], ax=axes)
    assert display.figure_ is figure
    assert [ax.get_title() for ax in axes] == ["ks calibration\nerror", "log loss"]
    assert plt.get_fignums() == [figure.number]
    with pytest.raises(ValueError, match="axes"):
        ComparisonDisplay.from_frame(frame, metrics=["log_loss"], ax=axes)


def test_what_cannot_be_drawn(frame):
    with pytest.raises(ValueError, match="metrics must be some of"):
        ComparisonDisplay.from_frame(frame, metrics=["ece"])
    with pytest.raises(ValueError, match="compare_calibrators"):
        ComparisonDisplay.from_frame(pd.DataFrame({("a", "b"): [1]}))


def test_text_does_not_overlap(frame):
    """Titles of all default metrics side by side."""
    y, _, Z = predictions()
    display = ComparisonDisplay.from_frame(compare_calibrators(Z, y, "temperature", n_resamples=2))
    display.figure_.canvas.draw()
    boxes = [ax.title.get_window_extent() for ax in display.axes_]
    for left, right in pairwise(boxes):
        assert left.x1 < right.x0
