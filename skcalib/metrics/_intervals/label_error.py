"""Errors as functions of the labels: of the data, of sets of drawn labels, and of a truth."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skcalib._arrays.types import Float64Array, FloatArray, Intp
from skcalib.metrics._intervals.truths import draw_codes

# Numbers of several sets of labels, or of their tables, that are computed at once.
AT_ONCE = 1 << 18
# Labels are drawn for no more rows than about this many, evenly spaced; deviations are scaled.
DRAWN_ROWS = 100_000
# The most entries of the tables that leave out one group of rows each: more cells are joined.
ENTRIES = 1 << 22


def every_of(n: int) -> int:
    """Return the step between the rows for which labels are drawn."""
    return max(1, n // DRAWN_ROWS)


def sets_at_once(size: int) -> int:
    """Return the number of sets to compute at once, given the size of one."""
    return max(1, AT_ONCE // size)


class Simulated(NamedTuple):
    """An error of m numbers at one truth: limits ``(m,)``, and values ``(R, m)`` of label sets."""

    limits: Float64Array
    values: Float64Array


class LabelError(ABC):
    """An error of m numbers, as a function of labels or of a truth; all else stays the same.

    Attributes
    ----------
    every : int
        Labels are drawn for the rows 0, every, 2 every and so on.
    has_excess : bool
        Whether the jackknife finds what few rows add to the error of a truth.
    """

    every: int
    has_excess = True

    @abstractmethod
    def observed(self, code: NDArray[np.integer]) -> Float64Array:
        """Return the error ``(m,)`` of labels ``(n,)`` of all rows."""

    @abstractmethod
    def limits(self, q: FloatArray) -> Float64Array:
        """Return the error ``(m,)`` of many rows with labels of a truth ``(n, K)``."""

    @abstractmethod
    def values(self, q: FloatArray, codes: NDArray[np.integer]) -> Float64Array:
        """Return the errors ``(R, m)`` of labels ``(R, n_s)`` of the rows that are drawn."""

    @abstractmethod
    def limits_without(self, q: FloatArray, group: Intp, most: int = ENTRIES) -> Float64Array:
        """Return the limits ``(groups, m)``, each without one group of rows.

        Cells are joined until the tables have at most `most` entries, or 64 cells a group.
        """

    def draw(self, q: FloatArray, n_sets: int, seed: np.random.SeedSequence) -> NDArray[Any]:
        """Draw sets of labels of a truth, as `values` takes them."""
        return draw_codes(q[:: self.every], n_sets, seed)

    def simulate(self, q: FloatArray, n_sets: int, seed: np.random.SeedSequence) -> Simulated:
        """Measure labels drawn from a truth, or hits where these are enough."""
        return Simulated(self.limits(q), self.values(q, self.draw(q, n_sets, seed)))
