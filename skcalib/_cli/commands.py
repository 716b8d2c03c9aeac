"""``python -m skcalib``, on saved predictions: compare, measure, apply."""

from __future__ import annotations

import argparse
import re
import sys
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from numpy.typing import NDArray

from skcalib._arrays.source import whole
from skcalib._cli.arguments import make_parser
from skcalib._cli.files import (
    KINDS,
    check_ending,
    columns_of,
    event_of,
    load,
    places,
    read,
    save,
)
from skcalib._cli.report import report_html, troubles
from skcalib._cli.saved_predictions import SavedPredictions, write_predictions
from skcalib._comparison.compare import compare_calibrators
from skcalib._comparison.comparison import CalibratorComparison, predictions_of, rows_of
from skcalib._comparison.gains import affordable_resamples
from skcalib._comparison.held_out import HeldOutRows, fit_calibrator, read_rows
from skcalib._comparison.measures import ROW_LOSSES
from skcalib._comparison.row_losses import hall_interval
from skcalib._comparison.tables import summary_table
from skcalib._scores.top_label import top_label
from skcalib._validation.event import read_event
from skcalib._validation.predictions import Predictions, check_predictions
from skcalib._validation.scores import two_columns
from skcalib.calibrators import IdentityCalibrator
from skcalib.metrics import SCORERS, bootstrap_interval, calibration_by_group
from skcalib.metrics._interval.intervals import ALL_SETS, NULL_SETS, intervals_of
from skcalib.metrics._one_line import shown as shown_number
from skcalib.metrics._printed_table import in_columns
from skcalib.metrics._resampling import Evaluation

# Arguments that the library's messages name, and what stands for them on the command line.
ARGUMENTS = {
    r"\b(test )?(?:X|y_proba)(?=:| is| has| contains)": r"the \1table of scores",
    r"\b(test )?(?:y|y_true)(?=:| has| contains| mixes| should)": r"the \1column of labels",
    r"\bclasses= with": "an array 'classes' (.npz) or names of columns (.csv, .parquet) with",
    r"\bpos_label=": "--pos-label=",
    r"\b(input|cv)=": r"--\1=",
}


def run_compare(args: argparse.Namespace) -> str:
    """Compare calibrators; return what to print."""
    check_ending(args.report, (".html", ".htm"))
    check_ending(args.save, (".json",))
    found = read(args)
    X, y, rows = rows_to_compare(found, args)
    comparison = compare_calibrators(
        X,
        y,
        args.calibrators,
        metrics=args.metrics,
        choose_by=args.choose_by,
        n_jobs=args.jobs,
        verbose=1 if sys.stderr.isatty() else 0,
        random_state=args.seed,
        **rows,
    )
    data, before = rows_of(comparison), predictions_of(comparison, comparison.frame.index[0])
    lines = [
        describe(args.file, data, before),
        columns_of(found, data.classes, data.event),
        "",
        in_columns(summary_table(comparison.frame)),
        "",
        "Of rows not fitted on. Gain: in log loss, over no calibration, and its 95 % interval:",
        "+ a gain, - a harm, neither: may be chance. Debiased: less what chance adds to the error.",
        *troubles(comparison.frame),
        "",
        comparison.verdict,
    ]
    after, fitted, warned = fit_chosen(args, comparison)
    name = comparison.choice
    known = comparison.frame["warning"][name]
    lines += [f"{name}: {text}" for text in warned if text not in known]
    if after is not None:
        write_report(args, comparison, before, after)
        lines.append(f"report: {args.report}")
    if fitted is not None:
        save(fitted, args.save)
        lines.append(f"calibrator ({name}): {args.save}")
    return "\n".join(lines)


def rows_to_compare(
    found: SavedPredictions, args: argparse.Namespace
) -> tuple[NDArray[Any], NDArray[Any], dict[str, Any]]:
    """Return the scores and labels to calibrate on, and keywords with those to measure on."""
    X, y, test = found.scores, found.labels, found.test
    assert y is not None
    if y.size and (y == y[0]).all():
        raise ValueError(f"all rows have the label {y[0]!s}: to calibrate takes two at least")
    rows: dict[str, Any] = {
        "cv": args.cv,
        "test": None,
        "input": found.input,
        "classes": found.classes,
        "pos_label": event_of(args.pos_label, y),
    }
    if test is not None:
        X, y, rows["test"] = X[~test], y[~test], (X[test], y[test])
    return X, y, rows


def describe(file: str, data: HeldOutRows, before: Predictions) -> str:
    """Say in a line what was measured, and how right and how sure the model is."""
    score, predicted = top_label(before.P)
    confidence = float(score.mean(dtype=np.float64))
    accuracy = float((predicted == before.code).mean())
    folds = len(data.splits)
    how = "those of the test split" if folds == 1 else f"each in one of {folds} folds"
    return (
        f"{file}: {data.classes.size} classes, {KINDS[data.kind]}; {before.code.size:,} rows "
        f"measured, {how}; accuracy {accuracy:.1%}, mean confidence {confidence:.1%}"
    )


def fit_chosen(
    args: argparse.Namespace, comparison: CalibratorComparison
) -> tuple[Predictions | None, Any, list[str]]:
    """Fit the calibrator of the verdict again, as far as a report or a saved file needs it.

    Returns its predictions of the measured rows, its fit on all calibration rows, and the texts of
    the warnings.
    """
    after, fitted = None, None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if args.report:
            after = predictions_of(comparison, comparison.choice)
        if args.save:
            fitted = comparison.fit()
    texts = [" ".join(str(warning.message).split()) for warning in caught]
    return after, fitted, list(dict.fromkeys(texts))


def write_report(
    args: argparse.Namespace,
    comparison: CalibratorComparison,
    before: Predictions,
    after: Predictions,
) -> None:
    """Write the page of a comparison."""
    data = rows_of(comparison)
    folds = len(data.splits)
    how = "those of the test split" if folds == 1 else f"{folds} stratified folds"
    settings = {
        "file": args.file,
        "rows": f"{data.code.size:,}",
        "classes": data.classes.size,
        "scores": KINDS[data.kind],
        "measured on": f"{before.code.size:,} rows, {how}",
        "metrics": ", ".join(args.metrics),
        "chosen by": args.choose_by,
        "seed": args.seed,
    }
    title = f"Calibration of {Path(args.file).name}"
    page = report_html(title, comparison, before, after, settings)
    Path(args.report).write_text(page, encoding="utf-8")


def run_measure(args: argparse.Namespace) -> str:
    """Measure every error; return what to print."""
    found = read(args)
    X, y = found.scores, found.labels
    assert y is not None
    data = read_rows(
        X, y, None, input=found.input, classes=found.classes, pos_label=event_of(args.pos_label, y)
    )
    rows = slice(None) if found.test is None else np.flatnonzero(found.test)
    classes, event = data.classes, data.event
    pos_label = None if event is None else classes.tolist()[event]
    P = fit_calibrator(IdentityCalibrator(), data).predict_proba(data.scores.read(rows))
    predictions = check_predictions(y[rows], P, None, classes, pos_label)
    n, n_classes = predictions.P.shape
    table = [["metric", "value", "debiased", "95 % interval", "if calibrated", "p-value"]]
    for name, loss in ROW_LOSSES.items():
        losses = loss.losses(predictions)
        low, high = hall_interval(losses.losses, predictions.w, losses.pseudo_error, 0.95)
        value = losses.mean(predictions.w)
        table.append([name, f"{value:.4f}", "", f"[{low:.4f}, {high:.4f}]", "", ""])
    # General calibration error is, at its defaults, ECE.
    names = [name for name in SCORERS if name != "neg_general_calibration_error"]
    metrics = [SCORERS[name]._score_func for name in names]
    evaluations = [Evaluation(metric, {}, event is not None) for metric in metrics]
    errors = [evaluate for evaluate in evaluations if evaluate.is_error]
    with drawing(sys.stderr if sys.stderr.isatty() else None) as report:
        intervals = iter(intervals_of(errors, predictions, random_state=args.seed, report=report))
    for name, evaluate in zip(names, evaluations, strict=True):
        others = ["", "", ""]
        if evaluate.is_error:
            ends: Any = next(intervals)
            others = [
                f"{ends.debiased:.4f}",
                f"{ends.expected_if_calibrated:.4f}",
                shown_number(ends.p_value, 1 / (1 + NULL_SETS)).removeprefix("="),
            ]
        else:
            ends = bootstrap_interval(
                evaluate.metric,
                y[rows],
                P,
                n_resamples=affordable_resamples(n, n_classes),
                random_state=args.seed,
                labels=classes,
                pos_label=pos_label,
            )
        interval = f"[{ends.low:.4f}, {ends.high:.4f}]"
        table.append(
            [name.removeprefix("neg_"), f"{ends.estimate:.4f}", others[0], interval, *others[1:]]
        )
    which = "" if found.test is None else " of the test split"
    return "\n".join(
        [
            f"{args.file}: {n:,} rows{which}, {n_classes} classes, {KINDS[data.kind]}",
            columns_of(found, classes, event),
            "",
            in_columns(table),
            "",
            "'Debiased': the value less what chance adds to it; the interval is of the value that",
            "very many rows would give. 'If calibrated': what these rows would show on average if",
            "every probability were right, which is not 0; the p-value tests that.",
            *by_group(found.groups, rows, predictions, args.seed),
        ]
    )


def by_group(
    groups: Any, rows: slice | NDArray[np.intp], predictions: Predictions, seed: int
) -> list[str]:
    """Return the lines about groups of rows, none if there are no groups."""
    if groups is None:
        return []
    P, code, _, classes, event = predictions
    pos_label = None if event is None else classes.tolist()[event]
    found = calibration_by_group(
        classes[code],
        whole(P),
        groups.iloc[rows],
        labels=classes,
        pos_label=pos_label,
        random_state=seed,
    )
    return ["", repr(found)]


@contextmanager
def drawing(stream: TextIO | None) -> Iterator[Callable[[int], None]]:
    """Show how many sets of labels are drawn, in a line of a terminal that ends as it began."""
    drawn = 0

    def report(sets: int) -> None:
        nonlocal drawn
        drawn += sets
        if stream is not None:
            stream.write(f"\r{drawn:,} of about {ALL_SETS:,} sets of labels")
            stream.flush()

    try:
        yield report
    finally:
        if stream is not None:
            stream.write("\r\033[K")


def run_apply(args: argparse.Namespace) -> str:
    """Calibrate the scores of a file; return what to print."""
    check_ending(args.output, (".npz", ".csv", ".parquet"))
    calibrator = load(args.calibrator)
    classes = np.asarray(calibrator.classes_)
    found = read(args, classes)
    # In two dimensions, so that a wrong number of columns is said as such.
    X = found.scores.reshape(len(found.scores), -1)
    if found.classes is not None and X.shape[1] > 1:
        X = X[:, places(classes, found.classes)]
    event = None
    if X.shape[1] == 1 and classes.size == 2:
        pos_label = event_of(args.pos_label, classes)
        event = read_event(classes, classes, pos_label, name="y", X="X").column
        if calibrator.n_features_in_ == 2:
            pair = two_columns(X, calibrator.input_)
            X = pair if event == 1 else pair[:, ::-1]
        elif event == 0:
            raise ValueError(
                f"--pos-label {args.pos_label}: the calibrator was fitted on one column, the score "
                f"of {classes[1]}"
            )
    P = calibrator.predict_proba(X)
    write_predictions(args.output, P, classes, found)
    return (
        f"{args.output}: {P.shape[0]:,} rows, {P.shape[1]} classes, calibrated probabilities\n"
        + columns_of(found, classes, event)
    )


def in_options(message: str) -> str:
    """Write a message of the library with options in the place of arguments."""
    for argument, meant in ARGUMENTS.items():
        message = re.sub(argument, meant, message)
    return message


def written(args: argparse.Namespace) -> list[str]:
    """Return the other files that a command names, each to be named by what is wrong with it."""
    names = ("report", "save", "output", "calibrator")
    return [path for name in names if (path := getattr(args, name, None))]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; 0 if it worked, 2 and a line on stderr if not."""
    args = make_parser().parse_args(arguments)
    run = {"compare": run_compare, "measure": run_measure, "apply": run_apply}[args.command]
    try:
        printed = run(args)
    except (OSError, ValueError, TypeError, ImportError, zipfile.BadZipFile, zlib.error) as error:
        where = getattr(error, "filename", None) or args.file
        reason = getattr(error, "strerror", None) or in_options(str(error))
        named = [p for p in (args.file, *written(args)) if reason.startswith(p)]
        text = " ".join((reason if named else f"{where}: {reason}").split())
        sys.stderr.write(f"python -m skcalib {args.command}: error: {text}\n")
        return 2
    sys.stdout.write(printed + "\n")
    return 0
