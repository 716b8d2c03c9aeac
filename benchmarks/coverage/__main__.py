"""Do the intervals of calibration errors and of gains hold the truth? By simulation.

``python -m benchmarks.coverage`` draws labels from known probabilities, computes 95 % intervals and
counts how many hold the limit of the error as the number of rows grows, which has no label noise.
Sums over the repetitions are kept in ``repetitions.csv``: a run that is stopped goes on, and one
with more repetitions adds to them. Remove the file when the method changes.
``--cells "jagged/300/*"`` runs a part: names are truth/rows/classes. ``--repetitions 0`` makes the
tables of what is there.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from benchmarks._shared.report import counts, fill
from benchmarks.coverage.cells import cells, run
from benchmarks.coverage.kept import SUMS, Result
from benchmarks.coverage.sources import ERRORS, PAIRS, TRUTHS

Array = NDArray[np.float64]

HERE = Path(__file__).parent
# A cell with a lower share is named in the page; the true share of some is larger. Those that would
# be rarer than this, if the true share were just enough, are counted.
ENOUGH, RARE = 0.93, 0.01
# Widths are divided by that of a normal interval of the error as it is measured, except for an
# error that is often exactly 0.
NORMAL_WIDTH = 3.92
OFTEN_ZERO = "debiased l2"
# Gains of more classes are not simulated.
MOST_CLASSES_OF_GAINS = 10


class Column:
    """All cells of one error."""

    def __init__(self, name: str, results: Sequence[Result]) -> None:
        j = list(ERRORS).index(name)
        self.name = name
        self.results = results
        self.held = np.array([result.mean("contained")[j] for result in results])
        hits = [result.sums[j, SUMS.index("contained")] for result in results]
        number = [result.repetitions for result in results]
        self.surely_low = binom.cdf(hits, number, ENOUGH) < RARE
        normal = np.array([NORMAL_WIDTH * result.spread()[j] for result in results])
        width = np.array([result.mean("width")[j] for result in results])
        self.width = width / np.maximum(normal, 1e-12)
        both = "squared_error", "squared_error_debiased"
        self.squares = np.array([[result.mean(name)[j] for name in both] for result in results])

    def summary(self) -> list[str]:
        """Return the cells of the first table."""
        low, (plain, debiased) = self.held < ENOUGH, 1e4 * self.squares.mean(axis=0) ** 0.5
        return [
            f"{self.held.mean():.3f}",
            f"{self.held.min():.2f}",
            f"{low.sum()} of {low.size}",
            f"{self.surely_low.sum()}",
            "-" if self.name == OFTEN_ZERO else f"{self.width.mean():.2f}",
            f"{plain:.0f} to {debiased:.0f}",
        ]

    def at(self, n: int, K: int) -> str:
        """Return mean and lowest coverage of the cells of n rows and K classes."""
        kept = [(r.cell.n, r.cell.K) == (n, K) for r in self.results]
        part = self.held[kept]
        return f"{part.mean():.3f}, {part.min():.2f}" if part.size else ""


SUMMARY = (
    "mean coverage",
    "lowest cell",
    f"cells below {ENOUGH:g}",
    f"of these not by chance (p < {RARE:g})",
    "width / (3.92 sd as measured)",
    "root mean square error, as measured to without bias, 1e-4",
)


def tables(results: Sequence[Result]) -> list[str]:
    """Return the lines of both tables, and the cells that hold too little."""
    names = list(ERRORS)
    columns = [Column(name, results) for name in names]
    numbers = sorted({result.repetitions for result in results})
    repetitions = " to ".join(map(str, dict.fromkeys((numbers[0], numbers[-1]))))
    rule = "|---|" + "--:|" * len(names)
    lines = [
        "Share of 95 % intervals that contain the error's limit as rows grow.",
        f"{len(results)} cells, each of a truth, a number of rows and one of classes; "
        f"{repetitions} repetitions of each.",
        "",
    ]
    lines += [f"| | {' | '.join(names)} |", rule]
    for head, row in zip(SUMMARY, zip(*(c.summary() for c in columns), strict=True), strict=True):
        lines.append(f"| {head} | {' | '.join(row)} |")
    lines += ["", f"| mean, lowest coverage | {' | '.join(names)} |", rule]
    for n, K in sorted({(result.cell.n, result.cell.K) for result in results}):
        cells_at = " | ".join(column.at(n, K) for column in columns)
        lines.append(f"| n = {n:,}, K = {K} | {cells_at} |")
    lines += ["", f"Cells below {ENOUGH:g}, truth/rows/classes:", ""]
    for column in columns:
        low = np.flatnonzero(column.held < ENOUGH)
        order = low[column.held[low].argsort()]
        found = [f"{column.results[i].cell.name} {column.held[i]:.2f}" for i in order]
        lines.append(f"* {column.name}: {', '.join(found) or 'none'}.")
    return lines


def main(arguments: Sequence[str] | None = None) -> None:
    """Run what the folder lacks, and write the tables."""
    parser = argparse.ArgumentParser(prog="benchmarks.coverage", description=__doc__)
    parser.add_argument("--repetitions", type=int, default=200)
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--n", type=counts, default=[300, 1_000, 10_000], help="rows")
    parser.add_argument("--classes", type=counts, default=[2, 3, 10, 100])
    parser.add_argument("--cells", nargs="+", default=["*"], help="patterns of truth/rows/classes")
    parser.add_argument("--out", type=Path, default=HERE / "repetitions.csv", help="the sums")
    parser.add_argument("--page", type=Path, default=HERE / "table.md", help="the page to write")
    options = parser.parse_args(arguments)
    few = [K for K in options.classes if K <= MOST_CLASSES_OF_GAINS]
    for title, truths, classes in (("one error", TRUTHS, options.classes), ("a gain", PAIRS, few)):
        chosen = cells(list(truths), options.n, classes, options.cells)
        results = run(chosen, options.repetitions, options.out, options.jobs)
        if results:
            lines = tables(results)
            fill(options.page, f"intervals of {title}", lines)
            print(*lines, sep="\n")


if __name__ == "__main__":
    main()
