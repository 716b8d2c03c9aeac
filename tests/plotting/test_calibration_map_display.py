"""The calibration map shows what the calibrator returns, and nothing that it does not."""

import numpy as np
import pandas as pd
import pytest
from calls import refused
from drawings import legend_names, nothing_is_cut, predictions
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline

import skcalib
from skcalib import CalibratedClassifier, CalibrationMapDisplay, ClassifierScores

plt = pytest.importorskip("matplotlib.pyplot", reason="displays need the extra plot")


def points(display):
    return np.array(display.points_.get_offsets())


@pytest.mark.parametrize("kind", ["column of proba", "column of logits", "two of proba"])
@pytest.mark.parametrize("calibrator", [skcalib.PlattScaling(), skcalib.IsotonicCalibrator()])
def test_binary_curve_is_the_map(calibrator, kind):
    """With two classes the curve is what the calibrator returns at every score."""
    y, P, _ = predictions(300, 2)
    p = P[:, 1]
    X = {"column of logits": np.log(p / (1 - p)), "column of proba": p, "two of proba": P}[kind]
    calibrator = clone(calibrator).fit(X, y)
    display = CalibrationMapDisplay.from_estimator(calibrator, X)
    x, curve = np.array(display.line_.get_data())
    inside = (x > 0) & (x < 1)
    x, curve = x[inside], curve[inside]
    rows = {"column of logits": np.log(x / (1 - x)), "column of proba": x}.get(
        kind, np.column_stack([1 - x, x])
    )
    np.testing.assert_allclose(curve, calibrator.predict_proba(rows)[:, 1], atol=1e-9)
    assert display.band_ is None
    expected = np.column_stack([p, calibrator.predict_proba(X)[:, 1]])
    np.testing.assert_allclose(np.sort(points(display), axis=0), np.sort(expected, axis=0))
    first = CalibrationMapDisplay.from_estimator(calibrator, X, pos_label=0)
    np.testing.assert_allclose(
        first.curve[1], 1 - display.curve[1][::-1], err_msg="the first class is the complement"
    )


def test_points_are_rows():
    """With more classes a point is the top label's probability before, and that class's after."""
    y, _, Z = predictions(300, 3)
    name, calibrator = "VectorScaling", skcalib.VectorScaling().fit(Z, y)
    display = CalibrationMapDisplay.from_estimator(calibrator, Z)
    P, Q = np.exp(Z) / np.exp(Z).sum(axis=1, keepdims=True), calibrator.predict_proba(Z)
    top = P.argmax(axis=1)
    expected = np.column_stack([P.max(axis=1), Q[np.arange(300), top]])
    order = np.argsort(expected[:, 0])
    np.testing.assert_allclose(points(display), expected[order], atol=1e-9)
    flip = 100 * (Q.argmax(axis=1) != top).mean()
    shown = display.line_.get_label().removeprefix(f"{name}\n(").removesuffix("% change class)")
    assert float(shown) == pytest.approx(flip, abs=0.06)


def test_a_map_of_two_logits_has_its_rows_beside_it():
    """Vector scaling reads both logits: the curve is that of logits with mean 0."""
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(500, 2)) * 3
    y = rng.random(500) < 1 / (1 + np.exp(Z[:, 0] - 0.3 * Z[:, 1]))
    calibrator = skcalib.VectorScaling(penalty=None).fit(Z, y)
    display = CalibrationMapDisplay.from_estimator(calibrator, Z)
    x, curve = display.curve[0][1:-1], display.curve[1][1:-1]
    half = np.log(x / (1 - x)) / 2
    expected = calibrator.predict_proba(np.column_stack([-half, half]))[:, 1]
    np.testing.assert_allclose(curve, expected, atol=1e-9)
    assert display.band_ is None
    off = np.abs(points(display)[:, 1] - np.interp(points(display)[:, 0], x, curve))
    assert np.median(off) > 0.01


def test_median_and_band_of_rows():
    """The curve halves the rows of each stretch of scores; nine in ten lie in the band."""
    rng = np.random.default_rng(0)
    before = rng.random(4000)
    after = before * rng.random(4000)
    display = CalibrationMapDisplay.from_predictions(before, after)
    x, y = display.curve
    low, high = display.band
    np.testing.assert_allclose(y, x / 2, atol=0.1)
    inside = (after >= np.interp(before, x, low)) & (after <= np.interp(before, x, high))
    assert inside.mean() == pytest.approx(0.9, abs=0.03)


def test_no_change_has_no_band_however_few_the_rows():
    """Unchanged probabilities lie on the diagonal, and the band about them has no width."""
    _, P, _ = predictions(30, 5)
    display = CalibrationMapDisplay.from_predictions(P, P)
    np.testing.assert_allclose(display.line_.get_xdata(), display.line_.get_ydata())
    np.testing.assert_allclose(*display.band)
    assert display.line_.get_label() == "0% change class"


def test_wherever_the_calibrator_sits():
    """Alone, in a `CalibratedClassifier` or at the end of a pipeline: the same rows."""
    y, _, X = predictions(400, 3)
    model = GaussianNB().fit(X[:100], y[:100])
    X, y = X[100:], y[100:]
    alone = skcalib.VectorScaling().fit(model.predict_proba(X), y)
    joined = CalibratedClassifier(FrozenEstimator(model), skcalib.VectorScaling()).fit(X, y)
    piped = make_pipeline(ClassifierScores(FrozenEstimator(model)), skcalib.VectorScaling())
    expected = points(CalibrationMapDisplay.from_estimator(alone, model.predict_proba(X)))
    for estimator in (joined, piped.fit(X, y)):
        display = CalibrationMapDisplay.from_estimator(estimator, X)
        np.testing.assert_allclose(points(display), expected)
        assert display.name == "VectorScaling"
    ensemble = CalibratedClassifier(GaussianNB(), skcalib.VectorScaling(), cv=3, ensemble=True)
    display = CalibrationMapDisplay.from_estimator(ensemble.fit(X, y), X)
    before = np.mean([model.predict_proba(X) for model, _ in ensemble.pairs_], axis=0)
    np.testing.assert_allclose(display.before, np.sort(before.max(axis=1)))


def test_columns_follow_their_names_and_the_order_of_the_labels():
    """A frame is read by name, and `labels` are in the order of the columns."""
    _, P, _ = predictions(200, 3)
    names = ["cat", "dog", "owl"]
    turned = pd.DataFrame(P[:, ::-1], columns=names[::-1])
    of_owl = CalibrationMapDisplay.from_predictions(turned, P, labels=names, pos_label="owl")
    np.testing.assert_array_equal(of_owl.before, np.sort(P[:, 2]))
    codes = pd.DataFrame(P[:, ::-1], columns=["p_2", "p_1", "p_0"])
    display = CalibrationMapDisplay.from_predictions(codes, P)
    np.testing.assert_array_equal(display.after, display.before)
    y, P, _ = predictions(200, 2)
    frame = pd.DataFrame(P, columns=["no", "yes"])
    CalibrationMapDisplay.from_estimator(skcalib.IsotonicCalibrator().fit(frame, y), frame)


def test_several_calibrators_share_an_axes():
    """One diagonal, one strip with the scores before drawn once, lines that differ."""
    y, _, Z = predictions()
    first = CalibrationMapDisplay.from_estimator(skcalib.TemperatureScaling().fit(Z, y), Z)
    second = CalibrationMapDisplay.from_estimator(
        skcalib.IsotonicCalibrator().fit(Z, y), Z, ax=first.ax_
    )
    assert first.line_.get_linestyle() != second.line_.get_linestyle()
    assert (
        len(first.histogram_.axes.patches) == 2 * 3
    )  # a fill and an outline of: before, first, second
    models = ["TemperatureScaling", "IsotonicCalibrator"]
    assert legend_names(first.ax_.get_legend()) == [*models, "90% of rows", "as before"]


@pytest.mark.parametrize(("n_classes", "written"), [(3, 9), (12, 0)])
def test_heat_map_is_the_matrix(n_classes, written):
    """The picture holds the coefficients, its colours end at the largest off the diagonal."""
    y, _, Z = predictions(500, n_classes)
    for calibrator in (skcalib.MatrixScaling(), skcalib.DirichletCalibrator()):
        display = CalibrationMapDisplay.from_estimator(calibrator.fit(Z, y), Z).plot_coef()
        np.testing.assert_array_equal(display.image_.get_array(), calibrator.coef_)
        off = calibrator.coef_ - np.diag(np.diag(calibrator.coef_))
        assert display.image_.get_clim() == (-np.abs(off).max(), np.abs(off).max())
        assert len(display.ax_.texts) == written
        display.figure_.canvas.draw()


def test_wrong_arguments_are_refused():
    """Shapes, labels and classes are checked."""
    _, P, _ = predictions(50)
    refused("proba_before has shape", CalibrationMapDisplay.from_predictions, P, P[:-1])
    with pytest.raises(ValueError, match="proba_after: row 0 sums to 2"):
        CalibrationMapDisplay.from_predictions(P, np.full_like(P, 0.5))
    refused("labels has 2 labels", CalibrationMapDisplay.from_predictions, P, P, labels=[0, 1])
    with pytest.raises(ValueError, match="proba_before is one column of int64 values"):
        CalibrationMapDisplay.from_predictions(np.array([0, 1, 1]), np.array([0.2, 0.4, 0.9]))
    display = CalibrationMapDisplay.from_predictions(P, P, name="VectorScaling")
    refused("VectorScaling has no matrix of coefficients", display.plot_coef)


def test_long_names_are_shortened():
    """In the heat map, which names six of many classes, and below the axes of the map."""
    y, _, Z = predictions(400, 40)
    names = np.array([f"{k:02d} a class with a long name" for k in range(40)])
    calibrator = skcalib.MatrixScaling().fit(Z, names[y])
    display = CalibrationMapDisplay.from_estimator(calibrator, Z, pos_label=names[1])
    nothing_is_cut(display.figure_)
    label = display.histogram_.axes.get_xlabel()
    assert label == "Probability of class 01 a cla…ng name, before"
    matrix = display.plot_coef()
    nothing_is_cut(matrix.figure_)
    ticks = [text.get_text() for text in matrix.ax_.get_xticklabels()]
    assert (ticks[0], len(ticks)) == ("00 a clas…name", 6)


@pytest.mark.parametrize("n", [8, 200])
def test_whatever_the_legend_names_is_drawn(n):
    """A median of few rows is a point and has no band."""
    _, P, _ = predictions(n, 5)
    display = CalibrationMapDisplay.from_predictions(P, P**0.5 / (P**0.5).sum(1, keepdims=True))
    x = display.line_.get_xdata()
    assert (x.size > 1) == (display.band_ is not None) == (display.line_.get_marker() == "")
    assert (x.size > 1) == (n > 8)


def test_numbers_in_a_heat_map_have_enough_digits():
    """Entries off the diagonal that are not 0 do not look like 0."""
    y, _, Z = predictions(2000, 2)
    display = CalibrationMapDisplay.from_estimator(skcalib.MatrixScaling().fit(Z, y), Z).plot_coef()
    texts = [text.get_text() for text in display.ax_.texts]
    W = display.coef
    assert 1e-4 < abs(W[0, 1]) < 5e-3, "the case"
    assert texts == [f"{value:.4f}" for value in W.ravel()]
    assert display.ax_.get_title() == f"diagonal {W[0, 0]:.2f}"
