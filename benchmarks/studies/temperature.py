"""A temperature for each metric, judged by ECE (Nixon 2020, Table 3; Figure 1, right).

The paper's claims: when temperature scaling optimises each of the 32 metrics in turn, ECE is
"dominated by the similarity of the calibration measure to itself" (least after even bins, the
largest probability and no class conditions), while a control, RMSCE, hardly tells them apart;
and the temperature of least calibration error is not that of least cross-entropy.

``python -m benchmarks.studies.temperature [PATH.npz]`` prints the temperature of each metric and,
by property, the mean ECE and RMSCE on the test rows. The paper searches by Nelder-Mead, which
stops in the nearest minimum; here the search covers [0.2, 10].
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import pandas as pd
from sklearn.metrics import log_loss

from benchmarks.studies._arguments import study_parser
from benchmarks.studies._data import load_scores
from benchmarks.studies._nixon import GCE, PROPERTIES, gce_metrics
from skcalib import IdentityCalibrator, TemperatureScaling
from skcalib.metrics import expected_calibration_error, root_mean_squared_calibration_error


def main(argv: Sequence[str] | None = None) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Print the tables and return them: by metric (with "nll") and by property."""
    parser = study_parser(__doc__)
    parser.add_argument("--bins", type=int, default=15)
    parser.add_argument("--metrics", type=int, nargs="+", default=list(range(32)))
    args = parser.parse_args(argv)

    scores = load_scores(args.npz)
    metrics = gce_metrics(scores.classes, args.bins)
    ece = partial(expected_calibration_error, n_bins=args.bins, labels=scores.classes)
    control = partial(root_mean_squared_calibration_error, n_bins=args.bins, labels=scores.classes)
    rows = {}
    for name, objective in [("nll", "nll"), *((i, metrics[i]) for i in args.metrics)]:
        scaling = TemperatureScaling(objective=objective, input="logits", classes=scores.classes)
        P = scaling.fit(scores.fit_logits, scores.fit_labels).predict_proba(scores.test_logits)
        rows[name] = (
            scaling.temperature_,
            ece(scores.test_labels, P),
            control(scores.test_labels, P),
        )
    by_metric = pd.DataFrame(rows, index=["temperature", "ECE", "RMSCE"]).T
    print(by_metric.join(GCE).to_string(float_format="{:.4f}".format), end="\n\n")
    optimised = by_metric.drop(index="nll").reindex(range(32)).astype(float)
    by_property = pd.DataFrame(
        {name: optimised[held.to_numpy()].mean() for name, held in PROPERTIES.items()}
    ).T
    print(by_property.to_string(float_format="{:.4f}".format))

    if args.figure:
        from matplotlib.figure import Figure

        grid = np.geomspace(0.2, 10, 201)
        softened = IdentityCalibrator(input="logits", classes=scores.classes)
        softened.fit(scores.fit_logits, scores.fit_labels)
        P = [softened.predict_proba(scores.fit_logits / t) for t in grid]
        curves = {
            "ECE": [ece(scores.fit_labels, p) for p in P],
            "ACE (metric 24)": [metrics[24](scores.fit_labels, p) for p in P],
            "cross-entropy": [log_loss(scores.fit_labels, p, labels=scores.classes) for p in P],
        }
        figure = Figure(figsize=(8, 6), layout="constrained")
        for ax, (name, curve) in zip(
            figure.subplots(3, 1, sharex=True), curves.items(), strict=True
        ):
            ax.semilogx(grid, curve)
            best = grid[np.argmin(curve)]
            ax.axvline(best, color="C1", ls="--", label=f"least at T = {best:.2f}")
            ax.set(ylabel=name)
            ax.legend()
        ax.set(xlabel="temperature (calibration rows)")
        figure.savefig(args.figure, dpi=120)
    return by_metric, by_property


if __name__ == "__main__":
    main()
