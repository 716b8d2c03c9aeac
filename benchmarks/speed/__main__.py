"""Time skcalib beside its peers and beside what NumPy needs to touch the data once.

``python -m benchmarks.speed`` prints a table for each size; [the page](README.md) says how it is
measured. ``--out benchmarks/speed`` stores the tables.
``--against REV`` times an earlier revision beside this tree instead.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._shared.peers import version
from benchmarks._shared.report import absent, fill, machine, markdown, number, spread, write_csv
from benchmarks.speed import against
from benchmarks.speed.data import Data, make_data
from benchmarks.speed.jobs import JOBS, names, sizes, sizes_of, wanted
from benchmarks.speed.peers import PEERS, Peer
from benchmarks.speed.timing import OURS, Cell, Patience, measure, ratios, verdict

Row = dict[str, Any]


def rows_of(
    name: str, data: Data, peers: tuple[Peer, ...], cell: Cell, patience: Patience
) -> list[Row]:
    """Return a row for skcalib and for each peer, for each step."""
    job, rows = JOBS[name], []
    ours = cell.entries[OURS]
    for step, floor in enumerate(job.floors):
        base = {"job": name, "step": job.step_names[step], "n": len(data.P)}
        base |= {"classes": data.P.shape[1], "dtype": str(data.P.dtype)}
        if ours.failure:
            rows.append(row(base, OURS, floor) | {"note": ours.failure})
            continue
        mine = ours.of_step(step)
        of_step = [
            row(base, OURS, floor, mine, ratios(mine, cell.floors[step]))
            | {"ours": f"{np.mean(ours.answer):.8g}"}
        ]
        for peer in peers:
            entry = cell.entries[peer.library]
            if entry.failure:
                note = entry.failure
                if entry.gave_up and step == 0:
                    note += f", {number(patience.limit / np.median(ours.totals()))} x"
                of_step.append(row(base, peer.library, OURS) | {"note": note})
                continue
            theirs = entry.of_step(step)
            answer = verdict(job, peer, ours.answer, entry.answer)
            of_step.append(
                row(base, peer.library, OURS, theirs, ratios(theirs, mine))
                | {
                    "answer": answer,
                    "ours": f"{np.mean(ours.answer):.8g}",
                    "theirs": f"{np.mean(entry.answer):.8g}",
                    "note": "" if answer == "same" and peer.tolerance < 1e-5 else peer.note,
                }
            )
        rows += of_step
    return rows


def row(
    base: Row,
    library: str,
    against: str,
    seconds: np.ndarray | None = None,
    quartiles: np.ndarray | None = None,
) -> Row:
    """Return a row with every column there is."""
    low, middle, high = ["", "", ""] if quartiles is None else map(float, quartiles)
    return {
        **base,
        "library": library,
        "against": against,
        "seconds": "" if seconds is None else float(np.median(seconds)),
        "ratio_low": low,
        "ratio": middle,
        "ratio_high": high,
        "rounds": 0 if seconds is None else len(seconds),
        **dict.fromkeys(("answer", "ours", "theirs", "note"), ""),
    }


def peer_words(found: Row) -> str:
    """Say how many times as long a peer takes; in brackets where it does not count."""
    if found["ratio"] == "":
        return f"[{found['library']}: {found['note']}]"
    words = f"{found['library']} {spread(found['ratio_low'], found['ratio'], found['ratio_high'])}"
    words += " once" if found["rounds"] == 1 else ""
    return words if found["answer"] in ("same", "lower") else f"[{words}]"


def report(rows: list[Row]) -> list[str]:
    """Return the Markdown of all rows: a table for each size, and the answers that differ."""
    lines: list[str] = []
    header = ["job", "step", "ms", "x floor", "floor", "peer takes x as long"]
    for size in dict.fromkeys((found["n"], found["classes"]) for found in rows):
        here = [found for found in rows if (found["n"], found["classes"]) == size]
        body = []
        for mine in (found for found in here if found["library"] == OURS):
            key = (mine["job"], mine["step"])
            peers = [
                peer_words(found)
                for found in here
                if (found["job"], found["step"]) == key and found["library"] != OURS
            ]
            if mine["note"]:
                body.append([JOBS[mine["job"]].title, mine["step"], mine["note"], *[""] * 3])
                continue
            ratio = spread(mine["ratio_low"], mine["ratio"], mine["ratio_high"])
            times = [number(1e3 * mine["seconds"]), ratio, f"`{mine['against']}`"]
            body.append([JOBS[mine["job"]].title, mine["step"], *times, "; ".join(peers)])
        lines += [f"### N = {size[0]:,}, K = {size[1]:,}, {here[0]['dtype']}", ""]
        lines += [*markdown(header, body), ""]
    return lines + answers(rows)


def answers(rows: list[Row]) -> list[str]:
    """Return the Markdown of the answers that are not the same."""
    # The answer belongs to all steps together: one line for each job and peer.
    last = {
        (found["n"], found["classes"], found["job"], found["library"]): found
        for found in rows
        if found["answer"] not in ("", "same") or (found["answer"] == "same" and found["note"])
    }
    keys = ("answer", "ours", "theirs", "note")
    body = [
        [JOBS[job].title, library, f"{n:,} x {K:,}", *(found[key] for key in keys)]
        for (n, K, job, library), found in last.items()
    ]
    if not body:
        return []
    header = ["job", "peer", "size", "answer", "skcalib", "peer", "why"]
    return ["### Answers that are not the same to rounding", "", *markdown(header, body)]


def main(arguments: Sequence[str] | None = None) -> list[Row]:
    """Measure, print and store; return the rows."""
    parser = argparse.ArgumentParser(prog="benchmarks.speed", description=__doc__)
    parser.add_argument("--sizes", type=sizes, help="such as 5000x10,10000x100; each job's own")
    parser.add_argument("--jobs", type=names, help=", ".join(JOBS))
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
    hopeless: set[Peer] = set()
    for size in options.sizes or sizes_of(jobs):
        data = make_data(*size, options.dtype)
        for name in jobs:
            if not wanted(name, size, chosen=bool(options.sizes)):
                continue
            peers = tuple(p for p in PEERS.get(name, ()) if version(p.library) is not None)
            cell = measure(JOBS[name], peers, data, patience, hopeless)
            new = rows_of(name, data, peers, cell, patience)
            rows += new
            print(f"{size[0]}x{size[1]} {name}", flush=True)
    lines = report(rows)
    print("", *lines, sep="\n")
    if options.out:
        write_csv(options.out / "results" / f"speed_{options.dtype}.csv", rows)
        fill(options.out / "README.md", options.dtype, ["\n".join(head), "", *lines])
    return rows


if __name__ == "__main__":
    main()
