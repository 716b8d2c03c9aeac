"""Lowest threshold of the score above which an accuracy is guaranteed.

From a starting threshold downwards, thresholds are tested until one fails. Each test has the full
level of its sequence, because the order of the tests depends only on the scores (fixed-sequence
testing). A second sequence begins at a higher threshold, with a tenth of the level. If all its
tests down to the main start pass, the main sequence gets this tenth too (fallback procedure).

The main start has a fifth of all rows above it, or a third of the rows that the scores predict to
be accurate enough, if that is fewer. For a rare event, no threshold can accept a fifth of the rows.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import bdtrik, bdtrin, betainc

from skcalib._arrays.rowwise import Float64Array
from skcalib._validation.keywords import check_between, check_level
from skcalib.metrics._common import equals_text, listed
from skcalib.metrics._curves.risk_coverage import RankedRows, read_ranked

# Thresholds are tested downwards from two start thresholds. At or above the main start, there are 1
# / PREDICTED of the rows that could be accepted according to their mean score, but at most 1 / ALL
# of all rows. If there are enough rows, MAY_BE_WRONG of the rows at or above the main start may be
# wrong, so that a single wrong row does not end the tests. At or above the upper start, there are 1
# / UPPER as many rows as for the main start. Tests from the upper start use the fraction
# UPPER_LEVEL of the error probability.
PREDICTED, ALL, MAY_BE_WRONG, UPPER, UPPER_LEVEL = 3, 5, 2, 4, 1 / 10
# The number of thresholds that are tested in one vectorised operation.
BLOCK = 128
NO_RELATIVE_WEIGHTS = (
    "with relative weights, a threshold has no guarantee, because the weights may depend on the "
    "labels: "
    "keep each row with probability w / w.max() and pass no weights"
)


class _Parts(NamedTuple):
    threshold: float
    coverage: float
    accuracy: float
    rows: int
    wrong: int


class SelectiveThreshold(_Parts):
    """Result of `selective_threshold`: a threshold, and statistics of the accepted rows."""

    # The number of rows from which a threshold exists if all of them are predicted correctly.
    rows_needed: int
    reason: str  # why there is no threshold, or an empty text

    def __repr__(self) -> str:
        parts = [f"{name}{equals_text(value)}" for name, value in self._asdict().items()]
        note = f": {self.reason}" if self.reason else ""
        return f"SelectiveThreshold({', '.join(parts)}){note}"


def p_values(right: Float64Array, wrong: Float64Array, accuracy: float) -> Float64Array:
    """Return p-values of the hypothesis that the true accuracy is at most `accuracy`."""
    return np.where(right <= 0, 1.0, betainc(np.maximum(right, 1e-300), wrong + 1, accuracy))


def fewest_rows(wrong: float, accuracy: float, alpha: float) -> int:
    """Return the smallest number of rows for a significant test, if `wrong` of them are wrong."""
    rows = bdtrin(wrong, alpha, 1 - accuracy) if wrong else np.log(alpha) / np.log(accuracy)
    return max(int(np.ceil(rows - 1e-9)), int(wrong) + 1)


def find_start(rows: Float64Array, wanted: float, accuracy: float, alpha: float) -> int:
    """Return the index of the threshold at which tests start, with about `wanted` rows above it.

    The start is the first threshold with `wanted` rows at which a test may include one more wrong
    row. If it has more than twice the wanted rows because of ties, an earlier threshold may be
    nearer to the wanted number.
    """
    most, fewer = -1.0, rows[: np.searchsorted(rows, wanted)]
    if fewer.size and fewer[-1] >= fewest_rows(0, accuracy, alpha):
        most = max(np.floor(bdtrik(alpha, fewer[-1], 1 - accuracy) + 1e-9), 0.0)
    after = int(np.searchsorted(rows, fewest_rows(most + 1, accuracy, alpha)))
    before = int(np.searchsorted(rows, fewest_rows(max(most, 0.0), accuracy, alpha)))
    nearer = after == rows.size or rows[after] > max(2 * wanted, wanted**2 / rows[before])
    return before if nearer else after


def last_passed(ranked: RankedRows, first: int, end: int, accuracy: float, alpha: float) -> int:
    """Return the index of the last threshold before the first test that fails, or -1.

    A p-value decreases with the number of correct rows and increases with the number of wrong rows.
    So a block of thresholds passes if its smallest number of correct rows with its largest number
    of wrong rows passes.
    """
    if first >= end:
        return -1
    wrong = ranked.wrong[first:end]
    right = ranked.rows[first:end] - wrong
    starts = np.arange(0, wrong.size, BLOCK)
    fewest, most = np.minimum.reduceat(right, starts), np.maximum.reduceat(wrong, starts)
    unsure = starts[p_values(fewest, most, accuracy) > alpha]
    for start in unsure.tolist():
        block = slice(start, start + BLOCK)
        failed = start + np.flatnonzero(p_values(right[block], wrong[block], accuracy) > alpha)
        if failed.size:
            return first + int(failed[0]) - 1 if failed[0] else -1
    return end - 1


def find_threshold(ranked: RankedRows, accuracy: float, level: float) -> SelectiveThreshold:
    """Return the lowest score threshold above which an accuracy is guaranteed."""
    check_between("accuracy", accuracy, 0, 1, "a number in (0, 1)")
    if not ranked.are_counts:
        raise ValueError(f"{NO_RELATIVE_WEIGHTS}.")
    rows, alpha, best = ranked.rows, 1 - level, -1
    mean_score = np.cumsum(ranked.scores * np.diff(rows, prepend=0.0)) / rows
    # If no mean score reaches the required accuracy, the index is -1, and all rows are counted.
    predicted = rows[np.count_nonzero(mean_score >= accuracy - 1e-9) - 1]
    least = fewest_rows(MAY_BE_WRONG, accuracy, alpha)
    wanted, main_alpha = min(max(predicted / PREDICTED, least), rows[-1] / ALL), alpha
    upper = find_start(rows, wanted / UPPER, accuracy, UPPER_LEVEL * alpha)
    main = find_start(rows, wanted, accuracy, alpha)
    if upper < main and rows[upper] <= wanted / 2:
        main_alpha = (1 - UPPER_LEVEL) * alpha
        main = find_start(rows, wanted, accuracy, main_alpha)
        best = last_passed(ranked, upper, main, accuracy, UPPER_LEVEL * alpha)
        if best == main - 1:
            main_alpha = alpha
    best = max(best, last_passed(ranked, main, rows.size, accuracy, main_alpha))
    result, reason = SelectiveThreshold(np.inf, 0.0, np.nan, 0, 0), ""
    needed = fewest_rows(0, accuracy, alpha)
    if best >= 0:
        score, n, wrong, share = (float(part[best]) for part in ranked[:4])
        result = SelectiveThreshold(score, share, 1 - wrong / n, int(n), int(wrong))
    elif main == rows.size:
        reason = (
            f"at least {needed:,} rows are needed, even without a wrong prediction, but there are "
            f"only {rows[-1]:,.0f}"
        )
    else:
        score, n, wrong, _ = (part[main] for part in ranked[:4])
        p = float(p_values(n - wrong, wrong, accuracy))
        reason = (
            f"no tested threshold reaches {100 * accuracy:g} %: for scores of at least "
            f"{score:.6g}, {100 * (1 - wrong / n):.1f} % of {n:,.0f} predictions are correct "
            f"(p = {p:.2g} > {main_alpha:.2g})"
        )
    result.rows_needed, result.reason = needed, reason
    return result


@listed("Maurer et al. 1995; Wiens 2003; Angelopoulos et al. 2025")
def selective_threshold(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    accuracy: float = 0.95,
    confidence_level: float = 0.95,
    pos_label: Any = None,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
) -> SelectiveThreshold:
    r"""Lowest threshold of the probability above which a minimum accuracy is guaranteed.

    .. math:: P\big(\mathrm{accuracy}(\hat t) \ge a\big) \ge 1 - \delta, \qquad
              \mathrm{accuracy}(t) = P(\text{right} \mid s \ge t)

    In at least `confidence_level` of repeated samples, the true accuracy of rows at or above the
    threshold is at least `accuracy`. The guarantee holds whether or not the probabilities are
    calibrated, or the accuracy increases with them. Rows must be independent (not several rows of
    one patient or document), new to the model, and like future rows.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Labels.
    y_proba : array-like of shape (n, K), (n,) or (n, 1)
        Class probabilities, with a column for each of the sorted labels, or of `labels` in their
        order. Columns of a frame that are named after the labels are read by name. The score s is
        the confidence, also for two columns, and a row is right if its prediction is correct. One
        column is the probability of an event, such as a correct answer, and a row is right if the
        event occurs: the accuracy is then the precision.
    accuracy : float in (0, 1), default=0.95
        The smallest accuracy a of the rows at or above the threshold.
    confidence_level : float in (0, 1), default=0.95
        :math:`1 - \delta`.
    pos_label : label, default=None
        Label of the event whose probability is the score. With one column, None means 1 or True for
        labels {0, 1}, {-1, 1} or booleans, and other labels need `pos_label`. With more columns,
        None means the top label.
    sample_weight : array-like of shape (n,), default=None
        Non-negative integers, counts of rows: 2 is two copies of the row, 0 its absence. Floats
        that differ are relative weights and are refused: they may depend on the labels, which
        breaks the guarantee. Keep each row with probability ``w / w.max()`` instead.
    labels : array-like of shape (K,), default=None
        Labels of the columns, in their order; needed if they cannot be inferred from `y_true`.

    Returns
    -------
    result : SelectiveThreshold
        Named tuple ``(threshold, coverage, accuracy, rows, wrong)``. The threshold is one of the
        scores, or infinity. Of the rows at or above it, `coverage` is the fraction of all rows,
        `accuracy` the fraction of correct rows, `rows` the number, and `wrong` the number of wrong
        rows. ``rows_needed`` is the smallest number of rows, none wrong, that is sufficient for a
        threshold. ``reason`` states why there is no threshold.

    Raises
    ------
    ValueError
        If probabilities, labels, weights or keywords are invalid, or if weights are relative.

    See Also
    --------
    skcalib.SelectiveClassifier : A classifier with such a threshold, or with one for each class.
    risk_coverage_curve : The error rate at every threshold.

    References
    ----------
    Maurer, Hothorn, Lehmacher (1995). Multiple comparisons in drug clinical trials and preclinical
    assays: a-priori ordered hypotheses. Biometrie in der chemisch-pharmazeutischen Industrie 6.

    Wiens (2003). A fixed sequence Bonferroni procedure for testing multiple endpoints.
    Pharmaceutical Statistics 2.

    Angelopoulos, Bates, Candes, Jordan, Lei (2025). Learn then Test: calibrating predictive
    algorithms to achieve risk control. Annals of Applied Statistics 19.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib.metrics import selective_threshold
    >>> rng = np.random.default_rng(0)
    >>> confidence = (1 / (1 + np.exp(-3 * np.abs(rng.normal(size=1000))))).round(2)
    >>> correct = rng.random(1000) < confidence
    >>> selective_threshold(correct, confidence, accuracy=0.95)
    SelectiveThreshold(threshold=0.92, coverage=0.405, accuracy=0.9753, rows=405, wrong=10)
    """
    check_level(confidence_level)
    ranked = read_ranked("selective_threshold", y_true, y_proba, sample_weight, labels, pos_label)
    return find_threshold(ranked, accuracy, confidence_level)
