"""Likelihood over-fits while the error still falls (Guo 2017, Figure 3; Nixon 2019, Figure 5).

The claim of Guo et al.: once a network is right on nearly all of its training rows, more training
raises the negative log-likelihood of test rows while their classification error still falls or
stays; what is lost is calibration. Nixon et al. find the same in the calibration errors: near 0 on
the training rows, growing on the others.

``python -m benchmarks.studies.overfitting`` trains networks on some of the digits and prints error,
likelihood, ECE (15 even bins) and mean entropy of both parts epoch by epoch, the mean of all
networks, and how far the test rows' change from the epoch of their least likelihood loss to the
last one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from scipy.special import entr
from sklearn.datasets import load_digits
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier

from benchmarks.studies._arguments import study_parser
from skcalib.metrics import expected_calibration_error

LABELS = np.arange(10)


def run(seed: int, epochs: Sequence[int], train_size: int) -> pd.DataFrame:
    """Return the measures of one network after each of some epochs."""
    X, y = load_digits(return_X_y=True)
    X_train, X_test, y_train, y_test = train_test_split(
        X / 16, y, train_size=train_size, stratify=y, random_state=seed
    )
    network = MLPClassifier((128,), alpha=0, batch_size=32, random_state=seed)
    rows = {}
    for epoch in range(1, max(epochs) + 1):
        network.partial_fit(X_train, y_train, classes=LABELS)
        if epoch not in epochs:
            continue
        rows[epoch] = {}
        for part, inputs, labels in (("train", X_train, y_train), ("test", X_test, y_test)):
            P = network.predict_proba(inputs)
            rows[epoch] |= {
                f"error, {part}": np.mean(P.argmax(axis=1) != labels),
                f"NLL, {part}": log_loss(labels, P, labels=LABELS),
                f"ECE, {part}": expected_calibration_error(labels, P, labels=LABELS),
                f"entropy, {part}": entr(P).sum(axis=1).mean(),
            }
    return pd.DataFrame(rows).T.rename_axis("epoch")


def main(argv: Sequence[str] | None = None) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Print the tables and return them: by epoch, and the change after the least NLL."""
    parser = study_parser(__doc__, npz=False)
    parser.add_argument("--seeds", type=int, default=5, help="networks, each on its own split")
    parser.add_argument("--epochs", type=int, nargs="+", default=[1, 3, 10, 30, 60, 100, 200, 400])
    parser.add_argument("--train-size", type=int, default=300)
    args = parser.parse_args(argv)

    runs = [run(seed, args.epochs, args.train_size) for seed in range(args.seeds)]
    table = sum(runs[1:], runs[0]) / args.seeds
    print(f"Mean of {args.seeds} networks")
    print(table.to_string(float_format="{:.4f}".format), end="\n\n")
    least = table["NLL, test"].idxmin()
    change = pd.DataFrame([each.iloc[-1] - each.loc[least] for each in runs])
    change = change.filter(like="test").agg(["mean", "sem"]).T
    print(f"From epoch {least}, of the least NLL of test rows, to epoch {table.index[-1]}")
    print(change.to_string(float_format="{:.4f}".format))

    if args.figure:
        from matplotlib.figure import Figure

        figure = Figure(figsize=(12, 3), layout="constrained")
        panels = figure.subplots(1, 4)
        for ax, name in zip(panels, ("error", "NLL", "ECE", "entropy"), strict=True):
            for part in ("train", "test"):
                ax.semilogx(table.index, table[f"{name}, {part}"], "o-", ms=3, label=part)
            ax.set(xlabel="epoch", title=name)
            ax.legend()
        figure.savefig(args.figure, dpi=120)
    return table, change


if __name__ == "__main__":
    main()
