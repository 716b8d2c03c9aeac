"""Temperature by likelihood and by soft-binned error under a shift (Karandikar 2021, Fig. 2, 9).

The paper's claim: a temperature chosen by the soft-binned error (TS-SB-ECE) leaves less error than
one chosen by likelihood (TS), on rows like those that it was chosen on and under every level of a
shift.

``python -m benchmarks.studies.shift`` prints the ECE (l2, 15 bins of equal mass, as in the paper)
of digits that are rotated, or noisy, ever more: for networks over-fitted by likelihood to 200
digits as they are, with temperatures chosen on others as they are. ``better`` is the share of
networks that have less error by TS-SB-ECE, in its bin form, than by TS.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.ndimage import rotate
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier

from benchmarks.studies._arguments import study_parser
from skcalib import IdentityCalibrator, TemperatureScaling
from skcalib.metrics import root_mean_squared_calibration_error

METHODS = {
    "uncalibrated": IdentityCalibrator(input="logits"),
    "TS": TemperatureScaling(input="logits"),
    "TS-SB-ECE": TemperatureScaling(objective="soft_binned", input="logits"),
    "TS-SB-ECE, label form": TemperatureScaling(objective="soft_label_binned", input="logits"),
}
DEGREES = (0, 10, 20, 30, 40, 50)
NOISE = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)


def rotated(X: NDArray[np.float64], degrees: float, seed: int) -> NDArray[np.float64]:
    """Images of 8 x 8, turned one way or the other."""
    images = X.reshape(-1, 8, 8)
    left = np.random.default_rng(seed).random(len(X)) < 0.5
    turn = partial(rotate, axes=(1, 2), reshape=False, order=1)
    return np.where(left[:, None, None], turn(images, degrees), turn(images, -degrees)).reshape(
        X.shape
    )


def noisy(X: NDArray[np.float64], deviation: float, seed: int) -> NDArray[np.float64]:
    """Pixels of [0, 1] with normal noise, cut at 0 and 1."""
    noise = np.random.default_rng(seed).normal(scale=deviation, size=X.shape)
    return np.clip(X + noise, 0, 1)


SHIFTS: dict[str, tuple[Callable[..., NDArray[np.float64]], Sequence[float]]] = {
    "rotation": (rotated, DEGREES),
    "noise": (noisy, NOISE),
}


def run(seed: int) -> list[dict[str, float | str]]:
    """Return accuracy and errors of one network at every level of both shifts."""
    X, y = load_digits(return_X_y=True)
    X_train, X, y_train, y = train_test_split(
        X / 16, y, train_size=200, stratify=y, random_state=seed
    )
    X_fit, X_test, y_fit, y_test = train_test_split(
        X, y, train_size=0.5, stratify=y, random_state=seed
    )
    network = MLPClassifier((32,), alpha=1e-3, solver="lbfgs", max_iter=500, random_state=seed)
    network.fit(X_train, y_train)

    def logits(X: NDArray[np.float64]) -> NDArray[np.float64]:
        hidden = np.maximum(X @ network.coefs_[0] + network.intercepts_[0], 0)
        return hidden @ network.coefs_[1] + network.intercepts_[1]

    fitted = {name: method.fit(logits(X_fit), y_fit) for name, method in METHODS.items()}
    answers = {name: method.predict_proba for name, method in fitted.items()}
    rows: list[dict[str, float | str]] = []
    for shift, (distort, levels) in SHIFTS.items():
        for level in levels:
            Z = logits(distort(X_test, level, seed))
            row: dict[str, float | str] = {"shift": shift, "level": level}
            row["accuracy"] = float(np.mean(Z.argmax(axis=1) == y_test))
            for name, predict_proba in answers.items():
                row[name] = root_mean_squared_calibration_error(
                    y_test, predict_proba(Z), labels=range(10)
                )
            rows.append(row)
    return rows


def main(argv: Sequence[str] | None = None) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Print the table and return it, and the errors of every network."""
    parser = study_parser(__doc__, npz=False)
    parser.add_argument("--seeds", type=int, default=10, help="networks, each on its own split")
    args = parser.parse_args(argv)

    runs = pd.DataFrame([{"seed": s, **row} for s in range(args.seeds) for row in run(s)])
    runs["better"] = (runs["TS-SB-ECE"] < runs["TS"]).astype(float)
    table = runs.drop(columns="seed").groupby(["shift", "level"], sort=False).mean()
    print(f"Mean of {args.seeds} networks")
    print(table.to_string(float_format="{:.4f}".format))
    gain = (runs["TS"] - runs["TS-SB-ECE"]).groupby(runs["seed"]).mean()
    error = gain.std(ddof=min(1, args.seeds - 1)) / np.sqrt(args.seeds)
    print(f"\nTS less TS-SB-ECE, mean of levels: {gain.mean():.4f}, standard error {error:.4f}")

    if args.figure:
        from matplotlib.figure import Figure

        figure = Figure(figsize=(9, 4), layout="constrained")
        for ax, shift in zip(figure.subplots(1, 2, sharey=True), SHIFTS, strict=True):
            for name in METHODS:
                ax.plot(table.loc[shift].index, table.loc[shift][name], "o-", label=name)
            ax.set(xlabel=shift, ylabel="ECE")
            ax.legend()
        figure.savefig(args.figure, dpi=120)
    return table, runs


if __name__ == "__main__":
    main()
