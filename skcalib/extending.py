"""Floor 4: what calibrators and metrics of your own stand on.

`ScoreCalibrator` and `ColumnwiseCalibrator` check what goes in and call your ``_fit`` and ``_map``;
`Scores` is what they hand over; `check_predictions` does the same for a metric.
"""

from skcalib._base import ColumnwiseCalibrator, ScoreCalibrator
from skcalib._inputs import Predictions, check_predictions
from skcalib._simplex import Scores

__all__ = ["ColumnwiseCalibrator", "Predictions", "ScoreCalibrator", "Scores", "check_predictions"]
