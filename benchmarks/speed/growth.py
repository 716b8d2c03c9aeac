"""Time against N and against K, of skcalib, of the floor and of a peer, drawn on log scales."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._shared.peers import version
from benchmarks._shared.report import write_csv
from benchmarks._shared.timing import OutOfTimeError, quiet
from benchmarks.speed.data import FLOORS, make_data
from benchmarks.speed.jobs import JOBS
from benchmarks.speed.pairings import PEERS
from benchmarks.speed.timing import OURS, at_most, run

# Each job beside the quickest peer that solves the same problem.
DRAWN = {
    "ece": "netcal",
    "sce": "uncertainty-calibration",
    "isotonic": "scikit-learn",
    "temperature": "scikit-learn",
    "vector": "probmetrics",
}
ROWS = [(n, 10) for n in (1_000, 10_000, 100_000, 1_000_000)]
ENTRIES = 2_000_000
CLASSES = [(ENTRIES // n_classes, n_classes) for n_classes in (2, 10, 100, 1_000)]
REPEATS = 3
# A contestant that takes longer than this is not taken to the next size.
PATIENCE = 2.0
# Colours that stay apart for all kinds of colour vision (Okabe and Ito); marks say the same.
STYLES = {OURS: ("#0072B2", "o-"), "floor": ("#000000", "s:"), "peer": ("#D55E00", "^--")}

Row = dict[str, Any]


def first_step(steps: Any) -> float:
    """Return the least seconds of the first step of a few runs, less than that if it is slow."""
    found: list[float] = []
    while len(found) < REPEATS and sum(found) < PATIENCE:
        with quiet(), at_most(10 * PATIENCE):
            found += run(steps[:1])[0]
    return min(found)


def grow(against: str, sizes: list[tuple[int, int]]) -> list[Row]:
    """Return the seconds of each job and contestant at each size."""
    rows: list[Row] = []
    out_of_race: set[tuple[str, str]] = set()
    for size in sizes:
        data = make_data(*size)
        for name, library in DRAWN.items():
            job = JOBS[name]
            contestants = {OURS: job.steps, "floor": floor_of(name)}
            for peer in PEERS[name]:
                if peer.library == library and version(library) is not None:
                    contestants[library] = peer.steps
            for contestant, steps in contestants.items():
                if (name, contestant) in out_of_race:
                    continue
                try:
                    with quiet():
                        chain = steps(data)
                    seconds = first_step(chain)
                except OutOfTimeError:
                    seconds = np.inf
                except Exception:  # a peer that fails has no line
                    if contestant == OURS:
                        raise
                    seconds = np.inf
                if seconds > PATIENCE:
                    out_of_race.add((name, contestant))
                if np.isfinite(seconds):
                    rows.append(
                        {
                            "against": against,
                            "job": name,
                            "contestant": contestant,
                            "n": size[0],
                            "classes": size[1],
                            "seconds": seconds,
                        }
                    )
    return rows


def floor_of(name: str) -> Any:
    """Return the steps of a job's floor."""
    floor = FLOORS[JOBS[name].budgets[0].floor]
    return lambda data: (lambda: floor(data),)


def slopes(rows: list[Row]) -> list[str]:
    """Return how skcalib's time grows: the slope of log time in the size over the last decade."""
    lines = []
    for against in ("n", "classes"):
        for name in DRAWN:
            found = [
                (row[against], row["seconds"])
                for row in rows
                if (row["against"], row["job"], row["contestant"]) == (against, name, OURS)
            ]
            (x0, t0), (x1, t1) = found[-2:]
            slope = np.log(t1 / t0) / np.log(x1 / x0)
            lines.append(f"time of {JOBS[name].title} ~ {against}^{slope:.2f} at the end")
    return lines


def draw(rows: list[Row], path: Path) -> None:
    """Draw a panel for each job, the growth with N above that with K."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 5), layout="constrained")
    axes = figure.subplots(2, len(DRAWN), sharex="row", sharey="row")
    for i, against in enumerate(("n", "classes")):
        for ax, (name, library) in zip(axes[i], DRAWN.items(), strict=True):
            for contestant in (OURS, "floor", library):
                found = [
                    row
                    for row in rows
                    if (row["against"], row["job"], row["contestant"])
                    == (against, name, contestant)
                ]
                colour, style = STYLES.get(contestant, STYLES["peer"])
                ax.loglog(
                    [row[against] for row in found],
                    [row["seconds"] for row in found],
                    style,
                    color=colour,
                    markersize=4,
                    label=contestant,
                )
            if i == 0:
                floor = JOBS[name].budgets[0].floor
                fit = ".fit" if len(JOBS[name].budgets) == 2 else ""
                title = JOBS[name].title.split(",")[0]
                ax.set_title(f"{title}{fit}\nfloor: {floor}", fontsize=8)
                ax.legend(fontsize=7, frameon=False, loc="upper left")
            ax.set_xlabel("N, with K = 10" if i == 0 else f"K, with N x K = {ENTRIES:,}")
            ax.grid(alpha=0.3)
            ax.tick_params(labelsize=7)
        axes[i][0].set_ylabel("seconds")
    low, high = axes[0][0].get_ylim()
    axes[0][0].set_ylim(low, 100 * high)  # room for the legends
    path.parent.mkdir(parents=True, exist_ok=True)
    with mpl.rc_context({"svg.hashsalt": "skcalib"}):
        figure.savefig(path, dpi=110, metadata={"Software": None})


def main(out: Path | None) -> list[Row]:
    """Measure, print how time grows, and store the numbers and the plot."""
    rows = grow("n", ROWS) + grow("classes", CLASSES)
    print(*slopes(rows), sep="\n")
    if out is not None:
        write_csv(out / "results" / "growth.csv", rows)
        draw(rows, out / "results" / "growth.png")
    return rows
