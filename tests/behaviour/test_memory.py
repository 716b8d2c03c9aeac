"""Memory beyond the input is bounded by blocks, also where the input is a file larger than them."""

from __future__ import annotations

import gc
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
from skcalib._comparison.measures import ROW_LOSSES
from skcalib._validation.rows import check_predictions

pytestmark = pytest.mark.slow

N, K = 50_000, 100
MIB = 1 << 20


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Logits and probabilities of 38 MiB each on disk, and labels; and what makes copies.

    "rounded" are float32 probabilities, one of them beyond 1; "one absent" are weights.
    """
    folder = tmp_path_factory.mktemp("scores")
    rng = np.random.default_rng(0)
    code = rng.integers(K, size=N)
    Z = rng.normal(size=(N, K))
    Z[np.arange(0, N, 2), code[::2]] += 3
    P = np.exp(Z)
    P /= P.sum(axis=1, keepdims=True)
    rounded = P.astype(np.float32)
    rounded[7], rounded[7, 3] = 0, 1.0000001
    arrays = {"logits": Z, "proba": P, "rounded": rounded}
    for name, A in arrays.items():
        np.save(folder / f"{name}.npy", A)
    weights = np.ones(N)
    weights[1000] = 0
    return {"code": code, "one absent": weights} | {
        name: np.load(folder / f"{name}.npy", mmap_mode="r") for name in arrays
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


# Weights, labels and row numbers of what is left, 0.4 each.
VECTORS = 2


@pytest.mark.parametrize(("kind", "weights"), [("logits", "one absent"), ("rounded", None)])
@pytest.mark.parametrize("name", FITS)
def test_a_calibrator_copies_neither_what_a_row_less_leaves_nor_what_is_clipped(
    files, name, kind, weights
):
    calibrator, allowed = FITS[name]
    if kind == "rounded":  # a copy of float32 is of 19 MiB
        allowed = min(allowed, 22)
    with joblib.parallel_config(n_jobs=1):
        most, left = peak(
            lambda: calibrator.fit(files[kind], files["code"], files.get(weights)),
        )
        assert most - left < allowed + VECTORS
        if kind == "rounded":
            most, left = peak(lambda: calibrator.predict_proba(files[kind]))
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


@pytest.mark.parametrize("name", ERRORS)
def test_a_metric_reads_a_file_block_by_block(files, name):
    metric, keywords, allowed = ERRORS[name]
    with joblib.parallel_config(n_jobs=2):
        most, _ = peak(lambda: metric(files["code"], files["proba"], **keywords))
    assert most < allowed


@pytest.mark.parametrize(("kind", "weights"), [("proba", "one absent"), ("rounded", None)])
@pytest.mark.parametrize("name", ERRORS)
def test_a_metric_copies_neither_what_a_row_less_leaves_nor_what_is_clipped(
    files, name, kind, weights
):
    metric, keywords, allowed = ERRORS[name]
    keywords = keywords | {"sample_weight": files.get(weights)}
    if kind == "rounded":  # a copy of float32 is of 19 MiB, on top of what it takes
        allowed = min(allowed, 20)
    with joblib.parallel_config(n_jobs=1):
        most, _ = peak(lambda: metric(files["code"], files[kind], **keywords))
    assert most < allowed + VECTORS


@pytest.mark.parametrize(
    ("function", "allowed"), [(metrics.bootstrap_interval, 10), (metrics.calibration_test, 14)]
)
@pytest.mark.parametrize("scale", [1.0, 0.5])
def test_a_resample_is_no_copy(files, function, allowed, scale):
    """Counts leave a third of the rows out; fractional weights repeat rows in their place."""
    weights = scale * files["one absent"]
    error = metrics.expected_calibration_error
    with joblib.parallel_config(n_jobs=1):
        most, _ = peak(
            lambda: function(
                error,
                files["code"],
                files["proba"],
                sample_weight=weights,
                n_resamples=2,
                random_state=0,
            )
        )
    assert most < allowed


@pytest.mark.parametrize("name", ROW_LOSSES)
def test_the_losses_of_rows_are_read_block_by_block(files, name):
    predictions = check_predictions(files["code"], files["proba"], files["one absent"])
    loss = ROW_LOSSES[name]
    most, left = peak(lambda: loss.losses(predictions))
    assert most - left < 3


# Of 4 MiB; what is gathered: a number for each row, 2 MiB, or whole columns, 64 MiB.
CHUNKS = 50


@pytest.mark.parametrize("name", ["temperature", "platt", *ERRORS])
def test_the_chunks_of_a_computed_dask_array_are_freed(files, name):
    """Without the garbage collector. Columns are held as they come, joined, and sorted."""
    da = pytest.importorskip("dask.array", reason="needs the extra dask")
    n = N // 10
    A = np.array(files["logits" if name in FITS else "proba"][:n])
    code = np.tile(files["code"][:n], CHUNKS)
    X = da.map_blocks(A.copy, chunks=((n,) * CHUNKS, (K,)), dtype=float, meta=A[:0])

    def job():
        if name in FITS:
            return FITS[name][0].fit(X, code)
        metric, keywords, _ = ERRORS[name]
        return metric(code, X, **keywords)

    gc.collect()
    gc.disable()
    try:
        most, _ = peak(job)
    finally:
        gc.enable()
    assert most < 64 + 150e6 / MIB
