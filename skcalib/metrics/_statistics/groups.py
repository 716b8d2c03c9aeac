"""Statistics by group of rows, and between groups."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from html import escape
from typing import Any, NamedTuple

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

# Statistics of risk models in groups, and what they say of a new group: random effects.
#
# The statistics :math:`y_g` of G groups, with standard errors :math:`s_g`, vary about a mean
# :math:`\mu` with standard deviation :math:`\tau`. With :math:`w_g = 1 / (s_g^2 + \tau^2)`, Paule
# and Mandel's (1982) :math:`\tau^2` solves
#
# .. math:: \sum_g w_g (y_g - \hat\mu)^2 = G - 1, \qquad \hat\mu = \sum_g w_g y_g \Big/ \sum_g w_g ,
#
# or is 0. The variance of the mean is Hartung and Knapp's, the left-hand side over :math:`(G - 1)
# \sum_g w_g`, with quantiles of Student's t with G - 1 degrees of freedom. The number that is
# measured in a new group of their mean size is expected within :math:`\hat\mu \pm t_{G_e-2}
# \sqrt{\tau^2 + v + s^2}` (Higgins et al. 2009 have :math:`s = 0` and G). Here :math:`1 / s^2` is
# the mean of :math:`1 / s_g^2`, and :math:`G_e = (\sum_g w_g)^2 / \sum_g w_g^2`: small groups say
# little about how much groups differ. O:E is averaged on the scale of its logarithm and AUC on that
# of its logit (Debray et al. 2017).


# Groups with fewer events, or others, have no statistics.
FEWEST_EVENTS, TINY = 2, 1e-300
COLUMNS = ["groups", "mean", "low", "high", "tau", "I2", "prediction_low", "prediction_high"]
# A statistic, the ends of its interval, and its standard error on the scale of its mean.
Line = Sequence[float]


class Statistic(NamedTuple):
    """How a statistic is measured, its difference from a perfect one, and the scale of its mean."""

    measure: Callable[[Predictions, float], Line]
    difference: Callable[[Any], Any] = np.asarray
    scale: Callable[[Any], Any] = np.asarray
    back: Callable[[Any], Any] = np.asarray

    def estimate(self, part: Predictions, level: float) -> Line:
        """Return the line of a group; NaN if it is too small."""
        rows = event_rows(part)
        hit, w = rows.hit, rows.w
        if (part.n_clusters or FEWEST) >= FEWEST and min(w @ hit, w @ ~hit) >= FEWEST_EVENTS:
            # No finite slope, or no expected event.
            with suppress(ValueError, ZeroDivisionError), np.errstate(divide="ignore"):
                return self.measure(part, level)
        return [np.nan] * 4

    def distances(self, ends: Float64Array) -> list[Float64Array]:
        """Return how far from perfect statistics are, and how far they are at least."""
        value, low, high = self.difference(ends)
        return [abs(value), np.where(low * high < 0, 0.0, np.minimum(abs(low), abs(high)))]

    def pool_groups(self, value: Float64Array, error: Float64Array, level: float) -> list[float]:
        """Return a row of `COLUMNS` of the statistics of groups and their standard errors."""
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
    """Return the standard error that an interval implies."""
    return float(np.ptp(ends) / (2 * ndtri((1 + level) / 2)))


def ratio(part: Predictions, level: float) -> Line:
    """Return the observed-expected ratio; of independent rows its error is that of a share."""
    rows = event_rows(part)
    value, *ends = ratio_interval(rows, level)
    if part.cluster is not None:
        return value, *ends, error_of(np.log(ends), level)
    return value, *ends, float(np.sqrt(1 / (rows.w @ rows.hit) - 1 / rows.w.sum()))


def line(part: Predictions, level: float, start: int) -> Line:
    """Return numbers of the logistic recalibration."""
    return recalibration(event_log_odds(part), event_rows(part), level)[start : start + 4]


def area(part: Predictions, level: float) -> Line:
    """Return the AUC; the error of its logit is by the delta method."""
    value, *ends = auc_interval(event_rows(part), level)
    return value, *ends, error_of(ends, level) / max(value * (1 - value), TINY)


def score(part: Any, level: float, name: Any) -> Line:
    """Return a proper score."""
    parts = score_decomposition(part.code, part, score=name, confidence_level=level)
    ends = parts.score_low, parts.score_high
    return parts.score, *ends, error_of(ends, level)


# By the names of rows of `calibration_summary`.
STATISTICS = {
    "observed_expected": Statistic(ratio, np.log, np.log, np.exp),
    "slope": Statistic(partial(line, start=0), lambda x: x - 1),
    "intercept": Statistic(partial(line, start=4)),
    "in_the_large": Statistic(partial(line, start=8)),
    "auc": Statistic(area, lambda x: 1 - x, logit, expit),
    "brier_score": Statistic(partial(score, name="brier")),
    "log_loss": Statistic(partial(score, name="log")),
}
# Functions that return some of them.
FUNCTIONS = {
    "observed_expected_ratio": ("observed_expected",),
    "calibration_intercept_slope": ("slope", "intercept", "in_the_large"),
}


# The result of `calibration_by_group`: a row for each group, and a test of all of them.


# A test ends when ENOUGH sets of labels have an error as large as the data, else after MOST sets,
# or MOST_PER_GROUP for each group, less one: so that a corrected p-value may be 1 / 200.
ENOUGH, MOST, MOST_PER_GROUP = 20, 1000, 200
# Groups that are named in the sentence, and rows that are printed.
NAMED, PRINTED = 5, 40
# Columns of an error that are printed.
SHOWN = ["debiased", "low", "high", "corrected p-value"]
# How numbers are printed: those of groups, with three digits if not named here, and of `between`.
FORMS = {"gap": "{:+.3f}", **dict.fromkeys(("n", "clusters", "events"), "{:,.0f}")}
FORMAT: dict[str, Any] = {"float_format": "{:.3g}".format}


def most_sets(n_groups: int) -> int:
    """Return the number of sets of labels after which a test of one of the groups ends."""
    return max(MOST, MOST_PER_GROUP * n_groups)


@dataclass(eq=False, repr=False)
class GroupCalibration:
    """Calibration of each group of rows: how far off, how surely, and all numbers.

    `calibration_by_group` creates it. Printed, it is the verdict and a table, the worst group
    first.

    Attributes
    ----------
    frame : pandas.DataFrame
        A row for each group, with its label as index (several, if `groups` has several columns).
        Columns: ``"n"``, the number of rows that the weights count as; ``"clusters"``, their
        number, if there are any; for one event ``"events"``, ``"mean probability"`` and ``"rate"``,
        else ``"mean confidence"`` and ``"accuracy"`` of the top label; ``"gap"``, the latter less
        the former. For each metric ``(metric, "value")``, ``"debiased"``, ``"low"``, ``"high"``,
        ``"if calibrated"`` as `calibration_interval` gives them, ``"p-value"`` and ``"corrected
        p-value"``; NaN for groups of fewer than 10 rows or 6 clusters. For each statistic
        ``"value"``, ``"low"`` and ``"high"``. ``"finding"`` says in words what follows.
    metrics : list of str
        Names of the metrics; the order of the rows is that of the first, and findings are those of
        the first error.
    p_value : float
        P-value of the hypothesis that all groups are calibrated: the smallest corrected p-value.
        NaN if no group has 10 rows, or no error is measured.
    between : pandas.DataFrame
        A row for each statistic: the number of ``groups`` that have one, the random-effects
        ``mean``, its interval ``low`` to ``high``, ``tau``, the standard deviation between groups
        (of O:E that of its logarithm, of AUC that of its logit), ``I2``, the share of the variance
        that is between groups, and ``prediction_low`` to ``prediction_high``, the interval of the
        number measured in a new group of their mean size. NaN for fewer than 3 groups.
    verdict : str
        A sentence that names the miscalibrated groups, or says what a new group may be like.
    confidence_level : float
        Level of the intervals; a corrected p-value up to 1 less this is a finding.
    """

    frame: pd.DataFrame
    metrics: list[str]
    confidence_level: float
    between: pd.DataFrame

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
        if not self._errors:
            name, row = next(self.between.iterrows())
            if np.isnan(row["mean"]):
                return f"{name}: fewer than 3 groups have enough events and other rows."
            mean, new = _value_text(*row.iloc[1:4]), interval_text(*row.iloc[6:])[2:-1]
            return f"{name}: {mean} on average of {row['groups']:.0f} groups, {new} in a new one."
        miscalibrated = corrected <= 1 - self.confidence_level
        n_tested = int((~np.isnan(corrected)).sum())
        if not n_tested:
            return "No group has enough rows to be tested."
        small = len(corrected) - n_tested
        how = f"{n_tested} tested{f', {small} too small to test' if small else ''}; smallest "
        how += f"corrected p-value {self._p_text(self.p_value)}"
        if not miscalibrated.any():
            return f"No group is found miscalibrated ({how})."
        names = [label_text(label) for label in self.frame.index[miscalibrated]]
        listed = ", ".join(names[:NAMED]) + (", ..." if len(names) > NAMED else "")
        return f"Miscalibrated groups: {listed} ({miscalibrated.sum()} of {how})."

    def _p_text(self, p: float) -> str:
        """Write a corrected p-value with two digits; one at the floor of its test is "< 0.005"."""
        if p <= self._smallest * (1 + 1e-9):
            return p_text(self._smallest, self._smallest)
        return "" if np.isnan(p) else f"{p:.2g}"

    def _cells(self) -> list[list[str]]:
        """Return the table that is printed, its header first."""
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
            short = name.removesuffix("_calibration_error").replace("_", " ")
            debiased, low, high, p = frame[name][SHOWN].to_numpy().T
            columns.append([f"{short} error, debiased", *map(_text, debiased)])
            columns.append(["interval", *map(_ends_text, low, high)])
            columns.append(["corrected p", *map(self._p_text, p)])
        columns.append(["finding", *frame["finding", ""]])
        return [list(row) for row in zip(*columns, strict=True)]

    def __repr__(self) -> str:
        rows = self._cells()
        more = len(rows) - 1 - PRINTED
        lines = [self.verdict, "", format_table(rows[: PRINTED + 1], LINE)]
        if more > 0:
            lines.append(f"... and {more} more groups: see frame.")
        if len(self.between):
            lines += ["", "Mean of groups, and a new group:", self.between.to_string(**FORMAT)]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        between = self.between.to_html(border=0, **FORMAT) if len(self.between) else ""
        return f"<p><strong>{escape(self.verdict)}</strong></p>{to_html(self._cells())}{between}"


def label_text(label: Any) -> str:
    """Return the label of a group as text; those of several columns are joined."""
    return " x ".join(map(str, label)) if isinstance(label, tuple) else str(label)


def _value_text(value: float, low: float, high: float) -> str:
    return "" if np.isnan(value) else f"{value:.3g}{interval_text(low, high)}"


def _ends_text(low: float, high: float) -> str:
    return "" if np.isnan(low) else f"[{low:.3f}, {high:.3f}]"


def _text(value: float, form: str = "{:.3f}") -> str:
    return "" if np.isnan(value) else form.format(value)


# Calibration of each group of rows, with intervals and a test corrected for their number.


# With fewer rows, a group is not tested: the share of hits of 9 rows says next to nothing.
FEWEST_ROWS = 10
# Sets drawn at a time.
AT_ONCE = 250
# Columns of a metric: the fields of its interval, and the corrected p-value.
PARTS = ("value", "debiased", "low", "high", "if calibrated", "p-value", "corrected p-value")


def holm(p: Float64Array) -> Float64Array:
    """Return p-values corrected for their number, step by step from the smallest."""
    order = np.argsort(p, kind="stable")
    steps = np.maximum.accumulate(p[order] * np.arange(p.size, 0, -1))
    corrected = np.empty(p.size)
    corrected[order] = np.minimum(steps, 1.0)
    return corrected


def sequential_p_value(
    evaluate: Evaluation, predictions: Predictions, most: int, random_state: int
) -> float:
    """Return the p-value of a metric, by labels drawn until `ENOUGH` of them reach its value.

    If h of l sets do by then, it is h / l; else, after `most` - 1 sets, (h + 1) / `most`.
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
    """Return the interval of each metric, with the p-value of "the probabilities are right"."""
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

    For each group the result has the number of rows, the mean probability and the rate, the
    calibration error with its interval, and the p-value :math:`p_g` of the hypothesis that the
    probabilities are calibrated, by labels drawn from them. Of G tested groups, with
    :math:`p_{(1)} \le p_{(2)} \le \dots`, the corrected p-values are Holm's,

    .. math:: \tilde p_{(j)} = \max_{i \le j} \min(1, (G - i + 1)\, p_{(i)}) ,

    so that if every group is calibrated, the chance that any of them is found miscalibrated is at
    most the level. The smallest is the p-value of the hypothesis that all groups are calibrated.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Labels.
    y_proba : array-like of shape (n, K), (n,) or (n, 1)
        Class probabilities, a column for each of the sorted labels, or of `labels` in their
        order; a frame whose columns are named by the labels is read by name. One or two columns
        give the probability of one event, `pos_label`, and are measured as that;
        of more, the top label is.
    groups : array-like of shape (n,) or (n, g)
        Label of each row's group: strings, numbers, a categorical; several columns are crossed.
        Rows without a label (None, NaN) are a group of their own, "(missing)".
    metrics : str, callable, list or dict of these, default="ks_calibration_error"
        Calibration errors: by name, or functions ``metric(y_true, y_proba, ...)`` that return a
        number; a dict names them. Also statistics of one event by their names in
        `calibration_summary`: "observed_expected", "slope", "intercept", "in_the_large", "auc",
        "brier_score", "log_loss", or `observed_expected_ratio` and `calibration_intercept_slope`.
        The first one orders the groups, and the first error makes the findings.
    pos_label : label, default=None
        The event whose probability is measured. None means 1 or True for labels {0, 1}, {-1, 1} or
        booleans; of other labels the second of two columns, while one column needs it. With more
        columns, None means the top label.
    sample_weight : array-like of shape (n,), default=None
        Non-negative weights. Integers are counts: 2 is two copies of the row. Of floats only the
        ratios matter (see "Weights" under "Valid input" in the user guide). 0 is the row's absence.
        They are scaled for each group by itself.
    labels : array-like of shape (K,), default=None
        Labels of the columns, in their order; needed if they cannot be inferred from `y_true`.
    clusters : array-like of shape (n,), default=None
        Label of each row's cluster, such as the hospital of a patient: rows of a cluster were drawn
        together, and may go wrong together. At least 3, and 6 in a group that is tested; see "Rows
        that belong together" in the user guide. None means that rows are independent, and so are
        the rows of groups of which each lies within one cluster: `clusters` has no effect then.
    confidence_level : float in (0, 1), default=0.95
        Level of the intervals, each by itself; a corrected p-value of at most 1 less this is a
        finding.
    random_state : int, RandomState instance or None, default=None
        Seed of the labels; the same for any `n_jobs`.
    n_jobs : int, default=None
        Groups measured at the same time, as in joblib.

    Returns
    -------
    result : GroupCalibration
        Printed, a sentence and a table. ``result.frame`` has all numbers: a row for each group,
        first those with the largest lower ends of their intervals, then by the debiased error;
        ``result.p_value`` tests whether all groups are calibrated. A group of fewer than 10 rows,
        or of fewer than 6 clusters, is counted but not measured or tested, and its ``"finding"``
        says so. ``result.between`` is for statistics: their mean over groups, how much groups
        differ, and what to expect of a new one.

    Raises
    ------
    ValueError
        If probabilities, labels, weights, groups or keywords are invalid, weights are floats
        and a metric takes none, or a metric is not a calibration error.
    TypeError
        If a metric is neither a name nor callable.

    See Also
    --------
    calibration_interval : The same error of all rows.
    skcalib.GroupwiseCalibrator : Calibrates each group.

    Notes
    -----
    With an integer as `random_state`, value and interval of a group are those of
    ``calibration_interval(metric, ..., labels=labels, random_state=random_state)`` of its rows.

    The KS error is the default because it needs no bins, which small groups cannot fill.

    Labels are drawn until 20 sets of them have a larger error than the data, or until there are
    1,000 sets (200 for each group if these are more). So large p-values are rough and small ones
    are precise.
    For a group of 10,000 rows or more, sums of labels are drawn, as in `calibration_interval`.

    A statistic is measured in groups of at least 2 events and 2 other rows, and averaged from 3
    groups on: a random-effects mean, in which each group counts by how sure it is and by how much
    groups differ (tau, by Paule and Mandel 1982), with the interval of Hartung and Knapp and the
    prediction interval of a new group (Higgins et al. 2009; Debray et al. 2017). The latter is for
    the number that is measured in a group of their mean size: it includes its sampling variance.
    Its degrees of freedom are 2 less than the number of groups of equal weight that count as much.

    A small error that all groups share may not be significant in any of them: test all rows
    together by `calibration_test`.

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
    """Checked predictions, their groups, and the predictions of each group."""

    predictions: Predictions
    groups: Groups
    parts: list[Predictions]


def group_rows(
    predictions: Predictions, groups: Any, n_rows: int, sample_weight: ArrayLike | None
) -> Grouped:
    """Read the groups of `n_rows` rows, of which predictions have those of positive weight.

    If each group lies within a cluster, its rows are independent: the group is what they share.
    """
    refuse_remote(predictions.P, "Calibration by group")
    read = read_groups(groups, n_rows)
    read = read._replace(code=read.code[check_weight(sample_weight, n_rows) > 0])
    if predictions.cluster is not None:
        pairs = read.code * number_of(predictions.cluster) + predictions.cluster
        if np.unique(pairs).size == np.unique(read.code).size:
            predictions = predictions._replace(cluster=None)
    order = np.argsort(read.code, kind="stable")
    ends = np.cumsum(np.bincount(read.code, minlength=len(read.labels)))
    parts = [predictions.take(rows) for rows in np.split(order, ends[:-1])]
    return Grouped(predictions, read, parts)


def measure_groups(
    grouped: Grouped,
    named: Mapping[str, Callable[..., Any] | Statistic],
    level: float,
    random_state: Any,
    n_jobs: int | None = None,
    column: bool = False,
    report: Callable[[int, int], None] = lambda _, __: None,
) -> GroupCalibration:
    """Measure each group; `report` is told how many groups of how many are measured.

    `column`: whether metrics of others get probabilities as one column.
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
        numbers = np.full((len(frame), len(PARTS)), np.nan)  # groups that are not tested keep NaN
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
    # A group that is not measured comes last, the larger one first.
    keys = [np.nan_to_num(-key, nan=np.inf) for key in away]
    order = np.lexsort([-frame["n"].to_numpy(), *keys])
    means = pd.DataFrame.from_dict(between, orient="index", columns=COLUMNS)
    return GroupCalibration(frame.iloc[order], list(named), level, means)


def read_metrics(metrics: Any) -> dict[str, Callable[..., Any] | Statistic]:
    """Return metrics, and statistics of risk models, by name."""
    known: dict[str, Any] = {metric.__name__: metric for metric in SCORED} | STATISTICS
    named = name_metrics(metrics)
    if not isinstance(metrics, Mapping):
        parts = (FUNCTIONS.get(name_of(metric), (metric,)) for metric in named.values())
        named = name_metrics([part for each in parts for part in each])
    for name, metric in named.items():
        if isinstance(metric, str):
            bare = metric.removeprefix("neg_")
            if bare not in known:
                raise ValueError(
                    f"metrics: {metric!r} is not the name of a calibration error or a statistic: "
                    f"use one of {', '.join(known)}, or a function metric(y_true, y_proba)."
                )
            named[name] = known[bare]
        else:
            check_is_metric(metric)
    return named


def describe_groups(grouped: Grouped) -> pd.DataFrame:
    """Return counts, means and gaps, a row for each group."""
    predictions, groups, parts = grouped.predictions, grouped.groups, grouped.parts
    w, (score, hit) = predictions.w, event_or_top(predictions)
    total, scores, hits = (
        np.bincount(groups.code, amounts, len(groups.labels)) for amounts in (w, w * score, w * hit)
    )
    n = np.array([part.w.sum() for part in parts])
    with np.errstate(invalid="ignore"):  # groups without rows
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
    """Say in words what the rows of a group show."""
    n = float(row["n"])
    if n < FEWEST_ROWS:
        return f"too small to test: {n:.3g} row{'s' if n != 1 else ''}" if n else "no rows"
    if too_few(row.get("clusters")):
        return clusters_text(int(row["clusters"]))
    gap, one_event = float(row["gap"]), "rate" in row
    if float(row[metric, "corrected p-value"]) <= level:
        words = ("too low", "too high") if one_event else ("under-confident", "over-confident")
        text = "miscalibrated"
        # Otherwise too high in one place and too low in another.
        if abs(gap) >= float(row[metric, "value"]) / 2:
            text += f", {words[int(gap < 0)]} by {abs(gap):.3f} on average"
    else:
        high = float(row[metric, "high"])
        text = "no miscalibration found" + (f", up to {high:.3f} is possible" if high > 0 else "")
    if one_event and row["rate"] in (0, 1):
        text += "; events only" if row["rate"] else "; no events"
    return text
