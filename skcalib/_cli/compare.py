"""``skcalib compare``: every calibrator on rows it was not fitted on."""

from __future__ import annotations

import argparse
import shlex
import sys
import warnings
from html import escape
from typing import Any

import numpy as np

from skcalib._cli.decision_log import offered_in, one_label
from skcalib._cli.files import (
    KINDS,
    check_ending,
    columns_of,
    description,
    event_of,
    read,
    save,
    units_of,
)
from skcalib._cli.measured import by_group, measure_ece, summarize
from skcalib._cli.printed import WIDTH, Printed, as_json, flat_records, wrapped
from skcalib._cli.report import data_card, page_of_comparison, troubles, write_page
from skcalib._cli.saved_predictions import SavedPredictions, some_of
from skcalib._cli.sentences import confidence_of, confidence_sentence
from skcalib._comparison.compare import METRICS, compare_calibrators
from skcalib._comparison.comparison import CalibratorComparison, predictions_of, rows_of
from skcalib._comparison.held_out import HeldOutRows, takes_groups
from skcalib._comparison.tables import summary_table
from skcalib._validation.predictions import Predictions
from skcalib.metrics._printing import format_table
from skcalib.metrics._statistics.by_group import group_rows

LEGEND = """\
On rows not fitted on. Gain: of log loss over no calibration (identity), and its 95 % interval:
+ gain, - harm, no mark: may be chance. * debiased: the error minus what chance adds to it."""


def run_compare(args: argparse.Namespace) -> Printed:
    """Compare calibrators."""
    check_ending(args.report, (".html", ".htm"))
    check_ending(args.save, (".json",))
    saved = read(args)
    if args.report:  # its figures are of labels
        saved = one_label(saved, args.seed)
    rows = rows_to_compare(saved, args)
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
        **rows,
    )
    return printed(args, comparison, saved)


def printed(
    args: argparse.Namespace, comparison: CalibratorComparison, saved: SavedPredictions
) -> Printed:
    """Write the report and the calibrator that are wanted, and return what to print."""
    data, before = rows_of(comparison), predictions_of(comparison, comparison.frame.index[0])
    after, fitted, warned = fit_chosen(args, comparison)
    name = comparison.choice
    w, test = saved.weights, saved.test
    units = units_of(args, w if w is None or test is None else w[test], before)
    known = comparison.frame["warning"][name]
    notes = [f"{name}: {text}" for text in warned if text not in known]
    if after is not None:
        write_report(args, comparison, saved, (before, after), fitted, units)
        notes.append(f"report: {args.report}")
    if args.save:
        save(fitted, args.save)
        notes.append(f"calibrator ({name}): {args.save}")
    n_rows, where = len(before.code), measured_on(data)
    sure = confidence_of(before)
    if args.format == "json":
        record = {
            **description(saved, data.classes, data.event, n_rows),
            "scores": KINDS[data.kind],
            "measured_on": where,
            "weights": units.get("weights"),
            "clusters": data.n_clusters,
            "mean_score": sure.score,
            "share_of_hits": sure.hits,
            "choice": name,
            "verdict": comparison.verdict,
            "as_good": comparison.as_good,
            "calibrators": flat_records(comparison.frame.reset_index(names="calibrator")),
            "notes": notes,
        }
        return Printed(as_json(args, record))
    alone = (comparison.frame.index[0], "groupwise")  # threshold gives a calibrator no groups
    by = "" if name in alone else f" --calibrator {name}"
    what = f"{offered_in(saved, data.classes.size)}, {KINDS[data.kind]}"
    lines = [
        f"{args.file}: {what}; {n_rows:,} rows measured: {where}",
        columns_of(saved, data.classes, data.event),
        *(f"{name}: {text}" for name, text in units.items()),
        "",
        format_table(summary_table(comparison.frame), WIDTH),
        "",
        LEGEND,
        *map(wrapped, troubles(comparison.frame)),
        "",
        wrapped(confidence_sentence(sure)),
        wrapped(comparison.verdict),
        f"Above which probability to act: skcalib threshold {shlex.quote(args.file)}{by}",
        *notes,
    ]
    return Printed("\n".join(lines))


def rows_to_compare(saved: SavedPredictions, args: argparse.Namespace) -> dict[str, Any]:
    """Return the arguments of a comparison that are rows to calibrate or to measure on."""
    y, test = saved.labels, None
    assert y is not None
    known = y if saved.classes is None else saved.classes
    if y.size and (y == y[0]).all():
        raise ValueError(f"all rows have the label {y[0]!s}: to calibrate takes two at least")
    parts: list[Any] = [saved.scores, y, saved.weights, saved.groups, saved.clusters]
    if saved.test is not None:
        test = [None if part is None else part[saved.test] for part in parts]
        parts = [None if part is None else part[~saved.test] for part in parts]
    how = {"cv": args.cv, "test": test, "input": saved.input, "classes": saved.classes}
    names = ("X", "y", "sample_weight", "groups", "clusters")
    label = event_of(args.pos_label, known)
    return {**dict(zip(names, parts, strict=True)), **how, "pos_label": label}


def measured_on(data: HeldOutRows) -> str:
    """Say which rows were measured."""
    folds, within = len(data.splits), "" if data.groups is None else ", within groups"
    within = within if data.n_clusters is None else ", clusters whole"
    stratified = f"each in one of {folds} stratified folds{within}"
    return "the test split" if folds == 1 else stratified


def fit_chosen(
    args: argparse.Namespace, comparison: CalibratorComparison
) -> tuple[Predictions | None, Any, list[str]]:
    """Fit the calibrator of the verdict again, as far as a report or a saved file needs it.

    Returns its predictions of the measured rows, its fit on all calibration rows, and the texts of
    the warnings.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        after = predictions_of(comparison, comparison.choice) if args.report else None
        fitted = comparison.fit() if args.report or args.save else None
    texts = [" ".join(str(warning.message).split()) for warning in caught]
    return after, fitted, list(dict.fromkeys(texts))


def write_report(
    args: argparse.Namespace,
    comparison: CalibratorComparison,
    saved: SavedPredictions,
    both: tuple[Predictions, Predictions],
    fitted: Any,
    units: dict[str, str],
) -> None:
    """Write the page of a comparison; `both` are predictions of the identity and of the choice.

    `units` says what weights and clusters are.
    """
    import pandas as pd  # late: only reports need it

    data, name = rows_of(comparison), comparison.choice
    eces = [measure_ece(each, args.seed) for each in both]
    first = [summarize(each, [ece]) for each, ece in zip(both, eces, strict=True)]
    if name == comparison.frame.index[0]:
        first.pop()
    else:
        first[1] = f"Calibrated by {name}: {first[1][0].lower()}{first[1][1:]}"
    groups = []
    if data.groups is not None:
        rows = np.sort(np.concatenate([measured for _, measured in data.splits]))
        labels = pd.DataFrame(data.groups[rows], columns=list(args.groups))
        groups = [by_group(group_rows(each, labels, rows.size, None), args.seed) for each in both]
    card = data_card(args, saved, both[0], measured_on(data), units)
    use = how_to_use(args, comparison, fitted)
    sections = page_of_comparison(comparison, *both, eces, groups, use)
    write_page(args, first, card, sections, comparison.verdict)


def how_to_use(args: argparse.Namespace, comparison: CalibratorComparison, fitted: Any) -> str:
    """Return the HTML that says how to load and to apply the calibrator."""
    data = rows_of(comparison)
    path = args.save or "best.json"
    name, words = type(fitted).__name__, repr(fitted).partition("  # ")[2]
    use = f"{name}, fitted on all calibration rows: {words}."
    if comparison.choice == comparison.frame.index[0]:
        use = "The probabilities can stay as they are."
    if not args.save:
        use += f" To save it: skcalib compare {shlex.quote(args.file)} --save {path}"
    suffix = ".jsonl" if ".jsonl" in args.file else ".csv"
    inputs = KINDS[data.kind]
    one_column = fitted.n_features_in_ == 1
    inputs += ", one column" if one_column else f" of {some_of(data.classes.tolist())}"
    arguments, by = "scores", ""
    if takes_groups(fitted.predict_proba):
        inputs += f"\n# groups: {', '.join(args.groups)}"
        arguments, by = "scores, groups=groups", f" --groups {shlex.join(args.groups)}"
    code = (
        f"import skcalib\n\ncalibrator = skcalib.load_json({path!r})\n# scores: {inputs}\n"
        f"probabilities = calibrator.predict_proba({arguments})"
    )
    shell = f"skcalib apply {shlex.quote(path)} new{suffix} -o calibrated{suffix}{by}"
    return (
        f"<p>{escape(use)}</p>\n<p>In Python:</p>\n<pre>{escape(code)}</pre>\n"
        f"<p>In a shell:</p>\n<pre>{escape(shell)}</pre>"
    )
