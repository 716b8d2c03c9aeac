r"""Floor 3: losses to train a classifier with, proper scores and calibration errors made smooth.

Each is ``loss(logits, y, *, sample_weight=None, ..., return_gradient=False)``. NumPy logits give
a float, or a float and its gradient with respect to the logits; PyTorch logits give a
differentiable 0-d tensor on their device. Both come from one formula.

NaN and +inf in NumPy logits are refused. Tensors are not searched for them, for which the device
would have to wait once more: their loss is NaN, and so are the gradients of their rows.

A calibration error alone does not teach a model to be right: add a multiple of it to a proper
loss, as in ``nll_loss + beta * soft_binned_loss``.
"""

from __future__ import annotations

import sys
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skcalib._inputs import (
    check_between,
    check_count,
    check_flags,
    check_labels,
    check_lengths,
    check_option,
    check_weight,
    shown,
)
from skcalib._kernel_mean import kernel_mean_error, kernel_mean_gradient
from skcalib._named_columns import column_names, match_names
from skcalib._norm import MeanNorm, check_norm
from skcalib._score_checks import as_matrix, check_possible, two_columns
from skcalib._simplex import LOG_PROBA_MIN
from skcalib._soft_binning import (
    Kind,
    classwise_soft_binned_error,
    classwise_soft_binned_gradient,
    soft_binned_error,
    soft_binned_gradient,
)
from skcalib._uncertainty import avuc, avuc_gradient, entropy, soft_avuc, soft_avuc_gradient

__all__ = [
    "avuc_loss",
    "brier_loss",
    "focal_loss",
    "mmce_loss",
    "nll_loss",
    "soft_avuc_loss",
    "soft_binned_loss",
]

# A float, (float, gradient), or a 0-d tensor of a library that is not imported here.
Loss = Any
Mode = Literal["top", "classwise"]
Float64Array = NDArray[np.float64]


# -------------------------------------------------------------------------- what losses are made of


class _Batch:
    """Checked logits, seen as probabilities, as NumPy arrays or as tensors.

    Attributes
    ----------
    xp : namespace
    P, log_P : array of shape (n, K)
        Probabilities and their logarithms; a logit of -inf has P = 0 and a clipped, constant
        logarithm.
    code, w, share : array of shape (n,)
        Column of the true class, weights, and weights that sum to 1.
    true : array of shape (n, K)
        Whether a column is the true one.
    """

    def __init__(
        self, logits: Any, y: Any, sample_weight: Any, return_gradient: bool = False
    ) -> None:
        opened = _open_tensors if _is_tensor(logits) else _open_arrays
        self.xp, Z, self.code, self.w, self.columns = opened(logits, y, sample_weight)
        if return_gradient and self.xp is not np:
            raise ValueError(
                "return_gradient=True is for NumPy logits; these are tensors: call backward() on "
                "the loss."
            )
        xp = self.xp
        self._shape, self._dtype = np.shape(logits), Z.dtype
        if xp is np:
            Z = Z.astype(np.float64, copy=False)
        self.share = self.w / xp.sum(self.w)
        self.true = self.code[:, None] == self.columns[None, :]
        self.impossible = xp.isinf(Z) & (Z < 0)
        Z = Z - xp.max(Z, axis=1, keepdims=True)
        P = xp.exp(Z)
        total = xp.sum(P, axis=1, keepdims=True)
        self.P = P / total
        # A row with NaN or +inf, or of -inf alone, is NaN in every column.
        self.impossible = self.impossible & ~xp.isnan(total)
        self.log_P = xp.where(self.impossible, LOG_PROBA_MIN, Z - xp.log(total))

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return int(self.P.shape[1])

    def top(self) -> tuple[Any, Any]:
        """Return the confidence of each row, ``(n,)``, and whether it is a hit."""
        self.predicted = self.xp.argmax(self.P, axis=1)
        is_top = self.predicted[:, None] == self.columns[None, :]
        confidence = self.xp.sum(self.xp.where(is_top, self.P, 0.0), axis=1)
        return confidence, self.predicted == self.code

    def log_of_true(self) -> Any:
        """Return the log-probability of each row's true class, ``(n,)``."""
        return self.xp.sum(self.xp.where(self.true, self.log_P, 0.0), axis=1)

    def mean(self, cost: Any) -> Any:
        """Return the weighted mean of a cost of each row, as a number of the user's library."""
        return self.number(self.xp.sum(self.share * cost))

    def number(self, value: Any) -> Any:
        """Return a value as a float or, of tensors, as a 0-d tensor."""
        return float(value) if self.xp is np else value

    def by_log_of_top(self, by_confidence: Float64Array) -> Float64Array:
        """Turn derivatives in the confidences, ``(n,)``, into ones in the log-probabilities."""
        by_log_P = np.zeros(self.P.shape)
        rows = np.arange(self.P.shape[0])
        by_log_P[rows, self.predicted] = by_confidence * self.P[rows, self.predicted]
        return by_log_P

    def by_log_of_all(self, by_entropy: Float64Array) -> Float64Array:
        """Turn derivatives in the entropies, ``(n,)``, into ones in the log-probabilities."""
        return -by_entropy[:, None] * self.P * (self.log_P + 1.0)

    def gradient(self, by_log_P: Float64Array) -> NDArray[np.floating]:
        """Turn derivatives in the log-probabilities into ones in the logits as they came."""
        by_log_P = np.where(self.impossible, 0.0, by_log_P)
        G = by_log_P - self.P * by_log_P.sum(axis=1)[:, None]
        G = G[:, 1:] if self._shape[1:] in ((), (1,)) else G  # one column f stood for (0, f)
        return G.reshape(self._shape).astype(self._dtype, copy=False)


def _refuse_other_order(logits: Any) -> None:
    """Refuse a frame whose columns are named by the classes in another order than 0..K-1."""
    names = column_names(logits, "logits")
    named = None if names is None else match_names(names, np.arange(len(names)), True, "logits")
    if named is not None and (np.diff(named.order) < 0).any():
        raise ValueError(
            f"logits: the columns are named {shown(names)}, but column k has to be class k: "
            f"reorder the columns by {shown(named.order.tolist())}."
        )


def _open_arrays(logits: Any, y: Any, sample_weight: Any) -> tuple[Any, Any, Any, Any, Any]:
    _refuse_other_order(logits)
    Z = as_matrix(logits, "logits")
    check_possible(Z, "logits", "logits")
    Z = two_columns(Z, "logits")
    codes = check_labels(y, "y")
    check_lengths(codes, Z, "y", "logits")
    if codes.dtype.kind not in "iufb":
        raise ValueError(_not_codes(codes[0], 0, Z.shape[1]))
    wrong = np.flatnonzero((codes < 0) | (codes >= Z.shape[1]))
    if wrong.size:
        raise ValueError(_not_codes(codes[wrong[0]], int(wrong[0]), Z.shape[1]))
    w = check_weight(sample_weight, Z.shape[0])
    return np, Z, codes.astype(np.intp), w, np.arange(Z.shape[1])


def _open_tensors(logits: Any, y: Any, sample_weight: Any) -> tuple[Any, Any, Any, Any, Any]:
    try:
        from array_api_compat import array_namespace
    except ImportError as error:
        raise ImportError(
            "Losses of tensors need array-api-compat: pip install 'skcalib[torch]'."
        ) from error
    xp = array_namespace(logits)
    place = {"device": logits.device}
    if logits.ndim not in (1, 2) or 0 in logits.shape or not logits.is_floating_point():
        raise ValueError(
            f"logits must be (n, K) or (n,) floating point numbers; got shape "
            f"{tuple(logits.shape)}, {logits.dtype}."
        )
    Z = logits[:, None] if logits.ndim == 1 else logits
    if xp.finfo(Z.dtype).bits < 32:
        Z = xp.astype(Z, xp.float32)
    if Z.shape[1] == 1:
        Z = xp.concat([xp.zeros_like(Z), Z], axis=1)
    n, n_classes = Z.shape
    code = xp.asarray(_own(y), **place)
    if tuple(code.shape) != (n,) or code.is_floating_point():
        raise ValueError(
            f"y must be ({n},) whole numbers, one for each row of logits; got shape "
            f"{tuple(code.shape)}, {code.dtype}."
        )
    wrong = (code < 0) | (code >= n_classes)
    if bool(xp.any(wrong)):
        row = int(xp.argmax(xp.astype(wrong, xp.int32)))
        raise ValueError(_not_codes(int(code[row]), row, n_classes))
    if sample_weight is None:
        w = xp.ones(n, dtype=Z.dtype, **place)
    else:
        w = xp.asarray(_own(sample_weight), dtype=Z.dtype, **place)
        if tuple(w.shape) != (n,):
            raise ValueError(
                f"sample_weight.shape == {tuple(w.shape)}, expected {(n,)}: give one weight for "
                "each row."
            )
        if not bool(xp.all((w >= 0) & (w < np.inf))) or not bool(xp.any(w > 0)):
            raise ValueError(
                "sample_weight must be finite and non-negative, and not all zero; mend the weights."
            )
    return xp, Z, code, w, xp.arange(n_classes, **place)


def _is_tensor(x: Any) -> bool:
    torch = sys.modules.get("torch")  # there is no tensor before its library is imported
    return torch is not None and isinstance(x, torch.Tensor)


def _own(x: Any) -> Any:
    """Return `x`, copied unless it is a tensor: tensors may not share read-only memory."""
    return x if _is_tensor(x) else np.array(x)


def _not_codes(label: object, row: int, n_classes: int) -> str:
    label = label.item() if isinstance(label, np.generic) else label
    return (
        f"y: {label!r} at row {row} is not a column of the logits, 0 to {n_classes - 1}; pass "
        "codes, such as numpy.unique(labels, return_inverse=True)[1]."
    )


# --------------------------------------------------------------------------------- proper losses


def nll_loss(
    logits: Any, y: Any, *, sample_weight: ArrayLike | None = None, return_gradient: bool = False
) -> Loss:
    r"""Negative log-likelihood: log loss, cross-entropy.

    .. math:: -\frac{1}{W} \sum_i w_i \log P_{i y_i}, \qquad P = \mathrm{softmax}(Z)

    Parameters
    ----------
    logits : array-like or torch.Tensor of shape (n, K), (n,) or (n, 1)
        Logits; one column f stands for (0, f).
    y : array-like or torch.Tensor of shape (n,)
        Column of the true class of each row, 0 to K - 1.
    sample_weight : array-like or torch.Tensor of shape (n,), default=None
        Non-negative weights; 2 counts as two copies of the row, 0 as its absence.
    return_gradient : bool, default=False
        Whether to return the gradient too (NumPy only).

    Returns
    -------
    loss : float, or 0-d torch.Tensor
        At least 0; 0 is best. A true class whose logit is -inf costs 27.6 and has no slope.
    gradient : ndarray, in the shape and the floating type of `logits`
        Derivative in each logit, if ``return_gradient=True``.

    Raises
    ------
    ValueError
        If logits, codes or weights are invalid.

    Examples
    --------
    >>> from skcalib.losses import nll_loss
    >>> value, gradient = nll_loss([[0.0, 0.0], [2.0, 0.0]], [1, 0], return_gradient=True)
    >>> round(value, 4), gradient.round(3).tolist()
    (0.41, [[0.25, -0.25], [-0.06, 0.06]])
    """
    batch = _Batch(logits, y, sample_weight, return_gradient)
    value = batch.mean(-batch.log_of_true())
    if not return_gradient:
        return value
    return value, batch.gradient(-batch.share[:, None] * batch.true)


def brier_loss(
    logits: Any, y: Any, *, sample_weight: ArrayLike | None = None, return_gradient: bool = False
) -> Loss:
    r"""Brier score: squared error of the probabilities.

    .. math:: \frac{1}{W} \sum_i w_i \sum_k (P_{ik} - [k = y_i])^2,
              \qquad P = \mathrm{softmax}(Z)

    Parameters
    ----------
    logits : array-like or torch.Tensor of shape (n, K), (n,) or (n, 1)
        Logits; one column f stands for (0, f).
    y : array-like or torch.Tensor of shape (n,)
        Column of the true class of each row, 0 to K - 1.
    sample_weight : array-like or torch.Tensor of shape (n,), default=None
        Non-negative weights; 2 counts as two copies of the row, 0 as its absence.
    return_gradient : bool, default=False
        Whether to return the gradient too (NumPy only).

    Returns
    -------
    loss : float, or 0-d torch.Tensor
        In [0, 2]; 0 is best.
    gradient : ndarray, in the shape and the floating type of `logits`
        Derivative in each logit, if ``return_gradient=True``.

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
    batch = _Batch(logits, y, sample_weight, return_gradient)
    xp = batch.xp
    residual = xp.where(batch.true, batch.P - 1.0, batch.P)
    value = batch.mean(xp.sum(residual * residual, axis=1))
    if not return_gradient:
        return value
    return value, batch.gradient(2.0 * batch.share[:, None] * residual * batch.P)


def focal_loss(
    logits: Any,
    y: Any,
    *,
    gamma: float = 2.0,
    sample_weight: ArrayLike | None = None,
    return_gradient: bool = False,
) -> Loss:
    r"""Focal loss: the negative log-likelihood, less of it where a row is already right.

    .. math:: -\frac{1}{W} \sum_i w_i (1 - P_{i y_i})^\gamma \log P_{i y_i},
              \qquad P = \mathrm{softmax}(Z)

    Not a proper score for :math:`\gamma > 0`: it favours probabilities less certain than the
    truth, which counters the over-confidence of an over-fitted network.

    Parameters
    ----------
    logits : array-like or torch.Tensor of shape (n, K), (n,) or (n, 1)
        Logits; one column f stands for (0, f).
    y : array-like or torch.Tensor of shape (n,)
        Column of the true class of each row, 0 to K - 1.
    gamma : float, default=2.0
        At least 0; 0 is `nll_loss`.
    sample_weight : array-like or torch.Tensor of shape (n,), default=None
        Non-negative weights; 2 counts as two copies of the row, 0 as its absence.
    return_gradient : bool, default=False
        Whether to return the gradient too (NumPy only).

    Returns
    -------
    loss : float, or 0-d torch.Tensor
        At least 0; 0 is best.
    gradient : ndarray, in the shape and the floating type of `logits`
        Derivative in each logit, if ``return_gradient=True``.

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
    batch = _Batch(logits, y, sample_weight, return_gradient)
    xp = batch.xp
    log_p = batch.log_of_true()
    miss = -xp.expm1(log_p)
    sure = miss <= 0.0  # a power below 1 has an infinite slope at 0
    focus = xp.where(sure, 0.0, xp.where(sure, 1.0, miss) ** gamma)
    value = batch.mean(-focus * log_p)
    if not return_gradient:
        return value
    slope = gamma * focus / np.where(sure, 1.0, miss) * np.exp(log_p) * log_p - focus
    if gamma == 0:
        slope = np.full_like(log_p, -1.0)
    return value, batch.gradient((batch.share * slope)[:, None] * batch.true)


# ---------------------------------------------------------------------------- calibration losses


def soft_binned_loss(
    logits: Any,
    y: Any,
    *,
    kind: Kind = "bin",
    mode: Mode = "top",
    n_bins: int = 15,
    temperature: float = 0.01,
    norm: MeanNorm = "l2",
    sample_weight: ArrayLike | None = None,
    return_gradient: bool = False,
) -> Loss:
    r"""Soft-binned calibration error (SB-ECE) of the top label, or of every class.

    With :math:`c_i = \max_k P_{ik}`, :math:`t_i = [\arg\max_k P_{ik} = y_i]`,
    :math:`\xi_b = (b - 1/2) / B` and weights normalised to 1,

    .. math:: u_{ib} = \mathrm{softmax}_b\big(-(c_i - \xi_b)^2 / T\big), \qquad
              S_b = \sum_i w_i u_{ib}, \qquad
              \mathrm{acc}_b = \frac{1}{S_b} \sum_i w_i u_{ib} t_i, \qquad
              \mathrm{conf}_b = \frac{1}{S_b} \sum_i w_i u_{ib} c_i

    .. math:: \mathrm{bin} = \Big(\sum_b S_b |\mathrm{acc}_b - \mathrm{conf}_b|^q\Big)^{1/q},
              \qquad \mathrm{label}
              = \Big(\sum_{ib} w_i u_{ib} |\mathrm{acc}_b - c_i|^q\Big)^{1/q}

    Class by class, the error :math:`e_k` has :math:`P_{ik}` for :math:`c_i` and
    :math:`[y_i = k]` for :math:`t_i`, and the loss is
    :math:`\big(\frac{1}{K} \sum_k e_k^q\big)^{1/q}`.

    Parameters
    ----------
    logits : array-like or torch.Tensor of shape (n, K), (n,) or (n, 1)
        Logits; one column f stands for (0, f).
    y : array-like or torch.Tensor of shape (n,)
        Column of the true class of each row, 0 to K - 1.
    kind : {"bin", "label"}, default="bin"
        Compare the accuracy of a bin with its confidence, or with each confidence in it. The
        paper trains with "label".
    mode : {"top", "classwise"}, default="top"
        The top label and whether it is true, or each class against the rest.
    n_bins : int, default=15
        Number of bins.
    temperature : float, default=0.01
        T > 0; the bins become sharp, and the loss flat within each, as it tends to 0.
    norm : {"l1", "l2"} or float in [1, 10], default="l2"
        q.
    sample_weight : array-like or torch.Tensor of shape (n,), default=None
        Non-negative weights; 2 counts as two copies of the row, 0 as its absence.
    return_gradient : bool, default=False
        Whether to return the gradient too (NumPy only).

    Returns
    -------
    loss : float, or 0-d torch.Tensor
        In [0, 1]; 0 is best.
    gradient : ndarray, in the shape and the floating type of `logits`
        Derivative in each logit, if ``return_gradient=True``, of the piece that holds there: the
        predicted class and the signs under "l1" are taken as constant. It is 0 where the loss is.

    Raises
    ------
    ValueError
        If logits, codes, weights or keywords are invalid.

    Notes
    -----
    A batch should hold some hundred rows: with few, the gap of a bin is mostly chance. A model
    that has memorised its rows has no gap left on them: take the loss on held-out rows
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
    check_count("n_bins", n_bins, 1)
    _check_temperature(temperature)
    batch = _Batch(logits, y, sample_weight, return_gradient)
    options: dict[str, Any] = {
        "n_bins": int(n_bins),
        "temperature": temperature,
        "kind": kind,
        "norm": norm,
    }
    if mode == "classwise":
        if not return_gradient:
            error = classwise_soft_binned_error(
                batch.P, batch.true, batch.w, xp=batch.xp, **options
            )
            return batch.number(error)
        value, slope = classwise_soft_binned_gradient(batch.P, batch.true, batch.w, **options)
        return value, batch.gradient(slope * batch.P)
    confidence, hit = batch.top()
    if not return_gradient:
        error = soft_binned_error(confidence, hit, batch.w, xp=batch.xp, **options)
        return batch.number(error)
    value, slope = soft_binned_gradient(confidence, hit, batch.w, **options)
    return value, batch.gradient(batch.by_log_of_top(slope))


def avuc_loss(
    logits: Any,
    y: Any,
    *,
    threshold: float = 0.5,
    stop_gradient: bool = False,
    sample_weight: ArrayLike | None = None,
    return_gradient: bool = False,
) -> Loss:
    r"""Accuracy-versus-uncertainty loss (AvUC), and its form with a stopped gradient (AvUC-GS).

    .. math:: \mathrm{AvUC} = \log\Big(1 + \frac{n_{AU} + n_{IC}}{n_{AC} + n_{IU}}\Big)

    Rows are accurate (A) or inaccurate (I) and, by their entropy h in nats, certain (C:
    :math:`h < \kappa`) or uncertain (U). Each adds to its sum n its weight times the confidence c
    (A) or 1 - c (I), times :math:`1 - \tanh h` (C) or :math:`\tanh h` (U).

    Parameters
    ----------
    logits : array-like or torch.Tensor of shape (n, K), (n,) or (n, 1)
        Logits; one column f stands for (0, f).
    y : array-like or torch.Tensor of shape (n,)
        Column of the true class of each row, 0 to K - 1.
    threshold : float, default=0.5
        :math:`\kappa`, in nats: at least 0.
    stop_gradient : bool, default=False
        True takes c and 1 - c as constants in the gradient (AvUC-GS); the value is the same.
        Without it the loss rewards more confidence in answers that are wrong and certain.
    sample_weight : array-like or torch.Tensor of shape (n,), default=None
        Non-negative weights; 2 counts as two copies of the row, 0 as its absence.
    return_gradient : bool, default=False
        Whether to return the gradient too (NumPy only).

    Returns
    -------
    loss : float, or 0-d torch.Tensor
        In [0, 27.7], where the logarithm is clipped; 0 is best.
    gradient : ndarray, in the shape and the floating type of `logits`
        Derivative in each logit, if ``return_gradient=True``, of the piece that holds there: the
        predicted class and the side of the threshold are taken as constant.

    Raises
    ------
    ValueError
        If logits, codes, weights or `threshold` are invalid.

    See Also
    --------
    soft_avuc_loss : A soft threshold in place of the hard one, and no factor c to be misled by.

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
    batch = _Batch(logits, y, sample_weight, return_gradient)
    confidence, hit = batch.top()
    h = entropy(batch.P, batch.xp)
    if not return_gradient:
        if stop_gradient and batch.xp is not np:
            confidence = confidence.detach()
        return batch.number(avuc(confidence, h, hit, batch.w, threshold=threshold, xp=batch.xp))
    value, by_confidence, by_entropy = avuc_gradient(
        confidence, h, hit, batch.w, threshold=threshold
    )
    by_log_P = batch.by_log_of_all(by_entropy)
    if not stop_gradient:
        by_log_P += batch.by_log_of_top(by_confidence)
    return value, batch.gradient(by_log_P)


def soft_avuc_loss(
    logits: Any,
    y: Any,
    *,
    kappa: float = 0.5,
    temperature: float = 1.0,
    sample_weight: ArrayLike | None = None,
    return_gradient: bool = False,
) -> Loss:
    r"""Soft accuracy-versus-uncertainty loss (S-AvUC).

    .. math:: \text{S-AvUC} = \log\Big(1 + \frac{n_{AU} + n_{IC}}{n_{AC} + n_{IU}}\Big), \quad
              t = \mathrm{logistic}\Big(\frac{1}{T}
                  \log\frac{h^* (1 - \kappa)}{(1 - h^*) \kappa}\Big)

    with h the entropy of a row and :math:`h^* = h / \log K`. An accurate (A) or inaccurate (I)
    row adds :math:`w\, t \tanh h` to the uncertain (U) and :math:`w (1 - t)(1 - \tanh h)` to the
    certain (C) sum of its kind.

    Parameters
    ----------
    logits : array-like or torch.Tensor of shape (n, K), (n,) or (n, 1)
        Logits; one column f stands for (0, f).
    y : array-like or torch.Tensor of shape (n,)
        Column of the true class of each row, 0 to K - 1.
    kappa : float in (0, 1), default=0.5
        The normalised entropy that is half uncertain.
    temperature : float, default=1.0
        T > 0; the threshold becomes sharp as it tends to 0.
    sample_weight : array-like or torch.Tensor of shape (n,), default=None
        Non-negative weights; 2 counts as two copies of the row, 0 as its absence.
    return_gradient : bool, default=False
        Whether to return the gradient too (NumPy only).

    Returns
    -------
    loss : float, or 0-d torch.Tensor
        In [0, 27.7], where the logarithm is clipped; 0 is best.
    gradient : ndarray, in the shape and the floating type of `logits`
        Derivative in each logit, if ``return_gradient=True``; the predicted class is taken as
        constant.

    Raises
    ------
    ValueError
        If logits, codes, weights or keywords are invalid.

    Notes
    -----
    The normalised entropy is kept 1e-12 (of single-precision tensors: 1.2e-7) away from 0 and 1,
    so that one-hot and uniform rows have finite gradients.

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
    _check_temperature(temperature)
    batch = _Batch(logits, y, sample_weight, return_gradient)
    _, hit = batch.top()
    h = entropy(batch.P, batch.xp)
    options: dict[str, Any] = {
        "n_classes": batch.n_classes,
        "kappa": kappa,
        "temperature": temperature,
    }
    if not return_gradient:
        return batch.number(soft_avuc(h, hit, batch.w, xp=batch.xp, **options))
    value, slope = soft_avuc_gradient(h, hit, batch.w, **options)
    return value, batch.gradient(batch.by_log_of_all(slope))


def mmce_loss(
    logits: Any, y: Any, *, sample_weight: ArrayLike | None = None, return_gradient: bool = False
) -> Loss:
    r"""Maximum mean calibration error (MMCE) of the top label.

    With :math:`c_i = \max_k P_{ik}`, :math:`t_i = [\arg\max_k P_{ik} = y_i]` and weights
    normalised to 1,

    .. math:: \mathrm{MMCE} = \Big(\sum_{ij} w_i w_j (t_i - c_i)(t_j - c_j)\,
              e^{-|c_i - c_j| / 0.4}\Big)^{1/2}

    Parameters
    ----------
    logits : array-like or torch.Tensor of shape (n, K), (n,) or (n, 1)
        Logits; one column f stands for (0, f).
    y : array-like or torch.Tensor of shape (n,)
        Column of the true class of each row, 0 to K - 1.
    sample_weight : array-like or torch.Tensor of shape (n,), default=None
        Non-negative weights; 2 counts as two copies of the row, 0 as its absence.
    return_gradient : bool, default=False
        Whether to return the gradient too (NumPy only).

    Returns
    -------
    loss : float, or 0-d torch.Tensor
        In [0, 1]; 0 is best.
    gradient : ndarray, in the shape and the floating type of `logits`
        Derivative in each logit, if ``return_gradient=True``; the predicted class is taken as
        constant, and equal confidences do not move apart. It is 0 where the loss is.

    Raises
    ------
    ValueError
        If logits, codes or weights are invalid.

    Notes
    -----
    Costs a sort of the batch: no matrix of all pairs is made.

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
    batch = _Batch(logits, y, sample_weight, return_gradient)
    confidence, hit = batch.top()
    if not return_gradient:
        return batch.number(kernel_mean_error(confidence, hit, batch.w, xp=batch.xp))
    value, slope = kernel_mean_gradient(confidence, hit, batch.w)
    return value, batch.gradient(batch.by_log_of_top(slope))


def _check_temperature(temperature: float) -> None:
    check_between("temperature", temperature, 0, np.inf, "a positive number")
