"""Calibration error of each class (Nixon 2019, Figures 1 and 11; 2020, Figure 1).

The paper's claim: the error is not the same for all classes, which a number for all of them, or
for the largest probability alone, cannot show.

``python -m benchmarks.studies.per_class [PATH.npz]`` prints SCE, ACE and TACE of each class before
and after temperature scaling, and what the paper leaves out: how far classes would differ by
chance. ``p`` is the share of label sets, drawn from the temperature-scaled probabilities
themselves, whose errors vary between classes as much as those seen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from benchmarks.studies._arguments import study_parser
from benchmarks.studies._data import load_scores
from skcalib import IdentityCalibrator, TemperatureScaling
from skcalib.metrics import (
    adaptive_calibration_error,
    calibration_test,
    static_calibration_error,
    thresholded_adaptive_calibration_error,
)

ERRORS = {
    "SCE": static_calibration_error,
    "ACE": adaptive_calibration_error,
    "TACE": thresholded_adaptive_calibration_error,
}


def deviation(
    error: Callable[..., Any], y_true: ArrayLike, y_proba: ArrayLike, *, labels: ArrayLike
) -> float:
    """Return the standard deviation of an error between classes."""
    return float(np.std(error(y_true, y_proba, average=None, labels=labels)))


def main(argv: Sequence[str] | None = None) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Print both tables and return them: by class, and the spread between classes."""
    parser = study_parser(__doc__)
    parser.add_argument("--resamples", type=int, default=200)
    args = parser.parse_args(argv)

    scores = load_scores(args.npz)
    common = {"input": "logits", "classes": scores.classes}
    by_class, spread = pd.DataFrame(index=scores.classes), {}
    for when, calibrator in (
        ("before", IdentityCalibrator(**common)),
        ("after T", TemperatureScaling(**common)),
    ):
        P = calibrator.fit(scores.fit_logits, scores.fit_labels).predict_proba(scores.test_logits)
        for name, error in ERRORS.items():
            each = error(scores.test_labels, P, average=None, labels=scores.classes)
            by_class[f"{name}, {when}"] = each
            spread[f"{name}, {when}"] = {
                "mean": each.mean(),
                "least": each.min(),
                "most": each.max(),
                "sd": each.std(),
            }
            if when == "after T":
                chance = calibration_test(
                    partial(deviation, error),
                    scores.test_labels,
                    P,
                    n_resamples=args.resamples,
                    labels=scores.classes,
                    random_state=0,
                )
                spread[f"{name}, {when}"] |= {"sd by chance": chance.mean, "p": chance.pvalue}
    summary = pd.DataFrame(spread).T
    print(by_class.to_string(float_format="{:.4f}".format), end="\n\n")
    print(summary.to_string(float_format="{:.4f}".format))

    if args.figure:
        from matplotlib.figure import Figure

        figure = Figure(figsize=(10, 7), layout="constrained")
        for ax, name in zip(figure.subplots(3, 1, sharex=True), ERRORS, strict=True):
            order = by_class[f"{name}, before"].argsort()[::-1]
            for j, when in enumerate(("before", "after T")):
                height = by_class[f"{name}, {when}"].to_numpy()[order]
                ax.bar(np.arange(len(order)) + 0.4 * (j - 0.5), height, 0.4, label=when)
            ax.set(ylabel=name)
        ax.set(xlabel="classes, most to least error before")
        figure.axes[0].legend()
        figure.savefig(args.figure, dpi=120)
    return by_class, summary


if __name__ == "__main__":
    main()
