"""The 450/550 pathology of ECE: two wrongs in one bin cancel (Nixon 2020, Figure 4).

The paper's claim: 450 predictions of 0.52 that are all wrong and 550 of 0.58 that are all right
have an ECE of about 0.003, although each is wrong by about a half: over- and under-confident
predictions that share a bin cancel. The true error, E|p - P(right | p)|, is 0.465.

``python -m benchmarks.studies.pathology`` prints every error of these predictions; the figure
shows ECE against the number of bins.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.studies._arguments import study_parser
from skcalib.metrics import (
    debiased_calibration_error,
    expected_calibration_error,
    kde_calibration_error,
    ks_calibration_error,
    label_binned_calibration_error,
    maximum_mean_calibration_error,
    root_mean_squared_calibration_error,
    smooth_calibration_error,
    soft_binned_calibration_error,
    static_calibration_error,
    sweep_calibration_error,
)

BINS = np.arange(1, 51)
ERRORS: dict[str, Callable[..., Any]] = {
    "ECE, 10 even bins (the paper's)": partial(expected_calibration_error, n_bins=10),
    "ECE, 15 even bins": expected_calibration_error,
    "ECE, 20 even bins": partial(expected_calibration_error, n_bins=20),
    "ECE, 10 adaptive bins": partial(expected_calibration_error, n_bins=10, strategy="quantile"),
    "SCE, 10 even bins": partial(static_calibration_error, n_bins=10),
    "RMSCE, 15 adaptive bins": root_mean_squared_calibration_error,
    "ECE_lb, 10 even bins": partial(
        label_binned_calibration_error, n_bins=10, strategy="uniform", norm="l1"
    ),
    "SB-ECE": soft_binned_calibration_error,
    "debiased l2": debiased_calibration_error,
    "sweep": sweep_calibration_error,
    "KS": ks_calibration_error,
    "smooth (smECE)": smooth_calibration_error,
    "kernel density": kde_calibration_error,
    "MMCE": maximum_mean_calibration_error,
}


def main(argv: Sequence[str] | None = None) -> pd.Series:
    """Print the table and return it."""
    args = study_parser(__doc__, npz=False).parse_args(argv)
    # Two classes: the second is predicted throughout, and is the label of the last 550 rows.
    p = np.repeat([0.52, 0.58], [450, 550])
    y = np.repeat([0, 1], [450, 550])
    P = np.column_stack([1 - p, p])
    errors = {"true error": 0.45 * 0.52 + 0.55 * 0.42}
    errors |= {name: float(error(y, P)) for name, error in ERRORS.items()}
    table = pd.Series(errors, name="error")
    print(table.to_frame().to_string(float_format="{:.4f}".format))
    if args.figure:
        from matplotlib.figure import Figure

        figure = Figure(figsize=(7, 4), layout="constrained")
        ax = figure.subplots()
        ece = [expected_calibration_error(y, P, n_bins=int(b)) for b in BINS]
        ax.plot(BINS, ece, "o-", ms=3, lw=0.8, label="ECE, even bins")
        ax.axhline(errors["true error"], color="black", ls="--", label="true error")
        ax.axhline(errors["KS"], color="C1", label="KS (no bins)")
        ax.set(
            xlabel="number of bins", ylabel="error", title="450 wrong at 0.52, 550 right at 0.58"
        )
        ax.legend(loc="lower right")
        figure.savefig(args.figure, dpi=120)
    return table


if __name__ == "__main__":
    main()
