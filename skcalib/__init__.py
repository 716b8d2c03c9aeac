"""Calibration of classifiers: measure it, improve it, and compare calibrators."""

from skcalib import calibrators, plotting
from skcalib._comparison.compare import compare_calibrators
from skcalib._comparison.comparison import CalibratorComparison, metric_rank_correlation
from skcalib._export.onnx_model import to_onnx
from skcalib._export.pytorch import to_torch
from skcalib._export.sklearn_onnx import register_onnx_converters
from skcalib._meta_estimators.calibrated_classifier import CalibratedClassifier
from skcalib._meta_estimators.classifier_scores import ClassifierScores
from skcalib._meta_estimators.groupwise import GroupwiseCalibrator
from skcalib._meta_estimators.multilabel import MultilabelCalibrator
from skcalib._meta_estimators.prior_correction import PriorCorrection
from skcalib._meta_estimators.selective import SelectiveClassifier
from skcalib._monitor import CalibrationMonitor
from skcalib._storage.files import from_dict, load_json, save_json, to_dict
from skcalib.calibrators import *  # noqa: F403  # all names are in its `__all__`
from skcalib.metrics import get_scorer, make_calibration_scorer
from skcalib.plotting import *  # noqa: F403

__version__ = "0.1.0.dev0"

__all__ = [
    "CalibratedClassifier",
    "CalibrationMonitor",
    "CalibratorComparison",
    "ClassifierScores",
    "GroupwiseCalibrator",
    "MultilabelCalibrator",
    "PriorCorrection",
    "SelectiveClassifier",
    "__version__",
    "compare_calibrators",
    "from_dict",
    "get_scorer",
    "load_json",
    "make_calibration_scorer",
    "metric_rank_correlation",
    "register_onnx_converters",
    "save_json",
    "to_dict",
    "to_onnx",
    "to_torch",
]
__all__ += calibrators.__all__
__all__ += plotting.__all__
