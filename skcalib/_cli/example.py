"""``skcalib example``: a file of predictions to try the other commands on."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

import pandas as pd

from skcalib._cli.files import check_ending
from skcalib._cli.printed import Printed
from skcalib._storage.writing import write_file


def run_example(args: argparse.Namespace) -> Printed:
    """Write a file of predictions to try the other commands on."""
    # Late, because other commands need none of these.
    from sklearn.datasets import load_digits
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.model_selection import cross_val_predict

    check_ending(args.file, (".csv",))
    if Path(args.file).exists():
        raise ValueError(f"{args.file} already exists: pass the name of a new file")
    # What a forest predicts for handwritten digits, each fifth by trees of the others.
    X, y = load_digits(return_X_y=True)
    model = RandomForestClassifier(random_state=0)
    frame = pd.DataFrame(cross_val_predict(model, X, y, method="predict_proba"))
    frame.insert(0, "labels", y)
    write_file(args.file, frame.to_csv(index=False, float_format="%.6g").encode())
    file = shlex.quote(args.file)
    return Printed(
        f"{args.file}: {len(frame):,} rows, 10 classes: a forest on handwritten digits, each row "
        "predicted by trees of other rows\n\n"
        f"skcalib measure {file}\n"
        f"skcalib compare {file} --report report.html --save best.json"
    )
