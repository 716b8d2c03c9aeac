"""Memory beyond the input is bounded by blocks, also where the input is a file larger than them."""

import tracemalloc

import joblib
import numpy as np
import pytest

import skcalib
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
    "identity": (skcalib.IdentityCalibrator(), 4),
    "temperature": (skcalib.TemperatureScaling(), 6),
    "temperature, Brier": (skcalib.TemperatureScaling(objective="brier"), 8),
    "vector": (skcalib.VectorScaling(), 16),
    "histogram": (skcalib.HistogramBinning(), 12),
    "quantile histogram": (skcalib.HistogramBinning(strategy="quantile"), 14),
    "isotonic": (skcalib.IsotonicCalibrator(), 14),
    "spline": (skcalib.SplineCalibrator(), 22),
    "platt": (skcalib.PlattScaling(), 32),
    "beta": (skcalib.BetaCalibrator(), 36),
    "ensemble temperature": (skcalib.EnsembleTemperatureScaling(), 12),
    "venn-abers": (skcalib.VennAbersCalibrator(), 26),
    "bayesian binning": (skcalib.BayesianBinning(), 42),
}


# Weights, labels and row numbers of what is left, 0.4 each.
VECTORS = 2


def limit(kind, weights, allowed):
    """Return the allowed MiB; a copy of the rows that are left, or clipped, takes 19 and more."""
    return (min(allowed, 20) if kind == "rounded" else allowed) + VECTORS * (weights is not None)


@pytest.mark.parametrize(
    ("kind", "weights", "n_jobs"),
    [("proba", None, 1), ("logits", None, 2), ("rounded", None, 1), ("logits", "one absent", 1)],
)
@pytest.mark.parametrize("name", FITS)
def test_a_calibrator_reads_a_file_block_by_block(files, name, kind, weights, n_jobs):
    calibrator, allowed = FITS[name]
    allowed = limit(kind, weights, allowed)
    with joblib.parallel_config(n_jobs=n_jobs):
        most, left = peak(lambda: calibrator.fit(files[kind], files["code"], files.get(weights)))
        assert most - left < allowed
        most, left = peak(lambda: calibrator.predict_proba(files[kind]))
    assert left < 1.05 * files[kind].nbytes / MIB
    assert most - left < allowed


ERRORS = {
    "ece": (skcalib.metrics.expected_calibration_error, {}, 6),
    "sce": (skcalib.metrics.static_calibration_error, {}, 12),
    "ace": (skcalib.metrics.adaptive_calibration_error, {}, 14),
    "tace": (skcalib.metrics.thresholded_adaptive_calibration_error, {}, 14),
    "ks": (skcalib.metrics.ks_calibration_error, {}, 6),
    "ks class-wise": (skcalib.metrics.ks_calibration_error, {"mode": "classwise"}, 14),
    "debiased": (skcalib.metrics.debiased_calibration_error, {"mode": "classwise"}, 14),
    "label-binned": (skcalib.metrics.label_binned_calibration_error, {"mode": "classwise"}, 14),
    "soft-binned": (skcalib.metrics.soft_binned_calibration_error, {"mode": "classwise"}, 20),
    "sweep": (skcalib.metrics.sweep_calibration_error, {}, 6),
    "smooth": (skcalib.metrics.smooth_calibration_error, {}, 6),
    "kde": (skcalib.metrics.kde_calibration_error, {}, 6),
    "mmce": (skcalib.metrics.maximum_mean_calibration_error, {}, 8),
    "brier": (skcalib.metrics.top_label_brier_score, {}, 6),
    "soft avuc": (skcalib.metrics.soft_avuc_loss, {}, 8),
    "table": (
        skcalib.metrics.reliability_table,
        {"max_prob": False, "class_conditional": True},
        12,
    ),
}


@pytest.mark.parametrize(
    ("kind", "weights", "n_jobs"),
    [("proba", None, 2), ("proba", "one absent", 1), ("rounded", None, 1)],
)
@pytest.mark.parametrize("name", ERRORS)
def test_a_metric_reads_a_file_block_by_block(files, name, kind, weights, n_jobs):
    metric, keywords, allowed = ERRORS[name]
    keywords = keywords | {"sample_weight": files.get(weights)}
    with joblib.parallel_config(n_jobs=n_jobs):
        most, _ = peak(lambda: metric(files["code"], files[kind], **keywords))
    assert most < limit(kind, weights, allowed)


@pytest.mark.parametrize(
    ("function", "allowed"),
    [(skcalib.metrics.bootstrap_interval, 10), (skcalib.metrics.calibration_test, 14)],
)
@pytest.mark.parametrize("scale", [1.0, 0.5])
def test_a_resample_is_no_copy(files, function, allowed, scale):
    """Counts leave a third of the rows out; fractional weights repeat rows in their place."""
    weights = scale * files["one absent"]
    error = skcalib.metrics.expected_calibration_error
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
