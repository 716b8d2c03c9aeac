r"""The Hessian of a fit, A = H + diag(alpha), as a Gaussian posterior has it.

Each form of A gives its inverse's diagonal, its log determinant, and whitened coordinates v, in
which A is the identity: with :math:`A = L L'`, a step of theta is :math:`L'^{-1} v`, and a gradient
g becomes :math:`L^{-1} g`.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cholesky, solve_triangular
from scipy.linalg.lapack import dtrtri

from skcalib._arrays.types import Float64Array

# Relative ridge on the Hessian's diagonal, against rounding.
LIFT = 1e-12


class Posterior(Protocol):
    """``A = H + diag(alpha)``: its inverse, its determinant and whitened coordinates."""

    inverse_diagonal: Float64Array
    log_det: float

    def step(self, v: Float64Array) -> Float64Array:
        """Return the step of theta for the whitened step `v`."""

    def whiten(self, gradient: Float64Array) -> Float64Array:
        """Return a gradient with respect to theta in whitened coordinates."""


class Hessian(Protocol):
    """The Hessian of a loss, in full or in part."""

    def posterior(self, alpha: Float64Array) -> Posterior:
        """Return the posterior for ridges of strength ``alpha / 2``, ``(p,)``, positive."""


class Diagonal:
    """The diagonal of a Hessian."""

    def __init__(self, h: Float64Array) -> None:
        self.h = h

    def __add__(self, other: Diagonal) -> Diagonal:
        """Add the Hessian of other rows."""
        return Diagonal(self.h + other.h)

    def posterior(self, alpha: Float64Array) -> Posterior:
        """Return the posterior for ridges of strength ``alpha / 2``."""
        return _DiagonalPosterior(self.h + alpha)


class _DiagonalPosterior:
    def __init__(self, A: Float64Array) -> None:
        self.root = 1.0 / np.sqrt(A)
        self.inverse_diagonal = 1.0 / A
        self.log_det = float(np.log(A).sum())

    def step(self, v: Float64Array) -> Float64Array:
        return self.root * v

    def whiten(self, gradient: Float64Array) -> Float64Array:
        return self.root * gradient


class Full:
    """A whole Hessian, ``(p, p)``."""

    def __init__(self, H: Float64Array) -> None:
        self.H = H

    def __add__(self, other: Full) -> Full:
        """Add the Hessian of other rows."""
        return Full(self.H + other.H)

    def posterior(self, alpha: Float64Array) -> Posterior:
        """Return the posterior for ridges of strength ``alpha / 2``."""
        return _FullPosterior(self.H, alpha)


class _FullPosterior:
    def __init__(self, H: Float64Array, alpha: Float64Array) -> None:
        A = H.copy()
        diagonal = np.einsum("ii->i", A)
        diagonal += LIFT * diagonal + alpha
        L = cholesky(A, lower=True, check_finite=False, overwrite_a=True)
        self.log_det = 2.0 * float(np.log(L.diagonal()).sum())
        self.root, _ = dtrtri(L, lower=1, overwrite_c=1)
        self.inverse_diagonal = np.einsum("ij,ij->j", self.root, self.root)

    def step(self, v: Float64Array) -> Float64Array:
        return self.root.T @ v

    def whiten(self, gradient: Float64Array) -> Float64Array:
        return self.root @ gradient


class Bounded:
    """A whole Hessian in parameters with lower bounds; those at their bound are not determined."""

    def __init__(self, H: Float64Array, free: NDArray[np.bool_]) -> None:
        self.H, self.free = H, free

    def __add__(self, other: Bounded) -> Bounded:
        """Add the Hessian of other rows, at the same parameters."""
        return Bounded(self.H + other.H, self.free)

    def posterior(self, alpha: Float64Array) -> _BoundedPosterior:
        """Return the posterior for ridges of strength ``alpha / 2``."""
        return _BoundedPosterior(self, alpha)


class _BoundedPosterior(_DiagonalPosterior):
    """Steps along single parameters, which keep their bounds; the inverse of the free ones."""

    def __init__(self, H: Bounded, alpha: Float64Array) -> None:
        super().__init__(H.H.diagonal() + alpha)
        free = _FullPosterior(np.where(H.free & H.free[:, None], H.H, 0.0), alpha)
        self.inverse_diagonal, self.log_det = free.inverse_diagonal, free.log_det


class ByClass(NamedTuple):
    """A Hessian without the products of different classes' own parameters.

    ``shared (m, m)``, ``between (K, m, d)`` and ``own (K, d, d)``; theta is m shared parameters,
    and then d rows of K.
    """

    shared: Float64Array
    between: Float64Array
    own: Float64Array

    def posterior(self, alpha: Float64Array) -> Posterior:
        """Return the posterior for ridges of strength ``alpha / 2``."""
        return _ByClassPosterior(self, alpha)


class _ByClassPosterior:
    """A's Cholesky factor, with the shared parameters last: blocks of classes, and a border."""

    def __init__(self, H: ByClass, alpha: Float64Array) -> None:
        m, (K, d, _) = len(H.shared), H.own.shape
        self.n_shared, self.n_classes = m, K
        own = H.own.copy()
        diagonal = np.einsum("kdd->kd", own)
        diagonal += LIFT * diagonal + alpha[m:].reshape(d, K).T
        L = np.linalg.cholesky(own)
        self.root = np.linalg.inv(L)
        # Rows of the factor that belong to the shared parameters.
        self.border = H.between @ self.root.transpose(0, 2, 1)
        shared = H.shared - np.einsum("kmd,kld->ml", self.border, self.border)
        shared[np.diag_indices(m)] += LIFT * H.shared.diagonal() + alpha[:m]
        L_shared = cholesky(shared, lower=True)
        self.shared_root = solve_triangular(L_shared, np.eye(m), lower=True)
        logs = np.log(np.einsum("kdd->kd", L)).sum() + np.log(L_shared.diagonal()).sum()
        self.log_det = 2.0 * float(logs)
        of_shared = np.einsum("ij,ij->j", self.shared_root, self.shared_root)
        through = self.shared_root @ self.border @ self.root
        of_own = np.einsum("kij,kij->kj", self.root, self.root)
        of_own += np.einsum("kij,kij->kj", through, through)
        self.inverse_diagonal = np.concatenate([of_shared, of_own.T.ravel()])

    def step(self, v: Float64Array) -> Float64Array:
        m = self.n_shared
        shared = self.shared_root.T @ v[:m]
        rest = v[m:].reshape(-1, self.n_classes).T - shared @ self.border
        own = np.matmul(rest[:, None], self.root)[:, 0]
        return np.concatenate([shared, own.T.ravel()])

    def whiten(self, gradient: Float64Array) -> Float64Array:
        m = self.n_shared
        own = gradient[m:].reshape(-1, self.n_classes).T
        rest = np.matmul(self.root, own[:, :, None])[:, :, 0]
        shared = gradient[:m] - np.einsum("kmd,kd->m", self.border, rest)
        return np.concatenate([self.shared_root @ shared, rest.T.ravel()])
