r"""NLL of softmax(eta), with eta linear in features of the scores; convex.

With weights :math:`w_i`, :math:`\hat q = \mathrm{softmax}(\eta)` and :math:`x_{ik}` the derivative
of :math:`\eta_{ik}` by the parameters,

.. math::

    \mathrm{NLL} = -\sum_i w_i \log \hat q_{i y_i}, \qquad
    \nabla = \sum_i w_i \sum_k (\hat q_{ik} - 1[y_i = k]) x_{ik}, \qquad
    H = \sum_i w_i \Big( \sum_k \hat q_{ik} x_{ik} x_{ik}' - m_i m_i' \Big), \quad
    m_i = \sum_k \hat q_{ik} x_{ik} .
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from skcalib._arrays.blocks import row_blocks
from skcalib._arrays.types import Float64Array, Intp
from skcalib._scaling.likelihood import nll_to_residual
from skcalib._scaling.posterior import ByClass, Full
from skcalib._scores.softmax import softmax_inplace
from skcalib.calibrators._auto.features import N_OWN, N_SHARED, Design, Layout, design_of_block
from skcalib.calibrators._auto.smoothing import Position, Smoothing

# Bytes of float64 in a block of weighted features; matrix products need tall blocks.
HESSIAN_BLOCK_BYTES = 1 << 25


class Block(NamedTuple):
    """Features of a block of rows, codes and weights."""

    design: Design
    layout: Layout
    code: Intp
    w: Float64Array

    def value_and_gradient(self, theta: Float64Array) -> tuple[float, Float64Array]:
        """Return the NLL and its gradient."""
        eta = self.design.logits(*self.layout.unpack(theta))
        value = nll_to_residual(eta.T, self.code, self.w)
        return value, self.layout.pack(*self.design.adjoint(eta))

    def _weighted(self, eta: Float64Array, rows: slice) -> Any:
        """Return features times sqrt(w q), ``(K, 12 + 2 K, n)``, and sqrt(q)."""
        f, Q = self.design, softmax_inplace(eta[:, rows].copy().T).T
        K, n = Q.shape
        root = np.sqrt(Q)
        X = np.empty((K, N_OWN + (0 if f.cross is None else 2 * K), n))
        scale = root * np.sqrt(self.w[rows])
        np.multiply(f.own[:, :, rows], scale[:, None], out=X[:, :N_OWN])
        if f.cross is not None:
            np.multiply(f.cross[:, rows], scale[:, None], out=X[:, N_OWN:])
        return X, root[:, None]

    def rough_hessian(self, theta: Float64Array) -> ByClass:
        """Return the Hessian without the products of different classes' parameters."""
        m, K = N_SHARED, self.layout.n_classes
        d = (self.layout.size - m) // K
        shared, between, within = np.zeros((m, m)), np.zeros((K, m, d)), np.zeros((K, d, d))
        eta = self.design.logits(*self.layout.unpack(theta))
        for part in row_blocks(self.w.size, K * (m + d), HESSIAN_BLOCK_BYTES):
            X, root = self._weighted(eta, part)
            X[:, :m] -= root * (X[:, :m] * root).sum(axis=0)
            S, own = X[:, :m], X[:, m:]
            own *= np.sqrt(np.maximum(1.0 - root * root, 0.0))
            shared += (S @ S.transpose(0, 2, 1)).sum(axis=0)
            between += S @ own.transpose(0, 2, 1)
            within += own @ own.transpose(0, 2, 1)
        return ByClass(shared, between, within)

    def hessian(self, theta: Float64Array) -> Full:
        """Return the Hessian."""
        m, K = N_SHARED, self.layout.n_classes
        H = np.zeros((self.layout.size, self.layout.size))
        d = (self.layout.size - m) // K
        among = H[m:, m:].reshape(d, K, d, K)
        k = np.arange(K)
        eta = self.design.logits(*self.layout.unpack(theta))
        for part in row_blocks(self.w.size, K * (m + d), HESSIAN_BLOCK_BYTES):
            X, root = self._weighted(eta, part)
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
        return Full(H)


def features_of_block(
    Z: Float64Array,
    code: Intp,
    w: Float64Array,
    smoothing: Smoothing,
    position: Position,
    centre: Float64Array | None,
) -> Block:
    """Return what the loss of a block of logits ``(n, K)`` needs; no `centre`, no cross terms."""
    design = design_of_block(Z, smoothing, position, centre)
    return Block(design, Layout(Z.shape[1]), code, w)
