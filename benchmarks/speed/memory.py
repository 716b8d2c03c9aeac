"""Weigh the memory that skcalib and its peers take beyond their input.

``python -m benchmarks.speed.memory`` prints a table; [the page](README.md) says what is counted.
Each weighing is a process of its own.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import tracemalloc
from collections.abc import Sequence
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import joblib

from benchmarks._shared.peers import version
from benchmarks._shared.report import absent, fill, machine, markdown, number, write_csv
from benchmarks._shared.timing import quiet
from benchmarks.speed.data import Data, make_data
from benchmarks.speed.jobs import JOBS, Size, Steps, size, sizes_of, wanted
from benchmarks.speed.peers import PEERS
from benchmarks.speed.timing import OURS

MIB = 2**20
Row = dict[str, Any]


def steps_of(name: str, contestant: str, data: Data) -> Steps:
    """Return what skcalib or a peer runs for a job."""
    if contestant == OURS:
        return JOBS[name].steps(data)
    return next(p for p in PEERS[name] if p.library == contestant).steps(data)


def resident_bytes(key: str) -> int:
    """Return bytes of memory that the process holds ("VmRSS"), or most held ("VmHWM")."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{key}:"):
            return int(line.split()[1]) * 1024
    raise OSError(f"no {key}")


def resident_peak(step: Any, arguments: list[Any]) -> tuple[Any, float]:
    """Return the result and how much memory the process took on, in MiB; NaN without /proc."""
    try:
        Path("/proc/self/clear_refs").write_text("5")  # the most held starts again from here
        before = resident_bytes("VmRSS")
    except OSError:
        return step(*arguments), float("nan")
    result = step(*arguments)
    return result, (resident_bytes("VmHWM") - before) / MIB


def traced_peak(step: Any, arguments: list[Any]) -> tuple[Any, float]:
    """Return the result and what Python and NumPy allocated at most, in MiB."""
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    result = step(*arguments)
    peak = tracemalloc.get_traced_memory()[1] - before
    tracemalloc.stop()
    return result, peak / MIB


def weigh(name: str, contestant: str, folder: Path, how: str) -> list[float]:
    """Return the peak of each step in MiB; `how` is "resident" or "traced"."""
    with quiet():
        warm = make_data(200, 3)
        results: list[Any] = []
        for step in steps_of(name, contestant, warm):  # what is imported or compiled at first use
            results = [step(*results)]
        peak = resident_peak if how == "resident" else traced_peak
        results, peaks = [], []
        data = joblib.load(folder / "data")
        for step in steps_of(name, contestant, data):
            result, mebibytes = peak(step, results)
            results = [result]
            peaks.append(mebibytes)
    return peaks


def weigh_apart(
    name: str, contestant: str, folder: Path, how: str, limit: float
) -> list[float] | str:
    """Weigh in a process of its own; a string says why there is no answer."""
    command = [sys.executable, "-m", "benchmarks.speed.memory", "--weigh", name, contestant]
    command += [str(folder), how]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=limit,
            check=False,
            cwd=Path(__file__).parents[2],
        )
    except subprocess.TimeoutExpired:
        return f"given up after {limit:g} s"
    if done.returncode:
        return (done.stderr.strip().splitlines() or ["failed"])[-1][:120]
    found: list[float] = json.loads(done.stdout.splitlines()[-1])
    return found


def rows_of(name: str, size: Size, folder: Path, limit: float) -> list[Row]:
    """Return a row for skcalib and for each peer, for each step."""
    job = JOBS[name]
    peers = [p.library for p in PEERS.get(name, ()) if version(p.library) is not None]
    ways = [(OURS, "traced"), *((library, "resident") for library in (OURS, *peers))]
    found = [weigh_apart(name, contestant, folder, how, limit) for contestant, how in ways]
    rows = []
    for step, step_name in enumerate(job.step_names):
        output = 8 * size[0] * size[1] / MIB if step == 1 else 0.0
        for (contestant, how), value in zip(ways, found, strict=True):
            row = {"job": name, "step": step_name, "n": size[0], "classes": size[1]}
            row |= {"library": contestant, "counted": how}
            failed = isinstance(value, str)
            row |= {"mebibytes": "" if failed else round(value[step], 3)}
            rows.append(row | {"output": round(output, 1), "note": value if failed else ""})
    return rows


def report(rows: list[Row]) -> list[str]:
    """Return the Markdown of all rows: a table for each size."""
    lines: list[str] = []
    header = ["job", "step", "output", "traced", "resident", "peers, resident"]
    for (n, K), here in groupby(rows, itemgetter("n", "classes")):
        body = []
        for (job, step), (traced, resident, *peers) in groupby(here, itemgetter("job", "step")):
            output = f"{traced['output']:.0f}" if traced["output"] else ""
            theirs = "; ".join(f"{row['library']} {words(row)}" for row in peers)
            body.append([JOBS[job].title, step, output, words(traced), words(resident), theirs])
        lines += [f"### Memory in MiB at N = {n:,}, K = {K:,}", "", *markdown(header, body), ""]
    return lines[:-1]


def words(row: Row) -> str:
    """Return mebibytes, or why there are none."""
    return str(row["note"]) or number(row["mebibytes"])


def main(arguments: Sequence[str] | None = None) -> list[Row]:
    """Weigh, print and store; return the rows."""
    parser = argparse.ArgumentParser(prog="benchmarks.speed.memory", description=__doc__)
    parser.add_argument("--sizes", type=size, nargs="+", help="as 25000x1000; each job's largest")
    parser.add_argument("--jobs", choices=JOBS, nargs="+", default=list(JOBS), help="all")
    parser.add_argument("--limit", type=float, default=40, help="seconds of a process")
    parser.add_argument("--out", type=Path, help="folder of README.md and results/")
    parser.add_argument("--weigh", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.weigh:
        name, contestant, folder, how = options.weigh
        print(json.dumps(weigh(name, contestant, Path(folder), how)))
        return []
    head = machine()
    print(*head, absent(), sep="\n")
    rows: list[Row] = []
    for pair in options.sizes or sizes_of(options.jobs):
        with tempfile.TemporaryDirectory() as folder:
            joblib.dump(make_data(*pair), Path(folder) / "data")
            for name in options.jobs:
                largest = pair == JOBS[name].sizes[-1]
                if wanted(name, pair, chosen=True) if options.sizes else largest:
                    new = rows_of(name, pair, Path(folder), options.limit)
                    rows += new
                    for row in new:
                        print(name, row["step"], row["library"], row["counted"], words(row))
    lines = report(rows)
    print("", *lines, sep="\n", flush=True)
    if options.out:
        write_csv(options.out / "results" / "memory_float64.csv", rows)
        fill(options.out / "README.md", "memory", ["\n".join(head), "", *lines])
    return rows


if __name__ == "__main__":
    main()
