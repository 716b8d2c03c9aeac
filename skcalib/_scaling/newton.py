r"""Newton's method for a penalised affine NLL, of six parameters or of a million.

.. math:: \mathrm{NLL}(W, b) + \lambda_d \sum_i (W_{ii} - c)^2
          + \lambda_o \sum_{i \ne j} W_{ij}^2 + \mu \sum_i b_i^2 .

Where memory allows, quasi-Newton steps about the preconditioner go first: each takes one gradient.
Each of Newton's is solved by preconditioned conjugate gradients on products with the Hessian, which
is never made where it would be large. Directions need be but roughly right, so those of a large
full W are computed in float32; the objective, its gradient and the parameters never are. So no
more is held at a time than three float64 arrays of the size of the parameters, and blocks.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh
from scipy.linalg.lapack import dpotrf, dpotrs

from skcalib._arrays.blocks import column_blocks, row_blocks
from skcalib._scaling.affine_nll import TALL_BLOCK_BYTES, AffineNLL, Diagonal
from skcalib._scaling.bfgs import Point, descend

Array = NDArray[Any]  # of float64, or of float32 where that is enough
Linear = Callable[[Array], Array]

# Up to this many parameters the Hessian itself is the preconditioner: that of a sample of rows,
# where there are more than this and more than so many for each class.
LARGEST_EXACT = 256
SAMPLE_ROWS, ROWS = 1000, 40
# Logits of a scale further from 1, or their squares, leave the range of float32.
LARGEST_SCALE = 1e15
# Up to this many, quasi-Newton steps go first, whose memory is two arrays of parameters a step.
LARGEST_PAIRS = 1 << 16
# Up to this many, the Hessian in W's diagonal and b is factorised when the blocks within each
# class prove too poor; with its copy it takes 64 MiB.
LARGEST_FACTOR = 2048
# The preconditioner is made anew when conjugate gradients needed more products than this; or as
# many, once it is the factor of pairs, which follows the parameters closely.
STALE_PRODUCTS = 2
MAX_PRODUCTS = 250
# Conjugate gradients end where the residual has shrunk by this factor (the first is for the
# exact preconditioner), or by the root of how much the gradient has since the start.
LEAST_SHRINK = 0.1, 0.5
# They end, too, where what is left of the gradient is this share of the tolerance.
ENOUGH = 0.02, 0.3
# Directions that nothing holds (a common shift of b) get this share of their own curvature, or
# ten roundings of it.
LIFT = 1e-10
# Curvature below this is none: of a class that no row doubts, it may be 1e-312.
NOTHING = {np.dtype(np.float64): 1e-200, np.dtype(np.float32): 1e-32}


class Penalty(NamedTuple):
    """Weights of the squares of W's diagonal (about its start), of the rest of W, and of b."""

    diagonal: float
    off_diagonal: float
    intercept: float


class PenalisedNLL:
    """An affine NLL plus a penalty, with a preconditioner; W's diagonal is drawn to `centre`."""

    def __init__(self, nll: AffineNLL, penalty: Penalty, scale: float) -> None:
        self.nll = nll
        self.penalty = penalty
        self.scale = scale
        on, off, intercept = penalty
        n_rows, n_classes = self.start().shape
        # Rows of the NLL's own gradient that sum to 0.
        self.balanced = np.full(n_rows, n_rows > 2)
        self.balanced[-1] = True
        # Rows of `theta` (b, columns of a full W) where adding a constant changes nothing.
        self.loose = np.full(n_rows, n_rows > 2 and on == off == 0.0)
        self.loose[-1] = intercept == 0.0
        large = n_rows > 2 and n_rows * n_classes > LARGEST_EXACT
        # Whether there is a thorough preconditioner, for use when another has proved too poor.
        self.by_pairs = n_rows == 2 and LARGEST_EXACT < n_rows * n_classes <= LARGEST_FACTOR
        # Of directions.
        usual = 1 / LARGEST_SCALE < scale < LARGEST_SCALE
        self.dtype = np.float32 if large and usual else np.float64

    def start(self) -> Array:
        """Return the parameters of W = I / scale, b = 0."""
        return self.nll.pattern.identity(self.nll.scores.shape[1]) / self.scale

    def project(self, theta: Array) -> Array:
        """Take from `theta` what changes nothing; returns it."""
        return _centre(theta, self.loose)

    def _add_pull(self, out: Array, X: Array, centre: float) -> float:
        """Add the gradient of the penalty at `X` to `out`; return the penalty."""
        on, off, intercept = self.penalty
        value = _add_square(_diagonal(out), on, _diagonal(X) - centre)
        value += _add_square(out[-1], intercept, X[-1].copy())
        if off and X.shape[0] > 2:
            for rows in row_blocks(X.shape[0] - 1, X.shape[1]):
                # Without the diagonal, beside which the rest may be lost in rounding.
                block = X[rows].copy()
                np.einsum("ii->i", block[:, rows])[:] = 0.0
                value += _add_square(out[rows], off, block)
        return value

    def value_and_gradient(self, theta: Array) -> tuple[float, Array]:
        """Return the objective and its gradient, in the shape of `theta`."""
        value, gradient = self.nll.value_and_gradient(theta)
        _centre(gradient, self.balanced)
        value += self._add_pull(gradient, theta, 1.0 / self.scale)
        return value, gradient

    def hessian_at(self, theta: Array) -> Linear:
        """Return what multiplies an array of the shape of `theta` by the Hessian there."""
        product = self.nll.hessian_at(theta)

        def with_penalty(V: Array) -> Array:
            out = _centre(product(V), self.balanced)
            self._add_pull(out, V, 0.0)
            return out

        return with_penalty

    def preconditioner(self, theta: Array, thorough: bool) -> Linear:
        """Return an approximate inverse of the Hessian at `theta`, symmetric and positive."""
        on, off, intercept = self.penalty
        short = 2 * np.repeat([[on], [intercept]], theta.shape[1], axis=1)
        if theta.size <= LARGEST_EXACT:
            ridge = np.full_like(theta, 2 * off)
            _diagonal(ridge)[:], ridge[-1] = short
            every = max(1, self.nll.share.size // max(SAMPLE_ROWS, ROWS * theta.shape[1]))
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
        """Invert (features x features) times (classes x classes), plus the diagonal's own part.

        The latter is taken for ``diag(d) - d d'``, `d` the share of each class in all doubt. The
        penalty may hold the rest of W far tighter than its diagonal, so the diagonal and b are
        solved once more by themselves; the sum of both is good in either case.
        """
        features, within = self.nll.factors(theta)
        n_classes = theta.shape[1]
        d = within[:, 1, 1] / max(within[:, 1, 1].sum(), 1e-300)
        held = np.full(features.shape[0], 2 * self.penalty.off_diagonal)
        held[-1] = ridge[1, 0]
        held += _lift(features.diagonal())
        own = within[:, [0, 1], [0, 1]] + ridge.T
        within[:, [0, 1], [0, 1]] = own + _lift(own)
        inverses = np.linalg.inv(within)
        root = np.sqrt(held).astype(features.dtype)
        features /= root
        features /= root[:, None]
        # Transposed as LAPACK wants it, so that nothing is copied.
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
    """Clear the rounding of rows that sum to 0, which a preconditioner would blow up."""
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
    """Return what makes a Hessian with this diagonal positive, changing it as good as nothing."""
    return np.where(own > NOTHING[own.dtype], max(LIFT, 10 * np.finfo(own.dtype).eps) * own, 1.0)


def _inverse(H: Array, ridge: Array) -> Linear:
    """Return the inverse of ``H + diag(ridge)``; overwrites `H`."""
    diagonal = np.einsum("ii->i", H)
    diagonal += ridge.ravel()
    lift = _lift(diagonal)
    while True:
        diagonal += lift
        # Not SciPy's `cho_solve`, whose checks take longer than to solve for a hundred parameters.
        factor, not_positive = dpotrf(H.T, lower=True, clean=False)
        if not not_positive:
            return lambda R: dpotrs(factor, R.ravel(), lower=True)[0].reshape(R.shape)
        lift *= 100


def minimise(
    problem: PenalisedNLL, tol: float, max_iter: int, verbose: int = 0, *, quick: bool = True
) -> tuple[Array, int, bool]:
    """Newton steps by conjugate gradients, each shortened until the objective falls.

    Unless parameters are too many, quasi-Newton steps go first (if `quick`), for as long as they
    are. The gradient has to reach `tol` for logits as given and for logits divided by their scale.
    Returns the parameters, the number of steps and whether it did.
    """
    theta = problem.start()
    per_scale = np.full(theta.shape[0], 1.0 / problem.scale)
    per_scale[-1] = 1.0
    measure = np.maximum(1.0, per_scale)

    def largest(gradient: Array, measure: Array = measure) -> float:
        rows = np.maximum(gradient.max(axis=1), -gradient.min(axis=1))
        return float((measure * rows).max())

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
        natural_size = largest(gradient, per_scale)
        residual = gradient.astype(dtype, copy=False)
        del gradient
        np.negative(residual, out=residual)
        # Until the step is done, theta is held as the sum of both.
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
        # Below the rounding of the value only the gradient can tell whether a step was good.
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
                    # Rounding of logits of a large scale; enough if small on their own scale.
                    if natural_size <= tol or not n_done:
                        return head, n_iter, natural_size <= tol
                    # The quick steps have led to where no step helps (a class without rows).
                    return minimise(problem, tol, max_iter - n_iter, verbose, quick=False)
                solved = False  # float32 has not served
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
    """Add ``factor * X`` to `out`, without an array of their size between."""
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

    `residual` is the target and gets overwritten. Ends where it has shrunk by the factor `shrink`
    in the norm of `inverse`, or is `enough`. Returns the scalar product of the solution with the
    target, the number of products, and whether it ended so.
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
    """Add the gradient of ``weight x'x`` to `out`; return that. Spoils `x`."""
    entries = x.reshape(-1)
    value = weight * float(np.einsum("i,i->", entries, entries))
    x *= 2 * weight
    out += x
    return value


def _scalar(X: Array, Y: Array) -> float:
    return float(np.einsum("ij,ij->i", X, Y).sum(dtype=np.float64))
