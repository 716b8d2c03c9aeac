"""Time tensors on a GPU, in three sizes, beside the two peers that take them.

``SCIPY_ARRAY_API=1 python -m benchmarks.speed.device`` prints a line for each call: the best of
three runs after the first, the peak of memory beyond the input, and the largest difference from
NumPy's numbers on the first rows. Without a GPU, it tries all lines on few rows.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import torch
from sklearn import calibration, config_context

import skcalib
from benchmarks._shared.report import absent, machine
from benchmarks._shared.timing import OutOfTimeError, at_most, quiet
from benchmarks.speed.jobs import N_BINS
from skcalib import metrics
from skcalib._arrays.rowwise import row_blocks

with suppress(ImportError):
    from torchmetrics.functional.classification import multiclass_calibration_error

GPU = torch.cuda.is_available()
DEVICE = "cuda" if GPU else "cpu"
# Seconds of all lines, and of one; what takes longer than SLOW runs once.
ALL, ONE, SLOW = 200, 30, 5
# Rows, classes, type, rows that NumPy computes too, and how many of the jobs there are.
SIZES = {
    "A": (50_000, 1_000, torch.float32, 4_000, 12),
    "B": (16_384, 128_256, torch.bfloat16, 64, 6),
    "C": (40_000_000, 19, torch.float16, 100_000, 8),
}


def draw(n: int, K: int, dtype: Any) -> tuple[Any, Any]:
    """Draw logits and labels."""
    where: Any = {"device": DEVICE, "generator": torch.Generator(DEVICE).manual_seed(0)}
    y, Z = torch.randint(K, (n,), **where), torch.empty((n, K), dtype=dtype, device=DEVICE)
    for rows in row_blocks(n, K, 1 << 30):
        block = torch.randn(Z[rows].shape, **where)
        Z[rows] = 1.7 * block.scatter_add_(1, y[rows, None], torch.full_like(block, 5.0))
    return Z, y


def jobs(K: int, fitted: Any) -> dict[str, Callable[..., Any]]:
    """Return calls of logits, probabilities and labels, which return numbers."""
    known = {"classes": np.arange(K)}

    def error(name: str, **keywords: Any) -> Callable[..., Any]:
        call = getattr(metrics, f"{name}_calibration_error")
        return lambda _, P, y: call(y, P, labels=np.arange(K), **keywords)

    def temperature(Z: Any, _: Any, y: Any) -> Any:
        return skcalib.TemperatureScaling(**known).fit(Z, y).temperature_

    def batch(Z: Any, _: Any, y: Any) -> Any:
        return skcalib.TemperatureScaling(**known).partial_fit(Z[:512], y[:512]).temperature_

    def of_sklearn(Z: Any, _: Any, y: Any) -> Any:
        with config_context(array_api_dispatch=True):
            return 1 / float(calibration._TemperatureScaling().fit(Z, y).beta_)

    return {
        "torchmetrics: ECE": lambda _, P, y: multiclass_calibration_error(P, y, K, N_BINS),
        "ECE": error("expected"),
        "SCE": error("static"),
        "temperature": temperature,
        "predict": lambda Z, *_: fitted.predict_proba(Z),
        "partial_fit of 512 rows": batch,
        "ACE": error("adaptive"),
        "KS class-wise": error("ks", mode="classwise"),
        "vector": lambda Z, _, y: skcalib.VectorScaling(**known).fit(Z, y).coef_,
        "isotonic": lambda _, P, y: skcalib.IsotonicCalibrator(**known).fit(P, y).y_thresholds_[0],
        "auto": lambda Z, _, y: skcalib.AutoCalibrator(**known).fit(Z, y).class_shift_,
        "scikit-learn: temperature": of_sklearn,
    }


def numbers(x: Any) -> Any:
    """Return numbers, of a tensor too, as an array of float64."""
    return np.asarray(x.double().cpu() if isinstance(x, torch.Tensor) else x, dtype=np.float64)


def line(call: Callable[..., Any], given: list[Any], few: int) -> str:
    """Time a call; return its line."""
    seconds: list[float] = []
    result, peak, before = None, 0, torch.cuda.memory_allocated()
    while len(seconds) < 4 and sum(seconds) < SLOW:
        start, result = time.perf_counter(), None
        result = call(*given)
        if GPU:
            torch.cuda.synchronize()
            peak = torch.cuda.max_memory_allocated() - before
            torch.cuda.reset_peak_memory_stats()
        seconds.append(time.perf_counter() - start)
    number = f"{float(result):.8g}" if getattr(result, "ndim", 0) == 0 else ""
    text = f"{1e3 * min(seconds):11.3f} ms {peak / 2**20:8.0f} MiB {number:>13s}"
    if not few:
        return text
    on_device = [x[:few] for x in given]
    on_host = [(x.float() if x.is_floating_point() else x).cpu().numpy() for x in on_device]
    one, other = numbers(call(*on_device)), numbers(call(*on_host))
    return f"{text} difference {np.abs(one - other).max():.1e}"


def main() -> None:
    """Print a line for each job of each size."""
    end = time.perf_counter() + ALL
    print(*machine(), torch.cuda.get_device_name() if GPU else "no GPU", absent(), sep="\n")
    for size, (n, K, dtype, few, n_jobs) in SIZES.items():
        n, K = (n, K) if GPU else (900, min(K, 50))
        Z, y = draw(n, K, dtype)
        P, few = torch.softmax(Z, 1, dtype=torch.float32), min(few, n // 3)
        with quiet():
            fitted = skcalib.TemperatureScaling(classes=np.arange(K)).fit(Z[:few], y[:few])
        print(f"{size}: {n:,} x {K:,}, {dtype}; differences on {few:,} rows", flush=True)
        for name, call in list(jobs(K, fitted).items())[:n_jobs]:
            try:
                with quiet(), at_most(max(0.1, min(ONE, end - time.perf_counter())), "REAL"):
                    text = line(call, [Z, P, y], 0 if ":" in name else few)
            except (Exception, OutOfTimeError) as error:
                text = f"{type(error).__name__}: {error}".splitlines()[0][:150]
            print(f"{size} {name:28s} {text}", flush=True)


if __name__ == "__main__":
    main()
