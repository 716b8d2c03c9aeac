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

MacKay's fixed point, alternated with fits, is

.. math:: \alpha_g \leftarrow \frac{\gamma_g + a_g}{\|\theta_g\|^2 + b_g} ,

with a and b by a prior of the strength: :math:`a = 1/2` and :math:`b = a / (2 \lambda^0_g)` by a
weak Gamma prior about the strength :math:`\lambda^0_g`.

Changes of :math:`\log \lambda_g` that go on with the same sign are extrapolated, because the fixed
point approaches large strengths slowly. H may be rough: without products of some parameters.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import Bounds, minimize

from skcalib._arrays.tensors import on_host
from skcalib._arrays.types import Float64Array
from skcalib._scaling.bfgs import WHITENED_PAIRS, minimise_whitened

PRIOR_SHAPE = 0.5
SMALLEST_STRENGTH, LARGEST_STRENGTH = 1e-2, 1e6
# The last fit ends when a step lowers the objective by a smaller share, which is below the rounding
# of features in float32.
FLAT = 1e-8
# The same before the last fit.
FLAT_ROUNDS = 1e-6
# Changes of a log strength are extrapolated as a geometric series with a ratio of at most this.
LARGEST_RATIO = 0.67


class Fit(NamedTuple):
    """A fit for given strengths: parameters ``(p,)``, log evidence, the diagonal of A's inverse.

    Arrays of k problems, which share the strengths, have a first axis of length k.
    """

    theta: Float64Array
    log_evidence: float
    inverse_diagonal: Float64Array


def gamma_prior(_: Float64Array, first: Float64Array) -> tuple[float, Float64Array]:
    """Return a and b by Gamma priors about the first strengths."""
    return PRIOR_SHAPE, PRIOR_SHAPE / (2.0 * first)


def alpha_of(strengths: Float64Array, groups: Mapping[str, slice]) -> Float64Array:
    """Return the alpha of each parameter, ``(p,)``."""
    return 2.0 * np.repeat(strengths, [where.stop - where.start for where in groups.values()])


def find_strengths(
    fit: Callable[[Float64Array], Fit],
    groups: Mapping[str, slice],
    first: Float64Array,
    *,
    rounds: int,
    moved: float = 0.0,
    gain: float = 0.0,
    strength_prior: Callable[..., tuple[Any, Any]] = gamma_prior,
    verbose: int = 0,
) -> tuple[Float64Array, Float64Array, list[float]]:
    r"""Alternate fits and updates of the strengths.

    Return the strengths of the groups, the part of each parameter, from 0 to 1, that the rows
    determine, and the log evidence by round.

    Parameters
    ----------
    fit : callable
        Takes the alpha of each parameter, ``(p,)``.
    groups : mapping of str to slice
        The parameters of each group, in order; every parameter is in one group.
    first : ndarray of shape (g,)
        The strengths of the first fit.
    rounds : int
        Largest number of updates.
    moved, gain : float, default=0.0
        Updates end when no :math:`\log \lambda_g` would change by `moved`, or when one has
        changed the log evidence by less than `gain`.
    strength_prior : callable, default=gamma_prior
        Takes the strengths and the first ones; returns a and b of each.
    verbose : int, default=0
        Above 0, print a line for each round.
    """
    strengths, before, path = first, np.zeros(first.size), []
    for turn in range(rounds + 1):
        alpha = alpha_of(strengths, groups)
        fitted = fit(alpha)
        path.append(fitted.log_evidence)
        if verbose:
            shown = ", ".join(f"{g} {x:.3g}" for g, x in zip(groups, strengths, strict=True))
            sys.stdout.write(f"round {turn}: log evidence {path[-1]:.6g}, strengths {shown}\n")
        determined = 1.0 - alpha * fitted.inverse_diagonal
        dof, square = sum_groups(determined, groups), sum_groups(fitted.theta**2, groups)
        a, b = strength_prior(strengths, first)
        change = np.log(within_limits((dof + a) / (square + b) / 2.0) / strengths)
        still = turn > 0 and abs(path[-1] - path[-2]) < gain
        if turn == rounds or still or (np.abs(change) < moved).all():
            break
        # The limit of changes that go on at the ratio of the last two, if it is positive.
        ratio = np.divide(change, before, out=np.zeros_like(change), where=before * change > 0.0)
        change, before = change / (1.0 - np.minimum(ratio, LARGEST_RATIO)), change
        strengths = within_limits(strengths * np.exp(change))
    return strengths, determined, path


def sum_groups(values: Float64Array, groups: Mapping[str, slice]) -> Float64Array:
    """Return the sum of the values of each group of parameters."""
    return np.array([values[..., where].sum() for where in groups.values()])


def within_limits(strengths: Float64Array) -> Float64Array:
    return np.clip(strengths, SMALLEST_STRENGTH, LARGEST_STRENGTH)


class WhitenedFits:
    """Fits by L-BFGS, each from the last one, in coordinates whitened by the last one's Hessian.

    Parameters
    ----------
    problem : object
        A smooth convex loss, a sum over rows: `value_and_gradient` and `hessian` of theta, and a
        `rough_hessian` without products of some parameters.
    size : int
        Number of parameters.
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
    place : callable
        Brings an array of the size of theta to where the problem computes.
    """

    def __init__(
        self,
        problem: Any,
        size: int,
        *,
        tol: float,
        max_iter: int,
        exact_round: int | None,
        low: Float64Array | None,
        place: Callable[[Float64Array], Any],
    ) -> None:
        self.problem, self.tol, self.max_iter, self.low = problem, tol, max_iter, low
        self.place, self.theta = place, place(np.zeros(size))
        self.n_iter, self.exact_round, self.turn = 0, exact_round, 0
        self.hessian = problem.rough_hessian(self.theta)
        # A fit begins where the one before ended, so that its first loss is known.
        self.known = self.theta, *problem.value_and_gradient(self.theta)

    def __call__(self, alpha: Float64Array) -> Fit:
        """Return the next fit."""
        there = self.place(alpha)
        self.posterior = self.hessian.posterior(there)
        self.converged = self.minimise(alpha, 10.0 * self.tol, FLAT_ROUNDS)
        exact = self.exact_round
        if exact is None or self.turn <= exact:
            rough = exact is not None and self.turn < exact
            make = self.problem.rough_hessian if rough else self.problem.hessian
            self.hessian = make(self.theta)
            self.posterior = self.hessian.posterior(there)
        self.turn += 1
        theta = on_host(self.theta)
        objective = float(self.loss(self.theta)[0]) + float(theta @ (alpha * theta)) / 2.0
        log_evidence = (float(np.log(alpha).sum()) - self.posterior.log_det) / 2.0 - objective
        return Fit(theta, log_evidence, on_host(self.posterior.inverse_diagonal))

    def loss(self, theta: Float64Array) -> tuple[float, Float64Array]:
        """Return the loss and its gradient."""
        if not bool((theta == self.known[0]).all()):
            self.known = theta, *self.problem.value_and_gradient(theta)
        return self.known[1:]

    def minimise(self, alpha: Float64Array, tol: float, flat: float) -> bool:
        """Minimise loss plus penalty; return whether this took fewer than the largest steps."""
        theta, posterior, low = self.theta, self.posterior, self.low
        alpha = self.place(alpha)

        def objective(v: Float64Array) -> tuple[float, Float64Array]:
            new = theta + posterior.step(v)
            value, gradient = self.loss(new)
            pull = alpha * new
            return float(value) + float(pull @ new) / 2.0, posterior.whiten(gradient + pull)

        if low is None:
            v, n_iter = minimise_whitened(objective, 0.0 * theta, tol, flat, self.max_iter)
            self.theta = theta + posterior.step(v)
        else:
            bounds = Bounds((low - theta) / posterior.step(np.ones_like(theta)), np.inf)
            options = {"maxiter": self.max_iter, "gtol": tol, "ftol": flat}
            options["maxcor"] = WHITENED_PAIRS
            result = minimize(
                objective, 0.0 * theta, jac=True, method="L-BFGS-B", bounds=bounds, options=options
            )
            self.theta, n_iter = np.maximum(theta + posterior.step(result.x), low), int(result.nit)
        self.n_iter += n_iter
        return n_iter < self.max_iter


class EvidenceFit(NamedTuple):
    """A fit, its strengths and effective degrees of freedom by group, its log evidence by round."""

    theta: Float64Array
    strengths: dict[str, float]
    dof: dict[str, float]
    path: Float64Array
    n_iter: int
    converged: bool


def fit_by_evidence(
    problem: Any,
    groups: Mapping[str, slice],
    prior: Mapping[str, float],
    *,
    tol: float,
    max_iter: int,
    exact_round: int | None = None,
    low: Float64Array | None = None,
    place: Callable[[Float64Array], Any] = np.asarray,
    **keywords: Any,
) -> EvidenceFit:
    r"""Fit a problem by `WhitenedFits`, with strengths from the first ones in `prior`.

    Keywords are those of `find_strengths`.
    """
    first = np.array([prior[g] for g in groups], dtype=np.float64)
    size = max(where.stop for where in groups.values())
    fits = WhitenedFits(
        problem, size, tol=tol, max_iter=max_iter, exact_round=exact_round, low=low, place=place
    )
    strengths, determined, path = find_strengths(fits, groups, first, **keywords)
    dof = sum_groups(determined, groups)
    converged = fits.minimise(alpha_of(strengths, groups), tol, FLAT) and fits.converged
    by_name = [dict(zip(groups, x.tolist(), strict=True)) for x in (strengths, dof)]
    theta = on_host(fits.theta)
    return EvidenceFit(theta, by_name[0], by_name[1], np.array(path), fits.n_iter, converged)
