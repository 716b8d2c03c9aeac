"""Calibration errors as array API formulas, for metrics, losses and temperature scaling."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np

from skcalib._arrays.rowwise import column_blocks, row_blocks
from skcalib._scores.scores import LOG_PROBA_MIN
from skcalib._validation.keywords import MeanNorm, exponent

# Accuracy versus uncertainty (AvUC): whether a model is certain if and only if it is correct.
#
# Let c be the confidence, h the entropy in nats, and weights normalised to :math:`\sum_i w_i = 1`.
# Rows are accurate or inaccurate (A, I), and certain or uncertain (C, U):
#
# .. math:: \mathrm{AvUC} = \log\Big(1 + \frac{n_{AU} + n_{IC}}{n_{AC} + n_{IU}}\Big)
#                         = -\log \frac{n_{AC} + n_{IU}}{n_{AC} + n_{AU} + n_{IC} + n_{IU}} .
#
# In the hard form, a row is certain if its entropy is below a threshold :math:`\kappa`. A row with
# the weight w adds w times c (accurate) or 1 - c (inaccurate), times :math:`1 - \tanh h` (certain)
# or :math:`\tanh h` (uncertain), to the sum :math:`n` of its group. In the soft form, with the
# temperature T, :math:`h^* = h / \log K` and :math:`t = \mathrm{logistic}\big(\frac{1}{T} \log
# \frac{h^* (1 - \kappa)}{(1 - h^*) \kappa}\big)`: each row adds :math:`w\, t \tanh h` to the
# uncertain and :math:`w (1 - t)(1 - \tanh h)` to the certain sum of its accuracy.
#
# The logarithm is clipped like all logarithms of the package, so the loss is at most 27.6. The
# formulas use only operations of the array API. Conditions are written so that an entropy of NaN
# gives a loss of NaN.
#
# References
# ----------
# Krishnan, Tickoo (2020). Improving model calibration with accuracy versus uncertainty
# optimization. NeurIPS.
#
# Karandikar, Cain, Tran, Lakshminarayanan, Shlens, Mozer, Roelofs (2021). Soft Calibration
# Objectives for Neural Networks. NeurIPS, equations (13)-(16).


# Normalised entropies are clipped to at least this distance from 0 and 1, where log-odds are
# infinite.
ENTROPY_MARGIN = 1e-12


def entropy(P: Any, xp: Any = np) -> Any:
    """Return the entropy of each row of ``P (n, K)`` in nats, ``(n,)``; 0 log 0 is 0."""
    return -xp.sum(P * xp.log(xp.where(P <= 0.0, 1.0, P)), axis=1)


def avuc(
    confidence: Any, entropy: Any, hit: Any, w: Any, *, threshold: float = 0.5, xp: Any = np
) -> Any:
    """Return the accuracy versus uncertainty loss (AvUC) with a sharp threshold.

    Parameters
    ----------
    confidence, entropy : array of shape (n,)
        Largest probability and entropy in nats of each row.
    hit : array of shape (n,)
        Booleans.
    w : array of shape (n,)
        Weights, not all 0, in the precision of the sums.
    threshold : float
        A row is certain if its entropy in nats is below it.
    xp : namespace
        NumPy, or the array API namespace of the arrays.

    Returns
    -------
    loss : 0-d array
    """
    share = w / xp.sum(w) * xp.where(hit, confidence, 1.0 - confidence)
    certain, calm = entropy < threshold, xp.tanh(entropy)
    parts = xp.where(certain, 1.0 - calm, 0.0), xp.where(certain, 0.0, calm)
    return _loss(*parts, hit, share, xp)


def soft_avuc(
    entropy: Any,
    hit: Any,
    w: Any,
    *,
    n_classes: int,
    kappa: float = 0.5,
    temperature: float = 1.0,
    xp: Any = np,
) -> Any:
    """Return the accuracy versus uncertainty loss (AvUC) with a soft threshold.

    Parameters
    ----------
    entropy : array of shape (n,)
        Entropy of each row in nats.
    hit : array of shape (n,)
        Booleans.
    w : array of shape (n,)
        Weights, not all 0, in the precision of the sums.
    n_classes : int
        K; the entropy is divided by log K before it is compared with the threshold.
    kappa : float
        Normalised entropy at which a row is half uncertain, in (0, 1).
    temperature : float
        T > 0; the threshold becomes sharp as T tends to 0.
    xp : namespace
        NumPy, or the array API namespace of the arrays.

    Returns
    -------
    loss : 0-d array
    """
    h = entropy / math.log(n_classes)
    # In float32, 1 - 1e-12 is 1, so the distance from 0 and 1 is at least the machine epsilon.
    margin = max(ENTROPY_MARGIN, float(xp.finfo(h.dtype).eps))
    h = xp.where(h <= margin, margin, h)
    h = xp.where(h >= 1.0 - margin, 1.0 - margin, h)
    odds = xp.log(h) - xp.log1p(-h) + math.log((1.0 - kappa) / kappa)
    t = 0.5 + 0.5 * xp.tanh(odds / (2.0 * temperature))  # the logistic function, without overflow
    calm = xp.tanh(entropy)
    return _loss((1.0 - t) * (1.0 - calm), t * calm, hit, w / xp.sum(w), xp)


def _loss(certain: Any, uncertain: Any, hit: Any, share: Any, xp: Any) -> Any:
    """Return the AvUC loss: -log of the fraction of rows that are certain if and only if correct.

    The logarithm is clipped. The loss has its maximum if there are no such rows.
    """
    good = xp.sum(share * xp.where(hit, certain, uncertain))
    bad = xp.sum(share * xp.where(hit, uncertain, certain))
    nothing = good <= math.exp(LOG_PROBA_MIN) * (good + bad)
    return xp.where(nothing, -LOG_PROBA_MIN, xp.log1p(bad / xp.where(nothing, 1.0, good)))


# The maximum mean calibration error (MMCE), a kernel norm of the residuals.
#
# With scores :math:`s_i`, outcomes :math:`t_i`, the bandwidth :math:`\lambda` and weights
# normalised to :math:`\sum_i w_i = 1`,
#
# .. math:: \mathrm{MMCE}^2 = \sum_{ij} w_i w_j (t_i - s_i)(t_j - s_j)\, e^{-|s_i - s_j| / \lambda}.
#
# Scores are in [0, 1], so :math:`e^{\pm s / \lambda}` cannot overflow. For :math:`s_j < s_i`, the
# kernel is the product :math:`e^{-s_i / \lambda} e^{s_j / \lambda}`, so that for sorted scores the
# double sum becomes cumulative sums. For equal scores, the kernel is 1 and its derivative 0.
#
# References
# ----------
# Kumar, Sarawagi, Jain (2018). Trainable Calibration Measures For Neural Networks From Kernel Mean
# Embeddings. ICML.


# Bandwidth of the Laplacian kernel of the MMCE, as in the paper of Kumar et al.
WIDTH = 0.4


def kernel_mean_error(score: Any, hit: Any, w: Any, *, xp: Any = np) -> Any:
    """Return the maximum mean calibration error (MMCE) of a binary problem.

    Parameters
    ----------
    score : array of shape (n,)
        Scores in [0, 1].
    hit : array of shape (n,)
        Booleans.
    w : array of shape (n,)
        Weights, not all 0, in the precision of the sums.
    xp : namespace
        NumPy, or the array API namespace of the arrays.

    Returns
    -------
    error : 0-d array
    """
    share = w / xp.sum(w)
    order = xp.argsort(score)
    s = score[order]
    a = (xp.where(hit, share, 0.0) - share * score)[order]
    first, last = xp.searchsorted(s, s, side="left"), xp.searchsorted(s, s, side="right")
    below = xp.exp(-s / WIDTH) * _sum_before(a * xp.exp(s / WIDTH), first, xp)
    tied = _sum_before(a, last, xp) - _sum_before(a, first, xp)
    square = xp.sum(a * (2.0 * below + tied))
    zero = square <= 0.0  # `zero` is False for NaN, so that the error is NaN
    return xp.where(zero, 0.0, xp.sqrt(xp.where(zero, 1.0, square)))


def _sum_before(values: Any, position: Any, xp: Any) -> Any:
    """Return, for each index in `position`, the sum of all values before the index."""
    has_standard = hasattr(xp, "cumulative_sum")  # NumPy 1.26 and tensors have no `cumulative_sum`
    total = xp.cumulative_sum(values, axis=0) if has_standard else xp.cumsum(values, 0)
    return xp.where(position > 0, total[xp.where(position > 0, position - 1, 0)], 0.0)


# The soft-binned calibration error, for the metric, the loss and temperature scaling.
#
# A score s belongs to all B bins, with a larger membership in bins with nearer centres. With the
# outcomes :math:`t_i`, the centres :math:`\xi_b = (b - 1/2) / B`, the temperature T and weights
# normalised to :math:`\sum_i w_i = 1`,
#
# .. math:: u_{ib} = \mathrm{softmax}_b\big(-(s_i - \xi_b)^2 / T\big), \qquad
#           S_b = \sum_i w_i u_{ib}, \qquad
#           \mathrm{acc}_b = \frac{1}{S_b} \sum_i w_i u_{ib} t_i, \qquad
#           \mathrm{conf}_b = \frac{1}{S_b} \sum_i w_i u_{ib} s_i,
#
# .. math:: \mathrm{bin} = \Big(\sum_b S_b |\mathrm{acc}_b - \mathrm{conf}_b|^q\Big)^{1/q}, \qquad
#           \mathrm{label} = \Big(\sum_{ib} w_i u_{ib} |\mathrm{acc}_b - s_i|^q\Big)^{1/q}.
#
# The class-wise error is the q-th root of the mean over classes of the q-th powers.
#
# The formula uses only operations of the array API, so that tensor libraries can differentiate it.
# Conditions are written so that a score of NaN gives an error of NaN. As T tends to 0, the bins
# become uniform bins with sharp edges.
#
# References
# ----------
# Karandikar, Cain, Tran, Lakshminarayanan, Shlens, Mozer, Roelofs (2021). Soft Calibration
# Objectives for Neural Networks. NeurIPS, equations (8)-(12).


Kind = Literal["bin", "label"]


class SoftBins(NamedTuple):
    """Settings of soft bins, and of the calibration error that is measured in soft bins.

    Parameters
    ----------
    n_bins : int
    temperature : float
        T > 0, in units of squared score.
    kind : {"bin", "label"}
        Distance of the accuracy of a bin from its confidence, or from each score in the bin.
    norm : {"l1", "l2"} or float
    """

    n_bins: int = 15
    temperature: float = 0.01
    kind: Kind = "bin"
    norm: MeanNorm = "l2"


def soft_binned_error(score: Any, hit: Any, w: Any, bins: SoftBins, xp: Any = np) -> Any:
    """Return the soft-binned calibration error of a binary problem.

    Parameters
    ----------
    score : array of shape (n,)
        Scores in [0, 1].
    hit : array of shape (n,)
        Booleans.
    w : array of shape (n,)
        Weights, not all 0, in the precision of the sums.
    bins : SoftBins
    xp : namespace
        NumPy, or the array API namespace of the arrays.

    Returns
    -------
    error : 0-d array
    """
    return _root(_power_of_error(score, hit, w, bins, xp), exponent(bins.norm), xp)


def classwise_soft_binned_error(P: Any, true: Any, w: Any, bins: SoftBins, xp: Any = np) -> Any:
    """Return the soft-binned calibration error of each class against the rest, averaged.

    Parameters
    ----------
    P : array of shape (n, K)
        Probabilities.
    true : array of shape (n, K)
        Booleans: whether a column is the true class of the row.
    w, bins, xp
        As in `soft_binned_error`.

    Returns
    -------
    error : 0-d array
    """
    n, n_classes = P.shape
    blocks = list(column_blocks(n * bins.n_bins, n_classes))
    power: Any = partial(_power_of_error, bins=bins, xp=xp)
    if xp is np:
        pairs: Any = ((P.T[block], true.T[block]) for block in blocks)
    else:
        # For the gradient, PyTorch checkpoints compute the memberships in bins again, block by
        # block. Stored memberships in B bins of K classes would take K B numbers for each row.
        from torch.utils.checkpoint import checkpoint

        power = partial(checkpoint, power, use_reentrant=False, preserve_rng_state=False)
        sizes = [block.stop - block.start for block in blocks]
        pairs = zip(P.T.split(sizes), true.T.split(sizes), strict=True)
    total = sum(xp.sum(power(score, hit, w)) for score, hit in pairs)
    return _root(total / n_classes, exponent(bins.norm), xp)


# ---------- errors of a binary problem (n,), or of m binary problems with the same rows (m, n)


def _power_of_error(score: Any, hit: Any, w: Any, bins: SoftBins, xp: Any) -> Any:
    """Return the q-th power of the soft-binned error of each binary problem."""
    share = w / xp.sum(w)
    n_bins, temperature, q = bins.n_bins, bins.temperature, exponent(bins.norm)
    centres = bin_centres(share, n_bins, xp)
    of_hits = xp.where(hit, share, 0.0)
    parts = (share, of_hits, of_hits - share * score)
    sums: list[Any] = [0.0, 0.0, 0.0]
    for rows in _row_blocks(score, n_bins):
        U = memberships(score[..., rows], centres, temperature, xp)
        sums = [
            total + _weighted_sum(part[..., rows], U, xp)
            for total, part in zip(sums, parts, strict=True)
        ]
    mass, hits, surplus = sums
    # A bin whose weight is so small that 1 / weight overflows is empty, and adds no error.
    empty = mass <= float(xp.finfo(mass.dtype).smallest_normal)
    divisor = xp.where(empty, 1.0, mass)
    if bins.kind == "bin":
        return xp.sum(mass * xp.abs(surplus / divisor) ** q, axis=-1)
    accuracy = hits / divisor
    total = 0.0
    for rows in _row_blocks(score, n_bins):
        s = score[..., rows]
        U = memberships(s, centres, temperature, xp)
        gap = accuracy[..., None, :] - s[..., None]
        total = total + xp.sum(share[rows] * xp.sum(U * xp.abs(gap) ** q, axis=-1), axis=-1)
    return total


def bin_centres(like: Any, n_bins: int, xp: Any) -> Any:
    """Return the centres of B equal-width bins of [0, 1], on the device of the array `like`."""
    values = [(b + 0.5) / n_bins for b in range(n_bins)]
    device = {} if xp is np else {"device": like.device}
    return xp.asarray(values, dtype=like.dtype, **device)


def memberships(score: Any, centres: Any, temperature: float, xp: Any) -> Any:
    """Return how much each score belongs to each soft bin, ``(..., n, B)``; rows sum to 1."""
    distance = score[..., None] - centres
    U = distance * distance / -temperature
    U = xp.exp(U - xp.max(U, axis=-1, keepdims=True))
    return U / xp.sum(U, axis=-1, keepdims=True)


def _weighted_sum(weight: Any, U: Any, xp: Any) -> Any:
    """Sum the memberships ``U (..., n, B)`` in each bin over rows, weighted by `weight`."""
    if xp is np:
        return (weight[..., None, :] @ U)[..., 0, :]
    # Autocast and TF32 lower the precision of matrix products, but not of sums.
    return xp.sum(weight[..., None] * U, axis=-2)


def _row_blocks(score: Any, n_bins: int) -> Iterator[slice]:
    """Yield blocks of rows whose memberships in all soft bins fit into the cache."""
    n_problems = score.shape[0] if score.ndim == 2 else 1
    return row_blocks(score.shape[-1], n_problems * n_bins)


def _root(power: Any, q: float, xp: Any) -> Any:
    """Return the q-th root, whose derivative at 0 is set to 0 instead of infinity."""
    zero = power <= 0.0
    base = xp.where(zero, 1.0, power)
    return xp.where(zero, 0.0, xp.sqrt(base) if q == 2 else base ** (1 / q))
