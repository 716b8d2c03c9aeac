"""``skcalib compare``: every calibrator on rows it was not fitted on."""

from __future__ import annotations

import argparse
import shlex
import sys
import warnings
from html import escape
from typing import Any

from skcalib._cli.decision_log import QUESTION, one_label
from skcalib._cli.files import KINDS, check_ending, event_of, read, save
from skcalib._cli.measured import Rows
from skcalib._cli.printed import Printed, confidence_sentence, flat_records, in_format, wrapped
from skcalib._cli.report import troubles, write_comparison
from skcalib._cli.saved_predictions import SavedPredictions, some_of
from skcalib._comparison.compare import METRICS, compare_calibrators
from skcalib._comparison.comparison import CalibratorComparison, predictions_of, rows_of
from skcalib._comparison.held_out import HeldOutRows, takes_groups
from skcalib._comparison.tables import summary_table
from skcalib._validation.weights import OF_COUNTS, is_whole
from skcalib.metrics._printing import LINE, format_table

LEGEND = """\
Measured on rows that were not fitted on. Gain: log loss without calibration (identity) minus log
loss with it, and its 95 % interval; + marks a significant gain, - a significant loss. * marks
debiased errors, without the bias of a small sample: 0 means no more error than chance gives."""


def run_compare(args: argparse.Namespace) -> Printed:
    """Compare calibrators by cross-validation, and choose one."""
    check_ending(args.report, (".html", ".htm"))
    check_ending(args.save, (".json",))
    saved = read(args)
    if args.report:  # its figures are of labels
        saved = one_label(saved, args.seed)
    given = rows_to_compare(saved, args)
    if saved.records is not None:
        in_groups = [] if saved.groups is None else ["groupwise"]
        args.calibrators = args.calibrators or ["auto", "temperature", *in_groups]
        if tuple(args.metrics) == METRICS:  # options are no classes
            args.metrics.remove("static_calibration_error")
    comparison = compare_calibrators(
        calibrators=args.calibrators,
        metrics=args.metrics,
        choose_by=args.choose_by,
        n_jobs=args.jobs,
        random_state=args.seed,
        verbose=int(sys.stderr.isatty()),
        **given,
    )
    data, frame, name = rows_of(comparison), comparison.frame, comparison.choice
    identity = frame.index[0]
    before = predictions_of(comparison, identity)
    rows = Rows(args, saved, before, data.kind, measured_on(data))
    # The calibrator of the verdict is fitted again, as far as a report or a saved file needs it.
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
    # threshold gives a calibrator no groups
    by = "" if name in (identity, "groupwise") else f" --calibrator {name}"
    act = f"Above which probability to act: skcalib threshold {shlex.quote(args.file)}{by}"
    lines = [
        *rows.lines("" if len(data.splits) == 1 else f", {rows.where}"),
        "",
        format_table(summary_table(frame), LINE),
        "",
        LEGEND,
        *map(wrapped, troubles(frame)),
        "",
        wrapped(confidence_sentence(before)),
        wrapped(comparison.verdict),
        *([act] if is_whole(before.w) else []),  # relative weights have no threshold
        *notes,
    ]
    return Printed(in_format(args, lines, record))


def rows_to_compare(saved: SavedPredictions, args: argparse.Namespace) -> dict[str, Any]:
    """Return the arguments of a comparison that are rows to calibrate or to measure on."""
    y, test = saved.labels, None
    assert y is not None
    if y.size and (y == y[0]).all():
        raise ValueError(f"all rows have the label {y[0]!s}: to calibrate takes two at least")
    rows: dict[str, Any] = {"X": saved.scores, "y": y, "sample_weight": saved.weights}
    rows |= {"groups": saved.groups, "clusters": saved.clusters}
    if saved.test is not None:
        test = [saved.measured(part) for part in rows.values()]
        rows = {name: None if part is None else part[~saved.test] for name, part in rows.items()}
    label = event_of(args.pos_label, y if saved.classes is None else saved.classes)
    how = {"cv": args.cv, "input": saved.input, "classes": saved.classes, "pos_label": label}
    return {**rows, **how, "test": test}


def measured_on(data: HeldOutRows) -> str:
    """Say which rows were measured."""
    folds, within = len(data.splits), "" if data.groups is None else ", within groups"
    within = within if data.n_clusters is None else ", clusters whole"
    stratified = f"each in one of {folds} stratified folds{within}"
    return "the test split" if folds == 1 else stratified


def how_to_use(args: argparse.Namespace, comparison: CalibratorComparison, fitted: Any) -> str:
    """Return the HTML that says how to load and to apply the calibrator."""
    data = rows_of(comparison)
    path = args.save or "best.json"
    name, words = type(fitted).__name__, repr(fitted).partition("  # ")[2]
    use = escape(f"{name}, fitted on all calibration rows: {words}.")
    if comparison.choice == comparison.frame.index[0]:
        use = "The probabilities can stay as they are."
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
