"""Of two classes, each column is exact where the other one rounds to 1."""

import numpy as np
import pytest
from calls import onnx_predictions
from scipy.special import expit

from skcalib import BetaCalibrator, PlattScaling, to_torch

F = np.array([-300.0, -50, -40, 0.5, 40, 50, 300])


def log_odds(calibrator, f):
    """The formulas of the docstrings, of a log-odds f."""
    b = calibrator.intercept_[0]
    if isinstance(calibrator, BetaCalibrator):
        log_p, log_rest = -np.logaddexp(0, -f), -np.logaddexp(0, f)
        return calibrator.coef_[0, 0] * log_p - calibrator.coef_[0, 1] * log_rest + b
    if calibrator.degree == 2:
        return calibrator.coef_[0, 1] * f**2 + calibrator.coef_[0, 0] * f + b
    return calibrator.coef_[0] * f + b


@pytest.fixture(params=[PlattScaling(), PlattScaling(degree=2), BetaCalibrator()], ids=repr)
def fitted(request):
    rng = np.random.default_rng(0)
    f = rng.normal(1, 2, 400)
    return request.param.set_params(input="logits").fit(f, rng.random(400) < expit(0.9 * f))


def expected(calibrator):
    odds = log_odds(calibrator, F)
    with np.errstate(over="ignore"):
        return np.column_stack([1 / (1 + np.exp(odds)), 1 / (1 + np.exp(-odds))])


def test_probabilities_and_their_logarithms(fitted):
    P = expected(fitted)
    assert (P == 1).any()
    np.testing.assert_allclose(fitted.predict_proba(F), P, rtol=1e-9, atol=1e-300)
    with np.errstate(divide="ignore"):
        np.testing.assert_allclose(fitted.predict_log_proba(F), np.log(P), rtol=1e-9)


def test_in_an_onnx_model(fitted):
    _, found = onnx_predictions(fitted, F[:, None], dtype="float64")
    np.testing.assert_allclose(found, expected(fitted), rtol=1e-9, atol=1e-300)


@pytest.mark.torch
def test_of_a_tensor_and_in_a_torch_module(fitted):
    torch = pytest.importorskip("torch", reason="needs the extra torch")
    f = torch.tensor(F[:, None])
    for found in (to_torch(fitted)(f), fitted.predict_proba(f)):
        np.testing.assert_allclose(found.numpy(), expected(fitted), rtol=1e-9, atol=1e-300)
