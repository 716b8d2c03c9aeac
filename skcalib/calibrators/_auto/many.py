r"""Features of the scores for more than 30 classes, and the loss of their coefficients.

With :math:`\tilde p = p` where :math:`p \ge 0.01` and 0 elsewhere, and the symbols of `few`,

.. math::

    \eta_k = a_k & + t_1 \tilde p_k + t_2 \frac{a_k^2}{s} + t_3 a_k H + t_4 a_k \max_l a_l
                   + t_5 \log\Big(1 - \frac{\tilde p_k}{1 + 1/(nK)}\Big) \\
                 & + b_k + U_k a_k + \sum_l M_{kl} \tilde p_l .

The many smaller probabilities would hardly change a logit. Only the diagonal of the Hessian is
computed. With more than 1,000 classes M is left out, because its fit needs about 300 bytes for each
of the K^2 entries. Features are float32, and sums over blocks are float64.
"""

from __future__ import annotations

from functools import reduce
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from skcalib._arrays.rowwise import TALL_BLOCK_BYTES, Float64Array, Intp
from skcalib._arrays.sources import Work, add
from skcalib._arrays.tensors import ops_for
from skcalib._scaling.evidence import DiagonalPosterior, nll_to_residual
from skcalib._scores.scores import softmax_inplace
from skcalib.calibrators._auto.smoothing import Smoothing

SMALLEST = 1e-2
# Up to this number of classes, products with the probabilities p are faster if p is a dense array.
LARGEST_DENSE = 300
# Up to this number of classes, a fit has terms that link pairs of classes.
LARGEST_LINKED = 1000
N_SHARED = 5


def is_linked(n_classes: int) -> bool:
    """Return whether a fit with this number of classes has terms that link pairs of classes."""
    return n_classes <= LARGEST_LINKED


def groups_of(n_classes: int) -> dict[str, slice]:
    """Return the slices of the parameters theta, by the name of the group of parameters."""
    K, m = n_classes, N_SHARED
    groups = {"t": slice(0, m), "b": slice(m, m + K), "U": slice(m + K, m + 2 * K)}
    if is_linked(K):
        groups["M"] = slice(m + 2 * K, m + 2 * K + K * K)
    return groups


def unpack(theta: Float64Array, n_classes: int) -> list[NDArray[Any]]:
    """Split the parameters theta into t, b, U and M; without terms of pairs, M has no rows."""
    parts = [theta[part] for part in groups_of(n_classes).values()]
    return [*parts[:3], (parts[3] if parts[3:] else theta[:0]).reshape(-1, n_classes)]


def work_of(n_classes: int) -> Work:
    """Return a block size at which a block of rows needs more memory than its gradient."""
    return Work(max(TALL_BLOCK_BYTES, 32 * n_classes**2 if is_linked(n_classes) else 0), 1)


class BlockOfMany(NamedTuple):
    """A block of n rows for a fit with more than 30 classes: features, labels and weights.

    ``a`` and ``p`` are ``(n, K)``, and p is sparse for many classes. ``place`` contains the flat
    indices of the entries of p above 0, and ``large`` and ``rest`` the features of t at these
    indices. ``entropy`` and ``top`` are ``(n,)``.
    """

    a: NDArray[Any]
    p: Any
    place: Intp
    large: NDArray[Any]
    rest: NDArray[Any]
    entropy: NDArray[Any]
    top: NDArray[Any]
    code: Intp
    w: Float64Array
    square_scale: float

    def logits(self, theta: Float64Array) -> NDArray[Any]:
        """Return the calibrated logits ``(n, K)`` for parameters theta, as a new array."""
        t, b, slope, cross = unpack(ops_for(theta).single(theta), self.a.shape[1])
        eta = 0.0 * self.a if self.p is None else self.p @ cross
        eta.reshape(-1)[self.place] += t[0] * self.large + t[4] * self.rest
        by_row = (1.0 + t[2] * self.entropy + t[3] * self.top)[:, None]
        square = (t / self.square_scale)[1]
        for rows in ops_for(eta).pieces(eta):
            a = self.a[rows]
            own = a * square
            own += by_row[rows]
            own += slope
            own *= a
            own += b
            eta[rows] += own
        return eta

    def value_and_gradient(self, theta: Float64Array) -> tuple[float, Float64Array]:
        """Return the summed log loss of the block, and its gradient in theta."""
        R, value = self.logits(theta), 0.0
        r = ops_for(R)
        for rows in r.pieces(R):
            value += nll_to_residual(R[rows], self.code[rows], self.w[rows])
        at_large = R.reshape(-1)[self.place]

        def own(rows: slice) -> Float64Array:
            a, part = self.a[rows], R[rows]
            Ra = part * a
            by_row = Ra.sum(1)
            square = Ra.reshape(-1) @ a.reshape(-1) / self.square_scale
            t = r.vector([square, by_row @ self.entropy[rows], by_row @ self.top[rows]])
            return r.concatenate([t, part.sum(0), Ra.sum(0)])

        sums = reduce(add, map(own, r.pieces(R)))
        of_large = r.vector([at_large @ self.large, at_large @ self.rest])
        cross = [] if self.p is None else [(self.p.T @ R).reshape(-1)]
        return value, r.concatenate([of_large[:1], sums[:3], of_large[1:], sums[3:], *cross])

    def hessian(self, theta: Float64Array) -> DiagonalPosterior:
        """Return the diagonal of the Hessian of the log loss in theta."""
        Q, w = self.logits(theta), self.w
        r = ops_for(Q)
        for rows in r.pieces(Q):
            softmax_inplace(Q[rows])
        row, at_large = self.place // Q.shape[1], Q.reshape(-1)[self.place]

        def of_large(x: NDArray[Any]) -> Any:
            mean, square = (r.totals(row, at_large * y, len(w)) for y in (x, x * x))
            return w @ (square - mean * mean)

        def own(rows: slice) -> Float64Array:
            a, part, share = self.a[rows], Q[rows], w[rows]
            scaled, square = part * a, a * a
            mean = r.copied(scaled.sum(1))
            spread = share * (r.row_dots(scaled, a) - mean * mean)
            by_row = [spread @ r.copied(x[rows]) ** 2 for x in (self.entropy, self.top)]
            scaled *= a
            mean = r.copied(scaled.sum(1))
            of_square = share @ (r.row_dots(scaled, square) - mean * mean)
            part *= 1.0 - part
            r.times_rows_(part, share)
            t = r.vector([of_square / self.square_scale**2, *by_row])
            return r.concatenate([t, part.sum(0), (part * square).sum(0)])

        t = r.vector([of_large(self.large), of_large(self.rest)])
        sums = reduce(add, map(own, r.pieces(Q)))
        cross = [] if self.p is None else [((self.p * self.p).T @ Q).reshape(-1)]
        return DiagonalPosterior(r.concatenate([t[:1], sums[:3], t[1:], sums[3:], *cross]))


def features_of_many(
    Z: Float64Array, code: Intp, w: Float64Array, smoothing: Smoothing
) -> BlockOfMany:
    """Compute the features of a block of logits ``(n, K)``."""
    r, K = ops_for(Z), smoothing.n_classes
    p = smoothing.proba(Z)
    q = smoothing.mix(p)
    a = r.log(q)
    entropy = -r.row_dots(q, a)
    p[p < SMALLEST] = 0.0
    place = r.places(p)
    large = p.reshape(-1)[place]
    rest = r.log1p(large / -(1.0 + 1.0 / (smoothing.n * K)))
    linked: Any = r.single(p) if is_linked(K) else None
    if isinstance(linked, np.ndarray) and K > LARGEST_DENSE:
        linked = csr_array(linked)
    large, rest, entropy, top = map(r.single, (large, rest, entropy, r.row_max(a)))
    scale = smoothing.square_scale
    return BlockOfMany(r.single(a), linked, place, large, rest, entropy, top, code, w, scale)
