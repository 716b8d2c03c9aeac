r"""The slope of a cubic spline fitted to the cumulative residual of a binary problem.

Sort a binary problem by score and let the fractile :math:`u \in [0, 1]` run over its cumulative
weight. With :math:`s(u)` the score at u and :math:`a(u)` the share of hits of its tie group, the
cumulative residual is :math:`d(u) = \int_0^u (a - s)`. A cubic spline :math:`f` is fitted to
:math:`d` by least squares over :math:`[0, 1]`; the calibrated score is :math:`s + f'`.

The right-hand side of the normal equations needs no values of :math:`d`: by parts,

.. math:: \int_0^1 \varphi_j d = \int_0^1 \Psi_j (a - s), \quad
          \Psi_j(u) = \int_u^1 \varphi_j .

Between two knots :math:`\Psi_j` is a polynomial of degree 4 and :math:`a - s` is constant along a
row: five sums over the rows between the knots are enough for every j and every coarser spline.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from math import factorial
from typing import NamedTuple

import numpy as np
from scipy.interpolate import PPoly, make_interp_spline

from skcalib._arrays.rowwise import Float64Array, Intp, row_blocks
from skcalib._scores.one_vs_rest import SortedProblem

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
