"""How far the metrics of a comparison agree."""

from __future__ import annotations

import pandas as pd

from skcalib._comparison.comparison import CalibratorComparison
from skcalib.plotting._comparison import metric_names


def metric_rank_correlation(comparison: CalibratorComparison | pd.DataFrame) -> pd.DataFrame:
    r"""Compute the rank correlation of the metrics of a comparison, over the calibrators.

    Spearman's rank correlation of each pair of metrics, with :math:`r_c` and :math:`r'_c` the
    ranks of calibrator c by the two and m the number of calibrators,

    .. math:: \rho = 1 - \frac{6 \sum_c (r_c - r'_c)^2}{m (m^2 - 1)}

    without ties, and Pearson's correlation of the ranks with them. Metrics that disagree measure
    different things: choose the one that your application needs.

    Parameters
    ----------
    comparison : CalibratorComparison or pandas.DataFrame
        What `compare_calibrators` returns, or its `frame`. Rows without numbers are left out.

    Returns
    -------
    correlation : pandas.DataFrame of shape (metrics, metrics)
        In [-1, 1]; NaN where all calibrators are equal by a metric.

    Raises
    ------
    ValueError
        If there are fewer than two calibrators with numbers, or a frame is not of a comparison.

    Notes
    -----
    Section 5.3 of the paper prints :math:`|r_c - r'_c|` instead of the square. That does not give
    -1 for inverse rankings, as its text says, but 0 for three calibrators in inverse order.

    References
    ----------
    Nixon, Dusenberry, Jerfel, Nguyen, Liu, Zhang, Tran (2020). Measuring Calibration in Deep
    Learning. arXiv:1904.01685v2, sections 5.3 and 5.4.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib import compare_calibrators, metric_rank_correlation
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(3, size=600)
    >>> Z = 4 * (rng.normal(size=(600, 3)) + 1.5 * np.eye(3)[y])
    >>> found = compare_calibrators(Z, y, metrics=["log_loss", "brier_score"])
    >>> metric_rank_correlation(found).shape
    (2, 2)
    """
    frame = comparison.frame if isinstance(comparison, CalibratorComparison) else comparison
    names = metric_names(frame)
    if not names:
        raise ValueError("comparison must be what compare_calibrators returns.")
    ranks = pd.DataFrame({name: frame[name, "rank"] for name in names}).dropna()
    if len(ranks) < 2:
        raise ValueError(f"comparison has {len(ranks)} calibrators with numbers; ranks need two.")
    return ranks.corr("spearman")
