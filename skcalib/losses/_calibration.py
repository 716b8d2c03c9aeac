"""Differentiable calibration errors as losses for training."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from skcalib import _differentiable as formulas
from skcalib._binning import NumberOfBins
from skcalib._differentiable import Kind
from skcalib._validation.keywords import (
    MeanNorm,
    check_between,
    check_flags,
    check_norm,
    check_option,
    number_of_bins,
)
from skcalib.losses._batch import Loss, LossBatch, Mode


def soft_binned_loss(
    logits: Any,
    y: Any,
    *,
    kind: Kind = "bin",
    mode: Mode = "top",
    n_bins: NumberOfBins = 15,
    temperature: float = 0.01,
    norm: MeanNorm = "l2",
    sample_weight: ArrayLike | None = None,
    ignore_index: int | None = None,
    reduction: str = "mean",
) -> Loss:
    r"""Soft-binned calibration error (SB-ECE) of the top label or of all classes, as a loss.

    With :math:`c_i = \max_k P_{ik}`, :math:`t_i = [\arg\max_k P_{ik} = y_i]`,
    :math:`\xi_b = (b - 1/2) / B` and weights normalised to 1,

    .. math:: u_{ib} = \mathrm{softmax}_b\big(-(c_i - \xi_b)^2 / T\big), \qquad
              S_b = \sum_i w_i u_{ib}, \qquad
              \mathrm{acc}_b = \frac{1}{S_b} \sum_i w_i u_{ib} t_i, \qquad
              \mathrm{conf}_b = \frac{1}{S_b} \sum_i w_i u_{ib} c_i

    .. math:: \mathrm{bin} = \Big(\sum_b S_b |\mathrm{acc}_b - \mathrm{conf}_b|^q\Big)^{1/q},
              \qquad \mathrm{label}
              = \Big(\sum_{ib} w_i u_{ib} |\mathrm{acc}_b - c_i|^q\Big)^{1/q}

    For "classwise", the error :math:`e_k` of class k has :math:`P_{ik}` instead of :math:`c_i` and
    :math:`[y_i = k]` instead of :math:`t_i`. The loss is
    :math:`\big(\frac{1}{K} \sum_k e_k^q\big)^{1/q}`.

    Parameters
    ----------
    logits : array-like or torch.Tensor of shape (n, K), (n,) or (n, 1)
        Logits. One column f means the two columns (0, f).
    y : array-like or torch.Tensor of shape (n,)
        Index of the column of the true class of each row, 0 to K - 1.
    kind : {"bin", "label"}, default="bin"
        Whether the accuracy of a bin is compared with the mean confidence of the bin, or with the
        confidence of each row. The paper trains with "label".
    mode : {"top", "classwise"}, default="top"
        The error of the top label, also for two columns, or of each class against the rest.
    n_bins : int or "cube_root", default=15
        Number of bins; "cube_root" is the cube root of the number of rows, rounded up.
    temperature : float, default=0.01
        T > 0. As T tends to 0, the edges of the bins become sharp, and the loss becomes constant
        within a bin.
    norm : {"l1", "l2"} or float in [1, 10], default="l2"
        The exponent q.
    sample_weight : array-like or torch.Tensor of shape (n,), default=None
        Non-negative weights. Integers are counts: 2 is two copies of the row. Of floats only the
        ratios matter (see "Weights" under "Valid input" in the user guide). 0 is the row's absence.
    ignore_index : int, default=None
        Rows with this label, such as -100, are ignored.
    reduction : {"mean"}, default="mean"
        Only "mean": a calibration error is not a mean over rows.

    Returns
    -------
    loss : float, or 0-d torch.Tensor
        In [0, 1]; 0 is best.

    Raises
    ------
    ValueError
        If logits, codes, weights or keywords are invalid.

    Notes
    -----
    A batch should have some hundred rows: with fewer, the gap of a bin is mostly random. A model
    that has memorised its training rows has no gap on these rows: compute the loss on held-out rows
    (interleaved training).

    References
    ----------
    Karandikar, Cain, Tran, Lakshminarayanan, Shlens, Mozer, Roelofs (2021). Soft Calibration
    Objectives for Neural Networks. NeurIPS. Equations (8)-(12); class by class, appendix J.

    Examples
    --------
    >>> from skcalib.losses import soft_binned_loss
    >>> round(soft_binned_loss([[0.0, 1.0], [2.0, 0.0]], [1, 0], norm="l1"), 4)
    0.1941
    >>> Z, y = [[0.0, 1.0, 0.0], [2.0, 0.0, 0.0], [0.0, 0.0, 1.0]], [1, 0, 2]
    >>> round(soft_binned_loss(Z, y, mode="classwise"), 4)
    0.257
    """
    check_option("kind", kind, ("bin", "label"))
    check_option("mode", mode, ("top", "classwise"))
    check_norm(norm, has_max=False)
    check_between("temperature", temperature, 0, np.inf, "a positive number")
    batch = LossBatch(logits, y, sample_weight, ignore_index, reduction)
    bins = formulas.SoftBins(number_of_bins(n_bins, batch.w.sum()), temperature, kind, norm)
    if mode == "classwise":
        error = formulas.classwise_soft_binned_error(batch.P, batch.true, batch.w, bins, batch.xp)
        return batch.to_scalar(error)
    confidence, hit = batch.top()
    return batch.to_scalar(formulas.soft_binned_error(confidence, hit, batch.w, bins, batch.xp))


def avuc_loss(
    logits: Any,
    y: Any,
    *,
    threshold: float = 0.5,
    stop_gradient: bool = False,
    sample_weight: ArrayLike | None = None,
    ignore_index: int | None = None,
    reduction: str = "mean",
) -> Loss:
    r"""Accuracy-versus-uncertainty loss (AvUC), optionally with a stopped gradient (AvUC-GS).

    .. math:: \mathrm{AvUC} = \log\Big(1 + \frac{n_{AU} + n_{IC}}{n_{AC} + n_{IU}}\Big)

    A row is accurate (A) or inaccurate (I), and certain (C) if its entropy h in nats is below
    :math:`\kappa`, otherwise uncertain (U). Each sum n adds up, over the rows of its kind, the
    weight times the confidence c (A) or 1 - c (I), times :math:`1 - \tanh h` (C) or
    :math:`\tanh h` (U).

    Parameters
    ----------
    logits : array-like or torch.Tensor of shape (n, K), (n,) or (n, 1)
        Logits. One column f means the two columns (0, f).
    y : array-like or torch.Tensor of shape (n,)
        Index of the column of the true class of each row, 0 to K - 1.
    threshold : float, default=0.5
        :math:`\kappa`, in nats: at least 0.
    stop_gradient : bool, default=False
        With True, c and 1 - c are constants in the gradient (AvUC-GS), and the value is the same.
        With False, the loss rewards more confidence in wrong predictions that are certain.
    sample_weight : array-like or torch.Tensor of shape (n,), default=None
        Non-negative weights. Integers are counts: 2 is two copies of the row. Of floats only the
        ratios matter (see "Weights" under "Valid input" in the user guide). 0 is the row's absence.
    ignore_index : int, default=None
        Rows with this label, such as -100, are ignored.
    reduction : {"mean"}, default="mean"
        Only "mean": a calibration error is not a mean over rows.

    Returns
    -------
    loss : float, or 0-d torch.Tensor
        In [0, 27.7], because the logarithm is clipped; 0 is best.

    Raises
    ------
    ValueError
        If logits, codes, weights or `threshold` are invalid.

    See Also
    --------
    soft_avuc_loss : The loss with a soft threshold, without the factor c.

    References
    ----------
    Krishnan, Tickoo (2020). Improving model calibration with accuracy versus uncertainty
    optimization. NeurIPS.

    Karandikar, Cain, Tran, Lakshminarayanan, Shlens, Mozer, Roelofs (2021). Soft Calibration
    Objectives for Neural Networks. NeurIPS. Equations (13), (14), appendix F.

    Examples
    --------
    >>> from skcalib.losses import avuc_loss
    >>> round(avuc_loss([[0.0, 1.0], [4.0, 0.0]], [1, 0]), 4)
    0.3568
    """
    check_between("threshold", threshold, 0, np.inf, "an entropy >= 0 in nats", low_too=True)
    check_flags(stop_gradient=stop_gradient)
    batch = LossBatch(logits, y, sample_weight, ignore_index, reduction)
    confidence, hit = batch.top()
    h = formulas.entropy(batch.P, batch.xp)
    if stop_gradient and batch.xp is not np:
        confidence = confidence.detach()
    loss = formulas.avuc(confidence, h, hit, batch.w, threshold=threshold, xp=batch.xp)
    return batch.to_scalar(loss)


def soft_avuc_loss(
    logits: Any,
    y: Any,
    *,
    kappa: float = 0.5,
    temperature: float = 1.0,
    sample_weight: ArrayLike | None = None,
    ignore_index: int | None = None,
    reduction: str = "mean",
) -> Loss:
    r"""Soft accuracy-versus-uncertainty loss (S-AvUC).

    .. math:: \text{S-AvUC} = \log\Big(1 + \frac{n_{AU} + n_{IC}}{n_{AC} + n_{IU}}\Big), \quad
              t = \mathrm{logistic}\Big(\frac{1}{T}
                  \log\frac{h^* (1 - \kappa)}{(1 - h^*) \kappa}\Big)

    where h is the entropy of a row and :math:`h^* = h / \log K`. An accurate row adds
    :math:`w\, t \tanh h` to the sum AU and :math:`w (1 - t)(1 - \tanh h)` to the sum AC. An
    inaccurate row adds the same terms to the sums IU and IC.

    Parameters
    ----------
    logits : array-like or torch.Tensor of shape (n, K), (n,) or (n, 1)
        Logits. One column f means the two columns (0, f).
    y : array-like or torch.Tensor of shape (n,)
        Index of the column of the true class of each row, 0 to K - 1.
    kappa : float in (0, 1), default=0.5
        The normalised entropy at which a row counts as half certain and half uncertain.
    temperature : float, default=1.0
        T > 0. As T tends to 0, the threshold becomes sharp.
    sample_weight : array-like or torch.Tensor of shape (n,), default=None
        Non-negative weights. Integers are counts: 2 is two copies of the row. Of floats only the
        ratios matter (see "Weights" under "Valid input" in the user guide). 0 is the row's absence.
    ignore_index : int, default=None
        Rows with this label, such as -100, are ignored.
    reduction : {"mean"}, default="mean"
        Only "mean": a calibration error is not a mean over rows.

    Returns
    -------
    loss : float, or 0-d torch.Tensor
        In [0, 27.7], because the logarithm is clipped; 0 is best.

    Raises
    ------
    ValueError
        If logits, codes, weights or keywords are invalid.

    Notes
    -----
    The normalised entropy is clipped to a distance of 1e-12 from 0 and 1 (1.2e-7 for
    single-precision tensors), so that one-hot and uniform rows have finite gradients.

    References
    ----------
    Karandikar, Cain, Tran, Lakshminarayanan, Shlens, Mozer, Roelofs (2021). Soft Calibration
    Objectives for Neural Networks. NeurIPS. Equations (15), (16).

    Examples
    --------
    >>> from skcalib.losses import soft_avuc_loss
    >>> round(soft_avuc_loss([[0.0, 1.0], [4.0, 0.0]], [1, 0]), 4)
    0.4192
    """
    check_between("kappa", kappa, 0, 1, "a number in (0, 1)")
    check_between("temperature", temperature, 0, np.inf, "a positive number")
    batch = LossBatch(logits, y, sample_weight, ignore_index, reduction)
    xp, K = batch.xp, batch.P.shape[1]
    h, (_, hit) = formulas.entropy(batch.P, xp), batch.top()
    loss = formulas.soft_avuc(
        h, hit, batch.w, n_classes=K, kappa=kappa, temperature=temperature, xp=xp
    )
    return batch.to_scalar(loss)


def mmce_loss(
    logits: Any,
    y: Any,
    *,
    sample_weight: ArrayLike | None = None,
    ignore_index: int | None = None,
    reduction: str = "mean",
) -> Loss:
    r"""Maximum mean calibration error (MMCE) of the top label, as a loss.

    With :math:`c_i = \max_k P_{ik}`, :math:`t_i = [\arg\max_k P_{ik} = y_i]` and weights
    normalised to 1,

    .. math:: \mathrm{MMCE} = \Big(\sum_{ij} w_i w_j (t_i - c_i)(t_j - c_j)\,
              e^{-|c_i - c_j| / 0.4}\Big)^{1/2}

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
    reduction : {"mean"}, default="mean"
        Only "mean": a calibration error is not a mean over rows.

    Returns
    -------
    loss : float, or 0-d torch.Tensor
        In [0, 1]; 0 is best.

    Raises
    ------
    ValueError
        If logits, codes or weights are invalid.

    Notes
    -----
    The double sum takes as long as sorting the batch, without a matrix of all pairs.

    References
    ----------
    Kumar, Sarawagi, Jain (2018). Trainable Calibration Measures For Neural Networks From Kernel
    Mean Embeddings. ICML.

    Examples
    --------
    >>> from skcalib.losses import mmce_loss
    >>> round(mmce_loss([[0.0, 1.0], [2.0, 0.0]], [1, 0]), 4)
    0.1807
    """
    batch = LossBatch(logits, y, sample_weight, ignore_index, reduction)
    confidence, hit = batch.top()
    return batch.to_scalar(formulas.kernel_mean_error(confidence, hit, batch.w, xp=batch.xp))
