"""The lowest threshold above which rows are right often enough, with a guarantee.

Thresholds are tested from a start downwards until one fails, each at the full level, because their
order depends on the scores alone (fixed-sequence testing). A second sequence from an upper start
has a tenth of the level, and passes it on where it arrives at the main start (fallback procedure).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import bdtrik, betainc

from skcalib._arrays.types import Float64Array
from skcalib._validation.keywords import check_between, check_level
from skcalib.metrics._curves.risk_coverage import RankedRows, read_ranked
from skcalib.metrics._listed import listed
from skcalib.metrics._printing import shown

# Shares of the rows above the two starts, and the part of the level that the upper one gets.
MAIN, UPPER, UPPER_LEVEL = 1 / 5, 1 / 20, 1 / 10
# Thresholds of a block of tests, and possible starts that are looked at at a time.
BLOCK, AT_A_TIME = 128, 32


class _Parts(NamedTuple):
    threshold: float
    coverage: float
    accuracy: float
    rows: float
    wrong: float


class SelectiveThreshold(_Parts):
    """What `selective_threshold` returns: a threshold, and the rows at or above it."""

    rows_needed: int  # at or above a threshold, none of them wrong

    def needed(self, n_rows: float) -> str:
        """Say which rows are needed, where `n_rows` give no threshold."""
        there = f", {n_rows:,.0f} are there" if n_rows < self.rows_needed else ""
        return f"{self.rows_needed:,} rows without a wrong one are needed{there}"

    def __repr__(self) -> str:
        parts = [f"{name}{shown(value)}" for name, value in self._asdict().items()]
        note = f": no threshold; {self.rows_needed:,} rows without a wrong one would do"
        return f"SelectiveThreshold({', '.join(parts)}){note if self.threshold == np.inf else ''}"


def p_values(right: Float64Array, wrong: Float64Array, accuracy: float) -> Float64Array:
    """Return the probability of as few wrong rows or fewer, if the true accuracy is `accuracy`."""
    return np.where(right <= 0, 1.0, betainc(np.maximum(right, 1e-300), wrong + 1, accuracy))


def most_wrong(rows: Float64Array, accuracy: float, alpha: float) -> Float64Array:
    """Return the largest number of wrong rows with which a test passes; -1 if none passes."""
    most = np.floor(bdtrik(alpha, np.maximum(rows, 1e-300), 1 - accuracy) + 1e-9)
    return np.where(rows * np.log(accuracy) > np.log(alpha), -1.0, most)


def find_start(ranked: RankedRows, share: float, accuracy: float, alpha: float) -> int:
    """Return the first threshold of at least this share at which one more row may be wrong.

    Between two such thresholds, a test passes less often: more rows, and no more of them wrong.
    """
    rows, size = ranked.rows, ranked.rows.size
    first = int(np.searchsorted(ranked.share, share - 1e-12))  # rounding of relative weights
    for i in range(first, size, AT_A_TIME):
        before = rows[i - 1] if i else 0.0
        most = most_wrong(np.append(before, rows[i : i + AT_A_TIME]), accuracy, alpha)
        rises = np.flatnonzero(np.diff(most) > 0)
        if rises.size:
            return i + int(rises[0])
    return size


def last_passed(ranked: RankedRows, first: int, end: int, accuracy: float, alpha: float) -> int:
    """Return the last threshold in ``[first, end)`` down to which all pass, or -1.

    A p-value falls with the right rows and rises with the wrong ones: a block passes if the fewest
    right rows and the most wrong ones of its thresholds do.
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
    """Return the threshold for ranked rows."""
    check_between("accuracy", accuracy, 0, 1, "a number in (0, 1)")
    alpha, best = 1 - level, -1
    main_alpha = alpha
    upper = find_start(ranked, UPPER, accuracy, UPPER_LEVEL * alpha)
    main = find_start(ranked, MAIN, accuracy, alpha)
    if upper < main and ranked.share[upper] <= MAIN / 2:
        main_alpha = (1 - UPPER_LEVEL) * alpha
        main = find_start(ranked, MAIN, accuracy, main_alpha)
        best = last_passed(ranked, upper, main, accuracy, UPPER_LEVEL * alpha)
        if best == main - 1:
            main_alpha = alpha
    best = max(best, last_passed(ranked, main, ranked.rows.size, accuracy, main_alpha))
    result = SelectiveThreshold(np.inf, 0.0, np.nan, 0, 0)
    if best >= 0:
        score, rows, wrong, share = (float(part[best]) for part in ranked)
        counts = rows.is_integer() and wrong.is_integer()
        numbers = (int(rows), int(wrong)) if counts else (rows, wrong)
        result = SelectiveThreshold(score, share, 1 - wrong / rows, *numbers)
    result.rows_needed = max(int(np.ceil(np.log(alpha) / np.log(accuracy) - 1e-9)), 1)
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
    r"""Probability above which to act, so that an accuracy is guaranteed.

    .. math:: P\big(\mathrm{accuracy}(\hat t) \ge a\big) \ge 1 - \delta, \qquad
              \mathrm{accuracy}(t) = P(\text{right} \mid s \ge t)

    In at least `confidence_level` of repeated samples, the true accuracy of rows at or above the
    threshold is at least `accuracy`, whether or not the probabilities are calibrated or the
    accuracy rises with them. Rows must be independent (not several of a patient or document, for
    which there is no `clusters`), new to the model, and like those to come.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Labels.
    y_proba : array-like of shape (n, K), (n,) or (n, 1)
        Class probabilities, a column for each of the sorted labels, or of `labels` in their
        order; a frame whose columns are named by the labels is read by name. The score s is the
        largest probability, also of two columns, and a row is right if its class is the true one.
        One column is the probability of one event, such as that of an answer being correct, and a
        row is right if it happened: the accuracy is then the precision.
    accuracy : float in (0, 1), default=0.95
        The accuracy a of the rows at or above the threshold.
    confidence_level : float in (0, 1), default=0.95
        :math:`1 - \delta`.
    pos_label : label, default=None
        The event whose probability is the score. With one column, None means 1 or True for labels
        {0, 1}, {-1, 1} or booleans; others need it. With more columns, None means the top label.
    sample_weight : array-like of shape (n,), default=None
        Non-negative weights. Integers are counts: 2 is two copies of the row. Of floats only the
        ratios matter (see "Weights" under "Valid input" in the user guide). 0 is the row's absence.
    labels : array-like of shape (K,), default=None
        Labels of the columns, in their order; needed if they cannot be inferred from `y_true`.

    Returns
    -------
    result : SelectiveThreshold
        Named tuple ``(threshold, coverage, accuracy, rows, wrong)``: one of the scores, or
        infinity; of the rows at or above it their share of all, the share that is right, their
        number, and the number of wrong ones. ``rows_needed`` rows, none wrong, would be enough.

    Raises
    ------
    ValueError
        If probabilities, labels, weights or keywords are invalid.

    See Also
    --------
    skcalib.SelectiveClassifier : A classifier with such a threshold, or one for each class.
    risk_coverage_curve : The share of wrong rows at every threshold.

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
