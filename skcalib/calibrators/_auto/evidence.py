r"""Ridge strengths by empirical Bayes.

Parameters :math:`\theta` are in groups g, each with a prior
:math:`\mathcal{N}(0, I / \alpha_g)`, :math:`\alpha_g = 2 \lambda_g`.
A fit minimises :math:`E(\theta) = \mathrm{NLL}(\theta)
+ \sum_g \lambda_g \|\theta_g\|^2`. With H the NLL's Hessian at the minimum and
:math:`A = H + \mathrm{diag}(\alpha)`, the number of parameters of a group that the rows determine,
and Laplace's estimate of the log evidence (up to a constant), are

.. math::

    \gamma_g = \sum_{j \in g} (1 - \alpha_g (A^{-1})_{jj}), \qquad
    \log \mathrm{ev} = -E(\theta) + \tfrac12 \sum_j \log \alpha_j - \tfrac12 \log \det A .

MacKay's fixed point with a weak Gamma prior of shape :math:`a_0 = 1/2` about the strength
:math:`\lambda^0_g`, alternated with fits, is

.. math:: \alpha_g \leftarrow \frac{\gamma_g + a_0}
                              {\|\theta_g\|^2 + a_0 / (2 \lambda^0_g)} .

Changes of :math:`\log \lambda_g` that go on with the same sign are extrapolated, because the fixed
point approaches large strengths slowly. H may be rough: without products of some parameters.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

import numpy as np
from scipy.optimize import Bounds, minimize

from skcalib._arrays.types import Float64Array
from skcalib.calibrators._auto.posterior import Hessian, Posterior

PRIOR_SHAPE = 0.5
SMALLEST_STRENGTH, LARGEST_STRENGTH = 1e-2, 1e6
# The last fit ends when a step lowers the objective by a smaller share, which is below the rounding
# of features in float32.
FLAT = 1e-8
# The same before the last fit.
FLAT_ROUNDS = 1e-6
# Whitened problems need few pairs of steps and gradients, and pairs of a million numbers are large.
PAIRS = 5
# Changes of a log strength are extrapolated as a geometric series with a ratio of at most this.
LARGEST_RATIO = 0.67


class Problem(Protocol):
    """A smooth convex loss: a sum, not a mean, over rows."""

    def value_and_gradient(self, theta: Float64Array) -> tuple[float, Float64Array]:
        """Return the loss and its gradient."""

    def hessian(self, theta: Float64Array) -> Hessian:
        """Return the Hessian."""

    def rough_hessian(self, theta: Float64Array) -> Hessian:
        """Return the Hessian without products of some parameters."""


class EvidenceFit(NamedTuple):
    """A fit, its strengths and effective degrees of freedom by group, its log evidence by round."""

    theta: Float64Array
    strengths: dict[str, float]
    dof: dict[str, float]
    path: Float64Array
    n_iter: int
    converged: bool


def fit_by_evidence(
    problem: Problem,
    groups: Mapping[str, slice],
    prior: Mapping[str, float],
    *,
    rounds: int,
    moved: float,
    tol: float,
    max_iter: int,
    exact_round: int | None = None,
    low: Float64Array | None = None,
    verbose: int = 0,
) -> EvidenceFit:
    r"""Alternate fits and updates of the strengths.

    Parameters
    ----------
    problem : Problem
    groups : mapping of str to slice
        The parameters of each group, in order; every parameter is in one group.
    prior : mapping of str to float
        :math:`\lambda^0_g`, the strengths of the first fit.
    rounds : int
        Largest number of updates.
    moved : float
        Updates end when no :math:`\log \lambda_g` would change by this much.
    tol : float
        A fit ends when no whitened coordinate of the gradient exceeds this; it is a distance from
        the minimum in posterior standard deviations. Ten times as much before the last fit.
    max_iter : int
        Largest number of steps of one fit.
    exact_round : int, default=None
        Round whose Hessian is exact, and also used in later rounds; in earlier ones it is rough.
        None: exact in all rounds.
    low : ndarray of shape (p,), default=None
        Lower bounds of theta, for whitened steps along single parameters.
    verbose : int
        Above 0, print a line for each round.
    """
    strengths = {g: float(prior[g]) for g in groups}
    size = max(where.stop for where in groups.values())
    theta, n_iter = np.zeros(size), 0
    path: list[float] = []
    alpha = _alpha(groups, strengths, size)
    H: Hessian = problem.rough_hessian(theta)
    posterior = H.posterior(alpha)
    before: dict[str, float] = {}

    # A fit begins where the one before ended, so that its first loss is known.
    known: tuple[Float64Array, float, Float64Array] = theta, *problem.value_and_gradient(theta)

    def loss(theta: Float64Array) -> tuple[float, Float64Array]:
        nonlocal known
        if not np.array_equal(theta, known[0]):
            known = theta, *problem.value_and_gradient(theta)
        return known[1:]

    def refit(tol: float, flat: float) -> tuple[Float64Array, int, bool]:
        return _minimise(
            loss, theta, alpha, posterior, low=low, tol=tol, flat=flat, max_iter=max_iter
        )

    for turn in range(rounds + 1):
        theta, steps, converged = refit(10.0 * tol, FLAT_ROUNDS)
        n_iter += steps
        if exact_round is None or turn <= exact_round:
            rough = exact_round is not None and turn < exact_round
            H = problem.rough_hessian(theta) if rough else problem.hessian(theta)
            posterior = H.posterior(alpha)
        determined = 1.0 - alpha * posterior.inverse_diagonal
        dof = {g: float(determined[where].sum()) for g, where in groups.items()}
        updated = {
            g: next_strength(dof[g], float(theta[where] @ theta[where]), prior[g])
            for g, where in groups.items()
        }
        objective = loss(theta)[0] + float(theta @ (alpha * theta)) / 2.0
        path.append(-objective + (float(np.log(alpha).sum()) - posterior.log_det) / 2.0)
        if verbose:
            shown = ", ".join(f"{g} {strengths[g]:.3g}" for g in groups)
            sys.stdout.write(
                f"round {turn}: log evidence {path[-1]:.6g}, {steps} steps, strengths {shown}\n"
            )
        if turn == rounds or all(abs(np.log(updated[g] / strengths[g])) < moved for g in groups):
            break
        change = {g: float(np.log(updated[g] / strengths[g])) for g in groups}
        strengths = {
            g: _within_limits(strengths[g] * np.exp(_extrapolate(before.get(g, 0.0), change[g])))
            for g in groups
        }
        before = change
        alpha = _alpha(groups, strengths, size)
        posterior = H.posterior(alpha)
    theta, steps, last = refit(tol, FLAT)
    return EvidenceFit(theta, strengths, dof, np.array(path), n_iter + steps, converged and last)


def next_strength(dof: float, square: float, prior: float) -> float:
    """Return the next lambda of a group in MacKay's fixed point, within the limits."""
    alpha = (dof + PRIOR_SHAPE) / (square + PRIOR_SHAPE / (2.0 * prior))
    return _within_limits(alpha / 2.0)


def _within_limits(strength: float) -> float:
    return float(min(max(strength, SMALLEST_STRENGTH), LARGEST_STRENGTH))


def _extrapolate(before: float, change: float) -> float:
    """Return the limit of changes that go on at the ratio of the last two, if it is positive."""
    ratio = change / before if before * change > 0.0 else 0.0
    return change / (1.0 - min(ratio, LARGEST_RATIO))


def _alpha(groups: Mapping[str, slice], strengths: Mapping[str, float], size: int) -> Float64Array:
    alpha = np.empty(size)
    for g, where in groups.items():
        alpha[where] = 2.0 * strengths[g]
    return alpha


def _minimise(
    loss: Callable[[Float64Array], tuple[float, Float64Array]],
    theta: Float64Array,
    alpha: Float64Array,
    posterior: Posterior,
    *,
    low: Float64Array | None,
    tol: float,
    flat: float,
    max_iter: int,
) -> tuple[Float64Array, int, bool]:
    """Minimise loss plus penalty by L-BFGS in whitened coordinates."""

    def objective(v: Float64Array) -> tuple[float, Float64Array]:
        new = theta + posterior.step(v)
        value, gradient = loss(new)
        pull = alpha * new
        return value + float(pull @ new) / 2.0, posterior.whiten(gradient + pull)

    result = minimize(
        objective,
        np.zeros_like(theta),
        jac=True,
        method="L-BFGS-B",
        bounds=None
        if low is None
        else Bounds((low - theta) / posterior.step(np.ones_like(theta)), np.inf),
        options={"maxiter": max_iter, "gtol": tol, "ftol": flat, "maxcor": PAIRS},
    )
    new = theta + posterior.step(result.x)
    return new if low is None else np.maximum(new, low), int(result.nit), result.status != 1
