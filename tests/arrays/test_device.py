"""Tensors computed where they lie: on the CPU, as on a device, against NumPy."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

from skcalib import TemperatureScaling
from skcalib._arrays import device, rowwise, selection, tensors, torch_rows
from skcalib._arrays.device import on_device

pytestmark = pytest.mark.torch

FLOATS = [torch.float64, torch.float32, torch.float16, torch.bfloat16]


@pytest.fixture
def tensors_stay(monkeypatch):
    """Compute tensors on the CPU as those on a device, in several blocks."""
    monkeypatch.setattr(tensors, "DEVICES", {"cpu"})
    monkeypatch.setattr(device, "BLOCK_ENTRIES", 1 << 10)
    monkeypatch.setattr(selection, "COPIED_BYTES", 0)


@pytest.fixture
def no_copy(monkeypatch):
    """Fail where as many numbers as scores are brought to the host."""

    def few(x):
        assert x.ndim == 1 or x.shape[0] < 20, "scores were copied"
        return convert(x)

    convert = tensors.array_of_tensor
    monkeypatch.setattr(tensors, "array_of_tensor", few)


def logits(dtype, n=700, K=7, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, K, n)
    Z = 2 * rng.normal(size=(n, K))
    Z[np.arange(n), y] += 2
    tensor = torch.tensor(Z).to(dtype)
    return tensor, (tensor if dtype == torch.float64 else tensor.float()).numpy(), y


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("objective", ["nll", "brier"])
@pytest.mark.parametrize("K", [2, 7, 40])
def test_temperature(tensors_stay, no_copy, dtype, objective, K):
    Z, numbers, y = logits(dtype, K=K)
    w = np.random.default_rng(1).uniform(0, 2, y.size)
    w[::9] = 0
    expected = TemperatureScaling(objective=objective, input="logits").fit(numbers, y, w)
    fitted = TemperatureScaling(objective=objective, input="logits").fit(Z, y, w)
    tolerance = 1e-8 if dtype == torch.float64 else 1e-7
    assert fitted.temperature_ == pytest.approx(expected.temperature_, rel=tolerance)
