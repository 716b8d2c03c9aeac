"""Spline calibration: add to each score the slope of a spline fitted to the cumulative residual."""

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
from skcalib._maps.formulas import ArrayOperations, ColumnPlan, Constants, Lines, Plan, Value, row
from skcalib._scores.one_vs_rest import SortedProblem, map_sorted, sort_problem
from skcalib._scores.scores import MOST_ODDS, Scores
from skcalib.calibrators._base import ColumnwiseCalibrator, counted, span

# The slope of a cubic spline fitted to the cumulative residual of a binary problem.
#
# Sort a binary problem by score and let the fractile :math:`u \in [0, 1]` run over its cumulative
# weight. With :math:`s(u)` the score at u and :math:`a(u)` the share of hits of its tie group, the
# cumulative residual is :math:`d(u) = \int_0^u (a - s)`. A cubic spline :math:`f` is fitted to
# :math:`d` by least squares over :math:`[0, 1]`; the calibrated score is :math:`s + f'`.
#
# The right-hand side of the normal equations needs no values of :math:`d`: by parts,
#
# .. math:: \int_0^1 \varphi_j d = \int_0^1 \Psi_j (a - s), \quad
#           \Psi_j(u) = \int_u^1 \varphi_j .
#
# Between two knots :math:`\Psi_j` is a polynomial of degree 4 and :math:`a - s` is constant along a
# row: five sums over the rows between the knots are enough for every j and every coarser spline.


# Derivatives that are 0 at both ends, or SciPy's name of the condition.
RUNOUT: dict[str, int | str] = {"natural": 2, "parabolic": 3, "cubic": "not-a-knot"}


# Up to this many pieces, means of powers are kept from problem to problem (12 MiB).
FEW_PIECES = 1 << 18


def cardinal_splines(n_knots: int, runout: str) -> PPoly:
    """Return cubic splines on even knots of [0, 1]; the j-th is 1 at knot j and 0 at the others.

    Returned as one piecewise polynomial with values of shape ``(n_knots,)``.
    """
    x, ends = np.linspace(0, 1, n_knots), RUNOUT[runout]
    none = [(ends, np.zeros(n_knots))]
    conditions = ends if isinstance(ends, str) else (none, none)
    spline = make_interp_spline(x, np.eye(n_knots), bc_type=conditions)
    return PPoly([spline(x[:-1], k) / factorial(k) for k in (3, 2, 1, 0)], x)


class Basis(NamedTuple):
    r"""Cardinal splines, :math:`\Psi`, and candidates: numbers of knots with their solutions.

    A solution ``(n_knots, n_knots)`` maps the right-hand side to the values, at all knots, of the
    least-squares spline on the candidate's knots.
    """

    value: PPoly
    beyond: PPoly
    candidates: list[tuple[int, Float64Array]]


def spline_basis(candidates: tuple[int, ...], runout: str) -> Basis:
    """Return what depends only on the knots; the last candidate has the knots of all others."""
    value = cardinal_splines(candidates[-1], runout)
    # Four Gauss points in each interval are exact for products of cubics.
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


# Widths of pieces, and means of powers over each.
Powers = tuple[Float64Array, Float64Array]


class Pieces(NamedTuple):
    """The intervals of [0, 1] that rows cover, cut at the knots."""

    knots: Float64Array
    u: Float64Array  # (n_pieces + 1,), the lower ends, and 1
    ends: Intp  # (n_knots,), where the pieces between two knots begin, and the end
    few: Powers | None = None  # of all pieces, if they are few

    def powers(self, first: int, end: int, below: Intp | int, degree: int) -> Powers:
        """Return the widths of pieces `first` to `end` and the means of powers 0 to `degree`.

        They are powers of u less the knot `below`, ``(degree + 1, pieces)``.
        """
        if self.few is not None:
            return self.few[0][first:end], self.few[1][: degree + 1, first:end]
        knot = self.knots.take(below)
        left, right = self.u[first:end] - knot, self.u[first + 1 : end + 1] - knot
        # The mean of t^p between l and r is the sum of l^a r^(p - a) divided by p + 1. A quotient
        # of differences would lose digits in narrow pieces.
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
    """Return the pieces; with weights of 1 they are the same for all problems."""
    u = cumulative_weight / cumulative_weight[-1]
    at = np.searchsorted(u, knots[1:-1])
    ends = np.concatenate([[0], at + np.arange(at.size), [u.size + at.size - 1]])
    pieces = Pieces(knots, np.insert(u, at, knots[1:-1]), ends)
    if (n_pieces := ends[-1]) > FEW_PIECES:
        return pieces
    return pieces._replace(few=pieces.powers(0, n_pieces, _counts(ends[1:-1], n_pieces), 4))


class SplineMap(NamedTuple):
    """A fitted map: distinct scores and their new values, the spline and its lambda.

    Without knots the map changes nothing.
    """

    n_knots: int
    kept: float
    knot_values: Float64Array
    x: Float64Array
    y: Float64Array


def fit_spline(
    problem: SortedProblem, basis: Basis, pieces: Pieces, n_thresholds: int
) -> SplineMap:
    """Fit one binary problem and tabulate its map at up to `n_thresholds` distinct scores."""
    # The first row of each group of tied scores, and the end.
    bounds = np.flatnonzero(np.concatenate([[True], problem.rises(1.0), [True]]))
    start = bounds[:-1]
    group_of = np.searchsorted(problem.values.take(start), problem.positives, side="right") - 1
    hits = np.bincount(group_of, problem.positive_weights, start.size).astype(np.float64)
    group = np.diff(problem.weight_before(bounds))
    # A group lighter than the rounding error of the total covers no interval.
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
    # One at a time, because each has a number for every distinct score.
    changes = (mean_slope(basis, pieces, knot_values, bounds) for _, knot_values in fits)
    which, kept, change = choose([m for m, _ in fits], changes, some, level, hits, group)
    if which is None:
        return SplineMap(0, 0.0, np.zeros_like(fits[0][1]), x, y)
    n_knots, knot_values = fits[which]
    return SplineMap(n_knots, kept, knot_values, x, y + kept * change)


def _moments(basis: Basis, pieces: Pieces, drift: Float64Array) -> Float64Array:
    r"""Return the integrals of :math:`\Psi_j` times the drift, which is constant along each row."""
    sums = np.empty((5, pieces.ends.size - 1))
    for i, (first, end) in enumerate(itertools.pairwise(pieces.ends)):
        width, power = pieces.powers(first, end, i, 4)
        mass = drift[first - i : end - i] * width  # each of the i knots so far has cut a row
        # A matrix product would wait for the threads of BLAS.
        np.einsum("pn,n->p", power, mass, out=sums[:, i])
    return np.einsum("pij,pi->j", basis.beyond.c, sums[::-1])


def mean_slope(
    basis: Basis, pieces: Pieces, knot_values: Float64Array, bounds: Intp
) -> Float64Array:
    """Mean slope of the spline over the rows between each two of the `bounds`."""
    cubic, square, line, _ = basis.value.c @ knot_values
    mean = np.empty(bounds.size - 1)
    cuts = np.searchsorted(bounds, pieces.ends[1:-1] - np.arange(pieces.knots.size - 2))
    for some in row_blocks(mean.size, 2):
        rows = bounds[some.start : some.stop + 1]
        # The number of a row's first piece is that of the row plus the inner knots up to its start.
        begin = rows + _counts(cuts - some.start, rows.size)
        first, end = begin[0], begin[-1]
        below = _counts(pieces.ends[1:-1] - first, end - first)
        # Within one interval, a single coefficient is broadcast to all pieces.
        below = below[:1] if below[0] == below[-1] else below
        width, power = pieces.powers(first, end, below, 2)
        slope = power[2] * (3 * cubic).take(below)
        slope += power[1] * (2 * square).take(below)
        slope += line.take(below)
        # An interval of zero width has a slope as well.
        width = width + np.finfo(np.float64).tiny
        slope *= width
        if slope.size > rows.size - 1:
            slope, width = (np.add.reduceat(each, begin[:-1] - first) for each in (slope, width))
        np.divide(slope, width, out=mean[some])
    return mean


def _counts(limits: Intp, n: int) -> Intp:
    """Return for each of n indices how many of the ascending limits are not above it."""
    cuts = np.concatenate([[0], np.minimum(np.maximum(limits, 0), n), [n]])
    return np.repeat(np.arange(limits.size + 1), cuts[1:] - cuts[:-1])


def _dot(a: Float64Array, b: Float64Array) -> float:
    """Return the dot product; ``a @ b`` would wait for the threads of BLAS."""
    return float(np.einsum("n,n->", a, b))


def choose(
    knots: list[int],
    changes: Iterable[Float64Array],
    some: Intp,
    score: Float64Array,
    hits: Float64Array,
    group: Float64Array,
) -> tuple[int | None, float, Float64Array]:
    """Return the index of the best change, its lambda, and its entries `some`; None if none helps.

    This is the generalised cross-validation of the notes of `SplineCalibrator`.
    """
    n = float(group.sum())
    none = _dot(hits, 1 - 2 * score) + _dot(group, score**2)
    best: tuple[int | None, float, Float64Array] = (None, 0.0, np.zeros(some.size))
    least = none
    for which, (n_knots, change) in enumerate(zip(knots, changes, strict=True)):
        h = (n_knots - 1) / n  # mean leverage of a row
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


# Formulas of spline calibration: for each class, for each rank of a row, or for the top one.


def bounded(o: Any, p: Value, c: Constants) -> Value:
    """Return values of splines within [0, 1] or, where knots are chosen, bounds that depend on p.

    The least probability is p up to `rare` ones, but not below `least`, and so is that of the
    other classes. Of logits, p are log-odds, and the lines are what is added to probabilities.
    """
    y = o.lines(c["map"], p)
    if "lowest" in c:
        p = o.expit(p)
        y = y + o.minimum(o.maximum(p, c["lowest"]), c["highest"])
    if "least" not in c:
        return o.clip(y, 0.0, 1.0)
    low, high = o.clip(p, c["least"], c["rare"]), o.clip(p, c["frequent"], c["most"])
    return o.minimum(o.maximum(y, low), high)


def scores_of_ranks(o: Any, n_maps: int, log_odds: bool) -> tuple[Value, ...]:
    """Return what ranks are sorted by, their columns and probabilities, and those of the others.

    The last rank is the sum of all others, if not every class has a rank.
    """
    p, scores, n = o.proba(), o.ordered(), n_maps - (n_maps < o.n_classes)
    x, index = o.sorted_top(scores, n)
    best = o.take_along(p, index)
    rest = o.put_along(p, index, best * 0.0)
    if n < n_maps:
        last = o.row_sum(rest)
        if log_odds:  # not of p, which may be 0
            logs = o.minimum(scores, 0.0) - o.log_tail(scores)
            last = o.log_sum_exp(o.put_along(logs, index, best * 0.0 - MOST_ODDS))
            last = last - o.log(o.row_sum(best))
        x = o.concat(x, o.clip(last, -MOST_ODDS, MOST_ODDS))
    return x, index, best, rest


def map_ranks(o: Any, c: Constants, n_maps: int) -> Value:
    """Map the largest probability of each row, the next one, and so on.

    The last map is for the sum of all remaining ranks, which share its value in proportion; equal
    probabilities get the mean of their values.
    """
    own = n_maps - (n_maps < o.n_classes)
    x, index, best, rest = scores_of_ranks(o, n_maps, "lowest" in c)
    q = bounded(o, x, c)
    if own == n_maps:  # no rank shares a map
        return o.normalise(o.put_along(rest, index, o.share_ties(best, q, own)))
    q, last = o.columns(q, 0, own), o.columns(q, own, n_maps)
    if own > 1:
        q = o.share_ties(best, q, own)
    share = o.maximum(rest, c["least"])
    total = o.row_sum(share) - own * c["least"]  # columns of the best count `least` in it
    q = o.put_along(share * (last / total), index, q)
    # The last rank with a map of its own may be tied with some of the others.
    return o.normalise(o.share_equally(q, o.tied(o.proba(), o.columns(best, own - 1, own))))


def map_top(o: Any, c: Constants) -> Value:
    """Map the top probability; the others share the rest in proportion, none of them gets more.

    If the j smallest of the others share what is left and the larger ones have the most they may,
    j is the largest number for which none of the j gets more.
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


# A binary problem for each rank of the probabilities of a row.


# Later ranks share one map.
MOST_RANKS = 32

# Memory for the scores of several ranks that are sorted one after the other.
RANK_BLOCK_BYTES = 1 << 23


def scores_of_block(block: FloatArray, kind: Kind, n_maps: int, columns: slice) -> Float64Array:
    """Return what some ranks are sorted by, of each row."""
    if kind == "proba":  # places are not needed; to look for them would take most of the time
        others = block.shape[1] - n_maps + 1
        P = np.partition(block.astype(np.float64, copy=False), others, axis=1)
        best = np.sort(P[:, others:], axis=1)[:, ::-1]
        return np.column_stack([best, P[:, :others].sum(axis=1)])[:, columns]
    # Of logits, knots are what a prediction computes, to the last bit.
    o = ArrayOperations(Scores(block, kind))
    x: Float64Array = scores_of_ranks(o, n_maps, log_odds=True)[0]
    return x[:, columns]


def ranks_of_true(block: FloatArray, code: Intp) -> tuple[Intp, Intp]:
    """Return the first rank of the true class in each row, from 0, and the one after its last.

    Classes of equal probability share their ranks.
    """
    true = np.take_along_axis(block, code[:, None], axis=1)
    first = (block > true).sum(axis=1)
    return first, first + (block == true).sum(axis=1)


def ranks_apart(first: Intp, end: Intp, w: Float64Array, n_classes: int, fewest: int) -> int:
    """Return the number of ranks, 1 to K - 1, before the first one with less than `fewest` hits.

    A row counts equally for all ranks of its true class.
    """
    share = w / (end - first)
    steps = np.bincount(first, share, n_classes + 1) - np.bincount(end, share, n_classes + 1)
    # By rounding, parts such as thirds may add up to a little less than 1.
    few = np.flatnonzero(np.cumsum(steps)[:-1] < fewest * (1 - 1e-9))
    return max(1, min([*few[:1].tolist(), MOST_RANKS, n_classes - 1]))


def rank_problems(
    scores: Scores, first: Intp, end: Intp, w: Float64Array, n_maps: int
) -> Iterator[SortedProblem]:
    """Yield the problem of each rank; the last one is that of all remaining ranks.

    The true class of a row counts equally for the ranks from `first` up to, not including, `end`.
    Rows are sorted once for as many ranks as fit a memory limit.
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


# The calibrator: a map for each rank, for each class, or for the top one.


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
            return Plan(map_top, constants, "top")
        if self.mode == "classwise" or n_classes == 2:
            return self._column_plan(bounded, constants, "ordered")
        return Plan(partial(map_ranks, n_maps=len(self.X_thresholds_)), constants)
