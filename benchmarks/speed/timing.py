"""The clock: runs interleaved in rounds, ratios within a round, and whether answers agree."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from benchmarks._shared.timing import OutOfTimeError, at_most, quiet
from benchmarks.speed.data import FLOORS, Data
from benchmarks.speed.jobs import Job, Steps
from benchmarks.speed.peers import Peer

OURS = "skcalib"
# Rounds of a cell that takes less than this many seconds in all cost nothing: there are more of
# them, up to so many times as many.
QUICK, MOST = 0.3, 7
# Seconds before each run: threads of the one before it may wait a while for work, and take turns.
REST = 0.005
# What takes less is run a few times more, and the quickest counts: where caches are cold, a call
# of a millisecond takes ten, whatever it does.
QUICK_RUN, QUICK_RUNS = 0.1, 5


class Patience(NamedTuple):
    """Rounds; seconds above which a library runs once; seconds after which it is given up."""

    repeats: int
    budget: float
    limit: float


def run(steps: Steps) -> tuple[list[float], list[Any]]:
    """Return the seconds and the result of each step."""
    seconds: list[float] = []
    results: list[Any] = []
    for step in steps:
        arguments = results[-1:]
        start = time.perf_counter()
        results.append(step(*arguments))
        seconds.append(time.perf_counter() - start)
    return seconds, results


@dataclass
class Entry:
    """A library in a cell: its seconds by round and step, its answer, or why there is none."""

    seconds: list[list[float]] = field(default_factory=list)
    answer: Any = None
    failure: str = ""

    def of_step(self, step: int) -> np.ndarray:
        """Seconds of a step in each round."""
        return np.array([row[step] for row in self.seconds])

    def totals(self) -> np.ndarray:
        """Seconds of all steps together in each round."""
        return np.array(self.seconds).sum(axis=1)


@dataclass
class Cell:
    """All entries of a job on one data set."""

    entries: dict[str, Entry]
    floors: list[np.ndarray]


def measure(
    job: Job, peers: tuple[Peer, ...], data: Data, patience: Patience, hopeless: set[Job | Peer]
) -> Cell:
    """Run everything once for its answer, then all that is quick enough in rounds.

    What has to be given up joins the `hopeless`, which are not tried again.
    """
    entries: dict[str, Entry] = {}
    steps: dict[str, Steps] = {}
    for name, contestant in [(OURS, job), *((peer.library, peer) for peer in peers)]:
        entry = entries[name] = Entry()
        if contestant in hopeless:
            entry.failure = "given up at a smaller size"
            continue
        try:
            with quiet():
                chain = contestant.steps(data)
            with quiet(), at_most(patience.limit, "REAL"):
                seconds, results = run(chain)
                entry.answer = judged(job, contestant, data, results)
        except OutOfTimeError:
            entry.failure = f"given up after {patience.limit:g} s"
            hopeless.add(contestant)
        except Exception as error:  # a peer may fail in any way, and the others are still timed
            entry.failure = f"{type(error).__name__}: {error}".splitlines()[0][:120]
        else:
            entry.seconds.append(seconds)
            if sum(seconds) <= patience.budget:
                steps[name] = chain
            del results
    for floor in job.floors:
        steps[floor] = (partial(FLOORS[floor], data),)
    found = rounds({name: partial(turn, chain) for name, chain in steps.items()}, patience)
    for name in entries.keys() & found.keys():
        entries[name].seconds = found[name]
    return Cell(entries, [np.array(found[floor])[:, 0] for floor in job.floors])


def turn(steps: Steps, again_for: float = 0.0) -> list[float]:
    """Return the seconds of each step, the least of several runs, or of some seconds, if quick."""
    time.sleep(REST)
    with quiet():
        seconds = run(steps)[0]
        if sum(seconds) < QUICK_RUN:
            again, end = [], time.perf_counter() + again_for
            while len(again) < QUICK_RUNS or time.perf_counter() < end:
                again.append(run(steps)[0])
            seconds = [min(each) for each in zip(*again, strict=True)]
    return seconds


def rounds(
    turns: dict[str, Callable[[], list[float]]], patience: Patience
) -> dict[str, list[list[float]]]:
    """Return the seconds of each contestant in each round; every other round runs backwards."""
    found: dict[str, list[list[float]]] = {name: [] for name in turns}
    order = list(turns)
    gc.collect()
    start = time.perf_counter()
    for i in range(MOST * patience.repeats):
        elapsed = time.perf_counter() - start
        if i >= patience.repeats and elapsed * (i + 1) / i > QUICK:
            break
        # What is slow but not too slow gets three rounds at least.
        if i >= min(3, patience.repeats) and elapsed > 4 * patience.budget:
            break
        for name in order:
            found[name].append(turns[name]())
        order.reverse()
    return found


def judged(job: Job, contestant: Job | Peer, data: Data, results: list[Any]) -> Any:
    """Return what an answer is compared by."""
    if job.compares == "value":
        return np.asarray(contestant.result(results[-1]), dtype=np.float64)
    model, Q = results[0], np.asarray(results[-1])
    chosen = Q[np.arange(len(Q)), data.y].astype(np.float64)
    if job.compares == "nll":
        loss = -np.log(np.maximum(chosen, 1e-12)).mean()
    else:
        loss = np.vdot(Q, Q) / len(Q) - 2 * chosen.mean() + 1
    return float(loss + (contestant.penalty(model, data) if contestant.penalty else 0.0))


def verdict(job: Job, peer: Peer, ours: Any, theirs: Any) -> str:
    """Say "same", "lower" (ours is the better objective) or "differs"."""
    if np.shape(ours) == np.shape(theirs) and np.allclose(
        ours, theirs, rtol=0, atol=peer.tolerance
    ):
        return "same"
    return "lower" if job.compares != "value" and ours < theirs else "differs"


def times(seconds: np.ndarray, others: np.ndarray) -> dict[str, float]:
    """Return the median, and quartiles of the ratio to others within rounds.

    The ratio is that of the medians where one of them ran only once.
    """
    once = len(seconds) != len(others)
    ratio = np.median(seconds) / np.median(others) if once else seconds / others
    low, middle, high = np.quantile(ratio, [0.25, 0.5, 0.75]).tolist()
    found = {"seconds": float(np.median(seconds)), "rounds": len(seconds)}
    return found | {"ratio_low": low, "ratio": middle, "ratio_high": high}
