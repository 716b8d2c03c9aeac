"""Five calibrators under ECE, TACE, SCE and ACE (Nixon 2019, Tables 1 and 2).

The paper's claims: temperature scaling has the least ECE on CIFAR-100 but falls short of vector
scaling under SCE and ACE, which look at all probabilities.

``python -m benchmarks.studies.post_processing [PATH.npz ...]`` prints the table of each file in per
cent, with the rows of the paper's two networks below. The errors are those of the paper's first
version: SCE class by class in even bins; TACE pools the probabilities above 0.01 of all classes in
ranges of equal size, and ACE is TACE without a threshold. The paper does not say how its vector and
matrix scaling were fitted; here they have no penalty.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import pandas as pd

from benchmarks.studies._arguments import study_parser
from benchmarks.studies._data import load_scores
from skcalib import (
    IdentityCalibrator,
    IsotonicCalibrator,
    MatrixScaling,
    TemperatureScaling,
    VectorScaling,
)
from skcalib.metrics import (
    expected_calibration_error,
    static_calibration_error,
    thresholded_adaptive_calibration_error,
)

ERRORS = {
    "ECE": expected_calibration_error,
    "TACE": partial(thresholded_adaptive_calibration_error, version=1),
    "SCE": static_calibration_error,
    "ACE": partial(thresholded_adaptive_calibration_error, version=1, threshold=None),
}
METHODS = ("uncalibrated", "temperature", "vector", "matrix", "isotonic")
PAPER = {
    "ResNet-110 on CIFAR-100 (Table 1)": [
        [19.638, 10.093, 0.412, 0.131],
        [2.155, 0.518, 0.057, 0.057],
        [2.272, 0.613, 0.037, 0.0133],
        [12.112, 3.983, 0.264, 0.257],
        [17.851, 2.827, 0.353, 0.118],
    ],
    "ResNet-50 on ImageNet (Table 2)": [
        [6.626, 2.511, 0.016, 0.0146],
        [5.420, 2.637, 0.010, 0.0007],
        [1.443, 1.249, 0.002, 0.0044],
        [5.061, 1.980, 0.010, 0.0005],
        [3.474, 1.862, 0.008, 0.0000],
    ],
}


def measure(path: str | None, n_bins: int) -> pd.DataFrame:
    """Return the errors of the test rows after each method, in per cent."""
    scores = load_scores(path)
    common: dict[str, Any] = {"input": "logits", "classes": scores.classes}
    calibrators = (
        IdentityCalibrator(**common),
        TemperatureScaling(**common),
        VectorScaling(penalty=None, **common),
        MatrixScaling(penalty=None, **common),
        IsotonicCalibrator(**common),
    )
    rows = {}
    for name, calibrator in zip(METHODS, calibrators, strict=True):
        P = calibrator.fit(scores.fit_logits, scores.fit_labels).predict_proba(scores.test_logits)
        rows[name] = {
            error: 100 * metric(scores.test_labels, P, n_bins=n_bins, labels=scores.classes)
            for error, metric in ERRORS.items()
        }
    return pd.DataFrame(rows).T


def main(argv: Sequence[str] | None = None) -> dict[str, pd.DataFrame]:
    """Print the tables and return them, by file and the paper's two last."""
    parser = study_parser(__doc__, npz=False)
    parser.add_argument("npz", nargs="*", help="files of scores (default: digits)")
    parser.add_argument("--bins", type=int, default=15)
    args = parser.parse_args(argv)

    tables = {path or "digits": measure(path, args.bins) for path in args.npz or [None]}
    published = {
        f"{name}, published": pd.DataFrame(rows, index=list(METHODS), columns=list(ERRORS))
        for name, rows in PAPER.items()
    }
    tables |= published
    for name, table in tables.items():
        print(f"{name}, per cent")
        print(table.to_string(float_format="{:.3f}".format))
        best = ", ".join(f"{error} {method}" for error, method in table.idxmin().items())
        print(f"least: {best}", end="\n\n")

    if args.figure:
        from matplotlib.figure import Figure

        figure = Figure(figsize=(4 * len(tables), 4), layout="constrained")
        panels = figure.subplots(1, len(tables), squeeze=False, sharey=True)[0]
        for ax, (name, table) in zip(panels, tables.items(), strict=True):
            for error in ERRORS:
                ax.plot(METHODS, table[error] / table[error]["uncalibrated"], "o-", label=error)
            ax.set_title(name.rpartition("/")[2], fontsize="small")
            ax.tick_params("x", rotation=30)
        panels[0].set_ylabel("error over that of no calibration")
        panels[0].legend()
        figure.savefig(args.figure, dpi=120)
    return tables


if __name__ == "__main__":
    main()
