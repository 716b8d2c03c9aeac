"""Fit of softmax(W z + b) by minimising a penalised log loss."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh
from scipy.linalg.lapack import dpotrf, dpotrs
from sklearn.exceptions import ConvergenceWarning

from skcalib._arrays.rowwise import TALL_BLOCK_BYTES, Float64Array, Intp, column_blocks, row_blocks
from skcalib._arrays.sources import (
    ONE_BY_ONE,
    PRODUCTS,
    PerRow,
    cached,
    merge_rows,
    one_blas_thread,
    sum_rows,
)
from skcalib._arrays.tensors import ops_for
from skcalib._scaling.optimise import Linear, minimise
from skcalib._scaling.temperature import _AT_BOUND, LEAST_GAP, find_temperature
from skcalib._scores.scores import Scores, softmax_inplace

# The log loss (NLL) of softmax(W z + b) with a diagonal or full matrix W, summed over blocks of
# rows.
#
# With weights normalised to :math:`\sum_i w_i = 1`, this file computes
#
# .. math:: \mathrm{NLL}(W, b) = -\sum_i w_i \log \mathrm{softmax}(W z_i + b)_{y_i}
#
# its gradient, and approximations of its Hessian. Large problems are read in blocks, without an
# array of the size of the scores.


Array = NDArray[Any]


def hessian_by_class(Z: Array, Q: Array, share: Array) -> Array:
    """Return sums over rows for the Hessian in scale W_kk and offset b_k of each class k."""
    V = 1.0 - Q
    V *= Q
    return _second_moments(Z, V, share)


def _second_moments(Z: Array, V: Array, share: Array) -> Array:
    """Return weighted sums ``(3, K)`` of V z z, V z and V over rows of logits z; overwrites `V`."""
    r = ops_for(Z)
    one = r.weighted_columns(share, V)
    V *= Z
    z = r.weighted_columns(share, V)
    V *= Z
    return r.vector([r.weighted_columns(share, V), z, one])


def as_blocks(moments: Array) -> Array:
    """Arrange sums as 2 x 2 Hessians in scale W_kk and offset b_k of each class, ``(K, 2, 2)``."""
    return moments[[0, 1, 1, 2]].T.reshape(-1, 2, 2)


def quiet_overflow() -> np.errstate:
    """Silence overflow warnings; a step to an objective of inf or NaN is rejected anyway."""
    return np.errstate(over="ignore", invalid="ignore")


def with_ones(Z: Array) -> Array:
    """Return a copy of the logits with a column of ones, transposed."""
    F = ops_for(Z).concatenate([Z.T, Z.T[:1]])
    F[-1] = 1.0
    return F


class Diagonal:
    """A diagonal matrix W = diag(c) with offsets b, as parameters ``theta (2, K)``."""

    # Up to this number of classes, blocks are computed in parallel threads. With more classes,
    # blocks are computed one after the other, and BLAS uses the threads for matrix products.
    most_threaded: float = np.inf

    def identity(self, n_classes: int) -> Array:
        """Return the parameters theta of the identity: W = I and b = 0."""
        return np.vstack([np.ones(n_classes), np.zeros(n_classes)])

    def apply(self, Z: Array, theta: Array) -> Array:
        """Return the calibrated logits ``c Z + b`` of a block, ``(n, K)``."""
        L = Z * theta[0]
        L += theta[1]
        return L

    def adjoint(self, Z: Array, R: Array, v: Array) -> Array:
        """Return the gradient in theta from residuals R and row weights v; overwrites `R`."""
        r = ops_for(Z)
        intercept = r.weighted_columns(v, R)
        R *= Z
        return r.vector([r.weighted_columns(v, R), intercept])

    def hessian(self, Z: Array, Q: Array, share: Array) -> Array:
        """Return the Hessian ``(2 K, 2 K)`` of the log loss of a block of rows."""
        root, k = Q.T * share**0.5, range(Z.shape[1])
        M = ops_for(Z).concatenate([root * Z.T, root])
        H = -(M @ M.T)
        H.reshape(2, len(k), 2, len(k))[:, k, :, k] += as_blocks(_second_moments(Z, Q, share))
        return H


class Full:
    """A full matrix W with offsets b, as parameters ``theta (K + 1, K)``: W transposed, then b."""

    # Up to this number of classes, the gradient is not larger than a block of rows.
    most_threaded: float = 400

    def identity(self, n_classes: int) -> Array:
        """Return the parameters theta of the identity: W = I and b = 0."""
        return np.eye(n_classes + 1, n_classes)

    def apply(self, Z: Array, theta: Array) -> Array:
        """Return the calibrated logits ``Z W' + b`` of a block, ``(n, K)``."""
        L = ops_for(Z).times_matrix(Z, theta[:-1])
        L += theta[-1]
        return L

    def adjoint(self, Z: Array, R: Array, v: Array) -> Array:
        """Return the gradient in theta from residuals R and row weights v; overwrites `R`."""
        r = ops_for(Z)
        r.times_rows_(R, v)
        return r.concatenate([Z.T @ R, R.sum(0)[None]])

    def hessian(self, Z: Array, Q: Array, share: Array) -> Array:
        """Return the Hessian ``(K (K + 1), K (K + 1))`` of the log loss of a block of rows."""
        (n, K), k = Z.shape, range(Z.shape[1])
        F = with_ones(Z)
        F *= share**0.5
        M = (F[:, None] * Q.T).reshape(-1, n)
        H = -(M @ M.T)
        own = (M @ F.T).reshape(K + 1, K, K + 1)
        H.reshape(K + 1, K, K + 1, K)[:, k, :, k] += own.swapaxes(0, 1)
        return H


# Form of the matrix W: diagonal or full.
Pattern = Diagonal | Full


class AffineNLL:
    """Mean log loss of ``softmax(W z + b)`` as a convex function of the matrix W and the offsets b.

    Parameters
    ----------
    scores : Scores of shape (n, K)
    code : ndarray of shape (n,)
    w : ndarray of shape (n,)
        Positive weights.
    pattern : Pattern
    unit : float, default=1
        Power of two by which the logits are divided.
    """

    def __init__(
        self, scores: Scores, code: Intp, w: Array, pattern: Pattern, unit: float = 1.0
    ) -> None:
        self.max_abs_logit = scores.max_abs_logit / unit
        self.code = code
        self.share = w / w.sum()
        self.pattern = pattern
        self.threaded = scores.shape[1] <= pattern.most_threaded
        logits = scores.float64_logits()

        def scaled(rows: Any) -> Array:
            Z = logits.read(rows)
            Z /= unit
            return Z

        self.source = cached(logits.computed(scaled))

    def _sum(self, kernel: Callable[..., Any], *per_row: PerRow, threaded: bool = True) -> Any:
        """Sum the results of ``kernel(Z, share, *parts)`` over blocks of many rows."""
        work = PRODUCTS if threaded and self.threaded else ONE_BY_ONE

        def quietly(*parts: Any) -> Any:
            with quiet_overflow():  # NumPy stores its error handling for each thread
                return kernel(*parts)

        return sum_rows(quietly, self.source, self.share, *per_row, work=work)

    def hessian(self, theta: Array, every: int = 1) -> Array:
        """Return the Hessian ``(p, p)`` of the log loss at `theta`; read each `every`-th row."""
        pattern, theta = self.pattern, self.source.to_device(theta)

        def kernel(Z: Array, share: Array) -> Array:
            Z, share = Z[::every], every * share[::every]
            return pattern.hessian(Z, softmax_inplace(pattern.apply(Z, theta)), share)

        # Blocks are computed one after the other, because the exact Hessian needs p numbers for
        # each row.
        return self._sum(kernel, threaded=False)

    def factors(self, theta: Array, single: bool) -> tuple[Array, Array]:
        """Return the two factors of a Kronecker approximation of the Hessian for a full matrix W.

        The first factor is over features, ``(K + 1, K + 1)``; the second is `hessian_by_class`. If
        `single`, they are computed in float32.
        """
        pattern, theta = self.pattern, self.source.to_device(theta)

        def kernel(Z: Array, share: Array) -> tuple[Array, Array]:
            r, F, at = ops_for(Z), with_ones(Z), theta
            if single:
                Z, share, at, F = (r.single(x) for x in (Z, share, at, F))
            Q = softmax_inplace(pattern.apply(Z, at))
            F *= (share * (1.0 - r.row_dots(Q, Q))) ** 0.5
            return r.double(F @ F.T), hessian_by_class(Z, Q, share)

        features, moments = self._sum(kernel)
        return features, as_blocks(moments)

    def hessian_by_class(self, theta: Array) -> Array:
        """Return the Hessian in scale W_kk and offset b_k of each class at `theta`."""
        pattern, theta = self.pattern, self.source.to_device(theta)

        def kernel(Z: Array, share: Array) -> Array:
            return hessian_by_class(Z, softmax_inplace(pattern.apply(Z, theta)), share)

        return as_blocks(self._sum(kernel))

    def value_and_gradient(self, theta: Array, single: bool = False) -> tuple[float, Array]:
        """Return the mean log loss and its gradient in theta; computed in float32 if `single`."""
        # If the logits are known to be bounded, exponentials cannot overflow, so that the largest
        # logit of each row need not be subtracted.
        bound = np.abs(theta[:-1]).sum(axis=0).max() * self.max_abs_logit + np.abs(theta[-1]).max()
        pattern, theta, max_abs_logit = self.pattern, self.source.to_device(theta), float(bound)

        def kernel(Z: Array, share: Array, code: Intp) -> tuple[float, Array]:
            r = ops_for(Z)
            Z, at = (r.single(Z), r.single(theta)) if single else (Z, theta)
            Q = pattern.apply(Z, at)
            true = r.at(Q, code)
            shift, total = r.exponentiate(Q, max_abs_logit)
            r.add_at_(Q, code, -total)
            value = r.weighted_sum(share, r.log(total) + shift - true)
            return value, pattern.adjoint(Z, Q, share / total)

        return self._sum(kernel, self.code)

    def exceptions(self, theta: Array) -> float:
        """Return the weight of the rows in which the true class does not have the largest logit.

        If it is 0, the loss has no finite minimum, because a multiple of theta is always better.
        """
        pattern, theta = self.pattern, self.source.to_device(theta)

        def kernel(Z: Array, share: Array, code: Intp) -> float:
            r, L = ops_for(Z), pattern.apply(Z, theta)
            true = r.at(L, code)
            r.add_at_(L, code, 0.0 * true - np.inf)
            return r.weighted_sum(share, ~(r.row_max(L) < true))

        return float(self._sum(kernel, self.code))


# The penalised fit of softmax(W z + b) with a diagonal or full matrix W.
#
# .. math:: \mathrm{NLL}(W, b) + \lambda_d \sum_i (W_{ii} - c)^2
#           + \lambda_o \sum_{i \ne j} W_{ij}^2 + \mu \sum_i b_i^2 .
#
# The ridge penalties move the diagonal of W towards c, and all other parameters towards 0.


# For fits without a penalty: if small gaps between the logits of a row are below this fraction of
# the scale of the logits, logits are divided by the size of these gaps instead of their scale.
FAR_SMALLER = 1e-3
# Approximate number of logits from which the size of small gaps is estimated.
SAMPLE = 1 << 14

# With at most this number of parameters (at the start, and after slow steps), the preconditioner is
# the Hessian of a sample of rows. The first sample has at least SAMPLE_ROWS rows, and ROWS rows per
# class.
LARGEST_EXACT = 256, 512
SAMPLE_ROWS, ROWS = 1000, 40
# Curvature below this number is treated as 0. If the probabilities of a class are almost 0 or 1,
# its curvature can be 1e-312.
NOTHING = 1e-200


class Penalty(NamedTuple):
    """Weights of the ridge penalties on the diagonal of W, the rest of W, and the offsets b."""

    diagonal: float
    off_diagonal: float
    intercept: float


class PenalisedNLL:
    """Log loss plus a ridge penalty on W - ``centre * I`` and on b, with a preconditioner."""

    def __init__(
        self, nll: AffineNLL, penalty: Penalty, centre: float, unit: float, scale: float
    ) -> None:
        self.nll, self.penalty, self.centre, self.unit = nll, penalty, centre, unit
        # The gradient must be small both for the original logits and for the scaled logits.
        self.per_scale = unit / scale
        on, off, intercept = penalty
        n_rows = len(self.start())
        # For each row of the gradient of the log loss: do its entries sum to 0?
        self.balanced = np.full(n_rows, n_rows > 2)
        self.balanced[-1] = True
        # For each row of `theta` (the offsets b, or a column of a full W): does the objective
        # ignore the mean of the row?
        self.loose = np.full(n_rows, n_rows > 2 and on == off == 0.0)
        self.loose[-1] = intercept == 0.0

    def largest(self, gradient: Array) -> float:
        """Return the largest entry of a gradient, for the original or for the scaled logits."""
        return _largest(gradient, max(self.unit, self.per_scale))

    def largest_per_scale(self, gradient: Array) -> float:
        """Return the largest entry of a gradient with respect to the scaled logits."""
        return _largest(gradient, self.per_scale)

    def start(self) -> Array:
        """Return the initial parameters theta: W = ``centre * I`` and b = 0."""
        return self.centre * self.nll.pattern.identity(self.nll.source.shape[1])

    def project(self, theta: Array) -> Array:
        """Remove constants that the softmax ignores from `theta`, in place, and return `theta`."""
        return _centre(theta, self.loose)

    def value_and_gradient(self, theta: Array, single: bool = False) -> tuple[float, Array]:
        """Return the penalised log loss and its gradient, in the shape of `theta`."""
        value, gradient = self.nll.value_and_gradient(theta, single)
        _centre(gradient, self.balanced)
        on, off, intercept = self.penalty
        value += _add_square(_diagonal(gradient), on, _diagonal(theta) - self.centre)
        value += _add_square(gradient[-1], intercept, theta[-1].copy())
        if off and len(theta) > 2:
            for rows in row_blocks(len(theta) - 1, theta.shape[1]):
                # The diagonal is set to 0 before squares are summed, because rounding errors of
                # large diagonal entries could exceed the other entries.
                block = theta[rows].copy()
                np.einsum("ii->i", block[:, rows])[:] = 0.0
                value += _add_square(gradient[rows], off, block)
        return value, gradient

    def preconditioner(self, theta: Array, turn: int, lift: float, single: bool) -> Linear:
        """Return a symmetric, positive definite approximation of the inverse Hessian at `theta`.

        With few parameters, the Hessian of a sample of rows is inverted; the sample is four times
        larger in each turn. With more parameters, factors are computed in float32 if `single`.
        """
        on, off, intercept = self.penalty
        short = 2 * np.repeat([[on], [intercept]], theta.shape[1], axis=1)
        if theta.size <= LARGEST_EXACT[turn > 0]:
            ridge = np.full_like(theta, 2 * off)
            _diagonal(ridge)[:], ridge[-1] = short
            sample = 4**turn * max(SAMPLE_ROWS, ROWS * theta.shape[1])
            every = max(1, len(self.nll.share) // sample)
            return _inverse(self.nll.hessian(theta, every), ridge, lift)
        if not isinstance(self.nll.pattern, Diagonal):
            return self._by_factors(self.nll.factors(theta, single), short, lift)
        inverses = _inverses(self.nll.hessian_by_class(theta), short, lift)
        return lambda R: np.einsum("kab,bk->ak", inverses, R)

    def _by_factors(self, factors: tuple[Array, Array], ridge: Array, lift: float) -> Linear:
        """Return the approximate inverse Hessian from Kronecker factors, as a function.

        The first factor is over features. The second, over classes, is ``diag(d) - d d'``, with `d`
        the fraction of the curvature for each class. An inverse for only the diagonal and b is
        added, because the penalty on the rest of W may be much larger than on the diagonal.
        """
        features, within = factors
        n_classes = len(within)
        d = within[:, 1, 1] / max(within[:, 1, 1].sum(), 1e-300)
        off_ridge = np.full(features.shape[0], 2 * self.penalty.off_diagonal)
        off_ridge[-1] = ridge[1, 0]
        off_ridge += _lifted(features.diagonal(), lift)
        inverses = _inverses(within, ridge, lift)
        root = np.sqrt(off_ridge)
        features /= root
        features /= root[:, None]
        # The transpose is in Fortran order, so that LAPACK does not copy it.
        c, C = eigh(features.T, overwrite_a=True, check_finite=False)
        C /= root[:, None]
        c = np.maximum(c, 0.0)

        def inverse(R: Array) -> Array:
            out = C.T @ R
            for rows in row_blocks(*out.shape):
                free = 1.0 / (np.multiply.outer(c[rows], d) + 1.0)
                out[rows] *= free
                free *= d
                total = np.maximum(free.sum(axis=1), np.finfo(float).tiny)
                free *= (c[rows] * np.einsum("ij,j->i", out[rows], d) / total)[:, None]
                out[rows] += free
            for columns in column_blocks(n_classes + 1, n_classes, TALL_BLOCK_BYTES):
                out[:, columns] = C @ out[:, columns]
            on, intercept = np.einsum("kab,bk->ak", inverses, np.vstack([_diagonal(R), R[-1]]))
            _diagonal(out)[:] += on
            out[-1] += intercept
            return self.project(out)

        return inverse


def _largest(gradient: Array, measure: float) -> float:
    rows = np.maximum(gradient.max(axis=1), -gradient.min(axis=1))
    return max(measure * float(rows[:-1].max()), float(rows[-1]))


def _centre(X: Array, where: Array) -> Array:
    """Subtract the means of some rows, whose rounding errors the preconditioner would amplify."""
    if where.any():
        for rows in row_blocks(*X.shape):
            X[rows] -= (where[rows] * np.einsum("ij->i", X[rows]) / X.shape[1])[:, None]
    return X


def _diagonal(X: Array) -> Array:
    """Return a view of the diagonal of the matrix W in an array of parameters."""
    if X.shape[0] == 2:
        return X[0]
    return X.reshape(-1)[: X.shape[1] ** 2 : X.shape[1] + 1]


def _lifted(diagonal: Array, lift: float) -> Array:
    """Return a ridge that makes a Hessian with the given diagonal positive definite."""
    # If all probabilities are almost 0 or 1, a curvature of 1e-11 would allow steps of 1e11.
    usual = 1.0 / len(diagonal)
    return np.where(diagonal > NOTHING, lift * (diagonal + usual), 1.0)


def _inverses(blocks: Array, ridge: Array, lift: float) -> Array:
    """Return the inverse of each matrix in ``blocks (K, 2, 2)`` plus ridge; overwrites `blocks`."""
    own = blocks[:, [0, 1], [0, 1]] + ridge.T
    while True:
        blocks[:, [0, 1], [0, 1]] = own + _lifted(own, lift)
        try:
            return np.linalg.inv(blocks)
        except np.linalg.LinAlgError:  # the matrix is singular if all logits of a class are equal
            lift *= 100


def _inverse(H: Array, ridge: Array, lift: float) -> Linear:
    """Return a function that multiplies by the inverse of a Hessian plus ridge; overwrites `H`."""
    diagonal = np.einsum("ii->i", H)
    diagonal += ridge.ravel()
    more = _lifted(diagonal, lift)
    while True:
        diagonal += more
        # LAPACK is called directly, because the checks in SciPy's `cho_solve` take longer than
        # solving for a hundred parameters.
        factor, not_positive = dpotrf(H.T, lower=True, clean=False)
        if not not_positive:
            return lambda R: dpotrs(factor, R.ravel(), lower=True)[0].reshape(R.shape)
        more *= 100


def _add_square(out: Array, weight: float, x: Array) -> float:
    """Add the gradient of the penalty ``weight x'x`` to `out`, and return the penalty.

    Overwrites `x`.
    """
    entries = x.reshape(-1)
    value = weight * float(np.einsum("i,i->", entries, entries))
    x *= 2 * weight
    out += x
    return value


def small_gap(scores: Scores) -> float:
    """Return the lower quartile of the positive gaps to the largest logit in a row, inf if none.

    Logits of -inf and logits of rows with probabilities of almost 1 have gaps near 30, while other
    gaps may be near 1e-12. Without a penalty, the gradient must also be small in the unit of the
    small gaps.
    """

    def positive_gaps(Z: Float64Array) -> Float64Array:
        gaps = Z.max(axis=1, keepdims=True) - Z
        return gaps[gaps > LEAST_GAP]

    few = scores.subsample(max(1, int(np.prod(scores.shape)) // SAMPLE))
    gaps = np.concatenate(merge_rows(positive_gaps, few.as_logits()))
    return float(np.quantile(gaps, 0.25)) if gaps.size else np.inf


class AffineFit(NamedTuple):
    """Fitted matrix W as ``coef`` (the diagonal, if W is diagonal), and offsets ``intercept``."""

    coef: Float64Array
    intercept: Float64Array
    n_iter: int


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
    verbose: int = 0,
) -> AffineFit:
    """Fit softmax(W z + b) by minimising the penalised mean log loss.

    Parameters
    ----------
    full : bool
        Whether W is a full matrix or diagonal.
    penalty : Penalty
    about_temperature : bool
        Whether the penalty is on W T - I, with T the temperature with the smallest log loss,
        instead of on W.
    tol : float
        The fit ends when no entry of the gradient exceeds this number, both for the original and
        for the scaled logits.
    max_iter : int
        Largest number of steps.
    verbose : int
        Whether to print a line for each step.
    """
    temperature = find_temperature(scores, code, w)
    scale = temperature.value
    message = ""  # all failures of the fit are reported in one warning
    if temperature.bound and about_temperature:
        message = _AT_BOUND[temperature.bound] + " "
    elif temperature.bound:
        scale = temperature.mean_gap
    temper = scale
    if not any(penalty) and (gap := small_gap(scores)) < FAR_SMALLER * scale:
        scale = gap
    # Logits are divided by their scale, so that the fit computes with numbers near 1. Division by a
    # power of two has no rounding errors.
    unit = float(2.0 ** np.rint(np.log2(scale)))
    centre = unit / temper
    square = (centre if about_temperature else unit) ** 2
    penalty = Penalty(penalty.diagonal / square, penalty.off_diagonal / square, penalty.intercept)
    nll = AffineNLL(scores, code, w, Full() if full else Diagonal(), unit)
    problem = PenalisedNLL(nll, penalty, centre, unit, scale)
    exact = problem.start().size <= LARGEST_EXACT[1]
    objectives = [problem.value_and_gradient]
    if not exact:  # float32 is twice as fast as float64
        objectives.insert(0, partial(problem.value_and_gradient, single=True))
    with one_blas_thread() if nll.threaded else nullcontext(), quiet_overflow():
        at, n_iter = minimise(
            objectives,
            problem.preconditioner,
            problem.start(),
            problem.largest,
            tol,
            max_iter,
            _report(verbose),
            exact,
        )
    # If the fit ended before max_iter, the gradient only needs to be small for scaled logits,
    # because unscaled logits may be so large that rounding errors dominate.
    size = problem.largest_per_scale if n_iter < max_iter else problem.largest
    theta, converged = at.theta, size(at.gradient) <= tol
    if not any(penalty) and not nll.exceptions(theta):
        message += (
            "The logits separate the classes without error, so that no finite optimum of "
            "softmax(W z + b) exists: pass penalty='structured', or fit on more held-out rows."
        )
    elif not converged and n_iter < max_iter:
        message += (
            f"The fit of softmax(W z + b) stopped after {n_iter} of at most {max_iter} iterations: "
            "further decreases of the objective are below rounding errors, but the gradient is "
            f"above tol={tol:g}. Raise tol, or pass penalty='structured'."
        )
    elif not converged:
        message += (
            f"The fit of softmax(W z + b) did not converge in max_iter={max_iter} iterations: "
            "raise max_iter, or pass penalty='structured'."
        )
    if message:
        warnings.warn(message.rstrip(), ConvergenceWarning, stacklevel=2)
    # Remove constants that do not change the softmax: centre b, and shift each column of a full W
    # so that it sums to 1.
    problem.project(theta)
    theta[:-1] /= unit
    theta[:-1][problem.loose[:-1]] += 1.0 / scores.shape[1]
    return AffineFit(theta[:-1].T.copy() if full else theta[0], theta[-1], n_iter)


def _report(verbose: int) -> Callable[[int, float, float], None]:
    """Return a function that prints a line for each optimiser step if `verbose` is above 0."""
    begin = perf_counter()

    def report(n_iter: int, value: float, size: float) -> None:
        if verbose:
            print(  # noqa: T201
                f"Iteration {n_iter}: objective {value:.8g}, largest gradient {size:.2g}, "
                f"{perf_counter() - begin:.1f} s",
                flush=True,
            )

    return report
