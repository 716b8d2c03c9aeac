r"""Venn-Abers prediction: isotonic fits that include the new row with label 0 and with label 1.

Let :math:`P_0, \dots, P_m` be the cumulative sum diagram of a binary problem: for each distinct
score the weight and the hits up to it, :math:`P_i = (W_i, H_i)`. A new row of weight 1 and label 1
between points a and a + 1 moves all later points by (1, 1). Its fitted value is the slope of the
line that joins the lower hulls of both parts; with label 0 the same is true from the other end:

.. math:: p_1 = \max_{i \le a} \min_{t > i} \frac{H_t + 1 - H_i}{W_t + 1 - W_i}, \qquad
          p_0 = \min_{i > a} \max_{t < i} \frac{H_i - H_t}{W_i + 1 - W_t} .

The line touches the other part at a vertex t of the hull of all points, so that one isotonic fit is
enough for all scores and both labels. The misses between two hits form a run, where the diagram is
level. The hull and the minimum change slope only at ends of runs; the maximum increases only within
runs, towards their ends. With c hits, the c + 1 ends give p0, and show which runs have to be
computed row by row for p1.
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

# Largest number of scores of all maps together; with both values, 48 MiB.
MAX_THRESHOLDS = 1 << 21

# No label is ever impossible: limits of p0 and p1 in spite of rounding.
LEAST, MOST = 1e-100, float(np.nextafter(1.0, 0.0))


def least_enough(low: Intp, high: Intp | int, enough: Callable[[Intp], Bools]) -> Intp:
    """Return the least number from `low` to `high` that is enough; all larger ones are, too."""
    while (low < high).any():
        middle = (low + high) // 2
        is_enough = enough(middle)
        high = np.where(is_enough, middle, high)
        low = np.where(is_enough, low, middle + 1)
    return low


class Hull(NamedTuple):
    """Vertices of a lower hull and the slopes on both sides of each."""

    W: Float64Array
    H: Float64Array
    before: Float64Array
    beyond: Float64Array

    def with_one(
        self, W: Float64Array, H: Float64Array, first: Intp, last: Intp
    ) -> tuple[Float64Array, Intp]:
        """Return the minimum of the formula over vertices `first` to `last`, and where it is."""

        def slope(t: Intp, W: Float64Array, H: Float64Array) -> Float64Array:
            return np.asarray((self.H[t] - H + 1.0) / (self.W[t] - W + 1.0))

        value = slope(first, W, H)
        # Most lines touch the first vertex. Beyond the touched vertex the hull is steeper.
        far = np.flatnonzero(self.beyond[first] < value)
        part = W[far], H[far]
        t = least_enough(first[far] + 1, last[far], lambda t: self.beyond[t] >= slope(t, *part))
        value[far] = slope(t, *part)
        touched = first.copy()
        touched[far] = t
        return value, touched

    def with_zero(self, W: Float64Array, H: Float64Array, last: Intp) -> Float64Array:
        """Return the maximum of the formula over the vertices up to `last`."""

        def slope(t: Intp) -> Float64Array:
            return np.asarray((H - self.H[t]) / (W - self.W[t] + 1.0))

        back = least_enough(-last, 0, lambda back: self.before[-back] <= slope(-back))
        return slope(-back)


def lower_hull(W: Float64Array, H: Float64Array) -> tuple[Hull, Intp]:
    """Return the hull of points, and of each point the first vertex that is not before it."""
    # A weight that is lost in the rounding of the sum counts as a tiny one.
    weight = np.maximum(np.diff(W), LEAST)
    slope = np.full(W.size, np.inf)
    if weight.size:
        slope[:-1] = np.minimum(isotonic_regression(np.diff(H) / weight, weights=weight).x, 1.0)
    turns = np.append(True, slope[1:] != slope[:-1])
    vertex = np.flatnonzero(turns)
    before = np.append(-np.inf, slope[vertex[1:] - 1])
    return Hull(W[vertex], H[vertex], before, slope[vertex]), np.cumsum(turns) - turns


class Bounds(NamedTuple):
    """Distinct scores, ascending, and p0 and p1 there; each array is ``(m,)``.

    p1 is constant down to the next lower score, p0 up to the next higher one.
    """

    x: Float64Array
    p0: Float64Array
    p1: Float64Array


def venn_abers_bounds(problem: SortedProblem, n_thresholds: int) -> Bounds:
    """Return p0 and p1 at up to `n_thresholds` scores."""
    # values[i] is the last of the first i rows.
    values = np.concatenate([[-np.inf], problem.values, [np.inf]])

    # A run of misses before, between and after the scores with hits; it may be empty.
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

    # Both formulas at the end of each run.
    W = problem.weight_before(stop)
    hull, vertex = lower_hull(W, H)
    p0 = hull.with_zero(W, H, np.maximum(vertex - 1, 0))
    p0[0] = 0.0
    p0 = np.minimum.accumulate(p0[::-1])[::-1]
    p1, touched = hull.with_one(W, H, vertex, np.full_like(vertex, vertex[-1]))

    # Points where a bound may change: the start of each run and, where p1 increases, its rows.
    rises = p1 > np.append(0.0, np.maximum.accumulate(p1)[:-1])
    count = np.where(rises, stop - start, 0) + 1
    run = np.repeat(np.arange(W.size), count)
    index = np.arange(run.size) + (start - np.cumsum(count) + count)[run]
    p1, _ = hull.with_one(problem.weight_before(index), H[run], vertex[run], touched[run])
    # There is no point within a tie.
    inside = values[index] == values[index + 1]
    p1[inside] = 0.0
    p1 = np.clip(np.maximum.accumulate(p1), LEAST, 1.0)

    # Scores between equal values are dropped; beyond the ends p0 is 0 and p1 is 1.
    p0 = p0[run]
    changed = 1 + np.flatnonzero((p1[1:] != p1[:-1]) | (p0[1:] != p0[:-1]))
    x, p0, p1 = values[index[changed]], p0[changed], p1[changed - 1]
    return thinned(Bounds(x, np.minimum(p0, np.minimum(p1, MOST)), p1), n_thresholds)


class StepBounds(NamedTuple):
    """p0 and p1 as step functions, of one value more than there are limits."""

    limits: Float64Array
    low: Float64Array
    high: Float64Array


def bounds_as_steps(
    x: Float64Array, p0: Float64Array, p1: Float64Array, error: Float64Array
) -> StepBounds:
    """Return the bounds of all scores, of which those within an `error` are equal.

    At a score p0 is that from it on, p1 that up to it: a step of its own, which ends with the last
    number that equals the score, or where the next one begins.
    """
    with np.errstate(under="ignore"):  # of scores near 0
        ends = np.nextafter(x + error, np.inf)
        limits = np.column_stack([x - error, ends]).ravel()
    low, high = np.repeat(np.append(0.0, p0), 2)[1:], np.repeat(np.append(p1, 1.0), 2)[:-1]
    last = np.diff(limits, append=np.inf) > 0.0
    return StepBounds(limits[last], low[np.append(True, last)], high[np.append(True, last)])


def thinned(bounds: Bounds, most: int) -> Bounds:
    """Choose up to `most` scores between which the merged log-odds change little.

    They are the first and the last score of each of ``most / 2`` equal ranges of log-odds. Fewer
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

    Venn-Abers prediction takes the place of isotonic regression if there are few rows, or if
    the log loss matters: no probability is exactly 0 or 1.

    For a score s of class k against the rest, the calibration rows and the new row, which has
    weight 1, are fitted by isotonic regression twice: with the new row outside the class, which
    gives it the value :math:`p_0(s)`, and within, which gives :math:`p_1(s) > p_0(s)`. The
    calibrated probability lies between them and minimises the largest regret in log loss,

    .. math:: f_k(s) = \frac{p_1(s)}{1 - p_0(s) + p_1(s)}, \qquad
              q_{ik} = \frac{f_k(p_{ik})}{\sum_j f_j(p_{ij})} .

    With two classes the map of the second class is used for both.

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
        For each map, the scores at which a bound changes; a list of K arrays, of 1 for two classes.
        Log-odds if `input_` is "logits".
    p0_ : list of ndarray
        The lower bound from each of these scores up to the next; 0 below the first.
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
    skcalib.IsotonicCalibrator : One isotonic fit, which may give 0 and 1.

    Notes
    -----
    This is the inductive form: the scores come from a model that was fitted on other rows. If
    calibration rows and new rows are exchangeable, then with two classes the one of
    :math:`p_0, p_1` that belongs to the true label is perfectly calibrated.

    Scores of logits are log-odds, because the probabilities of large logits round to 1. A
    probability of 0 or 1 has log-odds of -1e38 or 1e38.

    All maps together keep up to 2,097,152 scores. If there are more, those between which the
    log-odds of :math:`f_k` change least are left out; this widens intervals and never narrows them.

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
        # One more row cannot lift p0 above p1 elsewhere only if the isotonic fit has one block.
        if mixed and all(bounds.p0.max() <= bounds.p1.min() for bounds in mixed):
            warn_of_flat_maps(type(self).__name__)
        return {
            "X_thresholds_": [bounds.x for bounds in maps],
            "p0_": [bounds.p0 for bounds in maps],
            "p1_": [bounds.p1 for bounds in maps],
        }

    def _in_words(self) -> str:
        maps = counted(len(self.p0_), "map")
        return f"{maps}: lower bound of {levels(self.p0_)}, upper bound of {levels(self.p1_)}"

    def _bounds(self) -> list[StepBounds]:
        # Equal log-odds may differ in their last bits; those of two classes are one difference.
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
            Scores of the kind seen in ``fit`` (`input_`).

        Returns
        -------
        interval : ndarray of shape (n, K, 2)
            ``interval[i, k]`` is :math:`[p_0, p_1]` of class ``classes_[k]`` against the rest,
            before rows are renormalised; with two classes ``predict_proba`` lies within. It is
            narrower the more the calibration rows show about such scores. float32 for
            float32 scores.

        Raises
        ------
        ValueError
            If the scores are of another kind or shape than those seen in ``fit``.
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
