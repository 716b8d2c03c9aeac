"""Modules predict what the calibrators do, and go through all that PyTorch does with a module."""

import copy
import io
import pickle
import re
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from calls import refused
from discovery import CALIBRATORS, each_of
from exported import LIMIT, fitted, rows_to_try, runner, sample
from numpy.testing import assert_allclose
from sklearn.metrics import log_loss

from skcalib import (
    AutoCalibrator,
    HistogramBinning,
    IsotonicCalibrator,
    MatrixScaling,
    SplineCalibrator,
    TemperatureScaling,
    to_torch,
)

pytestmark = pytest.mark.torch

every_calibrator = each_of(CALIBRATORS)
# A softmax, a broken line, steps, a sort.
each_kind = each_of([MatrixScaling(), IsotonicCalibrator(), HistogramBinning(), SplineCalibrator()])


def check_all(calibrator, n_classes, kind, n=300):
    """The module gives what the calibrator does on all rows to try, in both types."""
    calibrator, X = fitted(calibrator, n_classes, kind, n=n)
    module = to_torch(calibrator)
    for name, rows in rows_to_try(X, n_classes, kind).items():
        for dtype, limit in LIMIT.items():
            S = rows.astype(dtype)
            P = module(torch.from_numpy(S)).numpy()
            assert P.dtype == S.dtype
            expected = calibrator.predict_proba(S)
            assert_allclose(P.astype(float), expected, rtol=0, atol=limit, err_msg=name)


@pytest.mark.parametrize(("kind", "n_classes"), [("logits", 2), ("proba", 3)])
@every_calibrator
def test_the_module_predicts_what_the_calibrator_does(calibrator, kind, n_classes):
    check_all(calibrator, n_classes, kind)


def test_so_it_does_for_many_classes():
    check_all(AutoCalibrator(), 40, "logits")


@pytest.mark.parametrize("kind", ["logits", "proba"])
def test_one_column_may_lack_its_axis(kind):
    X, y = sample(2, 300, kind)
    column = X[:, 1].copy()
    column[:2] = (0, 1) if kind == "proba" else (-np.inf, np.inf)
    calibrator = IsotonicCalibrator(input=kind).fit(column, y)
    module, expected = to_torch(calibrator), calibrator.predict_proba(column)
    for scores in (torch.from_numpy(column), torch.from_numpy(column)[:, None]):
        assert_allclose(module(scores).numpy(), expected, rtol=0, atol=1e-12)
    refused(r"shape \(\.\.\., 1\) or \(n,\); got \(300, 2\)", module, torch.from_numpy(X))


def test_logits_are_logarithms_of_the_probabilities():
    """Their cross entropy is the log loss; a class that was not offered keeps -inf."""
    X, y = (torch.from_numpy(part) for part in sample(3, 300, "logits"))
    X[(torch.arange(300) % 2 == 0) & (y != 2), 2] = -torch.inf
    calibrator = TemperatureScaling().fit(X, y)
    module = to_torch(calibrator, output="logits")
    scores = X.requires_grad_()
    found, expected = module(scores), calibrator.predict_log_proba(X)
    assert_allclose(found.detach().numpy(), np.asarray(expected), rtol=0, atol=1e-12)
    loss = torch.nn.functional.cross_entropy(found, y)
    assert loss.item() == pytest.approx(log_loss(y, calibrator.predict_proba(X), labels=range(3)))
    loss.backward()
    assert torch.isfinite(scores.grad).all()
    assert module(X.float()).dtype == torch.float32
    refused("output must be one of", to_torch, calibrator, output="log")


@each_kind
def test_scores_may_have_more_axes_or_no_row(calibrator):
    calibrator, X = fitted(calibrator, 3, "logits")
    module, expected = to_torch(calibrator), calibrator.predict_proba(X)
    several = module(torch.from_numpy(X).reshape(5, -1, 3))
    assert_allclose(several.reshape(-1, 3).numpy(), expected, rtol=0, atol=1e-12)
    assert_allclose(module(torch.from_numpy(X[0])).numpy(), expected[0], rtol=0, atol=1e-12)
    assert module(torch.empty(0, 3)).shape == (0, 3)


def test_other_scores_are_refused():
    module = to_torch(fitted(TemperatureScaling(), 3, "logits")[0])
    refused(r"shape \(\.\.\., 3\); got \(4, 2\)", module, torch.zeros(4, 2))
    with pytest.raises(TypeError, match=r"floating-point numbers; got torch\.int64"):
        module(torch.zeros(4, 3, dtype=torch.int64))


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32", "float64"])
@each_kind
def test_probabilities_have_the_type_of_the_scores(calibrator, dtype):
    """Shorter types are those of float32, rounded; the numbers inside stay float64."""
    calibrator, X = fitted(calibrator, 3, "logits")
    dtype = getattr(torch, dtype)
    scores = torch.from_numpy(X).to(dtype)
    module = to_torch(calibrator).to(dtype)
    assert {b.dtype for b in module.buffers()} <= {torch.float64, torch.int64}
    P = module(scores)
    assert P.dtype == dtype
    wide = scores if dtype == torch.float64 else scores.float()
    expected = calibrator.predict_proba(wide.numpy())
    close = torch.from_numpy(expected).to(dtype).double()
    assert float((P.double() - close).abs().max()) <= torch.finfo(dtype).eps


def test_autocast_changes_nothing():
    calibrator, X = fitted(MatrixScaling(), 3, "logits")
    with torch.autocast("cpu", dtype=torch.bfloat16):
        P = to_torch(calibrator)(torch.from_numpy(X))
    assert_allclose(P.numpy(), calibrator.predict_proba(X), rtol=0, atol=1e-12)


@each_kind
def test_the_state_and_the_module_can_be_stored(calibrator):
    """A state goes into a module of the same shape; the module into a file and a copy."""
    first, X = fitted(calibrator, 3, "logits")
    module, scores = to_torch(first), torch.from_numpy(X)
    expected = module(scores)
    state = io.BytesIO()
    torch.save(module.state_dict(), state)
    state.seek(0)
    other = to_torch(first)
    for buffer in other.buffers():
        buffer.zero_()
    assert not torch.equal(torch.nan_to_num(other(scores)), expected)
    other.load_state_dict(torch.load(state))
    for again in (other, copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        assert torch.equal(again(scores), expected)


@pytest.mark.parametrize("kind", ["logits", "proba"])
def test_a_state_of_the_other_kind_of_scores_is_refused_before_it_is_loaded(kind):
    """The numbers have the same names and shapes, and mean something else."""
    other = "proba" if kind == "logits" else "logits"
    first, X = fitted(MatrixScaling(), 3, kind)
    state = to_torch(fitted(MatrixScaling(), 3, other)[0]).state_dict()
    module, scores = to_torch(first), torch.from_numpy(X)
    assert module.state_dict().keys() == state.keys()
    expected = module(scores)
    network = torch.nn.Sequential(module)
    message = rf"calibrator for {other}, but this module is for {kind}: .* input='{other}'\."
    refused(message, network.load_state_dict, {f"0.{name}": part for name, part in state.items()})
    assert torch.equal(module(scores), expected)


# PyTorch warns of its own code.
quiet_torch = pytest.mark.filterwarnings(
    "ignore:.*treespec:FutureWarning",
    "ignore:.*torch.jit.trace:DeprecationWarning",
    "ignore:.*torch.jit.trace:FutureWarning",
    "ignore::DeprecationWarning:torch",
    "ignore::DeprecationWarning:onnxscript",
)


@quiet_torch
@each_kind
def test_it_is_traced_and_exported_for_any_number_of_rows(calibrator):
    calibrator, X = fitted(calibrator, 3, "logits")
    module, scores = to_torch(calibrator), torch.from_numpy(X)
    expected = module(scores)
    assert torch.equal(torch.jit.trace(module, scores[:7])(scores), expected)
    rows = {0: torch.export.Dim("rows", min=2)}
    exported = torch.export.export(module, (scores[:7],), dynamic_shapes=(rows,))
    assert torch.equal(exported.module()(scores), expected)


@quiet_torch
@pytest.mark.slow
@each_kind
def test_it_goes_through_the_export_of_a_network(calibrator):
    """``torch.onnx.export`` of a network with the module at its end."""
    pytest.importorskip("onnxscript", reason="torch.onnx.export needs onnxscript")
    calibrator, _ = fitted(calibrator, 3, "logits")
    torch.manual_seed(0)
    linear = torch.nn.Linear(5, 3, dtype=torch.float64)
    network = torch.nn.Sequential(linear, to_torch(calibrator)).eval()
    X = torch.randn(50, 5, dtype=torch.float64)
    program = torch.onnx.export(
        network,
        (X[:7],),
        input_names=["scores"],
        dynamic_shapes=({0: torch.export.Dim("rows", min=2)},),
        dynamo=True,
        verbose=False,
    )
    (P,) = runner(program.model_proto)(X.numpy())
    assert_allclose(P, network(X).detach().numpy(), rtol=0, atol=1e-12)


SMOOTH = [c for c in CALIBRATORS if type(c).__name__ not in {
    "BayesianBinning", "HistogramBinning", "IsotonicCalibrator", "SplineCalibrator",
    "VennAbersCalibrator",
}]  # fmt: skip


@pytest.mark.parametrize("kind", ["logits", "proba"])
@pytest.mark.parametrize("calibrator", SMOOTH, ids=lambda c: repr(c))
def test_gradients_of_smooth_maps_are_finite_differences(calibrator, kind):
    """By PyTorch's own central differences, at ordinary rows."""
    calibrator, _ = fitted(calibrator, 3, kind)
    X = sample(3, 12, kind, seed=5)[0][3:9]
    module, scores = to_torch(calibrator), torch.from_numpy(X).requires_grad_()
    assert torch.autograd.gradcheck(module, (scores,), eps=1e-7, atol=1e-5)


def test_gradients_reach_the_network_and_no_constant():
    calibrator, X = fitted(TemperatureScaling(), 3, "logits")
    network = torch.nn.Sequential(torch.nn.Linear(3, 3), to_torch(calibrator))
    assert len(list(network.parameters())) == 2
    network(torch.from_numpy(X).float()).square().sum().backward()
    assert all(float(p.grad.abs().sum()) > 0 for p in network.parameters())
    far = torch.tensor([[0.0, -np.inf, 1e5]], dtype=torch.float64, requires_grad=True)
    network[1](far).square().sum().backward()
    assert bool(torch.isfinite(far.grad).all())


def test_the_block_of_the_page_runs():
    """It is not one of those that run without PyTorch."""
    page = (Path(__file__).parents[2] / "docs" / "deploy.md").read_text()
    (block,) = re.findall(r"^```py\n(import torch\n.*?)^```$", page, re.M | re.S)
    namespace = {"calibrator": fitted(TemperatureScaling(), 3, "logits")[0]}
    exec(block, namespace)
    assert namespace["probabilities"].shape == (5, 3)


def test_it_says_what_it_takes():
    module = to_torch(fitted(TemperatureScaling(), 3, "proba")[0])
    assert repr(module) == "CalibratorModule(input='proba', n_classes=3, output='probabilities')"


def test_without_torch_the_extra_is_named(monkeypatch):
    monkeypatch.delitem(sys.modules, "skcalib._export.torch_module", raising=False)
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match=r'pip install "skcalib\[torch\]"'):
        to_torch(fitted(TemperatureScaling(), 3, "logits")[0])
