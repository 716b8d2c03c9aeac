"""Calibrators, one file for each method or family of methods."""

from skcalib.calibrators._affine import DirichletCalibrator, MatrixScaling, VectorScaling
from skcalib.calibrators._auto.calibrator import AutoCalibrator
from skcalib.calibrators._bayesian_binning import BayesianBinning
from skcalib.calibrators._histogram import HistogramBinning
from skcalib.calibrators._identity import IdentityCalibrator
from skcalib.calibrators._isotonic import IsotonicCalibrator
from skcalib.calibrators._logistic import BetaCalibrator, PlattScaling
from skcalib.calibrators._spline import SplineCalibrator
from skcalib.calibrators._temperature import EnsembleTemperatureScaling, TemperatureScaling
from skcalib.calibrators._venn_abers import VennAbersCalibrator

__all__ = [
    "AutoCalibrator",
    "BayesianBinning",
    "BetaCalibrator",
    "DirichletCalibrator",
    "EnsembleTemperatureScaling",
    "HistogramBinning",
    "IdentityCalibrator",
    "IsotonicCalibrator",
    "MatrixScaling",
    "PlattScaling",
    "SplineCalibrator",
    "TemperatureScaling",
    "VectorScaling",
    "VennAbersCalibrator",
]
