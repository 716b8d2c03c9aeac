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

from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn import config_context
from sklearn.isotonic import isotonic_regression

from skcalib._arrays.blocks import column_blocks
from skcalib._arrays.dask import is_dask
from skcalib._arrays.tensors import follow
from skcalib._arrays.types import Float64Array, FloatArray
from skcalib._scores.one_vs_rest import SortedProblem, map_sorted_blocks
from skcalib._scores.scores import Scores
from skcalib.calibrators._base import ColumnwiseCalibrator
from skcalib.calibrators._shown_fit import counted, levels

# Largest number of scores of all maps together; with both values, 48 MiB.
MAX_THRESHOLDS = 1 << 21

# Rows of the problems that are solved together, so that their arrays fit the cache.
TOGETHER_BYTES = 1 << 19

# No label is ever impossible: limits of p0 and p1 in spite of rounding.
LEAST, MOST = 1e-100, float(np.nextafter(1.0, 0.0))


class Runs(NamedTuple):
    """Runs of all problems, problem by problem; each array is ``(r,)``.

    The runs of a problem lie before, between and after its distinct scores that have hits. A run
    may be empty.
    """

    owner: NDArray[np.intp]  # the problem
    start: NDArray[np.intp]  # rows before the run
    stop: NDArray[np.intp]  # rows up to its end
    hits: Float64Array  # hits before it


def find_runs(problems: Sequence[SortedProblem]) -> Runs:
    """Find the runs between the hits of each problem."""
    size: list[int] = []
    start: list[ArrayLike] = []
    stop: list[ArrayLike] = []
    hits: list[Float64Array] = []
    for values, _, positives, weights in problems:
        last = np.flatnonzero(np.append(positives[1:] != positives[:-1], True)[: positives.size])
        x = positives[last]
        size.append(x.size + 1)
        start += [[0], values.searchsorted(x, side="right")]
        stop += [values.searchsorted(x, side="left"), [values.size]]
        total = np.arange(1.0, positives.size + 1) if weights is None else np.cumsum(weights)
        hits += [np.zeros(1), total[last]]
    owner = np.repeat(np.arange(len(problems)), size)
    return Runs(owner, np.concatenate(start), np.concatenate(stop), np.concatenate(hits))


def least_enough(
    low: NDArray[np.intp],
    high: NDArray[np.intp],
    enough: Callable[[NDArray[np.intp]], NDArray[np.bool_]],
) -> NDArray[np.intp]:
    """Return the least number from `low` to `high` that is enough; all larger ones are, too."""
    while (low < high).any():
        middle = (low + high) // 2
        is_enough = enough(middle)
        high = np.where(is_enough, middle, high)
        low = np.where(is_enough, low, middle + 1)
    return low


class Hull(NamedTuple):
    """Vertices of the lower hulls of all problems and the slopes on both sides of each."""

    W: Float64Array
    H: Float64Array
    before: Float64Array
    beyond: Float64Array

    def with_one(
        self, W: Float64Array, H: Float64Array, low: NDArray[np.intp], high: NDArray[np.intp]
    ) -> tuple[Float64Array, NDArray[np.intp]]:
        """Return the minimum of the formula over vertices `low` to `high`, and where it is."""
        value = (self.H[low] - H + 1.0) / (self.W[low] - W + 1.0)
        # Most lines touch the first vertex. Beyond the touched vertex the hull is steeper.
        far = np.flatnonzero(self.beyond[low] < value)
        W, H = W[far], H[far]

        def slope(t: NDArray[np.intp]) -> Float64Array:
            return np.asarray((self.H[t] - H + 1.0) / (self.W[t] - W + 1.0))

        t = least_enough(low[far] + 1, high[far], lambda t: self.beyond[t] >= slope(t))
        value[far] = slope(t)
        touched = low.copy()
        touched[far] = t
        return value, touched

    def with_zero(
        self, W: Float64Array, H: Float64Array, low: NDArray[np.intp], high: NDArray[np.intp]
    ) -> Float64Array:
        """Return the maximum of the formula over vertices `low` to `high`."""

        def slope(t: NDArray[np.intp]) -> Float64Array:
            return np.asarray((H - self.H[t]) / (W - self.W[t] + 1.0))

        back = least_enough(-high, -low, lambda back: self.before[-back] <= slope(-back))
        return slope(-back)


def lower_hulls(
    W: Float64Array, H: Float64Array, first: NDArray[np.intp], last: NDArray[np.intp]
) -> tuple[Hull, NDArray[np.intp]]:
    """Return the hulls of the points from `first` to `last`, and each point's next vertex.

    That of a vertex is itself.
    """
    # A weight that is lost in the rounding of the sum counts as a tiny one.
    weight = np.maximum(np.diff(W), LEAST)
    share = np.diff(H) / weight
    slope = np.empty(W.size)
    # With a thousand short columns the checks of scikit-learn take longer than the fits.
    with config_context(assume_finite=True, skip_parameter_validation=True):
        for i, j in zip(first, last, strict=True):
            if i < j:
                slope[i:j] = isotonic_regression(share[i:j], sample_weight=weight[i:j])
    np.minimum(slope, 1.0, out=slope)
    slope[last] = np.inf
    turns = np.append(True, slope[1:] != slope[:-1])
    turns[first] = turns[last] = True
    vertex = np.flatnonzero(turns)
    following = np.cumsum(turns) - turns
    before = slope[vertex - 1]
    before[following[first]] = -np.inf
    return Hull(W[vertex], H[vertex], before, slope[vertex]), following


class Bounds(NamedTuple):
    """Distinct scores, ascending, and p0 and p1 there; each array is ``(m,)``.

    p1 is constant down to the next lower score, p0 up to the next higher one.
    """

    x: Float64Array
    p0: Float64Array
    p1: Float64Array


def bounds_of_blocks(problems: Sequence[SortedProblem], n_thresholds: int) -> list[Bounds]:
    """Return `venn_abers_bounds`, of a few problems at a time, which bounds the memory."""
    blocks = column_blocks(problems[0].values.size, len(problems), TOGETHER_BYTES)
    each = [venn_abers_bounds(problems[some], n_thresholds) for some in blocks]
    return list(chain.from_iterable(each))


def venn_abers_bounds(problems: Sequence[SortedProblem], n_thresholds: int) -> list[Bounds]:
    """Return p0 and p1 of each problem at up to `n_thresholds` scores.

    All problems have n rows. Point i of problem j, with i rows before it, is at place
    j (n + 1) + i.
    """
    n = problems[0].values.size
    weight = np.concatenate([problem.cumulative_weight() for problem in problems])
    values = np.empty((len(problems), n + 1))
    for row, problem in zip(values, problems, strict=True):
        row[0], row[1:] = -1.0, problem.values
    owner, start, stop, H = find_runs(problems)
    last = np.cumsum(np.bincount(owner)) - 1
    first = np.append(0, last[:-1] + 1)

    # Both formulas at the end of each run.
    W = weight[owner * (n + 1) + stop]
    hull, vertex = lower_hulls(W, H, first, last)
    lowest, highest = vertex[first][owner], vertex[last][owner]
    p0 = hull.with_zero(W, H, lowest, np.maximum(vertex - 1, lowest))
    p0[first] = 0.0
    p1, touched = hull.with_one(W, H, vertex, highest)
    reached = np.zeros(W.size)
    for i, j in zip(first, last, strict=True):
        p0[i : j + 1] = np.minimum.accumulate(p0[i : j + 1][::-1])[::-1]
        np.maximum.accumulate(p1[i:j], out=reached[i + 1 : j + 1])

    # Points where a bound may change: the start of each run and, in runs where p1 increases, rows
    # within. With weights of 1 the formula gives the first such row, except for rounding.
    rises = np.flatnonzero(p1 > reached)
    skipped = stop - start
    skipped[rises] = 0
    if problems[0].weights is None:
        level = np.maximum(reached[rises], LEAST)
        t = least_enough(vertex[rises], touched[rises], lambda t: hull.beyond[t] >= level)
        row = hull.W[t] + 1.0 - (hull.H[t] + 1.0 - H[rises]) / level
        skipped[rises] = np.clip(row - 1.0 - start[rises], 0, (stop - start)[rises])
    count = stop - start - skipped + 1
    ends = np.cumsum(count)
    begins = ends - count
    run = np.repeat(np.arange(W.size), count)
    place = np.arange(run.size) + (owner * (n + 1) + start + skipped - begins)[run]
    place[begins] -= skipped
    p1, _ = hull.with_one(weight[place], H[run], vertex[run], touched[run])
    # There is no point within a tie.
    inside = np.zeros(values.shape, dtype=bool)
    np.equal(values[:, 1:], values[:, :-1], out=inside[:, :-1])
    if inside.any():
        p1[inside.ravel()[place]] = 0.0
    for i, j in zip(begins[first], ends[last], strict=True):
        np.maximum.accumulate(p1[i:j], out=p1[i:j])
    np.clip(p1, LEAST, 1.0, out=p1)

    # Scores between equal values are dropped; beyond the ends p0 is 0 and p1 is 1.
    changed = np.append(False, p1[1:] != p1[:-1])
    changed[begins[1:]] |= p0[1:] != p0[:-1]
    changed[begins[first]] = False
    kept = np.flatnonzero(changed)
    x, p0, p1 = values.ravel()[place[kept]], p0[run[kept]], p1[kept - 1]
    np.minimum(p0, np.minimum(p1, MOST), out=p0)
    cuts = kept.searchsorted(ends[last][:-1])
    bounds = map(Bounds, *(np.split(part, cuts) for part in (x, p0, p1)))
    return [thinned(each, n_thresholds) for each in bounds]


def thinned(bounds: Bounds, most: int) -> Bounds:
    """Choose up to `most` scores between which the merged log-odds change little.

    They are the first and the last score of each of ``most / 2`` equal ranges of log-odds. Fewer
    scores can only lower p0 and raise p1.
    """
    if bounds.x.size <= most:
        return bounds
    odds = np.log(bounds.p1) - np.log1p(-bounds.p0)
    n_ranges = most // 2
    place = (odds - odds[0]) / (odds[-1] - odds[0]) * n_ranges
    inside = np.minimum(place.astype(np.intp), n_ranges - 1)
    changes = inside[1:] != inside[:-1]
    chosen = np.flatnonzero(np.append(True, changes) | np.append(changes, True))
    return Bounds(bounds.x[chosen], bounds.p0[chosen], bounds.p1[chosen])


class VennAbersCalibrator(ColumnwiseCalibrator):
    r"""Calibrate each class by two isotonic fits, which also give an interval.

    For a score s of class k against the rest, the calibration rows and the new row, which has
    weight 1, are fitted by isotonic regression twice: with the new row outside the class, which
    gives it the value :math:`p_0(s)`, and within, which gives :math:`p_1(s) > p_0(s)`. The
    calibrated probability lies between them and minimises the largest regret in log loss,

    .. math:: f_k(s) = \frac{p_1(s)}{1 - p_0(s) + p_1(s)}, \qquad
              q_{ik} = \frac{f_k(p_{ik})}{\sum_j f_j(p_{ij})} .

    With two classes the map of the second class is used for both. No probability is exactly 0 or 1.

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
    p0_ : list of ndarray
        The lower bound from each of these scores up to the next; 0 below the first.
    p1_ : list of ndarray
        The upper bound from each of these scores down to the one before; 1 above the last.
    classes_ : ndarray of shape (K,)
        Sorted labels of the columns.
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
    _monotone = True

    def _fit(self, scores: Scores, code: NDArray[np.intp], w: Float64Array) -> dict[str, Any]:
        first = self._first_column(scores.shape[1])
        n_thresholds = max(2, MAX_THRESHOLDS // (scores.shape[1] - first))
        fit_some = partial(bounds_of_blocks, n_thresholds=n_thresholds)
        maps = list(map_sorted_blocks(fit_some, scores, code, w, first))
        return {
            "X_thresholds_": [bounds.x for bounds in maps],
            "p0_": [bounds.p0 for bounds in maps],
            "p1_": [bounds.p1 for bounds in maps],
        }

    def _in_words(self) -> str:
        maps = counted(len(self.p0_), "map")
        return f"{maps}: lower bound of {levels(self.p0_)}, upper bound of {levels(self.p1_)}"

    def _bounds(self, j: int, column: FloatArray) -> tuple[Float64Array, Float64Array]:
        """Apply map number j to a column of probabilities: return p0 and p1."""
        x = self.X_thresholds_[j]
        below = np.searchsorted(x, column, side="left")
        reached = np.append(x, np.inf)[below] == column
        return np.append(0.0, self.p0_[j])[below + reached], np.append(self.p1_[j], 1.0)[below]

    def _map_column(self, j: int, column: FloatArray) -> FloatArray:
        p0, p1 = self._bounds(j, column)
        return p1 / (1.0 - p0 + p1)

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
        width = self.classes_.size, 2
        if is_dask(X):
            return self._lazily(X, type(self).predict_interval, width)
        return follow(self._map_rows(self._as_seen(X), self._intervals, width), X)

    def _intervals(self, scores: Scores) -> FloatArray:
        n, n_classes = scores.shape
        first = self._first_column(n_classes)
        out = np.empty((n, n_classes, 2), dtype=scores.dtype)
        for j, column in enumerate(scores.proba_columns(slice(first, n_classes))):
            out[:, j + first, 0], out[:, j + first, 1] = self._bounds(j, column)
        if first:
            np.subtract(1, out[:, 1, ::-1], out=out[:, 0])
        return out
