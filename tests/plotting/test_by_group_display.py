"""Small multiples: each panel is the diagram of its group's rows, in the order of the table."""

import numpy as np
import pandas as pd
import pytest
from calls import refused
from drawings import nothing_is_cut

from skcalib import ReliabilityDisplay
from skcalib.metrics import calibration_by_group

plt = pytest.importorskip("matplotlib.pyplot", reason="displays need the extra plot")
pytestmark = pytest.mark.usefixtures("few_label_sets")


def in_groups(n_groups=3, n=600):
    rng = np.random.default_rng(0)
    group = rng.integers(n_groups, size=n)
    f = rng.normal(size=n)
    y = (rng.random(n) < 1 / (1 + np.exp(-f - group + 1))).astype(int)
    return y, 1 / (1 + np.exp(-f)), group


def test_each_panel_is_the_diagram_of_its_group():
    y, p, group = in_groups()
    w = np.random.default_rng(1).integers(0, 3, y.size)
    display = ReliabilityDisplay.from_predictions(y, p, groups=group, sample_weight=w, n_bins=5)
    expected = calibration_by_group(y, p, group, sample_weight=w, random_state=0).frame
    assert list(display.groups_) == expected.index.tolist()
    assert display is display.groups_[expected.index[0]]
    pd.testing.assert_frame_equal(display.by_group_.frame, expected)
    for (label, each), axes in zip(display.groups_.items(), display.axes_, strict=True):
        own = group == label
        alone = ReliabilityDisplay.from_predictions(y[own], p[own], sample_weight=w[own], n_bins=5)
        pd.testing.assert_frame_equal(each.table, alone.table)
        assert each.ax_ is axes
        n = w[own].sum()
        assert axes.get_title() == f"{label}\n{n} rows, ECE {100 * alone.error:.1f}%"
        assert axes.get_legend() is None
    assert len({axes.figure for axes in display.axes_}) == 1


def test_panels_of_equal_size_share_the_names_of_their_axes():
    """Five of them stand in rows of three; statistics are below the titles."""
    y, p, group = in_groups(5)
    display = ReliabilityDisplay.from_predictions(y, p, groups=group, statistics=True)
    figure = display.figure_
    names = figure.get_supxlabel(), figure.get_supylabel()
    assert names == display.axis_names == ("Probability of class 1", "Frequency of class 1")
    assert not any(ax.get_xlabel() or ax.get_ylabel() for ax in figure.axes)
    nothing_is_cut(figure)
    boxes = np.array([panel.get_window_extent().bounds for panel in display.axes_])
    np.testing.assert_allclose(boxes[:, 2:], np.broadcast_to(boxes[0, 2:], (5, 2)), rtol=0.1)
    assert len({round(left / 100) for left in boxes[:, 0]}) == 3
    assert all("ICI" in panel.get_title() for panel in display.axes_)


def test_what_is_not_drawn_is_said():
    y, p, group = in_groups(14, 1400)
    group[:4] = 99
    figure = ReliabilityDisplay.from_predictions(y, p, groups=group).figure_
    note = "the 12 worst of 14 groups; not shown: 1 with fewer than 10 rows"
    assert figure.get_supxlabel().split("\n") == ["Probability of class 1", note]


def test_panels_show_the_same_square():
    y, p, group = in_groups(3, 3000)
    p = p * np.array([0.02, 0.1, 0.3])[group]
    y = (np.random.default_rng(0).random(3000) < p).astype(int)
    display = ReliabilityDisplay.from_predictions(y, p, groups=group)
    assert len({each.limits for each in display.groups_.values()}) > 1
    assert len({panel.get_xlim() for panel in display.axes_}) == 1
    assert len({panel.get_ylim() for panel in display.axes_}) == 1
    assert display.axes_[0].get_xlim()[1] > 0.3


def test_axes_may_be_given():
    y, p, group = in_groups()
    axes = plt.subplots(1, 3)[1]
    display = ReliabilityDisplay.from_predictions(y, p, groups=group, ax=axes)
    assert display.axes_ == list(axes)
    with pytest.raises(ValueError, match="ax contains 2 axes, but 3 are needed"):
        ReliabilityDisplay.from_predictions(y, p, groups=group, ax=axes[:2])


def test_several_columns_and_several_classes():
    rng = np.random.default_rng(0)
    P = rng.dirichlet([1, 1, 1], 300)
    y = np.array(["x", "y", "z"])[P.argmax(axis=1)]
    frame = pd.DataFrame({"a": rng.choice(["u", "v"], 300), "b": rng.integers(2, size=300)})
    display = ReliabilityDisplay.from_predictions(y, P, groups=frame)
    assert set(display.groups_) == {("u", 0), ("u", 1), ("v", 0), ("v", 1)}
    label = next(iter(display.groups_))
    assert display.ax_.get_title().startswith(f"{label[0]} x {label[1]}\n")


@pytest.mark.parametrize(
    ("keywords", "words"),
    [
        ({"r": 2}, "leave out mode and r"),
        ({"mode": "within_top"}, "leave out mode and r"),
        ({"groups": np.arange(600)}, "every group has fewer than 10 rows"),
        ({"groups": ["a"]}, "groups has 1 rows"),
    ],
)
def test_bad_input_is_refused_in_one_line(keywords, words):
    y, p, group = in_groups()
    refused(words, ReliabilityDisplay.from_predictions, y, p, **{"groups": group, **keywords})
