"""What a person sees of a fitted calibrator: one line in the terminal, a sentence in notebooks."""

import re

import numpy as np
import pytest
from discovery import CALIBRATORS
from sklearn import config_context
from sklearn.base import clone
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline

import skcalib
from skcalib.extending import ScoreCalibrator


def scores(n_classes, n=200):
    rng = np.random.default_rng(0)
    y = np.r_[np.arange(n_classes), rng.integers(n_classes, size=n - n_classes)]
    return 2 * (rng.normal(size=(n, n_classes)) + 1.5 * np.eye(n_classes)[y]), y


@pytest.mark.parametrize("n_classes", [1, 2, 3, 30])
@pytest.mark.parametrize("calibrator", CALIBRATORS, ids=str)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_fit_is_one_line_that_reads_as_code(calibrator, n_classes):
    """The parameters, and what was fitted as a comment; nothing but them before the fit."""
    before = repr(calibrator)
    if n_classes == 1:
        Z, y = scores(2)
        Z = Z[:, 1] - Z[:, 0]
    else:
        Z, y = scores(n_classes)
    fitted = clone(calibrator).fit(Z.astype(np.float32), y)
    said = repr(fitted)
    parameters, _, sentence = said.partition("  # ")
    assert parameters == before == repr(calibrator)
    assert "\n" not in said
    assert 4 < len(sentence) <= 100
    again = eval(said, vars(skcalib))
    assert again.get_params() == calibrator.get_params()
    assert sentence in fitted._repr_mimebundle_()["text/html"]
    assert sentence in fitted._repr_html_()


@pytest.mark.parametrize(
    ("calibrator", "sentence"),
    [
        (skcalib.TemperatureScaling(), r"T = 2\.\d+: softer"),
        (skcalib.IdentityCalibrator(), r"softmax of the logits"),
        (
            skcalib.HistogramBinning(n_bins=7),
            r"3 functions with 7 bins: values 0(\.\d+)? to (0\.\d+|1)",
        ),
        (skcalib.PlattScaling(fit_slope=False), r"3 functions: slope 1, shift [-\d.]+ to [-\d.]+"),
        (skcalib.VectorScaling(), r"factors 0\.\d+ to 0\.\d+; offsets -?[\d.]+ to -?[\d.]+"),
        (skcalib.AutoCalibrator(), r"T = 2.*: softer; [\d.]+ effective parameters; no shrinkage"),
    ],
    ids=str,
)
def test_a_sentence_says_the_numbers(calibrator, sentence):
    Z, y = scores(3, 600)
    said = repr(calibrator.fit(1.6 * Z, y)).partition("  # ")[2]
    assert re.fullmatch(sentence, said)


@pytest.mark.parametrize(
    ("factor", "effect"), [(0.2, "T = 0.2: sharper"), (1, "T = 1: unchanged"), (3, "T = 3: softer")]
)
def test_a_temperature_is_said_as_what_it_does(factor, effect):
    model = skcalib.TemperatureScaling().fit(*scores(2))
    model.temperature_ = factor + 1e-6
    assert repr(model) == f"TemperatureScaling()  # {effect}"


def test_levels_of_isotonic_maps_are_counted():
    fitted = skcalib.IsotonicCalibrator().fit([[0.1], [0.2], [0.3], [0.4]], [0, 1, 0, 1])
    assert repr(fitted) == "IsotonicCalibrator()  # 1 function with 3 levels"


def test_groups_and_their_common_map_are_said():
    Z, y = scores(3)
    fitted = skcalib.GroupwiseCalibrator("temperature").fit(Z, y, groups=np.arange(200) % 4)
    said = r"common calibrator TemperatureScaling; 4 groups with [\d.]+( to [\d.]+)? parameters of "
    said += "their own"
    assert re.fullmatch(rf"GroupwiseCalibrator\(calibrator='temperature'\)  # {said}", repr(fitted))


def test_a_calibrator_of_your_own_says_classes_and_input():
    class Uniform(ScoreCalibrator):
        def _fit(self, scores, code, w):
            return {}

        def _map(self, scores):
            return np.full(scores.shape, 1 / scores.shape[1])

    Z, y = scores(3)
    assert repr(Uniform().fit(Z, y)) == "Uniform()  # 3 classes, fitted on logits"


def test_what_scikit_learn_prints_of_a_pipeline_is_code():
    """Comments within would make the rest of the line one."""
    fitted = skcalib.TemperatureScaling().fit(*scores(3))
    pipeline = make_pipeline(fitted)
    assert repr(pipeline) == "Pipeline(steps=[('temperaturescaling', TemperatureScaling())])"
    assert "TemperatureScaling" in pipeline._repr_html_()
    assert repr(clone(fitted)) == "TemperatureScaling()"
    with config_context(display="text"):
        assert not hasattr(fitted, "_repr_html_")
        assert set(fitted._repr_mimebundle_()) == {"text/plain"}


@pytest.mark.parametrize(
    ("calibrator", "kind"),
    [
        (None, "AutoCalibrator"),
        ("platt", "PlattScaling"),
        (skcalib.VectorScaling(), "VectorScaling"),
    ],
)
@pytest.mark.parametrize("ensemble", [False, True])
def test_the_diagram_of_a_classifier_shows_its_calibrator(calibrator, kind, ensemble):
    """That of None and of a name too; below it, once fitted, what the calibrator does."""
    Z, y = scores(3)
    model = skcalib.CalibratedClassifier(GaussianNB(), calibrator, cv=2, ensemble=ensemble)
    before = model._repr_html_()
    assert f"calibrator: {kind}" in before
    assert "estimator: GaussianNB" in before
    model.fit(Z, y)
    fitted = model.pairs_[0][1] if ensemble else model.calibrator_
    sentence = f"{kind}: {repr(fitted).partition('  # ')[2]}"
    sentence = f"2 pairs, the first with {sentence}" if ensemble else sentence
    assert model._repr_html_().endswith(f"<p>{sentence}</p>")
    assert repr(model) == f"{clone(model)!r}  # {sentence}"
    assert eval(repr(model), vars(skcalib) | {"GaussianNB": GaussianNB}).cv == 2


def test_a_calibrator_of_another_package_is_named():
    Z, y = scores(3)
    model = skcalib.CalibratedClassifier(GaussianNB(), GaussianNB(), cv=2).fit(Z, y)
    assert model._repr_html_().endswith("<p>GaussianNB</p>")
