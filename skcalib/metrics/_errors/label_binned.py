"""Label-binned error: each score is compared with the accuracy of its bin."""

from __future__ import annotations

from functools import partial
from typing import Any

from numpy.typing import ArrayLike

from skcalib._arrays.types import Bools, Float64Array
from skcalib._binning.bins import Bins, NumberOfBins
from skcalib._binning.quantiles import bin_index
from skcalib._binning.tables import flat_table
from skcalib._validation.keywords import Norm, check_norm
from skcalib.metrics._errors.binned import Average, Strategy, check_bins, norm_of_gaps
from skcalib.metrics._errors.modes import Mode, error_by_mode
from skcalib.metrics._listed import listed


def label_binned_error(
    score: Float64Array, hit: Bools, w: Float64Array, bins: Bins, norm: Norm
) -> float:
    """Return the norm of the distances between each score and the accuracy of its bin."""
    bins = bins.of_rows(w)
    table = flat_table(score, hit, w, bins)
    gap = table.accuracy[0, bin_index(score, table.left[0, 1:], bins)] - score
    return float(norm_of_gaps(gap[None], w[None], norm)[0])


@listed("Karandikar et al. 2021", scorer=True)
def label_binned_calibration_error(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    mode: Mode = None,
    average: Average = "macro",
    n_bins: NumberOfBins = 15,
    strategy: Strategy = "quantile",
    norm: Norm = "l2",
    pos_label: Any = None,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
) -> float | Float64Array:
    r"""Label-binned calibration error (ECE_lb): gap of each score and the accuracy of its bin.

    For a binary problem with scores s, weights w of sum W and bins b,

    .. math:: \mathrm{ECE}_{\mathrm{lb},q} =
              \Big(\frac{1}{W} \sum_i w_i |\mathrm{acc}_{b(i)} - s_i|^q\Big)^{1/q}

    The binned error has the bin's mean score instead of :math:`s_i`; with the same bins it is the
    smaller one, by Jensen's inequality.

    Parameters
    ----------
    y_true : array-like of shape (n,) or (n, K)
        Labels; with one column also soft hits, shares of the event in [0, 1]; or the shares of
        several raters, a column for each class.
    y_proba : array-like of shape (n, K), (n,) or (n, 1)
        Class probabilities, a column for each of the sorted labels, or of `labels` in their
        order; a frame whose columns are named by the labels is read by name. One or two columns
        give the probability of one event, `pos_label`, and are measured as that.
    mode : {"top", "classwise"} or None, default=None
        The top label and whether it is true, or each class against the rest; None means the event
        of one or two columns, and of more the top label.
    average : {"macro", None}, default="macro"
        For "classwise": the q-th root of the mean over classes of the q-th powers; None returns
        the error of each.
    n_bins : int or "cube_root", default=15
        Number of bins; "cube_root": the cube root of the number of rows, rounded up.
    strategy : {"uniform", "quantile"}, default="quantile"
        Bins of equal width on [0, 1], or of equal weight.
    norm : {"l1", "l2", "max"} or float in [1, 10], default="l2"
        q, or the largest distance of any row.
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

    See Also
    --------
    root_mean_squared_calibration_error : The binned error with these defaults.

    Notes
    -----
    The error of a calibrated model is the spread of the scores within bins: it tends to 0 only as
    bins become narrow. In return it is smooth in the scores as long as they stay in their bins.

    References
    ----------
    Karandikar, Cain, Tran, Lakshminarayanan, Shlens, Mozer, Roelofs (2021). Soft Calibration
    Objectives for Neural Networks. NeurIPS. Equation (7).

    Examples
    --------
    >>> from skcalib.metrics import label_binned_calibration_error
    >>> y = [0, 1, 1, 0]
    >>> P = [[0.9, 0.1], [0.2, 0.8], [0.6, 0.4], [0.7, 0.3]]
    >>> round(label_binned_calibration_error(y, P, n_bins=2), 4)
    0.3536
    """
    bins = check_bins(n_bins, strategy)
    check_norm(norm)
    data = (y_true, y_proba, sample_weight, labels, pos_label)

    error = partial(label_binned_error, bins=bins, norm=norm)
    return error_by_mode(data, error, mode, average, norm, dtype=None, soft=True)
