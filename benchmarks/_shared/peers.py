"""The peers: which are installed, binary ones, and a classifier that stands for its scores."""

from __future__ import annotations

from collections.abc import Callable
from importlib import metadata
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin

# Fits a binary calibrator to probabilities and events, and returns the map of new probabilities.
Train = Callable[[Any, Any], Callable[[Any], Any]]
LIBRARIES = (
    "scikit-learn", "netcal", "probmetrics", "uncertainty-calibration", "relplot",
    "torchmetrics", "betacal", "venn-abers",
)  # fmt: skip


def version(library: str) -> str | None:
    """Return the installed version of a library, None if there is none."""
    try:
        return metadata.version(library)
    except metadata.PackageNotFoundError:
        return None


def betacal() -> Train:
    """Return what fits betacal's three parameters."""
    from betacal import BetaCalibration

    return lambda p, hit: BetaCalibration("abm").fit(p, hit).predict


def venn_abers() -> Train:
    """Return what fits inductive Venn-Abers predictors."""
    from venn_abers import VennAbers

    def train(p: Any, hit: Any) -> Callable[[Any], Any]:
        model = VennAbers()
        model.fit(p_cal=np.column_stack([1 - p, p]), y_cal=hit.astype(int))
        return lambda q: model.predict_proba(np.column_stack([1 - q, q]))[0][:, 1]

    return train


class Scores(ClassifierMixin, BaseEstimator):
    """A fitted classifier whose features are its scores, to be frozen."""

    def fit(self, X: Any, y: Any) -> Scores:
        """Learn the labels."""
        self.classes_ = np.unique(y)
        self.n_features_in_ = X.shape[1]
        return self

    def predict(self, X: Any) -> Any:
        """Return the label of the largest score."""
        return self.classes_[np.asarray(X).argmax(axis=1)]


class Logits(Scores):
    """Scores that are logits."""

    def decision_function(self, X: Any) -> Any:
        """Return the logits; of two classes, as scikit-learn has it, their difference."""
        return X[:, 1] - X[:, 0] if X.shape[1] == 2 else X


class Probabilities(Scores):
    """Scores that are probabilities."""

    def predict_proba(self, X: Any) -> Any:
        """Return the probabilities."""
        return X
