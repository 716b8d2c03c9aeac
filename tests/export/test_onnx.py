"""ONNX models predict what the calibrators do, on every kind of row, and are valid and small."""

import pickle
import sys

import numpy as np
import pytest
from calls import refused
from discovery import CALIBRATORS, each_of
from exported import LIMIT, MOST_NODES, fitted, rows_to_try, runner, sample
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.isotonic import IsotonicRegression
from strategies import LABEL_KINDS, names_of

from skcalib import (
    AutoCalibrator,
    BayesianBinning,
    BetaCalibrator,
    CalibratedClassifier,
    DirichletCalibrator,
    GroupwiseCalibrator,
    HistogramBinning,
    IdentityCalibrator,
    IsotonicCalibrator,
    MultilabelCalibrator,
    PlattScaling,
    SplineCalibrator,
    TemperatureScaling,
    VennAbersCalibrator,
    to_onnx,
)

onnx = pytest.importorskip("onnx", reason="models are written by onnx")

MORE = [HistogramBinning(n_bootstraps=5, strategy="quantile", random_state=0)]


every_calibrator = each_of([*CALIBRATORS, *MORE])
# One of each way from scores to probabilities: a softmax, log-odds, lines, steps, ranks.
EACH_WAY = [
    TemperatureScaling(),
    PlattScaling(),
    IsotonicCalibrator(),
    HistogramBinning(),
    SplineCalibrator(),
    AutoCalibrator(),
]
# Those whose models search tables.
SEARCHES = [
    IsotonicCalibrator(),
    IsotonicCalibrator(interpolation="step"),
    HistogramBinning(),
    BayesianBinning(),
    SplineCalibrator(),
    VennAbersCalibrator(),
    AutoCalibrator(),
]


def check(calibrator, run, X):
    """Probabilities and labels are those of the calibrator."""
    label, P = run(X)
    expected = calibrator.predict_proba(X)
    assert P.dtype == X.dtype == expected.dtype
    assert_allclose(P.astype(float), expected, rtol=0, atol=LIMIT[X.dtype.name])
    assert_array_equal(label, calibrator.predict(X))


def nodes_of_constants(model):
    """Nodes that no score reaches: what they compute should have been written as a number."""
    known = {tensor.name for tensor in model.graph.initializer}
    found = []
    for node in model.graph.node:
        if known.issuperset(node.input):
            known.update(node.output)
            found.append(node.op_type)
    return found


def check_all(calibrator, n_classes, kind, dtype="float64", n=300):
    """The same for all rows to try, in both types, of a fit to scores of one of them."""
    calibrator, X = fitted(calibrator, n_classes, kind, dtype, n)
    for of_model in LIMIT:
        model = to_onnx(calibrator, dtype=of_model)
        onnx.checker.check_model(model, full_check=True)
        assert len(model.graph.node) <= MOST_NODES
        assert not nodes_of_constants(model)
        run = runner(model)
        for name, rows in rows_to_try(X, n_classes, kind).items():
            try:
                check(calibrator, run, rows.astype(of_model))
                check(calibrator, run, rows[-1:].astype(of_model))
            except AssertionError as error:
                raise AssertionError(f"{of_model}, rows {name!r}: {error}") from error


@every_calibrator
def test_the_model_predicts_what_the_calibrator_does(calibrator):
    """Rows of the fit, new, far and tied ones, certain ones; in both types, one by one too."""
    check_all(calibrator, 3, "logits")


@each_of([IdentityCalibrator(), *EACH_WAY, DirichletCalibrator(), SplineCalibrator(mode="top")])
def test_so_it_does_for_probabilities(calibrator):
    check_all(calibrator, 3, "proba")


@pytest.mark.slow
def test_so_it_does_for_a_hundred_classes():
    """A hundred equal ones have .01 each, below which AutoCalibrator drops a term."""
    check_all(AutoCalibrator(), 100, "logits", n=1000)


def test_many_classes_none_of_which_is_likely():
    """Only the rows of a matrix are read that a probability of .01 or more asks for: here none."""
    calibrator, X = fitted(AutoCalibrator(), 120, "logits")
    run = runner(to_onnx(calibrator, dtype="float64"))
    even = np.linspace(-1e-3, 1e-3, 120)[None]
    for rows in (even, np.vstack([even, X[:1]]), X):
        check(calibrator, run, rows)
    assert calibrator.predict_proba(even).max() < 0.01
    assert run(X[:0])[1].shape == (0, 120)


@pytest.mark.parametrize("kind", ["logits", "proba"])
@each_of(EACH_WAY)
def test_one_column_is_the_score_of_the_second_class(calibrator, kind):
    """Scores ``(n,)`` in the fit are ``(n, 1)`` for the model; 0, 1 and infinite logits too."""
    X, y = sample(2, 300, kind)
    column = X[:, 1] if kind == "proba" else X[:, 1] - X[:, 0]
    calibrator = clone(calibrator).set_params(input=kind).fit(column, y)
    edges = [0.0, 1.0, 0.5, 1e-12] if kind == "proba" else [-np.inf, np.inf, 0.0, 1e6, -1e6]
    for dtype in LIMIT:
        run = runner(to_onnx(calibrator, dtype=dtype))
        for rows in (column, np.array(edges), column[:1]):
            check(calibrator, run, rows.astype(dtype))


@pytest.mark.parametrize("interpolation", ["linear", "step"])
@pytest.mark.parametrize("n", [1, 2, 31, 32, 511, 512, 8193])
def test_maps_of_any_number_of_thresholds(interpolation, n):
    """At each threshold and on both sides of it; a search has one more level from 32 and 512 on."""
    rng = np.random.default_rng(0)
    calibrator, _ = fitted(IsotonicCalibrator(interpolation=interpolation), 3, "proba")
    sizes = n, 5, n // 3 + 1
    calibrator.X_thresholds_ = [
        np.sort(rng.choice(2**20, size, replace=False)) / 2**20 for size in sizes
    ]
    calibrator.y_thresholds_ = [np.sort(rng.random(size)) for size in sizes]
    run = runner(to_onnx(calibrator, dtype="float64"))
    for k, own in enumerate(calibrator.X_thresholds_):
        p = np.clip(np.concatenate([own - 2**-22, own, own + 2**-22]), 0.0, 1.0)
        rows = np.repeat((1.0 - p)[:, None] / 2.0, 3, axis=1)
        rows[:, k] = p
        check(calibrator, run, rows)


@each_of(SEARCHES)
def test_scores_that_a_model_does_not_check_leave_other_rows_alone(calibrator):
    """NaN and +inf come out as something: no search leaves its table."""
    calibrator, X = fitted(calibrator, 3, "logits")
    for of_model in LIMIT:
        run, rows = runner(to_onnx(calibrator, dtype=of_model)), X.astype(of_model)
        wrong = rows.copy()
        wrong[::3, 0], wrong[1::3, -1] = np.nan, np.inf
        for part in (slice(None), slice(1), slice(1, 2)):
            run(wrong[part])
        assert_array_equal(run(wrong)[1][2::3], run(rows)[1][2::3])


@each_of(EACH_WAY)
def test_an_empty_batch_gives_no_row(calibrator):
    calibrator, _ = fitted(calibrator, 3, "logits")
    label, P = runner(to_onnx(calibrator))(np.empty((0, 3), dtype=np.float32))
    assert label.shape == (0,)
    assert P.shape == (0, 3)


@pytest.mark.parametrize("kind", LABEL_KINDS)
def test_labels_are_those_of_the_fit(kind):
    """Numbers, strings and booleans, from arrays, objects and categories."""
    names = names_of(kind, 2)
    calibrator, X = fitted(PlattScaling(), 2, "logits", names=names)
    label, _ = runner(to_onnx(calibrator, dtype="float64"))(X)
    assert_array_equal(label, calibrator.predict(X))


def test_other_labels_are_refused_by_name():
    calibrator, X = fitted(PlattScaling(), 2, "logits", names=[1.0, 2.0])
    refused(r"labels must be .* got .*1\.0.*: pass labels=False", to_onnx, calibrator)
    model = to_onnx(calibrator, labels=False)
    assert [output.name for output in model.graph.output] == ["probabilities"]
    assert runner(model)(X.astype(np.float32))[0].shape == X.shape


def test_the_model_says_what_it_is():
    calibrator, _ = fitted(PlattScaling(degree=2), 2, "proba", names=["no", "yes"])
    model = to_onnx(calibrator)
    assert {entry.key: entry.value for entry in model.metadata_props} == {
        "calibrator": " ".join(repr(calibrator).split()),
        "input": "proba",
        "classes": '["no", "yes"]',
    }
    assert model.producer_name == "skcalib"
    assert [(entry.domain, entry.version) for entry in model.opset_import] == [("", 17)]


@pytest.mark.parametrize("opset", [16, 18, 20])
def test_other_versions_of_the_operators(opset):
    for calibrator in (*MORE, AutoCalibrator(), VennAbersCalibrator()):
        calibrator, X = fitted(calibrator, 3, "logits")
        model = to_onnx(calibrator, dtype="float64", opset=opset)
        onnx.checker.check_model(model, full_check=True)
        check(calibrator, runner(model), X)


@pytest.mark.parametrize("opset", [15, 1000, 17.0, True])
def test_versions_that_cannot_be_written_are_refused(opset):
    calibrator, _ = fitted(PlattScaling(), 2, "logits")
    refused(r"opset must be a whole number from 16 to \d+; got", to_onnx, calibrator, opset=opset)


def test_other_types_are_refused():
    calibrator, _ = fitted(PlattScaling(), 2, "logits")
    refused("dtype must be one of .* got 'float16'", to_onnx, calibrator, dtype="float16")


def test_a_product_with_a_number_near_1_is_not_dropped():
    """ONNX Runtime takes a constant for 1 that is 1 in float32."""
    calibrator, _ = fitted(TemperatureScaling(), 3, "logits")
    calibrator.temperature_ = 1.0 + 1e-8
    X = 1e5 + np.array([[0.0, 0.5, 1.0]])
    check(calibrator, runner(to_onnx(calibrator, dtype="float64")), X)


@pytest.mark.parametrize("calibrator", [PlattScaling(), BetaCalibrator()], ids=repr)
def test_a_class_that_no_map_favours_is_compared_with_the_others(calibrator):
    """Sigmoids of 1e-26 are divided by their sum: they need their digits."""
    calibrator, X = fitted(calibrator, 3, "logits")
    calibrator.intercept_ = calibrator.intercept_ - 60.0
    check(calibrator, runner(to_onnx(calibrator, dtype="float64")), X)


def test_equal_classes_lie_on_the_edge_of_a_bin():
    """A third may be one rounding above 5/15 in NumPy: a model takes it for what it stands for."""
    calibrator, _ = fitted(HistogramBinning(), 3, "logits")
    Z = np.linspace(-3, 3, 99)[:, None] + np.zeros(3)
    _, P = runner(to_onnx(calibrator, dtype="float64"))(Z)
    assert_allclose(P, calibrator.predict_proba(0 * Z), rtol=0, atol=1e-12)


class Own(TemperatureScaling):
    """A calibrator of another package, with a map in NumPy."""

    def _map(self, scores):
        return super()._map(scores)


def test_what_has_no_formula_is_refused_with_the_way_out():
    with pytest.raises(NotFittedError):
        to_onnx(TemperatureScaling())
    X, y = sample(2, 100, "logits")
    groupwise = GroupwiseCalibrator("temperature").fit(X, y, groups=np.arange(100) % 2)
    several = MultilabelCalibrator("temperature").fit(X, np.eye(2)[y])
    classifier = CalibratedClassifier(pickle.loads(pickle.dumps(TemperatureScaling())))
    for given, advice in (
        (IsotonicRegression(), "pass a fitted calibrator of skcalib.calibrators"),
        (Own().fit(X, y), "pass a fitted calibrator of skcalib.calibrators"),
        (groupwise, "needs the group of each row; pass its calibrator_"),
        (several, "pass its calibrator_.calibrator_, which is the common calibrator"),
        (classifier, "pass its calibrator_"),
    ):
        refused(f"cannot export {type(given).__name__}: .*{advice}", to_onnx, given)


def test_without_onnx_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    refused(r'pip install "skcalib\[onnx\]"', to_onnx, TemperatureScaling(), error=ImportError)
