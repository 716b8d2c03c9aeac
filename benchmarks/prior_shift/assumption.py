"""How often `PriorCorrection` warns that more than the class priors has changed.

``python -m benchmarks.prior_shift.assumption`` fills its table in README.md in a minute. Scores are
normal with a standard deviation of 1 and a mean of 0 without the event and 2 with it. The new
scores come from data with another prevalence, and are higher by a number of standard deviations.
"""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks._shared.report import fill, markdown
from benchmarks._shared.timing import quiet
from skcalib import PlattScaling, PriorCorrection

PAGE = Path(__file__).parent / "README.md"
SAMPLES, ROWS = 200, 1_000
PREVALENCES = ((0.12, 0.03), (0.3, 0.3), (0.1, 0.4))
SIZES, MOVES = (100, 1_000), (0.0, 0.3, 0.8)
WARNS_BELOW = 0.01


def draw(rng: np.random.Generator, n: int, prevalence: float) -> tuple[NDArray[np.float64], ...]:
    """Return scores and labels of n rows."""
    y = (rng.random(n) < prevalence).astype(float)
    return rng.normal(2 * y), y


def warned(before: float, now: float, n: int, move: float, samples: int = SAMPLES) -> float:
    """Return the share of samples in which the p-value of the assumption is below 0.01."""
    count = 0
    for sample in range(samples):
        rng = np.random.default_rng([sample, n])
        z, y = draw(rng, ROWS, before)
        new = draw(rng, n, now)[0] + move
        with quiet():
            there = PriorCorrection(PlattScaling(input="logits").fit(z, y)).fit(new, X_source=z)
        count += there.assumption_pvalue_ < WARNS_BELOW
    return count / samples


def table(samples: int = SAMPLES) -> list[str]:
    """Return a row for each pair of prevalences and number of new rows."""
    body = []
    for (before, now), n in product(PREVALENCES, SIZES):
        shares = [warned(before, now, n, move, samples) for move in MOVES]
        body.append(
            [f"{before:g} to {now:g}", f"{n:,}", *(f"{100 * share:.1f} %" for share in shares)]
        )
    heads = ["prevalence", "new rows", "priors alone", "scores + 0.3", "scores + 0.8"]
    return markdown(heads, body, left=1)


if __name__ == "__main__":
    lines = table()
    fill(PAGE, "assumption", lines)
    print(*lines, sep="\n")
