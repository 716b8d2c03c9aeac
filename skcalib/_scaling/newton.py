r"""Newton's method for a penalised affine NLL with six to a million parameters.

.. math:: \mathrm{NLL}(W, b) + \lambda_d \sum_i (W_{ii} - c)^2
          + \lambda_o \sum_{i \ne j} W_{ij}^2 + \mu \sum_i b_i^2 .

If memory allows, BFGS steps from the preconditioner come first, because each needs one gradient.
Newton's equations are solved by preconditioned conjugate gradients on products with the Hessian; a
large Hessian is not formed. Directions need little precision, so for a large full W they are
computed in float32; the objective, its gradient and the parameters are always float64. Memory is
then three float64 arrays of the size of the parameters, and blocks.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh
from scipy.linalg.lapack import dpotrf, dpotrs

from skcalib._arrays.blocks import TALL_BLOCK_BYTES, column_blocks, row_blocks
from skcalib._scaling.affine_nll import AffineNLL, Diagonal
from skcalib._scaling.bfgs import Point, descend
from skcalib._scaling.remote import SummedAffine

Array = NDArray[Any]  # float64, or float32 for directions of a large W
Linear = Callable[[Array], Array]

# Up to this many parameters, the Hessian is the preconditioner, computed from a sample of at least
# SAMPLE_ROWS rows and ROWS rows per class.
LARGEST_EXACT = 256
SAMPLE_ROWS, ROWS = 1000, 40
# Up to this many parameters, BFGS steps come first; each stores two arrays of parameters.
LARGEST_PAIRS = 1 << 16
# Up to this many parameters of a diagonal W and b, the pairwise Hessian is factorised if the blocks
# within classes are a poor preconditioner; with its copy it takes 64 MiB.
LARGEST_FACTOR = 2048
# Rebuild the preconditioner after a step with more CG products than this (or as many, if it is the
# pairwise Hessian, which depends strongly on the parameters).
STALE_PRODUCTS = 2
MAX_PRODUCTS = 250
# CG ends when the residual has shrunk by this factor (first: with the exact preconditioner), or by
# the square root of the gradient's shrinkage since the start, if that is smaller.
LEAST_SHRINK = 0.1, 0.5
# CG also ends when the residual gradient is below this share of the tolerance.
ENOUGH = 0.02, 0.3
# Relative ridge on the Hessian's diagonal (at least ten roundings), for directions without
# curvature such as a common shift of b.
LIFT = 1e-10
# Treat smaller curvature as 0; a class predicted with certainty can have 1e-312.
NOTHING = {np.dtype(np.float64): 1e-200, np.dtype(np.float32): 1e-32}


class Penalty(NamedTuple):
    """Ridge weights of W's diagonal (about its start), of the rest of W, and of b."""

    diagonal: float
    off_diagonal: float
    intercept: float


class PenalisedNLL:
    """An affine NLL plus a penalty of W about ``centre * I`` and of b, with a preconditioner."""

    def __init__(
        self, nll: AffineNLL | SummedAffine, penalty: Penalty, centre: float, scale: float
    ) -> None:
        self.nll = nll
        self.penalty = penalty
        self.centre = centre
        # The gradient has to be small for logits as given and for logits divided by their scale.
        self.per_scale = nll.unit / scale
        self.measure = max(nll.unit, self.per_scale)
        on, off, intercept = penalty
        n_rows, n_classes = self.start().shape
        # Rows of the NLL's gradient that sum to 0.
        self.balanced = np.full(n_rows, n_rows > 2)
        self.balanced[-1] = True
        # Rows of `theta` (b, columns of a full W) whose mean does not affect the objective.
        self.loose = np.full(n_rows, n_rows > 2 and on == off == 0.0)
        self.loose[-1] = intercept == 0.0
        large = n_rows > 2 and n_rows * n_classes > LARGEST_EXACT
        # Whether the pairwise Hessian can replace a poor preconditioner.
        self.by_pairs = n_rows == 2 and LARGEST_EXACT < n_rows * n_classes <= LARGEST_FACTOR
        # Type of directions.
        self.dtype = np.float32 if large else np.float64

    def start(self) -> Array:
        """Return the parameters of ``W = centre * I``, b = 0."""
        return self.centre * self.nll.pattern.identity(self.nll.n_classes)

    def project(self, theta: Array) -> Array:
        """Remove the shift that softmax ignores from `theta`, in place; return it."""
        return _centre(theta, self.loose)

    def _add_pull(self, out: Array, X: Array, centre: float) -> float:
        """Add the gradient of the penalty at `X` to `out`; return the penalty."""
        on, off, intercept = self.penalty
        value = _add_square(_diagonal(out), on, _diagonal(X) - centre)
        value += _add_square(out[-1], intercept, X[-1].copy())
        if off and X.shape[0] > 2:
            for rows in row_blocks(X.shape[0] - 1, X.shape[1]):
                # Exclude the diagonal, whose rounding could exceed the other entries.
                block = X[rows].copy()
                np.einsum("ii->i", block[:, rows])[:] = 0.0
                value += _add_square(out[rows], off, block)
        return value

    def value_and_gradient(self, theta: Array) -> tuple[float, Array]:
        """Return the objective and its gradient, in the shape of `theta`."""
        value, gradient = self.nll.value_and_gradient(theta)
        _centre(gradient, self.balanced)
        value += self._add_pull(gradient, theta, self.centre)
        return value, gradient

    def hessian_at(self, theta: Array) -> Linear:
        """Return the Hessian at `theta`, as a product with arrays of the shape of `theta`."""
        product = self.nll.hessian_at(theta)

        def with_penalty(V: Array) -> Array:
            out = _centre(product(V), self.balanced)
            self._add_pull(out, V, 0.0)
            return out

        return with_penalty

    def preconditioner(self, theta: Array, thorough: bool) -> Linear:
        """Return an approximate inverse of the Hessian at `theta`, symmetric positive definite."""
        on, off, intercept = self.penalty
        short = 2 * np.repeat([[on], [intercept]], theta.shape[1], axis=1)
        if theta.size <= LARGEST_EXACT:
            ridge = np.full_like(theta, 2 * off)
            _diagonal(ridge)[:], ridge[-1] = short
            every = max(1, self.nll.n_rows // max(SAMPLE_ROWS, ROWS * theta.shape[1]))
            return _inverse(self.nll.hessian(theta, every), ridge)
        if not isinstance(self.nll.pattern, Diagonal):
            return self._by_factors(theta, short)
        if thorough:
            return _inverse(self.nll.hessian_of_pairs(theta), short)
        return self._by_class(theta, short)

    def _by_class(self, theta: Array, ridge: Array) -> Linear:
        """Invert the Hessian's blocks of W_kk and b_k."""
        blocks = self.nll.hessian_by_class(theta)
        own = blocks[:, [0, 1], [0, 1]] + ridge.T
        blocks[:, [0, 1], [0, 1]] = own + _lift(own)
        inverses = np.linalg.inv(blocks)
        return lambda R: np.einsum("kab,bk->ak", inverses, R)

    def _by_factors(self, theta: Array, ridge: Array) -> Linear:
        """Invert a Kronecker product of two factors and add an inverse for the diagonal.

        The first factor is over features. The second, over classes, is ``diag(d) - d d'``, with `d`
        the share of each class in the curvature. The penalty on the rest of W may be far larger
        than on its diagonal, so the inverse for the diagonal and b alone is added.
        """
        features, within = self.nll.factors(theta)
        n_classes = theta.shape[1]
        d = within[:, 1, 1] / max(within[:, 1, 1].sum(), 1e-300)
        off_ridge = np.full(features.shape[0], 2 * self.penalty.off_diagonal)
        off_ridge[-1] = ridge[1, 0]
        off_ridge += _lift(features.diagonal())
        own = within[:, [0, 1], [0, 1]] + ridge.T
        within[:, [0, 1], [0, 1]] = own + _lift(own)
        inverses = np.linalg.inv(within)
        root = np.sqrt(off_ridge).astype(features.dtype)
        features /= root
        features /= root[:, None]
        # The transpose is in Fortran order, so LAPACK does not copy it.
        c, C = eigh(features.T, overwrite_a=True, check_finite=False)
        C /= root[:, None]
        c, d = np.maximum(c, 0.0), d.astype(features.dtype)

        def inverse(R: Array) -> Array:
            out = C.T @ R
            for rows in row_blocks(*out.shape):
                free = 1.0 / (np.multiply.outer(c[rows], d) + 1.0)
                out[rows] *= free
                free *= d
                total = np.maximum(free.sum(axis=1), np.finfo(free.dtype).tiny)
                free *= (c[rows] * np.einsum("ij,j->i", out[rows], d) / total)[:, None]
                out[rows] += free
            for columns in column_blocks(n_classes + 1, n_classes, TALL_BLOCK_BYTES):
                out[:, columns] = C @ out[:, columns]
            on, intercept = np.einsum("kab,bk->ak", inverses, np.vstack([_diagonal(R), R[-1]]))
            _diagonal(out)[:] += on
            out[-1] += intercept
            return self.project(out)

        return inverse


def _centre(X: Array, where: Array) -> Array:
    """Subtract the means of some rows; a preconditioner would amplify their rounding."""
    if where.any():
        for rows in row_blocks(*X.shape):
            X[rows] -= (where[rows] * np.einsum("ij->i", X[rows]) / X.shape[1])[:, None]
    return X


def _diagonal(X: Array) -> Array:
    """Return a view of W's diagonal among its parameters."""
    if X.shape[0] == 2:
        return X[0]
    return X.reshape(-1)[: X.shape[1] ** 2 : X.shape[1] + 1]


def _lift(own: Array) -> Array:
    """Return a ridge that makes a Hessian with this diagonal positive definite."""
    return np.where(own > NOTHING[own.dtype], max(LIFT, 10 * np.finfo(own.dtype).eps) * own, 1.0)


def _inverse(H: Array, ridge: Array) -> Linear:
    """Return the inverse of ``H + diag(ridge)``; overwrites `H`."""
    diagonal = np.einsum("ii->i", H)
    diagonal += ridge.ravel()
    lift = _lift(diagonal)
    while True:
        diagonal += lift
        # The checks of SciPy's `cho_solve` take longer than solving for a hundred parameters.
        factor, not_positive = dpotrf(H.T, lower=True, clean=False)
        if not not_positive:
            return lambda R: dpotrs(factor, R.ravel(), lower=True)[0].reshape(R.shape)
        lift *= 100


def minimise(
    problem: PenalisedNLL, tol: float, max_iter: int, verbose: int = 0, *, quick: bool = True
) -> tuple[Array, int, bool]:
    """Minimise by Newton-CG steps, each halved until the objective falls.

    With `quick`, and unless there are too many parameters, BFGS steps come first while they are
    fast. Returns the parameters, the number of steps, and whether the fit converged.
    """
    theta = problem.start()

    def largest(gradient: Array, measure: float = problem.measure) -> float:
        rows = np.maximum(gradient.max(axis=1), -gradient.min(axis=1))
        return max(measure * float(rows[:-1].max()), float(rows[-1]))

    begin = perf_counter()

    def report(n_iter: int, value: float, size: float, products: int = 0) -> None:
        if verbose:
            print(  # noqa: T201
                f"Step {n_iter}: objective {value:.8g}, largest gradient {size:.2g}, "
                f"{products} products, {perf_counter() - begin:.1f} s",
                flush=True,
            )

    dtype, rough = problem.dtype, theta.size > LARGEST_EXACT
    at, n_done = Point(theta, *problem.value_and_gradient(theta)), 0
    first_size = largest(at.gradient)
    if quick and theta.size <= LARGEST_PAIRS and first_size > tol:
        first_inverse = problem.preconditioner(theta, False)
        at, n_done = descend(
            problem.value_and_gradient, first_inverse, at, largest, tol, max_iter, report
        )
    theta, value, gradient = at
    del at
    size = largest(gradient)
    inverse, products, thorough = None, 0, False
    for n_iter in range(n_done, max_iter):
        report(n_iter, value, size, products)
        if size <= tol:
            return theta, n_iter, True
        natural_size = largest(gradient, problem.per_scale)
        residual = gradient.astype(dtype, copy=False)
        del gradient
        np.negative(residual, out=residual)
        # During the step, theta is the sum of `head` and `step`.
        head = theta.astype(dtype, copy=False)
        step = np.subtract(theta, head, out=np.empty_like(head))
        del theta
        if inverse is None or products > STALE_PRODUCTS - thorough:
            inverse = None
            thorough = problem.by_pairs and (thorough or products > STALE_PRODUCTS)
            inverse = problem.preconditioner(head, thorough)
        slope, products, solved = _conjugate_gradients(
            problem.hessian_at(head),
            inverse,
            residual,
            step,
            shrink=min(LEAST_SHRINK[rough], np.sqrt(size / first_size)),
            enough=lambda residual: largest(residual) <= ENOUGH[rough] * tol,
        )
        del residual
        # If the decrease is below the rounding of the objective, compare gradients instead.
        blind = slope < 1e-14 * max(1.0, abs(value))
        length = 1.0
        theta = np.add(head, step, dtype=np.float64)
        del step
        while True:
            new_value, gradient = problem.value_and_gradient(theta)
            new_size = largest(gradient)
            if (new_size < size) if blind else (new_value <= value - 1e-4 * length * slope):
                break
            del gradient
            length /= 2
            if blind or length < np.sqrt(np.finfo(dtype).eps):
                if dtype == np.float64:
                    # Rounding for logits of a large scale: a small scaled gradient is enough.
                    if natural_size <= tol or not n_done:
                        return head, n_iter, natural_size <= tol
                    # BFGS ended at a point without descent (a class without rows): start again.
                    return minimise(problem, tol, max_iter - n_iter, verbose, quick=False)
                solved = False  # float32 was not precise enough
                theta = head.astype(np.float64)
                new_value, gradient = problem.value_and_gradient(theta)
                new_size = largest(gradient)
                break
            theta -= head
            theta *= 0.5
            theta += head
        value, size = new_value, new_size
        if not solved and dtype == np.float32:
            dtype, inverse = np.float64, None
    return theta, max_iter, size <= tol


def _add_scaled(out: Array, factor: float, X: Array) -> None:
    """Add ``factor * X`` to `out`, in blocks to save memory."""
    for rows in row_blocks(*X.shape):
        out[rows] += factor * X[rows]


def _conjugate_gradients(
    product: Linear,
    inverse: Linear,
    residual: Array,
    step: Array,
    shrink: float,
    enough: Callable[[Array], bool],
) -> tuple[float, int, bool]:
    """Add to `step` a rough solution of ``product(x) = target``.

    `residual` is the target and is overwritten. CG converges when the residual has shrunk by the
    factor `shrink` in the norm of `inverse`, or is `enough`. Returns the scalar product of the
    solution and the target, the number of products, and whether CG converged.
    """
    direction = inverse(residual)
    first = along = _scalar(residual, direction)
    gain = 0.0
    for products in range(1, MAX_PRODUCTS + 1):
        curved = product(direction)
        curvature = _scalar(direction, curved)
        if not curvature > 0.0:
            if products > 1:
                return gain, products, False
            step += direction
            return first, products, False
        length = along / curvature
        gain += length * along
        _add_scaled(step, length, direction)
        _add_scaled(residual, -length, curved)
        del curved
        if enough(residual):
            return gain, products, True
        turned = inverse(residual)
        before, along = along, _scalar(residual, turned)
        if along <= shrink * shrink * first:
            return gain, products, True
        direction *= along / before
        direction += turned
        del turned
    return gain, products, False


def _add_square(out: Array, weight: float, x: Array) -> float:
    """Add the gradient of ``weight x'x`` to `out`; return its value. Overwrites `x`."""
    entries = x.reshape(-1)
    value = weight * float(np.einsum("i,i->", entries, entries))
    x *= 2 * weight
    out += x
    return value


def _scalar(X: Array, Y: Array) -> float:
    return float(np.einsum("ij,ij->i", X, Y).sum(dtype=np.float64))
