"""Displays: plots of calibration in scikit-learn's style, which need the extra ``plot``."""

from skcalib.plotting._calibration_map import CalibrationMapDisplay
from skcalib.plotting._classwise import ClasswiseDisplay
from skcalib.plotting._comparison import ComparisonDisplay
from skcalib.plotting._curves import DecisionCurveDisplay, ReliabilityDisplay, RiskCoverageDisplay
from skcalib.plotting._decomposition import DecompositionDisplay
from skcalib.plotting._ks import KSDisplay

__all__ = [
    "CalibrationMapDisplay",
    "ClasswiseDisplay",
    "ComparisonDisplay",
    "DecisionCurveDisplay",
    "DecompositionDisplay",
    "KSDisplay",
    "ReliabilityDisplay",
    "RiskCoverageDisplay",
]
