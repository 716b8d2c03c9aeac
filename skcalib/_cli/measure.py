"""``skcalib measure``: every error with its interval."""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

from skcalib._cli.decision_log import one_label
from skcalib._cli.files import check_ending, read
from skcalib._cli.measured import (
    COLUMNS_OF_ERRORS,
    LEVEL,
    by_group,
    divergence,
    held_out,
    measure_all,
    summarize,
)
from skcalib._cli.printed import Printed, flat_records, in_format, wrapped
from skcalib._cli.report import page_of_errors, write_page
from skcalib.metrics._printing import format_table

LEGEND = """\
'Debiased': the error with the bias of a small sample removed; the interval is for the
error you would see with unlimited data. 'If calibrated': what these rows would show on average if
every probability were right, which is not 0; the p-value tests that."""


def run_measure(args: argparse.Namespace) -> Printed:
    """Measure calibration errors and intervals."""
    check_ending(args.report, (".html", ".htm"))
    saved = read(args)
    drawn = one_label(saved, args.seed)
    rows, _ = held_out(args, drawn)
    predictions = rows.predictions
    if predictions.event is not None:  # two columns are one event for every metric
        predictions = predictions._replace(event_by="pos_label")
    of_raters = predictions if drawn is saved else held_out(args, saved)[0].predictions
    if len(predictions.code) < 2:
        raise ValueError(f"{len(predictions.code)} row to measure: intervals take two at least")
    measured = measure_all(predictions, of_raters, args.seed, saved.records is not None)
    named = {row.metric: row for row in measured}
    summary = summarize(predictions, measured)
    code, failure = 0, ""
    if args.fail_above is not None:
        name, most = args.fail_above
        value = named[name].value if np.isnan(named[name].debiased) else named[name].debiased
        if value > most:
            code, failure = 1, f"{name}, less what chance adds, is {value:.4f}: above {most:g}"
    groups = by_group(rows)
    if args.report:
        write_page(rows, [summary], page_of_errors(predictions, measured, groups))
    if named["expected_calibration_error"].p_value <= LEVEL:
        summary += " `compare` finds a calibrator."
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
        format_table([COLUMNS_OF_ERRORS, *(row.cells() for row in measured)]),
        "",
        LEGEND,
        *([] if groups is None else ["", repr(groups)]),
        "",
        wrapped(summary),
        *([f"report: {args.report}"] if args.report else []),
    ]
    return Printed(in_format(args, lines, record), failure, code)


def records_of(groups: Any) -> list[dict[str, Any]]:
    """Return a record for each group, with names of one level."""
    labels = groups.frame.index.to_frame(index=False).to_dict("records")
    rows = zip(labels, flat_records(groups.frame), strict=True)
    return [{"group": label, **row} for label, row in rows]
