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
from math import factorial
from typing import NamedTuple

import numpy as np
from scipy.interpolate import PPoly, make_interp_spline

from skcalib._arrays.blocks import Float64Array, Intp
from skcalib._scores.one_vs_rest import TIE, SortedProblem

# Derivatives that are 0 at both ends, or SciPy's name of the condition.
RUNOUT: dict[str, int | str] = {"natural": 2, "parabolic": 3, "cubic": "not-a-knot"}


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


class Pieces(NamedTuple):
    """The intervals of [0, 1] that rows cover, cut at the knots."""

    weight: Float64Array  # (n + 1,), cumulative
    row: Intp  # (n_pieces,)
    below: Intp  # (n_pieces,), the knot below
    ends: Intp  # (n_knots,), where the pieces between two knots begin, and the end
    width: Float64Array  # (n_pieces,)
    power: Float64Array  # (5, n_pieces), means of the powers 0 to 4 of u - the knot below
    first: Intp  # (n + 1,), where the pieces of each row begin, and the end


def cut(knots: Float64Array, cumulative_weight: Float64Array) -> Pieces:
    """Return the pieces; with weights of 1 they are the same for all problems."""
    u = cumulative_weight / cumulative_weight[-1]
    at = np.searchsorted(u, knots[1:-1])
    u = np.insert(u, at, knots[1:-1])
    ends = np.concatenate([[0], at + np.arange(at.size), [u.size - 1]])
    below = np.repeat(np.arange(knots.size - 1), np.diff(ends))
    row = np.arange(below.size) - below
    left, right = u[:-1] - knots.take(below), u[1:] - knots.take(below)
    # The mean of t^p between l and r is the sum of l^a r^(p - a) divided by p + 1. A quotient of
    # differences would lose digits in narrow pieces.
    power = np.ones((5, row.size))
    lowest = np.ones(row.size)
    for p in range(1, 5):
        lowest *= left
        power[p] = power[p - 1] * right + lowest
    power /= np.arange(1.0, 6.0)[:, None]
    first = np.searchsorted(row, np.arange(cumulative_weight.size))
    return Pieces(cumulative_weight, row, below, ends, right - left, power, first)


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
    values, score = problem.values.astype(np.float64, copy=False), problem.proba()
    rises = np.diff(values) > TIE * np.maximum(1.0, np.abs(values[1:]))
    # The first row of each group of tied scores, and the end.
    bounds = np.flatnonzero(np.concatenate([[True], rises, [True]]))
    start, end = bounds[:-1], bounds[1:]
    level = score.take(start)
    group_of = np.searchsorted(values.take(start), problem.positives, side="right") - 1
    hits = np.bincount(group_of, problem.positive_weights, start.size).astype(np.float64)
    group = np.diff(pieces.weight.take(bounds))
    share = np.zeros(start.size)
    # A group lighter than the rounding error of the total covers no interval.
    event = np.flatnonzero((hits > 0) & (group > 0))
    share[event] = hits[event] / group[event]
    moments = _moments(basis, pieces, np.repeat(share, end - start) - score)
    n_points = min(start.size, n_thresholds)
    some = np.arange(n_points) * (start.size - 1) // max(n_points - 1, 1)

    def change(knot_values: Float64Array, at: Intp) -> Float64Array:
        return mean_slope(basis, pieces, knot_values, start.take(at), end.take(at))

    x, y = values.take(start).take(some), level.take(some)
    fits = [(n_knots, solution @ moments) for n_knots, solution in basis.candidates]
    if len(fits) == 1:
        n_knots, knot_values = fits[0]
        return SplineMap(n_knots, 1.0, knot_values, x, y + change(knot_values, some))
    every = np.arange(start.size)
    changes = [change(knot_values, every) for _, knot_values in fits]
    which, kept = choose([m for m, _ in fits], changes, level, hits, group)
    if which is None:
        return SplineMap(0, 0.0, np.zeros_like(fits[0][1]), x, y)
    n_knots, knot_values = fits[which]
    return SplineMap(n_knots, kept, knot_values, x, y + kept * changes[which].take(some))


def _moments(basis: Basis, pieces: Pieces, drift: Float64Array) -> Float64Array:
    r"""Return the integrals of :math:`\Psi_j` times the drift, which is constant along each row."""
    sums = np.empty((5, pieces.ends.size - 1))
    for i, (first, end) in enumerate(itertools.pairwise(pieces.ends)):
        rows = slice(pieces.row[first], pieces.row[end - 1] + 1)
        mass = drift[rows] * pieces.width[first:end]
        # A matrix product would wait for the threads of BLAS.
        np.einsum("pn,n->p", pieces.power[:, first:end], mass, out=sums[:, i])
    return np.einsum("pij,pi->j", basis.beyond.c, sums[::-1])


def mean_slope(
    basis: Basis, pieces: Pieces, knot_values: Float64Array, start: Intp, end: Intp
) -> Float64Array:
    """Mean slope of the spline over the rows from `start` up to, not including, `end`."""
    begin = pieces.first.take(start)
    count = pieces.first.take(end) - begin
    at: slice | Intp = slice(None)
    if (total := int(count.sum())) < pieces.row.size:
        before = np.cumsum(count) - count
        at, begin = np.repeat(begin - before, count) + np.arange(total), before
    cubic, square, line, _ = basis.value.c @ knot_values
    below = pieces.below[at]
    slope = (3 * cubic).take(below)
    slope *= pieces.power[2, at]
    slope += (2 * square).take(below) * pieces.power[1, at]
    slope += line.take(below)
    if start.size == slope.size:
        return slope
    # An interval of zero width has a slope as well.
    width = pieces.width[at] + np.finfo(np.float64).tiny
    slope *= width
    return np.add.reduceat(slope, begin) / np.add.reduceat(width, begin)


def _dot(a: Float64Array, b: Float64Array) -> float:
    """Return the dot product; ``a @ b`` would wait for the threads of BLAS."""
    return float(np.einsum("n,n->", a, b))


def choose(
    knots: list[int],
    changes: list[Float64Array],
    score: Float64Array,
    hits: Float64Array,
    group: Float64Array,
) -> tuple[int | None, float]:
    """Return the index of the best change and its lambda, or None if no change is better.

    This is the generalised cross-validation of the notes of `SplineCalibrator`.
    """
    n = float(group.sum())
    none = _dot(hits, 1 - 2 * score) + _dot(group, score**2)
    best: tuple[int | None, float] = (None, 0.0)
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
            best, least = (which, share), error
    return best
