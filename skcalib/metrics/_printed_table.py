"""Tables of cells as text and as HTML, for ``print``, notebooks and reports."""

from __future__ import annotations

import re
from html import escape

# Spaces of a cell but those before brackets.
WITHIN = re.compile(r" (?![\[(])")


def in_columns(rows: list[list[str]]) -> str:
    """Write cells under one another; a row that is too wide is for the eyes to scroll."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for first, *others in rows:
        cells = [f"{cell:>{width}}" for cell, width in zip(others, widths[1:], strict=True)]
        lines.append("  ".join([f"{first:<{widths[0]}}", *cells]).rstrip())
    return "\n".join(lines)


def as_html(rows: list[list[str]], chosen: str | None = None, head: bool = True) -> str:
    """Write cells as a table of HTML; the row of the chosen calibrator is marked."""
    lines = []
    for i, row in enumerate(rows):
        tag = "th" if head and i == 0 else "td"
        kind = "" if head else ' class="text"'
        # A number and its deviation, or the two ends of an interval, stay on one line.
        texts = row if tag == "th" or kind else [WITHIN.sub("\u00a0", cell) for cell in row]
        cells = "".join(f"<{tag}{kind}>{escape(text)}</{tag}>" for text in texts)
        marked = ' class="chosen"' if i and row[0] == chosen else ""
        lines.append(f"<tr{marked}>{cells}</tr>")
    return f'<div class="wide"><table>{"".join(lines)}</table></div>'
