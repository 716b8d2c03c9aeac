r"""Logistic splines of the logit whose smoothness the labels set.

Of cells with logits x, W rows and H hits, :math:`q = \mathrm{expit}(x + X \theta)` with the columns
X of `spline`. The coefficients of the line have normal priors of standard deviation 5, those of the
wiggles of standard deviation :math:`\tau`. For each :math:`\tau` of a grid a fit minimises

.. math:: E(\theta) = \sum_c W_c \log(1 + e^{\eta_c}) - H_c \eta_c
                      + \tfrac12 \sum_j \alpha_j \theta_j^2

by Newton's method; with A its second derivative there, Laplace's estimate of the log evidence is

.. math:: -E + \tfrac12 \sum_j \log \alpha_j - \tfrac12 \log \det A .

The result is the mixture of all fits, with weights by evidence and a half-normal prior of
:math:`\tau`: its mean, and its covariance, which includes how uncertain :math:`\tau` is.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import expit, softmax

from skcalib._arrays.types import Float64Array
from skcalib.metrics._curves.spline import KNOTS, LINE, SplineBasis

# Standard deviation of intercept and slope, beside those of "calibrated": weak, and enough to keep
# them finite where all hits have higher scores than all others.
LINE_SD = 5.0
# Standard deviations of the wiggles, in logits; that of their own prior.
TAUS = np.geomspace(0.02, 3.0, 8)
TAU_SD = 1.0
MAX_ITER, MAX_HALVINGS = 100, 40
# A fit ends when a step lowers E by less.
SMALLEST_GAIN = 1e-8
# Ends of intervals are found to this share. The least share of the prior in a direction.
PRECISION, LEAST_REST = 1e-6, 1e-6


class Curves(NamedTuple):
    """R curves: coefficients ``(R, size)``, their covariance, and the weight of each tau."""

    theta: Float64Array
    covariance: Float64Array
    weight: Float64Array


class Smoother:
    """Fits curves to the hits of the same cells.

    Parameters
    ----------
    x, W : ndarray of shape (m,)
        Ascending logits and numbers of rows of the cells.
    n_knots : int
        Number of knots.
    taus : ndarray
        Standard deviations of the wiggles.
    """

    def __init__(
        self, x: Float64Array, W: Float64Array, n_knots: int = KNOTS, taus: Float64Array = TAUS
    ) -> None:
        self.x, self.W = x, W
        self.basis = SplineBasis(x, W, n_knots)
        self.taus = taus if self.basis.size > LINE else taus[:1]
        self.X = self.basis.columns(x)
        self._pairs = (self.X[:, :, None] * self.X[:, None, :]).reshape(x.size, -1)

    def fit(self, H: Float64Array) -> Curves:
        """Fit a curve to each row of hits ``(R, m)``."""
        theta = np.zeros((len(H), self.basis.size))
        thetas, covariances, evidence = [], [], []
        for tau in self.taus:
            alpha = np.full(self.basis.size, tau**-2)
            alpha[:LINE] = LINE_SD**-2
            theta, lowest, A = self._minimise(theta, H, alpha)
            thetas.append(theta)
            covariances.append(np.linalg.inv(A))
            log_det = np.linalg.slogdet(A)[1]
            # The grid is even in log tau, the prior in tau.
            prior = np.log(tau) - 0.5 * (tau / TAU_SD) ** 2
            evidence.append(-lowest + 0.5 * np.log(alpha).sum() - 0.5 * log_det + prior)
        weight = softmax(evidence, axis=0)
        mean = np.einsum("tr,trj->rj", weight, thetas)
        away = np.array(thetas) - mean
        covariance = np.einsum("tr,trjk->rjk", weight, covariances)
        covariance += np.einsum("tr,trj,trk->rjk", weight, away, away)
        return Curves(mean, covariance, weight.T)

    def logits(self, theta: Float64Array) -> Float64Array:
        """Return the curves ``(R, m)`` at the cells."""
        return self.x + theta @ self.X.T

    def spread(
        self, theta: Float64Array, covariance: Float64Array, at: Float64Array, factor: float
    ) -> tuple[Float64Array, Float64Array]:
        r"""Return how far a curve may fall and rise at logits ``(g,)``, in logits.

        With l the columns at a logit and :math:`\sigma^2 = l' V l`, coefficients move along
        :math:`d = t V l / \sigma`. A normal posterior reaches as far as :math:`t = \pm c`; here t
        is where

        .. math:: t^2 - d' I d + 2 \big(\mathrm{NLL}(\theta + d) - \mathrm{NLL}(\theta)
                  - \nabla \mathrm{NLL}(\theta)' d\big) = c^2,

        I being the second derivative of the NLL. Where events are few a curve can fall further than
        it can rise.
        """
        columns = self.basis.columns(at)
        moved_by = columns @ covariance
        sd = np.sqrt(np.einsum("gj,gj->g", moved_by, columns))
        move = (moved_by / sd[:, None]) @ self.X.T
        eta = self.logits(theta)
        q = expit(eta)
        rest = np.maximum(1.0 - (move * move) @ (self.W * q * (1.0 - q)), LEAST_REST)
        ends = []
        for sign in (-1.0, 1.0):
            t = np.full(at.size, factor)
            for _ in range(MAX_ITER):
                moved = eta + sign * t[:, None] * move
                excess = np.logaddexp(0.0, moved) - np.logaddexp(0.0, eta)
                excess -= q * (moved - eta)
                value = rest * t * t + 2.0 * excess @ self.W - factor**2
                slope = 2.0 * rest * t
                slope += 2.0 * sign * ((expit(moved) - q) * move) @ self.W
                # The left-hand side is convex: after one step, t falls to the root.
                step = value / slope
                t = np.maximum(t - step, 1e-3 * factor)
                if np.abs(step).max() < PRECISION * factor:
                    break
            ends.append(t * sd)
        return ends[0], ends[1]

    def _minimise(
        self, theta: Float64Array, H: Float64Array, alpha: Float64Array
    ) -> tuple[Float64Array, Float64Array, Float64Array]:
        """Return minima ``(R, size)``, E there ``(R,)`` and its second derivatives."""
        value, eta = self._objective(theta, H, alpha)
        for _ in range(MAX_ITER):
            q = expit(eta)
            gradient = (self.W * q - H) @ self.X + alpha * theta
            A = self._second(q, alpha)
            step = -np.linalg.solve(A, gradient[:, :, None])[:, :, 0]
            gain = -np.einsum("rj,rj->r", gradient, step)
            length = np.ones(len(H))
            for _ in range(MAX_HALVINGS):
                new = theta + length[:, None] * step
                new_value, eta = self._objective(new, H, alpha)
                worse = new_value > value + 1e-12 * np.abs(value) + SMALLEST_GAIN
                if not worse.any():
                    break
                length[worse] /= 2.0
            theta, value = new, new_value
            if gain.max() < SMALLEST_GAIN:
                break
        return theta, value, self._second(expit(eta), alpha)

    def _objective(
        self, theta: Float64Array, H: Float64Array, alpha: Float64Array
    ) -> tuple[Float64Array, Float64Array]:
        eta = self.logits(theta)
        value = (self.W * np.logaddexp(0.0, eta) - H * eta).sum(axis=1)
        return value + 0.5 * (theta * theta) @ alpha, eta

    def _second(self, q: Float64Array, alpha: Float64Array) -> Float64Array:
        A = ((self.W * q * (1.0 - q)) @ self._pairs).reshape(len(q), *2 * (alpha.size,))
        return A + np.diag(alpha)
