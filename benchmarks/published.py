"""Published calibration errors beside those measured here.

``python -m benchmarks.published PATH`` takes an ``.npz`` with ``logits`` (n, K), ``labels`` (n,)
and ``split`` (n,): it calibrates on split 0, measures on split 1 and prints a Markdown table. The
published numbers are those of Gupta et al. (2021) for the CIFAR-10 ResNet-110 of Kull et al.
(2019); on any other file only the measured ones mean something.
"""

from __future__ import annotations

import argparse
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import log_loss

from skcalib import IdentityCalibrator, SplineCalibrator, TemperatureScaling, VectorScaling
from skcalib.metrics import binary_view, expected_calibration_error, ks_calibration_error

METHODS = ("uncalibrated", "temperature", "vector", "spline")


class Row(NamedTuple):
    """One published row: which error, of what, with how many knots, and its four numbers."""

    name: str
    metric: str
    mode: str
    r: int
    n_knots: int
    published: tuple[float, float, float, float]


ROWS = (
    Row("KS error top-1 (Table 1)", "ks", "top", 1, 6, (4.750, 0.916, 0.996, 0.643)),
    Row("KS error top-2 (Table 2)", "ks", "top", 2, 6, (3.011, 0.947, 0.948, 0.347)),
    Row("KS error within top-2 (Table 4)", "ks", "within_top", 2, 14, (1.805, 0.097, 0.176, 0.277)),
    Row("ECE top-1, 25 bins (Table 6)", "ece", "top", 1, 13, (4.750, 1.224, 1.092, 1.011)),
)


def binary_error(metric: str, score: NDArray[Any], hit: NDArray[np.bool_]) -> float:
    """Error, in percent, of one score for one event."""
    if metric == "ks":
        return 100 * ks_calibration_error(hit, score, mode="classwise", average=None)[1]
    return 100 * expected_calibration_error(hit, score, pos_label=True, n_bins=25)


def measure(
    logits: NDArray[Any], labels: NDArray[Any], split: NDArray[Any]
) -> tuple[list[list[float]], dict[str, float]]:
    """Return a list of errors, in percent, for each of `ROWS`, and other figures by name."""
    fit, test = split == 0, split == 1
    classes = np.arange(logits.shape[1])
    calibrators = {
        "uncalibrated": IdentityCalibrator(classes=classes),
        "temperature": TemperatureScaling(classes=classes),
        "vector": VectorScaling(penalty=None, classes=classes),
    }
    for calibrator in calibrators.values():
        calibrator.fit(logits[fit], labels[fit])
    proba = {name: c.predict_proba(logits[test]) for name, c in calibrators.items()}
    before = calibrators["uncalibrated"].predict_proba(logits[fit])
    errors = []
    for row in ROWS:
        view = {"mode": row.mode, "r": row.r, "labels": classes}
        views = [binary_view(labels[test], proba[name], **view) for name in METHODS[:3]]
        # The paper's spline maps the one score that is measured, not the whole vector.
        spline = SplineCalibrator(n_knots=row.n_knots, input="proba")
        spline.fit(*binary_view(labels[fit], before, **view))
        score, hit = views[0]
        views.append((spline.predict_proba(score)[:, 1], hit))
        errors.append([binary_error(row.metric, *view) for view in views])
    figures = {"T": calibrators["temperature"].temperature_}
    for name in METHODS[:3]:
        figures[f"log loss, {name}"] = log_loss(labels[test], proba[name], labels=classes)
    return errors, figures


def main(arguments: list[str] | None = None) -> None:
    """Print the table for the file named on the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("npz", help="file with logits, labels and split (0 calibration, 1 test)")
    with np.load(parser.parse_args(arguments).npz) as data:
        errors, figures = measure(data["logits"], data["labels"], data["split"])
    print("| published / measured, % | " + " | ".join(METHODS) + " |")
    print("|---|" + "--:|" * len(METHODS))
    for row, measured in zip(ROWS, errors, strict=True):
        cells = (f"{p:.3f} / {m:.3f}" for p, m in zip(row.published, measured, strict=True))
        print(f"| {row.name} | " + " | ".join(cells) + " |")
    print()
    for name, value in figures.items():
        print(f"* {name}: {value:.5f}")


if __name__ == "__main__":
    main()
