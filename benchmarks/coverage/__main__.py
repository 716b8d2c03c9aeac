"""Do 95 % intervals contain the truth? By simulation, with labels from known probabilities.

``python -m benchmarks.coverage`` counts how many intervals of calibration errors and of gains
contain the limit of the error as the number of rows grows, which has no label noise. Sums over the
repetitions are in ``repetitions.csv``: a run that is stopped goes on, and one with more repetitions
adds to them. Remove the file when the method changes. ``--cells "jagged/300/*"`` runs a part: names
are truth/rows/classes. ``python -m benchmarks.coverage bands distances statistics`` simulates bands
of calibration curves, integrated calibration indices, and slopes, O:E and AUC. ``--clusters`` does
so for rows in clusters: errors, gains, slopes, O:E and log losses. ``"few clusters" weights "new
hospital"`` simulates means of few clusters and with relative weights, and prediction intervals.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks._shared.report import fill, markdown
from benchmarks.coverage import clustered, event, means
from benchmarks.coverage.cells import Result, cells, run
from benchmarks.coverage.sources import ERRORS, PAIRS, TRUTHS

Array = NDArray[np.float64]

HERE = Path(__file__).parent
# A cell with a lower share is named in the page; the true share of some is larger.
ENOUGH = 0.93
# Widths are divided by that of a normal interval of the error as it is measured, except for an
# error that is often exactly 0.
NORMAL_WIDTH = 3.92
OFTEN_ZERO = "debiased l2"
REPETITIONS = 200
# Gains of more classes are not simulated.
MOST_CLASSES_OF_GAINS = 10
SUMMARY = (
    "mean coverage",
    "lowest cell",
    f"cells below {ENOUGH:g}",
    "width / (3.92 sd as measured)",
    "root mean square error, as measured to without bias, 1e-4",
)


def summary(name: str, j: int, results: Sequence[Result]) -> list[str]:
    """Return the cells of the first table of an error."""
    shares = np.array([result.mean("contained")[j] for result in results])
    normal = np.array([NORMAL_WIDTH * result.spread()[j] for result in results])
    width = np.array([result.mean("width")[j] for result in results])
    plain, debiased = (
        1e4 * np.mean([result.mean(column)[j] for result in results]) ** 0.5
        for column in ("squared_error", "squared_error_debiased")
    )
    ratio = (width / np.maximum(normal, 1e-12)).mean()
    return [
        f"{shares.mean():.3f}",
        f"{shares.min():.2f}",
        f"{(shares < ENOUGH).sum()} of {shares.size}",
        "-" if name == OFTEN_ZERO else f"{ratio:.2f}",
        f"{plain:.0f} to {debiased:.0f}",
    ]


def tables(results: Sequence[Result]) -> list[str]:
    """Return the lines of both tables, and the cells with a low share."""
    shares = np.array([result.mean("contained") for result in results])
    repetitions = sorted({result.repetitions for result in results})
    number = " to ".join(map(str, dict.fromkeys((repetitions[0], repetitions[-1]))))
    lines = [
        "Share of 95 % intervals that contain the error's limit as rows grow.",
        f"{len(results)} cells, each of a truth, a number of rows and one of classes; "
        f"{number} repetitions of each.",
        "",
    ]
    columns = [SUMMARY, *(summary(name, j, results) for j, name in enumerate(ERRORS))]
    lines += [*markdown(["", *ERRORS], zip(*columns, strict=True), left=1), ""]
    rows = []
    sizes = [(result.cell.n, result.cell.K) for result in results]
    for n, K in sorted(set(sizes)):
        part = shares[[size == (n, K) for size in sizes]]
        pairs = zip(part.mean(axis=0), part.min(axis=0), strict=True)
        rows.append([f"n = {n:,}, K = {K}", *(f"{mean:.3f}, {least:.2f}" for mean, least in pairs)])
    lines += markdown(["mean, lowest coverage", *ERRORS], rows, left=1)
    lines += ["", f"Cells below {ENOUGH:g}, truth/rows/classes:", ""]
    for name, column in zip(ERRORS, shares.T, strict=True):
        low = [i for i in column.argsort(kind="stable") if column[i] < ENOUGH]
        words = [f"{results[i].cell.name} {column[i]:.2f}" for i in low]
        lines.append(f"* {name}: {', '.join(words) or 'none'}.")
    return lines


def main(arguments: Sequence[str] | None = None) -> None:
    """Run what the folder lacks, and write the tables."""
    parser = argparse.ArgumentParser(prog="benchmarks.coverage", description=__doc__)
    kinds = ["errors", "gains", *event.SIMULATIONS, *clustered.KINDS, *means.KINDS]
    parser.add_argument("kinds", nargs="*", default=kinds[:2], help=", ".join(kinds))
    parser.add_argument(
        "--clusters", action="store_true", help="rows in clusters, in place of kinds"
    )
    parser.add_argument("--repetitions", type=int, help="those of the page if not given")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--n", type=int, nargs="+", help="rows")
    parser.add_argument("--classes", type=int, nargs="+", default=[2, 3, 10, 100])
    parser.add_argument("--cells", nargs="+", default=["*"], help="patterns of truth/rows/classes")
    parser.add_argument("--out", type=Path, default=HERE / "repetitions.csv", help="the sums")
    parser.add_argument("--page", type=Path, default=HERE / "table.md", help="the page to write")
    options = parser.parse_args(arguments)
    for kind in clustered.KINDS if options.clusters else options.kinds:
        if kind in clustered.KINDS:
            lines = clustered.table(kind, options.repetitions, options.jobs)
        elif kind in means.KINDS:
            lines = means.table(kind, options.repetitions, options.jobs)
        elif kind in event.SIMULATIONS:
            sizes = options.n or event.SIZES
            lines = event.table(kind, sizes, options.repetitions, options.jobs)
        else:
            sources, most = (TRUTHS, 10**9) if kind == "errors" else (PAIRS, MOST_CLASSES_OF_GAINS)
            classes = [K for K in options.classes if most >= K]
            chosen = cells(list(sources), options.n or [300, 1_000, 10_000], classes, options.cells)
            number = REPETITIONS if options.repetitions is None else options.repetitions
            results = run(chosen, number, options.out, options.jobs)
            lines = tables(results) if results else []
        fill(options.page, kind, lines)
        print(*lines, sep="\n")


if __name__ == "__main__":
    main()
