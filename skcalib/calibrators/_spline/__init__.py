"""`SplineCalibrator`: the spline of a binary problem, and the problem of each rank."""

from skcalib.calibrators._spline.calibrator import SplineCalibrator

__all__ = ["SplineCalibrator"]
