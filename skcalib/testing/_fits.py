"""Functions that the checks of calibrators share: samples, fits and probability vectors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from skcalib.testing._promises import Sample, make_sample, require

# Tolerances: of an iterative fit for the order of its sums, and of float32 for its rounding.
REFIT = 1e-7
SINGLE = 2e-6


def kinds_of(calibrator: Any) -> tuple[str, ...]:
    kind = calibrator.get_params(deep=False).get("input", "auto")
    return (kind,) if kind in ("logits", "proba") else ("logits", "proba")


def samples(calibrator: Any, sizes: tuple[int, ...] = (2, 4), seed: int = 0) -> Iterator[Sample]:
    for kind in kinds_of(calibrator):
        for n_classes in sizes:
            yield make_sample(kind, n_classes, seed=seed)


def fit_proba(calibrator: Any, S: Any, y: Any, T: Any, **weight: Any) -> NDArray[Any]:
    """Fit a clone on S and y, and return its probabilities of T."""
    return clone(calibrator).fit(S, y, **weight).predict_proba(T)


def edge_rows(sample: Sample) -> NDArray[np.float64]:
    """Extreme rows: certain ones, and rows far from those of the fit."""
    n_classes = sample.S.shape[1]
    unit = np.eye(n_classes)
    if sample.name.startswith("proba"):
        return np.vstack([unit, np.full((1, n_classes), 1 / n_classes)])
    certain = np.where(unit == 1, 3.0, -np.inf)
    far = 200.0 * unit
    return np.vstack([certain, far, -far, 0 * unit[:1], np.full((1, n_classes), 1e6)])


def require_simplex(proba: Any, shape: tuple[int, ...], how: str, atol: float = 1e-9) -> None:
    require(isinstance(proba, np.ndarray), f"{how}: a {type(proba).__name__}, not an array")
    require(proba.shape == shape, f"{how}: shape {proba.shape} instead of {shape}")
    require(np.isfinite(proba).all(), f"{how}: NaN or infinity among the probabilities")
    low, high = proba.min(), proba.max()
    require(low >= 0 and high <= 1, f"{how}: probabilities from {low:.3g} to {high:.3g}")
    off = np.abs(proba.sum(axis=1, dtype=np.float64) - 1).max()
    require(off <= atol, f"{how}: a row sums to 1 only within {off:.3g}")
