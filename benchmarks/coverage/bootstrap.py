"""Do bootstrap intervals cover, and do the tests keep their level? By simulation.

``python -m benchmarks.coverage.bootstrap`` prints two Markdown tables in a few minutes;
``--samples`` and ``--resamples`` make them finer. Labels are drawn from known probabilities, so
that the value of each metric in the population is known.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from benchmarks._shared.data import N_CLASSES, draw, population_value, sample_labels
from skcalib.metrics import (
    bootstrap_interval,
    calibration_test,
    expected_calibration_error,
    hosmer_lemeshow_test,
    ks_calibration_error,
    static_calibration_error,
    top_label_brier_score,
)

Array = NDArray[np.float64]

LEVEL = 0.05
METHODS = ("percentile", "bca")
SHARPENINGS = (1.0, 1.25, 2.0)
METRICS: dict[str, Callable[..., Any]] = {
    "top-label Brier": top_label_brier_score,
    "ECE, 10 bins": partial(expected_calibration_error, n_bins=10),
    "SCE, 10 bins": partial(static_calibration_error, n_bins=10),
    "KS, top label": ks_calibration_error,
    "KS, class-wise": partial(ks_calibration_error, mode="classwise"),
}


def coverage(
    metric: Callable[..., Any], n: int, sharpening: float, samples: int, resamples: int
) -> tuple[float, Array, Array]:
    """Return the population value and, by method, how often intervals hold it and their width."""
    value = population_value(metric, sharpening)
    held, width = np.zeros(len(METHODS)), np.zeros(len(METHODS))
    for i in range(samples):
        rng = np.random.default_rng(i + 1)
        truth, P = draw(n, sharpening, rng)
        y = sample_labels(truth, rng)
        for j, method in enumerate(METHODS):
            result = bootstrap_interval(
                metric,
                y,
                P,
                n_resamples=resamples,
                method=method,
                labels=range(N_CLASSES),
                random_state=i,
            )
            held[j] += result.low <= value <= result.high
            width[j] += result.high - result.low
    return value, held / samples, width / samples


def rejections(metric: Callable[..., Any], n: int, samples: int, resamples: int) -> list[float]:
    """Share of p-values at or below LEVEL, for each sharpening; 1 is a calibrated model."""
    shares = []
    for sharpening in SHARPENINGS:
        low = 0
        for i in range(samples):
            rng = np.random.default_rng(i + 1)
            truth, P = draw(n, sharpening, rng)
            y = sample_labels(truth, rng)
            if metric is hosmer_lemeshow_test:
                pvalue = metric(y, P, labels=range(N_CLASSES)).pvalue
            else:
                pvalue = calibration_test(
                    metric, y, P, n_resamples=resamples, labels=range(N_CLASSES), random_state=i
                ).pvalue
            low += pvalue <= LEVEL
        shares.append(low / samples)
    return shares


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, nargs="*", default=[1000], help="rows of a sample")
    parser.add_argument("--samples", type=int, default=100, help="samples of each line")
    parser.add_argument("--resamples", type=int, default=199, help="resamples of each interval")
    options = parser.parse_args()
    samples, resamples = options.samples, options.resamples

    low, high = binom(samples, 0.95).ppf([0.025, 0.975]) / samples
    print(f"Share of 95 % intervals that hold the value in the population ({samples} samples,")
    print(f"{resamples} resamples each; right ones lie in [{low:.3f}, {high:.3f}])\n")
    print("| metric | n | sharpened | population | percentile | BCa | width | width, BCa |")
    print("|---|--:|--:|--:|--:|--:|--:|--:|")
    for name, metric in METRICS.items():
        for n in options.n:
            for sharpening in (1.25, 2.0):
                value, held, width = coverage(metric, n, sharpening, samples, resamples)
                cells = [f"{sharpening}", f"{value:.4f}", *(f"{x:.3f}" for x in held)]
                cells += [f"{x:.4f}" for x in width]
                print(f"| {name} | {n} | {' | '.join(cells)} |", flush=True)

    low, high = binom(samples, LEVEL).ppf([0.025, 0.975]) / samples
    print(f"\nShare of p-values <= {LEVEL} (of calibrated models, right ones lie in")
    print(f"[{low:.3f}, {high:.3f}]; of sharpened ones it is the power)\n")
    print("| test | n | calibrated | sharpened 1.25 | sharpened 2 |")
    print("|---|--:|--:|--:|--:|")
    tests: dict[str, Callable[..., Any]] = {**METRICS, "Hosmer-Lemeshow": hosmer_lemeshow_test}
    for name, metric in tests.items():
        for n in options.n:
            shares = rejections(metric, n, samples, resamples)
            print(f"| {name} | {n} | {' | '.join(f'{x:.3f}' for x in shares)} |", flush=True)


if __name__ == "__main__":
    main()
