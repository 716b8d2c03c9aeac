"""Simulations of means: few clusters, weights of 1 / probability, and what a new hospital shows.

A cell says how clusters and weights come about; its truth is that of very many rows. The model's
logits are normal with deviation 1.2, and 60 or 80 % of the odds ratio is right.
"""

from __future__ import annotations

import zlib
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from scipy.special import expit

from benchmarks._shared.report import markdown
from benchmarks._shared.timing import quiet
from benchmarks.coverage.event import ENOUGH, NODES, SHARES, inside
from skcalib._comparison.comparison import mean_gain_interval
from skcalib.metrics import (
    bootstrap_interval,
    calibration_by_group,
    calibration_intercept_slope,
    observed_expected_ratio,
    score_decomposition,
)
from skcalib.metrics._common import EventRows
from skcalib.metrics._statistics.event import auc_interval
from skcalib.metrics._statistics.scores import RowLosses, mean_interval

Array = NDArray[Any]

# Rows that stand for very many, and the clusters that they are drawn in.
MANY, MANY_CLUSTERS = 2_000_000, 200_000
REPETITIONS, RESAMPLES = 200, 200
# 200 samples do not tell a coverage of 93 % from one of 95 %: few clusters have more, and so have
# cells of at most 1,000 rows that are seen by their score or by something hidden.
OF_FEW_CLUSTERS, MORE_REPETITIONS = 600, 1_000
# Rows that are drawn for each that is to be seen.
OVERSAMPLED = 12
NAMES = ("log loss", "Brier", "error rate", "AUC", "O:E", "gain", "bootstrap")


class Sampling(NamedTuple):
    """How rows come about: clusters, sizes, events and the probability of being seen.

    ``sizes`` are the deviation of the logarithms of the sizes of clusters, ``offset`` and ``slope``
    the deviations of the clusters' log-odds; with ``informative`` larger clusters have more events.
    ``level`` is the mean of the logits. Rows are seen with the logit ``seen``: slopes by the
    score, by something hidden and by the outcome, and a constant; ``lottery`` is the deviation of
    the logarithm of a weight that goes with nothing.
    """

    name: str
    n: int
    clusters: int = 0
    sizes: float = 1.0
    offset: float = 1.0
    slope: float = 0.3
    level: float = -0.5
    informative: float = 0.0
    seen: tuple[float, float, float, float] | None = None
    lottery: float = 0.0


CLUSTERS = [
    *(
        Sampling(f"{C} hospitals, {name}", 1_000, C, sizes)
        for name, sizes in (("lognormal(1)", 1.0), ("equal", 0.0))
        for C in (5, 8, 12, 15)
    ),
    # Written down before their first run.
    *(Sampling(f"{C}, rare events", 1_000, C, 1.0, 0.5, level=-3.5) for C in (5, 8, 12)),
    *(Sampling(f"{C}, rows alike by chance alone", 1_000, C, 1.0, 0.0, 0.0) for C in (5, 12)),
    Sampling("10, lognormal(1.5)", 1_000, 10, 1.5),
    Sampling("8, 200 rows", 200, 8),
    Sampling("12, 6,000 rows", 6_000, 12),
    Sampling("20, larger ones have more events", 1_000, 20, 1.0, informative=0.5),
    # Among the lowest of 19 cells with 4 and 6 % events, by other samples.
    *(Sampling(f"{C}, 4 % events, shifted by 1", 1_000, C, level=-4.4) for C in (5, 8, 12)),
    *(Sampling(f"{C}, 4 % events, equal", 1_000, C, 0.0, 0.5, level=-4.3) for C in (5, 12)),
]
# Log-odds of being seen: as in the first report of the fault; the others before their first run.
BY_SCORE, HIDDEN, STRONG = (1.0, 0.0, 0.0, -1.0), (0.0, 1.0, 0.0, -1.0), (2.5, 0.0, 0.0, -3.5)
SAMPLED = (0.0, 0.0, 40.0, -2.2)  # each event, and a tenth of the others
WEIGHTS = [
    *(
        Sampling(f"{name}, {n:,}", n, seen=seen)
        for name, seen in (("by score", BY_SCORE), ("hidden", HIDDEN), ("strong", STRONG))
        for n in (1_000, 5_000)
    ),
    Sampling("low scores seen, 1,000", 1_000, seen=(-1.0, 0.0, 0.0, -1.0)),
    Sampling("by score, 300", 300, seen=BY_SCORE),
    Sampling("hidden, strong, 1,000", 1_000, seen=(0.0, 2.0, 0.0, -3.0)),
    Sampling("non-events sampled, 1,000", 1_000, seen=SAMPLED),
    Sampling("events sampled, 1,000", 1_000, seen=(0.0, 0.0, -1.5, 0.5)),
    Sampling("by nothing, lognormal(1), 1,000", 1_000, lottery=1.0),
    Sampling("rare events, by score, 5,000", 5_000, level=-3.5, seen=BY_SCORE),
]


class Rows(NamedTuple):
    """Logits of the model, outcomes, clusters and weights of rows."""

    logit: Array
    y: Array
    cluster: Array | None
    weight: Array | None


def draw(cell: Sampling, rng: Any, n: int, clusters: int) -> Rows:
    """Return rows of a cell, all of them seen with their probability."""
    if cell.clusters:
        log_size, of_offset, of_slope = rng.normal(size=(3, clusters))
        size = np.exp(cell.sizes * log_size)
        cluster = rng.choice(clusters, n, p=size / size.sum())
        offset = cell.offset * of_offset + cell.informative * log_size
        logit = cell.level + rng.normal(size=n)
        at = (1 + cell.slope * of_slope)[cluster] * logit + offset[cluster]
        return Rows(logit, rng.random(n) < expit(at), cluster, None)
    z, hidden = rng.normal(0, 1.2, (2, n))
    logit, base = cell.level - 0.4 + 1.2 * z, cell.level - 0.5
    y = rng.random(n) < expit(base + z + 0.67 * hidden)
    if cell.seen is None:
        return Rows(logit, y, None, np.exp(cell.lottery * rng.normal(size=n)))
    by_score, by_hidden, by_outcome, constant = cell.seen
    k = expit(by_score * z + by_hidden * hidden + by_outcome * y + constant)
    seen = rng.random(n) < k
    return Rows(logit[seen], y[seen], None, 1 / k[seen])


def losses(rows: Rows) -> Array:
    """Return log loss, Brier score and error of rows, and the log loss of another model."""
    sign = np.where(rows.y, -1, 1)
    other = 0.7 * rows.logit - 0.1
    return np.array(
        [
            np.logaddexp(0, sign * rows.logit),
            (expit(rows.logit) - rows.y) ** 2,
            (rows.logit > 0) != rows.y,
            np.logaddexp(0, sign * other),
        ],
        dtype=float,
    )


def truths(cell: Sampling) -> Array:
    """Return the truths of `NAMES`."""
    everything = cell._replace(seen=None, lottery=0.0)
    rows = draw(everything, np.random.default_rng(0), MANY, MANY_CLUSTERS)
    means = losses(rows).mean(axis=1)
    area = auc_interval(EventRows(rows.logit, rows.y, np.ones(MANY)), 0.95)[0]
    ratio = rows.y.mean() / expit(rows.logit).mean()
    return np.array([*means[:3], area, ratio, means[0] - means[3], means[0]])


def mean_log_loss(y: Array, p: Array, sample_weight: Array) -> float:
    """Return the log loss."""
    return float(np.average(-np.log(np.where(y == 1, p, 1 - p)), weights=sample_weight))


def contained(cell: Sampling, true: Array, repetition: int) -> list[bool]:
    """Return which intervals of `NAMES` contain the truth."""
    rng = np.random.default_rng([zlib.crc32(cell.name.encode()), repetition])
    rows = draw(cell, rng, cell.n if cell.seen is None else OVERSAMPLED * cell.n, cell.clusters)
    logit, y, cluster, weight = (None if part is None else part[: cell.n] for part in rows)
    p, how = expit(logit), {"clusters": cluster, "sample_weight": weight}
    if cluster is not None:
        _, cluster = np.unique(cluster, return_inverse=True)
    ones = np.ones(y.size)
    w = ones if weight is None else weight * (weight.sum() / (weight @ weight))
    of_log, _, wrong, other = losses(Rows(logit, y, cluster, weight))
    before, after, errors = (RowLosses(x, None, w, cluster) for x in (of_log, other, wrong))
    with quiet():
        log, brier = (score_decomposition(y, p, score=name, **how) for name in ("log", "brier"))
        ratio = observed_expected_ratio(y, p, **how)
        drawn = bootstrap_interval(
            mean_log_loss, y, p, n_resamples=RESAMPLES, random_state=repetition, **how
        )
    ends = [
        (log.score_low, log.score_high),
        (brier.score_low, brier.score_high),
        mean_interval(errors, 0.95, 0.0, 1.0),
        auc_interval(EventRows(p, y, w, cluster), 0.95)[1:],
        (ratio.low, ratio.high),
        mean_gain_interval(before, after, 0.95),
        (drawn.low, drawn.high),
    ]
    # Without events some intervals are NaN, and count as not containing the truth.
    assert not np.isinf(ends).any(), (cell.name, ends)
    return [bool(inside(low, x, high)) for (low, high), x in zip(ends, true, strict=True)]


class Hospitals(NamedTuple):
    """A number of hospitals, their mean number of rows, and the deviation of its logarithm."""

    name: str
    number: int
    rows: int
    spread: float


HOSPITALS = [
    Hospitals(f"{number} of {rows} rows, {name}", number, rows, spread)
    for rows, name, spread in ((250, "lognormal(1)", 1.0), (500, "equal", 0.0))
    for number in (5, 12, 30)
]
# Their log-odds are shifted, and have slopes; logits of the model are normal with deviation 1.
SHIFT, MEAN_SLOPE, SLOPES, LEAST_ROWS = 0.3, 0.9, 0.2, 20
PREDICTED = ("slope", "O:E", "measured slope", "measured O:E")


def predicted(cell: Hospitals, _: Any, repetition: int) -> list[bool]:
    """Return whether the numbers of a new hospital are in the prediction intervals."""
    rng = np.random.default_rng([zlib.crc32(cell.name.encode()), repetition])
    log_size = cell.spread * rng.normal(size=cell.number + 1) - cell.spread**2 / 2
    n = np.maximum(cell.rows * np.exp(log_size), LEAST_ROWS).astype(int)
    hospital = np.repeat(np.arange(cell.number + 1), n)
    shift, slope = SHIFT * rng.normal(size=n.size), MEAN_SLOPE + SLOPES * rng.normal(size=n.size)
    logit = rng.normal(size=hospital.size) - 0.5
    y = rng.random(hospital.size) < expit(slope[hospital] * logit + shift[hospital])
    p, old = expit(logit), hospital < cell.number
    names = ["slope", "observed_expected"]
    with quiet():
        between = calibration_by_group(y[old], p[old], hospital[old], metrics=names).between
        ratio = observed_expected_ratio(y[~old], p[~old]).ratio
        try:
            line = calibration_intercept_slope(y[~old], p[~old]).slope
        except ValueError:  # a few rows that are separated without error
            line = np.inf
    x = NODES - 0.5
    true = SHARES @ expit(slope[-1] * x + shift[-1]) / (SHARES @ expit(x))
    ends = between[["prediction_low", "prediction_high"]].to_numpy()
    numbers = slope[-1], true, line, ratio
    return [bool(inside(end[0], x, end[1])) for x, end in zip(numbers, [*ends] * 2, strict=True)]


KINDS: dict[str, Any] = {
    "few clusters": (CLUSTERS, NAMES, truths, contained),
    "weights": (WEIGHTS, NAMES, truths, contained),
    "new hospital": (HOSPITALS, PREDICTED, lambda _: None, predicted),
}


def samples(kind: str, cell: Any) -> int:
    """Return how many samples of a cell the page has."""
    more = kind == "weights" and cell.n <= 1_000 and cell.seen and not cell.seen[2]
    fewer = OF_FEW_CLUSTERS if kind == "few clusters" else REPETITIONS
    return MORE_REPETITIONS if more else fewer


def table(kind: str, repetitions: int | None, jobs: int) -> list[str]:
    """Run all cells of a kind; return the lines of its table."""
    lines, low, numbers = [], [], []
    cells, names, truth_of, measured = KINDS[kind]
    for cell in cells:
        true, number = truth_of(cell), repetitions or samples(kind, cell)
        numbers.append(number)
        tasks = (delayed(measured)(cell, true, i) for i in range(number))
        shares = np.mean(Parallel(n_jobs=jobs)(tasks), axis=0)
        lines.append([cell.name, *(f"{share:.3f}" for share in shares)])
        low += [
            f"{cell.name}: {name} {share:.3f}"
            for name, share in zip(names, shares, strict=True)
            if share < ENOUGH
        ]
    text = f"Share of 95 % intervals that contain the truth; {min(numbers)} samples of each line."
    if max(numbers) > min(numbers):
        more = [
            cell.name for cell, number in zip(cells, numbers, strict=True) if number != min(numbers)
        ]
        text = f"{text} {max(numbers):,} of: {'; '.join(more)}."
    below = f"Below {ENOUGH:g}: {'; '.join(low) or 'none'}."
    return [text, "", *markdown([kind, *names], lines, left=1), "", below]
