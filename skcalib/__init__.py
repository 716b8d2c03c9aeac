"""Calibration of classifiers: measure it, mend it, choose honestly."""

from skcalib.calibrators import IdentityCalibrator

__version__ = "0.1.0"

__all__ = ["IdentityCalibrator", "__version__"]
