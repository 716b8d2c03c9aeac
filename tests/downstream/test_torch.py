"""PyTorch: a network, its temperature, and the calibrator as its last layer."""

import numpy as np
import torch

from skcalib import AutoCalibrator, TemperatureScaling, to_torch
from skcalib.losses import soft_binned_loss


def trained(X, y, loss_of=torch.nn.functional.cross_entropy, steps=200):
    torch.manual_seed(0)
    network = torch.nn.Sequential(torch.nn.Linear(10, 64), torch.nn.ReLU(), torch.nn.Linear(64, 3))
    optimiser = torch.optim.Adam(network.parameters(), 0.01)
    for _ in range(steps):
        optimiser.zero_grad()
        loss_of(network(X), y).backward()
        optimiser.step()
    return network.eval()


def as_tensors(football):
    X, X_new, y, y_new = football
    code = [torch.from_numpy(np.unique(part, return_inverse=True)[1]) for part in (y, y_new)]
    return *(torch.tensor(part, dtype=torch.float32) for part in (X, X_new)), *code


def test_a_network_is_calibrated_and_gets_a_last_layer(football):
    X, X_new, y, y_new = as_tensors(football)
    network = trained(X[:450], y[:450])
    with torch.no_grad():
        logits = network(X[450:])
        for calibrator in (TemperatureScaling(), AutoCalibrator()):
            calibrator.fit(logits, y[450:])
            layer = torch.nn.Sequential(network, to_torch(calibrator))
            P = layer(X_new)
            np.testing.assert_allclose(P, calibrator.predict_proba(network(X_new)), atol=2e-6)
            before = torch.nn.functional.cross_entropy(network(X_new), y_new)
            after = torch.nn.functional.nll_loss(P.log(), y_new)
            assert after < 0.9 * before


def test_a_calibration_loss_trains(football):
    X, _, y, _ = as_tensors(football)
    errors = []
    for weight in (0.0, 3.0):

        def loss_of(logits, y, weight=weight):
            error = soft_binned_loss(logits, y) if weight else 0.0
            return torch.nn.functional.cross_entropy(logits, y) + weight * error

        with_loss = trained(X[:450], y[:450], loss_of, steps=60)
        with torch.no_grad():
            errors.append(float(soft_binned_loss(with_loss(X[450:]), y[450:])))
    assert errors[1] < errors[0]
