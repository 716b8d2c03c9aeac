"""Decomposition of a proper score: miscalibration, discrimination, uncertainty."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from skcalib._validation.keywords import check_level, check_option
from skcalib._validation.predictions import check_predictions, takes_predictions
from skcalib.metrics._errors.binned import Average
from skcalib.metrics._errors.modes import check_mode
from skcalib.metrics._listed import listed
from skcalib.metrics._printing import noted, printed
from skcalib.metrics._statistics.score_parts import (
    ScoreName,
    mean_over_problems,
    score_interval,
    score_problems,
)


class _Parts(NamedTuple):
    score: Any
    miscalibration: Any
    discrimination: Any
    uncertainty: Any
    scaled_score: Any


@printed("score score_low score_high", *_Parts._fields[1:])
class ScoreDecomposition(_Parts):
    """What `score_decomposition` returns: a named tuple of five parts, with further attributes.

    Attributes
    ----------
    score, miscalibration, discrimination, uncertainty, scaled_score : float or ndarray
        The parts.
    score_low, score_high : float or ndarray
        Ends of the interval of the score.
    confidence_level : float
        Level of the interval.
    """

    confidence_level: float = 0.95
    score_low: Any = np.nan
    score_high: Any = np.nan


@listed("Dimitriadis et al. 2021; Kull and Flach 2015")
@takes_predictions
def score_decomposition(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    score: ScoreName = "brier",
    calibrator: Any = None,
    mode: Literal["top", "classwise", "joint"] | None = None,
    average: Average = "macro",
    pos_label: Any = None,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    confidence_level: float = 0.95,
    clusters: Any = None,
) -> ScoreDecomposition:
    r"""Decomposition of Brier score or log loss: miscalibration, discrimination, uncertainty.

    .. math:: \bar S = \mathrm{MCB} - \mathrm{DSC} + \mathrm{UNC}, \quad
              \mathrm{MCB} = \bar S - \bar S_C, \quad \mathrm{DSC} = \bar S_r - \bar S_C, \quad
              \mathrm{UNC} = \bar S_r

    where :math:`\bar S` is the mean score of the probabilities, :math:`\bar S_C` that of the
    recalibrated ones and :math:`\bar S_r` that of the base rate, the share of hits given to every
    row. The recalibrated probabilities are those of an isotonic regression of the hits on the
    probabilities, on these rows, or those of `calibrator`.

    Parameters
    ----------
    y_true : array-like of shape (n,) or (n, K)
        Labels; with one column also soft hits, shares of the event in [0, 1]; or the shares of
        several raters, a column for each class.
    y_proba : array-like of shape (n, K), (n,) or (n, 1)
        Class probabilities, a column for each of the sorted labels, or of `labels` in their
        order; a frame whose columns are named by the labels is read by name. One or two columns
        give the probability of one event, `pos_label`, and are measured as that.
    score : {"brier", "log"}, default="brier"
        Of the probability p of an event: :math:`(p - t)^2`, or
        :math:`-t \log p - (1 - t) \log(1 - p)` in nats.
    calibrator : fitted calibrator or classifier, default=None
        Recalibrates by its ``predict_proba``, instead of the isotonic regression. It has to take
        probabilities of the same labels, or a single column if it was fitted on one.
    mode : {"top", "classwise", "joint"} or None, default=None
        None is the event of one or two columns, else the top label. "top": the top label and
        whether it is true; "classwise": each class against the rest; "joint": whole vectors, with
        the scores :math:`\sum_k (p_k - [y = k])^2` and :math:`-\log p_y`, which needs `calibrator`.
    average : {"macro", None}, default="macro"
        For "classwise": the means over classes; None returns an array of each class.
    pos_label : label, default=None
        The event whose probability is measured. None means 1 or True for labels {0, 1}, {-1, 1} or
        booleans; of other labels the second of two columns, while one column needs it. With more
        columns, None means what `mode` says.
    sample_weight : array-like of shape (n,), default=None
        Non-negative weights. Integers are counts: 2 is two copies of the row. Of floats only the
        ratios matter (see "Weights" under "Valid input" in the user guide). 0 is the row's absence.
    labels : array-like of shape (K,), default=None
        Labels of the columns, in their order; needed if they cannot be inferred from `y_true`.
    confidence_level : float in (0, 1), default=0.95
        Level of the interval.
    clusters : array-like of shape (n,), default=None
        Label of each row's cluster, such as the hospital of a patient: rows of a cluster were drawn
        together, and may go wrong together. At least 3; see "Rows that belong together" in the user
        guide. None means that rows are independent.

    Returns
    -------
    decomposition : ScoreDecomposition
        Named tuple ``(score, miscalibration, discrimination, uncertainty, scaled_score)`` of
        floats, or of arrays ``(K,)`` if ``average=None``. The scaled score is
        :math:`1 - \bar S / \mathrm{UNC} = (\mathrm{DSC} - \mathrm{MCB}) / \mathrm{UNC}`: 1 is
        perfect, 0 as good as the base rate; for the Brier score it is the scaled Brier score or
        index of prediction accuracy, for the log score McFadden's :math:`R^2`. It is NaN if all
        rows are hits or none is.

        The attributes ``score_low`` and ``score_high`` are the ends of the interval of the score.
        They are NaN for soft hits; if all rows are hits or none is; for a score that is the same in
        every row; for the log score if a probability is exactly 0 or 1, because that of very many
        rows may be infinite; and for each class of a Dask array.

    Raises
    ------
    ValueError
        If probabilities, labels, weights or keywords are invalid, `calibrator` was fitted on other
        labels or other scores, or gives probability 0 to what happened, with ``score="log"``.
    TypeError
        If `calibrator` has no ``predict_proba``.

    See Also
    --------
    calibration_test : Whether the miscalibration is more than chance.
    calibration_interval : The miscalibration that very many rows would have.
    top_label_brier_score : The Brier score alone.

    Notes
    -----
    By isotonic regression, miscalibration and discrimination are never negative, and both are
    larger than those of many rows: the regression follows the hits of these very rows. By a
    calibrator fitted on other rows they may be negative: then the calibrator does harm, or its
    probabilities are worse than the base rate.

    The score is a mean over rows and has Hall's (1992) interval of a mean, which corrects for
    skewness. With `clusters` it is that of their sums, and contains Student's with the degrees of
    freedom of Bell and McCaffrey (2002); so it is with relative weights, whose variance is that of
    the weighted residuals.

    A log score is infinite if an event of probability 0 happened. The miscalibration is then
    infinite too; discrimination and uncertainty stay finite.

    References
    ----------
    Bell, McCaffrey (2002). Bias reduction in standard errors for linear regression with multi-stage
    samples. Survey Methodology 28.

    Hall (1992). On the removal of skewness by transformation. Journal of the Royal Statistical
    Society B 54.

    Kull, Flach (2015). Novel Decompositions of Proper Scoring Rules for Classification: Score
    Adjustment as Precursor to Calibration. ECML PKDD.

    Kattan, Gerds (2018). The index of prediction accuracy: an intuitive measure useful for
    evaluating risk prediction models. Diagnostic and Prognostic Research 2.

    Dimitriadis, Gneiting, Jordan (2021). Stable reliability diagrams for probabilistic
    classifiers. PNAS 118.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib.metrics import score_decomposition
    >>> y = [0, 0, 1, 0, 1, 1]
    >>> p = [0.1, 0.2, 0.3, 0.6, 0.7, 0.9]
    >>> parts = score_decomposition(y, p)
    >>> round(parts.score, 4), round(parts.miscalibration, 4), round(parts.discrimination, 4)
    (0.1667, 0.0833, 0.1667)
    >>> rng = np.random.default_rng(0)
    >>> p = rng.random(2000)
    >>> score_decomposition(rng.random(2000) < p, p)  # doctest: +NORMALIZE_WHITESPACE
    ScoreDecomposition(score=0.1633 (0.1549 to 0.172),
                       miscalibration=0.003208, discrimination=0.08994,
                       uncertainty=0.25, scaled_score=0.3469)
    """
    check_option("score", score, ("brier", "log"))
    check_mode(mode, average, (None, "top", "classwise", "joint"))
    check_level(confidence_level)
    given = y_true, y_proba, sample_weight, labels, pos_label
    predictions = check_predictions(*given, soft=True, clusters=clusters)
    predictions = predictions.of_mode(mode, average=average)
    if mode == "joint":
        predictions = predictions.as_classes()
    is_joint = mode == "joint" and predictions.event is None
    largest = np.inf if score == "log" else 2.0 if is_joint else 1.0
    with np.errstate(under="ignore"):
        problems = score_problems(predictions, score, mode, calibrator)
        if average is not None:
            problems = iter([mean_over_problems(problems)])
        measured = [
            (*rows.means, *score_interval(rows, predictions, confidence_level, largest))
            for rows in problems
        ]
    mean, recalibrated, base, low, high = np.transpose(measured)
    if not np.isfinite(recalibrated).all():
        raise ValueError(
            "calibrator gives probability 0 to a label that occurs, so that its log score is "
            "infinite: pass score='brier', or another calibrator."
        )
    with np.errstate(divide="ignore", invalid="ignore"):
        scaled = np.where(base > 0, 1 - mean / base, np.nan)
    *parts, low, high = (
        predictions.of_classes(v, y_proba) if average is None else float(v[0])
        for v in (mean, mean - recalibrated, base - recalibrated, base, scaled, low, high)
    )
    decomposition = ScoreDecomposition(*parts)
    decomposition.confidence_level = confidence_level
    decomposition.score_low, decomposition.score_high = low, high
    return noted(decomposition, predictions.n_clusters, confidence_level)
