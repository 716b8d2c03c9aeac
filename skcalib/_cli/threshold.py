"""``skcalib threshold``: above which probability to act, so that an accuracy is guaranteed."""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.frozen import FrozenEstimator

from skcalib._cli.apply import in_columns_of
from skcalib._cli.decision_log import one_label
from skcalib._cli.files import (
    KINDS,
    check_ending,
    columns_of,
    description,
    event_of,
    load,
    read,
    rows_that_count,
    save,
)
from skcalib._cli.printed import Printed, as_json, wrapped
from skcalib._cli.saved_predictions import SavedPredictions
from skcalib._cli.sentences import percent
from skcalib._comparison.held_out import fit_rows, in_folds, predict_held_out, read_rows
from skcalib._meta_estimators.selective import SelectiveClassifier
from skcalib._validation.groups import read_groups
from skcalib._validation.predictions import Predictions, check_predictions
from skcalib.calibrators._names import resolve_calibrator
from skcalib.metrics._curves.risk_coverage import RankedRows, rank_predictions
from skcalib.metrics._printing import format_table
from skcalib.metrics._statistics.selective_threshold import SelectiveThreshold, find_threshold

# Accuracies that are shown, the one that the sentence is about, and the usual confidence.
ACCURACIES, USUAL, LEVEL = (0.9, 0.95, 0.99), 0.95, 0.95
HEAD = ["accuracy", "threshold", "acts on", "of these right"]
FOLDS = 5


class Target(NamedTuple):
    """A threshold for an accuracy, its text, and the number of rows that chose it."""

    accuracy: float
    text: str
    result: SelectiveThreshold
    n_rows: float

    def cells(self) -> list[str]:
        """Return a row of the table."""
        result, accuracy = self.result, f"{as_share(self.accuracy):>{len(HEAD[0])}}"
        if self.text == "none":
            return [accuracy, "none", percent(0.0), ""]
        acts = f"{percent(result.coverage)} ({result.rows:,.0f})"
        return [accuracy, self.text, acts, percent(result.accuracy)]

    def record(self) -> dict[str, Any]:
        """Return all digits, by name."""
        numbers = self.result._asdict()
        numbers["share_right"] = numbers.pop("accuracy")
        return {"accuracy": self.accuracy, **numbers, "rows_needed": self.result.rows_needed}


def run_threshold(args: argparse.Namespace) -> Printed:
    """Find a threshold for each accuracy."""
    check_ending(args.save, (".json",))
    accuracies = args.accuracy or ((USUAL,) if args.save else ACCURACIES)
    if args.save and len(accuracies) > 1:
        raise ValueError("--save writes one gate: pass one --accuracy")
    if args.save and args.groups:
        raise ValueError("--save writes one gate for all rows: leave out --groups")
    saved = counted_rows(one_label(read(args), 0))
    predictions, rows, kind, fitted = predict_new(saved, args)

    def find(some: Predictions) -> list[Target]:
        return find_targets(rank_predictions(some), accuracies, args.confidence)

    targets, groups = find(predictions), []
    if saved.groups is not None:
        given = read_groups(saved.groups.iloc[rows], rows.size, "--groups")
        for g, label in enumerate(given.labels):
            group = dict(zip(given.names, label, strict=True))
            groups.append((group, find(predictions.take(np.flatnonzero(given.code == g)))))
    if args.save:
        save(as_gate(fitted, predictions, targets[0], args.confidence), args.save)
    classes, event, calibrator = predictions.classes, predictions.event, args.calibrator
    counted = rows_that_count(None if saved.weights is None else saved.weights[rows])
    if args.format == "json":
        record = {
            **description(saved, classes, event, rows.size),
            "scores": KINDS[kind],
            "measured_on": "all rows" if saved.test is None else "the test split",
            "weights": counted,
            "calibrator": calibrator,
            "confidence_level": args.confidence,
            "thresholds": [target.record() for target in targets],
            "groups": [
                {"group": group, "thresholds": [target.record() for target in part]}
                for group, part in groups
            ],
        }
        return Printed(as_json(args, record))
    which = "" if saved.test is None else " of the test split"
    what = f"{classes.size} classes" if event is None else "one event"
    by = "" if calibrator is None else f", calibrated by {calibrator}"
    lines = [
        f"{args.file}: {rows.size:,} rows{which}, {what}, {KINDS[kind]}{by}",
        columns_of(saved, classes, event),
        *([] if counted is None else [f"weights: {counted}"]),
        *table_of(targets),
        wrapped(sentence_of(targets, args.confidence, event is not None)),
    ]
    for group, part in groups:
        name = ", ".join(f"{column} {label}" for column, label in group.items())
        lines += ["", f"{name}: {part[0].n_rows:,.0f} rows", *table_of(part)]
    return Printed("\n".join([*lines, *([f"gate: {args.save}"] if args.save else [])]))


def counted_rows(saved: SavedPredictions) -> SavedPredictions:
    """Return the rows whose weight is not 0."""
    if saved.weights is None:
        return saved
    keep, parts = np.flatnonzero(saved.weights), ("scores", "labels", "test", "groups", "weights")
    there = {name: part for name in parts if (part := getattr(saved, name)) is not None}
    return saved._replace(**{name: part.take(keep, axis=0) for name, part in there.items()})


def predict_new(
    saved: SavedPredictions, args: argparse.Namespace
) -> tuple[Predictions, NDArray[np.intp], str, Any]:
    """Return predictions of rows that are new to the calibrator, these rows, their kind, the fit.

    They are those of the test split. Without one, a calibrator that is given by name predicts each
    row out of fold.
    """
    y, w = saved.labels, saved.weights
    assert y is not None
    every = np.arange(len(y))
    test = every if saved.test is None else np.flatnonzero(saved.test)
    if args.calibrator is not None and args.calibrator.lower().endswith(".json"):
        calibrator = load(args.calibrator)
        X, classes = saved.scores.reshape(len(y), -1)[test], calibrator.classes_
        X, event = in_columns_of(calibrator, X, saved.classes, args.pos_label)
        label = event_of(args.pos_label, classes) if event is None else classes.tolist()[event]
        P, w = calibrator.predict_proba(X), None if w is None else w[test]
        predictions = check_predictions(y[test], P, w, classes, label)
        return predictions.as_classes(), test, calibrator.input_, calibrator
    label = event_of(args.pos_label, y)
    data = read_rows(saved.scores, y, w, input=saved.input, classes=saved.classes, pos_label=label)
    fit = every if saved.test is None else np.flatnonzero(~saved.test)
    if saved.test is None and args.calibrator is not None:
        data = in_folds(data, FOLDS)
    else:
        data = data._replace(splits=[(fit, test)])
    calibrator = resolve_calibrator(args.calibrator or "identity")
    predictions = predict_held_out(calibrator, data).predictions
    last = fit_rows(calibrator, data, fit) if args.save else None
    return predictions.as_classes(), test, data.kind, last


def find_targets(ranked: RankedRows, accuracies: Iterable[float], level: float) -> list[Target]:
    """Return the threshold for each accuracy."""
    targets = []
    for accuracy in accuracies:
        result, text = find_threshold(ranked, accuracy, level), "none"
        if np.isfinite(result.threshold):
            lower = ranked.scores[ranked.scores < result.threshold]
            text = shortest(result.threshold, float(lower[0]) if lower.size else -np.inf)
        targets.append(Target(accuracy, text, result, float(ranked.rows[-1])))
    return targets


def shortest(threshold: float, below: float) -> str:
    """Write a threshold with the fewest decimals, at least two, that select the same rows.

    The guarantee stays: all numbers between the next lower score and the threshold select them.
    """
    for digits in range(2, 17):
        number = math.floor(threshold * 10**digits + 1e-9) / 10**digits
        if below < number <= threshold:
            return f"{number:.{digits}f}"
    return repr(threshold)


def as_share(accuracy: float) -> str:
    """Write an accuracy with two decimals or more."""
    return f"{accuracy:.2f}" if round(accuracy, 2) == accuracy else f"{accuracy:g}"


def table_of(targets: list[Target]) -> list[str]:
    """Return the table, and what accuracies without a threshold would need."""
    lines = [format_table([HEAD, *(target.cells() for target in targets)])]
    for accuracy, text, result, n_rows in targets:
        if text == "none":
            lines.append(f"{as_share(accuracy)}: none: {result.needed(n_rows)}")
    return lines


def sentence_of(targets: list[Target], level: float, one_event: bool) -> str:
    """Say what to do."""
    chosen = next((target for target in targets if target.accuracy == USUAL), targets[0])
    least, sure = f"{100 * chosen.accuracy:g} %", f"{100 * level:g} %"
    if chosen.text == "none":
        return f"No threshold gives {least} right with {sure} confidence: act on no row."
    what = "probability" if one_event else "largest probability"
    return (
        f"Act where the {what} is {chosen.text} or more: on {percent(chosen.result.coverage)} of "
        f"the rows. At least {least} of such rows are right, with {sure} confidence."
    )


def as_gate(
    calibrator: Any, predictions: Predictions, target: Target, level: float
) -> SelectiveClassifier:
    """Return a classifier that acts as the threshold says."""
    result, column, accuracy = target.result, predictions.event, target.accuracy
    classes = np.asarray(calibrator.classes_)
    wanted = accuracy if column is None else {classes.tolist()[column]: accuracy}
    frozen = FrozenEstimator(calibrator)
    gate = SelectiveClassifier(frozen, accuracy=wanted, confidence_level=level)
    gate.thresholds_ = np.full(classes.size, result.threshold)
    if column is not None:
        gate.thresholds_[np.arange(classes.size) != column] = np.inf
        if result.threshold <= 0.5:
            raise ValueError(
                f"--save: the threshold, {target.text}, is not above 0.5, and a gate acts on the "
                "predicted class: pass a higher --accuracy"
            )
    gate.estimator_, gate.classes_ = calibrator, classes
    gate.coverage_, gate.accuracy_ = result.coverage, result.accuracy
    return gate
