"""The commands compare, example, measure and monitor."""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shlex
import sys
import warnings
from html import escape
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import softmax

from skcalib._cli.decision_log import QUESTION, draw_rater, options_of
from skcalib._cli.files import KINDS, check_ending, event_of, lines_of, read, save
from skcalib._cli.measured import (
    COLUMNS_OF_ERRORS,
    FEW,
    LEGEND_OF_EVENT,
    LEVEL,
    Printed,
    Rows,
    confidence_sentence,
    divergence,
    ece_of,
    find_metric,
    flat_records,
    format_output,
    held_out,
    measure,
    measure_by_group,
    rows_of_summary,
    summarize,
    where_in,
    wrapped,
)
from skcalib._cli.report import page_of_errors, troubles, write_comparison, write_page
from skcalib._cli.tables import ARRAYS, STREAM, SavedPredictions, ending, some_of
from skcalib._comparison.compare import OF_EVENT, compare_calibrators
from skcalib._comparison.comparison import CalibratorComparison, rows_of, summary_table
from skcalib._comparison.held_out import HeldOutRows, predict_held_out, takes_groups
from skcalib._monitor import CalibrationMonitor
from skcalib._storage.files import load_json
from skcalib._storage.writing import write_file
from skcalib.extending import ALL, LINE, OF_COUNTS, as_source, format_table, is_whole
from skcalib.metrics import calibration_by_label, calibration_summary

# The command ``skcalib compare``: measure calibrators on rows that they were not fitted on.


COMPARE_LEGEND = """\
Each calibrator is measured on rows that it was not fitted on. Gain: log loss without calibration
(identity) minus log loss with it, and its 95 % interval; + marks a significant gain, - a
significant loss. * marks debiased errors: the estimated small-sample bias is subtracted, and 0
means no more error than a calibrated model shows."""


def run_compare(args: argparse.Namespace) -> Printed:
    """Compare calibrators by cross-validation, and choose one."""
    check_ending(args.report, (".html", ".htm"))
    check_ending(args.save, (".json",))
    if sys.stderr.isatty():  # the cursor returns to the start: the bar replaces this text
        print(f"reading {args.file}", end="\r", file=sys.stderr, flush=True)  # noqa: T201
    saved = read(args)
    if args.report:  # reliability diagrams need one label per row
        saved = draw_rater(saved, args.seed)
    arguments = rows_to_compare(saved, args)
    if saved.records is not None:
        in_groups = [] if saved.groups is None else ["groupwise"]
        args.calibrators = args.calibrators or ["auto", "temperature", *in_groups]
        args.metrics = args.metrics or OF_EVENT  # the SCE needs class labels
    comparison = compare_calibrators(
        calibrators=args.calibrators,
        metrics=args.metrics,
        choose_by=args.choose_by,
        n_jobs=args.jobs,
        random_state=args.seed,
        **arguments,
    )
    data, frame, name = rows_of(comparison), comparison.frame, comparison.choice
    identity = frame.index[0]
    before = predictions_of(comparison, identity)
    rows = Rows(args, saved, before, data.kind, measured_on(data))
    # The recommended calibrator is fitted again only for a report or a saved file.
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        after = predictions_of(comparison, name) if args.report else None
        fitted = comparison.fit() if args.report or args.save else None
    texts = dict.fromkeys(" ".join(str(warning.message).split()) for warning in caught)
    new = [text for text in texts if text not in frame["warning"][name]]
    notes = [f"{name}: {text}" for text in new if not text.startswith(OF_COUNTS)]
    if after is not None:
        write_comparison(rows, comparison, after, how_to_use(args, comparison, fitted))
        notes.append(f"report: {args.report}")
    if args.save:
        save(fitted, args.save, args)
        notes.append(f"calibrator ({name}): {args.save}")
    record = {
        **rows.record(),
        "choice": name,
        "verdict": comparison.verdict,
        "as_good": comparison.as_good,
        "calibrators": flat_records(frame.reset_index(names="calibrator")),
        "notes": notes,
    }
    # The command ``skcalib threshold`` does not support calibrators that need groups.
    by = "" if name in (identity, "groupwise") else f" --calibrator {name}"
    act = f"To find a threshold: skcalib threshold {shlex.quote(args.file)}{by}"
    lines = [
        *rows.lines("" if len(data.splits) == 1 else f", {rows.where}"),
        "",
        format_table(summary_table(frame), LINE),
        "",
        COMPARE_LEGEND,
        *map(wrapped, troubles(frame)),
        "",
        wrapped(confidence_sentence(before)),
        wrapped(comparison.verdict),
        *([act] if is_whole(before.w) else []),  # the command threshold refuses relative weights
        *notes,
    ]
    return Printed(format_output(args, lines, record))


def predictions_of(comparison: CalibratorComparison, name: str) -> Any:
    """Fit a compared calibrator again, and return its predictions for the measured rows."""
    inputs = comparison._inputs
    return predict_held_out(inputs.calibrators[name], inputs.data)[0]


def rows_to_compare(saved: SavedPredictions, args: argparse.Namespace) -> dict[str, Any]:
    """Return the scores, labels and weights of a file as arguments of `compare_calibrators`."""
    y, test = saved.labels, None
    assert y is not None
    if y.size and (y == y[0]).all():
        raise ValueError(f"all rows have the label {y[0]!s}: calibration needs at least two labels")
    rows: dict[str, Any] = {"X": saved.scores, "y": y, "sample_weight": saved.weights}
    rows |= {"groups": saved.groups, "clusters": saved.clusters}
    if saved.test is not None:
        test = [saved.measured(part) for part in rows.values()]
        rows = {name: None if part is None else part[~saved.test] for name, part in rows.items()}
    label = event_of(args.pos_label, y if saved.classes is None else saved.classes)
    how = {"cv": args.cv, "input": saved.input, "classes": saved.classes, "pos_label": label}
    return {**rows, **how, "test": test}


def measured_on(data: HeldOutRows) -> str:
    """Describe in words which rows are measured: the test split, or all rows in folds."""
    folds, within = len(data.splits), "" if data.groups is None else ", within groups"
    within = within if data.n_clusters is None else ", clusters whole"
    stratified = f"each in one of {folds} stratified folds{within}"
    return "the test split" if folds == 1 else stratified


def how_to_use(args: argparse.Namespace, comparison: CalibratorComparison, fitted: Any) -> str:
    """Return HTML that explains how to load and apply the calibrator."""
    data = rows_of(comparison)
    path = args.save or "best.json"
    name, words = type(fitted).__name__, repr(fitted).partition("  # ")[2]
    use = escape(f"{name}, fitted on all calibration rows: {words}.")
    if comparison.choice == comparison.frame.index[0]:
        use = "The probabilities need no calibration."
    if not args.save:
        save = f"skcalib compare {shlex.quote(args.file)} --save {path}"
        use += f" To save it: <code>{escape(save)}</code>"
    suffix = ".jsonl" if ".jsonl" in args.file else ".csv"
    inputs = KINDS[data.kind]
    one_column = fitted.n_features_in_ == 1
    inputs += ", one column" if one_column else f" of {some_of(data.classes.tolist())}"
    arguments, by = "scores", ""
    if takes_groups(fitted.predict_proba):
        groups = args.groups or [QUESTION]
        inputs += f"\n# groups: {', '.join(groups)}"
        arguments, by = "scores, groups=groups", f" --groups {shlex.join(groups)}"
    code = (
        f"import skcalib\n\ncalibrator = skcalib.load_json({path!r})\n# scores: {inputs}\n"
        f"probabilities = calibrator.predict_proba({arguments})"
    )
    shell = f"skcalib apply {shlex.quote(path)} new{suffix} -o calibrated{suffix}{by}"
    return (
        f"<p>{use}</p>\n<p>In Python:</p>\n<pre>{escape(code)}</pre>\n"
        f"<p>In a shell:</p>\n<pre>{escape(shell)}</pre>"
    )


# The command ``skcalib example``: write predictions to try the other commands on.


def run_example(args: argparse.Namespace) -> Printed:
    """Write a file of predictions, or a log of decisions, to try the other commands on."""
    check_ending(args.file, (".csv", ".jsonl"))
    if Path(args.file).exists():
        raise ValueError(f"{args.file} already exists: pass the name of a new file")
    file = shlex.quote(args.file)
    if ending(args.file) == ".jsonl":
        lines = example_decisions()
        write_file(args.file, "".join(f"{json.dumps(line)}\n" for line in lines).encode())
        return Printed(
            f"{args.file}: {len(lines):,} decisions on two questions, with overconfident "
            "probabilities\n\n"
            f"skcalib measure {file}\n"
            f"skcalib threshold {file} --calibrator temperature --accuracy 0.9 --save accept.json\n"
            f"skcalib apply accept.json {file} -o accepted.jsonl"
        )
    # Importing scikit-learn's data sets and forests is slow, and no other command needs them.
    from sklearn.datasets import load_digits
    from sklearn.model_selection import cross_val_predict
    from sklearn.naive_bayes import ComplementNB

    # Naive Bayes is over-confident, and predicts some digits too often and others too seldom.
    X, y = load_digits(return_X_y=True)
    frame = pd.DataFrame(cross_val_predict(ComplementNB(), X, y, method="predict_proba"))
    frame.insert(0, "labels", y)
    write_file(args.file, frame.to_csv(index=False, float_format="%.6g").encode())
    return Printed(
        f"{args.file}: {len(frame):,} rows, 10 classes: cross-validated predictions of naive Bayes "
        "for handwritten digits\n\n"
        f"skcalib measure {file}\n"
        f"skcalib compare {file} --report report.html --save best.json"
    )


def example_decisions() -> list[dict[str, Any]]:
    """Return 2,000 decisions on two questions, with logits that are twice too large."""
    questions = {"team": ["billing", "sales", "support"], "urgent": ["no", "yes"]}
    rng, decisions = np.random.default_rng(0), []
    for i in range(2000):
        question, options = list(questions.items())[i % 2]
        z = 2 * rng.normal(size=len(options))
        label = options[rng.choice(len(options), p=softmax(z))]
        stated = dict(zip(options, softmax(2 * z).round(6).tolist(), strict=True))
        decision = {"id": i, "question": question, "probabilities": stated, "label": label}
        decisions.append(decision)
    return decisions


# The command ``skcalib measure``: measure metrics with their confidence intervals.


LEGEND = """\
'Debiased': the error minus its estimated small-sample bias. The interval is for the error with
unlimited data. 'If calibrated': the mean error that a calibrated model shows on these rows, which
is above 0. The p-value tests whether every probability is right."""
ALL_METRICS = "--all measures every metric of the package."
# Options of ``measure`` that --multilabel does not have.
NOT_OF_LABELS = ("report", "fail_above", "groups", "scores", "id", "labels", "pos_label", "all")


def run_measure(args: argparse.Namespace) -> Printed:
    """Measure calibration errors, losses and their intervals."""
    if args.multilabel:
        return measure_labels(args)
    check_ending(args.report, (".html", ".htm"))
    saved = read(args)
    drawn = draw_rater(saved, args.seed)
    rows, _ = held_out(args, drawn)
    predictions = rows.predictions
    if predictions.event is not None:  # so that metrics measure the event, not the top label
        predictions = predictions._replace(event_by="pos_label")
    of_raters = predictions if drawn is saved else held_out(args, saved)[0].predictions
    if len(predictions.code) < 2:
        raise ValueError(
            f"{len(predictions.code)} row to measure: intervals need at least two rows"
        )
    of_options, table = saved.records is not None, None
    if predictions.event is None or of_raters.are_shares or args.all:
        names = None if args.all else FEW
        measured = measure(predictions, of_raters, args.seed, of_options, names)
    else:
        data: Any = predictions  # metrics accept a `Predictions` object in place of labels
        table = calibration_summary(data, data, random_state=args.seed)
        measured = rows_of_summary(table.frame)
    summary = summarize(predictions, measured)
    code, failure = 0, ""
    if args.fail_above is not None:
        name, most = args.fail_above
        row = ece_of(measured) if name is None else find_metric(measured, name)
        if row is None:  # the metric is not among the printed metrics
            more = measure(predictions, of_raters, args.seed, of_options, [name])
            row = find_metric(more, name)
        if row is None:
            raise ValueError(
                f"--fail-above {name}: a log of decisions has no class labels: use "
                "expected_calibration_error or ks_calibration_error"
            )
        value, what = row.debiased, f"debiased {row.metric}"
        if np.isnan(value):
            value, what = row.value, row.metric
        if value > most:
            code, failure = 1, f"{what} is {value:.4f}: above the limit {most:g} of --fail-above"
    groups = measure_by_group(rows)
    if args.report:
        write_page(rows, [summary], page_of_errors(predictions, measured, groups, table))
    if ece_of(measured).p_value <= LEVEL:
        summary += " `compare` recommends a calibrator."
    record = {
        **rows.record(),
        "summary": summary,
        "metrics": [row._asdict() for row in measured],
        "groups": [] if groups is None else records_of(groups),
    }
    lines = [
        *rows.lines(),
        *([divergence(measured[0].value, of_raters)] if of_raters.are_shares else []),
        "",
        wrapped(summary),
        "",
        format_table([COLUMNS_OF_ERRORS, *(row.cells() for row in measured)])
        if table is None
        else repr(table),
        "",
        LEGEND if table is None else LEGEND_OF_EVENT,
        *([] if args.all else ["", ALL_METRICS]),
        *([] if groups is None else ["", repr(groups)]),
        *([f"report: {args.report}"] if args.report else []),
    ]
    return Printed(format_output(args, lines, record), failure, code)


def measure_labels(args: argparse.Namespace) -> Printed:
    """Measure the calibration of each label, if a row can have several labels."""
    if other := [name for name in NOT_OF_LABELS if getattr(args, name)]:
        option = other[0].replace("_", "-")
        raise ValueError(f"--{option} is not available with --multilabel: leave it out")
    if ending(args.file) in ARRAYS:
        raise ValueError("--multilabel needs a table with names of columns, such as .csv")
    saved = read(args)
    y, P, w, clusters = map(
        saved.measured, (saved.labels, saved.scores, saved.weights, saved.clusters)
    )
    found = calibration_by_label(y, P, sample_weight=w, clusters=clusters, random_state=args.seed)
    names, not_used = saved.columns or [], some_of(saved.unused)
    texts = {"columns": some_of(names)} | ({"not used": not_used} if not_used else {})
    where = where_in(saved)
    first = f"{args.file}: {len(y):,} rows, {len(names)} labels, measured on {where}"
    record = {"rows": len(y), "measured_on": where, "summary": found.verdict}
    record |= {"macro": found.macro, "groups": records_of(found)}
    return Printed(format_output(args, [first, *lines_of(texts), "", repr(found)], record))


def records_of(groups: Any) -> list[dict[str, Any]]:
    """Return the JSON entries of each group: what defines the group, and its metrics."""
    labels = groups.frame.index.to_frame(index=False).to_dict("records")
    rows = zip(labels, flat_records(groups.frame), strict=True)
    return [{"group": label, **row} for label, row in rows]


# The command ``skcalib monitor``: add a batch of labels, and test the calibration.


# Command-line options of a monitor, which are also stored in its state file.
OPTIONS = ("alpha", "period", "tolerance")
# Advice at the end of error messages about a label that the state file does not contain.
NEW_STATE = "or start a new state file"
# Attributes of a monitor in the JSON output.
SHOWN = ("alarm", "e_value", "where", "since", "advice", "shift")


def run_monitor(args: argparse.Namespace) -> Printed:
    """Add a batch of labels, and report whether the probabilities are still calibrated."""
    if args.file == STREAM:
        raise ValueError("monitor does not read standard input: pass a file, not -")
    check_ending(args.state, (ending(args.state),))
    saved = read(args)
    assert saved.labels is not None
    if saved.weights is not None:
        raise ValueError("monitor does not support weights: remove them, or write copies of rows")
    # The operating system releases the lock if the process is killed. The empty lock file is not
    # deleted.
    with open(f"{os.path.realpath(args.state)}.lock", "ab") as lock:
        wait_for(lock)
        monitor, rows = count(args, saved)
        save(monitor, args.state)
    words, n_updates = monitor.in_words(), monitor.n_updates_
    record = {
        **rows.record(),
        "update": n_updates,
        **{name: getattr(monitor, f"{name}_") for name in SHOWN},
        "summary": words,
    }
    first = f"{args.file}: update {n_updates:,}, {len(rows.predictions.code):,} rows: {words}"
    lines = [first, *lines_of(rows.texts())]
    return Printed(format_output(args, lines, record), code=int(monitor.alarm_))


def wait_for(lock: BinaryIO) -> None:
    """Wait until no other process has locked a file, and lock it; wait 10 s at most on Windows."""
    if sys.platform == "win32":
        import msvcrt

        msvcrt.locking(lock.fileno(), msvcrt.LK_LOCK, 1)
    else:
        import fcntl

        fcntl.flock(lock, fcntl.LOCK_EX)


def count(args: argparse.Namespace, saved: SavedPredictions) -> tuple[CalibrationMonitor, Rows]:
    """Update the monitor of the state file, or a new monitor, with the rows of a file."""
    options = {name: value for name in OPTIONS if (value := getattr(args, name)) is not None}
    monitor, label, known = CalibrationMonitor(**options), args.pos_label, {}
    if is_old := Path(args.state).exists():
        monitor, args.pos_label = load_monitor(args.state, options), None
        known = {"classes": monitor.classes_, "pos_label": monitor.pos_label}
    digest = hashlib.sha256(Path(args.file).read_bytes()).hexdigest()
    files = getattr(monitor, "_files", [])
    if digest in files:
        raise ValueError(
            f"the rows of this file are already in {args.state}, as update "
            f"{files.index(digest) + 1}: pass a file with new rows"
        )
    if saved.records is not None and is_old:
        saved = add_options(saved, monitor.classes_, args.state)
    try:
        rows, _ = held_out(args, saved, **known)
    except ValueError as error:
        way = "add it to classes, or give the row weight 0", f"remove the row, {NEW_STATE}"
        raise ValueError(str(error).replace(*way)) from None
    predictions, classes = rows.predictions, rows.predictions.classes
    event = None if predictions.event is None else classes.tolist()[predictions.event]
    if is_old and label not in (None, str(event)):
        raise ValueError(
            f"--pos-label {label}: the event of {args.state} is {event}: leave out --pos-label, "
            f"{NEW_STATE}"
        )
    monitor.labels, monitor.pos_label = classes, event
    # The monitor gets the probabilities as they are in the file, not divided by the sum of their
    # row. NaN marks a class that is not available in a row.
    P, scores = predictions.P.read(ALL), saved.measured(saved.scores)
    if saved.records is not None:
        offered = [options_of(record) for record in saved.records]
        P = saved.measured(pd.DataFrame(offered, columns=saved.columns, dtype=float).to_numpy())
    elif rows.kind == "proba" and scores.ndim == 2 and scores.shape[1] > 1:
        P = P * np.nansum(scores, axis=1, keepdims=True, dtype=float)
    batch: Any = predictions._replace(P=as_source(P))  # the batch contains labels and probabilities
    monitor.update(batch, batch, groups=saved.measured(saved.groups))
    monitor._files = [*files, digest]
    return monitor, rows


def add_options(saved: SavedPredictions, known: NDArray[Any], state: str) -> SavedPredictions:
    """Add columns to a decision log, so that it has a column for each option of a monitor."""
    columns, labels = known.tolist(), saved.labels
    if new := set(saved.columns or ()).difference(columns):
        raise ValueError(f"option {min(new)!r} is not in {state}: remove its lines, {NEW_STATE}")

    def fill_columns(values: NDArray[Any], absent: float) -> NDArray[Any]:
        frame = pd.DataFrame(values, columns=saved.columns)
        return frame.reindex(columns=columns, fill_value=absent).to_numpy()

    if labels is not None and labels.ndim > 1:
        labels = fill_columns(labels, 0.0)
    scores = fill_columns(saved.scores, np.nan)
    return saved._replace(scores=scores, labels=labels, classes=known, columns=columns)


def load_monitor(path: str, options: dict[str, float]) -> CalibrationMonitor:
    """Load a monitor from its state file, and raise an error if options differ."""
    monitor = load_json(path)
    if not isinstance(monitor, CalibrationMonitor):
        raise ValueError(
            f"{path} is a calibrator, not the state of a monitor: pass the file that monitor wrote"
        )
    for name, value in options.items():
        before = getattr(monitor, name)
        if value != before:
            raise ValueError(
                f"--{name} {value:g}: {path} was started with {before:g}: leave out --{name}, "
                f"{NEW_STATE}"
            )
    return monitor
