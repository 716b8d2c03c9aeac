"""Calibrated classifiers inside pipelines, converted by skl2onnx and run by ONNX Runtime."""

import sys
from pathlib import Path

import numpy as np
import pytest
from calls import refused
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC
from sklearn.tree import DecisionTreeClassifier

from skcalib import (
    AutoCalibrator,
    CalibratedClassifier,
    ClassifierScores,
    IsotonicCalibrator,
    TemperatureScaling,
    register_onnx_converters,
)

skl2onnx = pytest.importorskip("skl2onnx", reason="pipelines are converted by skl2onnx")
runtime = pytest.importorskip("onnxruntime", reason="models are run by ONNX Runtime")
protobuf = pytest.importorskip("google.protobuf", reason="onnx writes models by it")


def noisy(loaded):
    """Features between the values that a tree of float32 could confuse; some wrong labels."""
    X, y = loaded
    rng = np.random.default_rng(0)
    wrong = rng.random(len(y)) < 0.1
    return X + 1e-3 * rng.normal(size=X.shape), np.where(wrong, rng.permutation(y), y)


FLOWERS = noisy(load_iris(return_X_y=True))
TUMOURS = noisy(load_breast_cancer(return_X_y=True))
# skl2onnx 1.20 reads what scikit-learn 1.9 is about to remove.
MACHINES = pytest.mark.filterwarnings("ignore:Attribute `prob:FutureWarning")


def logistic():
    return make_pipeline(StandardScaler(), LogisticRegression())


def check(model, X, atol, classes=None):
    """Labels and probabilities of the ONNX model are those of the estimator."""
    register_onnx_converters()
    made = skl2onnx.to_onnx(model, X[:1], options={"zipmap": False}, target_opset=17)
    session = runtime.InferenceSession(made.SerializeToString())
    label, proba = session.run(None, {"X": X})
    np.testing.assert_allclose(proba, model.predict_proba(X), rtol=0, atol=atol)
    assert label.tolist() == model.predict(X).tolist()
    assert proba.dtype == X.dtype
    assert proba.shape == (len(X), len(model.classes_ if classes is None else classes))


def test_the_line_of_the_page_runs_word_for_word():
    """By default skl2onnx returns a dictionary of probabilities for each row."""
    page = (Path(__file__).parents[2] / "docs" / "deploy.md").read_text()
    line = "skl2onnx.to_onnx(model, X)"
    assert f"After `skcalib.register_onnx_converters()`, `{line}`" in page
    register_onnx_converters()
    X, y = FLOWERS[0].astype("float32"), FLOWERS[1]
    inner = CalibratedClassifier(logistic(), TemperatureScaling(), cv=2)
    for labels in (y, np.array(["kind", "of", "plant"])[y], y == 2):
        for model in (clone(inner), make_pipeline(StandardScaler(), inner)):
            model.fit(X, labels)
            made = eval(line, {"skl2onnx": skl2onnx, "model": model, "X": X})
            label, rows = runtime.InferenceSession(made.SerializeToString()).run(None, {"X": X})
            assert label.tolist() == model.predict(X).tolist()
            assert list(rows[0]) == model.classes_.tolist()
            found = [list(row.values()) for row in rows]
            np.testing.assert_allclose(found, model.predict_proba(X), rtol=0, atol=2e-5)


@pytest.mark.parametrize("data", [FLOWERS, TUMOURS], ids=["3 classes", "2 classes"])
@pytest.mark.parametrize(
    ("calibrator", "dtype", "atol"),
    [(TemperatureScaling(), "float64", 1e-12), (IsotonicCalibrator(), "float32", 2e-5)],
)
def test_a_pipeline_and_a_calibrator(data, calibrator, dtype, atol):
    X, y = data
    names = np.array(["kind", "of", "plant"])[y]
    check(CalibratedClassifier(logistic(), calibrator).fit(X, names), X.astype(dtype), atol)


@MACHINES
@pytest.mark.parametrize(
    ("estimator", "atol"),
    [
        (RidgeClassifier(), 1e-12),
        (LinearSVC(), 1e-12),
        (make_pipeline(StandardScaler(), LinearSVC()), 1e-12),
        (DecisionTreeClassifier(max_depth=3), 1e-6),  # ONNX Runtime has trees of float32
        (RandomForestClassifier(10, random_state=0), 1e-6),
        (GaussianNB(), 1e-12),
        (make_pipeline(StandardScaler(), SVC()), 1e-6),  # a machine of float32
        (make_pipeline(StandardScaler(), SVC(decision_function_shape="ovr")), 1e-6),
    ],
)
@pytest.mark.parametrize("data", [FLOWERS, TUMOURS], ids=["3 classes", "2 classes"])
def test_classifiers_of_each_response(estimator, atol, data):
    X, y = data
    check(CalibratedClassifier(clone(estimator), "temperature").fit(X, y), X, atol)


# skl2onnx 1.20 writes truth values as numbers, which protobuf refuses from 7.34 on.
PROTOBUF = tuple(map(int, protobuf.__version__.split(".")[:2]))
REFUSED = PROTOBUF >= (7, 34) and skl2onnx.__version__ <= "1.20.0"


@pytest.mark.filterwarnings("ignore:Field onnx.AttributeProto.ints:DeprecationWarning")
@pytest.mark.parametrize("data", [FLOWERS, TUMOURS], ids=["3 classes", "2 classes"])
def test_boosted_trees_are_converted_or_refused_with_the_cause(data):
    X, y = data[0].astype("float32"), data[1]
    model = CalibratedClassifier(HistGradientBoostingClassifier(max_iter=5), "temperature")
    model.fit(X, np.array(["a", "b", "c"])[y])
    if not REFUSED:
        check(model, X, 1e-6)
        return
    message = r"cannot convert HistGradientBoostingClassifier: .* got a boolean\. To convert"
    refused(message, check, model, X, 1e-6)


@MACHINES
def test_decision_values_of_a_machine_that_has_probabilities_too():
    """skl2onnx returns probabilities of such a machine, whatever is asked for."""
    X, y = TUMOURS
    machine = make_pipeline(StandardScaler(), SVC())
    machine.fit(X, y)
    machine[-1]._probA = machine[-1]._probB = np.array([-1.5])
    model = CalibratedClassifier(FrozenEstimator(machine), "temperature").fit(X, y)
    check(model, X, 1e-5)


def test_frozen_estimators_inside_and_outside_of_a_pipeline():
    X, y = FLOWERS
    fitted = logistic().fit(X[::2], y[::2])
    check(CalibratedClassifier(FrozenEstimator(fitted)).fit(X[1::2], y[1::2]), X, 1e-12)
    inside = make_pipeline(FrozenEstimator(fitted[0]), FrozenEstimator(fitted[1])).fit(X, y)
    check(CalibratedClassifier(FrozenEstimator(inside)).fit(X[1::2], y[1::2]), X, 1e-12)


@pytest.mark.filterwarnings("ignore:cv. fold . has no training row")
@pytest.mark.parametrize("estimator", [logistic(), GaussianNB()], ids=["logits", "proba"])
def test_classes_that_a_fold_has_not_seen(estimator):
    X, y = FLOWERS
    folds = [(np.flatnonzero(y != absent)[::2], np.arange(1, len(y), 2)) for absent in (2, 0)]
    model = CalibratedClassifier(estimator, "temperature", ensemble=True, cv=folds).fit(X, y)
    assert {len(each.classes_) for each, _ in model.pairs_} == {2}
    check(model, X, 1e-12)


def test_log_probabilities_ensembles_and_nested_parts():
    """Two parts of the same kind have names of their own."""
    X, y = FLOWERS
    model = CalibratedClassifier(GaussianNB(), response_method="predict_log_proba")
    check(model.fit(X, y), X, 1e-10)
    check(CalibratedClassifier(logistic(), "vector", ensemble=True, cv=3).fit(X, y), X, 1e-12)
    fitted = CalibratedClassifier(logistic(), "vector").fit(X, y)
    check(CalibratedClassifier(FrozenEstimator(fitted), "temperature").fit(X, y), X, 1e-12)
    X, y = TUMOURS
    machine = CalibratedClassifier(make_pipeline(StandardScaler(), LinearSVC()), "temperature")
    check(machine.fit(X, y), X.astype("float32"), 2e-5)


def test_steps_of_a_pipeline():
    X, y = FLOWERS
    inner = CalibratedClassifier(LogisticRegression(), AutoCalibrator())
    check(make_pipeline(StandardScaler(), inner).fit(X, y), X, 1e-12)
    fitted = logistic().fit(X[::2], y[::2])
    scores = ClassifierScores(FrozenEstimator(fitted))
    check(make_pipeline(scores, TemperatureScaling()).fit(X[1::2], y[1::2]), X, 1e-12)


def test_a_calibrator_alone():
    X, y = FLOWERS
    Z = logistic().fit(X, y).decision_function(X)
    check(TemperatureScaling().fit(Z, y), Z, 1e-12)
    f = Z[:, -1:]
    check(TemperatureScaling(input="logits").fit(f, y == 2), f, 1e-12)


class Own(LogisticRegression):
    """A classifier that skl2onnx does not know."""


def test_what_is_refused_names_the_way_out():
    X, y = FLOWERS
    register_onnx_converters()
    by_neighbours = CalibratedClassifier(logistic(), LogisticRegression()).fit(X, y)
    with pytest.raises(ValueError, match=r"skl2onnx\.to_onnx cannot export LogisticRegr"):
        skl2onnx.to_onnx(by_neighbours, X[:1], options={"zipmap": False})
    model = CalibratedClassifier(logistic(), "temperature").fit(X, y)
    unknown = CalibratedClassifier(make_pipeline(StandardScaler(), Own()), "temperature").fit(X, y)
    message = r"cannot convert Pipeline of Own: Unable to find .* pass calibrator_"
    refused(message, skl2onnx.to_onnx, unknown, X[:1], options={"zipmap": False})
    with pytest.raises(ValueError, match="target_opset of skl2onnx.to_onnx"):
        skl2onnx.to_onnx(model, X[:1], options={"zipmap": False}, target_opset=12)


def test_without_skl2onnx_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "skl2onnx", None)
    refused("pip install skl2onnx", register_onnx_converters, error=ImportError)
