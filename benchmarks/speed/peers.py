"""What each peer runs for each job, in a few lines that import it when they run.

What a peer wants its data turned into is made before its clock starts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks._shared.peers import Logits, Probabilities, Scores, Train, betacal, venn_abers
from benchmarks.speed.data import Data
from benchmarks.speed.jobs import N_BINS, RIDGE, Steps, about_identity, ridge_penalty


@dataclass(frozen=True)
class Peer:
    """What a library runs for a job; see `Job` for `result` and `penalty`.

    `note` says why its answer may be another; `tolerance` is what its answer is good to by its own
    documentation.
    """

    library: str
    steps: Callable[[Data], Steps]
    note: str = ""
    tolerance: float = 1e-6
    result: Callable[[Any], Any] = lambda result: result
    penalty: Callable[[Any, Data], float] | None = None


# --- top-label errors -----------------------------------------------------------------------


def torchmetrics_error(data: Data) -> Steps:
    """Top-label ECE."""
    import torch
    from torchmetrics.functional.classification import multiclass_calibration_error

    P, y = torch.from_numpy(data.P), torch.from_numpy(data.y)
    return (lambda: float(multiclass_calibration_error(P, y, P.shape[1], n_bins=N_BINS)),)


def netcal_error(data: Data) -> Steps:
    """Top-label ECE."""
    import netcal.metrics

    return (lambda: netcal.metrics.ECE(N_BINS).measure(data.P, data.y),)


def kumar_error(power: int, debias: bool, mode: str, bins: str) -> Callable[[Data], Steps]:
    """uncertainty-calibration's binned errors."""

    def steps(data: Data) -> Steps:
        from calibration import utils

        keywords = {"num_bins": N_BINS, "mode": mode, "binning_scheme": getattr(utils, bins)}
        error = utils.lower_bound_scaling_ce
        return (lambda: error(data.P, data.y, p=power, debias=debias, **keywords),)

    return steps


def relplot_smooth(data: Data) -> Steps:
    """Smooth error of the top label."""
    import relplot

    def error() -> float:
        return relplot.smECE(*relplot.multiclass_logits_to_confidences(data.P, data.y, probs=True))

    return (error,)


def probmetrics_ks(data: Data) -> Steps:
    """Kolmogorov-Smirnov error of the top label, which it is given as a binary problem."""
    import torch
    from probmetrics.metrics import KolmogorovSmirnovCalibrationMetric

    def error() -> float:
        top = data.P.max(1)
        P = torch.from_numpy(np.column_stack([1 - top, top]))
        hit = torch.from_numpy((data.P.argmax(1) == data.y).astype(np.int64))
        return float(KolmogorovSmirnovCalibrationMetric().compute_from_labels_probs(hit, P))

    return (error,)


def sklearn_curves(data: Data) -> Steps:
    """Reliability of each class, one call a class."""
    from sklearn.calibration import calibration_curve

    def curves() -> NDArray[np.float64]:
        found = [
            calibration_curve(data.y == k, column, n_bins=N_BINS)
            for k, column in enumerate(data.P.T)
        ]
        return np.hstack(found).T

    return (curves,)


# --- calibrators ----------------------------------------------------------------------------


def sklearn_calibrated(scores: type[Scores], method: str) -> Callable[[Data], Steps]:
    """CalibratedClassifierCV of a frozen classifier."""

    def steps(data: Data) -> Steps:
        from sklearn.calibration import CalibratedClassifierCV
        from sklearn.frozen import FrozenEstimator

        X = data.Z if scores is Logits else data.P
        frozen = FrozenEstimator(scores().fit(X, data.y))
        return (
            lambda: CalibratedClassifierCV(frozen, method=method).fit(X, data.y),
            lambda model: model.predict_proba(X),
        )

    return steps


def sklearn_logistic(ridge: float, logs: bool = False) -> Callable[[Data], Steps]:
    """Multinomial regression on logits or the logs of probabilities."""

    def steps(data: Data) -> Steps:
        from sklearn.linear_model import LogisticRegression

        X = np.log(data.P) if logs else data.Z
        C = 1 / (2 * ridge * len(X)) if ridge else np.inf
        return (
            lambda: LogisticRegression(C=C, tol=1e-5, max_iter=10_000).fit(X, data.y),
            lambda model: model.predict_proba(X),
        )

    return steps


def netcal_calibrator(path: str, *arguments: Any) -> Callable[[Data], Steps]:
    """Run a calibrator of netcal by its name below the package."""

    def steps(data: Data) -> Steps:
        from importlib import import_module

        module, name = path.rsplit(".", 1)
        make = getattr(import_module(f"netcal.{module}"), name)

        def fit() -> Any:
            model = make(*arguments)
            model.fit(data.P, data.y)
            return model

        return (fit, lambda model: model.transform(data.P))

    return steps


def probmetrics_calibrator(
    name: str, one_vs_rest: bool = False, **keywords: Any
) -> Callable[[Data], Steps]:
    """Run a calibrator of probmetrics by its name."""

    def steps(data: Data) -> Steps:
        from probmetrics import calibrators

        model = getattr(calibrators, name)(**keywords)
        if one_vs_rest:
            model = calibrators.MulticlassOneVsRestCalibrator(model)
        return (lambda: model.fit(data.P, data.y), lambda fitted: fitted.predict_proba(data.P))

    return steps


def probmetrics_of_logits(name: str) -> Callable[[Data], Steps]:
    """Run a calibrator of probmetrics that takes logits, as tensors."""

    def steps(data: Data) -> Steps:
        import torch
        from probmetrics import calibrators
        from probmetrics.distributions import CategoricalLogits

        logits, y = CategoricalLogits(torch.from_numpy(data.Z)), torch.from_numpy(data.y)
        return (
            lambda: getattr(calibrators, name)().fit_torch(logits, y),
            lambda model: model.predict_proba_torch(logits).get_probs().numpy(),
        )

    return steps


def sms_penalty(model: Any, data: Data) -> float:
    """Penalty of structured matrix scaling."""
    W = np.asarray(model.W_)
    return about_identity(W[:, :-1], W[:, -1], len(data.y))


def kumar() -> Train:
    """Return what fits uncertainty-calibration's Platt scaling of a binary score."""
    from calibration import calibrators

    def train(p: Any, hit: Any) -> Callable[[Any], Any]:
        model = calibrators.PlattCalibrator(1, N_BINS)
        model.train_calibration(p, hit.astype(float))
        return model.calibrate

    return train


def columns(load: Callable[[], Train]) -> Callable[[Data], Steps]:
    """Fit a binary calibrator to each class and normalise their probabilities."""

    def steps(data: Data) -> Steps:
        train = load()

        def proba(maps: list[Callable[[Any], Any]]) -> NDArray[np.float64]:
            Q = np.column_stack([one(p) for one, p in zip(maps, data.P.T, strict=True)])
            Q /= Q.sum(axis=1, keepdims=True)
            return Q

        return (lambda: [train(p, data.y == k) for k, p in enumerate(data.P.T)], proba)

    return steps


# --- which peers run beside skcalib in each job, and why their results may differ ------------

KUMAR = "uncertainty-calibration"
RIDGE_NOTE = "its ridge penalty includes the diagonal"
NETCAL_NOTE = "uses finite differences as gradients; its float32 fit ends at its start"
ISOTONIC_NOTE = "in float32, treats scores closer than 1e-6 as equal"
SMS_NOTE = "mixes its temperature scaling with uniform probabilities"
BINNING_NOTE = "its probability of an empty bin is the class prior"
probmetrics_histogram = probmetrics_calibrator(
    "BinaryHistogramBinningCalibrator", True, n_bins=N_BINS
)
LOGISTIC_NOTE = "its fit of each class stops at a gradient of 1e-4, before rows are normalised"

PEERS: dict[str, tuple[Peer, ...]] = {
    "ece": (
        Peer("torchmetrics", torchmetrics_error, "computes in float32"),
        Peer("netcal", netcal_error),
        Peer(KUMAR, kumar_error(1, False, "top-label", "get_equal_prob_bins")),
    ),
    "ks": (Peer("probmetrics", probmetrics_ks, "computes in float32"),),
    "debiased": (Peer(KUMAR, kumar_error(2, True, "top-label", "get_equal_bins")),),
    "smooth": (
        Peer("relplot", relplot_smooth, "its kernel width is accurate to 0.001", tolerance=1e-3),
    ),
    "sce": (Peer(KUMAR, kumar_error(1, False, "marginal", "get_equal_prob_bins")),),
    "table": (Peer("scikit-learn", sklearn_curves),),
    "histogram": (
        Peer("netcal", netcal_calibrator("binning.HistogramBinning", N_BINS)),
        Peer("probmetrics", probmetrics_histogram, BINNING_NOTE),
    ),
    "isotonic": (
        Peer("scikit-learn", sklearn_calibrated(Probabilities, "isotonic"), ISOTONIC_NOTE),
        Peer("netcal", netcal_calibrator("binning.IsotonicRegression")),
    ),
    "venn_abers": (Peer("venn-abers", columns(venn_abers)),),
    "temperature": (
        Peer("scikit-learn", sklearn_calibrated(Logits, "temperature")),
        Peer("netcal", netcal_calibrator("scaling.TemperatureScaling"), NETCAL_NOTE),
        Peer("probmetrics", probmetrics_of_logits("TemperatureScalingCalibrator")),
    ),
    "vector": (Peer("probmetrics", probmetrics_of_logits("VectorScalingCalibrator")),),
    "matrix_ridge": (
        Peer("scikit-learn", sklearn_logistic(RIDGE), RIDGE_NOTE, penalty=ridge_penalty),
    ),
    "matrix_proba": (
        Peer("probmetrics", probmetrics_calibrator("SMSCalibrator"), SMS_NOTE, penalty=sms_penalty),
    ),
    "dirichlet": (
        Peer("scikit-learn", sklearn_logistic(RIDGE, logs=True), RIDGE_NOTE, penalty=ridge_penalty),
    ),
    "platt": (Peer(KUMAR, columns(kumar), LOGISTIC_NOTE, tolerance=1e-5),),
    "beta": (Peer("betacal", columns(betacal), LOGISTIC_NOTE, tolerance=1e-5),),
}
