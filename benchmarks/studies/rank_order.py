"""Rank order of 8 calibrators under 32 metrics, and how far metrics agree (Nixon 2020).

The paper's claims: the metrics give dramatically different orders of the same recalibrated
probabilities (Table 5), and over 10 models of one architecture those with the L2 norm agree more
than those with the L1 norm (mean rank correlations by property, Table 4).

``python -m benchmarks.studies.rank_order [PATH.npz]`` prints the order under each metric, then
the mean of Spearman's correlation over pairs of metrics with a property, over the 8 calibrators
and, on digits, over 10 networks that differ by their seed. The paper prints the correlation
without the square in its sum; Spearman's has it. With at most 100 classes the threshold cannot
touch the largest probability, so that some pairs of metrics are one and correlate by 1.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from benchmarks.studies._arguments import study_parser
from benchmarks.studies._data import load_scores
from benchmarks.studies._nixon import GCE, gce_metrics, mean_rank_correlation, recalibrate
from skcalib import IdentityCalibrator


def main(argv: Sequence[str] | None = None) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Print the tables and return the errors (32 x 8) and the mean correlations."""
    parser = study_parser(__doc__)
    parser.add_argument("--bins", type=int, default=15)
    parser.add_argument("--models", type=int, default=10, help="networks on digits")
    args = parser.parse_args(argv)

    scores = load_scores(args.npz)
    metrics = gce_metrics(scores.classes, args.bins)
    methods = recalibrate(scores)
    errors = pd.DataFrame(
        {name: [metric(scores.test_labels, P) for metric in metrics] for name, P in methods.items()}
    )
    print("\n".join(f"{i}: {name}" for i, name in enumerate(methods)), end="\n\n")
    order = np.argsort(errors.to_numpy(), axis=1, kind="stable")
    best_first = [" ".join(map(str, row)) for row in order]
    print(GCE.assign(best_first=best_first).to_string(), end="\n\n")

    correlation = pd.DataFrame({"calibrators": mean_rank_correlation(errors.to_numpy())})
    if args.npz is None and args.models > 1:
        identity = IdentityCalibrator(input="logits", classes=scores.classes)
        networks = []
        for seed in range(args.models):
            s = load_scores(model_seed=seed)
            P = identity.fit(s.fit_logits, s.fit_labels).predict_proba(s.test_logits)
            networks.append([metric(s.test_labels, P) for metric in metrics])
        correlation["networks"] = mean_rank_correlation(np.array(networks).T)
    print("Mean rank correlation of pairs of metrics")
    print(correlation.to_string(float_format="{:.3f}".format))
    print(f"\nMethods ranked first: {sorted({int(i) for i in order[:, 0]})}")

    if args.figure:
        from matplotlib.figure import Figure

        figure = Figure(figsize=(9, 9), layout="constrained")
        ax = figure.subplots()
        rank = errors.rank(axis=1)
        image = ax.imshow(rank, aspect="auto", cmap="viridis_r")
        ax.set_xticks(range(8), list(methods), rotation=30, ha="right")
        names = [
            f"{i}: {g.strategy}, {'top' if g.max_prob else 'all'}, "
            f"{'class-wise, ' if g.class_conditional else ''}> {g.threshold:g}, {g.norm}"
            for i, g in enumerate(GCE.itertuples())
        ]
        ax.set_yticks(range(32), names)
        figure.colorbar(image, ax=ax, label="rank (1 = least error)")
        figure.savefig(args.figure, dpi=120)
    return errors, correlation


if __name__ == "__main__":
    main()
