"""Memory beyond the input is bounded by blocks, also where the input is a file larger than them."""

from __future__ import annotations

import tracemalloc

import joblib
import numpy as np
import pytest

from skcalib import (
    BayesianBinning,
    BetaCalibrator,
    EnsembleTemperatureScaling,
    HistogramBinning,
    IdentityCalibrator,
    IsotonicCalibrator,
    PlattScaling,
    SplineCalibrator,
    TemperatureScaling,
    VectorScaling,
    VennAbersCalibrator,
    metrics,
)

N, K = 50_000, 100
MIB = 1 << 20


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Logits and probabilities of 38 MiB each on disk, and labels."""
    folder = tmp_path_factory.mktemp("scores")
    rng = np.random.default_rng(0)
    code = rng.integers(K, size=N)
    Z = rng.normal(size=(N, K))
    Z[np.arange(0, N, 2), code[::2]] += 3
    P = np.exp(Z)
    P /= P.sum(axis=1, keepdims=True)
    for name, A in (("logits", Z), ("proba", P)):
        np.save(folder / f"{name}.npy", A)
    return {"code": code} | {
        name: np.load(folder / f"{name}.npy", mmap_mode="r") for name in ("logits", "proba")
    }


def peak(function):
    """Most memory held at once beyond what was there, and what stays, in MiB."""
    tracemalloc.start()
    try:
        result = function()
        left, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    del result
    return most / MIB, left / MIB


# MiB beyond the input and the fitted maps: blocks of 0.5 (rows) or 4 (columns) and the few
# temporaries of each, in each thread.
FITS = {
    "identity": (IdentityCalibrator(), 4),
    "temperature": (TemperatureScaling(), 6),
    "temperature, Brier": (TemperatureScaling(objective="brier"), 8),
    "vector": (VectorScaling(), 16),
    "histogram": (HistogramBinning(), 12),
    "quantile histogram": (HistogramBinning(strategy="quantile"), 14),
    "isotonic": (IsotonicCalibrator(), 14),
    "spline": (SplineCalibrator(), 22),
    "platt": (PlattScaling(), 32),
    "beta": (BetaCalibrator(), 36),
    "ensemble temperature": (EnsembleTemperatureScaling(), 12),
    "venn-abers": (VennAbersCalibrator(), 26),
    "bayesian binning": (BayesianBinning(), 42),
}


@pytest.mark.parametrize(("kind", "n_jobs"), [("logits", 2), ("proba", 1)])
@pytest.mark.parametrize("name", FITS)
def test_a_calibrator_reads_a_file_block_by_block(files, name, kind, n_jobs):
    calibrator, allowed = FITS[name]
    with joblib.parallel_config(n_jobs=n_jobs):
        most, left = peak(lambda: calibrator.fit(files[kind], files["code"]))
        assert most - left < allowed
        most, left = peak(lambda: calibrator.predict_proba(files[kind]))
    assert left < 1.05 * files[kind].nbytes / MIB
    assert most - left < allowed


ERRORS = {
    "ece": (metrics.expected_calibration_error, {}, 6),
    "sce": (metrics.static_calibration_error, {}, 12),
    "ace": (metrics.adaptive_calibration_error, {}, 14),
    "tace": (metrics.thresholded_adaptive_calibration_error, {}, 14),
    "ks": (metrics.ks_calibration_error, {}, 6),
    "ks class-wise": (metrics.ks_calibration_error, {"mode": "classwise"}, 14),
    "debiased": (metrics.debiased_calibration_error, {"mode": "classwise"}, 14),
    "label-binned": (metrics.label_binned_calibration_error, {"mode": "classwise"}, 14),
    "soft-binned": (metrics.soft_binned_calibration_error, {"mode": "classwise"}, 20),
    "sweep": (metrics.sweep_calibration_error, {}, 6),
    "smooth": (metrics.smooth_calibration_error, {}, 6),
    "kde": (metrics.kde_calibration_error, {}, 6),
    "mmce": (metrics.maximum_mean_calibration_error, {}, 8),
    "brier": (metrics.top_label_brier_score, {}, 6),
    "soft avuc": (metrics.soft_avuc_loss, {}, 8),
    "table": (
        metrics.reliability_table,
        {"max_prob": False, "class_conditional": True},
        12,
    ),
}


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("name", ERRORS)
def test_a_metric_reads_a_file_block_by_block(files, name, n_jobs):
    metric, keywords, allowed = ERRORS[name]
    with joblib.parallel_config(n_jobs=n_jobs):
        most, _ = peak(lambda: metric(files["code"], files["proba"], **keywords))
    assert most < allowed
