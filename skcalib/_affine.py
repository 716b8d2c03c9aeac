r"""Floor 1: fit softmax(W z + b) for a pattern of W: one scale, a diagonal, or a full matrix.

A single scale is :math:`W = I / T`. At the NLL's optimum the expected deficit of the true logit
below the largest one equals the observed deficit,

.. math:: \sum_i w_i \sum_k q_{ik} (\max_j z_{ij} - z_{ik}) = \sum_i w_i (\max_j z_{ij} - z_{iy_i}),

and Newton's method solves the logarithm of this in :math:`\log T`: nearly a straight line.

Diagonal and full W minimise, by a truncated Newton method,

.. math:: \mathrm{NLL} + \lambda_d \sum_i (W_{ii} - c)^2
          + \lambda_o \sum_{i \ne j} W_{ij}^2 + \mu \sum_i b_i^2 .
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve, eigh
from sklearn.exceptions import ConvergenceWarning

from skcalib._objectives import (
    AffineNLL,
    Diagonal,
    Full,
    Pattern,
    TopShifted,
    brier_of_scale,
    nll_of_scale,
)
from skcalib._simplex import Scores

Float64Array = NDArray[np.float64]
Intp = NDArray[np.intp]

# ------------------------------------------------------------------------------ temperature

# T lies within exp(+-10) of the spread of the logits, or of the mean deficit of the true one where
# that is far less; nothing farther away can be told apart from a hard decision or from uniform
# predictions.
LOG_BOUND = 10.0
# Rows of the sample that finds the neighbourhood of the optimum.
SAMPLE_ROWS = 2000
LOG_TOLERANCE = 1e-9
GRID_STEP = 1.0

# Function of log beta that rises through 0 at the optimum, and its derivative.
Slope = Callable[[float], tuple[float, float]]


class Temperature(NamedTuple):
    """A fitted temperature; `bound` says which end of its range it met, if any."""

    value: float
    bound: str
    spread: float


def fit_temperature(scores: Scores, code: Intp, w: Float64Array, objective: str = "nll") -> float:
    """Return T of softmax(z / T) by an objective of `SCALE_FITS`, to 1e-8; warn at a bound."""
    found = find_temperature(scores, code, w, objective)
    if found.bound:
        warnings.warn(_AT_BOUND[found.bound], ConvergenceWarning, stacklevel=2)
    return found.value


def find_temperature(
    scores: Scores, code: Intp, w: Float64Array, objective: str = "nll"
) -> Temperature:
    """Return T of softmax(z / T), and the bound it met, without a warning."""
    shifted = TopShifted(scores, code, w)
    if shifted.spread == 0.0:
        # Every row is constant: any T gives uniform probabilities.
        return Temperature(1.0, "", 1.0)
    middle = -float(np.log(shifted.spread))
    log_beta, end = middle + LOG_BOUND, "high"
    if shifted.deficit > 0.0:
        low, high = middle - LOG_BOUND, max(middle, _sharpest(shifted)) + LOG_BOUND
        log_beta, end = SCALE_FITS[objective](shifted, low, high)
    return Temperature(float(np.exp(-log_beta)), end, shifted.spread)


def _sharpest(shifted: TopShifted) -> float:
    """Return a log beta that the NLL's optimum cannot exceed.

    There the NLL is at most log K, and it is at least beta times the mean deficit. The spread of
    the logits alone would not do: one logit of -1e10 (a constant feature under naive Bayes) puts
    the optimum far outside any range about it.
    """
    return float(np.log(np.log(shifted.scores.shape[1]) / shifted.deficit))


_AT_BOUND = {
    "high": "TemperatureScaling reached the lower bound of T: (nearly) every row has its true "
    "class on top, so that sharper is always better; fit on held-out rows, some of which are "
    "misclassified.",
    "low": "TemperatureScaling reached the upper bound of T: the scores predict these labels no "
    "better than uniform probabilities would; check that columns follow the sorted labels.",
}


def _by_nll(shifted: TopShifted, low: float, high: float) -> tuple[float, str]:
    """Solve log(observed deficit / expected deficit) = 0 in log beta."""

    def slope_on(rows: TopShifted) -> Slope:
        def slope(log_beta: float) -> tuple[float, float]:
            beta = np.exp(log_beta)
            _, first, second = nll_of_scale(rows, beta)
            expected = rows.deficit - first
            if expected <= 0.0:
                return np.inf, 0.0
            return float(np.log(rows.deficit / expected)), beta * second / expected

        return slope

    if shifted.deficit >= shifted.spread:
        return low, "low"
    start = max(low + LOG_BOUND + 1.0, _sharpest(shifted) - LOG_BOUND / 2)
    few = shifted.thinned(SAMPLE_ROWS)
    if few is not shifted and 0.0 < few.deficit < few.spread:
        guess, end = _rising_root(slope_on(few), start, low, high, 1e-3)
        start = start if end else guess
    return _rising_root(slope_on(shifted), start, low, high)


def _by_brier(shifted: TopShifted, low: float, high: float) -> tuple[float, str]:
    """Refine every local minimum of a coarse grid on a sample; the lowest one wins."""

    def slope_on(rows: TopShifted) -> Slope:
        def slope(log_beta: float) -> tuple[float, float]:
            beta = np.exp(log_beta)
            _, first, second = brier_of_scale(rows, beta)
            return beta * first, beta * first + beta * beta * second

        return slope

    few = shifted.thinned(SAMPLE_ROWS)
    grid = np.linspace(low, high, 1 + round((high - low) / GRID_STEP))
    height = np.array([brier_of_scale(few, np.exp(t)).value for t in grid])
    padded = np.concatenate([[np.inf], height, [np.inf]])
    basins = grid[(height < padded[:-2]) & (height <= padded[2:])]
    found = []
    for start in basins:
        guess, end = _rising_root(slope_on(few), start, low, high, 1e-3)
        found.append(_rising_root(slope_on(shifted), start if end else guess, low, high))
    if len(found) == 1:
        return found[0]
    return min(found, key=lambda root: brier_of_scale(shifted, np.exp(root[0])).value)


# How T is found for each objective: (rows, range of log beta) -> (log beta, end met or "").
SCALE_FITS: dict[str, Callable[[TopShifted, float, float], tuple[float, str]]] = {
    "nll": _by_nll,
    "brier": _by_brier,
}


def _rising_root(
    slope: Slope, start: float, low: float, high: float, tolerance: float = LOG_TOLERANCE
) -> tuple[float, str]:
    """Newton's method for a function that rises through 0, in a bracket it cannot leave.

    Returns the root and ""; or an end of the range and its name, if the root lies beyond.
    """
    left, right = -np.inf, np.inf
    t, last = start, 0.0
    while right - left > tolerance:
        value, rise = slope(t)
        if value == 0.0:
            break
        left, right = (t, right) if value < 0.0 else (left, t)
        step = -value / rise if rise > 0.0 and value < np.inf else -np.sign(value) * GRID_STEP
        target = min(max(t + step, low), high)
        if target == t:
            return t, "low" if value > 0.0 else "high"
        if not left < target < right:
            target = (left + right) / 2
        size = abs(target - t)
        # Newton's error after this step, from how the last two steps shrank.
        if (
            target == t + step
            and size * size * max(1.0, size / last**2 if last else 1.0) < tolerance
        ):
            return target, ""
        t, last = target, size
    return t, ""


# ------------------------------------------------------------------------ diagonal and full W


class Penalty(NamedTuple):
    """Weights of the squares of W's diagonal (about its start), of the rest of W, and of b."""

    diagonal: float
    off_diagonal: float
    intercept: float


class AffineFit(NamedTuple):
    """``coef`` is ``(K,)`` for a diagonal W, else ``(K, K)``; ``intercept (K,)``."""

    coef: Float64Array
    intercept: Float64Array
    n_iter: int


# Up to this many parameters the Hessian itself is the preconditioner.
LARGEST_EXACT = 256
# Up to this many, the Hessian in W's diagonal and b is factorised when the blocks within each
# class prove too poor; with its copy it takes 64 MiB.
LARGEST_FACTOR = 2048
# The preconditioner is made anew when conjugate gradients needed more products than this.
STALE_PRODUCTS = 8
MAX_PRODUCTS = 250
# Directions that nothing holds (a common shift of b) get this share of their own curvature.
LIFT = 1e-10

Linear = Callable[[Float64Array], Float64Array]


def fit_affine(
    scores: Scores,
    code: Intp,
    w: Float64Array,
    *,
    full: bool,
    penalty: Penalty,
    about_temperature: bool,
    tol: float,
    max_iter: int,
) -> AffineFit:
    """Minimise the penalised mean NLL of softmax(W z + b).

    Parameters
    ----------
    full : bool
        Whether W is a full matrix, else diagonal.
    penalty : Penalty
    about_temperature : bool
        Whether the penalty holds for W T about the identity, T the temperature that is best by
        NLL, instead of for W itself.
    tol : float
        Largest absolute entry of the gradient, for logits as given, at which the fit ends.
    max_iter : int
        Largest number of Newton steps.
    """
    if about_temperature:
        scale = fit_temperature(scores, code, w)
        by_square = scale * scale
    else:
        found = find_temperature(scores, code, w)
        scale = found.spread if found.bound else found.value
        by_square = 1.0
    pattern: Pattern = Full() if full else Diagonal()
    identity = pattern.identity(scores.shape[1])
    ridge = np.full_like(identity, by_square * penalty.off_diagonal)
    ridge[identity == 1.0] = by_square * penalty.diagonal
    ridge[-1] = penalty.intercept
    problem = _Penalised(AffineNLL(scores, code, w, pattern), ridge, identity / scale)
    theta, n_iter, converged = _truncated_newton(problem, scale, tol, max_iter)
    if not converged:
        warnings.warn(
            f"The fit of softmax(W z + b) did not converge in {n_iter} of at most {max_iter} "
            "iterations: raise max_iter, or pass penalty='structured' if the classes can be "
            "separated without error (then no finite optimum exists).",
            ConvergenceWarning,
            stacklevel=2,
        )
    # What no row can tell: b sums to 0, and the columns of a full W to those of the identity.
    loose = problem.loose
    theta[loose] += (identity - theta)[loose].mean(axis=1, keepdims=True)
    coef = theta[:-1].T.copy() if full else theta[0]
    return AffineFit(coef, theta[-1], n_iter)


def _loose_rows(ridge: Float64Array) -> NDArray[np.bool_]:
    """Rows of `theta` (b, columns of a full W) where adding a constant changes nothing."""
    loose = np.array([not row.any() for row in ridge])
    if ridge.shape[0] == 2:  # the scales of a diagonal W
        loose[0] = False
    return loose


class _Penalised:
    """An affine NLL plus ``sum ridge * (theta - start)**2``, with a preconditioner."""

    def __init__(self, nll: AffineNLL, ridge: Float64Array, start: Float64Array) -> None:
        self.nll = nll
        self.ridge = ridge
        self.start = start
        self.loose = _loose_rows(ridge)

    def _without_drift(self, G: Float64Array) -> Float64Array:
        """Clear the rounding of what is 0; a preconditioner would blow it up."""
        G[self.loose] -= G[self.loose].mean(axis=1, keepdims=True)
        return G

    def value_and_gradient(self, theta: Float64Array) -> tuple[float, Float64Array]:
        value, gradient = self.nll.value_and_gradient(theta)
        away = theta - self.start
        pull = self.ridge * away
        gradient += 2 * pull
        return value + float((pull * away).sum()), self._without_drift(gradient)

    def hessian_product(self, theta: Float64Array, V: Float64Array) -> Float64Array:
        return self._without_drift(self.nll.hessian_product(theta, V)) + 2 * self.ridge * V

    def preconditioner(self, theta: Float64Array, thorough: bool) -> Linear:
        """Return an approximate inverse of the Hessian at `theta`, symmetric and positive."""
        if isinstance(self.nll.pattern, Diagonal):
            return self._by_diagonal(theta, 2 * self.ridge, thorough)
        if theta.size <= LARGEST_EXACT:
            H = np.zeros((theta.size, theta.size))
            for Z, Q, share in self.nll.predictions(theta):
                self.nll.pattern.add_hessian(H, Z, Q, share)
            return _inverse(H, 2 * self.ridge)
        return self._by_factors(theta, thorough)

    def _by_diagonal(self, theta: Float64Array, ridge: Float64Array, thorough: bool) -> Linear:
        """Invert the Hessian in W's diagonal and b, or only its blocks within each class."""
        n_classes = theta.shape[1]
        if 2 * n_classes <= (LARGEST_FACTOR if thorough else LARGEST_EXACT):
            H = np.zeros((2 * n_classes, 2 * n_classes))
            for Z, Q, share in self.nll.predictions(theta):
                Diagonal().add_hessian(H, Z, Q, share)
            return _inverse(H, ridge)
        blocks = np.zeros((n_classes, 2, 2))
        for Z, Q, share in self.nll.predictions(theta):
            Diagonal().add_hessian_by_class(blocks, Z, Q, share)
        own = blocks[:, [0, 1], [0, 1]] + ridge.T
        blocks[:, [0, 1], [0, 1]] = own + _lift(own)
        inverses = np.linalg.inv(blocks)
        return lambda R: np.einsum("kab,bk->ak", inverses, R)

    def _by_factors(self, theta: Float64Array, thorough: bool) -> Linear:
        """Invert (features x features) times (classes x classes), plus the diagonal's own part.

        The penalty may hold the rest of W far tighter than its diagonal, so the diagonal and b
        are solved once more by themselves; the sum of both is good in either case.
        """
        n_classes = theta.shape[1]
        features = np.zeros((n_classes + 1, n_classes + 1))
        classes = np.zeros((n_classes, n_classes))
        for Z, Q, share in self.nll.predictions(theta):
            F = np.hstack([Z, np.ones((Z.shape[0], 1))])
            doubt = share * (1.0 - np.einsum("ij,ij->i", Q, Q))
            features += F.T @ (F * doubt[:, None])
            classes -= Q.T @ (Q * share[:, None])
            classes[np.diag_indices(n_classes)] += share @ Q
        ridge = 2 * self.ridge
        own = features.diagonal()
        held = np.array([np.delete(row, j % n_classes).min() for j, row in enumerate(ridge)])
        a, A = eigh(classes / max(classes.trace(), 1e-300))
        c, C = eigh(features, np.diag(held + _lift(own)))
        weight = 1.0 / (np.maximum(c, 0.0)[:, None] * np.maximum(a, 0.0) + 1.0)
        k = np.arange(n_classes)
        short = self._by_diagonal(theta, np.vstack([ridge[k, k], ridge[-1]]), thorough)

        def inverse(R: Float64Array) -> Float64Array:
            out = C @ (weight * (C.T @ R @ A)) @ A.T
            own = short(np.vstack([R[k, k], R[-1]]))
            out[k, k] += own[0]
            out[-1] += own[1]
            return out

        return inverse


def _lift(own: Float64Array) -> Float64Array:
    """Return what makes a Hessian with this diagonal positive, changing it as good as nothing."""
    return np.where(own > 0.0, LIFT * own, 1.0)


def _inverse(H: Float64Array, ridge: Float64Array) -> Linear:
    """Return the inverse of ``H + diag(ridge)``; overwrites `H`."""
    diagonal = np.einsum("ii->i", H)
    diagonal += ridge.ravel()
    lift = _lift(diagonal)
    while True:
        diagonal += lift
        try:
            factor = cho_factor(H, check_finite=False)
            return lambda R: cho_solve(factor, R.ravel(), check_finite=False).reshape(R.shape)
        except LinAlgError:
            lift *= 100


def _truncated_newton(
    problem: _Penalised, scale: float, tol: float, max_iter: int
) -> tuple[Float64Array, int, bool]:
    """Newton steps by conjugate gradients, each shortened until the objective falls.

    The gradient has to reach `tol` for logits as given and for logits divided by `scale`.
    """
    per_scale = np.ones_like(problem.start)
    per_scale[:-1] = 1.0 / scale
    measure = np.maximum(1.0, per_scale)

    def largest(gradient: Float64Array) -> float:
        return float(np.abs(measure * gradient).max())

    theta = problem.start.copy()
    value, gradient = problem.value_and_gradient(theta)
    size = first_size = largest(gradient)
    inverse, products = None, 0
    for n_iter in range(max_iter):
        if size <= tol:
            return theta, n_iter, True
        if inverse is None or products > STALE_PRODUCTS:
            inverse = problem.preconditioner(theta, thorough=products > STALE_PRODUCTS)
        step, products = _conjugate_gradients(
            partial(problem.hessian_product, theta),
            inverse,
            -gradient,
            shrink=min(0.1, np.sqrt(size / first_size)),
            enough=lambda residual: largest(residual) <= 0.2 * tol,
        )
        slope = float((gradient * step).sum())
        # Below the rounding of the value only the gradient can tell whether a step was good.
        blind = -slope < 1e-14 * max(1.0, abs(value))
        length = 1.0
        while True:
            new = theta + length * step
            new_value, new_gradient = problem.value_and_gradient(new)
            new_size = largest(new_gradient)
            if (new_size < size) if blind else (new_value <= value + 1e-4 * length * slope):
                break
            length /= 2
            if blind or length < 1e-9:
                # Rounding of logits of a large scale; enough if small on their own scale.
                return theta, n_iter, bool(np.abs(per_scale * gradient).max() <= tol)
        theta, value, gradient, size = new, new_value, new_gradient, new_size
    return theta, max_iter, size <= tol


def _conjugate_gradients(
    product: Linear,
    inverse: Linear,
    target: Float64Array,
    shrink: float,
    enough: Callable[[Float64Array], bool],
) -> tuple[Float64Array, int]:
    """Solve ``product(step) = target`` roughly; return the step and the number of products.

    Ends where the residual has shrunk by the factor `shrink` in the norm of `inverse`, or is
    `enough`.
    """
    step = np.zeros_like(target)
    residual = target.copy()
    direction = turned = inverse(residual)
    first = along = float((residual * turned).sum())
    for products in range(1, MAX_PRODUCTS + 1):
        curved = product(direction)
        curvature = float((direction * curved).sum())
        if curvature <= 0.0:
            return (step if products > 1 else direction), products
        step += (along / curvature) * direction
        residual -= (along / curvature) * curved
        if enough(residual):
            break
        turned = inverse(residual)
        before, along = along, float((residual * turned).sum())
        if along <= shrink * shrink * first:
            break
        direction = turned + (along / before) * direction
    return step, products
