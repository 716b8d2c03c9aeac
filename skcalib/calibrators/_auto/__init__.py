"""`AutoCalibrator`: features of the scores, their loss, and the strengths of the ridges."""

from skcalib.calibrators._auto.calibrator import AutoCalibrator

__all__ = ["AutoCalibrator"]
