"""Checks of the logits and labels of losses, as NumPy arrays or as tensors."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from skcalib._arrays.sources import as_source
from skcalib._arrays.tensors import is_tensor
from skcalib._scores.scores import LOG_PROBA_MIN
from skcalib._validation.keywords import check_option, short_repr
from skcalib._validation.labels import check_labels
from skcalib._validation.named_columns import column_names, match_names
from skcalib._validation.rows import (
    check_lengths,
    ignore_label,
    read_weight,
    replace_absent_rows,
    rows_replacing_weight_0,
)
from skcalib._validation.scores import as_matrix, check_axes, refuse_lazy
from skcalib._validation.survey import check_values, two_columns

# Return type of losses: a float, or a 0-d tensor of a library that is not imported in this package.
Loss = Any
Mode = Literal["top", "classwise"]


class LossBatch:
    """Checked logits and their softmax probabilities, as NumPy arrays or as tensors.

    Attributes
    ----------
    xp : namespace
    P, log_P : array of shape (n, K)
        Probabilities and their logarithms. A logit of -inf has P = 0, and its log-probability is
        a constant, the logarithm of the clip.
    code, w, share : array of shape (n,)
        Column of the true class, weights, and weights that sum to 1.
    true : array of shape (n, K)
        Whether a column is that of the true class.
    """

    def __init__(
        self, logits: Any, y: Any, sample_weight: Any, ignore_index: int | None, reduction: str
    ) -> None:
        check_option("reduction", reduction, ("mean", "none"))
        self._reduction = reduction
        opened = _open_tensors if is_tensor(logits) else _open_arrays
        xp, Z, self.code, self.w, self.columns = opened(logits, y, sample_weight, ignore_index)
        self.xp = xp
        wrong = (self.code < 0) | (self.code >= Z.shape[1])
        if bool(xp.any(wrong)):
            row = int(xp.argmax(xp.where(wrong, 1, 0)))
            raise ValueError(_not_codes(int(self.code[row]), row, Z.shape[1]))
        self.share = self.w / xp.sum(self.w)
        self.true = self.code[:, None] == self.columns[None, :]
        impossible = xp.isinf(Z) & (Z < 0)
        Z = Z - xp.max(Z, axis=1, keepdims=True)
        P = xp.exp(Z)
        total = xp.sum(P, axis=1, keepdims=True)
        self.P = P / total
        # In a row with NaN or +inf, or with only -inf, all probabilities are NaN.
        impossible = impossible & ~xp.isnan(total)
        self.log_P = xp.where(impossible, LOG_PROBA_MIN, Z - xp.log(total))

    def top(self) -> tuple[Any, Any]:
        """Return the confidence of each row, and whether its prediction is correct, ``(n,)``."""
        predicted = self.xp.argmax(self.P, axis=1)
        is_top = predicted[:, None] == self.columns[None, :]
        confidence = self.xp.sum(self.xp.where(is_top, self.P, 0.0), axis=1)
        return confidence, predicted == self.code

    def log_of_true(self) -> Any:
        """Return the log-probability ``(n,)`` of the true class of each row."""
        return self.xp.sum(self.xp.where(self.true, self.log_P, 0.0), axis=1)

    def reduced(self, cost: Any) -> Any:
        """Return the weighted mean of the losses of rows, or the weighted losses."""
        if self._reduction == "none":
            return self.xp.where(self.w > 0, self.w * cost, 0.0)
        return self.to_scalar(self.xp.sum(self.share * cost))

    def to_scalar(self, value: Any) -> Any:
        """Return the total loss as a float for arrays, or as a 0-d tensor for tensors."""
        if self._reduction == "none":
            raise ValueError(
                "reduction='none' is only for nll_loss, brier_loss and focal_loss, because a "
                "calibration error is not a mean over rows; leave reduction out."
            )
        return float(value) if self.xp is np else value


def _refuse_other_order(logits: Any) -> None:
    """Raise an error if the column names of a data frame are class labels in a wrong order."""
    refuse_lazy("logits", logits)
    names = column_names(logits)
    if names is None or len(names) < 2:
        return
    named = match_names(names, np.arange(len(names)), True, "logits")
    if named is not None and (np.diff(named.order) < 0).any():
        raise ValueError(
            f"logits has the columns {short_repr(names)}, but column k must contain class k: "
            f"reorder the columns by {short_repr(named.order.tolist())}."
        )


def _open_arrays(
    logits: Any, y: Any, sample_weight: Any, ignore_index: int | None
) -> tuple[Any, Any, Any, Any, Any]:
    _refuse_other_order(logits)
    Z = as_matrix(logits, "logits")
    check_values(as_source(Z), "logits", "logits")
    Z = two_columns(Z, "logits")
    if ignore_index is not None:
        sample_weight = ignore_label(y, sample_weight, ignore_index)
    codes = check_labels(replace_absent_rows(y, rows_replacing_weight_0(sample_weight)), "y")
    check_lengths(codes, Z.shape[0], "y", "logits")
    if codes.dtype.kind not in "iufb":
        raise ValueError(_not_codes(codes[0], 0, Z.shape[1]))
    w = np.ones(len(Z)) if sample_weight is None else read_weight(sample_weight, len(Z))
    # Weights need no scaling, because losses depend only on the ratios of weights.
    w = w.astype(np.float64)
    return np, Z.astype(np.float64, copy=False), codes.astype(np.intp), w, np.arange(Z.shape[1])


def _open_tensors(
    logits: Any, y: Any, sample_weight: Any, ignore_index: int | None
) -> tuple[Any, Any, Any, Any, Any]:
    try:
        from array_api_compat import array_namespace
    except ImportError as error:
        raise ImportError(
            "Losses of tensors need array-api-compat: pip install 'skcalib[torch]'."
        ) from error
    xp = array_namespace(logits)
    device = {"device": logits.device}
    check_axes(logits, "logits")
    if logits.ndim not in (1, 2) or 0 in logits.shape or not logits.is_floating_point():
        raise ValueError(
            f"logits must be floating point numbers of shape (n, K) or (n,); got shape "
            f"{tuple(logits.shape)} and type {logits.dtype}."
        )
    Z = logits[:, None] if logits.ndim == 1 else logits
    if xp.finfo(Z.dtype).bits < 32:
        Z = xp.astype(Z, xp.float32)
    if Z.shape[1] == 1:
        Z = xp.concat([xp.zeros_like(Z), Z], axis=1)
    n, n_classes = Z.shape
    code = xp.asarray(_copied(y), **device)
    if tuple(code.shape) != (n,) or code.is_floating_point():
        raise ValueError(
            f"y must be integers of shape ({n},), one for each row of logits; got shape "
            f"{tuple(code.shape)} and type {code.dtype}."
        )
    if sample_weight is None:
        w = xp.ones(n, dtype=Z.dtype, **device)
    else:
        w = xp.asarray(_copied(sample_weight), dtype=Z.dtype, **device)
        if tuple(w.shape) != (n,):
            raise ValueError(
                f"sample_weight.shape == {tuple(w.shape)}, expected {(n,)}: give one weight for "
                "each row."
            )
        if not bool(xp.all((w >= 0) & (w < np.inf))) or not bool(xp.any(w > 0)):
            raise ValueError(
                "sample_weight must be finite and non-negative, and not all zero; fix the weights."
            )
    if ignore_index is not None:
        used = code != ignore_index
        code, w = xp.where(used, code, 0), xp.where(used, w, 0.0)
        if not bool(xp.any(w > 0)):
            raise ValueError(
                f"y: every label is ignore_index={ignore_index}; no row is left: pass other labels."
            )
    return xp, Z, code, w, xp.arange(n_classes, **device)


def _copied(x: Any) -> Any:
    """Copy an array, because tensors cannot share read-only memory; return a tensor unchanged."""
    return x if is_tensor(x) else np.array(x)


def _not_codes(label: object, row: int, n_classes: int) -> str:
    label = label.item() if isinstance(label, np.generic) else label
    return (
        f"y: {label!r} at row {row} is not the index of a column of logits, 0 to {n_classes - 1}; "
        "pass codes, such as numpy.unique(labels, return_inverse=True)[1]."
    )
