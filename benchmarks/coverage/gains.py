"""Does the interval of a gain in `compare_calibrators` hold the true gain? By simulation.

``python -m benchmarks.coverage.gains [samples]`` prints a Markdown table within three minutes.
Three pairs of models on one problem (1,000 rows, 5 classes): the logits of the one are multiplied
by the first number, those of the other by the second; right is 1. The true gain is that of 200,000
rows.
"""

import sys

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from skcalib._comparison.paired_gain import as_measures, measure_resampled, paired_gain
from skcalib._validation.predictions import Predictions, check_predictions
from skcalib.metrics._resampling import random_chunks

N, N_CLASSES, POPULATION, RESAMPLES = 1_000, 5, 200_000, 100
PAIRS = ((1.4, 1.0), (1.0, 1.05), (1.0, 1.2))
MEASURES = as_measures(
    [
        "log_loss",
        "expected_calibration_error",
        "static_calibration_error",
        "ks_calibration_error",
    ]
)


def draw(n: int, factors: tuple[float, float], rng: np.random.Generator) -> list[Predictions]:
    """Return the predictions of both models for the same rows."""
    y: NDArray[np.intp] = rng.integers(N_CLASSES, size=n)
    Z = 1.5 * (rng.normal(size=(n, N_CLASSES)) + 1.5 * np.eye(N_CLASSES)[y])
    return [check_predictions(y, softmax(f * Z, axis=1)) for f in factors]


def main(samples: int = 100) -> None:
    """Print how often the interval holds the true gain, and how often it lies above 0."""
    names = [measure.name for measure in MEASURES]
    print(f"| factors | {' | '.join(names)} |\n|---|{'--:|' * len(names)}")
    for factors in PAIRS:
        rng = np.random.default_rng(0)
        before, after = draw(POPULATION, factors, rng)
        true = [m.value(before) - m.value(after) for m in MEASURES]
        held, above = np.zeros((2, len(MEASURES)))
        for seed in range(samples):
            both, chunks = draw(N, factors, rng), random_chunks(RESAMPLES, seed)
            for j, measure in enumerate(MEASURES):
                found = [measure_resampled(measure, p, np.arange(N), chunks) for p in both]
                gain = paired_gain(measure, *found, np.arange(N), both[0].w, 0.95)
                held[j] += gain.low <= true[j] <= gain.high
                above[j] += gain.low > 0
        cells = [f"{h / samples:.0%}, {a / samples:.0%}" for h, a in zip(held, above, strict=True)]
        print(f"| {factors[0]} to {factors[1]} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
