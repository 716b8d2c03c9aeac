r"""Floor 1: proper losses of scaled and of affine logits, summed over row blocks.

With weights normalised to :math:`\sum_i w_i = 1` and :math:`q = \mathrm{softmax}`,

.. math:: \mathrm{NLL} = -\sum_i w_i \log q_{i y_i}, \qquad
          \mathrm{Brier} = \sum_i w_i \sum_k (q_{ik} - 1[y_i = k])^2 .

For a single scale, :math:`q_i = \mathrm{softmax}(\beta z_i)`, value, first and second derivative
in :math:`\beta`; for :math:`q_i = \mathrm{softmax}(W z_i + b)` value, gradient and
Hessian-vector product. Nothing of the size of the scores is ever made.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from skcalib._blocks import ROW_BLOCK_BYTES, row_blocks
from skcalib._simplex import Scores

Float64Array = NDArray[np.float64]
Intp = NDArray[np.intp]

# Up to here all pairs of classes enter the Hessian of a diagonal W. Beyond, a row brings only
# the classes that hold over this share of its doubt 1 - max q: a few dozen at most.
ALL_PAIRS_CLASSES = 128
SHARE_OF_DOUBT = 0.03


# ------------------------------------------------------------------------------- a single scale


class Derivatives(NamedTuple):
    """An objective of one parameter: value, first and second derivative."""

    value: float
    first: float
    second: float


class TopShifted:
    """Logits less their row maximum, ``U = Z - max Z <= 0``, read block by block.

    A softmax of any scale of `U` needs no further maximum.

    Parameters
    ----------
    scores : Scores of shape (n, K)
    code : ndarray of shape (n,)
    w : ndarray of shape (n,)
        Positive weights.

    Attributes
    ----------
    share : ndarray of shape (n,)
        Weights that sum to 1.
    true : ndarray of shape (n,)
        ``U`` at the true class.
    deficit : float
        Mean of ``-true``: 0 if and only if every row has its true class on top.
    spread : float
        Mean over rows and classes of ``-U``: the deficit of uniform predictions.
    """

    def __init__(self, scores: Scores, code: Intp, w: Float64Array) -> None:
        n, n_classes = scores.shape
        self.scores = scores
        self.code = code
        self.share = w / w.sum()
        self._top = np.empty(n)
        self.true = np.empty(n)
        mean = np.empty(n)
        to_mean = np.full(n_classes, 1.0 / n_classes)
        for rows in row_blocks(n, n_classes):
            Z = scores.logits(rows)
            self._top[rows] = Z.max(axis=1)
            Z -= self._top[rows, None]
            self.true[rows] = np.take_along_axis(Z, code[rows, None], axis=1)[:, 0]
            mean[rows] = Z @ to_mean
        self.deficit = -float(self.share @ self.true)
        self.spread = -float(self.share @ mean)

    def thinned(self, n_rows: int) -> TopShifted:
        """Return evenly spaced rows, `n_rows` or up to twice as many; itself if not longer."""
        step = self.share.size // n_rows
        if step < 2:
            return self
        few = Scores(self.scores.array[::step], self.scores.kind)
        return TopShifted(few, self.code[::step], self.share[::step])

    def blocks(self) -> Iterator[tuple[slice, Float64Array]]:
        """Yield ``(rows, U of these rows)``; the block is fresh and may be overwritten."""
        for rows in row_blocks(*self.scores.shape):
            U = self.scores.logits(rows)
            U -= self._top[rows, None]
            yield rows, U


def nll_of_scale(shifted: TopShifted, beta: float) -> Derivatives:
    """NLL of ``softmax(beta * Z)`` and its derivatives in `beta`; convex."""
    value = first = second = 0.0
    ones = np.ones(shifted.scores.shape[1])
    for rows, U in shifted.blocks():
        share, true = shifted.share[rows], shifted.true[rows]
        Q = beta * U
        np.exp(Q, out=Q)
        total = Q @ ones
        Q *= U
        mean = (Q @ ones) / total
        square = np.einsum("ij,ij->i", Q, U) / total
        value += float(share @ (np.log(total) - beta * true))
        first += float(share @ (mean - true))
        second += float(share @ (square - mean * mean))
    return Derivatives(value, first, second)


def brier_of_scale(shifted: TopShifted, beta: float) -> Derivatives:
    """Brier score of ``softmax(beta * Z)`` and its derivatives in `beta`; not convex."""
    value = first = second = 0.0
    for rows, U in shifted.blocks():
        share, true = shifted.share[rows], shifted.true[rows]
        Q = beta * U
        np.exp(Q, out=Q)
        total = Q.sum(axis=1)
        q_true = np.exp(beta * true) / total
        Q /= total[:, None]
        mean = np.einsum("ij,ij->i", Q, U)
        U -= mean[:, None]
        true = true - mean
        norm = np.einsum("ij,ij->i", Q, Q)
        dQ = Q * U
        slope = np.einsum("ij,ij->i", Q, dQ)
        curve = np.einsum("ij,ij->i", dQ, dQ)
        variance = np.einsum("ij,ij->i", dQ, U)
        value += float(share @ (norm - 2 * q_true + 1))
        first += float(share @ (2 * slope - 2 * q_true * true))
        second += float(
            share @ (4 * curve - 2 * variance * norm - 2 * q_true * (true * true - variance))
        )
    return Derivatives(value, first, second)


# ------------------------------------------------------------------------------- an affine map


def _exponentiate(L: Float64Array) -> tuple[Float64Array, Float64Array]:
    """Overwrite `L` by ``exp(L - top)``; return the row maxima ``top`` and the row sums."""
    top = L.max(axis=1)
    L -= top[:, None]
    np.exp(L, out=L)
    return top, L.sum(axis=1)


class Pattern(Protocol):
    """Where W may differ from 0. Parameters `theta` are W in rows, and b in the last row."""

    block_bytes: int

    def identity(self, n_classes: int) -> Float64Array:
        """Return the parameters of W = I, b = 0."""

    def apply(self, Z: Float64Array, theta: Float64Array) -> Float64Array:
        """Return ``Z W' + b``, ``(n, K)``."""

    def adjoint(self, Z: Float64Array, R: Float64Array, v: Float64Array) -> Float64Array:
        """Return the sum over rows of ``v R`` times the derivative of `apply`; may spoil `R`."""

    def add_hessian(
        self, H: Float64Array, Z: Float64Array, Q: Float64Array, share: Float64Array
    ) -> None:
        """Add the Hessian of the NLL of these rows to `H`, ``(p, p)`` with p = theta.size."""


class Diagonal:
    """W = diag(c); ``theta (2, K)`` holds c and b."""

    block_bytes = ROW_BLOCK_BYTES

    def identity(self, n_classes: int) -> Float64Array:
        """Return the parameters of W = I, b = 0."""
        return np.vstack([np.ones(n_classes), np.zeros(n_classes)])

    def apply(self, Z: Float64Array, theta: Float64Array) -> Float64Array:
        """Return ``c Z + b``, ``(n, K)``."""
        L = Z * theta[0]
        L += theta[1]
        return L

    def adjoint(self, Z: Float64Array, R: Float64Array, v: Float64Array) -> Float64Array:
        """Return ``(2, K)``: the sums over rows of ``v R Z`` and of ``v R``; spoils `R`."""
        intercept = v @ R
        R *= Z
        return np.vstack([v @ R, intercept])

    def add_hessian(
        self, H: Float64Array, Z: Float64Array, Q: Float64Array, share: Float64Array
    ) -> None:
        """Add the Hessian of these rows, ``(2 K, 2 K)``; nearly so for many classes."""
        n_classes = Z.shape[1]
        root = Q * np.sqrt(share)[:, None]
        if n_classes <= ALL_PAIRS_CLASSES:
            M = np.hstack([root * Z, root])
            H -= M.T @ M
        else:
            doubt = np.maximum(1.0 - Q.max(axis=1), 1e-12)
            i, k = np.nonzero(Q / doubt[:, None] > SHARE_OF_DOUBT)
            few = root[i, k]
            entries = np.concatenate([few * Z[i, k], few])
            where = np.tile(i, 2), np.concatenate([k, k + n_classes])
            S = csr_array((entries, where), shape=(Z.shape[0], 2 * n_classes))
            pairs = (S.T @ S).tocoo()
            H[pairs.row, pairs.col] -= pairs.data
        k = np.arange(n_classes)
        H.reshape(2, n_classes, 2, n_classes)[:, k, :, k] += self._second_moments(Z, Q, share)

    def add_hessian_by_class(
        self, H: Float64Array, Z: Float64Array, Q: Float64Array, share: Float64Array
    ) -> None:
        """Add the part within each class, ``(K, 2, 2)``."""
        H += self._second_moments(Z, Q * (1.0 - Q), share)

    @staticmethod
    def _second_moments(Z: Float64Array, V: Float64Array, share: Float64Array) -> Float64Array:
        """Return ``sum share V (z, 1)(z, 1)'`` of each class, ``(K, 2, 2)``."""
        out = np.empty((Z.shape[1], 2, 2))
        VZ = V * Z
        out[:, 0, 0] = share @ (VZ * Z)
        out[:, 0, 1] = out[:, 1, 0] = share @ VZ
        out[:, 1, 1] = share @ V
        return out


class Full:
    """W of K x K; ``theta (K + 1, K)`` holds W transposed and b, so logits are ``Z theta``."""

    # Matrix products want taller blocks than row sums do.
    block_bytes = 4 * ROW_BLOCK_BYTES

    def identity(self, n_classes: int) -> Float64Array:
        """Return the parameters of W = I, b = 0."""
        return np.eye(n_classes + 1, n_classes)

    def apply(self, Z: Float64Array, theta: Float64Array) -> Float64Array:
        """Return ``Z W' + b``, ``(n, K)``."""
        L = Z @ theta[:-1]
        L += theta[-1]
        return L

    def adjoint(self, Z: Float64Array, R: Float64Array, v: Float64Array) -> Float64Array:
        """Return ``(K + 1, K)``: ``Z' v R`` and the sum over rows of ``v R``; spoils `R`."""
        R *= v[:, None]
        return np.vstack([Z.T @ R, R.sum(axis=0)])

    def add_hessian(
        self, H: Float64Array, Z: Float64Array, Q: Float64Array, share: Float64Array
    ) -> None:
        """Add the Hessian of these rows, ``(K (K + 1), K (K + 1))``."""
        n, n_classes = Z.shape
        F = np.hstack([Z, np.ones((n, 1))])
        M = (F[:, :, None] * (Q * np.sqrt(share)[:, None])[:, None, :]).reshape(n, -1)
        H -= M.T @ M
        products = (F[:, :, None] * F[:, None, :]).reshape(n, -1)
        own = (products.T @ (Q * share[:, None])).reshape(n_classes + 1, n_classes + 1, n_classes)
        k = np.arange(n_classes)
        blocks = H.reshape(n_classes + 1, n_classes, n_classes + 1, n_classes)
        blocks[:, k, :, k] += np.moveaxis(own, 2, 0)


class AffineNLL:
    """Mean NLL of ``softmax(W z + b)`` for a pattern of W; convex.

    Parameters
    ----------
    scores : Scores of shape (n, K)
    code : ndarray of shape (n,)
    w : ndarray of shape (n,)
        Positive weights.
    pattern : Pattern
    """

    def __init__(self, scores: Scores, code: Intp, w: Float64Array, pattern: Pattern) -> None:
        self.scores = scores
        self.code = code
        self.share = w / w.sum()
        self.pattern = pattern

    def blocks(self) -> Iterator[tuple[slice, Float64Array]]:
        """Yield ``(rows, logits)`` in blocks as tall as the pattern likes."""
        for rows in row_blocks(*self.scores.shape, self.pattern.block_bytes):
            yield rows, self.scores.logits(rows)

    def predictions(
        self, theta: Float64Array
    ) -> Iterator[tuple[Float64Array, Float64Array, Float64Array]]:
        """Yield ``(logits, probabilities at theta, share)`` block by block."""
        for rows, Z in self.blocks():
            Q = self.pattern.apply(Z, theta)
            _, total = _exponentiate(Q)
            Q /= total[:, None]
            yield Z, Q, self.share[rows]

    def value_and_gradient(self, theta: Float64Array) -> tuple[float, Float64Array]:
        """Return the mean NLL and its gradient, in the shape of `theta`."""
        value, gradient = 0.0, np.zeros_like(theta)
        for rows, Z in self.blocks():
            share, at_true = self.share[rows], (np.arange(Z.shape[0]), self.code[rows])
            Q = self.pattern.apply(Z, theta)
            true = Q[at_true]
            top, total = _exponentiate(Q)
            value += float(share @ (np.log(total) + top - true))
            Q[at_true] -= total
            gradient += self.pattern.adjoint(Z, Q, share / total)
        return value, gradient

    def hessian_product(self, theta: Float64Array, V: Float64Array) -> Float64Array:
        """Return the Hessian at `theta` times `V`, in the shape of `theta`."""
        out = np.zeros_like(theta)
        for rows, Z in self.blocks():
            Q = self.pattern.apply(Z, theta)
            _, total = _exponentiate(Q)
            U = self.pattern.apply(Z, V)
            U -= (np.einsum("ij,ij->i", Q, U) / total)[:, None]
            U *= Q
            out += self.pattern.adjoint(Z, U, self.share[rows] / total)
        return out
