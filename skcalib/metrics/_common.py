"""Shared code of metrics: the list of metrics, events, clusters and printing."""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import ROUND_UP, Context
from functools import partialmethod, update_wrapper
from html import escape
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray
from scipy.special import ndtri, stdtrit

from skcalib._arrays.rowwise import Float64Array, FloatArray, Intp
from skcalib._arrays.sources import as_source
from skcalib._scores.one_vs_rest import map_columns
from skcalib._scores.scores import Scores, event_or_top, find_clip
from skcalib._validation.keywords import Norm, check_option, exponent
from skcalib._validation.rows import Metric, Predictions, is_whole, takes_predictions

# Clusters of dependent rows. In confidence intervals, the sums over clusters are treated as
# independent observations.
#
# `Predictions.cluster (n,)` contains the number of the cluster of each row, 0 to C - 1, or is None.
# `read_clusters` reads it, and `take`, `split` and `repeat_rows` keep it with the rows. In the
# interval of a mean, a row with a relative weight is a cluster of its own (`separate_rows`),
# because the variance of the mean depends on the correlation of weights and values.
#
# Cluster c has a fraction :math:`s_c` of the rows and the mean :math:`m_c`. The mean of all rows is
# :math:`g = \sum_c s_c m_c`. If the variance of :math:`m_c` is proportional to :math:`v_c`, that of
# :math:`m_c - g` is :math:`v_c - 2 s_c v_c + \sum_k s_k^2 v_k`. Squared residuals are divided by
# the ratio of both variances, and their sum has the degrees of freedom of Bell and McCaffrey
# (2002). The means of clusters are assumed to have equal variances, and so are differences between
# losses of rows with relative weights. Losses and proportions of such rows have
# :math:`v_c = s_c^{-1/2}`: a row with a large weight is of a rare kind, and often has a small loss.
#
# If events are rare, a sample without the clusters that have many events has both a small mean
# and a small variance, and Student's interval ends below the true mean. With clusters, the
# interval of a mean loss is therefore Student's on the scale of the square root, on which a
# variance that is proportional to the mean is constant. The interval of O:E is a score interval, as
# for independent rows. A gain may be positive or negative, and has Student's interval.
#
# Slopes and simulated errors use Student's t with :math:`C_e - 1` degrees of freedom, where
# :math:`C_e = (\sum_c s_c)^2 / \sum_c s_c^2` is the number of clusters of equal size with as much
# information (Carter, Schnepel and Steigerwald 2017). `leave_out` returns the covariance of
# coefficients, and `widening` the factor for residuals about a fit of the same rows.
# `design_effect` divides the number of rows in the interval of a proportion. Both factors are 1 for
# independent rows.


# An information matrix is treated as singular if its condition number is larger than this value.
SINGULAR = 1e12
# The variance of the value of a row, such as its loss, is assumed to be proportional to this power
# of the relative weight of the row.
OF_ROWS = -0.5
# A cluster without an expected event is assumed to have this fraction of all expected events. The
# variance may be a negative power of the fraction, which would be infinite for a fraction of 0.
LEAST_SHARE = 1e-12


def number_of(cluster: Intp) -> int:
    """Return the number of clusters."""
    return int(cluster.max()) + 1


def cluster_sums(values: ArrayLike, cluster: Intp) -> Float64Array:
    """Sum values over the rows of each cluster of dependent rows."""
    values = np.asarray(values, dtype=np.float64)
    parts = values.reshape(len(values), -1).T
    sums = np.column_stack([np.bincount(cluster, part) for part in parts])
    return np.asarray(sums.reshape(-1, *values.shape[1:]), dtype=np.float64)


def effective_number(share: Float64Array) -> float:
    """Return the effective number of clusters: lower than the number if sizes are unequal."""
    return float(share.sum() ** 2 / (share @ share))


def separate_rows(rows: Any) -> Any:
    """If weights are relative, make each row a cluster of its own, so that variances are robust."""
    if rows.cluster is not None or is_whole(rows.w):
        return rows
    return rows._replace(cluster=np.arange(rows.w.size))


def balance(share: Float64Array, power: float = 0.0) -> tuple[Float64Array, float]:
    """Return divisors that make squared cluster residuals unbiased, and degrees of freedom.

    `share (C,)` contains the weights of the clusters in a mean. The variances of clusters are
    proportional to a power of these weights.
    """
    s = np.maximum(share / share.sum(), LEAST_SHARE)
    s /= s.sum()
    v, of_mean = s**power, s * s * s**power
    total, largest = of_mean.sum(), of_mean.argmax()
    # The variance of a residual is computed without differences of almost equal numbers, to avoid
    # rounding errors.
    of_others = total - of_mean
    of_others[largest] = np.delete(of_mean, largest).sum()
    part = (1 - s) ** 2 + of_others / v
    # With the arrays u and v: the residuals i and j have the covariance u_i + u_j, and residual i
    # has the variance v_i + 2 u_i.
    u, d = total / 2 - s * v, s * s / part
    # `squares` is the sum over i and j of d_i d_j times the squared covariance of the residuals i
    # and j. The terms with i = j add up to of_mean @ of_mean, so a smaller sum is a rounding error.
    squares = 2 * d.sum() * (d @ u**2) + 2 * (d @ u) ** 2 + (d * d) @ (v * (v + 4 * u))
    return part, float(total**2 / max(squares, of_mean @ of_mean))


def student(freedom: float, level: float) -> float:
    """Return the quantile of Student's t for the upper end of a two-sided interval."""
    return float(stdtrit(max(freedom, 1), (1 + level) / 2))


def student_of_rows(rows: Any, level: float) -> float:
    """Return the quantile of Student's t for the interval of a mean over rows in clusters."""
    return student(balance(cluster_sums(rows.w, rows.cluster))[1], level)


def widening(rows: Any, level: float) -> float:
    """Return the factor by which to widen an interval if a model was fitted to few clusters."""
    if rows.cluster is None:
        return 1.0
    number = effective_number(cluster_sums(rows.w, rows.cluster))
    factor = np.sqrt(number / max(number - 1, 1)) / ndtri((1 + level) / 2)
    return float(student(number - 1, level) * factor)


def resampling_factor(rows: Any, level: float) -> float:
    """Return the factor that corrects a normal quantile for a small number of clusters."""
    if rows.cluster is None:
        return 1.0
    share = cluster_sums(rows.w, rows.cluster)
    part, freedom = balance(share)
    lost = np.sqrt((share @ share) / (share**2 @ part))
    return float(student(freedom, level) * lost / ndtri((1 + level) / 2))


def design_effect(rows: Any, residual: Float64Array, level: float, cell: Any = 0) -> float:
    """Return the design effect of dependent rows, which divides the number of rows.

    The residuals ``(n,)`` of all cells together determine it.
    """
    w, cluster = rows.w, rows.cluster
    if cluster is None:
        return 1.0
    C, squares, share = number_of(cluster), w @ residual**2, cluster_sums(w, cluster)
    part, freedom = balance(share, OF_ROWS if w.size == C else 0.0)
    sums = np.bincount(cluster + C * cell, w * residual, C * (np.max(cell) + 1)).reshape(-1, C)
    inflation = (sums**2 / part).sum() / squares if squares else 1.0
    # A design effect below 1 is possible only for relative weights, where each row is a cluster.
    if w.size > C:
        inflation = max(inflation, 1.0)
    return float(inflation * (student(freedom, level) / ndtri((1 + level) / 2)) ** 2)


def ratio_ends(
    D: Float64Array, N: Float64Array, level: float, power: float = 0.0
) -> tuple[float, float]:
    """Return the ends of Student's interval for a ratio of sums over clusters."""
    total = N.sum()
    ratio = D.sum() / total
    part, freedom = balance(N, power)
    half = student(freedom, level) * np.sqrt((((D - ratio * N) / total) ** 2 / part).sum())
    return float(ratio - half), float(ratio + half)


def leave_out(
    X: Float64Array, information: Float64Array, residual: Float64Array, cluster: Intp
) -> tuple[Float64Array, list[float]]:
    """Return the jackknife covariance of coefficients, and the effective number of clusters.

    Row i has the columns ``X (n, d)``, the ``information (n,)`` and the weighted
    ``residual (n,)``. The score of a cluster is that of a fit without the cluster (CR3; Bell and
    McCaffrey 2002). The second result is the effective number of clusters of each coefficient.
    """
    A = cluster_sums(information[:, None, None] * X[:, :, None] * X[:, None, :], cluster)
    scores = cluster_sums(residual[:, None] * X, cluster)
    total, C = A.sum(axis=0), len(A)
    if np.linalg.cond(total - A).max() > SINGULAR:
        raise ValueError(
            "clusters: the interval of the slope leaves out each cluster in turn, but without one "
            "of the clusters the slope is not finite: use data with more clusters."
        )
    moved, inverse = np.linalg.solve(total - A, scores[..., None])[..., 0], np.linalg.inv(total)
    shares = np.einsum("kd,cde,ke->kc", inverse, A, inverse)
    return moved.T @ moved * (C - 1) / C, [effective_number(share) for share in shares]


def merge_clusters(cluster: Intp, random: Any, most: int) -> Intp:
    """Merge clusters at random, so that at most `most` clusters remain."""
    number = number_of(cluster)
    return cluster if number <= most else (random.permutation(number) % most)[cluster]


# Rows of a binary problem: the probability of the event, its log-odds, and the outcome.


class EventRows(NamedTuple):
    """Rows of a binary problem: probabilities, outcomes, weights and clusters.

    ``p (n,)`` is the probability of the event, ``hit (n,)`` the outcome, ``w (n,)`` the positive
    weights, and ``cluster (n,)`` the numbers of the clusters, or None for independent rows.
    """

    p: FloatArray
    hit: NDArray[Any]
    w: Float64Array
    cluster: Intp | None = None


def reduce_to_event(predictions: Predictions) -> Predictions:
    """Reduce predictions to a binary problem with two columns, one of which is the event."""
    if predictions.classes.size == 2:
        if predictions.P.remote is None:
            return predictions
        both = np.column_stack([predictions.column(k) for k in (0, 1)])
        return predictions._replace(P=as_source(both))
    p, hit = event_or_top(predictions)
    two = as_source(np.column_stack([1 - p, p]))
    code, classes, cluster = hit.astype(np.intp), np.array([0, 1]), predictions.cluster
    return Predictions(two, code, predictions.w, classes, 1, "columns", cluster=cluster)


def event_rows(predictions: Predictions) -> EventRows:
    """Return the rows of a binary problem: an event, or whether the top label is correct."""
    p, hit = event_or_top(predictions)
    return EventRows(p.astype(np.float64), hit, predictions.w, predictions.cluster)


def event_log_odds(predictions: Predictions) -> Float64Array:
    """Return the log-odds ``(n,)`` of the event, with probabilities 0 and 1 clipped."""
    scores = Scores(predictions.P, "proba", predictions.classes)
    scores.set_clip(find_clip(scores)[0])
    if predictions.event is None:
        return scores.top_log_odds()
    return scores.log_odds_columns(slice(predictions.event, predictions.event + 1))[0]


# Registration of metrics: the paper of a metric, the scorer, and whether the metric is a
# calibration error.


# Metrics that have a scorer in `SCORERS`, in the order of the imports in __init__.py.
SCORED: list[Callable[..., Any]] = []


def listed(
    paper: str,
    *,
    scorer: bool = False,
    error: bool = True,
    by_cells: Callable[..., Any] | None = None,
    has_event: bool = True,
) -> Callable[[Metric], Metric]:
    """Register a metric: its paper for docs/metrics.md, and whether it has a scorer.

    A metric with a scorer accepts checked predictions. Unless `error` is False, it is a calibration
    error, which is smallest if the labels follow the probabilities. `by_cells` returns the metric
    as a function of the number of correct predictions in each cell, if `BY_CELLS` of
    `skcalib.metrics._intervals.interval` does not contain the metric. With ``has_event=False``,
    two columns are two classes instead of one event.
    """

    def mark(metric: Metric) -> Metric:
        metric._paper = paper  # type: ignore[attr-defined]
        if scorer:
            SCORED.append(takes_predictions(metric))
            metric._is_error = error  # type: ignore[attr-defined]
            metric._by_cells = by_cells  # type: ignore[attr-defined]
            metric._has_event = has_event  # type: ignore[attr-defined]
        return metric

    return mark


# Printing: numbers as text, and tables as text and as HTML.


# The smallest p-value that is printed as a number: floats cannot represent smaller p-values with
# all digits.
SMALLEST = 1e-300
# The number of entries that are printed at each end of a long array.
SHOWN = 3

Kind = TypeVar("Kind", bound=type)


def equals_text(value: Any, smallest: float = np.nan) -> str:
    """Format a number as "=0.0123", or as "<0.02" if it is at most the bound `smallest`."""
    numbers = [_number_text(x, smallest) for x in np.ravel(value).tolist()]
    if np.ndim(value) == 0:
        return numbers[0] if numbers[0].startswith("<") else f"={numbers[0]}"
    if len(numbers) > 2 * SHOWN:
        numbers[SHOWN:-SHOWN] = ["..."]
    return f"=[{', '.join(numbers)}]"


def interval_text(low: float, high: float) -> str:
    """Format an interval as " (0.6 to 0.8)", or as an empty text if its ends are NaN."""
    return "" if np.isnan(low) else f" ({low:.4g} to {high:.4g})"


def describe(result: Any, *parts: str, smallest: float = SMALLEST, more: str = "") -> str:
    """Format the numbers of a result as text, with the note of `add_note`.

    A part is the name of a number, optionally followed by the names of the ends of its interval.
    Arrays are printed without intervals. A p-value at `smallest` is written as an inequality.
    """
    texts = []
    for part in parts:
        value, *ends = (getattr(result, name) for name in part.split())
        least = smallest if part in ("pvalue", "p_value") else np.nan
        interval = interval_text(*ends) if ends and np.ndim(value) == 0 else ""
        texts.append(f"{part.split()[0]}{equals_text(value, least)}{interval}")
    return f"{type(result).__name__}({', '.join(texts)}{more}{getattr(result, '_note', '')})"


def printable(*parts: str, smallest: float = SMALLEST) -> Callable[[Kind], Kind]:
    """Make a named tuple printable by `describe`, with notes that `add_note` adds."""
    text = {"__repr__": partialmethod(describe, *parts, smallest=smallest)} if parts else {}

    def subclass(kind: Kind) -> Kind:
        wider = type(kind)(kind.__name__, (kind,), text)
        update_wrapper(wider, kind, updated=())
        return wider

    return subclass


def add_note(result: Any, n_clusters: int | None, level: float | None = None) -> Any:
    """Add the confidence level and the number of clusters to the printed result."""
    if n_clusters is not None:
        percent = "" if level is None else f", {100 * level:g} %"
        result._note = f"{percent}, {n_clusters} clusters"
    return result


def p_text(p: float, smallest: float) -> str:
    """Format a p-value, as "< 0.0034" if it is the smallest possible value."""
    return equals_text(p, smallest).removeprefix("=").replace("<", "< ")


def _number_text(x: float, smallest: float) -> str:
    if not x <= smallest:  # this condition is also true for NaN
        return str(x) if isinstance(x, int) else f"{x:.4g}"
    bound = Context(prec=2, rounding=ROUND_UP).create_decimal(repr(smallest))
    return f"<{float(bound):g}"


# The largest number of characters in a line of a printed table; wider tables are split.
LINE = 100
# A table cell with more than `NUMBER` characters contains a sentence rather than a number, so its
# line may be broken.
NUMBER = 30
# A regular expression for a space in a table cell that is not before a bracket.
WITHIN = re.compile(r" (?![\[(])")


def format_table(rows: list[list[str]], most: int | None = None) -> str:
    """Format a table as text with aligned columns; cells of the header may have several lines.

    If lines would have more than `most` characters, the last columns are in a second table below,
    which repeats the first column.
    """
    heads = [cell.split("\n") for cell in rows[0]]
    height = max(map(len, heads))
    above = [[""] * (height - len(parts)) + parts for parts in heads]
    rows = [*map(list, zip(*above, strict=True)), *rows[1:]]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    ends = np.cumsum(np.array(widths) + 2) - 2
    if most is not None and ends[-1] > most:
        # If a wide table is split, each part contains the first column and at least one other
        # column.
        fit = max(2, int(np.searchsorted(ends, most, side="right")))
        if fit < len(widths):
            parts = [[row[0], *row[fit:]] for row in rows]
            below = [row for row in parts if any(row)]  # without empty lines of the header
            return f"{format_table([row[:fit] for row in rows])}\n\n{format_table(below, most)}"
    lines = []
    for first, *others in rows:
        cells = [f"{cell:>{width}}" for cell, width in zip(others, widths[1:], strict=True)]
        lines.append("  ".join([f"{first:<{widths[0]}}", *cells]).rstrip())
    return "\n".join(lines)


def to_html(rows: list[list[str]], chosen: str | None = None, head: bool = True) -> str:
    """Format cells as an HTML table in which the row of the chosen calibrator is marked."""
    lines = []
    columns = zip(*rows, strict=True)
    numbers = [head and all(len(cell.strip()) <= NUMBER for cell in column) for column in columns]
    numbers[0] = head
    for i, row in enumerate(rows):
        tag, cells = "th" if head and i == 0 else "td", ""
        is_chosen = i > 0 and row[0] == chosen
        for cell, is_number in zip(row, numbers, strict=True):
            text, kind = cell.strip().replace("\n", " "), "" if is_number else ' class="text"'
            if is_number and tag == "td":
                # Non-breaking spaces keep a number and its deviation, or both ends of an interval,
                # on one line.
                text = WITHIN.sub("\u00a0", text)
            text = f"<b>{escape(text)}</b>" if is_chosen else escape(text)
            cells += f"<{tag}{kind}>{text}</{tag}>"
        marked = ' class="chosen"' if is_chosen else ""
        lines.append(f"<tr{marked}>{cells}</tr>")
    return f'<div class="wide"><table>{"".join(lines)}</table></div>'


# Calibration errors of the top label, and class-wise errors, which are the power mean of the errors
# e_k of K classes.
#
# .. math:: \Big(\frac{1}{K} \sum_k e_k^q\Big)^{1/q} .


Mode = Literal["top", "classwise"] | None


def check_mode(
    mode: str | None,
    average: str | None,
    modes: tuple[str | None, ...] = (None, "top", "classwise"),
) -> None:
    """Check the keywords `mode` and `average` of a calibration error."""
    check_option("mode", mode, modes)
    check_option("average", average, ("macro", None))
    if average is None and mode != "classwise":
        raise ValueError(
            "average=None: an error for each class needs mode='classwise': pass both options."
        )


def mean_of_classes(errors: Float64Array, norm: Norm) -> Any:
    """Return the mean of the errors of several binary problems, by a norm."""
    if norm == "max":
        return errors.max(axis=-1)
    q = exponent(norm)
    return (errors**q).mean(axis=-1) ** (1 / q)


def error_by_mode(
    predictions: Predictions,
    error: Callable[..., float],
    mode: str | None,
    average: str | None,
    norm: Norm = "l1",
    *,
    y_proba: ArrayLike,
    dtype: DTypeLike | None = np.float64,
) -> float | Float64Array:
    """Compute a calibration error of an event, of the top label, or of each class.

    ``average=None`` returns the error of each class, even if there is an event, on the device of
    `y_proba`. Scores are converted to `dtype`, or keep their own type if it is None.
    """
    predictions = predictions.of_mode(mode, average=average)
    if mode != "classwise" or predictions.event is not None:
        score, hit = event_or_top(predictions)
        return float(error(score.astype(dtype or score.dtype, copy=False), hit, predictions.w))

    def measure(k: int, column: FloatArray) -> float:
        score = column.astype(dtype or column.dtype, copy=False)
        return float(error(score, predictions.hits(k), predictions.w))

    errors = np.array(list(map_columns(measure, Scores(predictions.P, "proba"))))
    if average is None:
        return predictions.of_classes(errors, y_proba)
    return float(mean_of_classes(errors, norm))
