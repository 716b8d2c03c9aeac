r"""Features of the scores that logits are linear in, for up to 30 classes.

With p, q, a and a' of `smoothing`, :math:`s = \log(n K)`, H the entropy of a row of q, u the
position of a and :math:`\phi_j(u) = \sqrt 2 \cos(\pi j u) / j`,

.. math::

    \eta_k = a'_k & + t_1 q_k + t_2 \frac{a_k^2}{s} + t_3 a_k H + t_4 a_k \max_l a_l
                    + t_5 \log(1 - q_k + 1/(nK)) \\
                  & + b_k + \sum_{j=1}^{6} R_{jk} \phi_j(u_k)
                    + \sum_l M_{kl} p_l + \sum_l L_{kl} (a_l - \bar a_l) .

With two classes, M and L are left out.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skcalib._arrays.types import Float64Array
from skcalib.calibrators._auto.smoothing import OFFSET_SHARE, Position, Smoothing

N_SHARED, N_COSINES = 5, 6
# Terms of a class's own score, those shared by all classes first.
N_OWN = N_SHARED + 1 + N_COSINES


class Base(NamedTuple):
    """What features are made of, for a block of rows: each class a row, each row a column.

    ``offset``, ``a``, ``q``, ``rest`` and ``u`` are ``(K, n)``: a', a, q, log(1 - q + 1/(nK)) and
    the position of a; ``p`` is ``(K, n)``; ``entropy`` and ``top`` are ``(n,)``: the entropy of q
    and the largest a.
    """

    offset: Float64Array
    a: Float64Array
    q: Float64Array
    p: Float64Array
    rest: Float64Array
    u: Float64Array
    entropy: Float64Array
    top: Float64Array


def make_base(Z: Float64Array, smoothing: Smoothing, position: Position) -> Base:
    """Return the base of a block of logits ``(n, K)``."""
    p = np.ascontiguousarray(smoothing.proba(Z).T)
    q = smoothing.mix(p)
    a = np.log(q)
    offset = np.log(smoothing.mix(p, OFFSET_SHARE))
    rest = np.log(1.0 - q + 1.0 / (smoothing.n * smoothing.n_classes))
    entropy = -np.einsum("kn,kn->n", q, a)
    return Base(offset, a, q, p, rest, position.of(a), entropy, a.max(axis=0))


def own_terms(base: Base, square_scale: float) -> Float64Array:
    """Return the features of t, b and R of each class, ``(K, 12, n)``."""
    a, (K, n) = base.a, base.a.shape
    shared = [base.q, a * a / square_scale, a * base.entropy, a * base.top, base.rest]
    X = np.empty((K, N_OWN, n))
    for j, feature in enumerate(shared):
        X[:, j] = feature
    X[:, N_SHARED] = 1.0
    # cos(j x) by the recurrence of Chebyshev's polynomials.
    c = np.cos(np.pi * base.u)
    before, now = np.ones_like(c), c
    for j in range(1, N_COSINES + 1):
        np.multiply(now, np.sqrt(2.0) / j, out=X[:, N_SHARED + j])
        before, now = now, 2.0 * c * now - before
    return X


class Layout:
    """The groups of terms and their places in theta: t, then rows of K for b, R, M and L.

    Parameters
    ----------
    n_classes : int
    """

    def __init__(self, n_classes: int) -> None:
        K = self.n_classes = n_classes
        sizes = {"t": N_SHARED, "b": K, "R": N_COSINES * K}
        if K > 2:
            sizes |= {"M": K * K, "L": K * K}
        ends = np.cumsum(list(sizes.values()))
        self.groups = {
            name: slice(end - size, end)
            for (name, size), end in zip(sizes.items(), ends.tolist(), strict=True)
        }
        self.size = int(ends[-1])

    def unpack(self, theta: Float64Array) -> tuple[Float64Array, Float64Array]:
        """Return the coefficients of each class's own terms ``(K, 12)``, and of the cross terms."""
        K, n_own = self.n_classes, N_OWN - N_SHARED
        rows = theta[N_SHARED:].reshape(-1, K)
        own = np.empty((K, N_OWN))
        own[:, :N_SHARED] = theta[:N_SHARED]
        own[:, N_SHARED:] = rows[:n_own].T
        return own, rows[n_own:]

    def pack(self, own: Float64Array, cross: Float64Array) -> Float64Array:
        """Return derivatives by theta of those by coefficients; the adjoint of `unpack`."""
        shared, each = own[:, :N_SHARED].sum(axis=0), own[:, N_SHARED:].T
        return np.concatenate([shared, each.ravel(), cross.ravel()])


class Design(NamedTuple):
    """Features of a block of rows: ``offset (K, n)``, ``own (K, 12, n)``, ``cross (2 K, n)``."""

    offset: Float64Array
    own: Float64Array
    cross: Float64Array | None

    def logits(self, own: Float64Array, cross: Float64Array) -> Float64Array:
        """Return eta, ``(K, n)``, as a new array."""
        eta = np.matmul(own[:, None], self.own)[:, 0]
        eta += self.offset
        if self.cross is not None:
            eta += cross.T @ self.cross
        return eta

    def adjoint(self, R: Float64Array) -> tuple[Float64Array, Float64Array]:
        """Return the sums over rows of `R` times the derivatives of `logits`."""
        own = np.matmul(self.own, R[:, :, None])[:, :, 0]
        return own, np.empty((0, len(R))) if self.cross is None else self.cross @ R.T


def design_of_block(
    Z: Float64Array, smoothing: Smoothing, position: Position, centre: Float64Array | None
) -> Design:
    """Return the features of a block of logits ``(n, K)``; without `centre`, no cross terms."""
    base = make_base(Z, smoothing, position)
    cross = None if centre is None else np.concatenate([base.p, base.a - centre[:, None]])
    return Design(base.offset, own_terms(base, smoothing.square_scale), cross)
