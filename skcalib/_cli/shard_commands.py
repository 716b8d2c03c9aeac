"""``measure`` and ``apply`` of predictions too large for memory."""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skcalib._cli import measure
from skcalib._cli.apply import in_columns_of
from skcalib._cli.files import KINDS, columns_of, event_of, load, mapping_of
from skcalib._cli.printed import Printed, as_csv, as_json, wrapped
from skcalib._cli.progress import drawing
from skcalib._cli.saved_predictions import SavedPredictions, ending
from skcalib._cli.sentences import confidence_of, confidence_sentence
from skcalib._cli.shards import Shards, import_zarr, read_shards
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


def refuse_compare(_: argparse.Namespace) -> Printed:
    """Say how to compare: on a sample."""
    raise ValueError(
        "compare needs all scores at once: save a sample of the rows, such as every 100th, as "
        ".npz (np.savez(path, logits=Z[::100], labels=y[::100])) and compare on that"
    )


def measure_shards(args: argparse.Namespace) -> Printed:
    """Measure every error, in passes over the chunks."""
    found = read_shards(args)
    if "labels" not in found.per_row:
        raise ValueError(
            "has no labels: write 'labels' (.zarr) or labels-000.npy beside the scores"
        )
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
    heading = f"{args.file}: {n:,} rows, {classes.size} classes, {KINDS[kind]}"
    columns, summary = columns_of(lazy, classes, event), confidence_sentence(sure)
    records = [{"metric": name, "value": value} for name, value in values.items()]
    if args.format == "csv":
        return Printed(as_csv(records), "\n".join([heading, columns, summary, NO_INTERVALS]))
    if args.format == "json":
        record = {
            "file": args.file,
            "rows": n,
            "rows_measured": "all",
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
        raise ValueError('measuring shards needs Dask: pip install "skcalib[dask]"') from error
    return da.concatenate(
        [
            da.from_array(
                Counted(Z, count),
                chunks=(step, *Z.shape[1:]),
                name=False,
                meta=np.empty(0, Z.dtype),
            )
            for _, Z, step in found.shards
        ]
    )


def predictions_of(
    found: Shards, X: Any, args: argparse.Namespace
) -> tuple[Predictions, str, SavedPredictions]:
    """Return checked probabilities, what the scores are, and what names their columns."""
    y, w, classes = found.per_row["labels"], found.per_row.get("weights"), found.classes
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
    return predictions, kind, SavedPredictions(X, kind, y, None, classes)


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
    found = read_shards(args)
    row = np.asarray(found.shards[0].scores[:1]).reshape(1, -1)
    _, event = in_columns_of(calibrator, row, found.classes, args.pos_label)
    partial = target.with_name(target.name + ".partial")
    if partial.exists():
        raise ValueError(f"{partial}: exists already, of a run that was ended: remove it first")
    write = write_zarr if ending(args.output) == ".zarr" else write_folder
    try:
        with drawing(sys.stderr) as show:
            blocks = calibrated(found, calibrator, args.pos_label, show)
            write(partial, blocks, found, classes)
        partial.rename(target)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    lazy = SavedPredictions(row, found.input, None, None, found.classes)
    return Printed(
        f"{args.output}: {found.n_rows():,} rows, {classes.size} classes, calibrated "
        f"probabilities\n{columns_of(lazy, classes, event)}"
    )


# The number of a shard, some of its rows, and their probabilities.
Block = tuple[int, slice, NDArray[Any]]


def calibrated(
    found: Shards, calibrator: Any, pos_label: str | None, show: Callable[[str], None]
) -> Iterator[Block]:
    """Yield the probabilities of some rows after others."""
    done, n = 0, found.n_rows()
    for i, (name, Z, step) in enumerate(found.shards):
        for start in range(0, Z.shape[0], step):
            rows = slice(start, min(start + step, Z.shape[0]))
            X = np.asarray(Z[rows]).reshape(rows.stop - start, -1)
            try:
                X, _ = in_columns_of(calibrator, X, found.classes, pos_label)
                P = calibrator.predict_proba(X)
            except ValueError as error:
                place = f"{name}, rows {start} to {rows.stop - 1}"
                raise ValueError(f"{place}: {error}") from error
            yield i, rows, P
            done += len(X)
            show(f"{done:,} of {n:,} rows")


def write_zarr(path: Path, blocks: Iterator[Block], found: Shards, classes: NDArray[Any]) -> None:
    """Write ``probs``, ``classes`` and the numbers for each row that were read."""
    group = import_zarr().open_group(str(path), mode="w-", zarr_format=2)  # text needs format 2
    starts = np.cumsum([0, *(shard.scores.shape[0] for shard in found.shards)])
    for name, values in (("classes", classes), *found.per_row.items()):
        plain = values.astype(str) if values.dtype.kind == "O" else values
        group.create_array(name, shape=plain.shape, dtype=plain.dtype)[:] = plain
    probs = None
    for i, rows, P in blocks:
        if probs is None:
            chunks = (min(found.shards[0].step, found.n_rows()), P.shape[1])
            shape = (found.n_rows(), P.shape[1])
            probs = group.create_array("probs", shape=shape, chunks=chunks, dtype=P.dtype)
        probs[int(starts[i]) + rows.start : int(starts[i]) + rows.stop] = P


def write_folder(path: Path, blocks: Iterator[Block], found: Shards, classes: NDArray[Any]) -> None:
    """Write ``probs-*.npy`` for each shard, beside the numbers for each row that were read."""
    path.mkdir()
    plain = classes.astype(str) if classes.dtype.kind == "O" else classes
    np.save(path / "classes.npy", plain)
    lengths = [shard.scores.shape[0] for shard in found.shards]
    parts = [Path(shard.name.strip("'")).stem.partition("-")[2] or "000" for shard in found.shards]
    for name, values in found.per_row.items():
        for part, own in zip(parts, np.split(values, np.cumsum(lengths)[:-1]), strict=True):
            np.save(path / f"{name}-{part}.npy", own)
    for i, rows, P in blocks:
        file = path / f"probs-{parts[i]}.npy"
        shape = (lengths[i], P.shape[1])
        mode = "r+" if file.exists() else "w+"
        out = np.lib.format.open_memmap(file, mode, P.dtype, shape)
        out[rows] = P
        out.flush()
