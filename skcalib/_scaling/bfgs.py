r"""BFGS steps that start from an approximate inverse of the Hessian, for few parameters.

With a step :math:`s` and its change of the gradient :math:`y`, the next direction is :math:`-B g`,
where B is first the given inverse and after each step becomes

.. math:: B \leftarrow \Big(I - \frac{s y^\top}{s^\top y}\Big) B
          \Big(I - \frac{y s^\top}{s^\top y}\Big) + \frac{s s^\top}{s^\top y}

(BFGS; D. C. Liu and J. Nocedal, "On the limited memory BFGS method for large scale optimization",
Mathematical Programming 45, 1989). A step needs one gradient and no product with the Hessian.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Linear = Callable[[Array], Array]

# If a step leaves more than this share of the decrement g'Bg, Newton's method is faster.
SLOW = 0.5


class Point(NamedTuple):
    """Parameters, the objective there, and its gradient in their shape."""

    theta: Array
    value: float
    gradient: Array


class _Inverse:
    """B as the given inverse and the pairs (s, y) since; applied to one vector at a time."""

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
    """Take full steps while the gradient shrinks fast; return the last point and their number.

    Ends if ``size(gradient) <= tol``, if steps are slow, or before a step that does not lower the
    objective. Each step calls ``report(number of earlier steps, objective, size)`` first.
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
        # If the decrease is below the rounding of the objective, compare gradients instead.
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
