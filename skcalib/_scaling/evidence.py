"""Empirical Bayes: ridge penalties whose strengths maximise the evidence."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cholesky
from scipy.linalg.lapack import dtrtri
from scipy.optimize import Bounds, minimize
from scipy.special import softmax

from skcalib._arrays.rowwise import Bools, Float64Array, Intp
from skcalib._arrays.tensors import on_host, ops_for
from skcalib._scaling.optimise import WHITENED_PAIRS, minimise_each, minimise_whitened

# Estimation of the strengths of ridge penalties by empirical Bayes.
#
# Parameters :math:`\theta` are in groups g, each with a prior
# :math:`\mathcal{N}(0, I / \alpha_g)`, :math:`\alpha_g = 2 \lambda_g`.
# A fit minimises :math:`E(\theta) = \mathrm{NLL}(\theta)
# + \sum_g \lambda_g \|\theta_g\|^2`. With H the NLL's Hessian at the minimum and
# :math:`A = H + \mathrm{diag}(\alpha)`, the effective number of parameters of a group and the
# Laplace approximation of the log evidence (up to a constant) are
#
# .. math::
#
#     \gamma_g = \sum_{j \in g} (1 - \alpha_g (A^{-1})_{jj}), \qquad
#     \log \mathrm{ev} = -E(\theta) + \tfrac12 \sum_j \log \alpha_j - \tfrac12 \log \det A .
#
# MacKay's fixed point, alternated with fits, is
#
# .. math:: \alpha_g \leftarrow \frac{\gamma_g + a_g}{\|\theta_g\|^2 + b_g} ,
#
# where a and b follow from a prior of the strength: :math:`a = 1/2` and :math:`b = a / (2
# \lambda^0_g)` for a weak Gamma prior with mean :math:`\lambda^0_g`.
#
# Changes of :math:`\log \lambda_g` with the same sign are extrapolated, because the fixed point
# approaches large strengths slowly. H may be a rough Hessian, without some of its entries.


# Shape a of the Gamma priors of the penalty strengths, and the bounds of the strengths.
PRIOR_SHAPE = 0.5
SMALLEST_STRENGTH, LARGEST_STRENGTH = 1e-2, 1e6
# The last fit ends when a step lowers the objective by less than this fraction, which is below the
# rounding error of features in float32.
FLAT = 1e-8
# Earlier fits end when a step lowers the objective by less than this fraction.
FLAT_ROUNDS = 1e-6
# Largest ratio of the geometric series by which changes of a log strength are extrapolated.
LARGEST_RATIO = 0.67


class Fit(NamedTuple):
    """Result of a fit with given penalty strengths.

    Contains parameters ``(p,)``, the log evidence, and the diagonal of the inverse of A. For k
    problems with the same strengths, arrays have a first axis of length k.
    """

    theta: Float64Array
    log_evidence: float
    inverse_diagonal: Float64Array


def gamma_prior(_: Float64Array, first: Float64Array) -> tuple[float, Float64Array]:
    """Return constants of the update of penalty strengths, for Gamma priors of mean `first`."""
    return PRIOR_SHAPE, PRIOR_SHAPE / (2.0 * first)


def alpha_of(strengths: Float64Array, groups: Mapping[str, slice]) -> Float64Array:
    """Return the prior precision alpha of each parameter, ``(p,)``, from the penalty strengths."""
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
    r"""Estimate the penalty strengths of groups of parameters by alternating fits and updates.

    Returns the strengths, the fraction of each parameter (from 0 to 1) that the data determine, and
    the log evidence of each round.

    Parameters
    ----------
    fit : callable
        Fits the parameters for given prior precisions alpha, ``(p,)``.
    groups : mapping of str to slice
        The parameters of each group, in order; every parameter is in one group.
    first : ndarray of shape (g,)
        Strengths in the first fit.
    rounds : int
        Largest number of updates.
    moved, gain : float, default=0.0
        Updates end when no :math:`\log \lambda_g` would change by `moved`, or when the last update
        has changed the log evidence by less than `gain`.
    strength_prior : callable, default=gamma_prior
        Returns a and b of each group, given the current and the first strengths.
    verbose : int, default=0
        Above 0, print a line for each round.
    """
    strengths, before, path = first, np.zeros(first.size), []
    for turn in range(rounds + 1):
        alpha = alpha_of(strengths, groups)
        fitted = fit(alpha)
        path.append(fitted.log_evidence)
        if verbose:
            listed = ", ".join(f"{g} {x:.3g}" for g, x in zip(groups, strengths, strict=True))
            text = f"round {turn}: log evidence {path[-1]:.6g}, penalty strengths {listed}\n"
            sys.stdout.write(text)
        determined = 1.0 - alpha * fitted.inverse_diagonal
        dof, square = sum_groups(determined, groups), sum_groups(fitted.theta**2, groups)
        a, b = strength_prior(strengths, first)
        change = np.log(within_limits((dof + a) / (square + b) / 2.0) / strengths)
        still = turn > 0 and abs(path[-1] - path[-2]) < gain
        if turn == rounds or still or (np.abs(change) < moved).all():
            break
        # Extrapolate the geometric series of changes with the ratio of the last two changes, if
        # this ratio is positive.
        ratio = np.divide(change, before, out=np.zeros_like(change), where=before * change > 0.0)
        change, before = change / (1.0 - np.minimum(ratio, LARGEST_RATIO)), change
        strengths = within_limits(strengths * np.exp(change))
    return strengths, determined, path


def sum_groups(values: Float64Array, groups: Mapping[str, slice]) -> Float64Array:
    """Sum the values of the parameters in each group."""
    return np.array([values[..., where].sum() for where in groups.values()])


def within_limits(strengths: Float64Array) -> Float64Array:
    return np.clip(strengths, SMALLEST_STRENGTH, LARGEST_STRENGTH)


class WhitenedFits:
    """Repeated fits by L-BFGS, in coordinates whitened by the Hessian of the previous fit.

    Parameters
    ----------
    problem : object
        A smooth convex loss with the methods `value_and_gradient` and `hessian` of theta, and
        `rough_hessian`, which leaves out some entries.
    size : int
        Number of parameters.
    to_device : callable
        Moves an array of the size of theta to the device of the problem.
    tol : float
        A fit ends when no whitened coordinate of the gradient exceeds this number, which is a
        distance from the minimum in posterior standard deviations; it is ten times larger before
        the last fit.
    max_iter : int
        Largest number of steps of one fit.
    exact_round : int, default=None
        Round in which the exact Hessian is computed, which is also used in later rounds; earlier
        rounds use the rough Hessian. None: the exact Hessian is computed in all rounds.
    low : ndarray of shape (p,), default=None
        Lower bounds of theta, which require whitened steps along single parameters.
    """

    def __init__(
        self,
        problem: Any,
        size: int,
        to_device: Callable[[Float64Array], Any],
        *,
        tol: float,
        max_iter: int,
        exact_round: int | None,
        low: Float64Array | None,
    ) -> None:
        self.problem, self.tol, self.max_iter, self.low = problem, tol, max_iter, low
        self.to_device, self.theta = to_device, to_device(np.zeros(size))
        self.n_iter, self.exact_round, self.turn = 0, exact_round, 0
        self.hessian = problem.rough_hessian(self.theta)
        # A fit begins at the end of the previous fit, where the loss is already known.
        self.known = self.theta, *problem.value_and_gradient(self.theta)

    def __call__(self, alpha: Float64Array) -> Fit:
        """Fit the parameters for given prior precisions alpha."""
        there = self.to_device(alpha)
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
        """Return the loss and its gradient; reuse the last result if theta is unchanged."""
        if not bool((theta == self.known[0]).all()):
            self.known = theta, *self.problem.value_and_gradient(theta)
        return self.known[1:]

    def minimise(self, alpha: Float64Array, tol: float, flat: float) -> bool:
        """Minimise the loss plus the penalty, and return whether the fit converged."""
        theta, posterior, low = self.theta, self.posterior, self.low
        alpha = self.to_device(alpha)

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
    """Result of a fit by empirical Bayes: parameters, strengths, degrees of freedom, evidence."""

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
    to_device: Callable[[Float64Array], Any] = np.asarray,
    **keywords: Any,
) -> EvidenceFit:
    r"""Fit a problem by empirical Bayes, starting with the penalty strengths in `prior`.

    Other keywords are passed to `find_strengths`.
    """
    first = np.array([prior[g] for g in groups], dtype=np.float64)
    size = max(where.stop for where in groups.values())
    fits = WhitenedFits(
        problem, size, to_device, tol=tol, max_iter=max_iter, exact_round=exact_round, low=low
    )
    strengths, determined, path = find_strengths(fits, groups, first, **keywords)
    dof = sum_groups(determined, groups)
    converged = fits.minimise(alpha_of(strengths, groups), tol, FLAT) and fits.converged
    by_name = [dict(zip(groups, x.tolist(), strict=True)) for x in (strengths, dof)]
    theta = on_host(fits.theta)
    return EvidenceFit(theta, by_name[0], by_name[1], np.array(path), fits.n_iter, converged)


# Log loss of softmax(eta), and its derivative in the logits eta.


def nll_to_residual(eta: NDArray[Any], code: Intp, w: Float64Array) -> Any:
    """Return the weighted log loss, and overwrite the logits ``(n, K)`` by its derivative."""
    r = ops_for(eta)
    true, top = r.at(eta, code), r.row_max(eta)
    eta -= top[:, None]
    r.exp_(eta)
    total = eta.sum(1)
    r.add_at_(eta, code, -total)
    r.times_rows_(eta, w / total)
    return w @ (r.log(r.copied(total)) + top - true)


# Several forms of the Hessian H of the log loss, and the Gaussian posterior of the parameters with
# precision A = H + diag(alpha).
#
# Each form of H computes the diagonal of the inverse of A, the log determinant of A, and whitened
# coordinates v, in which A is the identity. With :math:`A = L L'`, a step of theta is
# :math:`L'^{-1} v`, and a gradient g becomes :math:`L^{-1} g`. Hessians of different rows are added
# entry by entry.


# Ridge on the diagonal of the Hessian, relative to the diagonal, against rounding errors.
LIFT = 1e-12

Linear = Callable[[Float64Array], Float64Array]


class Posterior(NamedTuple):
    """A Gaussian posterior with precision ``A = H + diag(alpha)``, and whitened coordinates.

    ``step`` converts a whitened step to a step of theta, and ``whiten`` a gradient to whitened
    coordinates.
    """

    inverse_diagonal: Float64Array
    log_det: float
    step: Linear
    whiten: Linear


class DiagonalPosterior(NamedTuple):
    """A diagonal approximation of a Hessian."""

    h: Float64Array

    def posterior(self, alpha: Float64Array) -> Posterior:
        """Return the Gaussian posterior for ridge penalties of strength ``alpha / 2``."""
        A = self.h + alpha
        root = 1.0 / A**0.5
        log_det = float(ops_for(A).log(A).sum())
        return Posterior(1.0 / A, log_det, root.__mul__, root.__mul__)


class FullPosterior(NamedTuple):
    """A complete Hessian ``(p, p)``."""

    H: Float64Array

    def posterior(self, alpha: Float64Array) -> Posterior:
        """Return the Gaussian posterior for ridge penalties of strength ``alpha / 2``."""
        A = self.H.copy()
        diagonal = np.einsum("ii->i", A)
        diagonal += LIFT * diagonal + alpha
        L = cholesky(A, lower=True, check_finite=False, overwrite_a=True)
        log_det = 2.0 * float(np.log(L.diagonal()).sum())
        root, _ = dtrtri(L, lower=1, overwrite_c=1)
        inverse_diagonal = np.einsum("ij,ij->j", root, root)
        return Posterior(inverse_diagonal, log_det, root.T.__matmul__, root.__matmul__)


class Bounded(NamedTuple):
    """A complete Hessian for parameters with lower bounds; `free` parameters exceed their bound."""

    H: Float64Array
    free: Bools

    def posterior(self, alpha: Float64Array) -> Posterior:
        """Return the posterior of the free parameters, with steps in single coordinates."""
        single = DiagonalPosterior(self.H.diagonal()).posterior(alpha)
        free = FullPosterior(np.where(self.free & self.free[:, None], self.H, 0.0)).posterior(alpha)
        return free._replace(step=single.step, whiten=single.whiten)


class ByClass(NamedTuple):
    """A Hessian without the entries that link parameters of two different classes.

    The parts are ``shared (m, m)``, ``between (K, m, d)`` and ``own (K, d, d)``; theta contains m
    shared parameters, and then d rows of K parameters.
    """

    shared: Float64Array
    between: Float64Array
    own: Float64Array

    def posterior(self, alpha: Float64Array) -> Posterior:
        """Return the Gaussian posterior for ridge penalties of strength ``alpha / 2``."""
        m, (K, d, _) = len(self.shared), self.own.shape
        own = self.own.copy()
        diagonal = np.einsum("kdd->kd", own)
        diagonal += LIFT * diagonal + alpha[m:].reshape(d, K).T
        L = np.linalg.cholesky(own)
        root = np.linalg.inv(L)
        # In the Cholesky factor, the parameters that all classes share come last.
        border = self.between @ root.transpose(0, 2, 1)
        shared = self.shared - np.einsum("kmd,kld->ml", border, border)
        shared[np.diag_indices(m)] += LIFT * self.shared.diagonal() + alpha[:m]
        L_shared = np.linalg.cholesky(shared)
        shared_root = np.linalg.inv(L_shared)
        logs = np.log(np.einsum("kdd->kd", L)).sum() + np.log(L_shared.diagonal()).sum()
        of_shared = np.einsum("ij,ij->j", shared_root, shared_root)
        through = shared_root @ border @ root
        of_own = np.einsum("kij,kij->kj", root, root) + np.einsum("kij,kij->kj", through, through)

        def step(v: Float64Array) -> Float64Array:
            shared = shared_root.T @ v[:m]
            rest = v[m:].reshape(d, K).T - shared @ border
            own = np.matmul(rest[:, None], root)[:, 0]
            return np.concatenate([shared, own.T.ravel()])

        def whiten(gradient: Float64Array) -> Float64Array:
            rest = np.matmul(root, gradient[m:].reshape(d, K).T[:, :, None])[:, :, 0]
            shared = gradient[:m] - np.einsum("kmd,kd->m", border, rest)
            return np.concatenate([shared_root @ shared, rest.T.ravel()])

        inverse_diagonal = np.concatenate([of_shared, of_own.T.ravel()])
        return Posterior(inverse_diagonal, 2.0 * float(logs), step, whiten)


# Corrections of the logits of each group, with a common prior whose width is estimated from the
# data.
#
# Rows of group g with centred logits :math:`x_k = z_k - \bar z_k` get the probabilities
#
# .. math:: \mathrm{softmax}_k\big(z_k + b_{gk} + (s_g + d_{gk})\, x_k\big)
#
# with parameters in three blocks: the slope :math:`s_g` of all classes, the shifts :math:`b_{gk}`
# and the slopes :math:`d_{gk}` of each class. Each block f has a prior :math:`\mathcal N(0, 1 /
# \alpha_f)`, and a group's parameters minimise
#
# .. math:: E_g(\theta) = \sum_{i \in g} w_i \mathrm{NLL}_i + \tfrac12 \sum_f \alpha_f
#           \|\theta_f\|^2 .
#
# The strengths maximise the log evidence of `evidence`, with a half-Cauchy prior of scale 1 on
# :math:`\alpha_f^{-1/2}`: a and b of the fixed point are :math:`2 / (1 + \alpha_f)` and 0.
#
# The width of the prior is uncertain, above all with a small number of groups. So the parameters
# are averaged over the estimated width, a third and a ninth of it, and 0, weighted by evidence.


# With more classes than this number, a group has only one parameter, a slope for all classes.
MOST_CLASSES = 100
# First penalty strength, largest number of updates of the strengths, and the gain of log evidence
# below which the updates end.
FIRST_STRENGTH, ROUNDS, SMALL_GAIN = 5.0, 40, 0.02
# A fit of the groups ends when a step lowers the objective by less than this number.
SMALLEST_GAIN = 1e-6
TINY = 1e-30
# Parameters are averaged over priors of several widths. These are the widths, relative to the
# estimated width.
WIDTHS = (1.0, 1 / 3, 1 / 9)


class GroupRows(NamedTuple):
    """The rows of a group: logits ``Z (n, K)``, centred logits ``X``, labels and weights."""

    Z: Float64Array
    X: Float64Array
    code: Intp
    w: Float64Array


class PooledFit(NamedTuple):
    """Fitted parameters of G groups: slopes ``common (G,)``, and slopes and shifts ``(G, K)``.

    ``dof (G,)`` are the effective numbers of parameters of the groups, and ``strengths`` are the
    strengths of the blocks of parameters.
    """

    common: Float64Array
    slope: Float64Array
    shift: Float64Array
    dof: Float64Array
    strengths: dict[str, float]


def blocks_of(n_classes: int) -> dict[str, slice]:
    """Return the slices of the parameters theta: common slope, class shifts and class slopes."""
    K = n_classes
    if K > MOST_CLASSES:
        return {"slope": slice(0, 1)}
    return {"slope": slice(0, 1), "shift": slice(1, K + 1), "class slope": slice(K + 1, 2 * K + 1)}


def unpack(theta: Float64Array, n_classes: int) -> tuple[Float64Array, Float64Array]:
    """Convert parameters to the slope change and the shift of each class, both ``(..., K)``."""
    K, common = n_classes, theta[..., :1]
    if K > MOST_CLASSES:
        return np.repeat(common, K, axis=-1), np.zeros((*theta.shape[:-1], K))
    return common + theta[..., K + 1 :], theta[..., 1 : K + 1]


def derivatives(rows: GroupRows, theta: Float64Array) -> tuple[float, Float64Array, Float64Array]:
    """Return the log loss of a group, its gradient ``(m,)`` and its Hessian ``(m, m)``."""
    Z, X, code, w = rows
    K = Z.shape[1]
    slope, shift = unpack(theta, K)
    R = slope * X
    R += shift
    R += Z
    nll = nll_to_residual(R, code, w)
    of_slope = np.einsum("ij,ij->j", R, X)
    P = R / w[:, None]
    P[np.arange(w.size), code] += 1.0
    PX = P * X
    by_shift, by_slope = w @ PX, w @ (PX * X)
    # A change of the common slope changes the slopes of all classes.
    mean = PX.sum(axis=1)[:, None]
    if K > MOST_CLASSES:
        return nll, of_slope.sum()[None], by_slope.sum() - (mean.T * w) @ mean
    both = np.hstack([mean, P, PX])
    hessian = -(both.T * w) @ both
    k = 1 + np.arange(K)
    hessian[0, 0] += by_slope.sum()
    hessian[0, 1:] += np.concatenate([by_shift, by_slope])
    hessian[1:, 0] = hessian[0, 1:]
    hessian[k, k] += w @ P
    hessian[k, k + K] += by_shift
    hessian[k + K, k] += by_shift
    hessian[k + K, k + K] += by_slope
    return nll, np.concatenate([of_slope.sum()[None], R.sum(axis=0), of_slope]), hessian


def half_cauchy_prior(strengths: Float64Array, _: Float64Array) -> tuple[Float64Array, float]:
    """Return constants of the update of penalty strengths, for half-Cauchy priors of sigma."""
    return 2.0 / (1.0 + 2.0 * strengths), TINY


def fit_pooled(groups: list[GroupRows], strength: float | None = None) -> PooledFit:
    """Fit the corrections of all groups; a strength of None is estimated from the data."""
    K = groups[0].Z.shape[1]
    blocks = blocks_of(K)
    theta = np.zeros((len(groups), max(part.stop for part in blocks.values())))

    def of_groups(theta: Float64Array, which: Intp) -> Any:
        parts = [derivatives(groups[g], each) for g, each in zip(which, theta, strict=True)]
        return tuple(map(np.array, zip(*parts, strict=True)))

    def fit(alpha: Float64Array) -> Fit:
        nonlocal theta
        fitted = minimise_each(of_groups, theta, alpha, SMALLEST_GAIN)
        theta, inverse = fitted.theta, np.linalg.inv(fitted.hessian)
        return Fit(theta, fitted.log_evidence(alpha).sum(), np.einsum("kpp->kp", inverse))

    strengths = np.full(len(blocks), FIRST_STRENGTH if strength is None else strength / 2.0)
    if strength is None:
        strengths, *_ = find_strengths(
            fit, blocks, strengths, rounds=ROUNDS, gain=SMALL_GAIN, strength_prior=half_cauchy_prior
        )
    widths = WIDTHS if strength is None else WIDTHS[:1]
    alphas = [alpha_of(strengths / width**2, blocks) for width in widths]
    fits = [fit(alpha) for alpha in alphas]
    evidence = [fitted.log_evidence for fitted in fits]
    if strength is None:
        evidence.append(-of_groups(np.zeros_like(theta), np.arange(len(groups)))[0].sum())
    weight = softmax(evidence)[: len(fits)]
    theta = np.tensordot(weight, [fitted.theta for fitted in fits], axes=1)
    by_prior = [alpha * each.inverse_diagonal for each, alpha in zip(fits, alphas, strict=True)]
    dof = (weight.sum() - np.tensordot(weight, by_prior, axes=1)).sum(axis=1)
    by_name = dict(zip(blocks, (2.0 * strengths).tolist(), strict=True))
    return PooledFit(theta[:, 0], *unpack(theta, K), dof, by_name)
