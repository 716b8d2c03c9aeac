"""Checks for your own calibrators and metrics: properties that every one of them should have."""

from skcalib.testing._calibrators import check_calibrator
from skcalib.testing._metrics import check_calibration_metric

__all__ = ["check_calibration_metric", "check_calibrator"]
