r"""Floor 1: proper losses of scaled and of affine logits, summed over row blocks.

With weights normalised to :math:`\sum_i w_i = 1` and :math:`q = \mathrm{softmax}`,

.. math:: \mathrm{NLL} = -\sum_i w_i \log q_{i y_i}, \qquad
          \mathrm{Brier} = \sum_i w_i \sum_k (q_{ik} - 1[y_i = k])^2 .

For a single scale, :math:`q_i = \mathrm{softmax}(\beta z_i)`, value, first and second derivative
in :math:`\beta`; for :math:`q_i = \mathrm{softmax}(W z_i + b)` value, gradient and
Hessian-vector product. Nothing of the size of the scores is ever made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from skcalib._blocks import row_blocks
from skcalib._simplex import Scores, softmax_inplace

Float64Array = NDArray[np.float64]
Intp = NDArray[np.intp]

# Matrix products want taller blocks than row sums do.
AFFINE_BLOCK_BYTES = 1 << 21
# Up to here all pairs of classes enter the Hessian of a diagonal W. Beyond, a row brings only
# the classes that hold over this share of its doubt 1 - max q: a hundred at most, usually ten.
ALL_PAIRS_CLASSES = 128
SHARE_OF_DOUBT = 0.01


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


ScaleObjective = Callable[[TopShifted, float], Derivatives]


# ------------------------------------------------------------------------------- an affine map


class Pattern(Protocol):
    """Where W may differ from 0. Parameters `theta` are W in rows, and b in the last row."""

    def identity(self, n_classes: int) -> Float64Array:
        """Return the parameters of W = I, b = 0."""

    def apply(self, X: Float64Array, theta: Float64Array) -> Float64Array:
        """Return ``X W' + b``, ``(n, K)``."""

    def adjoint(self, X: Float64Array, R: Float64Array) -> Float64Array:
        """Return the sum over rows of ``R`` times the derivative of `apply`."""

    def add_hessian(
        self, H: Float64Array, X: Float64Array, Q: Float64Array, share: Float64Array
    ) -> None:
        """Add the Hessian of the NLL of these rows to `H`, ``(p, p)`` with p = theta.size."""


class Diagonal:
    """W = diag(c); ``theta (2, K)`` holds c and b."""

    def identity(self, n_classes: int) -> Float64Array:
        """Return the parameters of W = I, b = 0."""
        return np.vstack([np.ones(n_classes), np.zeros(n_classes)])

    def apply(self, X: Float64Array, theta: Float64Array) -> Float64Array:
        """Return ``c z + b``, ``(n, K)``."""
        L = X * theta[0]
        L += theta[1]
        return L

    def adjoint(self, X: Float64Array, R: Float64Array) -> Float64Array:
        """Return ``(2, K)``: the column sums of ``R X`` and of ``R``."""
        return np.vstack([np.einsum("ij,ij->j", R, X), R.sum(axis=0)])

    def add_hessian(
        self, H: Float64Array, X: Float64Array, Q: Float64Array, share: Float64Array
    ) -> None:
        """Add the Hessian of these rows, ``(2 K, 2 K)``; nearly so for many classes."""
        n_classes = X.shape[1]
        root = Q * np.sqrt(share)[:, None]
        if n_classes <= ALL_PAIRS_CLASSES:
            M = np.hstack([root * X, root])
            H -= M.T @ M
        else:
            doubt = 1.0 - Q.max(axis=1)
            i, k = np.nonzero(Q > SHARE_OF_DOUBT * doubt[:, None])
            few = root[i, k]
            entries = np.concatenate([few * X[i, k], few])
            where = np.tile(i, 2), np.concatenate([k, k + n_classes])
            S = csr_array((entries, where), shape=(X.shape[0], 2 * n_classes))
            pairs = (S.T @ S).tocoo()
            H[pairs.row, pairs.col] -= pairs.data
        k = np.arange(n_classes)
        H.reshape(2, n_classes, 2, n_classes)[:, k, :, k] += self._second_moments(X, Q, share)

    def add_hessian_by_class(
        self, H: Float64Array, X: Float64Array, Q: Float64Array, share: Float64Array
    ) -> None:
        """Add the part within each class, ``(K, 2, 2)``."""
        H += self._second_moments(X, Q * (1.0 - Q), share)

    @staticmethod
    def _second_moments(X: Float64Array, V: Float64Array, share: Float64Array) -> Float64Array:
        """Return ``sum share V (x, 1)(x, 1)'`` of each class, ``(K, 2, 2)``."""
        out = np.empty((X.shape[1], 2, 2))
        VX = V * X
        out[:, 0, 0] = share @ (VX * X)
        out[:, 0, 1] = out[:, 1, 0] = share @ VX
        out[:, 1, 1] = share @ V
        return out


class Full:
    """W of K x K; ``theta (K + 1, K)`` holds W transposed and b, so logits are ``X theta``."""

    def identity(self, n_classes: int) -> Float64Array:
        """Return the parameters of W = I, b = 0."""
        return np.eye(n_classes + 1, n_classes)

    def apply(self, X: Float64Array, theta: Float64Array) -> Float64Array:
        """Return ``X W' + b``, ``(n, K)``."""
        L = X @ theta[:-1]
        L += theta[-1]
        return L

    def adjoint(self, X: Float64Array, R: Float64Array) -> Float64Array:
        """Return ``(K + 1, K)``: ``X' R`` and the column sums of ``R``."""
        return np.vstack([X.T @ R, R.sum(axis=0)])

    def add_hessian(
        self, H: Float64Array, X: Float64Array, Q: Float64Array, share: Float64Array
    ) -> None:
        """Add the Hessian of these rows, ``(K (K + 1), K (K + 1))``."""
        n, n_classes = X.shape
        F = np.hstack([X, np.ones((n, 1))])
        M = (F[:, :, None] * (Q * np.sqrt(share)[:, None])[:, None, :]).reshape(n, -1)
        H -= M.T @ M
        products = (F[:, :, None] * F[:, None, :]).reshape(n, -1)
        own = (products.T @ (Q * share[:, None])).reshape(n_classes + 1, n_classes + 1, n_classes)
        k = np.arange(n_classes)
        blocks = H.reshape(n_classes + 1, n_classes, n_classes + 1, n_classes)
        blocks[:, k, :, k] += np.moveaxis(own, 2, 0)


class AffineNLL:
    """Mean NLL of ``softmax(W z / unit + b)`` for a pattern of W; convex.

    Parameters
    ----------
    scores : Scores of shape (n, K)
    code : ndarray of shape (n,)
    w : ndarray of shape (n,)
        Positive weights.
    pattern : Pattern
    unit : float
        Logits are divided by it, so that parameters of order 1 do the work.
    """

    def __init__(
        self, scores: Scores, code: Intp, w: Float64Array, pattern: Pattern, unit: float
    ) -> None:
        self.scores = scores
        self.code = code
        self.share = w / w.sum()
        self.pattern = pattern
        self.unit = unit

    def blocks(self) -> Iterator[tuple[slice, Float64Array]]:
        """Yield ``(rows, scaled logits)``."""
        for rows in row_blocks(*self.scores.shape, AFFINE_BLOCK_BYTES):
            X = self.scores.logits(rows)
            X /= self.unit
            yield rows, X

    def predictions(
        self, theta: Float64Array
    ) -> Iterator[tuple[Float64Array, Float64Array, Float64Array]]:
        """Yield ``(scaled logits, probabilities at theta, share)`` block by block."""
        for rows, X in self.blocks():
            yield X, softmax_inplace(self.pattern.apply(X, theta)), self.share[rows]

    def value_and_gradient(self, theta: Float64Array) -> tuple[float, Float64Array]:
        """Return the mean NLL and its gradient, in the shape of `theta`."""
        value, gradient = 0.0, np.zeros_like(theta)
        for rows, X in self.blocks():
            share = self.share[rows]
            L = self.pattern.apply(X, theta)
            L -= L.max(axis=1)[:, None]
            i = np.arange(L.shape[0])
            true = L[i, self.code[rows]]
            np.exp(L, out=L)
            total = L.sum(axis=1)
            value += float(share @ (np.log(total) - true))
            L *= (share / total)[:, None]
            L[i, self.code[rows]] -= share
            gradient += self.pattern.adjoint(X, L)
        return value, gradient

    def hessian_product(self, theta: Float64Array, V: Float64Array) -> Float64Array:
        """Return the Hessian at `theta` times `V`, in the shape of `theta`."""
        out = np.zeros_like(theta)
        for X, Q, share in self.predictions(theta):
            U = self.pattern.apply(X, V)
            U -= np.einsum("ij,ij->i", Q, U)[:, None]
            U *= Q
            U *= share[:, None]
            out += self.pattern.adjoint(X, U)
        return out
