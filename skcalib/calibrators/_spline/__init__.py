"""`SplineCalibrator`: the spline of a binary problem, and a binary problem for each rank."""

from skcalib.calibrators._spline.calibrator import SplineCalibrator

__all__ = ["SplineCalibrator"]
