"""Dask arrays: what they cost, and what scores of terabytes would take.

``python -m benchmarks.scale`` measures passes, time beside NumPy, memory and bytes between workers
on threads and on a cluster of two processes, the overhead of a chunk, and computes from them what
larger data would take. It writes the tables of [the page](README.md).
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks._shared.peers import version
from benchmarks._shared.report import fill, machine, markdown, number
from benchmarks._shared.timing import quiet
from benchmarks.scale.jobs import COLUMNS, JOBS, Data, make_data
from benchmarks.scale.measure import MIB, WORKERS, Figures, beside, figures, growth, scheduler
from benchmarks.scale.paper import SCORES, Constant, Machines, cost, minutes

HERE = Path(__file__).parent
PLACES = ("threads", "processes")
SIZES = ["200000x20", "40000x200"]
GROWING = ("temperature", "SCE")
Found = dict[tuple[str, str, str], tuple[float, Figures]]


def sized(text: str) -> tuple[int, int]:
    """Read rows and columns from NxK."""
    n, K = text.split("x")
    return int(n), int(K)


def cost_table(found: Found) -> list[str]:
    """Return a row for each job, size and scheduler."""
    header = ["job", "scheduler", "n x K", "passes", "NumPy, ms", "Dask, ms", "Dask / NumPy"]
    rows = []
    for (name, place, size), (alone, figure) in found.items():
        seconds = [number(1e3 * each) for each in (alone, figure.seconds)]
        sent = "-" if place == "threads" else number(figure.sent / MIB)
        row = [name, place, size, f"{figure.passes:g}", *seconds, f"{figure.seconds / alone:.1f}"]
        rows.append([*row, number(figure.peak), sent])
    return markdown([*header, "peak, MiB", "sent, MiB"], rows)


def growth_table(
    grown: dict[tuple[str, str], list[float]], chunks: list[int], passes: dict[str, float]
) -> tuple[list[str], dict[tuple[str, str], float]]:
    """Return the lines, and the ms of a chunk in a pass."""
    found, rows = {}, []
    for (name, place), seconds in grown.items():
        added = (chunks[-1] - chunks[0]) * passes[name]
        found[name, place] = 1e3 * (seconds[-1] - seconds[0]) / added
        times = [number(1e3 * each) for each in seconds]
        rows.append([name, place, *times, f"{found[name, place]:.2f}"])
    heads = [f"{n} chunks, ms" for n in chunks]
    return markdown(["job", "scheduler", *heads, "ms for a chunk in a pass"], rows), found


def constants(found: Found, size: str) -> dict[str, Constant]:
    """Return what the arithmetic is made from, of the size with most columns."""
    n, K = sized(size)
    made = {}
    for name in JOBS:
        seconds = found[name, "threads", size][1].seconds
        passes = found[name, "processes", size][1].passes
        made[name] = Constant(passes, 1e9 * seconds * WORKERS / (n * K), n, name in COLUMNS)
    return made


def paper_table(made: dict[str, Constant], ms: float, machines: Machines) -> list[str]:
    """Return a row for each job and array: what each part takes, and all of it."""
    rows = []
    for scores in SCORES:
        size = f"{scores.size / 1e12:.2g} TB"
        for name, job in made.items():
            parts = cost(job, scores, ms, machines)
            times = [minutes(each) for each in (*parts, parts.total)]
            rows.append(
                [f"{scores.name} ({size})", name, f"{job.passes:g}", f"{job.ns:.0f}", *times]
            )
    header = ["scores", "job", "passes", "ns for an entry", "read", "compute", "tasks", "network"]
    return markdown([*header, "sum"], rows)


def assumptions(ms: float, machines: Machines) -> str:
    """Say what the arithmetic assumes."""
    return (
        f"{machines.count} machines of {machines.cores} cores and {machines.memory / 1e9:.0f} GB, "
        f"storage {machines.read / 1e9:g} GB/s and network {8 * machines.network / 1e9:g} Gb/s "
        f"each, chunks of {machines.chunk / 1e9:g} GB, {ms:.2f} ms for a chunk in a pass."
    )


def peer_lines(data: Data, size: str, n_chunks: int, repeats: int) -> list[str]:
    """Compare a metric of one pass with the metrics of dask-ml that read scores, if installed."""
    if version("dask-ml") is None:
        return ["dask-ml is not installed: its metrics are left out."]
    import dask.array as da
    from dask_ml.metrics import accuracy_score, log_loss

    lazy = data.lazy("probabilities", n_chunks)
    y = da.from_array(data.y, chunks=lazy.chunks[0])
    labels = list(range(lazy.shape[1]))
    theirs = {
        "log loss": lambda: log_loss(y, lazy.astype(float), labels=labels),
        "accuracy": lambda: accuracy_score(y, lazy.argmax(axis=1)),
    }
    lines = []
    for name, call in theirs.items():
        try:
            with quiet():
                call()
        except Exception as error:  # a peer may fail in any way
            reason = f"{type(error).__name__}: {error}".splitlines()[0][:120]
            lines.append(f"The {name} of dask-ml {version('dask-ml')} fails: {reason}")
            continue
        there, here = beside(call, lambda: JOBS["ECE"].run(lazy, data.y), repeats)
        lines.append(
            f"One pass over {size} in {n_chunks} chunks on threads: the {name} of dask-ml "
            f"{version('dask-ml')} takes {1e3 * there:.1f} ms, the ECE of skcalib {1e3 * here:.1f} "
            f"ms, {here / there:.2f} times as long."
        )
    return [f"* {line}" for line in lines]


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and write the tables."""
    parser = argparse.ArgumentParser(prog="benchmarks.scale", description=__doc__)
    parser.add_argument("--sizes", nargs="+", default=SIZES, metavar="NxK")
    parser.add_argument("--chunks", nargs="+", type=int, default=[8, 64, 512])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--page", type=Path, default=HERE / "README.md", help="the page to write")
    options = parser.parse_args(arguments)
    chunks, repeats = options.chunks, options.repeats
    found: Found = {}
    grown: dict[tuple[str, str], list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        data = {size: make_data(*sized(size), Path(folder)) for size in options.sizes}
        first, last = options.sizes[0], options.sizes[-1]
        for place in PLACES:
            with scheduler(place) as client:
                for size in options.sizes:
                    for name in JOBS:
                        found[name, place, size] = figures(
                            name, data[size], chunks[0], repeats, client
                        )
                for name in GROWING:
                    grown[name, place] = growth(name, data[first], chunks, repeats)
        with scheduler("threads"):
            peer = peer_lines(data[first], first, chunks[0], repeats)
    made = constants(found, last)
    passes = {name: found[name, "threads", first][1].passes for name in GROWING}
    growing, ms = growth_table(grown, chunks, passes)
    machines = Machines()
    slowest = max(ms[name, "processes"] for name in GROWING)
    ran = [*machine(), f"dask {version('dask')}, distributed {version('distributed')}"]
    fill(options.page, "machine", [f"* {line}" for line in ran])
    fill(options.page, "cost", cost_table(found))
    fill(options.page, "growth", [f"{first}:", "", *growing])
    fill(options.page, "peer", peer)
    lines = [assumptions(slowest, machines), "", *paper_table(made, slowest, machines)]
    fill(options.page, "arithmetic", lines)


if __name__ == "__main__":
    main()
