"""A model for each fold or one of all rows, and other choices around a classifier.

``python -m benchmarks.studies.ensembles`` fits six kinds of models to 1,000 rows of each real set
with at most 10 classes and 64 features. For each kind it prints the ratio of the log losses, on up
to 2,000 new rows, of one way to calibrate it and another: the geometric mean, and the number of
sets in which it is below .995 and above 1.005. The folds are those of `CalibratedClassifier`; their
models are fitted once for all ways.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import gmean
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks._shared.model_scores import MODELS, Float64Array, ask, known_sets, thinned
from skcalib import AutoCalibrator, CalibratedClassifier, PlattScaling

TRAINING_ROWS, TEST_ROWS, MOST_FEATURES, MOST_CLASSES = 1000, 2000, 64, 10
RATIOS = {
    "ensemble=True / the default": ("ensemble", "default"),
    "order_preserving=True / the default": ("order kept", "default"),
    "the default / scikit-learn's": ("default", "sigmoid"),
    "platt / scikit-learn's": ("platt", "sigmoid"),
}


def by_ways(model: Any, X: Any, y: Any, X_new: Any) -> dict[str, Float64Array]:
    """Return the probabilities of new rows by each way to calibrate a model."""
    folds = list(StratifiedKFold().split(X, y))
    pairs = [(clone(model).fit(X[train], y[train]), test) for train, test in folds]
    rows = np.concatenate([test for _, test in folds])
    scores = np.concatenate([ask(each, X[test]).scores for each, test in pairs])
    new, kind = ask(model.fit(X, y), X_new)

    def one(calibrator: Any) -> Float64Array:
        return calibrator.set_params(input=kind).fit(scores, y[rows]).predict_proba(new)

    def mean(wrapper: Any) -> Float64Array:
        fitted = [wrapper(FrozenEstimator(each)).fit(X[test], y[test]) for each, test in pairs]
        return np.mean([each.predict_proba(X_new) for each in fitted], axis=0)

    return {
        "default": one(AutoCalibrator()),
        "ensemble": mean(CalibratedClassifier),
        "order kept": one(AutoCalibrator(order_preserving=True)),
        "platt": one(PlattScaling()),
        "sigmoid": mean(CalibratedClassifierCV),
    }


def losses(name: str) -> dict[tuple[str, str], dict[str, float]]:
    """Return the log losses of a set: by name and kind of model, and by way."""
    X, y = thinned(known_sets()[name](), 0)
    train, test = slice(TRAINING_ROWS), slice(TRAINING_ROWS, TRAINING_ROWS + TEST_ROWS)
    few = X.shape[1] <= MOST_FEATURES and y.max() < MOST_CLASSES
    if not few or np.bincount(y[train], minlength=y.max() + 1).min() < 5:
        return {}
    found = {}
    for kind, of_seed in MODELS.items():
        model = make_pipeline(StandardScaler(), of_seed(0))
        ways = by_ways(model, X[train], y[train], X[test])
        labels = range(y.max() + 1)
        found[name, kind] = {way: log_loss(y[test], P, labels=labels) for way, P in ways.items()}
    print(name, flush=True)
    return found


def main() -> None:
    """Print the ratios."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sets = [losses(name) for name in known_sets()]
    table = pd.DataFrame({cell: of for each in sets for cell, of in each.items()}).T
    for title, (way, base) in RATIOS.items():
        ratio = table[way] / table[base]
        kinds = {**dict(list(ratio.groupby(level=1))), "all": ratio}
        rows = {
            kind: (gmean(r), (r < 0.995).sum(), (r > 1.005).sum(), r.size)
            for kind, r in kinds.items()
        }
        shown = pd.DataFrame(rows, index=["mean", "lower", "higher", "sets"]).T
        print(f"\n{title}\n{shown.to_string(float_format='{:.3f}'.format)}")


if __name__ == "__main__":
    main()
