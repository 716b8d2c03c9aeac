"""Dots and small curves show the errors of the classes."""

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from calls import refused
from drawings import bins, nothing_is_cut, predictions
from sklearn.naive_bayes import GaussianNB

from skcalib import ClasswiseDisplay, TemperatureScaling
from skcalib.metrics import static_calibration_error

plt = pytest.importorskip("matplotlib.pyplot", reason="displays need the extra plot")


def heights(dots):
    return np.asarray(dots.get_ydata())


def nothing_is_covered(display):
    """All dots are on the axes, and below the legend."""
    display.figure_.canvas.draw()
    ax = display.ax_
    bottom = ax.get_legend().get_window_extent().y0
    for line in ax.lines:
        places = line.get_transform().transform(np.column_stack(line.get_data()))
        assert ax.bbox.y0 <= places[:, 1].min()
        assert places[:, 1].max() < bottom


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
def test_dots_are_the_errors_of_the_classes_worst_first(weighted, strategy):
    """They fall, and are those of the metric, whose mean is in the legend."""
    y, P, _ = predictions(500, 6)
    w = np.random.default_rng(0).integers(3, size=500) if weighted else None
    display = ClasswiseDisplay.from_predictions(y, P, strategy=strategy, sample_weight=w)
    keywords = {"strategy": strategy, "sample_weight": w}
    expected = static_calibration_error(y, P, average=None, **keywords)
    np.testing.assert_allclose(heights(display.dots_), np.sort(expected)[::-1])
    np.testing.assert_allclose(display.errors[display.order_], heights(display.dots_))
    assert display.dots_.get_label() == f"SCE {100 * expected.mean():.1f}%"


def test_curves_are_the_bins_of_the_worst_classes():
    """Each small curve has the points of its class's bins, by loops; its title the error."""
    y, P, _ = predictions(300, 8)
    display = ClasswiseDisplay.from_predictions(y, P, n_bins=5, n_curves=3)
    np.testing.assert_array_equal(display.shown_, np.argsort(-display.errors)[:3])
    for k, line, ax in zip(display.shown_, display.lines_, display.axes_[1:], strict=True):
        confidence, accuracy, weight = bins(P[:, k], y == k, np.ones(300), 5)
        points = np.array([confidence, accuracy])
        np.testing.assert_allclose(line.get_data(), np.where(weight < 10, np.nan, points))
        np.testing.assert_allclose(ax.lines[1].get_data(), points[:, weight < 10])
        error = (weight * np.abs(accuracy - confidence)).sum() / 300
        assert ax.get_title() == f"{k}: {100 * error:.1f}%"


def test_the_reference_is_what_a_calibrated_model_shows():
    """Labels drawn from the probabilities have the expected errors on average."""
    _, P, _ = predictions(400, 5)
    rng, errors = np.random.default_rng(0), []
    for _ in range(200):
        y = (rng.random((400, 1)) > np.cumsum(P, axis=1)[:, :-1]).sum(axis=1)
        errors.append(static_calibration_error(y, P, average=None, labels=np.arange(5)))
    display = ClasswiseDisplay.from_predictions(y, P, labels=np.arange(5))
    drawn = display.expected_.get_data().values
    np.testing.assert_array_equal(drawn, display.expected[display.order_])
    mean, error = np.mean(errors, axis=0), np.std(errors, axis=0) / np.sqrt(200)
    # At most so much: the scores of a bin are not quite equal.
    assert (display.expected > mean - 4 * error).all()
    assert (display.expected < 1.05 * mean + 4 * error).all()


def test_chosen_classes_and_errors_alone():
    """Errors without curves, and curves of the classes that one names."""
    y, P, _ = predictions()
    words = np.array(["ant", "bee", "cat", "dog"])[y]
    errors = ClasswiseDisplay.from_predictions(words, P, n_curves=0)
    assert len(errors.axes_) == 1
    assert [t.get_text() for t in errors.ax_.get_xticklabels()] == errors.order_.tolist()
    curves = ClasswiseDisplay.from_predictions(words, P, classes=["dog", "ant"])
    assert [ax.get_title().split(":")[0] for ax in curves.axes_[1:]] == ["dog", "ant"]


def test_two_models_share_axes_in_one_order():
    """The second takes order and classes of the first; without them it is refused."""
    y, P, Z = predictions(n_classes=5)
    first = ClasswiseDisplay.from_predictions(y, P, n_curves=2, name="a")
    model = GaussianNB().fit(Z, y)
    second = ClasswiseDisplay.from_estimator(
        model, Z, y, ax=first.axes_, order=first.order_, classes=first.shown_
    )
    np.testing.assert_allclose(heights(second.dots_), second.errors[first.order_])
    assert second.lines_[0].axes is first.lines_[0].axes
    arrows = [(text.xyann[1], text.xy[1]) for text in first.ax_.texts]
    ends = zip(first.errors[first.order_], second.errors[first.order_], strict=True)
    np.testing.assert_allclose(arrows, list(ends))
    shades = [patch for patch in first.ax_.patches if patch.get_label() == "if calibrated"]
    assert shades == [second.expected_]
    assert first.ax_.get_ylim()[1] > heights(first.dots_).max()
    nothing_is_covered(second)
    with pytest.raises(ValueError, match="in another order: pass order="):
        ClasswiseDisplay.from_predictions(
            y, P, ax=first.axes_, order=first.order_[::-1], classes=first.shown_
        )
    with pytest.raises(ValueError, match="pass classes="):
        ClasswiseDisplay.from_predictions(
            y, P, ax=first.axes_, order=first.order_, classes=first.shown_[::-1]
        )


def test_a_worse_second_model_fits_the_axes_below_the_legend():
    y, P, Z = predictions(2000, 5, factor=3.0)
    model = TemperatureScaling().fit(Z, y)
    first = ClasswiseDisplay.from_estimator(model, Z, y, n_curves=0)
    second = ClasswiseDisplay.from_predictions(y, P, ax=first.axes_, order=first.order_, n_curves=0)
    assert second.errors.max() > 2 * first.errors.max()
    nothing_is_covered(second)


@pytest.mark.parametrize(("n", "n_classes"), [(50, 2), (30, 100), (60, 1000)])
def test_many_classes_most_without_rows(n, n_classes):
    """Few rows and many classes are drawn without a warning, and no tick labels overlap."""
    y, P, _ = predictions(n, n_classes)
    display = ClasswiseDisplay.from_predictions(y, P, labels=np.arange(n_classes))
    display.figure_.canvas.draw()
    for ax in display.axes_:
        boxes = [t.get_window_extent() for t in ax.get_xticklabels() if t.get_text()]
        low, high = ax.get_window_extent().x0 - 1, ax.get_window_extent().x1 + 1
        boxes = [box for box in boxes if low <= (box.x0 + box.x1) / 2 <= high]
        assert all(a.x1 <= b.x0 for a, b in pairwise(boxes))


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"n_curves": -1}, "n_curves must be"),
        ({"classes": [9]}, "classes=9 is not one of"),
        ({"order": [0, 1]}, "order must contain each of the 4 labels exactly once"),
        ({"confidence_level": 0}, "confidence_level must be"),
        ({"ax": [1, 2, 3]}, "ax contains 3 axes, but 5 are needed"),
    ],
)
def test_wrong_arguments_are_refused(keywords, message):
    """Before anything is drawn."""
    y, P, _ = predictions(50)
    refused(message, ClasswiseDisplay.from_predictions, y, P, **keywords)
    assert not plt.get_fignums()


@pytest.mark.parametrize("n_classes", [3, 12])
def test_long_names_are_shortened_and_leave_dots_and_curves_their_size(n_classes):
    y, P, _ = predictions(500, n_classes)
    sizes = []
    long = [f"{k}: a class with a rather long name" for k in "abcdefghijkl"[:n_classes]]
    for names in (np.arange(n_classes), np.array(long)):
        display = ClasswiseDisplay.from_predictions(names[y], P)
        nothing_is_cut(display.figure_)
        sizes.append([ax.get_window_extent().size for ax in display.axes_])
    assert (np.array(sizes[1]) > 0.5 * np.array(sizes[0])).all()
    first = display.order_[0]
    assert display.ax_.get_xticklabels()[0].get_text() == f"{first[:9]}…name"
    assert display.axes_[1].get_title().startswith(f"{first[:9]}…name: ")


def test_short_names_of_classes_differ():
    """They have as many letters as that takes."""
    y, P, _ = predictions(500, 12)
    names = np.array([f"a class of a very long name, {k}0 years old" for k in range(10, 22)])
    texts = [
        t.get_text() for t in ClasswiseDisplay.from_predictions(names[y], P).ax_.get_xticklabels()
    ]
    assert len(set(texts)) == 12
    assert max(map(len, texts)) < len(names[0])


def test_ticks_of_small_errors_have_no_zeros_that_say_nothing():
    y, P, _ = predictions(50_000, 5, factor=1.0)
    display = ClasswiseDisplay.from_predictions(y, P)
    display.figure_.canvas.draw()
    texts = [tick.get_text() for tick in display.ax_.get_yticklabels()]
    assert "0%" in texts
    assert all(text == f"{float(text[:-1]):g}%" for text in texts)


def test_curves_have_as_many_bins_as_the_rows_of_a_class_fill():
    """The cube root of n/K, rounded up; the errors keep 15 bins."""
    y, P, _ = predictions(800, 4)
    display = ClasswiseDisplay.from_predictions(y, P)
    assert len(display.table) == 4 * 6
    np.testing.assert_allclose(display.errors, static_calibration_error(y, P, average=None))
    assert len(ClasswiseDisplay.from_predictions(y, P, n_bins=9).table) == 4 * 9


def test_several_labels_for_a_row_are_drawn_as_classes():
    """Each has the errors and the bins of its known entries alone, by loops."""
    rng = np.random.default_rng(0)
    names = ["cat", "dog", "owl"]
    P = rng.beta(2, 4, (300, 3))
    Y = pd.DataFrame((rng.random((300, 3)) < P ** [1, 2, 1]).astype(float), columns=names)
    Y.iloc[:100, 1] = np.nan
    display = ClasswiseDisplay.from_predictions(Y, P, n_bins=5)
    assert display.classes.tolist() == names
    for k, name in enumerate(names):
        known = Y[name].notna().to_numpy()
        y, p, n = Y[name][known].to_numpy() == 1, P[known, k], known.sum()
        confidence, accuracy, weight = bins(p, y, np.ones(n), 5)
        error = np.nansum(weight * np.abs(accuracy - confidence)) / n
        assert display.errors[k] == pytest.approx(error)
        assert display.expected[k] > 0.01
        line = display.lines_[display.shown_.tolist().index(name)]
        points = np.array([confidence, accuracy])
        np.testing.assert_allclose(line.get_data(), np.where(weight < 10, np.nan, points))
    assert display.order_[0] == "dog"
    weighted = ClasswiseDisplay.from_predictions(Y, P, n_bins=5, sample_weight=np.arange(300) % 2)
    half = ClasswiseDisplay.from_predictions(Y[1::2], P[1::2], n_bins=5)
    np.testing.assert_allclose(weighted.errors, half.errors)
    Y["owl"] = np.nan
    assert ClasswiseDisplay.from_predictions(Y, P).classes.tolist() == ["cat", "dog"]
