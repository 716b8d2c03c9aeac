"""Code as users write it; mypy checks it with the package, and nothing runs it."""

from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

import skcalib
from skcalib import CalibratedClassifier, TemperatureScaling, VectorScaling, compare_calibrators
from skcalib.losses import nll_loss
from skcalib.metrics import (
    bootstrap_interval,
    expected_calibration_error,
    reliability_table,
    static_calibration_error,
)


def calibrate_logits(Z: NDArray[np.float32], y: NDArray[np.intp]) -> NDArray[np.floating]:
    scaling = TemperatureScaling(objective="brier").fit(Z, y)
    temperature: float = scaling.temperature_
    print(f"T = {temperature:.3f}")
    return scaling.predict_proba(Z)


def calibrate_a_classifier(X: pd.DataFrame, y: pd.Series) -> NDArray[np.floating]:
    model = CalibratedClassifier(LogisticRegression(), VectorScaling(), cv=5)
    return model.fit(X, y).predict_proba(X)


def measure(y: list[str], P: NDArray[np.float64]) -> float:
    error = expected_calibration_error(y, P, n_bins=15, labels=["ant", "bee"])
    per_class = static_calibration_error(y, P, average=None)
    table: pd.DataFrame = reliability_table(y, P)
    interval = bootstrap_interval(expected_calibration_error, y, P, n_resamples=200)
    print(per_class, table.shape, interval)
    return float(error)


def choose(y: NDArray[np.intp], Z: NDArray[np.float64], path: Path) -> None:
    comparison = compare_calibrators(Z, y)
    print(comparison.choice, comparison.frame.shape, comparison.fit().predict_proba(Z))
    skcalib.save_json(TemperatureScaling().fit(Z, y), path)
    print(nll_loss(Z, y))
