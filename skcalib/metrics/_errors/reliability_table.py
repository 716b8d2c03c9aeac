"""The bins of binned errors and reliability diagrams, as a frame."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from skcalib._binning.bins import NumberOfBins
from skcalib._validation.predictions import check_predictions
from skcalib.metrics._errors.binned import (
    Closed,
    QuantileMethod,
    Strategy,
    bin_predictions,
    check_bins,
)
from skcalib.metrics._listed import listed


@listed("DeGroot and Fienberg 1983; Niculescu-Mizil and Caruana 2005")
def reliability_table(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    max_prob: bool = True,
    class_conditional: bool = False,
    threshold: float | None = None,
    n_bins: NumberOfBins = 15,
    strategy: Strategy = "uniform",
    closed: Closed = "right",
    quantile_method: QuantileMethod = "edges",
    pos_label: Any = None,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
) -> pd.DataFrame:
    r"""Table of bins: count, confidence, accuracy and gap.

    .. math:: \mathrm{gap}_b = \mathrm{acc}_b - \mathrm{conf}_b
            = \frac{\sum_{i \in b} w_i t_i - \sum_{i \in b} w_i s_i}{\sum_{i \in b} w_i}

    The sum over rows of ``weight * abs(gap)`` divided by the sum of ``weight`` is the expected
    calibration error with the same keywords.

    Parameters
    ----------
    y_true : array-like of shape (n,) or (n, K)
        Labels; with one column also soft hits, shares of the event in [0, 1]; or the shares of
        several raters, a column for each class.
    y_proba : array-like of shape (n, K), (n,) or (n, 1)
        Class probabilities, a column for each of the sorted labels, or of `labels` in their
        order; a frame whose columns are named by the labels is read by name. One column is the
        probability of one event, `pos_label`, and is measured as that. Two columns are two classes,
        as in `general_calibration_error`; `pos_label` makes them one event.
    max_prob, class_conditional, threshold, pos_label
        Which scores are binned; see `general_calibration_error`.
    n_bins, strategy, closed, quantile_method
        How they are binned; see `general_calibration_error`.
    sample_weight : array-like of shape (n,), default=None
        Non-negative weights. Integers are counts: 2 is two copies of the row. Of floats only the
        ratios matter (see "Weights" under "Valid input" in the user guide). 0 is the row's absence.
    labels : array-like of shape (K,), default=None
        Labels of the columns, in their order; needed if they cannot be inferred from `y_true`.

    Returns
    -------
    table : pandas.DataFrame
        A row for each bin of each problem, empty bins included. Columns: ``class`` (the label;
        "top label" or "all" if classes are not separate), ``bin`` (from 0), ``left`` and
        ``right`` (edges), ``count`` (rows), ``weight``, ``confidence`` (mean score),
        ``accuracy`` (share of hits), ``gap`` (accuracy - confidence); the last three are NaN in
        an empty bin.

    Raises
    ------
    ValueError
        If probabilities, labels, weights or keywords are invalid.

    See Also
    --------
    general_calibration_error : A norm of the gaps of this table.

    References
    ----------
    DeGroot, Fienberg (1983). The Comparison and Evaluation of Forecasters. The Statistician 32.

    Niculescu-Mizil, Caruana (2005). Predicting good probabilities with supervised learning. ICML.

    Guo, Pleiss, Sun, Weinberger (2017). On Calibration of Modern Neural Networks. ICML.

    Examples
    --------
    >>> from skcalib.metrics import reliability_table
    >>> table = reliability_table([0, 1, 1], [[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]], n_bins=2)
    >>> table[["left", "right", "count", "confidence", "accuracy"]].round(3).iloc[1].tolist()
    [0.5, 1.0, 3.0, 0.767, 0.667]
    """
    bins = check_bins(n_bins, strategy, closed, quantile_method)
    predictions = check_predictions(y_true, y_proba, sample_weight, labels, pos_label, soft=True)
    table, names = bin_predictions(
        predictions.as_classes(),
        bins,
        max_prob=max_prob,
        class_conditional=class_conditional,
        threshold=threshold,
    )
    m, n_bins = table.count.shape
    fields = ("left", "right", "count", "weight", "confidence", "accuracy", "gap")
    columns = {name: getattr(table, name).ravel() for name in fields}
    for name in fields[4:]:  # means of no rows
        columns[name] = np.where(columns["weight"] > 0, columns[name], np.nan)
    problem = {"class": pd.Index(names).repeat(n_bins), "bin": np.tile(np.arange(n_bins), m)}
    return pd.DataFrame(problem | columns)
