"""Statistics with their intervals: one line for ``print``, a table for notebooks."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import NamedTuple

import numpy as np

from skcalib.metrics._one_line import shown

# The smallest p-value that a float represents with all its digits.
SMALLEST = 1e-300


class Statistic(NamedTuple):
    """A number, the ends of its interval where it has one, and what it cannot be below."""

    name: str
    value: float
    low: float = np.nan
    high: float = np.nan
    smallest: float = -np.inf

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
    lines = [
        f"<tr>{''.join(f'<{tag}>{escape(cell)}</{tag}>' for cell in row)}</tr>"
        for tag, row in zip(["th"] + ["td"] * len(statistics), rows, strict=True)
    ]
    return f"<table><caption>{escape(title)}</caption>{''.join(lines)}</table>"
