"""Do the intervals of the parts of a score hold the parts of the population? By simulation.

``python -m benchmarks.coverage.parts`` draws scores of one event as in `curve.py`, and probability
vectors, and labels from known rates, and counts how many 95 % intervals of `score_decomposition`
hold score, miscalibration, discrimination and uncertainty of very many rows. It takes half an hour
of one core and writes its tables into `table.md`; ``--repetitions`` and ``--jobs`` make it shorter.
"""

from __future__ import annotations

import argparse
import zlib
from collections.abc import Iterable, Sequence
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from scipy.special import expit, softmax, xlog1py, xlogy

from benchmarks._shared.report import fill
from benchmarks.coverage.curve import ENOUGH, RATES, SPREAD, TRUTHS, Cell, centre
from skcalib import TemperatureScaling
from skcalib.metrics import score_decomposition
from skcalib.metrics._score_parts import isotonic_means

Array = NDArray[np.float64]

HERE = Path(__file__).parent
SIZES = (500,)
PARTS = ("score", "miscalibration", "discrimination", "uncertainty")
SHORT = ("score", "MCB", "DSC", "UNC")
SCORES = ("brier", "log")
# The method was chosen on the first half of the truths.
CHOSEN_ON = ("calibrated", "curved")
# Logits of the population are quantiles of the normal distribution between these, so many.
REACH, PLACES = 7.0, 20_001
# Classes, and how many times too large the logits of the model are.
SEVERAL = ((3, 1.5), (10, 1.5))
SEVERAL_ROWS, POPULATION = 1_000, 200_000


class Several(NamedTuple):
    """Number of classes, factor of the logits, and whether vectors are scored."""

    K: int
    factor: float
    joint: bool

    @property
    def name(self) -> str:
        """Name, as the table has it."""
        kind = "vectors" if self.joint else "class-wise"
        return f"{self.K} classes, logits x {self.factor:g}, {kind}"


def losses(p: Array, score: str) -> tuple[Array, Array]:
    """Return the scores of a probability if the event happens, and if it does not."""
    if score == "brier":
        return (1 - p) ** 2, p**2
    return -np.log(p), -np.log1p(-p)


def entropy(q: Array, score: str) -> Array:
    """Return the expected score of the true rate."""
    if score == "brier":
        return np.asarray(q * (1 - q))
    return np.asarray(-xlogy(q, q) - xlog1py(1 - q, -q))


def parts_of_rates(p: Array, q: Array, weight: Array, score: str) -> Array:
    """Return the parts ``(4,)`` of very many rows with the event's rates q."""
    order = np.argsort(p, kind="stable")
    share = weight / weight.sum()
    of_event, of_other = losses(p, score)
    given = float(share @ (q * of_event + (1 - q) * of_other))
    best = float(isotonic_means((share * q)[order][None], share[order][None], score)[0])  # type: ignore[arg-type]
    base = float(entropy(np.array(share @ q), score))
    return np.array([given, given - best, base - best, base])


def true_parts(cell: Cell, m: float, score: str) -> Array:
    """Return the parts ``(4,)`` of the population of one event."""
    z, s = np.linspace(-REACH, REACH, PLACES), SPREAD[cell.rate]
    q, p = expit(TRUTHS[cell.truth](z, m, s)), expit(m + s * z)
    return parts_of_rates(p, q, np.exp(-z * z / 2), score)


def held(found: Any, true: Array) -> list[bool]:
    """Return which intervals hold their part, up to rounding."""
    ends = [(getattr(found, f"{name}_low"), getattr(found, f"{name}_high")) for name in PARTS]
    return [low - 1e-9 <= x <= high + 1e-9 for (low, high), x in zip(ends, true, strict=True)]


def event_coverage(cell: Cell, repetitions: int) -> Array:
    """Return the share of each part of each score of one event; without events none is counted."""
    m, s = centre(cell), SPREAD[cell.rate]
    true, found = {score: true_parts(cell, m, score) for score in SCORES}, []
    for i in range(repetitions):
        rng = np.random.default_rng([zlib.crc32(repr(cell).encode()), i, 2])
        z = rng.normal(size=cell.n)
        q, p = expit(TRUTHS[cell.truth](z, m, s)), expit(m + s * z)
        y = rng.random(cell.n) < q
        if y.any():
            each = [held(score_decomposition(y, p, score=score), true[score]) for score in SCORES]  # type: ignore[arg-type]
            found.append(np.concatenate(each))
    return np.mean(found, axis=0)


def drawn(case: Several, n: int, rng: np.random.Generator) -> tuple[Array, Array, Any]:
    """Return the probabilities of the model and the true ones ``(n, K)``, and labels."""
    Z = 1.5 * rng.normal(size=(n, case.K)) + np.linspace(0, 1, case.K)
    y = (Z + rng.gumbel(size=Z.shape)).argmax(axis=1)
    return softmax(case.factor * Z, axis=1), softmax(Z, axis=1), y


def several_coverage(case: Several, repetitions: int) -> Array:
    """Return the share of each part of the Brier score of several classes."""
    asked: dict[str, Any] = {"mode": "joint" if case.joint else "classwise"}
    P, Q, y = drawn(case, POPULATION, np.random.default_rng(0))
    if case.joint:
        calibrator = TemperatureScaling().fit(P[:2000], y[:2000])
        asked["calibrator"] = calibrator
        R, share = calibrator.predict_proba(P), Q.mean(axis=0)
        given, best, base = (
            float(np.mean((F * F).sum(axis=1) - 2 * (F * Q).sum(axis=1) + 1))
            for F in (P, R, np.broadcast_to(share, P.shape))
        )
        true = np.array([given, given - best, base - best, base])
    else:
        ones = np.ones(POPULATION)
        each = [parts_of_rates(P[:, k], Q[:, k], ones, "brier") for k in range(case.K)]
        true = np.mean(each, axis=0)
    found = []
    for i in range(repetitions):
        P, _, y = drawn(case, SEVERAL_ROWS, np.random.default_rng([1, i]))
        found.append(held(score_decomposition(y, P, labels=range(case.K), **asked), true))
    return np.mean(found, axis=0)


def shares_of(parallel: Parallel, cases: Sequence[Any], tasks: Iterable[Any]) -> dict[str, Array]:
    """Return the shares by the name of each case, and print them as they come."""
    found = {}
    for case, shares in zip(cases, parallel(tasks), strict=True):
        print(case.name, shares, flush=True)
        found[case.name] = shares
    return found


def table(head: Sequence[str], rows: dict[str, Array]) -> list[str]:
    """Return the lines of a table, the mean of its rows, and what is held too seldom."""
    lines = [f"| | {' | '.join(head)} |", "|---|" + "--:|" * len(head)]
    mean = np.mean(list(rows.values()), axis=0)
    for name, shares in (rows | {"mean": mean}).items():
        lines.append(f"| {name} | {' | '.join(f'{share:.3f}' for share in shares)} |")
    low = [
        f"{name}: {part} {share:.3f}"
        for name, shares in rows.items()
        for part, share in zip(head, shares, strict=True)
        if share < ENOUGH
    ]
    return [*lines, "", f"Below {ENOUGH:g}: {'; '.join(low) or 'none'}."]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run all cases, and write the tables."""
    parser = argparse.ArgumentParser(prog="benchmarks.coverage.parts", description=__doc__)
    parser.add_argument("--repetitions", type=int, default=400)
    parser.add_argument("--n", type=int, nargs="+", default=SIZES, help="rows")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--page", type=Path, default=HERE / "table.md", help="the page to write")
    options = parser.parse_args(arguments)
    parallel = Parallel(n_jobs=options.jobs, return_as="generator")
    others = [truth for truth in TRUTHS if truth not in CHOSEN_ON]
    tables = []
    for truths in (others, CHOSEN_ON):
        cells = [Cell(*case) for case in product(truths, RATES, options.n)]
        tasks = (delayed(event_coverage)(cell, options.repetitions) for cell in cells)
        tables.append(shares_of(parallel, cells, tasks))
    new, known = tables
    several = [Several(*case, joint) for case, joint in product(SEVERAL, (False, True))]
    few = -(-options.repetitions // 4)
    tasks = (delayed(several_coverage)(case, few) for case in several)
    classes = shares_of(parallel, several, tasks)
    head = [f"{score}, {part}" for score, part in product(("Brier", "log"), SHORT)]
    lines = [
        "Share of 95 % intervals of `score_decomposition` that hold the part of the population;",
        f"{options.repetitions} samples of each line; `python -m benchmarks.coverage.parts`.",
        "",
        "Truths that the method was not chosen on; truth, events, rows:",
        "",
        *table(head, new),
        "",
        "Truths that it was chosen on:",
        "",
        *table(head, known),
        "",
        f"Brier score of several classes, {SEVERAL_ROWS:,} rows, a quarter as many samples;",
        "class-wise by isotonic regression, vectors by temperature scaling fitted on other rows:",
        "",
        *table(SHORT, classes),
    ]
    fill(options.page, "parts of a score", lines)


if __name__ == "__main__":
    # Other processes find functions by the module's name, which `__main__` does not have.
    from benchmarks.coverage import parts

    parts.main()
