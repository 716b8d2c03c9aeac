"""Rows of results as CSV and as Markdown tables between the markers of a page."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy

import skcalib
from benchmarks._shared.peers import LIBRARIES, version


def machine() -> list[str]:
    """Say what ran it: processor and versions, and nothing of whose it is."""
    cpu = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [line for line in info.read_text().splitlines() if line.startswith("model name")]
        cpu = names[0].split(":", 1)[1].strip() if names else cpu
    ours = [f"{module.__name__} {module.__version__}" for module in (skcalib, np, scipy)]
    peers = [f"{name} {version(name)}" for name in (*LIBRARIES, "torch") if version(name)]
    return [
        f"{cpu}, {os.cpu_count()} cores; Python {platform.python_version()}",
        ", ".join(ours + peers),
    ]


def absent() -> str:
    """Name the peers that are not installed."""
    names = [name for name in LIBRARIES if version(name) is None]
    return f"not installed, and left out: {', '.join(names)}" if names else ""


def number(value: float) -> str:
    """Three significant digits, never an exponent."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.2f}" if value < 10 else f"{value:.1f}"


def spread(low: float, middle: float, high: float) -> str:
    """Median, and the quartiles where there are any."""
    if low == high:
        return number(middle)
    return f"{number(middle)} ({number(low)}-{number(high)})"


def markdown(header: Sequence[Any], rows: Iterable[Sequence[Any]], left: int = 2) -> list[str]:
    """Return the lines of a table whose columns after the first ones are right-aligned."""
    rule = ["---"] * left + ["--:"] * (len(header) - left)
    return [f"| {' | '.join(map(str, row))} |" for row in [header, rule, *rows]]


def write_csv(path: Path, rows: list[dict[str, Any]]) -> None:
    """Write rows that have the same keys."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pd.DataFrame(rows).to_csv(path, index=False, lineterminator="\n")


def fill(page: Path, section: str, lines: list[str]) -> None:
    """Replace what stands between the markers of a section; without them, add it at the end."""
    start, end = f"<!-- {section} -->", f"<!-- end of {section} -->"
    text = page.read_text() if page.exists() else ""
    if start not in text:
        text = f"{text.rstrip()}\n\n{start}\n{end}\n".lstrip()
    before, rest = text.split(start, 1)
    after = rest.split(end, 1)[1]
    body = "\n".join(lines)
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(f"{before}{start}\n\n{body}\n\n{end}{after}")
