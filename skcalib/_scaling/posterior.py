r"""The Hessian of a fit, A = H + diag(alpha), as a Gaussian posterior has it.

Each form of H gives the diagonal of A's inverse, its log determinant, and whitened coordinates v,
in which A is the identity: with :math:`A = L L'`, a step of theta is :math:`L'^{-1} v`, and a
gradient g becomes :math:`L^{-1} g`. Hessians of different rows are added part by part.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.linalg import cholesky
from scipy.linalg.lapack import dtrtri

from skcalib._arrays.tensors import rows_of
from skcalib._arrays.types import Bools, Float64Array

# Relative ridge on the Hessian's diagonal, against rounding.
LIFT = 1e-12

Linear = Callable[[Float64Array], Float64Array]


class Posterior(NamedTuple):
    """``A = H + diag(alpha)``: its inverse, its determinant and whitened coordinates.

    ``step`` returns the step of theta for a whitened one, ``whiten`` a gradient in whitened
    coordinates.
    """

    inverse_diagonal: Float64Array
    log_det: float
    step: Linear
    whiten: Linear


class Diagonal(NamedTuple):
    """The diagonal of a Hessian."""

    h: Float64Array

    def posterior(self, alpha: Float64Array) -> Posterior:
        """Return the posterior for ridges of strength ``alpha / 2``."""
        A = self.h + alpha
        root = 1.0 / A**0.5
        log_det = float(rows_of(A).log(A).sum())
        return Posterior(1.0 / A, log_det, root.__mul__, root.__mul__)


class Full(NamedTuple):
    """A whole Hessian, ``(p, p)``."""

    H: Float64Array

    def posterior(self, alpha: Float64Array) -> Posterior:
        """Return the posterior for ridges of strength ``alpha / 2``."""
        A = self.H.copy()
        diagonal = np.einsum("ii->i", A)
        diagonal += LIFT * diagonal + alpha
        L = cholesky(A, lower=True, check_finite=False, overwrite_a=True)
        log_det = 2.0 * float(np.log(L.diagonal()).sum())
        root, _ = dtrtri(L, lower=1, overwrite_c=1)
        inverse_diagonal = np.einsum("ij,ij->j", root, root)
        return Posterior(inverse_diagonal, log_det, root.T.__matmul__, root.__matmul__)


class Bounded(NamedTuple):
    """A whole Hessian in parameters with lower bounds; those at their bound are not `free`."""

    H: Float64Array
    free: Bools

    def posterior(self, alpha: Float64Array) -> Posterior:
        """Return steps along single parameters, which keep bounds, and the inverse of the free."""
        single = Diagonal(self.H.diagonal()).posterior(alpha)
        free = Full(np.where(self.free & self.free[:, None], self.H, 0.0)).posterior(alpha)
        return free._replace(step=single.step, whiten=single.whiten)


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
        m, (K, d, _) = len(self.shared), self.own.shape
        own = self.own.copy()
        diagonal = np.einsum("kdd->kd", own)
        diagonal += LIFT * diagonal + alpha[m:].reshape(d, K).T
        L = np.linalg.cholesky(own)
        root = np.linalg.inv(L)
        # The shared parameters are last: rows of the factor that belong to them, and their block.
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
