"""The jobs that are timed and weighed: what skcalib runs, its floor and its budget.

A job is a chain of steps: a metric has one, a calibrator two, ``fit`` and ``predict_proba``. Each
step takes the result of the one before it, the first takes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import skcalib
from benchmarks.speed.data import SOFTMAX, SORT, SUM, TOP, Data
from skcalib import metrics

Steps = tuple[Callable[..., Any], ...]
N_BINS = 15
# Strength of the penalty where skcalib and scikit-learn's LogisticRegression fit the same matrix.
RIDGE = 1e-3
# Where budgets in multiples of a floor hold; and where a fit may take this many seconds.
LARGE, SMALL = (25_000, 1_000), (5_000, 10)
SMALL_FIT = 5e-3


class Budget(NamedTuple):
    """Floor of a step, and at most how many times its time, and MiB, it may take, if any."""

    floor: str
    times: float | None = None
    mebibytes: float | None = None
    ahead_of: str | None = None


@dataclass(frozen=True)
class Job:
    """What skcalib runs.

    `compares` says how answers are: "value", a number or an array that must agree, or what the
    answer of a fit is judged by, "nll" or "brier" of its probabilities on the rows of the fit, to
    which `penalty`, of the fitted model, is added.
    """

    title: str
    steps: Callable[[Data], Steps]
    budgets: tuple[Budget, ...]
    compares: str = "value"
    answer: Callable[[Any], Any] = lambda result: result
    penalty: Callable[[Any, Data], float] | None = None
    sizes: tuple[tuple[int, int], ...] = ((5_000, 10), (10_000, 100), (25_000, 1_000))


def metric(title: str, function: Callable[..., Any], budget: Budget, **keywords: Any) -> Job:
    """Return the job of a metric."""
    return Job(f"{title}", lambda data: (partial(function, data.y, data.P, **keywords),), (budget,))


def calibrator(
    title: str, make: Callable[[], Any], scores: str, *budgets: Budget, compares: str, **rest: Any
) -> Job:
    """Return the job of a calibrator that is fitted to the logits "Z" or probabilities "P"."""

    def steps(data: Data) -> Steps:
        X = getattr(data, scores)
        return (lambda: make().fit(X, data.y), lambda model: model.predict_proba(X))

    return Job(title, steps, budgets, compares, **rest)


def table_columns(table: Any) -> NDArray[np.float64]:
    """Accuracy and confidence of the bins that hold rows."""
    held = table[table["count"] > 0]
    return held[["accuracy", "confidence"]].to_numpy(np.float64)


def structured_penalty(model: Any, data: Data) -> float:
    """Penalty of a fit about temperature scaling, by its definition."""
    T = skcalib.TemperatureScaling().fit(data.Z, data.y).temperature_
    return about_identity(model.coef_ * T, model.intercept_, len(data.y))


def about_identity(W: NDArray[Any], b: NDArray[Any], n: int) -> float:
    """Structured penalty of ``W (K,)`` or ``(K, K)`` and ``b (K,)``."""
    K = len(b)
    diagonal = W if W.ndim == 1 else W.diagonal()
    rest = 0.0 if W.ndim == 1 else (W**2).sum() - (diagonal**2).sum()
    on = ((diagonal - 1) ** 2).sum() + (b**2).sum()
    return float(K / n * on + K * (K - 1) / n * rest)


def ridge_penalty(model: Any, data: Data) -> float:  # noqa: ARG001
    """Penalty of the entries off the diagonal."""
    W = model.coef_
    return float(RIDGE * ((W**2).sum() - (W.diagonal() ** 2).sum()))


MATRIX = {"sizes": (SMALL, (5_000, 100))}

JOBS: dict[str, Job] = {
    "ece": metric("ECE", metrics.expected_calibration_error, Budget(TOP, 3, 16)),
    "mce": metric("MCE", metrics.maximum_calibration_error, Budget(TOP, 3, 16)),
    "rmsce": metric(
        "RMSCE",
        metrics.root_mean_squared_calibration_error,
        Budget(TOP, 3, 16),
        n_bins=N_BINS,
        quantile_method="split",
    ),
    "ks": metric("KS, top label", metrics.ks_calibration_error, Budget(TOP, 3, 16)),
    "debiased": metric("debiased, top label", metrics.debiased_calibration_error, Budget(TOP)),
    "smooth": metric("smooth ECE, top label", metrics.smooth_calibration_error, Budget(TOP)),
    "sce": metric("SCE", metrics.static_calibration_error, Budget(SUM, 4, 64)),
    "table": Job(
        "`reliability_table`, all classes",
        lambda data: (
            partial(
                metrics.reliability_table, data.y, data.P, max_prob=False, class_conditional=True
            ),
        ),
        (Budget(SUM, 4, 64),),
        answer=table_columns,
    ),
    "ace": metric("ACE", metrics.adaptive_calibration_error, Budget(SORT, 1.5, 64)),
    "ace_split": metric(
        "ACE, bins of equal counts",
        metrics.adaptive_calibration_error,
        Budget(SORT, 1.5, 64),
        quantile_method="split",
    ),
    "tace": metric("TACE", metrics.thresholded_adaptive_calibration_error, Budget(SORT, 1.5, 64)),
    "ks_classwise": metric(
        "KS, class-wise", metrics.ks_calibration_error, Budget(SORT, 1.5, 64), mode="classwise"
    ),
    "debiased_classwise": metric(
        "debiased, class-wise", metrics.debiased_calibration_error, Budget(SORT), mode="classwise"
    ),
    "histogram": calibrator(
        "HistogramBinning",
        skcalib.HistogramBinning,
        "P",
        Budget(SUM, 4, 64),
        Budget(SORT, 3, 64),
        compares="brier",
    ),
    "histogram_quantile": calibrator(
        "HistogramBinning, quantile",
        partial(skcalib.HistogramBinning, strategy="quantile"),
        "P",
        Budget(SORT, 1.5, 64),
        Budget(SORT, 3, 64),
        compares="brier",
    ),
    "isotonic": calibrator(
        "IsotonicCalibrator",
        skcalib.IsotonicCalibrator,
        "P",
        Budget(SORT, 1.5, 64),
        Budget(SORT, 3, 64),
        compares="brier",
    ),
    "venn_abers": calibrator(
        "VennAbersCalibrator",
        skcalib.VennAbersCalibrator,
        "P",
        Budget(SORT),
        Budget(SORT),
        compares="brier",
    ),
    "bayesian": calibrator(
        "BayesianBinning",
        skcalib.BayesianBinning,
        "P",
        Budget(SORT),
        Budget(SORT),
        compares="brier",
    ),
    "spline": calibrator(
        "SplineCalibrator",
        skcalib.SplineCalibrator,
        "P",
        Budget(SORT, 1.5, 64),
        Budget(SORT, 3, 64),
        compares="brier",
    ),
    "spline_classwise": calibrator(
        "SplineCalibrator(mode='classwise', n_knots=6)",
        lambda: skcalib.SplineCalibrator(mode="classwise", n_knots=6),
        "P",
        Budget(SORT, 1.5, 64),
        Budget(SORT, 3, 64),
        compares="brier",
    ),
    "temperature": calibrator(
        "TemperatureScaling",
        skcalib.TemperatureScaling,
        "Z",
        Budget(SOFTMAX, 4, 64),
        Budget(SOFTMAX),
        compares="nll",
    ),
    "vector": calibrator(
        "VectorScaling, no penalty",
        partial(skcalib.VectorScaling, penalty=None),
        "Z",
        Budget(SOFTMAX, 40, 128),
        Budget(SOFTMAX),
        compares="nll",
    ),
    "vector_structured": calibrator(
        "VectorScaling, structured",
        skcalib.VectorScaling,
        "Z",
        Budget(SOFTMAX, 40, 128),
        Budget(SOFTMAX),
        compares="nll",
        penalty=structured_penalty,
    ),
    "vector_log": calibrator(
        "VectorScaling, no penalty, of probabilities",
        partial(skcalib.VectorScaling, penalty=None),
        "P",
        Budget(SOFTMAX),
        Budget(SOFTMAX),
        compares="nll",
        sizes=(SMALL, (10_000, 100)),
    ),
    "vector_proba": calibrator(
        "VectorScaling, structured, of probabilities",
        skcalib.VectorScaling,
        "P",
        Budget(SOFTMAX),
        Budget(SOFTMAX),
        compares="nll",
        penalty=structured_penalty,
    ),
    "matrix": calibrator(
        "MatrixScaling, no penalty",
        partial(skcalib.MatrixScaling, penalty=None, tol=1e-5),
        "Z",
        Budget(SOFTMAX),
        Budget(SOFTMAX),
        compares="nll",
        sizes=(SMALL,),
    ),
    "matrix_ridge": calibrator(
        f"MatrixScaling, ridge {RIDGE} off the diagonal",
        partial(skcalib.MatrixScaling, penalty="odir", reg_lambda=RIDGE, reg_mu=0.0, tol=1e-5),
        "Z",
        Budget(SOFTMAX, None, 128, ahead_of="scikit-learn"),
        Budget(SOFTMAX),
        compares="nll",
        penalty=ridge_penalty,
        **MATRIX,
    ),
    "matrix_proba": calibrator(
        "MatrixScaling, structured, of probabilities",
        skcalib.MatrixScaling,
        "P",
        Budget(SOFTMAX, None, 128),
        Budget(SOFTMAX),
        compares="nll",
        penalty=structured_penalty,
        **MATRIX,
    ),
    "dirichlet": calibrator(
        f"DirichletCalibrator, ridge {RIDGE} off the diagonal",
        partial(
            skcalib.DirichletCalibrator, penalty="odir", reg_lambda=RIDGE, reg_mu=0.0, tol=1e-5
        ),
        "P",
        Budget(SOFTMAX, None, 128),
        Budget(SOFTMAX),
        compares="nll",
        penalty=ridge_penalty,
        **MATRIX,
    ),
    "platt": calibrator(
        "PlattScaling",
        skcalib.PlattScaling,
        "P",
        Budget(SOFTMAX),
        Budget(SOFTMAX),
        compares="nll",
    ),
    "beta": calibrator(
        "BetaCalibrator",
        skcalib.BetaCalibrator,
        "P",
        Budget(SOFTMAX),
        Budget(SOFTMAX),
        compares="nll",
    ),
}
