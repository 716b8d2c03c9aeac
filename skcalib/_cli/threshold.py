"""The command threshold: find the lowest probability from which an accuracy is guaranteed."""

from __future__ import annotations

import argparse
import math
import warnings
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from sklearn.frozen import FrozenEstimator

from skcalib._cli.apply import reorder_columns
from skcalib._cli.decision_log import draw_rater
from skcalib._cli.files import check_ending, event_of, load, read, save
from skcalib._cli.measured import Printed, Rows, format_output, held_out, percent, where_in, wrapped
from skcalib._cli.tables import SavedPredictions
from skcalib._comparison.held_out import fit_rows
from skcalib.extending import (
    ALL,
    SelectiveClassifier,
    SelectiveThreshold,
    find_threshold,
    format_table,
    rank_predictions,
    resolve_calibrator,
)
from skcalib.extending import InnerPredictions as Predictions
from skcalib.extending import check_inner_predictions as check_predictions

# Defaults of ``skcalib threshold``: required accuracies, the accuracy in the conclusion, and the
# confidence level.
ACCURACIES, USUAL, LEVEL = (0.9, 0.95, 0.99), 0.95, 0.95
HEAD = ["required\naccuracy", "threshold", "accepted\nrows", "accuracy of\naccepted rows"]


class Target(NamedTuple):
    """A threshold for a required accuracy, its text, and the number of rows used to choose it."""

    accuracy: float
    text: str
    result: SelectiveThreshold
    n_rows: float

    def cells(self) -> list[str]:
        """Return the texts in the row of a threshold in the printed table, by column."""
        result, share = self.result, self.accuracy
        accuracy = f"{share:8.2f}" if round(share, 2) == share else f"{share:8g}"
        if self.text == "none":
            return [accuracy, "none", percent(0.0), ""]
        acts = f"{percent(result.coverage)} ({result.rows:,.0f})"
        return [accuracy, self.text, acts, percent(result.accuracy)]

    def record(self) -> dict[str, Any]:
        """Return the JSON entries of the threshold, with all digits."""
        accuracies = {"share_right": self.result.accuracy, "accuracy": self.accuracy}
        return {**self.result._asdict(), **accuracies, "rows_needed": self.result.rows_needed}


def run_threshold(args: argparse.Namespace) -> Printed:
    """Find the probability above which an accuracy is guaranteed."""
    check_ending(args.save, (".json",))
    accuracies = args.accuracy or ((USUAL,) if args.save else ACCURACIES)
    if args.save and len(accuracies) > 1:
        raise ValueError("--save needs a single threshold: pass one --accuracy")
    if args.save and args.groups:
        raise ValueError("--save needs one threshold for all rows: leave out --groups")
    saved = draw_rater(read(args), 0)
    rows, fitted = predict_new(args, saved)
    targets, groups = find_targets(rows.predictions, accuracies, args.confidence), []
    if (grouped := rows.grouped()) is not None:
        _, known, parts = grouped
        for label, part in zip(known.labels, parts, strict=True):
            if len(part.code):
                group = dict(zip(known.names, label, strict=True))
                groups.append((group, find_targets(part, accuracies, args.confidence)))
    if args.save:
        save(make_gate(fitted, rows.predictions, targets[0], args.confidence), args.save, args)
        if reason := targets[0].result.reason:
            warnings.warn(f"{args.save}: the classifier accepts no row: {reason}", stacklevel=1)
    record = {
        **rows.record(),
        "calibrator": args.calibrator,
        "confidence_level": args.confidence,
        "thresholds": [target.record() for target in targets],
        "groups": [
            {"group": group, "thresholds": [target.record() for target in some]}
            for group, some in groups
        ],
    }
    lines = [
        *rows.lines("" if args.calibrator is None else f", calibrated by {args.calibrator}"),
        *table_of(targets),
        wrapped(sentence_of(targets, args.confidence, rows.predictions)),
    ]
    for group, some in groups:
        name = ", ".join(f"{column} {label}" for column, label in group.items())
        lines += ["", f"{name}: {some[0].n_rows:,.0f} rows", *table_of(some)]
    lines += [f"selective classifier: {args.save}"] if args.save else []
    return Printed(format_output(args, lines, record))


def predict_new(args: argparse.Namespace, saved: SavedPredictions) -> tuple[Rows, Any]:
    """Return the measured rows with held-out predictions, and the calibrator to save."""
    name = args.calibrator
    if name is None or not name.lower().endswith(".json"):
        rows, data = held_out(args, saved, name)
        rows = rows._replace(predictions=rows.predictions.as_classes())
        fit_on = data.splits[0][0] if saved.test is not None else ALL
        calibrator = resolve_calibrator(name or "identity")
        return rows, fit_rows(calibrator, data, fit_on) if args.save else None
    calibrator = load(name)
    classes = calibrator.classes_
    X, event = reorder_columns(calibrator, saved.scores, saved.classes, args.pos_label)
    label = event_of(args.pos_label, classes) if event is None else classes.tolist()[event]
    P = calibrator.predict_proba(X)  # all rows: error messages name the row of the file
    y, P, w = (saved.measured(part) for part in (saved.labels, P, saved.weights))
    predictions = check_predictions(y, P, w, classes, label).as_classes()
    return Rows(args, saved, predictions, calibrator.input_, where_in(saved)), calibrator


def find_targets(
    predictions: Predictions, accuracies: Iterable[float], level: float
) -> list[Target]:
    """Find the threshold for each required accuracy."""
    ranked, targets, dtype = rank_predictions(predictions), [], predictions.P.dtype.type
    for accuracy in accuracies:
        result, text = find_threshold(ranked, accuracy, level), "none"
        if np.isfinite(result.threshold):
            lower = np.append(ranked.scores[ranked.scores < result.threshold], -np.inf)[0]
            # A float32 threshold of 0.7 is printed as 0.7, not as 0.699999988.
            text = shortest(*(float(str(dtype(score))) for score in (result.threshold, lower)))
        targets.append(Target(accuracy, text, result, float(ranked.rows[-1])))
    return targets


def shortest(threshold: float, below: float) -> str:
    """Round a threshold to the fewest decimals, at least two, that do not change the accepted rows.

    All numbers above the next lower score, up to the threshold, accept the same rows, so the
    guarantee still holds.
    """
    for digits in range(2, 17):
        number = math.floor(threshold * 10**digits + 1e-9) / 10**digits
        if below < number <= threshold:
            return f"{number:.{digits}f}"
    return repr(threshold)


def table_of(targets: list[Target]) -> list[str]:
    """Return the lines of the table of thresholds, and why some accuracies have none."""
    rows = [target.cells() for target in targets]
    missing = [
        wrapped(f"{accuracy.strip()}: {target.result.reason}")
        for target, (accuracy, *_) in zip(targets, rows, strict=True)
        if target.result.reason
    ]
    return [format_table([HEAD, *rows]), *missing]


def sentence_of(targets: list[Target], level: float, predictions: Predictions) -> str:
    """Return the conclusion in words: which rows to accept, and with which guarantee."""
    chosen = next((target for target in targets if target.accuracy == USUAL), targets[0])
    least, sure = f"{100 * chosen.accuracy:g} %", f"{100 * level:g} %"
    if chosen.text == "none":
        return f"No threshold has an accuracy of {least} with {sure} confidence: accept no row."
    what, right = "largest probability", "the predictions for such rows are correct"
    if predictions.event is not None:
        label = predictions.classes.tolist()[predictions.event]
        what, right = "probability", f"such rows have the label {label}"
    return (
        f"Accept rows whose {what} is {chosen.text} or more: {percent(chosen.result.coverage)} of "
        f"the rows. At least {least} of {right}, with {sure} confidence."
    )


def make_gate(
    calibrator: Any, predictions: Predictions, target: Target, level: float
) -> SelectiveClassifier:
    """Create a selective classifier that accepts rows at or above the threshold."""
    result, column, classes = target.result, predictions.event, np.asarray(calibrator.classes_)
    wanted: Any = target.accuracy
    acts = np.ones(classes.size, dtype=bool)
    if column is not None:
        wanted, acts = {classes.tolist()[column]: wanted}, np.arange(classes.size) == column
        if result.threshold <= 0.5:
            raise ValueError(
                f"--save: the threshold, {target.text}, must be above 0.5, because a selective "
                "classifier accepts only the predicted class: pass a higher --accuracy"
            )
    gate = SelectiveClassifier(FrozenEstimator(calibrator), accuracy=wanted, confidence_level=level)
    gate.estimator_, gate.classes_ = calibrator, classes
    gate.thresholds_ = np.where(acts, result.threshold, np.inf)
    gate.coverage_, gate.accuracy_ = result.coverage, result.accuracy
    return gate
