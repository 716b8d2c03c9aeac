"""Soft-binned error: every score belongs to every bin, with most weight in the nearest."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from skcalib._arrays.types import Float64Array
from skcalib._binning.bins import NumberOfBins
from skcalib._differentiable.soft_binning import Kind, SoftBins, soft_binned_error
from skcalib._validation.keywords import (
    MeanNorm,
    check_between,
    check_norm,
    check_option,
    number_of_bins,
)
from skcalib.metrics._errors.binned import Average
from skcalib.metrics._errors.modes import Mode, error_by_mode
from skcalib.metrics._listed import listed


@listed("Karandikar et al. 2021", scorer=True)
def soft_binned_calibration_error(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    temperature: float = 0.01,
    kind: Kind = "bin",
    mode: Mode = None,
    average: Average = "macro",
    n_bins: NumberOfBins = 15,
    norm: MeanNorm = "l2",
    pos_label: Any = None,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
) -> float | Float64Array:
    r"""Soft-binned calibration error (SB-ECE): ECE with overlapping bins, smooth in the scores.

    For a binary problem with scores s, outcomes t, weights w of sum 1, and the centres
    :math:`\xi_b` of B even bins,

    .. math:: u_{ib} = \mathrm{softmax}_b\big(-(s_i - \xi_b)^2 / T\big), \qquad
              S_b = \sum_i w_i u_{ib}

    are a row's membership in a bin and the bin's weight; acc and conf are the means of t and s
    under :math:`w_i u_{ib}`. Then

    .. math:: \mathrm{bin} = \Big(\sum_b S_b |\mathrm{acc}_b - \mathrm{conf}_b|^q\Big)^{1/q},
              \qquad
              \mathrm{label} = \Big(\sum_{ib} w_i u_{ib} |\mathrm{acc}_b - s_i|^q\Big)^{1/q}.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Labels.
    y_proba : array-like of shape (n, K), (n,) or (n, 1)
        Class probabilities, a column for each of the sorted labels, or of `labels` in their
        order; a frame whose columns are named by the labels is read by name. One or two columns
        give the probability of one event, `pos_label`, and are measured as that.
    temperature : float, default=0.01
        T > 0, in units of a squared score: the square root of T/2 is the width over which bins
        blend. As it tends to 0 the bins become even ones with sharp edges.
    kind : {"bin", "label"}, default="bin"
        Compare the accuracy of a bin with its confidence, or with each score in it.
    mode : {"top", "classwise"} or None, default=None
        The top label and whether it is true, or each class against the rest; None means the event
        of one or two columns, and of more the top label.
    average : {"macro", None}, default="macro"
        For "classwise": the q-th root of the mean over classes of the q-th powers; None returns
        the error of each.
    n_bins : int or "cube_root", default=15
        Number of bins B; "cube_root": the cube root of the number of rows, rounded up.
    norm : {"l1", "l2"} or float in [1, 10], default="l2"
        q.
    pos_label : label, default=None
        The event whose probability is measured. None means 1 or True for labels {0, 1}, {-1, 1} or
        booleans; of other labels the second of two columns, while one column needs it. With more
        columns, None means what `mode` says.
    sample_weight : array-like of shape (n,), default=None
        Non-negative weights. Integers are counts: 2 is two copies of the row. Of floats only the
        ratios matter (see "Weights" under "Valid input" in the user guide). 0 is the row's absence.
    labels : array-like of shape (K,), default=None
        Labels of the columns, in their order; needed if they cannot be inferred from `y_true`.

    Returns
    -------
    error : float, or ndarray of shape (K,) if ``average=None``
        In [0, 1]; 0 is best.

    Raises
    ------
    ValueError
        If probabilities, labels, weights or keywords are invalid.

    Notes
    -----
    It is smooth in the scores, so that it can be an objective of training (`skcalib.losses`) and of
    temperature scaling. For a calibrated model the bin form tends to 0 as n grows; the label form
    tends to the spread of the scores within soft bins.

    References
    ----------
    Karandikar, Cain, Tran, Lakshminarayanan, Shlens, Mozer, Roelofs (2021). Soft Calibration
    Objectives for Neural Networks. NeurIPS. Equations (8)-(12).

    Examples
    --------
    >>> from skcalib.metrics import soft_binned_calibration_error
    >>> y = [0, 1, 1, 0]
    >>> P = [[0.9, 0.1], [0.2, 0.8], [0.6, 0.4], [0.7, 0.3]]
    >>> round(soft_binned_calibration_error(y, P), 4)
    0.2416
    """
    check_option("kind", kind, ("bin", "label"))
    check_norm(norm, has_max=False)
    check_between("temperature", temperature, 0, np.inf, "a positive number")
    number_of_bins(n_bins, 1)  # an error before the rows are read

    def error(score: Any, hit: Any, w: Any) -> Any:
        bins = SoftBins(number_of_bins(n_bins, w.sum()), temperature, kind, norm)
        return soft_binned_error(score, hit, w, bins)

    data = (y_true, y_proba, sample_weight, labels, pos_label)
    return error_by_mode(data, error, mode, average, norm, caller="soft_binned_calibration_error")
