"""What each metric costs, as a multiple of the expected calibration error on the same rows.

``python -m benchmarks.speed.metric_cost [n] [K]`` prints a Markdown table; every round times each
metric once, and the median of the ratios of all rounds counts.
"""

import sys
import time

import numpy as np

from skcalib import metrics


def predictions(n: int, n_classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Return labels, and probabilities of an over-confident model."""
    rng = np.random.default_rng(0)
    labels = rng.integers(n_classes, size=n)
    Z = 4 * (rng.normal(size=(n, n_classes)) + 1.5 * np.eye(n_classes)[labels])
    P = np.exp(Z - Z.max(axis=1, keepdims=True))
    return labels, P / P.sum(axis=1, keepdims=True)


def seconds(metric, *args, **keywords) -> float:
    """Time one call."""
    start = time.perf_counter()
    metric(*args, **keywords)
    return time.perf_counter() - start


def main(n: int = 100_000, n_classes: int = 10, rounds: int = 5) -> None:
    """Print the table."""
    y, P = predictions(n, n_classes)
    jobs = {}
    for name in metrics.__all__:
        metric = getattr(metrics, name)
        if not name.endswith(("_error", "_score", "_loss")):
            continue
        jobs[name] = (metric, {})
        if "mode" in metric.__annotations__:
            jobs[f"{name}, class-wise"] = (metric, {"mode": "classwise"})
    ratios = {job: [] for job in jobs}
    for _ in range(rounds):
        base = seconds(metrics.expected_calibration_error, y, P)
        for job, (metric, keywords) in jobs.items():
            ratios[job].append(seconds(metric, y, P, **keywords) / base)
    print(f"n = {n:,}, K = {n_classes}\n\n| metric | time, ECE = 1 |\n|---|--:|")
    for job, found in ratios.items():
        print(
            f"| `{job.replace(', ', '`, ')}{'' if ', ' in job else '`'} | {np.median(found):.1f} |"
        )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
