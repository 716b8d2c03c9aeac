"""Class-conditional against joint histogram binning (Nixon 2020, Tables 1 and 2).

The paper's claim: ECE flatters joint histogram binning, which pools the entries of all classes in
one set of bins and so optimises what ECE measures. Class-conditional ECE (metric 0) gives it an
error three to five times as large relative to the uncalibrated one, and prefers the
class-conditional form, while ECE prefers the joint form.

``python -m benchmarks.studies.histogram [PATH.npz]`` prints mean and standard error over random
splits of the rows into calibration and test parts of the given sizes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from benchmarks.studies._arguments import study_parser
from benchmarks.studies._data import load_scores
from skcalib import HistogramBinning, IdentityCalibrator
from skcalib.metrics import general_calibration_error


def main(argv: Sequence[str] | None = None) -> pd.DataFrame:
    """Print the table and return the means, metric by calibrator."""
    parser = study_parser(__doc__)
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--bins", type=int, default=15, help="of calibrators and errors")
    args = parser.parse_args(argv)

    scores = load_scores(args.npz)
    Z = np.vstack([scores.fit_logits, scores.test_logits])
    y = np.concatenate([scores.fit_labels, scores.test_labels])
    common = {"input": "logits", "classes": scores.classes}
    calibrators = {
        "uncalibrated": IdentityCalibrator(**common),
        "joint": HistogramBinning(n_bins=args.bins, class_conditional=False, **common),
        "class-conditional": HistogramBinning(n_bins=args.bins, **common),
    }
    metrics = {"ECE": False, "class-conditional ECE": True}
    errors = np.empty((args.repeats, len(metrics), len(calibrators)))
    for i in range(args.repeats):
        rows = np.random.default_rng(i).permutation(len(y))
        fit, test = np.split(rows, [len(scores.fit_labels)])
        for j, calibrator in enumerate(calibrators.values()):
            P = calibrator.fit(Z[fit], y[fit]).predict_proba(Z[test])
            errors[i, :, j] = [
                general_calibration_error(
                    y[test], P, class_conditional=by_class, n_bins=args.bins, labels=scores.classes
                )
                for by_class in metrics.values()
            ]
    mean = pd.DataFrame(errors.mean(axis=0), index=list(metrics), columns=list(calibrators))
    spread = errors.std(axis=0, ddof=1) / np.sqrt(args.repeats) if args.repeats > 1 else None
    print(mean.to_string(float_format="{:.4f}".format))
    if spread is not None:
        print("standard errors")
        print(
            pd.DataFrame(spread, mean.index, mean.columns).to_string(float_format="{:.4f}".format)
        )
    share = mean.div(mean["uncalibrated"], axis=0)["joint"]
    print(
        f"\njoint / uncalibrated: {share['ECE']:.2f} by ECE, "
        f"{share['class-conditional ECE']:.2f} by class-conditional ECE"
    )

    if args.figure:
        from matplotlib.figure import Figure

        figure = Figure(figsize=(7, 4), layout="constrained")
        ax = figure.subplots()
        for j, name in enumerate(calibrators):
            ax.bar(
                np.arange(2) + 0.27 * (j - 1),
                mean[name],
                0.25,
                yerr=None if spread is None else spread[:, j],
                label=name,
            )
        ax.set_xticks(range(2), list(metrics))
        ax.set(ylabel="error")
        ax.legend(title="histogram binning")
        figure.savefig(args.figure, dpi=120)
    return mean


if __name__ == "__main__":
    main()
