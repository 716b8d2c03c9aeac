"""Calibration of classifiers: measure it, mend it, choose honestly."""

from skcalib._calibrated_classifier import CalibratedClassifier
from skcalib._classifier_scores import ClassifierScores
from skcalib.calibrators import (
    BetaCalibrator,
    DirichletCalibrator,
    HistogramBinning,
    IdentityCalibrator,
    IsotonicCalibrator,
    MatrixScaling,
    PlattScaling,
    SplineCalibrator,
    TemperatureScaling,
    VectorScaling,
)
from skcalib.metrics import get_scorer, make_calibration_scorer

__version__ = "0.1.0"

__all__ = [
    "BetaCalibrator",
    "CalibratedClassifier",
    "ClassifierScores",
    "DirichletCalibrator",
    "HistogramBinning",
    "IdentityCalibrator",
    "IsotonicCalibrator",
    "MatrixScaling",
    "PlattScaling",
    "SplineCalibrator",
    "TemperatureScaling",
    "VectorScaling",
    "__version__",
    "get_scorer",
    "make_calibration_scorer",
]
