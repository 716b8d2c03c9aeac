"""The gain of a correction without labels if only the class priors change.

``python -m benchmarks.prior_shift FOLDER`` calibrates the scores of each ``.npz`` file with
``logits`` or ``probs`` and ``labels``, and of two models of breast cancer. New rows with other
class priors are drawn from the remaining rows. Log losses are computed on all remaining rows,
weighted by the new priors. The table is in README.md.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks._shared.model_scores import MODELS, SMALLEST, Scores, ask, extra_files, from_file
from benchmarks._shared.report import fill, markdown
from benchmarks._shared.timing import quiet
from skcalib import AutoCalibrator, PriorCorrection

Array = NDArray[np.float64]

PAGE = Path(__file__).parent / "README.md"
SEEDS, SIZES = 10, (100, 300, 1_000, 10_000)


def of_cancer(model: str, seed: int) -> Scores:
    """Fit a model on a third of the rows; return its scores of the other rows."""
    X, y = load_breast_cancer(return_X_y=True)
    train, pool, test = np.array_split(np.random.default_rng(seed).permutation(len(y)), 3)
    fitted = make_pipeline(StandardScaler(), MODELS[model](seed)).fit(X[train], y[train])
    S, kind = ask(fitted, X)
    return Scores("breast cancer", kind, S[pool], y[pool], S[test], y[test])


def moved(before: Array, rng: np.random.Generator) -> dict[str, Array]:
    """Return new class priors, by the kind of change.

    All priors change, or the prior of one class, or the priors have a long tail, in which the
    rarest class has 1 % of the rows of the most frequent class.
    """
    K = before.size
    is_one, share = np.arange(K) == rng.integers(K), rng.random()
    one = np.where(is_one, share, before * (1 - share) / (1 - before[is_one]))
    tail = rng.permutation(0.01 ** np.linspace(0, 1, K))
    return {
        "as before": before,
        "Dirichlet": rng.dirichlet(np.ones(K)),
        "one class": one,
        "long tail": tail / tail.sum(),
    }


def runs(scores: Scores, seed: int) -> Iterator[dict[str, Any]]:
    """Yield the log losses for each kind of new priors and number of new rows, by correction."""
    S, y = scores.test, scores.test_labels
    rng, classes = np.random.default_rng(seed), np.arange(S.shape[1])
    unfitted = AutoCalibrator(input=scores.kind, classes=classes)
    calibrator = clone(unfitted).fit(scores.pool, scores.pool_labels)
    before = calibrator.class_count_ / calibrator.class_count_.sum()
    for kind, shares in moved(before, rng).items():
        w = (shares / np.bincount(y))[y]

        def loss(model: Any, w: Array = w) -> float:
            chosen = model.predict_proba(S)[np.arange(y.size), y]
            return float(-w @ np.log(np.maximum(chosen, SMALLEST)))

        known = PriorCorrection(calibrator, priors=shares).fit()
        run = {"kind": kind, "none": loss(calibrator), "known": loss(known)}
        for n in (n for n in SIZES if n <= y.size):
            rows = rng.choice(y.size, n, p=w)
            there = PriorCorrection(calibrator).fit(S[rows])
            inside = (there.priors_low_ <= shares) & (shares <= there.priors_high_)
            labelled = loss(clone(unfitted).fit(S[rows], y[rows]))
            run |= {"estimated": loss(there), "labelled": labelled, "covered": inside.mean()}
            yield {"K": classes.size, "n": n, **run}


def table(frame: pd.DataFrame) -> list[str]:
    """Return a row for each number of classes and of new rows, in per cent of the runs."""
    lines = []
    for (K, n), part in frame.groupby(["K", "n"]):
        near = part[["none", "estimated", "known"]].le(1.1 * part["labelled"], axis=0).mean()
        same, changed = part[part["kind"] == "as before"], part[part["kind"] != "as before"]
        better = changed[["estimated", "known"]].lt(changed["none"], axis=0).sum()
        cost = (same["estimated"] / same["none"]).mean() - 1
        shown = [f"{share:.0%}" for share in near] + [f"{m} of {len(changed)}" for m in better]
        lines.append([K, f"{n:,}", *shown, f"{part['covered'].mean():.2f}", f"{cost:+.1%}"])
    heads = ["classes", "new rows", "uncorrected", "estimated", "known priors"]
    heads += ["better: estimated", "better: known", "interval covers", "cost, priors unchanged"]
    return markdown(heads, lines, left=0)


def main() -> None:
    """Run all experiments, and write the table to the page."""
    parser = argparse.ArgumentParser(prog="benchmarks.prior_shift", description=__doc__)
    parser.add_argument("folder", type=Path, help="folder of .npz files with scores")
    loads = [partial(from_file, path) for path in extra_files(parser.parse_args().folder)]
    loads += [partial(of_cancer, model) for model in ("naive_bayes", "logistic")]
    found: list[dict[str, Any]] = []
    for load in loads:
        for seed in range(SEEDS):
            with quiet():
                found += list(runs(load(seed), seed))
            print(*load.args, seed, flush=True)
    lines = table(pd.DataFrame(found))
    fill(PAGE, "prior shift", lines)
    print(*lines, sep="\n")


if __name__ == "__main__":
    main()
