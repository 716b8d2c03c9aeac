"""Checks of the properties that every calibrator and metric has, to run on your own."""

from skcalib.testing._calibrators import check_calibrator
from skcalib.testing._metrics import check_calibration_metric

__all__ = ["check_calibration_metric", "check_calibrator"]
