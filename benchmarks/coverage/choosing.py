"""How much of a miscalibration each calibrator corrects, by rows and classes.

``python -m benchmarks.coverage.choosing`` fills the tables of choosing.md in some minutes of one
core.

Labels are drawn from known probabilities t, so that the expected Brier score of an answer q is
that of t plus the squared distance |q - t|^2: no label noise is left in the measure. A cell is the
mean distance of a calibrator's answers, for new rows, as a percentage of that of the scores as they
came: 0 corrects all, 100 nothing, more than 100 does harm.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from benchmarks._shared.report import fill, markdown
from skcalib import AutoCalibrator
from skcalib.calibrators._names import calibrators_by_name

Array = NDArray[np.float64]

PAGE = Path(__file__).parent / "choosing.md"
ROWS = (100, 300, 1_000, 5_000)
# Classes and how far apart they lie: some 85 % of the labels can be told.
APART = {2: 1.5, 10: 2.5, 100: 3.4}
NEW_ROWS = 2_000
SETTINGS = {"auto, order kept": AutoCalibrator(order_preserving=True)}
SEEDS = {100: 8, 300: 6, 1_000: 4, 5_000: 2}


class Sample(NamedTuple):
    """Logits of a model ``(n, K)``, the true probabilities behind them, and labels drawn."""

    Z: Array
    truth: Array
    y: NDArray[np.intp]


def one_factor(Z: Array, rng: np.random.Generator) -> Array:  # noqa: ARG001
    """Return logits twice too large."""
    return 2 * Z


def each_class(Z: Array, rng: np.random.Generator) -> Array:
    """Return logits with a factor, 2 in the middle, and an offset for each class."""
    n_classes = Z.shape[1]
    return Z * np.exp(rng.normal(np.log(2), 0.3, n_classes)) + rng.normal(0, 1, n_classes)


def by_confidence(Z: Array, rng: np.random.Generator) -> Array:  # noqa: ARG001
    """Return logits 1.5 times too small in rows in doubt and up to 3 times too large in others."""
    return Z * (0.5 + 2.5 * softmax(Z, axis=1).max(axis=1, keepdims=True) ** 4)


WRONG = (one_factor, each_class, by_confidence)


def draw(n: int, n_classes: int, rng: np.random.Generator) -> Sample:
    """Draw rows of equally likely classes, each a normal cloud, with their exact logits."""
    y = rng.integers(n_classes, size=n)
    apart = APART[n_classes]
    Z = apart * (rng.normal(size=(n, n_classes)) + apart * np.eye(n_classes)[y])
    if n_classes == 2:
        Z -= Z[:, :1].copy()  # as of a binary classifier: one number says all
    return Sample(Z, softmax(Z, axis=1), y)


def distance(calibrator: Any, Z: Array, y: NDArray[np.intp], new_Z: Array, truth: Array) -> float:
    """Fit a calibrator; return the mean squared distance of new probabilities from the truth."""
    calibrator.set_params(classes=np.arange(Z.shape[1])).fit(Z, y)
    return float(((calibrator.predict_proba(new_Z) - truth) ** 2).sum(axis=1).mean())


def measure(n: int, n_classes: int) -> dict[str, list[float]]:
    """Return, for each calibrator, its mean distance for each kind of miscalibration."""
    results: dict[str, list[float]] = {}
    for wrong in WRONG:
        runs: dict[str, list[float]] = {}
        for seed in range(SEEDS[n]):
            rng = np.random.default_rng([seed, n, n_classes])
            old, new = draw(n, n_classes, rng), draw(NEW_ROWS, n_classes, rng)
            Z = wrong(np.concatenate([old.Z, new.Z]), rng)
            for name, calibrator in (calibrators_by_name() | SETTINGS).items():
                one = distance(calibrator, Z[:n], old.y, Z[n:], new.truth)
                runs.setdefault(name, []).append(one)
        for name, found in runs.items():
            results.setdefault(name, []).append(float(np.mean(found)))
    return results


def table_left(cells: dict[int, dict[str, list[float]]]) -> list[str]:
    """Return the table of what is left of three miscalibrations, a column for each n."""
    rows = []
    for name in next(iter(cells.values())):
        row = [name]
        for found in cells.values():
            pairs = zip(found[name], found["identity"], strict=True)
            row.append(" / ".join(f"{100 * a / b:.0f}" for a, b in pairs))
        rows.append(row)
    return markdown(["", *(f"n = {n:,}" for n in cells)], rows, left=1)


def main() -> None:
    """Measure all, and fill the page."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # few rows: some fits stop early, and say so
        for n_classes in APART:
            left = table_left({n: measure(n, n_classes) for n in ROWS})
            print(f"\nK = {n_classes}\n", *left, sep="\n", flush=True)
            fill(PAGE, f"left, K = {n_classes}", left)


if __name__ == "__main__":
    main()
