"""Base classes and checks for calibrators and metrics of your own.

`ScoreCalibrator` and `ColumnwiseCalibrator` check their input and pass it, as `Scores`, to your
``_fit`` and ``_map``; `check_predictions` checks the input of a metric.
"""

from skcalib._scores.scores import Scores
from skcalib._validation.predictions import Predictions, check_predictions
from skcalib.calibrators._base import ColumnwiseCalibrator, ScoreCalibrator

__all__ = ["ColumnwiseCalibrator", "Predictions", "ScoreCalibrator", "Scores", "check_predictions"]
