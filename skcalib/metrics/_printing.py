"""Numbers of results as text, and tables as text and as HTML."""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import ROUND_UP, Context
from functools import partialmethod, update_wrapper
from html import escape
from typing import Any, TypeVar

import numpy as np

# The smallest p-value that a float represents with all its digits.
SMALLEST = 1e-300
# Entries shown at each end of an array that has more than twice as many.
SHOWN = 3

Kind = TypeVar("Kind", bound=type)


def shown(value: Any, smallest: float = np.nan) -> str:
    """Return "=0.0123", or "<0.02" for a value at its lower limit `smallest`."""
    numbers = [_number(x, smallest) for x in np.ravel(value).tolist()]
    if np.ndim(value) == 0:
        return numbers[0] if numbers[0].startswith("<") else f"={numbers[0]}"
    if len(numbers) > 2 * SHOWN:
        numbers[SHOWN:-SHOWN] = ["..."]
    return f"=[{', '.join(numbers)}]"


def interval_text(low: float, high: float) -> str:
    """Return " (0.6 to 0.8)", or nothing for an interval that does not exist."""
    return "" if np.isnan(low) else f" ({low:.4g} to {high:.4g})"


def describe(result: Any, *parts: str, smallest: float = SMALLEST, more: str = "") -> str:
    """Return the numbers of a result as text, with what `noted` adds.

    A part is the name of a number, perhaps with those of the ends of its interval, which arrays
    are printed without. A p-value at `smallest` is written as an inequality.
    """
    texts = []
    for part in parts:
        value, *ends = (getattr(result, name) for name in part.split())
        least = smallest if part in ("pvalue", "p_value") else np.nan
        interval = interval_text(*ends) if ends and np.ndim(value) == 0 else ""
        texts.append(f"{part.split()[0]}{shown(value, least)}{interval}")
    return f"{type(result).__name__}({', '.join(texts)}{more}{getattr(result, '_note', '')})"


def printed(*parts: str, smallest: float = SMALLEST) -> Callable[[Kind], Kind]:
    """Let `describe` print parts of a named tuple, if there are any, with what `noted` adds."""
    text = {"__repr__": partialmethod(describe, *parts, smallest=smallest)} if parts else {}

    def subclass(kind: Kind) -> Kind:
        wider = type(kind)(kind.__name__, (kind,), text)
        update_wrapper(wider, kind, updated=())
        return wider

    return subclass


def noted(result: Any, n_clusters: int | None, level: float | None = None) -> Any:
    """Add the level and the number of clusters to a result, as `describe` shows them."""
    if n_clusters is not None:
        percent = "" if level is None else f", {100 * level:g} %"
        result._note = f"{percent}, {n_clusters} clusters"
    return result


def p_text(p: float, smallest: float) -> str:
    """Write a p-value, and one at its smallest possible value as an inequality: "< 0.0034"."""
    return shown(p, smallest).removeprefix("=").replace("<", "< ")


def _number(x: float, smallest: float) -> str:
    if not x <= smallest:  # NaN too
        return str(x) if isinstance(x, int) else f"{x:.4g}"
    bound = Context(prec=2, rounding=ROUND_UP).create_decimal(repr(smallest))
    return f"<{float(bound):g}"


# Characters of a line of a table that is printed.
LINE = 100
# Letters of a number with its interval, at most: a longer cell is a text, which may be broken.
NUMBER = 30
# Spaces of a cell but those before brackets.
WITHIN = re.compile(r" (?![\[(])")


def format_table(rows: list[list[str]], most: int | None = None) -> str:
    """Write cells under one another; a line break in a cell of the header makes it two lines.

    Of lines longer than `most` characters the last columns are written below, as a table with the
    first column again.
    """
    heads = [cell.split("\n") for cell in rows[0]]
    height = max(map(len, heads))
    above = [[""] * (height - len(parts)) + parts for parts in heads]
    rows = [*map(list, zip(*above, strict=True)), *rows[1:]]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    ends = np.cumsum(np.array(widths) + 2) - 2
    if most is not None and ends[-1] > most:
        # At least one column beside the first.
        fit = max(2, int(np.searchsorted(ends, most, side="right")))
        if fit < len(widths):
            parts = [row[:fit] for row in rows], [[row[0], *row[fit:]] for row in rows]
            return f"{format_table(parts[0])}\n\n{format_table(parts[1], most)}"
    lines = []
    for first, *others in rows:
        cells = [f"{cell:>{width}}" for cell, width in zip(others, widths[1:], strict=True)]
        lines.append("  ".join([f"{first:<{widths[0]}}", *cells]).rstrip())
    return "\n".join(lines)


def as_html(rows: list[list[str]], chosen: str | None = None, head: bool = True) -> str:
    """Write cells as a table of HTML; the row of the chosen calibrator is marked."""
    lines = []
    columns = zip(*rows, strict=True)
    numbers = [head and all(len(cell.strip()) <= NUMBER for cell in column) for column in columns]
    numbers[0] = head
    for i, row in enumerate(rows):
        tag, cells = "th" if head and i == 0 else "td", ""
        for cell, is_number in zip(row, numbers, strict=True):
            text, kind = cell.strip().replace("\n", " "), "" if is_number else ' class="text"'
            if is_number and tag == "td":
                # A number and its deviation, or the two ends of an interval, stay on one line.
                text = WITHIN.sub("\u00a0", text)
            cells += f"<{tag}{kind}>{escape(text)}</{tag}>"
        marked = ' class="chosen"' if i and row[0] == chosen else ""
        lines.append(f"<tr{marked}>{cells}</tr>")
    return f'<div class="wide"><table>{"".join(lines)}</table></div>'
