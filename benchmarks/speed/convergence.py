"""Count the passes over the data that fits of softmax(W z + b) take, and weigh their memory.

``python -m benchmarks.speed.convergence`` prints a table; with ``--out benchmarks/speed`` it goes
to [the page](README.md). A pass is one evaluation of the loss with its gradient, of a product with
the Hessian, or of a part of the Hessian, over all rows. The gradient is measured afresh, in plain
NumPy, at the map that the fit returned.
"""

from __future__ import annotations

import argparse
import tracemalloc
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any
from unittest import mock

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from benchmarks._shared.report import fill, machine, markdown, write_csv
from benchmarks.speed.data import make_data, softmax
from skcalib import DirichletCalibrator, MatrixScaling, TemperatureScaling, VectorScaling
from skcalib._scaling.affine_nll import AffineNLL
from skcalib._scores.scores import Scores

PASSES = "value_and_gradient", "hessian_of_pairs", "hessian_by_class", "factors"
MIB = 2**20

Array = NDArray[np.float64]
Make = Callable[[], Any]


def strain(kind: str, Z: Array, y: NDArray[np.int64]) -> tuple[Array, NDArray[np.int64]]:
    """Return logits and labels that are harder to fit."""
    K = Z.shape[1]
    if kind == "columns x 0.1 .. 10":
        return Z * 10 ** np.random.default_rng(1).uniform(-1, 1, K), y
    if kind == "99.9 % right":
        y = Z.argmax(axis=1)
        y[::1000] = (y[::1000] + 1) % K
        return Z, y
    return Z * {"as drawn": 1.0, "x 0.001": 1e-3, "x 1000": 1e3}[kind], y


@contextmanager
def counted() -> Iterator[dict[str, float]]:
    """Count the passes of an affine fit, and the rows that are read for any other."""
    count = {"affine": 0.0, "rows": 0.0}

    def counting(method: Any) -> Any:
        def call(*args: Any) -> Any:
            count["affine"] += 1
            return method(*args)

        return call

    read = Scores.logits

    def logits(self: Scores, rows: slice, *rest: Any) -> Any:
        block = read(self, rows, *rest)
        count["rows"] += len(block)
        return block

    patches = [
        mock.patch.object(AffineNLL, name, counting(getattr(AffineNLL, name))) for name in PASSES
    ]
    at = AffineNLL.hessian_at
    products = mock.patch.object(
        AffineNLL, "hessian_at", lambda nll, theta: counting(at(nll, theta))
    )
    patches += [products, mock.patch.object(Scores, "logits", logits)]
    for patch in patches:
        patch.start()
    try:
        yield count
    finally:
        for patch in patches:
            patch.stop()


def gradient(model: Any, Z: Array, y: NDArray[np.int64]) -> float:
    """Return the largest entry of the mean log loss's gradient at a fitted map without penalty."""
    coef = np.diag(model.coef_) if model.coef_.ndim == 2 else model.coef_
    residual = softmax(Z * coef + model.intercept_)
    residual[np.arange(len(y)), y] -= 1.0
    by_coef = np.einsum("ij,ij->j", residual, Z)
    return float(max(np.abs(by_coef).max(), np.abs(residual.sum(axis=0)).max()) / len(y))


def measure(job: str, make: Make, kind: str, Z: Array, y: NDArray[np.int64]) -> dict[str, Any]:
    """Return a row of the table: one fit for its time, one for its passes and memory."""
    Z, y = strain(kind, Z, y)
    floor = []
    for _ in range(3):
        begin = perf_counter()
        softmax(Z)
        floor.append(perf_counter() - begin)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        begin = perf_counter()
        model = make().fit(Z, y)
        seconds = perf_counter() - begin
    with counted() as count, warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        tracemalloc.start()
        make().fit(Z, y)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    free = job.endswith("no penalty")
    return {
        "fit": job,
        "n x K": f"{Z.shape[0]:,} x {Z.shape[1]:,}",
        "logits": kind,
        "steps": getattr(model, "n_iter_", ""),
        "passes": f"{count['affine'] or count['rows'] / len(y):.0f}",
        "largest gradient": f"{gradient(model, Z, y):.1e}" if free else "",
        "converged": "no" if caught else "yes",
        "seconds": f"{seconds:.2f}",
        "x softmax(Z)": f"{seconds / np.median(floor):.1f}",
        "MiB": f"{peak / MIB:.0f}",
    }


def jobs(large: tuple[int, int]) -> Iterator[tuple[str, Make, tuple[int, int], list[str]]]:
    """Yield what is fitted, at what size and to which logits."""
    kinds = ["as drawn", "x 0.001", "x 1000", "columns x 0.1 .. 10", "99.9 % right"]
    yield "temperature", TemperatureScaling, large, [*kinds[:3], kinds[4]]
    yield "vector", lambda: VectorScaling(tol=1e-6), large, kinds
    yield "vector, no penalty", lambda: VectorScaling(penalty=None, tol=1e-6), large, kinds
    middle = (5_000, 100)
    yield "matrix", lambda: MatrixScaling(tol=1e-6), middle, kinds
    yield "matrix, ODIR", lambda: MatrixScaling(penalty="odir", tol=1e-6), middle, kinds[:1]
    yield "Dirichlet", lambda: DirichletCalibrator(tol=1e-6), middle, kinds[:1]
    yield "matrix", lambda: MatrixScaling(tol=1e-6), large, kinds[:1]


def main() -> None:
    """Measure, print and, if asked, store."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.speed.convergence", description=__doc__
    )
    parser.add_argument("--size", default="25000x1000", help="n x K of the large fits")
    parser.add_argument("--fits", default="", help="only those whose name begins so")
    parser.add_argument("--out", type=Path, help="folder to store the table in")
    options = parser.parse_args()
    n, n_classes = map(int, options.size.split("x"))
    rows = []
    for job, make, size, kinds in jobs((n, n_classes)):
        if not job.startswith(options.fits):
            continue
        data = make_data(*size)
        for kind in kinds:
            rows.append(measure(job, make, kind, data.Z, data.y))
            print(*rows[-1].values(), sep=" | ", flush=True)
    table = markdown(list(rows[0]), [[str(cell) for cell in row.values()] for row in rows])
    print(*table, sep="\n")
    if options.out:
        write_csv(options.out / "results" / "convergence.csv", rows)
        fill(options.out / "README.md", "convergence", [*machine(), "", *table])


if __name__ == "__main__":
    main()
