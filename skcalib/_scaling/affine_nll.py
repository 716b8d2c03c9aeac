r"""The NLL of softmax(W z + b) for a diagonal or full W, summed over row blocks.

With weights normalised to :math:`\sum_i w_i = 1`, this file computes

.. math:: \mathrm{NLL}(W, b) = -\sum_i w_i \log \mathrm{softmax}(W z_i + b)_{y_i}

its gradient, and approximations of its Hessian. Larger problems are read
in blocks, without an array of the size of the scores.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skcalib._arrays.passes import ONE_BY_ONE, PRODUCTS, PerRow, cached, sum_rows
from skcalib._arrays.source import Source
from skcalib._arrays.tensors import rows_of
from skcalib._arrays.types import Intp, Rows
from skcalib._scores.scores import Scores
from skcalib._scores.softmax import softmax_inplace

Array = NDArray[Any]


def hessian_by_class(Z: Array, Q: Array, share: Array) -> Array:
    """Return the Hessian of these rows in W_kk and b_k of each class, as `_second_moments`."""
    V = 1.0 - Q
    V *= Q
    return _second_moments(Z, V, share)


def _second_moments(Z: Array, V: Array, share: Array) -> Array:
    """Return the sums of ``share V`` times z z, z and 1, ``(3, K)``; overwrites `V`."""
    r = rows_of(Z)
    one = r.weighted_columns(share, V)
    V *= Z
    z = r.weighted_columns(share, V)
    V *= Z
    return r.vector([r.weighted_columns(share, V), z, one])


def as_blocks(moments: Array) -> Array:
    """Return `_second_moments` as a matrix for each class, ``(K, 2, 2)``."""
    return moments[[0, 1, 1, 2]].T.reshape(-1, 2, 2)


def quiet_overflow() -> np.errstate:
    """Silence overflow warnings; callers treat an inf or NaN objective as a rejected step."""
    return np.errstate(over="ignore", invalid="ignore")


def with_ones(Z: Array) -> Array:
    """Return ``(Z, 1)``, transposed, a new array."""
    F = rows_of(Z).joined([Z.T, Z.T[:1]])
    F[-1] = 1.0
    return F


class Diagonal:
    """W = diag(c); ``theta (2, K)`` is c and b."""

    # Up to this many classes, blocks are computed in threads; with more, blocks are computed one by
    # one and their matrix products use BLAS threads.
    most_threaded: float = np.inf

    def identity(self, n_classes: int) -> Array:
        """Return the parameters of W = I, b = 0."""
        return np.vstack([np.ones(n_classes), np.zeros(n_classes)])

    def apply(self, Z: Array, theta: Array) -> Array:
        """Return ``c Z + b``, ``(n, K)``."""
        L = Z * theta[0]
        L += theta[1]
        return L

    def adjoint(self, Z: Array, R: Array, v: Array) -> Array:
        """Return the sums over rows of ``v R Z`` and of ``v R``; overwrites `R`."""
        r = rows_of(Z)
        intercept = r.weighted_columns(v, R)
        R *= Z
        return r.vector([r.weighted_columns(v, R), intercept])

    def hessian(self, Z: Array, Q: Array, share: Array) -> Array:
        """Return the Hessian of these rows, ``(2 K, 2 K)``."""
        root, k = Q.T * share**0.5, range(Z.shape[1])
        M = rows_of(Z).joined([root * Z.T, root])
        H = -(M @ M.T)
        H.reshape(2, len(k), 2, len(k))[:, k, :, k] += as_blocks(_second_moments(Z, Q, share))
        return H


class Full:
    """Full W; ``theta (K + 1, K)`` is W transposed, then b, so that logits are ``(Z, 1) theta``."""

    # Up to here, the gradient that each block returns is not larger than the block.
    most_threaded: float = 400

    def identity(self, n_classes: int) -> Array:
        """Return the parameters of W = I, b = 0."""
        return np.eye(n_classes + 1, n_classes)

    def apply(self, Z: Array, theta: Array) -> Array:
        """Return ``Z W' + b``, ``(n, K)``."""
        L = rows_of(Z).times_matrix(Z, theta[:-1])
        L += theta[-1]
        return L

    def adjoint(self, Z: Array, R: Array, v: Array) -> Array:
        """Return ``Z' v R`` and the sum over rows of ``v R``; overwrites `R`."""
        r = rows_of(Z)
        r.times_rows_(R, v)
        return r.joined([Z.T @ R, R.sum(0)[None]])

    def hessian(self, Z: Array, Q: Array, share: Array) -> Array:
        """Return the Hessian of these rows, ``(K (K + 1), K (K + 1))``."""
        (n, K), k = Z.shape, range(Z.shape[1])
        F = with_ones(Z)
        F *= share**0.5
        M = (F[:, None] * Q.T).reshape(-1, n)
        H = -(M @ M.T)
        own = (M @ F.T).reshape(K + 1, K, K + 1)
        H.reshape(K + 1, K, K + 1, K)[:, k, :, k] += own.swapaxes(0, 1)
        return H


# Which entries of W are free.
Pattern = Diagonal | Full


def probabilities(Z: Array, theta: Array, pattern: Pattern) -> Array:
    """Return softmax(W z + b) of a block of logits."""
    return softmax_inplace(pattern.apply(Z, theta))


def exact_hessian(Z: Array, share: Array, theta: Array, pattern: Pattern, every: int) -> Array:
    """Return the Hessian of one row in `every` of a block, ``(p, p)``."""
    Z, share = Z[::every], every * share[::every]
    return pattern.hessian(Z, probabilities(Z, theta, pattern), share)


def factors_of_block(
    Z: Array, share: Array, theta: Array, pattern: Pattern, single: bool
) -> tuple[Array, Array]:
    """Return the two factors of `AffineNLL.factors` of a block; in float32 if `single`."""
    r, F = rows_of(Z), with_ones(Z)
    if single:
        Z, share, theta, F = (r.single(x) for x in (Z, share, theta, F))
    Q = probabilities(Z, theta, pattern)
    F *= (share * (1.0 - r.row_dots(Q, Q))) ** 0.5
    return r.double(F @ F.T), hessian_by_class(Z, Q, share)


def blockwise_hessian(Z: Array, share: Array, theta: Array, pattern: Pattern) -> Array:
    """Return `hessian_by_class` at `theta`."""
    return hessian_by_class(Z, probabilities(Z, theta, pattern), share)


def value_and_gradient_of_block(
    Z: Array,
    share: Array,
    code: Intp,
    theta: Array,
    pattern: Pattern,
    max_abs_logit: float,
    single: bool,
) -> tuple[float, Array]:
    """Return the NLL of a block and its gradient; if `single`, entries are computed in float32."""
    r = rows_of(Z)
    if single:
        Z, theta = r.single(Z), r.single(theta)
    Q = pattern.apply(Z, theta)
    true = r.at(Q, code)
    shift, total = r.exponentiate(Q, max_abs_logit)
    r.add_at_(Q, code, -total)
    value = r.weighted_sum(share, r.log(total) + shift - true)
    return value, pattern.adjoint(Z, Q, share / total)


def exceptions_of_block(
    Z: Array, share: Array, code: Intp, theta: Array, pattern: Pattern
) -> float:
    """Return the weight of the rows of a block whose true class has not the largest logit."""
    r = rows_of(Z)
    L = pattern.apply(Z, theta)
    true = r.at(L, code)
    r.add_at_(L, code, 0.0 * true - np.inf)
    return r.weighted_sum(share, ~(r.row_max(L) < true))


def quietly(kernel: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a kernel without overflow warnings, which are set for each thread."""
    with quiet_overflow():
        return kernel(*args, **kwargs)


def scaled_logits(logits: Source, unit: float, rows: Rows) -> Array:
    """Return rows of logits, divided by a power of two."""
    Z = logits.read(rows)
    Z /= unit
    return Z


class AffineNLL:
    """Mean NLL of ``softmax(W z + b)`` for a pattern of W; convex.

    Parameters
    ----------
    scores : Scores of shape (n, K)
    code : ndarray of shape (n,)
    w : ndarray of shape (n,)
        Positive weights.
    pattern : Pattern
    unit : float, default=1
        Logits are divided by this power of two.
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
        self.source = cached(logits.computed(partial(scaled_logits, logits, unit)))

    def _sum(
        self, kernel: Callable[..., Any], theta: Array, *per_row: PerRow, **keywords: Any
    ) -> Any:
        """Return the sum of what a kernel returns for tall blocks."""
        # The exact Hessian takes p numbers for each row.
        threaded = self.threaded and kernel is not exact_hessian
        work, theta = PRODUCTS if threaded else ONE_BY_ONE, self.source.constant(theta)
        kernel = partial(quietly, kernel, theta=theta, pattern=self.pattern, **keywords)
        return sum_rows(kernel, self.source, self.share, *per_row, work=work)

    def hessian(self, theta: Array, every: int = 1) -> Array:
        """Return the Hessian at `theta`, ``(p, p)``, estimated from one row in `every`."""
        return self._sum(exact_hessian, theta, every=every)

    def factors(self, theta: Array, single: bool) -> tuple[Array, Array]:
        """Return two factors of an approximate Hessian of a full W; by float32 if `single`.

        The first is over features, ``(K + 1, K + 1)``; the second is `hessian_by_class`.
        """
        features, moments = self._sum(factors_of_block, theta, single=single)
        return features, as_blocks(moments)

    def hessian_by_class(self, theta: Array) -> Array:
        """Return the blocks of the Hessian at `theta` in W_kk and b_k, ``(K, 2, 2)``."""
        return as_blocks(self._sum(blockwise_hessian, theta))

    def value_and_gradient(self, theta: Array, single: bool = False) -> tuple[float, Array]:
        """Return the mean NLL and its gradient, in the shape of `theta`; by float32 if `single`."""
        # With a bound, no block is searched for its largest logit.
        bound = np.abs(theta[:-1]).sum(axis=0).max() * self.max_abs_logit + np.abs(theta[-1]).max()
        kernel = value_and_gradient_of_block
        return self._sum(kernel, theta, self.code, max_abs_logit=float(bound), single=single)

    def exceptions(self, theta: Array) -> float:
        """Return the weight of the rows whose true class has not the largest logit.

        If there is none, scaling up theta helps.
        """
        return float(self._sum(exceptions_of_block, theta, self.code))
