"""How far is the recommended calibrator from the best one? On real models of real data.

``python -m benchmarks.regret [FILES ...]`` runs every calibrator that `compare_calibrators` tries
by default on the arena's sets and on files, and writes tables between the markers of a page. The
losses of each run are kept in a folder, so that rules are compared without a fit. Files are
``.npz`` with ``logits`` or ``probs`` (n, K) and ``labels`` (n,).

Regret is the log loss of the chosen calibrator, fitted on all n rows, over that of the best one in
hindsight, less 1, on up to 4,000 other rows.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks._shared.model_scores import MODELS, design_half, tell_left_out
from benchmarks._shared.report import fill
from benchmarks.regret.rules import ANCHOR, IDENTITY, RULES, Rule
from benchmarks.regret.runs import Run, run_all, sources
from skcalib._comparison.choice import choose

Array = NDArray[np.float64]

HERE = Path(__file__).parent
# A chosen calibrator does harm if its loss is so much larger than the identity's; the identity is
# kept wrongly if its loss is so much larger than the best.
HARM, MISSED = 0.01, 0.05
# A run counts if the best loss is as large: below, a model is right on nearly every row, and the
# best in hindsight is whoever is the most sure of itself.
LEAST_LOSS = 0.01


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


def regrets(runs: Sequence[Run], rule: Rule) -> tuple[Array, Array, Array]:
    """Return by run: loss over the best, less 1; loss less the best; over the identity's, less 1.

    The last is NaN where the identity is chosen.
    """
    found = []
    for run in runs:
        losses, name = run.losses(), rule(run)
        best = best_loss(run)
        over = np.nan if name == IDENTITY else losses[name] / losses[IDENTITY] - 1
        found.append((losses[name] / best - 1, losses[name] - best, over))
    regret, nats, over_identity = np.array(found).T
    return regret, nats, over_identity


def table(runs: Sequence[Run]) -> list[str]:
    """Return the lines of the table of rules."""
    size = np.array([run.n for run in runs])
    parts = [size == n for n in np.unique(size)]
    of_part = [weights([run for run in runs if run.n == n]) for n in np.unique(size)]
    heads = [f"n = {n:,}" for n in np.unique(size)]
    heads += ["all", "mnat", "95th", "worst", "identity kept, > 5 % lost", "> 1 % worse than it"]
    lines = [f"| regret, % | {' | '.join(heads)} |", "|---|" + "--:|" * len(heads)]
    w = weights(runs)
    for name, rule in RULES.items():
        regret, nats, over = regrets(runs, rule)
        missed, harm = np.isnan(over) & (regret > MISSED), over > HARM
        cells = [share @ regret[part] for share, part in zip(of_part, parts, strict=True)]
        cells += [w @ regret, 10 * w @ nats, quantile(regret, w, 0.95), regret.max()]
        cells += [w @ missed, w @ harm]
        lines.append(f"| {name} | {' | '.join(f'{100 * cell:.1f}' for cell in cells)} |")
    return lines


def evidence(runs: Sequence[Run]) -> list[str]:
    """Return the lines of the table of auto's gain over the identity and its interval.

    A verdict is wrong if auto's loss on the test rows says the opposite.
    """
    lines = [
        "| auto's gain over the identity | runs | said to be > 0 | of these wrongly "
        "| said to be < 0 | of these wrongly |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    for n in sorted({run.n for run in runs}):
        part = [run for run in runs if run.n == n]
        w, said, gain = weights(part), [], []
        for run in part:
            found, losses = run.found(), run.losses()
            two = {name: found[name] for name in (IDENTITY, ANCHOR)}
            choice = choose(two, np.ones(run.n))
            said.append((choice.low > 0) - (choice.high < 0))
            gain.append(losses[IDENTITY] - losses[ANCHOR])
        sign, true = np.array(said), np.array(gain)
        cells = [f"{w @ (sign == s):.2f} | {((sign == s) & (s * true < 0)).sum()}" for s in (1, -1)]
        lines.append(f"| n = {n:,} | {len(part)} | {' | '.join(cells)} |")
    return lines


def page(runs: Sequence[Run]) -> list[str]:
    """Return both tables and what they are of."""
    rule = next(iter(RULES.values()))
    more = [run.losses()[rule(run)] - best_loss(run) for run in runs]
    bounded = np.array(more) / [max(best_loss(run), LEAST_LOSS) for run in runs]
    with_all = weights(runs) @ bounded
    number = len(runs)
    runs = [run for run in runs if best_loss(run) >= LEAST_LOSS]
    regret, w = regrets(runs, rule)[0], weights(runs)
    families = np.array([run.family for run in runs])
    means = [regret[families == family].mean() for family in np.unique(families)]
    error = 100 * np.std(means) / np.sqrt(max(len(means) - 1, 1))
    return [
        f"{len(runs):,} runs on {len(means)} sets of data. The rule's mean",
        f"regret is {100 * w @ regret:.1f} %, with a standard error of {error:.1f} over the sets.",
        f"{number - len(runs)} runs are left out, where the best loss is below {LEAST_LOSS:g}:",
        f"with them, and {LEAST_LOSS:g} for their best loss, it is {100 * with_all:.1f} %.",
        "",
        *table(runs),
        "",
        *evidence(runs),
    ]


def listed(text: str) -> list[str]:
    """Read names between commas."""
    return text.split(",")


def counts(text: str) -> list[int]:
    """Read whole numbers between commas."""
    return [int(number) for number in text.split(",")]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run what is not yet in the folder, and write the page."""
    parser = argparse.ArgumentParser(prog="benchmarks.regret", description=__doc__)
    parser.add_argument("files", nargs="*", type=Path, help=".npz files of scores")
    parser.add_argument("--n", type=counts, default=[100, 300, 1000, 3000], help="rows to fit")
    parser.add_argument("--draws", type=int, default=1, help="draws of rows for each model and n")
    parser.add_argument("--data", type=listed, help="names of sets; all")
    parser.add_argument("--models", type=listed, default=list(MODELS), help="names of models; all")
    parser.add_argument("--half", choices=("design", "other"), help="half of the families alone")
    parser.add_argument("--page", type=Path, default=HERE / "table.md", help="the page to write")
    temporary = Path(tempfile.gettempdir())
    parser.add_argument("--cache", type=Path, default=temporary / "regret-runs", help="of losses")
    parser.add_argument("--scores", type=Path, default=temporary / "arena-scores")
    options = parser.parse_args(arguments)
    if options.data is None:
        tell_left_out()
    runs: list[Run] = []
    chosen = sources(options.files, options.data, options.models, options.scores)
    for found in run_all(chosen, options.n, options.draws, options.cache):
        if isinstance(found, Run):
            runs.append(found)
        else:
            print(found, flush=True)
    if options.half is not None:
        design = design_half(run.family for run in runs)
        runs = [run for run in runs if (run.family in design) == (options.half == "design")]
    lines = page(runs)
    fill(options.page, "regret", lines)
    print(*lines, sep="\n")


if __name__ == "__main__":
    main()
