"""Tensors computed where they lie: on the CPU, as on a device, against NumPy."""

import os
import pickle
import warnings
from contextlib import contextmanager
from functools import partial

import numpy as np
import pytest
import torch
from discovery import CALIBRATORS
from scipy.special import softmax
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from torch.utils._python_dispatch import TorchDispatchMode

from skcalib import (
    AutoCalibrator,
    DirichletCalibrator,
    EnsembleTemperatureScaling,
    HistogramBinning,
    IdentityCalibrator,
    IsotonicCalibrator,
    MatrixScaling,
    TemperatureScaling,
    VectorScaling,
    metrics,
)
from skcalib._arrays import rowwise, selection, tensors, torch_columns, torch_rows
from skcalib._scaling import temperature
from skcalib._scaling.affine import AffineNLL, Diagonal, Full
from skcalib._scaling.temperature import ShiftedLogits, sums_of
from skcalib._scores.scores import Scores
from skcalib._validation import survey
from skcalib._validation.survey import inside_of_block
from skcalib.calibrators._auto import many
from skcalib.calibrators._auto.calibrator import weigh_identity
from skcalib.calibrators._auto.smoothing import Smoothing
from skcalib.calibrators._temperature import likelihoods
from skcalib.testing._promises import make_sample

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore:.*do not sum to 1")]

# "cuda": where there is a GPU, the same tests run on it.
DEVICE = os.environ.get("SKCALIB_DEVICE", "cpu")
tensor = partial(torch.tensor, device=DEVICE)
FLOATS = [torch.float64, torch.float32, torch.float16, torch.bfloat16]


@pytest.fixture
def tensors_stay(monkeypatch):
    """Compute tensors on the CPU as those on a device, in several blocks."""

    def refuse(*_):
        raise TypeError("can't convert cuda:0 device type tensor to numpy")

    monkeypatch.setattr(torch.Tensor, "__array__", refuse)  # as of a GPU
    monkeypatch.setattr(tensors, "DEVICES", {DEVICE})
    monkeypatch.setattr(tensors, "BLOCK_ENTRIES", 1 << 10)
    monkeypatch.setattr(selection, "COPIED_BYTES", 0)


@pytest.fixture
def no_copy(monkeypatch):
    """Fail where as many numbers as scores are brought to the host."""

    def few(x):
        sums = x.ndim == 1 or x.shape[1] in (1, 15)  # of rows, or of bins
        assert sums or x.shape[0] < 20, "scores were copied"
        return convert(x)

    convert = tensors.array_of_tensor
    monkeypatch.setattr(survey, "SAMPLED_ROWS", 10)
    monkeypatch.setattr(tensors, "array_of_tensor", few)


def array(x):
    """Return the numbers of a tensor, those of 16 bits as float32."""
    return (x.float() if x.dtype in (torch.float16, torch.bfloat16) else x).numpy(force=True)


def logits(dtype, n=700, K=7, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, K, n)
    Z = 2 * rng.normal(size=(n, K))
    Z[np.arange(n), y] += 2
    Z = tensor(Z).to(dtype)
    return Z, array(Z), y


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_temperature_of_probabilities(tensors_stay, no_copy, dtype):
    Z, _, y = logits(dtype)
    P = torch.softmax(Z.to(torch.float64 if dtype == torch.float64 else torch.float32), 1)
    P[3] = tensor([1.0, *[0.0] * 6])  # the clip
    P[5] *= 1.0005  # divided by its sum
    expected = TemperatureScaling().fit(array(P), y)
    fitted = TemperatureScaling().fit(P, y)
    assert fitted.input_ == "proba"
    assert fitted.temperature_ == pytest.approx(expected.temperature_, rel=2e-7)


@pytest.mark.parametrize("drift", [0, 1])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_batches(tensors_stay, no_copy, monkeypatch, dtype, drift):
    monkeypatch.setattr(temperature, "KEPT_ROWS", 500)
    one, other = TemperatureScaling(input="logits"), TemperatureScaling(input="logits")
    rng = np.random.default_rng(0)
    for batch in range(8):
        Z, _, y = logits(dtype, n=300, K=5, seed=batch)
        Z *= 1 + drift * batch
        numbers = array(Z)
        w = rng.integers(0, 3, 300) if batch % 2 else rng.uniform(0, 2, 300)
        labels, weights = (tensor(y), tensor(w)) if batch % 3 else (y, w)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # T leaves the range of the sums
            one.partial_fit(Z, labels, weights)
            other.partial_fit(numbers, y, w)
        assert one.temperature_ == pytest.approx(other.temperature_, rel=2e-7)
        assert one._stream.sample.rows.scores.dtype == dtype


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_batches_after_a_checkpoint(tensors_stay, dtype):
    Z, numbers, y = logits(dtype, n=6000)
    one, other = TemperatureScaling(input="logits"), TemperatureScaling(input="logits")
    for rows in np.array_split(np.arange(6000), 5):
        one.partial_fit(Z[rows], tensor(y[rows]))
        other.partial_fit(numbers[rows], y[rows])
        one = pickle.loads(pickle.dumps(one))
        # The reader may have no GPU.
        assert all(isinstance(part, np.ndarray) for part in one._stream.sample.rows)
    assert one.temperature_ == pytest.approx(other.temperature_, rel=2e-7)
    one.partial_fit(numbers, y)  # rows of the host may follow
    assert one.temperature_ == pytest.approx(other.partial_fit(numbers, y).temperature_, rel=2e-7)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize(
    ("calibrator", "K"),
    [
        *[(VectorScaling(), 2), (VectorScaling(), 4), (VectorScaling(), 150), (MatrixScaling(), 4)],
        *[(MatrixScaling(), 40), (DirichletCalibrator(), 4), (EnsembleTemperatureScaling(), 4)],
    ],
    ids=str,
)
def test_maps_of_logits(tensors_stay, no_copy, calibrator, K, dtype):
    Z, numbers, y = logits(dtype, n=3000, K=K)
    y = tensor(y).to(torch.bool if K == 2 else torch.int64)
    w = tensor(np.random.default_rng(1).uniform(0.5, 2, len(y)))
    w[::9] = 0
    calibrator = clone(calibrator).set_params(input="logits")
    expected = clone(calibrator).fit(numbers, array(y), array(w))
    fitted = clone(calibrator).fit(Z, y, w)
    assert fitted.classes_.dtype == expected.classes_.dtype
    few = numbers[:100]
    np.testing.assert_allclose(
        fitted.predict_proba(few), expected.predict_proba(few), rtol=0, atol=1e-5
    )


@contextmanager
def few_numbers():
    """Fail where more than a bit of each of 700 rows is brought to the host."""

    def few(x):
        assert x.dtype == torch.bool or x.numel() < 700, "numbers of rows were copied"
        return numpy(x)

    numpy = torch.Tensor.numpy
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.Tensor, "numpy", few)
        patch.setattr(survey, "SAMPLED_ROWS", 10)
        yield


LABELS = [torch.int64, torch.int32, torch.uint8, torch.int8]


@pytest.mark.parametrize("weights", [None, "relative", "float32", "equal", "counts", "bool"])
@pytest.mark.parametrize(
    ("dtype", "of_labels", "K"), list(zip(FLOATS, LABELS, [40, 7, 2, 7], strict=True))
)
def test_labels_and_weights_are_read_on_the_device(tensors_stay, dtype, of_labels, K, weights):
    Z, numbers, y = logits(dtype, K=K)
    y[y == 3] = 2  # no row of a class
    rng = np.random.default_rng(1)
    w = {
        "relative": rng.uniform(0, 2, y.size) * (np.arange(y.size) % 9 > 0),
        "float32": rng.uniform(0.1, 2, y.size).astype(np.float32),
        "equal": np.full(y.size, 0.3),
        "counts": rng.integers(0, 4, y.size),
        "bool": rng.random(y.size) < 0.7,
    }.get(weights)
    given = {} if w is None else {"sample_weight": tensor(w)}
    same = {} if w is None else {"sample_weight": w}
    for make in (TemperatureScaling, partial(TemperatureScaling, objective="brier")):
        with few_numbers():
            fitted = make(input="logits").fit(Z, tensor(y).to(of_labels), **given)
        expected = make(input="logits").fit(numbers, y, **same)
        tolerance = 1e-8 if dtype == torch.float64 else 1e-7
        assert fitted.temperature_ == pytest.approx(expected.temperature_, rel=tolerance)
        assert fitted.classes_.tolist() == list(range(K))


@pytest.mark.parametrize("calibrator", CALIBRATORS, ids=str)
@pytest.mark.parametrize("kind", ["logits", "proba"])
def test_every_calibrator_fits_tensors_of_a_device(tensors_stay, calibrator, kind):
    S, y, *_ = make_sample(kind, 4, n=240, seed=3)
    w = np.random.default_rng(0).uniform(0.5, 2, len(y))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = clone(calibrator).fit(S, y, w)
        fitted = clone(calibrator).fit(tensor(S), tensor(y), tensor(w))
    proba = fitted.predict_proba(S), expected.predict_proba(S)
    np.testing.assert_allclose(*proba, rtol=0, atol=1e-5)
    for name, value in vars(fitted).items():
        assert not tensors.is_tensor(value), name


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize(("n", "K"), [(1500, 40), (600, 1010)])
def test_an_automatic_map_of_many_classes(tensors_stay, no_copy, monkeypatch, dtype, n, K):
    monkeypatch.setattr(tensors, "BLOCK_ENTRIES", n * K // 3)
    rng = np.random.default_rng(0)
    Z, w = 2 * rng.normal(size=(n, K)), rng.uniform(0.5, 2, n)
    eta = Z * rng.normal(0.7, 0.15, K) + rng.normal(size=K)
    y = (eta + rng.gumbel(size=Z.shape)).argmax(1)
    Z = tensor(Z).to(dtype)
    calibrator = AutoCalibrator(input="logits", classes=range(K))
    expected = clone(calibrator).fit(array(Z), y, w)
    fitted = clone(calibrator).fit(Z, tensor(y), tensor(w))
    assert fitted.temperature_ == pytest.approx(expected.temperature_, rel=1e-7)
    assert fitted.identity_weight_ < 0.01 < np.abs(expected.class_shift_).max()
    few = array(Z[:90])
    np.testing.assert_allclose(
        fitted.predict_proba(few), expected.predict_proba(few), rtol=0, atol=1e-3
    )
    np.testing.assert_allclose(fitted.class_shift_, expected.class_shift_, rtol=0, atol=1e-4)
    assert fitted.cross_share_ == pytest.approx(expected.cross_share_, abs=1e-3)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_a_soft_binned_error_as_the_objective(tensors_stay, no_copy, dtype):
    Z, numbers, y = logits(dtype)
    calibrator = TemperatureScaling(objective="soft_binned", input="logits")
    temperatures = [clone(calibrator).fit(X, y).temperature_ for X in (Z, numbers)]
    error = metrics.soft_binned_calibration_error
    one, other = (error(y, softmax(numbers.astype(float) / T, axis=1)) for T in temperatures)
    assert one == pytest.approx(other, abs=1e-7)
    assert temperatures[0] == pytest.approx(temperatures[1], rel=1e-3)


def test_log_probabilities_with_impossible_classes_are_read_by_the_host(tensors_stay):
    Z, _, y = logits(torch.float64)
    Z = torch.log_softmax(Z, 1)
    Z[torch.arange(700), (tensor(y) + 1) % 7] = -torch.inf
    w = tensor(np.random.default_rng(0).random(700, np.float32))
    for X in (Z, Z - torch.logsumexp(Z, 1, keepdim=True)):  # options, and probabilities of 0
        fitted = TemperatureScaling(input="logits").fit(X, tensor(y), w)
        expected = TemperatureScaling(input="logits").fit(array(X), y, array(w))
        rounding = 0.0 if DEVICE == "cpu" else 1e-15  # weights are summed on the device
        assert fitted.temperature_ == pytest.approx(expected.temperature_, rel=rounding, abs=0)


def test_classes_without_an_error_are_found(tensors_stay):
    y = np.arange(60) % 3
    Z = tensor(np.eye(3)[y]) * 5
    with pytest.warns(ConvergenceWarning, match="separate the classes|nearly"):
        VectorScaling(penalty=None, input="logits").fit(Z, y)


BINNED = ["expected", "maximum", "root_mean_squared", "ks", "static", "adaptive"]


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", [f"{name}_calibration_error" for name in BINNED])
@pytest.mark.parametrize("K", [2, 7, 40])
def test_errors(tensors_stay, no_copy, dtype, name, K):
    P, numbers, y = tied(dtype, K)
    w = np.random.default_rng(1).uniform(0, 2, y.size)
    for keywords in ({}, {"sample_weight": w}):
        error = getattr(metrics, name)
        assert error(y, P, **keywords) == pytest.approx(error(y, numbers, **keywords), abs=1e-12)


def tied(dtype, K):
    """Return probabilities with ties, some of them 0 and on the edges of bins."""
    Z, _, y = logits(dtype, K=K)
    P = torch.softmax(Z.double(), 1)
    P[::5] = (P[::5] * 15).round() / 15
    P[::5].scatter_add_(1, P[::5].argmax(1, keepdim=True), 1 - P[::5].sum(1, keepdim=True))
    P = P.to(dtype)
    return P, array(P), y


def weights_of(y):
    rng = np.random.default_rng(1)
    relative = rng.uniform(0, 2, y.size) * (np.arange(y.size) % 9 > 0)
    return [None, rng.integers(0, 3, y.size), relative, relative.round(1)]


@pytest.mark.parametrize("name", ["expected", "maximum", "static", "adaptive", "ks"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_labels_of_errors_stay_on_the_device(tensors_stay, name, dtype):
    P, numbers, y = tied(dtype, 7)
    y[y == 1] = 0  # a class without rows
    error = partial(getattr(metrics, f"{name}_calibration_error"), labels=range(7))
    error = partial(error, mode="classwise") if name == "ks" else error
    for w in weights_of(y):
        expected = error(y, numbers, sample_weight=w)
        with few_numbers():
            found = error(tensor(y), P, sample_weight=None if w is None else tensor(w))
        assert found == pytest.approx(expected, abs=1e-12)


SORTED = [
    *[("adaptive", {"average": None}), ("adaptive", {"n_bins": 1}), ("adaptive", {"n_bins": 999})],
    *[("thresholded_adaptive", {"average": None}), ("ks", {"mode": "classwise"})],
    *[("thresholded_adaptive", {"threshold": 0.7}), ("ks", {"mode": "classwise", "average": None})],
]


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize(("name", "keywords"), SORTED, ids=str)
@pytest.mark.parametrize("K", [2, 7])
def test_errors_of_sorted_columns(tensors_stay, no_copy, dtype, name, keywords, K):
    P, numbers, y = tied(dtype, K)
    y[y == 1] = 0  # a class without rows
    error = partial(getattr(metrics, f"{name}_calibration_error"), labels=range(K), **keywords)
    for w in weights_of(y):
        for given in (P, P.T.contiguous().T, P.repeat(1, 2)[:, :K], P.clone().requires_grad_()):
            expected = error(y, numbers, sample_weight=w)
            np.testing.assert_allclose(
                error(tensor(y), given, sample_weight=w), expected, rtol=0, atol=1e-12
            )


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize(
    "calibrator",
    [
        *[IsotonicCalibrator(), IsotonicCalibrator(interpolation="step")],
        *[HistogramBinning(strategy="quantile", n_bins=n_bins) for n_bins in (1, 8, 40)],
    ],
    ids=str,
)
@pytest.mark.parametrize("K", [2, 7])
def test_maps_of_sorted_columns(tensors_stay, no_copy, dtype, calibrator, K):
    P, numbers, y = tied(dtype, K)
    y[y == 1] = 0
    calibrator = clone(calibrator).set_params(classes=range(K), input="proba")
    for w in weights_of(y):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # of the class without rows
            given = w if w is None else tensor(w)
            fitted = clone(calibrator).fit(P, tensor(y), given)
            expected = clone(calibrator).fit(numbers, y, w)
        proba = fitted.predict_proba(numbers), expected.predict_proba(numbers)
        atol = 1e-12 if dtype == torch.float64 else 1e-6
        np.testing.assert_allclose(*proba, rtol=0, atol=atol)
        if dtype in (torch.float16, torch.bfloat16) or (w is not None and w.dtype == float):
            continue  # rounding of sums decides whether neighbours of one value are one block
        for name in ("X_thresholds_", "y_thresholds_", "bin_edges_", "bin_values_"):
            for one, other in zip(
                getattr(fitted, name, []), getattr(expected, name, []), strict=True
            ):
                np.testing.assert_allclose(one, other, rtol=0, atol=1e-12)


def test_sorted_probabilities_that_are_divided_by_their_sums(tensors_stay, no_copy):
    Z, _, y = logits(torch.float64)
    P = torch.softmax(Z, 1)
    P[3] *= 1.0005
    fitted, expected = (IsotonicCalibrator().fit(X, y) for X in (P, array(P)))
    for one, other in zip(fitted.X_thresholds_, expected.X_thresholds_, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-15)
    one, other = (metrics.adaptive_calibration_error(y, X) for X in (P, array(P)))
    assert one == pytest.approx(other, abs=1e-12)


def test_isotonic_levels_of_weights_are_exactly_0_and_1(tensors_stay):
    p = torch.linspace(0, 1, 3000, dtype=torch.float64, device=DEVICE)
    P, w = torch.stack([1 - p, p], 1), tensor(np.random.default_rng(0).random(3000, np.float32))
    y = (p > 0.5).long()
    assert IsotonicCalibrator().fit(P, y, w).y_thresholds_[0].tolist() == [0.0, 0.0, 1.0, 1.0]


@pytest.mark.parametrize("method", ["rank", "linear", "split"])
def test_other_quantile_bins_are_those_of_numpy(tensors_stay, method):
    P, numbers, y = tied(torch.float32, 7)
    keywords = {"max_prob": False, "class_conditional": True, "strategy": "quantile"}
    error = partial(metrics.general_calibration_error, quantile_method=method, **keywords)
    assert error(y, P) == error(y, numbers)


@contextmanager
def deterministic():
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)


def test_the_host_sorts_in_deterministic_mode(tensors_stay, monkeypatch):
    P, numbers, y = tied(torch.float64, 7)

    def cumsum(*_):
        raise RuntimeError("cumsum_cuda_kernel does not have a deterministic implementation")

    monkeypatch.setattr(torch_columns.SortedColumns, "_running", cumsum)
    with pytest.raises(RuntimeError):
        metrics.adaptive_calibration_error(y, P)
    with deterministic():
        error = metrics.adaptive_calibration_error(y, P)
        maps = IsotonicCalibrator().fit(P, y)
    assert error == metrics.adaptive_calibration_error(y, numbers)
    expected = IsotonicCalibrator().fit(numbers, y)
    assert all(map(np.array_equal, maps.y_thresholds_, expected.y_thresholds_))


def test_both_files_of_operations_have_the_same_names():
    numpy_names = {name for name, value in vars(rowwise).items() if callable(value)}
    for name, value in vars(torch_rows).items():
        if getattr(value, "__module__", None) == torch_rows.__name__ and name != "work_type":
            assert name in numpy_names, name


# ------------------------------------------------------------------ what is wrong, and where


def spoilt(at, value):
    def wrong(Z, y):
        Z[at] = value
        return Z, y

    return wrong


def with_label(wrong):
    return lambda Z, y: (Z, np.where(np.arange(y.size) == 123, wrong, y))


def mixed(Z, y):
    return torch.cat([torch.softmax(Z[:600], 1), Z[600:]]), y


WRONG = {
    **{"NaN": spoilt((400, 3), torch.nan), "infinity": spoilt((650, 1), torch.inf)},
    **{"impossible": spoilt(500, -torch.inf), "huge": spoilt((9, 2), 3e30), "mixed": mixed},
    "percentages": lambda Z, y: (100 * torch.softmax(Z, 1), y),
    "unnormalised": lambda Z, y: (torch.sigmoid(Z), y),
    "too few labels": lambda Z, y: (Z, y[:-1]),
    "features": lambda Z, y: (Z.repeat(1, 3), y),
    **{f"label {wrong}": with_label(wrong) for wrong in (255, -1, 2.5)},
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_errors_are_those_of_arrays(tensors_stay, wrong, dtype):
    Z, _, y = logits(dtype)
    Z, y = wrong(Z, y)
    messages = []
    for X, labels in ((Z, tensor(y)), (Z, y), (array(Z), y)):
        with pytest.raises(ValueError) as caught:  # noqa: PT011
            TemperatureScaling().fit(X, labels)
        messages.append(str(caught.value))
        with pytest.raises(ValueError) as caught:  # noqa: PT011
            metrics.static_calibration_error(labels, X)
        messages.append(str(caught.value))
    assert messages[:2] == messages[2:4] == messages[4:]


@pytest.mark.parametrize(
    ("at", "wrong"), [(5, -1.0), (9, np.nan), (3, np.inf), (slice(None), 0), (slice(None), 1e-110)]
)
def test_errors_of_weights_and_classes_are_those_of_arrays(tensors_stay, at, wrong):
    Z, numbers, y = logits(torch.float64)
    w = np.ones(y.size)
    w[at] = wrong
    cases = [({}, w), ({}, w[:-1]), ({}, np.full(y.size, 2**60)), ({}, w[:, None])]
    cases += [({"classes": classes}, None) for classes in ([*range(6)], [*range(6, -1, -1)])]
    cases += [({"classes": [*range(5), 7, 8]}, None)]
    for keywords, w in cases:
        messages = []
        for X, labels in ((Z, tensor(y)), (numbers, y)):
            weights = tensor(w) if X is Z and w is not None else w
            with pytest.raises(ValueError) as caught:  # noqa: PT011
                TemperatureScaling(input="logits", **keywords).fit(X, labels, weights)
            messages.append(str(caught.value))
        assert messages[0] == messages[1]


# ------------------------------------------------------------------ memory, waits, contexts


class Counted(TorchDispatchMode):
    """Counts the entries of new tensors and the numbers that are waited for."""

    def __init__(self):
        super().__init__()
        self.largest, self.largest_double, self.waits = 0, 0, 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        given = {arg.untyped_storage().data_ptr() for arg in args if isinstance(arg, torch.Tensor)}
        for part in result if isinstance(result, tuple | list) else [result]:
            if isinstance(part, torch.Tensor) and part.untyped_storage().data_ptr() not in given:
                self.largest = max(self.largest, part.numel())
                if part.dtype == torch.float64:
                    self.largest_double = max(self.largest_double, part.numel())
        # To select by booleans is to count them.
        of_booleans = function is torch.ops.aten.index.Tensor and any(
            at is not None and at.dtype == torch.bool for at in args[1]
        )
        waits = ("_local_scalar_dense", "nonzero", "masked_select")
        self.waits += of_booleans or any(name in str(function) for name in waits)
        return result


def test_no_temporary_exceeds_a_block_and_nothing_waits_for_each_block(tensors_stay):
    n, K = 4000, 40
    Z, _, y = logits(torch.float32, n=n, K=K)
    P = torch.softmax(Z, 1)
    calibrator, labels = TemperatureScaling(input="logits"), tensor(y)
    w = tensor(np.random.default_rng(0).random(n))
    for use in (
        lambda: calibrator.fit(Z, y),
        lambda: calibrator.fit(Z, labels, w),
        lambda: metrics.expected_calibration_error(y, P),
        lambda: metrics.ks_calibration_error(y, P),
    ):
        with Counted() as counted:
            use()
        assert counted.largest <= max(n, tensors.BLOCK_ENTRIES)
        assert counted.waits < n * K / tensors.BLOCK_ENTRIES / 10  # of 157 blocks


@pytest.mark.parametrize(
    "use",
    [
        lambda y, P: metrics.adaptive_calibration_error(y, P),
        lambda y, P: metrics.thresholded_adaptive_calibration_error(y, P),
        lambda y, P: metrics.ks_calibration_error(y, P, mode="classwise"),
        lambda y, P: IsotonicCalibrator().fit(P, y),
    ],
)
def test_sorted_columns_wait_for_no_class_and_take_blocks(tensors_stay, monkeypatch, use):
    n, waits, copies = 1200, [], []
    to_host = torch.Tensor.cpu
    monkeypatch.setattr(torch.Tensor, "cpu", lambda x: copies.append(x.numel()) or to_host(x))
    for K, entries in ((10, 1 << 16), (50, 1 << 16), (10, 1 << 10)):
        monkeypatch.setattr(tensors, "BLOCK_ENTRIES", entries)
        Z, _, y = logits(torch.float32, n=n, K=K)
        P = torch.softmax(Z, 1)
        copies.clear()
        with Counted() as counted:
            use(y, P)
        assert counted.largest <= max(n, entries) + K
        waits.append(counted.waits + len(copies))
        assert max(copies) <= 3 * (2 * n + K)  # three numbers of each row, not of each entry
    assert waits[0] == waits[1]
    assert waits[2] - waits[0] <= 3 * (10 - 1)  # ten blocks in place of one


def test_a_training_script_changes_nothing(tensors_stay):
    Z, _, y = logits(torch.float32, K=40)
    P = torch.softmax(Z, 1)

    def results(Z, P):
        calibrator = TemperatureScaling(input="logits").fit(Z, y)
        errors = metrics.static_calibration_error(y, P), metrics.adaptive_calibration_error(y, P)
        return calibrator.temperature_, *(round(error, 12) for error in errors)

    expected = results(Z, P)
    with torch.autocast(DEVICE, dtype=torch.bfloat16):
        assert results(Z, P) == expected
    with torch.inference_mode():
        assert results(Z.clone(), P.clone()) == expected
    assert results(Z.clone().requires_grad_(), P.clone().requires_grad_()) == expected
    assert results(Z.T.contiguous().T, P.repeat(1, 2)[:, :40]) == expected
    with deterministic():
        assert results(Z, P) == expected


# ------------------------------------------------------------------ predictions


@pytest.mark.parametrize("calibrator", CALIBRATORS, ids=str)
@pytest.mark.parametrize(
    ("kind", "K"), [("logits", 2), ("logits", 4), ("logits", 40), ("proba", 2), ("proba", 4)]
)
def test_predictions_are_formulas_on_the_device(tensors_stay, no_copy, calibrator, kind, K):
    S, y, *_ = make_sample(kind, K, n=240, seed=3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = clone(calibrator).fit(S, y)
    for dtype in FLOATS:
        X = tensor(S).to(dtype)
        if kind == "proba" and dtype in (torch.float16, torch.bfloat16):
            X = X.float()  # sums of rounded probabilities are those of other tests
        numbers = array(X)
        proba = fitted.predict_proba(X)
        exact = X.dtype == torch.float64
        assert proba.dtype == (torch.float64 if exact else torch.float32)
        expected = fitted.predict_proba(numbers)
        np.testing.assert_allclose(array(proba), expected, rtol=0, atol=1e-12 if exact else 1e-6)
        if exact:
            with few_numbers():
                labels = fitted.predict(X)
            assert torch.equal(labels, tensor(fitted.predict(numbers)))
        log = fitted.predict_log_proba(X).exp()
        np.testing.assert_allclose(array(log), expected, rtol=0, atol=1e-6)


def test_predictions_of_impossible_classes(tensors_stay):
    Z, _, y = logits(torch.float64, K=4)
    Z[5, 2] = Z[7, 0] = -torch.inf
    for calibrator in (TemperatureScaling(), VectorScaling(), AutoCalibrator()):
        fitted = calibrator.fit(array(Z[10:]), y[10:])
        np.testing.assert_allclose(
            array(fitted.predict_proba(Z)), fitted.predict_proba(array(Z)), rtol=0, atol=1e-12
        )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("calibrator", [TemperatureScaling(), IdentityCalibrator()], ids=str)
def test_a_softmax_of_short_logits_is_computed_in_float32(tensors_stay, calibrator, dtype):
    """To 1e-6, also where the largest of them are in the hundreds, or an option is missing."""
    rng = np.random.default_rng(0)
    Z = tensor(300 + 3 * rng.normal(size=(700, 40))).to(dtype)
    y = (array(Z) + 2 * rng.gumbel(size=Z.shape)).argmax(axis=1)
    fitted = clone(calibrator).set_params(input="logits").fit(array(Z), y)
    for X in (Z, torch.where(tensor(rng.random(Z.shape)) < 0.1, -torch.inf, Z)):
        with Counted() as counted:
            proba = fitted.predict_proba(X)
        expected = fitted.predict_proba(array(X).astype(np.float64))
        np.testing.assert_allclose(array(proba), expected, rtol=0, atol=1e-6)
        assert counted.largest_double <= 700


@pytest.mark.parametrize(
    ("dtype", "K"), [(torch.float32, 100), (torch.bfloat16, 500), (torch.float64, 19)], ids=str
)
def test_kernels_neither_call_numpy_nor_wait_nor_mix_devices(monkeypatch, dtype, K):
    """A tensor without numbers raises where it is converted, waited for, or joined to another."""
    n, results = 2000, []

    def to_host(_, sums):
        """Keep the sums of a pass; return ones in their place."""
        parts = sums if isinstance(sums, tuple) else (sums,)
        results.extend(parts)
        ones = [np.ones(part.shape) for part in parts]
        if sums is parts:
            return type(sums)(*ones) if hasattr(sums, "_fields") else tuple(ones)
        return ones[0]

    monkeypatch.setattr(tensors.DeviceBlocks, "to_host", to_host)
    monkeypatch.setattr(tensors.DeviceBlocks, "run", lambda _, task, parts, *__: map(task, parts))
    monkeypatch.setattr(ShiftedLogits, "_weigh", lambda self, w: setattr(self, "share", w))
    Z = torch.empty((n, K), dtype=dtype, device="meta")
    code = torch.empty(n, dtype=torch.int64, device="meta")
    w = torch.empty(n, dtype=torch.float64, device="meta")
    scores = Scores(tensors.DeviceBlocks(Z), "logits", max_abs_logit=9.0)
    shifted = ShiftedLogits(scores, code, w)
    for sums in (shifted.nll, shifted.brier, shifted.brier_value):
        sums(1.3)
    sums_of(scores, code, w, np.linspace(0.9, 1.1, 9))
    results += [inside_of_block(Z, 1e-3, 1.001, False)[1], *likelihoods(scores, code, 1.7)]
    for pattern, rows in ((Diagonal(), 2), (Full(), K + 1)):
        nll, theta = AffineNLL(scores, code, w, pattern), np.zeros((rows, K))
        nll.value_and_gradient(theta, single=False)
        nll.value_and_gradient(theta, single=True)
        nll.hessian_by_class(theta)
        nll.exceptions(theta)
        if K < 20:
            nll.hessian(theta, every=3)
    for single in (False, True):
        nll.factors(theta, single)
    weigh_identity(scores, code, w, Smoothing(1.3, 2e3, K), 0.0)
    assert len(results) == 3 + 3 + 1 + 4 + 3 + 2 * (4 + 1 + 1 + (K < 20)) + 4 + 2
    theta = torch.empty(5 + 2 * K + K * K, dtype=torch.float64, device="meta")
    place, large, features = code[:9], torch.empty(9, device="meta"), torch_rows.single(Z)
    of_rows = w.float(), w.float(), code, w
    block = many.BlockOfMany(features, features, place, large, large, *of_rows, 3.0)
    results += [*block.value_and_gradient(theta), block.hessian(theta).h]
    for result in results:
        assert result.device.type == "meta"
        assert result.dtype in (torch.float64, torch_rows.work_type(Z))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=str)
def test_sorted_columns_stay_on_their_device(monkeypatch, dtype, weighted):
    P, code = torch.empty((64, 5), dtype=dtype, device="meta"), torch.arange(64, device="meta")
    blocks = tensors.DeviceBlocks(P)
    w = torch.empty(64, dtype=torch.float64, device="meta") if weighted else None
    columns = torch_columns.SortedColumns(blocks, slice(1, 4), code, w)
    monkeypatch.setattr(blocks, "to_host", lambda result: result)
    assert columns.largest_gaps(64.0).device.type == "meta"
    for threshold in (None, 0.1):
        sums = columns.quantile_sums(lambda weights: np.ones((3, 7)), 1e-12, threshold)
        assert {(len(part), part.device.type) for part in sums} == {(3, "meta")}
