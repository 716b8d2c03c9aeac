"""``skcalib measure``: every error with its interval."""

from __future__ import annotations

import argparse
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
    units_of,
)
from skcalib._cli.measured import (
    COLUMNS_OF_ERRORS,
    LEVEL,
    by_group,
    divergence,
    measure_all,
    summarize,
)
from skcalib._cli.printed import Printed, as_json, flat_records, wrapped
from skcalib._cli.report import data_card, page_of_errors, write_page
from skcalib._cli.sentences import confidence_of
from skcalib._comparison.held_out import fit_rows, read_rows
from skcalib._validation.predictions import check_predictions
from skcalib.calibrators import IdentityCalibrator
from skcalib.metrics._printing import format_table
from skcalib.metrics._statistics.by_group import group_rows

LEGEND = """\
'Debiased': the error with the bias of a small sample removed; the interval is for the
error you would see with unlimited data. 'If calibrated': what these rows would show on average if
every probability were right, which is not 0; the p-value tests that."""


def run_measure(args: argparse.Namespace) -> Printed:
    """Measure every error."""
    check_ending(args.report, (".html", ".htm"))
    saved = read(args)
    shares, saved = saved.labels, one_label(saved, args.seed)
    X, y = saved.scores, saved.labels
    assert y is not None
    assert shares is not None
    data = read_rows(
        X, y, None, input=saved.input, classes=saved.classes, pos_label=event_of(args.pos_label, y)
    )
    rows = slice(None) if saved.test is None else np.flatnonzero(saved.test)
    classes, event = data.classes, data.event
    pos_label = None if event is None else classes.tolist()[event]
    P = fit_rows(IdentityCalibrator(), data).predict_proba(data.scores.read(rows))
    w = None if saved.weights is None else saved.weights[rows]
    clusters = None if saved.clusters is None else saved.clusters[rows]
    given = P, w, classes, pos_label
    predictions = of_raters = check_predictions(y[rows], *given, clusters=clusters)
    if shares is not y:
        of_raters = check_predictions(shares[rows], *given, soft=True)
    n, n_classes = predictions.P.shape
    if n < 2:
        raise ValueError(f"{n} row to measure: intervals take two at least")
    measured = measure_all(predictions, of_raters, w, args.seed, saved.records is not None)
    summary = summarize(predictions, measured)
    where = "all rows" if saved.test is None else "the test split"
    code, failure = 0, ""
    if args.fail_above is not None:
        name, most = args.fail_above
        value = next(row for row in measured if row.metric == name).unbiased()
        if value > most:
            code, failure = 1, f"{name}, less what chance adds, is {value:.4f}: above {most:g}"
    which = "" if saved.test is None else " of the test split"
    units = units_of(args, w, predictions)
    groups = None if saved.groups is None else saved.groups.iloc[rows]
    if groups is not None:
        groups = by_group(group_rows(predictions, groups, len(groups), w), args.seed)
    if args.report:
        card = data_card(args, saved, predictions, where, units)
        write_page(args, [summary], card, page_of_errors(predictions, measured, groups))
    ece = next(row for row in measured if row.metric == "expected_calibration_error")
    if ece.p_value <= LEVEL:
        summary += " `compare` finds a calibrator."
    if args.format == "json":
        sure = confidence_of(predictions)
        record = {
            **description(saved, classes, event, n),
            "scores": KINDS[data.kind],
            "measured_on": where,
            "weights": units.get("weights"),
            "clusters": predictions.n_clusters,
            "mean_score": sure.score,
            "share_of_hits": sure.hits,
            "summary": summary,
            "metrics": [row._asdict() for row in measured],
            "groups": [] if groups is None else records_of(groups),
        }
        return Printed(as_json(args, record), failure, code)
    lines = [
        f"{args.file}: {n:,} rows{which}, {offered_in(saved, n_classes)}, {KINDS[data.kind]}",
        columns_of(saved, classes, event),
        *(f"{name}: {text}" for name, text in units.items()),
        *([divergence(measured[0].value, of_raters)] if of_raters.are_shares else []),
        "",
        format_table([COLUMNS_OF_ERRORS, *(row.cells() for row in measured)]),
        "",
        LEGEND,
        *([] if groups is None else ["", repr(groups)]),
        "",
        wrapped(summary),
        *([f"report: {args.report}"] if args.report else []),
    ]
    return Printed("\n".join(lines), failure, code)


def records_of(groups: Any) -> list[dict[str, Any]]:
    """Return a record for each group, with names of one level."""
    frame = groups.frame
    labels = [
        dict(zip(frame.index.names, label if isinstance(label, tuple) else (label,), strict=True))
        for label in frame.index
    ]
    rows = zip(labels, flat_records(frame), strict=True)
    return [{"group": label, **row} for label, row in rows]
