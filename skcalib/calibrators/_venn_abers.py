r"""Venn-Abers prediction, by isotonic fits that include the new row with label 0 or label 1.

Let :math:`P_0, \dots, P_m` be the cumulative sum diagram of a binary problem: :math:`P_i = (W_i,
H_i)` are the weight of the rows and the weight of the positives up to each distinct score. A new
row of weight 1 and label 1 between points a and a + 1 moves all later points by (1, 1). The fitted
value of the new row is the slope of the line that joins the lower hulls of both parts. With label
0, the same is true from the other end:

.. math:: p_1 = \max_{i \le a} \min_{t > i} \frac{H_t + 1 - H_i}{W_t + 1 - W_i}, \qquad
          p_0 = \min_{i > a} \max_{t < i} \frac{H_i - H_t}{W_i + 1 - W_t} .

The line touches the other part at a vertex t of the hull of all points, so that one isotonic fit is
enough for all scores and both labels. The negatives between two positives form a run, where the
diagram is flat. The hull and the minimum change slope only at ends of runs; the maximum increases
only within runs, towards their ends. With c positives, the c + 1 ends of runs determine p0, and
show in which runs p1 must be computed row by row.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import isotonic_regression

from skcalib._arrays.rowwise import Bools, Float64Array, FloatArray, Intp
from skcalib._arrays.sources import is_dask
from skcalib._arrays.tensors import as_type_of
from skcalib._maps.formulas import ROUNDING, ColumnPlan, Steps, steps
from skcalib._scores.one_vs_rest import SortedProblem, map_sorted
from skcalib._scores.scores import Scores
from skcalib.calibrators._base import ColumnwiseCalibrator, counted, levels, warn_of_flat_maps

# Largest number of stored scores of all classes together. Scores and both bounds then need 48 MiB.
MAX_THRESHOLDS = 1 << 21

# Smallest and largest value of p0 and p1, so that rounding errors do not lead to probabilities of
# exactly 0 or 1.
LEAST, MOST = 1e-100, float(np.nextafter(1.0, 0.0))


def least_enough(low: Intp, high: Intp | int, enough: Callable[[Intp], Bools]) -> Intp:
    """Return, by bisection, the smallest integer from `low` to `high` that meets a condition.

    All larger integers must meet the condition, too.
    """
    while (low < high).any():
        middle = (low + high) // 2
        is_enough = enough(middle)
        high = np.where(is_enough, middle, high)
        low = np.where(is_enough, low, middle + 1)
    return low


class Hull(NamedTuple):
    """Vertices of a lower convex hull (weights W, positives H), and slopes at each vertex."""

    W: Float64Array
    H: Float64Array
    before: Float64Array
    beyond: Float64Array

    def with_one(
        self, W: Float64Array, H: Float64Array, first: Intp, last: Intp
    ) -> tuple[Float64Array, Intp]:
        """Return the Venn-Abers upper bounds p1, and the vertices of the hull that determine them.

        The minimum of the formula is over vertices `first` to `last`.
        """

        def slope(t: Intp, W: Float64Array, H: Float64Array) -> Float64Array:
            return np.asarray((self.H[t] - H + 1.0) / (self.W[t] - W + 1.0))

        value = slope(first, W, H)
        # The bound p1 of a row is the smallest slope of the lines from the point (W - 1, H - 1) of
        # cumulative weights to vertices of the lower convex hull. For most rows, the first vertex
        # has the smallest slope. For other rows, the smallest slope is that of the first vertex
        # after which the hull is steeper than the line.
        far = np.flatnonzero(self.beyond[first] < value)
        part = W[far], H[far]
        t = least_enough(first[far] + 1, last[far], lambda t: self.beyond[t] >= slope(t, *part))
        value[far] = slope(t, *part)
        touched = first.copy()
        touched[far] = t
        return value, touched

    def with_zero(self, W: Float64Array, H: Float64Array, last: Intp) -> Float64Array:
        """Return the Venn-Abers lower bounds p0, as maxima over the vertices up to `last`."""

        def slope(t: Intp) -> Float64Array:
            return np.asarray((H - self.H[t]) / (W - self.W[t] + 1.0))

        back = least_enough(-last, 0, lambda back: self.before[-back] <= slope(-back))
        return slope(-back)


def lower_hull(W: Float64Array, H: Float64Array) -> tuple[Hull, Intp]:
    """Return the lower convex hull of points, and the first vertex at or after each point."""
    # If the weight between two points vanishes by rounding of the cumulative sum, a tiny weight
    # replaces the 0.
    weight = np.maximum(np.diff(W), LEAST)
    slope = np.full(W.size, np.inf)
    if weight.size:
        slope[:-1] = np.minimum(isotonic_regression(np.diff(H) / weight, weights=weight).x, 1.0)
    turns = np.append(True, slope[1:] != slope[:-1])
    vertex = np.flatnonzero(turns)
    before = np.append(-np.inf, slope[vertex[1:] - 1])
    return Hull(W[vertex], H[vertex], before, slope[vertex]), np.cumsum(turns) - turns


class Bounds(NamedTuple):
    """Venn-Abers bounds p0 and p1 of a binary problem at ascending scores, as arrays ``(m,)``.

    p1 is constant from the next lower score up to a score, p0 from a score up to the next higher.
    """

    x: Float64Array
    p0: Float64Array
    p1: Float64Array


def venn_abers_bounds(problem: SortedProblem, n_thresholds: int) -> Bounds:
    """Return the Venn-Abers bounds p0 and p1 of a binary problem at up to `n_thresholds` scores."""
    # The array begins with -inf and ends with inf, so that values[i] is the score of row i - 1.
    values = np.concatenate([[-np.inf], problem.values, [np.inf]])

    # Runs of consecutive negatives before, between and after the scores of positives. A run may be
    # empty.
    positive, member = np.unique(problem.positives, return_index=True)
    start = np.append(0, problem.values.searchsorted(positive, side="right"))
    stop = np.append(problem.values.searchsorted(positive, side="left"), problem.values.size)
    weights = problem.positive_weights
    hits = (
        np.arange(problem.positives.size + 1.0)
        if weights is None
        else np.cumsum(np.append(0.0, weights))
    )
    H = hits[np.append(member, problem.positives.size)]

    # Compute the Venn-Abers bounds p0 and p1 at the end of each run of negatives.
    W = problem.weight_before(stop)
    hull, vertex = lower_hull(W, H)
    p0 = hull.with_zero(W, H, np.maximum(vertex - 1, 0))
    p0[0] = 0.0
    p0 = np.minimum.accumulate(p0[::-1])[::-1]
    p1, touched = hull.with_one(W, H, vertex, np.full_like(vertex, vertex[-1]))

    # The Venn-Abers bounds may change at the start of a run of negatives and, in runs in which p1
    # increases, at each row.
    rises = p1 > np.append(0.0, np.maximum.accumulate(p1)[:-1])
    count = np.where(rises, stop - start, 0) + 1
    run = np.repeat(np.arange(W.size), count)
    index = np.arange(run.size) + (start - np.cumsum(count) + count)[run]
    p1, _ = hull.with_one(problem.weight_before(index), H[run], vertex[run], touched[run])
    # The upper bound p1 cannot change between equal scores.
    inside = values[index] == values[index + 1]
    p1[inside] = 0.0
    p1 = np.clip(np.maximum.accumulate(p1), LEAST, 1.0)

    # Drop scores at which neither p0 nor p1 changes. Below all scores, p0 is 0. Above all scores,
    # p1 is 1.
    p0 = p0[run]
    changed = 1 + np.flatnonzero((p1[1:] != p1[:-1]) | (p0[1:] != p0[:-1]))
    x, p0, p1 = values[index[changed]], p0[changed], p1[changed - 1]
    return thinned(Bounds(x, np.minimum(p0, np.minimum(p1, MOST)), p1), n_thresholds)


class StepBounds(NamedTuple):
    """Bounds p0 and p1 as step functions between ascending `limits`."""

    limits: Float64Array
    low: Float64Array
    high: Float64Array


def bounds_as_steps(
    x: Float64Array, p0: Float64Array, p1: Float64Array, error: Float64Array
) -> StepBounds:
    """Return p0 and p1 as step functions, where scores that differ by at most `error` are equal.

    At a calibration score, p0 has the value of the interval above, and p1 that of the interval
    below. So each calibration score has its own step, as wide as the `error` on both sides.
    """
    with np.errstate(under="ignore"):  # the rounding errors of scores near 0 may underflow
        ends = np.nextafter(x + error, np.inf)
        limits = np.column_stack([x - error, ends]).ravel()
    low, high = np.repeat(np.append(0.0, p0), 2)[1:], np.repeat(np.append(p1, 1.0), 2)[:-1]
    last = np.diff(limits, append=np.inf) > 0.0
    return StepBounds(limits[last], low[np.append(True, last)], high[np.append(True, last)])


def thinned(bounds: Bounds, most: int) -> Bounds:
    """Reduce p0 and p1 to at most `most` scores, between which their log-odds change little.

    The first and the last score in each of ``most / 2`` equal ranges of log-odds remain. Removing
    scores can only lower p0 and raise p1.
    """
    if bounds.x.size <= most:
        return bounds
    odds = np.log(bounds.p1) - np.log1p(-bounds.p0)
    n_ranges = most // 2
    position = (odds - odds[0]) / (odds[-1] - odds[0]) * n_ranges
    inside = np.minimum(position.astype(np.intp), n_ranges - 1)
    changes = inside[1:] != inside[:-1]
    chosen = np.flatnonzero(np.append(True, changes) | np.append(changes, True))
    return Bounds(bounds.x[chosen], bounds.p0[chosen], bounds.p1[chosen])


class VennAbersCalibrator(ColumnwiseCalibrator):
    r"""Calibrate each class by two isotonic fits, which also give an interval.

    Use Venn-Abers prediction instead of isotonic regression if there are few rows, or if the log
    loss matters: no probability is exactly 0 or 1.

    For a score s of class k against the rest, isotonic regression is fitted twice to the
    calibration rows and the new row, which has weight 1. With the new row outside the class, its
    fitted value is :math:`p_0(s)`; with the new row in the class, it is :math:`p_1(s) > p_0(s)`.
    The calibrated probability is between the two values and minimises the largest regret in log
    loss,

    .. math:: f_k(s) = \frac{p_1(s)}{1 - p_0(s) + p_1(s)}, \qquad
              q_{ik} = \frac{f_k(p_{ik})}{\sum_j f_j(p_{ij})} .

    With two classes the function of the second class is used for both.

    Parameters
    ----------
    input : {"auto", "logits", "proba"}, default="auto"
        What the columns of `X` are. "auto" decides once, in ``fit``: rows that sum to 1 within
        0.001 are probabilities, others logits; rows of both kinds, or rows that all sum to 100,
        raise an error.
    classes : array-like of shape (K,), default=None
        Labels of the columns, sorted; needed if they cannot be inferred from `y`.

    Attributes
    ----------
    X_thresholds_ : list of ndarray
        For each function, the scores at which a bound changes; a list of K arrays, or of 1 for two
        classes. Log-odds if `input_` is "logits".
    p0_ : list of ndarray
        The lower bound from each of these scores up to the next one; 0 below the first.
    p1_ : list of ndarray
        The upper bound from each of these scores down to the one before; 1 above the last.
    classes_ : ndarray of shape (K,)
        Sorted labels of the columns.
    class_count_ : ndarray of shape (K,)
        Weight of the rows of each class in ``fit``.
    input_ : {"logits", "proba"}
        What the columns of `X` were in ``fit``.
    n_features_in_ : int
        Number of columns of `X`.

    See Also
    --------
    skcalib.IsotonicCalibrator : One isotonic fit, which can predict 0 and 1.

    Notes
    -----
    This is the inductive form: the scores come from a model that was fitted on other rows. If
    calibration rows and new rows are exchangeable, then with two classes the bound :math:`p_0` or
    :math:`p_1` of the true label is perfectly calibrated.

    For logits, the scores are log-odds, because the probabilities of large logits round to 1. A
    probability of 0 or 1 has log-odds of -1e38 or 1e38.

    At most 2,097,152 scores are stored in total. If there are more, scores at which the log-odds of
    :math:`f_k` change least are removed, which widens intervals and never narrows them.

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

    _paper = "Vovk and Petej 2014; Vovk et al. 2015"
    _warns_of_one_label = True

    def _fit(self, scores: Scores, code: Intp, w: Float64Array) -> dict[str, Any]:
        first = self._first_column(scores.shape[1])
        n_thresholds = max(2, MAX_THRESHOLDS // (scores.shape[1] - first))
        fit_one = partial(venn_abers_bounds, n_thresholds=n_thresholds)
        maps = list(map_sorted(fit_one, scores, code, w, first))
        mixed = [bounds for bounds in maps if bounds.p0.max() > 0 and bounds.p1.min() < 1]
        # A constant calibration function is within the bounds if the largest lower bound p0 is at
        # most the smallest upper bound p1.
        if mixed and all(bounds.p0.max() <= bounds.p1.min() for bounds in mixed):
            warn_of_flat_maps(type(self).__name__)
        return {
            "X_thresholds_": [bounds.x for bounds in maps],
            "p0_": [bounds.p0 for bounds in maps],
            "p1_": [bounds.p1 for bounds in maps],
        }

    def _in_words(self) -> str:
        maps = counted(len(self.p0_), "function")
        return f"{maps}: lower bound with {levels(self.p0_)}, upper bound with {levels(self.p1_)}"

    def _bounds(self) -> list[StepBounds]:
        # Log-odds that should be equal may differ in their last bits. With two classes, log-odds
        # are the difference of two logits, whose rounding error is proportional to the difference.
        error = ROUNDING if self.input_ == "logits" else 0.0
        least = float(self.classes_.size > 2)
        maps = zip(self.X_thresholds_, self.p0_, self.p1_, strict=True)
        return [bounds_as_steps(x, p0, p1, error * (np.abs(x) + least)) for x, p0, p1 in maps]

    def _plan(self) -> ColumnPlan:
        bounds = self._bounds()
        values = [high / (1.0 - low + high) for _, low, high in bounds]
        limits = [each.limits for each in bounds]
        return self._column_plan(
            partial(steps, exact=True), {"map": Steps(limits, values)}, "ordered"
        )

    def predict_interval(self, X: ArrayLike) -> FloatArray:
        """Return the Venn-Abers interval of each probability.

        Parameters
        ----------
        X : array-like of shape (n, K), (n, 1) or (n,)
            Scores of the kind used in ``fit`` (`input_`).

        Returns
        -------
        interval : ndarray of shape (n, K, 2)
            ``interval[i, k]`` is :math:`[p_0, p_1]` of class ``classes_[k]`` against the rest,
            before rows are normalised; with two classes it contains ``predict_proba``. With more
            calibration rows of similar scores, it is narrower. float32 for float32 scores.

        Raises
        ------
        ValueError
            If the scores are of another kind or shape than those of ``fit``.
        """
        if is_dask(X):
            return self._lazily(X, type(self).predict_interval, 2)
        S = self._as_seen(X)
        return as_type_of(self._map_rows(S, self._intervals, 2), X)

    def _intervals(self, scores: Scores) -> FloatArray:
        n, n_classes = scores.shape
        first = self._first_column(n_classes)
        out = np.empty((n, n_classes, 2), dtype=scores.dtype)
        columns = scores.ordered().ordered_columns(slice(first, n_classes))
        for k, (column, bounds) in enumerate(zip(columns, self._bounds(), strict=True), first):
            index = np.searchsorted(bounds.limits, column, side="right")
            out[:, k, 0], out[:, k, 1] = bounds.low[index], bounds.high[index]
        if first:
            np.subtract(1, out[:, 1, ::-1], out=out[:, 0])
        return out
