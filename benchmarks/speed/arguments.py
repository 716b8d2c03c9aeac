"""The jobs and sizes that a command line asks for."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence

from benchmarks.speed.jobs import JOBS

CALIBRATOR_STEPS = ("fit", "predict_proba")


def sizes(text: str) -> list[tuple[int, int]]:
    """Read sizes such as 500x3,5000x10."""
    pairs = re.findall(r"(\d+)x(\d+)", text)
    if ",".join("x".join(pair) for pair in pairs) != text:
        raise argparse.ArgumentTypeError("sizes are written as 5000x10,10000x100")
    return [(int(n), int(k)) for n, k in pairs]


def names(text: str) -> list[str]:
    """Read names of jobs."""
    unknown = [name for name in text.split(",") if name not in JOBS]
    if unknown:
        raise argparse.ArgumentTypeError(f"no job {unknown[0]}; there are {', '.join(JOBS)}")
    return text.split(",")


def own_sizes(jobs: Sequence[str]) -> list[tuple[int, int]]:
    """Return the sizes that jobs are measured at, the smallest first."""
    found = {size for name in jobs for size in JOBS[name].sizes}
    return sorted(found, key=lambda size: size[0] * size[1])


def wanted(name: str, size: tuple[int, int], *, chosen: bool) -> bool:
    """Say whether a job runs at a size: its own or, if sizes were chosen, no more classes."""
    own = JOBS[name].sizes
    return size in own or (chosen and size[1] <= max(n_classes for _, n_classes in own))
