"""Post-hoc calibrators: classifiers on scores, one file for each method."""

from skcalib.calibrators._identity import IdentityCalibrator

__all__ = ["IdentityCalibrator"]
