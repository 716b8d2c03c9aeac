"""A display says in a line what it shows."""

import re

import numpy as np
import pytest

from skcalib import TemperatureScaling, compare_calibrators
from skcalib.metrics import expected_calibration_error, ks_calibration_error

pytest.importorskip("matplotlib")

from skcalib.plotting import (
    CalibrationMapDisplay,
    ClasswiseDisplay,
    ComparisonDisplay,
    DecompositionDisplay,
    KSDisplay,
    ReliabilityDisplay,
)

RNG = np.random.default_rng(0)
Y = RNG.integers(3, size=300)
Z = 3 * (RNG.normal(size=(300, 3)) + 1.5 * np.eye(3)[Y])
P = np.exp(Z) / np.exp(Z).sum(axis=1, keepdims=True)


def test_reliability():
    display = ReliabilityDisplay.from_predictions(Y, P, name="forest")
    error = expected_calibration_error(Y, P)
    shown = "accuracy against confidence (top label)"
    assert repr(display) == f"<ReliabilityDisplay forest: {shown}, 300 rows: error {error:.4f}>"


def test_ks():
    said = repr(KSDisplay.from_predictions(Y, P))
    error = ks_calibration_error(Y, P)
    assert re.fullmatch(rf"<KSDisplay KS error {error:.4f}, at the score 0\.\d+>", said)


def test_classwise():
    display = ClasswiseDisplay.from_predictions(Y, P)
    first = display.order_[0]
    assert repr(display) == (
        f"<ClasswiseDisplay SCE {display.errors.mean():.4f}, 3 classes; largest error: {first}, "
        f"{display.errors[first]:.4f}>"
    )


def test_calibration_map():
    """Temperature scaling changes no top label."""
    fitted = TemperatureScaling().fit(Z, Y)
    said = repr(CalibrationMapDisplay.from_estimator(fitted, Z))
    assert said.endswith("300 rows, 0.0 % change their top label>")


def test_comparison():
    found = compare_calibrators(Z, Y, ["temperature"], metrics=["log_loss", "error_rate"])
    said = repr(ComparisonDisplay.from_frame(found.frame))
    assert said == (
        "<ComparisonDisplay 1 calibrator beside the identity, 2 metrics; chosen: temperature>"
    )


def test_decomposition():
    display = DecompositionDisplay.from_predictions(Y, P, name="forest")
    score = ((P.max(axis=1) - (P.argmax(axis=1) == Y)) ** 2).mean()  # of the top label
    assert repr(display) == f"<DecompositionDisplay brier score: forest {score:.4f}>"
