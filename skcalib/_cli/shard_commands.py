"""``measure`` and ``apply`` of predictions too large for memory; what `shard_compare` shares."""

from __future__ import annotations

import argparse
import errno
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skcalib._cli import measure
from skcalib._cli.apply import in_columns_of
from skcalib._cli.array_shards import read_folder, read_zarr, write_folder, write_zarr
from skcalib._cli.files import KINDS, columns_of, event_of, load, mapping_of, wanted_of
from skcalib._cli.parquet_shards import read_parquet_folder, write_parquet_folder
from skcalib._cli.printed import Printed, as_csv, as_json, wrapped
from skcalib._cli.progress import drawing
from skcalib._cli.saved_predictions import SavedPredictions, ending
from skcalib._cli.sentences import confidence_of, confidence_sentence
from skcalib._cli.shards import Block, Shards
from skcalib._comparison.held_out import fit_calibrator, read_rows
from skcalib._comparison.measures import ROW_LOSSES, Measure
from skcalib._validation.labels import check_classes
from skcalib._validation.predictions import Predictions, check_predictions
from skcalib.calibrators import IdentityCalibrator
from skcalib.metrics import SCORERS
from skcalib.metrics._printed_table import in_columns
from skcalib.metrics._resampling import Evaluation

NO_INTERVALS = """\
No intervals and p-values: they need all scores at once. For them, save a sample of the rows as
.npz, such as every 100th, and measure that."""


# Options for files that are read whole, and those for columns of tables.
WHOLE_ONLY = ("sep", "groups", "fail_above", "renormalize", "report")
COLUMNS_ONLY = ("labels", "one_hot", "split", "scores", "id")


def read_shards(args: argparse.Namespace, classes: NDArray[Any] | None = None) -> Shards:
    """Read the names and shapes of the scores, and a number for each row.

    Raises
    ------
    ValueError
        If an array or a column is missing or does not fit to the others, or an option is for whole
        files, or for tables, only.
    OSError
        If a file cannot be read.
    """
    path = Path(args.file)
    if not path.is_dir():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), args.file)
    is_table = ending(args.file) != ".zarr" and any(path.glob("*.parquet"))
    for name in (*WHOLE_ONLY, *(() if is_table else COLUMNS_ONLY)):
        if getattr(args, name, None):
            option = name.replace("_", "-")
            raise ValueError(f"--{option} is for a single file: save the rows that it needs as one")
    if is_table and any(path.glob("*.npy")):
        raise ValueError("contains .parquet and .npy files: leave one of them")
    if is_table:
        found = read_parquet_folder(args.file, wanted_of(args, classes))
    else:
        found = (read_zarr if ending(args.file) == ".zarr" else read_folder)(args.file)
    widths = {shard.scores.shape[1:]: shard.name for shard in reversed(found.shards)}
    for shard in found.shards:
        Z = shard.scores
        if Z.ndim not in (1, 2) or Z.dtype.kind not in "fiub" or 0 in Z.shape[1:]:
            raise ValueError(
                f"{shard.name} must be numbers of shape (n, K) or (n,); it is {Z.dtype} of shape "
                f"{Z.shape}"
            )
        if not Z.shape[0]:
            raise ValueError(f"{shard.name} has no rows: leave it out")
    if len(widths) > 1:
        columns = [f"{name} {_columns(width)}" for width, name in reversed(widths.items())][:2]
        raise ValueError(f"shards need the same columns: {' but '.join(columns)}")
    return found


def _columns(width: tuple[int, ...]) -> str:
    return f"has {width[0]} columns" if width else "has one dimension"


class Counted:
    """Scores as Dask reads them, by slices, which counts the rows that are read."""

    def __init__(self, scores: Any, count: Callable[[int], None]) -> None:
        self.scores = scores
        self.shape, self.dtype, self.ndim = scores.shape, scores.dtype, scores.ndim
        self.count = count

    def __getitem__(self, rows: Any) -> NDArray[Any]:
        block = np.asarray(self.scores[rows])
        self.count(len(block))
        return block


def labels_of(found: Shards) -> NDArray[Any]:
    """Return the labels, which have to be there."""
    if "labels" not in found.per_row:
        raise ValueError(
            "has no labels: write 'labels' (.zarr) or labels-000.npy beside the scores"
        )
    return found.per_row["labels"]


def measure_shards(args: argparse.Namespace) -> Printed:
    """Measure every error, in passes over the chunks."""
    found = read_shards(args)
    labels_of(found)
    test = found.per_row.get("split")
    n, done, values = found.n_rows(), "", {}
    n_read = 0

    def count(rows: int) -> None:
        nonlocal n_read
        n_read += rows
        show(f"{done}{n_read / n:.1f} passes over {n:,} rows")

    with drawing(sys.stderr) as show:
        X = as_dask(found, count)
        predictions, kind, lazy = predictions_of(found, X, args)
        column = predictions.event is not None
        measures = [Measure(name, 1, loss, None) for name, loss in ROW_LOSSES.items()]
        for name in measure.MEASURED:
            evaluate = Evaluation(SCORERS[name]._score_func, {}, column)
            measures.append(Measure(name.removeprefix("neg_"), 1, None, evaluate))
        for i, each in enumerate(measures):
            done = f"{i} of {len(measures)} metrics, "
            values[each.name] = each.value(predictions)
        sure = confidence_of(predictions)
    classes, event = predictions.classes, predictions.event
    n_measured = n if test is None else int(test.sum())
    which = "" if test is None else " of the test split"
    heading = f"{args.file}: {n_measured:,} rows{which}, {classes.size} classes, {KINDS[kind]}"
    columns, summary = columns_of(lazy, classes, event), confidence_sentence(sure)
    records = [{"metric": name, "value": value} for name, value in values.items()]
    if args.format == "csv":
        return Printed(as_csv(records), "\n".join([heading, columns, summary, NO_INTERVALS]))
    if args.format == "json":
        record = {
            "file": args.file,
            "rows": n_measured,
            "rows_measured": "all" if test is None else "test split",
            "scores": KINDS[kind],
            "columns": mapping_of(lazy, classes, event),
            "event": None if event is None else classes.tolist()[event],
            "mean_score": sure.score,
            "share_of_hits": sure.hits,
            "summary": summary,
            "metrics": records,
        }
        return Printed(as_json(record))
    table = in_columns(
        [["metric", "value"], *([name, f"{value:.4f}"] for name, value in values.items())]
    )
    return Printed("\n".join([heading, columns, "", table, "", NO_INTERVALS, "", wrapped(summary)]))


def as_dask(found: Shards, count: Callable[[int], None]) -> Any:
    """Return the scores as a Dask array."""
    try:
        import dask.array as da  # late: only large data needs it
    except ImportError as error:
        raise ValueError('shards need Dask: pip install "skcalib[dask]"') from error
    return da.concatenate(
        [
            da.from_array(
                Counted(Z, count),
                chunks=(pieces, *Z.shape[1:]),
                name=False,
                meta=np.empty(0, Z.dtype),
            )
            for _, Z, pieces in found.shards
        ]
    )


def predictions_of(
    found: Shards, X: Any, args: argparse.Namespace
) -> tuple[Predictions, str, SavedPredictions]:
    """Return checked probabilities, what the scores are, and what names their columns.

    Calibration rows have weight 0, so that they are dropped.
    """
    y, w, classes = found.per_row["labels"], found.per_row.get("weights"), found.classes
    if "split" in found.per_row:
        w = found.per_row["split"] * (1.0 if w is None else w)
    input = args.input or found.input
    event = event_of(args.pos_label, y)
    if X.ndim == 1 or X.shape[1] == 1:  # one number a row is loaded, as labels are
        X = X.compute()
        data = read_rows(X, y, w, input=input, classes=classes, pos_label=event)
        P = fit_calibrator(IdentityCalibrator(), data).predict_proba(data.scores.read(slice(None)))
        pos_label = data.classes.tolist()[data.event or 0]
        labels, kind = data.classes, str(data.kind)
        y, w = labels[data.code], data.w
    else:
        given = None if classes is None else check_classes(classes, X.shape[1], "classes")
        order = slice(None) if given is None else np.argsort(given)
        known = None if given is None else given[order]
        ordered = X if given is None else X[:, order]
        identity = IdentityCalibrator(input=input, classes=known).fit(ordered, y)
        P, labels, kind = identity.predict_proba(ordered), identity.classes_, identity.input_
        pos_label = event
    predictions = check_predictions(y, P, w, labels, pos_label)
    return predictions, kind, SavedPredictions(X, kind, y, None, classes, found.columns)


def apply_shards(args: argparse.Namespace) -> Printed:
    """Write calibrated probabilities, a block of rows at a time."""
    target = Path(args.output)
    if not (ending(args.output) == ".zarr" or not target.suffix) or args.output == "-":
        raise ValueError("shards are written as shards: pass -o OUT.zarr, or -o and a new folder")
    if target.exists():
        raise ValueError(f"{args.output}: exists already: name a new one, or remove it first")
    if not target.resolve().parent.is_dir():
        raise ValueError(f"{args.output}: there is no such directory")
    calibrator = load(args.calibrator)
    classes = np.asarray(calibrator.classes_)
    found = read_shards(args, classes)
    row = np.asarray(found.shards[0].scores[:1]).reshape(1, -1)
    _, event = in_columns_of(calibrator, row, found.classes, args.pos_label)
    partial = target.with_name(target.name + ".partial")
    if partial.exists():
        raise ValueError(f"{partial}: exists already, of a run that was ended: remove it first")
    write = write_parquet_folder if found.columns else write_folder
    if ending(args.output) == ".zarr":
        write = write_zarr
    try:
        with drawing(sys.stderr) as show:
            blocks = calibrated(found, calibrator, args.pos_label, show)
            write(partial, blocks, found, classes)
        partial.rename(target)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    lazy = SavedPredictions(row, found.input, None, None, found.classes, found.columns)
    return Printed(
        f"{args.output}: {found.n_rows():,} rows, {classes.size} classes, calibrated "
        f"probabilities\n{columns_of(lazy, classes, event)}"
    )


def calibrated(
    found: Shards, calibrator: Any, pos_label: str | None, show: Callable[[str], None]
) -> Iterator[Block]:
    """Yield the probabilities of some rows after others."""
    done, n = 0, found.n_rows()
    for i, (name, Z, pieces) in enumerate(found.shards):
        for start, stop in pairwise(np.cumsum([0, *pieces]).tolist()):
            rows = slice(start, stop)
            X = np.asarray(Z[rows]).reshape(stop - start, -1)
            try:
                X, _ = in_columns_of(calibrator, X, found.classes, pos_label)
                P = calibrator.predict_proba(X)
            except ValueError as error:
                place = f"{name}, rows {start} to {stop - 1}"
                raise ValueError(f"{place}: {error}") from error
            yield i, rows, P
            done += len(X)
            show(f"{done:,} of {n:,} rows")
