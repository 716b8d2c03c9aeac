"""Spline calibration: add to each score the slope of a spline fitted to the cumulative residual."""

from __future__ import annotations

from functools import partial
from numbers import Integral
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit
from sklearn.utils._param_validation import Interval, StrOptions

from skcalib._arrays.rowwise import (
    Float64Array,
    FloatArray,
    Intp,
    Kind,
    is_unit,
    row_max,
    smallest_above_zero,
)
from skcalib._arrays.sources import ALL, ROWS, Work, map_rows, merge_rows
from skcalib._maps.formulas import ColumnPlan, Constants, Lines, Plan, row
from skcalib._scores.one_vs_rest import SortedProblem, map_sorted, sort_problem
from skcalib._scores.scores import MOST_ODDS, Scores
from skcalib.calibrators._base import ColumnwiseCalibrator, counted, span
from skcalib.calibrators._spline import maps
from skcalib.calibrators._spline.cumulative import RUNOUT, SplineMap, cut, fit_spline, spline_basis
from skcalib.calibrators._spline.ranks import rank_problems, ranks_apart, ranks_of_true

# Matrices of this many rows and columns are solved.
MOST_KNOTS = 10_000

# Numbers of knots that "auto" chooses from; the knots of each are a subset of those of the next.
AUTO_KNOTS = (4, 7, 13)

# Smallest probability that "auto" gives: the lower limit of `clip_` in other calibrators.
SMALLEST = 1e-12

# Largest number of distinct scores of all maps together; with their values, 32 MiB.
MAX_THRESHOLDS = 1 << 21


def top_of_block(block: FloatArray, kind: Kind) -> tuple[Float64Array, Intp]:
    """Return what the largest score of each row is sorted by, and its column."""
    scores = Scores(block, kind)
    if kind == "logits":
        odds = scores.ordered().top_log_odds()
        return np.clip(odds, -MOST_ODDS, MOST_ODDS), scores.best(ALL)
    return row_max(scores.proba(ALL)), scores.best(ALL)


class SplineCalibrator(ColumnwiseCalibrator):
    r"""Calibrate each rank of a row by a spline of the cumulative hits minus scores.

    Spline calibration is for errors that depend on the confidence and are the same for all
    classes, or if only the top label matters (``mode="top"``).

    For a binary problem sorted by score, let :math:`u` be the fraction of the weight up to a score,
    :math:`s(u)` that score and :math:`a(u)` the share of hits of the rows with this score:

    .. math:: d(u) = \int_0^u (a - s), \qquad
              f = \operatorname*{arg\,min}_{\text{cubic spline}} \int_0^1 (f - d)^2, \qquad
              \gamma(s) = s + \lambda f'(u(s)) .

    :math:`f'` is averaged over the interval of :math:`u` that a score covers, so that
    :math:`\gamma` is a function of the score and a weight is the same as repeated rows. Between
    calibration scores :math:`\gamma` is interpolated linearly, outside them it is constant,
    and it is clipped to [0, 1]. There are K such problems, one for each rank of the probabilities
    or for each class, or a single one for the largest probability.

    Parameters
    ----------
    n_knots : "auto" or int, default="auto"
        Number of evenly spaced knots on [0, 1]. A number, from 4 to 10,000, is used for every
        map with :math:`\lambda = 1`, as in the paper, which uses 6 (or 13 or 14). "auto" chooses 4,
        7 or 13 knots and :math:`\lambda` in [0, 1] for each map by generalised cross-validation,
        or no change, and bounds the probabilities: see Notes.
    mode : {"rank", "classwise", "top"}, default="rank"
        "rank": a map for each rank: for the largest probability of each row, for the next one
        and so on, with the event that its class is the true one. "classwise": a map for each
        class. In both, rows are divided by their sum, rows of zeros become uniform, and with two
        classes there is one map, for the second. "top": one map, for the largest probability
        of each row (the lowest column on ties) and whether its class is the true one; the other
        classes share the rest in proportion, and the predicted class does not change.
    runout : {"natural", "parabolic", "cubic"}, default="natural"
        End condition on the second derivatives M at the knots, and its mirror image at the other
        end: :math:`M_0 = 0`, :math:`M_0 = M_1` or :math:`M_0 = 2 M_1 - M_2`.
    input : {"auto", "logits", "proba"}, default="auto"
        What the columns of `X` are. "auto" decides once, in ``fit``: rows that sum to 1 within
        0.001 are probabilities, others logits; rows of both kinds, or rows that all sum to 100,
        raise an error.
    classes : array-like of shape (K,), default=None
        Labels of the columns, sorted; needed if they cannot be inferred from `y`.

    Attributes
    ----------
    knots_ : ndarray of shape (n_knots,)
        Knots; 13 with ``n_knots="auto"``, which include the knots of the smaller numbers.
    knot_values_ : ndarray of shape (m, n_knots)
        The spline f at these knots, a row for each of the m maps: K for ``mode="classwise"``, or
        1 for two classes or ``mode="top"``; at most K for ``mode="rank"``, where the last row is
        for all remaining ranks.
    n_knots_ : ndarray of int of shape (m,)
        Number of knots of each map; 0 if the map changes nothing.
    kept_ : ndarray of shape (m,)
        :math:`\lambda` of each map, in [0, 1]; 1 if `n_knots` is a number.
    least_proba_ : float
        Smallest value of a map with ``n_knots="auto"``; else 0.
    rare_proba_ : float
        With ``n_knots="auto"``, 1 / (n + 1): no map lowers a larger score below it, or a smaller
        score at all; else 0.
    X_thresholds_ : list of m ndarray
        Distinct calibration scores of each map, ascending; an even selection of them if all maps
        together would keep more than 2,097,152. Log-odds if `input_` is "logits".
    y_thresholds_ : list of m ndarray
        Values of the map at these scores, before clipping.
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
    skcalib.IsotonicCalibrator : A map that never decreases.

    Notes
    -----
    The paper recalibrates one score at a time (the top one, the r-th one, one class) and fits
    the spline at the n points of the cumulative curve; here the curve is fitted as a whole.
    The maps need not increase: the predicted class may change, but not with ``mode="top"``. There
    the top score gets the value of its map, at least 1/K, and no other class gets more: an excess
    is shared among the smaller ones.

    Logits are sorted by log-odds, because the probabilities of large logits round to 1. Between
    calibration scores, what is added to the probability is linear in log-odds then. A probability
    of 0 or 1 has log-odds of -1e38 or 1e38.

    Ranks: classes of equal probability in a row share their ranks. In ``fit`` a true class among
    them counts for each of these ranks with an equal part of its weight; ``predict_proba`` gives
    them the mean of the values of their ranks. With ``n_knots="auto"`` the ranks
    before the first one with fewer than 4 hits, at most 32, have maps of their own; the first rank
    always has one. All later ranks have one map, for the sum of their probabilities and whether the
    true class is among them; they share its value in proportion to their probabilities.

    "auto": let n be the sum of the weights (so that 2 is two copies), :math:`e = a - s` for each
    row and :math:`\delta` the change of its score by the spline of m knots with :math:`\lambda =
    1`. The leverages of the rows, the part of :math:`\delta` that is due to the row's own outcome,
    sum to m - 1; their mean is :math:`h = (m - 1) / n`. Without this part the change is
    :math:`\delta^- = (\delta - h e) / (1 - h)`. The chosen m and :math:`\lambda` minimise
    :math:`\sum_i w_i (e_i - \lambda \delta_i^-)^2`, where :math:`\lambda = \sum w e \delta^- / \sum
    w (\delta^-)^2` clipped to [0, 1]; if no sum is less than without change, nothing is changed.
    With :math:`\lambda = 1` this is generalised cross-validation [2]_. Shrinking a predictor
    towards a simple one by cross-validation is the idea of [3]_. Numbers of knots with h of one
    half or more are not tried: nothing is changed if the weights sum to 6 or less. The order of
    rows and of equal scores does not matter, and nothing is random.

    Bounds of "auto": n rows cannot show that a probability is below 1 / (n + 1). The value of a
    score s is at least the smaller of s and 1 / (n + 1), and at least half of the smallest
    probability above 0 in ``fit`` (this half clipped to [:math:`10^{-12}`, 1 / (2 n)]). The upper
    bound is 1 minus the lower bound of 1 - s. No probability is exactly 0.

    References
    ----------
    .. [1] K. Gupta, A. Rahimi, T. Ajanthan, T. Mensink, C. Sminchisescu and R. Hartley,
       "Calibration of neural networks using splines", ICLR 2021.
    .. [2] P. Craven and G. Wahba, "Smoothing noisy data with spline functions", Numerische
       Mathematik 31, 1979.
    .. [3] M. Stone, "Cross-validatory choice and assessment of statistical predictions",
       Journal of the Royal Statistical Society B 36, 1974.

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

    _paper = "Gupta et al. 2021"
    _warns_of_one_label = True
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **ColumnwiseCalibrator._parameter_constraints,
        "n_knots": [StrOptions({"auto"}), Interval(Integral, 4, MOST_KNOTS, closed="both")],
        "mode": [StrOptions({"rank", "classwise", "top"})],
        "runout": [StrOptions(set(RUNOUT))],
    }

    def __init__(
        self,
        *,
        n_knots: int | Literal["auto"] = "auto",
        mode: Literal["rank", "classwise", "top"] = "rank",
        runout: Literal["natural", "parabolic", "cubic"] = "natural",
        input: str = "auto",
        classes: ArrayLike | None = None,
    ) -> None:
        super().__init__(input=input, classes=classes)
        self.n_knots = n_knots
        self.mode = mode
        self.runout = runout

    @property
    def _work(self) -> Work:  # type: ignore[override]
        # Ranks are sorted and scattered within rows, in several arrays as large as a block.
        return super()._work if self.mode == "classwise" else ROWS

    def _fit(self, scores: Scores, code: Intp, w: Float64Array) -> dict[str, Any]:
        n, n_classes = scores.shape
        candidates = AUTO_KNOTS if self.n_knots == "auto" else (int(self.n_knots),)
        basis = spline_basis(candidates, self.runout)
        knots = basis.value.x
        shared = cut(knots, np.arange(n + 1.0)) if is_unit(w) else None
        total = float(w.sum())
        bounds = {"least_proba_": 0.0, "rare_proba_": 0.0}
        if self.n_knots == "auto":
            proba = scores.as_proba(np.float64)
            smallest, _ = merge_rows(smallest_above_zero, proba, merge=min)
            bounds["least_proba_"] = max(min(smallest / 2, 0.5 / total), SMALLEST)
            bounds["rare_proba_"] = 1 / (total + 1)

        def fit_one(problem: SortedProblem) -> SplineMap:
            pieces = cut(knots, problem.cumulative_weight()) if shared is None else shared
            return fit_spline(problem, basis, pieces, MAX_THRESHOLDS // n_maps)

        if self.mode == "top":
            n_maps = 1
            score, best = np.empty(n), np.empty(n, dtype=np.intp)
            map_rows(partial(top_of_block, kind=scores.kind), scores.source, out=(score, best))
            problem = sort_problem(score, best == code, None if is_unit(w) else w, in_place=True)
            fits = [fit_one(problem._replace(log_odds=scores.kind == "logits"))]
        elif self.mode == "rank" and n_classes > 2:
            start, end = np.empty((2, n), dtype=np.intp)
            by_order = scores.source if scores.kind == "logits" else scores.as_proba(np.float64)
            map_rows(ranks_of_true, by_order, code, out=(start, end))
            n_maps = n_classes
            if self.n_knots == "auto":
                n_maps = 1 + ranks_apart(start, end, w, n_classes, AUTO_KNOTS[0])
            fits = list(map(fit_one, rank_problems(scores, start, end, w, n_maps)))
        else:
            first = self._first_column(n_classes)
            n_maps = n_classes - first
            fits = list(map_sorted(fit_one, scores, code, w, first))
        return bounds | {
            "knots_": knots,
            "knot_values_": np.stack([fitted.knot_values for fitted in fits]),
            "n_knots_": np.array([fitted.n_knots for fitted in fits]),
            "kept_": np.array([fitted.kept for fitted in fits]),
            "X_thresholds_": [fitted.x for fitted in fits],
            "y_thresholds_": [fitted.y for fitted in fits],
        }

    def _in_words(self) -> str:
        used = self.n_knots_[self.n_knots_ > 0]
        unchanged = self.n_knots_.size - used.size
        parts = [f"{counted(used.size, 'map')} of {span(used)} knots"] if used.size else []
        parts += [f"{counted(unchanged, 'map')} without change"] if unchanged else []
        return ", ".join(parts)

    def _plan(self) -> Plan | ColumnPlan:
        n_classes = self.classes_.size
        x, y = self.X_thresholds_, self.y_thresholds_
        constants: Constants = {}
        if self.input_ == "logits":
            p = [expit(odds) for odds in x]
            y = [after - before for before, after in zip(p, y, strict=True)]
            constants = {
                "lowest": row([own[0] for own in p]),
                "highest": row([own[-1] for own in p]),
            }
        constants["map"] = Lines(x, y)
        if self.n_knots == "auto":
            least = self.least_proba_
            rare = max(self.rare_proba_, least)
            bounds = {"least": least, "rare": rare, "most": 1.0 - least, "frequent": 1.0 - rare}
            constants |= {name: np.array([bound]) for name, bound in bounds.items()}
        if self.mode == "top":
            constants["others"] = row(np.arange(1, n_classes))
            return Plan(maps.top, constants, "top")
        if self.mode == "classwise" or n_classes == 2:
            return self._column_plan(maps.bounded, constants, "ordered")
        return Plan(partial(maps.ranks, n_maps=len(self.X_thresholds_)), constants)
