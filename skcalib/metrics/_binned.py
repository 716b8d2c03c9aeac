"""Binned calibration errors (general, debiased, sweep, label-binned) and the reliability table."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from skcalib._arrays.rowwise import Bools, Float64Array, FloatArray, Intp
from skcalib._binning import (
    Bins,
    BinTable,
    NumberOfBins,
    bin_index,
    columns_table,
    flat_table,
    pooled_table,
    rank_cuts,
)
from skcalib._scores.one_vs_rest import stable_order
from skcalib._scores.scores import Scores, top_label
from skcalib._validation.keywords import (
    MeanNorm,
    Norm,
    check_between,
    check_flags,
    check_norm,
    check_option,
    exponent,
    number_of_bins,
)
from skcalib._validation.rows import Predictions, check_predictions, is_whole
from skcalib.metrics._common import Mode, check_mode, error_by_mode, listed, mean_of_classes

# The general calibration error. The other binned errors are special cases of the general error.
#
# The predictions are reduced to m binary problems, whose bins form one table. The error is a norm
# of the gaps in this table, with weights c_j of the binary problems and weights mu_jb of the bins:
#
# .. math:: \Big(\sum_j c_j \sum_b \mu_{jb}\, |\mathrm{acc}_{jb} - \mathrm{conf}_{jb}|^q\Big)^{1/q}


Strategy = Literal["uniform", "quantile"]
Closed = Literal["right", "left"]
QuantileMethod = Literal["edges", "linear", "rank", "split"]
Weighting = Literal["uniform", "count"]
Average = Literal["macro"] | None
# Keywords of `bin_predictions` that select a binary problem for each class (the class against the
# rest).
EACH: dict[str, Any] = {"max_prob": False, "class_conditional": True}


def check_bins(
    n_bins: object, strategy: str, closed: str = "right", quantile_method: str = "edges"
) -> Bins:
    """Check the keywords that define bins of scores."""
    number = number_of_bins(n_bins, 1)
    check_option("strategy", strategy, ("uniform", "quantile"))
    check_option("closed", closed, ("right", "left"))
    check_option("quantile_method", quantile_method, ("edges", "linear", "rank", "split"))
    method = "uniform" if strategy == "uniform" else quantile_method
    return Bins(number, method, closed, cube_root=isinstance(n_bins, str))  # type: ignore[arg-type]


def check_threshold(threshold: float | None) -> None:
    """Raise an error if a threshold is neither None nor a number in [0, 1)."""
    if threshold is not None:
        check_between("threshold", threshold, 0, 1, "None or a number in [0, 1)", low_too=True)


def bin_predictions(
    predictions: Predictions,
    bins: Bins,
    *,
    max_prob: bool = True,
    class_conditional: bool = False,
    threshold: float | None = None,
) -> tuple[BinTable, list[Any]]:
    """Reduce predictions to m binary problems, and return the bins and the name of each problem."""
    w, event, classes = predictions.w, predictions.event, predictions.classes
    bins = bins.resolve(w)
    if event is None and not max_prob:
        rows = predictions.split()
        reduce = columns_table if class_conditional else pooled_table
        table = reduce(Scores(rows.P, "proba"), rows.code, rows.w, bins, threshold=threshold)
        return table, classes.tolist() if class_conditional else ["all"]
    groups: dict[str, Any] = {}
    names: list[Any] = ["top label"]
    if event is not None:
        score, hit = predictions.of_event()
        names = [classes.tolist()[event]]
    else:
        score, predicted = top_label(predictions.P, like=predictions.code)
        hit = predictions.hits(predicted)
        if class_conditional:
            groups, names = {"group": predicted, "n_groups": classes.size}, classes.tolist()
    return flat_table(score, hit, w, bins, threshold=threshold, **groups), names


def norm_of_gaps(
    gap: Float64Array,
    weight: Float64Array,
    norm: Norm,
    class_weight: str = "uniform",
    bin_weight: str = "count",
) -> tuple[Float64Array, Float64Array]:
    """Return the norm of the gaps of bins, for all binary problems together and for each."""
    gap = np.abs(gap)
    if norm == "max":
        errors = gap.max(axis=-1)
        return errors.max(axis=-1), errors
    q = exponent(norm)
    mass = weight.sum(axis=-1)
    if bin_weight == "count":
        share = weight / np.where(mass > 0, mass, 1.0)[..., None]
    else:
        share = (weight > 0) / gap.shape[-1]
    errors = (share * gap**q).sum(axis=-1)
    if class_weight == "count" and mass.any():
        total = (mass * errors).sum(axis=-1) / mass.sum(axis=-1)
    else:
        total = errors.sum(axis=-1) / errors.shape[-1]
    return total ** (1 / q), errors ** (1 / q)


def binned_error(
    predictions: Predictions,
    bins: Bins,
    norm: Norm,
    *,
    y_proba: ArrayLike | None = None,
    average: Average = "macro",
    class_weight: Weighting = "uniform",
    bin_weight: Weighting = "count",
    **reduction: Any,
) -> float | Float64Array:
    """Compute a binned calibration error of checked predictions.

    `reduction` contains keywords of `bin_predictions`. For ``average=None``, the errors of the
    classes are on the device of `y_proba`.
    """
    # With average=None, the result has an error for each class, even if one class is the event of a
    # binary problem.
    if average is None:
        predictions = predictions.without_event()
    table, _ = bin_predictions(predictions, bins, **reduction)
    total, errors = norm_of_gaps(table.gap, table.weight, norm, class_weight, bin_weight)
    return predictions.of_classes(errors, y_proba) if average is None else float(total)


@listed("Nixon et al. 2020", scorer=True, has_event=False)
def general_calibration_error(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    max_prob: bool = True,
    class_conditional: bool = False,
    threshold: float | None = None,
    class_weight: Weighting = "uniform",
    bin_weight: Weighting = "count",
    average: Average = "macro",
    n_bins: NumberOfBins = 15,
    strategy: Strategy = "uniform",
    norm: Norm = "l1",
    closed: Closed = "right",
    quantile_method: QuantileMethod = "edges",
    pos_label: Any = None,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
) -> float | Float64Array:
    r"""General calibration error (GCE): the family of binned errors, selected by keywords.

    The predictions are reduced to m binary problems with scores s and outcomes t (see
    `max_prob` and `class_conditional`). The scores of each problem are put into B bins, and

    .. math:: \mathrm{GCE} = \Big(\sum_{j=1}^m c_j \sum_{b=1}^B \mu_{jb}\,
              |\mathrm{acc}_{jb} - \mathrm{conf}_{jb}|^q\Big)^{1/q}

    where acc is the weighted mean of t in a bin, conf the weighted mean of s, and
    :math:`\mu_{jb}` the fraction of the weight of problem j that is in the bin. Empty bins add 0.

    Parameters
    ----------
    y_true : array-like of shape (n,) or (n, K)
        Labels, or the fractions of raters who chose each class, with a column for each class. With
        one column of probabilities, also soft labels in [0, 1].
    y_proba : array-like of shape (n, K), (n,) or (n, 1)
        Class probabilities, with a column for each of the sorted labels, or of `labels` in their
        order. Columns of a frame that are named after the labels are read by name. One column is
        the probability of the event `pos_label`, which is measured. Two columns are two classes, as
        in the paper, so that the default error is the ECE of the top label. In all presets, two
        columns are one event.
    max_prob : bool, default=True
        Whether only the probability of the top label of each row is used, or all probabilities. Of
        equal probabilities, the top label is the one in the first column.
    class_conditional : bool, default=False
        Whether each class is a separate problem or all classes are one problem. With `max_prob`,
        the problem of a class contains the rows that are predicted as this class. Without
        `max_prob` and `class_conditional`, the problem contains all n K probabilities.
    threshold : float in [0, 1), default=None
        Scores at or below the threshold are dropped. None keeps all scores, 0 drops exact zeros.
        The threshold is rounded to the type of the scores, so that a float32 score of 0.05 is not
        above 0.05.
    class_weight : {"uniform", "count"}, default="uniform"
        The weights :math:`c_j` of problems: 1/m, also for empty problems, or the fraction of the
        weight of all used scores that is in the problem.
    bin_weight : {"count", "uniform"}, default="count"
        The weights :math:`\mu_{jb}` of bins: the fraction of the weight of the problem that is
        in the bin, or 1/B.
    average : {"macro", None}, default="macro"
        None returns the error of each class.
    n_bins : int or "cube_root", default=15
        Number of bins B; "cube_root" is the cube root of the number of rows, rounded up.
    strategy : {"uniform", "quantile"}, default="uniform"
        Bins of equal width on [0, 1], or bins of equal weight within each problem.
    norm : {"l1", "l2", "max"} or float in [1, 10], default="l1"
        The exponent q. "max" is the largest gap of all bins of all problems.
    closed : {"right", "left"}, default="right"
        The closed side of uniform bins. 0 is always in the first bin, and 1 in the last.
    quantile_method : {"edges", "linear", "rank", "split"}, default="edges"
        Edges of quantile bins if B does not divide n, or if scores are equal. "edges" begins bin r
        at the score of rank round(r n / B). "linear" puts edges at `numpy.quantile`, with bins
        closed on the right, as scikit-learn, netcal, MAPIE and R do. "split" puts edges half-way
        between equal parts (Kumar et al. 2019). "rank" puts rank i into bin floor(B i / n)
        (Roelofs et al. 2022). Only "rank" puts equal scores into different bins, by row order.
    pos_label : label, default=None
        Label of the event whose probability is measured. With one column, None means 1 or True for
        labels {0, 1}, {-1, 1} or booleans, and other labels need `pos_label`. With more columns,
        None leaves the choice to `max_prob` and `class_conditional`, which have no effect on a
        single event.
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
    The 32 members of the table of Nixon et al., 0 to 31 in appendix C, are `strategy` x `max_prob`
    x `class_conditional` x `threshold` (0.0 or 0.01) x `norm` ("l1" or "l2"). The paper is
    ambiguous, or differs from its program, in three points:

    * A threshold of 0.0 drops probabilities of exactly 0, so that members 8 and 24 are
      `static_calibration_error` and `adaptive_calibration_error` only if there are none.
    * Section 4.4 prints the l2 norm as :math:`\sqrt{\sum_b (\mathrm{acc}_b -
      \mathrm{conf}_b)^2}`, without weights, which grows with the number of bins and may exceed 1.
      Here squares are weighted like absolute gaps. The norm in the paper is :math:`\sqrt{B}` times
      that of ``norm="l2", bin_weight="uniform"`` (:math:`\sqrt{K B}` times with K separate
      classes).
    * With the maximum probability or a threshold, section 4.1 weights classes by how often the
      model predicts them, as ``class_weight="count"`` does. The default weight is 1/K for each
      class, also for a class that is never predicted, as in the formula of SCE.

    Edges of uniform bins are rounded to the type of the scores. So a score of k/B is in the bin
    that ends at k/B (with ``closed="left"``: that begins at k/B), in float64 and in float32.

    References
    ----------
    Nixon, Dusenberry, Jerfel, Nguyen, Liu, Zhang, Tran (2020). Measuring Calibration in Deep
    Learning. arXiv:1904.01685v2.

    Examples
    --------
    >>> from skcalib.metrics import general_calibration_error
    >>> y = [0, 1, 1, 0]
    >>> P = [[0.9, 0.1], [0.2, 0.8], [0.6, 0.4], [0.7, 0.3]]
    >>> round(general_calibration_error(y, P), 4)
    0.3
    >>> general_calibration_error(
    ...     y, P, max_prob=False, class_conditional=True, average=None
    ... ).round(4)
    array([0.3, 0.3])
    """
    bins = check_bins(n_bins, strategy, closed, quantile_method)
    check_norm(norm)
    check_option("class_weight", class_weight, ("uniform", "count"))
    check_option("bin_weight", bin_weight, ("count", "uniform"))
    check_option("average", average, ("macro", None))
    if average is None and not class_conditional:
        raise ValueError(
            "average=None: an error for each class needs class_conditional=True: pass both options."
        )
    check_flags(max_prob=max_prob, class_conditional=class_conditional)
    check_threshold(threshold)
    predictions = check_predictions(
        y_true, y_proba, sample_weight, labels, pos_label, soft=True, on_device=True
    )
    return binned_error(
        predictions.as_classes(),
        bins,
        norm,
        y_proba=y_proba,
        average=average,
        max_prob=max_prob,
        class_conditional=class_conditional,
        threshold=threshold,
        class_weight=class_weight,
        bin_weight=bin_weight,
    )


# Debiased calibration error: a binned error minus its small-sample bias, the part that is expected
# from random labels.


def debiased_squares(acc: Float64Array, gap: Float64Array, rows: Float64Array) -> Float64Array:
    """Return the squared gap of each bin minus the estimated sampling variance of the accuracy."""
    noise = acc * (1 - acc) / np.maximum(rows - 1, 1.0)
    # With fewer than two rows in a bin, the variance of the accuracy cannot be estimated, and the
    # bin adds 0.
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
    r"""Debiased calibration error: RMSCE without its small-sample bias.

    For a binary problem whose bin b has the weight :math:`W_b` of W and :math:`n_b` rows,

    .. math:: E^2 = \sum_b \frac{W_b}{W} \Big[ (\mathrm{acc}_b - \mathrm{conf}_b)^2
              - \frac{\mathrm{acc}_b (1 - \mathrm{acc}_b)}{n_b - 1} \Big], \qquad
              E = \sqrt{\max(E^2, 0)}

    The second term is the expected squared sampling error of the accuracy. So :math:`E^2` is
    unbiased, while the plain binned error is too large on average. Bins with fewer than two rows
    add 0 and keep their weight.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Labels.
    y_proba : array-like of shape (n, K), (n,) or (n, 1)
        Class probabilities, with a column for each of the sorted labels, or of `labels` in their
        order. Columns of a frame that are named after the labels are read by name. One or two
        columns give the probability of the event `pos_label`, which is measured.
    mode : {"top", "classwise"} or None, default=None
        "top": the top label and whether it is the true class. "classwise": each class against the
        rest. None: the event for one or two columns, the top label for more.
    average : {"macro", None}, default="macro"
        For "classwise": the root of the mean over classes of :math:`\max(E_k^2, 0)`. None returns
        the error of each class.
    n_bins : int or "cube_root", default=15
        Number of bins; "cube_root" is the cube root of the number of rows, rounded up.
    strategy : {"uniform", "quantile"}, default="quantile"
        Bins of equal width on [0, 1], or bins of equal weight.
    closed : {"right", "left"}, default="right"
        The closed side of uniform bins. 0 is always in the first bin, and 1 in the last.
    quantile_method : {"edges", "linear", "rank", "split"}, default="split"
        Edges of quantile bins; see `general_calibration_error`.
    pos_label : label, default=None
        Label of the event whose probability is measured. None means 1 or True for labels {0, 1},
        {-1, 1} or booleans. For other labels, None means the second of two columns, and one column
        needs `pos_label`. With more columns, None leaves the choice to `mode`.
    sample_weight : array-like of shape (n,), default=None
        Non-negative weights. Integers are counts: 2 is two copies of the row. Of floats only the
        ratios matter (see "Weights" under "Valid input" in the user guide). 0 is the row's absence.
    labels : array-like of shape (K,), default=None
        Labels of the columns, in their order; needed if they cannot be inferred from `y_true`.

    Returns
    -------
    error : float, or ndarray of shape (K,) if ``average=None``
        In [0, 1]; 0 is best. Small samples of a calibrated model often have the error 0.

    Raises
    ------
    ValueError
        If probabilities, labels, weights or keywords are invalid.

    See Also
    --------
    root_mean_squared_calibration_error : The error that includes the small-sample bias.

    Notes
    -----
    The debiased error is never larger than the plain l2 error with the same bins. It is clipped at
    0, for each class before the mean, which leaves a small upward bias.

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
    predictions = check_predictions(
        y_true, y_proba, sample_weight, labels, pos_label, caller="debiased_calibration_error"
    )
    predictions = predictions.of_mode(mode, average=average)
    table, _ = bin_predictions(predictions, bins, **(EACH if mode == "classwise" else {}))
    squares = debiased_squares(table.accuracy, table.gap, table.weight)
    share = table.weight / table.weight.sum(axis=1, keepdims=True)
    errors = np.sqrt(np.maximum((share * squares).sum(axis=1), 0.0))
    if average is None:
        return predictions.of_classes(errors, y_proba)
    return float(errors[0] if errors.size == 1 else mean_of_classes(errors, "l2"))


# Label-binned calibration error, which compares each score with the accuracy of its bin.


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
    r"""Label-binned calibration error (ECE_lb): distance of scores from the accuracy of their bin.

    For a binary problem with scores s, weights w of sum W and bins b,

    .. math:: \mathrm{ECE}_{\mathrm{lb},q} =
              \Big(\frac{1}{W} \sum_i w_i |\mathrm{acc}_{b(i)} - s_i|^q\Big)^{1/q}

    Binned errors use the mean score of the bin instead of :math:`s_i`. With the same bins, the
    binned error is smaller, by Jensen's inequality.

    Parameters
    ----------
    y_true : array-like of shape (n,) or (n, K)
        Labels, or the fractions of raters who chose each class, with a column for each class. With
        one column of probabilities, also soft labels in [0, 1].
    y_proba : array-like of shape (n, K), (n,) or (n, 1)
        Class probabilities, with a column for each of the sorted labels, or of `labels` in their
        order. Columns of a frame that are named after the labels are read by name. One or two
        columns give the probability of the event `pos_label`, which is measured.
    mode : {"top", "classwise"} or None, default=None
        "top": the top label and whether it is the true class. "classwise": each class against the
        rest. None: the event for one or two columns, the top label for more.
    average : {"macro", None}, default="macro"
        For "classwise": the q-th root of the mean of the q-th powers of the errors of all classes.
        None returns the error of each class.
    n_bins : int or "cube_root", default=15
        Number of bins; "cube_root" is the cube root of the number of rows, rounded up.
    strategy : {"uniform", "quantile"}, default="quantile"
        Bins of equal width on [0, 1], or bins of equal weight.
    norm : {"l1", "l2", "max"} or float in [1, 10], default="l2"
        The exponent q. "max" is the largest distance of all rows.
    pos_label : label, default=None
        Label of the event whose probability is measured. None means 1 or True for labels {0, 1},
        {-1, 1} or booleans. For other labels, None means the second of two columns, and one column
        needs `pos_label`. With more columns, None leaves the choice to `mode`.
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
    The error of a calibrated model is the spread of the scores within bins, which tends to 0 only
    if bins become narrow. The error is a smooth function of the scores as long as no score moves to
    another bin.

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
    check_mode(mode, average)
    predictions = check_predictions(y_true, y_proba, sample_weight, labels, pos_label, soft=True)

    def error(score: FloatArray, hit: Bools, w: Float64Array) -> float:
        own = bins.resolve(w)
        table = flat_table(score, hit, w, own)
        gap = table.accuracy[0, bin_index(score, table.left[0, 1:], own)] - score
        return float(norm_of_gaps(gap[None], w[None], norm)[0])

    return error_by_mode(predictions, error, mode, average, norm, y_proba=y_proba, dtype=None)


# The table of bins that binned errors and reliability diagrams are computed from.


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
    r"""Table of the bins of a reliability diagram: count, confidence, accuracy and gap.

    .. math:: \mathrm{gap}_b = \mathrm{acc}_b - \mathrm{conf}_b
            = \frac{\sum_{i \in b} w_i t_i - \sum_{i \in b} w_i s_i}{\sum_{i \in b} w_i}

    The sum of ``weight * abs(gap)`` over the bins, divided by the sum of ``weight``, is the
    expected calibration error with the same keywords.

    Parameters
    ----------
    y_true : array-like of shape (n,) or (n, K)
        Labels, or the fractions of raters who chose each class, with a column for each class. With
        one column of probabilities, also soft labels in [0, 1].
    y_proba : array-like of shape (n, K), (n,) or (n, 1)
        Class probabilities, with a column for each of the sorted labels, or of `labels` in their
        order. Columns of a frame that are named after the labels are read by name. One column is
        the probability of the event `pos_label`, which is measured. Two columns are two classes, as
        in `general_calibration_error`; with `pos_label` they are one event.
    max_prob, class_conditional, threshold, pos_label
        Which scores are binned; see `general_calibration_error`.
    n_bins, strategy, closed, quantile_method
        How scores are put into bins; see `general_calibration_error`.
    sample_weight : array-like of shape (n,), default=None
        Non-negative weights. Integers are counts: 2 is two copies of the row. Of floats only the
        ratios matter (see "Weights" under "Valid input" in the user guide). 0 is the row's absence.
    labels : array-like of shape (K,), default=None
        Labels of the columns, in their order; needed if they cannot be inferred from `y_true`.

    Returns
    -------
    table : pandas.DataFrame
        A row for each bin of each problem, also for empty bins. Columns: ``class`` (the label, or
        "top label" or "all" if classes are not separate), ``bin`` (from 0), ``left`` and
        ``right`` (edges), ``count`` (number of rows), ``weight``, ``confidence`` (mean score),
        ``accuracy`` (mean outcome), ``gap`` (accuracy - confidence). The last three are NaN in
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
    check_flags(max_prob=max_prob, class_conditional=class_conditional)
    check_threshold(threshold)
    rows = check_predictions(y_true, y_proba, sample_weight, labels, pos_label, soft=True)
    rows = rows.as_classes()
    table, names = bin_predictions(
        rows, bins, max_prob=max_prob, class_conditional=class_conditional, threshold=threshold
    )
    m, n_bins = table.count.shape
    fields = ("left", "right", "count", "weight", "confidence", "accuracy", "gap")
    columns = {name: getattr(table, name).ravel() for name in fields}
    for name in fields[4:]:  # the mean of an empty bin does not exist
        columns[name] = np.where(columns["weight"] > 0, columns[name], np.nan)
    problem = {"class": pd.Index(names).repeat(n_bins), "bin": np.tile(np.arange(n_bins), m)}
    return pd.DataFrame(problem | columns)


# Sweep error: a binned error. The number of bins is raised until, for the first time, an accuracy
# decreases with the score.


# The largest number of bin edges in one search, so that the arrays fit into the cache. One search
# covers several numbers of bins.
MOST_EDGES = 1 << 16


class Distinct(NamedTuple):
    """Distinct scores in ascending order, with the weight of the rows and of the events at each.

    The weights ``hits (R, m)`` of events are those of R sets of labels. If an edge of bins divides
    the rows with one score, each bin gets a proportional part of their weight and their events.
    """

    score: FloatArray
    weight: Float64Array
    hits: Float64Array
    weight_below: Float64Array
    hits_below: Float64Array

    @classmethod
    def with_sums(cls, score: FloatArray, weight: Float64Array, hits: Float64Array) -> Distinct:
        """Create the table of distinct scores, with cumulative weights of rows and of events."""
        return cls(score, weight, hits, running(weight), running(hits))

    def cuts(self, j: Intp, n_bins: Intp | int, bins: Bins) -> Float64Array:
        """Return the weight of the rows below bin edges, which are given by their indices j."""
        if bins.method == "rank":
            return rank_cuts(j, n_bins, float(self.weight_below[-1]), is_whole(self.weight))
        edges = (j / n_bins).astype(self.score.dtype)
        return self.weight_below[np.searchsorted(self.score, edges, side=bins.closed)]

    def sums_below(self, cuts: Float64Array, below: Float64Array) -> Float64Array:
        """Interpolate cumulative sums over rows at given cumulative weights."""
        position = self.weight_below
        # Rows with a negligible weight do not increase the cumulative weight, so they are skipped.
        last = np.searchsorted(position, position[-1])
        i = np.minimum(np.searchsorted(position, cuts, side="right"), last) - 1
        share = (cuts - position[i]) / (position[i + 1] - position[i])
        return np.asarray(below[..., i] + share * (below[..., i + 1] - below[..., i]))


def running(amount: Float64Array) -> Float64Array:
    """Return cumulative sums along the last axis, starting with 0."""
    below = np.zeros((*amount.shape[:-1], amount.shape[-1] + 1))
    np.cumsum(amount, axis=-1, out=below[..., 1:])
    return below


def distinct_scores(score: FloatArray, hit: NDArray[Any], w: Float64Array) -> Distinct:
    """Merge rows with equal scores, so that results do not depend on the order of rows."""
    order = stable_order(score)
    values, hits, weights = score[order], hit[order], w[order]
    start = np.flatnonzero(np.append(True, values[1:] != values[:-1]))
    true = np.add.reduceat(weights * hits, start)
    return Distinct.with_sums(values[start], np.add.reduceat(weights, start), true[None])


def monotone_bins(rows: Distinct, n_rows: float, bins: Bins) -> Intp:
    """Return the number of bins at which the sweep ends, for each label vector.

    The sweep tries M = 2 to n - 1 bins. The result is M - 1 for the first M with a bin whose
    accuracy is lower than that of the previous bin. `bins` defines the edges, but not M.
    """
    values, weights, hits, position = rows.score, rows.weight, rows.hits, rows.weight_below
    are_whole, total = is_whole(weights), position[-1]
    most = max(1, round(n_rows) - 1)
    n_bins = np.full(len(hits), most)
    # Bins below the first event have accuracy 0, and bins above the last row without the event have
    # accuracy 1. Accuracies of these bins never decrease, so only the scores from the first event
    # to the last row without the event are searched.
    some, missed = hits > 0.0, hits < weights
    first, last = some.argmax(axis=1), values.size - 1 - missed[:, ::-1].argmax(axis=1)
    (left,) = np.nonzero(some.any(axis=1) & missed.any(axis=1) & (first <= last))
    start, size = 2, 8
    while start <= most and left.size:
        sweep = np.arange(start, min(start + size, most + 1))
        low, high = first[left].min(), last[left].max()
        if bins.method == "rank":
            M, j = _edges_between(sweep, position[low] / total, position[high + 1] / total)
        else:
            M, j = _edges_between(sweep, values[low], values[high])
        failed = _first_fall(rows, left, M, j, bins, are_whole)
        fell = failed > 0
        n_bins[left[fell]] = failed[fell] - 1
        left = left[~fell]
        start += sweep.size
        size = min(2 * size, max(8, MOST_EDGES * sweep.size // (j.size * max(1, left.size))))
    return n_bins


def _edges_between(sweep: Intp, low: float, high: float) -> tuple[Intp, Intp]:
    """List the bin edges in the range from `low` to `high`, for each of several numbers of bins.

    The first j of each M represents the edge at 0, the last j the edge at 1.
    """
    first = np.maximum(0, (low * sweep).astype(np.intp) - 2)
    last = np.minimum(sweep, (high * sweep).astype(np.intp) + 3)
    count = last - first + 1
    j = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count - first, count)
    return np.repeat(sweep, count), j


def _first_fall(rows: Distinct, sets: Intp, M: Intp, j: Intp, bins: Bins, are_whole: bool) -> Intp:
    """Return, for some label vectors, the first number of bins at which accuracy falls (else 0).

    M and j contain pairs of a number of bins and the index of an edge. Empty bins are ignored.
    """
    hits, weight = rows.hits_below[sets], rows.weight_below[-1]
    weight_below = rows.cuts(j, M, bins)
    hits_below = rows.sums_below(weight_below, hits)
    change = M[1:] != M[:-1]
    first, last = np.append(True, change), np.append(change, True)
    weight_below[first], hits_below[:, first] = 0.0, 0.0
    weight_below[last], hits_below[:, last] = weight, hits[:, -1:]
    bin_weight = np.diff(weight_below)
    # The difference between the first edge for a number of bins and the last edge for the previous
    # number of bins is negative, and is dropped.
    full = bin_weight > 0
    bin_weight, owner = bin_weight[full], M[1:][full]
    accuracy = np.diff(hits_below)[:, full] / bin_weight
    # Accuracies that are equal may differ by rounding errors of the cumulative sums.
    light = np.minimum(bin_weight[1:], bin_weight[:-1])
    fall = np.diff(accuracy) < -4e-15 * weight / light - (0.0 if are_whole else 1e-12)
    fall &= owner[1:] == owner[:-1]
    none = M[-1] + 1
    first_of = np.where(fall, owner[1:], none).min(axis=1, initial=none)
    return np.where(first_of < none, first_of, 0)


def sweep_errors(
    rows: Distinct, score_below: Float64Array, n_rows: float, bins: Bins, norm: MeanNorm
) -> Float64Array:
    """Return the sweep calibration error for each label vector."""
    n_bins = monotone_bins(rows, n_rows, bins)
    errors = np.empty(len(n_bins))
    total, q = rows.weight_below[-1], exponent(norm)
    for B in np.unique(n_bins):
        with_b_bins = n_bins == B
        cuts = rows.cuts(np.arange(B + 1), int(B), bins)
        cuts[0], cuts[-1] = 0.0, total
        W, S = np.diff(cuts), np.diff(rows.sums_below(cuts, score_below))
        H = np.diff(rows.sums_below(cuts, rows.hits_below[with_b_bins]))
        gap = np.divide(np.abs(H - S), W, out=np.zeros_like(H), where=W > 0)
        errors[with_b_bins] = (gap**q @ W / total) ** (1 / q)
    return errors


@listed("Roelofs et al. 2022", scorer=True)
def sweep_calibration_error(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    mode: Mode = None,
    average: Average = "macro",
    strategy: Strategy = "quantile",
    norm: MeanNorm = "l2",
    closed: Closed = "right",
    pos_label: Any = None,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
) -> float | Float64Array:
    r"""Sweep calibration error (ECE-sweep): ECE with as many bins as keep the accuracy monotone.

    For each binary problem, the number of bins M is raised from 2 until the accuracy of a non-empty
    bin is lower than that of the previous non-empty bin. The error uses the last M before that, or
    1. With the weight :math:`W_b` of W in bin b,

    .. math:: \Big(\sum_b \frac{W_b}{W} |\mathrm{acc}_b - \mathrm{conf}_b|^q\Big)^{1/q}

    The method assumes that the true calibration curve increases: if it seems to decrease, bins are
    too narrow and show noise. The user need not choose the number of bins.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Labels.
    y_proba : array-like of shape (n, K), (n,) or (n, 1)
        Class probabilities, with a column for each of the sorted labels, or of `labels` in their
        order. Columns of a frame that are named after the labels are read by name. One or two
        columns give the probability of the event `pos_label`, which is measured.
    mode : {"top", "classwise"} or None, default=None
        "top": the top label and whether it is the true class. "classwise": each class against the
        rest. None: the event for one or two columns, the top label for more.
    average : {"macro", None}, default="macro"
        For "classwise": the q-th root of the mean of the q-th powers of the errors of all classes.
        None returns the error of each class.
    strategy : {"uniform", "quantile"}, default="quantile"
        Bins of equal width on [0, 1], or bins of equal weight: rank i is in bin floor(M i / n).
        Equal scores may be in two bins, which then have the same accuracy among these rows.
    norm : {"l1", "l2"} or float in [1, 10], default="l2"
        The exponent q.
    closed : {"right", "left"}, default="right"
        The closed side of uniform bins. 0 is always in the first bin, and 1 in the last.
    pos_label : label, default=None
        Label of the event whose probability is measured. None means 1 or True for labels {0, 1},
        {-1, 1} or booleans. For other labels, None means the second of two columns, and one column
        needs `pos_label`. With more columns, None leaves the choice to `mode`.
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
    The sweep ends at the first M with a decreasing accuracy, even if accuracies increase again for
    a larger M. M is smaller than the number of rows.

    References
    ----------
    Roelofs, Cain, Shlens, Mozer (2022). Mitigating Bias in Calibration Error Estimation. AISTATS.

    Examples
    --------
    >>> from skcalib.metrics import sweep_calibration_error
    >>> y = [0, 1, 1, 0]
    >>> P = [[0.9, 0.1], [0.2, 0.8], [0.6, 0.4], [0.7, 0.3]]
    >>> round(sweep_calibration_error(y, P), 4)
    0.3464
    """
    # The argument 15 has no effect, because the sweep chooses the number of bins.
    bins = check_bins(15, strategy, closed, "rank")
    check_norm(norm, has_max=False)
    check_mode(mode, average)
    predictions = check_predictions(
        y_true, y_proba, sample_weight, labels, pos_label, caller="sweep_calibration_error"
    )

    def error(score: FloatArray, hit: Bools, w: Float64Array) -> float:
        rows = distinct_scores(score, hit, w)
        score_below = running(rows.weight * rows.score)
        return float(sweep_errors(rows, score_below, float(w.sum()), bins, norm)[0])

    return error_by_mode(predictions, error, mode, average, norm, y_proba=y_proba, dtype=None)
