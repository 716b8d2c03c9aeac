"""What calibrators and metrics of your own stand on.

`ScoreCalibrator` and `ColumnwiseCalibrator` check what goes in and call your ``_fit`` and ``_map``;
`Scores` is what they hand over; `check_predictions` does the same for a metric.
"""

from skcalib._scores.scores import Scores
from skcalib._validation.predictions import Predictions, check_predictions
from skcalib.calibrators._base import ColumnwiseCalibrator, ScoreCalibrator

__all__ = ["ColumnwiseCalibrator", "Predictions", "ScoreCalibrator", "Scores", "check_predictions"]
