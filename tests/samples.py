"""Scores, labels and calibrators for tests of several folders."""

import numpy as np

from skcalib import IdentityCalibrator


def scores(n=400, n_classes=3, factor=3.0, seed=0):
    """Labels and logits; calibrated if the factor is 1.5, the distance of the classes."""
    rng = np.random.default_rng(seed)
    y = rng.integers(n_classes, size=n)
    return y, factor * (rng.normal(size=(n, n_classes)) + 1.5 * np.eye(n_classes)[y])


def drawn(n, K=4, noise=1.5, scale=2.0, seed=0):
    """Logits, and labels that are drawn from softmax(z / noise)."""
    rng = np.random.default_rng(seed)
    Z = scale * rng.normal(size=(n, K))
    return Z, (Z + noise * rng.gumbel(size=Z.shape)).argmax(axis=1)


def uneven(n=40, K=4, seed=0):
    """Logits with ties, a missing class and uneven weights."""
    rng = np.random.default_rng(seed)
    Z = 3 * rng.normal(size=(n, K))
    Z[:3] = np.round(Z[:3])
    Z[3, 1] = Z[3, 0] = Z[3].max()
    return Z, rng.integers(0, K - 1, n), rng.uniform(0.2, 3, n)


def rated(n=300, K=3, raters=4):
    """Logits, the labels of raters ``(n, raters)``, and their shares ``(n, K)``."""
    rng = np.random.default_rng(0)
    Z = 2 * rng.normal(size=(n, K))
    labels = (Z[:, None] / 2 + rng.gumbel(size=(n, raters, K))).argmax(axis=2)
    return Z, labels, (labels[:, :, None] == np.arange(K)).mean(axis=1)


class Failing(IdentityCalibrator):
    """A calibrator whose fit fails."""

    def _fit(self, scores, code, w):
        raise RuntimeError("no luck\nat all")


class Flat(IdentityCalibrator):
    """A calibrator that ruins the predictions, and has hardly any calibration error."""

    def _map(self, scores):
        return np.full(scores.shape, 1 / scores.shape[1])
