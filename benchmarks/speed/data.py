"""Data that calibration is timed on, and what NumPy takes to touch it once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

# A scale that logits are too large by, so that there is something to correct.
TEMPERATURE = 1.5


class Data(NamedTuple):
    """Probabilities and logits of n rows and K classes, and labels 0..K-1."""

    P: NDArray[Any]
    Z: NDArray[Any]
    y: NDArray[np.int64]


def make_data(n: int, n_classes: int, dtype: str = "float64") -> Data:
    """Draw logits, and labels that temperature, a scale and a shift of each class explain."""
    rng = np.random.default_rng(0)
    width = 2 * np.sqrt(np.log(n_classes))
    Z = rng.normal(scale=width, size=(n, n_classes)).astype(dtype)
    scale = rng.normal(1, 0.05, n_classes) / TEMPERATURE
    # So that no class is much rarer than the others, which some peers cannot do with.
    shift = rng.normal(0, 0.1, n_classes) - (scale * width) ** 2 / 2
    y = np.empty(n, dtype=np.int64)
    for start in range(0, n, 1_000):
        rows = slice(start, start + 1_000)
        y[rows] = (Z[rows] * scale + shift + rng.gumbel(size=Z[rows].shape)).argmax(axis=1)
    missing = np.setdiff1d(np.arange(n_classes), y)[:n]
    y[: len(missing)] = missing
    return Data(softmax(Z), Z, y)


def softmax(Z: NDArray[Any]) -> NDArray[Any]:
    """Softmax as one would write it."""
    E = np.exp(Z - Z.max(axis=1, keepdims=True))
    return E / E.sum(axis=1, keepdims=True)


FLOORS: dict[str, Callable[[Data], Any]] = {
    "P.argmax(1) + P.max(1)": lambda data: (data.P.argmax(1), data.P.max(1)),
    "P.sum(0)": lambda data: data.P.sum(0),
    "np.sort(P.T)": lambda data: np.sort(data.P.T),
    "softmax(Z)": lambda data: softmax(data.Z),
}
TOP, SUM, SORT, SOFTMAX = FLOORS
