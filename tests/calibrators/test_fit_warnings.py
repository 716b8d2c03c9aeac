"""A fit warns once where its result is of no use: classes without rows, scores of no use."""

import warnings

import numpy as np
import pytest
from discovery import each_of
from sklearn.dummy import DummyClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression

import skcalib

ZERO = [
    skcalib.PlattScaling(),
    skcalib.PlattScaling(degree=2),
    skcalib.PlattScaling(fit_slope=False),
    skcalib.BetaCalibrator(),
    skcalib.IsotonicCalibrator(),
    skcalib.HistogramBinning(),
    skcalib.DirichletCalibrator(),
]
ABOVE = [
    skcalib.AutoCalibrator(),
    skcalib.TemperatureScaling(),
    skcalib.VectorScaling(),
    skcalib.MatrixScaling(),
    skcalib.SplineCalibrator(),
    skcalib.VennAbersCalibrator(),
    skcalib.HistogramBinning(class_conditional=False),
]


def scores(n, n_classes, seed=0):
    rng = np.random.default_rng(seed)
    Z = 2 * rng.normal(size=(n, n_classes))
    return Z, (Z / 1.5 + rng.gumbel(size=Z.shape))


def caught(fit):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        # Of columns in the reverse order, which tests of the order of columns expect.
        warnings.filterwarnings("ignore", "The largest score of a row belongs to its label")
        fitted = fit()
    assert all(each.category is ConvergenceWarning for each in found)
    return fitted, [str(each.message) for each in found]


@each_of(ZERO)
def test_no_event_among_the_rows_is_one_warning(calibrator):
    p = np.random.default_rng(0).random(60)
    fitted, texts = caught(lambda: calibrator.fit(p, np.zeros(60, int)))
    assert len(texts) == 1
    assert texts[0].startswith(
        "no row of class 1 among 60 rows: every probability of this class be"
    )
    assert fitted.predict_proba(np.linspace(0.05, 0.95, 10))[:, 1].max() < 1e-3
    _, texts = caught(lambda: calibrator.fit(p, np.ones(60, int)))
    assert len(texts) == 1
    assert texts[0].startswith("no row of class 0 among 60")


@each_of(ZERO)
def test_classes_without_rows_are_listed_once(calibrator):
    Z, utility = scores(200, 9)
    names = np.array([f"c{k}" for k in range(9)])
    y = names[utility[:, :2].argmax(axis=1)]
    calibrator = calibrator.set_params(classes=names)
    _, texts = caught(lambda: calibrator.fit(Z, y))
    calibrator.set_params(classes=None)
    assert len(texts) == 1
    begins = "no row of classes 'c2', 'c3', 'c4', 'c5', 'c6' and 2 more among 200 rows: every"
    assert texts[0].startswith(begins)


@each_of(ABOVE)
def test_calibrators_that_keep_it_above_0_say_nothing(calibrator):
    Z, utility = scores(200, 4)
    y = utility[:, :3].argmax(axis=1)
    fitted, texts = caught(lambda: calibrator.set_params(classes=range(4)).fit(Z, y))
    calibrator.set_params(classes=None)
    assert texts == []
    assert fitted.predict_proba(Z)[:, 3].min() > 0


TO_BASE_RATES = [
    skcalib.BetaCalibrator(),
    skcalib.IsotonicCalibrator(),
    skcalib.IsotonicCalibrator(centered=True),
]
NOT_FALLING = [skcalib.AutoCalibrator(order_preserving=True), skcalib.VennAbersCalibrator()]


@each_of(TO_BASE_RATES + NOT_FALLING)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_reversed_scores_are_the_warning_of_temperature_scaling(calibrator, n_classes):
    Z, utility = scores(400, n_classes)
    y = (utility - 2 * Z).argmax(axis=1)
    fitted, (text,) = caught(lambda: calibrator.fit(Z, y))
    assert "predict the labels no better than" in text
    assert "in the order of the sorted labels" in text
    _, (of_temperature,) = caught(lambda: skcalib.TemperatureScaling().fit(Z, y))
    assert of_temperature.endswith("in the order of the sorted labels.")
    if calibrator in TO_BASE_RATES:
        rates = np.bincount(y) / 400
        np.testing.assert_allclose(fitted.predict_proba(Z), np.tile(rates, (400, 1)), atol=1e-9)
    fitted, texts = caught(lambda: calibrator.fit(Z, utility.argmax(axis=1)))
    assert texts == []
    assert np.ptp(fitted.predict_proba(Z)[:, 0]) > 0.8


ONE_LABEL = [
    skcalib.AutoCalibrator(),
    skcalib.AutoCalibrator(order_preserving=True),
    skcalib.SplineCalibrator(),
    skcalib.VennAbersCalibrator(),
    skcalib.BayesianBinning(),
]


@each_of(ONE_LABEL)
def test_rows_of_one_label_are_a_warning(calibrator):
    p = 0.2 + 0.8 * np.random.default_rng(0).random(60)
    fitted, texts = caught(lambda: calibrator.fit(p, np.ones(60, int)))
    (text,) = texts
    assert text.startswith("y: all 60 rows have the label 1, ")
    assert text.endswith(" fit on rows of every class.")
    assert fitted.predict_proba(p)[:, 0].min() > 0
    Z, utility = scores(60, 4)
    Z[:, 2] += 2
    calibrator.set_params(classes=np.array(list("abcd"), dtype=object))  # as pandas has strings
    _, texts = caught(lambda: calibrator.fit(Z, np.full(60, "c")))
    assert [text[:34] for text in texts] == ["y: all 60 rows have the label 'c',"]
    _, texts = caught(lambda: calibrator.fit(Z, np.where(utility[:, 0] > 0, "c", "b")))
    calibrator.set_params(classes=None)
    assert not any(text.startswith("y: all 60") for text in texts)


@pytest.mark.parametrize("n_classes", [2, 4])
def test_a_model_around_a_calibrator_warns_once(n_classes):
    Z, utility = scores(300, n_classes)
    code = utility[:, : n_classes - 1].argmax(axis=1) if n_classes > 2 else np.zeros(300, int)
    model = LogisticRegression().fit(Z, np.arange(300) % n_classes)
    calibrated = skcalib.CalibratedClassifier(FrozenEstimator(model), "isotonic")
    _, texts = caught(lambda: calibrated.fit(Z, code))
    assert [text[:12] for text in texts] == ["no row of cl"]


def test_an_ensemble_warns_once_of_what_is_true_of_each_fold():
    Z, utility = scores(300, 2)
    model = skcalib.CalibratedClassifier(DummyClassifier(), "isotonic", cv=3, ensemble=True)
    _, texts = caught(lambda: model.fit(Z, utility.argmax(axis=1)))
    assert [text[:30] for text in texts] == ["IsotonicCalibrator: the scores"]


def test_a_warning_that_is_an_error_leaves_the_calibrator_as_it_was():
    isotonic = skcalib.IsotonicCalibrator()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ConvergenceWarning, match="no row of class 1 among 3"):
            isotonic.fit([0.1, 0.2, 0.4], [0, 0, 0])
    assert not hasattr(isotonic, "classes_")
