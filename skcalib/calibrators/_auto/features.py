r"""Smoothed log-scores, and the features that logits are linear in.

With scores :math:`z` scaled by :math:`\beta`, :math:`p = \mathrm{softmax}(\beta z)`, and n the sum
of the calibration weights,

.. math:: q = (1 - \epsilon) p + \epsilon / K, \quad a = \log q, \quad \epsilon = 1 / (n + 1)

so that :math:`a \ge -\log(K (n + 1))`: n rows give no evidence on smaller probabilities.
With :math:`s = \log(n K)`, H the entropy of a row of :math:`q` and
:math:`r_k = \log(1 - q_k + 1/(nK))`, the logits are

.. math::

    \eta_k = a_k + t_1 q_k + t_2 \frac{a_k^2}{s} + t_3 a_k H + t_4 a_k \max_l a_l + t_5 r_k
             + t_6 a_k + b_k + U_k a_k + V_{1k} q_k + V_{2k} \frac{a_k^2}{s} + V_{3k} r_k
             + \sum_l M_{kl} p_l + \sum_l L_{kl} (a_l - \bar a_l) .

A :class:`Layout` says which of these terms a fit has, and where they are in its parameters.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy.sparse import csr_array

from skcalib._arrays.types import Float64Array
from skcalib._scores.softmax import softmax_inplace

# With more classes than this, probabilities below SMALLEST_CROSS are left out of `cross`: there are
# very many of them, and they are too small to change a logit.
SPARSE_CLASSES = 30
SMALLEST_CROSS = 1e-2

# Number of features of the groups with parameters for single classes.
N_OWN = {"b": 1, "U": 1, "V": 3}


class Smoothing(NamedTuple):
    """Scale ``beta``, sum of weights ``n`` and mean ``centre (K,)`` of a, on calibration rows."""

    beta: float
    n: float
    centre: Float64Array

    @property
    def square_scale(self) -> float:
        """Log(n K), at least log K: the scale of a."""
        return float(np.log(max(self.n, 1.0) * self.centre.size))


class Features(NamedTuple):
    """Features of a block of rows, float64 or float32.

    ``a``, ``q`` and ``rest`` are ``(n, K)``: log-score, score, log(1 - q + 1/(nK)); ``entropy``
    and ``top`` are ``(n,)``: those of q, and the largest a; ``cross (n, m)``: p, and a - mean a.
    """

    a: NDArray[Any]
    q: NDArray[Any]
    rest: NDArray[Any]
    entropy: NDArray[Any]
    top: NDArray[Any]
    cross: Any


def smooth(Z: Float64Array, beta: float, n: float) -> Float64Array:
    """Return q of logits ``(n, K)``: softmax with scale `beta`, mixed with 1/K."""
    q = softmax_inplace(beta * Z)
    q *= n / (n + 1.0)
    q += 1.0 / (Z.shape[1] * (n + 1.0))
    return q


def make_features(
    Z: Float64Array, smoothing: Smoothing, groups: tuple[str, ...], dtype: DTypeLike = np.float64
) -> Features:
    """Return the features of a block of logits ``(n, K)``."""
    n_classes = Z.shape[1]
    q = smooth(Z, smoothing.beta, smoothing.n)
    a = np.log(q)
    rest = np.log(1.0 - q + 1.0 / (smoothing.n * n_classes))
    entropy = -np.einsum("ij,ij->i", q, a)
    cross: Any = None
    if "M" in groups:
        # p = (q - eps / K) / (1 - eps), at least 0 in spite of rounding.
        cross = np.maximum(q - 1.0 / (n_classes * (smoothing.n + 1.0)), 0.0) * (
            1.0 + 1.0 / smoothing.n
        )
        if n_classes > SPARSE_CLASSES:
            cross[cross < SMALLEST_CROSS] = 0.0
            cross = csr_array(cross.astype(dtype, copy=False))
        if "L" in groups:
            cross = np.hstack([cross, a - smoothing.centre])
    dense = [x.astype(dtype, copy=False) for x in (a, q, rest, entropy, a.max(axis=1))]
    return Features._make([*dense, cross])


def take_rows(f: Features, rows: slice) -> Features:
    """Return some rows of a block, as views."""
    return Features._make(None if part is None else part[rows] for part in f)


class Terms(NamedTuple):
    """The parameters of a fit by feature.

    ``entropy`` and ``top`` are the scalars :math:`t_3, t_4`; ``slope``, ``q``, ``square``,
    ``rest`` and ``b`` are ``(K,)`` and include the shared terms; ``cross`` is ``(m, K)``.
    """

    entropy: float
    top: float
    slope: NDArray[Any]
    q: NDArray[Any]
    square: NDArray[Any]
    rest: NDArray[Any]
    b: NDArray[Any]
    cross: NDArray[Any]


class Layout:
    """The groups of terms and their places in theta: t, then rows of K for b, U, V, M and L.

    Parameters
    ----------
    n_classes : int
    groups : tuple of str
        "t" and some of "b", "U", "V", "M", "L", in this order.
    n_shared : {5, 6}
        Length of t. The sixth is a slope shared by all classes, which U can express too.
    """

    def __init__(self, n_classes: int, groups: tuple[str, ...], n_shared: int = 5) -> None:
        self.n_classes = n_classes
        self.names = groups
        self.n_shared = n_shared
        self.groups: dict[str, slice] = {}
        start = 0
        for name in groups:
            rows = N_OWN.get(name, n_classes)
            stop = start + (n_shared if name == "t" else rows * n_classes)
            self.groups[name] = slice(start, stop)
            start = stop
        self.size = start
        self.n_own = sum(N_OWN.get(name, 0) for name in groups)

    def unpack(self, theta: Float64Array, dtype: DTypeLike = np.float64) -> Terms:
        """Convert parameters to terms; t is added to the terms of single classes."""
        K = self.n_classes
        t = np.append(theta[self.groups["t"]], np.zeros(6 - self.n_shared))
        own = np.zeros((5, K))
        own[: self.n_own] = theta[self.n_shared :].reshape(-1, K)[: self.n_own]
        cross = theta[self.n_shared + self.n_own * K :].reshape(-1, K)
        b, slope, q, square, rest = own + np.array([0.0, t[5], t[0], t[1], t[4]])[:, None]
        return Terms(t[2], t[3], *(x.astype(dtype) for x in (slope, q, square, rest, b, cross)))

    def pack(self, terms: Terms) -> Float64Array:
        """Convert derivatives by terms to derivatives by parameters; the adjoint of `unpack`."""
        own = np.array([terms.b, terms.slope, terms.q, terms.square, terms.rest])
        _, slope, q, square, rest = own.sum(axis=1)
        t = np.array([q, square, terms.entropy, terms.top, rest, slope])
        return np.concatenate([t[: self.n_shared], own[: self.n_own].ravel(), terms.cross.ravel()])


def logits(f: Features, terms: Terms, square_scale: float) -> NDArray[Any]:
    r"""Return :math:`\eta`, ``(n, K)``, as a new array."""
    eta = f.a * (terms.square / square_scale).astype(f.a.dtype)
    eta += (1.0 + terms.entropy * f.entropy + terms.top * f.top).astype(f.a.dtype)[:, None]
    eta += terms.slope
    eta *= f.a
    eta += terms.q * f.q
    eta += terms.rest * f.rest
    eta += terms.b
    if f.cross is not None:
        eta += f.cross @ terms.cross
    return eta


def adjoint(f: Features, R: NDArray[Any], square_scale: float) -> Terms:
    """Return the sum over rows of `R` times the derivatives of `logits` by its terms."""
    Ra = R * f.a
    by_row = Ra.sum(axis=1)
    return Terms(
        float(by_row @ f.entropy),
        float(by_row @ f.top),
        Ra.sum(axis=0),
        (R * f.q).sum(axis=0),
        (Ra * f.a).sum(axis=0) / square_scale,
        (R * f.rest).sum(axis=0),
        R.sum(axis=0),
        np.zeros((0, R.shape[1])) if f.cross is None else f.cross.T @ R,
    )


def shared_features(f: Features, square_scale: float, n_shared: int) -> list[NDArray[Any]]:
    """Return the features of t, ``(n, K)`` each."""
    return [
        f.q,
        f.a * f.a / f.a.dtype.type(square_scale),
        f.a * f.entropy[:, None],
        f.a * f.top[:, None],
        f.rest,
        f.a,
    ][:n_shared]


def own_features(f: Features, square_scale: float, n_own: int) -> list[NDArray[Any]]:
    """Return the features of b, U and V, ``(n, K)`` each."""
    square = f.a * f.a / f.a.dtype.type(square_scale)
    return [np.ones_like(f.a), f.a, f.q, square, f.rest][:n_own]
