"""Isotonic regression of each class against the rest."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.isotonic import isotonic_regression
from sklearn.utils._param_validation import StrOptions

from skcalib._base import ColumnwiseCalibrator
from skcalib._fitted import check_curves
from skcalib._one_vs_rest import SortedProblem, map_sorted
from skcalib._simplex import FloatArray, Scores

Float64Array = NDArray[np.float64]

# Between two scores below 1e-308 the slope of a straight line overflows. A power of two lifts them
# out of there and changes no other answer.
LIFT = 2.0**60


def isotonic_thresholds(problem: SortedProblem) -> tuple[Float64Array, Float64Array]:
    """Return scores and values at both ends of each constant block of the isotonic fit.

    Negatives between two positives share a value in the optimum, so that they enter as one
    observation: with p distinct positive scores there are at most 2p + 1.
    """
    n = problem.values.size
    positive, member = np.unique(problem.positives, return_index=True)
    left = np.searchsorted(problem.values, positive, side="left")
    right = np.searchsorted(problem.values, positive, side="right")
    bounds = np.unique(np.concatenate([[0], left, right, [n]]))
    start = bounds[:-1]
    hits = np.zeros(start.size)
    at = np.searchsorted(start, left)
    if problem.weights is None or problem.positive_weights is None:
        weight = np.diff(bounds).astype(np.float64)
        hits[at] = np.diff(member, append=problem.positives.size)
    else:
        weight = np.add.reduceat(problem.weights, start)
        hits[at] = np.add.reduceat(problem.positive_weights, member) if member.size else 0.0
    level = isotonic_regression(hits / weight, sample_weight=weight, y_min=0.0, y_max=1.0)
    rises = np.flatnonzero(np.diff(level, prepend=-1.0))
    ends = np.append(start[rises][1:], n) - 1
    x = problem.values[np.column_stack([start[rises], ends]).ravel()].astype(np.float64)
    y = np.repeat(level[rises], 2)
    once = np.diff(x, prepend=-1.0) > 0
    return x[once], y[once]


class IsotonicCalibrator(ColumnwiseCalibrator):
    r"""Non-decreasing map of each class against the rest, fitted by least squares.

    For class k,

    .. math:: \min_{f_k \text{ non-decreasing}}
              \sum_i w_i \left( \mathbf{1}[y_i = k] - f_k(p_{ik}) \right)^2, \qquad
              q_{ik} = \frac{f_k(p_{ik})}{\sum_j f_j(p_{ij})} ;

    a row of zeros becomes uniform. With two classes the map of the second class serves both.

    Parameters
    ----------
    interpolation : {"linear", "step"}, default="linear"
        The map between two constant blocks: a straight line, or the value of the lower block
        up to the first score of the upper one.
    input : {"auto", "logits", "proba"}, default="auto"
        What the columns of `X` are. "auto" decides once, in ``fit``, and only where it is
        certain: a value outside [0, 1] means logits, rows that sum to 1 mean probabilities.
    classes : array-like of shape (K,), default=None
        Labels of the columns; needed where they cannot be told from `y`.

    Attributes
    ----------
    X_thresholds_ : list of ndarray
        For each map, the smallest and the largest score of each constant block; a list of K
        arrays, of 1 for two classes.
    y_thresholds_ : list of ndarray
        The values there, non-decreasing, in [0, 1].
    classes_ : ndarray of shape (K,)
        Sorted labels of the columns.
    input_ : {"logits", "proba"}
        What the scores were.
    n_features_in_ : int
        Number of columns of `X`.

    See Also
    --------
    skcalib.HistogramBinning : Bins fixed beforehand; the map may decrease.
    sklearn.isotonic.IsotonicRegression : The same fit of a single column.

    Notes
    -----
    Scores outside the range of the calibration scores are answered as its nearest end. Blocks
    without positives answer exactly 0, so that a log loss after isotonic calibration may be
    infinite.

    References
    ----------
    .. [1] B. Zadrozny and C. Elkan, "Transforming classifier scores into accurate multiclass
       probability estimates", KDD 2002.

    Examples
    --------
    >>> from skcalib import IsotonicCalibrator
    >>> p, y = [0.1, 0.3, 0.4, 0.6, 0.9], [0, 1, 0, 1, 1]
    >>> isotonic = IsotonicCalibrator().fit(p, y)
    >>> isotonic.predict_proba([0.2, 0.35])
    array([[0.75, 0.25],
           [0.5 , 0.5 ]])
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **ColumnwiseCalibrator._parameter_constraints,
        "interpolation": [StrOptions({"linear", "step"})],
    }

    def __init__(
        self,
        *,
        interpolation: Literal["linear", "step"] = "linear",
        input: str = "auto",
        classes: ArrayLike | None = None,
    ) -> None:
        super().__init__(input=input, classes=classes)
        self.interpolation = interpolation

    def _fit(self, scores: Scores, code: NDArray[np.intp], w: Float64Array) -> dict[str, Any]:
        first = self._first_column(scores.shape[1])
        maps = list(
            map_sorted(lambda _, problem: isotonic_thresholds(problem), scores, code, w, first)
        )
        return {"X_thresholds_": [x for x, _ in maps], "y_thresholds_": [y for _, y in maps]}

    def _check_fitted(self) -> None:
        check_curves(self, self._map_count(), low=0.0, high=1.0, order="weak")

    def _map_column(self, j: int, column: FloatArray) -> FloatArray:
        x, y = self.X_thresholds_[j], self.y_thresholds_[j]
        if self.interpolation == "linear":
            return np.interp(column * LIFT, x * LIFT, y)
        return y[np.maximum(np.searchsorted(x, column, side="right") - 1, 0)]
