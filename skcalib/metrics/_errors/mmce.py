"""Maximum mean calibration error: a kernel norm of the residual."""

from __future__ import annotations

from typing import Any

from numpy.typing import ArrayLike

from skcalib._arrays.types import Float64Array
from skcalib._differentiable.mmce import kernel_mean_error
from skcalib.metrics._errors.binned import Average
from skcalib.metrics._errors.modes import Mode, error_by_mode
from skcalib.metrics._listed import listed


@listed("Kumar et al. 2018", scorer=True)
def maximum_mean_calibration_error(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    mode: Mode = None,
    average: Average = "macro",
    pos_label: Any = None,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
) -> float | Float64Array:
    r"""Maximum mean calibration error (MMCE): kernel-weighted residuals, no bins.

    For a binary problem with scores s, outcomes t and weights w of sum W,

    .. math:: \mathrm{MMCE} = \Big(\frac{1}{W^2} \sum_{ij} w_i w_j (t_i - s_i)(t_j - s_j)\,
              e^{-|s_i - s_j| / 0.4}\Big)^{1/2}

    the largest mean of :math:`(t - s) f(s)` over functions f of norm 1 in the kernel's space.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Labels.
    y_proba : array-like of shape (n, K), (n,) or (n, 1)
        Class probabilities, a column for each of the sorted labels, or of `labels` in their
        order; a frame whose columns are named by the labels is read by name. One or two columns
        give the probability of one event, `pos_label`, and are measured as that.
    mode : {"top", "classwise"} or None, default=None
        The top label and whether it is true, or each class against the rest; None means the event
        of one or two columns, and of more the top label.
    average : {"macro", None}, default="macro"
        For "classwise": the mean over classes; None returns the error of each.
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
        In [0, 1]; 0 is best. Not in units of probability, except if all scores are equal: then it
        is the absolute mean residual.

    Raises
    ------
    ValueError
        If probabilities, labels, weights or keywords are invalid.

    Notes
    -----
    The double sum is computed exactly by one sort and cumulative sums, without an n x n matrix. For
    a calibrated model the error decreases as one over the root of n.

    References
    ----------
    Kumar, Sarawagi, Jain (2018). Trainable Calibration Measures For Neural Networks From Kernel
    Mean Embeddings. ICML.

    Examples
    --------
    >>> from skcalib.metrics import maximum_mean_calibration_error
    >>> y = [0, 1, 1, 0]
    >>> P = [[0.9, 0.1], [0.2, 0.8], [0.6, 0.4], [0.7, 0.3]]
    >>> round(maximum_mean_calibration_error(y, P), 4)
    0.1241
    """
    data = (y_true, y_proba, sample_weight, labels, pos_label)
    name = "maximum_mean_calibration_error"
    return error_by_mode(data, kernel_mean_error, mode, average, caller=name)
