"""The names, arguments and attributes of scikit-learn, over the classes of skcalib."""

from copy import copy
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin, TransformerMixin
from sklearn.isotonic import check_increasing
from sklearn.svm import LinearSVC

from skcalib import (
    CalibratedClassifier,
    IsotonicCalibrator,
    PlattScaling,
    TemperatureScaling,
    metrics,
)


class SigmoidCalibration(PlattScaling):
    """Platt scaling whose ``predict`` returns the probability of the second class."""

    def predict(self, X: Any) -> Any:
        """Return the probability of the second class."""
        return self.predict_proba(X)[:, 1]


class TemperatureCalibration(TemperatureScaling):
    """Temperature scaling with an inverse temperature, whose ``predict`` returns probabilities."""

    @property
    def beta_(self) -> Any:
        """The inverse temperature."""
        return np.asarray(1 / self.temperature_)

    def predict(self, X: Any) -> Any:
        """Return probabilities."""
        return self.predict_proba(X)


def sigmoid_calibration(predictions: Any, y: Any, sample_weight: Any = None, **_: Any) -> Any:
    """Return A and B of ``1 / (1 + exp(A f + B))``; Platt scaling here needs no threshold."""
    platt = PlattScaling(input="logits").fit(predictions, y, sample_weight)
    return -float(platt.coef_[0]), -float(platt.intercept_[0])


METHODS = {
    "sigmoid": PlattScaling(),
    "isotonic": IsotonicCalibrator(),
    "temperature": TemperatureCalibration(),
}


class CalibratedClassifierCV(CalibratedClassifier):
    """`CalibratedClassifier` by the arguments of scikit-learn's class."""

    _parameter_constraints = CalibratedClassifier._parameter_constraints | {"ensemble": [object]}
    response_method = "auto"
    verbose = 0

    def __init__(
        self, estimator=None, *, method="sigmoid", cv=None, n_jobs=None, ensemble="auto"
    ) -> None:
        self.estimator = LinearSVC(random_state=0) if estimator is None else estimator
        self.method = method
        self.cv = cv
        self.n_jobs = n_jobs
        self.ensemble = ensemble

    @property
    def calibrator(self) -> Any:
        """The calibrator of the method, or a name that there is not."""
        return METHODS.get(self.method, self.method)

    @property
    def calibrated_classifiers_(self) -> list[Any]:
        """The fitted pairs, which predict."""
        pairs = super().calibrated_classifiers_
        for pair in pairs:
            one = copy(self)
            one.pairs_ = [(pair.estimator, *pair.calibrators)]
            pair.predict_proba = one.predict_proba
        return pairs


def calibration_curve(y_true, y_prob, *, pos_label=None, n_bins=5, strategy="uniform"):
    """Return the rates and mean probabilities of bins."""
    options = {"n_bins": n_bins, "strategy": strategy, "pos_label": pos_label}
    return tuple(metrics.calibration_curve(y_true, y_prob, **options))


class IsotonicRegression(RegressorMixin, TransformerMixin, BaseEstimator):
    """`IsotonicCalibrator` with shares as labels: X and y are brought to [0, 1] and back."""

    def __init__(self, *, y_min=None, y_max=None, increasing=True, out_of_bounds="nan") -> None:
        self.y_min = y_min
        self.y_max = y_max
        self.increasing = increasing
        self.out_of_bounds = out_of_bounds

    def _to_unit(self, X: Any) -> Any:
        x = (np.asarray(X) - self.X_min_) / (self.X_max_ - self.X_min_ or 1)
        x = np.clip(x, 0, 1).astype(np.result_type(np.asarray(X), np.float32), copy=False)
        return x if self.rises_ else 1 - x

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the calibrator."""
        y = np.asarray(y, dtype=float)
        self.X_min_, self.X_max_ = np.min(X), np.max(X)
        self.rises_ = check_increasing(X, y) if self.increasing == "auto" else self.increasing
        self.low_, self.range_ = float(y.min()), float(np.ptp(y)) or 1.0
        shares = (y - self.low_) / self.range_
        calibrator = IsotonicCalibrator(input="proba", classes=[0, 1])
        self.calibrator_ = calibrator.fit(self._to_unit(X), shares, sample_weight)
        x, y = self.calibrator_.X_thresholds_[0], self.calibrator_.y_thresholds_[0]
        x, y = (x, y) if self.rises_ else (1 - x[::-1], y[::-1])
        self.X_thresholds_ = self.X_min_ + x * (self.X_max_ - self.X_min_)
        self.y_thresholds_ = self.low_ + y * self.range_
        return self

    def predict(self, X: Any) -> Any:
        """Return the values of the map."""
        y = self.low_ + self.range_ * self.calibrator_.predict_proba(self._to_unit(X))[:, 1]
        bounds = self.y_min, self.y_max
        return y if bounds == (None, None) else np.clip(y, *bounds)

    transform = predict


def isotonic_regression(y, *, sample_weight=None, y_min=None, y_max=None, increasing=True):
    """Return the isotonic fit of a sequence."""
    regression = IsotonicRegression(y_min=y_min, y_max=y_max, increasing=increasing)
    x = np.arange(len(y), dtype=np.asarray(y).dtype)
    return regression.fit(x, y, sample_weight).predict(x)
