"""The jobs that are timed and weighed: what skcalib runs, and its floor.

A job is a chain of steps: a metric has one, a calibrator two, ``fit`` and ``predict_proba``. Each
step takes the result of the one before it, the first takes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

import skcalib
from benchmarks.speed.data import SOFTMAX, SORT, SUM, TOP, Data
from skcalib import metrics

Steps = tuple[Callable[..., Any], ...]
Size = tuple[int, int]
CALIBRATOR_STEPS = ("fit", "predict_proba")
N_BINS = 15
# Strength of the penalty where skcalib and scikit-learn's LogisticRegression fit the same matrix.
RIDGE = 1e-3
SIZES = ((5_000, 10), (10_000, 100), (25_000, 1_000))
SIZES_OF_A_MATRIX = ((5_000, 10), (5_000, 100))


@dataclass(frozen=True)
class Job:
    """What skcalib runs, and the floor of each step.

    `compares` says how results are: "value", a number or an array that must agree, or what the
    result of a fit is judged by, "nll" or "brier" of its probabilities on the rows of the fit, to
    which `penalty`, of the fitted model, is added.
    """

    title: str
    steps: Callable[[Data], Steps]
    floors: tuple[str, ...]
    compares: str = "value"
    result: Callable[[Any], Any] = lambda result: result
    penalty: Callable[[Any, Data], float] | None = None
    sizes: tuple[Size, ...] = SIZES

    @property
    def step_names(self) -> tuple[str, ...]:
        """Names of the steps of a calibrator; that of a metric has none."""
        return CALIBRATOR_STEPS if len(self.floors) == 2 else ("",)


def metric(
    title: str, function: Callable[..., Any], floor: str, result: Any = float, **keywords: Any
) -> Job:
    """Return the job of a metric; `result` makes an array or a number of what it returns."""
    steps = lambda data: (partial(function, data.y, data.P, **keywords),)  # noqa: E731
    return Job(title, steps, (floor,), result=result)


def calibrator(make: Callable[[], Any], scores: str, rest: dict[str, Any], note: str = "") -> Job:
    """Return the job of a calibrator that is fitted to the logits "Z" or probabilities "P"."""

    def steps(data: Data) -> Steps:
        X = getattr(data, scores)
        return (lambda: make().fit(X, data.y), lambda model: model.predict_proba(X))

    return Job(", ".join(filter(None, (type(make()).__name__, note))), steps, **rest)


columns_table = partial(metrics.reliability_table, max_prob=False, class_conditional=True)


def table_columns(table: Any) -> NDArray[np.float64]:
    """Accuracy and confidence of the bins that have rows."""
    with_rows = table[table["count"] > 0]
    return with_rows[["accuracy", "confidence"]].to_numpy(np.float64)


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


LEAST_SQUARES: Any = {"compares": "brier", "floors": (SORT, SORT)}
LIKELIHOOD: Any = {"compares": "nll", "floors": (SOFTMAX, SOFTMAX)}
STRUCTURED: Any = {**LIKELIHOOD, "penalty": structured_penalty}
ODIR: Any = {"penalty": "odir", "reg_lambda": RIDGE, "reg_mu": 0.0, "tol": 1e-5}
OF_A_MATRIX: Any = {"sizes": SIZES_OF_A_MATRIX}
OFF_DIAGONAL = f"ridge {RIDGE} off the diagonal"
RIDGED: Any = {**LIKELIHOOD, **OF_A_MATRIX, "penalty": ridge_penalty}

JOBS: dict[str, Job] = {
    "ece": metric("ECE", metrics.expected_calibration_error, TOP),
    "ks": metric("KS, top label", metrics.ks_calibration_error, TOP),
    "debiased": metric("debiased, top label", metrics.debiased_calibration_error, TOP),
    "smooth": metric("smooth ECE, top label", metrics.smooth_calibration_error, TOP),
    "sce": metric("SCE", metrics.static_calibration_error, SUM),
    "table": metric("`reliability_table`, all classes", columns_table, SUM, table_columns),
    "ace": metric("ACE", metrics.adaptive_calibration_error, SORT),
    "ks_classwise": metric("KS, class-wise", metrics.ks_calibration_error, SORT, mode="classwise"),
    "histogram": calibrator(skcalib.HistogramBinning, "P", LEAST_SQUARES | {"floors": (SUM, SORT)}),
    "isotonic": calibrator(skcalib.IsotonicCalibrator, "P", LEAST_SQUARES),
    "venn_abers": calibrator(skcalib.VennAbersCalibrator, "P", LEAST_SQUARES),
    "bayesian": calibrator(skcalib.BayesianBinning, "P", LEAST_SQUARES),
    "spline": calibrator(skcalib.SplineCalibrator, "P", LEAST_SQUARES),
    "temperature": calibrator(skcalib.TemperatureScaling, "Z", LIKELIHOOD),
    "vector": calibrator(
        partial(skcalib.VectorScaling, penalty=None), "Z", LIKELIHOOD, "no penalty"
    ),
    "vector_structured": calibrator(skcalib.VectorScaling, "Z", STRUCTURED, "structured"),
    "matrix_ridge": calibrator(partial(skcalib.MatrixScaling, **ODIR), "Z", RIDGED, OFF_DIAGONAL),
    "matrix_proba": calibrator(
        skcalib.MatrixScaling, "P", STRUCTURED | OF_A_MATRIX, "structured, of probabilities"
    ),
    "dirichlet": calibrator(
        partial(skcalib.DirichletCalibrator, **ODIR), "P", RIDGED, OFF_DIAGONAL
    ),
    "platt": calibrator(skcalib.PlattScaling, "P", LIKELIHOOD),
    "beta": calibrator(skcalib.BetaCalibrator, "P", LIKELIHOOD),
}


def size(text: str) -> Size:
    """Read a size such as 5000x10."""
    n, n_classes = map(int, text.split("x"))
    return n, n_classes


def sizes_of(jobs: Sequence[str]) -> list[Size]:
    """Return the sizes that jobs are measured at, the smallest first."""
    sizes = {size for name in jobs for size in JOBS[name].sizes}
    return sorted(sizes, key=lambda size: size[0] * size[1])


def wanted(name: str, size: Size, *, chosen: bool) -> bool:
    """Say whether a job runs at a size: its own or, if sizes were chosen, no more classes."""
    of_job = JOBS[name].sizes
    return size in of_job or (chosen and size[1] <= max(n_classes for _, n_classes in of_job))
