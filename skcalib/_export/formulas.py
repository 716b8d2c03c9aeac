"""The formula of each calibrator, by its class."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sklearn.utils.validation import check_is_fitted

from skcalib import calibrators
from skcalib._export import automatic, class_maps, softmax_maps, splines
from skcalib._export.answers import completed
from skcalib._export.operations import Operations, Plan, Value
from skcalib._export.scores import two_columns

PLANS: dict[type, Callable[[Any], Plan]] = {
    calibrators.AutoCalibrator: automatic.plan_auto,
    calibrators.BayesianBinning: class_maps.plan_of_steps,
    calibrators.BetaCalibrator: class_maps.plan_beta,
    calibrators.DirichletCalibrator: softmax_maps.plan_dirichlet,
    calibrators.EnsembleTemperatureScaling: softmax_maps.plan_ensemble,
    calibrators.HistogramBinning: class_maps.plan_histogram,
    calibrators.IdentityCalibrator: softmax_maps.plan_identity,
    calibrators.IsotonicCalibrator: class_maps.plan_isotonic,
    calibrators.MatrixScaling: softmax_maps.plan_affine,
    calibrators.PlattScaling: class_maps.plan_platt,
    calibrators.SplineCalibrator: splines.plan_spline,
    calibrators.TemperatureScaling: softmax_maps.plan_temperature,
    calibrators.VectorScaling: softmax_maps.plan_affine,
    calibrators.VennAbersCalibrator: class_maps.plan_venn_abers,
}


def plan_of(calibrator: Any, function: str) -> Plan:
    """Return the completed plan of a calibrator; errors name the public `function` that asks."""
    name = type(calibrator).__name__
    if type(calibrator) not in PLANS:
        raise ValueError(f"{function} has no formula for {name}: {_advice(calibrator)}.")
    check_is_fitted(calibrator)
    return completed(PLANS[type(calibrator)](calibrator), calibrator.classes_.size)


def _advice(given: Any) -> str:
    """Return what to do with an object that has no formula."""
    if hasattr(given, "group_column"):
        return "its map depends on the group of a row; pass its calibrator_, the map of all groups"
    if hasattr(given, "calibrator"):
        return "pass its calibrator_, which takes the scores of its estimator"
    return "pass a fitted calibrator of skcalib.calibrators"


def columns_of_scores(o: Operations, x: Value, calibrator: Any) -> Value:
    """Return a column for each class, as the formula expects."""
    return two_columns(o, x, calibrator.input_) if calibrator.n_features_in_ == 1 else x
