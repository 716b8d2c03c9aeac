"""Bias and variance of each error against the number of rows (Nixon 2019, Figure 7).

The paper's claim: on simulated data ECE is on average higher than ACE and TACE, which shows that
these "converge to the true calibration error faster with less variance".

``python -m benchmarks.studies.bias_variance`` draws labels from known probabilities, so that the
value that an error tends to is known: every row of a large sample carries each label once, with
its probability as weight. Each error is held against its own limit, because they do not measure
the same thing; ``bias`` is the mean minus the limit and ``sd`` the standard deviation, for a
calibrated model (sharpening 1) and one whose logits are half as large again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from benchmarks._shared.data import draw, population_value, sample_labels
from benchmarks.studies._arguments import study_parser
from skcalib.metrics import (
    adaptive_calibration_error,
    debiased_calibration_error,
    expected_calibration_error,
    ks_calibration_error,
    root_mean_squared_calibration_error,
    smooth_calibration_error,
    static_calibration_error,
    thresholded_adaptive_calibration_error,
    top_label_brier_score,
)

ERRORS: dict[str, Callable[..., Any]] = {
    "ECE": expected_calibration_error,
    "SCE": static_calibration_error,
    "ACE": adaptive_calibration_error,
    "TACE": thresholded_adaptive_calibration_error,
    "ACE, 2019": partial(thresholded_adaptive_calibration_error, version=1, threshold=0.0),
    "TACE, 2019": partial(thresholded_adaptive_calibration_error, version=1),
    "RMSCE": root_mean_squared_calibration_error,
    "debiased l2": debiased_calibration_error,
    "KS": ks_calibration_error,
    "smECE": smooth_calibration_error,
    "top-label Brier": top_label_brier_score,
}


def main(argv: Sequence[str] | None = None) -> pd.DataFrame:
    """Print the tables and return all of it in one frame."""
    parser = study_parser(__doc__, npz=False)
    parser.add_argument("--rows", type=int, nargs="+", default=[100, 300, 1000, 3000])
    parser.add_argument("--samples", type=int, default=50)
    parser.add_argument("--sharpening", type=float, nargs="+", default=[1.0, 1.5])
    parser.add_argument("--errors", nargs="+", choices=ERRORS, default=list(ERRORS))
    args = parser.parse_args(argv)

    records = []
    for sharpening in args.sharpening:
        limit = {
            # Rounded: a calibrated model's is 0 but for the last bits of a long sum.
            name: round(population_value(ERRORS[name], sharpening), 12)
            for name in args.errors
        }
        for n in args.rows:
            values: dict[str, list[float]] = {name: [] for name in args.errors}
            for i in range(args.samples):
                rng = np.random.default_rng([n, i])
                truth, P = draw(n, sharpening, rng)
                y = sample_labels(truth, rng)
                for name in args.errors:
                    values[name].append(float(ERRORS[name](y, P, labels=np.arange(P.shape[1]))))
            for name, sample in values.items():
                mean, sd = np.mean(sample), np.std(sample, ddof=1)
                records.append((sharpening, name, n, limit[name], mean - limit[name], sd))
    columns = ["sharpening", "error", "n", "limit", "bias", "sd"]
    table = pd.DataFrame(records, columns=columns)
    wide = table.pivot(index=["sharpening", "error", "limit"], columns="n", values=["bias", "sd"])
    order = table[["sharpening", "error", "limit"]].drop_duplicates()
    wide = wide.loc[list(order.itertuples(index=False, name=None))]
    print(wide.to_string(float_format="{:.4f}".format))

    if args.figure:
        from matplotlib.figure import Figure

        figure = Figure(figsize=(11, 4.5 * len(args.sharpening)), layout="constrained")
        axes = figure.subplots(len(args.sharpening), 2, sharex=True, squeeze=False)
        for row, sharpening in zip(axes, args.sharpening, strict=True):
            for ax, column in zip(row, ("bias", "sd"), strict=True):
                for j, name in enumerate(args.errors):
                    part = table[(table.error == name) & (table.sharpening == sharpening)]
                    style = "-" if j < 6 else "--"
                    color = "black" if j == 10 else f"C{j}"
                    ax.semilogx(part.n, part[column], style, c=color, marker="o", ms=3, label=name)
                ax.set(ylabel=column, title=f"sharpening {sharpening:g}")
                ax.set_xticks(args.rows, [str(n) for n in args.rows], minor=False)
                ax.minorticks_off()
            row[0].axhline(0, color="black", lw=0.8)
        for ax in axes[-1]:
            ax.set_xlabel("rows")
        figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside right center")
        figure.savefig(args.figure, dpi=120)
    return table


if __name__ == "__main__":
    main()
