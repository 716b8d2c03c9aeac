r"""Spline calibration: the slope of a cubic spline through the cumulative residual.

Sort a binary problem by score and let the fractile :math:`u \in [0, 1]` run over its cumulative
weight. With :math:`s(u)` the score there and :math:`a(u)` the share of hits of its tie group, the
cumulative residual is :math:`d(u) = \int_0^u (a - s)`. A cubic spline :math:`f` is fitted to
:math:`d` by least squares over :math:`[0, 1]`; the calibrated score is :math:`s + f'`.

The right-hand side of the normal equations needs no values of :math:`d`: by parts,

.. math:: \int_0^1 \varphi_j d = \int_0^1 \Psi_j (a - s)
          = \sum_i (a_i - s_i) \left[ G_j(u_i) - G_j(u_{i-1}) \right], \quad
          \Psi_j(u) = \int_u^1 \varphi_j, \quad G_j(u) = \int_0^u \Psi_j .
"""

from __future__ import annotations

from numbers import Integral
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.interpolate import PPoly
from sklearn.utils._param_validation import Interval, StrOptions

from skcalib._base import ColumnwiseCalibrator
from skcalib._blocks import each_block, row_blocks
from skcalib._fitted import LARGEST, check_curves, check_numbers
from skcalib._one_vs_rest import TIE, SortedProblem, is_unit, map_sorted, sort_problem
from skcalib._reductions import keep_top
from skcalib._simplex import FloatArray, Scores, row_max

Float64Array = NDArray[np.float64]

# Second derivatives at the first three knots of which the run-out makes this combination zero.
RUNOUT = {
    "natural": (1.0, 0.0, 0.0),
    "parabolic": (1.0, -1.0, 0.0),
    "cubic": (1.0, -2.0, 1.0),
}

# A step of the fractile below which a difference quotient has lost more digits to rounding than
# the slope at its middle lacks.
NARROW = 1e-7

# Matrices of this many rows and columns are made and solved.
MOST_KNOTS = 10_000

# Distinct scores kept by all maps together: with their values, 32 MiB.
MAX_THRESHOLDS = 1 << 21


def cardinal_splines(n_knots: int, runout: str) -> PPoly:
    """Cubic splines on even knots of [0, 1], the j-th being 1 at knot j and 0 at the others.

    Returned as one piecewise polynomial with values of shape ``(n_knots,)``.
    """
    h = 1 / (n_knots - 1)
    unit = np.eye(n_knots)
    equations, values = np.zeros((n_knots, n_knots)), np.zeros((n_knots, n_knots))
    for i in range(1, n_knots - 1):
        equations[i, i - 1 : i + 2] = h / 6, 2 * h / 3, h / 6
        values[i] = (unit[i + 1] - 2 * unit[i] + unit[i - 1]) / h
    equations[0, :3] = RUNOUT[runout]
    equations[-1, -3:] = RUNOUT[runout][::-1]
    bend = np.linalg.solve(equations, values)
    rise = np.diff(unit, axis=0) / h
    coefficients = np.stack(
        [
            np.diff(bend, axis=0) / (6 * h),
            bend[:-1] / 2,
            rise - h * (2 * bend[:-1] + bend[1:]) / 6,
            unit[:-1],
        ]
    )
    return PPoly(coefficients, np.linspace(0, 1, n_knots))


class Basis(NamedTuple):
    """Cardinal splines, their slopes, :math:`G`, and the inverse of the matrix of products."""

    value: PPoly
    slope: PPoly
    moment: PPoly
    inverse_gram: Float64Array


def spline_basis(n_knots: int, runout: str) -> Basis:
    """Make what depends on the knots alone."""
    value = cardinal_splines(n_knots, runout)
    # Products of cubics: four Gauss points in each interval are exact.
    point, weight = np.polynomial.legendre.leggauss(4)
    width = np.diff(value.x)[:, None]
    at = value((value.x[:-1, None] + width * (point + 1) / 2).ravel())
    gram = at.T @ (at * (width * weight / 2).reshape(-1, 1))
    area = value.antiderivative()
    beyond = PPoly(-area.c, area.x)
    beyond.c[-1] += area(1.0)
    return Basis(value, value.derivative(), beyond.antiderivative(), np.linalg.inv(gram))


class Fractiles(NamedTuple):
    """The basis at the n + 1 ends of the rows' stretches of [0, 1]."""

    weight: Float64Array  # (n + 1,), cumulative
    position: Float64Array  # (n + 1,)
    value: Float64Array  # (n + 1, n_knots)
    moment: Float64Array  # (n + 1, n_knots)
    step: Float64Array  # (n_knots, n), differences of moment
    row: NDArray[np.intp]  # (n + 1,), numbers of the rows


def fractiles(basis: Basis, cumulative_weight: Float64Array) -> Fractiles:
    """Evaluate the basis; rows of weight 1 share one such table for all problems."""
    position = cumulative_weight / cumulative_weight[-1]
    moment = basis.moment(position)
    # Long rows: products with a column run along them.
    step = np.ascontiguousarray(np.diff(moment, axis=0).T)
    row = np.arange(position.size)
    return Fractiles(cumulative_weight, position, basis.value(position), moment, step, row)


class SplineMap(NamedTuple):
    """A fitted map: the spline at its knots, distinct scores and what they become."""

    knot_values: Float64Array
    x: Float64Array
    y: Float64Array


def fit_spline(
    problem: SortedProblem, basis: Basis, grid: Fractiles, target: str, n_thresholds: int
) -> SplineMap:
    """Fit one binary problem and tabulate its map at up to `n_thresholds` distinct scores."""
    score = problem.values.astype(np.float64, copy=False)
    rises = score[1:] - score[:-1] > TIE
    # Where each group of tied scores begins, and the end: without ties, the rule, every row.
    bounds = grid.row if rises.all() else np.flatnonzero(np.concatenate([[True], rises, [True]]))
    row_of = np.searchsorted(score, problem.positives, side="right") - 1
    group_of = np.searchsorted(bounds, row_of, side="right") - 1
    member = np.flatnonzero(np.diff(group_of, prepend=-1))
    event = group_of[member]
    left, right = bounds[event], bounds[event + 1]
    if problem.positive_weights is None or event.size == 0:
        hits = np.diff(member, append=problem.positives.size).astype(np.float64)
    else:
        hits = np.add.reduceat(problem.positive_weights, member)
    group = grid.weight[right] - grid.weight[left]
    # A group lighter than the rounding of the total has no stretch of its own to fill.
    share = np.divide(hits, group, out=np.zeros_like(hits), where=group > 0)
    moments = share @ (grid.moment[right] - grid.moment[left])
    if target == "residual":
        moments -= _mix(grid.step, score)
    knot_values = basis.inverse_gram @ moments

    start, end = bounds[:-1], bounds[1:]
    if start.size > n_thresholds:
        kept = grid.row[:n_thresholds] * (start.size - 1) // max(n_thresholds - 1, 1)
        start, end = start.take(kept), end.take(kept)
    slope = mean_slope(basis, grid, knot_values, start, end)
    distinct = score.take(start)
    return SplineMap(knot_values, distinct, slope + distinct if target == "residual" else slope)


def _mix(columns: Float64Array, share: Float64Array) -> Float64Array:
    """Return ``columns @ share``, which would wait for the threads of the linear algebra."""
    return np.einsum("nk,k->n", columns, share)


def mean_slope(
    basis: Basis,
    grid: Fractiles,
    knot_values: Float64Array,
    left: NDArray[np.intp],
    right: NDArray[np.intp],
) -> Float64Array:
    """Mean of the spline's slope over the stretches between two ends of rows."""
    start = grid.position.take(left)
    width = grid.position.take(right) - start
    if 8 * left.size < grid.row.size:  # few ends of many
        rise = _mix(grid.value.take(right, axis=0) - grid.value.take(left, axis=0), knot_values)
    else:
        f = _mix(grid.value, knot_values)
        rise = f.take(right) - f.take(left)
    slope = np.divide(rise, width, out=np.zeros_like(rise), where=width >= NARROW)
    narrow = np.flatnonzero(width < NARROW)
    if narrow.size:
        slope[narrow] = basis.slope(start[narrow] + width[narrow] / 2) @ knot_values
    return slope


def spread_rest(P: Float64Array, top: NDArray[np.intp], score: FloatArray) -> None:
    """Set the top entries of rows to `score`; the others share the rest in proportion, in place.

    A score so low that another would be larger is raised to where the two meet.
    """
    row = np.arange(P.shape[0])
    P[row, top] = 0.0
    others = P.sum(axis=1)
    alone = others <= 0.0
    if alone.any():
        P[alone] = 1.0
        others[alone] = P.shape[1] - 1
    P /= others[:, None]  # first: the rest over others too small would overflow
    largest = row_max(P)
    score = np.maximum(score, largest / (1.0 + largest))
    P *= (1.0 - score)[:, None]
    P[row, top] = score


class SplineCalibrator(ColumnwiseCalibrator):
    r"""Recalibrate by the slope of a smooth fit to the cumulative distribution of hits.

    For a binary problem sorted by score, :math:`u` the fraction of the weight up to a score,
    :math:`s(u)` that score and :math:`a(u)` the share of hits of the rows that have it,

    .. math:: d(u) = \int_0^u (a - s), \qquad
              f = \operatorname*{arg\,min}_{\text{cubic spline}} \int_0^1 (f - d)^2, \qquad
              \gamma(s) = s + f'(u(s)) .

    :math:`f'` is averaged over the stretch of :math:`u` that a score takes up, which makes
    :math:`\gamma` a function of the score and a weight the same as repeated rows. Between
    calibration scores :math:`\gamma` is interpolated linearly, outside them it is constant,
    and it is clipped to [0, 1].

    Parameters
    ----------
    n_knots : int, default=6
        Number of evenly spaced knots on [0, 1], from 4 to 10,000.
    mode : {"classwise", "top"}, default="classwise"
        "classwise": a map for each class, rows divided by their sum, rows of zeros made uniform
        (with two classes: one map, for the second). "top": one map, for the largest probability
        of each row (the lowest column on ties) and whether that class is the true one; the
        other classes share the rest in proportion, and the predicted class stays.
    runout : {"natural", "parabolic", "cubic"}, default="natural"
        End condition on the second derivatives M at the knots, the same mirrored at the other
        end: :math:`M_0 = 0`, :math:`M_0 = M_1` or :math:`M_0 = 2 M_1 - M_2`.
    target : {"residual", "cumulative"}, default="residual"
        Fit :math:`d` as above, or fit :math:`h(u) = \int_0^u a` and set
        :math:`\gamma(s) = f'(u(s))`.
    input : {"auto", "logits", "proba"}, default="auto"
        What the columns of `X` are. "auto" decides once, in ``fit``, and only where it is
        certain: a value outside [0, 1] means logits, rows that sum to 1 mean probabilities.
    classes : array-like of shape (K,), default=None
        Labels of the columns; needed where they cannot be told from `y`.

    Attributes
    ----------
    knots_ : ndarray of shape (n_knots,)
        Knots.
    knot_values_ : ndarray of shape (m, n_knots)
        The spline at its knots, a row for each of the m maps: K, or 1 for two classes or
        ``mode="top"``.
    X_thresholds_ : list of m ndarray
        Distinct calibration scores of each map, ascending; evenly many of them where all maps
        together would keep more than 2,097,152.
    y_thresholds_ : list of m ndarray
        What the map makes of them, before it is clipped.
    classes_ : ndarray of shape (K,)
        Sorted labels of the columns.
    input_ : {"logits", "proba"}
        What the scores were.
    n_features_in_ : int
        Number of columns of `X`.

    See Also
    --------
    skcalib.IsotonicCalibrator : A map that never decreases.

    Notes
    -----
    The paper recalibrates one score at a time (the top one, the r-th one, one class) and fits
    the spline at the n points of the cumulative curve; here the curve is fitted as a whole.
    The maps need not increase: with ``mode="classwise"`` the predicted class may change. With
    ``mode="top"`` it stays: where the largest of the other classes, whose share of the rest is m,
    would come out above the calibrated score q of the first, q is raised to m / (1 + m), where
    both are equal.

    References
    ----------
    .. [1] K. Gupta, A. Rahimi, T. Ajanthan, T. Mensink, C. Sminchisescu and R. Hartley,
       "Calibration of neural networks using splines", ICLR 2021.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib import SplineCalibrator
    >>> p = np.linspace(0.01, 0.99, 50)
    >>> y = p > 0.3
    >>> spline = SplineCalibrator(n_knots=8).fit(p, y)
    >>> spline.predict_proba([0.1, 0.9]).round(1) + 0.0
    array([[1., 0.],
           [0., 1.]])
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **ColumnwiseCalibrator._parameter_constraints,
        "n_knots": [Interval(Integral, 4, MOST_KNOTS, closed="both")],
        "mode": [StrOptions({"classwise", "top"})],
        "runout": [StrOptions(set(RUNOUT))],
        "target": [StrOptions({"residual", "cumulative"})],
    }

    def __init__(
        self,
        *,
        n_knots: int = 6,
        mode: Literal["classwise", "top"] = "classwise",
        runout: Literal["natural", "parabolic", "cubic"] = "natural",
        target: Literal["residual", "cumulative"] = "residual",
        input: str = "auto",
        classes: ArrayLike | None = None,
    ) -> None:
        super().__init__(input=input, classes=classes)
        self.n_knots = n_knots
        self.mode = mode
        self.runout = runout
        self.target = target

    @property
    def _keeps_best(self) -> bool:
        return self.mode == "top"

    @property
    def _tells_classes_apart(self) -> bool:
        return self.mode != "top"

    def _fit(self, scores: Scores, code: NDArray[np.intp], w: Float64Array) -> dict[str, Any]:
        n, n_classes = scores.shape
        basis = spline_basis(self.n_knots, self.runout)
        first = self._first_column(n_classes)
        n_thresholds = MAX_THRESHOLDS // (1 if self.mode == "top" else n_classes - first)
        shared = fractiles(basis, np.arange(n + 1.0)) if is_unit(w) else None

        def fit_one(_: int, problem: SortedProblem) -> SplineMap:
            grid = fractiles(basis, problem.cumulative_weight()) if shared is None else shared
            return fit_spline(problem, basis, grid, self.target, n_thresholds)

        if self.mode == "top":
            score, hit = np.empty(n), np.empty(n, dtype=bool)

            def reduce(rows: slice) -> None:
                best = scores.best(rows)
                score[rows] = np.take_along_axis(scores.proba(rows), best[:, None], axis=1)[:, 0]
                hit[rows] = best == code[rows]

            each_block(reduce, row_blocks(n, n_classes))
            maps = [fit_one(0, sort_problem(score, hit, None if is_unit(w) else w))]
        else:
            maps = list(map_sorted(fit_one, scores, code, w, first))
        return {
            "knots_": basis.value.x,
            "knot_values_": np.stack([fitted.knot_values for fitted in maps]),
            "X_thresholds_": [fitted.x for fitted in maps],
            "y_thresholds_": [fitted.y for fitted in maps],
        }

    def _check_fitted(self) -> None:
        n_maps = 1 if self.mode == "top" else self._map_count()
        check_numbers(self, "knots_", (self.n_knots,), low=0.0, high=1.0, order="strict")
        check_numbers(self, "knot_values_", (n_maps, self.n_knots))
        check_curves(self, n_maps, low=-LARGEST, high=LARGEST)

    def _map(self, scores: Scores) -> FloatArray:
        if self.mode == "classwise":
            return super()._map(scores)

        def map_top(rows: slice) -> FloatArray:
            P, best = scores.proba(rows), scores.best(rows)
            score = np.take_along_axis(P, best[:, None], axis=1)[:, 0]
            spread_rest(P, best, self._map_column(0, score))
            return keep_top(P.astype(scores.dtype, copy=False), best)

        return scores.map_rows(map_top)

    def _map_column(self, j: int, column: FloatArray) -> FloatArray:
        # In order of the score each look-up starts where the last one ended.
        order = np.argsort(column)
        y = np.empty(column.size)
        y[order] = np.interp(column[order], self.X_thresholds_[j], self.y_thresholds_[j])
        return np.clip(y, 0.0, 1.0, out=y)
