"""``skcalib export``: a saved calibrator as an ONNX model."""

from __future__ import annotations

import argparse
from pathlib import Path

import skcalib
from skcalib._cli.files import KINDS, check_ending, load
from skcalib._cli.printed import Printed


def run_export(args: argparse.Namespace) -> Printed:
    """Write the model; say how large it is and what goes in and out."""
    check_ending(args.output, (".onnx",))
    calibrator = load(args.file)
    model = skcalib.to_onnx(calibrator, dtype=args.dtype, labels=not args.no_labels)
    written = model.SerializeToString()
    Path(args.output).write_bytes(written)
    columns, classes = calibrator.n_features_in_, calibrator.classes_.size
    outputs = [output.name for output in model.graph.output]
    return Printed(
        f"{args.output}: {type(calibrator).__name__}, {len(written):,} bytes\n"
        f"input 'scores': {args.dtype} (n, {columns}), {KINDS[calibrator.input_]}\n"
        f"outputs: {', '.join(repr(name) for name in outputs)}; probabilities of {classes} classes"
    )


def add_export(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("file", metavar="CALIBRATOR.json", help="as compare --save writes it")
    parser.add_argument(
        "-o", "--output", metavar="OUT.onnx", required=True, help="the model to write"
    )
    parser.add_argument(
        "--dtype",
        choices=["float32", "float64"],
        default="float32",
        help="type of the scores and probabilities (float32)",
    )
    parser.add_argument(
        "--no-labels", action="store_true", help="no output for the predicted class"
    )
