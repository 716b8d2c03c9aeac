"""Sums over the repetitions of each cell, in a table to which later runs add."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from benchmarks.coverage.sources import ERRORS

Array = NDArray[np.float64]

# Intervals that contain the limit; value as measured and its square; width; squared errors of the
# value and of the estimate without bias.
SUMS = ("contained", "value", "value_squared", "width", "squared_error", "squared_error_debiased")
CELL = ["truth", "n", "K"]
ROUNDING = 1e-9


class Cell(NamedTuple):
    """A truth of one model, or, for a gain, of a pair; rows; classes."""

    truth: str
    n: int
    K: int

    @property
    def name(self) -> str:
        """Name, as `--cells` takes it."""
        return f"{self.truth}/{self.n}/{self.K}"


class Result(NamedTuple):
    """A cell, the number of its repetitions, limits ``(m,)`` and sums ``(m, 6)``, as `SUMS`."""

    cell: Cell
    repetitions: int
    true: Array
    sums: Array

    def mean(self, name: str) -> Array:
        """Return the mean ``(m,)`` of what is summed."""
        return np.asarray(self.sums[:, SUMS.index(name)] / self.repetitions)

    def spread(self) -> Array:
        """Return the standard deviation ``(m,)`` of the values as measured."""
        variance = self.mean("value_squared") - self.mean("value") ** 2
        return np.asarray((variance * self.repetitions / (self.repetitions - 1)) ** 0.5)


def sums_of(found: Array, true: Array) -> Array:
    """Return the sums ``(m, 6)`` of repetitions ``(R, m, 4)``.

    Their numbers are the value as measured, the estimate without bias, and the interval's ends.
    """
    value, debiased, low, high = np.moveaxis(found, 2, 0)
    contained = (low <= true + ROUNDING) & (true <= high + ROUNDING)
    each = contained, value, value**2, high - low, (value - true) ** 2, (debiased - true) ** 2
    return np.array([part.sum(axis=0) for part in each], dtype=float).T


def read(path: Path) -> dict[Cell, Result]:
    """Return all cells of a table."""
    if not path.exists():
        return {}
    made = {}
    for (truth, n, K), rows in pd.read_csv(path).groupby(CELL, sort=False):
        cell = Cell(truth, int(n), int(K))
        assert list(rows.error) == list(ERRORS), f"other errors in {path}: remove it"
        repetitions = int(rows.repetitions.iloc[0])
        made[cell] = Result(cell, repetitions, rows.limit.to_numpy(), rows[[*SUMS]].to_numpy())
    return made


def write(path: Path, results: dict[Cell, Result]) -> None:
    """Write all cells, whole or not at all."""
    parts = []
    for cell in sorted(results):
        _, repetitions, true, sums = results[cell]
        frame = pd.DataFrame(sums, columns=SUMS)
        head = {**cell._asdict(), "error": list(ERRORS), "repetitions": repetitions, "limit": true}
        for place, (name, column) in enumerate(head.items()):
            frame.insert(place, name, column)
        parts.append(frame.astype({"contained": int}))
    partial = path.with_suffix(".partial.csv")
    pd.concat(parts).to_csv(partial, index=False, float_format="%.9g", lineterminator="\n")
    partial.replace(path)
