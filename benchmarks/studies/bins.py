"""How far the order of calibrators depends on the number of bins (Nixon 2020, section 5.3).

The paper's claim: the orders that one metric gives to the recalibration methods with 10, 20, 30,
40 and 50 bins agree more for adaptive bins (mean rank correlation 0.59) than for even ones (0.37),
for all probabilities (0.60) than for the largest (0.36), class by class (0.55) than pooled (0.41),
and for the L1 norm (0.54) than for the L2 norm (0.43); a threshold hardly matters.

``python -m benchmarks.studies.bins [PATH.npz]`` prints the mean of Spearman's correlation over
pairs of bin numbers and over the metrics with a property.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from benchmarks.studies._arguments import study_parser
from benchmarks.studies._data import load_scores
from benchmarks.studies._nixon import PROPERTIES, gce_metrics, recalibrate

PAPER = (0.3677, 0.5927, 0.3565, 0.6037, 0.5546, 0.4056, 0.5010, 0.4592, 0.5352, 0.4250)


def main(argv: Sequence[str] | None = None) -> pd.DataFrame:
    """Print the table and return it."""
    parser = study_parser(__doc__)
    parser.add_argument("--bins", type=int, nargs="+", default=[10, 20, 30, 40, 50])
    args = parser.parse_args(argv)

    scores = load_scores(args.npz)
    methods = recalibrate(scores)
    # (bins, 32, 8)
    errors = np.array(
        [
            [[metric(scores.test_labels, P) for P in methods.values()] for metric in metrics]
            for metrics in (gce_metrics(scores.classes, b) for b in args.bins)
        ]
    )
    pairs = np.triu_indices(len(args.bins), 1)
    agreement = np.array(
        [pd.DataFrame(errors[:, m].T).corr("spearman").to_numpy()[pairs].mean() for m in range(32)]
    )
    here = [agreement[held].mean() for held in PROPERTIES.values()]
    table = pd.DataFrame({"here": here, "paper": PAPER}, index=list(PROPERTIES))
    print(f"Mean rank correlation over {args.bins} bins")
    print(table.to_string(float_format="{:.3f}".format))
    print(f"all 32: {agreement.mean():.3f}")

    if args.figure:
        from matplotlib.figure import Figure

        figure = Figure(figsize=(8, 4), layout="constrained")
        ax = figure.subplots()
        for name, metric in (("ECE", 4), ("SCE", 8), ("RMSCE", 21), ("ACE", 24)):
            ax.plot(args.bins, errors[:, metric].mean(axis=1), "o-", label=name)
        ax.set(xlabel="number of bins", ylabel="mean error of the 8 calibrators", ylim=(0, None))
        ax.set_xticks(args.bins)
        ax.legend()
        figure.savefig(args.figure, dpi=120)
    return table


if __name__ == "__main__":
    main()
