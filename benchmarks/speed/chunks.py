"""Time Dask arrays beside NumPy: ``python -m benchmarks.speed.chunks --out benchmarks/speed``.

Passes are readings of chunks, divided by the number of chunks. The time is the least of three runs,
in turn with NumPy on the same array in memory, on two threads and on a cluster of two processes.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from timeit import repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from benchmarks._shared.report import fill, machine, markdown, number
from benchmarks._shared.timing import quiet
from benchmarks.speed.jobs import sizes
from skcalib import HistogramBinning, IsotonicCalibrator, TemperatureScaling, VectorScaling
from skcalib.metrics import (
    expected_calibration_error,
    ks_calibration_error,
    static_calibration_error,
)

WORKERS = 2
COLUMNS = ["job", "scheduler", "n x K", "chunks", "passes"]
COLUMNS += ["NumPy ms", "Dask ms", "Dask / NumPy"]
# Scores, and a fit to them or an error of them.
JOBS: dict[str, tuple[str, Callable[[Any, Any], Any]]] = {
    "temperature": ("Z", lambda X, y: TemperatureScaling().fit(X, y)),
    "vector": ("Z", lambda X, y: VectorScaling().fit(X, y)),
    "isotonic": ("P", lambda X, y: IsotonicCalibrator().fit(X, y)),
    "histogram": ("P", lambda X, y: HistogramBinning().fit(X, y)),
    "ECE": ("P", lambda X, y: expected_calibration_error(y, X)),
    "SCE": ("P", lambda X, y: static_calibration_error(y, X)),
    "KS class-wise": ("P", lambda X, y: ks_calibration_error(y, X, mode="classwise")),
}


class CountedFile:
    """An array in a file, of which blocks are read; another file has a byte for each reading."""

    def __init__(self, path: Path) -> None:
        array = np.load(path, mmap_mode="r")
        self.path, self.counter = str(path), path.with_suffix(".count")
        self.shape, self.dtype, self.ndim = array.shape, array.dtype, array.ndim
        self.counter.touch()

    def __getitem__(self, key: Any) -> NDArray[Any]:
        """Read a block; every process appends to the same file."""
        with self.counter.open("ab", buffering=0) as file:
            file.write(b".")
        return np.array(np.load(self.path, mmap_mode="r")[key])


@contextmanager
def scheduler(place: str) -> Iterator[None]:
    """Compute on "threads" or on a cluster of "processes"."""
    import dask

    if place == "threads":
        with dask.config.set(scheduler="threads", num_workers=WORKERS):
            yield
        return
    from distributed import Client

    with Client(n_workers=WORKERS, threads_per_worker=1, dashboard_address=None):
        yield


def measure(name: str, n_chunks: int, folder: Path, repeats: int) -> list[str]:
    """Return the size, the number of chunks, the passes and times of a job."""
    import dask.array as da

    scores, run = JOBS[name]
    path = folder / f"{scores}.npy"
    array, y, file = np.load(path), np.load(folder / "y.npy"), CountedFile(path)
    n, n_classes = array.shape
    lazy = da.from_array(file, chunks=(-(-n // n_chunks), n_classes), asarray=False, name=False)
    before = os.path.getsize(file.counter)
    with quiet():
        run(lazy, y)
        passes = (os.path.getsize(file.counter) - before) / lazy.numblocks[0]
        turns = [
            [repeat(lambda X=X: run(X, y), number=1, repeat=1)[0] for X in (array, lazy)]  # type: ignore[misc]
            for _ in range(repeats)
        ]
    alone, seconds = np.min(turns, axis=0)
    times = [number(1e3 * alone), number(1e3 * seconds), f"{seconds / alone:.1f}"]
    return [f"{n}x{n_classes}", str(n_chunks), f"{passes:g}", *times]


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print and store."""
    parser = argparse.ArgumentParser(prog="benchmarks.speed.chunks", description=__doc__)
    parser.add_argument("--sizes", type=sizes, default=[(200_000, 20), (40_000, 200)])
    parser.add_argument("--jobs", nargs="+", choices=JOBS, default=list(JOBS))
    parser.add_argument("--chunks", nargs="+", type=int, default=[8])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path, help="folder of README.md")
    options = parser.parse_args(arguments)
    rows = []
    for place in ("threads", "processes"):
        for size in options.sizes:
            with tempfile.TemporaryDirectory() as folder, scheduler(place):
                write(*size, Path(folder))
                for name in options.jobs:
                    for n_chunks in options.chunks:
                        new = measure(name, n_chunks, Path(folder), options.repeats)
                        rows.append([name, place, *new])
    lines = ["\n".join(machine()), "", *markdown(COLUMNS, rows)]
    print("\n".join(lines))
    if options.out:
        fill(options.out / "README.md", "chunks", lines)


def write(n: int, n_classes: int, folder: Path) -> None:
    """Write float32 logits that are 1.5 times too large, their probabilities, and labels."""
    rng = np.random.default_rng(0)
    Z = 2 * rng.normal(size=(n, n_classes))
    np.save(folder / "y.npy", (Z / 1.5 + rng.gumbel(size=Z.shape)).argmax(axis=1))
    np.save(folder / "Z.npy", Z.astype(np.float32))
    np.save(folder / "P.npy", softmax(Z, axis=1).astype(np.float32))


if __name__ == "__main__":
    main()
