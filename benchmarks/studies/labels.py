"""Several labels for a row: one calibrator, a calibrator for each label, and what lies between.

``python -m benchmarks.studies.labels`` prints the mean log loss over all labels of rows not fitted
on, of `MultilabelCalibrator` and of four alternatives: no calibration, one calibrator for all
labels, and `PlattScaling` and `AutoCalibrator` for each label by itself. A label with one value
among the calibration rows gets the constant (events + 1) / (rows + 2) in the last two.

* Ten generated problems: `make_multilabel_classification` with 5 to 20 labels.
* Two real problems: ten visual attributes of the digits, and of the tumours of breast cancer the
  diagnosis and which of the ten worst values are in the highest quarter, from the ten mean values.

Each problem is calibrated for naive Bayes, a forest and logistic regression, and for several splits
into rows to fit the model on, rows to calibrate on, and rows to measure.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_digits, make_multilabel_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.multioutput import MultiOutputClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skcalib import AutoCalibrator, MultilabelCalibrator, PlattScaling

Floats = NDArray[np.float64]
LEAST, SIZES, GENERATED = 1e-12, (50, 200), 10
# The digits with each attribute: a loop, two loops, a straight line, a bar at the top, open to the
# left, open to the right, even, above 4, prime, and a multiple of three.
ATTRIBUTES = ("0689", "8", "1457", "57", "123579", "2456", "02468", "56789", "2357", "369")
MODELS: dict[str, Callable[[int], Any]] = {
    "naive bayes": lambda _: GaussianNB(),
    "forest": lambda seed: RandomForestClassifier(50, min_samples_leaf=3, random_state=seed),
    "logistic": lambda _: make_pipeline(StandardScaler(), LogisticRegression()),
}


def problems() -> Iterator[tuple[str, Floats, NDArray[np.intp]]]:
    """Yield the name, the features and the labels of each problem."""
    for seed in range(GENERATED):
        L = 5 + 5 * (seed % 4)
        X, Y = make_multilabel_classification(
            3000, 20, n_classes=L, n_labels=1 + seed % 3, random_state=seed
        )
        yield f"generated {seed}", X, Y
    X, digit = load_digits(return_X_y=True)
    listed = [[int(each) for each in attribute] for attribute in ATTRIBUTES]
    yield "digits", X, np.column_stack([np.isin(digit, part) for part in listed]).astype(int)
    X, benign = load_breast_cancer(return_X_y=True)
    worst = X[:, 20:] > np.quantile(X[:, 20:], 0.75, axis=0)
    yield "breast cancer", X[:, :10], np.column_stack([benign == 0, worst]).astype(int)


def log_loss(Y: NDArray[np.intp], P: Floats) -> float:
    """Return the mean log loss over all entries."""
    return float(-np.log(np.maximum(np.where(Y == 1, P, 1 - P), LEAST)).mean())


def by_own_calibrators(calibrator: Any, P: Floats, Y: NDArray[np.intp], new: Floats) -> Floats:
    """Calibrate each label by its own rows."""
    Q = np.empty_like(new)
    for j, y in enumerate(Y.T):
        Q[:, j] = (y.sum() + 1) / (y.size + 2)
        if np.ptp(y):
            Q[:, j] = calibrator.fit(P[:, j], y).predict_proba(new[:, j])[:, 1]
    return Q


def by_one_calibrator(P: Floats, Y: NDArray[np.intp], new: Floats) -> Floats:
    """Calibrate all labels alike."""
    fitted = AutoCalibrator(input="proba").fit(P.ravel(), Y.ravel())
    return fitted.predict_proba(new.ravel())[:, 1].reshape(new.shape)


WAYS: dict[str, Callable[[Floats, NDArray[np.intp], Floats], Floats]] = {
    "none": lambda *rows: rows[-1],
    "one": by_one_calibrator,
    "Platt for each": lambda *rows: by_own_calibrators(PlattScaling(input="proba"), *rows),
    "Auto for each": lambda *rows: by_own_calibrators(AutoCalibrator(input="proba"), *rows),
    "multilabel": lambda P, Y, new: MultilabelCalibrator().fit(P, Y).predict_proba(new),
}


def cells(splits: int, sizes: Sequence[int]) -> Iterator[dict[str, Any]]:
    """Yield the log losses of each problem, model, split and number of calibration rows."""
    for name, X, Y in problems():
        for kind, make in MODELS.items():
            for seed in range(splits):
                order = np.random.default_rng(seed).permutation(len(X))
                cut = min(500, len(X) // 3)
                train, cal, test = np.split(order, [cut, cut + max(sizes)])
                kept = np.ptp(Y[train], axis=0) == 1  # labels that the model can learn
                model = MultiOutputClassifier(make(seed)).fit(X[train], Y[train][:, kept])
                P, new = (
                    np.column_stack([part[:, 1] for part in model.predict_proba(X[rows])])
                    for rows in (cal, test)
                )
                for size in sizes:
                    rows = P[:size], Y[cal[:size]][:, kept], new
                    found = {way: log_loss(Y[test][:, kept], WAYS[way](*rows)) for way in WAYS}
                    yield {"rows": size, "problem": name, "model": kind, **found}


def main(argv: Sequence[str] | None = None) -> pd.DataFrame:
    """Print the losses, and how often Platt scaling of each label is better; return the losses."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--splits", type=int, default=3, help="splits of each problem")
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES), help="rows")
    args = parser.parse_args(argv)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of labels with few events, in a calibrator of their own
        found = pd.DataFrame(cells(args.splits, args.sizes))
    means = found.groupby(["rows", "problem", "model"]).mean()
    by_problem = means.groupby(["rows", "problem"], sort=False).mean()
    print(by_problem.to_string(float_format="{:.4f}".format), end="\n\n")
    print(means.groupby("rows").mean().to_string(float_format="{:.4f}".format), end="\n\n")
    for name, table in {"experiments": found, "problems": by_problem.reset_index()}.items():
        worse = table["multilabel"] > 1.01 * table["Platt for each"]
        counts = worse.groupby(table["rows"]).agg(["sum", "size"])
        for size, (number, total) in counts.iterrows():
            print(f"{size} rows: above Platt by more than 1 % in {number} of {total} {name}")
    return by_problem


if __name__ == "__main__":
    main()
