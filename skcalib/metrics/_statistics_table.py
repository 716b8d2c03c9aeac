"""Statistics with their intervals: one line for ``print``, a table for notebooks."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any, NamedTuple

import numpy as np

from skcalib.metrics._one_line import shown
from skcalib.metrics._printed_table import as_html

# The smallest p-value that a float represents with all its digits.
SMALLEST = 1e-300


class Statistic(NamedTuple):
    """A number, the ends of its interval where it has one, and what it cannot be below."""

    name: str
    value: Any
    low: float = np.nan
    high: float = np.nan
    smallest: float = np.nan

    @property
    def interval(self) -> str:
        """The interval as text, empty if there is none."""
        if np.isnan(self.low) and np.isnan(self.high):
            return ""
        return f"{self.low:.4g} to {self.high:.4g}"


def pvalue(name: str, value: float) -> Statistic:
    """Return a p-value, which is an inequality where it is too small for a float."""
    return Statistic(name, value, smallest=SMALLEST)


def in_one_line(title: str, statistics: Sequence[Statistic]) -> str:
    """Return "Title(slope=0.7 (0.6 to 0.8), pvalue=0.02)"."""
    parts = [
        f"{each.name}{shown(each.value, each.smallest)}"
        + (f" ({each.interval})" if each.interval else "")
        for each in statistics
    ]
    return f"{title}({', '.join(parts)})"


def as_table(title: str, statistics: Sequence[Statistic]) -> str:
    """Return a table of HTML, a row for each statistic."""
    rows = [("", "value", "interval")]
    rows += [
        (each.name, shown(each.value, each.smallest).removeprefix("="), each.interval)
        for each in statistics
    ]
    shown_columns = 3 if any(each.interval for each in statistics) else 2
    return f"<p>{escape(title)}</p>{as_html([list(row[:shown_columns]) for row in rows])}"
