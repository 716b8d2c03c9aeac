"""Weights of a mixture of fixed members, by the most probable value under a Dirichlet prior."""

from __future__ import annotations

import numpy as np

from skcalib._arrays.types import Float64Array

# The fit ends when no other weights can have a higher mean objective by more than this.
TOLERANCE = 1e-10
MAX_STEPS = 200
# Share of the way to the first weight of 0 that a step may go.
MOST_OF_THE_WAY = 0.95
# A row to which all members give less than this counts as if all gave it this.
LEAST = 1e-100


def mixture_weights(F: Float64Array, w: Float64Array, prior: Float64Array) -> Float64Array:
    """Return the weights v, with sum 1, that maximise the log-likelihood with pseudo-counts.

    The objective ``sum(w * log(F @ v)) + sum(prior * log(v))`` is concave; its maximum is the fixed
    point of the EM step ``v * (F.T @ (w / (F @ v))) + prior``, divided by its sum. EM takes
    thousands of steps where members are alike, Newton's method about ten. Instead of the constraint
    sum(v) = 1 the objective has the term ``-(sum(w) + sum(prior)) sum(v)``, with the same maximum.

    Parameters
    ----------
    F : ndarray of shape (n, m)
        Each member's probability of the true class of each row.
    w : ndarray of shape (n,)
        Weights of the rows.
    prior : ndarray of shape (m,)
        Pseudo-counts, above 0.
    """
    F = np.maximum(F, LEAST)
    total = w.sum() + prior.sum()
    v = prior / prior.sum()
    value = objective(F, w, prior, v)
    for _ in range(MAX_STEPS):
        R = F / (F @ v)[:, None]
        gradient = w @ R + prior / v
        # No v is better than this one by more than total * (max(gradient) / total - 1).
        if gradient.max() <= total * (1.0 + TOLERANCE):
            break
        # In units of v, so that tiny weights do not spoil the condition of the Hessian.
        R *= v
        hessian = (R * w[:, None]).T @ R + np.diag(prior)
        step = v * np.linalg.solve(hessian, v * (gradient - total))
        shrinks = step < 0
        length = min(1.0, MOST_OF_THE_WAY / max((-step / v)[shrinks].max(initial=0.0), 1e-300))
        while length > 1e-12:
            new = v + length * step
            new /= new.sum()
            found = objective(F, w, prior, new)
            if found >= value:
                break
            length /= 2.0
        else:
            break
        if found == value:  # rounding leaves no more to gain
            return new
        v, value = new, found
    return v


def objective(F: Float64Array, w: Float64Array, prior: Float64Array, v: Float64Array) -> float:
    """Return the log-likelihood of the rows with the pseudo-counts."""
    return float(w @ np.log(F @ v) + prior @ np.log(v))
