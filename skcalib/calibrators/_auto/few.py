r"""Features of scores of 30 classes or fewer, and the log loss, convex in their coefficients.

With p, q, a and a' of `smoothing`, :math:`s = \log(n K)`, H the entropy of a row of q, u the
position of a and :math:`\phi_j(u) = \sqrt 2 \cos(\pi j u) / j`,

.. math::

    \eta_k = a'_k & + t_1 q_k + t_2 \frac{a_k^2}{s} + t_3 a_k H + t_4 a_k \max_l a_l
                    + t_5 \log(1 - q_k + 1/(nK)) \\
                  & + b_k + \sum_{j=1}^{6} R_{jk} \phi_j(u_k)
                    + \sum_l M_{kl} p_l + \sum_l L_{kl} (a_l - \bar a_l) .

With two classes, M and L are left out. With weights :math:`w_i`,
:math:`\hat q = \mathrm{softmax}(\eta)` and :math:`x_{ik}` the derivative of :math:`\eta_{ik}` by
the parameters,

.. math::

    \mathrm{NLL} = -\sum_i w_i \log \hat q_{i y_i}, \qquad
    \nabla = \sum_i w_i \sum_k (\hat q_{ik} - 1[y_i = k]) x_{ik}, \qquad
    H = \sum_i w_i \Big( \sum_k \hat q_{ik} x_{ik} x_{ik}' - m_i m_i' \Big), \quad
    m_i = \sum_k \hat q_{ik} x_{ik} .
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from skcalib._arrays.rowwise import Float64Array, Intp, row_blocks
from skcalib._scaling.evidence import ByClass, FullPosterior, nll_to_residual
from skcalib._scores.scores import softmax_inplace
from skcalib.calibrators._auto.smoothing import OFFSET_SHARE, Position, Smoothing

N_SHARED, N_COSINES = 5, 6
# Number of coefficients of each class: N_SHARED that are the same for all classes, a constant, and
# N_COSINES of cosines.
N_OWN = N_SHARED + 1 + N_COSINES
# Size in bytes of a block of weighted features. A block is large, because matrix products are
# faster for many rows.
HESSIAN_BLOCK_BYTES = 1 << 25


def groups_of(n_classes: int) -> dict[str, slice]:
    """Return the slices of the parameters theta, by the name of the group of parameters."""
    K = n_classes
    sizes = {"t": N_SHARED, "b": K, "R": N_COSINES * K}
    if K > 2:
        sizes |= {"M": K * K, "L": K * K}
    ends = np.cumsum(list(sizes.values())).tolist()
    return {g: slice(end - sizes[g], end) for g, end in zip(sizes, ends, strict=True)}


def unpack(theta: Float64Array, n_classes: int) -> tuple[Float64Array, Float64Array]:
    """Split parameters theta into coefficients of single classes ``(K, 12)`` and of class pairs."""
    rows, n_rows = theta[N_SHARED:].reshape(-1, n_classes), N_OWN - N_SHARED
    own = np.empty((n_classes, N_OWN))
    own[:, :N_SHARED] = theta[:N_SHARED]
    own[:, N_SHARED:] = rows[:n_rows].T
    return own, rows[n_rows:]


class BlockOfFew(NamedTuple):
    """A block of n rows for a fit with at most 30 classes: features, labels and weights.

    The features are ``offset (K, n)``, ``own (K, 12, n)`` for t, b and R, and ``cross (2 K, n)``
    for M and L.
    """

    offset: Float64Array
    own: Float64Array
    cross: Float64Array | None
    code: Intp
    w: Float64Array

    def logits(self, theta: Float64Array) -> Float64Array:
        """Return the calibrated logits ``(K, n)`` for parameters theta, as a new array."""
        own, cross = unpack(theta, len(self.offset))
        eta = np.matmul(own[:, None], self.own)[:, 0]
        eta += self.offset
        if self.cross is not None:
            eta += cross.T @ self.cross
        return eta

    def value_and_gradient(self, theta: Float64Array) -> tuple[float, Float64Array]:
        """Return the summed log loss of the block, and its gradient in theta."""
        R = self.logits(theta)
        value = nll_to_residual(R.T, self.code, self.w)
        own = np.matmul(self.own, R[:, :, None])[:, :, 0]
        parts = [own[:, :N_SHARED].sum(axis=0), own[:, N_SHARED:].T.ravel()]
        if self.cross is not None:
            parts.append((self.cross @ R.T).ravel())
        return value, np.concatenate(parts)

    def _weighted(self, theta: Float64Array) -> Iterator[tuple[Float64Array, Float64Array]]:
        """Yield features times sqrt(w q), and sqrt(q), for blocks of rows, for the Hessian."""
        eta = self.logits(theta)
        K, n_terms = len(eta), N_OWN + (0 if self.cross is None else len(self.cross))
        for rows in row_blocks(self.w.size, K * n_terms, HESSIAN_BLOCK_BYTES):
            root = np.sqrt(softmax_inplace(eta[:, rows].copy().T).T)
            scale = root * np.sqrt(self.w[rows])
            X = np.empty((K, n_terms, scale.shape[1]))
            np.multiply(self.own[:, :, rows], scale[:, None], out=X[:, :N_OWN])
            if self.cross is not None:
                np.multiply(self.cross[:, rows], scale[:, None], out=X[:, N_OWN:])
            yield X, root[:, None]

    def rough_hessian(self, theta: Float64Array) -> ByClass:
        """Return the Hessian without entries that link parameters of two different classes."""
        m, K = N_SHARED, len(self.offset)
        d = (theta.size - m) // K
        shared, between, within = np.zeros((m, m)), np.zeros((K, m, d)), np.zeros((K, d, d))
        for X, root in self._weighted(theta):
            X[:, :m] -= root * (X[:, :m] * root).sum(axis=0)
            S, own = X[:, :m], X[:, m:]
            own *= np.sqrt(np.maximum(1.0 - root * root, 0.0))
            shared += (S @ S.transpose(0, 2, 1)).sum(axis=0)
            between += S @ own.transpose(0, 2, 1)
            within += own @ own.transpose(0, 2, 1)
        return ByClass(shared, between, within)

    def hessian(self, theta: Float64Array) -> FullPosterior:
        """Return the complete Hessian of the log loss in theta."""
        m, K = N_SHARED, len(self.offset)
        d = (theta.size - m) // K
        H = np.zeros((theta.size, theta.size))
        among = H[m:, m:].reshape(d, K, d, K)
        k = np.arange(K)
        for X, root in self._weighted(theta):
            pairs = X @ X.transpose(0, 2, 1)
            X *= root
            shared, classes = X[:, :m].sum(axis=0), X[:, m:].reshape(d * K, X.shape[2])
            H[:m, :m] += pairs[:, :m, :m].sum(axis=0) - shared @ shared.T
            between = pairs[:, m:, :m] - (classes @ shared.T).reshape(K, d, m)
            between = between.transpose(1, 0, 2).reshape(d * K, m)
            H[m:, :m] += between
            H[:m, m:] += between.T
            among -= (classes @ classes.T).reshape(K, d, K, d).transpose(1, 0, 3, 2)
            among[:, k, :, k] += pairs[:, m:, m:]
        return FullPosterior(H)


def features_of_few(
    Z: Float64Array,
    code: Intp,
    w: Float64Array,
    smoothing: Smoothing,
    position: Position,
    centre: Float64Array | None,
) -> BlockOfFew:
    """Compute the features of a block of logits; terms of pairs of classes need a `centre`."""
    p = np.ascontiguousarray(smoothing.proba(Z).T)
    q = smoothing.mix(p)
    a = np.log(q)
    offset = np.log(smoothing.mix(p, OFFSET_SHARE))
    rest = np.log(1.0 - q + 1.0 / (smoothing.n * smoothing.n_classes))
    entropy, top = -np.einsum("kn,kn->n", q, a), a.max(axis=0)
    own = np.empty((len(a), N_OWN, code.size))
    for j, feature in enumerate([q, a * a / smoothing.square_scale, a * entropy, a * top, rest]):
        own[:, j] = feature
    own[:, N_SHARED] = 1.0
    # Compute cos(j x) for j = 1, 2, ... by the recurrence of Chebyshev polynomials.
    c = np.cos(np.pi * position.of(a))
    before, now = np.ones_like(c), c
    for j in range(1, N_COSINES + 1):
        np.multiply(now, np.sqrt(2.0) / j, out=own[:, N_SHARED + j])
        before, now = now, 2.0 * c * now - before
    cross = None if centre is None else np.concatenate([p, a - centre[:, None]])
    return BlockOfFew(offset, own, cross, code, w)
