"""The models and methods of the comparison with scikit-learn, each called as its users call it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

from benchmarks._shared.model_scores import SMALLEST, Table
from benchmarks._shared.timing import OutOfTimeError, at_most, quiet
from benchmarks.arena.run import Row, Store
from skcalib import CalibratedClassifier

# Rows of a table: half, at most so many, train; so many measure; of the others some calibrate.
MOST_TO_TRAIN, FEWEST_TO_TEST, MOST_TO_TEST = 1_500, 500, 1_500
SIZES = (100, 300, 1_000)
# In folds, for every fifth table, a model is fitted to so many rows, with so many of each class.
EVERY, ROWS_IN_FOLDS, FEWEST_IN_FOLDS = 5, 1_000, 5
FOLDS = ", in folds"
# Seconds of processor time after which a fit is given up.
LIMIT = 60
SEED = 0

OURS, NONE = "CalibratedClassifier", "no calibration"
METHODS = ("sigmoid", "temperature", "isotonic")


class Undersampled(ClassifierMixin, BaseEstimator):
    """A classifier that is fitted to as many rows of each class as the rarest one has."""

    def __init__(self, estimator: Any, random_state: int = 0) -> None:
        self.estimator = estimator
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Undersampled:
        """Fit the classifier to some of the rows."""
        self.classes_, code, counts = np.unique(y, return_inverse=True, return_counts=True)
        order = np.random.default_rng(self.random_state).permutation(len(code))
        rows = [order[code[order] == one][: counts.min()] for one in range(len(counts))]
        kept = np.sort(np.concatenate(rows))
        self.estimator_ = clone(self.estimator).fit(X[kept], np.asarray(y)[kept])
        return self

    def predict_proba(self, X: Any) -> Any:
        """Return the probabilities of the fitted classifier."""
        return self.estimator_.predict_proba(X)

    def predict(self, X: Any) -> Any:
        """Return the labels of the fitted classifier."""
        return self.estimator_.predict(X)


MODELS: dict[str, Callable[[int], ClassifierMixin]] = {
    "tree": lambda seed: DecisionTreeClassifier(max_depth=5, random_state=seed),
    "forest": lambda seed: RandomForestClassifier(random_state=seed),
    "neighbours": lambda _: KNeighborsClassifier(),
    "naive Bayes": lambda _: GaussianNB(),
    "boosting": lambda seed: HistGradientBoostingClassifier(max_iter=50, random_state=seed),
    "logistic": lambda _: LogisticRegression(max_iter=300),
    "network": lambda seed: MLPClassifier((64,), max_iter=60, random_state=seed),
    "SVC": lambda seed: SVC(random_state=seed),
    "balanced logistic": lambda _: LogisticRegression(max_iter=300, class_weight="balanced"),
    "balanced forest": lambda seed: RandomForestClassifier(
        min_samples_leaf=5, class_weight="balanced", random_state=seed
    ),
    "undersampled boosting": lambda seed: Undersampled(
        HistGradientBoostingClassifier(max_iter=50, random_state=seed), seed
    ),
}


def log_loss(model: Any, X: Any, y: NDArray[np.intp]) -> float:
    """Return the log loss of rows; a class that the model does not have gets probability 0."""
    P = np.zeros((len(y), int(max(y.max(), model.classes_.max())) + 1))
    P[:, model.classes_] = model.predict_proba(X)
    return float(-np.log(np.clip(P[np.arange(len(y)), y], SMALLEST, 1)).mean())


def measured(make: Callable[[], Any], X: Any, y: NDArray[np.intp]) -> Row:
    """Return the loss of a model that a call fits, or the note of what failed."""
    start = time.perf_counter()
    try:
        with quiet(), np.errstate(all="ignore"), at_most(LIMIT, "PROF"):
            loss = log_loss(make(), X, y)
    except OutOfTimeError:
        return {"note": f"given up after {LIMIT} s"}
    except Exception as error:  # a method may fail in any way, and the others still run
        return {"note": f"{type(error).__name__}: {error}".splitlines()[0][:120]}
    return {"log_loss": f"{loss:.6g}", "fit_s": f"{time.perf_counter() - start:.3g}"}


def calibrated(model: Any, X: Any, y: Any) -> dict[tuple[str, str], Callable[[], Any]]:
    """Return by library and method what fits each method to a fitted model."""

    def theirs(method: str) -> Callable[[], Any]:
        return lambda: CalibratedClassifierCV(FrozenEstimator(model), method=method).fit(X, y)

    found = {("scikit-learn", method): theirs(method) for method in METHODS}
    ours = {("skcalib", OURS): lambda: CalibratedClassifier(FrozenEstimator(model)).fit(X, y)}
    return without_calibration(model) | ours | found


def without_calibration(model: Any) -> dict[tuple[str, str], Callable[[], Any]]:
    """Return the model itself; a model without probabilities is not compared with itself."""
    return {("skcalib", NONE): lambda: model} if hasattr(model, "predict_proba") else {}


def in_folds(model: Any, X: Any, y: Any) -> dict[tuple[str, str], Callable[[], Any]]:
    """Return by library what README's first lines fit, and the model fitted to the same rows."""
    return {
        **without_calibration(clone(model).fit(X, y)),
        ("skcalib", OURS): lambda: CalibratedClassifier(clone(model)).fit(X, y),
        ("scikit-learn", "sigmoid"): lambda: CalibratedClassifierCV(clone(model)).fit(X, y),
    }


def experiment(table: Table, model: str, folds: bool) -> Iterator[Row]:
    """Yield a row for each number of rows and method."""
    order = np.random.default_rng(SEED).permutation(len(table[1]))
    X, y = table[0][order], table[1][order]
    n_train = min(MOST_TO_TRAIN, len(y) // 2)
    n_test = min(MOST_TO_TEST, max(FEWEST_TO_TEST, len(y) - n_train - max(SIZES)))
    (X_train, X_cal, X_test) = np.split(X, [n_train, len(y) - n_test])
    (y_train, y_cal, y_test) = np.split(y, [n_train, len(y) - n_test])
    unfitted = make_pipeline(StandardScaler(), MODELS[model](SEED))
    classes = int(y.max()) + 1
    if folds:
        X_train, y_train = X_train[:ROWS_IN_FOLDS], y_train[:ROWS_IN_FOLDS]
        counts = np.bincount(y_train, minlength=classes)
        few = counts.min() < FEWEST_IN_FOLDS
        parts = {} if few else {len(y_train): in_folds(unfitted, X_train, y_train)}
    else:
        fitted = unfitted.fit(X_train, y_train)
        parts = {
            n: calibrated(fitted, X_cal[:n], y_cal[:n])
            for n in SIZES
            if n <= len(y_cal) and len(np.unique(y_cal[:n])) == classes
        }
    for n, methods in parts.items():
        for (library, method), make in methods.items():
            yield {
                "model": model + FOLDS * folds, "seed": SEED, "n_cal": n, "library": library,
                "calibrator": method, "classes": classes, "n_test": n_test,
                **measured(make, X_test, y_test),
            }  # fmt: skip


def run(tables: dict[str, Table], store: Store, seconds: float) -> Iterator[str]:
    """Run the tables in their order; start none after so many seconds."""
    begin = time.monotonic()
    done = {(row["data"], row["model"]) for row in store.rows()}
    for place, (name, table) in enumerate(tables.items()):
        if time.monotonic() - begin > seconds:
            return
        start, rows = time.process_time(), []
        for folds, model in product((False, True)[: 2 - (place % EVERY > 0)], MODELS):
            if (name, model + FOLDS * folds) in done:
                continue
            try:
                with quiet():
                    found = list(experiment(table, model, folds))
            except Exception as error:  # a model that cannot be fitted does not end the others
                yield f"{name} {model}: {type(error).__name__}: {error}"
                continue
            rows += [{"data": name, "family": name, **row} for row in found]
        store.add(rows)
        yield f"{place} {name}: {len(rows)} rows, {time.process_time() - start:.1f} s"
