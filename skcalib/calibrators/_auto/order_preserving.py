r"""Features for ``AutoCalibrator(order_preserving=True)``, which increase with the score in a row.

Each of

.. math::

    a_k, \quad a_k \frac{H}{\log K}, \quad a_k \Big(1 - \frac{H}{\log K}\Big), \quad
    a_k \frac{-\max_l a_l}{\log K}, \quad a_k \Big(1 + \frac{\max_l a_l}{\log K}\Big), \quad
    q_k, \quad -\frac{a_k^2}{s}, \quad -\log(1 - q_k + 1/(nK)), \quad
    \min(\max(8 u_k - j, 0), 1), \; j = 0, \dots, 7

is a non-decreasing function of :math:`q_k` within a row. The first five are
:math:`a_k = \log q_k` times a factor that is the same for all classes of the row and in [0, 1],
because :math:`0 \le H \le \log K` and the largest entry of :math:`q` is at least 1/K. The others
are non-decreasing functions of :math:`q_k`, as its position :math:`u_k` is. The offset
:math:`a'_k` increases with :math:`q_k` at least as much as :math:`a_k` does. So the offset plus
these features with coefficients :math:`c \ge 0`, the first one at least -0.99, increases strictly
with :math:`q_k`, and :math:`q_k` increases strictly with the score.

All features are functions of :math:`a_k` and of two numbers of the row. With many classes, a fit
uses the exact values of the 8 largest log-scores of a row, and groups the others in 24 levels.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skcalib._arrays.rowwise import Float64Array, Intp
from skcalib._scaling.evidence import Bounded
from skcalib.calibrators._auto.smoothing import OFFSET_SHARE, Position, Smoothing

N_TERMS, N_HINGES = 8, 8
GROUPS = {"t": slice(0, N_TERMS), "R": slice(N_TERMS, N_TERMS + N_HINGES)}
SIZE = N_TERMS + N_HINGES
LOWER_BOUNDS = np.append(-0.99, np.zeros(SIZE - 1))
# In each row, the N_LARGEST largest log-scores are used exactly. All other log-scores of the row
# are grouped into N_LEVELS levels.
N_LARGEST, N_LEVELS = 8, 24
# Coefficients that exceed their lower bound by less than this number are fixed at the bound.
FREE = 1e-6


class MonotoneFeatures(NamedTuple):
    """Offsets ``(m, n)`` and features ``(16, m, n)`` for m log-scores of each of n rows."""

    offset: Float64Array
    features: Float64Array

    def logits(self, c: Float64Array) -> Float64Array:
        """Return the calibrated logits of m classes and n rows for the coefficients c."""
        return self.offset + np.tensordot(c, self.features, axes=1)


def count_levels(a: Float64Array) -> tuple[Float64Array, Float64Array]:
    """Group log-scores ``(K, n)`` into 32 levels for each row, and count classes per level.

    A level of several classes is the logarithm of their mean score.
    """
    K, n = a.shape
    a = np.partition(a, K - N_LARGEST, axis=0)
    small = a[: K - N_LARGEST]
    low = small.min(axis=0)
    width = np.maximum(small.max(axis=0) - low, 1e-12)
    level = np.minimum(((small - low) * (N_LEVELS / width)).astype(np.intp), N_LEVELS - 1)
    index = (level * n + np.arange(n)).ravel()
    count = np.bincount(index, minlength=N_LEVELS * n).reshape(N_LEVELS, n)
    total = np.bincount(index, np.exp(small).ravel(), N_LEVELS * n).reshape(N_LEVELS, n)
    mean = np.log(total / np.maximum(count, 1), out=np.zeros_like(total), where=count > 0)
    counts = np.concatenate([count.astype(np.float64), np.ones((N_LARGEST, n))])
    return np.concatenate([mean, a[K - N_LARGEST :]]), counts


class BlockInOrder(NamedTuple):
    """A block of rows: features of levels and of true classes, weights, and classes per level."""

    levels: MonotoneFeatures
    true: MonotoneFeatures
    w: Float64Array
    counts: Float64Array | float

    def softmax(self, c: Float64Array) -> tuple[Float64Array, float]:
        """Return the probability of each level of scores (the sum of its classes), and the loss."""
        eta = self.levels.logits(c)
        top = eta.max(axis=0)
        Q = np.exp(eta - top)
        Q *= self.counts
        total = Q.sum(axis=0)
        Q /= total
        return Q, float(self.w @ (np.log(total) + top - self.true.logits(c)[0]))

    def value_and_gradient(self, c: Float64Array) -> tuple[float, Float64Array]:
        """Return the summed log loss of the block, and its gradient in the coefficients c."""
        Q, value = self.softmax(c)
        Q *= self.w
        gradient = self.levels.features.reshape(SIZE, -1) @ Q.ravel()
        return value, gradient - self.true.features[:, 0] @ self.w

    def hessian(self, c: Float64Array) -> Bounded:
        """Return the Hessian of the summed loss, and which coefficients are above their bounds."""
        f, (Q, _) = self.levels.features, self.softmax(c)
        mean = np.einsum("mn,jmn->jn", Q, f) * np.sqrt(self.w)
        X = (f * np.sqrt(Q * self.w)).reshape(SIZE, -1)
        return Bounded(X @ X.T - mean @ mean.T, c > LOWER_BOUNDS + FREE)


def features_in_order(
    Z: Float64Array, code: Intp, w: Float64Array, smoothing: Smoothing, position: Position
) -> BlockInOrder:
    """Compute the order-preserving features of a block of logits ``(n, K)``."""
    n, K, epsilon = smoothing.n, smoothing.n_classes, smoothing.epsilon
    q = np.ascontiguousarray(smoothing.mix(smoothing.proba(Z)).T)
    a = np.log(q)
    # For each row: the entropy, and the largest log-score with its sign reversed, both divided by
    # log K.
    entropy, top = -np.einsum("kn,kn->n", q, a) / np.log(K), -a.max(axis=0) / np.log(K)

    def rising(a: Float64Array) -> MonotoneFeatures:
        """Return features that increase with the log-scores ``(m, n)``."""
        q = np.exp(a)
        p = np.maximum(q - epsilon / K, 0.0) / (1.0 - epsilon)
        X = np.empty((SIZE, *a.shape))
        X[0] = a
        X[1] = a * entropy
        np.subtract(a, X[1], out=X[2])
        X[3] = a * top
        np.subtract(a, X[3], out=X[4])
        X[5] = q
        X[6] = a * a / -smoothing.square_scale
        X[7] = -np.log(1.0 - q + 1.0 / (n * K))
        u = N_HINGES * position.of(a)
        for j in range(N_HINGES):
            np.clip(u - j, 0.0, 1.0, out=X[N_TERMS + j])
        return MonotoneFeatures(np.log(smoothing.mix(p, OFFSET_SHARE)), X)

    true = a[code, np.arange(code.size)][None]
    levels, counts = count_levels(a) if len(a) > N_LARGEST + N_LEVELS else (a, 1.0)
    return BlockInOrder(rising(levels), rising(true), w, counts)
