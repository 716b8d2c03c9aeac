r"""Quasi-Newton steps about an approximate inverse of the Hessian, of few parameters.

With :math:`s_j` the steps taken and :math:`y_j` how each changed the gradient, the direction is
:math:`-B g`, where B starts as the inverse that is given and after each step becomes

.. math:: B \leftarrow \Big(I - \frac{s y^\top}{s^\top y}\Big) B
          \Big(I - \frac{y s^\top}{s^\top y}\Big) + \frac{s s^\top}{s^\top y}

(BFGS; D. C. Liu and J. Nocedal, "On the limited memory BFGS method for large scale optimization",
Mathematical Programming 45, 1989). A step takes one gradient, and no product with the Hessian.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Linear = Callable[[Array], Array]

# Where a step has left more than this of the decrement g'Bg, Newton's steps are better.
SLOW = 0.5


class Point(NamedTuple):
    """Parameters, the objective there, and its gradient in their shape."""

    theta: Array
    value: float
    gradient: Array


class _Inverse:
    """B, as the inverse given and the pairs since; a vector at a time."""

    def __init__(self, given: Linear) -> None:
        self.given = given
        self.pairs: list[tuple[Array, Array, float]] = []

    def add(self, step: Array, change: Array) -> None:
        self.pairs.append((step, change, 1.0 / _product(step, change)))

    def __call__(self, gradient: Array) -> Array:
        v, shares = gradient, []
        for step, change, factor in reversed(self.pairs):
            shares.append(factor * _product(step, v))
            v = v - shares[-1] * change
        v = self.given(v)
        for (step, change, factor), share in zip(self.pairs, reversed(shares), strict=True):
            v = v + (share - factor * _product(change, v)) * step
        return v


def descend(
    objective: Callable[[Array], tuple[float, Array]],
    inverse: Linear,
    start: Point,
    size: Callable[[Array], float],
    tol: float,
    max_iter: int,
    report: Callable[[int, float, float], None],
) -> tuple[Point, int]:
    """Take full steps for as long as they shrink the gradient fast; return where, and how many.

    It ends where ``size(gradient) <= tol``, where steps have become slow, or before one that does
    not lower the objective. Each begins with ``report(steps before, objective, size)``.
    """
    at, left, B, before = start, size(start.gradient), _Inverse(inverse), np.inf
    for n_iter in range(max_iter):
        if left <= tol:
            return at, n_iter
        step = -B(at.gradient)
        decrement = -_product(step, at.gradient)
        if decrement > SLOW * before:
            return at, n_iter
        report(n_iter, at.value, left)
        theta = at.theta + step
        new = Point(theta, *objective(theta))
        new_left = size(new.gradient)
        # Below the rounding of the value only the gradient can tell whether a step was good.
        blind = decrement < 1e-14 * max(1.0, abs(at.value))
        lower = new_left < left if blind else new.value <= at.value - 1e-4 * decrement
        change = new.gradient - at.gradient
        if not (lower and _product(step, change) > 0.0):
            return at, n_iter
        B.add(step, change)
        at, left, before = new, new_left, decrement
    return at, max_iter


def _product(X: Array, Y: Array) -> float:
    return float(np.einsum("ij,ij->", X, Y))
