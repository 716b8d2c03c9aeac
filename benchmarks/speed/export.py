"""Measure calibrators as ONNX models: differences, sizes, times.

``python -m benchmarks.speed.export`` prints a table of every calibrator of logits, fitted to 2,000
rows of 10 classes and to 3,000 rows of 1,000; ``--sizes 500x10`` and ``--calibrators
IsotonicCalibrator`` choose others, ``--dtype float64`` the type of scores. Differences are the
largest from ``predict_proba`` over rows of the fit, new rows, new rows times 1,000 and 100,000, and
rows with logits of -inf. One thread; the least time of 300 runs in turn counts, each of another
row, and of 15 for 1,000 rows.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable
from itertools import cycle
from typing import Any

import numpy as np
from numpy.typing import NDArray

import skcalib
from benchmarks._shared.report import machine, markdown
from benchmarks.speed.data import make_data

# Runs of one row and of 1,000.
REPEATS = 300, 15
HEAD = [
    "calibrator",
    "K",
    "difference",
    "nodes",
    "kB",
    "export, s",
    "row: ONNX, ms",
    "row: skcalib, ms",
]
HEAD += ["1,000 rows: ONNX, ms", "1,000 rows: skcalib, ms"]


def least(repeats: int, *calls: Callable[[], Any]) -> list[float]:
    """Return the least time of each of some calls in turn, in milliseconds."""
    times = np.empty((repeats, len(calls)))
    for row in times:
        for j, call in enumerate(calls):
            start = time.perf_counter()
            call()
            row[j] = time.perf_counter() - start
    return (1e3 * times.min(axis=0)).tolist()


def rows_to_try(Z: NDArray[Any], new: NDArray[Any]) -> list[NDArray[Any]]:
    """Return rows of the fit, new ones, far ones, and some with -inf."""
    holes = new.copy()
    holes[::2, 0] = -np.inf
    return [Z, new, 1e3 * new, 1e5 * new, holes]


def measure(name: str, n: int, n_classes: int, dtype: str) -> list[str]:
    """Return the row of a calibrator."""
    import onnxruntime

    data = make_data(2 * n, n_classes, dtype)
    Z, y, new = data.Z[:n], data.y[:n], data.Z[n:]
    calibrator = getattr(skcalib, name)(classes=np.arange(n_classes))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        calibrator.fit(Z, y)
    start = time.perf_counter()
    model = skcalib.to_onnx(calibrator, dtype=dtype)
    seconds = time.perf_counter() - start
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    written = model.SerializeToString()
    session = onnxruntime.InferenceSession(written, options, providers=["CPUExecutionProvider"])

    def run(X: NDArray[Any]) -> Any:
        return session.run(["probabilities"], {"scores": X})[0]

    worst = max(
        float(np.abs(run(X).astype(float) - calibrator.predict_proba(X)).max())
        for X in rows_to_try(Z, new)
    )
    # The same row again would find the thresholds that it needs in the cache.
    one, many = cycle(np.split(new, n)), new[:1000]
    predict = calibrator.predict_proba
    row = least(REPEATS[0], lambda: run(next(one)), lambda: predict(next(one)))
    block = least(REPEATS[1], lambda: run(many), lambda: predict(many))
    numbers = [f"{value:.2g}" for value in (seconds, *row, *block)]
    return [
        name,
        f"{n_classes:,}",
        f"{worst:.0e}",
        str(len(model.graph.node)),
        f"{len(written) / 1e3:,.0f}",
        *numbers,
    ]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.speed.export", description=__doc__)
    parser.add_argument("--sizes", nargs="+", default=["2000x10", "3000x1000"])
    parser.add_argument("--calibrators", nargs="+", default=skcalib.calibrators.__all__)
    parser.add_argument("--dtype", choices=["float32", "float64"], default="float32")
    options = parser.parse_args()
    rows = []
    for size in options.sizes:
        n, n_classes = map(int, size.split("x"))
        for name in options.calibrators:
            rows.append(measure(name, n, n_classes, options.dtype))
            print(" ".join(rows[-1]), file=sys.stderr, flush=True)
    print("\n".join([*machine(), "", *markdown(HEAD, rows)]))


if __name__ == "__main__":
    main()
