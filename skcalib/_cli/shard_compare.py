"""``skcalib compare`` of predictions too large for memory."""

from __future__ import annotations

import argparse
import sys
from typing import Any

import numpy as np

from skcalib._cli.compare import compare, printed
from skcalib._cli.files import check_ending, event_of
from skcalib._cli.printed import Printed
from skcalib._cli.progress import drawing
from skcalib._cli.saved_predictions import SavedPredictions
from skcalib._cli.shard_commands import as_dask, labels_of, read_shards
from skcalib._comparison.chunks import needing_all
from skcalib._comparison.measures import as_measures

LEGEND = """\
Of rows not fitted on. Gain: in log loss, over no calibration, and its 95 % interval:
+ a gain, - a harm, neither: may be chance. Calibration errors are not debiased: what chance adds
to them is simulated on all scores at once."""


def compare_shards(args: argparse.Namespace) -> Printed:
    """Compare calibrators, in passes over the chunks."""
    check_ending(args.save, (".json",))
    if args.choose_by.removeprefix("neg_") != "log_loss":
        raise ValueError(
            "--choose-by needs all scores at once: leave it out, or save some of the rows, such "
            "as every 100th, as .npz and compare on that"
        )
    measures = as_measures(args.metrics)
    left_out = needing_all(measures)
    metrics = [measure.name for measure in measures if measure.name not in left_out]
    if not metrics:
        raise ValueError(f"--metrics: {', '.join(left_out)} would load all scores: name others")
    found = read_shards(args)
    y, w, test = labels_of(found), found.per_row.get("weights"), found.per_row.get("split")
    if (y == y[0]).all():
        raise ValueError(f"all rows have the label {y[0]!s}: to calibrate takes two at least")
    n, n_read = found.n_rows(), 0

    def count(rows: int) -> None:
        nonlocal n_read
        n_read += rows
        show(f"{n_read / n:.1f} passes over {n:,} rows")

    keywords: dict[str, Any] = {
        "metrics": metrics,
        "cv": args.cv,
        "input": args.input or found.input,
        "classes": found.classes,
        "pos_label": event_of(args.pos_label, y),
        "sample_weight": w,
    }
    with drawing(sys.stderr) as show:
        X = as_dask(found, count)
        if X.ndim == 1 or X.shape[1] == 1:  # one number a row is loaded, as labels are
            X = X.compute()
        lazy = SavedPredictions(X, keywords["input"], y, None, found.classes, found.columns)
        if test is not None:
            fit, new = np.flatnonzero(test == 0), np.flatnonzero(test)
            keywords["test"] = (X[new], y[new], None if w is None else w[new])
            X, y = X[fit], y[fit]
            keywords["sample_weight"] = None if w is None else w[fit]
        comparison = compare(args, X, y, keywords)
        made = printed(args, comparison, lazy, LEGEND)
    if not left_out:
        return made
    text = f"left out, because they would load all scores: {', '.join(left_out)}"
    return made._replace(err="\n".join(filter(None, [made.err, text])))
