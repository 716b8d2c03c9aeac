"""Who enters the arena: every public calibrator, and the peers, a few lines each."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks._shared.model_scores import Float64Array, Given
from benchmarks._shared.peers import Logits, Train, betacal, venn_abers, version
from skcalib import calibrators

Predict = Callable[[Given], Float64Array]
OURS = "skcalib"

# Calibrators whose variants enter beside their defaults.
VARIANTS: dict[str, tuple[dict[str, Any], ...]] = {
    "AutoCalibrator": ({"order_preserving": True},),
    "DirichletCalibrator": ({"penalty": "structured"},),
    "HistogramBinning": ({"strategy": "quantile"},),
    "IsotonicCalibrator": ({"centered": True},),
    "MatrixScaling": ({"penalty": "odir"},),
    "PlattScaling": ({"degree": 2},),
    "SplineCalibrator": ({"mode": "top"}, {"mode": "classwise", "n_knots": 6}),
    "TemperatureScaling": ({"objective": "brier"},),
    "VectorScaling": ({"penalty": None},),
}


class Entrant(NamedTuple):
    """A calibrator: `fit` of scores, labels and K returns what maps scores to probabilities."""

    library: str
    name: str
    fit: Callable[[Given, NDArray[np.intp], int], Predict]


# --- ours -----------------------------------------------------------------------------------


def our_entrant(name: str, keywords: dict[str, Any]) -> Entrant:
    """Return a calibrator of skcalib, which gets the scores as they are."""

    def fit(X: Given, y: NDArray[np.intp], n_classes: int) -> Predict:
        made = getattr(calibrators, name)(**keywords, input=X.kind, classes=np.arange(n_classes))
        made.fit(X.scores, y)
        return lambda X: made.predict_proba(X.scores)

    told = ", ".join(f"{key}={value!r}" for key, value in keywords.items())
    return Entrant(OURS, f"{name}({told})" if told else name, fit)


def our_entrants() -> list[Entrant]:
    """Return every public calibrator at its defaults, and the variants."""
    return [
        our_entrant(name, keywords)
        for name in calibrators.__all__
        for keywords in ({}, *VARIANTS.get(name, ()))
    ]


# --- peers ----------------------------------------------------------------------------------


def of_sklearn(method: str) -> Entrant:
    """CalibratedClassifierCV of a frozen classifier whose decision is the score."""

    def fit(X: Given, y: NDArray[np.intp], n_classes: int) -> Predict:
        from sklearn.calibration import CalibratedClassifierCV
        from sklearn.frozen import FrozenEstimator

        frozen = FrozenEstimator(Logits().fit(np.zeros((n_classes, n_classes)), range(n_classes)))
        model = CalibratedClassifierCV(frozen, method=method).fit(X.logits, y)
        return lambda X: model.predict_proba(X.logits)

    return Entrant("scikit-learn", f"CalibratedClassifierCV({method!r})", fit)


def of_probmetrics(method: str) -> Entrant:
    """Run a method that probmetrics knows by name; it gets probabilities."""

    def fit(X: Given, y: NDArray[np.intp], _: int) -> Predict:
        from probmetrics.calibrators import get_calibrator

        model = get_calibrator(method).fit(X.probabilities, y)
        return lambda X: np.asarray(model.predict_proba(X.probabilities))

    return Entrant("probmetrics", method, fit)


def of_netcal(path: str, *arguments: Any) -> Entrant:
    """Run a calibrator of netcal, which gets probabilities."""
    module, name = path.rsplit(".", 1)

    def given(X: Given) -> Float64Array:
        P = X.probabilities
        return P[:, 1] if P.shape[1] == 2 else P

    def fit(X: Given, y: NDArray[np.intp], _: int) -> Predict:
        model = getattr(import_module(f"netcal.{module}"), name)(*arguments)
        model.fit(given(X), y)

        def predict(X: Given) -> Float64Array:
            answer = np.asarray(model.transform(given(X)))
            return np.column_stack([1 - answer, answer]) if answer.ndim == 1 else answer

        return predict

    return Entrant("netcal", name, fit)


def one_for_each_class(library: str, name: str, load: Callable[[], Train]) -> Entrant:
    """Fit a binary calibrator of probabilities for each class; their answers are shared out."""

    def fit(X: Given, y: NDArray[np.intp], n_classes: int) -> Predict:
        P, train = X.probabilities, load()
        maps = [train(P[:, k], y == k) for k in range(n_classes == 2, n_classes)]

        def predict(X: Given) -> Float64Array:
            columns = X.probabilities[:, -len(maps) :].T
            Q = np.column_stack([one(p) for one, p in zip(maps, columns, strict=True)])
            return np.column_stack([1 - Q, Q]) if n_classes == 2 else Q

        return predict

    return Entrant(library, name, fit)


PEERS = (
    *map(of_probmetrics, ("temp-scaling", "ts-mix", "svs", "sms", "logistic")),
    *map(of_sklearn, ("sigmoid", "isotonic", "temperature")),
    of_netcal("scaling.TemperatureScaling"),
    of_netcal("binning.HistogramBinning", 15),
    of_netcal("binning.BBQ"),
    one_for_each_class("betacal", "BetaCalibration", betacal),
    one_for_each_class("venn-abers", "VennAbers", venn_abers),
)


def peers_installed() -> list[Entrant]:
    """Return the peers whose library is installed."""
    return [peer for peer in PEERS if version(peer.library)]
