"""Measure calibrators as ONNX models: differences, sizes, times.

``python -m benchmarks.speed.export`` prints a table of every calibrator of logits, fitted to 2,000
rows of 10 classes and to 3,000 rows of 1,000; ``--sizes 500x10`` and ``--calibrators
IsotonicCalibrator`` choose others. Differences are the largest from ``predict_proba`` over rows of
the fit, new rows, new rows times 1,000 and 100,000, and rows with logits of -inf. One thread; the
least time of 300 runs counts, each of another row, and of 15 for 1,000 rows.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from itertools import cycle
from timeit import repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

import skcalib
from benchmarks._shared.report import machine, markdown
from benchmarks._shared.timing import quiet
from benchmarks.speed.data import make_data
from benchmarks.speed.jobs import sizes

# Runs of one row and of 1,000.
REPEATS = 300, 15
COLUMNS = "calibrator,K,difference,nodes,kB,row: ONNX ms,row: skcalib ms,1000: ONNX,1000: skcalib"


def measure(name: str, n: int, n_classes: int) -> list[str]:
    """Return the row of a calibrator."""
    import onnxruntime

    data = make_data(2 * n, n_classes, "float32")
    Z, new = data.Z[:n], data.Z[n:]
    with quiet():
        calibrator = getattr(skcalib, name)(classes=np.arange(n_classes)).fit(Z, data.y[:n])
    model = skcalib.to_onnx(calibrator, dtype="float32")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    written = model.SerializeToString()
    session = onnxruntime.InferenceSession(written, options, providers=["CPUExecutionProvider"])

    def run(X: NDArray[Any]) -> Any:
        return session.run(["probabilities"], {"scores": X})[0]

    holes = new.copy()
    holes[::2, 0] = -np.inf
    worst = max(
        float(np.abs(run(X).astype(float) - calibrator.predict_proba(X)).max())
        for X in (Z, new, 1e3 * new, 1e5 * new, holes)
    )
    # The same row again would find the thresholds that it needs in the cache.
    blocks = cycle(np.split(new, n)), cycle([new[:1000]])
    ways: list[Callable[[Any], Any]] = [run, calibrator.predict_proba]
    times = [
        1e3 * min(repeat(lambda way=way, rows=rows: way(next(rows)), number=1, repeat=repeats))  # type: ignore[misc]
        for rows, repeats in zip(blocks, REPEATS, strict=True)
        for way in ways
    ]
    counts = [f"{n_classes:,}", f"{worst:.0e}", str(len(model.graph.node))]
    return [name, *counts, f"{len(written) / 1e3:,.0f}", *(f"{time:.2g}" for time in times)]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.speed.export", description=__doc__)
    parser.add_argument("--sizes", type=sizes, default=[(2000, 10), (3000, 1000)])
    parser.add_argument("--calibrators", nargs="+", default=skcalib.calibrators.__all__)
    options = parser.parse_args()
    rows = [measure(name, *size) for size in options.sizes for name in options.calibrators]
    print("\n".join([*machine(), "", *markdown(COLUMNS.split(","), rows)]))


if __name__ == "__main__":
    main()
