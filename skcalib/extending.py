"""Base classes and checks for calibrators and metrics of your own.

`ScoreCalibrator` and `ColumnwiseCalibrator` check their input and pass it, as `Scores`, to your
``_fit`` and ``_map``; `check_predictions` checks the input of a metric.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skcalib._arrays.rowwise import FloatArray
from skcalib._arrays.sources import to_array
from skcalib._scores.scores import Scores
from skcalib._validation import rows as predictions
from skcalib.calibrators._base import ColumnwiseCalibrator, ScoreCalibrator

__all__ = ["ColumnwiseCalibrator", "Predictions", "ScoreCalibrator", "Scores", "check_predictions"]


class Predictions(NamedTuple):
    """Checked predictions.

    ``P (n, K)`` probabilities, ``code (n,)`` column of the true class, ``w (n,)`` float64
    weights above 0, ``classes (K,)`` labels of the columns. ``event`` is the column of the measured
    event, if there are two columns (one is made two) or ``pos_label`` was given, else None.
    """

    P: FloatArray
    code: NDArray[np.intp]
    w: NDArray[np.float64]
    classes: NDArray[Any]
    event: int | None = None

    def of_event(self) -> tuple[FloatArray, NDArray[np.bool_]]:
        """Return the probability of the event ``(n,)``, and whether it happened."""
        assert self.event is not None
        return self.P[:, self.event], self.code == self.event


def check_predictions(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    pos_label: Any = None,
) -> Predictions:
    """Check the arguments of a metric and drop rows of weight 0.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Labels.
    y_proba : array-like of shape (n, K), (n,) or (n, 1)
        Class probabilities; one column is the probability of one event.
    sample_weight : array-like of shape (n,), default=None
        Non-negative weights. Integers are counts: 2 is two copies of the row. Of floats only the
        ratios matter (see "Weights" under "Valid input" in the user guide). 0 is the row's absence.
    labels : array-like of shape (K,), default=None
        Labels of the columns, in their order.
    pos_label : label, default=None
        The event whose probability is measured.

    Returns
    -------
    predictions : Predictions

    Raises
    ------
    ValueError
        If probabilities, labels or weights are invalid.
    """
    checked = predictions.check_predictions(y_true, y_proba, sample_weight, labels, pos_label)
    return Predictions(to_array(checked.P), checked.code, checked.w, checked.classes, checked.event)
