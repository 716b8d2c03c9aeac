"""`StackedCalibrator`: its folds, and the weights of its members."""

from skcalib.calibrators._stacked.calibrator import StackedCalibrator

__all__ = ["StackedCalibrator"]
