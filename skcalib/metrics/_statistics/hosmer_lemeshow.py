"""The Hosmer-Lemeshow chi-square test of calibration, on a bin table."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import chdtrc

from skcalib._binning.bins import NumberOfBins
from skcalib._validation.keywords import check_flags
from skcalib._validation.predictions import check_predictions, takes_predictions
from skcalib.metrics._errors.binned import (
    Closed,
    QuantileMethod,
    Strategy,
    bin_predictions,
    check_bins,
)
from skcalib.metrics._listed import listed
from skcalib.metrics._printing import printed

# Gaps below this are rounding errors, of sums of the same weights in another order.
ROUNDING = 1e-12


@printed("statistic", "pvalue", "degrees_of_freedom")
class HosmerLemeshowTest(NamedTuple):
    """What `hosmer_lemeshow_test` returns."""

    statistic: float
    pvalue: float
    degrees_of_freedom: int


@listed("Hosmer and Lemeshow 1980")
@takes_predictions
def hosmer_lemeshow_test(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    pos_label: Any = None,
    fitted: bool = False,
    n_bins: NumberOfBins = 10,
    strategy: Strategy = "quantile",
    closed: Closed = "right",
    quantile_method: QuantileMethod = "linear",
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
) -> HosmerLemeshowTest:
    r"""Hosmer-Lemeshow test: a chi-square test of calibration over bins.

    .. math:: H = \sum_b \frac{W_b (\mathrm{acc}_b - \mathrm{conf}_b)^2}
                              {\mathrm{conf}_b (1 - \mathrm{conf}_b)}

    is compared with a chi-square distribution; a small p-value speaks against calibration.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Labels.
    y_proba : array-like of shape (n, K), (n,) or (n, 1)
        Class probabilities, a column for each of the sorted labels, or of `labels` in their
        order; a frame whose columns are named by the labels is read by name. One or two columns
        give the probability of one event, `pos_label`, and are measured as that.
    pos_label : label, default=None
        The event whose probability is tested. None means 1 or True for labels {0, 1}, {-1, 1} or
        booleans; of other labels the second of two columns, while one column needs it. With more
        columns, None means the top label.
    fitted : bool, default=False
        Whether the probabilities were fitted on these very rows, by a logistic regression: two
        degrees of freedom fewer.
    n_bins : int or "cube_root", default=10
        Number of bins B ("deciles of risk"); "cube_root": the cube root of the number of rows,
        rounded up.
    strategy : {"uniform", "quantile"}, default="quantile"
        Bins of equal width on [0, 1], or of equal weight.
    closed : {"right", "left"}, default="right"
        The closed side of uniform bins; 0 always falls in the first and 1 in the last.
    quantile_method : {"edges", "linear", "rank", "split"}, default="linear"
        How quantile bins are cut; see `general_calibration_error`. "linear" gives R's statistic.
    sample_weight : array-like of shape (n,), default=None
        Non-negative weights. Integers are counts: 2 is two copies of the row. Of floats only the
        ratios matter (see "Weights" under "Valid input" in the user guide). 0 is the row's absence.
    labels : array-like of shape (K,), default=None
        Labels of the columns, in their order; needed if they cannot be inferred from `y_true`.

    Returns
    -------
    test : HosmerLemeshowTest
        Named tuple ``(statistic, pvalue, degrees_of_freedom)``. The degrees of freedom are the
        number of bins with rows, or two fewer if `fitted`. The statistic is infinite if an
        outcome of probability 0 occurs in a bin whose scores are all 0 or all 1. A p-value too
        small for a float is printed as ``pvalue<1e-300``.

    Raises
    ------
    ValueError
        If probabilities, labels, weights or keywords are invalid, or `fitted` leaves no degree
        of freedom.

    See Also
    --------
    calibration_test : Exact for small samples and for any metric, by resampling.
    spiegelhalter_test : Without bins.

    Notes
    -----
    The chi-square distribution is a good approximation if about five events and five non-events
    are expected in each bin; with fewer events it rejects too many calibrated models. Scores that
    vary within a bin make the test slightly conservative.

    R's ``hoslem.test`` joins the lowest score to the next bin where a tenth of the rows share it.
    Here it keeps a bin of its own.
    Rows are taken as independent: if they are not, such as patients of the same hospitals, use
    `calibration_intercept_slope` with `clusters`.

    References
    ----------
    Hosmer, Lemeshow (1980). Goodness of fit tests for the multiple logistic regression model.
    Communications in Statistics - Theory and Methods 9.

    Examples
    --------
    >>> from skcalib.metrics import hosmer_lemeshow_test
    >>> y = [0, 0, 1, 0, 1, 1, 0, 1]
    >>> p = [0.25, 0.25, 0.25, 0.25, 0.5, 0.5, 0.5, 0.5]
    >>> hosmer_lemeshow_test(y, p, n_bins=2)
    HosmerLemeshowTest(statistic=1, pvalue=0.6065, degrees_of_freedom=2)
    """
    bins = check_bins(n_bins, strategy, closed, quantile_method)
    check_flags(fitted=fitted)
    given = y_true, y_proba, sample_weight, labels, pos_label
    predictions = check_predictions(*given, caller="hosmer_lemeshow_test")
    table, _ = bin_predictions(predictions, bins)
    degrees = int((table.weight > 0).sum()) - (2 if fitted else 0)
    if degrees < 1:
        raise ValueError(
            f"fitted=True with {degrees + 2} non-empty bins leaves no degree of freedom: raise "
            "n_bins, or pass scores with more distinct values."
        )
    variance = table.confidence * (1 - table.confidence)
    # If every score of a bin is 0, or every score is 1, a gap is impossible, not merely unlikely.
    certain = np.where(np.abs(table.gap) > ROUNDING, np.inf, 0.0)
    terms = np.divide(table.weight * table.gap**2, variance, out=certain, where=variance > 0)
    statistic = float(terms.sum())
    return HosmerLemeshowTest(statistic, float(chdtrc(degrees, statistic)), degrees)
