"""Calibration errors, the tables behind them, and scorers made of them."""

from skcalib.metrics._binary_view import binary_view
from skcalib.metrics._binned import general_calibration_error
from skcalib.metrics._brier import top_label_brier_score
from skcalib.metrics._ks import ks_calibration_error
from skcalib.metrics._presets import (
    adaptive_calibration_error,
    expected_calibration_error,
    maximum_calibration_error,
    root_mean_squared_calibration_error,
    static_calibration_error,
    thresholded_adaptive_calibration_error,
)
from skcalib.metrics._reliability_table import reliability_table
from skcalib.metrics._scorers import SCORERS, get_scorer, make_calibration_scorer

__all__ = [
    "SCORERS",
    "adaptive_calibration_error",
    "binary_view",
    "expected_calibration_error",
    "general_calibration_error",
    "get_scorer",
    "ks_calibration_error",
    "make_calibration_scorer",
    "maximum_calibration_error",
    "reliability_table",
    "root_mean_squared_calibration_error",
    "static_calibration_error",
    "thresholded_adaptive_calibration_error",
    "top_label_brier_score",
]
