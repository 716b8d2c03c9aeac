"""Which peers stand beside skcalib in each job, and why their answers may be others."""

from __future__ import annotations

from benchmarks._shared.peers import Logits, Probabilities
from benchmarks.speed.jobs import N_BINS, RIDGE, ridge_penalty
from benchmarks.speed.peers import (
    Peer,
    betacal_columns,
    kumar_columns,
    kumar_error,
    netcal_calibrator,
    netcal_error,
    probmetrics_calibrator,
    probmetrics_ks,
    probmetrics_of_logits,
    relplot_smooth,
    sklearn_calibrated,
    sklearn_curves,
    sklearn_logistic,
    sms_penalty,
    svs_penalty,
    torchmetrics_error,
    venn_abers_columns,
)

KUMAR = "uncertainty-calibration"
RIDGE_NOTE = "its ridge takes in the diagonal"
NETCAL_NOTE = "differences in place of gradients; in float32 it ends where it starts"
LOGISTIC_NOTE = "stops at a gradient of 1e-4 in each class, before rows are renormalised"
PLATT_NOTE = "Platt's smoothed targets, on probabilities in place of their log-odds"

PEERS: dict[str, tuple[Peer, ...]] = {
    "ece": (
        Peer("torchmetrics", torchmetrics_error("l1"), "computes in float32"),
        Peer("netcal", netcal_error("ECE")),
        Peer(KUMAR, kumar_error(1, False, "top-label", "get_equal_prob_bins")),
    ),
    "mce": (
        Peer("torchmetrics", torchmetrics_error("max"), "computes in float32"),
        Peer("netcal", netcal_error("MCE")),
    ),
    "rmsce": (Peer(KUMAR, kumar_error(2, False, "top-label", "get_equal_bins")),),
    "ks": (Peer("probmetrics", probmetrics_ks, "computes in float32"),),
    "debiased": (Peer(KUMAR, kumar_error(2, True, "top-label", "get_equal_bins")),),
    "smooth": (Peer("relplot", relplot_smooth, "its width is good to 0.001", tolerance=1e-3),),
    "sce": (Peer(KUMAR, kumar_error(1, False, "marginal", "get_equal_prob_bins")),),
    "table": (Peer("scikit-learn", sklearn_curves),),
    "ace_split": (Peer(KUMAR, kumar_error(1, False, "marginal", "get_equal_bins")),),
    "debiased_classwise": (Peer(KUMAR, kumar_error(2, True, "marginal", "get_equal_bins")),),
    "histogram": (
        Peer("netcal", netcal_calibrator("binning.HistogramBinning", N_BINS)),
        Peer(
            "probmetrics",
            probmetrics_calibrator("BinaryHistogramBinningCalibrator", True, n_bins=N_BINS),
            "an empty bin answers the class's share",
        ),
    ),
    "histogram_quantile": (
        Peer(
            KUMAR,
            kumar_columns("HistogramCalibrator"),
            "its edges lie half-way between two scores",
            tolerance=1e-3,
        ),
    ),
    "isotonic": (
        Peer(
            "scikit-learn",
            sklearn_calibrated(Probabilities, "isotonic"),
            "in float32, takes scores closer than 1e-6 for one",
        ),
        Peer("netcal", netcal_calibrator("binning.IsotonicRegression")),
    ),
    "venn_abers": (Peer("venn-abers", venn_abers_columns),),
    "bayesian": (
        Peer(
            "netcal",
            netcal_calibrator("binning.BBQ"),
            "other numbers of bins, other edges",
            same_problem=False,
        ),
    ),
    "spline_classwise": (
        Peer(
            "probmetrics",
            probmetrics_calibrator("CDFSplineCalibrator", True),
            "its fractiles run from 0 to 1, not from 1/n",
            tolerance=1e-4,
        ),
    ),
    "temperature": (
        Peer("scikit-learn", sklearn_calibrated(Logits, "temperature")),
        Peer("netcal", netcal_calibrator("scaling.TemperatureScaling"), NETCAL_NOTE),
        Peer("probmetrics", probmetrics_of_logits("TemperatureScalingCalibrator")),
    ),
    "vector": (Peer("probmetrics", probmetrics_of_logits("VectorScalingCalibrator")),),
    "vector_log": (
        Peer("probmetrics", probmetrics_calibrator("VectorScalingCalibrator")),
        Peer("netcal", netcal_calibrator("scaling.LogisticCalibration"), NETCAL_NOTE),
    ),
    "vector_proba": (
        Peer(
            "probmetrics",
            probmetrics_calibrator("SVSCalibrator"),
            "its temperature is mixed with the uniform distribution",
            penalty=svs_penalty,
        ),
    ),
    "matrix": (
        Peer("scikit-learn", sklearn_logistic(0.0)),
        Peer("probmetrics", probmetrics_of_logits("MatrixScalingCalibrator")),
    ),
    "matrix_ridge": (
        Peer("scikit-learn", sklearn_logistic(RIDGE), RIDGE_NOTE, penalty=ridge_penalty),
    ),
    "matrix_proba": (
        Peer(
            "probmetrics",
            probmetrics_calibrator("SMSCalibrator"),
            "its temperature is mixed with the uniform distribution",
            penalty=sms_penalty,
        ),
    ),
    "dirichlet": (
        Peer("scikit-learn", sklearn_logistic(RIDGE, logs=True), RIDGE_NOTE, penalty=ridge_penalty),
    ),
    "platt": (
        Peer(KUMAR, kumar_columns("PlattCalibrator"), LOGISTIC_NOTE, tolerance=1e-5),
        Peer(
            "scikit-learn",
            sklearn_calibrated(Probabilities, "sigmoid"),
            PLATT_NOTE,
            same_problem=False,
        ),
    ),
    "beta": (
        Peer("betacal", betacal_columns, LOGISTIC_NOTE, tolerance=1e-5),
        Peer(
            "netcal",
            netcal_calibrator("scaling.BetaCalibration"),
            "one softmax over all classes, not one against the rest",
            same_problem=False,
        ),
    ),
}
