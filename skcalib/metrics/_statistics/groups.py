"""Calibration errors and statistics by group of rows, and their variation between groups."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from html import escape
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from numpy.typing import ArrayLike
from scipy.optimize import brentq
from scipy.special import expit, logit, ndtri

from skcalib._arrays.rowwise import Float64Array
from skcalib._arrays.sources import refuse_remote, to_array
from skcalib._scores.scores import event_or_top
from skcalib._validation.keywords import check_level, seed_of
from skcalib._validation.rows import (
    FEWEST,
    Groups,
    Predictions,
    check_predictions,
    check_weight,
    is_whole,
    read_groups,
)
from skcalib.metrics._common import (
    LINE,
    SCORED,
    effective_number,
    event_log_odds,
    event_rows,
    format_table,
    interval_text,
    listed,
    number_of,
    p_text,
    student,
    to_html,
)
from skcalib.metrics._intervals.interval import CalibrationInterval, interval_of, label_error
from skcalib.metrics._intervals.label_errors import clusters_text, too_few
from skcalib.metrics._resampling import (
    Evaluation,
    check_is_metric,
    is_single_column,
    name_metrics,
    name_of,
    refuse_relative,
    repeat_rows,
)
from skcalib.metrics._statistics.event import auc_interval, ratio_interval, recalibration
from skcalib.metrics._statistics.scores import score_decomposition

# Random-effects means of the statistics of risk models over groups, and prediction intervals for a
# new group.
#
# The statistics :math:`y_g` of G groups, with standard errors :math:`s_g`, vary about a mean
# :math:`\mu` with standard deviation :math:`\tau`. With :math:`w_g = 1 / (s_g^2 + \tau^2)`, the
# :math:`\tau^2` of Paule and Mandel (1982) solves
#
# .. math:: \sum_g w_g (y_g - \hat\mu)^2 = G - 1, \qquad \hat\mu = \sum_g w_g y_g \Big/ \sum_g w_g ,
#
# or is 0. The variance v of the mean is that of Hartung and Knapp: the left-hand side divided by
# :math:`(G - 1) \sum_g w_g`, with quantiles of Student's t with G - 1 degrees of freedom. The
# prediction interval of the statistic in a new group of mean size is :math:`\hat\mu \pm t_{G_e-2}
# \sqrt{\tau^2 + v + s^2}`, where :math:`1 / s^2` is the mean of :math:`1 / s_g^2`. The number of
# groups is the effective number :math:`G_e = (\sum_g w_g)^2 / \sum_g w_g^2`, because small groups
# contain little information about the variation between groups. Higgins et al. (2009) use :math:`s
# = 0` and G instead. O:E is averaged on the scale of its logarithm, and the AUC on the scale of its
# logit (Debray et al. 2017).


# Groups with fewer than `FEWEST_EVENTS` events, or with fewer rows without the event, have no
# statistics (NaN).
FEWEST_EVENTS, TINY = 2, 1e-300
COLUMNS = ["groups", "mean", "low", "high", "tau", "I2", "prediction_low", "prediction_high"]
# A statistic, both ends of its interval, and its standard error. The standard error is on the scale
# on which the statistic is averaged over groups, such as the logarithm of O:E.
Line = Sequence[float]


class Statistic(NamedTuple):
    """A statistic of risk models that can be computed separately for each group of rows.

    `measure` computes the statistic, and `difference` its difference from that of a perfect model.
    `scale` transforms it to the scale on which it is averaged, and `back` is the inverse.
    """

    measure: Callable[[Predictions, float], Line]
    difference: Callable[[Any], Any] = np.asarray
    scale: Callable[[Any], Any] = np.asarray
    back: Callable[[Any], Any] = np.asarray

    def estimate(self, part: Predictions, level: float) -> Line:
        """Return the statistic of a group with its interval, or NaN if the group is too small."""
        rows = event_rows(part)
        hit, w = rows.hit, rows.w
        if (part.n_clusters or FEWEST) >= FEWEST and min(w @ hit, w @ ~hit) >= FEWEST_EVENTS:
            # The statistic is NaN if the slope of the group is infinite, or if no event is expected
            # in the group.
            with suppress(ValueError, ZeroDivisionError), np.errstate(divide="ignore"):
                return self.measure(part, level)
        return [np.nan] * 4

    def distances(self, ends: Float64Array) -> list[Float64Array]:
        """Return distances of statistics from perfect values, and lower bounds of the distances."""
        value, low, high = self.difference(ends)
        return [abs(value), np.where(low * high < 0, 0.0, np.minimum(abs(low), abs(high)))]

    def pool_groups(self, value: Float64Array, error: Float64Array, level: float) -> list[float]:
        """Return the random-effects mean of a statistic over groups, as a row with `COLUMNS`."""
        with np.errstate(divide="ignore"):
            y = self.scale(value)
        known = np.isfinite(y) & np.isfinite(error) & (error > 0)
        y, v, G = y[known], error[known] ** 2, int(known.sum())
        if G < FEWEST:
            return [G, *[np.nan] * (len(COLUMNS) - 1)]

        def excess(tau2: float) -> float:
            w = 1 / (v + tau2)
            return float(w @ (y - w @ y / w.sum()) ** 2) - (G - 1)

        first = excess(0.0)
        tau2 = float(brentq(excess, 0.0, y.var(ddof=1), xtol=1e-14)) if first > 0 else 0.0
        w = 1 / (v + tau2)
        mean = float(w @ y / w.sum())
        variance = (excess(tau2) / (G - 1) + 1) / float(w.sum())
        half = student(G - 1, level) * np.sqrt(variance)
        total = tau2 + variance + 1 / np.mean(1 / v)
        new = student(effective_number(w) - 2, level) * np.sqrt(total)
        mean, low, high, *ends = self.back(mean + np.array([0.0, -half, half, -new, new]))
        return [G, mean, low, high, np.sqrt(tau2), max(first / (first + G - 1), 0.0), *ends]


def error_of(ends: ArrayLike, level: float) -> float:
    """Return the standard error that corresponds to the length of a confidence interval."""
    return float(np.ptp(ends) / (2 * ndtri((1 + level) / 2)))


def ratio(part: Predictions, level: float) -> Line:
    """Return the observed-expected ratio of a group with its interval and standard error."""
    rows = event_rows(part)
    value, *ends = ratio_interval(rows, level)
    if part.cluster is not None:
        return value, *ends, error_of(np.log(ends), level)
    return value, *ends, float(np.sqrt(1 / (rows.w @ rows.hit) - 1 / rows.w.sum()))


def line(part: Predictions, level: float, start: int) -> Line:
    """Return the slope or an intercept of a group with its interval and standard error."""
    return recalibration(event_log_odds(part), event_rows(part), level)[start : start + 4]


def area(part: Predictions, level: float) -> Line:
    """Return the AUC of a group with its interval, and the standard error of its logit."""
    value, *ends = auc_interval(event_rows(part), level)
    return value, *ends, error_of(ends, level) / max(value * (1 - value), TINY)


def score(part: Any, level: float, name: Any) -> Line:
    """Return a proper score of a group with its interval and standard error."""
    parts = score_decomposition(part.code, part, score=name, confidence_level=level)
    ends = parts.score_low, parts.score_high
    return parts.score, *ends, error_of(ends, level)


# The statistics that can be computed by group, by their names in `calibration_summary`.
STATISTICS = {
    "observed_expected": Statistic(ratio, np.log, np.log, np.exp),
    "slope": Statistic(partial(line, start=0), lambda x: x - 1),
    "intercept": Statistic(partial(line, start=4)),
    "in_the_large": Statistic(partial(line, start=8)),
    "auc": Statistic(area, lambda x: 1 - x, logit, expit),
    "brier_score": Statistic(partial(score, name="brier")),
    "log_loss": Statistic(partial(score, name="log")),
}
# Public functions that can be passed as metrics, and the names of the statistics that they return.
FUNCTIONS = {
    "observed_expected_ratio": ("observed_expected",),
    "calibration_intercept_slope": ("slope", "intercept", "in_the_large"),
}


# The result of `calibration_by_group`: a table with a row for each group, and the tests of all
# groups.


# Each group is tested with simulated label vectors. The test ends when the errors of ENOUGH label
# vectors are at least the error of the data. Otherwise it ends one label vector before MOST, or
# before MOST_PER_GROUP times the number of groups if that is more. So a corrected p-value can be as
# small as 1 / 200.
ENOUGH, MOST, MOST_PER_GROUP = 20, 1000, 200
# The largest number of groups that are named in the conclusion, and the largest number of table
# rows that are printed.
NAMED, PRINTED = 5, 40
# The columns of each error in the printed table.
SHOWN = ["debiased", "low", "high", "corrected p-value"]
# Number formats of the columns of the printed tables. Columns that are not in FORMS have three
# significant digits.
FORMS = {"gap": "{:+.3f}", **dict.fromkeys(("n", "clusters", "events"), "{:,.0f}")}
FORMAT: dict[str, Any] = {"float_format": "{:.3g}".format}


def most_sets(n_groups: int) -> int:
    """Return the largest number of simulated label vectors in the test of a group."""
    return max(MOST, MOST_PER_GROUP * n_groups)


@dataclass(eq=False, repr=False)
class GroupCalibration:
    """Result of `calibration_by_group`: errors, intervals and tests of each group of rows.

    It is printed as the verdict and a table with the worst group first.

    Attributes
    ----------
    frame : pandas.DataFrame
        A row for each group, whose index is the label of the group, or several labels if `groups`
        has several columns. ``"n"`` is the effective number of rows, and ``"clusters"`` the number
        of clusters, if there are any. For one event, ``"events"``, ``"mean probability"`` and
        ``"rate"`` follow, otherwise ``"mean confidence"`` and ``"accuracy"`` of the top label.
        ``"gap"`` is the rate minus the mean probability, or the accuracy minus the mean confidence.
        Each metric has the columns ``(metric, "value")``, ``"debiased"``, ``"low"``, ``"high"``,
        ``"if calibrated"`` of `calibration_interval`, ``"p-value"`` and ``"corrected p-value"``,
        which are NaN for groups with fewer than 10 rows or 6 clusters. Each statistic has the
        columns ``"value"``, ``"low"`` and ``"high"``. ``"finding"`` states the result in words.
    metrics : list of str
        Names of the metrics. The first metric orders the rows, and the first error determines the
        findings.
    p_value : float
        P-value of the hypothesis that all groups are calibrated: the smallest corrected p-value.
        NaN if no group has 10 rows, or if `metrics` contains no error.
    between : pandas.DataFrame
        A row for each statistic. ``groups`` is the number of groups with this statistic, and
        ``mean`` the random-effects mean with the interval ``low`` to ``high``. ``tau`` is the
        standard deviation between groups (for O:E, of the logarithm; for the AUC, of the logit),
        and ``I2`` the fraction of the variance that is between groups. ``prediction_low`` and
        ``prediction_high`` are the ends of the prediction interval of the statistic in a new group
        of mean size. All numbers except ``groups`` are NaN with fewer than 3 groups.
    verdict : str
        A sentence with the miscalibrated groups, or with the prediction interval of a new group.
    confidence_level : float
        Level of the intervals. A group is found miscalibrated if its corrected p-value is at most 1
        minus this level.
    """

    frame: pd.DataFrame
    metrics: list[str]
    confidence_level: float
    between: pd.DataFrame
    # What the rows of the table are called in printed results.
    _unit: ClassVar[str] = "group"

    def __post_init__(self) -> None:
        self._errors = [name for name in self.metrics if name not in self.between.index]
        corrected = np.empty(0)
        if self._errors:
            corrected = self.frame[self._errors[0], "corrected p-value"].to_numpy()
        tested = corrected[~np.isnan(corrected)]
        self.p_value = float(tested.min()) if tested.size else float("nan")
        self._smallest = tested.size / most_sets(tested.size)
        self.verdict = self._verdict(corrected)

    def _verdict(self, corrected: Any) -> str:
        parts = [self._verdict_of_errors(corrected)] if self._errors else []
        # The labels of a problem are not a sample, so that the mean over labels is no verdict.
        pooled = self._unit == "group" or not self._errors
        for name, row in self.between.head(int(pooled)).iterrows():
            mean, new = _value_text(*row.iloc[1:4]), interval_text(*row.iloc[6:])[2:-1]
            count = f"{row['groups']:.0f} {self._unit}s"
            text = f"{mean} on average of {count}, {new} in a new {self._unit}."
            if np.isnan(row["mean"]):
                few = f"fewer than 3 {self._unit}s have enough rows"
                text = f"{few} with and without the event."
            parts.append(f"{name}: {text}")
        return " ".join(parts)

    def _verdict_of_errors(self, corrected: Any) -> str:
        miscalibrated = corrected <= 1 - self.confidence_level
        n_tested = int((~np.isnan(corrected)).sum())
        if not n_tested:
            return f"No {self._unit} has enough rows to be tested."
        small = len(corrected) - n_tested
        how = f"{n_tested} tested{f', {small} too small to test' if small else ''}; smallest "
        how += f"corrected p-value {self._p_text(self.p_value)}"
        if not miscalibrated.any():
            return f"No {self._unit} was found to be miscalibrated ({how})."
        names = [label_text(label) for label in self.frame.index[miscalibrated]]
        listed = ", ".join(names[:NAMED]) + (", ..." if len(names) > NAMED else "")
        return f"Miscalibrated {self._unit}s: {listed} ({miscalibrated.sum()} of {how})."

    def _p_text(self, p: float) -> str:
        """Format a corrected p-value, as "< 0.005" if it is the smallest possible value."""
        if p <= self._smallest * (1 + 1e-9):
            return p_text(self._smallest, self._smallest)
        return "" if np.isnan(p) else f"{p:.2g}"

    def _cells(self) -> list[list[str]]:
        """Return the cells of the printed table, with the header in the first row."""
        frame = self.frame
        columns = [[" x ".join(map(str, frame.index.names)), *map(label_text, frame.index)]]
        for name in frame.columns.get_level_values(0):
            if name not in (*self.metrics, "finding"):
                form = FORMS.get(name, "{:.3f}")
                columns.append([name, *(_text(x, form) for x in frame[name, ""])])
        for name in self.between.index:
            ends = frame[name][["value", "low", "high"]].to_numpy()
            columns.append([name, *(_value_text(*line) for line in ends)])
        for name in self._errors[:1]:
            short = f"{name.removesuffix('_calibration_error').replace('_', ' ')} error"
            short = "ECE" if name == "expected_calibration_error" else short
            debiased, low, high, p = frame[name][SHOWN].to_numpy().T
            columns.append([f"{short}, debiased", *map(_text, debiased)])
            columns.append(["interval", *map(_ends_text, low, high)])
            columns.append(["corrected p", *map(self._p_text, p)])
        columns.append(["finding", *frame["finding", ""]])
        return [list(row) for row in zip(*columns, strict=True)]

    def __repr__(self) -> str:
        rows = self._cells()
        more = len(rows) - 1 - PRINTED
        lines = [self.verdict, "", format_table(rows[: PRINTED + 1], LINE)]
        if more > 0:
            lines.append(f"... and {more} more {self._unit}s: see frame.")
        return "\n".join(lines + self._lines_below())

    def _repr_html_(self) -> str:
        table = to_html(self._cells())
        return f"<p><strong>{escape(self.verdict)}</strong></p>{table}{self._html_below()}"

    def _lines_below(self) -> list[str]:
        """Return the printed lines below the table."""
        if not len(self.between):
            return []
        return ["", "Mean of the groups, and a new group:", self.between.to_string(**FORMAT)]

    def _html_below(self) -> str:
        return self.between.to_html(border=0, **FORMAT) if len(self.between) else ""


def label_text(label: Any) -> str:
    """Return the label of a group as text; labels from several columns are joined."""
    return " x ".join(map(str, label)) if isinstance(label, tuple) else str(label)


def _value_text(value: float, low: float, high: float) -> str:
    return "" if np.isnan(value) else f"{value:.3g}{interval_text(low, high)}"


def _ends_text(low: float, high: float) -> str:
    return "" if np.isnan(low) else f"[{low:.3f}, {high:.3f}]"


def _text(value: float, form: str = "{:.3f}") -> str:
    return "" if np.isnan(value) else form.format(value)


# Calibration errors of each group of rows, with intervals, and with tests that are corrected for
# multiple testing.


# Groups with fewer than `FEWEST_ROWS` rows are not tested, because they contain almost no
# information.
FEWEST_ROWS = 10
# The number of simulated label vectors that are drawn in one batch.
AT_ONCE = 250
# Columns of the table for each metric: the numbers of its interval, and the p-value corrected for
# multiple testing.
PARTS = ("value", "debiased", "low", "high", "if calibrated", "p-value", "corrected p-value")


def holm(p: Float64Array) -> Float64Array:
    """Correct p-values for multiple testing by the method of Holm."""
    order = np.argsort(p, kind="stable")
    steps = np.maximum.accumulate(p[order] * np.arange(p.size, 0, -1))
    corrected = np.empty(p.size)
    corrected[order] = np.minimum(steps, 1.0)
    return corrected


def sequential_p_value(
    evaluate: Evaluation, predictions: Predictions, most: int, random_state: int
) -> float:
    """Return the sequential p-value of a calibration error, with labels drawn from the predictions.

    Sets are drawn until `ENOUGH` of them have an error at least as large as the data. If these are
    h of l sets, the p-value is h / l. Otherwise, after `most` - 1 sets, it is (h + 1) / `most`.
    """
    error = label_error(evaluate, predictions)
    observed = error.observed(predictions.code)[0]
    q = to_array(predictions.P)
    starts = range(0, most - 1, AT_ONCE)
    seeds = np.random.SeedSequence(random_state).spawn(len(starts))
    reached = 0
    for start, seed in zip(starts, seeds, strict=True):
        drawn = error.simulate(q, min(AT_ONCE, most - 1 - start), seed).values[:, 0]
        so_far = reached + np.cumsum(drawn >= observed)
        reached = int(so_far[-1])
        if reached >= ENOUGH:
            return ENOUGH / (start + int(np.argmax(so_far >= ENOUGH)) + 1)
    return (reached + 1) / most


def measure_group(
    evaluations: list[Evaluation],
    predictions: Predictions,
    level: float,
    most: int,
    random_state: int,
) -> list[CalibrationInterval]:
    """Return the intervals of all metrics in a group, with a sequential p-value of calibration."""
    predictions = repeat_rows(predictions)
    return [
        interval_of(evaluate, predictions, level=level, random_state=random_state)._replace(
            p_value=sequential_p_value(evaluate, predictions, most, random_state)
        )
        for evaluate in evaluations
    ]


@listed("Holm 1979; Besag and Clifford 1991")
def calibration_by_group(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    groups: Any,
    *,
    metrics: Any = "ks_calibration_error",
    pos_label: Any = None,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    clusters: Any = None,
    confidence_level: float = 0.95,
    random_state: Any = None,
    n_jobs: int | None = None,
) -> GroupCalibration:
    r"""Calibration of each group of rows, the worst first, with corrected p-values.

    For each group, the result contains the number of rows, the mean probability and the event rate,
    and the calibration error with its interval. The p-value :math:`p_g` is that of the hypothesis
    that the probabilities are calibrated, by labels drawn from the probabilities. For G tested
    groups with :math:`p_{(1)} \le p_{(2)} \le \dots`, p-values are corrected by the method of Holm,

    .. math:: \tilde p_{(j)} = \max_{i \le j} \min(1, (G - i + 1)\, p_{(i)}) .

    If every group is calibrated, the probability that any group is found miscalibrated is at most 1
    minus the confidence level. The smallest corrected p-value is that of the hypothesis that all
    groups are calibrated.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Labels.
    y_proba : array-like of shape (n, K), (n,) or (n, 1)
        Class probabilities, with a column for each of the sorted labels, or of `labels` in their
        order. Columns of a frame that are named after the labels are read by name. One or two
        columns give the probability of the event `pos_label`, which is measured. With more columns,
        the top label is measured.
    groups : array-like of shape (n,) or (n, g)
        The group of each row: strings, numbers or a categorical. Several columns are crossed. Rows
        without a label (None, NaN) form the group "(missing)".
    metrics : str, callable, list or dict of these, default="ks_calibration_error"
        Calibration errors, as names or as functions ``metric(y_true, y_proba, ...)`` that return a
        number; the keys of a dict are their names. Also statistics of binary problems by their
        names in `calibration_summary`: "observed_expected", "slope", "intercept", "in_the_large",
        "auc", "brier_score", "log_loss", or `observed_expected_ratio` and
        `calibration_intercept_slope`. The first metric orders the groups, and the first error
        determines the findings.
    pos_label : label, default=None
        Label of the event whose probability is measured. None means 1 or True for labels {0, 1},
        {-1, 1} or booleans. For other labels, None means the second of two columns, and one column
        needs `pos_label`. With more columns, None means the top label.
    sample_weight : array-like of shape (n,), default=None
        Non-negative weights. Integers are counts: 2 is two copies of the row. Of floats only the
        ratios matter (see "Weights" under "Valid input" in the user guide). 0 is the row's absence.
        Weights are scaled separately for each group.
    labels : array-like of shape (K,), default=None
        Labels of the columns, in their order; needed if they cannot be inferred from `y_true`.
    clusters : array-like of shape (n,), default=None
        Cluster of each row, such as the hospital of a patient, if rows of one cluster are
        dependent. At least 3 clusters are needed, and 6 in a group that is tested; see "Dependent
        rows" in the user guide. None means that rows are independent. If each group is within one
        cluster, `clusters` has no effect.
    confidence_level : float in (0, 1), default=0.95
        Level of each interval. A group is found miscalibrated if its corrected p-value is at most 1
        minus this level.
    random_state : int, RandomState instance or None, default=None
        Seed of the labels. Results do not depend on `n_jobs`.
    n_jobs : int, default=None
        Number of processes, as in joblib.

    Returns
    -------
    result : GroupCalibration
        The result is printed as a sentence and a table. ``result.frame`` contains all numbers, with
        a row for each group: first the largest lower ends of the interval, then the largest
        debiased errors. ``result.p_value`` tests whether all groups are calibrated. Groups with
        fewer than 10 rows or 6 clusters are listed but not tested, as their ``"finding"`` states.
        For statistics, ``result.between`` contains the mean over groups, the variation between
        groups, and the prediction interval of a new group.

    Raises
    ------
    ValueError
        If probabilities, labels, weights, groups or keywords are invalid, if weights are floats
        and a metric has no ``sample_weight``, or if a metric is not a calibration error.
    TypeError
        If a metric is neither a name nor callable.

    See Also
    --------
    calibration_interval : The interval of the error of all rows.
    skcalib.GroupwiseCalibrator : A calibrator with a separate function for each group.

    Notes
    -----
    With an integer as `random_state`, value and interval of a group are those of
    ``calibration_interval(metric, ..., labels=labels, random_state=random_state)`` with the rows of
    the group.

    The KS error is the default because it needs no bins, which small groups cannot fill.

    Labels are drawn until 20 sets have an error at least as large as the data, or until there are
    1,000 sets (200 for each group if that is more). So large p-values are rough and small p-values
    are precise. For groups with at least 10,000 rows, sums of labels are drawn, as in
    `calibration_interval`.

    A statistic needs groups with at least 2 events and 2 non-events. With at least 3 such groups,
    the random-effects mean is computed. It weights groups by their sampling variance and by the
    variance between groups (``tau``, by Paule and Mandel 1982). Its interval is that of Hartung and
    Knapp. The prediction interval (Higgins et al. 2009; Debray et al. 2017) is for the statistic
    that is measured in a new group of mean size, and includes its sampling variance. Its degrees of
    freedom are the effective number of groups minus 2.

    A small error of all groups may not be significant in any of them. Use `calibration_test` to
    test all rows together.

    References
    ----------
    Holm (1979). A Simple Sequentially Rejective Multiple Test Procedure. Scandinavian Journal of
    Statistics 6.

    Paule, Mandel (1982). Consensus Values and Weighting Factors. Journal of Research of the
    National Bureau of Standards 87.

    Higgins, Thompson, Spiegelhalter (2009). A re-evaluation of random-effects meta-analysis.
    Journal of the Royal Statistical Society A 172.

    Debray, Damen, Snell, Ensor, Hooft, Reitsma, Riley, Moons (2017). A guide to systematic review
    and meta-analysis of prediction model performance. BMJ 356.

    Besag, Clifford (1991). Sequential Monte Carlo p-values. Biometrika 78.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib.metrics import calibration_by_group
    >>> rng = np.random.default_rng(0)
    >>> site = rng.choice(["A", "B", "C"], 1500)
    >>> p = rng.beta(2, 4, 1500)
    >>> y = rng.random(1500) < np.where(site == "B", p**2, p)
    >>> found = calibration_by_group(y, p, site, random_state=0)
    >>> found.frame.index[0]
    'B'
    >>> found.frame["finding"].str[:13].tolist()
    ['miscalibrated', 'no miscalibra', 'no miscalibra']
    """
    check_level(confidence_level)
    named = read_metrics(metrics)
    name = "calibration_by_group"
    predictions = check_predictions(
        y_true, y_proba, sample_weight, labels, pos_label, caller=name, clusters=clusters
    )
    grouped = group_rows(predictions, groups, np.shape(y_true)[0], sample_weight)
    column = is_single_column(y_proba)
    return measure_groups(grouped, named, confidence_level, random_state, n_jobs, column)


class Grouped(NamedTuple):
    """Checked predictions, the group of each row, and the predictions of each group."""

    predictions: Predictions
    groups: Groups
    parts: list[Predictions]


def group_rows(
    predictions: Predictions, groups: Any, n_rows: int, sample_weight: ArrayLike | None
) -> Grouped:
    """Read the group of each row, and divide the checked predictions by group.

    Predictions contain only the rows with a positive weight. If each group is within one cluster,
    the rows of a group are treated as independent.
    """
    refuse_remote(predictions.P, "Calibration by group")
    read = read_groups(groups, n_rows)
    read = read._replace(code=read.code[check_weight(sample_weight, n_rows) > 0])
    if predictions.cluster is not None:
        pairs = read.code * number_of(predictions.cluster) + predictions.cluster
        if np.unique(pairs).size == np.unique(read.code).size:
            predictions = predictions._replace(cluster=None)
    return Grouped(predictions, read, [predictions.take(rows) for rows in read.members()])


def measure_groups(
    grouped: Grouped,
    named: Mapping[str, Callable[..., Any] | Statistic],
    level: float,
    random_state: Any,
    n_jobs: int | None = None,
    column: bool = False,
    report: Callable[[int, int], None] = lambda _, __: None,
) -> GroupCalibration:
    """Compute the errors and the statistics of each group, in a table sorted by miscalibration.

    `column` states whether metrics of other packages get probabilities as one column. `report` is
    called with the number of finished groups and the number of all groups.
    """
    predictions, parts = grouped.predictions, grouped.parts
    statistics = {name: each for name, each in named.items() if isinstance(each, Statistic)}
    errors = {name: each for name, each in named.items() if not isinstance(each, Statistic)}
    evaluations = [Evaluation(metric, {}, column) for metric in errors.values()]
    for evaluate in evaluations:
        refuse_relative(evaluate, predictions)
    seed = seed_of(random_state)
    enough = [part.w.sum() >= FEWEST_ROWS and not too_few(part.n_clusters) for part in parts]
    tested = np.flatnonzero(enough).tolist() if errors else []
    most = most_sets(len(tested))
    measured = []
    for intervals in Parallel(n_jobs=n_jobs, return_as="generator")(
        delayed(measure_group)(evaluations, parts[g], level, most, seed) for g in tested
    ):
        measured.append(intervals)
        report(len(measured), len(tested))
    frame = describe_groups(grouped)
    for j, name in enumerate(errors):
        of_metric = [intervals[j] for intervals in measured]
        if any(np.ndim(interval.estimate) for interval in of_metric):
            raise ValueError(f"metric {name} must return a number: leave out average=None.")
        # All numbers of groups that are too small to be tested are NaN.
        numbers = np.full((len(frame), len(PARTS)), np.nan)
        numbers[tested, :-1] = np.reshape(of_metric, (-1, len(PARTS) - 1))
        numbers[tested, -1] = holm(numbers[tested, PARTS.index("p-value")])
        for part, of_part in zip(PARTS, numbers.T, strict=True):
            frame[name, part] = of_part
    between = {}
    for name, statistic in statistics.items():
        value, low, high, error = np.array([statistic.estimate(part, level) for part in parts]).T
        frame[name, "value"], frame[name, "low"], frame[name, "high"] = value, low, high
        between[name] = statistic.pool_groups(value, error, level)
    first = next(iter(named))
    if errors:
        name = next(iter(errors))
        frame["finding"] = [result_text(row, name, 1 - level) for _, row in frame.iterrows()]
    else:
        is_small = frame[first, "value"].isna()
        frame["finding"] = np.where(is_small, f"too few rows for {first}", "")
    frame.columns = pd.MultiIndex.from_tuples(
        [name if isinstance(name, tuple) else (name, "") for name in frame.columns]
    )
    if first in statistics:
        away = statistics[first].distances(frame[first].to_numpy().T)
    else:
        away = [frame[first, part].to_numpy() for part in ("value", "debiased", "low")]
    # Groups that are too small to be tested are last, sorted by their numbers of rows.
    keys = [np.nan_to_num(-key, nan=np.inf) for key in away]
    order = np.lexsort([-frame["n"].to_numpy(), *keys])
    means = pd.DataFrame.from_dict(between, orient="index", columns=COLUMNS)
    return GroupCalibration(frame.iloc[order], list(named), level, means)


def read_metrics(metrics: Any) -> dict[str, Callable[..., Any] | Statistic]:
    """Return the requested metrics and statistics of risk models, as a dict by name."""
    known: dict[str, Any] = {metric.__name__: metric for metric in SCORED} | STATISTICS
    named = name_metrics(metrics)
    if not isinstance(metrics, Mapping):
        parts = (FUNCTIONS.get(name_of(metric), (metric,)) for metric in named.values())
        named = name_metrics([part for each in parts for part in each])
    for name, metric in named.items():
        if isinstance(metric, str):
            bare = metric.removeprefix("neg_")
            if bare not in known:
                initials = {"".join(word[0] for word in name.split("_")): name for name in known}
                way = initials.get(bare) or f"one of {', '.join(known)}"
                raise ValueError(
                    f"metrics: {metric!r} is not the name of a calibration error or a statistic: "
                    f"use {way}, or a function metric(y_true, y_proba)."
                )
            named[name] = known[bare]
        else:
            check_is_metric(metric)
    return named


def describe_groups(grouped: Grouped) -> pd.DataFrame:
    """Return a table of row counts, mean predictions and event rates, with a row for each group."""
    predictions, groups, parts = grouped.predictions, grouped.groups, grouped.parts
    w, (score, hit) = predictions.w, event_or_top(predictions)
    total, scores, hits = (
        np.bincount(groups.code, amounts, len(groups.labels)) for amounts in (w, w * score, w * hit)
    )
    n = np.array([part.w.sum() for part in parts])
    with np.errstate(invalid="ignore"):  # groups without rows have no mean
        mean, rate = scores / total, hits / total
    events = np.nan_to_num(n * rate)
    if is_whole(w):
        n, events = n.astype(np.int64), events.round().astype(np.int64)
    columns: dict[str, Any] = {"n": n}
    if predictions.cluster is not None:
        columns["clusters"] = [part.n_clusters or len(part.code) for part in parts]
    if predictions.event is not None:
        columns |= {"events": events, "mean probability": mean, "rate": rate}
    else:
        columns |= {"mean confidence": mean, "accuracy": rate}
    if len(groups.names) == 1:
        only = [label for (label,) in groups.labels]
        index = pd.Index(only, name=groups.names[0] or "group", tupleize_cols=False)
    else:
        titles = [name or f"group {j + 1}" for j, name in enumerate(groups.names)]
        index = pd.MultiIndex.from_tuples(groups.labels, names=titles)
    return pd.DataFrame({**columns, "gap": rate - mean}, index=index)


def result_text(row: pd.Series[Any], metric: str, level: float) -> str:
    """Describe the calibration of a group in words."""
    n = float(row["n"])
    if n < FEWEST_ROWS:
        return f"too small to test: {n:.3g} row{'s' if n != 1 else ''}" if n else "no rows"
    if too_few(row.get("clusters")):
        return clusters_text(int(row["clusters"]))
    gap, one_event = float(row["gap"]), "rate" in row
    if float(row[metric, "corrected p-value"]) <= level:
        words = ("too low", "too high") if one_event else ("under-confident", "over-confident")
        text = "miscalibrated"
        # A direction is reported only if the mean gap is large. Otherwise, probabilities are too
        # high at some scores and too low at others.
        if abs(gap) >= float(row[metric, "value"]) / 2:
            text += f", {words[int(gap < 0)]} by {abs(gap):.3f} on average"
    else:
        high = float(row[metric, "high"])
        text = "no miscalibration found" + (f", up to {high:.3f} is possible" if high > 0 else "")
    if one_event and row["rate"] in (0, 1):
        text += "; events only" if row["rate"] else "; no events"
    return text
