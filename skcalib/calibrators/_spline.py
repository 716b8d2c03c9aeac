"""Spline calibration, which corrects scores by the slope of a spline of cumulative residuals."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from functools import partial
from math import factorial
from numbers import Integral
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.interpolate import PPoly, make_interp_spline
from scipy.special import expit
from sklearn.utils._param_validation import Interval, StrOptions

from skcalib._arrays.rowwise import (
    Float64Array,
    FloatArray,
    Intp,
    Kind,
    column_blocks,
    is_unit,
    row_blocks,
    row_max,
    smallest_above_zero,
)
from skcalib._arrays.sources import ALL, ROWS, Work, map_rows, merge_rows
from skcalib._maps.formulas import (
    ArrayOperations,
    ColumnPlan,
    Constants,
    Lines,
    Operations,
    Plan,
    Value,
    row,
)
from skcalib._scores.one_vs_rest import SortedProblem, map_sorted, sort_problem
from skcalib._scores.scores import MOST_ODDS, Scores
from skcalib.calibrators._base import ColumnwiseCalibrator, counted, span

# Fit of a cubic spline to the cumulative residuals of a binary problem.
#
# Sort a binary problem by score and let the fractile :math:`u \in [0, 1]` run over its cumulative
# weight. With :math:`s(u)` the score at u and :math:`a(u)` the fraction of positives at this score,
# the cumulative residual is :math:`d(u) = \int_0^u (a - s)`. A cubic spline :math:`f` is fitted to
# :math:`d` by least squares over :math:`[0, 1]`; the calibrated score is :math:`s + f'`.
#
# The right-hand side of the normal equations needs no values of :math:`d`. Integration by parts
# gives, for each basis function :math:`\varphi_j`,
#
# .. math:: \int_0^1 \varphi_j d = \int_0^1 \Psi_j (a - s), \quad
#           \Psi_j(u) = \int_u^1 \varphi_j .
#
# Between two knots :math:`\Psi_j` is a polynomial of degree 4 and :math:`a - s` is constant within
# a row. So five sums over the rows between two knots are enough for every j and any coarser spline.


# For each value of `runout`: the order of the derivative that is 0 at both ends of the spline, or
# the name of the end condition in SciPy.
RUNOUT: dict[str, int | str] = {"natural": 2, "parabolic": 3, "cubic": "not-a-knot"}


# If there are at most this many intervals (12 MiB), the powers of the positions within the
# intervals are computed once for all binary problems.
FEW_PIECES = 1 << 18


def cardinal_splines(n_knots: int, runout: str) -> PPoly:
    """Return the cardinal cubic splines on evenly spaced knots of [0, 1].

    Spline j is 1 at knot j and 0 at all other knots. The result is one piecewise polynomial with
    values of shape ``(n_knots,)``.
    """
    x, ends = np.linspace(0, 1, n_knots), RUNOUT[runout]
    none = [(ends, np.zeros(n_knots))]
    conditions = ends if isinstance(ends, str) else (none, none)
    spline = make_interp_spline(x, np.eye(n_knots), bc_type=conditions)
    return PPoly([spline(x[:-1], k) / factorial(k) for k in (3, 2, 1, 0)], x)


class Basis(NamedTuple):
    r"""Cardinal splines, their integrals :math:`\Psi`, and the matrix of each number of knots.

    Each candidate has a matrix ``(n_knots, n_knots)``. The matrix times the right-hand side of the
    normal equations gives the values of the least-squares spline at all knots.
    """

    value: PPoly
    beyond: PPoly
    candidates: list[tuple[int, Float64Array]]


def spline_basis(candidates: tuple[int, ...], runout: str) -> Basis:
    """Return the splines, integrals and matrices for several candidate numbers of knots.

    The knots of the last candidate include those of all other candidates.
    """
    value = cardinal_splines(candidates[-1], runout)
    # Gauss quadrature with four points between two knots is exact for products of two cubics.
    point, weight = np.polynomial.legendre.leggauss(4)
    width = np.diff(value.x)[:, None]
    at = value((value.x[:-1, None] + width * (point + 1) / 2).ravel())
    gram = at.T @ (at * (width * weight / 2).reshape(-1, 1))
    area = value.antiderivative()
    beyond = PPoly(-area.c, area.x)
    beyond.c[-1] += area(1.0)
    solutions = []
    for n_knots in candidates[:-1]:
        coarse = cardinal_splines(n_knots, runout)(value.x)
        solutions.append((n_knots, coarse @ np.linalg.solve(coarse.T @ gram @ coarse, coarse.T)))
    return Basis(value, beyond, [*solutions, (candidates[-1], np.linalg.inv(gram))])


# Widths of intervals of cumulative weight u, and the mean of each power of u over each interval.
Powers = tuple[Float64Array, Float64Array]


class Pieces(NamedTuple):
    """Intervals of cumulative weight in [0, 1], one for each row, which are cut at the knots."""

    knots: Float64Array
    u: Float64Array  # lower ends of all intervals, and finally 1; shape (n_pieces + 1,)
    ends: Intp  # for each knot, the index of the first interval after it; shape (n_knots,)
    few: Powers | None = None  # None if there are too many intervals

    def powers(self, first: int, end: int, below: Intp | int, degree: int) -> Powers:
        """Return interval widths, and means over intervals of powers of the distance from a knot.

        The means ``(degree + 1, pieces)`` are of powers of the distance from the knot `below`.
        """
        if self.few is not None:
            return self.few[0][first:end], self.few[1][: degree + 1, first:end]
        knot = self.knots.take(below)
        left, right = self.u[first:end] - knot, self.u[first + 1 : end + 1] - knot
        # The mean of t^p over the interval from l to r is the sum of l^a r^(p - a) over a = 0, ...,
        # p, divided by p + 1. The quotient (r^(p + 1) - l^(p + 1)) / (r - l) would lose digits in
        # narrow intervals.
        power, lowest = np.empty((degree + 1, left.size)), left
        power[0] = 1.0
        np.add(right, left, out=power[1])
        for p in range(2, degree + 1):
            lowest = lowest * left
            np.multiply(power[p - 1], right, out=power[p])
            power[p] += lowest
        power[1:] /= np.arange(2.0, degree + 2.0)[:, None]
        return right - left, power


def cut(knots: Float64Array, cumulative_weight: Float64Array) -> Pieces:
    """Divide [0, 1] into an interval for each row, and cut the intervals at the knots.

    With weights of 1, the pieces are the same for all problems.
    """
    u = cumulative_weight / cumulative_weight[-1]
    at = np.searchsorted(u, knots[1:-1])
    ends = np.concatenate([[0], at + np.arange(at.size), [u.size + at.size - 1]])
    pieces = Pieces(knots, np.insert(u, at, knots[1:-1]), ends)
    if (n_pieces := ends[-1]) > FEW_PIECES:
        return pieces
    return pieces._replace(few=pieces.powers(0, n_pieces, _counts(ends[1:-1], n_pieces), 4))


class SplineMap(NamedTuple):
    """Calibration function of one binary problem: scores, their calibrated values, and the spline.

    If the number of knots is 0, the function changes nothing.
    """

    n_knots: int
    kept: float
    knot_values: Float64Array
    x: Float64Array
    y: Float64Array


def fit_spline(
    problem: SortedProblem, basis: Basis, pieces: Pieces, n_thresholds: int
) -> SplineMap:
    """Fit the function of one binary problem, stored at up to `n_thresholds` distinct scores."""
    # Index of the first row of each group of equal scores, and finally the number of rows.
    bounds = np.flatnonzero(np.concatenate([[True], problem.rises(1.0), [True]]))
    start = bounds[:-1]
    group_of = np.searchsorted(problem.values.take(start), problem.positives, side="right") - 1
    hits = np.bincount(group_of, problem.positive_weights, start.size).astype(np.float64)
    group = np.diff(problem.weight_before(bounds))
    # If the weight of a group of equal scores vanishes by rounding of the cumulative sum, its
    # residual has no effect.
    drift = np.divide(hits, group, out=np.zeros(start.size), where=(hits > 0) & (group > 0))
    drift = np.repeat(drift, np.diff(bounds))
    level = problem.proba()
    drift -= level
    level = level.take(start)
    moments = _moments(basis, pieces, drift)
    del drift
    n_points = min(start.size, n_thresholds)
    some = np.arange(n_points) * (start.size - 1) // max(n_points - 1, 1)
    x, y = problem.values.take(start.take(some)).astype(np.float64), level.take(some)
    fits = [(n_knots, solution @ moments) for n_knots, solution in basis.candidates]
    if len(fits) == 1:
        n_knots, knot_values = fits[0]
        change = mean_slope(basis, pieces, knot_values, bounds).take(some)
        return SplineMap(n_knots, 1.0, knot_values, x, y + change)
    # Candidate numbers of knots are evaluated one by one, because each needs an array with an entry
    # for every distinct score.
    changes = (mean_slope(basis, pieces, knot_values, bounds) for _, knot_values in fits)
    which, kept, change = choose([m for m, _ in fits], changes, some, level, hits, group)
    if which is None:
        return SplineMap(0, 0.0, np.zeros_like(fits[0][1]), x, y)
    n_knots, knot_values = fits[which]
    return SplineMap(n_knots, kept, knot_values, x, y + kept * change)


def _moments(basis: Basis, pieces: Pieces, drift: Float64Array) -> Float64Array:
    r"""Return the integrals of :math:`\Psi_j` times the residual, which is constant in each row."""
    sums = np.empty((5, pieces.ends.size - 1))
    for i, (first, end) in enumerate(itertools.pairwise(pieces.ends)):
        width, power = pieces.powers(first, end, i, 4)
        mass = drift[first - i : end - i] * width  # each inner knot splits the interval of a row
        # A matrix product would wait for threads of BLAS, which np.einsum does not use.
        np.einsum("pn,n->p", power, mass, out=sums[:, i])
    return np.einsum("pij,pi->j", basis.beyond.c, sums[::-1])


def mean_slope(
    basis: Basis, pieces: Pieces, knot_values: Float64Array, bounds: Intp
) -> Float64Array:
    """Return the mean slope of the spline over each group of rows between successive `bounds`."""
    cubic, square, line, _ = basis.value.c @ knot_values
    mean = np.empty(bounds.size - 1)
    cuts = np.searchsorted(bounds, pieces.ends[1:-1] - np.arange(pieces.knots.size - 2))
    for some in row_blocks(mean.size, 2):
        rows = bounds[some.start : some.stop + 1]
        # Each inner knot cuts an interval in two, so that the index of the first interval of a row
        # is the index of the row plus the number of inner knots before the row.
        begin = rows + _counts(cuts - some.start, rows.size)
        first, end = begin[0], begin[-1]
        below = _counts(pieces.ends[1:-1] - first, end - first)
        # If all intervals are between the same two knots, the coefficients of the spline are read
        # only once.
        below = below[:1] if below[0] == below[-1] else below
        width, power = pieces.powers(first, end, below, 2)
        slope = power[2] * (3 * cubic).take(below)
        slope += power[1] * (2 * square).take(below)
        slope += line.take(below)
        # Even an interval of width 0 gets a slope, so that equal scores of weight 0 have one.
        width = width + np.finfo(np.float64).tiny
        slope *= width
        if slope.size > rows.size - 1:
            slope, width = (np.add.reduceat(each, begin[:-1] - first) for each in (slope, width))
        np.divide(slope, width, out=mean[some])
    return mean


def _counts(limits: Intp, n: int) -> Intp:
    """Return, for each i from 0 to n - 1, how many of the ascending `limits` are at most i."""
    cuts = np.concatenate([[0], np.minimum(np.maximum(limits, 0), n), [n]])
    return np.repeat(np.arange(limits.size + 1), cuts[1:] - cuts[:-1])


def _dot(a: Float64Array, b: Float64Array) -> float:
    """Return the dot product of two vectors without BLAS, whose threads would cost time."""
    return float(np.einsum("n,n->", a, b))


def choose(
    knots: list[int],
    changes: Iterable[Float64Array],
    some: Intp,
    score: Float64Array,
    hits: Float64Array,
    group: Float64Array,
) -> tuple[int | None, float, Float64Array]:
    """Choose the number of knots by generalised cross-validation (see notes of `SplineCalibrator`).

    Returns its index, or None if no candidate is better than no change; its lambda; and its change
    of the scores `some`.
    """
    n = float(group.sum())
    none = _dot(hits, 1 - 2 * score) + _dot(group, score**2)
    best: tuple[int | None, float, Float64Array] = (None, 0.0, np.zeros(some.size))
    least = none
    for which, (n_knots, change) in enumerate(zip(knots, changes, strict=True)):
        h = (n_knots - 1) / n  # mean leverage of a row, as in linear regression
        if h >= 0.5:
            continue
        gain = _dot(hits - group * score, change) - h * none
        size = _dot(group, change**2) - 2 * h * (gain + h * none) + h**2 * none
        if gain <= 0 or size <= 0:
            continue
        share = min(gain * (1 - h) / size, 1.0)
        error = none - 2 * share * gain / (1 - h) + share**2 * size / (1 - h) ** 2
        if error < least:
            best, least = (which, share, change.take(some)), error
    return best


# Prediction formulas: one calibration function for each class, for each rank in a row, or for
# the top label.


def bounded(o: Operations, p: Value, c: Constants) -> Value:
    """Evaluate the splines at scores p, and clip the values to [0, 1] or narrower bounds.

    With automatic knots, the lower bound is p clipped to [`least`, `rare`], and the upper bound is
    its mirror image. For logits, p are log-odds, and the spline is added to the probability.
    """
    y = o.lines(c["map"], p)
    if "lowest" in c:
        p = o.expit(p)
        y = y + o.minimum(o.maximum(p, c["lowest"]), c["highest"])
    if "least" not in c:
        return o.clip(y, 0.0, 1.0)
    low, high = o.clip(p, c["least"], c["rare"]), o.clip(p, c["frequent"], c["most"])
    return o.minimum(o.maximum(y, low), high)


def scores_of_ranks(o: Operations, n_maps: int, log_odds: bool) -> tuple[Value, ...]:
    """Return scores, columns and probabilities of the largest classes, and all other probabilities.

    If there are fewer ranks than classes, the last rank is the sum of all remaining classes.
    """
    p, scores, n = o.proba(), o.ordered(), n_maps - (n_maps < o.n_classes)
    x, index = o.sorted_top(scores, n)
    best = o.take_along(p, index)
    rest = o.put_along(p, index, best * 0.0)
    if n < n_maps:
        last = o.row_sum(rest)
        if log_odds:  # logarithms are used, because p may be 0
            logs = o.minimum(scores, 0.0) - o.log_tail(scores)
            last = o.log_sum_exp(o.put_along(logs, index, best * 0.0 - MOST_ODDS))
            last = last - o.log(o.row_sum(best))
        x = o.concat(x, o.clip(last, -MOST_ODDS, MOST_ODDS))
    return x, index, best, rest


def map_ranks(o: Operations, c: Constants, n_maps: int) -> Value:
    """Calibrate the largest probability of each row, the second largest one, and so on.

    The last function is for the sum of all remaining ranks, and its value is divided among them in
    proportion to their probabilities. Equal probabilities get the mean of their values.
    """
    own = n_maps - (n_maps < o.n_classes)
    x, index, best, rest = scores_of_ranks(o, n_maps, "lowest" in c)
    q = bounded(o, x, c)
    if own == n_maps:  # every rank has its own calibration function
        return o.normalise(o.put_along(rest, index, o.share_ties(best, q, own)))
    q, last = o.columns(q, 0, own), o.columns(q, own, n_maps)
    if own > 1:
        q = o.share_ties(best, q, own)
    share = o.maximum(rest, c["least"])
    total = o.row_sum(share) - own * c["least"]  # sum over classes that use the last function
    q = o.put_along(share * (last / total), index, q)
    # The last rank with its own function and later ranks may have the same probability. Classes
    # with this probability get the mean of their calibrated values.
    return o.normalise(o.share_equally(q, o.tied(o.proba(), o.columns(best, own - 1, own))))


def map_top(o: Operations, c: Constants) -> Value:
    """Calibrate the top probability, and divide the rest in proportion among the other classes.

    No other class gets more than the top label. Classes that would get more get the same
    probability, and the j smallest ones share the rest; j is as large as possible.
    """
    p, is_top, n_classes = o.proba(), o.first_of_largest(), o.n_classes
    x = o.row_max(o.ordered())
    score = bounded(o, x, c)
    score = o.maximum(score, 1.0 / n_classes)
    above = o.maximum(p, c["least"]) if "least" in c else p
    others = o.columns(o.ascending(o.where(is_top, 2.0, above)), 0, n_classes - 1)
    total = o.cumulative(others)
    left = o.maximum(1.0 - score * (n_classes - c["others"]), 0.0)
    fits = others * left <= score * total
    count = o.maximum(o.row_max(o.to_float(fits) * c["others"]), 1.0)
    at = o.to_int(count - 1.0)
    left, total = o.take_along(left, at), o.take_along(total, at)
    none = total <= 0.0
    shared = o.minimum(above / o.where(none, 1.0, total) * left, score)
    q = o.where(none & (above <= 0.0), left / count, o.where(none, score, shared))
    return o.keep_top(o.where(is_top, score, q))


# Binary problems for each rank r: is the class with the r-th largest probability the true class?


# Largest number of ranks that have their own calibration function. All later ranks share one
# function.
MOST_RANKS = 32

# Size in bytes of the scores of the ranks that are computed in one pass over the data.
RANK_BLOCK_BYTES = 1 << 23


def scores_of_block(block: FloatArray, kind: Kind, n_maps: int, columns: slice) -> Float64Array:
    """Return the scores at several ranks (largest, second largest, ...) for each row of a block."""
    if kind == "proba":  # the column of each rank is not needed, and slow to find
        others = block.shape[1] - n_maps + 1
        P = np.partition(block.astype(np.float64, copy=False), others, axis=1)
        best = np.sort(P[:, others:], axis=1)[:, ::-1]
        return np.column_stack([best, P[:, :others].sum(axis=1)])[:, columns]
    # For logits, scores are computed exactly as in predictions, to the last bit.
    o = ArrayOperations(Scores(block, kind))
    x: Float64Array = scores_of_ranks(o, n_maps, log_odds=True)[0]
    return x[:, columns]


def ranks_of_true(block: FloatArray, code: Intp) -> tuple[Intp, Intp]:
    """Return the first rank of the true class in each row, from 0, and the last rank plus 1.

    Classes with equal probabilities share a range of ranks.
    """
    true = np.take_along_axis(block, code[:, None], axis=1)
    first = (block > true).sum(axis=1)
    return first, first + (block == true).sum(axis=1)


def ranks_apart(first: Intp, end: Intp, w: Float64Array, n_classes: int, fewest: int) -> int:
    """Return the number of ranks before the first rank that is too rarely the true class.

    A rank needs true classes of weight `fewest`. If the true class of a row shares several ranks,
    the weight of the row is divided equally among them. The number is at least 1, and at most
    MOST_RANKS and the number of classes minus 1.
    """
    share = w / (end - first)
    steps = np.bincount(first, share, n_classes + 1) - np.bincount(end, share, n_classes + 1)
    # Because of rounding errors, fractions such as thirds may sum to slightly less than 1.
    few = np.flatnonzero(np.cumsum(steps)[:-1] < fewest * (1 - 1e-9))
    return max(1, min([*few[:1].tolist(), MOST_RANKS, n_classes - 1]))


def rank_problems(
    scores: Scores, first: Intp, end: Intp, w: Float64Array, n_maps: int
) -> Iterator[SortedProblem]:
    """Yield the sorted binary problem of each rank, and finally of all remaining ranks together.

    The true class of a row counts equally for the ranks from `first` to `end` - 1. The scores are
    read once for as many ranks as a memory limit allows.
    """
    n, n_classes = scores.shape
    weights = None if is_unit(w) else w
    tied = bool((end - first > 1).any())
    for several in column_blocks(n, n_maps, RANK_BLOCK_BYTES):
        S = np.empty((several.stop - several.start, n))
        kernel = partial(scores_of_block, kind=scores.kind, n_maps=n_maps, columns=several)
        map_rows(kernel, scores.source, out=S.T)
        for j, score in enumerate(S, start=several.start):
            last = j + 1 if j < n_maps - 1 else n_classes
            hit = np.flatnonzero((first < last) & (end > j))
            part = None
            if tied:
                own = np.minimum(end[hit], last) - np.maximum(first[hit], j)
                part = own / (end[hit] - first[hit])
            problem = sort_problem(score, hit, weights, part, in_place=True)
            yield problem._replace(log_odds=scores.kind == "logits")


# The calibrator, with one function for each rank, for each class, or for the top label.


# Largest number of knots. The fit inverts a matrix with this number of rows and columns.
MOST_KNOTS = 10_000

# Numbers of knots that n_knots="auto" compares. Each set of knots contains the previous set.
AUTO_KNOTS = (4, 7, 13)

# Smallest calibrated probability with n_knots="auto", as small as `clip_` of other calibrators can
# be.
SMALLEST = 1e-12

# Largest number of stored scores of all functions together. Scores and values then need 32 MiB.
MAX_THRESHOLDS = 1 << 21


def top_of_block(block: FloatArray, kind: Kind) -> tuple[Float64Array, Intp]:
    """Return the largest probability of each row (for logits, its log-odds), and its column."""
    scores = Scores(block, kind)
    if kind == "logits":
        odds = scores.ordered().top_log_odds()
        return np.clip(odds, -MOST_ODDS, MOST_ODDS), scores.best(ALL)
    return row_max(scores.proba(ALL)), scores.best(ALL)


class SplineCalibrator(ColumnwiseCalibrator):
    r"""Calibrate each rank of a row by a spline fitted to cumulative outcomes minus scores.

    Spline calibration is for errors that depend on the confidence and are the same for all
    classes. With ``mode="top"``, it is for uses where only the top label matters.

    For a binary problem sorted by score, let :math:`u` be the fraction of the weight up to a score,
    :math:`s(u)` that score and :math:`a(u)` the observed frequency of the event at this score:

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
        Number of evenly spaced knots on [0, 1]. A number from 4 to 10,000 is used for every
        function with :math:`\lambda = 1`, as in the paper, which uses 6 (or 13 or 14). "auto"
        chooses 4, 7 or 13 knots and :math:`\lambda` in [0, 1] for each function by generalised
        cross-validation, or no change, and bounds the probabilities: see Notes.
    mode : {"rank", "classwise", "top"}, default="rank"
        "rank": one function for the largest probability of each row, one for the next largest, and
        so on; the event is that the class of this rank is the true one. "classwise": one function
        for each class. In both modes, rows are divided by their sum, rows of zeros become uniform,
        and with two classes there is one function, for the second class. "top": one function, for
        the largest probability of each row (the lowest column on ties); the event is that this
        class is the true one. The other classes share the rest in proportion, and the predicted
        class does not change.
    runout : {"natural", "parabolic", "cubic"}, default="natural"
        Condition on the second derivatives M at the first knots, and likewise at the last knots:
        :math:`M_0 = 0`, :math:`M_0 = M_1` or :math:`M_0 = 2 M_1 - M_2`.
    input : {"auto", "logits", "proba"}, default="auto"
        What the columns of `X` are. "auto" decides once, in ``fit``: rows that sum to 1 within
        0.001 are probabilities, others logits; rows of both kinds, or rows that all sum to 100,
        raise an error.
    classes : array-like of shape (K,), default=None
        Labels of the columns, sorted; needed if they cannot be inferred from `y`.

    Attributes
    ----------
    knots_ : ndarray of shape (n_knots,)
        Knots. With ``n_knots="auto"`` the 13 knots, which include those of 4 and 7 knots.
    knot_values_ : ndarray of shape (m, n_knots)
        Values of the splines f at these knots, a row for each of the m functions: m is K for
        ``mode="classwise"``, or 1 for two classes or ``mode="top"``; it is at most K for
        ``mode="rank"``, where the last row is for all remaining ranks.
    n_knots_ : ndarray of int of shape (m,)
        Number of knots of each function; 0 if the function changes nothing.
    kept_ : ndarray of shape (m,)
        :math:`\lambda` of each function, in [0, 1]; 1 if `n_knots` is a number.
    least_proba_ : float
        Smallest calibrated value with ``n_knots="auto"``; else 0.
    rare_proba_ : float
        With ``n_knots="auto"``, 1 / (n + 1): no larger score is lowered below this value, and no
        smaller score is lowered at all. Else 0.
    X_thresholds_ : list of m ndarray
        Distinct calibration scores of each function, ascending; an evenly spaced selection if there
        are more than 2,097,152 in total. Log-odds if `input_` is "logits".
    y_thresholds_ : list of m ndarray
        Values of the function at these scores, before clipping.
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
    skcalib.IsotonicCalibrator : Functions that never decrease.

    Notes
    -----
    The paper calibrates one score at a time (the largest one, the r-th largest one, or one class)
    and fits the spline to the n points of the cumulative curve; here the spline is fitted to the
    whole curve. The functions may decrease, so that the predicted class may change, but not with
    ``mode="top"``. In this mode the calibrated top probability is at least 1/K, and no other class
    gets more: an excess is divided among the smaller classes.

    For logits, the scores are log-odds, because the probabilities of large logits round to 1.
    Between calibration scores, the correction of the probability is then linear in log-odds. A
    probability of 0 or 1 has log-odds of -1e38 or 1e38.

    Ranks: classes of equal probability in a row share their ranks. If one of them is the true
    class, ``fit`` divides the weight of the row equally among these ranks; ``predict_proba`` gives
    them the mean of the values of their ranks. With ``n_knots="auto"``, at most 32 ranks have their
    own functions: the first rank, and the ranks before the first one that has the true class in
    fewer than 4 rows. All later ranks share one function, for the sum of their probabilities and
    the event that one of them has the true class; its value is divided among them in proportion to
    their probabilities.

    "auto": let n be the sum of the weights (so that 2 is two copies), :math:`e = a - s` for each
    row and :math:`\delta` the change of its score by the spline of m knots with :math:`\lambda =
    1`. The leverage of a row is the part of :math:`\delta` that is due to the row's own outcome.
    The leverages sum to m - 1; their mean is :math:`h = (m - 1) / n`. Without this part, the change
    is :math:`\delta^- = (\delta - h e) / (1 - h)`. The chosen m and :math:`\lambda` minimise
    :math:`\sum_i w_i (e_i - \lambda \delta_i^-)^2`, where :math:`\lambda = \sum w e \delta^- / \sum
    w (\delta^-)^2` clipped to [0, 1]; if no sum is smaller than without change, nothing changes.
    With :math:`\lambda = 1` this is generalised cross-validation [2]_. Shrinking a predictor
    towards a simple one by cross-validation is the idea of [3]_. Numbers of knots with h >= 1/2 are
    not tried, so that nothing changes if the weights sum to 6 or less. The order of rows and of
    equal scores does not matter, and nothing is random.

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
        # Sorting the probabilities of each row needs several arrays of the size of a block.
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
        parts = [f"{counted(used.size, 'function')} with {span(used)} knots"] if used.size else []
        parts += [f"{counted(unchanged, 'function')} without change"] if unchanged else []
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
            return Plan(map_top, constants, "top")
        if self.mode == "classwise" or n_classes == 2:
            return self._column_plan(bounded, constants, "ordered")
        return Plan(partial(map_ranks, n_maps=len(self.X_thresholds_)), constants)
