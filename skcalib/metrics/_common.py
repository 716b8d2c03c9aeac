"""What metrics share: their list, events, clusters, printing."""

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

# Rows in clusters, which were drawn together: sums over clusters are the observations.
#
# `Predictions.cluster (n,)` is the number of each row's cluster, 0 to C - 1, or None. It is read by
# `read_clusters`, and stays with the rows in `take`, `split` and `repeat_rows`. In the interval of
# a mean, a row of a relative weight is a cluster of its own (`separate_rows`): its variance depends
# on how weights and values go together.
#
# Clusters of shares :math:`s_c` of the rows have numbers :math:`m_c` of which the mean is
# :math:`g = \sum_c s_c m_c`. If the variance of :math:`m_c` is proportional to :math:`v_c`, that of
# :math:`m_c - g` is :math:`v_c - 2 s_c v_c + \sum_k s_k^2 v_k`; squared residuals are divided by
# the ratio of both, and their sum has the degrees of freedom of Bell and McCaffrey (2002). Clusters
# have equal variances, as numbers of whole clusters have, and so have differences of the losses of
# rows of relative weights. Losses and shares of such rows have :math:`v_c = s_c^{-1/2}`: a heavy
# row is of a kind that is rarely seen, and often has a small loss.
#
# Where events are rare, a sample without the clusters that have many events has both a small mean
# and a small variance, and Student's interval ends below the true mean. With whole clusters, the
# interval of a mean loss is therefore Student's on the scale of the square root, on which a
# variance that is proportional to the mean is constant. That of O:E is a score interval, as with
# independent rows. A gain may have either sign and has Student's interval.
#
# Slopes and simulated errors have Student's t with :math:`C_e - 1` degrees of freedom, where
# :math:`C_e = (\sum_c s_c)^2 / \sum_c s_c^2` clusters of equal size have as much information
# (Carter, Schnepel and Steigerwald 2017). `leave_out` is the covariance of coefficients, `widening`
# the factor of residuals about a fit of the same rows; rows whose hits have an interval count as
# fewer by `design_effect`. Both are 1 for independent rows.


# Information with a larger condition number is that of fewer coefficients.
SINGULAR = 1e12
# The variances of rows are proportional to this power of their relative weights: see above.
OF_ROWS = -0.5
# A cluster without an expected event counts as this share.
LEAST_SHARE = 1e-12


def number_of(cluster: Intp) -> int:
    """Return how many clusters there are."""
    return int(cluster.max()) + 1


def cluster_sums(values: ArrayLike, cluster: Intp) -> Float64Array:
    """Return the sums ``(C, ...)`` of numbers ``(n, ...)`` over each cluster."""
    values = np.asarray(values, dtype=np.float64)
    parts = values.reshape(len(values), -1).T
    sums = np.column_stack([np.bincount(cluster, part) for part in parts])
    return np.asarray(sums.reshape(-1, *values.shape[1:]), dtype=np.float64)


def effective_number(share: Float64Array) -> float:
    """Return how many clusters of equal size count as much as those of these shares ``(C,)``."""
    return float(share.sum() ** 2 / (share @ share))


def separate_rows(rows: Any) -> Any:
    """Return rows of which each of a relative weight is a cluster of its own."""
    if rows.cluster is not None or is_whole(rows.w):
        return rows
    return rows._replace(cluster=np.arange(rows.w.size))


def balance(share: Float64Array, power: float = 0.0) -> tuple[Float64Array, float]:
    """Return the part of its variance that each squared residual has, and degrees of freedom.

    Clusters have shares ``(C,)`` of a mean, and variances proportional to a power of these.
    """
    s = np.maximum(share / share.sum(), LEAST_SHARE)
    s /= s.sum()
    v, of_mean = s**power, s * s * s**power
    total, largest = of_mean.sum(), of_mean.argmax()
    # The variance of a residual, without differences of numbers that are equal but for rounding.
    of_others = total - of_mean
    of_others[largest] = np.delete(of_mean, largest).sum()
    part = (1 - s) ** 2 + of_others / v
    # Residuals i and j have the covariance u_i + u_j, and a residual the variance v_i + 2 u_i.
    u, d = total / 2 - s * v, s * s / part
    # The sum over i and j of d_i d_j times their squared covariance. Its terms of i = j alone are
    # of_mean @ of_mean: where it is smaller, the difference is rounding.
    squares = 2 * d.sum() * (d @ u**2) + 2 * (d @ u) ** 2 + (d * d) @ (v * (v + 4 * u))
    return part, float(total**2 / max(squares, of_mean @ of_mean))


def student(freedom: float, level: float) -> float:
    """Return the quantile of Student's t at the upper end of an interval."""
    return float(stdtrit(max(freedom, 1), (1 + level) / 2))


def student_of_rows(rows: Any, level: float) -> float:
    """Return the quantile of Student's t for the interval of a mean of rows in clusters."""
    return student(balance(cluster_sums(rows.w, rows.cluster))[1], level)


def widening(rows: Any, level: float) -> float:
    """Return the factor of standard deviations that residuals about a fit of the same rows need."""
    if rows.cluster is None:
        return 1.0
    number = effective_number(cluster_sums(rows.w, rows.cluster))
    factor = np.sqrt(number / max(number - 1, 1)) / ndtri((1 + level) / 2)
    return float(student(number - 1, level) * factor)


def resampling_factor(rows: Any, level: float) -> float:
    """Return the factor of quantiles of resampled clusters."""
    if rows.cluster is None:
        return 1.0
    share = cluster_sums(rows.w, rows.cluster)
    part, freedom = balance(share)
    lost = np.sqrt((share @ share) / (share**2 @ part))
    return float(student(freedom, level) * lost / ndtri((1 + level) / 2))


def design_effect(rows: Any, residual: Float64Array, level: float, cell: Any = 0) -> float:
    """Return by how much the number of rows is divided in an interval of a rate.

    `residual (n,)` are those of the rows, of several cells by the residuals of all together.
    """
    w, cluster = rows.w, rows.cluster
    if cluster is None:
        return 1.0
    C, squares, share = number_of(cluster), w @ residual**2, cluster_sums(w, cluster)
    part, freedom = balance(share, OF_ROWS if w.size == C else 0.0)
    sums = np.bincount(cluster + C * cell, w * residual, C * (np.max(cell) + 1)).reshape(-1, C)
    inflation = (sums**2 / part).sum() / squares if squares else 1.0
    if w.size > C:  # rows of relative weights may count as more than their effective number
        inflation = max(inflation, 1.0)
    return float(inflation * (student(freedom, level) / ndtri((1 + level) / 2)) ** 2)


def ratio_ends(
    D: Float64Array, N: Float64Array, level: float, power: float = 0.0
) -> tuple[float, float]:
    """Return the ends of Student's interval of a ratio of sums over clusters."""
    total = N.sum()
    ratio = D.sum() / total
    part, freedom = balance(N, power)
    half = student(freedom, level) * np.sqrt((((D - ratio * N) / total) ** 2 / part).sum())
    return float(ratio - half), float(ratio + half)


def leave_out(
    X: Float64Array, information: Float64Array, residual: Float64Array, cluster: Intp
) -> tuple[Float64Array, list[float]]:
    """Return the covariance ``(d, d)`` of coefficients, and how many clusters each counts.

    Columns ``X (n, d)``, ``information (n,)`` of the rows, ``residual (n,)`` with the weight of the
    row. Each score is that of a fit without its cluster (CR3; Bell and McCaffrey 2002).
    """
    A = cluster_sums(information[:, None, None] * X[:, :, None] * X[:, None, :], cluster)
    scores = cluster_sums(residual[:, None] * X, cluster)
    total, C = A.sum(axis=0), len(A)
    if np.linalg.cond(total - A).max() > SINGULAR:
        raise ValueError(
            "clusters: the interval of the slope leaves out each of them in turn, and without one "
            "the other rows have no finite slope: measure more clusters."
        )
    moved, inverse = np.linalg.solve(total - A, scores[..., None])[..., 0], np.linalg.inv(total)
    shares = np.einsum("kd,cde,ke->kc", inverse, A, inverse)
    return moved.T @ moved * (C - 1) / C, [effective_number(share) for share in shares]


def merge_clusters(cluster: Intp, random: Any, most: int) -> Intp:
    """Join more than `most` clusters at random to as many: no row is lost."""
    number = number_of(cluster)
    return cluster if number <= most else (random.permutation(number) % most)[cluster]


# The one event that a statistic is about: its probability, its log-odds, whether it happened.


class EventRows(NamedTuple):
    """Rows: the event's probability ``p (n,)``, ``hit (n,)`` and positive weights ``w (n,)``.

    ``cluster (n,)`` are numbers of clusters, None if rows are independent.
    """

    p: FloatArray
    hit: NDArray[Any]
    w: Float64Array
    cluster: Intp | None = None


def reduce_to_event(predictions: Predictions) -> Predictions:
    """Return the event against the rest as two columns, of which the event is one."""
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
    """Return the rows as one event sees them."""
    p, hit = event_or_top(predictions)
    return EventRows(p.astype(np.float64), hit, predictions.w, predictions.cluster)


def event_log_odds(predictions: Predictions) -> Float64Array:
    """Return the log-odds of the event ``(n,)``, as `PlattScaling` takes them: 0 and 1 clipped."""
    scores = Scores(predictions.P, "proba", predictions.classes)
    scores.set_clip(find_clip(scores)[0])
    if predictions.event is None:
        return scores.top_log_odds()
    return scores.log_odds_columns(slice(predictions.event, predictions.event + 1))[0]


# What lists of metrics need for each: its paper, its scorer, whether it is an error.


# Metrics with a scorer in `SCORERS`, in the order of the imports in skcalib/metrics/__init__.py.
SCORED: list[Callable[..., Any]] = []


def listed(
    paper: str,
    *,
    scorer: bool = False,
    error: bool = True,
    by_cells: Callable[..., Any] | None = None,
    has_event: bool = True,
) -> Callable[[Metric], Metric]:
    """Mark a metric with the paper that docs/metrics.md names, and with whether `SCORERS` has it.

    A metric with a scorer takes checked predictions. It is a calibration error, which is smallest
    where labels follow the probabilities, unless `error` is False. `by_cells` makes it a function
    of the hits of cells, if it is not among those of `skcalib.metrics._intervals.errors`.
    Two columns are one event unless `has_event` is False: then they are two classes.
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


# Numbers of results as text, and tables as text and as HTML.


# The smallest p-value that a float represents with all its digits.
SMALLEST = 1e-300
# Entries shown at each end of an array that has more than twice as many.
SHOWN = 3

Kind = TypeVar("Kind", bound=type)


def equals_text(value: Any, smallest: float = np.nan) -> str:
    """Return "=0.0123", or "<0.02" for a value at its lower limit `smallest`."""
    numbers = [_number_text(x, smallest) for x in np.ravel(value).tolist()]
    if np.ndim(value) == 0:
        return numbers[0] if numbers[0].startswith("<") else f"={numbers[0]}"
    if len(numbers) > 2 * SHOWN:
        numbers[SHOWN:-SHOWN] = ["..."]
    return f"=[{', '.join(numbers)}]"


def interval_text(low: float, high: float) -> str:
    """Return " (0.6 to 0.8)", or nothing for an interval that does not exist."""
    return "" if np.isnan(low) else f" ({low:.4g} to {high:.4g})"


def describe(result: Any, *parts: str, smallest: float = SMALLEST, more: str = "") -> str:
    """Return the numbers of a result as text, with what `add_note` adds.

    A part is the name of a number, perhaps with those of the ends of its interval, which arrays
    are printed without. A p-value at `smallest` is written as an inequality.
    """
    texts = []
    for part in parts:
        value, *ends = (getattr(result, name) for name in part.split())
        least = smallest if part in ("pvalue", "p_value") else np.nan
        interval = interval_text(*ends) if ends and np.ndim(value) == 0 else ""
        texts.append(f"{part.split()[0]}{equals_text(value, least)}{interval}")
    return f"{type(result).__name__}({', '.join(texts)}{more}{getattr(result, '_note', '')})"


def printable(*parts: str, smallest: float = SMALLEST) -> Callable[[Kind], Kind]:
    """Let `describe` print parts of a named tuple, if there are any, with what `add_note` adds."""
    text = {"__repr__": partialmethod(describe, *parts, smallest=smallest)} if parts else {}

    def subclass(kind: Kind) -> Kind:
        wider = type(kind)(kind.__name__, (kind,), text)
        update_wrapper(wider, kind, updated=())
        return wider

    return subclass


def add_note(result: Any, n_clusters: int | None, level: float | None = None) -> Any:
    """Add the level and the number of clusters to a result, as `describe` shows them."""
    if n_clusters is not None:
        percent = "" if level is None else f", {100 * level:g} %"
        result._note = f"{percent}, {n_clusters} clusters"
    return result


def p_text(p: float, smallest: float) -> str:
    """Write a p-value, and one at its smallest possible value as an inequality: "< 0.0034"."""
    return equals_text(p, smallest).removeprefix("=").replace("<", "< ")


def _number_text(x: float, smallest: float) -> str:
    if not x <= smallest:  # NaN too
        return str(x) if isinstance(x, int) else f"{x:.4g}"
    bound = Context(prec=2, rounding=ROUND_UP).create_decimal(repr(smallest))
    return f"<{float(bound):g}"


# Characters of a line of a table that is printed.
LINE = 100
# Letters of a number with its interval, at most: a longer cell is a text, which may be broken.
NUMBER = 30
# Spaces of a cell but those before brackets.
WITHIN = re.compile(r" (?![\[(])")


def format_table(rows: list[list[str]], most: int | None = None) -> str:
    """Write cells under one another; a line break in a cell of the header makes it two lines.

    Of lines longer than `most` characters the last columns are written below, as a table with the
    first column again.
    """
    heads = [cell.split("\n") for cell in rows[0]]
    height = max(map(len, heads))
    above = [[""] * (height - len(parts)) + parts for parts in heads]
    rows = [*map(list, zip(*above, strict=True)), *rows[1:]]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    ends = np.cumsum(np.array(widths) + 2) - 2
    if most is not None and ends[-1] > most:
        # At least one column beside the first.
        fit = max(2, int(np.searchsorted(ends, most, side="right")))
        if fit < len(widths):
            parts = [row[:fit] for row in rows], [[row[0], *row[fit:]] for row in rows]
            return f"{format_table(parts[0])}\n\n{format_table(parts[1], most)}"
    lines = []
    for first, *others in rows:
        cells = [f"{cell:>{width}}" for cell, width in zip(others, widths[1:], strict=True)]
        lines.append("  ".join([f"{first:<{widths[0]}}", *cells]).rstrip())
    return "\n".join(lines)


def to_html(rows: list[list[str]], chosen: str | None = None, head: bool = True) -> str:
    """Write cells as a table of HTML; the row of the chosen calibrator is marked."""
    lines = []
    columns = zip(*rows, strict=True)
    numbers = [head and all(len(cell.strip()) <= NUMBER for cell in column) for column in columns]
    numbers[0] = head
    for i, row in enumerate(rows):
        tag, cells = "th" if head and i == 0 else "td", ""
        for cell, is_number in zip(row, numbers, strict=True):
            text, kind = cell.strip().replace("\n", " "), "" if is_number else ' class="text"'
            if is_number and tag == "td":
                # A number and its deviation, or the two ends of an interval, stay on one line.
                text = WITHIN.sub("\u00a0", text)
            cells += f"<{tag}{kind}>{escape(text)}</{tag}>"
        marked = ' class="chosen"' if i and row[0] == chosen else ""
        lines.append(f"<tr{marked}>{cells}</tr>")
    return f'<div class="wide"><table>{"".join(lines)}</table></div>'


# Errors by mode: of the top label, or of each class and their mean.
#
# .. math:: \Big(\frac{1}{K} \sum_k e_k^q\Big)^{1/q}
#
# is the class-wise error with exponent q: the root is taken once, of the mean.


Mode = Literal["top", "classwise"] | None


def check_mode(
    mode: str | None,
    average: str | None,
    modes: tuple[str | None, ...] = (None, "top", "classwise"),
) -> None:
    """Check the keywords for which errors are measured and how they are averaged."""
    check_option("mode", mode, modes)
    check_option("average", average, ("macro", None))
    if average is None and mode != "classwise":
        raise ValueError("average=None gives an error for each class: it needs mode='classwise'.")


def mean_of_classes(errors: Float64Array, norm: Norm) -> Any:
    """Average the errors of m problems, ``(..., m)``."""
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
    """Measure ``error(score, hit, w)`` of one event, of the top label, or of each class.

    ``average=None`` returns the error of each class, even if there is an event, on the device of
    `y_proba`. Scores are passed as `dtype`, with None as their own.
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
