r"""Accuracy versus uncertainty (AvUC): whether a model is certain if and only if it is right.

With confidence c, entropy h in nats, weights normalised to :math:`\sum_i w_i = 1`, and rows
divided into accurate or inaccurate (A, I) and certain or uncertain (C, U) ones,

.. math:: \mathrm{AvUC} = \log\Big(1 + \frac{n_{AU} + n_{IC}}{n_{AC} + n_{IU}}\Big)
                        = -\log \frac{n_{AC} + n_{IU}}{n_{AC} + n_{AU} + n_{IC} + n_{IU}} .

In the hard form, a row is certain if :math:`h < \kappa`. It adds w times c (accurate) or 1 - c
(inaccurate), times :math:`1 - \tanh h` (certain) or :math:`\tanh h` (uncertain), to its sum. In the
soft form, with :math:`h^* = h / \log K` and
:math:`t = \mathrm{logistic}\big(\frac{1}{T} \log \frac{h^* (1 - \kappa)}{(1 - h^*) \kappa}\big)`:
each row adds :math:`w\, t \tanh h` to the uncertain and :math:`w (1 - t)(1 - \tanh h)` to the
certain sum of its accuracy.

The logarithm is clipped like all logarithms of the package, so the loss is at most 27.6. Values use
only operations of the array API. Conditions are written so that an entropy of NaN gives a loss of
NaN.

References
----------
Krishnan, Tickoo (2020). Improving model calibration with accuracy versus uncertainty
optimization. NeurIPS.

Karandikar, Cain, Tran, Lakshminarayanan, Shlens, Mozer, Roelofs (2021). Soft Calibration
Objectives for Neural Networks. NeurIPS, equations (13)-(16).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from skcalib._scores.softmax import LOG_PROBA_MIN

# Smallest distance of the normalised entropy from 0 and 1, which are poles of the soft threshold.
ENTROPY_MARGIN = 1e-12


def entropy(P: Any, xp: Any = np) -> Any:
    """Entropy of each row of probabilities ``P (n, K)`` in nats, ``(n,)``; 0 log 0 is 0."""
    return -xp.sum(P * xp.log(xp.where(P <= 0.0, 1.0, P)), axis=1)


def avuc(
    confidence: Any, entropy: Any, hit: Any, w: Any, *, threshold: float = 0.5, xp: Any = np
) -> Any:
    """Hard AvUC.

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
    """Soft AvUC.

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
        In (0, 1): the normalised entropy that is half uncertain.
    temperature : float
        T > 0; the threshold becomes sharp as it tends to 0.
    xp : namespace
        NumPy, or the array API namespace of the arrays.

    Returns
    -------
    loss : 0-d array
    """
    h = entropy / math.log(n_classes)
    # 1 - 1e-12 is 1 in single precision.
    margin = max(ENTROPY_MARGIN, float(xp.finfo(h.dtype).eps))
    h = xp.where(h <= margin, margin, h)
    h = xp.where(h >= 1.0 - margin, 1.0 - margin, h)
    odds = xp.log(h) - xp.log1p(-h) + math.log((1.0 - kappa) / kappa)
    t = 0.5 + 0.5 * xp.tanh(odds / (2.0 * temperature))  # logistic, without overflow
    calm = xp.tanh(entropy)
    return _loss((1.0 - t) * (1.0 - calm), t * calm, hit, w / xp.sum(w), xp)


def _loss(certain: Any, uncertain: Any, hit: Any, share: Any, xp: Any) -> Any:
    """Minus the log of the share of rows that are certain and right or uncertain and wrong.

    The logarithm is clipped; the loss is largest if there is no such row.
    """
    good = xp.sum(share * xp.where(hit, certain, uncertain))
    bad = xp.sum(share * xp.where(hit, uncertain, certain))
    nothing = good <= math.exp(LOG_PROBA_MIN) * (good + bad)
    return xp.where(nothing, -LOG_PROBA_MIN, xp.log1p(bad / xp.where(nothing, 1.0, good)))
