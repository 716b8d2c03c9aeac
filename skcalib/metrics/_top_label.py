"""Binned calibration errors of the top label (the class with the largest probability)."""

from __future__ import annotations

from typing import Any

from numpy.typing import ArrayLike

from skcalib._binning import NumberOfBins
from skcalib._validation.keywords import Norm, check_norm
from skcalib._validation.rows import check_predictions
from skcalib.metrics._binned import Strategy, binned_error, check_bins
from skcalib.metrics._common import listed


@listed("Naeini et al. 2015; Guo et al. 2017", scorer=True)
def expected_calibration_error(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    pos_label: Any = None,
    n_bins: NumberOfBins = 15,
    strategy: Strategy = "uniform",
    norm: Norm = "l1",
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
) -> float:
    r"""Expected calibration error (ECE): mean gap between confidence and accuracy over bins.

    .. math:: \mathrm{ECE} = \sum_b \frac{W_b}{W} |\mathrm{acc}_b - \mathrm{conf}_b|

    where :math:`W_b` is the weight of bin b, acc the fraction of correct predictions in the bin,
    and conf the mean confidence in the bin.

    Parameters
    ----------
    y_true : array-like of shape (n,) or (n, K)
        Labels, or the fractions of raters who chose each class, with a column for each class. With
        one column of probabilities, also soft labels in [0, 1].
    y_proba : array-like of shape (n, K), (n,) or (n, 1)
        Class probabilities, with a column for each of the sorted labels, or of `labels` in their
        order. Columns of a frame that are named after the labels are read by name. One or two
        columns give the probability of the event `pos_label`, which is measured.
    pos_label : label, default=None
        Label of the event whose probability is measured. None means 1 or True for labels {0, 1},
        {-1, 1} or booleans. For other labels, None means the second of two columns, and one column
        needs `pos_label`. With more columns, None means the top label.
    n_bins : int or "cube_root", default=15
        Number of bins; "cube_root" is the cube root of the number of rows, rounded up.
    strategy : {"uniform", "quantile"}, default="uniform"
        Bins of equal width on [0, 1], or bins of equal weight.
    norm : {"l1", "l2", "max"} or float in [1, 10], default="l1"
        "l1" is the weighted mean of the gaps, "l2" the root of the weighted mean of their squares,
        "max" the largest gap. A number q is the q-th root of the weighted mean of q-th powers.
    sample_weight : array-like of shape (n,), default=None
        Non-negative weights. Integers are counts: 2 is two copies of the row. Of floats only the
        ratios matter (see "Weights" under "Valid input" in the user guide). 0 is the row's absence.
    labels : array-like of shape (K,), default=None
        Labels of the columns, in their order; needed if they cannot be inferred from `y_true`.

    Returns
    -------
    error : float
        In [0, 1]; 0 is best.

    Raises
    ------
    ValueError
        If probabilities, labels, weights or keywords are invalid.

    See Also
    --------
    general_calibration_error : The ECE of the top label, also for two columns.

    References
    ----------
    Naeini, Cooper, Hauskrecht (2015). Obtaining Well Calibrated Probabilities Using Bayesian
    Binning. AAAI.

    Guo, Pleiss, Sun, Weinberger (2017). On Calibration of Modern Neural Networks. ICML.

    Examples
    --------
    >>> from skcalib.metrics import expected_calibration_error
    >>> y = [0, 1, 1, 0]
    >>> P = [[0.9, 0.1], [0.2, 0.8], [0.6, 0.4], [0.7, 0.3]]
    >>> round(expected_calibration_error(y, P, n_bins=4), 4)
    0.15
    """
    bins = check_bins(n_bins, strategy)
    check_norm(norm)
    predictions = check_predictions(
        y_true, y_proba, sample_weight, labels, pos_label, soft=True, on_device=True
    )
    return float(binned_error(predictions, bins, norm))


@listed("Naeini et al. 2015; Guo et al. 2017", scorer=True)
def maximum_calibration_error(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    pos_label: Any = None,
    n_bins: NumberOfBins = 15,
    strategy: Strategy = "uniform",
    norm: Norm = "max",
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
) -> float:
    r"""Maximum calibration error (MCE): largest gap between confidence and accuracy of any bin.

    .. math:: \mathrm{MCE} = \max_{b:\, W_b > 0} |\mathrm{acc}_b - \mathrm{conf}_b|

    A bin that contains a single row can determine the error: use quantile bins or many rows.

    Parameters
    ----------
    y_true : array-like of shape (n,) or (n, K)
        Labels, or the fractions of raters who chose each class, with a column for each class. With
        one column of probabilities, also soft labels in [0, 1].
    y_proba : array-like of shape (n, K), (n,) or (n, 1)
        Class probabilities, with a column for each of the sorted labels, or of `labels` in their
        order. Columns of a frame that are named after the labels are read by name. One or two
        columns give the probability of the event `pos_label`, which is measured.
    pos_label : label, default=None
        Label of the event whose probability is measured. None means 1 or True for labels {0, 1},
        {-1, 1} or booleans. For other labels, None means the second of two columns, and one column
        needs `pos_label`. With more columns, None means the top label.
    n_bins : int or "cube_root", default=15
        Number of bins; "cube_root" is the cube root of the number of rows, rounded up.
    strategy : {"uniform", "quantile"}, default="uniform"
        Bins of equal width on [0, 1], or bins of equal weight.
    norm : {"l1", "l2", "max"} or float in [1, 10], default="max"
        "l1" is the weighted mean of the gaps, "l2" the root of the weighted mean of their squares,
        "max" the largest gap. A number q is the q-th root of the weighted mean of q-th powers.
    sample_weight : array-like of shape (n,), default=None
        Non-negative weights. Integers are counts: 2 is two copies of the row. Of floats only the
        ratios matter (see "Weights" under "Valid input" in the user guide). 0 is the row's absence.
    labels : array-like of shape (K,), default=None
        Labels of the columns, in their order; needed if they cannot be inferred from `y_true`.

    Returns
    -------
    error : float
        In [0, 1]; 0 is best.

    Raises
    ------
    ValueError
        If probabilities, labels, weights or keywords are invalid.

    See Also
    --------
    general_calibration_error : With ``norm="max"``, the MCE of the top label, also for two columns.

    References
    ----------
    Naeini, Cooper, Hauskrecht (2015). Obtaining Well Calibrated Probabilities Using Bayesian
    Binning. AAAI.

    Guo, Pleiss, Sun, Weinberger (2017). On Calibration of Modern Neural Networks. ICML.

    Examples
    --------
    >>> from skcalib.metrics import maximum_calibration_error
    >>> y = [0, 1, 1, 0]
    >>> P = [[0.9, 0.1], [0.2, 0.8], [0.6, 0.4], [0.7, 0.3]]
    >>> round(maximum_calibration_error(y, P, n_bins=4), 4)
    0.2
    """
    bins = check_bins(n_bins, strategy)
    check_norm(norm)
    predictions = check_predictions(
        y_true, y_proba, sample_weight, labels, pos_label, soft=True, on_device=True
    )
    return float(binned_error(predictions, bins, norm))


@listed("Hendrycks et al. 2019", scorer=True)
def root_mean_squared_calibration_error(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    n_bins: NumberOfBins = 15,
    strategy: Strategy = "quantile",
    norm: Norm = "l2",
    pos_label: Any = None,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
) -> float:
    r"""Root mean squared calibration error (RMSCE): ECE with squared gaps and bins of equal weight.

    .. math:: \mathrm{RMSCE} = \Big(\sum_b \frac{W_b}{W}
              (\mathrm{acc}_b - \mathrm{conf}_b)^2\Big)^{1/2}

    Parameters
    ----------
    y_true : array-like of shape (n,) or (n, K)
        Labels, or the fractions of raters who chose each class, with a column for each class. With
        one column of probabilities, also soft labels in [0, 1].
    y_proba : array-like of shape (n, K), (n,) or (n, 1)
        Class probabilities, with a column for each of the sorted labels, or of `labels` in their
        order. Columns of a frame that are named after the labels are read by name. One or two
        columns give the probability of the event `pos_label`, which is measured.
    n_bins : int or "cube_root", default=15
        Number of bins; "cube_root" is the cube root of the number of rows, rounded up.
    strategy : {"uniform", "quantile"}, default="quantile"
        Bins of equal width on [0, 1], or bins of equal weight.
    norm : {"l1", "l2", "max"} or float in [1, 10], default="l2"
        "l1" is the weighted mean of the gaps, "l2" the root of the weighted mean of their squares,
        "max" the largest gap. A number q is the q-th root of the weighted mean of q-th powers.
    pos_label : label, default=None
        Label of the event whose probability is measured. None means 1 or True for labels {0, 1},
        {-1, 1} or booleans. For other labels, None means the second of two columns, and one column
        needs `pos_label`. With more columns, None means the top label.
    sample_weight : array-like of shape (n,), default=None
        Non-negative weights. Integers are counts: 2 is two copies of the row. Of floats only the
        ratios matter (see "Weights" under "Valid input" in the user guide). 0 is the row's absence.
    labels : array-like of shape (K,), default=None
        Labels of the columns, in their order; needed if they cannot be inferred from `y_true`.

    Returns
    -------
    error : float
        In [0, 1]; 0 is best.

    Raises
    ------
    ValueError
        If probabilities, labels, weights or keywords are invalid.

    See Also
    --------
    general_calibration_error : With ``norm="l2", strategy="quantile"``, the RMSCE of the top label,
        also for two columns.

    References
    ----------
    Nguyen, O'Connor (2015). Posterior calibration and exploratory analysis for natural language
    processing models. EMNLP.

    Hendrycks, Mazeika, Dietterich (2019). Deep Anomaly Detection with Outlier Exposure. ICLR.

    Nixon, Dusenberry, Jerfel, Nguyen, Liu, Zhang, Tran (2020). Measuring Calibration in Deep
    Learning. arXiv:1904.01685v2.

    Examples
    --------
    >>> from skcalib.metrics import root_mean_squared_calibration_error
    >>> y = [0, 1, 1, 0]
    >>> P = [[0.9, 0.1], [0.2, 0.8], [0.6, 0.4], [0.7, 0.3]]
    >>> round(root_mean_squared_calibration_error(y, P, n_bins=4), 4)
    0.3536
    """
    bins = check_bins(n_bins, strategy)
    check_norm(norm)
    predictions = check_predictions(
        y_true, y_proba, sample_weight, labels, pos_label, soft=True, on_device=True
    )
    return float(binned_error(predictions, bins, norm))
