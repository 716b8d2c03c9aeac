r"""Features and NLL for more than 30 classes.

With :math:`\tilde p = p` where :math:`p \ge 0.01` and 0 elsewhere, and the symbols of `features`,

.. math::

    \eta_k = a_k & + t_1 \tilde p_k + t_2 \frac{a_k^2}{s} + t_3 a_k H + t_4 a_k \max_l a_l
                   + t_5 \log\Big(1 - \frac{\tilde p_k}{1 + 1/(nK)}\Big) \\
                 & + b_k + U_k a_k + \sum_l M_{kl} \tilde p_l .

Smaller probabilities are very many, and too small to change a logit. Of the Hessian, only the
diagonal is computed. With more than 1,000 classes M is left out: its fit takes some 300 bytes for
each of the K^2 entries. Features are float32, sums over blocks float64.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from skcalib._arrays.blocks import TALL_BLOCK_BYTES, row_blocks
from skcalib._arrays.passes import Work
from skcalib._arrays.types import Float64Array, Intp
from skcalib._scaling.likelihood import nll_to_residual
from skcalib._scaling.posterior import Diagonal
from skcalib._scores.softmax import softmax_inplace
from skcalib.calibrators._auto.smoothing import Smoothing

SMALLEST = 1e-2
# Up to this many classes, products with p are faster if its zeros are stored.
LARGEST_DENSE = 300
# Up to this many classes, terms link each class with each.
LARGEST_LINKED = 1000
N_SHARED = 5


class Features(NamedTuple):
    """Features of a block of rows.

    ``a`` and ``p`` are ``(n, K)``, and p is sparse for very many classes; ``place`` are the flat
    indices of its entries above 0, ``large`` and ``rest`` the features of t there; ``entropy`` and
    ``top`` are ``(n,)``.
    """

    a: NDArray[Any]
    p: Any
    place: Intp
    large: NDArray[Any]
    rest: NDArray[Any]
    entropy: NDArray[Any]
    top: NDArray[Any]


def make_features(Z: Float64Array, smoothing: Smoothing, dtype: Any = np.float32) -> Features:
    """Return the features of a block of logits ``(n, K)``."""
    p = np.ascontiguousarray(smoothing.proba(Z))
    q = smoothing.mix(p)
    a = np.log(q)
    entropy = -np.einsum("ij,ij->i", q, a)
    p[p < SMALLEST] = 0.0
    place = np.flatnonzero(p)
    large = p.ravel()[place]
    rest = np.log1p(large / -(1.0 + 1.0 / (smoothing.n * smoothing.n_classes)))
    a, p, large, rest, entropy, top = (
        part.astype(dtype, copy=False) for part in (a, p, large, rest, entropy, a.max(axis=1))
    )
    p = p if p.shape[1] <= LARGEST_DENSE else csr_array(p)
    return Features(a, p, place, large, rest, entropy, top)


class Terms(NamedTuple):
    """Parameters by feature: five shared, ``b`` and ``slope`` ``(K,)``, and ``cross (K, K)``.

    Without M, ``cross`` has no rows.
    """

    t: NDArray[Any]
    b: NDArray[Any]
    slope: NDArray[Any]
    cross: NDArray[Any]


def is_linked(n_classes: int) -> bool:
    """Whether terms link each class with each."""
    return n_classes <= LARGEST_LINKED


def groups_of(n_classes: int) -> dict[str, slice]:
    """Return the places of t, b, U and, of up to `LARGEST_LINKED` classes, M in theta."""
    K, m = n_classes, N_SHARED
    groups = {"t": slice(0, m), "b": slice(m, m + K), "U": slice(m + K, m + 2 * K)}
    if is_linked(K):
        groups["M"] = slice(m + 2 * K, m + 2 * K + K * K)
    return groups


def unpack(theta: Float64Array, n_classes: int, dtype: Any = np.float32) -> Terms:
    """Return the parameters by feature."""
    t, b, slope, *cross = (theta[part].astype(dtype) for part in groups_of(n_classes).values())
    rows = cross[0] if cross else np.empty(0, dtype)
    return Terms(t, b, slope, rows.reshape(-1, n_classes))


def links(f: Features, terms: Terms) -> NDArray[Any]:
    """Return the terms of M, ``(n, K)``, as a new array."""
    return f.p @ terms.cross if terms.cross.size else np.zeros_like(f.a)


def logits(f: Features, terms: Terms, square_scale: float) -> NDArray[Any]:
    """Return eta, ``(n, K)``, as a new array."""
    return add_own(links(f, terms), f, terms, square_scale)


def add_own(eta: NDArray[Any], f: Features, terms: Terms, square_scale: float) -> NDArray[Any]:
    """Add all but the terms of M to `eta`; return it."""
    t = terms.t
    eta.reshape(-1)[f.place] += t[0] * f.large + t[4] * f.rest
    by_row = (1.0 + t[2] * f.entropy + t[3] * f.top)[:, None]
    square = t[1] / t.dtype.type(square_scale)
    for rows in row_blocks(*eta.shape):
        a = f.a[rows]
        own = a * square
        own += by_row[rows]
        own += terms.slope
        own *= a
        own += terms.b
        eta[rows] += own
    return eta


def work_of(n_classes: int) -> Work:
    """Return how blocks are made: they are larger than the gradient that each of them returns."""
    return Work(max(TALL_BLOCK_BYTES, 32 * n_classes**2 if is_linked(n_classes) else 0), 1)


class Block(NamedTuple):
    """Features of a block of rows, codes and weights, and the scale of squares."""

    features: Features
    code: Intp
    w: Float64Array
    square_scale: float

    def _terms(self, theta: Float64Array) -> Terms:
        return unpack(theta, self.features.a.shape[1], self.features.a.dtype)

    def value_and_gradient(self, theta: Float64Array) -> tuple[float, Float64Array]:
        """Return the NLL and its gradient."""
        Q = logits(self.features, self._terms(theta), self.square_scale)
        value = 0.0
        for rows in row_blocks(*Q.shape):
            value += nll_to_residual(Q[rows], self.code[rows], self.w[rows])
        return value, self._adjoint(Q)

    def hessian(self, theta: Float64Array) -> Diagonal:
        """Return the diagonal of the Hessian."""
        Q = logits(self.features, self._terms(theta), self.square_scale)
        for rows in row_blocks(*Q.shape):
            softmax_inplace(Q[rows])
        return Diagonal(self._diagonal(Q))

    def _adjoint(self, R: NDArray[Any]) -> Float64Array:
        f, K = self.features, R.shape[1]
        at_large = R.reshape(-1)[f.place]
        t = np.array([at_large @ f.large, 0.0, 0.0, 0.0, at_large @ f.rest])
        b, slope = np.zeros((2, K))
        for rows in row_blocks(*R.shape):
            a, part = f.a[rows], R[rows]
            b += part.sum(axis=0)
            Ra = part * a
            slope += Ra.sum(axis=0)
            by_row = Ra.sum(axis=1)
            t[1] += np.vdot(Ra, a) / self.square_scale
            t[2] += by_row @ f.entropy[rows]
            t[3] += by_row @ f.top[rows]
        cross = (f.p.T @ R).ravel() if is_linked(K) else np.empty(0)
        return np.concatenate([t, b, slope, cross], dtype=np.float64)

    def _diagonal(self, Q: NDArray[Any]) -> Float64Array:
        f, w, K = self.features, self.w, Q.shape[1]
        t = np.zeros(N_SHARED)
        row, at_large = f.place // K, Q.reshape(-1)[f.place]
        for j, x in ((0, f.large), (4, f.rest)):
            mean = np.bincount(row, at_large * x, len(w))
            t[j] = w @ (np.bincount(row, at_large * x * x, len(w)) - mean * mean)
        b, slope = np.zeros((2, K))
        for rows in row_blocks(*Q.shape):
            a, part = f.a[rows], Q[rows]
            square, scaled = a * a, part * a
            mean = scaled.sum(axis=1)
            spread = w[rows] * (np.einsum("ij,ij->i", scaled, a) - mean * mean)
            t[2] += f.entropy[rows] ** 2 @ spread
            t[3] += f.top[rows] ** 2 @ spread
            np.multiply(part, square, out=scaled)
            mean = scaled.sum(axis=1)
            spread = np.einsum("ij,ij->i", scaled, square) - mean * mean
            t[1] += w[rows] @ spread / self.square_scale**2
            part *= 1.0 - part
            part *= w[rows].astype(Q.dtype)[:, None]
            b += part.sum(axis=0)
            slope += np.einsum("ij,ij->j", part, square)
        cross = ((f.p * f.p).T @ Q).ravel() if is_linked(K) else np.empty(0)
        return np.concatenate([t, b, slope, cross])


def features_of_block(Z: Float64Array, code: Intp, w: Float64Array, smoothing: Smoothing) -> Block:
    """Return what the loss of a block of logits ``(n, K)`` needs."""
    return Block(make_features(Z, smoothing), code, w, smoothing.square_scale)
