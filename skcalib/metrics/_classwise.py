"""Class-wise binned calibration errors: static (SCE), adaptive (ACE) and thresholded (TACE)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skcalib._binning import NumberOfBins
from skcalib._validation.keywords import Norm, check_norm, check_option
from skcalib._validation.rows import check_predictions
from skcalib.metrics._binned import (
    EACH,
    Average,
    Strategy,
    Weighting,
    binned_error,
    check_bins,
    check_threshold,
)
from skcalib.metrics._common import listed


@listed("Nixon et al. 2019, 2020", scorer=True)
def static_calibration_error(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    average: Average = "macro",
    n_bins: NumberOfBins = 15,
    strategy: Strategy = "uniform",
    norm: Norm = "l1",
    pos_label: Any = None,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
) -> float | NDArray[np.float64]:
    r"""Static calibration error (SCE): ECE of each class against the rest, averaged over classes.

    .. math:: \mathrm{SCE} = \frac{1}{K} \sum_k \sum_b \frac{W_{kb}}{W}
              |\mathrm{acc}_{kb} - \mathrm{conf}_{kb}|

    where :math:`W_{kb}` is the weight of bin b of the probabilities of class k.

    Parameters
    ----------
    y_true : array-like of shape (n,) or (n, K)
        Labels, or the fractions of raters who chose each class, with a column for each class. With
        one column of probabilities, also soft labels in [0, 1].
    y_proba : array-like of shape (n, K), (n,) or (n, 1)
        Class probabilities, with a column for each of the sorted labels, or of `labels` in their
        order. Columns of a frame that are named after the labels are read by name. One or two
        columns give the probability of the event `pos_label`, which is measured.
    average : {"macro", None}, default="macro"
        Mean over the K classes, or None for the error of each class.
    n_bins : int or "cube_root", default=15
        Number of bins; "cube_root" is the cube root of the number of rows, rounded up.
    strategy : {"uniform", "quantile"}, default="uniform"
        Bins of equal width on [0, 1], or bins of equal weight.
    norm : {"l1", "l2", "max"} or float in [1, 10], default="l1"
        "l1" is the weighted mean of the gaps, "l2" the root of the weighted mean of their squares,
        "max" the largest gap. A number q is the q-th root of the weighted mean of q-th powers.
    pos_label : label, default=None
        Label of the event whose probability is measured. None means 1 or True for labels {0, 1},
        {-1, 1} or booleans. For other labels, None means the second of two columns, and one column
        needs `pos_label`. With more columns, None means every class.
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
    Probabilities of exactly 0 are included. Member 8 of the 32 errors of Nixon et al. (2020), with
    a threshold of 0.0, drops them: ``general_calibration_error(..., threshold=0.0)``.

    References
    ----------
    Nixon, Dusenberry, Zhang, Jerfel, Tran (2019). Measuring Calibration in Deep Learning. CVPR
    Workshops; arXiv:1904.01685v1.

    Nixon, Dusenberry, Jerfel, Nguyen, Liu, Zhang, Tran (2020). Measuring Calibration in Deep
    Learning. arXiv:1904.01685v2.

    Kull, Perello Nieto, Kaengsepp, Silva Filho, Song, Flach (2019). Beyond temperature scaling:
    Obtaining well-calibrated multi-class probabilities with Dirichlet calibration. NeurIPS.

    Examples
    --------
    >>> from skcalib.metrics import static_calibration_error
    >>> y = [0, 1, 1, 0]
    >>> P = [[0.9, 0.1], [0.2, 0.8], [0.6, 0.4], [0.7, 0.3]]
    >>> round(static_calibration_error(y, P, n_bins=4), 4)
    0.15
    """
    bins = check_bins(n_bins, strategy)
    check_norm(norm)
    check_option("average", average, ("macro", None))
    predictions = check_predictions(
        y_true, y_proba, sample_weight, labels, pos_label, soft=True, on_device=True
    )
    return binned_error(predictions, bins, norm, y_proba=y_proba, average=average, **EACH)


@listed("Nixon et al. 2019, 2020", scorer=True)
def adaptive_calibration_error(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    bin_weight: Weighting = "count",
    average: Average = "macro",
    n_bins: NumberOfBins = 15,
    strategy: Strategy = "quantile",
    norm: Norm = "l1",
    pos_label: Any = None,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
) -> float | NDArray[np.float64]:
    r"""Adaptive calibration error (ACE): SCE with bins of equal weight.

    .. math:: \mathrm{ACE} = \frac{1}{K} \sum_k \sum_r \mu_{kr}
              |\mathrm{acc}_{kr} - \mathrm{conf}_{kr}|

    where each bin r of class k contains the same fraction of the sorted probabilities of the
    class. Some programs use the abbreviation ACE for another metric, the *average* calibration
    error.

    Parameters
    ----------
    y_true : array-like of shape (n,) or (n, K)
        Labels, or the fractions of raters who chose each class, with a column for each class. With
        one column of probabilities, also soft labels in [0, 1].
    y_proba : array-like of shape (n, K), (n,) or (n, 1)
        Class probabilities, with a column for each of the sorted labels, or of `labels` in their
        order. Columns of a frame that are named after the labels are read by name. One or two
        columns give the probability of the event `pos_label`, which is measured.
    bin_weight : {"count", "uniform"}, default="count"
        Weights of bins: their fraction of the rows, or 1/B as in the paper (see Notes).
    average : {"macro", None}, default="macro"
        Mean over the K classes, or None for the error of each class.
    n_bins : int or "cube_root", default=15
        Number of bins; "cube_root" is the cube root of the number of rows, rounded up.
    strategy : {"uniform", "quantile"}, default="quantile"
        Bins of equal width on [0, 1], or bins of equal weight.
    norm : {"l1", "l2", "max"} or float in [1, 10], default="l1"
        "l1" is the weighted mean of the gaps, "l2" the root of the weighted mean of their squares,
        "max" the largest gap. A number q is the q-th root of the weighted mean of q-th powers.
    pos_label : label, default=None
        Label of the event whose probability is measured. None means 1 or True for labels {0, 1},
        {-1, 1} or booleans. For other labels, None means the second of two columns, and one column
        needs `pos_label`. With more columns, None means every class.
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
    The paper's formula, :math:`\frac{1}{K R} \sum_k \sum_r |\mathrm{acc}_{kr} -
    \mathrm{conf}_{kr}|` with bins of equally many sorted predictions, has the weights of
    ``bin_weight="uniform"`` and puts equal scores into different bins. Pass
    ``max_prob=False, class_conditional=True, strategy="quantile", bin_weight="uniform",
    quantile_method="rank"`` to `general_calibration_error` for this error.

    Probabilities of exactly 0 are included. Member 24 of the 32 errors of Nixon et al. (2020), with
    a threshold of 0.0, drops them: ``general_calibration_error(..., threshold=0.0)``.

    References
    ----------
    Nixon, Dusenberry, Zhang, Jerfel, Tran (2019). Measuring Calibration in Deep Learning. CVPR
    Workshops; arXiv:1904.01685v1.

    Nixon, Dusenberry, Jerfel, Nguyen, Liu, Zhang, Tran (2020). Measuring Calibration in Deep
    Learning. arXiv:1904.01685v2.

    Examples
    --------
    >>> from skcalib.metrics import adaptive_calibration_error
    >>> y = [0, 1, 1, 0]
    >>> P = [[0.9, 0.1], [0.2, 0.8], [0.6, 0.4], [0.7, 0.3]]
    >>> round(adaptive_calibration_error(y, P, n_bins=4), 4)
    0.3
    """
    bins = check_bins(n_bins, strategy)
    check_norm(norm)
    check_option("bin_weight", bin_weight, ("count", "uniform"))
    check_option("average", average, ("macro", None))
    predictions = check_predictions(
        y_true, y_proba, sample_weight, labels, pos_label, soft=True, on_device=True
    )
    return binned_error(
        predictions, bins, norm, y_proba=y_proba, average=average, bin_weight=bin_weight, **EACH
    )


@listed("Nixon et al. 2019, 2020", scorer=True)
def thresholded_adaptive_calibration_error(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    threshold: float | None = 0.01,
    version: Literal[1, 2] = 2,
    bin_weight: Weighting | None = None,
    average: Average = "macro",
    n_bins: NumberOfBins = 15,
    strategy: Strategy = "quantile",
    norm: Norm = "l1",
    pos_label: Any = None,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
) -> float | NDArray[np.float64]:
    r"""Thresholded adaptive calibration error (TACE): ACE of the probabilities above a threshold.

    Version 2 uses, for each class, the rows with :math:`P_{ik} > \epsilon`. It weights bins by
    their fraction of these rows, and averages over all K classes, where classes without rows add 0:

    .. math:: \mathrm{TACE} = \frac{1}{K} \sum_k \sum_r \frac{W_{kr}}{W_k}
              |\mathrm{acc}_{kr} - \mathrm{conf}_{kr}|

    The formula in the paper gives all bins the weight 1 / (K R), as ``bin_weight="uniform"`` does.

    Version 1 pools the N probabilities of all classes above :math:`\epsilon`. Bin r of R begins at
    the sorted probability of rank :math:`\lfloor r N / R \rfloor`, and all bins have equal weight:

    .. math:: \mathrm{TACE}_1 = \frac{1}{R} \sum_r |\mathrm{acc}_r - \mathrm{conf}_r|

    Parameters
    ----------
    y_true : array-like of shape (n,) or (n, K)
        Labels, or the fractions of raters who chose each class, with a column for each class. With
        one column of probabilities, also soft labels in [0, 1].
    y_proba : array-like of shape (n, K), (n,) or (n, 1)
        Class probabilities, with a column for each of the sorted labels, or of `labels` in their
        order. Columns of a frame that are named after the labels are read by name. One or two
        columns give the probability of the event `pos_label`, which is measured.
    threshold : float in [0, 1) or None, default=0.01
        Only probabilities strictly above the threshold are used; None uses all. The threshold is
        rounded to the type of the probabilities.
    version : {2, 1}, default=2
        The definition of the second or of the first paper.
    bin_weight : {"count", "uniform"} or None, default=None
        Weights of bins: their fraction of the rows that are used (in version 1: of the
        probabilities that are used), or 1/R, also for empty bins. None means "count" for version 2
        and "uniform" for version 1, as the first paper defines it.
    average : {"macro", None}, default="macro"
        Mean over the K classes, or None for the error of each class.
    n_bins : int or "cube_root", default=15
        Number of bins; "cube_root" is the cube root of the number of rows, rounded up.
    strategy : {"uniform", "quantile"}, default="quantile"
        Bins of equal width on [0, 1], or bins of equal weight.
    norm : {"l1", "l2", "max"} or float in [1, 10], default="l1"
        "l1" is the weighted mean of the gaps, "l2" the root of the weighted mean of their squares,
        "max" the largest gap. A number q is the q-th root of the weighted mean of q-th powers.
    pos_label : label, default=None
        Label of the event whose probability is measured. None means 1 or True for labels {0, 1},
        {-1, 1} or booleans. For other labels, None means the second of two columns, and one column
        needs `pos_label`. With more columns, None means every class.
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

    References
    ----------
    Version 1: Nixon, Dusenberry, Zhang, Jerfel, Tran (2019). Measuring Calibration in Deep
    Learning. CVPR Workshops; arXiv:1904.01685v1.

    Version 2: Nixon, Dusenberry, Jerfel, Nguyen, Liu, Zhang, Tran (2020). Measuring Calibration
    in Deep Learning. arXiv:1904.01685v2.

    Examples
    --------
    >>> from skcalib.metrics import thresholded_adaptive_calibration_error
    >>> y = [0, 1, 1, 0]
    >>> P = [[0.9, 0.1], [0.2, 0.8], [0.6, 0.4], [0.7, 0.3]]
    >>> round(thresholded_adaptive_calibration_error(y, P, n_bins=4), 4)
    0.3
    """
    check_option("version", version, (1, 2))
    check_option("bin_weight", bin_weight, (None, "count", "uniform"))
    bins = check_bins(n_bins, strategy)
    pooled = version == 1
    if pooled and average is None:
        raise ValueError(
            "average=None needs an error for each class, but version=1 pools all classes: pass "
            "version=2 or average='macro'."
        )
    if pooled and strategy == "quantile":
        bins = replace(bins, method="floor")
    problems = {**EACH, "class_conditional": not pooled, "threshold": threshold}
    weighting = bin_weight or ("uniform" if pooled else "count")
    check_norm(norm)
    check_option("average", average, ("macro", None))
    check_threshold(threshold)
    predictions = check_predictions(
        y_true, y_proba, sample_weight, labels, pos_label, soft=True, on_device=True
    )
    return binned_error(
        predictions, bins, norm, y_proba=y_proba, average=average, bin_weight=weighting, **problems
    )
