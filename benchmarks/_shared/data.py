"""Data whose true probabilities are known.

Labels are drawn from them, so that the value of a metric in the population is known: every row
carries each label once, with the probability of that label as its weight, and no label noise is
left.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

N_CLASSES = 3
POPULATION = 200_000


def draw(n: int, sharpening: float, rng: np.random.Generator) -> tuple[Array, Array]:
    """Draw true probabilities of n rows and those of a model that sharpens them."""
    Z = rng.normal(scale=1.5, size=(n, N_CLASSES))
    truth = np.exp(Z)
    P = np.exp(sharpening * Z)
    return truth / truth.sum(axis=1, keepdims=True), P / P.sum(axis=1, keepdims=True)


def sample_labels(truth: Array, rng: np.random.Generator) -> NDArray[np.intp]:
    """Return a label for each row."""
    edges = np.cumsum(truth, axis=1)[:, :-1]
    return (edges <= rng.random(len(truth))[:, None]).sum(axis=1)


def population_value(metric: Callable[..., Any], sharpening: float) -> float:
    """Value of a metric without label noise."""
    truth, P = draw(POPULATION, sharpening, np.random.default_rng(0))
    y = np.tile(np.arange(N_CLASSES), len(P))
    return float(metric(y, np.repeat(P, N_CLASSES, axis=0), sample_weight=truth.ravel()))
