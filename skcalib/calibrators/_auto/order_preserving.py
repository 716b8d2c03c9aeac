r"""Shared features that increase with the score, so that the order of the classes is kept.

Each of

.. math::

    a_k, \quad a_k \frac{H}{\log K}, \quad a_k \Big(1 - \frac{H}{\log K}\Big), \quad
    a_k \frac{-\max_l a_l}{\log K}, \quad a_k \Big(1 + \frac{\max_l a_l}{\log K}\Big), \quad
    q_k, \quad -\frac{a_k^2}{s}, \quad -\log(1 - q_k + 1/(nK))

is a non-decreasing function of :math:`q_k` within a row. The first five are
:math:`a_k = \log q_k` times a factor that is the same for all classes of the row and in [0, 1],
because :math:`0 \le H \le \log K` and the largest entry of :math:`q` is at least 1/K. The last
three are increasing functions of :math:`q_k` on (0, 1]. So a sum of these features with
coefficients :math:`c \ge 0`, the first one positive, increases strictly with :math:`q_k`, and
:math:`q_k` increases strictly with the score.
"""

from __future__ import annotations

import numpy as np

from skcalib._arrays.types import Float64Array
from skcalib.calibrators._auto.nll import FeatureNLL

SMALLEST_SLOPE = 0.01


def to_shared(n_classes: int) -> Float64Array:
    """Return the matrix ``(6, 8)`` that maps c to t; the sixth of t includes the slope 1 of a."""
    per = 1.0 / np.log(n_classes)
    T = np.zeros((6, 8))
    T[5, [0, 2, 4]] = 1.0  # a
    T[2, [1, 2]] = per, -per  # a H
    T[3, [3, 4]] = -per, per  # a max a
    T[0, 5], T[1, 6], T[4, 7] = 1.0, -1.0, -1.0
    return T


def smallest() -> Float64Array:
    """Return the lower bounds of c."""
    low = np.zeros(8)
    low[0] = SMALLEST_SLOPE
    return low


class OrderPreservingNLL:
    """The NLL of six shared terms as a function of c, with the diagonal of its Hessian."""

    def __init__(self, nll: FeatureNLL) -> None:
        self._nll = nll
        self._T = to_shared(nll.layout.n_classes)

    def theta(self, c: Float64Array) -> Float64Array:
        """Return t for coefficients c."""
        t = self._T @ c
        t[5] -= 1.0
        return t

    def value_and_gradient(self, c: Float64Array) -> tuple[float, Float64Array]:
        """Return the NLL and its gradient by c."""
        value, gradient = self._nll.value_and_gradient(self.theta(c))
        return value, self._T.T @ gradient

    def hessian(self, c: Float64Array) -> Float64Array:
        """Return the diagonal of the Hessian by c."""
        H = self._nll.hessian(self.theta(c))
        return np.einsum("ji,jk,ki->i", self._T, H, self._T)
