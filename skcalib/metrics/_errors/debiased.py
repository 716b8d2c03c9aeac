"""Debiased error: a binned error minus the part that is due to chance alone."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from skcalib._arrays.types import Float64Array
from skcalib._binning.bins import NumberOfBins
from skcalib._validation.predictions import check_predictions
from skcalib.metrics._errors.binned import (
    EACH,
    Average,
    Closed,
    QuantileMethod,
    Strategy,
    bin_predictions,
    check_bins,
)
from skcalib.metrics._errors.modes import Mode, check_mode, mean_of_classes
from skcalib.metrics._listed import listed


def debiased_squares(acc: Float64Array, gap: Float64Array, rows: Float64Array) -> Float64Array:
    """Return the squared gap of each bin minus the variance of its accuracy, given `rows`."""
    noise = acc * (1 - acc) / np.maximum(rows - 1, 1.0)
    # The variance in a bin with fewer than two rows cannot be estimated: such bins add 0.
    return np.where(rows >= 2, gap**2 - noise, 0.0)


@listed("Kumar et al. 2019", scorer=True)
def debiased_calibration_error(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    mode: Mode = None,
    average: Average = "macro",
    n_bins: NumberOfBins = 15,
    strategy: Strategy = "quantile",
    closed: Closed = "right",
    quantile_method: QuantileMethod = "split",
    pos_label: Any = None,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
) -> float | Float64Array:
    r"""Debiased calibration error: the l2 error without the part that chance adds.

    For a binary problem whose bin b has the weight :math:`W_b` out of W and :math:`n_b` rows,

    .. math:: E^2 = \sum_b \frac{W_b}{W} \Big[ (\mathrm{acc}_b - \mathrm{conf}_b)^2
              - \frac{\mathrm{acc}_b (1 - \mathrm{acc}_b)}{n_b - 1} \Big], \qquad
              E = \sqrt{\max(E^2, 0)}

    The second term is the expected squared sampling error of the accuracy, so that :math:`E^2` is
    unbiased, whereas the plain binned error is too large on average. Bins of fewer than two rows
    add 0 and keep their weight.

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
        For "classwise": the root of the mean over classes of :math:`\max(E_k^2, 0)`; None returns
        the error of each.
    n_bins : int or "cube_root", default=15
        Number of bins; "cube_root": the cube root of the number of rows, rounded up.
    strategy : {"uniform", "quantile"}, default="quantile"
        Bins of equal width on [0, 1], or of equal weight.
    closed : {"right", "left"}, default="right"
        The closed side of uniform bins; 0 always falls in the first and 1 in the last.
    quantile_method : {"edges", "linear", "rank", "split"}, default="split"
        How quantile bins are cut; see `general_calibration_error`.
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
        In [0, 1]; 0 is best, and frequent on small samples of a calibrated model.

    Raises
    ------
    ValueError
        If probabilities, labels, weights or keywords are invalid.

    See Also
    --------
    root_mean_squared_calibration_error : The error without the correction.

    Notes
    -----
    It is never above the plain l2 error with the same bins. Clipping at 0, for each class before
    the mean, leaves a small bias upwards.

    References
    ----------
    Kumar, Liang, Ma (2019). Verified Uncertainty Calibration. NeurIPS. Definition 5.1.

    Examples
    --------
    >>> from skcalib.metrics import debiased_calibration_error
    >>> y = [0, 1, 1, 0]
    >>> P = [[0.9, 0.1], [0.2, 0.8], [0.6, 0.4], [0.7, 0.3]]
    >>> round(debiased_calibration_error(y, P, n_bins=2), 4)
    0.3162
    >>> round(debiased_calibration_error([1, 1, 1, 1], P, n_bins=2, labels=[0, 1]), 4)
    0.6325
    """
    bins = check_bins(n_bins, strategy, closed, quantile_method)
    check_mode(mode, average)
    data = (y_true, y_proba, sample_weight, labels, pos_label)
    predictions = check_predictions(*data, caller="debiased_calibration_error")
    predictions = predictions.of_mode(mode, average=average)
    table, _ = bin_predictions(predictions, bins, **(EACH if mode == "classwise" else {}))
    squares = debiased_squares(table.accuracy, table.gap, table.weight)
    share = table.weight / table.weight.sum(axis=1, keepdims=True)
    errors = np.sqrt(np.maximum((share * squares).sum(axis=1), 0.0))
    if average is None:
        return predictions.of_classes(errors, y_proba)
    return float(errors[0] if errors.size == 1 else mean_of_classes(errors, "l2"))
