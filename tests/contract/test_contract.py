"""The public suites: everything of the package passes them, and they see what is broken."""

from functools import partial

import numpy as np
import pytest
from discovery import CALIBRATORS, DEFAULTS, ERRORS
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

from skcalib import HistogramBinning, IdentityCalibrator, TemperatureScaling, VectorScaling
from skcalib.metrics import (
    expected_calibration_error,
    general_calibration_error,
    static_calibration_error,
)
from skcalib.testing import check_calibration_metric, check_calibrator
from skcalib.testing._calibrators import CALIBRATOR_CHECKS
from skcalib.testing._metrics import METRIC_CHECKS

FAST = {str(calibrator) for calibrator in DEFAULTS}


@pytest.mark.parametrize(
    "calibrator",
    [pytest.param(c, marks=() if str(c) in FAST else pytest.mark.slow) for c in CALIBRATORS],
    ids=str,
)
def test_every_calibrator_keeps_every_promise(calibrator):
    check_calibrator(calibrator)


@pytest.mark.parametrize("metric", ERRORS, ids=lambda metric: metric.__name__)
def test_every_error_keeps_every_promise(metric):
    check_calibration_metric(metric)


@pytest.mark.parametrize("kind", ["logits", "proba"])
def test_a_calibrator_that_is_told_its_input_is_tried_on_that(kind):
    check_calibrator(IdentityCalibrator(input=kind))


def test_promises_are_one_line_each():
    """The first line of a check's docstring is what a broken promise is told by."""
    for check in (*CALIBRATOR_CHECKS, *METRIC_CHECKS):
        assert check.__name__.startswith("check_")
        assert len(check.__doc__.splitlines()) == 1


# ------------------------------------------------------------------ broken calibrators


class Shifted(TemperatureScaling):
    def predict_proba(self, X):
        return super().predict_proba(X) + 0.01


class Doubled(TemperatureScaling):
    def predict_proba(self, X):
        return super().predict_proba(X).astype(np.float64)


class FirstRows(TemperatureScaling):
    """Fits on the first half, as a split without shuffling would."""

    def fit(self, X, y, sample_weight=None):
        half = len(X) // 2
        super().fit(X, y, sample_weight)
        if half and sample_weight is None:
            super().fit(np.asarray(X)[:half], np.asarray(y)[:half])
        return self


class WeightsForgotten(TemperatureScaling):
    def fit(self, X, y, sample_weight=None):
        super().fit(X, y, sample_weight)  # checked, but not used
        return super().fit(X, y)


class BatchNormalised(TemperatureScaling):
    """Each answer depends on the other rows of the batch."""

    def predict_proba(self, X):
        P = super().predict_proba(X)
        P = P / P.mean(axis=0)
        return P / P.sum(axis=1, keepdims=True)


class WritesToInput(TemperatureScaling):
    def predict_proba(self, X):
        P = super().predict_proba(X)
        if isinstance(X, np.ndarray) and X.flags.writeable:
            X[0] = X[-1]
        return P


class Remembers(TemperatureScaling):
    """The first temperature ever found is kept."""

    def fit(self, X, y, sample_weight=None):
        kept = getattr(self, "temperature_", None)
        super().fit(X, y, sample_weight)
        self.temperature_ = self.temperature_ if kept is None else kept
        return self


class FailsHalfway(TemperatureScaling):
    def fit(self, X, y, sample_weight=None):
        self.started_ = len(np.asarray(X))
        return super().fit(X, y, sample_weight)


class WrongColumns(VectorScaling):
    """Columns come back in the order of the scales."""

    def predict_proba(self, X):
        P = super().predict_proba(X)
        return P if P.shape[1] == 2 else P[:, [0, 1, 3, 2]]


class LabelsAreNumbers(TemperatureScaling):
    def predict(self, X):
        return self.predict_proba(X).argmax(axis=1)


class ChangesParameters(TemperatureScaling):
    def __init__(self, *, objective="nll", objective_params=None, input="auto", classes=None):
        super().__init__(objective=objective, input=input, classes=classes)
        self.objective_params = dict(objective_params or {})


class LostFarAway(TemperatureScaling):
    def predict_proba(self, X):
        P = super().predict_proba(X)
        if self.input_ == "logits":
            P[np.abs(np.asarray(X).reshape(len(P), -1)).max(axis=1) > 100] = np.nan
        return P


class Unfitted(ClassifierMixin, BaseEstimator):
    """A calibrator that answers before it is fitted."""

    def __init__(self, *, classes=None):
        self.classes = classes

    def fit(self, X, y, sample_weight=None):
        self.fitted_ = True
        return self

    def predict_proba(self, X):
        return np.full((len(X), 2), 0.5)

    def predict(self, X):
        return np.zeros(len(X))


BROKEN_CALIBRATORS = {
    Shifted: "check_probabilities .*: probabilities from",
    Doubled: "check_probabilities .*: float64 for float32 scores",
    FirstRows: "check_row_order .*: logits of 2 classes, fitted on shuffled rows: differs by",
    WeightsForgotten: "check_weights_are_copies .*: differs by",
    BatchNormalised: "check_batch .*: differs by",
    WritesToInput: "check_inputs_unchanged .*: X is changed",
    Remembers: "check_refit .*: differs by",
    FailsHalfway: "check_bad_fit .* changed the calibrator",
    WrongColumns: "check_class_order .*: differs by",
    LabelsAreNumbers: "check_predict .*: 240 of 240 rows have another label",
    ChangesParameters: "check_parameters .*: the constructor changes objective_params",
    LostFarAway: "check_probabilities .*: NaN or infinity among",
    Unfitted: "check_unfitted .*: predict_proba does not",
}


@pytest.mark.parametrize("broken", BROKEN_CALIBRATORS)
def test_a_broken_calibrator_is_caught_in_one_line(broken):
    with pytest.raises(AssertionError, match=BROKEN_CALIBRATORS[broken]) as caught:
        check_calibrator(broken())
    assert str(caught.value).startswith(f"{broken.__name__}(")
    assert "\n" not in str(caught.value)


def test_a_classifier_of_features_is_no_calibrator():
    with pytest.raises(AssertionError, match="LogisticRegression.* breaks check_"):
        check_calibrator(LogisticRegression())


def test_checks_can_be_left_out_by_name_and_reason():
    """Resamples are drawn by row number: the one thing bootstrapped bins cannot promise."""
    by_row = "resamples are drawn by row number"
    check_calibrator(
        HistogramBinning(n_bootstraps=3, random_state=0),
        expected_failed_checks={"check_row_order": by_row, "check_weights_are_copies": by_row},
    )
    with pytest.raises(AssertionError, match="check_row_order"):
        check_calibrator(HistogramBinning(n_bootstraps=3, random_state=0))
    with pytest.raises(ValueError, match="has 'check_speed', .* not one of check_parameters, "):
        check_calibrator(IdentityCalibrator(), expected_failed_checks={"check_speed": "slow"})


# ------------------------------------------------------------------ broken metrics


def negative(y_true, y_proba, *, sample_weight=None, labels=None):
    return -static_calibration_error(y_true, y_proba, sample_weight=sample_weight, labels=labels)


def never_zero(y_true, y_proba, *, sample_weight=None, labels=None):
    return 0.1 + static_calibration_error(
        y_true, y_proba, sample_weight=sample_weight, labels=labels
    )


def weights_forgotten(y_true, y_proba, *, sample_weight=None, labels=None):
    expected_calibration_error(y_true, y_proba, sample_weight=sample_weight, labels=labels)
    return expected_calibration_error(y_true, y_proba, labels=labels)


def labels_forgotten(y_true, y_proba, *, sample_weight=None, labels=None):
    return expected_calibration_error(y_true, y_proba, sample_weight=sample_weight)


def per_class(y_true, y_proba, *, sample_weight=None, labels=None):
    return static_calibration_error(
        y_true, y_proba, sample_weight=sample_weight, labels=labels, average=None
    )


def second_class_only(y_true, y_proba, *, sample_weight=None, labels=None):
    """Not the same if the classes are named otherwise."""
    each = per_class(y_true, y_proba, sample_weight=sample_weight, labels=labels)
    return float(each[1])


def labels_as_columns(y_true, y_proba, *, sample_weight=None, labels=None):
    """Takes a label for the number of its column."""
    P = np.asarray(y_proba)
    return float(abs(1 - P[np.arange(len(P)), np.asarray(y_true, dtype=int)]).mean())


def unchecked(y_true, y_proba, *, sample_weight=None, labels=None):
    P = np.nan_to_num(np.asarray(y_proba, dtype=float))
    P = P if P.ndim == 1 or P.shape[1] == 1 else P / P.sum(axis=1, keepdims=True)
    return expected_calibration_error(y_true, P, sample_weight=sample_weight, labels=labels)


def in_place(y_true, y_proba, *, sample_weight=None, labels=None):
    value = expected_calibration_error(y_true, y_proba, sample_weight=sample_weight, labels=labels)
    if isinstance(y_proba, np.ndarray) and y_proba.flags.writeable:
        y_proba[:] = np.round(y_proba, 3)
    return value


def plain(y_true, y_proba):
    return expected_calibration_error(y_true, y_proba)


BROKEN_METRICS = {
    negative: "check_value .*: -0",
    never_zero: "check_perfect_is_zero .*: 3 classes: differs by 0.1",
    weights_forgotten: "check_weights_are_copies .*: differs by",
    labels_forgotten: "check_value .*: raised ValueError: y_true has 1 distinct labels",
    per_class: ": a ndarray, not a float",
    second_class_only: "check_class_order .*: differs by",
    labels_as_columns: "check_label_names .*: raised ValueError",
    unchecked: "check_bad_inputs .*: NaN in y_proba raised no error",
    in_place: "check_inputs_unchanged .*: y_proba is changed",
    plain: "check_keywords .*: it does not accept sample_weight",
    partial(
        general_calibration_error, max_prob=False, strategy="quantile", quantile_method="rank"
    ): "check_order_of_ties",
    log_loss: "breaks check_",
}


@pytest.mark.parametrize("broken", BROKEN_METRICS, ids=lambda m: getattr(m, "__name__", "by rank"))
def test_a_broken_metric_is_caught_in_one_line(broken):
    with pytest.raises(AssertionError, match=BROKEN_METRICS[broken]) as caught:
        check_calibration_metric(broken)
    assert "\n" not in str(caught.value)


def test_a_metric_without_keywords_can_be_checked_for_the_rest():
    check_calibration_metric(
        plain,
        expected_failed_checks={
            "check_keywords": "a gap of the whole sample needs neither",
            "check_missing_class": "the labels are told by the sample",
        },
    )
