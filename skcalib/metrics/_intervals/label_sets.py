"""Truths, and sets of labels drawn from them; what several errors need of either is found once."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from skcalib._arrays.types import FloatArray, Intp

T = TypeVar("T")

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


class RowGroups(NamedTuple):
    """The group of each row ``(n,)``, the number of groups, and the most entries of tables."""

    of_row: Intp
    number: int
    most: int = ENTRIES


class Found:
    """Results by what they are of: several errors look at the same rows."""

    def __init__(self) -> None:
        self._found: dict[Hashable, Any] = {}

    def once(self, of: Hashable, compute: Callable[[], T]) -> T:
        """Return ``compute()``, or what it returned before."""
        if of not in self._found:
            self._found[of] = compute()
        found: T = self._found[of]
        return found


class Truth(Found):
    """Probabilities ``(n, K)`` from which labels are drawn."""

    def __init__(self, q: FloatArray) -> None:
        super().__init__()
        self.q = q


class LabelSets(Found):
    """Sets of labels ``(R, n)``, as codes of classes."""

    def __init__(self, codes: NDArray[np.integer]) -> None:
        super().__init__()
        self.codes = codes


class Draw:
    """A truth and sets of labels of the rows that are drawn: all, or a part."""

    def __init__(self, q: FloatArray, every: int) -> None:
        self.truth = Truth(q)
        self.part = self.truth if every == 1 else Truth(q[::every])
        # Sums over all rows deviate this many times as much as sums over the part.
        self.factor = float(np.sqrt(len(q) / len(self.part.q)))
