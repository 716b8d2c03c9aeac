"""Minimisers and a root finder for smooth convex functions."""

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
# Mathematical Programming 45, 1989). A step needs one gradient. If steps are slow, the approximate
# inverse is computed again.


Array = NDArray[Any]
Linear = Callable[[Array], Array]
# Type of a function that returns the value of an objective and its gradient.
Objective = Callable[[Array], tuple[float, Array]]

# Largest number of pairs (s, y) of steps and gradient changes that are stored, and largest number
# of entries in all pairs (32 MiB).
PAIRS, PAIR_ENTRIES = 10, 1 << 22
# The inverse Hessian is computed again if a step leaves more than the fraction SLOW of the
# decrement g'Bg, where g is the gradient, but only after several steps, which improve the
# approximate inverse B. For an exact inverse, these are STEPS_OF_HESSIAN steps. For an approximate
# inverse, the number grows by STEPS each time, because a new inverse seldom helps if the last one
# did not.
SLOW, STEPS, STEPS_OF_HESSIAN = 0.5, 5, 2
# First and largest ridge on the Hessian, relative to its diagonal. The first ridge compensates
# rounding errors. If a full step does not lower the objective, the ridge is multiplied by RAISED,
# to at least RIDGE (Levenberg 1944). If a full step does, the ridge is divided by LOWERED.
LIFTS, RIDGE, RAISED, LOWERED = (1e-15, 1e-1), 1e-4, 100.0, 10.0
# Smallest fraction of a step that a line search tries.
SMALLEST_LENGTH = 1e-8
# If the decrement g'Bg is below the fraction BLIND of the objective, it is smaller than rounding
# errors, so that slopes are compared instead of objectives. The fit ends after STALLED such steps
# that do not reduce the gradient. In float32, sums over rows have larger rounding errors.
BLIND, FLATTER, STALLED = 1e-14, 0.9, 2
BLIND_SINGLE = 1e-7


class Iterate(NamedTuple):
    """Parameters theta, and the value and the gradient of the objective at theta."""

    theta: Array
    value: float
    gradient: Array


Pairs = list[tuple[Array, Array, float]]


class Inverse:
    """Approximate inverse Hessian: `scale` times a matrix `base`, updated by pairs (s, y)."""

    def __init__(self, base: Linear, pairs: Pairs, most: int = PAIRS) -> None:
        self.base, self.scale, self.pairs, self.most = base, 1.0, pairs, most

    def add(self, step: Array, change: Array) -> None:
        """Update the inverse Hessian by a step and the change of the gradient along the step.

        Their product is positive for a convex objective, except for rounding errors.
        """
        if (product := scalar(step, change)) > 0.0:
            self.pairs = [*self.pairs, (step, change, 1.0 / product)][-self.most :]

    def __call__(self, gradient: Array) -> Array:
        """Return the product of the inverse Hessian with a gradient."""
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
    """Minimise an objective until ``size(gradient) <= tol``; return the point and number of steps.

    `objectives` contains the objective, or first the objective in float32, which is minimised as
    far as rounding errors allow, and then in float64. The fit ends earlier if no step leads to a
    lower point. ``precondition(theta, turn, lift, single)`` returns an approximate inverse of the
    Hessian at `theta`: `turn` is the number of earlier inverses, `lift` the ridge relative to the
    diagonal, and `single` is true for the objective in float32. ``report(number of steps,
    objective, size)`` is called at the start and after each step. `exact` means that the inverse is
    exact, so that pairs of earlier steps do not improve it.
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
    """Return the next larger ridge on the Hessian, relative to its diagonal."""
    return min(max(RAISED * lift, RIDGE), LIFTS[1])


def search(
    objective: Objective, at: Iterate, step: Array, decrement: float, blind: bool
) -> tuple[Iterate | None, float]:
    """Halve a step until it lowers the objective; return the point and the fraction of the step.

    If `blind`, a point counts as lower if the slope along the step is smaller.
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
    """Return the scalar product of two arrays or tensors of parameters."""
    return float(ops_for(X).weighted_sum(X.reshape(-1), Y.reshape(-1)))


# L-BFGS for whitened parameters. The number WHITENED_PAIRS of stored pairs is small, because pairs
# for a million parameters are large. The other constants are those of SciPy's L-BFGS-B, which takes
# the same steps.
WHITENED_PAIRS, WOLFE, LONGEST, EVALUATIONS = 5, (1e-3, 0.9, 0.1), 1e10, 20


def minimise_whitened(
    objective: Objective, start: Array, tol: float, flat: float, max_iter: int
) -> tuple[Array, int]:
    """Minimise by L-BFGS until no entry of the gradient exceeds `tol`.

    Returns the parameters and the number of steps. The fit ends earlier if a step lowers the
    objective by a relative change of at most `flat`. Parameters are arrays or tensors.
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


# Newton's method for several small convex objectives at once, with a ridge on their parameters.


NEWTON_STEPS = 200
# An objective may increase by the sum of this relative and this absolute amount, because of
# rounding errors.
ROUNDING, NEAR = 1e-12, 1e-8

# Type of a function of parameters ``(j, p)`` and of the indices of j objectives. The function
# returns the losses, gradients and Hessians of these objectives.
Derivatives = Callable[[Float64Array, Intp], tuple[Float64Array, Float64Array, Float64Array]]


class Minima(NamedTuple):
    """Minima of k objectives: parameters ``(k, p)``, values and Hessians ``(k, p, p)``."""

    theta: Float64Array
    objective: Float64Array
    hessian: Float64Array

    def log_evidence(self, alpha: Float64Array) -> Float64Array:
        """Approximate the log evidence of each objective (Laplace), up to a constant."""
        log_det = np.linalg.slogdet(self.hessian)[1]
        return np.asarray(0.5 * (np.log(alpha).sum() - log_det) - self.objective)


def minimise_each(
    derivatives: Derivatives, start: Float64Array, alpha: Float64Array, smallest_gain: float
) -> Minima:
    """Minimise each of k losses plus a ridge penalty ``alpha @ theta**2 / 2``.

    A problem ends with a step that is expected to lower its objective by at most half of
    `smallest_gain`; the loss after this step is not computed.
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


# Root of an increasing function, by Newton's method within a bracket.


# Tolerance of a root in log beta, where beta = 1 / T.
LOG_TOLERANCE = 1e-9
GRID_STEP = 1.0
# Number of evaluations after which bisection is used, because Newton's method can be slow if
# rounding errors make the function flat.
PATIENCE = 20
# Type of a function of log beta (beta = 1 / T) that increases through 0. The function returns its
# value and its derivative.
Slope = Callable[[float], tuple[float, float]]


def rising_root(
    slope: Slope, start: float, low: float, high: float, tolerance: float = LOG_TOLERANCE
) -> tuple[float, str]:
    """Find the root of an increasing function by Newton's method within a bracket.

    Returns the root and "", or the end of the range next to the root and its name ("low", "high")
    if the root is outside the range.
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
        # The sizes of the last two steps estimate the error of Newton's method after this step.
        if (
            target == t + step
            and size * size * max(1.0, size / last**2 if last else 1.0) < tolerance
        ):
            return target, ""
        t, moved = target, target - t
    return t, ""
