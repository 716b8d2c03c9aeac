"""What larger data would take, from measured constants: arithmetic, not a measurement."""

from __future__ import annotations

import math
from typing import NamedTuple

from skcalib._arrays.dask_columns import COPIES


class Machines(NamedTuple):
    """The assumed cluster; bytes, and bytes per second of each machine."""

    count: int = 32
    cores: int = 16
    memory: float = 256e9
    read: float = 1e9
    network: float = 10e9 / 8
    chunk: float = 1e9


class Scores(NamedTuple):
    """The size of an array."""

    name: str
    n: float
    K: float
    itemsize: int

    @property
    def size(self) -> float:
        """Return its bytes."""
        return self.n * self.K * self.itemsize


SCORES = (
    Scores("ImageNet-21k, float32", 14e6, 21_841, 4),
    Scores("1e9 x 1,000, float32", 1e9, 1_000, 4),
    Scores("tokens, bfloat16", 1e7, 128_000, 2),
)


class Constant(NamedTuple):
    """Measured of a job: passes, ns of a core for an entry in all of them, rows it was with."""

    passes: float
    ns: float
    n: float
    columns: bool


class Cost(NamedTuple):
    """Seconds of reading, computing, the scheduler and the network."""

    read: float
    compute: float
    tasks: float
    network: float

    @property
    def total(self) -> float:
        """Return their sum: nothing overlaps."""
        return sum(self)


def cost(job: Constant, scores: Scores, ms_per_chunk: float, machines: Machines) -> Cost:
    """Return the seconds of a job.

    Columns are sorted, which takes log(n) times as long for an entry; float32 columns that are in
    memory `COPIES` times limit how many are fitted at once, and each crosses the network once.
    """
    ns, cores, network = job.ns, float(machines.cores), 0.0
    if job.columns:
        ns *= math.log(scores.n) / math.log(job.n)
        cores = min(cores, machines.memory // (COPIES * 4 * scores.n))
        if not cores:
            return Cost(math.inf, math.inf, math.inf, math.inf)
        network = scores.n * scores.K * 4 / machines.count / machines.network
    return Cost(
        job.passes * scores.size / machines.count / machines.read,
        scores.n * scores.K * ns * 1e-9 / (machines.count * cores),
        job.passes * math.ceil(scores.size / machines.chunk) * ms_per_chunk * 1e-3,
        network,
    )


def minutes(seconds: float) -> str:
    """Return seconds, minutes or hours."""
    if math.isinf(seconds):
        return "no column fits"
    for length, unit in ((3600, "h"), (60, "min")):
        if seconds >= 2 * length:
            return f"{seconds / length:.1f} {unit}"
    return f"{seconds:.0f} s" if seconds >= 1 else "< 1 s"
