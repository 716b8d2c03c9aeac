"""Parts of a page of HTML that needs nothing beside it: style, tables, pictures."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Ground of the page on dark screens, and when it is used.
BACK = "#181a1d"
DARK = "screen and (prefers-color-scheme: dark)"
STYLE = """
:root { color-scheme: light dark; --text: #222; --soft: #595959; --back: #fff; --line: #ddd;
        --mark: #eaf3fa; --accent: #0072B2; --gain: #00664b; --harm: #a63603; --code: #f4f4f4; }
@media screen and (prefers-color-scheme: dark) {
  :root { --text: #e4e4e4; --soft: #a9a9a9; --back: #181a1d; --line: #3c4046; --mark: #1d3141;
          --accent: #6cb8ec; --gain: #56d3a9; --harm: #ff9e66; --code: #24272b; }
}
* { box-sizing: border-box; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem;
       color: var(--text); background: var(--back); overflow-wrap: anywhere; }
h1 { font-size: 1.6rem; line-height: 1.25; }
h2 { font-size: 1.2rem; margin-top: 2.2rem; }
.first { font-size: 1.25rem; margin: .6rem 0; }
.verdict { border-left: 4px solid var(--accent); padding: .5rem 1rem; background: var(--mark); }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .85rem;
        overflow-wrap: normal; }
th, td { padding: .3rem .5rem; text-align: right; border-bottom: 1px solid var(--line); }
th { vertical-align: bottom; }
td { vertical-align: top; white-space: nowrap; }
th:first-child, td:first-child, .text td { text-align: left; }
.text td { white-space: normal; overflow-wrap: anywhere; }
.text td:first-child { white-space: nowrap; }
@media (max-width: 45rem) { td:first-child { white-space: normal; min-width: 6rem;
                                            max-width: 9rem; } }
tr.chosen { background: var(--mark); font-weight: 600; }
small { display: block; font-weight: 400; color: var(--soft); }
.gain { color: var(--gain); } .harm { color: var(--harm); }
.pictures { display: grid; gap: 1rem;
            grid-template-columns: repeat(auto-fit, minmax(min(100%, 26rem), 1fr)); }
.pictures img { width: 100%; max-width: 34rem; }
img { display: block; max-width: min(100%, 46rem); height: auto; }
dt { font-weight: 600; } dd { margin: 0 0 .4rem 0; }
pre { background: var(--code); padding: .7rem 1rem; white-space: pre-wrap; font-size: .85rem; }
.note { color: var(--soft); font-size: .9rem; }
@page { size: A4; margin: 14mm; }
@media print {
  body { font-size: 10pt; margin: 0; padding: 0; max-width: none; }
  h1, h2, .lead { break-after: avoid; }
  table, tr, img, pre, .verdict { break-inside: avoid; }
  dt { break-after: avoid; }
  .wide { overflow: visible; }
  table { font-size: 7.5pt; } th, td { padding: .15rem .3rem; }
  .pictures { grid-template-columns: 1fr 1fr; gap: 4mm; }
  .verdict, tr.chosen { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
}
"""


def page(title: str, body: Sequence[str]) -> str:
    """Return a whole page."""
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
        + "\n".join(body)
        + "\n</body>\n</html>\n"
    )


def table(head: Iterable[str], rows: Iterable[tuple[Iterable[str], bool]]) -> str:
    """Return a table of cells that are HTML; a row comes with whether it is marked."""
    heads = "".join(f'<th scope="col">{cell}</th>' for cell in head)
    lines = []
    for cells, marked in rows:
        row = "".join(f"<td>{cell}</td>" for cell in cells)
        lines.append(f'<tr class="chosen">{row}</tr>' if marked else f"<tr>{row}</tr>")
    body = "\n".join(lines)
    return (
        f'<div class="wide"><table><thead><tr>{heads}</tr></thead>\n'
        f"<tbody>\n{body}\n</tbody></table></div>"
    )


def pairs(rows: Iterable[tuple[str, str]]) -> str:
    """Return a table of names and texts."""
    lines = [f"<tr><td>{escape(name)}</td><td>{escape(text)}</td></tr>" for name, text in rows]
    return f'<div class="wide"><table class="text">{"".join(lines)}</table></div>'


def definitions(rows: Iterable[tuple[str, str]]) -> str:
    """Return names with what they mean."""
    lines = [f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in rows]
    return f"<dl>{''.join(lines)}</dl>"


def image(draw: Callable[[], Figure], text: str) -> str:
    """Return a figure as part of the page, with a text for those who do not see it.

    It is drawn twice: for light screens and paper, and for dark screens.
    """
    from matplotlib import style

    codes = []
    looks: tuple[list[Any], ...] = ["default"], ["dark_background", {"legend.facecolor": BACK}]
    for look in looks:
        buffer = io.BytesIO()
        with style.context(look):
            draw().savefig(buffer, format="svg", metadata={"Date": None}, transparent=True)
        codes.append(base64.b64encode(buffer.getvalue()).decode("ascii"))
    light, dark = (f"data:image/svg+xml;base64,{code}" for code in codes)
    return (
        f'<picture><source media="{DARK}" srcset="{dark}">'
        f'<img alt="{escape(text)}" src="{light}"></picture>'
    )
