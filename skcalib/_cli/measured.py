"""Measure the metrics of the rows of a file, and format them for printing."""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
import textwrap
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, TextIO

import numpy as np
import pandas as pd
from scipy.special import entr

from skcalib._cli.files import KINDS, columns_of, description, event_of, lines_of
from skcalib._cli.tables import SavedPredictions
from skcalib._comparison.comparison import affordable_resamples
from skcalib._comparison.held_out import HeldOutRows, in_folds, predict_held_out, read_rows
from skcalib._comparison.measures import ROW_LOSSES
from skcalib.metrics import SCORERS, bootstrap_interval, ks_calibration_error

from skcalib.extending import (  # isort: skip
    LINE, NULL_SETS, Evaluation, GroupCalibration, Grouped, InnerPredictions as Predictions,
    RiskCoverageCurve, calibrated, check_inner_predictions as check_predictions, check_weight,
    cluster_sums, clusters_text, event_or_top, group_rows, interval_of, mean_interval,
    measure_groups, p_text, rank_predictions, read_clusters, repeat_rows, resolve_calibrator,
    student_of_rows,
)  # fmt: skip

# Output of a command: sentences and tables, or JSON.


# Version of the JSON output. It increases when a name is removed or changes its meaning.
SCHEMA = 1
# Confidence and accuracy differ significantly if their difference is above this number of standard
# errors.
STANDARD_ERRORS = 1.96


class Printed(NamedTuple):
    """Output of a command: texts for stdout and stderr, and the exit code."""

    out: str
    err: str = ""
    code: int = 0


def wrapped(text: str) -> str:
    """Break a text into lines, but not between a number and its per cent sign."""
    unbroken = text.replace(" %", "\u00a0%")
    lines = textwrap.fill(unbroken, LINE, break_long_words=False, break_on_hyphens=False)
    return lines.replace("\u00a0", " ")


def format_output(args: argparse.Namespace, lines: list[str], record: dict[str, Any]) -> str:
    """Return the output of a command as lines or as JSON, with null for NaN and infinity."""
    if args.format == "table":
        return "\n".join(lines)
    record = {"command": args.command, "schema": SCHEMA, "file": args.file, **record}
    return json.dumps(_plain(record), indent=2, ensure_ascii=False, allow_nan=False)


def flat_records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows of a table as dicts, whose keys join the two levels of column names."""
    names = [re.sub("[ -]", "_", "_".join(filter(None, pair))) for pair in frame.columns]
    rows: Any = frame.set_axis(names, axis=1).to_dict("records")
    return list(rows)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(entry) for entry in value]
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if isinstance(value, (str, int, bool, type(None))) else str(value)


def confidence_of(predictions: Predictions) -> tuple[float, float, float]:
    """Return the mean confidence, the accuracy, and the standard error of their difference.

    For a binary problem these are the mean probability of the event and its rate. Without clusters,
    the standard error is that of a calibrated model.
    """
    score, hit = event_or_top(predictions)
    n = predictions.w.sum()
    score, w = np.asarray(score, dtype=np.float64), predictions.w / n
    error = np.sqrt(w @ (score * (1 - score)) / n)
    if predictions.cluster is not None:
        sums = cluster_sums(w * (hit - score), predictions.cluster)
        t = student_of_rows(predictions, 0.95)
        error = np.sqrt(sums @ sums) * t / STANDARD_ERRORS
    return float(w @ score), float(w @ hit), float(error)


def confidence_sentence(predictions: Predictions) -> str:
    """Describe in a sentence whether the model is over-confident or under-confident."""
    score, hits, standard_error = confidence_of(predictions)
    mean, rate, more = percent(score), percent(hits), score > hits
    # The printed numbers are rounded first, so that their printed difference is consistent.
    points = f"{abs(round(100 * score, 1) - round(100 * hits, 1)):.1f} points"
    if predictions.event is not None:
        start = f"The mean predicted probability is {mean}, and {rate} of the rows are events"
        none, fault = "calibrated on average", f"too {'high' if more else 'low'} by {points}"
    else:
        start = f"The model is {mean} confident on average and right {rate} of the time"
        none = "calibrated on average"
        fault = f"{'over' if more else 'under'}-confident by {points}"
    if points == "0.0 points":
        return f"{start}: {none}."
    chance = abs(score - hits) <= STANDARD_ERRORS * standard_error
    return f"{start}: {fault}{', which is not significant' if chance else ''}."


def percent(share: float) -> str:
    """Format a proportion as a percentage."""
    return f"{100 * share:.1f} %"


# Measurements: metrics of the predictions in a file, their intervals, and a conclusion.


# The general calibration error is left out, because with its default arguments it is the ECE.
MEASURED = [name for name in SCORERS if name != "neg_general_calibration_error"]
# Calibration errors that `measure` prints without --all if there are more than two classes.
FEW = ("expected_calibration_error", "static_calibration_error", "ks_calibration_error")
LEGEND_OF_EVENT = """\
observed_expected: events, divided by the sum of the probabilities; 1 is ideal, as for the slope.
in_the_large and intercept: 0 is ideal. ece (in 10 bins of equal weight), ici, e50, e90 and emax are
distances of the observed frequency from the probability; 'debiased' has the bias of a small sample
removed, and the interval is for the distance with unlimited data. auc: how well the probabilities
order the rows."""
# Beginnings of the names of class-wise metrics, and of metrics that depend on the order of the
# classes.
OF_CLASSES = ("neg_static_", "neg_adaptive_", "neg_thresholded_", "neg_avuc_", "neg_soft_avuc_")
# The smallest possible p-value of a test with NULL_SETS simulated sets of labels.
LEAST_P = 1 / (1 + NULL_SETS)
# Headings of the cells that `Measured.cells` returns.
COLUMNS_OF_ERRORS = [
    "metric", "debiased", "95 % interval", "as measured", "if calibrated", "p-value"
]  # fmt: skip
# Significance level of the test of the hypothesis that the probabilities are calibrated.
LEVEL = 0.05
# Seconds between lines of progress, if the stream is not a terminal.
PAUSE = 10.0


class Measured(NamedTuple):
    """A metric with its interval; a calibration error also with its debiased value and p-value."""

    metric: str
    value: float
    debiased: float
    low: float
    high: float
    if_calibrated: float = np.nan
    p_value: float = np.nan

    def cells(self) -> list[str]:
        """Return the texts in the row of a metric in the printed table, by column."""
        debiased, *others = "", "", ""
        if not np.isnan(self.p_value):
            debiased = f"{self.debiased:.4f}"
            usual = "" if np.isnan(self.if_calibrated) else f"{self.if_calibrated:.4f}"
            others = [usual, p_text(self.p_value, LEAST_P)]
        # The interval is printed next to the debiased value, because the measured value may be
        # above the interval.
        interval = "" if np.isnan(self.low) else f"[{self.low:.4f}, {self.high:.4f}]"
        return [self.metric, debiased, interval, f"{self.value:.4f}", *others]


def count_classes(saved: SavedPredictions, n_classes: int) -> str:
    """Describe the number of classes, or of questions and options of a decision log."""
    if saved.records is None:
        return f"{n_classes} classes"
    counts = (~np.isnan(saved.scores)).sum(axis=1)
    n = 1 if saved.groups is None else len(saved.groups.drop_duplicates())
    return f"{n:,} question{'s' * (n > 1)}, {counts.min()} to {counts.max()} options"


class Rows(NamedTuple):
    """The rows of a file on which errors are measured, and the predictions for these rows.

    ``kind`` is the kind of the scores (logits or probabilities); ``where`` describes the rows in
    words.
    """

    args: argparse.Namespace
    saved: SavedPredictions
    predictions: Predictions
    kind: str
    where: str

    def grouped(self) -> Grouped | None:
        """Split the predictions by group of rows, or return None without groups."""
        groups, weights = map(self.saved.measured, (self.saved.groups, self.saved.weights))
        if groups is None:
            return None
        return group_rows(self.predictions, groups, len(groups), weights)

    def weights(self) -> str | None:
        """Describe the weights and the effective number of rows; return None without weights."""
        weights, n_rows = self.saved.measured(self.saved.weights), self.predictions.w.sum()
        if weights is None:
            return None
        if weights.dtype.kind in "biu":
            return f"counts, {n_rows:,.0f} rows"
        return f"relative, the {len(weights):,} rows count as {n_rows:,.0f} rows of equal weight"

    def texts(self) -> dict[str, str]:
        """Describe the columns of scores, the weights and the clusters of a file."""
        predictions = self.predictions
        texts = columns_of(self.saved, predictions.classes, predictions.event)
        if (weights := self.weights()) is not None:
            texts["weights"] = weights
        if predictions.cluster is not None:
            texts["clusters"] = f"{self.args.clusters}, {clusters_text(predictions.n_clusters)}"
        return texts

    def lines(self, by: str = "") -> list[str]:
        """Return the first lines of a command's output: the file, its rows and its columns."""
        (n, n_classes), event = self.predictions.P.shape, self.predictions.event
        which = "" if self.saved.test is None else " of the test split"
        what = "binary problem" if event is not None else count_classes(self.saved, n_classes)
        first = f"{self.args.file}: {n:,} rows{which}, {what}, {KINDS[self.kind]}{by}"
        return [first, *lines_of(self.texts())]

    def record(self) -> dict[str, Any]:
        """Return the entries of the JSON output that describe the rows."""
        predictions = self.predictions
        score, hits, _ = confidence_of(predictions)
        return {
            **description(self.saved, predictions.classes, predictions.event, predictions.w.size),
            "scores": KINDS[self.kind],
            "measured_on": self.where,
            "weights": self.weights(),
            "clusters": predictions.n_clusters,
            "mean_score": score,
            "share_of_hits": hits,
        }


def held_out(
    args: argparse.Namespace, saved: SavedPredictions, name: str | None = None, **known: Any
) -> tuple[Rows, HeldOutRows]:
    """Return the measured rows of a file with held-out predictions, and all checked rows.

    With a split, the rows of the test split are measured, otherwise all rows. `name` is the
    calibrator of the predictions, which is fitted on the calibration rows or in folds. Without a
    name, the predictions are those of the file. `known` are classes and an event that the file
    does not contain.
    """
    y, w = saved.labels, saved.weights
    assert y is not None
    label = event_of(args.pos_label, y if saved.classes is None else saved.classes)
    keywords = {"input": saved.input, "classes": saved.classes, "pos_label": label, **known}
    weights = check_weight(saved.measured(w), len(saved.measured(y)), "weights")
    data = read_rows(saved.scores, y, w, **keywords)
    rows = np.arange(data.code.size)
    if saved.test is not None:
        test = saved.test if w is None else saved.test[w > 0]
        data = data._replace(splits=[(rows[~test], rows[test])])
    else:
        data = in_folds(data, 5) if name else data._replace(splits=[(rows, rows)])
    predictions, _ = predict_held_out(resolve_calibrator(name or "identity"), data)
    if saved.clusters is not None:
        cluster = read_clusters(saved.measured(saved.clusters), weights)
        predictions = predictions._replace(cluster=cluster)
    return Rows(args, saved, predictions, data.kind, where_in(saved)), data


def where_in(saved: SavedPredictions) -> str:
    """Describe in words which rows of a file are measured."""
    return "all rows" if saved.test is None else "the test split"


def measure(
    predictions: Predictions,
    of_raters: Predictions,
    seed: int,
    of_options: bool,
    names: Sequence[str] | None,
) -> list[Measured]:
    """Measure proper scores, calibration errors and the other metrics of predictions.

    Losses are means over the raters (`of_raters`). A decision log has options instead of class
    labels, so only the calibration errors of the top label are measured.
    """
    rows, w = [], predictions.w
    for name, loss in ROW_LOSSES.items():
        losses = loss.losses(of_raters)
        ends = mean_interval(losses, 0.95, 0.0, loss.most)
        rows.append(Measured(name, losses.mean(), np.nan, *ends))
    chosen = [name for name in MEASURED if names is None or name.removeprefix("neg_") in names]
    if of_options and predictions.event is None:
        chosen = [name for name in chosen if not name.startswith(OF_CLASSES)]
        score, hit = event_or_top(predictions)
        of_top = check_predictions(hit.astype(int), score, None, [0, 1])
        predictions = of_top._replace(w=w, cluster=predictions.cluster)
    return [*rows, *measure_errors(predictions, chosen, seed)]


def measure_errors(predictions: Predictions, names: list[str], seed: int) -> list[Measured]:
    """Measure metrics with their intervals; `names` are the names of their scorers."""
    data: Any = predictions  # a `Predictions` object also contains the labels
    n_resamples = affordable_resamples(*predictions.P.shape)
    rows, smooth = [], calibrated(repeat_rows(predictions))
    with drawing(sys.stderr) as show:
        for i, name in enumerate(names, 1):
            bare = name.removeprefix("neg_")
            metric = SCORERS[name]._score_func
            evaluate = Evaluation(metric, {}, False)
            show(f"{bare}: {i} of {len(names)} metrics")
            if evaluate.is_error:
                interval: Any = interval_of(evaluate, predictions, random_state=seed, smooth=smooth)
            elif bare == "aurc_loss" and predictions.cluster is None:
                curve = RiskCoverageCurve.of(rank_predictions(predictions), 1 - LEVEL)
                interval = curve.aurc, np.nan, curve.aurc_low, curve.aurc_high
            else:
                how: Any = {"n_resamples": n_resamples, "random_state": seed}
                drawn: Any = bootstrap_interval(metric, data, data, **how)
                interval = float(drawn.estimate), np.nan, drawn.low, drawn.high
            rows.append(Measured(bare, *interval))
    return rows


def rows_of_summary(frame: pd.DataFrame) -> list[Measured]:
    """Convert the statistics of a risk model to metrics with intervals."""
    return [
        Measured(str(name), row.value, row.debiased, row.low, row.high, p_value=row.pvalue)
        for name, row in frame.iterrows()
    ]


def ece_of(measured: Sequence[Measured]) -> Measured:
    """Find the ECE among the measured metrics: that of the event, or else of the top label."""
    return next(row for row in measured if row.metric in ("ece", FEW[0]))


def find_metric(measured: Sequence[Measured], name: str) -> Measured | None:
    """Return the metric of a name, or None if it was not measured."""
    return next((row for row in measured if row.metric == name), None)


def divergence(log_loss: float, of_raters: Predictions) -> str:
    """Describe the log loss of soft labels as their entropy plus a KL divergence."""
    least = float(np.average(entr(of_raters.code).sum(axis=1), weights=of_raters.w))
    parts = f"entropy of the soft labels {least:.4f} + KL divergence {log_loss - least:.4f}"
    return (
        "calibration errors use the label of one rater per row, drawn at random\n"
        f"log loss {log_loss:.4f} = {parts}"
    )


def summarize(predictions: Predictions, measured: list[Measured]) -> str:
    """Return the conclusion in words: mean confidence, accuracy, and the test of calibration."""
    named = {row.metric: row for row in measured}
    ece = ece_of(measured)
    text = confidence_sentence(predictions)
    if np.isnan(ece.p_value):
        return f"{text} {clusters_text(predictions.n_clusters)}."
    p = p_text(ece.p_value, LEAST_P)
    p = p if p.startswith("<") else f"= {p}"
    has_usual = not np.isnan(ece.if_calibrated)
    usual = f"{ece.if_calibrated:.4f} on average" if has_usual else ""
    units = "rows" if predictions.cluster is None else "clusters"
    if ece.p_value <= LEVEL:
        return (
            f"{text} The probabilities are not calibrated: the ECE ({ece.value:.4f}) is "
            f"significantly above that of a calibrated model ({usual}{', ' * has_usual}p {p})."
        )
    usual += f" for this number of {units}, " if has_usual else ""
    text += (
        f" The ECE ({ece.value:.4f}) is not significantly above that of a calibrated model "
        f"({usual}p {p})."
    )
    sce = named.get("static_calibration_error")
    if sce is not None and sce.p_value <= LEVEL:
        p = p_text(sce.p_value, LEAST_P)
        p = p if p.startswith("<") else f"= {p}"
        text += (
            f" The probabilities of single classes are not calibrated: the SCE is {sce.value:.4f} "
            f"(p {p})."
        )
    return text


def measure_by_group(rows: Rows) -> GroupCalibration | None:
    """Measure the calibration of each group of rows, or return None without groups."""
    if (grouped := rows.grouped()) is None:
        return None
    named = {"ks_calibration_error": ks_calibration_error}
    with drawing(sys.stderr) as show:
        return measure_groups(
            grouped,
            named,
            level=1 - LEVEL,
            random_state=rows.args.seed,
            report=lambda done, n_groups: show(f"{done:,} of {n_groups:,} groups"),
        )


@contextmanager
def drawing(stream: TextIO) -> Iterator[Callable[[str], None]]:
    """Show the progress of a command on a stream.

    A terminal shows one line, which is removed at the end. Other streams get a line every ten
    seconds.
    """
    last, terminal = time.monotonic(), stream.isatty()

    def show(text: str) -> None:
        nonlocal last
        if terminal:
            stream.write(f"\r{text}")
        elif time.monotonic() - last > PAUSE:
            stream.write(f"{text}\n")
            last = time.monotonic()
        stream.flush()

    try:
        yield show
    finally:
        if terminal:
            stream.write("\r\033[K")
