r"""Corrections of the logits of groups, with one prior for all groups, whose widths the data set.

Rows of group g with centred logits :math:`x_k = z_k - \bar z_k` get the probabilities

.. math:: \mathrm{softmax}_k\big(z_k + b_{gk} + (s_g + d_{gk})\, x_k\big)

with parameters in three blocks: the slope :math:`s_g` of all classes, the shifts :math:`b_{gk}` and
the slopes :math:`d_{gk}` of each class. Each block f has a prior
:math:`\mathcal N(0, 1 / \alpha_f)`, and a group's parameters minimise

.. math:: E_g(\theta) = \sum_{i \in g} w_i \mathrm{NLL}_i + \tfrac12 \sum_f \alpha_f
          \|\theta_f\|^2 .

With H the Hessian of the first part at the minimum and :math:`A = H + \mathrm{diag}(\alpha)`,
a group determines :math:`\gamma_{gf} = \sum_{j \in f} (1 - \alpha_f (A^{-1})_{jj})` of the
parameters of a block, and Laplace's estimate of the log evidence, up to a constant, is

.. math:: \sum_g \big(-E_g + \tfrac12 \sum_j \log \alpha_j - \tfrac12 \log \det A_g\big) .

The strengths maximise it, with a half-Cauchy prior of scale 1 on :math:`\alpha_f^{-1/2}`, by
MacKay's fixed point

.. math:: \alpha_f \leftarrow \frac{\sum_g \gamma_{gf} + 2 / (1 + \alpha_f)}
                              {\sum_g \|\theta_{gf}\|^2} .

How different groups are is not known for sure, least where there are few: the parameters are means
over that width of the prior, a third and a ninth of it, and 0, the weights of which are their
evidence.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skcalib._arrays.types import Float64Array, Intp
from skcalib._scores.softmax import softmax_inplace

# With more classes, a group has a slope alone.
MOST_CLASSES = 100
# Rounds of the strengths, the largest change of the log of one of them, and the gain of evidence at
# which they end.
ROUNDS, LARGEST_CHANGE, SMALL_GAIN = 40, 2.0, 0.02
LARGEST_RATIO = 0.8
FIRST_STRENGTH, WEAKEST, STRONGEST = 10.0, 1e-2, 1e8
TINY = 1e-30
# Widths of the prior beside the likeliest one, as shares of it.
NARROWER = (1 / 3, 1 / 9)
# Newton steps, the smallest share of a step, and the fall of the objective at which a fit ends.
STEPS, SMALLEST_STEP, SMALL_FALL = 50, 1e-9, 1e-6


class Blocks(NamedTuple):
    """Which parameters there are for K classes, block by block."""

    n_classes: int

    @property
    def slices(self) -> list[slice]:
        """The place of each block: slope of all classes, shifts, slopes of each class."""
        K = self.n_classes
        if K > MOST_CLASSES:
            return [slice(0, 1)]
        return [slice(0, 1), slice(1, K + 1), slice(K + 1, 2 * K + 1)]

    @property
    def size(self) -> int:
        """Number of parameters of a group."""
        return self.slices[-1].stop

    def spread(self, values: Float64Array) -> Float64Array:
        """Return a number for each parameter from one for each block."""
        return np.repeat(values, [part.stop - part.start for part in self.slices])

    def unpack(self, theta: Float64Array) -> tuple[Float64Array, Float64Array]:
        """Return the shifts ``(K,)`` and the slopes ``(K,)`` that are added."""
        K = self.n_classes
        if K > MOST_CLASSES:
            return np.zeros(K), np.full(K, theta[0])
        return theta[1 : K + 1], theta[0] + theta[K + 1 :]


class GroupRows(NamedTuple):
    """Rows of a group: logits ``Z (n, K)``, centred ones ``X``, classes ``(n,)``, weights."""

    Z: Float64Array
    X: Float64Array
    code: Intp
    w: Float64Array


class PooledFit(NamedTuple):
    """Parameters ``(G, m)``, how many the rows of each group determine, strengths of the blocks."""

    theta: Float64Array
    dof: Float64Array
    strengths: Float64Array


class Fits(NamedTuple):
    """Fits of all groups for given strengths, and their log evidence.

    Parameters ``(G, m)``; of each block, how many of them the rows determine, ``(G, blocks)``.
    """

    theta: Float64Array
    dof: Float64Array
    evidence: float


def loss_of(rows: GroupRows, theta: Float64Array, blocks: Blocks) -> tuple[float, Float64Array]:
    """Return the NLL of a group, and its probabilities ``(n, K)``."""
    shift, slope = blocks.unpack(theta)
    eta = rows.Z + shift + slope * rows.X
    eta -= eta.max(axis=1, keepdims=True)
    of_true = np.take_along_axis(eta, rows.code[:, None], axis=1)[:, 0]
    log_total = np.log(np.exp(eta).sum(axis=1))
    return float(rows.w @ (log_total - of_true)), softmax_inplace(eta)


def derivatives(
    rows: GroupRows, P: Float64Array, blocks: Blocks
) -> tuple[Float64Array, Float64Array]:
    """Return gradient ``(m,)`` and Hessian ``(m, m)`` of the NLL at probabilities P."""
    K = blocks.n_classes
    residual = P.copy()
    residual[np.arange(len(P)), rows.code] -= 1.0
    residual *= rows.w[:, None]
    PX = P * rows.X
    if K > MOST_CLASSES:
        along, mean = (residual * rows.X).sum(), PX.sum(axis=1)
        curve = rows.w @ ((PX * rows.X).sum(axis=1) - mean**2)
        return np.array([along]), np.array([[curve]])
    first = np.concatenate([residual.sum(axis=0), (residual * rows.X).sum(axis=0)])
    both = np.hstack([P, PX])
    second = -(both.T * rows.w) @ both
    here, there = np.arange(K), K + np.arange(K)
    second[here, here] += rows.w @ P
    second[here, there] += rows.w @ PX
    second[there, here] += rows.w @ PX
    second[there, there] += rows.w @ (PX * rows.X)
    # The slope of all classes moves the slopes of each.
    gradient = np.concatenate([[first[K:].sum()], first])
    crossed = second[:, K:].sum(axis=1)
    hessian = np.empty((2 * K + 1, 2 * K + 1))
    hessian[1:, 1:], hessian[0, 1:], hessian[1:, 0] = second, crossed, crossed
    hessian[0, 0] = crossed[K:].sum()
    return gradient, hessian


def fit_group(
    rows: GroupRows, alpha: Float64Array, start: Float64Array, blocks: Blocks
) -> tuple[Float64Array, Float64Array, float]:
    """Return the parameters that minimise E for strengths ``(m,)``, A there, and E."""
    theta = start

    def objective(at: Float64Array) -> tuple[float, Float64Array]:
        nll, P = loss_of(rows, at, blocks)
        return nll + 0.5 * float(alpha @ at**2), P

    value, P = objective(theta)
    for _ in range(STEPS):
        gradient, hessian = derivatives(rows, P, blocks)
        gradient += alpha * theta
        hessian[np.diag_indices_from(hessian)] += alpha
        step = np.linalg.solve(hessian, gradient)
        fall = float(gradient @ step)
        if fall <= SMALL_FALL:  # the last step needs no look: the next would be its square
            return theta - step, hessian, value - fall / 2
        size = 1.0
        new, P_new = objective(theta - step)
        while new > value - 1e-4 * size * fall and size > SMALLEST_STEP:
            size /= 2
            new, P_new = objective(theta - size * step)
        if new >= value:  # rounding
            break
        theta, value, P = theta - size * step, new, P_new
    return theta, hessian, value


def fit_all(
    groups: list[GroupRows], alpha: Float64Array, start: Float64Array, blocks: Blocks
) -> Fits:
    """Fit all groups for strengths of the blocks."""
    each = blocks.spread(alpha)
    theta, dof, evidence = np.empty_like(start), np.empty((len(groups), alpha.size)), 0.0
    for g, rows in enumerate(groups):
        theta[g], hessian, value = fit_group(rows, each, start[g], blocks)
        kept = each * np.linalg.inv(hessian).diagonal()
        dof[g] = [(1.0 - kept[part]).sum() for part in blocks.slices]
        evidence += 0.5 * np.log(each).sum() - 0.5 * np.linalg.slogdet(hessian)[1] - value
    return Fits(theta, dof, float(evidence))


def find_strengths(groups: list[GroupRows], blocks: Blocks) -> tuple[Float64Array, Fits]:
    """Return the strengths of the blocks by evidence, and the fits for them."""
    alpha = np.full(len(blocks.slices), FIRST_STRENGTH)
    fits = fit_all(groups, alpha, np.zeros((len(groups), blocks.size)), blocks)
    last = np.zeros(alpha.size)
    for _ in range(ROUNDS):
        size = np.array([(fits.theta[:, part] ** 2).sum() for part in blocks.slices])
        wanted = (fits.dof.sum(axis=0) + 2.0 / (1.0 + alpha)) / np.maximum(size, TINY)
        change = np.log(wanted / alpha)
        # Changes that go on with the same sign are extrapolated: large strengths come slowly.
        ratio = np.divide(change, last, out=np.zeros_like(last), where=last != 0.0)
        last = change
        change = change / (1.0 - np.clip(ratio, 0.0, LARGEST_RATIO))
        change = np.clip(change, -LARGEST_CHANGE, LARGEST_CHANGE)
        new = np.clip(alpha * np.exp(change), WEAKEST, STRONGEST)
        before = fits.evidence
        alpha, fits = new, fit_all(groups, new, fits.theta, blocks)
        if abs(fits.evidence - before) < SMALL_GAIN:
            break
    return alpha, fits


def fit_pooled(groups: list[GroupRows], n_classes: int, strength: float | None = None) -> PooledFit:
    """Fit the parameters of all groups; None finds the strengths of the prior by evidence."""
    blocks = Blocks(n_classes)
    none = np.zeros((len(groups), blocks.size))
    if strength is not None:
        alpha = np.full(len(blocks.slices), strength)
        fits = fit_all(groups, alpha, none, blocks)
        return PooledFit(fits.theta, fits.dof.sum(axis=1), alpha)
    alpha, fits = find_strengths(groups, blocks)
    equal = -sum(loss_of(rows, none[0], blocks)[0] for rows in groups)
    tried = [Fits(none, np.zeros_like(fits.dof), equal), fits]
    tried += [fit_all(groups, alpha / width**2, fits.theta, blocks) for width in NARROWER]
    evidence = np.array([each.evidence for each in tried])
    weight = np.exp(evidence - evidence.max())
    weight /= weight.sum()
    theta = np.einsum("f,fgm->gm", weight, np.stack([each.theta for each in tried]))
    dof = np.einsum("f,fgb->g", weight, np.stack([each.dof for each in tried]))
    return PooledFit(theta, dof, alpha)
