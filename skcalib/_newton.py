r"""Floor 1: Newton's method for a penalised affine NLL, of ten parameters or of a million.

.. math:: \mathrm{NLL}(W, b) + \lambda_d \sum_i (W_{ii} - c)^2
          + \lambda_o \sum_{i \ne j} W_{ij}^2 + \mu \sum_i b_i^2 .

Each step is solved by preconditioned conjugate gradients on products with the Hessian, which is
never made where it would be large. Of arrays the size of the parameters eight are kept at most.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import perf_counter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve, eigh

from skcalib._affine_nll import AffineNLL, Diagonal
from skcalib._blocks import row_blocks

Float64Array = NDArray[np.float64]
Linear = Callable[[Float64Array], Float64Array]

# Up to this many parameters the Hessian itself is the preconditioner.
LARGEST_EXACT = 256
# Up to this many, the Hessian in W's diagonal and b is factorised when the blocks within each
# class prove too poor; with its copy it takes 64 MiB.
LARGEST_FACTOR = 2048
# The preconditioner is made anew when conjugate gradients needed more products than this.
STALE_PRODUCTS = 2
MAX_PRODUCTS = 250
# Conjugate gradients end where the residual has shrunk by this factor (the first is for the
# exact preconditioner), or by the root of how much the gradient has since the start.
LEAST_SHRINK = 0.1, 0.5
# Directions that nothing holds (a common shift of b) get this share of their own curvature.
LIFT = 1e-10


class Penalty(NamedTuple):
    """Weights of the squares of W's diagonal (about its start), of the rest of W, and of b."""

    diagonal: float
    off_diagonal: float
    intercept: float


class PenalisedNLL:
    """An affine NLL plus a penalty, with a preconditioner; W's diagonal is drawn to `centre`."""

    def __init__(self, nll: AffineNLL, penalty: Penalty, centre: float) -> None:
        self.nll = nll
        self.penalty = penalty
        self.centre = centre
        on, off, intercept = penalty
        n_rows = nll.pattern.identity(nll.scores.shape[1]).shape[0]
        # Rows of `theta` (b, columns of a full W) where adding a constant changes nothing.
        self.loose = np.full(n_rows, n_rows > 2 and on == off == 0.0)
        self.loose[-1] = intercept == 0.0

    def clear_drift(self, G: Float64Array) -> Float64Array:
        """Clear the rounding of what is 0; a preconditioner would blow it up."""
        if self.loose.any():
            G[self.loose] -= G[self.loose].mean(axis=1, keepdims=True)
        return G

    def _off_diagonal(self, X: Float64Array) -> Iterator[tuple[slice, Float64Array]]:
        """Yield ``(rows, a copy of W's rows with 0 on the diagonal)``; none of a diagonal W."""
        if X.shape[0] > 2:
            for rows in row_blocks(X.shape[0] - 1, X.shape[1]):
                block = X[rows].copy()
                block[np.arange(block.shape[0]), np.arange(rows.start, rows.stop)] = 0.0
                yield rows, block

    def _add_pull(self, out: Float64Array, X: Float64Array, centre: float) -> float:
        """Add the gradient of the penalty at `X` to `out`; return the penalty."""
        on, off, intercept = self.penalty
        away = _diagonal(X) - centre
        value = on * float(np.einsum("i,i->", away, away))
        value += intercept * float(np.einsum("i,i->", X[-1], X[-1]))
        _diagonal(out)[:] += 2 * on * away
        out[-1] += 2 * intercept * X[-1]
        if off:
            for rows, block in self._off_diagonal(X):
                value += off * float(np.einsum("ij,ij->", block, block))
                block *= 2 * off
                out[rows] += block
        return value

    def value_and_gradient(self, theta: Float64Array) -> tuple[float, Float64Array]:
        """Return the objective and its gradient, in the shape of `theta`."""
        value, gradient = self.nll.value_and_gradient(theta)
        value += self._add_pull(gradient, theta, self.centre)
        return value, self.clear_drift(gradient)

    def hessian_at(self, theta: Float64Array) -> Linear:
        """Return what multiplies an array of the shape of `theta` by the Hessian there."""
        product = self.nll.hessian_at(theta)

        def with_penalty(V: Float64Array) -> Float64Array:
            out = self.clear_drift(product(V))
            self._add_pull(out, V, 0.0)
            return out

        return with_penalty

    def preconditioner(self, theta: Float64Array, thorough: bool) -> Linear:
        """Return an approximate inverse of the Hessian at `theta`, symmetric and positive."""
        on, off, intercept = self.penalty
        short = 2 * np.repeat([[on], [intercept]], theta.shape[1], axis=1)
        if theta.size <= LARGEST_EXACT:
            ridge = np.full_like(theta, 2 * off)
            _diagonal(ridge)[:], ridge[-1] = short
            return _inverse(self.nll.hessian(theta), ridge)
        if not isinstance(self.nll.pattern, Diagonal):
            return self._by_factors(theta, short)
        if thorough and theta.size <= LARGEST_FACTOR:
            return _inverse(self.nll.hessian_of_pairs(theta), short)
        return self._by_class(theta, short)

    def _by_class(self, theta: Float64Array, ridge: Float64Array) -> Linear:
        """Invert the Hessian's blocks of W_kk and b_k."""
        blocks = self.nll.hessian_by_class(theta)
        own = blocks[:, [0, 1], [0, 1]] + ridge.T
        blocks[:, [0, 1], [0, 1]] = own + _lift(own)
        inverses = np.linalg.inv(blocks)
        return lambda R: np.einsum("kab,bk->ak", inverses, R)

    def _by_factors(self, theta: Float64Array, ridge: Float64Array) -> Linear:
        """Invert (features x features) times (classes x classes), plus the diagonal's own part.

        The penalty may hold the rest of W far tighter than its diagonal, so the diagonal and b
        are solved once more by themselves; the sum of both is good in either case.
        """
        features, classes, within = self.nll.factors(theta)
        n_classes = theta.shape[1]
        held = np.full(n_classes + 1, 2 * self.penalty.off_diagonal)
        held[-1] = ridge[1, 0]
        held += _lift(features.diagonal())
        own = within[:, [0, 1], [0, 1]] + ridge.T
        within[:, [0, 1], [0, 1]] = own + _lift(own)
        inverses = np.linalg.inv(within)
        classes /= max(classes.trace(), 1e-300)
        a, A = eigh(classes, overwrite_a=True, check_finite=False)
        root = np.sqrt(held)
        features /= np.multiply.outer(root, root)
        c, C = eigh(features, overwrite_a=True, check_finite=False)
        C /= root[:, None]
        a, c = np.maximum(a, 0.0), np.maximum(c, 0.0)

        def inverse(R: Float64Array) -> Float64Array:
            out = C.T @ R
            out = out @ A
            for rows in row_blocks(*out.shape):
                out[rows] /= np.multiply.outer(c[rows], a) + 1.0
            out = C @ out
            out = out @ A.T
            on, intercept = np.einsum("kab,bk->ak", inverses, np.vstack([_diagonal(R), R[-1]]))
            _diagonal(out)[:] += on
            out[-1] += intercept
            return out

        return inverse


def _diagonal(X: Float64Array) -> Float64Array:
    """Return a view of W's diagonal among its parameters."""
    if X.shape[0] == 2:
        return X[0]
    return X.reshape(-1)[: X.shape[1] ** 2 : X.shape[1] + 1]


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


def minimise(
    problem: PenalisedNLL,
    theta: Float64Array,
    scale: float,
    tol: float,
    max_iter: int,
    verbose: int = 0,
) -> tuple[Float64Array, int, bool]:
    """Newton steps by conjugate gradients, each shortened until the objective falls.

    The gradient has to reach `tol` for logits as given and for logits divided by `scale`.
    Returns the parameters, the number of steps and whether it did.
    """
    per_scale = np.full(theta.shape[0], 1.0 / scale)
    per_scale[-1] = 1.0
    measure = np.maximum(1.0, per_scale)

    def largest(gradient: Float64Array, measure: Float64Array = measure) -> float:
        rows = np.maximum(gradient.max(axis=1), -gradient.min(axis=1))
        return float((measure * rows).max())

    value, gradient = problem.value_and_gradient(theta)
    size = first_size = largest(gradient)
    inverse, products, begin = None, 0, perf_counter()
    for n_iter in range(max_iter):
        if verbose:
            print(  # noqa: T201
                f"Newton step {n_iter}: objective {value:.8g}, largest gradient {size:.2g}, "
                f"{products} products, {perf_counter() - begin:.1f} s",
                flush=True,
            )
        if size <= tol:
            return theta, n_iter, True
        if inverse is None or products > STALE_PRODUCTS:
            inverse = None
            inverse = problem.preconditioner(theta, thorough=products > STALE_PRODUCTS)
        natural_size = largest(gradient, per_scale)
        step, slope, products = _conjugate_gradients(
            problem.hessian_at(theta),
            inverse,
            np.negative(gradient, out=gradient),
            shrink=min(LEAST_SHRINK[theta.size > LARGEST_EXACT], np.sqrt(size / first_size)),
            enough=lambda residual: largest(residual) <= 0.2 * tol,
        )
        del gradient
        # Below the rounding of the value only the gradient can tell whether a step was good.
        blind = slope < 1e-14 * max(1.0, abs(value))
        length = 1.0
        while True:
            new = theta + length * step if length < 1.0 else theta + step
            new_value, gradient = problem.value_and_gradient(new)
            new_size = largest(gradient)
            if (new_size < size) if blind else (new_value <= value - 1e-4 * length * slope):
                break
            del new, gradient
            length /= 2
            if blind or length < 1e-9:
                # Rounding of logits of a large scale; enough if small on their own scale.
                return theta, n_iter, natural_size <= tol
        theta, value, size = new, new_value, new_size
        del step, new
    return theta, max_iter, size <= tol


def _add_scaled(out: Float64Array, factor: float, X: Float64Array) -> None:
    """Add ``factor * X`` to `out`, without an array of their size between."""
    for rows in row_blocks(*X.shape):
        out[rows] += factor * X[rows]


def _conjugate_gradients(
    product: Linear,
    inverse: Linear,
    residual: Float64Array,
    shrink: float,
    enough: Callable[[Float64Array], bool],
) -> tuple[Float64Array, float, int]:
    """Solve ``product(step) = target`` roughly; `residual` is the target and gets overwritten.

    Ends where the residual has shrunk by the factor `shrink` in the norm of `inverse`, or is
    `enough`. Returns the step, its scalar product with the target, and the number of products.
    """
    step = np.zeros_like(residual)
    direction = inverse(residual)
    first = along = _scalar(residual, direction)
    gain = 0.0
    for products in range(1, MAX_PRODUCTS + 1):
        curved = product(direction)
        curvature = _scalar(direction, curved)
        if curvature <= 0.0:
            return (step, gain, products) if products > 1 else (direction, first, products)
        length = along / curvature
        gain += length * along
        _add_scaled(step, length, direction)
        _add_scaled(residual, -length, curved)
        del curved
        if enough(residual):
            break
        turned = inverse(residual)
        before, along = along, _scalar(residual, turned)
        if along <= shrink * shrink * first:
            break
        direction *= along / before
        direction += turned
        del turned
    return step, gain, products


def _scalar(X: Float64Array, Y: Float64Array) -> float:
    return float(np.einsum("ij,ij->", X, Y))
