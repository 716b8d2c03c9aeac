r"""Corrections of the logits of groups, with one prior for all groups, whose widths the data set.

Rows of group g with centred logits :math:`x_k = z_k - \bar z_k` get the probabilities

.. math:: \mathrm{softmax}_k\big(z_k + b_{gk} + (s_g + d_{gk})\, x_k\big)

with parameters in three blocks: the slope :math:`s_g` of all classes, the shifts :math:`b_{gk}` and
the slopes :math:`d_{gk}` of each class. Each block f has a prior
:math:`\mathcal N(0, 1 / \alpha_f)`, and a group's parameters minimise

.. math:: E_g(\theta) = \sum_{i \in g} w_i \mathrm{NLL}_i + \tfrac12 \sum_f \alpha_f
          \|\theta_f\|^2 .

The strengths maximise the log evidence of `evidence`, with a half-Cauchy prior of scale 1 on
:math:`\alpha_f^{-1/2}`: a and b of the fixed point are :math:`2 / (1 + \alpha_f)` and 0.

How different groups are is not known for sure, least where there are few: the parameters are means
over that width of the prior, a third and a ninth of it, and 0, the weights of which are their
evidence.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.special import softmax

from skcalib._arrays.types import Float64Array, Intp
from skcalib._scaling.evidence import Fit, alpha_of, find_strengths
from skcalib._scaling.likelihood import nll_to_residual
from skcalib._scaling.newton import minimise_each

# With more classes, a group has a slope alone.
MOST_CLASSES = 100
# The first strength, rounds of the strengths, and the gain of evidence at which they end.
FIRST_STRENGTH, ROUNDS, SMALL_GAIN = 5.0, 40, 0.02
# The gain of the objective at which a fit ends.
SMALLEST_GAIN = 1e-6
TINY = 1e-30
# Widths of the prior, as shares of the likeliest one.
WIDTHS = (1.0, 1 / 3, 1 / 9)


class GroupRows(NamedTuple):
    """Rows of a group: logits ``Z (n, K)``, centred ones ``X``, classes ``(n,)``, weights."""

    Z: Float64Array
    X: Float64Array
    code: Intp
    w: Float64Array


class PooledFit(NamedTuple):
    """Parameters of G groups: slopes of all classes ``(G,)``, all slopes and shifts ``(G, K)``.

    ``dof (G,)`` is how many of them the rows of a group determine, ``strengths`` those of blocks.
    """

    common: Float64Array
    slope: Float64Array
    shift: Float64Array
    dof: Float64Array
    strengths: dict[str, float]


def blocks_of(n_classes: int) -> dict[str, slice]:
    """Return the places of the slope of all classes, the shifts and the slopes of each class."""
    K = n_classes
    if K > MOST_CLASSES:
        return {"slope": slice(0, 1)}
    return {"slope": slice(0, 1), "shift": slice(1, K + 1), "class slope": slice(K + 1, 2 * K + 1)}


def unpack(theta: Float64Array, n_classes: int) -> tuple[Float64Array, Float64Array]:
    """Return the slopes that are added and the shifts ``(..., K)`` of parameters ``(..., m)``."""
    K, common = n_classes, theta[..., :1]
    if K > MOST_CLASSES:
        return np.repeat(common, K, axis=-1), np.zeros((*theta.shape[:-1], K))
    return common + theta[..., K + 1 :], theta[..., 1 : K + 1]


def derivatives(rows: GroupRows, theta: Float64Array) -> tuple[float, Float64Array, Float64Array]:
    """Return the NLL of a group, its gradient ``(m,)`` and its Hessian ``(m, m)``."""
    Z, X, code, w = rows
    K = Z.shape[1]
    slope, shift = unpack(theta, K)
    R = slope * X
    R += shift
    R += Z
    nll = nll_to_residual(R, code, w)
    of_slope = np.einsum("ij,ij->j", R, X)
    P = R / w[:, None]
    P[np.arange(w.size), code] += 1.0
    PX = P * X
    by_shift, by_slope = w @ PX, w @ (PX * X)
    # The slope of all classes moves the slopes of each.
    mean = PX.sum(axis=1)[:, None]
    if K > MOST_CLASSES:
        return nll, of_slope.sum()[None], by_slope.sum() - (mean.T * w) @ mean
    both = np.hstack([mean, P, PX])
    hessian = -(both.T * w) @ both
    k = 1 + np.arange(K)
    hessian[0, 0] += by_slope.sum()
    hessian[0, 1:] += np.concatenate([by_shift, by_slope])
    hessian[1:, 0] = hessian[0, 1:]
    hessian[k, k] += w @ P
    hessian[k, k + K] += by_shift
    hessian[k + K, k] += by_shift
    hessian[k + K, k + K] += by_slope
    return nll, np.concatenate([of_slope.sum()[None], R.sum(axis=0), of_slope]), hessian


def half_cauchy_prior(strengths: Float64Array, _: Float64Array) -> tuple[Float64Array, float]:
    """Return a and b by half-Cauchy priors of the widths."""
    return 2.0 / (1.0 + 2.0 * strengths), TINY


def fit_pooled(groups: list[GroupRows], strength: float | None = None) -> PooledFit:
    """Fit the parameters of all groups; None finds the strengths of the prior by evidence."""
    K = groups[0].Z.shape[1]
    blocks = blocks_of(K)
    theta = np.zeros((len(groups), max(part.stop for part in blocks.values())))

    def of_groups(theta: Float64Array, places: Intp) -> Any:
        parts = [derivatives(groups[g], each) for g, each in zip(places, theta, strict=True)]
        return tuple(map(np.array, zip(*parts, strict=True)))

    def fit(alpha: Float64Array) -> Fit:
        nonlocal theta
        fitted = minimise_each(of_groups, theta, alpha, SMALLEST_GAIN)
        theta, inverse = fitted.theta, np.linalg.inv(fitted.hessian)
        return Fit(theta, fitted.log_evidence(alpha).sum(), np.einsum("kpp->kp", inverse))

    strengths = np.full(len(blocks), FIRST_STRENGTH if strength is None else strength / 2.0)
    if strength is None:
        strengths, *_ = find_strengths(
            fit, blocks, strengths, rounds=ROUNDS, gain=SMALL_GAIN, strength_prior=half_cauchy_prior
        )
    widths = WIDTHS if strength is None else WIDTHS[:1]
    alphas = [alpha_of(strengths / width**2, blocks) for width in widths]
    fits = [fit(alpha) for alpha in alphas]
    evidence = [fitted.log_evidence for fitted in fits]
    if strength is None:
        evidence.append(-of_groups(np.zeros_like(theta), np.arange(len(groups)))[0].sum())
    weight = softmax(evidence)[: len(fits)]
    theta = np.tensordot(weight, [fitted.theta for fitted in fits], axes=1)
    kept = [alpha * fitted.inverse_diagonal for fitted, alpha in zip(fits, alphas, strict=True)]
    dof = (weight.sum() - np.tensordot(weight, kept, axes=1)).sum(axis=1)
    by_name = dict(zip(blocks, (2.0 * strengths).tolist(), strict=True))
    return PooledFit(theta[:, 0], *unpack(theta, K), dof, by_name)
