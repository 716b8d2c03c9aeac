"""PyTorch tensors of every floating type: the numbers are those of ``tensor.float().numpy()``."""

import inspect
import warnings

import numpy as np
import pytest
import torch
from calls import peak_memory, refused
from discovery import CALIBRATORS, ERRORS
from numpy.testing import assert_array_equal
from sklearn import config_context
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import make_pipeline

from skcalib import (
    CalibratedClassifier,
    ClassifierScores,
    GroupwiseCalibrator,
    IsotonicCalibrator,
    TemperatureScaling,
    VectorScaling,
    VennAbersCalibrator,
    compare_calibrators,
    metrics,
)
from skcalib._arrays.tensors import TensorSource, array_of_tensor, is_tensor
from skcalib.testing._promises import make_sample

pytestmark = pytest.mark.torch

SHORT = [torch.bfloat16, torch.float16]
FLOATS = [*SHORT, torch.float32, torch.float64]
every_float = pytest.mark.parametrize("dtype", FLOATS, ids=str)
short_floats = pytest.mark.parametrize("dtype", SHORT, ids=str)
needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


def as_tensor(A, dtype, requires_grad=False):
    """Return a tensor, and the NumPy array of its numbers."""
    tensor = torch.tensor(A).to(dtype).requires_grad_(requires_grad)
    numbers = tensor.detach()
    return tensor, (numbers if dtype == torch.float64 else numbers.float()).numpy()


def quietly(function, *args, **keywords):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", (ConvergenceWarning, UserWarning))
        return function(*args, **keywords)


# ------------------------------------------------------------------ sources


@every_float
def test_blocks_have_the_numbers_of_the_tensor(dtype):
    rng = np.random.default_rng(0)
    A = rng.normal(size=(50, 7)) * 10.0 ** rng.integers(-30, 30, (50, 7))
    A[3] = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, -3e-8]
    for given in (A, A.T):
        tensor, numbers = as_tensor(given, dtype, requires_grad=True)
        for t, expected in ((tensor, numbers), (tensor.T, numbers.T), (tensor[::3], numbers[::3])):
            source = TensorSource(t)
            assert source.shape == expected.shape
            assert source.dtype == expected.dtype
            assert_array_equal(source.read(slice(None)), expected)
            assert_array_equal(source.read(slice(1, 5), slice(2, 4)), expected[1:5, 2:4])
            rows = np.array([2, 0, 2, 1])
            assert_array_equal(source.read(rows, slice(1, 3)), expected[rows, 1:3])


@pytest.mark.parametrize("dtype", [torch.int64, torch.int8, torch.bool, torch.uint8], ids=str)
def test_numbers_that_are_no_floats(dtype):
    tensor = torch.tensor([[0, 1], [1, 1]]).to(dtype)
    assert_array_equal(TensorSource(tensor).read(slice(None)), [[0.0, 1.0], [1.0, 1.0]])
    assert TensorSource(tensor).dtype == np.float64


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_float32_and_float64_on_the_cpu_share_memory(dtype, monkeypatch):
    Z = torch.zeros((40, 3), dtype=dtype, requires_grad=True)
    assert np.shares_memory(array_of_tensor(Z), Z.detach().numpy())
    seen = []
    monkeypatch.setattr(
        TemperatureScaling, "_fit", lambda self, scores, code, w: seen.append(scores) or {}
    )
    TemperatureScaling(input="logits").fit(Z, np.arange(40) % 3)
    assert np.shares_memory(seen[0].source.array, Z.detach().numpy())


@short_floats
def test_no_copy_of_the_whole_is_made(dtype):
    Z = torch.randn((60000, 100), generator=torch.Generator().manual_seed(0)).to(dtype)
    y = torch.arange(60000) % 100
    calibrator = TemperatureScaling(input="logits")
    quietly(calibrator.fit, Z[:500], y[:500])
    peak = peak_memory(quietly, calibrator.fit, Z, y)
    assert peak < 2.4 * Z.numel()  # all of it as float32 is 4 bytes an entry


# ------------------------------------------------------------------ calibrators


@pytest.mark.parametrize("calibrator", CALIBRATORS, ids=str)
@pytest.mark.parametrize(
    ("dtype", "kind", "n_classes"),
    [(torch.bfloat16, "logits", 3), (torch.float16, "proba", 2), (torch.bfloat16, "proba", 4)],
    ids=str,
)
def test_every_calibrator_gives_the_numbers_of_float32(calibrator, dtype, kind, n_classes):
    S, y, *_ = make_sample(kind, n_classes, n=240, seed=3)
    X, numbers = as_tensor(S, dtype)
    w = np.random.default_rng(0).uniform(0.5, 2.0, len(y)).astype(np.float32)
    one = quietly(clone(calibrator).fit, X, torch.tensor(y), torch.tensor(w))
    other = quietly(clone(calibrator).fit, numbers, y, w)
    found, expected = quietly(one.predict_proba, X), quietly(other.predict_proba, numbers)
    assert found.dtype == torch.float32
    assert_array_equal(found, expected)
    assert_array_equal(quietly(one.predict, X), quietly(other.predict, numbers))
    for name, value in vars(one).items():
        assert not is_tensor(value), name


@short_floats
def test_one_column_and_batches(dtype):
    rng = np.random.default_rng(0)
    f = rng.normal(size=300)
    y = (f + rng.logistic(size=300) > 0).astype(int)
    X, numbers = as_tensor(f, dtype)
    for given, same in ((X, numbers), (X[:, None], numbers[:, None])):
        expected = TemperatureScaling().fit(same, y)
        assert TemperatureScaling().fit(given, y).temperature_ == expected.temperature_
        streamed = TemperatureScaling().partial_fit(given, torch.tensor(y))
        assert streamed.temperature_ == expected.temperature_
        assert_array_equal(expected.predict_proba(given), expected.predict_proba(same))


# ------------------------------------------------------------------ metrics

OF_ONE_EVENT = [
    metrics.calibration_intercept_slope,
    metrics.observed_expected_ratio,
    metrics.spiegelhalter_test,
    metrics.hosmer_lemeshow_test,
    metrics.local_calibration,
]
MEASURES = [*ERRORS, metrics.reliability_table, metrics.score_decomposition, *OF_ONE_EVENT]


@pytest.mark.parametrize("metric", MEASURES, ids=lambda metric: metric.__name__)
@short_floats
def test_every_metric_gives_the_numbers_of_float32(metric, dtype):
    taken = inspect.signature(metric).parameters
    for n_classes in (2,) if metric in OF_ONE_EVENT else (2, 4):
        S, y, *_ = make_sample("proba", n_classes, n=300, seed=1)
        P, numbers = as_tensor(S, dtype, requires_grad=True)
        w = np.random.default_rng(0).integers(1, 3, len(y)).astype(np.float32)
        keywords = {"pos_label": 1} if n_classes == 2 and "pos_label" in taken else {}
        expected = quietly(metric, y, numbers, sample_weight=w, **keywords)
        found = quietly(metric, torch.tensor(y), P, sample_weight=torch.tensor(w), **keywords)
        if metric in ERRORS:
            assert float(found) == float(expected)
        else:
            assert repr(found) == repr(expected)


def test_comparison_and_scorers():
    S, y, *_ = make_sample("logits", 3, n=300, seed=1)
    X, numbers = as_tensor(S, torch.bfloat16)
    chosen = {"calibrators": ["temperature", "vector"], "random_state": 0}
    one = quietly(compare_calibrators, X, torch.tensor(y), **chosen)
    other = quietly(compare_calibrators, numbers, y, **chosen)
    assert repr(one) == repr(other)
    fitted = TemperatureScaling().fit(numbers, y)
    scorer = metrics.get_scorer("neg_static_calibration_error")
    assert scorer(fitted, X, torch.tensor(y)) == scorer(fitted, numbers, y)


# ------------------------------------------------------------------ refusals


def test_tensors_without_numbers_are_refused_by_name():
    y, P = [0, 1], torch.tensor([[0.5, 0.5], [0.3, 0.7]])
    cases = [
        (P.to_sparse(), "of layout torch.sparse_coo: pass y_proba.to_dense()"),
        (P.to("meta"), "on the device meta, which has no numbers"),
        (quietly(torch.quantize_per_tensor, P, 0.1, 0, torch.quint8), "y_proba.dequantize()"),
        (quietly(torch.nested.nested_tensor, [P[0], P[1, :1]]), "of rows of several lengths"),
    ]
    for given, message in cases:
        error, begins = metrics.expected_calibration_error, "^y_proba is a tensor "
        assert message in refused(begins, error, y, given, error=TypeError)
    refused("^X is a tensor of layout", TemperatureScaling().fit, P.to_sparse(), y, error=TypeError)
    with pytest.raises(TypeError, match="^y is a tensor on the device meta"):
        TemperatureScaling().fit(P, torch.tensor(y, device="meta"))
    with pytest.raises(TypeError, match="^sample_weight is a tensor of layout"):
        TemperatureScaling().fit(P, y, torch.ones(2).to_sparse())


def test_other_invalid_tensors_are_refused_like_arrays():
    shapes = [torch.zeros(2, 2, 2), torch.tensor(1.0), torch.zeros(0, 2)]
    for bad in (*shapes, *[each.to(torch.bfloat16) for each in shapes], torch.ones(2, 2) * 1j):
        refused("X|array", TemperatureScaling().fit, bad, [0, 1])
    bad = torch.tensor([[0.0, 1.0], [torch.nan, 2.0]], dtype=torch.bfloat16)
    refused("NaN .*row 1, column 0", TemperatureScaling().fit, bad, [0, 1])


def test_labels_beyond_the_digits_of_their_type():
    Z = np.random.default_rng(0).normal(size=(4, 2))
    for dtype, large in ((torch.bfloat16, 258.0), (torch.float16, 2050.0)):
        labels = torch.tensor([0.0, large, 0.0, large], dtype=dtype)
        name = str(dtype).removeprefix("torch.")
        refused(f"which {name} cannot distinguish", TemperatureScaling().fit, Z, labels)


def test_rows_of_bfloat16_that_do_not_sum_to_1():
    S, y, *_ = make_sample("proba", 4, n=300, seed=1)
    P, _ = as_tensor(S, torch.bfloat16)
    assert np.abs(P.float().numpy().sum(axis=1) - 1).max() > 1e-3
    assert quietly(TemperatureScaling().fit, P, y).input_ == "proba"
    off = P.clone()
    off[7] *= 0.97
    message = "row 7 sums to .*: bfloat16 rounds probabilities to 3 digits, so pass logits, or "
    refused(message, quietly, TemperatureScaling().fit, off, y)
    refused(message, metrics.expected_calibration_error, y, off)


# ------------------------------------------------------------------ scikit-learn's dispatch


@pytest.fixture
def dispatch():
    try:
        with config_context(array_api_dispatch=True):
            yield
    except (ImportError, RuntimeError) as error:  # before scipy is imported, SCIPY_ARRAY_API=1
        pytest.skip(f"no dispatch: {error}")


@every_float
def test_predictions_of_a_tensor_are_tensors(dtype):
    S, y, *_ = make_sample("logits", 3, n=240, seed=3)
    X, numbers = as_tensor(S, dtype)
    calibrator = VennAbersCalibrator().fit(X, torch.tensor(y))
    for method in (calibrator.predict_proba, calibrator.predict_interval):
        found = method(X)
        assert found.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
        assert torch.equal(found, torch.tensor(method(numbers)))
    assert torch.equal(calibrator.predict(X), torch.tensor(calibrator.predict(numbers)))
    words = VennAbersCalibrator().fit(X, np.array(["a", "b", "c"])[y])
    assert_array_equal(words.predict(X), words.predict(numbers))
    for value in vars(calibrator).values():
        assert not is_tensor(value)


@pytest.mark.parametrize("metric", ERRORS, ids=lambda metric: metric.__name__)
def test_errors_of_each_class_follow_and_one_error_is_a_float(metric, dispatch):
    S, y, *_ = make_sample("proba", 3, n=240, seed=3)
    P, numbers = as_tensor(S, torch.float64)
    error = metric(torch.tensor(y), P)
    assert type(error) is type(metric(y, numbers))  # a float, or an index of several
    assert float(error) == float(metric(y, numbers))
    taken = inspect.signature(metric).parameters
    if "average" not in taken:
        return
    keywords = {"average": None}
    if "class_conditional" in taken:
        keywords.update(class_conditional=True, max_prob=False)
    if "mode" in taken:
        keywords["mode"] = "classwise"
    found = metric(torch.tensor(y), P, **keywords)
    assert isinstance(found, torch.Tensor)
    assert_array_equal(found.numpy(), metric(y, numbers, **keywords))


def test_without_dispatch_errors_of_each_class_are_arrays():
    S, y, *_ = make_sample("proba", 3, n=240, seed=3)
    P, _ = as_tensor(S, torch.float64)
    assert type(metrics.static_calibration_error(y, P, average=None)) is np.ndarray


def blobs():
    X, y = make_classification(300, n_informative=5, n_classes=3, random_state=0)
    return X, y, torch.tensor(X), torch.tensor(y)


@pytest.mark.parametrize("ensemble", [True, False])
def test_a_classifier_that_takes_tensors_is_calibrated(ensemble, dispatch):
    lda = pytest.importorskip("sklearn.discriminant_analysis").LinearDiscriminantAnalysis()
    X, y, X_tensor, y_tensor = blobs()
    w = np.random.default_rng(0).uniform(0.5, 2, len(y))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # LDA takes no weights
        model = CalibratedClassifier(lda, cv=3, ensemble=ensemble)
        expected = clone(model).fit(X, y, sample_weight=w)
        found = clone(model).fit(X_tensor, y_tensor, sample_weight=torch.tensor(w))
    proba = found.predict_proba(X_tensor)
    assert isinstance(proba, torch.Tensor)
    np.testing.assert_allclose(proba.numpy(), expected.predict_proba(X), rtol=1e-6, atol=1e-9)
    assert_array_equal(found.predict(X_tensor).numpy(), expected.predict(X))
    assert type(found.classes_) is np.ndarray
    scorer = metrics.get_scorer("neg_static_calibration_error")
    error = scorer(found, X_tensor, y_tensor)
    assert error == pytest.approx(scorer(expected, X, y), rel=1e-6)


@pytest.mark.parametrize("ensemble", [True, False])
def test_strings_are_labels_of_a_classifier_of_tensors(ensemble, dispatch):
    """The classifier learns codes, and the probabilities of short tensors stay float32."""
    lda = pytest.importorskip("sklearn.discriminant_analysis").LinearDiscriminantAnalysis()
    _, y, X_tensor, _ = blobs()
    X_tensor, names = X_tensor.float(), np.array(["owl", "cat", "dog"])[y]
    code = np.searchsorted(["cat", "dog", "owl"], names)
    model = CalibratedClassifier(lda, "temperature", cv=3, ensemble=ensemble)
    expected = clone(model).fit(X_tensor, torch.tensor(code))
    found = clone(model).fit(X_tensor, names)
    assert found.classes_.tolist() == ["cat", "dog", "owl"]
    proba = found.predict_proba(X_tensor)
    assert proba.dtype == torch.float32
    np.testing.assert_array_equal(proba.numpy(), expected.predict_proba(X_tensor).numpy())
    assert_array_equal(found.predict(X_tensor), found.classes_[expected.predict(X_tensor).numpy()])


def test_a_frozen_classifier_and_a_pipeline_take_tensors(dispatch):
    lda = pytest.importorskip("sklearn.discriminant_analysis").LinearDiscriminantAnalysis()
    X, y, X_tensor, y_tensor = blobs()
    frozen = FrozenEstimator(clone(lda).fit(X_tensor, y_tensor))
    expected = CalibratedClassifier(FrozenEstimator(clone(lda).fit(X, y))).fit(X, y)
    for model in (
        CalibratedClassifier(frozen),
        make_pipeline(ClassifierScores(frozen), TemperatureScaling()),
    ):
        proba = model.fit(X_tensor, y_tensor).predict_proba(X_tensor)
        assert isinstance(proba, torch.Tensor)
    found = CalibratedClassifier(frozen).fit(X_tensor, y_tensor).predict_proba(X_tensor)
    np.testing.assert_allclose(found.numpy(), expected.predict_proba(X), rtol=1e-5, atol=1e-8)


def test_a_map_for_each_group():
    S, y, *_ = make_sample("logits", 3, n=240, seed=3)
    X, numbers = as_tensor(S, torch.bfloat16)
    groups = np.arange(240) % 2
    expected = GroupwiseCalibrator("temperature").fit(numbers, y, groups=groups)
    found = GroupwiseCalibrator("temperature").fit(X, torch.tensor(y), groups=torch.tensor(groups))
    proba = found.predict_proba(X, groups=torch.tensor(groups))
    assert proba.dtype == torch.float32
    assert torch.equal(proba, torch.tensor(expected.predict_proba(numbers, groups=groups)))


# ------------------------------------------------------------------ other devices


@needs_cuda
@every_float
def test_cuda_gives_the_numbers_of_the_cpu(dtype):
    """To the tolerances of "PyTorch tensors" in docs/inputs.md."""
    S, y, *_ = make_sample("logits", 4, n=3000, seed=3)
    X, numbers = as_tensor(S, dtype)
    X = X.to("cuda").requires_grad_()
    labels, w = torch.tensor(y, device="cuda"), torch.ones(3000, device="cuda")
    exact = dtype == torch.float64
    for calibrator in (TemperatureScaling(), VectorScaling(), IsotonicCalibrator()):
        one = quietly(clone(calibrator).fit, X, labels, w)
        other = quietly(clone(calibrator).fit, numbers, y)
        if isinstance(calibrator, TemperatureScaling):
            assert one.temperature_ == pytest.approx(
                other.temperature_, rel=1e-8 if exact else 1e-7
            )
        assert one.predict_proba(X).device == X.device
        found, expected = one.predict_proba(numbers), other.predict_proba(numbers)
        if isinstance(calibrator, IsotonicCalibrator):  # computed by the host
            assert_array_equal(found, expected)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)
        found = one.predict_proba(X).cpu()
        expected = one.predict_proba(numbers)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12 if exact else 1e-6)
    P = torch.softmax(X.float(), dim=1)
    proba = P.detach().cpu().numpy()
    error = metrics.expected_calibration_error
    assert error(labels, P) == pytest.approx(error(y, proba), abs=1e-12)


@needs_cuda
def test_host_memory_of_a_fit_on_cuda():
    Z = torch.randn((400000, 200), device="cuda", dtype=torch.bfloat16)
    y = torch.randint(0, 200, (400000,), device="cuda")
    quietly(TemperatureScaling().fit, Z[:5000], y[:5000])
    assert peak_memory(quietly, TemperatureScaling().fit, Z, y) < 64 << 20
