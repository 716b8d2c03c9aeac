"""Log loss, Brier score and focal loss for training."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from skcalib._validation.keywords import check_between
from skcalib.losses._batch import Loss, LossBatch


def nll_loss(
    logits: Any,
    y: Any,
    *,
    sample_weight: ArrayLike | None = None,
    ignore_index: int | None = None,
    reduction: str = "mean",
) -> Loss:
    r"""Negative log-likelihood, also called log loss or cross-entropy.

    .. math:: -\frac{1}{W} \sum_i w_i \log P_{i y_i}, \qquad P = \mathrm{softmax}(Z)

    Parameters
    ----------
    logits : array-like or torch.Tensor of shape (n, K), (n,) or (n, 1)
        Logits. One column f means the two columns (0, f).
    y : array-like or torch.Tensor of shape (n,)
        Index of the column of the true class of each row, 0 to K - 1.
    sample_weight : array-like or torch.Tensor of shape (n,), default=None
        Non-negative weights. Integers are counts: 2 is two copies of the row. Of floats only the
        ratios matter (see "Weights" under "Valid input" in the user guide). 0 is the row's absence.
    ignore_index : int, default=None
        Rows with this label, such as -100, are ignored.
    reduction : {"mean", "none"}, default="mean"
        "none" returns the loss of each row times its weight, and 0 for an ignored row.

    Returns
    -------
    loss : float, or 0-d torch.Tensor; of shape (n,) if ``reduction="none"``
        At least 0; 0 is best. A row whose true class has the logit -inf has a loss of 27.6 and a
        gradient of 0.

    Raises
    ------
    ValueError
        If logits, codes or weights are invalid.

    Examples
    --------
    >>> from skcalib.losses import nll_loss
    >>> round(nll_loss([[0.0, 0.0], [2.0, 0.0]], [1, 0]), 4)
    0.41
    """
    batch = LossBatch(logits, y, sample_weight, ignore_index, reduction)
    return batch.reduced(-batch.log_of_true())


def brier_loss(
    logits: Any,
    y: Any,
    *,
    sample_weight: ArrayLike | None = None,
    ignore_index: int | None = None,
    reduction: str = "mean",
) -> Loss:
    r"""Brier score, the sum of the squared errors of all class probabilities, as a loss.

    .. math:: \frac{1}{W} \sum_i w_i \sum_k (P_{ik} - [k = y_i])^2,
              \qquad P = \mathrm{softmax}(Z)

    Parameters
    ----------
    logits : array-like or torch.Tensor of shape (n, K), (n,) or (n, 1)
        Logits. One column f means the two columns (0, f).
    y : array-like or torch.Tensor of shape (n,)
        Index of the column of the true class of each row, 0 to K - 1.
    sample_weight : array-like or torch.Tensor of shape (n,), default=None
        Non-negative weights. Integers are counts: 2 is two copies of the row. Of floats only the
        ratios matter (see "Weights" under "Valid input" in the user guide). 0 is the row's absence.
    ignore_index : int, default=None
        Rows with this label, such as -100, are ignored.
    reduction : {"mean", "none"}, default="mean"
        "none" returns the loss of each row times its weight, and 0 for an ignored row.

    Returns
    -------
    loss : float, or 0-d torch.Tensor; of shape (n,) if ``reduction="none"``
        In [0, 2]; 0 is best.

    Raises
    ------
    ValueError
        If logits, codes or weights are invalid.

    References
    ----------
    Brier (1950). Verification of Forecasts Expressed in Terms of Probability. Monthly Weather
    Review 78.

    Examples
    --------
    >>> from skcalib.losses import brier_loss
    >>> round(brier_loss([[0.0, 0.0], [2.0, 0.0]], [1, 0]), 4)
    0.2642
    """
    batch = LossBatch(logits, y, sample_weight, ignore_index, reduction)
    xp = batch.xp
    residual = xp.where(batch.true, batch.P - 1.0, batch.P)
    return batch.reduced(xp.sum(residual * residual, axis=1))


def focal_loss(
    logits: Any,
    y: Any,
    *,
    gamma: float = 2.0,
    sample_weight: ArrayLike | None = None,
    ignore_index: int | None = None,
    reduction: str = "mean",
) -> Loss:
    r"""Focal loss, a log loss with less weight on rows that are predicted well.

    .. math:: -\frac{1}{W} \sum_i w_i (1 - P_{i y_i})^\gamma \log P_{i y_i},
              \qquad P = \mathrm{softmax}(Z)

    For :math:`\gamma > 0`, focal loss is not a proper score: it favours probabilities that are less
    certain than the true ones, which counteracts the over-confidence of an over-fitted network.

    Parameters
    ----------
    logits : array-like or torch.Tensor of shape (n, K), (n,) or (n, 1)
        Logits. One column f means the two columns (0, f).
    y : array-like or torch.Tensor of shape (n,)
        Index of the column of the true class of each row, 0 to K - 1.
    gamma : float, default=2.0
        At least 0. With 0, the focal loss is `nll_loss`.
    sample_weight : array-like or torch.Tensor of shape (n,), default=None
        Non-negative weights. Integers are counts: 2 is two copies of the row. Of floats only the
        ratios matter (see "Weights" under "Valid input" in the user guide). 0 is the row's absence.
    ignore_index : int, default=None
        Rows with this label, such as -100, are ignored.
    reduction : {"mean", "none"}, default="mean"
        "none" returns the loss of each row times its weight, and 0 for an ignored row.

    Returns
    -------
    loss : float, or 0-d torch.Tensor; of shape (n,) if ``reduction="none"``
        At least 0; 0 is best.

    Raises
    ------
    ValueError
        If logits, codes, weights or `gamma` are invalid.

    References
    ----------
    Lin, Goyal, Girshick, He, Dollar (2017). Focal Loss for Dense Object Detection. ICCV.

    Mukhoti, Kulharia, Sanyal, Golodetz, Torr, Dokania (2020). Calibrating Deep Neural Networks
    using Focal Loss. NeurIPS.

    Examples
    --------
    >>> from skcalib.losses import focal_loss
    >>> round(focal_loss([[0.0, 0.0], [2.0, 0.0]], [1, 0]), 4)
    0.0875
    """
    check_between("gamma", gamma, 0, np.inf, "a number >= 0", low_too=True)
    batch = LossBatch(logits, y, sample_weight, ignore_index, reduction)
    xp = batch.xp
    log_p = batch.log_of_true()
    miss = -xp.expm1(log_p)
    sure = miss <= 0.0  # (1 - p)**gamma has an infinite slope at p = 1 if gamma < 1
    focus = xp.where(sure, 0.0, xp.where(sure, 1.0, miss) ** gamma)
    return batch.reduced(-focus * log_p)
