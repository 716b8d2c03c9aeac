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

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from skcalib._arrays.blocks import ROW_BLOCK_BYTES, row_blocks
from skcalib._arrays.passes import Work, merge_rows
from skcalib._arrays.threads import AT_A_TIME, map_blocks
from skcalib._arrays.types import Float64Array, Intp
from skcalib._scores.scores import Scores
from skcalib._scores.softmax import softmax_inplace
from skcalib.calibrators._auto.features import (
    Features,
    Layout,
    Smoothing,
    Terms,
    adjoint,
    logits,
    make_features,
    own_features,
    shared_features,
    take_rows,
)

# Matrix products need taller blocks than sums.
HESSIAN_BLOCK_BYTES = 1 << 22


class FeatureNLL:
    """Weighted sum of the NLL as a function of the parameters of a layout.

    Parameters
    ----------
    scores : Scores of shape (n, K)
    code : ndarray of shape (n,)
    w : ndarray of shape (n,)
        Positive weights.
    smoothing : Smoothing
    layout : Layout
    exact : bool
        Whether `hessian` returns the full matrix, else its diagonal.
    dtype : {numpy.float64, numpy.float32}
        Type of the features, which are computed once and cached, because a fit reads them tens of
        times. Sums over blocks are float64.
    """

    def __init__(
        self,
        scores: Scores,
        code: Intp,
        w: Float64Array,
        smoothing: Smoothing,
        layout: Layout,
        *,
        exact: bool,
        dtype: DTypeLike = np.float64,
    ) -> None:
        n_classes = scores.shape[1]
        self.code = code
        self.w = w
        self.smoothing = smoothing
        self.layout = layout
        self.exact = exact
        self.dtype = np.dtype(dtype)
        # Blocks are at least as large as the gradient that each of them returns.
        block_bytes = max(ROW_BLOCK_BYTES, 8 * n_classes * n_classes)
        work, source = Work(block_bytes, AT_A_TIME), scores.as_logits()
        self._rows = list(work.blocks(source))
        kernel = partial(make_features, smoothing=smoothing, groups=layout.names, dtype=dtype)
        made = merge_rows(kernel, source, work=work)
        self._features = dict(zip([rows.start for rows in self._rows], made, strict=True))

    def value_and_gradient(self, theta: Float64Array) -> tuple[float, Float64Array]:
        """Return the NLL and its gradient."""
        terms = self.layout.unpack(theta, self.dtype)
        scale = self.smoothing.square_scale

        def of_block(rows: slice) -> tuple[float, Terms]:
            f, w = self._features[rows.start], self.w[rows]
            at_true = (np.arange(w.size), self.code[rows])
            Q = logits(f, terms, scale)
            true = Q[at_true]
            top = Q.max(axis=1)
            Q -= top[:, None]
            np.exp(Q, out=Q)
            total = Q.sum(axis=1)
            value = float(w @ (np.log(total, dtype=np.float64) + top - true))
            Q[at_true] -= total
            Q *= (w / total).astype(self.dtype)[:, None]
            return value, adjoint(f, Q, scale)

        value, gradient = 0.0, np.zeros(self.layout.size)
        for part, derivatives in map_blocks(of_block, self._rows):
            value += part
            gradient += self.layout.pack(derivatives)
        return value, gradient

    def hessian(self, theta: Float64Array) -> Float64Array:
        """Return the Hessian, ``(p, p)``, or its diagonal, ``(p,)``."""
        terms = self.layout.unpack(theta, self.dtype)
        H = np.zeros((self.layout.size,) * (2 if self.exact else 1))

        def softmax_of(rows: slice) -> tuple[Features, NDArray[Any]]:
            f = self._features[rows.start]
            return f, softmax_inplace(logits(f, terms, self.smoothing.square_scale))

        if self.exact:
            for rows in self._rows:
                self._add_exact(H, *softmax_of(rows), self.w[rows])
        else:
            parts = map_blocks(
                lambda rows: self._diagonal(*softmax_of(rows), self.w[rows]), self._rows
            )
            for part in parts:
                H += part
        return H

    def _add_exact(self, H: Float64Array, f: Features, Q: Float64Array, w: Float64Array) -> None:
        m, K, scale = self.layout.n_shared, self.layout.n_classes, self.smoothing.square_scale
        n_rows = (self.layout.size - m) // K
        k = np.arange(K)
        among = H[m:, m:].reshape(n_rows, K, n_rows, K)
        for rows in row_blocks(w.size, self.layout.size + m * K, HESSIAN_BLOCK_BYTES):
            g = take_rows(f, rows)
            QT = np.ascontiguousarray(Q[rows].T)[:, None]
            # For each class: features times sqrt(w q).
            X = np.empty((K, m + n_rows, QT.shape[2]))
            own = own_features(g, scale, self.layout.n_own)
            for j, feature in enumerate([*shared_features(g, scale, m), *own]):
                X[:, j] = feature.T
            if g.cross is not None:
                X[:, m + len(own) :] = g.cross.T
            X *= np.sqrt(QT * w[rows])
            pairs = X @ X.transpose(0, 2, 1)
            X *= np.sqrt(QT)
            shared, classes = X[:, :m].sum(axis=0), X[:, m:].reshape(n_rows * K, X.shape[2])
            H[:m, :m] += pairs[:, :m, :m].sum(axis=0) - shared @ shared.T
            between = pairs[:, m:, :m] - (classes @ shared.T).reshape(K, n_rows, m)
            between = between.transpose(1, 0, 2).reshape(n_rows * K, m)
            H[m:, :m] += between
            H[:m, m:] += between.T
            among -= (classes @ classes.T).reshape(K, n_rows, K, n_rows).transpose(1, 0, 3, 2)
            among[:, k, :, k] += pairs[:, m:, m:]

    def _diagonal(self, f: Features, Q: NDArray[Any], w: Float64Array) -> Float64Array:
        m, scale = self.layout.n_shared, self.smoothing.square_scale
        h = np.zeros(self.layout.size)
        for j, S in enumerate(shared_features(f, scale, m)):
            QS = Q * S
            mean = QS.sum(axis=1)
            h[j] = w @ (np.einsum("ij,ij->i", QS, S) - mean * mean)
        Q *= 1.0 - Q
        Q *= w.astype(self.dtype)[:, None]
        own = [np.einsum("ij,ij->j", Q, E * E) for E in own_features(f, scale, self.layout.n_own)]
        start = m + sum(part.size for part in own)
        if own:
            h[m:start] = np.concatenate(own)
        if f.cross is not None:
            h[start:] = (f.cross.power(2).T @ Q).ravel()
        return h
