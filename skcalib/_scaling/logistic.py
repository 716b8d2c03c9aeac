r"""Logistic regressions with a small number of features, fitted for several classes at once.

With weights normalised to :math:`\sum_i w_i = 1` and :math:`\eta_i = c + \sum_d a_d f_{id}`,

.. math:: \min_{a, c} \sum_i w_i \left( \log(1 + e^{\eta_i}) - t_i \eta_i \right)

is minimised by Newton's method, for several classes at once. The optimum is not finite if the event
never or always occurs, or if a feature separates rows with the event from rows without. The result
is then the limit, or the first point with a gradient below the tolerance.

`fit_shifts` fits only the intercept, with a single feature whose coefficient is 1.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skcalib._arrays.rowwise import Bools, Float64Array
from skcalib._scaling.optimise import rising_root

# Tolerance of the gradient for standardised features and a total weight of 1. It is far below the
# sampling error of probabilities.
GRADIENT_TOLERANCE = 1e-12
# If a gradient below this number stops decreasing, it only consists of rounding errors.
ROUNDING = 1e-8
# Largest numbers of steps of the fast method and of the careful method.
MAX_STEPS, MAX_CAREFUL_STEPS = 50, 200
# Number of rows and of positives in the subsample on which Newton's method starts, and the
# tolerance for the subsample.
SAMPLE_ROWS, SAMPLE_EVENTS = 640, 64
NEAR = 1e-3
# A Newton step that changes every linear predictor eta by at most this number always lowers the
# loss, because along the step the second derivative grows by at most exp(1.5), and e^x - 1 - x <
# x^2 up to x = 1.79.
SURE_STEP = 1.5
# If the sum of the second derivatives is below this fraction of the gradient, nearly all
# probabilities are 0 or 1, and a Newton step would be far too long, or 0.
FLAT = 1e-9
# A feature counts as constant and gets coefficient 0 if its standard deviation is below this
# fraction of its largest absolute value. A feature with a standard deviation below LEAST_SPREAD
# also counts as constant, because its coefficient would overflow.
CONSTANT = 1e-12
LEAST_SPREAD = 1e-30


class Logistic(NamedTuple):
    """Coefficients ``(k, d)`` and intercepts ``(k,)`` of k logistic regressions."""

    coef: Float64Array
    intercept: Float64Array


def fit_logistic(F: Float64Array, hit: Bools, w: Float64Array) -> Logistic:
    """Fit k logistic regressions, ``P(positive) = expit(coef @ F + intercept)``.

    Parameters
    ----------
    F : ndarray of shape (k, d, n)
        Features, finite; d is small and may be 0.
    hit : ndarray of bool, shape (k, n)
        Whether each event occurs in each row.
    w : ndarray of shape (n,)
        Positive weights.
    """
    coef, intercept = np.zeros(F.shape[:2]), np.where(hit[:, 0], np.inf, -np.inf)
    mixed = np.flatnonzero(hit.any(axis=1) & ~hit.all(axis=1))
    if not mixed.size:
        return Logistic(coef, intercept)
    if mixed.size < hit.shape[0]:
        F, hit = F[mixed], hit[mixed]
    share = w / w.sum()
    low, high = F.min(axis=2), F.max(axis=2)
    centre = np.einsum("kdn,n->kd", F, share)
    G = F - centre[:, :, None]
    spread = np.sqrt(np.einsum("kdn,kdn,n->kd", G, G, share))
    constant = spread <= CONSTANT * np.maximum(high, -low) + LEAST_SPREAD
    spread[constant] = np.inf
    G *= (1.0 / spread)[:, :, None]
    size = np.maximum(high - centre, centre - low)
    largest = np.column_stack([size / spread, np.ones(mixed.size)])
    rate = np.einsum("kn,n->k", hit, share)
    start = np.column_stack([np.zeros_like(spread), np.log(rate) - np.log1p(-rate)])
    theta = start
    if G.shape[1]:  # without features, the starting intercept is already optimal
        if hit.shape[1] > 2 * SAMPLE_ROWS:
            rows, weight = _sample(hit, share)
            few = np.take_along_axis(G, rows[:, None, :], axis=2)
            events = np.take_along_axis(hit, rows, axis=1)
            theta, _ = _minimise(few, events, weight, largest, start, NEAR)
        theta, failed = _minimise(G, hit, share, largest, theta, GRADIENT_TOLERANCE)
        if failed.size:
            part = G[failed], hit[failed], share, largest[failed], start[failed]
            theta[failed], _ = _minimise(*part, GRADIENT_TOLERANCE, careful=True)
    coef[mixed] = theta[:, :-1] / spread
    intercept[mixed] = theta[:, -1] - np.einsum("kd,kd->k", coef[mixed], centre)
    return Logistic(coef, intercept)


def _sample(hit: Bools, share: Float64Array) -> tuple[NDArray[np.intp], Float64Array]:
    """Return the indices and weights of a subsample of rows for each of k events, ``(k, m)``.

    A subsample contains evenly spaced rows without the event. Because events may be rare, it also
    contains up to `SAMPLE_EVENTS` evenly spaced rows with the event.
    """
    k, n = hit.shape
    step = n // SAMPLE_ROWS
    others = np.arange(0, n, step)
    rows = np.zeros((k, others.size + SAMPLE_EVENTS), dtype=np.intp)
    weight = np.empty(rows.shape)
    rows[:, : others.size] = others
    weight[:, : others.size] = np.where(hit[:, ::step], 0.0, step * share[::step])
    first = n * np.arange(k + 1)
    events = np.flatnonzero(hit)
    start = events.searchsorted(first)
    every = -(-np.diff(start) // SAMPLE_EVENTS)[:, None]
    index = start[:-1, None] + every * np.arange(SAMPLE_EVENTS)
    some = events.take(index, mode="clip") - first[:-1, None]
    there = index < start[1:, None]
    rows[:, others.size :] = np.where(there, some, 0)
    weight[:, others.size :] = np.where(there, every * share[rows[:, others.size :]], 0.0)
    weight /= np.einsum("kn->k", weight)[:, None]
    return rows, weight


def _minimise(
    G: Float64Array,
    hit: Bools,
    share: Float64Array,
    largest: Float64Array,
    start: Float64Array,
    tol: float,
    careful: bool = False,
) -> tuple[Float64Array, NDArray[np.intp]]:
    """Minimise the log losses of k events.

    Returns coefficients and intercepts ``(k, d + 1)``, and the indices of the events that have not
    converged. If `careful`, no long step raises the loss, which takes more time.

    The weights `share` are ``(n,)`` or ``(k, n)``. `largest` is the largest absolute change of the
    eta of any row if a parameter changes by 1.
    """
    work = np.empty((2, *hit.shape))
    weight = np.multiply(hit, share, out=work[0])
    observed = np.column_stack([np.einsum("kn,kdn->kd", weight, G), np.einsum("kn->k", weight)])
    out, live = start.copy(), np.arange(hit.shape[0])
    theta, step = start, np.zeros_like(start)
    farthest, size = np.zeros(live.size), np.full(live.size, np.inf)
    for _ in range(MAX_CAREFUL_STEPS if careful else MAX_STEPS):
        new = theta + step
        gradient, hessian = _derivatives(G, share, new, work)
        gradient -= observed
        before, size = size, np.abs(gradient).max(axis=1)
        # Because the loss is convex, a step has lowered the loss if the slope along the step is
        # still negative. If the slope is positive, the fast method accepts the step if the gradient
        # is much smaller, although the loss may be larger.
        too_far = (np.einsum("kd,kd->k", gradient, step) > 0.0) & (farthest > SURE_STEP)
        if careful:
            part = G, hit[live], share
            losses = [logistic_loss(*part, Logistic(at[:, :-1], at[:, -1])) for at in (theta, new)]
            too_far &= losses[1] > losses[0]
            too_far |= (hessian[:, -1, -1] < FLAT * size) & (farthest > SURE_STEP)
        else:
            too_far &= size > 0.7 * before
        stuck = (size >= before) & (before <= ROUNDING)
        stays = too_far | stuck
        theta = np.where(stays[:, None], theta, new)
        step = np.where(too_far[:, None], step / 2, -_solve(hessian, gradient))
        farthest = np.einsum("kd,kd->k", np.abs(step), largest)
        # After a short step, the change of the Hessian along the step bounds the gradient.
        fall = np.abs(np.einsum("kd,kd->k", gradient, step))
        with np.errstate(over="ignore"):  # a long step may overflow, and the fit goes on
            lands = ~stays & (farthest < SURE_STEP) & (farthest * np.sqrt(fall) <= 2 * tol)
        # In a direction without curvature, the step does not lower the gradient.
        remains = np.einsum("kij,kj->ki", hessian, step) + gradient
        lands &= np.abs(remains).max(axis=1) <= ROUNDING
        out[live] = np.where(lands[:, None], theta + step, theta)
        going = np.flatnonzero(too_far | ~(stuck | lands | (size <= tol)))
        if not going.size:
            return out, going
        size = np.where(too_far, before, size)
        if going.size < live.size:
            live, theta, step = live[going], theta[going], step[going]
            size, farthest, largest = size[going], farthest[going], largest[going]
            G, observed, work = G[going], observed[going], work[:, : going.size]
            share = share if share.ndim == 1 else share[going]
    return out, live


def _derivatives(
    G: Float64Array, share: Float64Array, theta: Float64Array, work: Float64Array
) -> tuple[Float64Array, Float64Array]:
    """Return the gradient ``(k, d + 1)`` without the constant sums of the labels, and the Hessian.

    `work` of shape ``(2, k, n)`` is overwritten, to avoid allocations.
    """
    Q, R = work
    np.multiply(G[:, 0], theta[:, :1], out=Q)
    Q += theta[:, -1:]
    for d in range(1, G.shape[1]):
        Q += np.multiply(G[:, d], theta[:, d, None], out=R)
    np.multiply(expit(Q), share, out=R)
    gradient = np.empty_like(theta)
    gradient[:, :-1], gradient[:, -1] = np.einsum("kn,kdn->kd", R, G), np.einsum("kn->k", R)
    Q *= R
    V = np.subtract(R, Q, out=Q)
    hessian = np.empty((*theta.shape, theta.shape[1]))
    for d in range(G.shape[1]):
        np.multiply(V, G[:, d], out=R)
        hessian[:, d, d:-1] = hessian[:, d:-1, d] = np.einsum("kn,ken->ke", R, G[:, d:])
        hessian[:, d, -1] = hessian[:, -1, d] = np.einsum("kn->k", R)
    hessian[:, -1, -1] = np.einsum("kn->k", V)
    return gradient, hessian


def _solve(hessian: Float64Array, gradient: Float64Array) -> Float64Array:
    """Return the Newton step of least norm, which divides a step between collinear features."""
    e, U = np.linalg.eigh(hessian)
    turned = np.einsum("kij,ki->kj", U, gradient)
    turned /= np.where(e > e.shape[1] * np.finfo(float).eps * e[:, -1:], e, np.inf)
    return np.einsum("kij,kj->ki", U, turned)


def fit_shifts(odds: Float64Array, hit: Bools, w: Float64Array) -> Float64Array:
    """Fit only the intercepts ``(k,)`` of ``P(positive) = expit(odds + intercept)`` for k events.

    The intercept is -inf for an event that never occurs, and inf for one that always occurs.
    """
    share = w / w.sum()
    return np.array([_shift(*each, share) for each in zip(odds, hit, strict=True)])


def _shift(odds: Float64Array, hit: Bools, share: Float64Array) -> float:
    """Return the intercept for which the mean probability equals the rate of the event."""
    if hit.all() or not hit.any():
        return np.inf if hit.any() else -np.inf
    rate, other = float(share @ hit), float(share @ ~hit)
    log_odds = float(np.log(rate) - np.log(other))

    def excess(shift: float) -> tuple[float, float]:
        q = expit(odds + shift)
        return float(share @ q) - rate, float(share @ (q * (1.0 - q)))

    # With the intercept `low`, no probability is above the event rate; with `high`, none is below.
    low, high = log_odds - float(odds.max()), log_odds - float(odds.min())
    return rising_root(excess, min(max(0.0, low), high), low, high)[0]


def logistic_loss(F: Float64Array, hit: Bools, w: Float64Array, fitted: Logistic) -> Float64Array:
    """Return the mean log loss of each of k fitted logistic regressions."""
    eta = np.einsum("kd,kdn->kn", fitted.coef, F) + fitted.intercept[:, None]
    return np.einsum("kn,n->k", np.logaddexp(0.0, np.where(hit, -eta, eta)), w / w.sum())


def separates(score: Float64Array, hit: Bools) -> Bools:
    """Return, for each of k events, whether the rows with the event have the highest scores."""
    lowest = np.where(hit, score, np.inf).min(axis=1)
    exception = (score > lowest[:, None]) & ~hit
    both = hit.any(axis=1) & ~hit.all(axis=1)
    return both & ~exception.any(axis=1) & (score.min(axis=1) < score.max(axis=1))


def expit(eta: Float64Array) -> Float64Array:
    """Return the sigmoid ``1 / (1 + exp(-eta))``, computed in place."""
    np.negative(eta, out=eta)
    with np.errstate(over="ignore"):  # expit(-inf) is exactly 0
        np.exp(eta, out=eta)
    eta += 1.0
    return np.reciprocal(eta, out=eta)
