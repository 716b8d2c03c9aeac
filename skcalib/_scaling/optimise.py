"""Minimisers and root finders of smooth convex functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize._dcsrch import DCSRCH

from skcalib._arrays.rowwise import Float64Array, Intp
from skcalib._arrays.tensors import ops_for

# Preconditioned BFGS for a smooth convex objective.
#
# With a step :math:`s` and its change of the gradient :math:`y`, the next direction is :math:`-B
# g`, where B is first an approximate inverse of the Hessian and after each step becomes
#
# .. math:: B \leftarrow \Big(I - \frac{s y^\top}{s^\top y}\Big) B
#           \Big(I - \frac{y s^\top}{s^\top y}\Big) + \frac{s s^\top}{s^\top y}
#
# (D. C. Liu and J. Nocedal, "On the limited memory BFGS method for large scale optimization",
# Mathematical Programming 45, 1989). A step needs one gradient. Where steps are slow, the
# approximate inverse is computed again.


Array = NDArray[Any]
Linear = Callable[[Array], Array]
# Returns a value and the gradient.
Objective = Callable[[Array], tuple[float, Array]]

# The latest pairs (s, y) that B contains, fewer of many parameters: 32 MiB in all.
PAIRS, PAIR_ENTRIES = 10, 1 << 22
# The inverse is computed again if a step leaves more than this share of the decrement g'Bg, but not
# before some steps, which teach B what the inverse leaves out; fewer, if it is that of the Hessian.
# An approximate inverse has to wait longer each time: where the last did not help, the next helps
# little.
SLOW, STEPS, STEPS_OF_HESSIAN = 0.5, 5, 2
# The relative ridge on the Hessian: the first one, against rounding, and the largest one. A full
# step that does not lower the objective multiplies it by RAISED, to at least RIDGE (Levenberg
# 1944); one that does divides it by LOWERED.
LIFTS, RIDGE, RAISED, LOWERED = (1e-15, 1e-1), 1e-4, 100.0, 10.0
SMALLEST_LENGTH = 1e-8
# A smaller decrement, as a share of the objective, is below its rounding: slopes are compared
# instead. The fit ends after a few such steps without a smaller gradient than before. In float32,
# sums of rows are known to a larger share.
BLIND, FLATTER, STALLED = 1e-14, 0.9, 2
BLIND_SINGLE = 1e-7


class Iterate(NamedTuple):
    """Parameters, the objective there, and its gradient in their shape."""

    theta: Array
    value: float
    gradient: Array


Pairs = list[tuple[Array, Array, float]]


class Inverse:
    """B as ``scale`` times the inverse `base`, and at `most` the latest pairs (s, y)."""

    def __init__(self, base: Linear, pairs: Pairs, most: int = PAIRS) -> None:
        self.base, self.scale, self.pairs, self.most = base, 1.0, pairs, most

    def add(self, step: Array, change: Array) -> None:
        """Add a pair; the objective is convex, so only rounding makes its product negative."""
        if (product := scalar(step, change)) > 0.0:
            self.pairs = [*self.pairs, (step, change, 1.0 / product)][-self.most :]

    def __call__(self, gradient: Array) -> Array:
        """Return ``B gradient``."""
        v, shares = gradient, []
        for step, change, factor in reversed(self.pairs):
            shares.append(factor * scalar(step, v))
            v = v - shares[-1] * change
        v = self.scale * self.base(v)
        for (step, change, factor), share in zip(self.pairs, reversed(shares), strict=True):
            v += (share - factor * scalar(change, v)) * step
        return v


def minimise(
    objectives: Sequence[Objective],
    precondition: Callable[[Array, int, float, bool], Linear],
    start: Array,
    size: Callable[[Array], float],
    tol: float,
    max_iter: int,
    report: Callable[[int, float, float], None],
    exact: bool = False,
) -> tuple[Iterate, int]:
    """Return the point where ``size(gradient) <= tol``, and the number of steps.

    `objectives` are the objective alone, or the objective in float32, which is minimised as far as
    rounding allows, and then in float64. Ends earlier where no step leads to a lower point.
    ``precondition(theta, turn, lift, single)`` returns an approximate inverse of the Hessian at
    `theta`; `turn` is the number of earlier ones, `lift` the ridge relative to its diagonal, and
    `single` says whether the objective is that of float32.
    ``report(number of steps, objective, size)`` is called at the start and after each step. `exact`
    says that the inverse is that of the Hessian, without ridge: pairs of earlier steps then say no
    more than it does.
    """
    most = max(2, min(PAIRS, PAIR_ENTRIES // (2 * start.size)))
    at = Iterate(start, np.inf, start)
    inverse: Inverse | None = None
    pairs: Pairs = []
    turn, since, n_iter, before, lift = 0, 0, 0, np.inf, LIFTS[0]
    for objective in objectives:
        if n_iter == max_iter:
            break
        single = objective is not objectives[-1]
        at, stalled = Iterate(at.theta, *objective(at.theta)), 0
        left = least = size(at.gradient)
        if n_iter == 0:
            report(0, at.value, left)
        while left > tol and n_iter < max_iter and stalled < STALLED:
            if inverse is None:
                inverse = Inverse(precondition(at.theta, turn, lift, single), pairs, most)
                turn, since, before = turn + 1, 0, np.inf
            step = -inverse(at.gradient)
            decrement = -scalar(step, at.gradient)
            enough = since >= (STEPS_OF_HESSIAN if exact else STEPS * turn)
            slow = enough and decrement > SLOW * before
            blind = decrement < (BLIND_SINGLE if single else BLIND) * max(1.0, abs(at.value))
            if blind and single:
                break
            new: Iterate | None = None
            if decrement > 0.0 and not slow:
                new, length = search(objective, at, step, decrement, blind)
            if new is None:
                pairs = inverse.pairs if slow else []
                inverse = None
                if not slow and lift >= LIFTS[1]:
                    break
                lift = lift if slow else next_ridge(lift)
                continue
            inverse.scale *= length
            inverse.add(new.theta - at.theta, new.gradient - at.gradient)
            at, left, before = new, size(new.gradient), decrement
            since, n_iter = since + 1, n_iter + 1
            if exact and length < 1.0:
                pairs, inverse, lift = [], None, next_ridge(lift)
            else:
                lift = max(LIFTS[0], lift / LOWERED)
            stalled = stalled + 1 if blind and left >= least else 0
            least = min(least, left)
            report(n_iter, at.value, left)
    return at, n_iter


def next_ridge(lift: float) -> float:
    """Return the next larger ridge."""
    return min(max(RAISED * lift, RIDGE), LIFTS[1])


def search(
    objective: Objective, at: Iterate, step: Array, decrement: float, blind: bool
) -> tuple[Iterate | None, float]:
    """Return the first lower point along a step, and its share of the step.

    If `blind`, a point is lower if the slope along the step has become flatter.
    """
    length = 1.0
    while length > SMALLEST_LENGTH:
        theta = at.theta + length * step
        new = Iterate(theta, *objective(theta))
        slope = scalar(step, new.gradient)
        fall = at.value - new.value
        if abs(slope) <= FLATTER * decrement if blind else fall >= 1e-4 * length * decrement:
            return new, length
        length /= 2
    return None, length


def scalar(X: Array, Y: Array) -> float:
    """Return the scalar product of two arrays, or tensors, of parameters."""
    return float(ops_for(X).weighted_sum(X.reshape(-1), Y.reshape(-1)))


# L-BFGS of whitened parameters: the latest pairs, which are large where there are a million
# parameters, and the constants of SciPy's L-BFGS-B, which takes the same steps.
WHITENED_PAIRS, WOLFE, LONGEST, EVALUATIONS = 5, (1e-3, 0.9, 0.1), 1e10, 20


def minimise_whitened(
    objective: Objective, start: Array, tol: float, flat: float, max_iter: int
) -> tuple[Array, int]:
    """Return parameters where no entry of the gradient exceeds `tol`, and the number of steps.

    Ends earlier if a step lowers the objective by a share of at most `flat`. Parameters are arrays
    or tensors.
    """
    at, n_iter = Iterate(start, *objective(start)), 0
    inverse = Inverse(lambda v: v, [], WHITENED_PAIRS)
    while n_iter < max_iter and float(abs(at.gradient).max()) > tol:
        step = -inverse(at.gradient)
        tried: list[Iterate] = []

        def value(length: float, at: Iterate = at, step: Array = step, tried: Any = tried) -> float:
            theta = at.theta + length * step
            tried.append(Iterate(theta, *objective(theta)))
            return tried[-1].value

        def slope(_: float, step: Array = step, tried: Any = tried) -> float:
            return scalar(tried[-1].gradient, step)

        first = 1.0 if n_iter else scalar(step, step) ** -0.5
        line = DCSRCH(value, slope, *WOLFE, 0.0, LONGEST)
        length, *_ = line(first, at.value, scalar(at.gradient, step), EVALUATIONS)
        if length is None:
            break
        before, at, n_iter = at, tried[-1], n_iter + 1
        change = at.gradient - before.gradient
        inverse.add(at.theta - before.theta, change)
        inverse.scale = 1.0 / (inverse.pairs[-1][2] * scalar(change, change))
        if before.value - at.value <= flat * max(abs(before.value), abs(at.value), 1.0):
            break
    return at.theta, n_iter


# Newton's method for several small convex problems at once, with a ridge on their parameters.


NEWTON_STEPS = 200
# A point is as low as another up to this share of the objective and this difference.
ROUNDING, NEAR = 1e-12, 1e-8

# From parameters ``(j, p)`` and the places of their problems to j losses, gradients and Hessians.
Derivatives = Callable[[Float64Array, Intp], tuple[Float64Array, Float64Array, Float64Array]]


class Minima(NamedTuple):
    """Parameters ``(k, p)``, objectives ``(k,)``, and their second derivatives ``(k, p, p)``."""

    theta: Float64Array
    objective: Float64Array
    hessian: Float64Array

    def log_evidence(self, alpha: Float64Array) -> Float64Array:
        """Return Laplace's estimate of each log evidence, up to a constant; alpha is above 0."""
        log_det = np.linalg.slogdet(self.hessian)[1]
        return np.asarray(0.5 * (np.log(alpha).sum() - log_det) - self.objective)


def minimise_each(
    derivatives: Derivatives, start: Float64Array, alpha: Float64Array, smallest_gain: float
) -> Minima:
    """Minimise each of k losses plus ``alpha @ theta**2 / 2``.

    A problem ends with a step that is expected to lower its objective by at most half of
    `smallest_gain`. The point after this step is not looked at.
    """
    k, p = start.shape
    theta, step, ridge = start.copy(), np.zeros_like(start), np.diag(alpha)
    value, gain, hessian = np.full(k, np.inf), np.full(k, np.inf), np.empty((k, p, p))
    live = np.arange(k)
    for _ in range(NEWTON_STEPS):
        new, before, at = theta[live] + step[live], value[live], live
        height, gradient, second = derivatives(new, live)
        height = height + 0.5 * (new * new) @ alpha
        higher = height > before + ROUNDING * np.abs(before) + NEAR
        if higher.any():
            step[live[higher]] /= 2.0
            at, new, height, gradient, second = (
                x[~higher] for x in (at, new, height, gradient, second)
            )
        gradient, second = gradient + alpha * new, second + ridge
        move = np.linalg.solve(second, gradient[:, :, None])[:, :, 0]
        theta[at], step[at], value[at], hessian[at] = new, -move, height, second
        gain[at] = np.einsum("kp,kp->k", gradient, move)
        live = live[gain[live] > smallest_gain]
        if not live.size:
            break
    step[live] = gain[live] = 0.0
    return Minima(theta + step, value - gain / 2.0, hessian)


# The root of an increasing function, by Newton's method in a bracket.


LOG_TOLERANCE = 1e-9
GRID_STEP = 1.0
# Newton's method needs fewer evaluations, unless it creeps along a plateau of rounding.
PATIENCE = 20
# Function of log beta that rises through 0 at the optimum, and its derivative.
Slope = Callable[[float], tuple[float, float]]


def rising_root(
    slope: Slope, start: float, low: float, high: float, tolerance: float = LOG_TOLERANCE
) -> tuple[float, str]:
    """Newton's method for a function that rises through 0, in a bracket it cannot leave.

    Returns the root and ""; or an end of the range and its name, if the root lies beyond.
    """
    left, right = -np.inf, np.inf
    t, moved, evaluations = start, 0.0, 0
    while right - left > tolerance:
        value, rise = slope(t)
        evaluations += 1
        if value == 0.0:
            break
        left, right = (t, right) if value < 0.0 else (left, t)
        steady = 0.0 < rise < np.inf and abs(value) < np.inf
        step = -value / rise if steady else -np.sign(value) * GRID_STEP
        target = min(max(t + step, low), high)
        if target == t:
            return t, "low" if value > 0.0 else "high"
        if evaluations > PATIENCE and right - left == np.inf:
            target = min(max(t + np.sign(step) * max(abs(step), 2 * abs(moved)), low), high)
        elif evaluations > PATIENCE or not left < target < right:
            target = (left + right) / 2
        last, size = abs(moved), abs(target - t)
        # Newton's error after this step, from how the last two steps shrank.
        if (
            target == t + step
            and size * size * max(1.0, size / last**2 if last else 1.0) < tolerance
        ):
            return target, ""
        t, moved = target, target - t
    return t, ""
