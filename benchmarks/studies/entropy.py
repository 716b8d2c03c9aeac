"""Calibration error against mean entropy of networks trained by seven losses (Karandikar 2021).

The paper's claims (Figure 10, right, and appendix D): the likelihood gives the least mean entropy
and the focal loss among the greatest; soft calibration losses have the least ECE; and less of both
than by likelihood is reached by none.

``python -m benchmarks.studies.entropy`` prints accuracy, ECE (l2, 15 bins of equal mass), mean
confidence and mean entropy in nats of test digits, for the trainings of
``examples/train_with_soft_calibration.py`` and two more, with labels of which a fifth are random.
"""

from __future__ import annotations

import runpy
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.special import entr, softmax
from threadpoolctl import threadpool_limits

from benchmarks.studies._arguments import study_parser
from skcalib.losses import brier_loss, mmce_loss
from skcalib.metrics import root_mean_squared_calibration_error

EXAMPLE = Path(__file__).parents[2] / "examples" / "train_with_soft_calibration.py"


def brier(Z, y):  # type: ignore[no-untyped-def]
    """Brier score."""
    return brier_loss(Z, y, return_gradient=True)


def mmce(Z, y):  # type: ignore[no-untyped-def]
    """Maximum mean calibration error."""
    return mmce_loss(Z, y, return_gradient=True)


def main(argv: Sequence[str] | None = None) -> pd.DataFrame:
    """Print the table and return it."""
    parser = study_parser(__doc__, npz=False)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--trainings", nargs="+", help="NLL and which others (default: all)")
    args = parser.parse_args(argv)

    example = runpy.run_path(str(EXAMPLE))
    trainings = {
        **example["TRAINING"],
        "NLL + MMCE": (example["total"]((1, example["nll"]), (2, mmce)), None),
        "Brier": (brier, None),
    }
    if args.trainings:
        trainings = {
            name: trainings[name] for name in {"NLL": None, **dict.fromkeys(args.trainings)}
        }
    runs = []
    with threadpool_limits(1):  # threads cost more than they give on matrices so small
        for seed in range(args.seeds):
            train_rows, _, (X_test, y_test) = example["noisy_digits"](seed)
            for name, (loss, held_out_loss) in trainings.items():
                rng = np.random.default_rng(seed)
                network = example["train"](*train_rows, loss, rng, held_out_loss)
                P = softmax(network.logits(X_test), axis=1)
                runs.append(
                    {
                        "training": name,
                        "accuracy": np.mean(P.argmax(axis=1) == y_test),
                        "ECE": root_mean_squared_calibration_error(y_test, P, labels=range(10)),
                        "confidence": P.max(axis=1).mean(),
                        "entropy": entr(P).sum(axis=1).mean(),
                    }
                )
    table = pd.DataFrame(runs).groupby("training", sort=False).mean().sort_values("entropy")
    print(f"Mean of {args.seeds} networks each")
    print(table.to_string(float_format="{:.4f}".format))
    nll = table.loc["NLL"]
    both = table[(table["ECE"] < nll["ECE"]) & (table["entropy"] < nll["entropy"])]
    print(f"\nLess of both than by likelihood: {', '.join(both.index) or 'none'}")

    if args.figure:
        from matplotlib.figure import Figure

        figure = Figure(figsize=(6, 4), layout="constrained")
        ax = figure.subplots()
        ax.plot(table["entropy"], table["ECE"], "o")
        for name, row in table.iterrows():
            ax.annotate(str(name), (row["entropy"], row["ECE"]), (4, 4), textcoords="offset points")
        ax.set(xlabel="mean entropy, nats", ylabel="ECE", ylim=(0, None))
        figure.savefig(args.figure, dpi=120)
    return table


if __name__ == "__main__":
    main()
