"""What is measured, and data on disk whose chunk readings are counted."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from skcalib import HistogramBinning, IsotonicCalibrator, TemperatureScaling, VectorScaling
from skcalib.metrics import (
    expected_calibration_error,
    ks_calibration_error,
    static_calibration_error,
)


class Job(NamedTuple):
    """A fit to, or an error of, scores that are `logits` or `probabilities`."""

    scores: str
    run: Callable[[Any, Any], Any]


JOBS = {
    "temperature": Job("logits", lambda X, y: TemperatureScaling().fit(X, y).temperature_),
    "vector": Job("logits", lambda X, y: VectorScaling().fit(X, y).coef_),
    "isotonic": Job("probabilities", lambda X, y: IsotonicCalibrator().fit(X, y)),
    "histogram": Job("probabilities", lambda X, y: HistogramBinning().fit(X, y)),
    "ECE": Job("probabilities", lambda X, y: expected_calibration_error(y, X)),
    "SCE": Job("probabilities", lambda X, y: static_calibration_error(y, X)),
    "KS class-wise": Job(
        "probabilities", lambda X, y: ks_calibration_error(y, X, mode="classwise")
    ),
}
# Those that need whole columns.
COLUMNS = ("isotonic", "KS class-wise")


class Mapped:
    """An array in a file of which blocks are read; another file has a byte for each reading."""

    def __init__(self, path: Path) -> None:
        array = np.load(path, mmap_mode="r")
        self.path, self.counter = str(path), str(path.with_suffix(".count"))
        self.shape, self.dtype, self.ndim = array.shape, array.dtype, array.ndim

    def __getitem__(self, key: Any) -> NDArray[Any]:
        """Read a block; every process adds to the same file."""
        file = os.open(self.counter, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        try:
            os.write(file, b".")
        finally:
            os.close(file)
        return np.array(np.load(self.path, mmap_mode="r")[key])

    def readings(self) -> int:
        """Return how many blocks have been read."""
        return os.path.getsize(self.counter) if os.path.exists(self.counter) else 0


class Data(NamedTuple):
    """Scores in files, and labels."""

    files: dict[str, Mapped]
    y: NDArray[np.intp]

    def array(self, scores: str) -> NDArray[Any]:
        """Return scores in memory."""
        return np.load(self.files[scores].path)

    def lazy(self, scores: str, n_chunks: int) -> Any:
        """Return a Dask array of about as many chunks."""
        import dask.array as da

        file = self.files[scores]
        rows = -(-file.shape[0] // n_chunks)
        return da.from_array(file, chunks=(rows, file.shape[1]), asarray=False, name=False)


def make_data(n: int, K: int, folder: Path) -> Data:
    """Write float32 logits that are 1.5 times too large, and their probabilities."""
    rng = np.random.default_rng(0)
    Z = 2 * rng.normal(size=(n, K))
    y = (Z / 1.5 + rng.gumbel(size=Z.shape)).argmax(axis=1)
    files = {}
    for name, values in (("logits", Z), ("probabilities", softmax(Z, axis=1))):
        path = folder / f"{name}-{n}-{K}.npy"
        np.save(path, values.astype(np.float32))
        files[name] = Mapped(path)
    return Data(files, y)
