"""Classifiers on Dask arrays: scores of frozen estimators are computed chunk by chunk."""

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skcalib import (
    CalibratedClassifier,
    ClassifierScores,
    GroupwiseCalibrator,
    IsotonicCalibrator,
    TemperatureScaling,
    VennAbersCalibrator,
    get_scorer,
)
from skcalib.plotting import ClasswiseDisplay, DecompositionDisplay, KSDisplay, ReliabilityDisplay

da = pytest.importorskip("dask.array", reason="needs the extra dask")


def problem(n_classes):
    X, y = make_classification(
        500, n_informative=6, n_classes=n_classes, class_sep=0.5, random_state=0
    )
    classifier = make_pipeline(StandardScaler(), LogisticRegression()).fit(X[:200], y[:200])
    return X[200:], y[200:], classifier


class OnDask(LogisticRegression):
    """An estimator that predicts Dask arrays itself."""

    __module__ = "dask_ml.linear_model"

    def decision_function(self, X):
        assert isinstance(X, da.Array)
        return X.map_blocks(super().decision_function, drop_axis=1, dtype=float)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("calibrator", ["temperature", "isotonic"])
def test_a_frozen_classifier_is_calibrated_on_chunks(n_classes, calibrator):
    X, y, classifier = problem(n_classes)
    names = np.array(["no", "yes", "zero"])[y]
    classifier.fit(X, names)
    lazy, w = da.from_array(X, chunks=(77, 9)), np.arange(300.0) % 3
    expected = CalibratedClassifier(FrozenEstimator(classifier), calibrator).fit(X, names, w)
    found = CalibratedClassifier(FrozenEstimator(classifier), calibrator)
    found.fit(lazy, da.from_array(names, chunks=77), da.from_array(w, chunks=50))
    P = found.predict_proba(lazy)
    assert P.chunks == ((77, 77, 77, 69), (n_classes,))
    np.testing.assert_allclose(P.compute(), expected.predict_proba(X), rtol=0, atol=1e-8)
    Q = P.compute()
    logs = np.log(Q, out=np.full_like(Q, -np.inf), where=Q > 0)
    np.testing.assert_array_equal(found.predict_log_proba(lazy).compute(), logs)
    labels = found.predict(lazy)
    assert isinstance(labels, da.Array)
    np.testing.assert_array_equal(labels.compute(), expected.predict(X))


def test_an_estimator_that_predicts_dask_arrays_is_asked_itself():
    X, y, _ = problem(2)
    lazy = da.from_array(X, chunks=(77, 9)).rechunk({1: -1})
    own = OnDask().fit(X, y)
    found = CalibratedClassifier(FrozenEstimator(own), "isotonic").fit(lazy, y)
    plain = LogisticRegression().fit(X, y)
    expected = CalibratedClassifier(FrozenEstimator(plain), "isotonic").fit(X, y)
    np.testing.assert_array_equal(found.predict_proba(lazy).compute(), expected.predict_proba(X))


def test_scores_as_a_step_of_a_pipeline():
    X, y, classifier = problem(3)
    model = make_pipeline(ClassifierScores(FrozenEstimator(classifier)), VennAbersCalibrator())
    lazy = da.from_array(X, chunks=(77, 9))
    expected = model.fit(X, y).predict_proba(X)
    np.testing.assert_array_equal(model.fit(lazy, y).predict_proba(lazy).compute(), expected)


def test_an_estimator_is_not_fitted_on_a_dask_array():
    X, y, classifier = problem(2)
    with pytest.raises(ValueError, match="cannot fit its estimator on a dask array: fit the"):
        CalibratedClassifier(classifier).fit(da.from_array(X), y)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("name", ["neg_static_calibration_error", "neg_ks_calibration_error"])
def test_scorers_of_lazy_predictions(name, n_classes):
    X, y, classifier = problem(n_classes)
    model = CalibratedClassifier(FrozenEstimator(classifier)).fit(X, y)
    lazy, w = da.from_array(X, chunks=(77, 20)), np.arange(300.0) % 3
    expected = get_scorer(name)(model, X, y, sample_weight=w)
    labels, weights = da.from_array(y, chunks=77), da.from_array(w, chunks=50)
    found = get_scorer(name)(model, lazy, labels, sample_weight=weights)
    assert found == pytest.approx(expected, abs=1e-12)
    assert get_scorer(name)(model, lazy, y) == pytest.approx(get_scorer(name)(model, X, y))


def test_what_would_load_an_array_is_refused():
    X, y, _ = problem(3)
    X = np.abs(X[:, :3])
    lazy = da.from_array(X, chunks=(77, 3))
    frozen = FrozenEstimator(LogisticRegression().fit(X, y))
    says = "is a dask.Array of shape .*, .* loaded whole"
    with pytest.raises(TypeError, match=f"X, for LogisticRegression, {says}"):
        CalibratedClassifier(frozen, LogisticRegression()).fit(lazy, y)
    with pytest.raises(TypeError, match=f"X {says}"):
        GroupwiseCalibrator(TemperatureScaling()).fit(lazy, y, groups=y)


def test_a_lazy_frame_is_not_loaded_by_a_classifier():
    X, y, classifier = problem(2)
    model = CalibratedClassifier(FrozenEstimator(classifier), IsotonicCalibrator()).fit(X, y)
    polars = pytest.importorskip("polars")
    with pytest.raises(TypeError, match="X is a polars.LazyFrame, which would be loaded whole"):
        model.predict_proba(polars.LazyFrame(X))
    for estimator in (classifier, FrozenEstimator(classifier)):
        with pytest.raises(TypeError, match="X is a polars.LazyFrame, which would be loaded whole"):
            CalibratedClassifier(estimator).fit(polars.LazyFrame(X), y)


@pytest.mark.parametrize(
    ("display", "parts"),
    [
        (KSDisplay, ("percentile", "cumulative_score", "cumulative_accuracy", "error")),
        (ReliabilityDisplay, ("table", "histogram", "error")),
        (ClasswiseDisplay, ("table", "errors")),
        (DecompositionDisplay, ("frame",)),
    ],
)
def test_displays_draw_sums_and_gathered_numbers(display, parts, closed_figures):
    X, y, classifier = problem(3)
    model = CalibratedClassifier(FrozenEstimator(classifier)).fit(X, y)
    drawn = display.from_predictions(y, model.predict_proba(X))
    lazy = da.from_array(X, chunks=(77, 20))
    draw = getattr(display, "from_estimator", None)
    for found in (
        display.from_predictions(y, model.predict_proba(lazy)),
        drawn if draw is None else draw(model, lazy, y),
    ):
        for part in parts:
            own, other = (np.asarray(getattr(each, part), dtype=object) for each in (found, drawn))
            assert own.shape == other.shape
            for a, b in zip(own.ravel(), other.ravel(), strict=True):
                assert a == (b if isinstance(b, str) else pytest.approx(b, abs=1e-12, nan_ok=True))
