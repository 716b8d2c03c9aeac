r"""Ridge strengths by empirical Bayes.

Parameters :math:`\theta` are in groups g, each with a prior
:math:`\mathcal{N}(\mu, I / \alpha_g)`, :math:`\alpha_g = 2 \lambda_g`.
A fit minimises :math:`E(\theta) = \mathrm{NLL}(\theta)
+ \sum_g \lambda_g \|\theta_g - \mu_g\|^2`. With H the NLL's Hessian at the minimum and
:math:`A = H + \mathrm{diag}(\alpha)`, the number of parameters of a group that the rows determine,
and Laplace's estimate of the log evidence (up to a constant), are

.. math::

    \gamma_g = \sum_{j \in g} (1 - \alpha_g (A^{-1})_{jj}), \qquad
    \log \mathrm{ev} = -E(\theta) + \tfrac12 \sum_j \log \alpha_j - \tfrac12 \log \det A .

MacKay's fixed point with a weak Gamma prior of shape :math:`a_0 = 1/2` about the strength
:math:`\lambda^0_g`, alternated with fits, is

.. math:: \alpha_g \leftarrow \frac{\gamma_g + a_0}
                              {\|\theta_g - \mu_g\|^2 + a_0 / (2 \lambda^0_g)} .

If only the diagonal of H is given, A is diagonal.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import NamedTuple, Protocol

import numpy as np
from scipy.linalg import cholesky
from scipy.linalg.lapack import dtrtri
from scipy.optimize import Bounds, minimize

from skcalib._arrays.types import Float64Array

PRIOR_SHAPE = 0.5
SMALLEST_STRENGTH, LARGEST_STRENGTH = 1e-2, 1e6
# Relative ridge on the Hessian's diagonal, against rounding.
LIFT = 1e-12
# A fit ends when a step lowers the objective by a smaller share, which is below the rounding of
# features in float32.
FLAT = 1e-8


class Problem(Protocol):
    """A smooth convex loss: a sum, not a mean, over rows."""

    def value_and_gradient(self, theta: Float64Array) -> tuple[float, Float64Array]:
        """Return the loss and its gradient."""

    def hessian(self, theta: Float64Array) -> Float64Array:
        """Return the Hessian, ``(p, p)``, or its diagonal, ``(p,)``."""


class EvidenceFit(NamedTuple):
    """A fit, its strengths and effective degrees of freedom by group, its log evidence by round."""

    theta: Float64Array
    strengths: dict[str, float]
    dof: dict[str, float]
    path: Float64Array
    n_iter: int
    converged: bool


class Posterior:
    """``A = H + diag(alpha)``: whitened coordinates, in which A is the identity, and A's inverse.

    Parameters
    ----------
    H : ndarray of shape (p, p) or (p,)
        Positive semi-definite, or the diagonal of such a matrix; overwritten.
    alpha : ndarray of shape (p,)
        Positive.
    """

    def __init__(self, H: Float64Array, alpha: Float64Array) -> None:
        if H.ndim == 1:
            H += alpha
            self._root = 1.0 / np.sqrt(H)
            self.inverse_diagonal = 1.0 / H
            self.log_det = float(np.log(H).sum())
            return
        diagonal = np.einsum("ii->i", H)
        diagonal += LIFT * diagonal + alpha
        L = cholesky(H, lower=True, check_finite=False)
        self.log_det = 2.0 * float(np.log(L.diagonal()).sum())
        self._root, _ = dtrtri(L, lower=1, overwrite_c=1)
        self.inverse_diagonal = np.einsum("ij,ij->j", self._root, self._root)

    def step(self, v: Float64Array) -> Float64Array:
        """Return the step of theta for the whitened step `v`."""
        return self._root * v if self._root.ndim == 1 else self._root.T @ v

    def unstep(self, step: Float64Array) -> Float64Array:
        """Return the whitened coordinates of a step, for a diagonal A."""
        return step / self._root

    def whiten(self, gradient: Float64Array) -> Float64Array:
        """Return a gradient with respect to theta in whitened coordinates."""
        return self._root * gradient if self._root.ndim == 1 else self._root @ gradient


def fit_by_evidence(
    problem: Problem,
    start: Float64Array,
    groups: Mapping[str, slice],
    prior: Mapping[str, float],
    *,
    rounds: int,
    moved: float,
    tol: float,
    max_iter: int,
    low: Float64Array | None = None,
    verbose: int = 0,
) -> EvidenceFit:
    r"""Alternate fits and updates of the strengths.

    Parameters
    ----------
    problem : Problem
    start : ndarray of shape (p,)
        :math:`\mu`: where every penalty is 0, and where the first fit begins.
    groups : mapping of str to slice
        The parameters of each group; every parameter is in one group.
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
    low : ndarray of shape (p,), default=None
        Lower bounds of theta, for a Hessian given by its diagonal. A parameter at its bound does
        not count as determined by the rows.
    verbose : int
        Above 0, print a line for each round.
    """
    strengths = {g: float(prior[g]) for g in groups}
    theta, n_iter = start.copy(), 0
    path: list[float] = []
    alpha = _alpha(groups, strengths, start.size)
    posterior = Posterior(problem.hessian(theta), alpha)

    def refit(tol: float) -> tuple[Float64Array, int, bool]:
        return _minimise(
            problem, start, theta, alpha, posterior, low=low, tol=tol, max_iter=max_iter
        )

    for turn in range(rounds + 1):
        theta, steps, converged = refit(10.0 * tol)
        n_iter += steps
        H = problem.hessian(theta)
        posterior = Posterior(H.copy(), alpha)
        away = theta - start
        determined = 1.0 - alpha * posterior.inverse_diagonal
        if low is not None:
            # Within the tolerance of a fit, because rounding leaves some 1e-20 above their bound.
            determined[theta - low <= tol * np.sqrt(posterior.inverse_diagonal)] = 0.0
        dof = {g: float(determined[where].sum()) for g, where in groups.items()}
        updated = {
            g: next_strength(dof[g], float(away[where] @ away[where]), prior[g])
            for g, where in groups.items()
        }
        objective = problem.value_and_gradient(theta)[0] + float(away @ (alpha * away)) / 2.0
        path.append(-objective + (float(np.log(alpha).sum()) - posterior.log_det) / 2.0)
        if verbose:
            shown = ", ".join(f"{g} {strengths[g]:.3g}" for g in groups)
            sys.stdout.write(
                f"round {turn}: log evidence {path[-1]:.6g}, {steps} steps, strengths {shown}\n"
            )
        if turn == rounds or all(abs(np.log(updated[g] / strengths[g])) < moved for g in groups):
            break
        strengths = updated
        alpha = _alpha(groups, strengths, start.size)
        posterior = Posterior(H, alpha)
    theta, steps, last = refit(tol)
    return EvidenceFit(theta, strengths, dof, np.array(path), n_iter + steps, converged and last)


def next_strength(dof: float, square: float, prior: float) -> float:
    """Return the next lambda of a group in MacKay's fixed point, within the limits."""
    alpha = (dof + PRIOR_SHAPE) / (square + PRIOR_SHAPE / (2.0 * prior))
    return min(max(alpha / 2.0, SMALLEST_STRENGTH), LARGEST_STRENGTH)


def _alpha(groups: Mapping[str, slice], strengths: Mapping[str, float], size: int) -> Float64Array:
    alpha = np.empty(size)
    for g, where in groups.items():
        alpha[where] = 2.0 * strengths[g]
    return alpha


def _minimise(
    problem: Problem,
    start: Float64Array,
    theta: Float64Array,
    alpha: Float64Array,
    posterior: Posterior,
    *,
    low: Float64Array | None,
    tol: float,
    max_iter: int,
) -> tuple[Float64Array, int, bool]:
    """Minimise loss plus penalty by L-BFGS in whitened coordinates."""

    def objective(v: Float64Array) -> tuple[float, Float64Array]:
        new = theta + posterior.step(v)
        value, gradient = problem.value_and_gradient(new)
        away = new - start
        pull = alpha * away
        return value + float(pull @ away) / 2.0, posterior.whiten(gradient + pull)

    result = minimize(
        objective,
        np.zeros_like(theta),
        jac=True,
        method="L-BFGS-B",
        bounds=None if low is None else Bounds(posterior.unstep(low - theta), np.inf),
        options={"maxiter": max_iter, "gtol": tol, "ftol": FLAT},
    )
    new = theta + posterior.step(result.x)
    return new if low is None else np.maximum(new, low), int(result.nit), result.status != 1
