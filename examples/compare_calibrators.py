r"""
Choose a calibrator for a model that is over- or under-confident
================================================================

This program fits five badly calibrated models on real data. For each model, it compares calibrators
and prints a table and a recommendation. The model is fitted on 40 % of the rows. On another 30 %,
cross-validation compares all calibrators and no calibration ("identity"), and chooses one. The
table shows the errors on the last 30 %; ``*`` marks the lowest value of each column.

If you pass the path of a file of predictions, the program compares calibrators on this file, like
``python -m skcalib compare``::

    python examples/compare_calibrators.py predictions.npz
"""

import sys
import textwrap
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.neural_network import MLPClassifier

from skcalib import (
    CalibratorComparison,
    HistogramBinning,
    SplineCalibrator,
    TemperatureScaling,
    compare_calibrators,
)
from skcalib.__main__ import main as command_line

# A string is a calibrator with its default parameters. Any classifier can be a calibrator; the
# neural network is the most flexible one.
CALIBRATORS = {
    "temperature": "temperature",
    "temperature, SB-ECE": TemperatureScaling(objective="soft_binned"),
    "vector": "vector",
    "matrix": "matrix",
    "Dirichlet": "dirichlet",
    "Platt": "platt",
    "beta": "beta",
    "auto": "auto",
    "spline by rank": "spline",
    "spline top label": SplineCalibrator(mode="top"),
    "histogram even": "histogram",
    "histogram quantile": HistogramBinning(strategy="quantile"),
    "isotonic": "isotonic",
    "neural network": MLPClassifier(
        (16,), alpha=1.0, solver="lbfgs", max_iter=1000, random_state=0
    ),
}

# For each title of a column: metric, factor, decimals.
METRICS = {
    "log loss": ("log_loss", 1, 4),
    "Brier": ("brier_score", 1, 4),
    "ECE, %": ("expected_calibration_error", 100, 2),
    "SCE, %": ("static_calibration_error", 100, 2),
    "ACE, %": ("adaptive_calibration_error", 100, 2),
    "KS, %": ("ks_calibration_error", 100, 2),
}


class Case(NamedTuple):
    """Probabilities and labels of rows that are new to the model."""

    name: str
    P: np.ndarray
    y: np.ndarray
    P_test: np.ndarray
    y_test: np.ndarray


# %%
# Fit each model on 40 % of its data set. 30 % are calibration rows and 30 % are test rows.


def model_cases() -> Iterator[Case]:
    """Fit each model, and yield its predictions."""
    digits, cancer = load_digits(return_X_y=True), load_breast_cancer(return_X_y=True)
    network = MLPClassifier((64, 64), alpha=0, solver="lbfgs", max_iter=500, random_state=0)
    trees = ExtraTreesClassifier(min_samples_leaf=5, random_state=0)
    for name, (X, y), model in (
        ("digits, naive Bayes", digits, GaussianNB()),
        ("digits, over-fitted network", digits, network),
        ("digits, random forest", digits, RandomForestClassifier(random_state=0)),
        ("breast cancer, naive Bayes", cancer, GaussianNB()),
        ("breast cancer, extra trees", cancer, trees),
    ):
        X_train, X_rest, y_train, y_rest = train_test_split(
            X, y, train_size=0.4, stratify=y, random_state=0
        )
        X_calibration, X_test, y_calibration, y_test = train_test_split(
            X_rest, y_rest, test_size=0.5, stratify=y_rest, random_state=0
        )
        model.fit(X_train, y_train)
        yield Case(
            name,
            model.predict_proba(X_calibration),
            y_calibration,
            model.predict_proba(X_test),
            y_test,
        )


# %%
# `compare_calibrators` chooses by cross-validation on the calibration rows, and measures all
# calibrators on the test rows.


def print_table(frame: pd.DataFrame) -> None:
    """Print a row for each calibrator; ``*`` marks the lowest printed number of each column."""
    columns = {
        title: [f"{factor * mean:.{decimals}f}" for mean in frame[metric]["value"]]
        for title, (metric, factor, decimals) in METRICS.items()
    }
    best = {title: min(column, key=float) for title, column in columns.items()}
    print(f"\n  {'calibrator':<20}" + "".join(f"{title:>9} " for title in METRICS))
    for i, name in enumerate(frame.index):
        cells = [(column[i], "*" if column[i] == best[t] else " ") for t, column in columns.items()]
        print(f"  {name:<20}" + "".join(f"{cell:>9}{mark}" for cell, mark in cells))


def report(case: Case) -> CalibratorComparison:
    """Print the table of the test rows and the verdict."""
    found = compare_calibrators(
        case.P,
        case.y,
        CALIBRATORS,
        metrics=[metric for metric, _, _ in METRICS.values()],
        test=(case.P_test, case.y_test),
        random_state=0,
    )
    confidence = case.P_test.max(axis=1).mean()
    accuracy = np.mean(case.P_test.argmax(axis=1) == case.y_test)
    print(
        f"\n{case.name}: {len(case.y)} calibration rows, {len(case.y_test)} test rows, "
        f"{case.P.shape[1]} classes\n  accuracy {accuracy:.1%}, mean confidence {confidence:.1%}: "
        f"{'over' if confidence > accuracy else 'under'}-confident"
    )
    print_table(found.frame)
    print(textwrap.fill(found.verdict, 96, initial_indent="  ", subsequent_indent="  "))
    return found


def main(arguments: list[str] | None = None) -> int:
    """Compare calibrators on the built-in models, or on a file by the command line."""
    paths = sys.argv[1:] if arguments is None else arguments
    if paths:
        return command_line(["compare", *paths])
    print(
        "Each row shows the errors of a calibrator on the test rows. Lower is better; * marks the\n"
        "lowest. 'identity' means no calibration. A recommendation is below each table."
    )
    choices = [report(case).choice for case in model_cases()]
    counts = [f"{name} ({choices.count(name)} models)" for name in dict.fromkeys(choices)]
    print(f"\nConclusion: the recommended calibrators are {', '.join(counts)}.")
    return 0


if __name__ == "__main__" and (code := main()):
    sys.exit(code)
