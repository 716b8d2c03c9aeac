"""Calibration of each group of rows, with intervals and a test corrected for their number."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import ArrayLike

from skcalib._arrays.source import refuse_remote, to_array
from skcalib._arrays.types import Float64Array
from skcalib._scores.top_label import top_label
from skcalib._validation.groups import Groups, read_groups
from skcalib._validation.keywords import check_level, seed_of
from skcalib._validation.predictions import Predictions, check_predictions
from skcalib._validation.weights import check_weight, is_whole
from skcalib.metrics._intervals.errors import label_error
from skcalib.metrics._intervals.intervals import CalibrationInterval, interval_of
from skcalib.metrics._listed import SCORED, listed
from skcalib.metrics._resampling import (
    Evaluation,
    check_is_metric,
    column_given,
    in_copies,
    refuse_relative,
)
from skcalib.metrics._statistics.group_calibration import ENOUGH, GroupCalibration, most_sets

if TYPE_CHECKING:
    import pandas as pd

# With fewer rows, a group is not tested: the share of hits of 9 rows says next to nothing.
FEWEST_ROWS = 10
# Sets drawn at a time.
AT_ONCE = 250


class Measured(NamedTuple):
    """A metric in a group: its interval, and the p-value of "the probabilities are right"."""

    interval: CalibrationInterval
    p_value: float


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
) -> list[Measured]:
    """Return the interval and the p-value of each metric."""
    predictions = in_copies(predictions)
    return [
        Measured(
            interval_of(evaluate, predictions, level=level, random_state=random_state),
            sequential_p_value(evaluate, predictions, most, random_state),
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
        number; a dict names them. The first one orders the groups and makes the findings.
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
        ``result.p_value`` tests whether all groups are calibrated. A group of fewer than 10 rows is
        counted but not measured or tested, and its ``"finding"`` says so.

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

    The KS error is the default because it needs no bins, which small groups cannot fill: in 300
    samples of 100 rows whose log-odds were 0.7 too low, it detected the error in 83 %, and ECE
    detected it in 53 %.

    Labels are drawn until 20 sets of them have a larger error than the data, or until there are
    1,000 sets (200 for each group if these are more). So large p-values are rough and small ones
    are precise.
    For a group of 10,000 rows or more, sums of labels are drawn, as in `calibration_interval`.

    A small error that all groups share may not be significant in any of them: test all rows
    together by `calibration_test`.

    References
    ----------
    Holm (1979). A Simple Sequentially Rejective Multiple Test Procedure. Scandinavian Journal of
    Statistics 6.

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
    predictions = check_predictions(
        y_true, y_proba, sample_weight, labels, pos_label, caller="calibration_by_group"
    )
    grouped = group_rows(predictions, groups, np.shape(y_true)[0], sample_weight)
    return measure_groups(
        grouped,
        named,
        column_given(y_proba),
        level=confidence_level,
        random_state=random_state,
        n_jobs=n_jobs,
    )


class Grouped(NamedTuple):
    """Checked predictions, their groups, and the predictions of each group."""

    predictions: Predictions
    groups: Groups
    parts: list[Predictions]


def group_rows(
    predictions: Predictions, groups: Any, n_rows: int, sample_weight: ArrayLike | None
) -> Grouped:
    """Read the groups of `n_rows` rows, of which predictions have those of positive weight."""
    refuse_remote(predictions.P, "Calibration by group")
    found = read_groups(groups, n_rows)
    found = found._replace(code=found.code[check_weight(sample_weight, n_rows) > 0])
    return Grouped(predictions, found, split_rows(predictions, found))


def measure_groups(
    grouped: Grouped,
    named: dict[str, Callable[..., Any]],
    column: bool,
    *,
    level: float,
    random_state: Any,
    n_jobs: int | None = None,
    report: Callable[[int, int], None] = lambda _, __: None,
) -> GroupCalibration:
    """Measure each group; `report` is told how many groups of how many are measured.

    `column`: whether probabilities were given as one column.
    """
    import pandas as pd  # imported late, because pandas takes long to import

    predictions, found, parts = grouped
    evaluations = [Evaluation(metric, {}, column) for metric in named.values()]
    for evaluate in evaluations:
        refuse_relative(evaluate, predictions)
    seed = seed_of(random_state)
    tested = [g for g, part in enumerate(parts) if part.w.sum() >= FEWEST_ROWS]
    most = most_sets(len(tested))
    measured = []
    for made in Parallel(n_jobs=n_jobs, return_as="generator")(
        delayed(measure_group)(evaluations, parts[g], level, most, seed) for g in tested
    ):
        measured.append(made)
        report(len(measured), len(tested))
    frame = describe_groups(parts, found, predictions.event is not None)
    for j, name in enumerate(named):
        add_metric(frame, name, tested, [each[j] for each in measured])
    first = next(iter(named))
    frame["finding"] = [
        finding(parts[g], row, first, 1 - level) for g, (_, row) in enumerate(frame.iterrows())
    ]
    frame.columns = pd.MultiIndex.from_tuples(
        [name if isinstance(name, tuple) else (name, "") for name in frame.columns]
    )
    keys = [-frame[first, part].to_numpy() for part in ("value", "debiased", "low")]
    # A group that is not measured comes last, the larger one first.
    order = np.lexsort([-frame["n"].to_numpy(), *(np.nan_to_num(key, nan=1.0) for key in keys)])
    return GroupCalibration(frame.iloc[order], list(named), level)


def read_metrics(metrics: Any) -> dict[str, Callable[..., Any]]:
    """Return metrics by name."""
    known = {metric.__name__: metric for metric in SCORED}
    if isinstance(metrics, str) or callable(metrics):
        metrics = [metrics]
    if not isinstance(metrics, Mapping):
        if not np.iterable(metrics):
            raise TypeError(
                f"metrics must be a name, a function or a list of these; got {metrics!r}."
            )
        each = list(metrics)
        names = [_name(metric) for metric in each]
        if len(set(names)) < len(names):
            raise ValueError(f"metrics={names} has a name twice: pass a dict that names each.")
        metrics = dict(zip(names, each, strict=True))
    if not metrics:
        raise ValueError("metrics is empty: give at least one.")
    found = {}
    for name, metric in metrics.items():
        if isinstance(metric, str):
            bare = metric.removeprefix("neg_")
            if bare not in known:
                raise ValueError(
                    f"metrics: {metric!r} is not the name of a calibration error: use one of "
                    f"{', '.join(known)}, or a function metric(y_true, y_proba)."
                )
            metric = known[bare]
        check_is_metric(metric)
        found[str(name)] = metric
    return found


def _name(metric: Any) -> str:
    if isinstance(metric, str):
        return metric.removeprefix("neg_")
    while hasattr(metric, "func"):  # functools.partial
        metric = metric.func
    return str(getattr(metric, "__name__", type(metric).__name__))


def split_rows(predictions: Predictions, groups: Groups) -> list[Predictions]:
    """Return the predictions of each group, in the order of the labels."""
    order = np.argsort(groups.code, kind="stable")
    ends = np.cumsum(np.bincount(groups.code, minlength=len(groups.labels)))
    parts = np.split(order, ends[:-1])
    return [predictions.take(i) for i in parts]


def describe_groups(parts: list[Predictions], groups: Groups, one_event: bool) -> pd.DataFrame:
    """Return counts, means and gaps, a row for each group."""
    import pandas as pd

    rows = []
    for part in parts:
        n = int(part.w.sum()) if is_whole(part.w) else float(part.w.sum())
        if one_event:
            score, hit = part.of_event() if n else (np.empty(0), np.empty(0, dtype=bool))
        else:
            score, top = top_label(part.P) if n else (np.empty(0), part.code)
            hit = top == part.code
        total = part.w.sum() if n else np.nan
        said = float(part.w @ score.astype(np.float64)) / total
        happened = float(part.w @ hit) / total
        events = int(part.w @ hit) if is_whole(part.w) else float(part.w @ hit)
        counts = {"n": n, "events": events} if one_event else {"n": n}
        names = ("mean probability", "rate") if one_event else ("mean confidence", "accuracy")
        means = dict(zip(names, (said, happened), strict=True))
        rows.append({**counts, **means, "gap": happened - said})
    if len(groups.names) == 1:
        only = [label for (label,) in groups.labels]
        index = pd.Index(only, name=groups.names[0] or "group", tupleize_cols=False)
    else:
        titles = [name or f"group {j + 1}" for j, name in enumerate(groups.names)]
        index = pd.MultiIndex.from_tuples(groups.labels, names=titles)
    return pd.DataFrame(rows, index=index)


def add_metric(frame: pd.DataFrame, name: str, tested: list[int], measured: list[Measured]) -> None:
    """Add the columns of a metric; NaN for groups that are not tested."""
    columns: dict[str, Any] = {
        "value": [m.interval.estimate for m in measured],
        "debiased": [m.interval.debiased for m in measured],
        "low": [m.interval.low for m in measured],
        "high": [m.interval.high for m in measured],
        "if calibrated": [m.interval.expected_if_calibrated for m in measured],
        "p-value": [m.p_value for m in measured],
        "corrected p-value": holm(np.array([m.p_value for m in measured])),
    }
    if any(np.ndim(value) for value in columns["value"]):
        raise ValueError(f"metric {name} must return a number: leave out average=None.")
    if np.isnan(columns["low"]).any():
        raise ValueError(
            f"metric {name} is smaller where labels do not follow the probabilities, so it is not "
            "a calibration error."
        )
    for part, values in columns.items():
        column = np.full(len(frame), np.nan)
        column[tested] = values
        frame[name, part] = column


def finding(part: Predictions, row: pd.Series[Any], metric: str, level: float) -> str:
    """Say in words what the rows of a group show."""
    n = float(row["n"])
    if n < FEWEST_ROWS:
        return f"too small to test: {n:.3g} row{'s' if n != 1 else ''}" if n else "no rows"
    gap, one_event = float(row["gap"]), part.event is not None
    if float(row[metric, "corrected p-value"]) <= level:
        words = ("too low", "too high") if one_event else ("under-confident", "over-confident")
        text = "miscalibrated"
        # Otherwise too high in one place and too low in another.
        if abs(gap) >= float(row[metric, "value"]) / 2:
            text += f", {words[int(gap < 0)]} by {abs(gap):.3f} on average"
    else:
        high = float(row[metric, "high"])
        text = "no miscalibration found" + (f", up to {high:.3f} is possible" if high > 0 else "")
    if one_event and (hit := part.of_event()[1]).all() == hit.any():
        text += "; events only" if hit.all() else "; no events"
    return text
