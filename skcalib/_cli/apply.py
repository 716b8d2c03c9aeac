"""The commands apply, export and plan: apply calibrators, export them, choose rows to label."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import skcalib
from skcalib._cli import files
from skcalib._cli.decision_log import is_log
from skcalib._cli.measured import Printed, count_classes, format_output, percent, wrapped
from skcalib._cli.tables import JSON_LINES, STREAM, SUFFIXES, ending
from skcalib._comparison.held_out import takes_groups
from skcalib._storage.writing import write_file
from skcalib.extending import (
    NAMES,
    accepted_rows,
    format_table,
    read_event,
    short_repr,
    two_columns,
)
from skcalib.metrics import label_plan


def run_apply(args: argparse.Namespace) -> Printed:
    """Apply a saved calibrator to scores."""
    if args.output != STREAM:
        files.check_ending(args.output, SUFFIXES)
    stored = files.load(args.calibrator, to_apply=True)
    told = json.loads(Path(args.calibrator).read_bytes()).get("options", {})
    names = ("pos_label",) if ending(args.file) == ".npy" else files.TOLD
    told = {name: told[name] for name in names if name in told and not getattr(args, name)}
    vars(args).update(told)
    gate = stored if isinstance(stored, skcalib.SelectiveClassifier) else None
    calibrator = stored if gate is None else gate.estimator_
    of_use = ("id",) if takes_groups(calibrator.predict_proba) else ("id", "groups")
    args.optional = [column for name in of_use for column in told.get(name, ())]
    classes = np.asarray(calibrator.classes_)
    saved = files.read(args, classes, keep=gate is not None)
    X, event = reorder_columns(calibrator, saved.scores, saved.classes, args.pos_label)
    params = {"groups": saved.groups} if takes_groups(calibrator.predict_proba) else {}
    if args.priors is not None:
        if gate is not None:
            raise ValueError(
                f"--priors: {args.calibrator} is a selective classifier, whose guarantee holds "
                "only for the class priors of its calibration rows: apply its calibrator, then "
                "find a new threshold"
            )
        priors = read_priors(args.priors, classes)
        calibrator = skcalib.PriorCorrection(calibrator, priors=priors).fit(X, **params)
    P = calibrator.predict_proba(X, **params)
    accepted = None if gate is None else accepted_rows(P, gate.thresholds_)
    calibrated = gate is None or not isinstance(calibrator, skcalib.IdentityCalibrator)
    out = files.write_predictions(args.output, P, classes, saved, accepted, calibrated)
    kind = "calibrated probabilities" if calibrated else "probabilities"
    what = f"{len(P):,} rows, {count_classes(saved, classes.size)}, {kind}"
    lines = [f"{args.output}: {what}", *files.lines_of(files.columns_of(saved, classes, event))]
    shares = None if args.priors is None else calibrator.frame
    if shares is not None:
        few = shares.dropna(axis=1).to_string(float_format="{:.4g}".format, max_rows=20)
        lines += ["class priors:", few]
    if accepted is not None:
        lines.append(f"accepted: {accepted.sum():,} rows, {percent(accepted.mean())}")
    record = {
        **files.description(saved, classes, event, len(P)),
        "output": args.output,
        "priors": [] if shares is None else shares.reset_index().to_dict("records"),
        "accepted": None if accepted is None else accepted.sum(),
    }
    text = format_output(args, lines, record)
    return Printed(out.rstrip("\n"), text) if args.output == STREAM else Printed(text)


def read_priors(texts: list[str], classes: NDArray[Any]) -> dict[Any, float] | None:
    """Parse the class priors of --priors LABEL=PRIOR; return None for --priors estimate."""
    if texts == ["estimate"]:
        return None
    labels, priors = {str(label): label for label in classes.tolist()}, {}
    for text in texts:
        label, _, share = text.rpartition("=")
        try:
            priors[labels[label]] = float(share)
        except (KeyError, ValueError):
            raise ValueError(
                f"--priors {text}: write LABEL=PRIOR, such as {next(reversed(labels))}=0.03, with "
                f"labels from {short_repr(classes.tolist())}, or write estimate"
            ) from None
    return priors


def reorder_columns(
    calibrator: Any, X: NDArray[Any], known: NDArray[Any] | None, pos_label: str | None
) -> tuple[NDArray[Any], int | None]:
    """Sort columns of scores by the class labels of a calibrator; return the index of the event.

    The event is the index of the class that a single column of scores is for. With more columns,
    the event is None. `known` are the labels of the columns, if the file has them.
    """
    classes = np.asarray(calibrator.classes_)
    X = X.reshape(len(X), -1)  # predict_proba refuses a wrong number of columns
    if known is not None and X.shape[1] > 1:
        X = X[:, files.places(classes, known)]
    if X.shape[1] > 1 or classes.size != 2:
        return X, None
    event = read_event(classes, classes, 1, files.event_of(pos_label, classes), NAMES).column
    if calibrator.n_features_in_ == 2:
        pair = two_columns(X, calibrator.input_)
        X = pair if event == 1 else pair[:, ::-1]
    elif event == 0:
        raise ValueError(
            f"--pos-label {pos_label}: the calibrator was fitted on the score of the label "
            f"{classes[1]}: pass a file with the score of this label, without --pos-label"
        )
    return X, event


def run_export(args: argparse.Namespace) -> Printed:
    """Write a saved calibrator as an ONNX model."""
    files.check_ending(args.output, (".onnx",))
    calibrator = files.load(args.file)
    model = skcalib.to_onnx(calibrator, dtype=args.dtype, labels=not args.no_labels)
    written = model.SerializeToString()
    write_file(args.output, written)
    columns, classes = calibrator.n_features_in_, calibrator.classes_.size
    outputs = [output.name for output in model.graph.output]
    return Printed(
        f"{args.output}: {type(calibrator).__name__}, {len(written):,} bytes\n"
        f"input 'scores': {args.dtype} (n, {columns}), {files.KINDS[calibrator.input_]}\n"
        f"outputs: {', '.join(repr(name) for name in outputs)}; probabilities of {classes} classes"
    )


def run_plan(args: argparse.Namespace) -> Printed:
    """Plan how many rows to label, from predictions without labels."""
    files.check_ending(args.draw, (".csv",))
    if ending(args.file) in JSON_LINES and is_log(args.file):
        raise ValueError("plan does not read logs of decisions: pass a table of confidences")
    saved = files.read(args)
    if saved.weights is not None:
        raise ValueError("plan does not support weights: pass a file without them")
    X = saved.scores.reshape(len(saved.scores), -1)
    calibrator = skcalib.IdentityCalibrator(input=saved.input, classes=range(max(X.shape[1], 2)))
    P = calibrator.fit(X, np.zeros(len(X), dtype=int)).predict_proba(X)
    classes, label = saved.classes, args.pos_label
    if X.shape[1] == 1:  # the event has the label of --pos-label
        classes, label = np.array([0, 1] if label is None else ["", label]), label or "1"
    classes = calibrator.classes_ if classes is None else classes
    label = files.event_of(label, classes)
    event = read_event(classes, classes, P.shape[1], label, NAMES).column
    options: dict[str, Any] = {"confidence_level": args.confidence, "random_state": args.seed}
    options |= {
        name: getattr(args, name) for name in ("width", "accuracy", "act_on", "temperature")
    }
    purpose: Any = "calibrate" if args.calibrate else None
    of_event = {"labels": classes, "pos_label": label}
    plan = label_plan(P, args.metric, purpose=purpose, **of_event, **options)
    what = "binary problem" if event is not None else count_classes(saved, classes.size)
    kind = files.KINDS[calibrator.input_]
    lines = [
        f"{args.file}: {len(X):,} rows, {what}, {kind}",
        *files.lines_of(files.columns_of(saved, classes, event)),
        "",
        wrapped(str(plan)),
        "",
        format_table([[*plan.table], *([f"{n:,.0f}", f"{x:.3g}"] for n, x in plan.table.values)]),
    ]
    if args.draw is not None:
        rows, weights = plan.draw(P, random_state=args.seed)
        ids = {} if saved.ids is None else saved.ids.iloc[rows].to_dict("list")
        text = pd.DataFrame({"row": rows, **ids, "weights": weights}).to_csv(index=False)
        write_file(args.draw, text.encode())
        lines += ["", f"rows to label: {args.draw}"]
    record = {
        **files.description(saved, classes, event, len(X)),
        "scores": kind,
        "summary": str(plan),
        "rows_to_label": plan.rows,
        "truth": plan.truth,
        "plan": plan.table.to_dict("records"),
    }
    return Printed(format_output(args, lines, record))
