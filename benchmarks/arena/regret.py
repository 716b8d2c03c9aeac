"""How far is the recommended calibrator from the best one? On real models of real data.

``python -m benchmarks.arena.regret [FILES ...]`` runs every calibrator that `compare_calibrators`
tries by default on the arena's sets and on files, and writes a table into ``regret.md``. The losses
of each run are stored in a folder, so that rules are compared without a fit. Files are ``.npz``
with ``logits`` or ``probs`` (n, K) and ``labels`` (n,).

Regret is the log loss of the chosen calibrator, fitted on all n rows, over that of the best one in
hindsight, less 1, on up to 4,000 other rows.
"""

from __future__ import annotations

import argparse
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks._shared.model_scores import Scores, stored, tell_left_out
from benchmarks._shared.report import fill, markdown
from benchmarks._shared.timing import quiet
from benchmarks.arena.run import Experiment, experiments
from skcalib._comparison.comparison import choose
from skcalib._comparison.held_out import fit_rows, in_folds, predict_held_out, read_rows
from skcalib._comparison.measures import LOG_LOSS, row_log_loss
from skcalib.calibrators._names import calibrators_by_name
from skcalib.metrics._statistics.scores import RowLosses

Array = NDArray[np.float64]

PAGE = Path(__file__).parent / "regret.md"
IDENTITY, ANCHOR = "identity", "auto"
# Rows to measure on.
FEWEST_TEST_ROWS, MOST_TEST_ROWS = 500, 4_000
# With more classes than these only so many rows are calibrated on, so that a run takes seconds.
MANY_CLASSES, MOST_ROWS_OF_MANY = 30, 300
# A chosen calibrator does harm if its loss is so much larger than the identity's; the identity is
# chosen wrongly if its loss is so much larger than the best.
HARM, MISSED = 0.01, 0.05
# A run counts if the best loss is as large: below, a model is right on nearly every row, and the
# best in hindsight is the most confident one.
LEAST_LOSS = 0.01


class Run(NamedTuple):
    """What the calibrators did on one draw of n rows.

    ``names (C,)``, the identity among them; ``held_out (C, n)`` log losses of rows that were not
    fitted on, ``pseudo_error (C,)``; ``test (C, m)`` log losses of m other rows, where the
    calibrator was fitted on all n rows.
    """

    family: str
    n: int
    names: list[str]
    held_out: Array
    pseudo_error: Array
    test: Array

    def losses(self) -> dict[str, float]:
        """Return the mean loss of each calibrator on the test rows."""
        return dict(zip(self.names, self.test.mean(axis=1).tolist(), strict=True))

    def chosen_of(self, names: Sequence[str]) -> str:
        """Return what `compare_calibrators` recommends if it tries these calibrators."""
        rows = zip(self.names, self.held_out, self.pseudo_error.tolist(), strict=True)
        w = np.ones(self.n)
        held = {name: RowLosses(losses, error, w) for name, losses, error in rows if name in names}
        return choose(held).name


RULES: dict[str, Callable[[Run], str]] = {
    "**the rule of `compare_calibrators`**": lambda run: run.chosen_of(run.names),
    "auto or the identity, no other": lambda run: run.chosen_of([IDENTITY, ANCHOR]),
    "the rule, auto not in the list": lambda run: run.chosen_of(
        [name for name in run.names if name != ANCHOR]
    ),
    "lowest held-out loss": lambda run: run.names[run.held_out.mean(axis=1).argmin()],
    "always auto": lambda _: ANCHOR,
    "always temperature": lambda _: "temperature",
    "always the identity": lambda _: IDENTITY,
}


def run(scores: Scores, n: int, rng: np.random.Generator) -> Run:
    """Fit every calibrator to n rows drawn at random: in five folds, and to all of them."""
    S = np.concatenate([scores.pool, scores.test])
    y = np.concatenate([scores.pool_labels, scores.test_labels])
    order = rng.permutation(len(y))
    fit, test = order[:n], order[n : n + MOST_TEST_ROWS]
    checked = read_rows(S[fit], y[fit], None, input=scores.kind, classes=np.arange(S.shape[1]))
    data = in_folds(checked, 5)
    results: dict[str, tuple[RowLosses, Array]] = {}
    with quiet(), np.errstate(all="ignore"):
        for name, calibrator in calibrators_by_name().items():
            losses = LOG_LOSS.losses(predict_held_out(calibrator, data)[0])
            P = fit_rows(calibrator, data).predict_proba(S[test])
            results[name] = losses, row_log_loss(P, y[test])
    return Run(
        scores.family,
        n,
        list(results),
        np.array([held.losses for held, _ in results.values()], dtype=np.float32),
        np.array([held.pseudo_error for held, _ in results.values()]),
        np.array([losses for _, losses in results.values()], dtype=np.float32),
    )


def run_all(chosen: Iterable[Experiment], sizes: Sequence[int], folder: Path) -> Iterator[Run]:
    """Yield every run, and print a line for a set that cannot be loaded."""
    for data, model, _, load in chosen:
        name = data if model == "file" else f"{data}-{model}"
        try:
            with quiet():
                scores = load()
        except Exception as error:  # a set that cannot be loaded does not end the others
            print(f"{name}: {type(error).__name__}: {error}", flush=True)
            continue
        rows, n_classes = len(scores.pool) + len(scores.test), scores.pool.shape[1]
        for n in sizes:
            if rows < n + FEWEST_TEST_ROWS or (n_classes > MANY_CLASSES and n > MOST_ROWS_OF_MANY):
                continue
            rng = np.random.default_rng([zlib.crc32(name.encode()), n, 0])
            path, make = folder / f"{name}-{n}-0.npz", partial(run, scores, n, rng)
            _, _, names, *arrays = stored(path, Run._fields, make)
            yield Run(scores.family, n, names.tolist(), *arrays)


def weights(runs: Sequence[Run]) -> Array:
    """Return weights of runs with which every family has the same."""
    families = [run.family for run in runs]
    w = np.array([1 / families.count(family) for family in families])
    return w / w.sum()


def quantile(values: Array, w: Array, share: float) -> float:
    """Return the least value up to which at least a share of the weight lies."""
    order = values.argsort()
    reached = np.cumsum(w[order])
    return float(values[order][min(np.searchsorted(reached, share - 1e-12), len(values) - 1)])


def best_loss(run: Run) -> float:
    """Return the loss of the best calibrator in hindsight."""
    return min(run.losses().values())


def regrets(runs: Sequence[Run], rule: Callable[[Run], str]) -> tuple[Array, Array, Array]:
    """Return by run: loss over the best, less 1; loss less the best; over the identity's, less 1.

    The last is NaN where the identity is chosen.
    """
    rows = []
    for run in runs:
        losses, name = run.losses(), rule(run)
        best = best_loss(run)
        over = np.nan if name == IDENTITY else losses[name] / losses[IDENTITY] - 1
        rows.append((losses[name] / best - 1, losses[name] - best, over))
    regret, nats, over_identity = np.array(rows).T
    return regret, nats, over_identity


def table(runs: Sequence[Run]) -> list[str]:
    """Return the lines of the table of rules."""
    size = np.array([run.n for run in runs])
    parts = [size == n for n in np.unique(size)]
    of_part = [weights([run for run in runs if run.n == n]) for n in np.unique(size)]
    heads = [f"n = {n:,}" for n in np.unique(size)]
    heads += ["all", "mnat", "95th", "worst", "identity kept, > 5 % lost", "> 1 % worse than it"]
    rows, w = [], weights(runs)
    for name, rule in RULES.items():
        regret, nats, over = regrets(runs, rule)
        missed, harm = np.isnan(over) & (regret > MISSED), over > HARM
        cells = [share @ regret[part] for share, part in zip(of_part, parts, strict=True)]
        cells += [w @ regret, 10 * w @ nats, quantile(regret, w, 0.95), regret.max()]
        cells += [w @ missed, w @ harm]
        rows.append([name, *(f"{100 * cell:.1f}" for cell in cells)])
    return markdown(["regret, %", *heads], rows, left=1)


def summary(runs: Sequence[Run]) -> list[str]:
    """Return the table and what it is of."""
    counted = [run for run in runs if best_loss(run) >= LEAST_LOSS]
    rule = next(iter(RULES.values()))
    regret, w = regrets(counted, rule)[0], weights(counted)
    families = np.array([run.family for run in counted])
    means = [regret[families == family].mean() for family in np.unique(families)]
    error = 100 * np.std(means) / np.sqrt(max(len(means) - 1, 1))
    return [
        f"{len(counted):,} runs on {len(means)} sets of data. The rule's mean",
        f"regret is {100 * w @ regret:.1f} %, with a standard error of {error:.1f} over the sets.",
        f"{len(runs) - len(counted)} runs are left out, where the best loss is below "
        f"{LEAST_LOSS:g}.",
        "",
        *table(counted),
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run what is not yet in the folder, and write the page."""
    parser = argparse.ArgumentParser(prog="benchmarks.arena.regret", description=__doc__)
    parser.add_argument("files", nargs="*", type=Path, help=".npz files of scores")
    parser.add_argument(
        "--n", type=int, nargs="+", default=[100, 300, 1000, 3000], help="rows to fit"
    )
    parser.add_argument("--data", nargs="+", help="names of sets and files; all")
    parser.add_argument("--page", type=Path, default=PAGE, help="the page to write")
    cache = Path(tempfile.gettempdir()) / "regret-runs"
    parser.add_argument("--cache", type=Path, default=cache, help="of losses")
    options = parser.parse_args(arguments)
    if options.data is None:
        tell_left_out()
    chosen = experiments(1, options.data, options.files)
    lines = summary(list(run_all(chosen, options.n, options.cache)))
    fill(options.page, "regret", lines)
    print(*lines, sep="\n")


if __name__ == "__main__":
    main()
