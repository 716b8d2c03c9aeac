"""Time the present tree beside an earlier revision, in turns, each in a process of its own.

Both processes run these benchmarks; only skcalib differs. The revision's is unpacked into a
temporary folder, so that the repository stays as it is; a folder that has one is used as it is.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import skcalib
from benchmarks._shared.report import markdown, number
from benchmarks._shared.timing import quiet
from benchmarks.speed.data import make_data
from benchmarks.speed.jobs import JOBS, Size
from benchmarks.speed.timing import Patience, rounds, run, turn

ROOT = Path(__file__).parents[2]
# The repository whose tree and revision are compared.
REPOSITORY = ROOT
# One of each kind: top label, sums of columns, sorts, a table, maps of each class, affine fits.
TIMED = ["ece", "sce", "ace", "table", "histogram"]
TIMED += ["isotonic", "spline", "temperature", "vector", "platt"]
SLOWER = 1.1
# Seconds in which a quick job is run again in its turn: a core that rested is slow at first.
AGAIN = 0.02
# Other work on the machine only ever adds time. Where a ratio exceeds SLOWER, there are as many
# rounds once more, up to so many times, before it counts.
MOST_TIMES = 8

Row = dict[str, Any]


class SideError(Exception):
    """A tree cannot run a job."""


class Side:
    """A process that imports skcalib from a folder and keeps the data of one job."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        # -P: the working directory is not searched, so that PYTHONPATH alone says what is imported.
        paths = os.pathsep.join(map(str, (folder, ROOT)))
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "benchmarks.speed.against"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": paths},
        )
        imported = Path(self.ask("where"))
        if imported != (folder / "skcalib").resolve():
            raise RuntimeError(f"skcalib is imported from {imported}, not from {folder}")

    def ask(self, *question: Any) -> Any:
        """Return the answer to a question."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        try:
            print(json.dumps(question), file=self.process.stdin, flush=True)
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            self.process.wait()
            raise SystemExit(f"{self.folder}: its process ended; its error is printed above")
        answer, error = json.loads(line)
        if error:
            raise SideError(error)
        return answer

    def close(self) -> None:
        """End the process."""
        self.process.communicate()


def answer_questions() -> None:
    """Be a side: prepare jobs and time them, until there are no more questions."""
    steps: Any = ()
    told = sys.stdout
    for line in sys.stdin:
        answer: Any = None
        error = ""
        question, *arguments = json.loads(line)
        try:
            with quiet():
                if question == "where":
                    answer = str(Path(skcalib.__file__).resolve().parent)
                elif question == "prepare":
                    name, size, dtype = arguments
                    steps = ()  # frees the data of the job before
                    steps = JOBS[name].steps(make_data(*size, dtype))
                    run(steps)
                else:
                    answer = turn(steps, AGAIN)
        except Exception as caught:  # a revision may lack what the job asks for
            error = f"{type(caught).__name__}: {caught}".splitlines()[0][:120]
        print(json.dumps([answer, error]), file=told, flush=True)


@contextmanager
def unpacked(revision: str) -> Iterator[Path]:
    """Yield a folder with the package as it was at a revision, or a given folder that has it."""
    if (Path(revision) / "skcalib").is_dir():
        yield Path(revision)
        return
    command = ["git", "-C", str(REPOSITORY), "archive", revision, "skcalib"]
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr.decode().strip())
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
            archive.extractall(folder, filter="data")
        yield Path(folder)


def rows_of(
    name: str, size: Size, dtype: str, sides: dict[str, Side], patience: Patience
) -> list[Row]:
    """Return a row for each step of a job: the least seconds of both sides."""
    steps = JOBS[name].step_names
    rows: list[Row] = [{"job": name, "step": step, "size": size, "note": ""} for step in steps]
    for side in sides.values():
        try:
            side.ask("prepare", name, size, dtype)
        except SideError as error:
            if side is sides["now"]:
                raise
            return [row | {"note": str(error)} for row in rows]
    least = {side: np.full(len(steps), np.inf) for side in sides}
    turns = {which: partial(side.ask, "time") for which, side in sides.items()}
    for _ in range(MOST_TIMES):
        for which, seconds in rounds(turns, patience).items():
            least[which] = np.min([least[which], *seconds], axis=0)
        if (least["now"] <= SLOWER * least["then"]).all():
            break
    return [
        row | {"now": float(now), "then": float(then), "ratio": float(now / then)}
        for row, now, then in zip(rows, least["now"], least["then"], strict=True)
    ]


def line(row: Row) -> list[str]:
    """Return the cells of a row."""
    name = f"{row['job']} {row['step']}".strip()
    size = "{} x {}".format(*row["size"])
    if row["note"]:
        return [name, size, "", "", f"not there: {row['note']}"]
    times = [number(1e3 * row[side]) for side in ("now", "then")]
    return [name, size, *times, number(row["ratio"]) + " **slower**" * (row["ratio"] > SLOWER)]


def main(
    revision: str,
    jobs: Sequence[str],
    sizes: Sequence[Size] | None,
    dtype: str,
    patience: Patience,
) -> list[Row]:
    """Measure and print; return the rows, or exit with what is slower than `SLOWER` x."""
    rows: list[Row] = []
    with ExitStack() as stack:
        sides = {}
        then = stack.enter_context(unpacked(revision))
        for side, folder in (("now", REPOSITORY), ("then", then)):
            sides[side] = Side(folder)
            stack.callback(sides[side].close)
        head, rule = markdown(["job", "size", "now, ms", f"{revision}, ms", "ratio"], [])
        print(head, rule, sep="\n", flush=True)
        for name in jobs:
            for size in sizes or (JOBS[name].sizes[0], JOBS[name].sizes[-1]):
                new = rows_of(name, size, dtype, sides, patience)
                rows += new
                print(*(f"| {' | '.join(line(row))} |" for row in new), sep="\n", flush=True)
    slower = [" ".join(line(row)[:2]) for row in rows if row.get("ratio", 0) > SLOWER]
    if slower:
        sys.exit(f"slower than {SLOWER} x {revision}: {', '.join(slower)}")
    return rows


if __name__ == "__main__":
    answer_questions()
