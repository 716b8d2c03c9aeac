r"""Venn-Abers prediction: an isotonic fit with the new row in it, under either label.

Let :math:`P_0, \dots, P_m` be the cumulative sum diagram of a binary problem: for each distinct
score the weight and the hits up to it, :math:`P_i = (W_i, H_i)`. A new row of weight 1 and label 1
between points a and a + 1 moves all later points by (1, 1). Its fitted value is the slope of the
line that bridges the lower hulls of both parts,

.. math:: \max_{i \le a} \tau_i, \qquad
          \tau_i = \min_{t > i} \frac{H_t + 1 - H_i}{W_t + 1 - W_i} .

The line rises at least as steeply as the hull of all points does there, so that it touches the
later part at a vertex t of that hull. It is the same hull for every a: one isotonic fit, a search
among its vertices for each score and a running maximum give the values of all scores. With label 0
it is the same problem seen from the other end.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.isotonic import isotonic_regression

from skcalib._base import ColumnwiseCalibrator
from skcalib._blocks import column_blocks, each_block
from skcalib._fitted import LARGEST, check_curves
from skcalib._one_vs_rest import SortedProblem, map_sorted
from skcalib._simplex import FloatArray, Scores

Float64Array = NDArray[np.float64]

# Scores kept by all maps together, as those of splines: with both values, 48 MiB.
MAX_THRESHOLDS = 1 << 21

# Neither label is ever ruled out: bounds that rounding may not reach.
LEAST, MOST = 1 / LARGEST, float(np.nextafter(1.0, 0.0))


def value_with_one(W: Float64Array, H: Float64Array) -> Float64Array:
    """Isotonic value of an added row of weight 1 and label 1, just after each point but the last.

    Parameters
    ----------
    W, H : ndarray of shape (m + 1,)
        Cumulative weight and hits, from 0.

    Returns
    -------
    value : ndarray of shape (m,)
        Non-decreasing. After the last point it would be 1.
    """
    # A weight that is lost in the rounding of the sum counts as next to nothing.
    weight = np.maximum(np.diff(W), 1.0 / LARGEST)
    level = isotonic_regression(np.diff(H) / weight, sample_weight=weight, y_min=0.0, y_max=1.0)
    begins = np.flatnonzero(np.diff(level, prepend=-1.0))
    vertex = np.append(begins, weight.size)
    # Slope of the hull beyond each vertex.
    beyond = np.append(level[begins], np.inf)

    def slope(i: NDArray[np.intp], t: NDArray[np.intp]) -> Float64Array:
        rise, run = H[vertex[t]] - H[i], W[vertex[t]] - W[i]
        return np.asarray((rise + 1.0) / (run + 1.0))

    point = np.arange(weight.size)
    first = np.repeat(np.arange(1, vertex.size), np.diff(vertex))
    value = slope(point, first)
    # Most lines touch the first vertex after their point. Others are found by bisection: past the
    # one that is touched, the hull is steeper than the line.
    far = np.flatnonzero(beyond[first] < value)
    low, high = first[far] + 1, np.full(far.size, begins.size)
    while (low < high).any():
        middle = (low + high) // 2
        steeper = beyond[middle] >= slope(far, middle)
        high = np.where(steeper, middle, high)
        low = np.where(steeper, low, middle + 1)
    value[far] = slope(far, low)
    return np.clip(np.maximum.accumulate(value), LEAST, 1.0)


class Bounds(NamedTuple):
    """Distinct scores, ascending, and p0 and p1 there; each array is ``(m,)``.

    Down to the next lower score, p1 is the same; up to the next higher one, p0 is.
    """

    x: Float64Array
    p0: Float64Array
    p1: Float64Array


def venn_abers_bounds(problem: SortedProblem, n_thresholds: int) -> Bounds:
    """Return p0 and p1 of every score of a binary problem, at up to `n_thresholds` scores."""
    n = problem.values.size
    ends = np.append(np.flatnonzero(np.diff(problem.values)) + 1, n)
    x = problem.values[ends - 1]
    hits = np.arange(problem.positives.size + 1, dtype=np.float64)
    if problem.positive_weights is not None:
        hits[1:] = np.cumsum(problem.positive_weights)
    H = np.append(0.0, hits[np.searchsorted(problem.positives, x, side="right")])
    W = np.append(0.0, problem.cumulative_weight()[ends])
    p1 = value_with_one(W, H)
    misses = W - H
    p0 = 1.0 - value_with_one(W[-1] - W[::-1], misses[-1] - misses[::-1])[::-1]
    np.clip(p0, 0.0, np.minimum(p1, MOST), out=p0)
    # A score between equal values says nothing; beyond the ends p0 is 0 and p1 is 1.
    told = (np.diff(p1, append=1.0) != 0) | (np.diff(p0, prepend=0.0) != 0)
    kept = np.flatnonzero(told)
    if kept.size > n_thresholds:
        kept = kept[even_steps(p0[kept], p1[kept], n_thresholds)]
    return Bounds(x[kept].astype(np.float64), p0[kept], p1[kept])


def even_steps(p0: Float64Array, p1: Float64Array, most: int) -> NDArray[np.intp]:
    """Choose up to `most` scores between which the log-odds of the merged answer move little.

    They are the first and the last score of each of ``most / 2`` equal ranges of log-odds. Fewer
    scores can only lower p0 and raise p1.
    """
    odds = np.log(p1) - np.log1p(-p0)
    n_ranges = most // 2
    place = (odds - odds[0]) / (odds[-1] - odds[0]) * n_ranges
    inside = np.minimum(place.astype(np.intp), n_ranges - 1)
    changes = np.diff(inside) != 0
    return np.flatnonzero(np.append(True, changes) | np.append(changes, True))


class VennAbersCalibrator(ColumnwiseCalibrator):
    r"""Isotonic calibration that asks what each label of the new row would do to the fit.

    For a score s of class k against the rest, the calibration rows and the new row, which has
    weight 1, are fitted by isotonic regression twice: with the new row outside the class, which
    gives it the value :math:`p_0(s)`, and within, which gives :math:`p_1(s) > p_0(s)`. The answer
    is the probability between them that minimises the largest regret in log loss,

    .. math:: f_k(s) = \frac{p_1(s)}{1 - p_0(s) + p_1(s)}, \qquad
              q_{ik} = \frac{f_k(p_{ik})}{\sum_j f_j(p_{ij})} .

    With two classes the map of the second class serves both. No answer is exactly 0 or 1.

    Parameters
    ----------
    input : {"auto", "logits", "proba"}, default="auto"
        What the columns of `X` are. "auto" decides once, in ``fit``, and only where it is
        certain: a value outside [0, 1] means logits, rows that sum to 1 mean probabilities.
    classes : array-like of shape (K,), default=None
        Labels of the columns; needed where they cannot be told from `y`.

    Attributes
    ----------
    X_thresholds_ : list of ndarray
        For each map, the scores at which a bound changes; a list of K arrays, of 1 for two classes.
    p0_ : list of ndarray
        The lower bound from each of these scores up to the next; 0 below the first.
    p1_ : list of ndarray
        The upper bound from each of these scores down to the one before; 1 above the last.
    classes_ : ndarray of shape (K,)
        Sorted labels of the columns.
    input_ : {"logits", "proba"}
        What the scores were.
    n_features_in_ : int
        Number of columns of `X`.

    See Also
    --------
    skcalib.IsotonicCalibrator : One isotonic fit, which may answer 0 and 1.

    Notes
    -----
    This is the inductive form: the scores come from a model that was fitted on other rows. If
    calibration rows and new rows are exchangeable, then of two classes one of
    :math:`p_0, p_1` (which one, only the true label tells) is perfectly calibrated.

    All maps together keep up to 2,097,152 scores; with more, those between which the log-odds of
    :math:`f_k` move least are left out, which widens the interval there and never narrows it.

    References
    ----------
    .. [1] V. Vovk and I. Petej, "Venn-Abers predictors", UAI 2014.
    .. [2] V. Vovk, I. Petej and V. Fedorova, "Large-scale probabilistic predictors with and
       without guarantees of validity", NeurIPS 2015.

    Examples
    --------
    >>> from skcalib import VennAbersCalibrator
    >>> p, y = [0.1, 0.3, 0.4, 0.6, 0.9], [0, 1, 0, 1, 1]
    >>> venn_abers = VennAbersCalibrator().fit(p, y)
    >>> venn_abers.predict_proba([0.2, 0.5]).round(3)
    array([[0.6, 0.4],
           [0.4, 0.6]])
    >>> venn_abers.predict_interval([0.2, 0.5])[:, 1].round(3)
    array([[0.   , 0.667],
           [0.333, 1.   ]])
    """

    def __init__(self, *, input: str = "auto", classes: ArrayLike | None = None) -> None:
        super().__init__(input=input, classes=classes)

    def _fit(self, scores: Scores, code: NDArray[np.intp], w: Float64Array) -> dict[str, Any]:
        first = self._first_column(scores.shape[1])
        n_thresholds = max(2, MAX_THRESHOLDS // (scores.shape[1] - first))
        maps = list(
            map_sorted(
                lambda _, problem: venn_abers_bounds(problem, n_thresholds), scores, code, w, first
            )
        )
        return {
            "X_thresholds_": [bounds.x for bounds in maps],
            "p0_": [bounds.p0 for bounds in maps],
            "p1_": [bounds.p1 for bounds in maps],
        }

    def _check_fitted(self) -> None:
        n_maps = self._map_count()
        check_curves(self, n_maps, values="p0_", low=0.0, high=MOST, order="weak")
        check_curves(self, n_maps, values="p1_", low=LEAST, high=1.0, order="weak")

    @property
    def _rises(self) -> bool:
        return True

    def _bounds(self, j: int, column: FloatArray) -> tuple[Float64Array, Float64Array]:
        """Return p0 and p1 of a column of probabilities by map number j."""
        x = self.X_thresholds_[j]
        below = np.searchsorted(x, column, side="left")
        reached = np.append(x, np.inf)[below] == column
        return np.append(0.0, self.p0_[j])[below + reached], np.append(self.p1_[j], 1.0)[below]

    def _map_column(self, j: int, column: FloatArray) -> FloatArray:
        p0, p1 = self._bounds(j, column)
        return p1 / (1.0 - p0 + p1)

    def predict_interval(self, X: ArrayLike) -> FloatArray:
        """Return the two probabilities between which each answer lies: its Venn-Abers interval.

        Parameters
        ----------
        X : array-like of shape (n, K), (n, 1) or (n,)
            Scores of the kind seen in ``fit`` (`input_`).

        Returns
        -------
        interval : ndarray of shape (n, K, 2)
            ``interval[i, k]`` is :math:`[p_0, p_1]` of class ``classes_[k]`` against the rest,
            before rows are renormalised; with two classes ``predict_proba`` lies within. The
            narrower it is, the more the calibration rows say about such scores. float32 for
            float32 scores.

        Raises
        ------
        ValueError
            If the scores are of another kind or shape than those seen in ``fit``.
        """
        scores = self._check_scores(X)
        n, n_classes = scores.shape
        first = self._first_column(n_classes)
        out = np.empty((n, n_classes, 2), dtype=scores.dtype)

        def fill(block: slice) -> None:
            columns = slice(block.start + first, block.stop + first)
            for j, column in enumerate(scores.proba_columns(columns), start=block.start):
                out[:, j + first, 0], out[:, j + first, 1] = self._bounds(j, column)

        each_block(fill, column_blocks(n, n_classes - first), at_a_time=1)
        if first:
            np.subtract(1, out[:, 1, ::-1], out=out[:, 0])
        return out
