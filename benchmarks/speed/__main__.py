"""Time skcalib beside its peers and beside what NumPy needs to touch the data once.

``python -m benchmarks.speed`` prints a table for each size; [the page](README.md) says how it is
measured. ``--out benchmarks/speed`` stores the tables.
``--against REV`` times an earlier revision beside this tree instead.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._shared.peers import version
from benchmarks._shared.report import absent, fill, machine, markdown, number, spread, write_csv
from benchmarks.speed import against
from benchmarks.speed.data import Data, make_data
from benchmarks.speed.jobs import JOBS, Job, size, sizes_of, wanted
from benchmarks.speed.peers import PEERS, Peer
from benchmarks.speed.timing import OURS, Cell, Patience, measure, times, verdict

Row = dict[str, Any]

COLUMNS = ("job", "step", "n", "classes", "dtype", "library", "against", "seconds", "ratio_low",
           "ratio", "ratio_high", "rounds", "answer", "ours", "theirs", "note")  # fmt: skip


def rows_of(
    name: str, data: Data, peers: tuple[Peer, ...], cell: Cell, patience: Patience
) -> list[Row]:
    """Return a row for skcalib and for each peer, for each step."""
    job, rows = JOBS[name], []
    ours = cell.entries[OURS]
    for step, floor in enumerate(job.floors):
        base = dict.fromkeys(COLUMNS, "") | {"job": name, "step": job.step_names[step], "rounds": 0}
        base |= {"n": len(data.P), "classes": data.P.shape[1], "dtype": str(data.P.dtype)}
        row = base | {"library": OURS, "against": floor, "note": ours.failure}
        rows.append(row)
        if ours.failure:
            continue
        mine = ours.of_step(step)
        row |= times(mine, cell.floors[step]) | {"ours": f"{np.mean(ours.answer):.8g}"}
        for peer in peers:
            entry = cell.entries[peer.library]
            row = base | {"library": peer.library, "against": OURS, "note": entry.failure}
            rows.append(row)
            if entry.failure:
                if step == 0 and entry.failure.startswith("given up after"):
                    row["note"] += f", {number(patience.limit / np.median(ours.totals()))} x"
                continue
            answer = verdict(job, peer, ours.answer, entry.answer)
            row |= times(entry.of_step(step), mine) | {
                "answer": answer,
                "ours": f"{np.mean(ours.answer):.8g}",
                "theirs": f"{np.mean(entry.answer):.8g}",
                "note": "" if answer == "same" and peer.tolerance < 1e-5 else peer.note,
            }
    return rows


def peer_words(row: Row) -> str:
    """Say how many times as long a peer takes; in brackets where it does not count."""
    if row["ratio"] == "":
        return f"[{row['library']}: {row['note']}]"
    words = f"{row['library']} {spread(row['ratio_low'], row['ratio'], row['ratio_high'])}"
    words += " once" if row["rounds"] == 1 else ""
    return words if row["answer"] in ("same", "lower") else f"[{words}]"


def report(rows: list[Row]) -> list[str]:
    """Return the Markdown of all rows: a table for each size, and the answers that differ."""
    lines: list[str] = []
    header = ["job", "step", "skcalib, ms", "time / floor", "floor", "peer time / skcalib time"]
    for (n, K, dtype), here in groupby(rows, itemgetter("n", "classes", "dtype")):
        body = []
        for (job, step), (mine, *peers) in groupby(here, itemgetter("job", "step")):
            cells = [mine["note"], "", "", ""]
            if not mine["note"]:
                ratio = spread(mine["ratio_low"], mine["ratio"], mine["ratio_high"])
                cells = [number(1e3 * mine["seconds"]), ratio, f"`{mine['against']}`"]
                cells.append("; ".join(map(peer_words, peers)))
            body.append([JOBS[job].title, step, *cells])
        lines += [f"### N = {n:,}, K = {K:,}, {dtype}", "", *markdown(header, body), ""]
    return lines + answers(rows)


def answers(rows: list[Row]) -> list[str]:
    """Return the Markdown of the answers that are not the same."""
    body = [
        [JOBS[row["job"]].title, row["library"], f"{row['n']:,} x {row['classes']:,}"]
        + [row[key] for key in ("answer", "ours", "theirs", "note")]
        for row in rows
        # The answer belongs to both steps together: one line for each job and peer.
        if row["step"] != "fit" and row["answer"] and (row["answer"] != "same" or row["note"])
    ]
    if not body:
        return []
    header = ["job", "peer", "size", "result", "skcalib", "peer", "why"]
    return ["### Results that differ by more than rounding", "", *markdown(header, body)]


def main(arguments: Sequence[str] | None = None) -> list[Row]:
    """Measure, print and store; return the rows."""
    parser = argparse.ArgumentParser(prog="benchmarks.speed", description=__doc__)
    parser.add_argument("--sizes", type=size, nargs="+", help="as 5000x10 10000x100; each job's")
    parser.add_argument("--jobs", choices=JOBS, nargs="+", help="all")
    parser.add_argument("--repeats", type=int, default=7, help="rounds of a cell")
    parser.add_argument("--budget", type=float, default=2, help="seconds: slower runs once")
    parser.add_argument("--limit", type=float, default=15, help="seconds: slower is given up")
    parser.add_argument("--dtype", choices=("float64", "float32"), default="float64")
    parser.add_argument("--out", type=Path, help="folder of README.md and results/")
    parser.add_argument(
        "--against", metavar="REV", help="time a revision, or a folder with one, too"
    )
    options = parser.parse_args(arguments)
    patience = Patience(options.repeats, options.budget, options.limit)
    if options.against:
        return against.main(
            options.against, options.jobs or against.TIMED, options.sizes, options.dtype, patience
        )
    jobs = options.jobs or list(JOBS)
    head = machine()
    print(*head, absent(), sep="\n")
    rows: list[Row] = []
    hopeless: set[Job | Peer] = set()
    for n, K in options.sizes or sizes_of(jobs):
        data = make_data(n, K, options.dtype)
        for name in jobs:
            if wanted(name, (n, K), chosen=bool(options.sizes)):
                peers = tuple(p for p in PEERS.get(name, ()) if version(p.library) is not None)
                cell = measure(JOBS[name], peers, data, patience, hopeless)
                rows += rows_of(name, data, peers, cell, patience)
                print(f"{n}x{K} {name}", flush=True)
    lines = report(rows)
    print("", *lines, sep="\n")
    if options.out:
        write_csv(options.out / "results" / f"speed_{options.dtype}.csv", rows)
        fill(options.out / "README.md", options.dtype, ["\n".join(head), "", *lines])
    return rows


if __name__ == "__main__":
    main()
