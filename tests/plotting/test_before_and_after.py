"""``before=True`` draws the uncalibrated model beside the calibrated one."""

import numpy as np
import pytest
from calls import refused
from drawings import legend_names, predictions
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import skcalib

plt = pytest.importorskip("matplotlib.pyplot", reason="displays need the extra plot")

ERRORS = {
    skcalib.ReliabilityDisplay: lambda display: display.error,
    skcalib.KSDisplay: lambda display: display.error,
    skcalib.ClasswiseDisplay: lambda display: display.errors,
    skcalib.DecompositionDisplay: lambda display: display.frame.to_numpy()[0],
}


@pytest.mark.parametrize("cls", ERRORS)
def test_a_classifier_without_probabilities_has_to_be_calibrated_first(cls):
    y, _, Z = predictions()
    says = "RidgeClassifier has no predict_proba: wrap it in skcalib.CalibratedClassifier"
    refused(says, cls.from_estimator, RidgeClassifier().fit(Z, y), Z, y)


@pytest.mark.parametrize("cls", ERRORS)
def test_both_are_drawn_on_the_same_axes(cls):
    """They have the numbers of two calls, and their names are in the legend."""
    y, P, Z = predictions()
    calibrator = skcalib.TemperatureScaling().fit(Z, y)
    after = cls.from_estimator(calibrator, Z, y, before=True)
    assert after.ax_ is after.before_.ax_
    two = cls.from_predictions(y, P), cls.from_predictions(y, calibrator.predict_proba(Z))
    for display, expected in zip((after.before_, after), two, strict=True):
        np.testing.assert_allclose(ERRORS[cls](display), ERRORS[cls](expected), rtol=1e-9)
    legend = after.ax_.get_legend() or after.figure_.legends[0]
    assert legend_names(legend)[:2] == ["before", "after"]
    assert cls.from_estimator(calibrator, Z, y).before_ is None


@pytest.mark.parametrize("ensemble", [False, True])
def test_before_are_the_probabilities_of_the_models(ensemble):
    """Those that they predict by themselves, averaged if there are several; words as labels."""
    y, _, Z = predictions(120, 3)
    words = np.array(["a", "b", "c"])[y]
    calibrated = skcalib.CalibratedClassifier(
        LogisticRegression(), "temperature", cv=3, ensemble=ensemble
    ).fit(Z, words)
    display = skcalib.ReliabilityDisplay.from_estimator(calibrated, Z, words, before=True)
    models = [pair[0] for pair in calibrated.pairs_] if ensemble else [calibrated.estimator_]
    mean = sum(each.predict_proba(Z) for each in models) / len(models)
    expected = skcalib.ReliabilityDisplay.from_predictions(words, mean)
    np.testing.assert_allclose(display.before_.line_.get_data(), expected.line_.get_data())


def test_a_model_without_probabilities_is_shown_by_its_scores():
    y, _, Z = predictions(120, 3)
    model = RidgeClassifier().fit(Z, y)
    calibrated = skcalib.CalibratedClassifier(FrozenEstimator(model), "temperature").fit(Z, y)
    display = skcalib.ReliabilityDisplay.from_estimator(calibrated, Z, y, before=True)
    P = np.exp(model.decision_function(Z))
    expected = skcalib.ReliabilityDisplay.from_predictions(y, P / P.sum(axis=1, keepdims=True))
    np.testing.assert_allclose(display.before_.line_.get_data(), expected.line_.get_data())


def test_pipelines_weights_options_and_a_class_that_was_never_seen():
    y, _, Z = predictions(150, 3)
    seen = y < 2
    inner = skcalib.CalibratedClassifier(GaussianNB(), "temperature", cv=3)
    pipeline = make_pipeline(StandardScaler(), inner).fit(Z[seen], y[seen])
    w = np.random.default_rng(0).integers(0, 3, 150)
    asked = {"sample_weight": w, "n_bins": 4, "band": False, "name": "mine"}
    display = skcalib.ReliabilityDisplay.from_estimator(pipeline, Z, y, before=True, **asked)
    model, X = pipeline[-1].estimator_, pipeline[0].transform(Z)
    P = np.column_stack([model.predict_proba(X), np.zeros(150)])
    expected = skcalib.ReliabilityDisplay.from_predictions(y, P, sample_weight=w, n_bins=4)
    np.testing.assert_allclose(display.before_.line_.get_data(), expected.line_.get_data())
    assert display.name == "mine"
    assert (display.band_, display.before_.band_) == (None, None)


def test_what_is_not_calibrated_is_refused():
    y, _, Z = predictions(60)
    model = GaussianNB().fit(Z, y)
    refused(
        "got GaussianNB: draw each model",
        skcalib.ReliabilityDisplay.from_estimator,
        model,
        Z,
        y,
        before=True,
    )
    calibrator = skcalib.TemperatureScaling().fit(Z, y)
    with pytest.raises(ValueError, match="cannot be combined with groups="):
        skcalib.ReliabilityDisplay.from_estimator(calibrator, Z, y, before=True, groups=y)
    with pytest.raises(ValueError, match="before must be True or False"):
        skcalib.ReliabilityDisplay.from_estimator(calibrator, Z, y, before="yes")
    assert not plt.get_fignums()
