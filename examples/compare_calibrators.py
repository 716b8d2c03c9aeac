r"""
Choose a calibrator for a model that is over- or under-confident
================================================================

Five models of real data, each badly calibrated in its own way, are fitted on one part of the rows.
A second part fits every calibrator and lets :class:`~sklearn.model_selection.GridSearchCV` choose
one by SCE, by ACE and by the KS error. A third part, which no fit has seen, gives the table: one
row a calibrator ("identity" is the model as it was), ``*`` the best of a column.

With a path it does the same for saved predictions::

    python examples/compare_calibrators.py predictions.npz

The file holds ``logits`` or ``probs``, (n, K), and ``labels``, (n,); an optional ``split``, (n,),
says 0 for calibration rows and 1 for test rows. Without it the rows are halved by a fixed seed.
Above 100 classes matrix and Dirichlet scaling, with their K squared parameters, are left out.
"""

import argparse
import sys
import warnings
import zipfile
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, KFold, train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import Pipeline

from skcalib import (
    BetaCalibrator,
    CalibratedClassifier,
    DirichletCalibrator,
    HistogramBinning,
    IdentityCalibrator,
    IsotonicCalibrator,
    MatrixScaling,
    PlattScaling,
    SplineCalibrator,
    TemperatureScaling,
    VectorScaling,
)
from skcalib.metrics import (
    adaptive_calibration_error,
    expected_calibration_error,
    get_scorer,
    ks_calibration_error,
    static_calibration_error,
)


def make_calibrators(**common: object) -> dict[str, BaseEstimator]:
    """Make every calibrator, each with the `common` parameters."""
    return {
        "identity": IdentityCalibrator(**common),
        "temperature": TemperatureScaling(**common),
        "temperature, SB-ECE": TemperatureScaling(objective="soft_binned", **common),
        "vector": VectorScaling(**common),
        "matrix": MatrixScaling(**common),
        "Dirichlet": DirichletCalibrator(**common),
        "Platt": PlattScaling(**common),
        "beta": BetaCalibrator(**common),
        "spline class-wise": SplineCalibrator(**common),
        "spline top label": SplineCalibrator(mode="top", **common),
        "histogram even": HistogramBinning(**common),
        "histogram quantile": HistogramBinning(strategy="quantile", **common),
        "isotonic": IsotonicCalibrator(**common),
    }


CRITERIA = {
    "SCE": "neg_static_calibration_error",
    "ACE": "neg_adaptive_calibration_error",
    "KS": "neg_ks_calibration_error",
}


def brier_score(y_true, y_proba, *, labels):
    """Squared distance to the one-hot label, summed over classes: in [0, 2] for any K."""
    hit = np.asarray(y_true)[:, None] == labels
    return np.mean(np.sum((y_proba - hit) ** 2, axis=1))


# Title of the column: function, factor, decimals.
METRICS = {
    "ECE, %": (expected_calibration_error, 100, 2),
    "SCE, %": (static_calibration_error, 100, 2),
    "ACE, %": (adaptive_calibration_error, 100, 2),
    "KS, %": (ks_calibration_error, 100, 2),
    "Brier": (brier_score, 1, 4),
    "log loss": (log_loss, 1, 4),
}


class Rows(NamedTuple):
    """Features, or scores, and labels."""

    X: np.ndarray
    y: np.ndarray


class Case(NamedTuple):
    """A classifier whose ``calibrator`` is to be chosen, and rows that its model has not seen."""

    name: str
    candidate: BaseEstimator
    calibrators: dict[str, BaseEstimator]
    calibration: Rows
    test: Rows
    classes: np.ndarray


# %%
# Where the cases come from: models fitted here ...


def model_cases() -> Iterator[Case]:
    """Fit each model on 40 % of its data set and leave 30 % to calibrate, 30 % to test."""
    digits, cancer = load_digits(return_X_y=True), load_breast_cancer(return_X_y=True)
    network = MLPClassifier((64, 64), alpha=0, solver="lbfgs", max_iter=500, random_state=0)
    # The most flexible calibrator of all: a network on the scores.
    scaling = MLPClassifier((16,), alpha=1.0, solver="lbfgs", max_iter=1000, random_state=0)
    forest = RandomForestClassifier(random_state=0)
    trees = ExtraTreesClassifier(min_samples_leaf=5, random_state=0)
    for name, (X, y), model in (
        ("digits, naive Bayes", digits, GaussianNB()),
        ("digits, over-fitted network", digits, network),
        ("digits, random forest", digits, forest),
        ("breast cancer, naive Bayes", cancer, GaussianNB()),
        ("breast cancer, extra trees", cancer, trees),
    ):
        print(f"\n{name}: fitting the model ...", flush=True)
        X_train, X_rest, y_train, y_rest = train_test_split(
            X, y, train_size=0.4, stratify=y, random_state=0
        )
        X_calibration, X_test, y_calibration, y_test = train_test_split(
            X_rest, y_rest, test_size=0.5, stratify=y_rest, random_state=0
        )
        frozen = FrozenEstimator(model.fit(X_train, y_train))
        yield Case(
            name,
            CalibratedClassifier(frozen, IdentityCalibrator()),
            {**make_calibrators(), "neural network": scaling},
            Rows(X_calibration, y_calibration),
            Rows(X_test, y_test),
            model.classes_,
        )


# %%
# ... or predictions from a file, which a calibrator takes as they are.


def file_case(path: str) -> Case:
    """Read scores and labels; a ``ValueError`` if they do not go together."""
    with open(path, "rb") as file:
        if not zipfile.is_zipfile(file):
            raise ValueError("not an .npz file")
    with np.load(path) as data:
        kinds = [kind for kind in ("logits", "probs") if kind in data]
        if len(kinds) != 1 or "labels" not in data:
            raise ValueError(f"needs 'labels' and 'logits' or 'probs'; holds {sorted(data)}")
        scores, labels = data[kinds[0]], data["labels"]
        split = data.get("split")
    scores = scores[:, None] if scores.ndim == 1 else scores
    if scores.ndim != 2 or labels.shape != scores.shape[:1] or not len(labels):
        raise ValueError(
            f"{kinds[0]} must be (n, K) and labels (n,); they are {scores.shape}, {labels.shape}"
        )
    if split is None:
        split = half_split(labels)
    elif split.shape != labels.shape or set(np.unique(split)) != {0, 1}:
        raise ValueError("split must hold, for each row, 0 (calibration) or 1 (test), and both")
    n_classes = max(2, scores.shape[1])
    classes = np.unique(labels)
    if len(classes) != n_classes and labels.dtype.kind in "iu":
        classes = np.arange(n_classes)
    calibrators = make_calibrators(
        input="proba" if kinds[0] == "probs" else "logits", classes=classes
    )
    if n_classes > 100:
        del calibrators["matrix"], calibrators["Dirichlet"]
    calibration, test = (Rows(scores[split == part], labels[split == part]) for part in (0, 1))
    for rows in (calibration, test):
        # What the baseline takes, all the others take.
        clone(calibrators["identity"]).fit(rows.X, rows.y)
    candidate = Pipeline([("calibrator", IdentityCalibrator())])
    return Case(path, candidate, calibrators, calibration, test, classes)


def half_split(labels: np.ndarray) -> np.ndarray:
    """Return 0 and 1 for two halves of the rows, stratified where each class has two rows."""
    stratify = labels if np.unique(labels, return_counts=True)[1].min() > 1 else None
    split = np.zeros(len(labels), dtype=int)
    _, test = train_test_split(
        np.arange(len(labels)), test_size=0.5, stratify=stratify, random_state=0
    )
    split[test] = 1
    return split


# %%
# Measuring, choosing, printing.


def measure(case: Case) -> dict[str, list[str]]:
    """Fit every calibrator on the calibration rows and measure it on the test rows."""
    errors = {}
    for name, calibrator in case.calibrators.items():
        model = clone(case.candidate).set_params(calibrator=calibrator)
        with warnings.catch_warnings(record=True) as doubts:
            warnings.simplefilter("always", ConvergenceWarning)
            model.fit(*case.calibration)
        proba = model.predict_proba(case.test.X)
        if name == "identity":
            print(f"  {describe(proba, case)}\n  fitted", end="", flush=True)
        # Few rows are often separated by a class's score: then the best map is a step.
        doubt = " (without a finite optimum)" if doubts else ""
        print(f" {name}{doubt};", end="", flush=True)
        errors[name] = [
            f"{factor * metric(case.test.y, proba, labels=case.classes):.{decimals}f}"
            for metric, factor, decimals in METRICS.values()
        ]
    print()
    return errors


def describe(proba: np.ndarray, case: Case) -> str:
    """Say in a line how right and how sure the predictions for the test rows are."""
    confidence = proba.max(axis=1).mean()
    accuracy = np.mean(case.classes[proba.argmax(axis=1)] == case.test.y)
    verdict = "over-confident" if confidence > accuracy else "under-confident"
    return f"accuracy {accuracy:.1%}, mean confidence {confidence:.1%}: {verdict}"


def choose(case: Case) -> dict[str, str]:
    """Let a grid search on the calibration rows alone choose by each criterion."""
    print("  choosing by cross-validation on the calibration rows ...", flush=True)
    search = GridSearchCV(
        case.candidate,
        {"calibrator": list(case.calibrators.values())},
        scoring={name: get_scorer(scorer) for name, scorer in CRITERIA.items()},
        refit="SCE",
        cv=KFold(5, shuffle=True, random_state=0),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # told of once, by `measure`
        search.fit(*case.calibration)
    names = list(case.calibrators)
    return {
        criterion: names[np.argmin(search.cv_results_[f"rank_test_{criterion}"])]
        for criterion in CRITERIA
    }


def print_table(errors: dict[str, list[str]]) -> None:
    """Print a row for each calibrator and ``*`` at whatever reads as the best of its column."""
    best = [min(column, key=float) for column in zip(*errors.values(), strict=True)]
    print(f"\n  {'calibrator':<20}" + "".join(f"{title:>9} " for title in METRICS))
    for name, row in errors.items():
        marks = ("*" if cell == top else " " for cell, top in zip(row, best, strict=True))
        cells = (f"{cell:>9}{mark}" for cell, mark in zip(row, marks, strict=True))
        print(f"  {name:<20}" + "".join(cells))


def report(case: Case) -> None:
    """Print the table of a case and which calibrator each criterion chooses."""
    print(
        f"{case.name}: {len(case.calibration.y):,} calibration rows, "
        f"{len(case.test.y):,} test rows, {len(case.classes)} classes"
    )
    errors = measure(case)
    chosen = choose(case)
    print_table(errors)
    print("  chosen by " + ", by ".join(f"{by}: {name}" for by, name in chosen.items()))


def main(arguments: list[str] | None = None) -> int:
    """Compare calibrators on the built-in models or on one file; 2 if the file is no good."""
    parser = argparse.ArgumentParser(description="Compare calibrators on held-out rows.")
    parser.add_argument("npz", nargs="?", help="file with logits or probs, labels and maybe split")
    path = parser.parse_args(arguments).npz
    if path is None:
        for case in model_cases():
            report(case)
        return 0
    try:
        case = file_case(path)
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        reason = " ".join(str(getattr(error, "strerror", None) or error).split())
        print(f"compare_calibrators: {path}: {reason}", file=sys.stderr)
        return 2
    report(case)
    return 0


if __name__ == "__main__":
    sys.exit(main())
