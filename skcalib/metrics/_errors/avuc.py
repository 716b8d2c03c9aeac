"""Accuracy versus uncertainty: whether a model is certain when right and uncertain when wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skcalib._arrays.passes import map_rows
from skcalib._arrays.rowwise import copied, largest
from skcalib._arrays.types import FloatArray
from skcalib._differentiable.avuc import avuc, entropy, soft_avuc
from skcalib._scores.top_label import event_as_classes
from skcalib._validation.keywords import check_between
from skcalib._validation.predictions import check_predictions
from skcalib.metrics._listed import listed


def top_and_entropy(block: FloatArray) -> tuple[NDArray[Any], ...]:
    """Return the largest probability of each row, its column and the row's entropy in nats."""
    return *largest(block), entropy(copied(block))


def uncertain_rows(data: tuple[Any, ...], caller: str) -> tuple[Any, ...]:
    """Return confidence, entropy, hit and weight of each row, and the number of classes."""
    predictions = check_predictions(*data, caller=caller)
    P, code = event_as_classes(predictions)
    confidence, entropies = np.empty((2, P.shape[0]))
    predicted = np.empty(P.shape[0], dtype=np.intp)
    map_rows(top_and_entropy, P, out=(confidence, predicted, entropies))
    return confidence, entropies, predicted == code, predictions.w, P.shape[1]


@listed("Krishnan and Tickoo 2020", scorer=True, error=False, has_event=False)
def avuc_loss(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    threshold: float = 0.5,
    pos_label: Any = None,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
) -> float:
    r"""Accuracy-versus-uncertainty loss (AvUC): whether right predictions are the certain ones.

    .. math:: \mathrm{AvUC} = \log\Big(1 + \frac{n_{AU} + n_{IC}}{n_{AC} + n_{IU}}\Big)

    Rows are accurate (A) or inaccurate (I) and, by their entropy h in nats, certain (C:
    :math:`h < \kappa`) or uncertain (U). Each adds to its sum n its weight times
    :math:`\max_k P_{ik}` (A) or one less that (I), times :math:`1 - \tanh h` (C) or
    :math:`\tanh h` (U).

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Labels.
    y_proba : array-like of shape (n, K), (n,) or (n, 1)
        Class probabilities, a column for each of the sorted labels, or of `labels` in their
        order; a frame whose columns are named by the labels is read by name. One column is the
        probability of one event, `pos_label`, and is measured as that.
    threshold : float, default=0.5
        :math:`\kappa`, in nats: 0 is a hard decision and log K uniform probabilities.
    pos_label : label, default=None
        The event whose probability is measured. With one column, None means 1 or True for labels
        {0, 1}, {-1, 1} or booleans; others need it. With more columns, None means the top label.
    sample_weight : array-like of shape (n,), default=None
        Non-negative weights. Integers are counts: 2 is two copies of the row. Of floats only the
        ratios matter (see "Weights" under "Valid input" in the user guide). 0 is the row's absence.
    labels : array-like of shape (K,), default=None
        Labels of the columns, in their order; needed if they cannot be inferred from `y_true`.

    Returns
    -------
    loss : float
        In [0, 27.7], where the logarithm is clipped; 0 is best: every right row is certain and
        every wrong one uncertain.

    Raises
    ------
    ValueError
        If probabilities, labels, weights or `threshold` are invalid.

    See Also
    --------
    soft_avuc_loss : The same with a soft threshold.

    Notes
    -----
    This is not a calibration error: a calibrated model that is often wrong has a large loss. It
    measures how well uncertainty separates right predictions from wrong ones.

    References
    ----------
    Krishnan, Tickoo (2020). Improving model calibration with accuracy versus uncertainty
    optimization. NeurIPS.

    Examples
    --------
    >>> from skcalib.metrics import avuc_loss
    >>> P = [[0.95, 0.05], [0.02, 0.98], [0.6, 0.4]]
    >>> round(avuc_loss([0, 1, 1], P), 4)  # right and certain twice, wrong and uncertain once
    0.0
    >>> round(avuc_loss([0, 1, 0], P), 4)
    0.1937
    """
    check_between("threshold", threshold, 0, np.inf, "an entropy >= 0 in nats", low_too=True)
    data = (y_true, y_proba, sample_weight, labels, pos_label)
    *rows, _ = uncertain_rows(data, "avuc_loss")
    return float(avuc(*rows, threshold=threshold))


@listed("Karandikar et al. 2021", scorer=True, error=False, has_event=False)
def soft_avuc_loss(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    kappa: float = 0.5,
    temperature: float = 1.0,
    pos_label: Any = None,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
) -> float:
    r"""Soft accuracy-versus-uncertainty loss (S-AvUC): AvUC with a soft threshold.

    .. math:: \text{S-AvUC} = \log\Big(1 + \frac{n_{AU} + n_{IC}}{n_{AC} + n_{IU}}\Big), \quad
              t = \mathrm{logistic}\Big(\frac{1}{T}
                  \log\frac{h^* (1 - \kappa)}{(1 - h^*) \kappa}\Big)

    with h the entropy of a row and :math:`h^* = h / \log K`. An accurate (A) or inaccurate (I)
    row adds :math:`w\, t \tanh h` to the uncertain (U) and :math:`w (1 - t)(1 - \tanh h)` to the
    certain (C) sum of its kind: there is no hard threshold.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Labels.
    y_proba : array-like of shape (n, K), (n,) or (n, 1)
        Class probabilities, a column for each of the sorted labels, or of `labels` in their
        order; a frame whose columns are named by the labels is read by name. One column is the
        probability of one event, `pos_label`, and is measured as that.
    kappa : float in (0, 1), default=0.5
        The normalised entropy that is half uncertain.
    temperature : float, default=1.0
        T > 0; the threshold becomes sharp as it tends to 0. With T = 1 and
        :math:`\kappa = 1/2`, t is the normalised entropy itself.
    pos_label : label, default=None
        The event whose probability is measured. With one column, None means 1 or True for labels
        {0, 1}, {-1, 1} or booleans; others need it. With more columns, None means the top label.
    sample_weight : array-like of shape (n,), default=None
        Non-negative weights. Integers are counts: 2 is two copies of the row. Of floats only the
        ratios matter (see "Weights" under "Valid input" in the user guide). 0 is the row's absence.
    labels : array-like of shape (K,), default=None
        Labels of the columns, in their order; needed if they cannot be inferred from `y_true`.

    Returns
    -------
    loss : float
        In [0, 27.7], where the logarithm is clipped; 0 is best.

    Raises
    ------
    ValueError
        If probabilities, labels, weights or keywords are invalid.

    See Also
    --------
    avuc_loss : The same with a hard threshold.

    References
    ----------
    Karandikar, Cain, Tran, Lakshminarayanan, Shlens, Mozer, Roelofs (2021). Soft Calibration
    Objectives for Neural Networks. NeurIPS. Equations (15), (16).

    Examples
    --------
    >>> from skcalib.metrics import soft_avuc_loss
    >>> P = [[0.95, 0.05], [0.02, 0.98], [0.6, 0.4]]
    >>> round(soft_avuc_loss([0, 1, 1], P), 4), round(soft_avuc_loss([1, 0, 0], P), 4)
    (0.0418, 3.1951)
    """
    check_between("kappa", kappa, 0, 1, "a number in (0, 1)")
    check_between("temperature", temperature, 0, np.inf, "a positive number")
    data = (y_true, y_proba, sample_weight, labels, pos_label)
    _, *rows, n_classes = uncertain_rows(data, "soft_avuc_loss")
    return float(soft_avuc(*rows, n_classes=n_classes, kappa=kappa, temperature=temperature))
