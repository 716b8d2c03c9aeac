r"""The general calibration error; every binned metric is a preset of it.

The predictions are reduced to m binary problems, which are binned into one table. The error is a
norm of its gaps:

.. math:: \Big(\sum_j c_j \sum_b \mu_{jb}\, |\mathrm{acc}_{jb} - \mathrm{conf}_{jb}|^q\Big)^{1/q}
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from skcalib._arrays.types import Float64Array
from skcalib._binning.bins import Bins, BinTable, NumberOfBins
from skcalib._binning.tables import columns_table, flat_table, pooled_table
from skcalib._scores.scores import Scores
from skcalib._scores.top_label import top_label
from skcalib._validation.keywords import (
    Norm,
    check_between,
    check_flags,
    check_norm,
    check_option,
    exponent,
    number_of_bins,
)
from skcalib._validation.predictions import Predictions, check_predictions
from skcalib.metrics._listed import listed

Strategy = Literal["uniform", "quantile"]
Closed = Literal["right", "left"]
QuantileMethod = Literal["edges", "linear", "rank", "split"]
Weighting = Literal["uniform", "count"]
Average = Literal["macro"] | None
# Keywords of `bin_predictions` for the problem of each class.
EACH: dict[str, Any] = {"max_prob": False, "class_conditional": True}


def check_bins(
    n_bins: object, strategy: str, closed: str = "right", quantile_method: str = "edges"
) -> Bins:
    """Check the keywords for the bins."""
    number = number_of_bins(n_bins, 1)
    check_option("strategy", strategy, ("uniform", "quantile"))
    check_option("closed", closed, ("right", "left"))
    check_option("quantile_method", quantile_method, ("edges", "linear", "rank", "split"))
    method = "uniform" if strategy == "uniform" else quantile_method
    return Bins(number, method, closed, cube_root=isinstance(n_bins, str))  # type: ignore[arg-type]


def bin_predictions(
    predictions: Predictions,
    bins: Bins,
    *,
    max_prob: bool = True,
    class_conditional: bool = False,
    threshold: float | None = None,
) -> tuple[BinTable, list[Any]]:
    """Reduce predictions to m binary problems and bin them; also return the problems' names."""
    check_flags(max_prob=max_prob, class_conditional=class_conditional)
    if threshold is not None:
        check_between("threshold", threshold, 0, 1, "None or a number in [0, 1)", low_too=True)
    w, event, classes = predictions.w, predictions.event, predictions.classes
    bins = bins.of_rows(w)
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
    """Return the norm of gaps ``(..., m, B)`` of all problems, ``(...)``, and of each."""
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
    data: tuple[Any, ...],
    bins: Bins,
    *,
    norm: Norm,
    average: Average = "macro",
    class_weight: Weighting = "uniform",
    bin_weight: Weighting = "count",
    has_event: bool = True,
    **reduction: Any,
) -> float | Float64Array:
    """Check everything but the bins and measure.

    `data` are arguments of `check_predictions`, `reduction` keywords of `bin_predictions`. Without
    `has_event`, two columns are two classes.
    """
    check_norm(norm)
    check_option("class_weight", class_weight, ("uniform", "count"))
    check_option("bin_weight", bin_weight, ("count", "uniform"))
    check_option("average", average, ("macro", None))
    if average is None and not reduction.get("class_conditional"):
        raise ValueError("average=None gives an error for each class: it needs class_conditional.")
    predictions = check_predictions(*data, soft=True, on_device=True)
    if average is None:  # each class, whether or not one of them is the event
        predictions = predictions.without_event()
    elif not has_event:
        predictions = predictions.as_classes()
    table, _ = bin_predictions(predictions, bins, **reduction)
    total, errors = norm_of_gaps(table.gap, table.weight, norm, class_weight, bin_weight)
    return predictions.of_classes(errors, data[1]) if average is None else float(total)


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
    r"""General calibration error (GCE): the family of all binned errors.

    The predictions are reduced to m binary problems with scores s and outcomes t (see
    `max_prob` and `class_conditional`), each problem is cut into B bins, and

    .. math:: \mathrm{GCE} = \Big(\sum_{j=1}^m c_j \sum_{b=1}^B \mu_{jb}\,
              |\mathrm{acc}_{jb} - \mathrm{conf}_{jb}|^q\Big)^{1/q}

    where acc is the weighted share of hits of a bin, conf its weighted mean score and
    :math:`\mu_{jb}` its share of problem j's weight. Empty bins add 0.

    Parameters
    ----------
    y_true : array-like of shape (n,) or (n, K)
        Labels; with one column also soft hits, shares of the event in [0, 1]; or the shares of
        several raters, a column for each class.
    y_proba : array-like of shape (n, K), (n,) or (n, 1)
        Class probabilities, a column for each of the sorted labels, or of `labels` in their
        order; a frame whose columns are named by the labels is read by name. One column is the
        probability of one event, `pos_label`, and is measured as that. Two columns are two classes
        here, as in the paper, while they are one event in all presets: by default this is the ECE
        of their top label.
    max_prob : bool, default=True
        Whether only the largest probability of each row counts (hit: it is the true class; the
        lowest column on ties), or all of them.
    class_conditional : bool, default=False
        Whether each class is a problem of its own (with `max_prob`, the rows predicted as that
        class) or all rows (without `max_prob`, all n K entries) are one problem.
    threshold : float in [0, 1), default=None
        Only scores strictly above it are kept; None keeps all, 0 drops exact zeros. It is rounded
        to the type of the scores, so that a float32 score of 0.05 is not above 0.05.
    class_weight : {"uniform", "count"}, default="uniform"
        :math:`c_j`: 1/m for each problem, empty ones included, or its share of the kept weight.
    bin_weight : {"count", "uniform"}, default="count"
        :math:`\mu_{jb}`: the bin's share of the problem's kept weight, or 1/B.
    average : {"macro", None}, default="macro"
        None returns the error of each class.
    n_bins : int or "cube_root", default=15
        Number of bins B; "cube_root": the cube root of the number of rows, rounded up.
    strategy : {"uniform", "quantile"}, default="uniform"
        Bins of equal width on [0, 1], or of equal weight within each problem.
    norm : {"l1", "l2", "max"} or float in [1, 10], default="l1"
        q, or the largest gap of any bin of any problem.
    closed : {"right", "left"}, default="right"
        The closed side of uniform bins; 0 always falls in the first and 1 in the last.
    quantile_method : {"edges", "linear", "rank", "split"}, default="edges"
        How quantile bins are cut when B does not divide n or scores tie. "edges" opens bin r at
        the score of rank round(r n / B) and never splits ties; "linear" puts edges at
        `numpy.quantile`, with bins closed on the right, as scikit-learn, netcal, MAPIE and R do;
        "split" puts edges half-way between equal parts (Kumar et al. 2019); "rank" gives rank i to
        bin floor(B i / n) and splits ties by row order (Roelofs et al. 2022), the one option that
        does so.
    pos_label : label, default=None
        The event whose probability is measured. With one column, None means 1 or True for labels
        {0, 1}, {-1, 1} or booleans; others need it. With more columns, None means what `max_prob`
        and `class_conditional` say; they have no effect on a single event.
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
    The 32 members of Nixon et al.'s table, 0 to 31 in appendix C, are `strategy` x `max_prob` x
    `class_conditional` x `threshold` (0.0 or 0.01) x `norm` ("l1" or "l2"). Where the paper leaves
    a choice, or its formula and its program differ:

    * A threshold of 0.0 drops probabilities of exactly 0, so that members 8 and 24 are
      `static_calibration_error` and `adaptive_calibration_error` only if there are none.
    * Section 4.4 prints the l2 norm as :math:`\sqrt{\sum_b (\mathrm{acc}_b -
      \mathrm{conf}_b)^2}`, without weights: it grows with the number of bins and may pass 1. Here
      squares are weighted, as absolute gaps are. The printed one is :math:`\sqrt{B}` times that
      of ``norm="l2", bin_weight="uniform"`` (:math:`\sqrt{K B}` times with K separate classes).
    * Section 4.1 weights classes, with the maximum probability or a threshold, by how often the
      model is sure of them: that is ``class_weight="count"``. The default is 1/K for each class,
      also for one that is never predicted, as in the formula of SCE.

    Edges of uniform bins are rounded to the type of the scores, so that k/B lies in the bin that
    ends there (with ``closed="left"``, begins there) in float64 and in float32.

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
    return binned_error(
        (y_true, y_proba, sample_weight, labels, pos_label),
        bins,
        norm=norm,
        average=average,
        has_event=False,
        max_prob=max_prob,
        class_conditional=class_conditional,
        threshold=threshold,
        class_weight=class_weight,
        bin_weight=bin_weight,
    )
