"""Newton's method for several small convex problems at once, with a ridge on their parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from skcalib._arrays.types import Float64Array, Intp

STEPS = 200
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
    for _ in range(STEPS):
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
